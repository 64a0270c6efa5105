"""Probability tables: how they are checked, and the laws that a joint table and an encoder define together."""

import math
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from agrlearn.errors import TheoryError

Array = NDArray[np.float64]
Unit = Literal["bits", "nats"]

_TOLERANCE = 1e-9


def joint_table(table: ArrayLike, *, normalize: bool = False) -> Array:
    """Check a joint distribution p(x, y).

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
    array = _probabilities(table, "a table p(x, y)")
    if array.ndim != 2 or min(array.shape) < 2:
        raise TheoryError(
            f"expected a table p(x, y) with at least 2 rows (letters of X) and 2 columns (letters of Y), got shape "
            f"{array.shape}; give one row per letter of X"
        )
    total = array.sum()
    if normalize and total <= 0:
        raise TheoryError("expected a table with a positive sum to normalize, got only zeros; give counts")
    if not normalize and abs(total - 1) > _TOLERANCE:
        raise TheoryError(
            f"expected probabilities that sum to 1 within {_TOLERANCE:g}, got the sum {total:.12g}; to divide "
            "by it, as for counts, use joint_table(table, normalize=True), or --normalize on the command line"
        )
    return array / total


def conditional_table(table: ArrayLike, rows: int, what: str = "an encoder p(t|x)") -> Array:
    """Check a table of conditional distributions, such as an encoder: (rows, letters), each row sums to 1.

    >>> conditional_table([[1, 0], [0.5, 0.5]], rows=2)
    array([[1. , 0. ],
           [0.5, 0.5]])
    """
    array = _probabilities(table, what)
    if array.ndim != 2 or len(array) != rows or array.shape[1] == 0:
        raise TheoryError(f"expected {what} with {rows} rows, got shape {array.shape}")
    sums = array.sum(axis=1)
    worst = int(np.argmax(np.abs(sums - 1)))
    if abs(sums[worst] - 1) > _TOLERANCE:
        raise TheoryError(
            f"expected {what} whose rows sum to 1 within {_TOLERANCE:g}, got {sums[worst]:.12g} in row {worst}; "
            "divide each row by its sum"
        )
    return array / sums[:, None]


def distribution(p: ArrayLike) -> Array:
    """Check a distribution over one finite alphabet: (letters,)."""
    array = _probabilities(p, "a distribution")
    if array.ndim != 1 or array.size == 0:
        raise TheoryError(f"expected a distribution as one vector, got shape {array.shape}")
    if abs(array.sum() - 1) > _TOLERANCE:
        raise TheoryError(f"expected a distribution that sums to 1 within {_TOLERANCE:g}, got {array.sum():.12g}")
    return array / array.sum()


def conditional_law(joint: Array) -> Array:
    """p(column|row) of a joint table; a row of probability 0 gets the marginal of the columns.

    >>> conditional_law(np.array([[0.1, 0.3], [0.6, 0.0]]))
    array([[0.25, 0.75],
           [1.  , 0.  ]])
    """
    mass = joint.sum(axis=1, keepdims=True)
    return np.where(mass > 0, joint / np.where(mass > 0, mass, 1.0), joint.sum(axis=0) / joint.sum())


def bottleneck_joint(p_xy: ArrayLike, encoder: ArrayLike) -> Array:
    """p(t, y) of the Markov chain Y — X — T: (letters of T, letters of Y).

    Args:
        p_xy: (letters of X, letters of Y).
        encoder: (letters of X, letters of T), p(t|x).

    >>> bottleneck_joint([[0.4, 0.1], [0.1, 0.4]], [[1, 0], [0.5, 0.5]])
    array([[0.45, 0.3 ],
           [0.05, 0.2 ]])
    """
    joint = joint_table(p_xy)
    return conditional_table(encoder, len(joint)).T @ joint


def nats_per(unit: Unit) -> float:
    """The number of nats in one unit. Everything is computed in nats and divided by this in the end.

    >>> round(nats_per("bits"), 6)
    0.693147
    """
    if unit not in ("bits", "nats"):
        raise TheoryError(f"expected unit='bits' or unit='nats', got {unit!r}")
    return math.log(2) if unit == "bits" else 1.0


def rate_in_nats(rate: float, unit: Unit) -> float:
    """Check the rate of a code and convert it to nats per letter."""
    if not 0 <= rate < math.inf:
        raise TheoryError(f"expected a finite rate of at least 0 {unit} per letter, got {rate}")
    return rate * nats_per(unit)


def _probabilities(values: ArrayLike, what: str) -> Array:
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise TheoryError(f"expected {what} made of numbers in rows of equal length; check its entries") from None
    if not np.isfinite(array).all():
        raise TheoryError(f"expected {what} of finite numbers, got NaN or infinity; replace or remove those entries")
    if (array < 0).any():
        raise TheoryError(f"expected {what} without negative entries, got {array.min():g}; probabilities are never < 0")
    return array
