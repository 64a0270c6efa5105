"""What a finished run left as numbers, and how it is found again by its specification."""

import json
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel, model_validator
from torch import Tensor

from agrlearn.data.labelled import LabelledSet
from agrlearn.errors import RunError
from agrlearn.evaluation.evaluate import evaluate
from agrlearn.evaluation.metrics import METRICS, Scores, outcomes_of, score
from agrlearn.evaluation.temperature import at_temperature, fit_temperature
from agrlearn.files import parse_json, read_small_text
from agrlearn.grouping import GroupBatchSampler, first_tensor
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.networks.cost import count_parameters
from agrlearn.prediction.cost import multiply_adds_per_object
from agrlearn.prediction.predict import predict
from agrlearn.prediction.protocols import Batched, Contextual, PredictionProtocol, Replicated
from agrlearn.runs.spec import RunSpec
from agrlearn.runs.train import RunData
from agrlearn.training.history import EpochRecord, History, Number, Whole
from agrlearn.training.identity import RUN_FORMAT
from agrlearn.training.recipe import complete_saved

REPLICATED = "Replicated"


@dataclass(frozen=True)
class Point:
    """A measurement while a network trained."""

    epoch: Whole
    objects_seen: Whole
    loss: Number
    train_error: Number
    error: Number
    """On the part that is measured while training: the test part, or the part that an early stop looks at."""
    nll: Number
    information: Number | None
    """The penalty J, where there is one."""


@dataclass(frozen=True)
class ProtocolScores(Scores):
    """What the trained network did on the test part under one protocol."""

    head_disagreement: Number
    multiply_adds: Number
    """Per object; a sentence has as many words as the longest."""


@dataclass(frozen=True)
class RunResult:
    """What one training run left."""

    protocols: dict[str, ProtocolScores]
    """By the protocol's name, with the weights that were kept; empty where nothing was held out."""
    curve: tuple[Point, ...]
    parameters: Whole
    steps: Whole
    objects_seen: Whole
    seconds: Number
    """Of training."""
    machine: str


class FinishedRun(BaseModel):
    """What a file says of a run: run.json of a finished run, or a file of these alone, such as under results/cells."""

    format: str
    versions: dict[str, str]
    spec: RunSpec
    result: RunResult
    data_stamp: str | None = None
    """Of the user's files; none of a set by name."""

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, values: Any) -> Any:
        spec = values.get("spec") if isinstance(values, dict) else None
        if isinstance(spec, dict) and isinstance(spec.get("recipe"), dict):
            return values | {"spec": spec | {"recipe": complete_saved(spec["recipe"])}}
        return values

    @property
    def seed(self) -> int:
        return self.spec.seed

    def is_of(self, spec: RunSpec) -> bool:
        """Whether it is a run of these very settings.

        Of a setting that is new to the library it has the default; a default that has changed is another setting.
        """
        return self.seed == spec.seed and self.spec.settings() == spec.settings()

    def to_json(self) -> str:
        """As a file of its own, with results of seven digits: beyond that they are noise."""
        spec = {**self.spec.settings(), "recipe": self.spec.recipe.model_dump(mode="json")}
        values = {
            "format": self.format,
            "versions": self.versions,
            "spec": spec,
            "result": _rounded(asdict(self.result)),
            **({} if self.data_stamp is None else {"data_stamp": self.data_stamp}),
        }
        return json.dumps(values, indent=1) + "\n"


def read_finished(file: Path) -> FinishedRun | None:
    """The finished run in a file; None where there is no file, or the run is not finished."""
    if not file.exists():
        return None
    try:
        values = parse_json(read_small_text(file))
        if not isinstance(values, dict) or values["format"] != RUN_FORMAT:
            raise ValueError
        if values["spec"] is None or values["result"] is None:
            return None
        return FinishedRun.model_validate(values)
    except (ValueError, KeyError, TypeError):
        raise RunError(f"{file} is not a result of this version of agrlearn; remove it to run it again") from None


