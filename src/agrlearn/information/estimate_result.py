"""The result of an estimate: the read-outs of all parts combined into one figure, with its warnings."""

import math
from dataclasses import dataclass

import numpy

from agrlearn.errors import TrainingError
from agrlearn.information.read_out import ReadOut

STEPS_PER_LOOK = 5
"""Steps between two looks at the validation samples of a critic."""

# With the best critic, Gaussian samples and 30 to 512 partners, InfoNCE reaches this share of the log of their number
# where I(X;Y) is 0.8 to 1.05 of that log, and saturates from there on.
_INFONCE_SUPPORTS = 0.75
_STEADY_PAIRS = 100
# With the best critic and Gaussian samples, the log of the mean exponential is off by about half a nat if so few pairs
# dominate it, and 0.1 to 0.3 nats too low if so many samples are unreached; beyond both it soon becomes meaningless.
_FEWEST_PAIRS = 5
_MOST_UNREACHED = 0.25


@dataclass(frozen=True)
class Estimate:
    """An estimate of I(X;Y)."""

    nats: float
    """The bound on samples that the critics have not seen, plus the estimated cost of learning from a finite sample. It
    is `lower_bound` if that is higher, or, with a warning, if the samples support no estimate above it."""
    lower_bound: float
    """InfoNCE on samples that the critics have not seen, or 0 if that is negative: on average at most I(X;Y), and at
    most the log of the number of samples in a part."""
    spread: float
    """Standard error of `nats` over the parts of the sample; with 3 parts this is rough."""
    curves: tuple[tuple[float, ...], ...]
    """For each critic, the bound on its validation samples after every 5 steps, capped where they are too few."""
    warnings: tuple[str, ...] = ()
    """Reasons to doubt the estimate; empty if there are none."""

    @property
    def bits(self) -> float:
        return self.nats / math.log(2)

    def __str__(self) -> str:
        figures = f"{self.nats:.4f} nats ({self.bits:.4f} bits) ± {self.spread:.4f}, at least {self.lower_bound:.4f}"
        return "\n".join([figures, *(f"warning: {warning}" for warning in self.warnings)])


@dataclass(frozen=True)
class Training:
    """The options of `estimate` that decide how a critic learns."""

    bound: str
    marginals: str
    shifts: int
    batch_size: int
    learning_rate: float
    steps: int
    patience: int


def combine(
    read_outs: list[ReadOut], curves: tuple[tuple[float, ...], ...], training: Training, copies: int
) -> Estimate:
    """Combine the parts of a sample into one estimate.

    Args:
        read_outs: of each part, by the critics of the other parts.
        curves: of the critic of each part; empty if nothing was trained.
        copies: the number of samples that were left out.
    """
    figures = numpy.array([part.corrected for part in read_outs])
    if not numpy.isfinite(figures).all():
        raise TrainingError("the scores of the critic are not finite; lower learning_rate, or change the critic")
    warnings = [f"{copies} samples are copies of others and were left out"] if copies else []
    bounds = numpy.array([part.lower_bound for part in read_outs])
    lower_bound = max(0.0, float(bounds.mean()))
    measured = float(numpy.mean([part.of_average for part in read_outs]))
    # Information is never negative. A correction larger than the measured value is not reliable.
    nats = max(0.0, min(float(figures.mean()), 2 * measured))
    out_of_reach = _out_of_reach(read_outs, training)
    if out_of_reach or nats < lower_bound:
        nats, figures = lower_bound, bounds
    warnings += out_of_reach or _doubts(nats, max(measured, lower_bound), read_outs, training, trained=any(curves))
    looks = math.ceil(training.steps / STEPS_PER_LOOK)
    if any(len(curve) == looks and max(curve[:-2], default=-math.inf) < max(curve) - 0.002 for curve in curves):
        warnings.append(f"a critic was still learning after {training.steps} steps; raise steps")
    return Estimate(nats, lower_bound, float(figures.std(ddof=1) / math.sqrt(len(figures))), curves, tuple(warnings))


def _out_of_reach(read_outs: list[ReadOut], training: Training) -> list[str]:
    """A warning if the mean exponential is meaningless, and with it any estimate that uses it."""
    effective = min(part.effective_pairs for part in read_outs)
    unreached = sum(part.unreached for part in read_outs) / len(read_outs)
    if training.bound == "infonce":
        return []  # it has no such mean
    if effective < _FEWEST_PAIRS:
        cause = f"the exponentials of only about {effective:.0f} independent pairs decide"
    elif unreached > _MOST_UNREACHED:
        cause = f"{unreached:.0%} of the samples score far above every independent pair"
    else:
        return []
    return [f"{cause}, so there is no estimate above lower_bound and nats repeats it; collect more samples"]


def _doubts(nats: float, measured: float, read_outs: list[ReadOut], training: Training, *, trained: bool) -> list[str]:
    """Warnings about an estimate; `measured` is its value without the correction."""
    warnings = []
    infonce = training.bound == "infonce"
    samples = min(part.samples for part in read_outs)
    seen = min(part.partners for part in read_outs) + 1 if infonce else samples
    batch = min(training.batch_size, seen)
    pairs = min({"permutation": 1, "shifts": training.shifts, "all": batch - 1}[training.marginals], batch - 1)
    supported = _INFONCE_SUPPORTS * math.log(pairs + 1) if infonce else 0.5 * math.log(pairs * batch)
    if trained and nats > supported:
        # More samples do not help if a sample does not meet all the others.
        more = "raise batch_size, or " if batch < seen else "collect more samples, or " if seen == samples else ""
        warnings.append(
            f"{nats:.2f} nats is more than batches of {batch} with {pairs} independent pairs per sample support, about "
            f"{supported:.1f}; {more}rely on lower_bound only"
        )
    effective = min(part.effective_pairs for part in read_outs)
    if effective < _STEADY_PAIRS and not infonce:
        warnings.append(
            f"the exponentials of only about {effective:.0f} independent pairs decide the estimate, so it can be too "
            "high or too low by chance; collect more samples"
        )
    if nats - measured > max(0.02, 0.1 * measured):
        warnings.append(f"the samples are few for what is learned: {nats - measured:.2f} nats are extrapolated")
    return warnings
