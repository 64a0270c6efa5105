"""The bottleneck as a mixture's likelihood, and how to climb it.

Given decoders s_t = p(y|t) and weights w_t = p(t), the best encoder is p(t|x) ∝ w_t·Π_y s_t(y)^{β p(y|x)}, and then

    I(X;T) − β·I(Y;T)  ≤  −β·H(Y) − G(w, s),    G = Σ_x p(x) log g(x),    g(x) = Σ_t w_t·Π_y s_t(y)^{β p(y|x)},

with equality at a fixed point. G is the log likelihood of a mixture whose components are points s of the simplex of Y,
so the bottleneck is the maximum likelihood problem of Lindsay (1983), the iteration of Tishby, Pereira and Bialek
(1999) is its EM algorithm, and (w, s) is the best of all exactly if Σ_x p(x)/g(x)·Π_y s(y)^{β p(y|x)} ≤ 1 for every s.
"""

from dataclasses import dataclass

import numpy as np

from agrlearn.theory.tables import Array, conditional_law

TINY = 1e-300
_NOTHING = 1e-13
_STEPS = 60


@dataclass(frozen=True)
class Letters:
    """The letters of X that differ: those of equal p(y|x) count as one, those of probability 0 are left out.

    p: (letters,) their probabilities; laws: (letters, letters of Y) p(y|x), letters of Y of probability 0 left out;
    of_row: (rows,) which of them a row of the table is, −1 for a row of probability 0; shares: (letters, rows) which
    part of a letter each row is.
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
    """What of a joint table matters for the bottleneck (its minimal sufficient statistic)."""
    used = joint.sum(axis=1) > 0
    joint_used = joint[used][:, joint.sum(axis=0) > 0]
    laws = conditional_law(joint_used)
    alike = np.abs(laws[:, None] - laws[None]).max(axis=2) < 1e-12
    first, which = np.unique(alike.argmax(axis=1), return_inverse=True)
    merged = np.zeros((len(first), joint_used.shape[1]))
    np.add.at(merged, which, joint_used)
    of_row = np.full(len(joint), -1)
    of_row[used] = which
    shares = (of_row == np.arange(len(first))[:, None]) * joint.sum(axis=1) / merged.sum(axis=1)[:, None]
    return Letters(merged.sum(axis=1), conditional_law(merged), of_row, shares)


def log_likelihoods(letters: Letters, decoders: Array, beta: float) -> Array:
    """β·Σ_y p(y|x) log s(y) of every letter and decoder: (letters, decoders)."""
    return beta * letters.laws @ np.log(np.maximum(decoders, TINY)).T


def log_evidence(letters: Letters, mixture: Mixture, beta: float) -> Array:
    """log g(x): (letters,)."""
    return log_sum(np.log(np.maximum(mixture.weights, TINY)) + log_likelihoods(letters, mixture.decoders, beta))


def log_sum(scores: Array) -> Array:
    """log Σ exp over the last axis; scipy's logsumexp takes several times as long."""
    top = scores.max(axis=-1)
    return np.asarray(np.log(np.exp(scores - top[..., None]).sum(axis=-1)) + top)


def likelihood(letters: Letters, mixture: Mixture, beta: float) -> float:
    """G(w, s), which is to be made large."""
    return float(letters.p @ log_evidence(letters, mixture, beta))


def encode(letters: Letters, mixture: Mixture, beta: float) -> Array:
    """The best encoder p(t|x) for given weights and decoders: (letters, clusters)."""
    scores = np.log(np.maximum(mixture.weights, TINY)) + log_likelihoods(letters, mixture.decoders, beta)
    ratios = np.exp(scores - scores.max(axis=1, keepdims=True))
    return ratios / ratios.sum(axis=1, keepdims=True)


def decode(letters: Letters, encoder: Array) -> Mixture:
    """The weights and decoders that an encoder makes; letters of T that are never used are left out."""
    joint = (encoder * letters.p[:, None]).T
    weights = joint.sum(axis=1)
    joint, weights = joint[weights > 0], weights[weights > 0]
    return Mixture(weights, joint @ letters.laws / weights[:, None])


def climb(letters: Letters, mixture: Mixture, beta: float) -> Mixture:
    """Raise G to a stationary point: EM steps, each followed by a Newton step on log p(t, y) where that raises G.

    EM alone contracts by a factor that goes to 1 at a bifurcation and stalls there. In the coordinates √m·log m of
    m = p(t, y) its step is the gradient, and the Hessian's eigenvalues are (its factor − 1): dividing by their size
    (upwards too, where they are positive) is the acceleration.
    """
    value = likelihood(letters, mixture, beta)
    for _ in range(_STEPS):
        before, weights = value, mixture.weights
        mixture = merge(letters, decode(letters, encode(letters, mixture, beta)), beta)
        value = likelihood(letters, mixture, beta)
        direction, slope = _newton_direction(letters, mixture, beta)
        # G hardly feels a rare cluster, but the certificate does: its weight must have come to rest as well.
        resting = len(weights) == len(mixture.weights) and np.abs(mixture.weights / weights - 1).max() < 1e-9
        if resting and slope < _NOTHING and value - before < _NOTHING:
            break
        length = 1.0
        while length > 1e-3:
            trial = _moved(mixture, length * direction)
            reached = likelihood(letters, trial, beta)
            if reached > value:
                mixture, value = trial, reached
                break
            length /= 4
    return _without_idle(letters, mixture, beta)


