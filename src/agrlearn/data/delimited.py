"""Text tables as people have them: packed or not, in several encodings, with several delimiters."""

import csv
import gzip
import io
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from agrlearn.data.cells import as_number, is_missing
from agrlearn.errors import DataError
from agrlearn.files import open_regular

LONGEST_ROW = 2**23
"""Characters."""
_LARGE, _UNPACKED = 2**28, 100  # bytes, and times: a file beyond both is a decompression bomb
_DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_ROWS_TO_RECOGNISE = 50
_PIECE = 2**20  # bytes
_DECIMAL_COMMA = re.compile(r"\s*[+-]?\d+,\d+\s*", re.ASCII)

Refuse = Callable[[int, str], None]
"""Called with the number of a row that cannot be used, and the reason."""


def open_unpacked(path: Path) -> BinaryIO:
    """Open a table to read bytes, unpacked if its name ends in .gz."""
    file = open_regular(path)
    if path.suffix.lower() != ".gz":
        return file
    limit = max(_LARGE, _UNPACKED * path.stat().st_size)
    return io.BufferedReader(_Limited(path, gzip.GzipFile(fileobj=file), limit))  # type: ignore[type-var]


class _Limited(io.RawIOBase):
    """A packed file that refuses to grow beyond a limit."""

    def __init__(self, path: Path, file: gzip.GzipFile, limit: int) -> None:
        super().__init__()
        self._path, self._file, self._left = path, file, limit

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "bytearray") -> int:  # type: ignore[override]
        try:
            piece = self._file.read(len(buffer))
        except (OSError, EOFError, zlib.error) as error:
            raise DataError(f"{self._path} cannot be unpacked ({error}); pack it again with gzip") from error
        self._left -= len(piece)
        if self._left < 0:
            raise DataError(f"{self._path} unpacks to more than {_UNPACKED} times its size; unpack it first")
        buffer[: len(piece)] = piece
        return len(piece)

    def close(self) -> None:
        self._file.close()
        super().close()


def recognise_encoding(path: Path) -> str:
    """The encoding of a text file: utf-8, utf-16, or Windows' Western European one.

    A file is not UTF-8 if more of its lines that have other characters than ASCII fail to be UTF-8 than are UTF-8.
    """
    with open_unpacked(path) as file:
        start = file.read(4096)
        if start.startswith((b"\xff\xfe", b"\xfe\xff")):
            return "utf-16"
        for encoding, low in (("utf-16-le", 1), ("utf-16-be", 0)):
            if len(start) > 3 and 0 not in start[1 - low :: 2] and start[low::2].count(0) > 0.8 * len(start[low::2]):
                return encoding
        if b"\0" in start:
            raise DataError(f"{path} is not a text file; expected a table as text")
        right, wrong = 0, 0
        for line in _other_lines(start, file):
            try:
                line.decode()
                right += 1
            except UnicodeDecodeError:
                wrong += 1
    return "cp1252" if wrong > right else "utf-8-sig"


def _other_lines(start: bytes, file: BinaryIO) -> Iterator[bytes]:
    """The lines with other characters than ASCII of a file of which the start was read."""
    piece = start
    while piece:
        end = file.readline(LONGEST_ROW)
        if not (piece.isascii() and end.isascii()):
            yield from (line for line in (piece + end).splitlines() if not line.isascii())
        if len(end) == LONGEST_ROW:
            return  # it is refused where its number is known
        piece = file.read(_PIECE)


def lines_of(path: Path, refuse: Refuse, encoding: str = "utf-8-sig") -> Iterator[str]:
    """The lines of a text file; those that are not of its encoding are refused."""
    # cp1252 has no characters at five places; Latin-1, of which it is an extension, has.
    errors = "surrogateescape" if encoding != "cp1252" else "backslashreplace"
    with open_unpacked(path) as file, io.TextIOWrapper(file, encoding, errors, newline="") as text:
        number = 0
        while True:
            try:
                line = text.readline(LONGEST_ROW + 1)
            except UnicodeDecodeError:
                raise DataError(f"{path} cannot be read as {encoding}; save it as UTF-8") from None
            if not line:
                return
            number += 1
            if len(line) > LONGEST_ROW:
                raise DataError(f"{path}: row {number} is longer than {LONGEST_ROW:,} characters; is it a table?")
            try:
                line.encode()
                yield line
            except UnicodeEncodeError:
                refuse(number, "the text is not UTF-8")
                yield "\n"  # a row without cells, so that the rows after it keep their numbers


