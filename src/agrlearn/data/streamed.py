"""Tables of any length to predict: read, checked and prepared block by block, and kept in a file, not in memory."""

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy
import torch

from agrlearn.data.cells import as_word, is_blank
from agrlearn.data.column_kinds import find_identifier
from agrlearn.data.columns import LONGEST_COLUMN, Cells, Number
from agrlearn.data.labelled import Names, label_names
from agrlearn.data.preparation import table_preparation
from agrlearn.data.prepared import take_rows, to_objects
from agrlearn.data.sources import BadObject, Part, Source, refuse_growth
from agrlearn.data.table_blocks import read_blocks
from agrlearn.errors import DataError


@dataclass(frozen=True)
class Streamed:
    """The rows of a table as objects, in a temporary file that is gone with this.

    source: what there is to say about the table; its part is empty.
    """

    source: Source
    _file: IO[bytes]
    _record: numpy.dtype
    _count: int
    _labels: list[str] | None
    """By number; None if the table has none of the network's classes."""
    _identifiers: Names | None

    def __len__(self) -> int:
        return self._count

    def parts(self, size: int) -> Iterator[Part]:
        """All objects in order, `size` at a time, with their labels and names."""
        for start in range(0, self._count, size):
            self._file.seek(start * self._record.itemsize)
            rows = numpy.frombuffer(self._file.read(size * self._record.itemsize), self._record)
            names = Names("row", [str(number) for number in rows["row"].tolist()])
            if self._identifiers is not None:
                names = Names(self._identifiers.column, self._identifiers.values[start : start + size])
            labels = None if self._labels is None else [self._labels[number] for number in rows["label"].tolist()]
            yield Part(torch.from_numpy(rows["object"].copy()), labels, names)

    def whole(self) -> Part:
        """All objects at once, in memory."""
        (part,) = self.parts(self._count)
        return part


def stream_table(
    path: Path, preparation: dict[str, Any], class_names: tuple[str, ...], *, skip_bad: bool = False
) -> Streamed:
    """Read a table's rows as vectors, as an earlier run made them from its table; labels, whole or not, do not matter.

    In memory are a block of rows and, to find the one that names the rows, the columns that are not used.

    Args:
        preparation: of the run's table, of the kind "table".
        class_names: of the network; labels are kept if one of them is among these.
        skip_bad: leave out rows that cannot be used instead of refusing the file.
    """
    if not path.is_file():
        raise DataError(f"{path} is not a file; expected a table")
    known = table_preparation(preparation)
    used = [column.column for column in known.columns]
    bad: dict[int, str] = {}

    def refuse(row: int, reason: str) -> None:
        if not skip_bad:
            raise DataError(f"{path}, row {row}: {reason}; fix it, or leave out bad rows with --skip-bad")
        bad[row] = reason

    record = numpy.dtype([("row", "i8"), ("label", "i4"), ("object", "f4", (known.width,))])
    remarks: list[str] = []
    labels: dict[str, int] = {}
    unused: dict[str, list[Any]] | None = None
    file, count = tempfile.TemporaryFile(), 0  # noqa: SIM115 (what is returned reads it)
    numbers = {column.column for column in known.columns if isinstance(column, Number)}
    for rows, cells in read_blocks(path, refuse, remarks, numbers):
        if unused is None:
            _check_columns(path, cells, used)
            unused = {name: [] for name in cells if name not in (*used, known.label)}
        wrong = known.check(cells)
        for index in sorted(wrong):
            refuse(rows[index], wrong[index])
        if wrong:
            kept = [index for index in range(len(rows)) if index not in wrong]
            rows, cells = [rows[index] for index in kept], {name: take_rows(cells[name], kept) for name in cells}
        count += len(rows)
        refuse_growth(str(path), 4 * known.width * count, path.stat().st_size, "leave out some of its columns")
        block = numpy.zeros(len(rows), record)
        block["row"] = rows
        if known.label in cells:
            texts = (
                cell if isinstance(cell, str) else "" if is_blank(cell) else str(cell) for cell in cells[known.label]
            )
            block["label"] = [labels.setdefault(text, len(labels)) for text in texts]
        block["object"] = to_objects(known.apply(cells)).numpy()
        file.write(block.tobytes())
        # One with a blank cell names no rows.
        unused = {name: column for name, column in unused.items() if not any(map(is_blank, cells[name]))}
        for name, column in unused.items():
            column.extend(cells[name])
    if unused is None:
        raise DataError(f"{path} is empty; expected a header and at least one row")
    if not count:
        raise DataError(f"{path} has no usable rows")
    identifier = find_identifier(unused, [])
    found = label_names([text.strip() for text in labels]) if labels else []
    return Streamed(
        Source(
            str(path),
            Part(torch.empty(0, known.width)),
            bad=tuple(BadObject(f"row {number}", reason) for number, reason in sorted(bad.items())),
            remarks=tuple(remarks),
            preparation=preparation,
            skip_bad=skip_bad,
        ),
        file,
        record,
        count,
        None if set(found).isdisjoint(class_names) else found,
        None if identifier is None else Names(identifier, [as_word(cell) for cell in unused[identifier]]),
    )


def _check_columns(path: Path, cells: Mapping[str, Cells], used: list[str]) -> None:
    if any(len(name) > LONGEST_COLUMN for name in cells):
        raise DataError(f"{path} has a column whose name is longer than {LONGEST_COLUMN:,} characters; is it a table?")
    for name in used:
        if name not in cells:
            raise DataError(f"{path} has no column {name!r}, which the network was trained on")
