"""What makes a run this run, by which its directory knows it again."""

import base64
import functools
import hashlib
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any, Literal, cast

import numpy
import torch
from lightning_fabric import Fabric
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from torch import Tensor, nn
from torch.utils.data import Dataset

from agrlearn.data.labelled import LabelledSet
from agrlearn.data.preparation import check_preparation
from agrlearn.grouping import first_tensor
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.networks.cost import count_parameters
from agrlearn.networks.joins import Join
from agrlearn.training.recipe import Recipe

RUN_FORMAT: Literal["agrlearn-run-3"] = "agrlearn-run-3"

LONGEST_TEXT = 10_000
Text = Annotated[str, Field(max_length=LONGEST_TEXT)]
"""A name or a value in a file that somebody may have tampered with."""


class NetworkFacts(BaseModel):
    """What every network tells, beside options of its own."""

    model_config = ConfigDict(strict=True, extra="allow")
    __pydantic_extra__: dict[str, Text | int | float | bool | list[int] | None]

    network: Text
    fold: Annotated[int, Field(ge=1, lt=2**31)]


class Identity(BaseModel):
    """What makes a run this run, as far as it can be told: of a network of the user's own, not its initial weights."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    precision: Text
    recipe: Annotated[Recipe, Field(strict=False)]
    network: NetworkFacts
    initial_seed: int | None
    """Of the network's weights, where the catalogue drew them."""
    training_data: Text
    validation_data: Text | None
    augmentation: Text | None
    critic: Text | None = None


class DataNote(BaseModel):
    """Where a run's data are, how they became objects, and which of them it held out."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    source: Text
    """A data set by name, or the path of a file or folder."""
    data_dir: Text | None
    preparation: Annotated[dict[str, Any], AfterValidator(check_preparation)]
    skip_bad: bool
    dtype: Text
    """Of the objects, such as uint8."""
    trained_on: "Rows | None"
    """None where an object is there twice."""
    held_out: "Rows | None"
    """None where nothing was, or where it did not come from the source."""


class Rows(BaseModel):
    """Some objects of a source."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    part: Literal["train", "test"]
    count: Annotated[int, Field(ge=1, lt=2**40)]
    """Objects in that part."""
    rows: Annotated[str, Field(max_length=2**25)] | None
    """Which of them, as a bit for each in base64; None for all."""
    digest: Text
    """Of these objects in the order of the source, by which they are known again."""

    def indices(self) -> Tensor:
        """Their places in the part."""
        if self.rows is None:
            return torch.arange(self.count)
        try:
            bits = numpy.unpackbits(numpy.frombuffer(base64.b64decode(self.rows, validate=True), numpy.uint8))
        except ValueError:
            bits = numpy.zeros(0, numpy.uint8)
        return torch.from_numpy(bits[: self.count].nonzero()[0])


class RunFile(BaseModel):
    """The contents of run.json."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    format: Literal["agrlearn-run-3"]
    versions: dict[Text, Text]
    identity: Identity
    data: DataNote | None
    """None for data that are not of a source, such as arrays and a Dataset of the user's own."""
    command: Text | None = None
    """That made the run; None for a run from Python."""
    spec: dict[str, Any] | None = None
    """The `RunSpec` that the run was made from; None where `fit` was called with a network and data."""
    data_stamp: Text | None = None
    """Of the files that the spec names, by which a change of them is noticed without reading them."""
    result: dict[str, Any] | None = None
    """The `RunResult` of a run from a spec, once it is finished."""


def note_data(train_set: Dataset, validation_set: Dataset | None) -> DataNote | None:
    """What is known of where the data come from."""
    origin = train_set.origin if isinstance(train_set, LabelledSet) else None
    if origin is None or not isinstance(train_set, LabelledSet):
        return None
    other = validation_set.origin if isinstance(validation_set, LabelledSet) else None
    shared = other is not None and other.source == origin.source
    return DataNote(
        source=origin.source, data_dir=origin.data_dir, preparation=origin.preparation, skip_bad=origin.skip_bad,
        dtype=str(first_tensor(train_set.objects).dtype).removeprefix("torch."), trained_on=_note_rows(train_set),
        held_out=_note_rows(validation_set) if shared and isinstance(validation_set, LabelledSet) else None,
    )  # fmt: skip


def _note_rows(objects: LabelledSet) -> Rows | None:
    """Which objects of their source these are, in its order; None if one is there twice."""
    assert objects.origin is not None
    part, rows, count = cast(Literal["train", "test"], objects.origin.part), objects.origin.rows, objects.origin.count
    plain = replace(objects, weights=None)
    if rows is None:
        return Rows(part=part, count=count, rows=None, digest=plain.digest())
    bits = torch.zeros(count, dtype=torch.uint8)
    bits[rows] = 1
    if int(bits.sum()) != len(rows):
        return None
    packed = base64.b64encode(numpy.packbits(bits.numpy()).tobytes()).decode()
    return Rows(part=part, count=count, rows=packed, digest=plain.subset(rows.argsort()).digest())


def identity_of(
    network: AggregatedClassifier, train_set: Dataset, validation_set: Dataset | None, recipe: Recipe, engine: Fabric,
    augment: Callable | None, critic: nn.Module | None = None,
) -> Identity:  # fmt: skip
    """The identity of a training run."""
    facts: Any = network.description or _described(network)
    return Identity(
        precision=str(engine.strategy.precision.precision),
        recipe=recipe,
        network=NetworkFacts(**facts),
        initial_seed=network.initial_seed,
        training_data=_fingerprint(train_set),
        validation_data=None if validation_set is None else _fingerprint(validation_set),
        augmentation=None if augment is None else _told(augment)[:LONGEST_TEXT],
        critic=None if critic is None else _layers(critic),
    )


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
