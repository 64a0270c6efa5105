"""Comparing settings over seeds."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Mean:
    """A mean over runs with its standard error (NaN for a single run)."""

    value: float
    standard_error: float

    def text(self, scale: float = 1.0, digits: int = 2) -> str:
        """Such as '3.14 ± 0.05'.

        >>> Mean(0.0314, 0.0005).text(scale=100)
        '3.14 ± 0.05'
        """
        value = f"{self.value * scale:.{digits}f}"
        return value if math.isnan(self.standard_error) else f"{value} ± {self.standard_error * scale:.{digits}f}"


def mean_over_runs(values: Sequence[float]) -> Mean:
    """The mean and its standard error.

    >>> mean_over_runs([1.0, 3.0])
    Mean(value=2.0, standard_error=1.0)
    """
    error = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return Mean(statistics.fmean(values), error)
