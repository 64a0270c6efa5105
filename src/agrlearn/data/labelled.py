"""Objects with their labels in memory, and batches of any map-style Dataset."""

import hashlib
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Subset, default_collate

from agrlearn.errors import DataError
from agrlearn.grouping import GroupBatchSampler, Objects, count_objects, map_objects, take

_SECONDS_UNTIL_TOLD = 2.0


@dataclass(frozen=True, eq=False)
class Origin:
    """Where labelled objects come from: by this a run finds its data again."""

    source: str
    """A data set by name, or the path of a file or folder."""
    data_dir: str | None
    """The folder of published data sets, where one was named."""
    preparation: dict[str, Any]
    """How raw data became objects, as `Source.preparation` tells it."""
    skip_bad: bool
    part: str
    """Of the source: train or test."""
    count: int
    """Objects in that part."""
    rows: Tensor | None = None
    """Which of them these are, in their order; None for all."""

    def subset(self, indices: Tensor) -> "Origin":
        """The origin of the objects at `indices`."""
        return replace(self, rows=indices if self.rows is None else self.rows[indices])


LONGEST_NAME = 1000
"""Characters in the name of a class."""


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
        if self.labels.shape != (count,):
            raise DataError(
                f"expected one label for each of {count} objects, got labels of shape {tuple(self.labels.shape)}"
            )
        if self.labels.dtype != torch.int64:
            raise DataError(
                f"expected class numbers of type int64, got {self.labels.dtype}; LabelledSet.of() takes any labels"
            )
        if self.weights is not None and self.weights.shape != (count,):
            raise DataError(
                f"expected one weight for each of {count} objects, got weights of shape {tuple(self.weights.shape)}"
            )
        if len(self.class_names) < 1 or not 0 <= int(self.labels.min()) <= int(self.labels.max()) < len(
            self.class_names
        ):
            raise DataError(
                f"expected class numbers from 0 to {len(self.class_names) - 1}, "
                f"got {int(self.labels.min())} to {int(self.labels.max())}"
            )

    @staticmethod
    def of(
        objects: Objects, labels: Any, class_names: Sequence[str] | None = None, *, origin: str = "the data set"
    ) -> "LabelledSet":
        """A set from labels of any kind: names or whole numbers, contiguous or not.

        Without `class_names` the classes are the labels that occur, sorted; with them, a label is one of these names.

        >>> LabelledSet.of(torch.zeros(3, 2), ["cat", "dog", "cat"]).labels
        tensor([0, 1, 0])
        """
        values = numpy.asarray(labels)
        if values.ndim != 1 or len(values) != count_objects(objects):
            raise DataError(
                f"{origin}: expected one label for each of {count_objects(objects)} objects, "
                f"got labels of shape {values.shape}"
            )
        if len(values) == 0:
            raise DataError(f"{origin} is empty; expected at least one object")
        if values.dtype == object and any(all(isinstance(value, kind) for value in values) for kind in (str, int)):
            values = numpy.asarray(values.tolist())  # as pandas holds a column of names
        if values.dtype.kind == "f" and numpy.isfinite(values).all() and (values == values.round()).all():
            values = values.astype(numpy.int64)
        if values.dtype.kind not in "iubU":
            raise DataError(f"{origin}: expected labels that are whole numbers or names, got {values.dtype}")
        distinct, numbers = numpy.unique(values, return_inverse=True)
        found = [str(value) for value in distinct]
        # numpy drops NULs at the end of a text, so these are looked for in what was given.
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
        """A short fingerprint of all objects and labels, by which a run knows its data again."""
        digest = hashlib.sha256()

        def feed(tensor: Tensor) -> Tensor:
            digest.update(f"{tuple(tensor.shape)}{tensor.dtype}".encode())
            digest.update(tensor.cpu().contiguous().view(torch.uint8).numpy().data)  # numpy knows no bfloat16
            return tensor

        map_objects(feed, self.objects)
        feed(self.labels)
        if self.weights is not None:
            feed(self.weights)
        return digest.hexdigest()[:16]

    def __len__(self) -> int:
        return count_objects(self.objects)

    def __getitem__(self, index: int) -> tuple[Objects, Tensor]:
        return map_objects(lambda tensor: tensor[index], self.objects), self.labels[index]


def _check_name(name: str, origin: str) -> None:
    """Refuse what cannot be the name of a class in every file that is written."""
    if len(name) > LONGEST_NAME:
        raise DataError(
            f"{origin}: the label {name[:40]!r}… has {len(name):,} characters, more than {LONGEST_NAME:,}; is it the "
            "column of labels?"
        )
    if "\0" in name or any("\ud800" <= character <= "\udfff" for character in name):
        raise DataError(f"{origin}: the label {name!r} holds a character that is not text; mend or remove it")


