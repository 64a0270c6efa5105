"""The information bottleneck on finite tables, each solution with a certificate of how far it can be from the best."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import rel_entr

from agrlearn.errors import TheoryError
from agrlearn.theory.certificate import Bound
from agrlearn.theory.information import encoder_information, entropy, mean_ib_distortion
from agrlearn.theory.mixture import Letters, Mixture, decode, distinct_letters, encode, likelihood
from agrlearn.theory.solver import bound_at, limit_clusters, solve
from agrlearn.theory.tables import Array, Unit, conditional_law, encoder_table, in_unit, joint_table


@dataclass(frozen=True)
class Bottleneck:
    """A solution of min I(X;T) − β·I(Y;T) over the encoders p(t|x).

    beta: β, infinite for the representation that keeps all of I(X;Y) at the least rate.
    rate: I(X;T), in `unit`.
    relevance: I(Y;T), in `unit`.
    distortion: E d_IB(X, T) = I(X;Y) − I(Y;T), in `unit`.
    encoder: (letters of X, clusters) p(t|x).
    gap: I(X;T) − β·I(Y;T) is above its minimum over all encoders by at most this, in `unit`.
    proved: whether `gap` is a proved bound (up to rounding), or comes from a search that found nothing better.
    """

    beta: float
    rate: float
    relevance: float
    distortion: float
    encoder: Array
    gap: float
    proved: bool
    unit: Unit


def bottleneck(
    p_xy: ArrayLike, beta: float, *, clusters: int | None = None, unit: Unit = "bits", near: Bottleneck | None = None
) -> Bottleneck:
    """The encoder p(t|x) of the least I(X;T) − β·I(Y;T), with its certificate gap.

    Args:
        p_xy: (letters of X, letters of Y).
        beta: at least 0; up to 1 nothing is worth keeping.
        clusters: the most letters T may have, |X| + 1 by default, which is always enough; clusters that turn out equal
            are merged. With fewer than the problem needs, `gap` still compares with the best encoder of any size.
        near: a solution at a near β to start from too (annealing).

    >>> point = bottleneck([[0.45, 0.05], [0.05, 0.45]], 2.0, unit="nats")
    >>> print(f"{point.rate:.6f} {point.relevance:.6f} {point.proved and point.gap < 1e-6}")
    0.482730 0.282273 True
    """
    joint = joint_table(p_xy)
    _check_beta(beta)
    most = _checked_clusters(clusters, len(joint))
    letters = distinct_letters(joint)
    if beta <= 1 or len(letters.p) == 1:
        return _described(joint, np.ones((len(joint), 1)), beta, 0.0, True, unit)
    if math.isinf(beta):
        if most < len(letters.p):
            raise TheoryError(
                f"expected at least {len(letters.p)} clusters for an infinite beta, one per law p(y|x), got {most}"
            )
        return _described(joint, _table_rows(letters, np.eye(len(letters.p))), beta, 0.0, True, unit)
    start = None
    if near is not None:
        start = decode(letters, _letter_rows(letters, encoder_table(near.encoder, len(joint))))
    mixture, bound = solve(letters, beta, start)
    encoder = encode(letters, limit_clusters(letters, mixture, beta, most), beta)
    gap = _gap_nats(letters, encoder, mixture, beta, bound)
    return _described(joint, _table_rows(letters, encoder), beta, gap, bound.proved, unit)


def certificate_gap(p_xy: ArrayLike, encoder: ArrayLike, beta: float, *, unit: Unit = "bits") -> tuple[float, bool]:
    """How far any encoder's I(X;T) − β·I(Y;T) can be above the minimum, and whether that is proved.

    The bound is the plane of λ_x = log p(x) − log Σ_t p(t) exp(β·Σ_y p(y|x) log p(y|t)), lowered until it lies below φ
    everywhere (see `agrlearn.theory.certificate`). It is tight at the best encoder, and large at a bad one.

    Args:
        p_xy: (letters of X, letters of Y).
        encoder: (letters of X, clusters) p(t|x).

    >>> gap, proved = certificate_gap([[0.45, 0.05], [0.05, 0.45]], [[1.0], [1.0]], 2.0)
    >>> gap > 0.05, proved
    (True, True)
    """
    joint = joint_table(p_xy)
    _check_beta(beta)
    if math.isinf(beta):
        raise TheoryError("expected a finite beta for a certificate, got infinity")
    if beta <= 1:
        # I(X;T) ≥ I(Y;T), so the minimum is 0.
        rate, relevance = encoder_information(joint, encoder, unit=unit)
        return max(0.0, rate - beta * relevance), True
    letters = distinct_letters(joint)
    rows = _letter_rows(letters, encoder_table(encoder, len(joint)))
    mixture = decode(letters, rows)
    bound = bound_at(letters, mixture, beta)
    merged = _gap_nats(letters, rows, mixture, beta, bound)
    # Letters of equal p(y|x) that an encoder treats differently cost rate beyond the merged encoder's.
    wasted = (
        encoder_information(joint, encoder, unit="nats")[0]
        - encoder_information(joint, _table_rows(letters, rows), unit="nats")[0]
    )
    return float(in_unit(merged + max(0.0, wasted), unit)), bound.proved


def critical_beta(p_xy: ArrayLike) -> float:
    """1/σ₂², where σ₂ is the maximal correlation of X and Y: from there on a small change of a constant T gains.

    A better encoder far from the constant can exist at a smaller β, see `onset_beta`.

    >>> round(critical_beta([[0.45, 0.05], [0.05, 0.45]]), 6)
    1.5625
    """
    joint = joint_table(p_xy)
    joint = joint[joint.sum(axis=1) > 0][:, joint.sum(axis=0) > 0]
    values = np.linalg.svd(joint / np.sqrt(np.outer(joint.sum(axis=1), joint.sum(axis=0))), compute_uv=False)
    return float(1 / values[1] ** 2) if len(values) > 1 and values[1] > 1e-12 else math.inf


def onset_beta(p_xy: ArrayLike) -> float:
    """The least β above which anything is worth keeping: inf over q of KL(q‖p_X)/KL(Wq‖p_Y), at most `critical_beta`.

    Found from above: the best cluster of the solution at one β gives the next.

    >>> round(onset_beta([[0.45, 0.05], [0.05, 0.45]]), 6)
    1.5625
    """
    joint = joint_table(p_xy)
    beta = critical_beta(joint)
    p_x, p_y = joint.sum(axis=1), joint.sum(axis=0)
    while math.isfinite(beta):
        encoder = bottleneck(joint, beta).encoder
        posteriors = encoder.T * p_x / (p_x @ encoder)[:, None]
        kept = rel_entr(posteriors, p_x).sum(axis=1)
        told = rel_entr(posteriors @ conditional_law(joint), p_y).sum(axis=1)
        ratio = float(np.where(told > 1e-9, kept / np.maximum(told, 1e-9), math.inf).min())
        if ratio > beta - 1e-9:
            break
        beta = max(ratio, 1.0)
    return beta


def _described(joint: Array, encoder: Array, beta: float, gap: float, proved: bool, unit: Unit) -> Bottleneck:
    rate, relevance = encoder_information(joint, encoder, unit=unit)
    distortion = mean_ib_distortion(joint, encoder, unit=unit)
    return Bottleneck(float(beta), rate, relevance, distortion, encoder, float(in_unit(gap, unit)), proved, unit)


def _gap_nats(letters: Letters, encoder: Array, mixture: Mixture, beta: float, bound: Bound) -> float:
    """I(X;T) − β·I(Y;T) of an encoder above the plane's bound −β·H(Y) − G − log max Z, in nats."""
    joint = letters.p[:, None] * letters.laws
    rate, relevance = encoder_information(joint, encoder, unit="nats") if len(joint) > 1 else (0.0, 0.0)
    labels = entropy(joint.sum(axis=0), unit="nats")
    return max(0.0, rate - beta * relevance + beta * labels + likelihood(letters, mixture, beta) + bound.upper)


def _table_rows(letters: Letters, encoder: Array) -> Array:
    """An encoder of the distinct letters as one of the table's rows; a row of probability 0 is sent as p(t)."""
    # Below this a letter is not in a cluster; products with it would underflow.
    encoder = np.where(encoder < 1e-100, 0.0, encoder)
    of_nothing = letters.p @ encoder
    return np.where((letters.of_row >= 0)[:, None], encoder[letters.of_row], of_nothing)


def _letter_rows(letters: Letters, encoder: Array) -> Array:
    """The encoder of the distinct letters that a table's encoder makes on average."""
    return np.asarray(letters.shares @ encoder)


def _check_beta(beta: float) -> None:
    if math.isnan(beta) or beta < 0:
        raise TheoryError(f"expected a beta of at least 0, got {beta}; 0 keeps nothing, infinity all of I(X;Y)")


def _checked_clusters(clusters: int | None, letters: int) -> int:
    if clusters is not None and clusters < 1:
        raise TheoryError(f"expected clusters of at least 1, got {clusters}; leave it out for |X| + 1 = {letters + 1}")
    return clusters or letters + 1
