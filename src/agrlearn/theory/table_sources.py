"""Where joint tables p(x, y) come from: examples by name, or a file."""

from pathlib import Path

import numpy as np

from agrlearn.errors import TheoryError
from agrlearn.theory.distributions import Array, joint_table


def binary_symmetric(noise: float = 0.1) -> Array:
    """X a fair bit, Y = X flipped with probability `noise`.

    >>> binary_symmetric(0.1)
    array([[0.45, 0.05],
           [0.05, 0.45]])
    """
    if not 0 <= noise <= 0.5:
        raise TheoryError(f"expected a noise between 0 and ½, got {noise}")
    return np.array([[1 - noise, noise], [noise, 1 - noise]]) / 2


def four_letters() -> Array:
    """p(x) = (.4, .3, .2, .1) and p(y=1|x) = (.05, .35, .65, .95): a rare cluster pays before small changes do."""
    one = np.array([0.05, 0.35, 0.65, 0.95])
    return np.array([[0.4], [0.3], [0.2], [0.1]]) * np.stack([1 - one, one], axis=1)


def three_letters() -> Array:
    """X uniform on 3 letters and p(y=0|x) = (.95, .5, .05): groups beat single letters from n = 2 on."""
    zero = np.array([0.95, 0.5, 0.05])
    return np.stack([zero, 1 - zero], axis=1) / 3


SOURCES = {"binary-symmetric": binary_symmetric, "four-letters": four_letters, "three-letters": three_letters}
"""Sources p(x, y) by name."""


def read_table(path: Path, *, normalize: bool = False) -> Array:
    """Read p(x, y) from a CSV file of numbers, one row per letter of X, without a header.

    Args:
        normalize: divide by the sum first, as for counts.
    """
    if path.exists() and not path.is_file():
        raise TheoryError(f"expected a CSV file of numbers, got {path}, which is not a file")
    try:
        with path.open() as file:
            table = np.loadtxt(file, delimiter=",", ndmin=2)
    except ValueError as error:
        raise TheoryError(
            f"expected rows of comma-separated numbers without a header in {path}; give one row per letter of X and "
            f"one column per letter of Y ({error})"
        ) from None
    return joint_table(table, normalize=normalize)
