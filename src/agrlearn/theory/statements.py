"""The paper's theorems as functions that return both sides, so that you can try them on any table."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import entr, rel_entr, xlogy

from agrlearn.errors import TheoryError
from agrlearn.theory.codes import check_words, word_probabilities, words
from agrlearn.theory.curve import rate_ibl, rate_ibq
from agrlearn.theory.distributions import (
    Unit,
    bottleneck_joint,
    conditional_law,
    conditional_table,
    joint_table,
    nats_per,
)
from agrlearn.theory.measures import entropy, information_nats, mean_ib_distortion, mutual_information


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
    lost = mutual_information(p_xy, unit=unit) - information_nats(bottleneck_joint(p_xy, encoder)) / nats_per(unit)
    return Sides(mean_ib_distortion(p_xy, encoder, unit=unit), "=", lost, unit)


def learning_is_quantization(p_xy: ArrayLike, relevance: float, *, unit: Unit = "bits") -> Sides:
    """Theorem 2: R_IBL(A) = R_IBQ(I(X;Y) − A).

    The left side is found by its constraint on I(Y;T), the right side by its constraint on E d_IB.

    >>> learning_is_quantization([[0.45, 0.05], [0.05, 0.45]], 0.3).holds(1e-6)
    True
    """
    allowed = max(0.0, mutual_information(p_xy, unit=unit) - relevance)
    return Sides(rate_ibl(p_xy, relevance, unit=unit), "=", rate_ibq(p_xy, allowed, unit=unit), unit)


def variational_bound(p_xy: ArrayLike, encoder: ArrayLike, decoder: ArrayLike, *, unit: Unit = "bits") -> Sides:
    """Theorem 3: I(Y;T) ≥ H(Y) + E log q(Y|T), with equality exactly at q = p(Y|T).

    Args:
        decoder: (letters of T, letters of Y), q(y|t). If it excludes a pair that occurs, the right side is −∞.

    >>> variational_bound([[0.5, 0.0], [0.0, 0.5]], [[1, 0], [0, 1]], [[0.9, 0.1], [0.1, 0.9]]).holds()
    True
    """
    p_ty = bottleneck_joint(p_xy, encoder)
    expected_log = xlogy(p_ty, conditional_table(decoder, len(p_ty), "a decoder q(y|t)")).sum() / nats_per(unit)
    right = entropy(p_ty.sum(axis=0), unit=unit) + float(expected_log)
    return Sides(information_nats(p_ty) / nats_per(unit), "≥", right, unit)


def rate_is_convex(p_xy: ArrayLike, first: float, second: float, share: float, *, unit: Unit = "bits") -> Sides:
    """Lemma 1: R(λD₁ + (1−λ)D₂) ≤ λR(D₁) + (1−λ)R(D₂), where D₁ is `first`, D₂ is `second` and λ is `share`.

    >>> rate_is_convex([[0.45, 0.05], [0.05, 0.45]], 0.1, 0.4, 0.5).holds(1e-6)
    True
    """
    if not 0 <= share <= 1:
        raise TheoryError(f"expected a share between 0 and 1, got {share}")
    between = rate_ibq(p_xy, share * first + (1 - share) * second, unit=unit)
    chord = share * rate_ibq(p_xy, first, unit=unit) + (1 - share) * rate_ibq(p_xy, second, unit=unit)
    return Sides(between, "≤", chord, unit)


def rate_between_its_ends(p_xy: ArrayLike, relevance: float, *, unit: Unit = "bits") -> tuple[Sides, Sides]:
    """A ≤ R_IBL(A) ≤ A·H(S)/I(X;Y), by data processing and by time-sharing between nothing and everything.

    S is X up to letters of equal p(y|x), so H(S) ≤ H(X) is R_IBL(I(X;Y)).

    >>> [side.holds(1e-6) for side in rate_between_its_ends([[0.45, 0.05], [0.05, 0.45]], 0.3)]
    [True, True]
    """
    rate = rate_ibl(p_xy, relevance, unit=unit)
    everything = mutual_information(p_xy, unit=unit)
    above = relevance * rate_ibl(p_xy, everything, unit=unit) / everything if everything > 0 else 0.0
    return Sides(rate, "≥", relevance, unit), Sides(rate, "≤", above, unit)


@dataclass(frozen=True)
class GroupLoss:
    """The least loss of n softmax heads over one bottleneck, in `unit`.

    loss: min ℓ⁽ⁿ⁾ = Σ_i H(Y_i|Tⁿ), the least for factorised heads.
    joint: H(Yⁿ|Tⁿ) = n·H(Y) − I(Yⁿ;Tⁿ), which the paper gives for it.
    gap: the conditional total correlation of Y_1, …, Y_n given Tⁿ, computed independently as a mean KL.
    """

    loss: float
    joint: float
    gap: float
    unit: Unit


def best_group_loss(p_xy: ArrayLike, encoder: ArrayLike, fold: int, *, unit: Unit = "bits") -> GroupLoss:
    """The least cross-entropy of factorised heads on a bottleneck of `fold` objects, and its distance from joint heads.

    Args:
        p_xy: (letters of X, letters of Y).
        encoder: (|X|^fold, letters of Tⁿ) p(tⁿ|xⁿ), words in the order of `words`.

    >>> parity = np.eye(2)[[0, 1, 1, 0]]
    >>> best_group_loss([[0.5, 0.0], [0.0, 0.5]], parity, fold=2)
    GroupLoss(loss=2.0, joint=1.0, gap=1.0, unit='bits')
    """
    joint = joint_table(p_xy)
    check_words(joint.size, fold)
    p_words = joint
    for _ in range(fold - 1):
        p_words = np.asarray(np.kron(p_words, joint), dtype=np.float64)
    p_ty = conditional_table(encoder, len(p_words)).T @ p_words
    p_t = p_ty.sum(axis=1)
    labels = p_ty.reshape(len(p_t), *[joint.shape[1]] * fold)
    loss, product = 0.0, p_t[:, None]
    for place in range(1, fold + 1):
        head = labels.sum(axis=tuple(axis for axis in range(1, fold + 1) if axis != place))  # p(tⁿ, y_i)
        loss += entr(head).sum() - entr(p_t).sum()
        product = (product[:, :, None] * conditional_law(head)[:, None, :]).reshape(len(p_t), -1)
    joint_loss = fold * entropy(joint.sum(axis=0), unit="nats") - information_nats(p_ty)
    in_nats = (loss, joint_loss, rel_entr(p_ty, product).sum())
    loss, joint_loss, gap = (float(value / nats_per(unit)) for value in in_nats)
    return GroupLoss(loss, joint_loss, gap, unit)


def group_rate(p_xy: ArrayLike, encoder: ArrayLike, decoder: ArrayLike, *, unit: Unit = "bits") -> Sides:
    """I(Xⁿ;Tⁿ) ≥ Σ_i I(X_i;T_i) for independent X_i, the middle step of the converse.

    Args:
        encoder: (|X|^n, indices) p(index|xⁿ), words in the order of `words`.
        decoder: (indices, n) the letters t_i of every index.

    >>> group_rate([[0.5, 0.0], [0.0, 0.5]], np.eye(2)[[0, 1, 1, 0]], [[0, 0], [1, 1]])
    Sides(left=1.0, relation='≥', right=0.0, unit='bits')
    """
    joint = joint_table(p_xy)
    letters = np.asarray(decoder, dtype=np.int64)
    if letters.ndim != 2:
        raise TheoryError(f"expected a decoder of shape (indices, n), got {letters.shape}")
    n = letters.shape[1]
    check_words(len(joint), n)
    p_index = word_probabilities(joint, n)[:, None] * conditional_table(encoder, len(joint) ** n)
    _, same_word = np.unique(letters, axis=0, return_inverse=True)
    whole = information_nats(p_index @ _one_hot(same_word.ravel()))
    x_words = words(len(joint), n)
    places = (_one_hot(x_words[:, i]).T @ p_index @ _one_hot(letters[:, i]) for i in range(n))
    parts = sum(information_nats(p_xt) for p_xt in places)
    return Sides(whole / nats_per(unit), "≥", parts / nats_per(unit), unit)


def _one_hot(values: np.ndarray) -> np.ndarray:
    """(length,) → (length, values), a 1 for each value."""
    return np.eye(int(values.max()) + 1)[values]
