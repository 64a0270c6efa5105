"""The bottleneck as the likelihood of a mixture, and how to climb it.

Given decoders s_t = p(y|t) and weights w_t = p(t), the best encoder is p(t|x) ∝ w_t·Π_y s_t(y)^{β p(y|x)}, and then

    I(X;T) − β·I(Y;T)  ≤  −β·H(Y) − G(w, s),    G = Σ_x p(x) log g(x),    g(x) = Σ_t w_t·Π_y s_t(y)^{β p(y|x)},

with equality at a fixed point. G is the log likelihood of a mixture whose components are points s of the simplex of Y.
So the bottleneck is the maximum likelihood problem of Lindsay (1983), the iteration of Tishby, Pereira and Bialek
(1999) is its EM algorithm, and (w, s) is optimal exactly if Σ_x p(x)/g(x)·Π_y s(y)^{β p(y|x)} ≤ 1 for every s.
"""

from dataclasses import dataclass

import numpy as np
from scipy.sparse.csgraph import connected_components

from agrlearn.theory.distributions import Array, conditional_law

TINY = 1e-300
_ROUNDING = 1e-13
_STEPS = 60


@dataclass(frozen=True)
class Letters:
    """The distinct letters of X: those of equal p(y|x) count as one, those of probability 0 are left out.

    p: (letters,) their probabilities.
    laws: (letters, letters of Y) p(y|x), without letters of Y of probability 0.
    of_row: (rows,) the letter of each row of the table, −1 for a row of probability 0.
    shares: (letters, rows) the share that each row has in a letter.
    """

    p: Array
    laws: Array
    of_row: np.ndarray
    shares: Array


@dataclass(frozen=True)
class Mixture:
    """weights: (clusters,) p(t); decoders: (clusters, letters of Y) p(y|t)."""

    weights: Array
    decoders: Array


def distinct_letters(joint: Array) -> Letters:
    """The part of a joint table that matters for the bottleneck (its minimal sufficient statistic)."""
    used = joint.sum(axis=1) > 0
    laws = conditional_law(joint[used])
    alike = np.abs(laws[:, None] - laws[None]).max(axis=2) < 1e-12
    first, letter = np.unique(alike.argmax(axis=1), return_inverse=True)
    of_row = np.full(len(joint), -1)
    of_row[used] = letter
    members = of_row == np.arange(len(first))[:, None]
    merged = members @ joint[:, joint.sum(axis=0) > 0]
    p = merged.sum(axis=1)
    return Letters(p, conditional_law(merged), of_row, members * joint.sum(axis=1) / p[:, None])


def blocks(laws: Array) -> list[tuple[np.ndarray, np.ndarray]]:
    """The letters of X and those of Y of each block: letters of different blocks have no letter of Y in common."""
    number, block = connected_components((laws > 0) @ (laws > 0).T)
    return [(block == i, laws[block == i].any(axis=0)) for i in range(number)]


def log_likelihoods(letters: Letters, decoders: Array, beta: float) -> Array:
    """β·Σ_y p(y|x) log s(y) for every letter and decoder: (letters, decoders)."""
    return beta * letters.laws @ np.log(np.maximum(decoders, TINY)).T


def _scores(letters: Letters, mixture: Mixture, beta: float) -> Array:
    """log(w_t·Π_y s_t(y)^{β p(y|x)}): (letters, clusters)."""
    return np.log(np.maximum(mixture.weights, TINY)) + log_likelihoods(letters, mixture.decoders, beta)


def log_evidence(letters: Letters, mixture: Mixture, beta: float) -> Array:
    """log g(x): (letters,)."""
    return log_sum(_scores(letters, mixture, beta))


def log_sum(scores: Array, axis: int = -1) -> Array:
    """log Σ exp over an axis; scipy's logsumexp is several times slower."""
    top = scores.max(axis=axis, keepdims=True)
    return np.asarray(np.log(np.exp(scores - top).sum(axis=axis)) + top.squeeze(axis))


def likelihood(letters: Letters, mixture: Mixture, beta: float) -> float:
    """G(w, s), which is to be maximized."""
    return float(letters.p @ log_evidence(letters, mixture, beta))


def encode(letters: Letters, mixture: Mixture, beta: float) -> Array:
    """The best encoder p(t|x) for given weights and decoders: (letters, clusters)."""
    return _encode(letters, mixture, beta)[0]


def _encode(letters: Letters, mixture: Mixture, beta: float) -> tuple[Array, float]:
    """The best encoder and G, for the price of one of them."""
    scores = _scores(letters, mixture, beta)
    top = scores.max(axis=1, keepdims=True)
    ratios = np.exp(scores - top)
    sums = ratios.sum(axis=1, keepdims=True)
    return ratios / sums, float(letters.p @ (np.log(sums) + top)[:, 0])


def decode(letters: Letters, encoder: Array) -> Mixture:
    """The weights and decoders of an encoder, without letters of T that are never used."""
    joint = (encoder * letters.p[:, None]).T
    weights = joint.sum(axis=1)
    joint, weights = joint[weights > 0], weights[weights > 0]
    return Mixture(weights, joint @ letters.laws / weights[:, None])


