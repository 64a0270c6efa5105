"""Clustering of weighted vectors of laws under KL: exact for a few points, by Lloyd and exchange steps for many.

Points come as masses (points, places, letters of Y): a point's weight times its law at every place. A partition costs
the sum of h(S_ci) over its clusters c and places i, where S_ci(y) is the mass of (c, y_i) and
h(S) = −Σ_y S(y) log(S(y)/ΣS). Up to a constant of the points, this is n times the distortion, in nats.
"""

import numpy as np
from numpy.random import Generator
from scipy.special import entr

from agrlearn.theory.codes import Indices
from agrlearn.theory.distributions import Array
from agrlearn.theory.subsets import best_partition

_ROUNDING = 1e-13
_RANDOM_STARTS = 4


def cluster_exactly(points: Array, clusters: int) -> Indices:
    """The labels of the least cost, by dynamic programming over the subsets of at most 16 points."""
    masses = np.zeros((1, *points.shape[1:]))
    for point in points:
        masses = np.concatenate([masses, masses + point])
    _, sets = best_partition(remaining_entropy(masses), clusters)
    labels = np.zeros(len(points), dtype=np.int64)
    for label, members in enumerate(sets):
        labels[(members >> np.arange(len(points))) & 1 == 1] = label
    return labels


def cluster_by_exchange(points: Array, clusters: int, starts: list[Indices], random: Generator, tries: int) -> Indices:
    """The best labels found from `starts` and from random starts; never worse than the best of `starts`.

    Args:
        tries: how often the best labels are perturbed (a quarter of the points move at random) and improved again.
    """
    random_starts = [_spread_start(points, clusters, random) for _ in range(_RANDOM_STARTS)]
    found = [_exchange(points, start, clusters) for start in (*starts, *random_starts)]
    best = min(found, key=lambda labels: cost(points, labels, clusters))
    for _ in range(tries):
        perturbed = best.copy()
        moved = random.choice(len(points), size=max(2, len(points) // 4), replace=False)
        perturbed[moved] = random.integers(clusters, size=len(moved))
        candidate = _exchange(points, perturbed, clusters)
        if cost(points, candidate, clusters) < cost(points, best, clusters):
            best = candidate
    return best


def cost(points: Array, labels: Indices, clusters: int) -> float:
    """Σ_c Σ_i h(S_ci), in nats."""
    return float(remaining_entropy(_masses(points, labels, clusters)).sum())


def remaining_entropy(masses: Array) -> Array:
    """Σ_i h(S_i): (..., places, letters of Y) → (...)."""
    return np.asarray(entr(masses).sum(axis=(-2, -1)) - entr(masses.sum(axis=-1)).sum(axis=-1))


def _exchange(points: Array, labels: Indices, clusters: int) -> Indices:
    """Lloyd steps while they help, then Hartigan's: repeat the single move of a point that saves most."""
    labels = _lloyd(points, labels, clusters)
    masses = _masses(points, labels, clusters)
    joining = remaining_entropy(points[:, None] + masses) - remaining_entropy(masses)
    leaving = _saved_by_leaving(points, masses[labels])
    rows = np.arange(len(points))
    while True:
        change = joining - leaving[:, None]
        change[rows, labels] = 0.0
        point, target = (int(i) for i in np.unravel_index(np.argmin(change), change.shape))
        if change[point, target] > -_ROUNDING:
            return labels
        both = [int(labels[point]), target]
        labels[point] = target
        # Summed again rather than updated, so that rounding errors do not accumulate.
        masses[both] = np.stack([points[labels == label].sum(axis=0) for label in both])
        joining[:, both] = remaining_entropy(points[:, None] + masses[both]) - remaining_entropy(masses[both])
        members = np.isin(labels, both)
        leaving[members] = _saved_by_leaving(points[members], masses[labels[members]])


def _saved_by_leaving(points: Array, masses: Array) -> Array:
    """How much the cost of its cluster falls when a point leaves it: (points,)."""
    return np.asarray(remaining_entropy(masses) - remaining_entropy(np.maximum(masses - points, 0.0)))


def _masses(points: Array, labels: Indices, clusters: int) -> Array:
    """The mass of (cluster, place, y): (clusters, places, letters of Y)."""
    masses = np.zeros((clusters, *points.shape[1:]))
    np.add.at(masses, labels, points)
    return masses


def _lloyd(points: Array, labels: Indices, clusters: int) -> Indices:
    """Each point to the cluster whose mean law is nearest in KL, as long as the cost falls."""
    value = cost(points, labels, clusters)
    while True:
        nearest = _nearest(points, _masses(points, labels, clusters))
        reached = cost(points, nearest, clusters)
        if reached >= value - _ROUNDING:
            return labels.copy()
        labels, value = nearest, reached


def _nearest(points: Array, masses: Array) -> Indices:
    """For every point, the mass whose law has the least Σ_i KL(law of the point_i ‖ law_i): (points,)."""
    totals = masses.sum(axis=2, keepdims=True)
    log_laws = np.log(np.maximum(masses / np.where(totals > 0, totals, 1.0), 1e-300))
    return np.argmax(points.reshape(len(points), -1) @ log_laws.reshape(len(masses), -1).T, axis=1)


def _spread_start(points: Array, clusters: int, random: Generator) -> Indices:
    """Means drawn one after another among the points, far from those before (k-means++ under KL)."""
    weights = points.sum(axis=(1, 2)) / points.shape[1]
    laws = (points / np.where(weights > 0, weights, 1.0)[:, None, None]).reshape(len(points), -1)
    log_laws = np.log(np.maximum(laws, 1e-12))
    chosen = [int(random.choice(len(points), p=weights / weights.sum()))]
    own = (laws * log_laws).sum(axis=1)
    distances = np.full(len(points), np.inf)
    while len(chosen) < clusters:
        distances = np.minimum(distances, own - laws @ log_laws[chosen[-1]])
        chances = weights * np.maximum(distances, 0.0) + 1e-300
        chosen.append(int(random.choice(len(points), p=chances / chances.sum())))
    return _nearest(points, points[chosen])
