"""The rows of .csv, .tsv, .jsonl and .parquet files."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from agrlearn.data.delimited import (
    Layout,
    Refuse,
    lines_of,
    looks_like_data,
    parse_cells,
    read_cells,
    recognise_encoding,
    recognise_layout,
)
from agrlearn.errors import DataError
from agrlearn.files import parse_json

_MANY_CELLS, _CELLS_PER_BYTE = 2**20, 20  # a parquet file beyond both is a decompression bomb
_ROWS_BELOW_HEADER = 1000

Rows = Iterator[tuple[int, dict[str, Any]]]
"""Each row with its number in the file, from 1."""


def _read_delimited(path: Path, refuse: Refuse, remarks: list[str]) -> Rows:
    layout = recognise_layout(path, usual_delimiter(path))
    remarks += layout.remarks
    lines = lines_of(path, refuse, layout.encoding)
    before, header = read_header(path, lines, refuse, layout)
    yield from rows_by_name(parse_cells(path, lines, refuse, layout, before), header, refuse)


def read_header(path: Path, lines: Iterator[str], refuse: Refuse, layout: Layout) -> tuple[int, list[str]]:
    """The number of the line of the header and the names in it, the first of some lines; empty if there is none."""
    number, cells = next(parse_cells(path, lines, refuse, layout), (0, []))
    header = [name.strip() for name in cells]
    rows = [row for _, row in islice(read_cells(path, lambda row, reason: None, layout), 1, _ROWS_BELOW_HEADER)]
    # Spreadsheets write columns that were emptied, without a name and without a cell.
    header = header[: max(map(_width, [header, *rows]))]
    if header and looks_like_data(header, [row[: len(header)] for row in rows]):
        raise DataError(f"{path} has no header: its first row is {', '.join(header[:5])}; name every column there")
    for name, count in Counter(header).most_common(1):
        if count > 1:
            called = f"are called {name!r}" if name else "have no name"
            raise DataError(f"{path}: {count} columns {called}; give each a name of its own in its first row")
    return number, header


def _width(row: list[str]) -> int:
    """The number of cells up to the last one that is not empty."""
    return next((len(row) - place for place, cell in enumerate(reversed(row)) if cell.strip()), 0)


def rows_by_name(rows: Iterable[tuple[int, list[str]]], header: list[str], refuse: Refuse) -> Rows:
    """The cells of rows by the names of their columns; rows with fewer are refused, or with more that are not empty."""
    for number, cells in rows:
        if len(cells) < len(header) or "".join(cells[len(header) :]).strip():
            refuse(number, f"{len(cells)} cells instead of {len(header)}")
        else:
            yield number, dict(zip(header, cells, strict=False))


def usual_delimiter(path: Path) -> str:
    """The delimiter that a text table's ending promises."""
    return "\t" if table_ending(path) == ".tsv" else ","


def _read_json_lines(path: Path, refuse: Refuse, remarks: list[str]) -> Rows:
    names: set[str] = set()
    for number, line in enumerate(lines_of(path, refuse, recognise_encoding(path)), start=1):
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


def _read_parquet(path: Path, refuse: Refuse, remarks: list[str]) -> Rows:
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


def table_ending(path: Path) -> str:
    """The ending of a table's name, without the .gz of one that is packed.

    >>> table_ending(Path("wine.CSV.gz"))
    '.csv'
    """
    packed = path.suffix.lower() == ".gz"
    ending = Path(path.stem).suffix.lower() if packed else path.suffix.lower()
    return f"{ending}.gz" if packed and ending == ".parquet" else ending


TEXT_ENDINGS = (".csv", ".tsv")
READERS: dict[str, Callable[[Path, Refuse, list[str]], Rows]] = {
    ".csv": _read_delimited,
    ".tsv": _read_delimited,
    ".jsonl": _read_json_lines,
    ".parquet": _read_parquet,
}
"""By ending; each yields its rows, refuses those that it cannot read, and adds remarks about the file."""
