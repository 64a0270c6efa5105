"""The bottleneck curve as a whole: solutions along it, and the rate functions R_IBL and R_IBQ with their inverses."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from agrlearn.errors import TheoryError
from agrlearn.theory.information import mutual_information
from agrlearn.theory.learning import Bottleneck, bottleneck
from agrlearn.theory.tables import Array, Unit, joint_table


@dataclass(frozen=True)
class CurvePoint:
    """A point of the bottleneck curve, by one solution or by time-sharing two.

    rate: I(X;T), relevance: I(Y;T), distortion: E d_IB(X, T), all in `unit`.
    encoder: (letters of X, clusters) p(t|x); with time-sharing the clusters of both solutions stand side by side.
    gap: the rate is above the least possible by at most this, in `unit`, as far as the solutions' gaps are `proved`.
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
        betas: the β to solve for. By default `points` solutions that cover the whole curve: its two ends, then again
            and again the slope of the longest chord; where the curve is straight, fewer points describe all of it.

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
        solutions: list[Bottleneck] = []
        for beta in sorted(betas):
            solutions.append(bottleneck(joint, beta, unit=unit, near=solutions[-1] if solutions else None))
        return tuple(solutions)
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
    """R_IBL(A): the least I(X;T) among the encoders with I(Y;T) ≥ A.

    Args:
        p_xy: (letters of X, letters of Y).
        relevance: A, from 0 to I(X;Y), in `unit`.

    >>> round(rate_ibl([[0.45, 0.05], [0.05, 0.45]], 0.302684), 4)
    0.5
    """
    return point_at(p_xy, relevance=relevance, unit=unit).rate


def rate_ibq(p_xy: ArrayLike, distortion: float, *, unit: Unit = "bits") -> float:
    """R_IBQ(D): the least I(X;T) among the encoders with E d_IB(X, T) ≤ D, which long codes reach (Theorem 1).

    Args:
        p_xy: (letters of X, letters of Y).
        distortion: D, at least 0, in `unit`.

    >>> round(rate_ibq([[0.45, 0.05], [0.05, 0.45]], 0.228320), 4)
    0.5
    """
    return point_at(p_xy, distortion=distortion, unit=unit).rate


def relevance_ibl(p_xy: ArrayLike, rate: float, *, unit: Unit = "bits") -> float:
    """The inverse of R_IBL: the largest I(Y;T) among the encoders with I(X;T) ≤ R.

    >>> round(relevance_ibl([[0.45, 0.05], [0.05, 0.45]], 0.5), 6)
    0.302684
    """
    return point_at(p_xy, rate=rate, unit=unit).relevance


def distortion_ibq(p_xy: ArrayLike, rate: float, *, unit: Unit = "bits") -> float:
    """The inverse of R_IBQ: the least E d_IB(X, T) among the encoders with I(X;T) ≤ R.

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
    """The point of the curve with a given I(Y;T), E d_IB or I(X;T) (name one of them), with its encoder.

    Bisection on β, the next β being the slope of the chord between the two solutions around the point: it ends when
    the chord meets the tangents that bound the curve from below, and on a straight piece after one step. The point is
    then the chord's, by time-sharing.

    >>> point = point_at([[0.45, 0.05], [0.05, 0.45]], rate=0.5)
    >>> round(point.distortion, 6), point.gap < 1e-6
    (0.22832, True)
    """
    joint = joint_table(p_xy)
    asked = {"relevance": relevance, "distortion": distortion, "rate": rate}
    given = {name: float(value) for name, value in asked.items() if value is not None}
    if len(given) != 1:
        raise TheoryError(f"expected one of relevance, distortion or rate, got {', '.join(given) or 'none'}")
    ((name, target),) = given.items()
    left, right = bottleneck(joint, 0.0, unit=unit), bottleneck(joint, math.inf, unit=unit)
    _check_target(name, target, mutual_information(joint, unit=unit), unit)

    def share(left: Bottleneck, right: Bottleneck) -> float:
        """How much of `right` brings the chord to the target."""
        start, end = getattr(left, name), getattr(right, name)
        return 1.0 if start == end else min(1.0, max(0.0, (target - start) / (end - start)))

    touching = [left, right]
    while 0 < share(left, right) < 1 and _height(left, right, share(left, right), touching) > 1e-10:
        middle = _at_chord_slope(joint, left, right)
        if middle is None:
            break
        touching.append(middle)
        if not _is_below_chord(left, right, middle):
            break
        left, right = (left, middle) if share(left, middle) < 1 else (middle, right)
    return _time_shared(left, right, share(left, right), touching)


def _at_chord_slope(joint: Array, left: Bottleneck, right: Bottleneck) -> Bottleneck | None:
    """The solution at the slope of the chord between two; None where the chord is vertical to rounding."""
    rise, run = right.rate - left.rate, right.relevance - left.relevance
    return bottleneck(joint, rise / run, unit=left.unit, near=left) if run > 1e-7 * rise else None


def _is_below_chord(left: Bottleneck, right: Bottleneck, point: Bottleneck) -> bool:
    """Whether the solution at the chord's slope shows that the curve is not the chord itself."""
    below = left.rate - point.rate - point.beta * (left.relevance - point.relevance)
    return left.relevance < point.relevance < right.relevance and below > 1e-9


def _height(left: Bottleneck, right: Bottleneck, share: float, touching: Sequence[Bottleneck]) -> float:
    """How far, at most, the chord is above the curve at a point: the distance to the tangents of solutions there."""
    relevance = (1 - share) * left.relevance + share * right.relevance
    rate = (1 - share) * left.rate + share * right.rate
    # The tangent of an infinite β is vertical: it tells something at its own solution only.
    tangents = [
        each.rate - each.gap + (each.beta * (relevance - each.relevance) if relevance != each.relevance else 0.0)
        for each in touching
    ]
    return rate - max(tangents)


def _time_shared(left: Bottleneck, right: Bottleneck, share: float, touching: Sequence[Bottleneck]) -> CurvePoint:
    """Lemma 1: T tells which solution was used, so the alphabets stand side by side and everything averages."""

    def mean(of: Callable[[Bottleneck], float]) -> float:
        return (1 - share) * of(left) + share * of(right)

    # A share that is not even a normal number would be rounded away in some sums and divided by in others.
    share = share if share > np.finfo(float).tiny else 0.0
    encoder = np.hstack([(1 - share) * left.encoder, share * right.encoder])
    return CurvePoint(
        rate=mean(lambda each: each.rate),
        relevance=mean(lambda each: each.relevance),
        distortion=mean(lambda each: each.distortion),
        encoder=encoder[:, encoder.sum(axis=0) > 0],
        gap=max(0.0, _height(left, right, share, touching)),
        proved=all(each.proved for each in touching),
        unit=left.unit,
    )


def _check_target(name: str, target: float, information: float, unit: Unit) -> None:
    if math.isnan(target) or target < 0:
        raise TheoryError(f"expected a {name} of at least 0 {unit}, got {target}")
    if name == "relevance" and target > information + 1e-9:
        raise TheoryError(
            f"expected a relevance of at most I(X;Y) = {information:.6g} {unit}, got {target}; no encoder keeps more"
        )
