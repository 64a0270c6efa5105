"""CNN-sentence (Kim 2014): convolutions over words, and the maximum over time."""

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from agrlearn.errors import RecipeError
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.networks.joins import TOKENS, join_for, pool_globally
from agrlearn.networks.tokens import may_follow_words

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
    join: str = "tandem",
    slotwise: bool = False,
    dropout: float = 0.0,
    noise: float = 0.0,
) -> AggregatedClassifier:
    """Learned word embeddings, filters of 3, 4 and 5 words, and their maximum over time.

    The paper concatenates the padded sentences of a group and takes the maximum over all of it (tandem). The zeros
    between them keep every window within one sentence, so that is the maximum of the single sentences' maxima, and it
    is computed so: each sentence passes alone. The network is slot-blind; `slotwise` keeps the slots' maxima apart
    instead. The joins max and mean pool the sentences' features too, but have one head for all slots, and as many
    filters as an ordinary network.

    Args:
        object_shape: (length,) of one sentence's tokens.
        vocabulary: how many different tokens there are.
        embedding: the width of a word's embedding.
        maps: filters of each width; for tandem times `fold`, as the paper widens the last feature layer.
        join: tandem, max or mean.
        slotwise: take the maximum over each sentence by itself (for tandem).
        dropout: the share of the features that is dropped in training.
        noise: see `AggregatedClassifier`.
    """
    if len(object_shape) != 1 or vocabulary < 2:
        raise RecipeError("sentence-cnn takes sentences of tokens and needs the vocabulary's size")
    pooled = join_for(join, TOKENS, "sentence-cnn").slot_blind
    if pooled and slotwise:
        raise RecipeError(f"slotwise keeps the slots apart, which the join {join} cannot; leave one of them out")
    maps = maps if pooled else maps * fold
    return AggregatedClassifier(
        nn.Dropout(dropout) if dropout > 0 else nn.Identity(),
        features=len(_FILTER_WIDTHS) * maps * (fold if slotwise else 1),
        fold=fold,
        num_classes=num_classes,
        join=join if pooled else "features" if slotwise else "max",
        shared=MaxOverTime(vocabulary, embedding, maps),
        own_heads=not pooled,
        noise=noise,
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
        return self.by_unique_words(tokens) if may_follow_words(tokens) else self.by_convolution(tokens)

    def by_convolution(self, tokens: Tensor) -> Tensor:
        """Kim's definition: convolve every position of the padded sentences."""
        words = self.embed(F.pad(tokens, (_PADDING, _PADDING))).transpose(1, 2)
        return torch.cat([pool_globally(F.relu(filters(words)), "max") for filters in self.filters], dim=1)

    def by_unique_words(self, tokens: Tensor) -> Tensor:
        """The same features several times faster: each different word of the batch meets the filters once.

        A window's response is the sum of its words' responses at their places, so the responses of the batch's
        different words are computed first and then summed, window by window, over sentences without their padding.
        """
        packed, lengths = pack_sentences(tokens, gap=_PADDING)
        different, numbers = packed.unique(return_inverse=True)
        words = self.embed(different)
        layers = cast(Sequence[nn.Conv1d], self.filters)
        sums = []
        for filters in layers:
            maps, embedding, width = filters.weight.shape
            # Row `width * number + place` is the response to a word at that place of a window.
            responses = words @ filters.weight.permute(1, 2, 0).reshape(embedding, width * maps)
            places = torch.arange(width, device=tokens.device)
            windows = numbers.unfold(0, width, 1)[: len(packed) - _PADDING] * width + places
            sums.append(F.embedding_bag(windows, responses.view(-1, maps), mode="sum"))
        # Not torch.segment_reduce: its gradient is wrong where two windows tie, as in "very very very".
        highest = torch.stack([windows.amax(dim=0) for windows in torch.cat(sums, dim=1).split(lengths.tolist())])
        return F.relu(highest + torch.cat([cast(Tensor, filters.bias) for filters in layers]))


def pack_sentences(tokens: Tensor, gap: int) -> tuple[Tensor, Tensor]:
    """All sentences in one row without their padding, with `gap` zeros before each and at the end.

    A padded sentence keeps one of its zeros at the end, so that a window of `gap + 1` zeros is found where padding has
    one.

    Args:
        tokens: (sentences, length), 0 being padding.
    Returns:
        The row of tokens, and for each sentence (sentences,) how many windows start in it or in the gap before it.

    >>> pack_sentences(torch.tensor([[5, 6, 0, 0], [7, 8, 9, 4]]), gap=2)
    (tensor([0, 0, 5, 6, 0, 0, 0, 7, 8, 9, 4, 0, 0]), tensor([5, 6]))
    """
    length = tokens.shape[1]
    places = torch.arange(length, device=tokens.device)
    words = ((tokens != 0) * (places + 1)).amax(dim=1)
    lengths = (words + 1).clamp(max=length) + gap
    kept = torch.arange(gap + length, device=tokens.device) < lengths[:, None]
    return F.pad(F.pad(tokens, (gap, 0))[kept], (0, gap)), lengths
