"""Randomness that can be replayed: every stream is derived from a few integers and nothing else."""

import numpy
import torch

from agrlearn.errors import RecipeError


def derive_seed(*keys: int) -> int:
    """A seed for one purpose, from the integers that name it, such as (seed, epoch, step).

    Zeros at the end do not count: (5,) and (5, 0) give one seed, so streams that must differ start counting at 1.

    >>> derive_seed(0, 1, 2) == derive_seed(0, 1, 2)
    True
    >>> derive_seed(0, 1, 2) == derive_seed(0, 2, 1)
    False
    """
    if min(keys) < 0:
        raise RecipeError(f"a seed is a whole number from 0 on, got {min(keys)}")
    # torch takes 63 bits on every device; numpy's hash keeps streams of neighbouring keys independent.
    return int(numpy.random.SeedSequence(keys).generate_state(1, numpy.uint64)[0] >> 1)


def generator(*keys: int) -> torch.Generator:
    """A CPU generator seeded from `keys`."""
    return torch.Generator().manual_seed(derive_seed(*keys))


def seed_torch(seed: int, device: torch.device) -> None:
    """Seed torch's own streams, those of layers such as dropout, on the CPU and on `device`.

    Not by torch.manual_seed: for each kind of device that is not there it writes down the stack, about a millisecond.
    """
    torch.default_generator.manual_seed(seed)
    if device.type != "cpu":
        torch.get_device_module(device).manual_seed(seed)
