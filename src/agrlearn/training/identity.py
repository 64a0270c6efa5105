"""What makes a run this run, by which its directory knows it again."""

import functools
import hashlib
import re
from collections.abc import Callable
from typing import Annotated, Any, Literal

from lightning_fabric import Fabric
from pydantic import BaseModel, ConfigDict, Field
from torch import nn
from torch.utils.data import Dataset

from agrlearn.data.labelled import LabelledSet
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.networks.cost import count_parameters
from agrlearn.networks.joins import Join
from agrlearn.training.recipe import Recipe

INITIAL_SEED = "seed of the initial weights"
RUN_FORMAT = "agrlearn-run-1"

Text = Annotated[str, Field(max_length=10_000)]
"""A name or a value in a file that somebody may have tampered with."""


class _NetworkFacts(BaseModel):
    """What every network tells, beside options of its own."""

    model_config = ConfigDict(strict=True, extra="allow")
    __pydantic_extra__: dict[str, Text | int | float | bool | list[int] | None]

    network: Text
    fold: Annotated[int, Field(ge=1, lt=2**31)]


class _Identity(BaseModel):
    """What `identity_of` says; earlier versions said less."""

    model_config = ConfigDict(strict=True, extra="allow")
    __pydantic_extra__: dict[str, Text | int | None]

    recipe: Annotated[Recipe, Field(strict=False)]
    network: _NetworkFacts


class RunFile(BaseModel):
    """The contents of run.json."""

    model_config = ConfigDict(strict=True, extra="forbid")

    format: Literal["agrlearn-run-1"]
    versions: dict[Text, Text]
    identity: _Identity


def identity_of(
    network: AggregatedClassifier, train_set: Dataset, validation_set: Dataset | None, recipe: Recipe, engine: Fabric,
    augment: Callable | None, critic: nn.Module | None = None,
) -> dict[str, Any]:  # fmt: skip
    """What makes a run this run, as far as it can be told: of a network of the user's own, not its initial weights."""
    return {
        "precision": engine.strategy.precision.precision,
        "recipe": recipe.model_dump(),
        "network": network.description or _described(network),
        INITIAL_SEED: network.initial_seed,
        "training data": _fingerprint(train_set),
        "validation data": None if validation_set is None else _fingerprint(validation_set),
        "augmentation": None if augment is None else _told(augment),
        **({} if critic is None else {"critic": _layers(critic)}),
    }


def _described(network: AggregatedClassifier) -> dict[str, Any]:
    """What tells a network that is not of the catalogue from others."""
    return {
        "network": type(network).__name__,
        "fold": network.fold,
        "parameters": count_parameters(network),
        "noise": network.noise,
        "join": _told(network.join.function if isinstance(network.join, Join) else network.join),
        "layers": _layers(network),
    }


def _layers(module: nn.Module) -> str:
    """A fingerprint of what a module is made of, without its weights."""
    layers = re.sub(r"0x[0-9a-fA-F]+", "", repr(module))  # without addresses in memory, which no other process has
    return hashlib.sha256(layers.encode()).hexdigest()[:16]


def _fingerprint(dataset: Dataset) -> str:
    digest = f", {dataset.digest()}" if isinstance(dataset, LabelledSet) else ""
    return f"{len(dataset)} objects{digest}"  # type: ignore[arg-type]


def _told(function: Any) -> str:
    """What a function is called, with the plain values that it is bound to; objects tell their kind alone."""
    if isinstance(function, functools.partial):
        bound = [*enumerate(function.args), *function.keywords.items()]
        plain = [f"{name}={value!r}" for name, value in bound if isinstance(value, str | int | float)]
        return f"{_told(function.func)}({', '.join(plain)})"
    return str(getattr(function, "__qualname__", type(function).__qualname__))
