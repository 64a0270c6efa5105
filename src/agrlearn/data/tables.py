"""Tables: .csv, .tsv, .jsonl and .parquet files with a label column and text, numbers, words or dates."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from agrlearn.data.cells import as_word, is_blank
from agrlearn.data.column_kinds import Kind, choose_kinds, find_identifier, guess_label, is_quantity
from agrlearn.data.columns import LONGEST_COLUMN, Cells, numbers_of
from agrlearn.data.frames import cells_of_frame
from agrlearn.data.preparation import TablePreparation, table_preparation
from agrlearn.data.prepared import ColumnFact, Table, format_facts, to_objects
from agrlearn.data.sources import BadObject, Names, Part, Source, refuse_growth
from agrlearn.data.table_files import READERS, table_ending
from agrlearn.data.text import Vocabulary
from agrlearn.errors import DataError, look_up


@dataclass(frozen=True)
class TableOptions:
    """Which columns of a table are what, where that is not to be guessed."""

    text: str | None = None
    """The column of sentences; the others are left out."""
    label: str | None = None
    columns: tuple[str, ...] = ()
    """Those to use, by name or as NAME=KIND."""
    ignore: tuple[str, ...] = ()
    """Those to leave out."""


_GUESSED = TableOptions()


def read_table(
    path: Path, options: TableOptions = _GUESSED, *, skip_bad: bool = False, labels: bool = True,
    preparation: dict[str, Any] | None = None,
) -> Source:  # fmt: skip
    """Read a table's rows as sentences or vectors.

    Args:
        skip_bad: leave out rows that cannot be used instead of refusing the file.
        labels: False accepts rows without a label, whose label is then an empty text.
        preparation: how an earlier run made objects from its table; rows become objects in the same way.
    """
    if not path.is_file():
        raise DataError(f"{path} is not a file; expected a table")
    bad: dict[int, str] = {}

    def refuse(row: int, reason: str) -> None:
        if not skip_bad:
            raise DataError(f"{path}, row {row}: {reason}; fix it, or leave out bad rows with --skip-bad")
        bad[row] = reason

    remarks: list[str] = []
    rows = list(look_up(READERS, table_ending(path), "kind of table")(path, refuse, remarks))
    if not rows:
        raise DataError(f"{path} is empty; expected a header and at least one row")
    if any(len(name) > LONGEST_COLUMN for name in rows[0][1]):
        raise DataError(f"{path} has a column whose name is longer than {LONGEST_COLUMN:,} characters; is it a table?")
    cells = {name: [row[name] for _, row in rows] for name in rows[0][1]}
    choice = _choose(path, cells, options) if preparation is None else _known(str(path), cells, options, preparation)
    try:
        wrong = choice.check(cells, labels=labels)
        for index in sorted(wrong):
            refuse(rows[index][0], wrong[index])
        kept = [index for index in range(len(rows)) if index not in wrong]
        if not kept:
            raise DataError(f"{path} has no usable rows")
        cells = {name: [column[index] for index in kept] for name, column in cells.items()}
        made = choice.make(str(path), path.stat().st_size, cells)
    except DataError as error:
        if preparation is None:
            error.add_note(f"{path}:\n{format_facts(choice.facts)}")
        raise
    found = None
    if choice.label is not None:
        found = ["" if is_blank(cell) else str(cell).strip() for cell in cells[choice.label]]
    identifier = find_identifier(cells, [choice.label, *choice.used])
    names = Names("row", [str(rows[index][0]) for index in kept])
    if identifier is not None:
        names = Names(identifier, [as_word(cell) for cell in cells[identifier]])
    return Source(
        str(path),
        Part(made.objects, found, names),
        bad=tuple(BadObject(f"row {number}", reason) for number, reason in sorted(bad.items())),
        remarks=(*remarks, *choice.remarks),
        preparation=made.preparation,
        columns=made.facts,
        table=made.table,
    )


def prepare_frame(frame: Any, preparation: dict[str, Any]) -> Source:
    """The rows of a data frame as objects, as an earlier run made them from its table; labels are not read."""
    cells, name = cells_of_frame(frame), "the table"
    if not len(frame):
        raise DataError(f"{name} is empty; expected at least one row")
    choice = _known(name, cells, _GUESSED, preparation)
    for row, reason in sorted(choice.check(cells, labels=False).items()):
        raise DataError(f"{name}, row {row}: {reason}; fix it, or leave it out")
    made = choice.make(name, int(frame.memory_usage(deep=True).sum()) if hasattr(frame, "memory_usage") else 0, cells)
    return Source(name, Part(made.objects), preparation=preparation)


@dataclass(frozen=True)
class _Made:
    objects: Tensor
    preparation: dict[str, Any]
    facts: tuple[ColumnFact, ...] = ()
    table: Table | None = None


@dataclass(frozen=True)
class _Choice:
    """Which columns of a table are read, and as what."""

    kinds: Mapping[str, Kind]
    label: str | None
    remembered: str | None
    """The label's name in the training data, which a table to predict need not have."""
    label_fact: str = ""
    text: str | None = None
    known: dict[str, Any] | None = None
    remarks: tuple[str, ...] = ()

    @property
    def used(self) -> list[str]:
        """The columns of which the objects are made."""
        if self.text is not None:
            return [self.text]
        if self.known is not None:
            return [column["column"] for column in self.known["columns"]]
        return [name for name, kind in self.kinds.items() if kind.is_used]

    @property
    def facts(self) -> tuple[ColumnFact, ...]:
        """What is known of the columns before any is learned from."""
        facts = [] if self.label is None else [ColumnFact(self.label, "label", self.label_fact)]
        for name, kind in self.kinds.items():
            becomes = "read as sentences" if name == self.text else "used" if kind.is_used else f"left out: {kind.why}"
            facts.append(ColumnFact(name, "text" if name == self.text else kind.name, becomes))
        return tuple(facts)

    def check(self, cells: Mapping[str, Cells], *, labels: bool) -> dict[int, str]:
        """The rows that cannot be used, and why."""
        if self.text is not None:
            reason = f"the column {self.text!r} has no text"
            wrong = {row: reason for row, cell in enumerate(cells[self.text]) if not _is_text(cell)}
        else:
            fallible = {name: kind for name, kind in self.kinds.items() if kind.name in ("number", "date")}
            wrong = self._preparation(cells, fallible).check(cells) if self.known or fallible else {}
        if labels and self.label is not None:
            blank = (row for row, cell in enumerate(cells[self.label]) if is_blank(cell))
            wrong |= {row: f"the column {self.label!r} is empty" for row in blank}
        return wrong

    def make(self, name: str, size: int, cells: Mapping[str, Cells]) -> _Made:
        """The rows as objects, made from `size` bytes of files."""
        if self.text is not None:
            words = Vocabulary.of_preparation(self.known) if self.known else Vocabulary.of(cells[self.text])
            made = 8 * words.length * len(cells[self.text])
            refuse_growth(name, made, size, "shorten or leave out its longest sentences")
            preparation = words.preparation(self.text, self.remembered)
            return _Made(words.encode(cells[self.text]), preparation, () if self.known else self.facts)
        # Read once here, numbers need not be read again from their texts.
        numbers: dict[str, Any] = {
            name: numbers_of(cells[name]) for name, kind in self.kinds.items() if kind.name == "number"
        }
        cells = {**cells, **numbers}
        learned = self._preparation(cells, self.kinds)
        rows = len(next(iter(cells.values())))
        refuse_growth(name, 4 * learned.width * rows, size, "leave out some of its columns with --ignore")
        table = None if self.known else Table(cells, self.kinds, self.label)
        facts = table.facts(learned, self.label_fact) if table else ()
        return _Made(to_objects(learned.apply(cells)), learned.model_dump(mode="json"), facts, table)

    def _preparation(self, cells: Mapping[str, Cells], kinds: Mapping[str, Kind]) -> TablePreparation:
        return Table(cells, kinds, self.label).learn() if self.known is None else table_preparation(self.known)


