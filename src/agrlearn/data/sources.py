"""What a data source hands over: its parts, as they were read."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from agrlearn.data.labelled import LabelledSet, Origin, check_several_classes
from agrlearn.errors import DataError, RecipeError
from agrlearn.files import spreadsheet_cell, write_atomically
from agrlearn.grouping import Objects
from agrlearn.seeding import generator

BAD_FILE = "left_out.tsv"
"""Lists what of a source could not be read."""
_LARGE, _GROWTH = 2**28, 2000  # bytes, and times


def refuse_growth(origin: str, made: int, read: int, advice: str) -> None:
    """Refuse to make so many bytes of objects of so few bytes of a file: nobody's data, and they fill the memory."""
    if made > max(_LARGE, _GROWTH * read):
        raise DataError(f"{origin} would take {made / 1e9:.1f} GB in memory, from {read:,} bytes of files; {advice}")


class Place(NamedTuple):
    """Where an object stands in its source."""

    number: int
    """Its number from 0; objects that were left out are counted too."""
    name: str
    """Its row or its file."""


@dataclass(frozen=True)
class Part:
    """Objects, and their labels where the source has them, as names or whole numbers."""

    objects: Objects
    labels: Any | None = None
    places: Sequence[Place] | None = None
    """Of each object, where the source has rows or files that have names."""


@dataclass(frozen=True)
class BadObject:
    """An object that was left out, and why."""

    where: str
    reason: str


@dataclass(frozen=True)
class Source:
    """A data set by name or file: a part to train on and, where the source has its own, a part to test on."""

    name: str
    train: Part
    test: Part | None = None
    class_names: tuple[str, ...] | None = None
    bad: tuple[BadObject, ...] = ()
    """What could not be read and was left out."""
    remarks: tuple[str, ...] = ()
    """What was guessed about the source, for a person to read."""
    preparation: dict[str, Any] = field(default_factory=dict)
    """How raw data became objects, as JSON: what later data need to become objects in the same way."""
    data_dir: str | None = None
    """The folder of published data sets, where one was named."""
    skip_bad: bool = False
    """Whether what cannot be read was to be left out."""
    is_file: bool = True
    """Whether its name is that of a file or folder, not of a published data set."""

    @property
    def unseen(self) -> Part:
        """The part to predict: the test part, or all there is."""
        return self.test or self.train

    def labelled(self, part: Part, class_names: Sequence[str] | None = None) -> LabelledSet:
        """`part` with its labels as class numbers, in the order of `class_names` (those of training)."""
        if part.labels is None:
            raise DataError(f"{self.name} has no labels; {self._how_to_label()}")
        made = LabelledSet.of(part.objects, part.labels, class_names or self.class_names, origin=self.name)
        name = "test" if part is self.test else "train"
        origin = Origin(self.lasting_name, self.data_dir, self.preparation, self.skip_bad, name, len(made))
        return replace(made, origin=origin)

    def split(
        self, fraction: float, class_names: Sequence[str] | None = None
    ) -> tuple[LabelledSet, LabelledSet | None]:
        """The part to train on and the part to validate on: the source's own test part, or a fraction of every class.

        Args:
            class_names: those of an earlier training; by default the source's own.
        """
        if not 0.0 <= fraction < 1.0:
            raise RecipeError(f"validation-fraction is a share from 0 up to 1, got {fraction}")
        everything = self.labelled(self.train, class_names)
        check_several_classes(everything, origin=self.name)
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
        """The source's name, wherever it is read again from."""
        return str(Path(self.name).resolve()) if self.is_file and Path(self.name).exists() else self.name

    @property
    def left_out(self) -> str:
        """How much could not be read, for a person to read."""
        return f"{self.name}: left out {len(self.bad)} that cannot be read"

    def list_bad(self, file: Path) -> None:
        """List what was left out and why; where nothing was, an earlier list is removed."""
        if self.bad:
            rows = (f"{spreadsheet_cell(bad.where)}\t{spreadsheet_cell(bad.reason)}\n" for bad in self.bad)
            write_atomically(file, rows)
        else:
            file.unlink(missing_ok=True)

    def _how_to_label(self) -> str:
        kind = self.preparation.get("kind")
        if kind == "images":
            return "put the images of each class into a folder that is called like the class"
        if kind in ("text", "table"):
            return f"fill a column called {self.preparation.get('label') or 'label'!r}, with a label in every row"
        return "add an array y with one label for each object"
