"""mixup (Zhang et al. 2018) and manifold mixup (Verma et al. 2019), for comparison."""

import random
from typing import NamedTuple

import torch
from torch import Tensor

from agrlearn.errors import RecipeError
from agrlearn.grouping import TOKEN_TYPES, Objects, count_objects, first_tensor


class Mixture(NamedTuple):
    """Groups that are `share` of themselves and the rest of the group at `partners`."""

    groups: Objects
    """Mixed already, or as they were where their features are to be mixed."""
    partners: Tensor
    share: float
    at_features: bool = False


def mix_groups(groups: Objects, strength: float, generator: torch.Generator, at: str = "input") -> Mixture:
    """Average each group with another one of the batch, in one proportion drawn from Beta(strength, strength).

    Args:
        groups: (groups, fold, ...); labels and losses are mixed by the caller in the same proportion.
        at: input, features, or random, as in a `Recipe`.

    >>> mixed = mix_groups(torch.ones(4, 2, 3), 1.0, torch.Generator().manual_seed(0))
    >>> mixed.groups.shape, sorted(mixed.partners.tolist())
    (torch.Size([4, 2, 3]), [0, 1, 2, 3])
    """
    partners, share, at_features = draw_partners(count_objects(groups), strength, generator, at)
    partners = partners.to(first_tensor(groups).device)
    if at_features:
        return Mixture(groups, partners, share, True)
    if not isinstance(groups, Tensor) or groups.dtype in TOKEN_TYPES:
        raise RecipeError("mixup averages objects, and tokens cannot be averaged; set mixup_at to features")
    values = groups.to(torch.float32)
    return Mixture(torch.lerp(values[partners], values, share), partners, share, False)


def draw_partners(count: int, strength: float, generator: torch.Generator, at: str) -> tuple[Tensor, float, bool]:
    """For `mix_groups`: the partner of each of `count` groups, a group's own share, and whether to mix features."""
    seed = int(torch.randint(2**62, (), generator=generator))
    share = random.Random(seed).betavariate(strength, strength)
    partners = torch.randperm(count, generator=generator)
    return partners, share, at == "features" or (at == "random" and bool(torch.rand((), generator=generator) < 0.5))
