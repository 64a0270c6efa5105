"""Objects with their labels in memory."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy
import torch
from torch import Tensor
from torch.utils.data import Dataset

from agrlearn.errors import DataError
from agrlearn.grouping import Objects, count_objects, describe_objects, map_objects, take

LONGEST_NAME = 1000
"""Characters in the name of a class."""


class Names(NamedTuple):
    """What objects are known by."""

    column: str
    """The table's column of identifiers; or row, file or sentence."""
    values: Sequence[str]
    """One for each object."""

    def of(self, number: int) -> str:
        """What to call an object.

        >>> Names("row", ["2", "3"]).of(0), Names("file", ["a.png"]).of(0)
        ('row 2', 'a.png')
        """
        return self.values[number] if self.column == "file" else f"{self.column} {self.values[number]}"


@dataclass(frozen=True, eq=False)
class Origin:
    """Where labelled objects come from, so that a run can find its data again."""

    source: str
    """A data set by name, or the path of a file or folder."""
    data_dir: str | None
    """The folder of published data sets, where one was named."""
    preparation: dict[str, Any]
    """How raw data became objects: `Source.preparation`."""
    skip_bad: bool
    part: str
    """Of the source: train, test, or all for the one after the other."""
    count: int
    """Objects in that part."""
    rows: Tensor | None = None
    """The indices of these objects in the part, in order; None for all."""
    names: Names | None = None
    """Of all objects of the part, if it has identifiers, rows or files."""

    def subset(self, indices: Tensor) -> "Origin":
        return replace(self, rows=indices if self.rows is None else self.rows[indices])

    def name_of(self, number: int) -> str:
        """What one of these objects is in the source: its identifier, row or file, or its number from 0."""
        index = number if self.rows is None else int(self.rows[number])
        return f"object {index}" if self.names is None else self.names.of(index)


@dataclass(frozen=True, eq=False)
class LabelledSet(Dataset):
    """Objects with their labels, held once and indexed a whole batch at a time.

    Args:
        objects: (objects, ...), a Tensor or a mapping of Tensors.
        labels: (objects,) class numbers, int64.
        class_names: the name of each class number.
        weights: (objects,), what each object's loss is multiplied by in training; 1 by default.
        origin: where the objects come from, if that is known.

    >>> digits = LabelledSet(torch.zeros(4, 1, 8, 8), torch.tensor([0, 1, 1, 0]), ("even", "odd"))
    >>> len(digits), digits.num_classes
    (4, 2)
    >>> digits
    LabelledSet(4 objects of shape (1, 8, 8), 2 classes: even, odd)
    """

    objects: Objects
    labels: Tensor
    class_names: tuple[str, ...]
    weights: Tensor | None = None
    origin: Origin | None = None

    def __post_init__(self) -> None:
        count = count_objects(self.objects)
        if count == 0:
            raise DataError("the data set is empty; expected at least one object")
        for name, values in (("label", self.labels), ("weight", self.weights)):
            if values is not None and values.shape != (count,):
                shape = tuple(values.shape)
                raise DataError(f"expected one {name} for each of {count} objects, got {name}s of shape {shape}")
        if self.labels.dtype != torch.int64:
            raise DataError(f"expected int64 class numbers, got {self.labels.dtype}; LabelledSet.of() takes any labels")
        check_range(self.labels, len(self.class_names))

    @staticmethod
    def of(
        objects: Objects, labels: Any, class_names: Sequence[str] | None = None, *, origin: str = "the data set"
    ) -> "LabelledSet":
        """Make a set from labels of any kind: names or whole numbers, contiguous or not.

        By default the classes are the labels that occur, sorted; with `class_names`, each label must be one of them.

        >>> LabelledSet.of(torch.zeros(3, 2), ["cat", "dog", "cat"]).labels
        tensor([0, 1, 0])
        """
        values, count = numpy.asarray(labels), count_objects(objects)
        if values.shape != (count,):
            raise DataError(f"{origin}: expected one label for each of {count} objects, got shape {values.shape}")
        if count == 0:
            raise DataError(f"{origin} is empty; expected at least one object")
        values = _plain(values)
        if values.dtype.kind not in "iubU":
            raise DataError(f"{origin}: expected labels that are whole numbers or names, got {values.dtype}")
        distinct, numbers = numpy.unique(values, return_inverse=True)
        found = [str(value) for value in distinct]
        # numpy drops NULs at the end of a string, so look for them in the labels as given.
        ended = [label for label in labels if isinstance(label, str) and label.endswith("\0")]
        for name in [*ended[:1], *found]:
            _check_name(name, origin)
        names = tuple(found if class_names is None else class_names)
        unknown = [name for name in found if name not in names]
        if unknown:
            raise DataError(
                f"{origin}: the label {unknown[0]!r} is none of the {len(names)} classes "
                f"({', '.join(names[:10])}{', …' if len(names) > 10 else ''}); use data with the classes of training"
            )
        position = {name: number for number, name in enumerate(names)}
        translate = torch.tensor([position[name] for name in found], dtype=torch.int64)
        return LabelledSet(objects, translate[torch.from_numpy(numbers.reshape(-1))], names)

    @property
    def num_classes(self) -> int:
        return len(self.class_names)

    def subset(self, indices: Tensor) -> "LabelledSet":
        """The objects at `indices`, with the same classes."""
        weights = None if self.weights is None else self.weights[indices]
        origin = None if self.origin is None else self.origin.subset(indices)
        return LabelledSet(take(self.objects, indices), self.labels[indices], self.class_names, weights, origin)

    def draw(self, share: float, random: torch.Generator) -> Tensor:
        """The places of a share of every class, drawn at random: at least one object, and never all of several."""
        order = torch.randperm(len(self), generator=random)
        drawn = []
        for number in range(self.num_classes):
            members = order[self.labels[order] == number]
            drawn.append(members[: max(1, min(round(share * len(members)), len(members) - 1))])
        return torch.cat(drawn).sort().values

    def without(self, indices: Tensor) -> "LabelledSet":
        """All objects but those at `indices`."""
        kept = torch.ones(len(self), dtype=torch.bool)
        kept[indices] = False
        return self.subset(kept.nonzero().squeeze(1))

    def digest(self) -> str:
        """A short fingerprint of all objects and labels, by which a run recognises its data."""
        digest = hashlib.sha256()
        objects = [self.objects] if isinstance(self.objects, Tensor) else self.objects.values()
        for tensor in (*objects, self.labels, self.weights):
            if tensor is not None:
                digest.update(f"{tuple(tensor.shape)}{tensor.dtype}".encode())
                digest.update(tensor.cpu().contiguous().view(torch.uint8).numpy().data)  # numpy has no bfloat16
        return digest.hexdigest()[:16]

    def __len__(self) -> int:
        return count_objects(self.objects)

    def __repr__(self) -> str:
        weighted = "" if self.weights is None else ", weighted"
        return f"LabelledSet({describe_objects(self.objects)}, {describe_classes(self.class_names)}{weighted})"

    def __getitem__(self, index: int) -> tuple[Objects, Tensor]:
        return map_objects(lambda tensor: tensor[index], self.objects), self.labels[index]