def measure(
    spec: RunSpec, data: RunData, networks: Sequence[AggregatedClassifier], history: History, *, dial: bool = False
) -> RunResult:
    """What a run that is done left.

    Args:
        networks: one, or the members of a run that averages several.
        dial: measure every way to predict, not only Replicated.
    """
    network = networks[0]
    chosen = protocols_to_measure(network, data) if dial and len(networks) == 1 else {REPLICATED: Replicated()}
    steps = len(GroupBatchSampler(len(data.train), spec.fold, spec.recipe.batch_size))
    return RunResult(
        protocols={name: _scores(spec, networks, data, protocol) for name, protocol in chosen.items() if data.test},
        curve=tuple(_point(record) for record in history.records if record.validation_error is not None),
        parameters=sum(map(count_parameters, networks)),
        steps=len(history.records) * steps * len(networks),
        objects_seen=history.records[-1].objects_seen * len(networks),
        seconds=history.seconds,
        machine=describe_machine(),
    )


def protocols_to_measure(network: AggregatedClassifier, data: RunData) -> dict[str, PredictionProtocol]:
    """The ways to predict that say something of a network: one, where it has a single answer for a whole group."""
    if network.fold == 1 or network.shares_head:
        return {REPLICATED: Replicated()}
    return {
        REPLICATED: Replicated(),
        "Contextual, 4 draws": Contextual(data.train.objects, draws=4),
        "Batched, 4 draws": Batched(draws=4),
        "Batched, 1 draw": Batched(draws=1),
    }


def describe_machine() -> str:
    """The GPU's name, or the processor's, as far as the system knows it."""
    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    file = Path("/proc/cpuinfo")
    lines = file.read_text().splitlines() if file.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.machine()}, {torch.get_num_threads()} thread"


def _scores(
    spec: RunSpec, networks: Sequence[AggregatedClassifier], data: RunData, protocol: PredictionProtocol
) -> ProtocolScores:
    assert data.test is not None
    cost = sum(multiply_adds_per_object(network, longest_object(data), protocol) for network in networks)
    disagreement = 0.0
    if len(networks) == 1:
        found = evaluate(networks[0], data.test, protocol, allow_slot_blind=True, sharded=True)
        scores: Scores = found
        disagreement = found.head_disagreement
    if len(networks) > 1 or spec.calibrate:
        answers = _mean_answers(networks, data.test, protocol)
        if spec.calibrate:
            assert data.stopping is not None
            held_out = _mean_answers(networks, data.stopping, protocol)
            answers = at_temperature(answers, fit_temperature(held_out, data.stopping.labels))
        scores = score(outcomes_of(answers, data.test.labels))
    return ProtocolScores(
        **{name: getattr(scores, name) for name in METRICS}, head_disagreement=disagreement, multiply_adds=cost
    )


def _mean_answers(
    networks: Sequence[AggregatedClassifier], objects: LabelledSet, protocol: PredictionProtocol
) -> Tensor:
    """(objects, classes): the mean of the networks' distributions."""
    answers = [predict(network, objects.objects, protocol, allow_slot_blind=True) for network in networks]
    return torch.stack(answers).mean(dim=0)


def longest_object(data: RunData) -> Tensor:
    """(1, ...): an object, or a sentence of as many words as the longest, since some networks pass over padding."""
    first = first_tensor(data.train.objects)[:1]
    return torch.ones_like(first) if data.vocabulary else first


def _point(record: EpochRecord) -> Point:
    assert record.validation_error is not None and record.validation_nll is not None
    return Point(
        record.epoch, record.objects_seen, record.loss, record.train_error, record.validation_error,
        record.validation_nll, record.information,
    )  # fmt: skip


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return int(value) if value.is_integer() else float(f"{value:.7g}")
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, list | tuple) else value