def unwrapped(dataset: Dataset) -> Dataset:
    """A Subset of a `LabelledSet`, as torch's random_split makes it, as a `LabelledSet`: with its weights and classes.

    >>> digits = LabelledSet(torch.zeros(4, 1, 8, 8), torch.tensor([0, 1, 1, 0]), ("even", "odd"))
    >>> unwrapped(Subset(digits, [2, 3])).labels
    tensor([1, 0])
    """
    if type(dataset) is not Subset:  # a class derived from it may do more
        return dataset
    whole = unwrapped(dataset.dataset)
    return whole.subset(torch.as_tensor(dataset.indices)) if isinstance(whole, LabelledSet) else dataset


class Batch(NamedTuple):
    """Objects of a step, still flat: (batch_size * fold, ...), with their labels and weights."""

    objects: Objects
    labels: Tensor
    weights: Tensor | None


def fetch(dataset: Dataset, indices: Tensor) -> tuple[Objects, Tensor]:
    """The objects and labels at `indices` of any map-style Dataset whose items are (object, label).

    Returns:
        (indices, ...) objects and (indices,) labels as int64; `check_range` compares these with the classes.
    """
    if isinstance(dataset, LabelledSet):
        return take(dataset.objects, indices), dataset.labels[indices]
    objects, labels = default_collate([dataset[int(index)] for index in indices])
    return objects, _class_numbers(labels)


def check_range(labels: Tensor, num_classes: int) -> None:
    """Refuse labels that are none of a network's class numbers.

    >>> check_range(torch.tensor([1, 2, 3]), num_classes=3)
    Traceback (most recent call last):
    agrlearn.errors.DataError: label 3 does not fit a network of 3 classes; expected class numbers from 0 to 2
    """
    lowest, highest = (int(label) for label in labels.aminmax())
    if lowest < 0 or highest >= num_classes:
        wrong = lowest if lowest < 0 else highest
        raise DataError(
            f"label {wrong} does not fit a network of {num_classes} classes; expected class numbers from 0 to "
            f"{num_classes - 1}"
        )


def check_several_classes(dataset: LabelledSet, *, origin: str = "the data set") -> None:
    """Refuse a set of one class, on which everything would be right."""
    if dataset.num_classes < 2:
        raise DataError(
            f"{origin} has a single class, {dataset.class_names[0]!r}, so there is nothing to tell apart; expected two "
            "or more"
        )


def check_same_classes(train: LabelledSet, validation: LabelledSet) -> None:
    """Refuse two sets whose class numbers mean different classes."""
    if train.class_names != validation.class_names:
        mine, theirs = (", ".join(found.class_names[:10]) for found in (train, validation))
        raise DataError(
            f"the training and the validation set number their classes differently ({mine}; {theirs}); make the latter "
            "by LabelledSet.of(objects, labels, class_names=train_set.class_names)"
        )


def _class_numbers(labels: Any) -> Tensor:
    """Labels as a Dataset of the user's own gives them, as (objects,) int64."""
    if not isinstance(labels, Tensor) or labels.is_floating_point() or labels.is_complex():
        came = labels.dtype if isinstance(labels, Tensor) else type(labels[0]).__name__
        raise DataError(
            f"expected a Dataset whose labels are whole numbers, got {came}; make them class numbers from 0, or use "
            "LabelledSet.of(), which takes any labels"
        )
    if labels.numel() != len(labels):
        raise DataError(f"expected one label for each object, got labels of shape {tuple(labels.shape[1:])}")
    return labels.flatten().to(torch.int64)


def batches(dataset: Dataset, sampler: GroupBatchSampler, *, start: int = 0, workers: int = 0) -> Iterator[Batch]:
    """The sampler's batches of `dataset` from step `start` on."""
    if isinstance(dataset, LabelledSet):
        for indices in sampler.batches(start):
            yield Batch(*fetch(dataset, indices), None if dataset.weights is None else dataset.weights[indices])
        return
    for objects, labels in fetch_each(dataset, list(sampler.batches(start)), workers=workers):
        yield Batch(objects, labels, None)


def fetch_each(dataset: Dataset, parts: Sequence[Tensor], *, workers: int = 0) -> Iterator[tuple[Objects, Tensor]]:
    """What `fetch` gives for each of several indices, one after the other, loaded by so many processes."""
    loader = DataLoader(dataset, batch_sampler=[part.tolist() for part in parts], num_workers=workers)
    for objects, labels in loader:
        yield objects, _class_numbers(labels)


@contextmanager
def explain_lost_workers() -> Iterator[None]:
    """Within this block, a worker process of `batches` that died is told in a sentence.

    torch raises its error wherever the main process happens to be, so the block holds all that is done with batches.
    """
    try:
        try:
            yield
        except (OSError, EOFError):
            # So it looks when a worker dies while it hands over a batch; torch's error is raised within the sleep.
            time.sleep(_SECONDS_UNTIL_TOLD)
            raise
    except RuntimeError as error:
        if str(error).startswith("DataLoader worker ("):
            raise DataError(
                f"a process that loads the data has died, perhaps for want of memory ({error}); start again, with "
                "fewer workers if that does not help"
            ) from error
        raise
