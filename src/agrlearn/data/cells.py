"""What a cell of a table holds: a number, yes or no, or a word."""

from datetime import date
from typing import Any

import numpy

LARGEST_NUMBER = float(numpy.finfo(numpy.float32).max)
# How people and programs write that there is no value. In a column of words they are words like any other.
_MISSING = {"", "na", "n/a", "#n/a", "nan", "null", "none", "nil", "nat", "?", "-", "--", "."}
BOOLEANS = (("true", "false"), ("yes", "no"), ("y", "n"), ("t", "f"), ("on", "off"))
"""How people and programs write yes and no."""


def is_blank(cell: Any) -> bool:
    """Whether a cell is empty, or NaN."""
    return cell is None or cell != cell or (isinstance(cell, str) and not cell.strip())  # NaN differs from itself


def is_missing(cell: Any) -> bool:
    """Whether a cell is blank, or says that there is no value, where numbers or dates are expected.

    >>> [is_missing(cell) for cell in ("", "NA", "?", "0")]
    [True, True, True, False]
    """
    return is_blank(cell) or (isinstance(cell, str) and cell.strip().lower() in _MISSING)


def as_number(cell: Any) -> float | None:
    """The number in a cell; None if it holds none, or one that is not finite."""
    if isinstance(cell, bool | date):
        return None
    try:
        value = float(cell)
    except (TypeError, ValueError, OverflowError):
        return None
    return value if abs(value) <= LARGEST_NUMBER else None


def as_boolean(cell: Any) -> bool | None:
    """Whether a cell says yes or no; None if it says neither.

    >>> [as_boolean(cell) for cell in (True, "Yes", "n", "maybe")]
    [True, True, False, None]
    """
    word = str(cell).strip().lower()
    return next((word == yes for yes, no in BOOLEANS if word in (yes, no)), None)


def as_word(cell: Any) -> str:
    """A cell as one word of a category; a blank cell is the empty word.

    >>> as_word(3.0), as_word(" red "), as_word(None)
    ('3', 'red', '')
    """
    if is_blank(cell):
        return ""
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))  # a program writes 3 as 3.0 where the column has gaps
    return str(cell).strip()


def shorten(cell: Any, width: int = 60) -> str:
    """A cell in an error message."""
    text = " ".join(repr(cell).split())
    return text if len(text) <= width else f"{text[: width - 1]}…"
