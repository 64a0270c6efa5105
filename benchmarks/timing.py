"""Timing that survives a noisy machine: the things compared take turns, and medians are compared."""

import statistics
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple


class Ratio(NamedTuple):
    """The median of the rounds' ratios, and the quartiles around it."""

    middle: float
    low: float
    high: float

    def __str__(self) -> str:
        """As two cells of a table.

        >>> print(Ratio(1.5, 1.25, 2.0))
        1.50 | 1.25 to 2.00
        """
        digits = 2 if self.middle < 100 else 0
        return f"{self.middle:.{digits}f} | {self.low:.{digits}f} to {self.high:.{digits}f}"


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


def ratio(times: dict[str, list[float]], above: str, below: str) -> Ratio:
    """How many times longer `above` took than `below`."""
    ratios = [a / b for a, b in zip(times[above], times[below], strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4)
    return Ratio(middle, low, high)


def heading(*columns: str, text: int = 1) -> list[str]:
    """The first two lines of a table whose first `text` columns are text, and the others numbers.

    >>> heading("what", "ratio")
    ['| what | ratio |', '|---|---:|']
    """
    return [f"| {' | '.join(columns)} |", f"|{'---|' * text}{'---:|' * (len(columns) - text)}"]


def verdict(reached: bool) -> str:
    return "reached" if reached else "missed"


def milliseconds(times: Sequence[float]) -> str:
    return f"{1000 * statistics.median(times):,.1f}"
