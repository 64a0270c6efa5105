"""The global search behind `bottleneck`: several starts, splits at bifurcations, new clusters at counterexamples."""

import numpy as np
from scipy.optimize import nnls

from agrlearn.theory.certificate import Bound, ascend, bound_maximum, log_z, tangent_plane
from agrlearn.theory.distributions import Array
from agrlearn.theory.mixture import TINY, Letters, Mixture, climb, encode, joined, likelihood, merge, with_cluster

_ROUNDING = 1e-12
_ROUNDS = 40
_CERTAIN = 1e-6


def solve(letters: Letters, beta: float, start: Mixture | None = None) -> tuple[Mixture, Bound]:
    """The mixture of the largest G at β > 1, and the bound that certifies it.

    Climbs from `start` (annealing: the solution at a nearby β), or from one cluster per letter if there is no start or
    if its result cannot be certified. Then it repeats two steps until neither finds anything: a cluster where Z curves
    upwards has passed its bifurcation and is split; a point where log Z > 0 contradicts optimality and becomes a new
    cluster.
    """
    one_per_letter = Mixture(letters.p, letters.laws)
    if start is None:
        return _improve(letters, _climb_from(letters, one_per_letter, beta), beta)
    mixture, bound = _improve(letters, _climb_from(letters, start, beta), beta)
    if bound.proved and bound.upper < _CERTAIN:
        return mixture, bound
    other = _climb_from(letters, one_per_letter, beta)
    return _improve(letters, max(mixture, other, key=lambda each: likelihood(letters, each, beta)), beta)


def _climb_from(letters: Letters, start: Mixture, beta: float) -> Mixture:
    # A probability that starts at 0 would stay at 0, even where the optimum is not 0.
    labels = letters.p @ letters.laws
    return climb(letters, Mixture(start.weights, 0.999 * start.decoders + 0.001 * labels), beta)


def _improve(letters: Letters, mixture: Mixture, beta: float) -> tuple[Mixture, Bound]:
    """Split and add clusters until no counterexample is left."""
    for _ in range(_ROUNDS):
        mixture = _split(letters, mixture, beta)
        found = _ascend_from_everywhere(letters, mixture, beta)
        grown = _grow(letters, mixture, beta, found)
        if grown is None:
            bound = bound_at(letters, mixture, beta, found)
            plane = tangent_plane(letters, mixture, beta)
            grown = _grow(letters, mixture, beta, ascend(letters, plane, beta, bound.point[None]))
            if grown is None:
                return mixture, bound
        mixture = grown
    return mixture, bound_at(letters, mixture, beta)


def bound_at(letters: Letters, mixture: Mixture, beta: float, points: Array | None = None) -> Bound:
    """The bound of log max Z for the plane of any mixture, optimal or not; `points` are candidates for the maximum."""
    plane = tangent_plane(letters, mixture, beta)
    points = _ascend_from_everywhere(letters, mixture, beta) if points is None else points
    return bound_maximum(letters, plane, beta, points[log_z(letters, plane, beta, points).argmax()])


def limit_clusters(letters: Letters, mixture: Mixture, beta: float, clusters: int) -> Mixture:
    """A mixture of at most `clusters` clusters: an equally good one if it exists, else merged pair by pair."""
    if len(mixture.weights) > clusters:
        encoder = encode(letters, mixture, beta)
        posteriors = encoder * letters.p[:, None] / (letters.p @ encoder)
        # A vertex of the set of weights that keep p(x): at most as many clusters as letters, with the same G.
        weights, _ = nnls(posteriors, letters.p)
        mixture = climb(letters, merge(letters, Mixture(weights / weights.sum(), mixture.decoders), beta), beta)
    while len(mixture.weights) > clusters:
        candidates = [joined(mixture, t, u) for u in range(len(mixture.weights)) for t in range(u)]
        mixture = climb(letters, max(candidates, key=lambda each: likelihood(letters, each, beta)), beta)
    return mixture


def _ascend_from_everywhere(letters: Letters, mixture: Mixture, beta: float) -> Array:
    """Local maxima of Z, from the laws, the clusters, the midpoints of laws, and random mixtures of laws."""
    laws = letters.laws
    random = np.random.default_rng(0).dirichlet(np.full(len(laws), 0.5), 32) @ laws
    few = laws[np.argsort(-letters.p)[:12]]
    midpoints = (few[:, None] + few[None])[np.triu_indices(len(few), 1)] / 2
    starts = np.concatenate([laws, mixture.decoders, midpoints, random, (letters.p @ laws)[None]])
    return ascend(letters, tangent_plane(letters, mixture, beta), beta, starts)


def _split(letters: Letters, mixture: Mixture, beta: float) -> Mixture:
    """Split clusters that are saddle points along their unstable direction, and climb."""
    for _ in range(len(letters.p)):
        encoder = encode(letters, mixture, beta)
        best, value = mixture, likelihood(letters, mixture, beta)
        for t in range(len(mixture.weights)):
            direction = _unstable_direction(letters, encoder[:, t], mixture.decoders[t], beta)
            if direction is None:
                continue
            weights = np.append(mixture.weights, mixture.weights[t] / 2)
            weights[t] /= 2
            for length in np.geomspace(1e-5, 1.0, 11):
                decoders = np.vstack([mixture.decoders, mixture.decoders[t] + length * direction])
                decoders[t] -= length * direction
                reached = likelihood(letters, Mixture(weights, decoders), beta)
                if reached > value:
                    best, value = Mixture(weights, decoders), reached
        if best is mixture:
            return mixture
        mixture = climb(letters, best, beta)
    return mixture


def _unstable_direction(letters: Letters, responsibility: Array, decoder: Array, beta: float) -> Array | None:
    """A direction in the simplex of Y along which Z has positive curvature at a cluster, if there is one.

    The condition is β·σ₂² > 1, where σ₂ is the second singular value of p(x, y) within the cluster.
    """
    posterior = letters.p * responsibility
    root = np.sqrt(np.maximum(decoder, TINY))
    correlation = np.sqrt(posterior / posterior.sum())[:, None] * letters.laws / root
    _, values, directions = np.linalg.svd(correlation, full_matrices=False)
    if len(values) < 2 or beta * values[1] ** 2 < 1 + 1e-10:
        return None
    direction = root * directions[1]
    direction -= decoder * direction.sum()
    moving = np.abs(direction) > 1e-12
    reach = (decoder[moving] / np.abs(direction[moving])).min(initial=np.inf)
    return np.asarray(0.9 * min(reach, 1.0) * direction)


def _grow(letters: Letters, mixture: Mixture, beta: float, points: Array) -> Mixture | None:
    """Add clusters at the points where log Z > 0, each with the weight that is best for G, and climb."""
    heights = log_z(letters, tangent_plane(letters, mixture, beta), beta, points)
    above = heights > _ROUNDING
    grown = mixture
    for point in points[above][heights[above].argsort()[::-1]]:
        candidate = with_cluster(letters, grown, beta, point)
        if likelihood(letters, candidate, beta) > likelihood(letters, grown, beta):
            grown = candidate
    if grown is mixture:
        return None
    grown = climb(letters, grown, beta)
    return grown if likelihood(letters, grown, beta) > likelihood(letters, mixture, beta) + 1e-14 else None
