"""How far an encoder is from the optimum: a lower bound of I(X;T) − β·I(Y;T) from a tangent plane.

The minimum of I(X;T) − β·I(Y;T) over all encoders is H(X) − β·H(Y) + the lower convex envelope at p_X of
φ(q) = β·H(Wq) − H(q), W the channel x → y. A plane ⟨λ, q⟩ below φ bounds the envelope by ⟨λ, p_X⟩. Since
β·H(Wq) = min_s −β·Σ_y (Wq)(y) log s(y) over the distributions s on Y, the minimum over q has a closed form:

    min_q φ(q) − ⟨λ, q⟩ = −log max_s Z(s),    Z(s) = Σ_x exp(λ_x + β·Σ_y p(y|x) log s(y)).

So every λ gives the bound ⟨λ, p_X⟩ − log max Z, which takes a maximum over the simplex of Y only. The maximum lies in
the convex hull of the laws p(·|x), since s ← Wq raises Z. Where the table falls into blocks that share no letter, it
lies within one block: Z = Σ_b w_b^β·Z_b(s_b) for the shares w of the blocks, which is convex in w for β ≥ 1.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agrlearn.theory.distributions import Array
from agrlearn.theory.mixture import TINY, Letters, Mixture, blocks, log_evidence, log_sum

_TOLERANCE = 3e-7
_MOST_CELLS = 800_000
_FEW_CELLS = 200  # fewer are halved again at once, since the calls would take longer than the arithmetic
_CELLS_AT_ONCE = 8_000  # what fits the cache; the memory does not grow with the number of planes
Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Bound:
    """upper: a bound of log max Z; point: (letters of Y,) where Z is largest; proved: whether `upper` is certain."""

    upper: float
    point: Array
    proved: bool


def tangent_plane(letters: Letters, mixture: Mixture, beta: float) -> Array:
    """λ of the plane that touches φ at the clusters of a stationary mixture: (letters,)."""
    return np.asarray(np.log(letters.p) - log_evidence(letters, mixture, beta))


def bound_maxima(letters: Letters, planes: Array, betas: Array, points: Array) -> list[Bound]:
    """Bound log max Z of several planes from above by one branch and bound over simplices, to within 3e-7 each.

    A geometric mean is at most the arithmetic mean, so in a simplex with centre c

        Π_y s(y)^{β p(y|x)} ≤ Π_y c(y)^{β p(y|x)} · (Σ_y p(y|x) s(y)/c(y))^β,

    with equality at c. For β ≥ 1 the right side is convex in s, so the sum over x is largest at a corner of the
    simplex. Each term at the largest coordinates of the corners is a second bound. Both hold up to floating-point
    rounding (about 1e-15·β). If 800 000 simplices are not enough (mostly with 6 or more letters in both alphabets),
    `upper` is the largest value found, and `proved` is False.

    Args:
        planes: (problems, letters) λ of each problem.
        betas: (problems,) at least 1.
        points: (problems, letters of Y) the highest point known so far.
    """
    points = points.copy()
    highest = log_z(letters, planes, betas, points)
    done, seen = np.full(len(betas), -np.inf), np.zeros(len(betas), int)
    # The cells of all problems together, along the last axis, where numpy is fast; `of` says whose each is.
    everyone = np.arange(len(betas))
    waiting = [(np.repeat(simplex[:, :, None], len(betas), axis=2), everyone) for simplex in _simplices(letters.laws)]
    while waiting:
        cells, of = waiting.pop()
        seen += np.bincount(of, minlength=len(betas))
        within = seen[of] <= _MOST_CELLS
        if not within.all():
            cells, of = cells[..., within], of[within]
        values, bounds = _values_and_bounds(letters, planes.T[:, of], betas[of], cells)
        for i in np.flatnonzero(values > highest[of]):
            if values[i] > highest[of[i]]:
                highest[of[i]], points[of[i]] = values[i], cells[..., i].mean(axis=0)
        is_open = bounds > highest[of] + _TOLERANCE
        np.maximum.at(done, of[~is_open], bounds[~is_open])
        cells, of = _bisect(cells[..., is_open], of[is_open])
        while 0 < len(of) < _FEW_CELLS:
            cells, of = _bisect(cells, of)
        parts = [slice(i, i + _CELLS_AT_ONCE) for i in range(0, len(of), _CELLS_AT_ONCE)]
        waiting += [(cells[..., part], of[part]) for part in parts]
    proved = seen <= _MOST_CELLS
    upper = np.where(proved, np.maximum(done, highest), highest)
    return [Bound(float(upper[i]), points[i], bool(proved[i])) for i in range(len(betas))]


def ascend(letters: Letters, planes: Array, betas: Array, points: Array, steps: int = 40) -> Array:
    """Move points uphill on Z by s ← Wq, q(x) ∝ exp(λ_x)·Π_y s(y)^{β p(y|x)}.

    Args:
        planes: (problems, letters) λ.
        betas: (problems,).
        points: (problems, points, letters of Y); returned in the same shape.
    """
    # Transposed, so that sums over a few letters run along the first axis, where numpy is fast.
    points = points.transpose(0, 2, 1)
    laws, beta, plane = letters.laws, betas[:, None, None], planes[:, :, None]
    for _ in range(steps):
        scores = plane + beta * (laws @ np.log(np.maximum(points, TINY)))
        q = np.exp(scores - scores.max(axis=1, keepdims=True))
        points = laws.T @ (q / q.sum(axis=1, keepdims=True))
    return points.transpose(0, 2, 1)


def log_z(letters: Letters, planes: Array, betas: Array, points: Array) -> Array:
    """log Z of points that each have their λ and β: (..., letters), (...) and (..., letters of Y) → (...)."""
    return log_sum(planes + betas[..., None] * (np.log(np.maximum(points, TINY)) @ letters.laws.T))


def _simplices(laws: Array) -> list[Array]:
    """A simplex around the laws of each block: the laws if they are few, else its letters of Y, drawn in."""
    simplices = []
    for here, there in blocks(laws):
        inside, corners = laws[here], np.eye(laws.shape[1])[there]
        least = inside.min(axis=0)
        simplices.append(inside if len(inside) <= len(corners) else least + (1 - least.sum()) * corners)
    return simplices


def _values_and_bounds(letters: Letters, planes: Array, betas: Array, cells: Array) -> tuple[Array, Array]:
    """log Z at the centre of every simplex, and an upper bound of log Z in it: (cells,) each.

    Args:
        planes: (letters, cells); betas: (cells,); cells: (corners, letters of Y, cells).
    """
    centres = np.maximum(cells.mean(axis=0), TINY)
    scores = planes + betas * (letters.laws @ np.log(centres))
    tangent = np.full(len(betas), -np.inf)
    for corner in cells:
        means = letters.laws @ (corner / centres)
        tangent = np.maximum(tangent, log_sum(scores + betas * np.log(np.maximum(means, TINY)), axis=0))
    largest = planes + betas * (letters.laws @ np.log(np.maximum(cells.max(axis=0), TINY)))
    return log_sum(scores, axis=0), np.minimum(tangent, log_sum(largest, axis=0))


def _bisect(cells: Array, of: Indices) -> tuple[Array, Indices]:
    """Halve every simplex at its longest edge: (corners, letters of Y, cells) → twice as many."""
    if len(cells) == 1:
        return cells[..., :0], of[:0]
    first, second = np.triu_indices(len(cells), 1)
    # Lengths in √s, a metric in which the error of the bound is even up to the boundary.
    roots = np.sqrt(cells)
    longest = ((roots[first] - roots[second]) ** 2).sum(axis=1).argmax(axis=0)
    left, first, second = np.arange(len(of)), first[longest], second[longest]
    middle = (cells[first, :, left] + cells[second, :, left]) / 2
    halves = np.concatenate([cells, cells], axis=2)
    halves[first, :, left] = halves[second, :, left + len(of)] = middle
    return halves, np.concatenate([of, of])
