"""The paper's theorems as functions that return both sides, so that anyone can try them on a table."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import xlogy

from agrlearn.errors import TheoryError
from agrlearn.theory.codes import check_words, words
from agrlearn.theory.curve import rate_ibl, rate_ibq
from agrlearn.theory.information import (
    encoder_information,
    entropy,
    information_nats,
    mean_ib_distortion,
    mutual_information,
)
from agrlearn.theory.tables import (
    Array,
    Unit,
    bottleneck_joint,
    conditional_law,
    decoder_table,
    encoder_table,
    in_unit,
    joint_table,
)


@dataclass(frozen=True)
class Sides:
    """The two sides of a statement, in `unit`; the relation is "=", "≥" or "≤"."""

    left: float
    relation: str
    right: float
    unit: Unit

    def holds(self, tolerance: float = 1e-9) -> bool:
        """Whether the statement is true up to a tolerance.

        >>> Sides(1.0, "≥", 0.5, "bits").holds(), Sides(1.0, "=", 0.5, "bits").holds()
        (True, False)
        """
        difference = self.left - self.right
        return {"=": abs(difference), "≥": -difference, "≤": difference}[self.relation] <= tolerance


def distortion_is_lost_information(p_xy: ArrayLike, encoder: ArrayLike, *, unit: Unit = "bits") -> Sides:
    """E d_IB(X, T) = I(X;Y) − I(Y;T), which makes IB quantization and IB learning one problem.

    >>> distortion_is_lost_information([[0.45, 0.05], [0.05, 0.45]], [[1, 0], [0.5, 0.5]]).holds()
    True
    """
    _, relevance = encoder_information(p_xy, encoder, unit=unit)
    lost = mutual_information(p_xy, unit=unit) - relevance
    return Sides(mean_ib_distortion(p_xy, encoder, unit=unit), "=", lost, unit)


def learning_is_quantization(p_xy: ArrayLike, relevance: float, *, unit: Unit = "bits") -> Sides:
    """Theorem 2: R_IBL(A) = R_IBQ(I(X;Y) − A).

    The left side is found by its constraint on I(Y;T), the right one by its own on E d_IB.

    >>> learning_is_quantization([[0.45, 0.05], [0.05, 0.45]], 0.3).holds(1e-6)
    True
    """
    allowed = max(0.0, mutual_information(p_xy, unit=unit) - relevance)
    return Sides(rate_ibl(p_xy, relevance, unit=unit), "=", rate_ibq(p_xy, allowed, unit=unit), unit)


def variational_bound(p_xy: ArrayLike, encoder: ArrayLike, decoder: ArrayLike, *, unit: Unit = "bits") -> Sides:
    """Theorem 3: I(Y;T) ≥ H(Y) + E log q(Y|T), with equality exactly at q = p(Y|T).

    Args:
        decoder: (letters of T, letters of Y), q(y|t); minus infinity on the right where it excludes what happens.

    >>> variational_bound([[0.5, 0.0], [0.0, 0.5]], [[1, 0], [0, 1]], [[0.9, 0.1], [0.1, 0.9]]).holds()
    True
    """
    joint = joint_table(p_xy)
    p_ty = bottleneck_joint(joint, encoder)
    q = decoder_table(decoder, len(p_ty))
    with np.errstate(divide="ignore"):
        explained = (p_ty * np.where(p_ty > 0, np.log(q), 0.0)).sum()
    right = entropy(joint.sum(axis=0), unit=unit) + float(in_unit(explained, unit))
    return Sides(encoder_information(joint, encoder, unit=unit)[1], "≥", right, unit)


def rate_is_convex(p_xy: ArrayLike, first: float, second: float, share: float, *, unit: Unit = "bits") -> Sides:
    """Lemma 1: R(λD₁ + (1−λ)D₂) ≤ λR(D₁) + (1−λ)R(D₂).

    Args:
        first, second: D₁ and D₂. share: λ.

    >>> rate_is_convex([[0.45, 0.05], [0.05, 0.45]], 0.1, 0.4, 0.5).holds(1e-6)
    True
    """
    if not 0 <= share <= 1:
        raise TheoryError(f"expected a share between 0 and 1, got {share}")
    between = rate_ibq(p_xy, share * first + (1 - share) * second, unit=unit)
    chord = share * rate_ibq(p_xy, first, unit=unit) + (1 - share) * rate_ibq(p_xy, second, unit=unit)
    return Sides(between, "≤", chord, unit)


def rate_between_its_ends(p_xy: ArrayLike, relevance: float, *, unit: Unit = "bits") -> tuple[Sides, Sides]:
    """A ≤ R_IBL(A) ≤ A·H(S)/I(X;Y): data processing below, time-sharing of nothing and everything above.

    S is X up to letters of equal p(y|x), so H(S) ≤ H(X) is R_IBL(I(X;Y)).

    >>> [side.holds(1e-6) for side in rate_between_its_ends([[0.45, 0.05], [0.05, 0.45]], 0.3)]
    [True, True]
    """
    rate = rate_ibl(p_xy, relevance, unit=unit)
    everything = mutual_information(p_xy, unit=unit)
    ends = rate_ibl(p_xy, everything, unit=unit)
    above = relevance * ends / everything if everything > 0 else 0.0
    return Sides(rate, "≥", relevance, unit), Sides(rate, "≤", above, unit)


@dataclass(frozen=True)
class GroupLoss:
    """What n softmax heads over one bottleneck can reach, in `unit`.

    loss: min ℓ⁽ⁿ⁾ = Σ_i H(Y_i|Tⁿ), the best of factorised heads. joint: H(Yⁿ|Tⁿ) = n·H(Y) − I(Yⁿ;Tⁿ), which the paper
    writes for it. gap: the conditional total correlation of Y_1, …, Y_n given Tⁿ, found on its own as a mean KL.
    """

    loss: float
    joint: float
    gap: float
    unit: Unit


def best_group_loss(p_xy: ArrayLike, encoder: ArrayLike, fold: int, *, unit: Unit = "bits") -> GroupLoss:
    """The least cross-entropy of factorised heads on a bottleneck of `fold` objects, and what it exceeds.

    Args:
        p_xy: (letters of X, letters of Y).
        encoder: (|X|^fold, letters of Tⁿ) p(tⁿ|xⁿ), words in the order of `words`.

    >>> parity = np.eye(2)[[0, 1, 1, 0]]
    >>> best_group_loss([[0.5, 0.0], [0.0, 0.5]], parity, fold=2)
    GroupLoss(loss=2.0, joint=1.0, gap=1.0, unit='bits')
    """
    joint = joint_table(p_xy)
    p_ty = _group_joint(joint, encoder, fold)
    places = p_ty.reshape(len(p_ty), *[joint.shape[1]] * fold)
    heads = [places.sum(axis=tuple(axis for axis in range(1, fold + 1) if axis != place + 1)) for place in range(fold)]
    loss = sum(_conditional_entropy(head) for head in heads)
    product = np.ones((len(p_ty), 1))
    for head in heads:
        product = (product[:, :, None] * conditional_law(head)[:, None, :]).reshape(len(p_ty), -1)
    observed = p_ty > 0
    ratio = np.where(observed, conditional_law(p_ty), 1.0) / np.where(observed, product, 1.0)
    gap = float((p_ty * np.log(ratio)).sum())
    joint_loss = fold * entropy(joint.sum(axis=0), unit="nats") - information_nats(p_ty)
    loss, joint_loss, gap = (float(in_unit(value, unit)) for value in (loss, joint_loss, gap))
    return GroupLoss(loss, joint_loss, gap, unit)


def group_rate(p_xy: ArrayLike, encoder: ArrayLike, decoder: ArrayLike, *, unit: Unit = "bits") -> Sides:
    """I(Xⁿ;Tⁿ) ≥ Σ_i I(X_i;T_i) for independent X_i, the converse's middle step.

    Args:
        encoder: (|X|^n, indices) p(index|xⁿ), words in the order of `words`.
        decoder: (indices, n) the letters t_i that an index stands for.

    >>> group_rate([[0.5, 0.0], [0.0, 0.5]], np.eye(2)[[0, 1, 1, 0]], [[0, 0], [1, 1]])
    Sides(left=1.0, relation='≥', right=0.0, unit='bits')
    """
    joint = joint_table(p_xy)
    letters = np.asarray(decoder, dtype=np.int64)
    if letters.ndim != 2:
        raise TheoryError(f"expected a decoder of shape (indices, n), got {letters.shape}")
    n = letters.shape[1]
    check_words(len(joint), n)
    places = words(len(joint), n)
    rows = encoder_table(encoder, len(places))
    p_xt = joint.sum(axis=1)[places].prod(axis=1)[:, None] * rows
    parts = 0.0
    for place in range(n):
        pairs = np.zeros((len(joint), int(letters.max()) + 1))
        np.add.at(pairs, (places[:, place][:, None], letters[:, place][None]), p_xt)
        parts += information_nats(pairs)
    _, same = np.unique(letters, axis=0, return_inverse=True)
    merged = np.zeros((int(same.max()) + 1, len(p_xt)))
    np.add.at(merged, same.ravel(), p_xt.T)
    return Sides(float(in_unit(information_nats(merged.T), unit)), "≥", float(in_unit(parts, unit)), unit)


def _group_joint(joint: Array, encoder: ArrayLike, fold: int) -> Array:
    """p(tⁿ, yⁿ): (letters of Tⁿ, |Y|^fold)."""
    check_words(joint.size, fold)
    together: Array = np.ones((1, 1))
    for _ in range(fold):
        together = np.asarray(np.kron(together, joint), dtype=np.float64)
    return encoder_table(encoder, len(together)).T @ together


def _conditional_entropy(joint: Array) -> float:
    """H(column|row), in nats."""
    rows = joint.sum(axis=1)
    return float(xlogy(rows, rows).sum() - xlogy(joint, joint).sum())
