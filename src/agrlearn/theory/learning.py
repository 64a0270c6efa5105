"""IB learning on finite tables: the optimal encoders, with certificates of how far they can be from the optimum."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import rel_entr

from agrlearn.errors import TheoryError
from agrlearn.theory.certificate import Bound
from agrlearn.theory.distributions import Array, Unit, conditional_law, conditional_table, joint_table, nats_per
from agrlearn.theory.measures import encoder_information, entropy, mean_ib_distortion
from agrlearn.theory.mixture import Letters, Mixture, decode, distinct_letters, encode, likelihood
from agrlearn.theory.solver import bound_at, limit_clusters, solve


@dataclass(frozen=True)
class Bottleneck:
    """A solution of min I(X;T) − β·I(Y;T) over the encoders p(t|x).

    beta: β; infinity means all of I(X;Y) at the least rate.
    rate: I(X;T), in `unit`.
    relevance: I(Y;T), in `unit`.
    distortion: E d_IB(X, T) = I(X;Y) − I(Y;T), in `unit`.
    encoder: (letters of X, clusters) p(t|x).
    gap: I(X;T) − β·I(Y;T) is above its minimum over all encoders by at most this, in `unit`.
    proved: whether `gap` is a proved bound (up to rounding) or the result of a search that found nothing better.
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
        clusters: the most letters T may have, |X| + 1 by default, which is always enough; equal clusters are merged.
            With fewer than needed, `gap` still compares with the best encoder of any size.
        near: a solution at a nearby β to start from as well (annealing).

    >>> point = bottleneck([[0.45, 0.05], [0.05, 0.45]], 2.0, unit="nats")
    >>> print(f"{point.rate:.6f} {point.relevance:.6f} {point.proved and point.gap < 1e-6}")
    0.482730 0.282273 True
    """
    return bottlenecks(joint_table(p_xy), [beta], clusters=clusters, unit=unit, near=near)[0]


def bottlenecks(
    joint: Array, betas: Sequence[float], *, clusters: int | None = None, unit: Unit, near: Bottleneck | None = None
) -> list[Bottleneck]:
    """`bottleneck` at several β in increasing order, which are proved together; takes a table that has been checked."""
    for beta in betas:
        _check_beta(beta)
    most = len(joint) + 1 if clusters is None else clusters
    if most < 1:
        raise TheoryError(f"expected clusters of at least 1, got {most}; leave it out for |X| + 1 = {len(joint) + 1}")
    letters = distinct_letters(joint)
    if math.inf in betas and most < len(letters.p):
        raise TheoryError(
            f"expected at least {len(letters.p)} clusters for an infinite beta, one per law p(y|x), got {most}"
        )
    between = [beta for beta in betas if 1 < beta < math.inf and len(letters.p) > 1]
    start = None if near is None else decode(letters, letters.shares @ conditional_table(near.encoder, len(joint)))
    solved = dict(zip(between, solve(letters, between, start) if between else (), strict=True))
    found = []
    for beta in betas:
        if beta in solved:
            mixture, bound = solved[beta]
            encoder = encode(letters, limit_clusters(letters, mixture, beta, most), beta)
            gap, proved = _gap_nats(letters, encoder, mixture, beta, bound), bound.proved
        else:
            encoder = np.eye(len(letters.p)) if math.isinf(beta) else np.ones((len(letters.p), 1))
            gap, proved = 0.0, True
        found.append(_solution(joint, _table_rows(letters, encoder), beta, gap, proved, unit))
    return found


def certificate_gap(p_xy: ArrayLike, encoder: ArrayLike, beta: float, *, unit: Unit = "bits") -> tuple[float, bool]:
    """How far I(X;T) − β·I(Y;T) of any encoder can be above the minimum, and whether that is proved.

    The bound is the plane of λ_x = log p(x) − log Σ_t p(t) exp(β·Σ_y p(y|x) log p(y|t)), lowered until it lies below φ
    everywhere (see `agrlearn.theory.certificate`). It is tight at the optimal encoder, and large at a bad one.

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
    merged = letters.shares @ conditional_table(encoder, len(joint))
    mixture = decode(letters, merged)
    bound = bound_at(letters, mixture, beta)
    # An encoder that treats letters of equal p(y|x) differently has a higher rate than the merged encoder.
    rate, _ = encoder_information(joint, encoder, unit="nats")
    merged_rate, _ = encoder_information(joint, _table_rows(letters, merged), unit="nats")
    gap = _gap_nats(letters, merged, mixture, beta, bound) + max(0.0, rate - merged_rate)
    return gap / nats_per(unit), bound.proved


