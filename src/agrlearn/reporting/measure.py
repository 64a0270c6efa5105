"""What trained networks do on objects that they were not trained on: everything on the page except the curves."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from agrlearn.data.labelled import LabelledSet
from agrlearn.evaluation.evaluate import evaluate
from agrlearn.evaluation.metrics import METRICS, Bin, Outcomes, Scores, calibration_bins
from agrlearn.evaluation.statistics import Mean, mean_over_runs
from agrlearn.evaluation.throughput import objects_per_second
from agrlearn.grouping import Objects, map_objects, take
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.networks.cost import count_parameters
from agrlearn.prediction.cost import multiply_adds_per_object
from agrlearn.prediction.predict import answers_of
from agrlearn.prediction.protocols import PROTOCOLS, PredictionProtocol, Replicated, make_protocol, takes
from agrlearn.reporting.objects import HardObject, show_object
from agrlearn.seeding import generator

_DRAWS = (1, 2, 4)
_MOST_OBJECTS, _MOST_TIMED, _ROUNDS = 10_000, 512, 9
_MOST_HARD, _MOST_HARD_OF_ALL = 12, 96
_QUICK_SECONDS = 2.0


@dataclass(frozen=True)
class Subject:
    """A trained network, and what to measure it on."""

    network: AggregatedClassifier
    test_set: LabelledSet
    context: Objects | None
    """Training objects, for Contextual prediction; without them it is left out of the dial."""
    origin: str
    """What the objects are, for a person to read."""
    words: tuple[str, ...] = ()
    """By token number from 2 on, where the objects are sentences."""

    @property
    def lacks_context(self) -> bool:
        """Whether Contextual prediction is left out only because the training objects are missing."""
        return self.context is None and can_be_grouped(self.network)

    def one_object(self) -> Objects:
        return map_objects(lambda tensor: tensor[:1], self.test_set.objects)

    def place_of(self, number: int) -> str:
        """Where an object of the test set is in the data."""
        origin = self.test_set.origin
        return f"object {number}" if origin is None else origin.name_of(number)


@dataclass(frozen=True)
class DialPoint:
    """One way to predict: how good and how fast it is."""

    protocol: str
    draws: int
    scores: Mapping[str, Mean]
    """By the names of `METRICS`."""
    multiply_adds: float
    objects_per_second: float


@dataclass(frozen=True)
class Measurement:
    """The runs of one setting on their test part; everything except the dial is by Replicated prediction."""

    origin: str
    class_names: tuple[str, ...]
    scores: tuple[Scores, ...]
    """Of each run."""
    head_errors: tuple[float, ...]
    """Of each head alone, averaged over runs."""
    head_disagreement: Mean
    bins: tuple[Bin, ...]
    """Of all runs together; empty ones are left out."""
    confusion: tuple[tuple[int, ...], ...]
    """Of all runs together: [class][answer]."""
    hardest: tuple[HardObject, ...]
    """Of the first run."""
    parameters: int
    multiply_adds: float
    dial: tuple[DialPoint, ...] = ()

    @property
    def means(self) -> dict[str, Mean]:
        """Over runs, by the names of `METRICS`."""
        return _means(self.scores)


Opener = Callable[[], Subject]
"""Opens a run's network and data; what it returns is dropped once it has been measured."""


