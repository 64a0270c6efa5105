"""How far an encoder is from the best of all: a lower bound of I(X;T) − β·I(Y;T) from a tangent plane.

The minimum of I(X;T) − β·I(Y;T) over all encoders is H(X) − β·H(Y) + the lower convex envelope at p_X of
φ(q) = β·H(Wq) − H(q), W the channel x → y. A plane ⟨λ, q⟩ below φ bounds the envelope by ⟨λ, p_X⟩. Since
β·H(Wq) = min_s −β·Σ_y (Wq)(y) log s(y) over the distributions s on Y, the minimum over q has a closed form:

    min_q φ(q) − ⟨λ, q⟩ = −log max_s Z(s),    Z(s) = Σ_x exp(λ_x + β·Σ_y p(y|x) log s(y)).

So every λ gives the bound ⟨λ, p_X⟩ − log max Z, and what is left is a maximum over the simplex of Y alone. A maximum
lies in the convex hull of the laws p(·|x), since s ← Wq raises Z.
"""

import functools
from dataclasses import dataclass

import numpy as np

from agrlearn.theory.mixture import TINY, Letters, Mixture, log_evidence, log_likelihoods, log_sum
from agrlearn.theory.tables import Array

_TOLERANCE = 3e-7
_CELLS = 200_000
_FEW = 200  # so few are halved again at once: the calls take longer than the numbers
_ASCENT = 40


@dataclass(frozen=True)
class Bound:
    """upper: a bound of log max Z; point: (letters of Y,) where Z was largest; proved: `upper` holds everywhere."""

    upper: float
    point: Array
    proved: bool


def tangent_plane(letters: Letters, mixture: Mixture, beta: float) -> Array:
    """λ of the plane that touches φ at a stationary mixture's clusters: (letters,)."""
    return np.asarray(np.log(letters.p) - log_evidence(letters, mixture, beta))


def bound_maximum(letters: Letters, plane: Array, beta: float, point: Array) -> Bound:
    """Bound log max Z from above by branch and bound over simplices, to within 3e-7 of the maximum.

    A geometric mean is at most its arithmetic one, so in a simplex with centre c

        Π_y s(y)^{β p(y|x)} ≤ Π_y c(y)^{β p(y|x)} · (Σ_y p(y|x) s(y)/c(y))^β,

    with equality at c. For β ≥ 1 the right side is convex in s, so the sum over x is largest at a corner of the
    simplex; each term at the corners' largest coordinates is a second bound. Both hold up to floating-point rounding
    (some 1e-15·β). Where 200 000 simplices are not enough (mostly from 6 letters in both alphabets on), `upper` is
    the largest value that was found, and `proved` is False.

    Args:
        plane: (letters,) λ.
        beta: at least 1.
        point: (letters of Y,) the highest point known so far.
    """
    highest = float(log_z(letters, plane, beta, point[None])[0])
    simplices, seen, done = _enclosing_simplex(letters)[None], 0, -np.inf
    while len(simplices):
        seen += len(simplices)
        if seen > _CELLS:
            return Bound(highest, point, proved=False)
        centres = simplices.mean(axis=1)
        values = log_z(letters, plane, beta, centres)
        if values.max() > highest:
            highest, point = float(values.max()), centres[np.argmax(values)]
        bounds = _upper_bounds(letters, plane, beta, simplices, centres)
        is_open = bounds > highest + _TOLERANCE
        done = max(done, bounds[~is_open].max(initial=-np.inf))
        simplices = _bisect(simplices[is_open])
        while 0 < len(simplices) < _FEW:
            simplices = _bisect(simplices)
    return Bound(max(done, highest), point, proved=True)


def ascend(letters: Letters, plane: Array, beta: float, points: Array) -> Array:
    """Move points uphill on Z by s ← Wq, q(x) ∝ exp(λ_x)·Π_y s(y)^{β p(y|x)}: (points, letters of Y)."""
    for _ in range(_ASCENT):
        scores = plane[:, None] + log_likelihoods(letters, points, beta)
        q = np.exp(scores - scores.max(axis=0))
        points = (q / q.sum(axis=0)).T @ letters.laws
    return points


def log_z(letters: Letters, plane: Array, beta: float, points: Array) -> Array:
    """log Z at some points: (points, letters of Y) → (points,)."""
    return log_sum(plane + log_likelihoods(letters, points, beta).T)


def _enclosing_simplex(letters: Letters) -> Array:
    """Corners of a simplex around the laws: the laws themselves if they are few, else the simplex of Y, cut close."""
    laws = letters.laws
    if len(laws) <= laws.shape[1]:
        return laws
    least = laws.min(axis=0)
    return least + (1 - least.sum()) * np.eye(laws.shape[1])


def _upper_bounds(letters: Letters, plane: Array, beta: float, simplices: Array, centres: Array) -> Array:
    """Of log Z in every simplex: (cells,)."""
    scores = plane + log_likelihoods(letters, centres, beta).T
    means = (simplices / np.maximum(centres, TINY)[:, None, :]) @ letters.laws.T
    tangent = log_sum(scores[:, None, :] + beta * np.log(np.maximum(means, TINY))).max(axis=1)
    corner = log_sum(plane + log_likelihoods(letters, simplices.max(axis=1), beta).T)
    return np.minimum(tangent, corner)


@functools.cache
def _pairs(count: int) -> tuple[np.ndarray, ...]:
    return np.triu_indices(count, 1)


def _bisect(simplices: Array) -> Array:
    """Halve every simplex at its longest edge: (cells, corners, letters of Y) → twice as many."""
    corners = simplices.shape[1]
    first, second = _pairs(corners)
    if len(first) == 0:
        return simplices[:0]
    # Lengths in √s, the metric in which the bound's error is even up to the boundary.
    roots = np.sqrt(simplices)
    lengths = ((roots[:, first] - roots[:, second]) ** 2).sum(axis=2)
    longest = lengths.argmax(axis=1)
    cell = np.arange(len(simplices))
    middle = (simplices[cell, first[longest]] + simplices[cell, second[longest]]) / 2
    left, right = simplices.copy(), simplices.copy()
    left[cell, first[longest]] = middle
    right[cell, second[longest]] = middle
    return np.concatenate([left, right])
