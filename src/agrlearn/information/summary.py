"""What the read-outs of an estimate come to, and what a reader of the figure should know."""

import math
from dataclasses import dataclass

import numpy

from agrlearn.errors import TrainingError
from agrlearn.information.read_out import ReadOut

LOOK_EVERY = 5
"""Steps between two looks at a critic's validation samples."""

# With the best critic, Gaussian samples and 30 to 512 partners, InfoNCE reads this share of the log of their number
# where I(X;Y) is 0.8 to 1.05 of it, and rises ever less from there.
_INFONCE_SUPPORTS = 0.75
_STEADY_PAIRS = 100
# With the best critic and Gaussian samples, the logarithm of the exponentials' mean is off by about half a nat where so
# few pairs carry it, and 0.1 to 0.3 nats too low where so many samples are unreached; past both it soon says nothing.
_FEWEST_PAIRS = 5
_UNREACHED_AT_MOST = 0.25


@dataclass(frozen=True)
class Estimate:
    """An estimate of I(X;Y) and what it rests on."""

    nats: float
    """The estimate: the bound on samples that the critics have not seen, plus what learning from a finite sample is
    estimated to have cost. It is `lower_bound` where that is higher, or where the samples support no estimate above it,
    which a warning then says."""
    lower_bound: float
    """InfoNCE on samples that the critics have not seen: on average at most I(X;Y), but for being set to 0 if negative.

    It cannot pass the log of a part's samples."""
    spread: float
    """Standard error of `nats` over the parts of the sample; with 3 parts, itself known only roughly."""
    curves: tuple[tuple[float, ...], ...]
    """For each critic, the bound on its validation samples after every 5 steps, cut where they are too few to tell."""
    warnings: tuple[str, ...] = ()
    """What a reader of the figure should know; empty when all is well."""

    @property
    def bits(self) -> float:
        return self.nats / math.log(2)

    def __str__(self) -> str:
        figures = f"{self.nats:.4f} nats ({self.bits:.4f} bits) ± {self.spread:.4f}, at least {self.lower_bound:.4f}"
        return "\n".join([figures, *(f"warning: {warning}" for warning in self.warnings)])


@dataclass(frozen=True)
class Training:
    """How a critic learns."""

    bound: str
    marginals: str
    shifts: int
    batch_size: int
    learning_rate: float
    steps: int
    patience: int


def summarise(outs: list[ReadOut], curves: tuple[tuple[float, ...], ...], training: Training, copies: int) -> Estimate:
    """The figures of all parts as one estimate.

    Args:
        outs: of each part, by the other parts' critics.
        curves: of each part's critic; empty ones if nothing was trained.
        copies: how many samples were left out.
    """
    figures = numpy.array([out.corrected for out in outs])
    if not numpy.isfinite(figures).all():
        raise TrainingError("the critic's scores are not finite; lower learning_rate, or mend the critic")
    warnings = [f"{copies} samples are copies of others and were left out"] if copies else []
    bounds = numpy.array([out.lower_bound for out in outs])
    lower_bound = max(0.0, float(bounds.mean()))
    read = float(numpy.mean([out.of_average for out in outs]))
    # Information is never negative; where the cost of learning is as large as the figure, it is not known either.
    nats = max(0.0, min(float(figures.mean()), 2 * read))
    out_of_reach = _out_of_reach(outs, training)
    if out_of_reach or nats < lower_bound:
        nats, figures = lower_bound, bounds
    warnings += out_of_reach or _doubts(nats, max(read, lower_bound), outs, training, trained=any(curves))
    looks = math.ceil(training.steps / LOOK_EVERY)
    if any(len(curve) == looks and max(curve[:-2], default=-math.inf) < max(curve) - 0.002 for curve in curves):
        warnings.append(f"a critic was still learning after {training.steps} steps; raise steps")
    return Estimate(nats, lower_bound, float(figures.std(ddof=1) / math.sqrt(len(figures))), curves, tuple(warnings))


def _out_of_reach(outs: list[ReadOut], training: Training) -> list[str]:
    """A warning where the exponentials' mean says nothing, and so neither does a figure that rests on it."""
    if training.bound == "infonce":
        return []  # has no such mean
    effective = min(out.effective_pairs for out in outs)
    unreached = sum(out.unreached for out in outs) / len(outs)
    if effective < _FEWEST_PAIRS:
        cause = f"the exponentials of only about {effective:.0f} independent pairs decide"
    elif unreached > _UNREACHED_AT_MOST:
        cause = f"{unreached:.0%} of the samples score far above every independent pair"
    else:
        return []
    return [f"{cause}, so that there is no estimate above lower_bound, and nats repeats it; collect more samples"]


def _doubts(nats: float, read: float, outs: list[ReadOut], training: Training, *, trained: bool) -> list[str]:
    """Warnings about a figure; `read` is what of it was read out, without a correction."""
    warnings = _past_support(nats, outs, training) if trained else []
    effective = min(out.effective_pairs for out in outs)
    if effective < _STEADY_PAIRS and training.bound != "infonce":
        warnings.append(
            f"the exponentials of only about {effective:.0f} independent pairs decide the figure, which makes it too "
            "high or too low by chance; collect more samples"
        )
    if nats - read > max(0.02, 0.1 * read):
        warnings.append(f"the samples are few for what is learned: {nats - read:.2f} nats are extrapolated")
    return warnings


def _past_support(nats: float, outs: list[ReadOut], training: Training) -> list[str]:
    """A warning where the pairs of a batch, or those that a part was read out on, are too few for the figure."""
    infonce = training.bound == "infonce"
    read = min(out.partners + 1 if infonce else out.samples for out in outs)
    batch = min(training.batch_size, read)
    pairs = min({"permutation": 1, "shifts": training.shifts, "all": batch - 1}[training.marginals], batch - 1)
    supported = _INFONCE_SUPPORTS * math.log(pairs + 1) if infonce else 0.5 * math.log(pairs * batch)
    if nats <= supported:
        return []
    all_met = read == min(out.samples for out in outs)  # where a sample cannot meet all others, more are of no help
    more = "raise batch_size, or " if batch < read else "collect more samples, or " if all_met else ""
    return [
        f"{nats:.2f} nats is past what batches of {batch} with {pairs} independent pairs a sample support, about "
        f"{supported:.1f}; {more}rely on lower_bound alone"
    ]
