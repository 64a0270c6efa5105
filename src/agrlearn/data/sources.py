"""What a data source hands over: its parts, as they were read."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from agrlearn.data.labelled import LabelledSet
from agrlearn.errors import DataError
from agrlearn.grouping import Objects

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

    @property
    def unseen(self) -> Part:
        """The part to predict: the test part, or all there is."""
        return self.test or self.train

    def labelled(self, part: Part, class_names: Sequence[str] | None = None) -> LabelledSet:
        """`part` with its labels as class numbers, in the order of `class_names` (those of training)."""
        if part.labels is None:
            raise DataError(f"{self.name} has no labels; {self._how_to_label()}")
        return LabelledSet.of(part.objects, part.labels, class_names or self.class_names, origin=self.name)

    def _how_to_label(self) -> str:
        kind = self.preparation.get("kind")
        if kind == "images":
            return "put the images of each class into a folder that is called like the class"
        if kind in ("text", "table"):
            return f"fill a column called {self.preparation.get('label') or 'label'!r}, with a label in every row"
        return "add an array y with one label for each object"
