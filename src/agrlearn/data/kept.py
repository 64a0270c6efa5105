"""Objects in memory as a file, for runs that read their data from one."""

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy

from agrlearn.data.cells import is_blank
from agrlearn.data.column_kinds import choose_kinds
from agrlearn.data.columns import Cells
from agrlearn.data.frames import (
    categories_in,
    cells_of_frame,
    cells_of_rows,
    has_words,
    is_frame,
    is_numeric,
    sentences_in,
)
from agrlearn.errors import DataError
from agrlearn.files import write_atomically


def keep_objects(data: Any, labels: Any, folder: Path) -> tuple[Path, dict[str, Any]]:
    """Write objects and their labels into a folder; returns the file, and the options by which it is read.

    Args:
        data: what the estimator takes: an array, a table as a frame or in rows, or sentences.
    """
    data = data.toarray() if hasattr(data, "toarray") else data
    if labels is None or len(labels) != len(data):
        raise DataError(f"expected one label for each of {len(data)} objects; pass compare(objects, labels)")
    sentences = sentences_in(data)
    if sentences is not None:
        return _write_table({"text": sentences}, labels, folder, text_column="text")
    if is_frame(data) and not is_numeric(data):
        cells, declared = cells_of_frame(data), categories_in(data)
        used = [name for name, kind in choose_kinds(cells, None).items() if kind.is_used] if declared else []
        columns = tuple(f"{name}=words" if name in declared else name for name in used)
        return _write_table(cells, labels, folder, columns=columns)
    if has_words(data) or _has_gaps(data):
        return _write_table(cells_of_rows(data), labels, folder)
    content = io.BytesIO()
    numpy.savez(content, x=numpy.asarray(data), y=numpy.asarray(labels))
    return _write(folder / "data.npz", content.getvalue()), {}


def _has_gaps(data: Any) -> bool:
    return (
        isinstance(data, numpy.ndarray) and data.ndim == 2 and data.dtype.kind == "f" and bool(numpy.isnan(data).any())
    )


def _write_table(cells: Mapping[str, Cells], labels: Any, folder: Path, **reading: Any) -> tuple[Path, dict[str, Any]]:
    label = "label"
    while label in cells:
        label += "_"
    content = to_json_lines({**cells, label: numpy.asarray(labels).tolist()}).encode()
    return _write(folder / "data.jsonl", content), {"label_column": label, **reading}


def _write(file: Path, content: bytes) -> Path:
    """The file with this content; one that has it already keeps its time, by which finished runs are known."""
    if not file.exists() or file.read_bytes() != content:
        write_atomically(file, content)
    return file


def to_json_lines(cells: Mapping[str, Cells]) -> str:
    """Columns as the rows of a .jsonl file.

    >>> to_json_lines({"age": [30, None], "sex": ["f", "m"]})
    '{"age": 30, "sex": "f"}\\n{"age": null, "sex": "m"}\\n'
    """
    rows = zip(*cells.values(), strict=True)
    made = ({name: None if is_blank(cell) else cell for name, cell in zip(cells, row, strict=True)} for row in rows)
    return "".join(json.dumps(row, default=_plain) + "\n" for row in made)


def _plain(cell: Any) -> Any:
    return cell.item() if isinstance(cell, numpy.generic) else str(cell)