def describe_classes(names: Sequence[str]) -> str:
    """How many, and the first few names.

    >>> describe_classes(list("abcdef"))
    '6 classes: a, b, c, …'
    """
    shown = ", ".join([*names[:3], "…"] if len(names) > 4 else names)
    return f"{len(names):,} {'class' if len(names) == 1 else 'classes'}: {shown}"


def label_names(labels: Any) -> list[str]:
    """Labels of any kind by the names that they have as classes.

    >>> label_names(numpy.array([2.0, 10.0]))
    ['2', '10']
    """
    return [str(value) for value in _plain(numpy.asarray(labels)).tolist()]


def _plain(values: numpy.ndarray) -> numpy.ndarray:
    """Labels as numpy's own whole numbers or texts, as far as they are such."""
    if values.dtype == object and any(all(isinstance(value, kind) for value in values) for kind in (str, int)):
        values = numpy.asarray(values.tolist())  # a pandas column of names
    if values.dtype.kind == "f" and numpy.isfinite(values).all() and (values == values.round()).all():
        values = values.astype(numpy.int64)
    return values


def _check_name(name: str, origin: str) -> None:
    """Refuse a class name that cannot be written to every output file."""
    if len(name) > LONGEST_NAME:
        raise DataError(
            f"{origin}: the label {name[:40]!r}… has {len(name):,} characters, more than {LONGEST_NAME:,}; is this "
            "the label column?"
        )
    if "\0" in name or any("\ud800" <= character <= "\udfff" for character in name):
        raise DataError(f"{origin}: the label {name!r} has a character that is not text; fix or remove it")


def check_range(labels: Tensor, num_classes: int) -> None:
    """Refuse labels that are not class numbers.

    >>> check_range(torch.tensor([1, 2, 3]), num_classes=3)
    Traceback (most recent call last):
    agrlearn.errors.DataError: expected class numbers from 0 to 2, got the label 3
    """
    lowest, highest = (int(label) for label in labels.aminmax())
    if lowest < 0 or highest >= num_classes:
        wrong = lowest if lowest < 0 else highest
        raise DataError(f"expected class numbers from 0 to {num_classes - 1}, got the label {wrong}")


def check_class_count(dataset: LabelledSet, *, origin: str = "the data set") -> None:
    """Refuse a set with a single class."""
    if dataset.num_classes < 2:
        raise DataError(f"{origin} has a single class, {dataset.class_names[0]!r}; expected two or more")
