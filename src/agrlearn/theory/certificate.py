"""How far an encoder is from the optimum: a lower bound of I(X;T) − β·I(Y;T) from a tangent plane.

The minimum of I(X;T) − β·I(Y;T) over all encoders is H(X) − β·H(Y) + the lower convex envelope at p_X of
φ(q) = β·H(Wq) − H(q), W the channel x → y. A plane ⟨λ, q⟩ below φ bounds the envelope by ⟨λ, p_X⟩. Since
β·H(Wq) = min_s −β·Σ_y (Wq)(y) log s(y) over the distributions s on Y, the minimum over q has a closed form:

    min_q φ(q) − ⟨λ, q⟩ = −log max_s Z(s),    Z(s) = Σ_x exp(λ_x + β·Σ_y p(y|x) log s(y)).

So every λ gives the bound ⟨λ, p_X⟩ − log max Z, which takes a maximum over the simplex of Y only. The maximum lies in
the convex hull of the laws p(·|x), since s ← Wq raises Z.
"""

from dataclasses import dataclass

import numpy as np

from agrlearn.theory.distributions import Array
from agrlearn.theory.mixture import TINY, Letters, Mixture, log_evidence, log_likelihoods, log_sum

_TOLERANCE = 3e-7
_MOST_CELLS = 200_000
_FEW_CELLS = 200  # fewer are halved again at once, since the calls would take longer than the arithmetic
_ASCENT_STEPS = 40


@dataclass(frozen=True)
class Bound:
    """upper: a bound of log max Z; point: (letters of Y,) where Z is largest; proved: whether `upper` is certain."""

    upper: float
    point: Array
    proved: bool


def tangent_plane(letters: Letters, mixture: Mixture, beta: float) -> Array:
    """λ of the plane that touches φ at the clusters of a stationary mixture: (letters,)."""
    return np.asarray(np.log(letters.p) - log_evidence(letters, mixture, beta))


def bound_maximum(letters: Letters, plane: Array, beta: float, point: Array) -> Bound:
    """Bound log max Z from above by branch and bound over simplices, to within 3e-7 of the maximum.

    A geometric mean is at most the arithmetic mean, so in a simplex with centre c

        Π_y s(y)^{β p(y|x)} ≤ Π_y c(y)^{β p(y|x)} · (Σ_y p(y|x) s(y)/c(y))^β,

    with equality at c. For β ≥ 1 the right side is convex in s, so the sum over x is largest at a corner of the
    simplex. Each term at the largest coordinates of the corners is a second bound. Both hold up to floating-point
    rounding (about 1e-15·β). If 200 000 simplices are not enough (mostly with 6 or more letters in both alphabets),
    `upper` is the largest value found, and `proved` is False.

    Args:
        plane: (letters,) λ.
        beta: at least 1.
        point: (letters of Y,) the highest point known so far.
    """
    highest = float(log_z(letters, plane, beta, point[None])[0])
    # A simplex around the laws: the laws themselves if they are few, else the simplex of Y, as small as possible.
    laws = letters.laws
    least = laws.min(axis=0)
    simplex = laws if len(laws) <= laws.shape[1] else least + (1 - least.sum()) * np.eye(laws.shape[1])
    simplices, seen, done = simplex[None], 0, -np.inf
    while len(simplices):
        seen += len(simplices)
        if seen > _MOST_CELLS:
            return Bound(highest, point, proved=False)
        centres = simplices.mean(axis=1)
        values = log_z(letters, plane, beta, centres)
        if values.max() > highest:
            highest, point = float(values.max()), centres[np.argmax(values)]
        bounds = _upper_bounds(letters, plane, beta, simplices, centres)
        is_open = bounds > highest + _TOLERANCE
        done = max(done, bounds[~is_open].max(initial=-np.inf))
        simplices = _bisect(simplices[is_open])
        while 0 < len(simplices) < _FEW_CELLS:
            simplices = _bisect(simplices)
    return Bound(float(max(done, highest)), point, proved=True)


def ascend(letters: Letters, plane: Array, beta: float, points: Array) -> Array:
    """Move points uphill on Z by s ← Wq, q(x) ∝ exp(λ_x)·Π_y s(y)^{β p(y|x)}: (points, letters of Y)."""
    for _ in range(_ASCENT_STEPS):
        scores = plane[:, None] + log_likelihoods(letters, points, beta)
        q = np.exp(scores - scores.max(axis=0))
        points = (q / q.sum(axis=0)).T @ letters.laws
    return points


def log_z(letters: Letters, plane: Array, beta: float, points: Array) -> Array:
    """log Z: (points, letters of Y) → (points,)."""
    return log_sum(plane + log_likelihoods(letters, points, beta).T)


def _upper_bounds(letters: Letters, plane: Array, beta: float, simplices: Array, centres: Array) -> Array:
    """Upper bounds of log Z in every simplex: (cells,)."""
    scores = plane + log_likelihoods(letters, centres, beta).T
    means = (simplices / np.maximum(centres, TINY)[:, None, :]) @ letters.laws.T
    tangent = log_sum(scores[:, None, :] + beta * np.log(np.maximum(means, TINY))).max(axis=1)
    return np.minimum(tangent, log_z(letters, plane, beta, simplices.max(axis=1)))


def _bisect(simplices: Array) -> Array:
    """Halve every simplex at its longest edge: (cells, corners, letters of Y) → twice as many."""
    if simplices.shape[1] == 1:
        return simplices[:0]
    first, second = np.triu_indices(simplices.shape[1], 1)
    # Lengths in √s, a metric in which the error of the bound is even up to the boundary.
    roots = np.sqrt(simplices)
    longest = ((roots[:, first] - roots[:, second]) ** 2).sum(axis=2).argmax(axis=1)
    cells, first, second = np.arange(len(simplices)), first[longest], second[longest]
    middle = (simplices[cells, first] + simplices[cells, second]) / 2
    left, right = simplices.copy(), simplices.copy()
    left[cells, first] = right[cells, second] = middle
    return np.concatenate([left, right])
