"""Reproducible randomness: every random stream is derived from a few integers and nothing else."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import numpy
import torch

from agrlearn.errors import RecipeError


def derive_seed(*keys: int) -> int:
    """Derive a seed from integers such as (seed, epoch, step).

    Trailing zeros are ignored: (5,) and (5, 0) give the same seed, so streams that must differ start counting at 1.

    >>> derive_seed(0, 1, 2) == derive_seed(0, 1, 2)
    True
    >>> derive_seed(0, 1, 2) == derive_seed(0, 2, 1)
    False
    """
    if min(keys) < 0:
        raise RecipeError(f"expected a seed that is a whole number of at least 0, got {min(keys)}")
    # torch takes 63 bits on every device; numpy's hash keeps streams of neighbouring keys independent.
    return int(numpy.random.SeedSequence(keys).generate_state(1, numpy.uint64)[0] >> 1)


def generator(*keys: int) -> torch.Generator:
    """A CPU generator seeded from `keys`."""
    return torch.Generator().manual_seed(derive_seed(*keys))


_TURN = threading.RLock()
_CPU = torch.device("cpu")


@contextmanager
def seeded(seed: int, device: torch.device = _CPU, *, restore: bool = True) -> Iterator[None]:
    """Within this block, torch's global streams (of initial weights, dropout and so on) start at `seed`.

    Afterwards they continue as if nothing had been drawn, unless `restore` is False because nobody draws from them
    before they are seeded again. All threads share these streams, so they take turns.
    """
    with _TURN, keep_streams(device) if restore else nullcontext():
        seed_torch(seed, device)
        yield


@contextmanager
def keep_streams(device: torch.device = _CPU) -> Iterator[None]:
    """After this block, torch's global streams on the CPU and on `device` continue where they were before it.

    torch.random.fork_rng takes several times as long, which every step of a small network would feel.
    """
    other = None if device.type == "cpu" else torch.get_device_module(device)
    with _TURN:
        kept = torch.default_generator.get_state()
        kept_there = other and other.get_rng_state()
    try:
        yield
    finally:
        with _TURN:
            torch.default_generator.set_state(kept)
            if other is not None:
                other.set_rng_state(kept_there)


def seed_torch(seed: int, device: torch.device) -> None:
    """Seed torch's global streams on the CPU and on `device`.

    torch.manual_seed takes about a millisecond longer: it records the stack for each kind of device that is missing.
    """
    with _TURN:
        torch.default_generator.manual_seed(seed)
        if device.type != "cpu":
            torch.get_device_module(device).manual_seed(seed)
