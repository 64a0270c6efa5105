"""Entropy, mutual information, KL and the paper's d_IB on finite tables; 0·log 0 is 0, and x·log(x/0) is infinite."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import entr, rel_entr

from agrlearn.theory.distributions import (
    Array,
    Unit,
    bottleneck_joint,
    conditional_law,
    conditional_table,
    distribution,
    joint_table,
    nats_per,
)


def entropy(p: ArrayLike, *, unit: Unit = "bits") -> float:
    """H(p) of a distribution over one alphabet: (letters,).

    >>> entropy([0.5, 0.25, 0.25])
    1.5
    """
    return float(entr(distribution(p)).sum() / nats_per(unit))


def binary_entropy(p: ArrayLike, *, unit: Unit = "bits") -> Array:
    """h(p) of a coin with probability p of heads, element by element.

    >>> float(binary_entropy(0.5))
    1.0
    """
    heads = np.asarray(p, dtype=np.float64)
    return np.asarray((entr(heads) + entr(1 - heads)) / nats_per(unit))


def kl_divergence(p: ArrayLike, q: ArrayLike, *, unit: Unit = "bits") -> float:
    """KL(p‖q) of two distributions over one alphabet, infinite where q lacks a letter of p: (letters,) each.

    >>> kl_divergence([1.0, 0.0], [0.5, 0.5])
    1.0
    >>> kl_divergence([0.5, 0.5], [1.0, 0.0])
    inf
    """
    return float(rel_entr(distribution(p), distribution(q)).sum() / nats_per(unit))


def mutual_information(p_xy: ArrayLike, *, unit: Unit = "bits") -> float:
    """I(X;Y) of a joint table: (letters of X, letters of Y).

    >>> mutual_information([[0.5, 0.0], [0.0, 0.5]])
    1.0
    """
    return information_nats(joint_table(p_xy)) / nats_per(unit)


def encoder_information(p_xy: ArrayLike, encoder: ArrayLike, *, unit: Unit = "bits") -> tuple[float, float]:
    """I(X;T) and I(Y;T) of the Markov chain Y — X — T.

    Args:
        p_xy: (letters of X, letters of Y).
        encoder: (letters of X, letters of T), p(t|x).

    >>> encoder_information([[0.5, 0.0], [0.0, 0.5]], [[1.0, 0.0], [0.0, 1.0]])
    (1.0, 1.0)
    """
    joint = joint_table(p_xy)
    p_xt = joint.sum(axis=1)[:, None] * conditional_table(encoder, len(joint))
    relevance = information_nats(bottleneck_joint(joint, encoder))
    return information_nats(p_xt) / nats_per(unit), relevance / nats_per(unit)


def ib_distortion(p_xy: ArrayLike, encoder: ArrayLike, *, unit: Unit = "bits") -> Array:
    """d_IB(x, t) = KL(p(y|x) ‖ p(y|t)) for every pair of letters.

    Args:
        p_xy: (letters of X, letters of Y).
        encoder: (letters of X, letters of T), p(t|x).
    Returns:
        (letters of X, letters of T), infinite where x cannot be in t.

    >>> ib_distortion([[0.5, 0.0], [0.0, 0.5]], [[1.0], [1.0]])
    array([[1.],
           [1.]])
    """
    joint = joint_table(p_xy)
    law_of_x, law_of_t = conditional_law(joint), conditional_law(bottleneck_joint(joint, encoder))
    return np.asarray(rel_entr(law_of_x[:, None], law_of_t).sum(axis=2) / nats_per(unit))


def mean_ib_distortion(p_xy: ArrayLike, encoder: ArrayLike, *, unit: Unit = "bits") -> float:
    """E d_IB(X, T) under p(x)·p(t|x), computed from its definition; it equals I(X;Y) − I(Y;T).

    >>> mean_ib_distortion([[0.5, 0.0], [0.0, 0.5]], [[1.0], [1.0]])
    1.0
    """
    joint = joint_table(p_xy)
    weights = joint.sum(axis=1)[:, None] * conditional_table(encoder, len(joint))
    distances = ib_distortion(joint, encoder, unit=unit)
    return float((weights * np.where(weights > 0, distances, 0.0)).sum())


def information_nats(joint: Array) -> float:
    """I of a joint table that has been checked, in nats; never below 0."""
    independent = np.outer(joint.sum(axis=1), joint.sum(axis=0))
    return max(0.0, float(rel_entr(joint, independent).sum()))
