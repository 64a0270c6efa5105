"""mixup (Zhang et al. 2018), for comparison."""

import random
from typing import NamedTuple

import torch
from torch import Tensor

from agrlearn.errors import RecipeError
from agrlearn.grouping import TOKEN_TYPES, Objects


class Mixture(NamedTuple):
    """Groups that are `share` of themselves and the rest of the group at `partners`."""

    groups: Tensor
    partners: Tensor
    share: float


def mix_groups(groups: Objects, strength: float, generator: torch.Generator) -> Mixture:
    """Average each group with another one of the batch, in one proportion drawn from Beta(strength, strength).

    Args:
        groups: (groups, fold, ...) of numbers; labels and losses are mixed by the caller in the same proportion.

    >>> mixed = mix_groups(torch.ones(4, 2, 3), 1.0, torch.Generator().manual_seed(0))
    >>> mixed.groups.shape, sorted(mixed.partners.tolist())
    (torch.Size([4, 2, 3]), [0, 1, 2, 3])
    """
    if not isinstance(groups, Tensor) or groups.dtype in TOKEN_TYPES:
        raise RecipeError("mixup averages objects, and tokens cannot be averaged; leave mixup at 0")
    seed = int(torch.randint(2**62, (), generator=generator))
    share = random.Random(seed).betavariate(strength, strength)
    partners = torch.randperm(len(groups), generator=generator).to(groups.device)
    values = groups.to(torch.float32)
    return Mixture(torch.lerp(values[partners], values, share), partners, share)
