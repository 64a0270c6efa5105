"""What can be trained and evaluated on: map-style data sets of (object, label) pairs."""

from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, default_collate

from agrlearn.data.frames import is_frame
from agrlearn.data.labelled import LabelledSet
from agrlearn.errors import DataError
from agrlearn.seeding import keep_streams


def unwrap(dataset: Dataset) -> Dataset:
    """Turn a torch Subset of a `LabelledSet` into a `LabelledSet` with its weights and classes; return others as is.

    >>> digits = LabelledSet(torch.zeros(4, 1, 8, 8), torch.tensor([0, 1, 1, 0]), ("even", "odd"))
    >>> unwrap(Subset(digits, [2, 3])).labels
    tensor([1, 0])
    """
    if type(dataset) is not Subset:  # a subclass may do more
        return dataset
    whole = unwrap(dataset.dataset)
    return whole.subset(torch.as_tensor(dataset.indices)) if isinstance(whole, LabelledSet) else dataset


def checked_dataset(dataset: Dataset) -> Dataset:
    """The data set, as a `LabelledSet` if it is a subset of one; anything but (object, label) pairs is refused."""
    dataset = unwrap(dataset)
    if isinstance(dataset, LabelledSet):
        return dataset
    if is_frame(dataset):
        raise DataError(
            f"expected a Dataset of (object, label), got a {type(dataset).__name__}; AgrLearnClassifier().fit(X, y) "
            "takes tables, and open_source(file) those in files"
        )
    if isinstance(dataset, IterableDataset) or not (hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")):
        hint = "pass its dataset, loader.dataset" if isinstance(dataset, DataLoader) else "LabelledSet.of() makes one"
        raise DataError(f"expected a map-style Dataset of (object, label), got {type(dataset).__name__}; {hint}")
    if len(dataset) > 0:
        with keep_streams():
            item = dataset[0]
        _check_item(item)
    return dataset


def _check_item(item: Any) -> None:
    """Refuse the first item of a Dataset if it is not (object, label), or torch cannot make batches of it."""
    given = type(item).__name__
    advice = (
        "LabelledSet.of(objects, labels) makes one of all objects and all labels, and AgrLearnClassifier().fit(X, y) "
        "takes tables"
    )
    if not isinstance(item, tuple | list) or len(item) != 2:
        raise DataError(f"expected a Dataset whose items are (object, label), got {given} as its first item; {advice}")
    try:
        _, labels = default_collate([item])
    except (TypeError, RuntimeError):
        kinds = " and ".join(type(part).__name__ for part in item)
        raise DataError(
            f"expected a Dataset whose items are (object, label) as tensors or numbers, got {kinds}; {advice}"
        ) from None
    if not isinstance(labels, Tensor) and isinstance(item[1], list | tuple):
        raise DataError(f"expected a Dataset whose items are (object, label), got a list as the label; {advice}")
