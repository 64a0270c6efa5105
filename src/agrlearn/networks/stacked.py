"""What tells slots apart that pass the same layers, each by itself: a scaling and a head of its own.

This is BatchEnsemble (Wen et al. 2020) with a scaling at one place only, as in TabM's smallest form (Gorishniy et al.
2025): `fold` networks that share all layers except a vector and a head.
"""

import math

import torch
from torch import Tensor, nn


class SlotScaling(nn.Module):
    """Multiplies the features of each slot by weights of its own, at first by random signs.

    >>> SlotScaling(fold=2, features=3)(torch.ones(8, 3, 5, 5)).shape
    torch.Size([8, 3, 5, 5])
    """

    def __init__(self, fold: int, features: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randint(2, (fold, features)) * 2.0 - 1.0)

    def forward(self, stacked: Tensor) -> Tensor:
        """(groups * fold, features, ...) -> the same, with a group's slots next to each other."""
        weight = self.weight.view(*self.weight.shape, *[1] * (stacked.ndim - 2))
        return (stacked.unflatten(0, (-1, len(weight))) * weight).flatten(0, 1)


class SlotHeads(nn.Module):
    """A linear layer for each slot, which reads that slot's features alone.

    >>> SlotHeads(fold=2, features=3, num_classes=10)(torch.zeros(4, 2 * 3)).shape
    torch.Size([4, 20])
    """

    def __init__(self, fold: int, features: int, num_classes: int) -> None:
        super().__init__()
        bound = 1 / math.sqrt(features)  # as nn.Linear has it
        self.weight = nn.Parameter(torch.empty(fold, features, num_classes).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(fold, 1, num_classes).uniform_(-bound, bound))

    def forward(self, t: Tensor) -> Tensor:
        """(groups, fold * features) -> (groups, fold * classes)."""
        slots = t.unflatten(1, (len(self.weight), -1)).transpose(0, 1)
        return torch.baddbmm(self.bias, slots, self.weight).transpose(0, 1).flatten(1)
