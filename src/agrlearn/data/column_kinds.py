"""What a table's columns are: which is the label, and of which kind each of the others is."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy

from agrlearn.data.cells import BOOLEANS, as_word, is_blank, is_missing
from agrlearn.data.columns import Boolean, Cells, Number, numbers_of
from agrlearn.data.date_columns import Date, as_date, date_form
from agrlearn.data.word_columns import MOST_VALUES, Words
from agrlearn.errors import DataError, look_up

_LABEL_NAMES = (
    # The surest first: y may be a coordinate.
    "label", "labels", "class", "target", "category", "y", "outcome", "survived", "species", "diagnosis", "churn",
)  # fmt: skip
_ROW_NUMBERS = re.compile(r"\s*|Unnamed: \d+|__index_level_\d+__")  # pandas' names for a column of row numbers
_ID_WORDS = {"id", "ids", "uuid", "guid", "index", "idx", "row", "rowname", "rownames", "rownum"}
_PARTS_OF_NAME = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_SHARE_OF_WRONG_CELLS = 0.02
_ROWS_THAT_SHOW_IDENTIFIERS = 50
_ROWS_THAT_SHOW_QUANTITIES = 20
_WORDS_OF_TEXT = 2


class Kind(NamedTuple):
    """The kind of a column, and for one that is left out, why."""

    name: str
    why: str = ""

    @property
    def is_used(self) -> bool:
        return self.name in LEARNERS


LEARNERS: dict[str, Callable[[str, Cells], Any]] = {
    "number": Number.learn,
    "boolean": Boolean.learn,
    "date": Date.learn,
    "words": Words.learn,
    "text": lambda column, cells: Words.learn(column, cells, text=True),
}
"""Kinds of columns, and how each becomes features."""


def guess_kind(name: str, cells: Cells, *, wanted: bool = False) -> Kind:
    """The kind of a column, by its name and its cells.

    Args:
        wanted: the user has asked for this column, so that it is not left out as an identifier.
    """
    filled = [cell for cell in cells if not is_blank(cell)]
    distinct = {as_word(cell) for cell in filled}
    if not distinct or (len(distinct) == 1 and len(filled) == len(cells) > 1):
        return Kind("constant", "the same in every row" if distinct else "empty")
    if _ROW_NUMBERS.fullmatch(name) and not wanted:
        # In a sorted table they give the class away, and they say nothing about new data.
        return Kind("identifier", "pandas writes row numbers under this name")
    numbers = numbers_of(cells)
    found = int((~numpy.isnan(numbers)).sum())
    wrong = sum(not is_missing(cell) for cell in filled) - found
    if found and _few(wrong, found):
        return _kind_of_numbers(name, numbers, len(distinct), wanted)
    answers = {word.lower() for word in distinct if not is_missing(word)}
    if any(answers <= {yes, no} for yes, no in BOOLEANS):
        return Kind("boolean")
    form = date_form(filled)
    if form is not None:
        dates = sum(as_date(cell, form) is not None for cell in filled)
        if _few(sum(not is_missing(cell) for cell in filled) - dates, dates):
            return Kind("date")
    words = sum(len(str(cell).split()) for cell in filled) / len(filled)
    if words >= _WORDS_OF_TEXT and len(distinct) > min(MOST_VALUES, len(filled) / 2):
        return Kind("text")
    unique = len(distinct) == len(filled) and len(cells) >= _ROWS_THAT_SHOW_IDENTIFIERS
    if not wanted and (unique or (_names_identifiers(name) and len(distinct) > 0.9 * len(filled))):
        return Kind("identifier", "a different value in nearly every row")
    return Kind("words")


def _kind_of_numbers(name: str, numbers: numpy.ndarray, distinct: int, wanted: bool) -> Kind:
    """Of a column of numbers; those of long identifiers are `distinct` as they are written, but not as numbers."""
    filled = numbers[~numpy.isnan(numbers)]
    whole = bool((filled == numpy.round(filled)).all())
    if wanted or not whole:
        return Kind("number")
    if _names_identifiers(name):
        if distinct > 0.9 * len(filled):
            return Kind("identifier", "its name, and a different number in nearly every row")
        return Kind("words") if distinct <= MOST_VALUES else Kind("number")
    if len(filled) == len(numbers) >= _ROWS_THAT_SHOW_IDENTIFIERS and (numpy.diff(filled) == 1).all():
        return Kind("identifier", "it counts the rows")
    return Kind("number")


def _few(wrong: int, right: int) -> bool:
    """Whether the cells that do not fit are so few that they are mistakes."""
    return wrong < right and wrong <= max(1, _SHARE_OF_WRONG_CELLS * right)


def _names_identifiers(name: str) -> bool:
    """Whether a name is one of identifiers.

    >>> [_names_identifiers(name) for name in ("PassengerId", "loan_ID", "id", "paid", "Idaho")]
    [True, True, True, False, False]
    """
    parts = [part.lower() for part in _PARTS_OF_NAME.findall(name)]
    return bool(parts) and (parts[-1] in _ID_WORDS or parts[0] in ("id", "uuid", "guid"))


def find_identifier(table: Mapping[str, Cells], other: Sequence[str | None]) -> str | None:
    """The first column that names its rows, if there is one.

    Args:
        other: columns that are something else, such as the label.

    >>> find_identifier({"label": ["a", "b"], "size": [1, 2], "Id": ["x7", "x9"]}, ["label"])
    'Id'
    """
    for name, cells in table.items():
        if name in other or _ROW_NUMBERS.fullmatch(name) or any(map(is_blank, cells)):
            continue
        if guess_kind(name, cells).name == "identifier":
            return name
    return None


def guess_label(table: Mapping[str, Cells]) -> tuple[str, str]:
    """The column that holds the labels, and why it is taken."""
    names = [name for name in table if not _ROW_NUMBERS.fullmatch(name)] or list(table)
    by_name = {name.strip().lower(): name for name in reversed(names)}
    for known in _LABEL_NAMES:
        if known in by_name:
            return by_name[known], "because of its name"
    for name, why in ((names[-1], "because it is the last column"), (names[0], "because it is the first column")):
        if _could_be_label(table[name]):
            return name, f"{why}; if it is not, name another with --label"
    raise DataError(
        f"no column is called label or class, and the last one, {names[-1]!r}, is different in nearly every row; name "
        "the column of the labels with --label"
    )


def _could_be_label(cells: Cells) -> bool:
    filled = [as_word(cell) for cell in cells if not is_blank(cell)]
    if len(filled) < _ROWS_THAT_SHOW_IDENTIFIERS:
        return bool(filled)
    return len(set(filled)) <= len(filled) / 2 and not _has_fractions(cells)


def is_quantity(cells: Cells) -> bool:
    """Whether cells are numbers that are different in most rows: they measure something, and name no classes."""
    numbers = numbers_of([cell for cell in cells if not is_blank(cell)])
    if len(numbers) < _ROWS_THAT_SHOW_QUANTITIES or numpy.isnan(numbers).any():
        return False
    return len(numpy.unique(numbers)) > len(numbers) / 2


def _has_fractions(cells: Cells) -> bool:
    numbers = numbers_of(cells)
    return bool((numbers[~numpy.isnan(numbers)] % 1 != 0).any())


def choose_kinds(
    table: Mapping[str, Cells], label: str | None, columns: Sequence[str] = (), ignore: Sequence[str] = ()
) -> dict[str, Kind]:
    """The kind of every column other than the label.

    Args:
        columns: those to use, by name or as NAME=KIND; by default all that say something about new rows.
        ignore: those to leave out.
    """
    names = [name for name in table if name != label]
    wanted = dict(_split_kind(text, names) for text in _split_names(columns, list(table)) if text != label)
    ignored = _split_names(ignore, list(table))
    if label in ignored:
        raise DataError(f"{label!r} is taken for the label, so it is no feature to ignore; name the label with --label")
    for name in ignored:
        look_up(dict.fromkeys(names), name, "column")
    kinds = {}
    for name in names:
        if name in ignored or (wanted and name not in wanted):
            kinds[name] = Kind("ignored", "--ignore" if name in ignored else "it is not among --columns")
        else:
            kinds[name] = wanted.get(name) or guess_kind(name, table[name], wanted=name in wanted)
    return kinds


def _split_names(texts: Sequence[str], names: Sequence[str]) -> list[str]:
    """Names as they were given: one each, or several with commas between them."""
    return [part for text in texts for part in ([text] if text in names else text.split(",")) if part]


def _split_kind(text: str, names: Sequence[str]) -> tuple[str, Kind | None]:
    name, equals, kind = (text, "", "") if text in names else text.rpartition("=")
    if not equals:
        look_up(dict.fromkeys(names), text, "column")
        return text, None
    look_up(dict.fromkeys(names), name, "column")
    look_up(LEARNERS, kind, "kind of column")
    return name, Kind(kind)