def critical_beta(p_xy: ArrayLike) -> float:
    """1/σ₂², where σ₂ is the maximal correlation of X and Y: above it, small changes of a constant T improve it.

    A better encoder far from the constant can exist at a smaller β; see `onset_beta`.

    >>> round(critical_beta([[0.45, 0.05], [0.05, 0.45]]), 6)
    1.5625
    """
    joint = joint_table(p_xy)
    joint = joint[joint.sum(axis=1) > 0][:, joint.sum(axis=0) > 0]
    values = np.linalg.svd(joint / np.sqrt(np.outer(joint.sum(axis=1), joint.sum(axis=0))), compute_uv=False)
    return float(1 / values[1] ** 2) if len(values) > 1 and values[1] > 1e-12 else math.inf


def onset_beta(p_xy: ArrayLike) -> float:
    """The least β above which anything is worth keeping: inf over q of KL(q‖p_X)/KL(Wq‖p_Y), at most `critical_beta`.

    The search goes down from there: the best cluster of the solution at one β gives the next.

    >>> round(onset_beta([[0.45, 0.05], [0.05, 0.45]]), 6)
    1.5625
    """
    joint = joint_table(p_xy)
    beta = critical_beta(joint)
    p_x, p_y = joint.sum(axis=1), joint.sum(axis=0)
    while math.isfinite(beta):
        encoder = bottleneck(joint, beta).encoder
        posteriors = encoder.T * p_x / (p_x @ encoder)[:, None]
        cost = rel_entr(posteriors, p_x).sum(axis=1)
        gain = rel_entr(posteriors @ conditional_law(joint), p_y).sum(axis=1)
        ratio = float(np.where(gain > 1e-9, cost / np.maximum(gain, 1e-9), math.inf).min())
        if ratio > beta - 1e-9:
            break
        beta = max(ratio, 1.0)
    return beta


def _solution(joint: Array, encoder: Array, beta: float, gap: float, proved: bool, unit: Unit) -> Bottleneck:
    rate, relevance = encoder_information(joint, encoder, unit=unit)
    distortion = mean_ib_distortion(joint, encoder, unit=unit)
    return Bottleneck(float(beta), rate, relevance, distortion, encoder, gap / nats_per(unit), proved, unit)


def _gap_nats(letters: Letters, encoder: Array, mixture: Mixture, beta: float, bound: Bound) -> float:
    """How far I(X;T) − β·I(Y;T) of an encoder is above the lower bound −β·H(Y) − G − log max Z, in nats."""
    joint = letters.p[:, None] * letters.laws
    rate, relevance = encoder_information(joint, encoder, unit="nats") if len(joint) > 1 else (0.0, 0.0)
    labels = entropy(joint.sum(axis=0), unit="nats")
    return max(0.0, rate + beta * (labels - relevance) + likelihood(letters, mixture, beta) + bound.upper)


def _table_rows(letters: Letters, encoder: Array) -> Array:
    """Turn an encoder of the distinct letters into one of the rows of the table; a row of probability 0 gets p(t)."""
    encoder = np.where(encoder < 1e-100, 0.0, encoder)  # products with smaller numbers would underflow
    return np.where((letters.of_row >= 0)[:, None], encoder[letters.of_row], letters.p @ encoder)


def _check_beta(beta: float) -> None:
    if not beta >= 0:
        raise TheoryError(f"expected a beta of at least 0, got {beta}; 0 keeps nothing, infinity all of I(X;Y)")
