"""A table whose columns have kinds: it learns how its rows become vectors, and says what becomes of each column."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy
import torch
from torch import Tensor

from agrlearn.data.column_kinds import LEARNERS, Kind
from agrlearn.data.columns import Cells
from agrlearn.data.preparation import TablePreparation

_WIDEST_NAME, _WIDEST_LINE = 28, 110


class ColumnFact(NamedTuple):
    """What a column of a table is, and what becomes of it."""

    name: str
    kind: str
    becomes: str


@dataclass(frozen=True)
class Table:
    """The rows of a table, and the kinds of its columns.

    Args:
        cells: of every column that is used, a row each.
        kinds: of every column except the label.
        label: the column of the labels; None if there is none.
    """

    cells: Mapping[str, Cells]
    kinds: Mapping[str, Kind]
    label: str | None

    def learn(self, rows: Sequence[int] | None = None) -> TablePreparation:
        """How the rows become vectors, learned from some of them; by default from all.

        A column that turns out to have no feature, such as words that all occur once, is left out.
        """
        columns = []
        for name, kind in self.kinds.items():
            if kind.is_used:
                columns.append(LEARNERS[kind.name](name, take_rows(self.cells[name], rows)))
        used = [column for column in columns if column.width]
        return TablePreparation(columns=used or columns, label=self.label)

    def facts(self, preparation: TablePreparation, label_becomes: str) -> tuple[ColumnFact, ...]:
        """What becomes of every column."""
        learned = {column.column: column for column in preparation.columns}
        facts = [] if self.label is None else [ColumnFact(self.label, "label", label_becomes)]
        for name, kind in self.kinds.items():
            if name in learned:
                facts.append(ColumnFact(name, kind.name, learned[name].describe(self.cells[name])))
            else:
                facts.append(ColumnFact(name, kind.name, f"left out: {kind.why or 'no word occurs twice'}"))
        return tuple(facts)


def take_rows(cells: Cells, rows: Sequence[int] | None) -> Cells:
    """Some cells of a column; all, if it is not said which."""
    if rows is None:
        return cells
    return cells[rows] if isinstance(cells, numpy.ndarray) else [cells[row] for row in rows]


def to_objects(values: numpy.ndarray) -> Tensor:
    """(rows, features) in single precision, which the preparation keeps within its range."""
    return torch.from_numpy(numpy.ascontiguousarray(values, dtype=numpy.float32))


def format_facts(facts: Sequence[ColumnFact]) -> str:
    """The columns as lines for a person to read; neighbours of which the same becomes share a line.

    >>> print(format_facts([ColumnFact("kind", "label", "2 classes"), ColumnFact("size", "number", "as it is")]))
      kind  label   2 classes
      size  number  as it is
    """
    lines: list[tuple[str, str, str]] = []
    start = 0
    while start < len(facts):
        end = start
        while end < len(facts) and facts[end][1:] == facts[start][1:]:
            end += 1
        name, kind, becomes = facts[start]
        if end - start > 1:
            name, becomes = f"{name} … {facts[end - 1].name}", f"{becomes} ({end - start} columns)"
        lines.append((_cut(name or "(no name)", _WIDEST_NAME), kind, _cut(becomes, _WIDEST_LINE)))
        start = end
    widths = [max(len(line[place]) for line in lines) for place in (0, 1)]
    return "\n".join(f"  {name:{widths[0]}}  {kind:{widths[1]}}  {becomes}" for name, kind, becomes in lines)


def _cut(text: str, width: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= width else f"{text[: width - 1]}…"
