"""Tables: .csv, .tsv, .jsonl and .parquet files with a label column and text or numbers."""

import csv
import math
import re
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy

from agrlearn.data.arrays import objects_from_array
from agrlearn.data.preparation import LONGEST_COLUMN
from agrlearn.data.sources import BadObject, Part, Place, Source, refuse_growth
from agrlearn.data.text import Vocabulary
from agrlearn.errors import DataError, look_up
from agrlearn.files import parse_json

_LABEL_NAMES = ("label", "labels", "class", "target", "category", "y")  # the surest first: y may be a coordinate
_ROW_NUMBERS = re.compile(r"\s*|Unnamed: \d+|__index_level_\d+__")  # pandas' names for a column of row numbers
_ROWS_TO_GUESS_FROM = 200
_LONGEST_ROW = 2**23  # bytes
_LARGEST_NUMBER = float(numpy.finfo(numpy.float32).max)
_MANY_CELLS, _CELLS_PER_BYTE = 2**20, 20  # a parquet file beyond both is a decompression bomb

Rows = Iterator[tuple[int, dict[str, Any]]]
"""Each row with its number in the file, from 1."""
Refuse = Callable[[int, str], None]
"""Called with the number of a row that cannot be used, and the reason."""


def read_table(
    path: Path, *, text_column: str | None = None, label_column: str | None = None, skip_bad: bool = False,
    labels: bool = True, preparation: dict[str, Any] | None = None,
) -> Source:  # fmt: skip
    """Read a table's rows as sentences or vectors.

    Args:
        text_column, label_column: guessed by default; `Source.remarks` says what was guessed.
        skip_bad: leave out rows that cannot be used instead of refusing the file.
        labels: False reads the objects alone, and accepts rows without a label.
        preparation: how an earlier run made objects from its table; rows become objects in the same way.
    """
    if not path.is_file():
        raise DataError(f"{path} is not a file; expected a table")
    bad: dict[int, str] = {}

    def refuse(row: int, reason: str) -> None:
        if not skip_bad:
            raise DataError(f"{path}, row {row}: {reason}; fix it, or leave out bad rows with --skip-bad")
        bad[row] = reason

    rows = list(look_up(READERS, path.suffix.lower(), "kind of table")(path, refuse))
    if not rows:
        raise DataError(f"{path} is empty; expected a header and at least one row")
    known = preparation or {}
    text, label, features, remarks = _choose_columns(path, [row for _, row in rows], known, text_column, label_column)
    label_read = label if labels else None
    kept = {}
    for number, row in rows:
        try:
            if label_read is not None and _is_blank(row[label_read]):
                raise ValueError(f"the column {label!r} is empty")
            kept[number] = _text(row, text) if text else [_number(row, column) for column in features]
        except ValueError as error:
            refuse(number, str(error))
    if not kept:
        raise DataError(f"{path} has no usable rows")
    values: list[Any] = list(kept.values())
    remembered = label or known.get("label")
    if text:
        if known:
            words = Vocabulary(tuple(known["words"]), known["length"], known.get("cleaning", "kim"))
        else:
            words = Vocabulary.of(values)
        size = 8 * words.length * len(values)
        refuse_growth(str(path), size, path.stat().st_size, "shorten or leave out its longest sentences")
        objects, about = words.encode(values), words.preparation(text, remembered)
    else:
        objects = objects_from_array(values, origin=str(path))
        about = {"kind": "table", "columns": features, "label": remembered}
    # Places count the rows that were left out, but not the header and blank lines.
    place = {number: index for index, number in enumerate(sorted([*kept, *bad]))}
    names = None if label_read is None else [str(row[label_read]) for number, row in rows if number in kept]
    return Source(
        str(path),
        Part(objects, names, [Place(place[number], f"row {number}") for number in kept]),
        bad=tuple(BadObject(f"row {number}", reason) for number, reason in sorted(bad.items())),
        remarks=tuple(remarks),
        preparation=about,
    )


def _choose_columns(
    path: Path, rows: list[dict[str, Any]], known: dict[str, Any], text: str | None, label: str | None
) -> tuple[str | None, str | None, list[str], list[str]]:
    """Choose the columns: given by the user, known from an earlier run, or guessed.

    Returns:
        The text column, the label column, the columns of numbers (used if there is no text), and remarks.
    """
    remarks = []
    names = list(rows[0])
    if any(len(name) > LONGEST_COLUMN for name in names):
        raise DataError(f"{path} has a column whose name is longer than {LONGEST_COLUMN:,} characters; is it a table?")
    row_numbers = [name for name in names if _ROW_NUMBERS.fullmatch(name) and name not in (text, label)]
    if row_numbers and not known and len(row_numbers) < len(names):
        # In a sorted table they give the class away, and they say nothing about new data.
        names = [name for name in names if name not in row_numbers]
        listed = ", ".join(map(repr, row_numbers))
        remarks.append(f"left out: {listed}, which pandas uses for row numbers; to use such a column, rename it")
    chosen = label or known.get("label") or _guess_label(names)
    if chosen not in names:
        if label or not known:
            look_up(dict.fromkeys(names), chosen, f"column of {path}")
        chosen = None  # a table to predict needs no labels
    if known and chosen is not None and all(_is_blank(row[chosen]) for row in rows):
        chosen = None
    others = [name for name in names if name != chosen]
    text = text or known.get("text") or (None if known else _guess_text(rows, others))
    if text is not None:
        look_up(dict.fromkeys(names), text, f"column of {path}")
    if not known:
        read = f"the sentences in {text!r}" if text else "the numbers in all other columns"
        remarks.append(f"labels from the column {chosen!r}, objects from {read}")
    features = known.get("columns") or others
    if text is None and not features:
        raise DataError(f"{path} has no column except the label; expected text or numbers to classify")
    missing = [] if text else [name for name in features if name not in rows[0]]
    if missing:
        raise DataError(f"{path} has no column {missing[0]!r}, which the network was trained on")
    return text, chosen, features, remarks


