"""Statistics over several runs: means with standard errors, and differences paired by seed."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Mean:
    """A mean over runs with its standard error (NaN for a single run)."""

    value: float
    standard_error: float
    runs: int = 1

    def text(self, scale: float = 1.0, digits: int = 2) -> str:
        """Format as mean ± standard error.

        >>> Mean(0.0314, 0.0005).text(scale=100)
        '3.14 ± 0.05'
        """
        value = f"{self.value * scale:.{digits}f}"
        return value if math.isnan(self.standard_error) else f"{value} ± {self.standard_error * scale:.{digits}f}"

    def signed_text(self, scale: float = 1.0, digits: int = 2) -> str:
        """Format a difference, with its sign; NaN becomes an empty text.

        >>> Mean(-0.5, 0.1).signed_text()
        '−0.50 ± 0.10'
        """
        if math.isnan(self.value):
            return ""
        sign = "+" if self.value >= 0 else "−"
        return sign + Mean(abs(self.value), self.standard_error).text(scale=scale, digits=digits)

    def interval_text(self, scale: float = 1.0, digits: int = 2) -> str:
        """Format a difference with its 95 % t interval; NaN becomes an empty text.

        >>> Mean(-0.5, 0.1, runs=3).interval_text()
        '−0.50 ± 0.43'
        """
        return Mean(self.value, self.half_width()).signed_text(scale, digits)

    def half_width(self, confidence: float = 0.95) -> float:
        """Half the width of the t confidence interval; NaN for one run.

        >>> round(Mean(5.0, 0.1, runs=3).half_width(), 2)
        0.43
        """
        from scipy.stats import t

        return self.standard_error * float(t.ppf((1 + confidence) / 2, self.runs - 1)) if self.runs > 1 else math.nan


def mean_over_runs(values: Sequence[float]) -> Mean:
    """The mean and its standard error; of no runs, NaN.

    >>> mean_over_runs([1.0, 3.0])
    Mean(value=2.0, standard_error=1.0, runs=2)
    """
    if not values:
        return Mean(math.nan, math.nan, 0)
    error = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return Mean(statistics.fmean(values), error, len(values))


def share_interval(share: float, objects: int, confidence: float = 0.95) -> tuple[float, float]:
    """The confidence interval of a share that was counted on so many objects, by Wilson's method.

    >>> [round(bound, 3) for bound in share_interval(0.1, 100)]
    [0.055, 0.174]
    """
    z = statistics.NormalDist().inv_cdf((1 + confidence) / 2)
    centre = (share + z * z / (2 * objects)) / (1 + z * z / objects)
    half = z * math.sqrt(share * (1 - share) / objects + (z / (2 * objects)) ** 2) / (1 + z * z / objects)
    return max(0.0, centre - half), min(1.0, centre + half)


def paired_difference(values: Mapping[int, float], base: Mapping[int, float]) -> Mean:
    """The mean difference over the seeds that both have.

    >>> paired_difference({0: 3.0, 1: 5.0, 2: 9.0}, {0: 2.0, 1: 3.0})
    Mean(value=1.5, standard_error=0.5, runs=2)
    """
    return mean_over_runs([value - base[seed] for seed, value in values.items() if seed in base])


def p_value(difference: Mean) -> float:
    """How likely so large a mean of paired differences is by chance, by the t test; NaN for one run.

    >>> round(p_value(mean_over_runs([1.0, 2.0, 3.0])), 3)
    0.074
    """
    from scipy.stats import t

    if difference.runs < 2:
        return math.nan
    if difference.standard_error <= 1e-9 * abs(difference.value):  # all are equal up to rounding: the sign test then
        return 2.0 ** (1 - difference.runs) if difference.value else 1.0
    return float(2 * t.sf(abs(difference.value) / difference.standard_error, difference.runs - 1))


def holm(p_values: Sequence[float]) -> list[float]:
    """The p values corrected for being several, by Holm's method.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    corrected, largest = [0.0] * len(p_values), 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[place]))
        corrected[place] = largest
    return corrected
