"""Tables: .csv, .tsv, .jsonl and .parquet files with a label column and text or numbers."""

import csv
import math
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy
from torch import Tensor

from agrlearn.data.arrays import objects_from_array
from agrlearn.data.preparation import LONGEST_COLUMN
from agrlearn.data.sources import BadObject, Part, Place, Source, refuse_growth
from agrlearn.data.text import Vocabulary
from agrlearn.errors import DataError, look_up
from agrlearn.files import parse_json

_LABEL_NAMES = ("label", "labels", "class", "target", "category", "y")  # the surest first: y may be a coordinate
_ROW_NUMBERS = re.compile(r"\s*|Unnamed: \d+|__index_level_\d+__")  # as pandas calls the column of its row numbers
_ROWS_TO_GUESS_FROM = 200
_LONGEST_ROW = 2**23  # bytes
_MANY_CELLS, _CELLS_A_BYTE = 2**20, 20  # a parquet file beyond both is a bomb
Rows = list[tuple[int, dict[str, Any]]]
"""Each row with its number in the file, from 1."""
Made = tuple[Tensor, Rows, dict[str, Any]]
"""Objects, the rows that they were made of, and how."""


def read_table(
    path: Path,
    *,
    text_column: str | None = None,
    label_column: str | None = None,
    skip_bad: bool = False,
    labels: bool = True,
    preparation: dict[str, Any] | None = None,
) -> Source:
    """A table's rows as sentences or vectors.

    Args:
        text_column, label_column: guessed where they are not given; `Source.remarks` tells the guess.
        skip_bad: leave out rows that cannot be used instead of refusing the file.
        labels: False reads the objects alone; rows without a label are as good as others then.
        preparation: how an earlier run made objects of its table; rows become objects in the same way.
    """
    if not path.is_file():
        raise DataError(f"{path} is not a file; expected a table")
    bad: dict[int, str] = {}

    def refuse(row: int, reason: str) -> None:
        if not skip_bad:
            raise DataError(f"{path}, row {row}: {reason}; mend it, or leave out bad rows with --skip-bad")
        bad[row] = reason

    rows = list(look_up(READERS, path.suffix.lower(), "kind of table")(path, refuse))
    if not rows:
        raise DataError(f"{path} is empty; expected a header and at least one row")
    remarks = []
    known = preparation or {}
    names = list(rows[0][1])
    if any(len(name) > LONGEST_COLUMN for name in names):
        raise DataError(f"{path} has a column whose name is longer than {LONGEST_COLUMN:,} characters; is it a table?")
    numbers = [name for name in names if _ROW_NUMBERS.fullmatch(name) and name not in (text_column, label_column)]
    if numbers and not known and len(numbers) < len(names):
        # They tell the class of a sorted table, and nothing of new data.
        names = [name for name in names if name not in numbers]
        told = ", ".join(repr(name) for name in numbers)
        remarks.append(f"left out: {told}, as pandas calls row numbers; to use them as well, name them otherwise")
    label = label_column or known.get("label") or _guess_label(names)
    if label is not None and label not in names:
        if label_column or not known:
            look_up(dict.fromkeys(names), label, f"column of {path}")
        label = None  # a table to predict needs no labels
    if known and label is not None and all(_is_blank(row[label]) for _, row in rows):
        label = None
    text = text_column or known.get("text") or (None if known else _guess_text(rows, [n for n in names if n != label]))
    if text is not None:
        look_up(dict.fromkeys(names), text, f"column of {path}")
    if not known:
        read = f"the sentences in {text!r}" if text else "the numbers in all other columns"
        remarks.append(f"labels from the column {label!r}, objects from {read}")
    if labels and label is not None:
        rows = _with_labels(rows, label, refuse)
    if text is not None:
        objects, kept, about = _sentences(path, rows, text, known, refuse)
    else:
        columns = known.get("columns") or [name for name in names if name != label]
        objects, kept, about = _vectors(path, rows, columns, refuse)
    named = [str(row[label]) for _, row in kept] if labels and label is not None else None
    return Source(
        str(path),
        Part(objects, named, _places([number for number, _ in kept], bad)),
        bad=tuple(BadObject(_row(number), reason) for number, reason in sorted(bad.items())),
        remarks=tuple(remarks),
        preparation={**about, "label": label or known.get("label")},
    )


def _with_labels(rows: Rows, label: str, refuse: Callable[[int, str], None]) -> Rows:
    kept = []
    for number, row in rows:
        if _is_blank(row[label]):
            refuse(number, f"the column {label!r} is empty")
        else:
            kept.append((number, row))
    return kept


def _sentences(path: Path, rows: Rows, text: str, known: dict[str, Any], refuse: Callable[[int, str], None]) -> Made:
    kept: Rows = []
    for number, row in rows:
        if isinstance(row[text], str) and row[text].strip():
            kept.append((number, row))
        else:
            refuse(number, f"the column {text!r} holds no text")
    _refuse_nothing(path, kept)
    texts = [row[text] for _, row in kept]
    if known:
        words = Vocabulary(tuple(known["words"]), known["length"], known.get("cleaning", "kim"))
    else:
        words = Vocabulary.of(texts)
    refuse_growth(
        str(path), 8 * words.length * len(texts), path.stat().st_size, "cut or leave out its longest sentences"
    )
    about = {
        "kind": "text", "text": text, "words": list(words.words), "length": words.length, "cleaning": words.cleaning,
    }  # fmt: skip
    return words.encode(texts), kept, about


