"""Batches of a `LabelledSet` or of any other map-style Dataset."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, default_collate

from agrlearn.data.labelled import LabelledSet
from agrlearn.errors import DataError
from agrlearn.grouping import GroupBatchSampler, Objects, take


class Batch(NamedTuple):
    """The objects of a step before grouping, (batch_size * fold, ...), with their labels and weights."""

    objects: Objects
    labels: Tensor
    weights: Tensor | None = None


def fetch(dataset: Dataset, indices: Tensor) -> tuple[Objects, Tensor]:
    """Read the items (object, label) at `indices` of any map-style Dataset.

    Returns:
        (indices, ...) objects and (indices,) labels as int64, not yet checked by `check_range`.
    """
    if isinstance(dataset, LabelledSet):
        return take(dataset.objects, indices), dataset.labels[indices]
    objects, labels = default_collate([dataset[int(index)] for index in indices])
    return objects, _class_numbers(labels)


def batches(dataset: Dataset, sampler: GroupBatchSampler, *, start: int = 0, workers: int = 0) -> Iterator[Batch]:
    """Load the sampler's batches of `dataset`, beginning with step `start`."""
    if isinstance(dataset, LabelledSet):
        order = sampler.order()
        answers = [dataset.labels] if dataset.weights is None else [dataset.labels, dataset.weights]
        # An epoch's labels and weights are no larger than its order: only the objects are taken batch by batch.
        epoch = [order, *(values[order] for values in answers)]
        for indices, *values in zip(*(sampler.cut(whole, start) for whole in epoch), strict=True):
            yield Batch(take(dataset.objects, indices.flatten()), *(some.flatten() for some in values))
        return
    for objects, labels in fetch_each(dataset, list(sampler.batches(start)), workers=workers):
        yield Batch(objects, labels)


def fetch_each(dataset: Dataset, batches: Sequence[Tensor], *, workers: int = 0) -> Iterator[tuple[Objects, Tensor]]:
    """Call `fetch` for the indices of each batch in turn, in `workers` processes."""
    loader = DataLoader(dataset, batch_sampler=[indices.tolist() for indices in batches], num_workers=workers)
    for objects, labels in loader:
        yield objects, _class_numbers(labels)


@contextmanager
def explain_lost_workers() -> Iterator[None]:
    """Within this block, raise a `DataError` if a process that loads batches dies.

    torch raises its error wherever the main process happens to be, so the block includes all work on the batches.
    """
    try:
        try:
            yield
        except (OSError, EOFError):
            # A worker may have died while it sent a batch; torch raises its own error during the sleep.
            time.sleep(2.0)
            raise
    except RuntimeError as error:
        if not str(error).startswith("DataLoader worker ("):
            raise
        raise DataError(
            f"a process that loads the data died, perhaps because memory ran out ({error}); start again, with fewer "
            "workers if it happens again"
        ) from error


def _class_numbers(labels: Any) -> Tensor:
    """Convert the labels of any Dataset to (objects,) int64."""
    if not isinstance(labels, Tensor) or labels.is_floating_point() or labels.is_complex():
        given = labels.dtype if isinstance(labels, Tensor) else type(labels[0]).__name__
        raise DataError(
            f"expected a Dataset whose labels are whole numbers, got {given}; make them class numbers from 0, or use "
            "LabelledSet.of(), which takes any labels"
        )
    if labels.numel() != len(labels):
        raise DataError(f"expected one label for each object, got labels of shape {tuple(labels.shape[1:])}")
    return labels.flatten().to(torch.int64)
