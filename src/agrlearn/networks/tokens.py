"""Groups of tokenized sentences become one sequence, and words can know their slot."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import _get_current_dispatch_mode

from agrlearn.errors import ShapeError
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

    A mapping's other inputs, such as token_type_ids, follow their words.

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
        return self._join_mapping(groups)

    def _join_mapping(self, groups: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """All tensors, (groups, fold, length), in the order of the words; a separator is as the word before it."""
        kept = groups["attention_mask"].bool()
        words = {**groups, "input_ids": self._marked(groups["input_ids"], kept)}
        for name, tensor in words.items():
            if tensor.shape != kept.shape:
                raise ShapeError(
                    f"{name} cannot be joined in tandem: expected an entry for every word, {tuple(kept.shape)}, got "
                    f"{tuple(tensor.shape)}; leave it out, or join elsewhere"
                )
        if self.separator is not None:
            last = (kept * torch.arange(kept.shape[2], device=kept.device)).argmax(dim=2, keepdim=True)
            words = {name: torch.cat([tensor, tensor.gather(2, last)], dim=2) for name, tensor in words.items()}
            words["input_ids"][:, :, -1] = self.separator
            between = torch.ones_like(kept[:, :, :1])
            between[:, -1] = False
            kept = torch.cat([kept, between], dim=2)
        kept = kept.flatten(1)
        order = (~kept).to(torch.uint8).argsort(dim=1, stable=True)
        longest = max(1, int(kept.sum(dim=1).max()))
        joined = {name: tensor.flatten(1).gather(1, order)[:, :longest] for name, tensor in words.items()}
        return {**joined, "attention_mask": kept.gather(1, order)[:, :longest].to(torch.int64)}

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