@dataclass(frozen=True)
class Layout:
    """How a text table is written."""

    encoding: str
    delimiter: str
    remarks: tuple[str, ...]
    """What of it is unusual, to show to the user."""


def recognise_layout(path: Path, usual: str) -> Layout:
    """Look at a text table's bytes and its first rows.

    Args:
        usual: the delimiter that its ending promises.
    """
    encoding = recognise_encoding(path)
    sample: list[str] = []
    for line in lines_of(path, lambda row, reason: None, encoding):
        sample.append(line)
        if len(sample) == _ROWS_TO_RECOGNISE:
            break
    scores = {delimiter: _agreement(sample, delimiter) for delimiter in (usual, *_DELIMITERS)}
    best = max(scores, key=scores.__getitem__)  # the first of equals: the usual one
    remarks = []
    if best != usual:
        remarks.append(f"its cells are separated by {_DELIMITERS[best]}")
    if encoding != "utf-8-sig":
        name = {"cp1252": "Windows-1252 (Latin-1)"}.get(encoding, encoding.upper())
        remarks.append(f"its text is {name}, not UTF-8")
    return Layout(encoding, best, tuple(remarks))


def _agreement(lines: list[str], delimiter: str) -> tuple[float, bool]:
    """How many of the rows have as many cells as the first, which needs two; and whether there are several."""
    try:
        rows = [row for row in csv.reader(lines, delimiter=delimiter, skipinitialspace=True) if row]
    except csv.Error:
        return 0.0, False
    if not rows or len(rows[0]) < 2:
        return 0.0, False
    return round(sum(len(row) == len(rows[0]) for row in rows) / len(rows), 1), True


def read_cells(path: Path, refuse: Refuse, layout: Layout) -> Iterator[tuple[int, list[str]]]:
    """The rows of a text table with the numbers of their last lines, the header first; blank rows are left out."""
    return parse_cells(path, lines_of(path, refuse, layout.encoding), refuse, layout)


def parse_cells(
    path: Path, lines: Iterator[str], refuse: Refuse, layout: Layout, before: int = 0
) -> Iterator[tuple[int, list[str]]]:
    """The rows in some lines of a text table, of which `before` came earlier. No line is read ahead."""
    csv.field_size_limit(LONGEST_ROW)
    table = csv.reader(lines, delimiter=layout.delimiter, skipinitialspace=layout.delimiter != "\t")
    last = before
    try:
        for cells in table:
            first, last = last + 1, before + table.line_num
            if layout.delimiter == "\t" and last > first:
                refuse(first, f"it goes on to row {last}; is a quotation mark left open? A .csv may have such cells")
            elif cells:
                if layout.delimiter == ";":
                    cells = [cell.replace(",", ".") if _DECIMAL_COMMA.fullmatch(cell) else cell for cell in cells]
                yield last, cells
    except csv.Error as error:
        raise DataError(f"{path}, row {before + table.line_num}: {error}; fix it") from error


def looks_like_data(header: list[str], rows: list[list[str]]) -> bool:
    """Whether the first row of a table is a row like the others, not the names of its columns.

    It is, if it holds a number with a fraction, numbers alone, or values that their columns hold again. A single column
    may be called as one of its values is, if a name above a column of numbers shows that the row is a header; and a
    header that is there twice, as in files that were joined, is a header.
    """
    numbers = [as_number(cell) for cell in header]
    if all(number is not None for number in numbers) or any(number is not None and number % 1 for number in numbers):
        return True
    others = [row for row in rows if len(row) == len(header) and row != header]
    columns = [set(column) for column in zip(*others, strict=True)]
    again = sum(bool(name.strip()) and name in values for name, values in zip(header, columns, strict=False))
    names_numbers = any(
        number is None and not is_missing(name) and _are_numbers(values)
        for name, number, values in zip(header, numbers, columns, strict=False)
    )
    return 2 * again >= len(header) if names_numbers else again > 0


def _are_numbers(cells: set[str]) -> bool:
    filled = [cell for cell in cells if not is_missing(cell)]
    return bool(filled) and all(as_number(cell) is not None for cell in filled)
