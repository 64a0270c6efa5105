"""Probability tables: what counts as one, and the laws that a joint table and an encoder make together."""

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from agrlearn.errors import TheoryError

Array = NDArray[np.float64]
Unit = Literal["bits", "nats"]

_TOLERANCE = 1e-9


def joint_table(table: ArrayLike, *, normalize: bool = False) -> Array:
    """A joint distribution p(x, y), checked.

    Args:
        table: (letters of X, letters of Y), at least 2 of each; sums to 1 within 1e-9. Letters of probability 0 are
            allowed.
        normalize: divide by the sum first, as for counts.
    Returns:
        A new float64 array that sums to 1.

    >>> joint_table([[3, 1], [1, 3]], normalize=True)
    array([[0.375, 0.125],
           [0.125, 0.375]])
    """
    array = _numbers(table, "a table p(x, y)")
    if array.ndim != 2 or min(array.shape) < 2:
        raise TheoryError(
            f"expected a table p(x, y) of at least 2 rows (letters of X) and 2 columns (letters of Y), got shape "
            f"{array.shape}; give one row per letter of X"
        )
    total = array.sum()
    if normalize:
        if total <= 0:
            raise TheoryError("expected a table with a positive sum to normalize, got only zeros; give counts")
        return array / total
    if abs(total - 1) > _TOLERANCE:
        raise TheoryError(
            f"expected probabilities that sum to 1 within {_TOLERANCE:g}, got the sum {total:.12g}; to divide "
            "by it, as for counts, use joint_table(table, normalize=True), or --normalize on the command line"
        )
    return array / total


def encoder_table(encoder: ArrayLike, letters: int) -> Array:
    """An encoder p(t|x), checked.

    Args:
        encoder: (letters of X, letters of T), every row a distribution.
        letters: how many rows there must be.

    >>> encoder_table([[1, 0], [0.5, 0.5]], letters=2)
    array([[1. , 0. ],
           [0.5, 0.5]])
    """
    return _rows(encoder, letters, "an encoder p(t|x)", "letter of X")


def decoder_table(decoder: ArrayLike, letters: int) -> Array:
    """A decoder q(y|t), checked: (letters of T, letters of Y), every row a distribution."""
    return _rows(decoder, letters, "a decoder q(y|t)", "letter of T")


def distribution(p: ArrayLike, what: str = "a distribution") -> Array:
    """A distribution over one finite alphabet, checked: (letters,)."""
    array = _numbers(p, what)
    if array.ndim != 1 or array.size == 0:
        raise TheoryError(f"expected {what} as one vector, got shape {array.shape}")
    if abs(array.sum() - 1) > _TOLERANCE:
        raise TheoryError(f"expected {what} that sums to 1 within {_TOLERANCE:g}, got the sum {array.sum():.12g}")
    return array / array.sum()


def conditional_law(joint: Array) -> Array:
    """p(column|row) of a joint table; rows of probability 0 get the columns' marginal, so that every row is a law.

    >>> conditional_law(np.array([[0.1, 0.3], [0.6, 0.0]]))
    array([[0.25, 0.75],
           [1.  , 0.  ]])
    """
    mass = joint.sum(axis=1, keepdims=True)
    return np.where(mass > 0, joint / np.where(mass > 0, mass, 1.0), joint.sum(axis=0) / joint.sum())


def bottleneck_joint(p_xy: ArrayLike, encoder: ArrayLike) -> Array:
    """p(t, y) of the Markov chain Y — X — T.

    Args:
        p_xy: (letters of X, letters of Y).
        encoder: (letters of X, letters of T), p(t|x).
    Returns:
        (letters of T, letters of Y).

    >>> bottleneck_joint([[0.4, 0.1], [0.1, 0.4]], [[1, 0], [0.5, 0.5]])
    array([[0.45, 0.3 ],
           [0.05, 0.2 ]])
    """
    joint = joint_table(p_xy)
    return encoder_table(encoder, len(joint)).T @ joint


def in_unit(nats: Any, unit: Unit) -> Any:
    """Numbers in nats, told in `unit`; this is the only place where the two meet."""
    return nats / nats_per(unit)


def nats_per(unit: Unit) -> float:
    """How many nats a unit is.

    >>> round(nats_per("bits"), 6)
    0.693147
    """
    if unit not in ("bits", "nats"):
        raise TheoryError(f"expected unit='bits' or unit='nats', got {unit!r}")
    return float(np.log(2)) if unit == "bits" else 1.0


def _numbers(values: ArrayLike, what: str) -> Array:
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise TheoryError(f"expected {what} made of numbers in rows of equal length; check its entries") from None
    if np.isnan(array).any() or np.isinf(array).any():
        raise TheoryError(f"expected {what} of finite numbers, got NaN or infinity; replace or leave out those entries")
    if (array < 0).any():
        raise TheoryError(
            f"expected {what} without negative entries, got {array.min():g}; probabilities are at least 0"
        )
    return array


def _rows(values: ArrayLike, letters: int, what: str, row: str) -> Array:
    array = _numbers(values, what)
    if array.ndim != 2 or len(array) != letters or array.shape[1] == 0:
        raise TheoryError(f"expected {what} with {letters} rows, one per {row}, got shape {array.shape}")
    sums = array.sum(axis=1)
    worst = int(np.argmax(np.abs(sums - 1)))
    if abs(sums[worst] - 1) > _TOLERANCE:
        raise TheoryError(
            f"expected {what} whose rows sum to 1 within {_TOLERANCE:g}, got {sums[worst]:.12g} in row {worst}; "
            "divide each row by its sum"
        )
    return array / sums[:, None]
