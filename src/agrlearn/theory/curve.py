"""The bottleneck curve as a whole: solutions along it, and the rate functions R_IBL and R_IBQ with their inverses."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from agrlearn.errors import TheoryError
from agrlearn.theory.distributions import Array, Unit, joint_table
from agrlearn.theory.learning import Bottleneck, bottleneck, bottlenecks
from agrlearn.theory.measures import mutual_information


@dataclass(frozen=True)
class CurvePoint:
    """A point of the bottleneck curve: one solution, or time-sharing between two.

    rate: I(X;T), relevance: I(Y;T), distortion: E d_IB(X, T), all in `unit`.
    encoder: (letters of X, clusters) p(t|x); with time-sharing it has the clusters of both solutions.
    gap: the rate is above the least possible rate by at most this, in `unit`.
    proved: whether `gap` is a proved bound, as in `Bottleneck`.
    """

    rate: float
    relevance: float
    distortion: float
    encoder: Array
    gap: float
    proved: bool
    unit: Unit


def bottleneck_curve(
    p_xy: ArrayLike, betas: Sequence[float] | None = None, *, points: int = 21, unit: Unit = "bits"
) -> tuple[Bottleneck, ...]:
    """The bottleneck curve as solutions in the order of β.

    Args:
        p_xy: (letters of X, letters of Y).
        betas: the β to solve for. By default `points` solutions that cover the whole curve: its two ends, then
            repeatedly the slope of the longest chord. A straight piece of the curve takes fewer points.

    >>> for point in bottleneck_curve([[0.45, 0.05], [0.05, 0.45]], points=5):
    ...     print(f"{point.beta:.3f} {point.rate:.3f} {point.relevance:.3f}")
    0.000 0.000 0.000
    1.681 0.329 0.204
    1.883 0.606 0.361
    2.312 0.835 0.472
    inf 1.000 0.531
    """
    joint = joint_table(p_xy)
    if betas is not None:
        return tuple(bottlenecks(joint, sorted(betas), unit=unit))
    if points < 2:
        raise TheoryError(f"expected at least 2 points of a curve, got {points}")
    curve = [bottleneck(joint, 0.0, unit=unit), bottleneck(joint, math.inf, unit=unit)]
    straight: set[float] = set()
    while len(curve) < points:
        chords = [
            (math.dist((a.rate, a.relevance), (b.rate, b.relevance)), i)
            for i, (a, b) in enumerate(pairwise(curve))
            if a.rate not in straight
        ]
        if not chords or (longest := max(chords))[0] == 0:
            break
        left, right = curve[longest[1] : longest[1] + 2]
        middle = _at_chord_slope(joint, left, right)
        if middle is not None and _is_below_chord(left, right, middle):
            curve.insert(longest[1] + 1, middle)
        else:
            straight.add(left.rate)
    return tuple(curve)


def rate_ibl(p_xy: ArrayLike, relevance: float, *, unit: Unit = "bits") -> float:
    """R_IBL(A): the least I(X;T) of an encoder with I(Y;T) ≥ A, for a relevance A from 0 to I(X;Y).

    >>> round(rate_ibl([[0.45, 0.05], [0.05, 0.45]], 0.302684), 4)
    0.5
    """
    return point_at(p_xy, relevance=relevance, unit=unit).rate


def rate_ibq(p_xy: ArrayLike, distortion: float, *, unit: Unit = "bits") -> float:
    """R_IBQ(D): the least I(X;T) of an encoder with E d_IB(X, T) ≤ D, which long codes reach (Theorem 1).

    >>> round(rate_ibq([[0.45, 0.05], [0.05, 0.45]], 0.228320), 4)
    0.5
    """
    return point_at(p_xy, distortion=distortion, unit=unit).rate


def relevance_ibl(p_xy: ArrayLike, rate: float, *, unit: Unit = "bits") -> float:
    """The inverse of R_IBL: the largest I(Y;T) of an encoder with I(X;T) ≤ R.

    >>> round(relevance_ibl([[0.45, 0.05], [0.05, 0.45]], 0.5), 6)
    0.302684
    """
    return point_at(p_xy, rate=rate, unit=unit).relevance


def distortion_ibq(p_xy: ArrayLike, rate: float, *, unit: Unit = "bits") -> float:
    """The inverse of R_IBQ: the least E d_IB(X, T) of an encoder with I(X;T) ≤ R.

    >>> round(distortion_ibq([[0.45, 0.05], [0.05, 0.45]], 0.5), 6)
    0.22832
    """
    return point_at(p_xy, rate=rate, unit=unit).distortion


def point_at(
    p_xy: ArrayLike,
    *,
    relevance: float | None = None,
    distortion: float | None = None,
    rate: float | None = None,
    unit: Unit = "bits",
) -> CurvePoint:
    """The point of the curve with a given I(Y;T), E d_IB or I(X;T) (pass exactly one), with its encoder.

    Bisection on β: the next β is the slope of the chord between the two solutions around the point. It ends when the
    chord meets the tangents that bound the curve from below, and on a straight piece after one step. The result is the
    point of the chord, by time-sharing (Lemma 1): T also says which solution was used, so that everything averages.

    >>> point = point_at([[0.45, 0.05], [0.05, 0.45]], rate=0.5)
    >>> round(point.distortion, 6), point.gap < 1e-6
    (0.22832, True)
    """
    joint = joint_table(p_xy)
    options = {"relevance": relevance, "distortion": distortion, "rate": rate}
    given = {name: float(value) for name, value in options.items() if value is not None}
    if len(given) != 1:
        raise TheoryError(f"expected one of relevance, distortion or rate, got {', '.join(given) or 'none'}")
    ((name, target),) = given.items()
    if not target >= 0:
        raise TheoryError(f"expected a {name} of at least 0 {unit}, got {target}")
    most = mutual_information(joint, unit=unit)
    if name == "relevance" and target > most + 1e-9:
        raise TheoryError(
            f"expected a relevance of at most I(X;Y) = {most:.6g} {unit}, which no encoder exceeds, got {target}"
        )

    def share_of_right(left: Bottleneck, right: Bottleneck) -> float:
        """The share of `right` with which the chord is at the target."""
        start, end = getattr(left, name), getattr(right, name)
        return 1.0 if start == end else min(1.0, max(0.0, (target - start) / (end - start)))

    left, right = bottleneck(joint, 0.0, unit=unit), bottleneck(joint, math.inf, unit=unit)
    share = share_of_right(left, right)
    touching = [left, right]
    while 0 < share < 1 and _height(left, right, share, touching) > 1e-10:
        middle = _at_chord_slope(joint, left, right)
        if middle is None:
            break
        touching.append(middle)
        if not _is_below_chord(left, right, middle):
            break
        left, right = (left, middle) if share_of_right(left, middle) < 1 else (middle, right)
        share = share_of_right(left, right)
    # A subnormal share would be rounded away in some sums and divided by in others.
    share = share if share > np.finfo(float).tiny else 0.0
    encoder = np.hstack([(1 - share) * left.encoder, share * right.encoder])
    return CurvePoint(
        rate=(1 - share) * left.rate + share * right.rate,
        relevance=(1 - share) * left.relevance + share * right.relevance,
        distortion=(1 - share) * left.distortion + share * right.distortion,
        encoder=encoder[:, encoder.sum(axis=0) > 0],
        gap=max(0.0, _height(left, right, share, touching)),
        proved=all(solution.proved for solution in touching),
        unit=unit,
    )


def _at_chord_slope(joint: Array, left: Bottleneck, right: Bottleneck) -> Bottleneck | None:
    """The solution at the slope of the chord between two; None if the chord is vertical up to rounding."""
    rise, run = right.rate - left.rate, right.relevance - left.relevance
    return bottleneck(joint, rise / run, unit=left.unit, near=left) if run > 1e-7 * rise else None


def _is_below_chord(left: Bottleneck, right: Bottleneck, point: Bottleneck) -> bool:
    """Whether the solution at the slope of the chord shows that the curve is not the chord itself."""
    below = left.rate - point.rate - point.beta * (left.relevance - point.relevance)
    return left.relevance < point.relevance < right.relevance and below > 1e-9


def _height(left: Bottleneck, right: Bottleneck, share: float, touching: Sequence[Bottleneck]) -> float:
    """How far the chord is above the curve at most: the distance to the highest tangent of a solution."""
    relevance = (1 - share) * left.relevance + share * right.relevance
    rate = (1 - share) * left.rate + share * right.rate
    # The tangent of an infinite β is vertical: it bounds the curve at its own solution only.
    return rate - max(
        each.rate - each.gap + (each.beta * (relevance - each.relevance) if relevance != each.relevance else 0.0)
        for each in touching
    )
