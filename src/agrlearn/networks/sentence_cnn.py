"""CNN-sentence (Kim 2014): convolutions over words, and the maximum over time."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from agrlearn.errors import RecipeError
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.networks.joins import is_slot_blind, pool_globally

_FILTER_WIDTHS = (3, 4, 5)
_PADDING = 4  # zeros before and after each sentence, one less than the widest filter


def sentence_cnn(
    object_shape: tuple[int, ...],
    num_classes: int,
    fold: int = 1,
    *,
    vocabulary: int = 0,
    embedding: int = 300,
    maps: int = 100,
    slotwise: bool = False,
    noise: float = 0.0,
) -> AggregatedClassifier:
    """Learned word embeddings, filters of 3, 4 and 5 words, and their maximum over time.

    The paper concatenates the padded sentences of a group and takes the maximum over all of it. The zeros between them
    keep every window within one sentence, so that is the maximum of the single sentences' maxima, and it is computed
    so: each sentence passes alone. The network is slot-blind; `slotwise` keeps the slots' maxima apart instead.

    Args:
        object_shape: (length,) of one sentence's tokens.
        vocabulary: how many different tokens there are.
        embedding: the width of a word's embedding.
        maps: filters of each width, times `fold`, as the paper widens the last feature layer.
        slotwise: take the maximum over each sentence by itself.
        noise: see `AggregatedClassifier`.
    """
    if len(object_shape) != 1 or vocabulary < 2:
        raise RecipeError("sentence-cnn takes sentences of tokens and needs the vocabulary's size")
    join = "features" if slotwise else "max"
    return AggregatedClassifier(
        nn.Identity(),
        features=len(_FILTER_WIDTHS) * maps * fold * (fold if slotwise else 1),
        fold=fold,
        num_classes=num_classes,
        join=join,
        shared=MaxOverTime(vocabulary, embedding, maps * fold),
        noise=noise,
        slot_blind=fold > 1 and is_slot_blind(join),
    )


class MaxOverTime(nn.Module):
    """Sentences to features: (sentences, length) tokens -> (sentences, features)."""

    def __init__(self, vocabulary: int, embedding: int, maps: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, embedding, padding_idx=0)
        nn.init.uniform_(self.embed.weight, -0.25, 0.25)
        with torch.no_grad():
            self.embed.weight[0] = 0
        self.filters = nn.ModuleList(nn.Conv1d(embedding, maps, width) for width in _FILTER_WIDTHS)

    def forward(self, tokens: Tensor) -> Tensor:
        words = self.embed(F.pad(tokens, (_PADDING, _PADDING))).transpose(1, 2)
        return torch.cat([pool_globally(F.relu(filters(words)), "max") for filters in self.filters], dim=1)