def _choose(path: Path, cells: Mapping[str, Cells], options: TableOptions) -> _Choice:
    """The columns as the user has named them, or as they look."""
    names = dict.fromkeys(cells)
    if options.label is None:
        try:
            label, why = guess_label(cells)
        except DataError as error:
            facts = [ColumnFact(name, kind.name, kind.why) for name, kind in choose_kinds(cells, None).items()]
            error.add_note(f"{path}:\n{format_facts(facts)}")
            raise
    else:
        look_up(names, options.label, f"column of {path}")
        label, why = options.label, "as you chose"
    if options.text is not None:
        look_up(names, options.text, f"column of {path}")
        kinds = {name: Kind("ignored", "--text-column takes one column alone") for name in cells if name != label}
        kinds[options.text] = Kind("text")
        text: str | None = options.text
    else:
        kinds = choose_kinds(cells, label, options.columns, options.ignore)
        text = _only_text(cells, kinds)
    classes = len({as_word(cell) for cell in cells[label] if not is_blank(cell)})
    if is_quantity(cells[label]):
        raise DataError(
            f"{path}: its label {label!r} ({why}) has {classes:,} different numbers, so it seems to be a quantity, but "
            "only classes can be learned here; make ranges of it, such as low and high, or name another column with "
            "--label"
        )
    choice = _Choice(
        kinds, label, label, f"{classes:,} {'class' if classes == 1 else 'classes'}, {why}", text,
        remarks=() if text else _remarks_on_text(kinds),
    )  # fmt: skip
    if not any(kind.is_used for kind in kinds.values()):
        reason = "no column except the label; expected text or numbers to classify"
        if kinds:
            reason = (
                f"no column to learn from except the label {label!r}; name those to use with --columns, or the label "
            )
            reason += "with --label"
        nothing = DataError(f"{path} has {reason}")
        nothing.add_note(f"{path}:\n{format_facts(choice.facts)}")
        raise nothing
    return choice


def _only_text(cells: Mapping[str, Cells], kinds: Mapping[str, Kind]) -> str | None:
    """The column of sentences, if it is the only one that says something about new rows."""
    used = [name for name, kind in kinds.items() if kind.is_used]
    if len(used) != 1 or kinds[used[0]].name not in ("text", "words"):
        return None
    filled = [str(cell).split() for cell in cells[used[0]] if not is_blank(cell)]
    return used[0] if sum(map(len, filled)) >= 2 * len(filled) else None


def _remarks_on_text(kinds: Mapping[str, Kind]) -> tuple[str, ...]:
    texts = [name for name, kind in kinds.items() if kind.name == "text"]
    return tuple(
        f"of {name!r}, the words count beside the other columns; --text-column {name} reads its sentences instead"
        for name in texts
    )


def _known(table: str, cells: Mapping[str, Cells], options: TableOptions, known: dict[str, Any]) -> _Choice:
    """The columns that a network was trained on."""
    names = dict.fromkeys(cells)
    remembered = options.label or known["label"]
    if options.label is not None:
        look_up(names, options.label, f"column of {table}")
    label = remembered if remembered in cells and not all(map(is_blank, cells[remembered])) else None
    choice = _Choice({}, label, remembered, text=known["text"] if known["kind"] == "text" else None, known=known)
    for name in choice.used:
        if name not in cells:
            raise DataError(f"{table} has no column {name!r}, which the network was trained on")
    return choice


def _is_text(cell: Any) -> bool:
    return isinstance(cell, str) and not is_blank(cell)
