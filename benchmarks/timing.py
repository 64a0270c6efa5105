"""Timing that survives a noisy machine: the things compared take turns, and medians are compared."""

import statistics
import time
from collections.abc import Callable


def take_turns(
    actions: dict[str, Callable[[], object]], *, rounds: int = 30, warm_up: int = 3
) -> dict[str, list[float]]:
    """Seconds of every action in every round; within a round they follow each other directly."""
    times: dict[str, list[float]] = {name: [] for name in actions}
    for turn in range(warm_up + rounds):
        for name, action in actions.items():
            start = time.perf_counter()
            action()
            if turn >= warm_up:
                times[name].append(time.perf_counter() - start)
    return times


def ratio(times: dict[str, list[float]], above: str, below: str) -> tuple[float, float, float]:
    """The median of the rounds' ratios, and the quartiles around it."""
    ratios = [a / b for a, b in zip(times[above], times[below], strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4)
    return middle, low, high
