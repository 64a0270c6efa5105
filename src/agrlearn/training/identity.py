"""run.json: what identifies a run, and where its data are."""

import base64
import functools
import hashlib
import re
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import numpy
import torch
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from torch import Tensor, nn
from torch.utils.data import Dataset

from agrlearn.data.labelled import LabelledSet
from agrlearn.data.preparation import check_preparation
from agrlearn.grouping import first_tensor
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.networks.cost import count_parameters
from agrlearn.networks.joins import Join
from agrlearn.networks.outside import code_digest, comes_from_file
from agrlearn.training.recipe import Recipe, complete_saved

if TYPE_CHECKING:
    from lightning_fabric import Fabric

RUN_FORMAT: Literal["agrlearn-run-3"] = "agrlearn-run-3"

LONGEST_TEXT = 10_000
Text = Annotated[str, Field(max_length=LONGEST_TEXT)]
"""A name or a value in a file that may have been tampered with."""


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


def _completed(recipe: Any) -> Any:
    return complete_saved(recipe) if isinstance(recipe, dict) else recipe


class NetworkFacts(BaseModel):
    """What describes every network, in addition to its own options."""

    model_config = ConfigDict(strict=True, extra="allow")
    __pydantic_extra__: dict[str, Text | int | float | bool | list[int] | None]

    network: Text
    fold: Annotated[int, Field(ge=1, lt=2**31)]


class Identity(_Strict):
    """What identifies a run. The initial weights of a network that is not from the catalogue are not part of it."""

    precision: Text
    recipe: Annotated[Recipe, Field(strict=False), BeforeValidator(_completed)]
    network: NetworkFacts
    initial_seed: int | None
    """Of the network's weights, if the catalogue made them."""
    training_data: Text
    validation_data: Text | None
    augmentation: Text | None
    critic: Text | None = None
    network_code: Text | None = None
    """Of the file that a network comes from (FILE.py:FUNCTION), since its name does not tell what is in it."""
    made_longer_after: list[Annotated[int, Field(ge=0)]] = []
    """Epochs after which its recipe got more epochs than it had before."""


class DataNote(_Strict):
    """Where a run's data are, how they became objects, and which of them it held out."""

    source: Text
    """A data set by name, or the path of a file or folder."""
    data_dir: Text | None
    preparation: Annotated[dict[str, Any], AfterValidator(check_preparation)]
    skip_bad: bool
    dtype: Text
    """Of the objects, such as uint8."""
    trained_on: "Rows | None"
    """None if an object occurs twice."""
    held_out: "Rows | None"
    """What to measure on; None if nothing was held out, or if it is not from the source."""
    test: Text | None = None
    """The file or folder to measure on, if it has one of its own."""


class Rows(_Strict):
    """A selection of a source's objects."""

    part: Literal["train", "test", "all"]
    count: Annotated[int, Field(ge=1, lt=2**40)]
    """Objects in that part."""
    rows: Annotated[str, Field(max_length=2**25)] | None
    """Which of them are selected, as a bit for each in base64; None for all."""
    digest: Text
    """Of these objects in the order of the source, to recognise them."""

    def indices(self) -> Tensor:
        """The indices of the objects in the part."""
        if self.rows is None:
            return torch.arange(self.count)
        try:
            bits = numpy.unpackbits(numpy.frombuffer(base64.b64decode(self.rows, validate=True), numpy.uint8))
        except ValueError:
            bits = numpy.zeros(0, numpy.uint8)
        return torch.from_numpy(bits[: self.count].nonzero()[0])


class RunFile(_Strict):
    """The contents of run.json."""

    format: Literal["agrlearn-run-3"]
    versions: dict[Text, Text]
    identity: Identity
    data: DataNote | None
    """None for data that are not from a source, such as arrays or any other Dataset."""
    class_names: list[Text] = []
    """By their numbers; none for data that do not name them."""
    command: Text | None = None
    """The command that started the run; None for a run from Python."""
    spec: dict[str, Any] | None = None
    """The `RunSpec` of the run; None if `fit` was called with a network and data."""
    data_stamp: Text | None = None
    """Of the files that the spec names: a change of them is noticed without reading them."""
    result: dict[str, Any] | None = None
    """The `RunResult` of a finished run that was made from a spec."""
    run_stamp: Text | None = None
    """Of the run's other files when the command was done: if one is damaged, the same command mends it."""


