"""Groups of tokenized sentences become one sequence, and words can know their slot."""

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import _get_current_dispatch_mode

from agrlearn.grouping import Objects
from agrlearn.networks.joins import PADDING, tandem


def may_follow_words(tokens: Tensor) -> bool:
    """Whether a layer may do work that depends on which words it reads: only a CPU gains by it.

    Such work can neither be exported nor be counted per sentence.
    """
    watched = torch.compiler.is_exporting() or _get_current_dispatch_mode() is not None
    return tokens.device.type == "cpu" and not watched


class TandemJoin(nn.Module):
    """A group's sentences one after the other, for a Tensor of tokens or a tokenizer's mapping.

    Args:
        separator: a token that stands between sentences, with the padding removed; None leaves a Tensor's padding where
            it is, and joins a mapping's sentences, which end in their tokenizer's own separator, without padding.
        slot_stride: 0, or the vocabulary size, by which the tokens of each further slot are raised for `SlotEmbedding`.
    """

    def __init__(self, separator: int | None = None, slot_stride: int = 0) -> None:
        super().__init__()
        self.separator = separator
        self.slot_stride = slot_stride

    def forward(self, groups: Objects) -> Objects:
        if isinstance(groups, Tensor):
            return tandem(self._marked(groups, groups != PADDING), self.separator)
        return self._join_mapping(groups["input_ids"], groups["attention_mask"].bool())

    def _join_mapping(self, tokens: Tensor, kept: Tensor) -> Objects:
        tokens = self._marked(tokens, kept)
        if self.separator is not None:
            ends = torch.full_like(tokens[:, :, :1], self.separator)
            tokens = torch.cat([tokens, ends], dim=2)
            between = torch.ones_like(kept[:, :, :1])
            between[:, -1] = False
            kept = torch.cat([kept, between], dim=2)
        tokens, kept = tokens.flatten(1), kept.flatten(1)
        order = (~kept).to(torch.uint8).argsort(dim=1, stable=True)
        longest = max(1, int(kept.sum(dim=1).max()))
        return {
            "input_ids": tokens.gather(1, order)[:, :longest],
            "attention_mask": kept.gather(1, order)[:, :longest].to(torch.int64),
        }

    def _marked(self, tokens: Tensor, kept: Tensor) -> Tensor:
        if self.slot_stride == 0:
            return tokens
        slots = torch.arange(tokens.shape[1], device=tokens.device)[None, :, None]
        return torch.where(kept, tokens + self.slot_stride * slots, tokens)


class SlotEmbedding(nn.Module):
    """A word embedding plus an embedding of the slot, which `TandemJoin` has written into the tokens."""

    def __init__(self, words: nn.Embedding, fold: int) -> None:
        super().__init__()
        self.words = words
        self.slots = nn.Embedding(fold, words.embedding_dim, dtype=words.weight.dtype)
        nn.init.normal_(self.slots.weight, std=float(words.weight.detach().std()))

    def forward(self, tokens: Tensor) -> Tensor:
        size = self.words.num_embeddings
        slots = torch.div(tokens, size, rounding_mode="floor")
        embedded = self.words(tokens % size)
        return embedded + self.slots(slots) * (tokens != PADDING).unsqueeze(-1)
