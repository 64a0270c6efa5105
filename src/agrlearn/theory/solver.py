"""The global search behind `bottleneck`: several starts, splits at bifurcations, and repair by counterexample."""

import numpy as np
from scipy.optimize import nnls

from agrlearn.theory.certificate import Bound, ascend, bound_maximum, log_z, tangent_plane
from agrlearn.theory.mixture import (
    TINY,
    Letters,
    Mixture,
    climb,
    encode,
    joined,
    likelihood,
    log_evidence,
    log_likelihoods,
    merge,
)
from agrlearn.theory.tables import Array

_NOTHING = 1e-12
_ROUNDS = 40
_CERTAIN = 1e-6


def solve(letters: Letters, beta: float, start: Mixture | None = None) -> tuple[Mixture, Bound]:
    """The mixture of the largest G at β > 1, and the bound that certifies it.

    Climbs from `start` (the solution at a near β: annealing), or from every letter by itself where there is none or
    where what it leads to cannot be certified. Then, until nothing is found: a cluster where Z curves upwards has
    passed its bifurcation and is split; a point where log Z > 0 contradicts optimality and becomes a new cluster.
    """
    alone = Mixture(letters.p, letters.laws)
    if start is None:
        return _improved(letters, _started(letters, alone, beta), beta)
    mixture, bound = _improved(letters, _started(letters, start, beta), beta)
    if bound.proved and bound.upper < _CERTAIN:
        return mixture, bound
    other = _started(letters, alone, beta)
    best = max(mixture, other, key=lambda each: likelihood(letters, each, beta))
    return _improved(letters, best, beta)


def _started(letters: Letters, start: Mixture, beta: float) -> Mixture:
    # A probability that starts at 0 would stay there, even where it belongs elsewhere.
    labels = letters.p @ letters.laws
    return climb(letters, Mixture(start.weights, 0.999 * start.decoders + 0.001 * labels), beta)


def _improved(letters: Letters, mixture: Mixture, beta: float) -> tuple[Mixture, Bound]:
    """Split and grow until no counterexample is left."""
    for _ in range(_ROUNDS):
        mixture = _split(letters, mixture, beta)
        plane = tangent_plane(letters, mixture, beta)
        found = ascend(letters, plane, beta, search_points(letters, mixture))
        grown = _grow(letters, mixture, beta, found)
        if grown is None:
            bound = bound_maximum(letters, plane, beta, found[log_z(letters, plane, beta, found).argmax()])
            grown = _grow(letters, mixture, beta, ascend(letters, plane, beta, bound.point[None]))
            if grown is None:
                return mixture, bound
        mixture = grown
    return mixture, bound_at(letters, mixture, beta)


def bound_at(letters: Letters, mixture: Mixture, beta: float) -> Bound:
    """The bound of log max Z for the plane that any mixture gives, the best or not."""
    plane = tangent_plane(letters, mixture, beta)
    found = ascend(letters, plane, beta, search_points(letters, mixture))
    return bound_maximum(letters, plane, beta, found[log_z(letters, plane, beta, found).argmax()])


def limit_clusters(letters: Letters, mixture: Mixture, beta: float, clusters: int) -> Mixture:
    """A mixture of at most `clusters` clusters: an equally good one if there is, else merged pair by pair."""
    if len(mixture.weights) > clusters:
        encoder = encode(letters, mixture, beta)
        posteriors = encoder * letters.p[:, None] / (letters.p @ encoder)
        # A corner of the set of weights that keep p(x): at most as many clusters as letters, at the same G.
        weights, _ = nnls(posteriors, letters.p)
        mixture = climb(letters, merge(letters, Mixture(weights / weights.sum(), mixture.decoders), beta), beta)
    while len(mixture.weights) > clusters:
        candidates = [joined(mixture, t, u) for u in range(len(mixture.weights)) for t in range(u)]
        best = max(candidates, key=lambda each: likelihood(letters, each, beta))
        mixture = climb(letters, best, beta)
    return mixture


def search_points(letters: Letters, mixture: Mixture) -> Array:
    """Where to look for counterexamples: the laws, the clusters, what lies between, and random mixtures of laws."""
    laws = letters.laws
    random = np.random.default_rng(0).dirichlet(np.full(len(laws), 0.5), 32) @ laws
    few = laws[np.argsort(-letters.p)[:12]]
    between = (few[:, None] + few[None])[np.triu_indices(len(few), 1)] / 2
    return np.concatenate([laws, mixture.decoders, between, random, (letters.p @ laws)[None]])


def _split(letters: Letters, mixture: Mixture, beta: float) -> Mixture:
    """Split every cluster that is a saddle, along its unstable direction, and climb on."""
    for _ in range(len(letters.p)):
        encoder = encode(letters, mixture, beta)
        best, value = mixture, likelihood(letters, mixture, beta)
        for t in range(len(mixture.weights)):
            direction = _unstable_direction(letters, encoder[:, t], mixture.decoders[t], beta)
            if direction is None:
                continue
            for length in np.geomspace(1e-5, 1.0, 11):
                moved = _halves(mixture, t, length * direction)
                reached = likelihood(letters, moved, beta)
                if reached > value:
                    best, value = moved, reached
        if best is mixture:
            return mixture
        mixture = climb(letters, best, beta)
    return mixture


def _unstable_direction(letters: Letters, responsibility: Array, decoder: Array, beta: float) -> Array | None:
    """A direction of the simplex of Y along which Z has positive curvature at a cluster, if there is one.

    Within the cluster this is the condition β·σ₂² > 1 on the second singular value of its own p(x, y).
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


def _halves(mixture: Mixture, t: int, step: Array) -> Mixture:
    weights, decoders = mixture.weights.copy(), mixture.decoders.copy()
    weights[t] /= 2
    decoders[t] -= step
    return Mixture(np.append(weights, weights[t]), np.vstack([decoders, mixture.decoders[t] + step]))


def _grow(letters: Letters, mixture: Mixture, beta: float, points: Array) -> Mixture | None:
    """Make new clusters of the points where log Z > 0, each with the weight that serves G best, and climb on."""
    heights = log_z(letters, tangent_plane(letters, mixture, beta), beta, points)
    value = likelihood(letters, mixture, beta)
    grown = mixture
    for point in points[heights > _NOTHING][heights[heights > _NOTHING].argsort()[::-1]]:
        candidate = _with_cluster(letters, grown, beta, point)
        if likelihood(letters, candidate, beta) > likelihood(letters, grown, beta):
            grown = candidate
    if grown is mixture:
        return None
    grown = climb(letters, grown, beta)
    return grown if likelihood(letters, grown, beta) > value + 1e-14 else None


def _with_cluster(letters: Letters, mixture: Mixture, beta: float, point: Array) -> Mixture:
    """A mixture with one more cluster, or with a cluster moved if it is already close to the point."""
    distances = np.abs(mixture.decoders - point).max(axis=1)
    if distances.min() < 1e-4:
        decoders = mixture.decoders.copy()
        decoders[distances.argmin()] = point
        return Mixture(mixture.weights, decoders)
    shares = np.geomspace(1e-9, 0.5, 30)
    before = log_evidence(letters, mixture, beta)[:, None]
    own = log_likelihoods(letters, point[None], beta)
    gains = letters.p @ np.logaddexp(np.log1p(-shares) + before, np.log(shares) + own)
    share = shares[gains.argmax()]
    return Mixture(np.append((1 - share) * mixture.weights, share), np.vstack([mixture.decoders, point]))
