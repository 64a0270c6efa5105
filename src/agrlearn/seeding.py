"""Randomness that can be replayed: every stream is derived from a few integers and nothing else."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

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


_TURN = threading.RLock()
_CPU = torch.device("cpu")


@contextmanager
def seeded(seed: int, device: torch.device = _CPU) -> Iterator[None]:
    """Within this block torch's own streams, those of initial weights and of layers such as dropout, start at `seed`.

    Afterwards they go on as if nothing had been drawn. There is one such stream for all threads, so these take turns.
    """
    with _TURN, keep_streams(device):
        seed_torch(seed, device)
        yield


@contextmanager
def keep_streams(device: torch.device = _CPU) -> Iterator[None]:
    """After this block torch's own streams, on the CPU and on `device`, go on where they were before it."""
    # fork_rng of no device alone is quick; for others it needs their number.
    others = [] if device.type == "cpu" else [torch.get_device_module(device).current_device()]
    kept = torch.random.fork_rng(others, device_type=device.type if others else "cuda")
    with _TURN:
        kept.__enter__()
    try:
        yield
    finally:
        with _TURN:
            kept.__exit__(None, None, None)


def seed_torch(seed: int, device: torch.device) -> None:
    """Seed torch's own streams on the CPU and on `device`.

    Not by torch.manual_seed: for each kind of device that is not there it writes down the stack, about a millisecond.
    """
    with _TURN:
        torch.default_generator.manual_seed(seed)
        if device.type != "cpu":
            torch.get_device_module(device).manual_seed(seed)