def _vectors(path: Path, rows: Rows, columns: list[str], refuse: Callable[[int, str], None]) -> Made:
    if not columns:
        raise DataError(f"{path} has no column beside the label; expected text or numbers to classify")
    kept: Rows = []
    values = []
    for number, row in rows:
        numbers = []
        for column in columns:
            if column not in row:
                raise DataError(f"{path} has no column {column!r}, which the network was trained on")
            try:
                value = float(row[column])
            except (TypeError, ValueError, OverflowError):
                value = math.nan
            if not math.isfinite(value) or abs(value) > float(numpy.finfo(numpy.float32).max):
                shown = textwrap.shorten(repr(row[column]), 60)
                refuse(number, f"the column {column!r} holds {shown}, which is not a finite number")
                break
            numbers.append(value)
        else:
            kept.append((number, row))
            values.append(numbers)
    _refuse_nothing(path, kept)
    return objects_from_array(values, origin=str(path)), kept, {"kind": "table", "columns": columns}


def _places(kept: list[int], bad: Iterable[int]) -> list[Place]:
    """Where the kept rows stand among all rows; their numbers in the file count the header and blank lines too."""
    position = {number: place for place, number in enumerate(sorted([*kept, *bad]))}
    return [Place(position[number], _row(number)) for number in kept]


def _row(number: int) -> str:
    return f"row {number}"


def _refuse_nothing(path: Path, kept: list[Any]) -> None:
    if not kept:
        raise DataError(f"{path} holds no row that can be used")


def _guess_label(names: list[str]) -> str:
    by_name = {name.strip().lower(): name for name in reversed(names)}
    return next((by_name[known] for known in _LABEL_NAMES if known in by_name), names[-1])


def _guess_text(rows: Rows, names: list[str]) -> str | None:
    """The column with the most words in a filled cell, if there are at least two on average."""
    some = [row for _, row in rows[:_ROWS_TO_GUESS_FROM]]
    counts = {name: [len(str(row[name]).split()) for row in some if row[name]] for name in names}
    words = {name: sum(found) / max(1, len(found)) for name, found in counts.items()}
    best = max(words, key=words.__getitem__, default=None)
    return best if best is not None and words[best] >= 2 else None


def _delimited(separator: str) -> Callable[..., Iterator[tuple[int, dict[str, Any]]]]:
    def read(path: Path, refuse: Callable[[int, str], None]) -> Iterator[tuple[int, dict[str, Any]]]:
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
                        reason = f"it goes on to row {last}; is a quotation mark left open? A .csv may have such cells"
                        refuse(first, reason)
                    elif len(cells) == len(header):
                        yield table.line_num, dict(zip(header, cells, strict=True))
                    elif cells:
                        refuse(table.line_num, f"{len(cells)} cells instead of {len(header)}")
            except csv.Error as error:
                raise DataError(f"{path}, row {table.line_num}: {error}; mend it") from error

    return read


def _lines(path: Path, file: Any, refuse: Callable[[int, str], None]) -> Iterator[str]:
    lines = iter(lambda: file.readline(_LONGEST_ROW + 1), b"")
    for number, line in enumerate(lines, start=1):
        if len(line) > _LONGEST_ROW:
            raise DataError(f"{path}: row {number} is longer than {_LONGEST_ROW:,} bytes; is it a table?")
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError:
            refuse(number, "the text is not UTF-8")
            yield "\n"  # a row without cells, so that the rows after it keep their numbers


def _json_lines(path: Path, refuse: Callable[[int, str], None]) -> Iterator[tuple[int, dict[str, Any]]]:
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
                refuse(number, "not a JSON object with the same names as the first row, or without any")
            elif any(isinstance(cell, dict | list) for cell in row.values()):
                refuse(number, "a cell holds a list or another object instead of a text or a number")
            else:
                yield number, row


def _parquet(path: Path, refuse: Callable[[int, str], None]) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise DataError(
            "reading .parquet files needs pyarrow; install it with: pip install 'agrlearn[parquet]'"
        ) from None
    try:
        about = parquet.read_metadata(path)
        cells = about.num_rows * about.num_columns
        if cells > max(_MANY_CELLS, _CELLS_A_BYTE * path.stat().st_size):
            raise DataError(
                f"{path} is a parquet file of {cells:,} cells in {path.stat().st_size:,} bytes; is it data?"
            )
        yield from enumerate(parquet.read_table(path).to_pylist(), start=1)
    except (ArrowException, OSError, ValueError, OverflowError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path} cannot be read as a parquet file ({error})") from error


def _is_blank(cell: Any) -> bool:
    return cell is None or cell != cell or str(cell).strip() == ""  # NaN differs from itself


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


READERS: dict[str, Callable[..., Iterator[tuple[int, dict[str, Any]]]]] = {
    ".csv": _delimited(","),
    ".tsv": _delimited("\t"),
    ".jsonl": _json_lines,
    ".parquet": _parquet,
}
