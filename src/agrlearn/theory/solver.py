"""The global search behind `bottleneck`: several starts, splits at bifurcations, new clusters at counterexamples."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.optimize import nnls

from agrlearn.theory.certificate import Bound, ascend, bound_maxima, log_z, tangent_plane
from agrlearn.theory.distributions import Array
from agrlearn.theory.mixture import (
    TINY,
    Letters,
    Mixture,
    blocks,
    climb,
    encode,
    joined,
    likelihood,
    merge,
    with_cluster,
)

_ROUNDING = 1e-12
_ROUNDS = 40
_CERTAIN = 1e-6
_SHORT_LOOK = 10


def solve(letters: Letters, betas: Sequence[float], start: Mixture | None = None) -> list[tuple[Mixture, Bound]]:
    """The mixture of the largest G at each β > 1, and the bound that certifies it.

    Blocks of letters that share no letter of Y are solved one by one: to tell them apart raises I(X;T) and I(Y;T) by
    the same amount, so it pays for β > 1.

    Args:
        betas: in increasing order, so that the solution at one is close to the next.
        start: a mixture to climb from.
    """
    shares, solutions = [], []
    for here, there in blocks(letters.laws):
        shares.append(letters.p[here].sum())
        block = replace(letters, p=letters.p[here] / shares[-1], laws=letters.laws[here])
        solutions.append(_solve_block(block, betas, start and _restricted(start, there)))
    return [_side_by_side(shares, each) for each in zip(*solutions, strict=True)]


def _restricted(mixture: Mixture, there: np.ndarray) -> Mixture:
    """The clusters of a mixture, each as far as it reaches into some letters of Y."""
    joint = mixture.weights[:, None] * mixture.decoders * there
    weights = joint.sum(axis=1)
    kept = weights > 0
    return Mixture(weights[kept] / weights.sum(), joint[kept] / weights[kept, None])


def _side_by_side(shares: Sequence[float], solutions: Sequence[tuple[Mixture, Bound]]) -> tuple[Mixture, Bound]:
    """The solution of all blocks from those of each; log max Z is that of the worst block."""
    weights = [share * mixture.weights for share, (mixture, _) in zip(shares, solutions, strict=True)]
    decoders = [mixture.decoders for mixture, _ in solutions]
    worst = max((bound for _, bound in solutions), key=lambda bound: bound.upper)
    bound = replace(worst, proved=all(bound.proved for _, bound in solutions))
    return Mixture(np.concatenate(weights), np.concatenate(decoders)), bound


def _solve_block(letters: Letters, betas: Sequence[float], start: Mixture | None) -> list[tuple[Mixture, Bound]]:
    """`solve` for letters that hang together.

    Climbs from one β to the next (annealing), the first from `start`, or from one cluster per letter. Two steps improve
    a mixture: a cluster where Z curves upwards has passed its bifurcation and is split; a point where log Z > 0
    contradicts optimality and becomes a new cluster. All β are certified in one search. Where it finds a
    counterexample, both steps are repeated until nothing is found, then from one cluster per letter if it is still not
    certain.
    """
    one_per_letter = Mixture(letters.p, letters.laws)
    mixtures: list[Mixture] = []
    for beta in betas:
        mixtures.append(_anneal(letters, mixtures[-1] if mixtures else start or one_per_letter, beta))
    found = []
    for i, result in enumerate(_certify(letters, mixtures, betas)):
        mixture, beta = mixtures[i], betas[i]
        if isinstance(result, Mixture):
            mixture, result = _improve(letters, result, beta)
        if (start or i > 0) and not (result.proved and result.upper < _CERTAIN):
            other = _climb_from(letters, one_per_letter, beta)
            best = max(mixture, other, key=lambda each: likelihood(letters, each, beta))
            mixture, result = _improve(letters, best, beta)
        found.append((mixture, result))
    return found


def _climb_from(letters: Letters, start: Mixture, beta: float) -> Mixture:
    # A probability that starts at 0 would stay at 0, even where the optimum is not 0.
    labels = letters.p @ letters.laws
    return climb(letters, Mixture(start.weights, 0.999 * start.decoders + 0.001 * labels), beta)


def _anneal(letters: Letters, start: Mixture, beta: float) -> Mixture:
    """Climb from the solution at another β, split, and add the clusters that a short look finds."""
    mixture = _climb_from(letters, start, beta)
    for _ in range(_ROUNDS):
        mixture = _split(letters, mixture, beta)
        plane, one = tangent_plane(letters, mixture, beta)[None], np.array([beta])
        grown = _grow(letters, mixture, beta, ascend(letters, plane, one, letters.laws[None], steps=_SHORT_LOOK)[0])
        if grown is None:
            break
        mixture = grown
    return mixture


def _improve(letters: Letters, mixture: Mixture, beta: float) -> tuple[Mixture, Bound]:
    """Split and add clusters until no counterexample is left."""
    for _ in range(_ROUNDS):
        mixture = _split(letters, mixture, beta)
        (result,) = _certify(letters, [mixture], [beta])
        if isinstance(result, Bound):
            return mixture, result
        mixture = result
    return mixture, bound_at(letters, mixture, beta)


def _certify(letters: Letters, mixtures: Sequence[Mixture], betas: Sequence[float]) -> list[Mixture | Bound]:
    """For each mixture the bound that certifies it, or a better mixture if there is a counterexample."""
    planes, points = _local_maxima(letters, mixtures, np.array(betas))
    results: list[Mixture | Bound | None] = [
        _grow(letters, mixture, beta, each) for mixture, beta, each in zip(mixtures, betas, points, strict=True)
    ]
    rest = [i for i, grown in enumerate(results) if grown is None]
    for i, bound in zip(rest, _bounds(letters, planes[rest], np.array(betas)[rest], points[rest]), strict=True):
        results[i] = bound
        if not (points[i] == bound.point).all(axis=1).any():
            highest = ascend(letters, planes[i : i + 1], np.array(betas[i : i + 1]), bound.point[None, None])[0]
            results[i] = _grow(letters, mixtures[i], betas[i], highest) or bound
    return [result for result in results if result is not None]


def bound_at(letters: Letters, mixture: Mixture, beta: float) -> Bound:
    """The bound of log max Z for the plane of any mixture, optimal or not."""
    planes, points = _local_maxima(letters, [mixture], np.array([beta]))
    return _bounds(letters, planes, np.array([beta]), points)[0]


def _bounds(letters: Letters, planes: Array, betas: Array, points: Array) -> list[Bound]:
    """Bounds of log max Z; points: (problems, candidates, letters of Y) for where the maximum is."""
    best = log_z(letters, planes[:, None], betas[:, None], points).argmax(axis=1)
    return bound_maxima(letters, planes, betas, points[np.arange(len(betas)), best])


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


def _local_maxima(letters: Letters, mixtures: Sequence[Mixture], betas: Array) -> tuple[Array, Array]:
    """The plane of each mixture, and local maxima of its Z: from the laws, their midpoints and random mixtures of them.

    Returns:
        (mixtures, letters) and (mixtures, points, letters of Y).
    """
    laws = letters.laws
    planes = np.array([tangent_plane(letters, *each) for each in zip(mixtures, betas, strict=True)])
    random = np.random.default_rng(0).dirichlet(np.full(len(laws), 0.5), 32) @ laws
    few = laws[np.argsort(-letters.p)[:12]]
    midpoints = (few[:, None] + few[None])[np.triu_indices(len(few), 1)] / 2
    starts = np.concatenate([laws, midpoints, random, (letters.p @ laws)[None]])
    return planes, ascend(letters, planes, betas, np.broadcast_to(starts, (len(betas), *starts.shape)))


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
    heights = log_z(letters, tangent_plane(letters, mixture, beta), np.array(beta), points)
    points = points[heights.argsort()[::-1]][: (heights > _ROUNDING).sum()]
    if not len(points):
        return None
    _, first = np.unique(points.round(6), axis=0, return_index=True)
    grown = mixture
    for point in points[np.sort(first)]:
        candidate = with_cluster(letters, grown, beta, point)
        if likelihood(letters, candidate, beta) > likelihood(letters, grown, beta):
            grown = candidate
    if grown is mixture:
        return None
    grown = climb(letters, grown, beta)
    return grown if likelihood(letters, grown, beta) > likelihood(letters, mixture, beta) + 1e-14 else None
