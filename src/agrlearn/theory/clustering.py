"""Clustering of weighted vectors of laws under KL: exact for a few points, by Lloyd and exchange steps for many.

The cost of a partition is Σ over its clusters c and places i of h(S_ci), where S_ci(y) is the mass of (c, y_i) and
h(S) = −Σ_y S(y) log(S(y)/ΣS). It is the distortion times n, in nats, up to a constant of the points.
"""

import numpy as np
from numpy.random import Generator
from scipy.special import xlogy

from agrlearn.theory.codes import Indices
from agrlearn.theory.subsets import best_partition
from agrlearn.theory.tables import Array

_NOTHING = 1e-13
_RANDOM_STARTS = 4


def cluster_exactly(p: Array, laws: Array, clusters: int) -> Indices:
    """The labels of the least cost, by dynamic programming over subsets.

    Args:
        p: (points,) their weights; at most 16 points.
        laws: (points, places, letters of Y).
        clusters: at most so many.
    """
    masses = np.zeros((1, *laws.shape[1:]))
    for mass in p[:, None, None] * laws:
        masses = np.concatenate([masses, masses + mass])
    _, sets = best_partition(remaining_entropy(masses), clusters)
    labels = np.zeros(len(p), dtype=np.int64)
    for label, members in enumerate(sets):
        labels[(members >> np.arange(len(p))) & 1 == 1] = label
    return labels


def cluster_by_exchange(
    p: Array, laws: Array, clusters: int, starts: list[Indices], random: Generator, *, tries: int
) -> Indices:
    """The best labels found from some starts and from random ones, each improved by Lloyd and exchange steps.

    Never worse than the best of `starts`.

    Args:
        tries: how often the best labels are shaken (a quarter of the points moved at random) and improved again.
    """
    random_starts = [_spread_start(p, laws, clusters, random) for _ in range(_RANDOM_STARTS)]
    found = [exchange(p, laws, start, clusters) for start in (*starts, *random_starts)]
    best = min(found, key=lambda labels: cost(p, laws, labels, clusters))
    for _ in range(tries):
        shaken = best.copy()
        moved = random.choice(len(p), size=max(2, len(p) // 4), replace=False)
        shaken[moved] = random.integers(clusters, size=len(moved))
        candidate = exchange(p, laws, shaken, clusters)
        if cost(p, laws, candidate, clusters) < cost(p, laws, best, clusters):
            best = candidate
    return best


def exchange(p: Array, laws: Array, labels: Indices, clusters: int) -> Indices:
    """Lloyd steps while they help, then Hartigan's: again and again the one move of a point that saves most."""
    labels = _lloyd(p, laws, labels, clusters)
    points = p[:, None, None] * laws
    masses = _masses(points, labels, clusters)
    joining = remaining_entropy(points[:, None] + masses) - remaining_entropy(masses)
    leaving = _leaving(points, masses[labels])
    everyone = np.arange(len(p))
    while True:
        change = joining - leaving[:, None]
        change[everyone, labels] = 0.0
        point, target = (int(i) for i in np.unravel_index(np.argmin(change), change.shape))
        if change[point, target] > -_NOTHING:
            return labels
        both = [int(labels[point]), target]
        labels[point] = target
        # Summed anew rather than updated, so that no rounding errors gather.
        masses[both] = np.stack([points[labels == each].sum(axis=0) for each in both])
        joining[:, both] = remaining_entropy(points[:, None] + masses[both]) - remaining_entropy(masses[both])
        members = np.isin(labels, both)
        leaving[members] = _leaving(points[members], masses[labels[members]])


def cost(p: Array, laws: Array, labels: Indices, clusters: int) -> float:
    """Σ_c Σ_i h(S_ci), in nats."""
    return float(remaining_entropy(_masses(p[:, None, None] * laws, labels, clusters)).sum())


def remaining_entropy(masses: Array) -> Array:
    """Σ_i h(S_i): (..., places, letters of Y) → (...)."""
    totals = masses.sum(axis=-1)
    return np.asarray(xlogy(totals, totals).sum(axis=-1) - xlogy(masses, masses).sum(axis=(-2, -1)))


def _leaving(points: Array, own: Array) -> Array:
    """What the own cluster saves when a point leaves it: (points,)."""
    return np.asarray(remaining_entropy(own) - remaining_entropy(np.maximum(own - points, 0.0)))


def _masses(points: Array, labels: Indices, clusters: int) -> Array:
    """The mass of (cluster, place, y): (clusters, places, letters of Y)."""
    masses = np.zeros((clusters, *points.shape[1:]))
    np.add.at(masses, labels, points)
    return masses


def _lloyd(p: Array, laws: Array, labels: Indices, clusters: int) -> Indices:
    """Each point to the cluster whose mean law is nearest in KL, as long as the cost falls."""
    points = p[:, None, None] * laws
    value = cost(p, laws, labels, clusters)
    while True:
        masses = _masses(points, labels, clusters)
        totals = masses.sum(axis=2, keepdims=True)
        means = masses / np.where(totals > 0, totals, 1.0)
        nearest = _nearest(laws, means)
        reached = cost(p, laws, nearest, clusters)
        if reached >= value - _NOTHING:
            return labels.copy()
        labels, value = nearest, reached


def _nearest(laws: Array, means: Array) -> Indices:
    """The mean of the least Σ_i KL(law_i ‖ mean_i) for every point: (points,)."""
    log_means = np.log(np.maximum(means, 1e-300)).reshape(len(means), -1)
    return np.argmax(laws.reshape(len(laws), -1) @ log_means.T, axis=1)


def _spread_start(p: Array, laws: Array, clusters: int, random: Generator) -> Indices:
    """Means drawn one after another among the points, far from those before (k-means++ under KL)."""
    flat = np.log(np.maximum(laws, 1e-12)).reshape(len(laws), -1)
    own = (laws.reshape(len(laws), -1) * flat).sum(axis=1)
    chosen = [int(random.choice(len(p), p=p / p.sum()))]
    distance = own - laws.reshape(len(laws), -1) @ flat[chosen[0]]
    while len(chosen) < clusters:
        weights = p * np.maximum(distance, 0.0) + 1e-300
        chosen.append(int(random.choice(len(p), p=weights / weights.sum())))
        distance = np.minimum(distance, own - laws.reshape(len(laws), -1) @ flat[chosen[-1]])
    return _nearest(laws, laws[chosen])
