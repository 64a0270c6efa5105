"""How well label distributions fit the labels. A metric is an entry of `METRICS` and a field of `Scores`."""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

import torch
from torch import Tensor

from agrlearn.evaluation.statistics import Mean
from agrlearn.prediction.predict import check_answers

_BINS = 15


@dataclass(frozen=True)
class Outcomes:
    """What the metrics need for each object, on the CPU: (objects,) each."""

    label: Tensor
    chosen: Tensor
    """The most probable class."""
    confidence: Tensor
    """Its probability."""
    likelihood: Tensor
    """The probability of the label."""
    distance: Tensor
    """The squared distance between the distribution and the label, summed over classes."""

    @property
    def right(self) -> Tensor:
        return (self.chosen == self.label).double()

    def __len__(self) -> int:
        return len(self.label)


class ClassScores(NamedTuple):
    """How well one class is found; NaN where there is nothing to count."""

    objects: int
    """Of this class."""
    precision: float
    """The share of the objects that were called so that are of the class."""
    recall: float
    """The share of the objects of the class that were called so."""
    f1: float
    """The harmonic mean of the two."""


class Bin(NamedTuple):
    """Objects with similar confidence."""

    confidence: float
    """Their mean."""
    accuracy: float
    objects: int


@dataclass(frozen=True)
class Scores:
    """The metrics of label distributions, by the names of `METRICS`."""

    error: float
    """The share of objects whose most probable class is wrong."""
    nll: float
    """Mean negative log likelihood of the true class, in nats."""
    ece: float
    """Expected calibration error over 15 equal bins of confidence."""
    brier: float
    """Mean squared distance between the distribution and the true label, summed over classes."""


@dataclass(frozen=True)
class Metric:
    """A metric, and how it is shown."""

    function: Callable[[Outcomes], float]
    label: str
    """A short one, for columns and axes."""
    title: str
    scale: float = 1.0
    """The value is multiplied by this to be shown."""
    digits: int = 4
    """Decimal places of a single run."""
    lower_is_better: bool = True

    @property
    def mean_digits(self) -> int:
        """Decimal places of a mean over runs: one less than of a single run, but at least two."""
        return max(2, self.digits - 1)

    def text(self, value: float) -> str:
        """The value of a single run, as it is shown."""
        return f"{self.scale * value:.{self.digits}f}"

    def mean_text(self, mean: Mean) -> str:
        """A mean over runs with its standard error, as it is shown."""
        return mean.text(self.scale, self.mean_digits)


def outcomes_of(probabilities: Tensor, labels: Tensor) -> Outcomes:
    """Compute what the metrics need.

    Args:
        probabilities: (objects, classes).
        labels: (objects,) class numbers.
    """
    confidence, chosen = probabilities.double().max(dim=1)
    likelihood = probabilities.gather(1, labels[:, None]).squeeze(1).double()
    # The label's own term is (1 - p)², all others are p².
    distance = probabilities.double().square().sum(dim=1) + 1 - 2 * likelihood
    return Outcomes(labels, chosen, confidence, likelihood, distance)


def score(outcomes: Outcomes) -> Scores:
    """Compute all metrics; distributions that are not finite are refused.

    >>> score(outcomes_of(torch.tensor([[0.5, 0.5], [1.0, 0.0]]), torch.tensor([0, 0]))).error
    0.0
    """
    check_answers(torch.stack([outcomes.confidence, outcomes.likelihood]))
    return Scores(**{name: metric.function(outcomes) for name, metric in METRICS.items()})


def scores_by_class(outcomes: Outcomes, num_classes: int) -> tuple[ClassScores, ...]:
    """Precision, recall and F1 of every class, by its number.

    >>> wrong_once = outcomes_of(torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7]]), torch.tensor([0, 1, 1]))
    >>> scores_by_class(wrong_once, num_classes=2)[0]
    ClassScores(objects=1, precision=0.5, recall=1.0, f1=0.6666666666666666)
    """
    right = outcomes.label[outcomes.chosen == outcomes.label]
    found, objects, called = (
        numbers.bincount(minlength=num_classes).double() for numbers in (right, outcomes.label, outcomes.chosen)
    )
    columns = (objects.long(), found / called, found / objects, 2 * found / (objects + called))
    return tuple(ClassScores(*row) for row in zip(*(column.tolist() for column in columns), strict=True))


def macro_f1(classes: Sequence[ClassScores]) -> float:
    """The mean F1 of the classes, rare and frequent alike, that occur in the labels or in the answers."""
    return statistics.fmean(each.f1 for each in classes if not math.isnan(each.f1))


def calibration_bins(outcomes: Outcomes) -> tuple[Bin, ...]:
    """The accuracy by confidence, in bins of equal width; empty ones are left out."""
    places = (outcomes.confidence * _BINS).long().clamp(max=_BINS - 1)
    bins = []
    for number in places.unique().tolist():
        here = places == number
        confidence, accuracy = (float(values[here].mean()) for values in (outcomes.confidence, outcomes.right))
        bins.append(Bin(confidence, accuracy, int(here.count_nonzero())))
    return tuple(bins)


def _negative_log_likelihood(outcomes: Outcomes) -> float:
    # A probability that rounds to 0 counts as the smallest positive float: a large but finite loss.
    return float(-outcomes.likelihood.clamp(min=torch.finfo(torch.float32).tiny).log().mean())


def _calibration_error(outcomes: Outcomes) -> float:
    gaps = (abs(bin.confidence - bin.accuracy) * bin.objects for bin in calibration_bins(outcomes))
    return sum(gaps) / len(outcomes)


METRICS: dict[str, Metric] = {
    "error": Metric(lambda outcomes: float(1 - outcomes.right.mean()), "error %", "Error", scale=100, digits=2),
    "nll": Metric(_negative_log_likelihood, "NLL", "Negative log likelihood (nats)"),
    "ece": Metric(_calibration_error, "ECE", "Expected calibration error"),
    "brier": Metric(lambda outcomes: float(outcomes.distance.mean()), "Brier", "Brier score"),
}
"""Metrics by name, as evaluation, tables and reports show them; comparisons are by the first."""
assert [field.name for field in fields(Scores)] == list(METRICS)