def merge(letters: Letters, mixture: Mixture, beta: float) -> Mixture:
    """Make one of clusters that are equal to rounding, and leave out those of no weight, where G does not suffer."""
    kept = mixture.weights > _NOTHING
    mixture = Mixture(mixture.weights[kept] / mixture.weights[kept].sum(), mixture.decoders[kept])
    near = np.abs(mixture.decoders[:, None] - mixture.decoders[None]).max(axis=2) < 1e-5
    for t, u in np.argwhere(np.triu(near, 1)):
        candidate = joined(mixture, t, u)
        if likelihood(letters, candidate, beta) >= likelihood(letters, mixture, beta) - 1e-15:
            return merge(letters, candidate, beta)
    return mixture


def _without_idle(letters: Letters, mixture: Mixture, beta: float) -> Mixture:
    """Leave out clusters that G does not need; their weight would only fade, slowly where β is close to a threshold."""
    value = likelihood(letters, mixture, beta)
    for t in np.argsort(mixture.weights):
        if len(mixture.weights) > 1 and mixture.weights[t] < 0.5:
            kept = np.delete(mixture.weights, t)
            candidate = Mixture(kept / kept.sum(), np.delete(mixture.decoders, t, axis=0))
            if likelihood(letters, candidate, beta) >= value - 1e-15:
                return climb(letters, candidate, beta)
    return mixture


def joined(mixture: Mixture, t: int, u: int) -> Mixture:
    """The mixture with the clusters t and u made one."""
    weights, decoders = mixture.weights.copy(), mixture.decoders.copy()
    weights[t] += weights[u]
    decoders[t] = (mixture.weights[t] * decoders[t] + mixture.weights[u] * decoders[u]) / weights[t]
    return Mixture(np.delete(weights, u), np.delete(decoders, u, axis=0))


def _newton_direction(letters: Letters, mixture: Mixture, beta: float) -> tuple[Array, float]:
    """A step in log p(t, y) and how much G would gain to first order."""
    p, laws = letters.p, letters.laws
    weights, decoders = mixture.weights, mixture.decoders
    clusters, classes = decoders.shape
    encoder = encode(letters, mixture, beta)
    mass = p @ encoder
    m = weights[:, None] * decoders
    gradient = (1 - beta) * mass[:, None] * decoders + beta * (encoder * p[:, None]).T @ laws - m
    # c(x, t) is the derivative of log(w_t Π_y s_t(y)^{β p(y|x)}) in log p(t, ·).
    c = (1 - beta) * decoders[None] + beta * laws[:, None]
    weighted = (np.sqrt(p)[:, None] * encoder)[:, :, None] * c
    flat = weighted.reshape(len(p), -1)
    blocks = np.einsum("xt,xty,xtz->tyz", p[:, None] * encoder, c, c)
    blocks -= (1 - beta) * mass[:, None, None] * decoders[:, :, None] * decoders[:, None, :]
    blocks += ((1 - beta) * mass[:, None] * decoders - m)[:, :, None] * np.eye(classes)
    hessian = -flat.T @ flat
    for t in range(clusters):
        here = slice(t * classes, (t + 1) * classes)
        hessian[here, here] += blocks[t]
    # What has faded below this is left to EM: divided by its root, rounding errors would swamp the direction.
    active = np.flatnonzero(m.ravel() > 1e-18)
    root = np.sqrt(m.ravel()[active])
    values, vectors = np.linalg.eigh(hessian[np.ix_(active, active)] / root[:, None] / root)
    lengths = vectors.T @ (gradient.ravel()[active] / root) / np.maximum(np.abs(values), 1e-10)
    directions = vectors / root[:, None]
    # Each direction is held back by itself: a cluster that fades must not slow the others down.
    reach = np.abs(directions).max(axis=0)
    step = np.zeros(m.size)
    step[active] = (directions @ np.clip(lengths, -1 / reach, 1 / reach)).clip(-2, 2)
    return step.reshape(m.shape), float(gradient.ravel() @ step)


def _moved(mixture: Mixture, step: Array) -> Mixture:
    m = mixture.weights[:, None] * mixture.decoders * np.exp(step)
    return Mixture(m.sum(axis=1) / m.sum(), m / m.sum(axis=1, keepdims=True))
