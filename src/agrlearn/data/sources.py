"""A data source: its training and test parts, as they were read."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy
import torch
from torch import Tensor

from agrlearn.data.labelled import LabelledSet, Names, Origin, check_class_count, describe_classes
from agrlearn.data.prepared import ColumnFact, Table, format_facts, to_objects
from agrlearn.errors import DataError, RecipeError
from agrlearn.files import spreadsheet_cell, write_atomically
from agrlearn.grouping import Objects, count_objects, describe_objects, first_tensor, take
from agrlearn.seeding import generator

BAD_FILE = "left_out.tsv"
"""Lists what of a source could not be read."""
_LARGE, _GROWTH = 2**28, 2000  # bytes, and times


def refuse_growth(origin: str, made: int, read: int, advice: str) -> None:
    """Refuse to make `made` bytes of objects from `read` bytes of files, if these look like a decompression bomb."""
    if made > max(_LARGE, _GROWTH * read):
        raise DataError(f"{origin} would take {made / 1e9:.1f} GB in memory, from {read:,} bytes of files; {advice}")


@dataclass(frozen=True)
class Part:
    """Objects, and their labels if the source has any, as names or whole numbers."""

    objects: Objects
    labels: Any | None = None
    names: Names | None = None
    """None if the objects have only their numbers."""

    def __len__(self) -> int:
        return count_objects(self.objects)

    def parts(self, size: int) -> Iterator["Part"]:
        """All objects in order, `size` at a time."""
        for start in range(0, len(self), size):
            some = slice(start, start + size)
            yield Part(
                take(self.objects, torch.arange(len(self))[some]),
                None if self.labels is None else self.labels[some],
                None if self.names is None else Names(self.names.column, self.names.values[some]),
            )


@dataclass(frozen=True)
class BadObject:
    """An object that was left out, and why."""

    where: str
    reason: str


@dataclass(frozen=True)
class Source:
    """A data set by name or file: a part to train on and, if the source has one, a part to test on.

    >>> import torch
    >>> Source("t.npz", Part(torch.zeros(6, 4), list("abcabc")), Part(torch.zeros(2, 4)))
    Source('t.npz', 6 objects of shape (4,), 2 to test on, 3 classes: a, b, c)
    """

    name: str
    train: Part
    test: Part | None = None
    class_names: tuple[str, ...] | None = None
    bad: tuple[BadObject, ...] = ()
    """What could not be read and was left out."""
    remarks: tuple[str, ...] = ()
    """What was guessed about the source, to show to the user."""
    preparation: dict[str, Any] = field(default_factory=dict)
    """How raw data became objects, as JSON, so that new data can become objects in the same way."""
    columns: tuple[ColumnFact, ...] = ()
    """What each column of a table is, and what becomes of it."""
    table: Table | None = field(default=None, repr=False)
    """The rows of a table before they became vectors."""
    data_dir: str | None = None
    """The folder of published data sets, if one was given."""
    skip_bad: bool = False
    is_file: bool = True
    """Whether its name is a file or folder, not a published data set."""
    is_single: bool = False
    """Whether it is one object that was given by itself: a sentence, or an image file."""

    def __repr__(self) -> str:
        facts = [repr(self.name), describe_objects(self.train.objects)]
        if self.test is not None:
            facts.append(f"{count_objects(self.test.objects):,} to test on")
        if self.class_names is not None or self.train.labels is not None:
            names = self.class_names or sorted({str(label) for label in numpy.asarray(self.train.labels).tolist()})
            facts.append(describe_classes(names))
        if self.bad:
            facts.append(f"{len(self.bad):,} left out")
        return f"Source({', '.join(facts)})"

    @property
    def summary(self) -> str:
        """The columns of a table, one each line; empty for other data."""
        return format_facts(self.columns)

    def prepared_on(self, rows: Tensor) -> "Source":
        """The same rows, with all that their preparation learns, such as medians, from these of the training part."""
        if self.table is None:
            return self
        learned = self.table.learn(rows.tolist())
        label_fact = next((fact.becomes for fact in self.columns if fact.kind == "label"), "")
        return replace(
            self,
            train=replace(self.train, objects=to_objects(learned.apply(self.table.cells))),
            preparation=learned.model_dump(mode="json"),
            columns=self.table.facts(learned, label_fact),
        )

    @property
    def unseen(self) -> Part:
        """The part to predict: the test part, or all there is."""
        return self.train if self.test is None else self.test

    def labelled(self, part: Part, class_names: Sequence[str] | None = None) -> LabelledSet:
        """Return `part` with its labels as class numbers, in the order of `class_names` (those of training)."""
        if part.labels is None:
            kind = self.preparation.get("kind")
            advice = "add an array y with one label for each object"
            if kind == "images":
                advice = "put the images of each class into a folder with the name of the class"
            elif kind in ("text", "table"):
                advice = f"fill a column called {self.preparation.get('label') or 'label'!r}, with a label in every row"
            raise DataError(f"{self.name} has no labels; {advice}")
        made = LabelledSet.of(part.objects, part.labels, class_names or self.class_names, origin=self.name)
        name = "test" if part is self.test else "train"
        origin = Origin(
            self.lasting_name, self.data_dir, self.preparation, self.skip_bad, name, len(made), names=part.names
        )
        return replace(made, origin=origin)

    def everything(self, class_names: Sequence[str] | None = None) -> LabelledSet:
        """Return the training and the test part as one, in this order."""
        train = self.labelled(self.train, class_names)
        if self.test is None:
            return train
        test = self.labelled(self.test, train.class_names)
        assert train.origin is not None
        return LabelledSet(
            torch.cat([first_tensor(train.objects), first_tensor(test.objects)]),
            torch.cat([train.labels, test.labels]),
            train.class_names,
            origin=replace(train.origin, part="all", count=len(train) + len(test), names=None),
        )

    def split(
        self, fraction: float, class_names: Sequence[str] | None = None
    ) -> tuple[LabelledSet, LabelledSet | None]:
        """Split into a part to train on and a part to validate on: the source's test part, or a fraction of each class.

        Args:
            class_names: those of an earlier training; by default the source's own.
        """
        if not 0.0 <= fraction < 1.0:
            raise RecipeError(f"expected a validation-fraction of at least 0 and below 1, got {fraction}")
        everything = self.labelled(self.train, class_names)
        check_class_count(everything, origin=self.name)
        if self.test is not None:
            return everything, self.labelled(self.test, everything.class_names)
        if fraction == 0.0:
            return everything, None
        counts = everything.labels.bincount(minlength=everything.num_classes)
        if int(counts.min()) < 2:
            raise DataError(
                f"{self.name} has a single object of the class {everything.class_names[int(counts.argmin())]!r}, too "
                "few to hold one out; add more, or train on all with --validation-fraction 0"
            )
        held_out = everything.draw(fraction, generator(0))
        return everything.without(held_out), everything.subset(held_out)

    @property
    def lasting_name(self) -> str:
        """The source's name, valid in any working directory."""
        return str(Path(self.name).resolve()) if self.is_file and Path(self.name).exists() else self.name

    @property
    def left_out(self) -> str:
        """How many objects could not be read, to show to the user."""
        return f"{self.name}: left out {len(self.bad)} that cannot be read"

    def list_bad(self, file: Path) -> None:
        """List what was left out and why; where nothing was, an earlier list is removed."""
        if self.bad:
            rows = (f"{spreadsheet_cell(bad.where)}\t{spreadsheet_cell(bad.reason)}\n" for bad in self.bad)
            write_atomically(file, rows)
        else:
            file.unlink(missing_ok=True)