def measure(settings: Sequence[Sequence[Opener]], *, dial: bool | None = None) -> list[Measurement]:
    """Measure every setting, given as functions that open the subjects of its seeds.

    At a time, the first of a setting, one more of its seeds, and for the dial the first of all are in memory.

    Args:
        dial: whether to try every protocol, which takes about twenty passes more; None does where a pass is quick.
    """
    few = max(3, min(_MOST_HARD, _MOST_HARD_OF_ALL // max(1, len(settings))))
    start = time.perf_counter()
    found = [_summarize(openers, few) for openers in settings]
    quick = time.perf_counter() - start < _QUICK_SECONDS
    if not (quick if dial is None else dial):
        return found
    clocks: dict[str, _Clock] = {}
    return [replace(one, dial=_turn_dial(openers, clocks)) for one, openers in zip(found, settings, strict=True)]


def can_be_grouped(network: AggregatedClassifier) -> bool:
    """Whether it can answer for different objects in the slots of a group."""
    return network.fold > 1 and not network.slot_blind


def _means(scores: Sequence[Scores]) -> dict[str, Mean]:
    return {name: mean_over_runs([getattr(each, name) for each in scores]) for name in METRICS}


def _each(first: Subject, openers: Sequence[Opener]) -> Iterator[Subject]:
    """The subjects of a setting, one after the other; the first is open already."""
    yield first
    for opener in openers[1:]:
        yield _sampled(opener())


def _sampled(subject: Subject) -> Subject:
    """The subject with at most so many objects, drawn at random but always the same."""
    count = len(subject.test_set)
    if count <= _MOST_OBJECTS:
        return subject
    chosen = torch.randperm(count, generator=generator(0))[:_MOST_OBJECTS].sort().values
    origin = f"{subject.origin}, {_MOST_OBJECTS:,} of its {count:,} objects"
    return replace(subject, test_set=subject.test_set.subset(chosen), origin=origin)


def _summarize(openers: Sequence[Opener], few: int) -> Measurement:
    """Everything except the dial."""
    first = _sampled(openers[0]())
    evaluations = [evaluate(subject.network, subject.test_set) for subject in _each(first, openers)]
    classes = first.network.num_classes
    names = [column.name for column in fields(Outcomes)]
    together = Outcomes(**{name: torch.cat([getattr(found.outcomes, name) for found in evaluations]) for name in names})
    confusion = (together.label * classes + together.chosen).bincount(minlength=classes * classes)
    return Measurement(
        origin=first.origin,
        class_names=first.test_set.class_names,
        scores=tuple(evaluations),
        head_errors=tuple(torch.tensor([found.head_errors for found in evaluations]).mean(dim=0).tolist()),
        head_disagreement=mean_over_runs([found.head_disagreement for found in evaluations]),
        bins=calibration_bins(together),
        confusion=tuple(tuple(row) for row in confusion.view(classes, classes).tolist()),
        hardest=_hardest(first, evaluations[0].outcomes, few),
        parameters=count_parameters(first.network),
        multiply_adds=multiply_adds_per_object(first.network, first.one_object(), Replicated()),
    )


def _hardest(subject: Subject, outcomes: Outcomes, few: int) -> tuple[HardObject, ...]:
    """The objects whose true class the heads together find least likely."""
    names, objects = subject.test_set.class_names, subject.test_set.objects
    numbers = outcomes.likelihood.argsort(stable=True)[:few]
    [answers] = answers_of(subject.network, take(objects, numbers), batch_size=few)
    confidences, winners = answers.probabilities.view(len(numbers), subject.network.fold, -1).max(dim=2)
    return tuple(
        HardObject(
            subject.place_of(number),
            names[int(outcomes.label[number])],
            float(outcomes.likelihood[number]),
            tuple((names[winner], sure) for winner, sure in zip(chosen, sureness, strict=True)),
            *show_object(objects, number, subject.words),
        )
        for number, chosen, sureness in zip(numbers.tolist(), winners.tolist(), confidences.tolist(), strict=True)
    )


class _Way(NamedTuple):
    """A way to predict with the networks of a setting."""

    name: str
    draws: int
    protocol: PredictionProtocol


class _Clock:
    """Times the ways of one setting after another, which are no longer in memory, as if they all took turns.

    A network that stays is timed beside each of them: what slows it down now slows down the others as much.
    """

    def __init__(self, subject: Subject) -> None:
        self._network = subject.network
        self._objects = take(subject.test_set.objects, torch.arange(min(_MOST_TIMED, len(subject.test_set))))
        self._speed: float | None = None

    def speeds(self, network: AggregatedClassifier, ways: Sequence[_Way]) -> list[float]:
        """Objects per second of every way."""
        timed = [(self._network, Replicated()), *((network, way.protocol) for way in ways)]
        own, *speeds = objects_per_second(timed, self._objects, rounds=_ROUNDS)
        self._speed = self._speed or own
        return [speed * self._speed / own for speed in speeds]


def _turn_dial(openers: Sequence[Opener], clocks: dict[str, _Clock]) -> tuple[DialPoint, ...]:
    """Every protocol of a setting; `clocks` are those of all settings, by the kind of their objects."""
    first = _sampled(openers[0]())
    ways, one = _ways(first), first.one_object()
    clock = clocks.setdefault(_kind(first.test_set.objects), _Clock(first))
    speeds = clock.speeds(first.network, ways)
    runs = [
        [evaluate(subject.network, subject.test_set, way.protocol) for way in ways] for subject in _each(first, openers)
    ]
    costs = [multiply_adds_per_object(first.network, one, way.protocol) for way in ways]
    return tuple(
        DialPoint(way.name, way.draws, _means(scores), cost, speed)
        for way, scores, cost, speed in zip(ways, zip(*runs, strict=True), costs, speeds, strict=True)
    )


def _ways(subject: Subject) -> list[_Way]:
    """The protocols that a network can answer, with their draws."""
    context: Any = subject.context
    return [
        _Way(name, draws, make_protocol(name, draws=draws, context=lambda: context))
        for name, kind in PROTOCOLS.items()
        if (can_be_grouped(subject.network) or not kind.tells_slots_apart)
        and (subject.context is not None or not takes(name, "context"))
        for draws in (_DRAWS if takes(name, "draws") else (1,))
    ]


def _kind(objects: Objects) -> str:
    """The shape and type of objects, as text."""
    tensors = [objects] if isinstance(objects, Tensor) else objects.values()
    return " ".join(f"{tuple(tensor.shape[1:])} {tensor.dtype}" for tensor in tensors)