def _text(row: dict[str, Any], column: str) -> str:
    if not isinstance(row[column], str) or not row[column].strip():
        raise ValueError(f"the column {column!r} has no text")
    return row[column]


def _number(row: dict[str, Any], column: str) -> float:
    try:
        value = float(row[column])
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    if not abs(value) <= _LARGEST_NUMBER:
        shown = textwrap.shorten(repr(row[column]), 60)
        raise ValueError(f"the column {column!r} holds {shown}, which is not a finite number")
    return value


def _guess_label(names: list[str]) -> str:
    by_name = {name.strip().lower(): name for name in reversed(names)}
    return next((by_name[known] for known in _LABEL_NAMES if known in by_name), names[-1])


def _guess_text(rows: list[dict[str, Any]], names: list[str]) -> str | None:
    """The column with the most words per filled cell, if there are at least two on average."""
    words = {}
    for name in names:
        counts = [len(str(row[name]).split()) for row in rows[:_ROWS_TO_GUESS_FROM] if row[name]]
        words[name] = sum(counts) / max(1, len(counts))
    best = max(words, key=words.__getitem__, default=None)
    return best if best is not None and words[best] >= 2 else None


def _read_delimited(path: Path, refuse: Refuse) -> Rows:
    separator = "\t" if path.suffix.lower() == ".tsv" else ","
    with path.open("rb") as file:
        csv.field_size_limit(_LONGEST_ROW)
        table = csv.reader(_lines(path, file, refuse), delimiter=separator)
        try:
            header = next(table, None)
            if header is None:
                return
            if all(_is_number(name) for name in header) or len(set(header)) != len(header):
                raise DataError(
                    f"{path} has no header: its first row is {', '.join(header[:5])}; name every column there"
                )
            last = table.line_num
            for cells in table:
                first, last = last + 1, table.line_num
                if separator == "\t" and last > first:
                    refuse(
                        first, f"it goes on to row {last}; is a quotation mark left open? A .csv may have such cells"
                    )
                elif len(cells) == len(header):
                    yield last, dict(zip(header, cells, strict=True))
                elif cells:
                    refuse(last, f"{len(cells)} cells instead of {len(header)}")
        except csv.Error as error:
            raise DataError(f"{path}, row {table.line_num}: {error}; fix it") from error


def _lines(path: Path, file: Any, refuse: Refuse) -> Iterator[str]:
    lines = iter(lambda: file.readline(_LONGEST_ROW + 1), b"")
    for number, line in enumerate(lines, start=1):
        if len(line) > _LONGEST_ROW:
            raise DataError(f"{path}: row {number} is longer than {_LONGEST_ROW:,} bytes; is it a table?")
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError:
            refuse(number, "the text is not UTF-8")
            yield "\n"  # a row without cells, so that the rows after it keep their numbers


def _read_json_lines(path: Path, refuse: Refuse) -> Rows:
    names: set[str] = set()
    with path.open("rb") as file:
        for number, line in enumerate(_lines(path, file, refuse), start=1):
            if not line.strip():
                continue
            try:
                row = parse_json(line)
            except ValueError:
                row = None
            names = names or (set(row) if isinstance(row, dict) else set())
            if not isinstance(row, dict) or not row or set(row) != names:
                refuse(number, "expected a JSON object with the same names as the first row")
            elif any(isinstance(cell, dict | list) for cell in row.values()):
                refuse(number, "a cell holds a list or another object instead of a text or a number")
            else:
                yield number, row


def _read_parquet(path: Path, refuse: Refuse) -> Rows:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise DataError(
            "reading .parquet files needs pyarrow; install it with: pip install 'agrlearn[parquet]'"
        ) from None
    size = path.stat().st_size
    try:
        about = parquet.read_metadata(path)
        cells = about.num_rows * about.num_columns
        if cells > max(_MANY_CELLS, _CELLS_PER_BYTE * size):
            raise DataError(f"{path} is a parquet file of {cells:,} cells in {size:,} bytes; is it data?")
        yield from enumerate(parquet.read_table(path).to_pylist(), start=1)
    except DataError:
        raise
    except (ArrowException, OSError, ValueError, OverflowError) as error:
        raise DataError(f"{path} cannot be read as a parquet file ({error})") from error


def _is_blank(cell: Any) -> bool:
    return cell is None or cell != cell or str(cell).strip() == ""  # NaN differs from itself


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


READERS: dict[str, Callable[[Path, Refuse], Rows]] = {
    ".csv": _read_delimited,
    ".tsv": _read_delimited,
    ".jsonl": _read_json_lines,
    ".parquet": _read_parquet,
}
