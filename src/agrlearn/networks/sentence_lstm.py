"""The LSTM of the paper's text experiments: CNN-sentence with the convolutions replaced by an LSTM."""

from typing import Any

import torch
from torch import Tensor, nn

from agrlearn.errors import RecipeError
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.networks.joins import PADDING, TOKENS, join_for
from agrlearn.networks.tokens import TandemJoin, may_follow_words

_BAND = 24  # sentences of about the same length that are read together; fewer make the matrices too narrow


def sentence_lstm(
    object_shape: tuple[int, ...],
    num_classes: int,
    fold: int = 1,
    *,
    vocabulary: int = 0,
    embedding: int = 300,
    hidden: int = 128,
    join: str = "tandem",
    dropout: float = 0.0,
    noise: float = 0.0,
) -> AggregatedClassifier:
    """Learned word embeddings and the final state of an LSTM.

    With the join tandem it reads a group's sentences one after the other, as in the paper: an end-of-sentence word, the
    one token behind the vocabulary, stands between two of them, and the padding is removed. With max and mean it reads
    each sentence alone, and the final states are pooled.

    Args:
        object_shape: (length,) of one sentence's tokens.
        vocabulary: how many different tokens there are.
        embedding: the width of a word's embedding.
        hidden: units of the LSTM; for tandem times `fold`, as the paper widens the last feature layer. It does not say
            how many.
        join: tandem, max or mean.
        dropout: the share of the final state's features that is dropped in training.
        noise: see `AggregatedClassifier`.
    """
    if len(object_shape) != 1 or vocabulary < 2:
        raise RecipeError("sentence-lstm takes sentences of tokens and needs the vocabulary's size")
    common: dict[str, Any] = {"fold": fold, "num_classes": num_classes, "noise": noise}
    drop = nn.Dropout(dropout) if dropout > 0 else nn.Identity()
    if join_for(join, TOKENS, "sentence-lstm").slot_blind:
        reader = FinalState(vocabulary, embedding, hidden)
        return AggregatedClassifier(drop, features=hidden, join=join, shared=reader, **common)
    reader = FinalState(vocabulary + 1, embedding, hidden * fold)
    encoder = nn.Sequential(reader, drop) if dropout > 0 else reader
    return AggregatedClassifier(encoder, features=hidden * fold, join=TandemJoin(separator=vocabulary), **common)


class FinalState(nn.Module):
    """Sentences to features: (sentences, length) tokens, padded at the end -> (sentences, hidden)."""

    def __init__(self, vocabulary: int, embedding: int, hidden: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, embedding, padding_idx=PADDING)
        nn.init.uniform_(self.embed.weight, -0.25, 0.25)
        with torch.no_grad():
            self.embed.weight[PADDING] = 0
        self.lstm = nn.LSTM(embedding, hidden, batch_first=True)
        # As in TensorFlow, whose LSTM the paper takes: nothing is forgotten at first.
        bias = self.lstm.get_parameter("bias_ih_l0")
        nn.init.zeros_(bias)
        nn.init.ones_(bias[hidden : 2 * hidden])
        nn.init.zeros_(self.lstm.get_parameter("bias_hh_l0"))

    def forward(self, tokens: Tensor) -> Tensor:
        return self.in_bands(tokens) if may_follow_words(tokens) else self.over_padding(tokens)

    def over_padding(self, tokens: Tensor) -> Tensor:
        """Read all sentences to the end of the longest, and take each one's state at its own end."""
        return self._read(self.embed(tokens), _lengths(tokens))

    def in_bands(self, tokens: Tensor) -> Tensor:
        """The same states up to twice as fast: sentences are sorted by length, so that few read over padding."""
        lengths = _lengths(tokens)
        order = lengths.argsort()
        bands = [tokens[some, : int(lengths[some[-1]])] for some in order.split(_BAND)]
        # Looked up all at once, since each look-up has a gradient as large as all embeddings.
        words = self.embed(torch.cat([band.flatten() for band in bands])).split([band.numel() for band in bands])
        states = [
            self._read(found.view(*band.shape, -1), _lengths(band)) for band, found in zip(bands, words, strict=True)
        ]
        return torch.cat(states)[order.argsort()]

    def _read(self, words: Tensor, lengths: Tensor) -> Tensor:
        """The state behind each sentence's last word: (sentences, length, embedding) -> (sentences, hidden)."""
        # Packing is slower than reading on over the padding, since it leaves oneDNN's kernels.
        states, _ = self.lstm(words)
        return states[torch.arange(len(words), device=words.device), lengths - 1]


def _lengths(tokens: Tensor) -> Tensor:
    return (tokens != PADDING).sum(dim=1).clamp(min=1)
