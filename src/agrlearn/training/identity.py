"""What makes a run this run, by which its directory knows it again."""

import functools
from collections.abc import Callable
from typing import Any

from lightning_fabric import Fabric
from torch.utils.data import Dataset

from agrlearn.data.labelled import LabelledSet
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.networks.cost import count_parameters
from agrlearn.training.recipe import Recipe


def identity_of(
    network: AggregatedClassifier, train_set: Dataset, validation_set: Dataset | None, recipe: Recipe, engine: Fabric,
    augment: Callable | None,
) -> dict[str, Any]:  # fmt: skip
    """What makes a run this run: two runs of equal identity reach equal weights."""
    own = {"network": type(network).__name__, "fold": network.fold, "parameters": count_parameters(network)}
    return {
        "precision": engine.strategy.precision.precision,
        "recipe": recipe.model_dump(),
        "network": network.description or own,
        "training data": _fingerprint(train_set),
        "validation data": None if validation_set is None else _fingerprint(validation_set),
        "augmentation": None if augment is None else _told(augment),
    }


def _fingerprint(dataset: Dataset) -> str:
    digest = f", {dataset.digest()}" if isinstance(dataset, LabelledSet) else ""
    return f"{len(dataset)} objects{digest}"  # type: ignore[arg-type]


def _told(augment: Any) -> str:
    """What an augmentation is called, with the plain values that it is bound to; objects tell their kind alone."""
    if isinstance(augment, functools.partial):
        bound = [*enumerate(augment.args), *augment.keywords.items()]
        plain = [f"{name}={value!r}" for name, value in bound if isinstance(value, str | int | float)]
        return f"{_told(augment.func)}({', '.join(plain)})"
    return str(getattr(augment, "__qualname__", type(augment).__qualname__))