def climb(letters: Letters, mixture: Mixture, beta: float) -> Mixture:
    """Raise G to a stationary point: EM steps, each followed by a Newton step on log p(t, y) if that raises G.

    EM alone contracts by a factor that goes to 1 at a bifurcation, where it stalls. In the coordinates √m·log m of
    m = p(t, y) its step is the gradient, and the eigenvalues of the Hessian are that factor − 1. Dividing by their
    absolute values accelerates it.
    """
    encoder, value = _encode(letters, mixture, beta)
    for _ in range(_STEPS):
        mixture = merge(letters, decode(letters, encoder), beta)
        encoder, value = _encode(letters, mixture, beta)
        direction, slope = _newton_direction(letters, mixture, encoder, beta)
        # In logarithms, since a rare cluster hardly changes G, but it changes the certificate. The error after so short
        # a step is about its square; what it gains can be less than the rounding of G.
        is_last = slope < _ROUNDING and np.abs(direction).max() < 1e-6
        for length in (1.0, 1 / 4, 1 / 16, 1 / 64, 1 / 256):
            m = mixture.weights[:, None] * mixture.decoders * np.exp(length * direction)
            mass = m.sum(axis=1)
            trial = Mixture(mass / mass.sum(), m / mass[:, None])
            its_encoder, reached = _encode(letters, trial, beta)
            if is_last or reached > value:
                mixture, encoder, value = trial, its_encoder, reached
                break
        if is_last:
            break
    # Clusters that G does not need would fade, but slowly where β is close to a threshold.
    if len(mixture.weights) > 1:
        without = letters.p @ np.log(np.maximum(1 - encoder, TINY)) - np.log(np.maximum(1 - mixture.weights, TINY))
        t = int(np.where(mixture.weights < 0.5, without, -np.inf).argmax())
        if mixture.weights[t] < 0.5 and without[t] >= -1e-15:
            kept = np.delete(mixture.weights, t)
            return climb(letters, Mixture(kept / kept.sum(), np.delete(mixture.decoders, t, axis=0)), beta)
    return mixture


def merge(letters: Letters, mixture: Mixture, beta: float) -> Mixture:
    """Merge clusters that are equal up to rounding, unless G falls, and leave out those without weight."""
    kept = mixture.weights > _ROUNDING
    mixture = Mixture(mixture.weights[kept] / mixture.weights[kept].sum(), mixture.decoders[kept])
    near = np.abs(mixture.decoders[:, None] - mixture.decoders[None]).max(axis=2) < 1e-5
    if near.sum() == len(near):
        return mixture
    for t, u in np.argwhere(np.triu(near, 1)):
        candidate = joined(mixture, t, u)
        if likelihood(letters, candidate, beta) >= likelihood(letters, mixture, beta) - 1e-15:
            return merge(letters, candidate, beta)
    return mixture


def joined(mixture: Mixture, t: int, u: int) -> Mixture:
    """The mixture with the clusters t and u merged."""
    weights, decoders = mixture.weights.copy(), mixture.decoders.copy()
    weights[t] += weights[u]
    decoders[t] = (mixture.weights[t] * decoders[t] + mixture.weights[u] * decoders[u]) / weights[t]
    return Mixture(np.delete(weights, u), np.delete(decoders, u, axis=0))


def with_cluster(letters: Letters, mixture: Mixture, beta: float, point: Array) -> Mixture:
    """A mixture with one more cluster at a point, or with a cluster moved there if one is close."""
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


def _newton_direction(letters: Letters, mixture: Mixture, encoder: Array, beta: float) -> tuple[Array, float]:
    """A step in log p(t, y), and how much G would gain to first order."""
    p, laws = letters.p, letters.laws
    weights, decoders = mixture.weights, mixture.decoders
    clusters, classes = decoders.shape
    mass = p @ encoder
    m = weights[:, None] * decoders
    gradient = (1 - beta) * mass[:, None] * decoders + beta * (encoder * p[:, None]).T @ laws - m
    # c(x, t) is the derivative of log(w_t Π_y s_t(y)^{β p(y|x)}) in log p(t, ·).
    c = (1 - beta) * decoders[None] + beta * laws[:, None]
    flat = ((np.sqrt(p)[:, None] * encoder)[:, :, None] * c).reshape(len(p), -1)
    blocks = ((p[:, None] * encoder)[:, :, None] * c).transpose(1, 2, 0) @ c.transpose(1, 0, 2)
    blocks -= (1 - beta) * mass[:, None, None] * decoders[:, :, None] * decoders[:, None, :]
    blocks += ((1 - beta) * mass[:, None] * decoders - m)[:, :, None] * np.eye(classes)
    hessian = -flat.T @ flat
    for t in range(clusters):
        here = slice(t * classes, (t + 1) * classes)
        hessian[here, here] += blocks[t]
    # Smaller entries are left to EM: divided by their root, rounding errors would swamp the direction.
    active = np.flatnonzero(m.ravel() > 1e-18)
    root = np.sqrt(m.ravel()[active])
    values, vectors = np.linalg.eigh(hessian[np.ix_(active, active)] / root[:, None] / root)
    lengths = vectors.T @ (gradient.ravel()[active] / root) / np.maximum(np.abs(values), 1e-10)
    directions = vectors / root[:, None]
    # Each direction is limited separately, so that a cluster that fades does not slow the others down.
    reach = np.abs(directions).max(axis=0)
    step = np.zeros(m.size)
    step[active] = (directions @ np.clip(lengths, -1 / reach, 1 / reach)).clip(-2, 2)
    return step.reshape(m.shape), float(gradient.ravel() @ step)