def note_data(train_set: Dataset, held_out: Dataset | None) -> DataNote | None:
    """Where the data come from; None if that is not known."""
    if not isinstance(train_set, LabelledSet) or train_set.origin is None:
        return None
    origin = train_set.origin
    elsewhere = held_out.origin if isinstance(held_out, LabelledSet) else None
    return DataNote(
        source=origin.source, data_dir=origin.data_dir, preparation=origin.preparation, skip_bad=origin.skip_bad,
        dtype=str(first_tensor(train_set.objects).dtype).removeprefix("torch."),
        trained_on=_note_rows(train_set, origin.source), held_out=_note_rows(held_out, origin.source),
        test=elsewhere.source if elsewhere is not None and elsewhere.source != origin.source else None,
    )  # fmt: skip


def _note_rows(dataset: Dataset | None, source: str) -> Rows | None:
    """Which objects of the source these are, in its order; None if they are from elsewhere, or one occurs twice."""
    if not isinstance(dataset, LabelledSet) or dataset.origin is None or dataset.origin.source != source:
        return None
    origin = dataset.origin
    part, rows, count = cast(Literal["train", "test", "all"], origin.part), origin.rows, origin.count
    plain = replace(dataset, weights=None)
    if rows is None:
        return Rows(part=part, count=count, rows=None, digest=plain.digest())
    bits = torch.zeros(count, dtype=torch.uint8)
    bits[rows] = 1
    if int(bits.sum()) != len(rows):
        return None
    packed = base64.b64encode(numpy.packbits(bits.numpy()).tobytes()).decode()
    return Rows(part=part, count=count, rows=packed, digest=plain.subset(rows.argsort()).digest())


def identity_of(
    network: AggregatedClassifier, train_set: Dataset, validation_set: Dataset | None, recipe: Recipe, engine: "Fabric",
    augment: Callable | None, critic: nn.Module | None = None,
) -> Identity:  # fmt: skip
    """The identity of a training run."""
    return Identity(
        precision=str(engine.strategy.precision.precision),
        recipe=recipe.apart_from_execution(),
        network=NetworkFacts(**facts_of(network)),
        initial_seed=network.initial_seed,
        training_data=_fingerprint(train_set),
        validation_data=None if validation_set is None else _fingerprint(validation_set),
        augmentation=None if augment is None else _function_name(augment)[:LONGEST_TEXT],
        critic=None if critic is None else _layers(critic),
        network_code=_code_of(network),
    )


def _code_of(network: AggregatedClassifier) -> str | None:
    name = str((network.description or {}).get("network", ""))
    return code_digest(name) if comes_from_file(name) else None


def facts_of(network: AggregatedClassifier) -> dict[str, Any]:
    """A network's description, or of one that was not built by name what can be told."""
    described: Any = network.description
    return described or {
        "network": type(network).__name__,
        "fold": network.fold,
        "parameters": count_parameters(network),
        "noise": network.noise,
        "join": _function_name(network.join.function if isinstance(network.join, Join) else network.join),
        "layers": _layers(network),
    }


def _layers(module: nn.Module) -> str:
    """A fingerprint of a module's layers, without its weights."""
    layers = re.sub(r"0x[0-9a-fA-F]+", "", repr(module))  # memory addresses differ between processes
    return hashlib.sha256(layers.encode()).hexdigest()[:16]


def _fingerprint(dataset: Dataset) -> str:
    digest = f", {dataset.digest()}" if isinstance(dataset, LabelledSet) else ""
    return f"{len(dataset)} objects{digest}"  # type: ignore[arg-type]


def _function_name(function: Any) -> str:
    """A function's name, with the plain values that a partial binds; for other objects, the name of their class."""
    if isinstance(function, functools.partial):
        bound = [*enumerate(function.args), *function.keywords.items()]
        plain = [f"{name}={value!r}" for name, value in bound if isinstance(value, str | int | float)]
        return f"{_function_name(function.func)}({', '.join(plain)})"
    return str(getattr(function, "__qualname__", type(function).__qualname__))
