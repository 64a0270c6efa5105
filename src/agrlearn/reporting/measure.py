"""What trained networks do on objects that they were not trained on: all that the page shows beside the curves."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from agrlearn.data.labelled import LabelledSet
from agrlearn.evaluation.evaluate import Evaluation, evaluate
from agrlearn.evaluation.metrics import Bin, Outcomes, Scores, calibration_bins
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

DRAWS = (1, 2, 4)
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
        """Whether Contextual prediction could be tried, but for the training objects."""
        return self.context is None and can_be_grouped(self.network)


@dataclass(frozen=True)
class DialPoint:
    """One way to predict: how good and how fast it is."""

    protocol: str
    draws: int
    error: Mean
    nll: Mean
    multiply_adds: float
    objects_per_second: float


@dataclass(frozen=True)
class Measurement:
    """The runs of one setting on their test part; by Replicated prediction, but for the dial."""

    origin: str
    objects: int
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


Opener = Callable[[], Subject]
"""Opens a run's network and data; what it gives is forgotten when it has been measured."""


def measure(settings: Sequence[Sequence[Opener]], *, dial: bool | None = None) -> list[Measurement]:
    """Measure every setting, given as what opens the subjects of its seeds: of a setting, one more than the first is
    in memory at a time.

    Args:
        dial: whether to try every protocol, which takes about twenty passes more; None does where a pass is quick.
    """
    few = max(3, min(_MOST_HARD, _MOST_HARD_OF_ALL // max(1, len(settings))))
    firsts = [_sampled(mine[0]()) for mine in settings]
    start = time.perf_counter()
    found = [
        [evaluate(subject.network, subject.test_set) for subject in _each(first, mine)]
        for first, mine in zip(firsts, settings, strict=True)
    ]
    quick = time.perf_counter() - start < _QUICK_SECONDS
    points = _turn_dial(firsts, settings) if (quick if dial is None else dial) else [()] * len(settings)
    return [_summarize(first, each, dial, few) for first, each, dial in zip(firsts, found, points, strict=True)]


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
    return Subject(
        subject.network, subject.test_set.subset(chosen), subject.context,
        f"{subject.origin}, {_MOST_OBJECTS:,} of its {count:,} objects", subject.words,
    )  # fmt: skip


def _summarize(first: Subject, evaluations: Sequence[Evaluation], dial: tuple[DialPoint, ...], few: int) -> Measurement:
    classes = first.network.num_classes
    together = Outcomes(
        **{
            column.name: torch.cat([getattr(found.outcomes, column.name) for found in evaluations])
            for column in fields(Outcomes)
        }
    )
    confusion = (together.label * classes + together.chosen).bincount(minlength=classes * classes)
    one = map_objects(lambda tensor: tensor[:1], first.test_set.objects)
    return Measurement(
        origin=first.origin,
        objects=len(first.test_set),
        class_names=first.test_set.class_names,
        scores=tuple(evaluations),
        head_errors=tuple(torch.tensor([found.head_errors for found in evaluations]).mean(dim=0).tolist()),
        head_disagreement=mean_over_runs([found.head_disagreement for found in evaluations]),
        bins=calibration_bins(together),
        confusion=tuple(tuple(row) for row in confusion.view(classes, classes).tolist()),
        hardest=_hardest(first, evaluations[0].outcomes, few),
        parameters=count_parameters(first.network),
        multiply_adds=multiply_adds_per_object(first.network, one, Replicated()),
        dial=dial,
    )


def _hardest(subject: Subject, outcomes: Outcomes, few: int) -> tuple[HardObject, ...]:
    """The objects whose true class the heads together find least likely."""
    names, objects = subject.test_set.class_names, subject.test_set.objects
    numbers = outcomes.likelihood.argsort(stable=True)[:few]
    [answers] = answers_of(subject.network, take(objects, numbers), batch_size=few)
    confidences, winners = answers.probabilities.view(len(numbers), subject.network.fold, -1).max(dim=2)
    return tuple(
        HardObject(
            number,
            names[int(outcomes.label[number])],
            float(outcomes.likelihood[number]),
            tuple((names[winner], sure) for winner, sure in zip(chosen, sureness, strict=True)),
            *show_object(objects, number, subject.words),
        )
        for number, chosen, sureness in zip(numbers.tolist(), winners.tolist(), confidences.tolist(), strict=True)
    )


def _turn_dial(firsts: Sequence[Subject], settings: Sequence[Sequence[Opener]]) -> list[tuple[DialPoint, ...]]:
    """Every protocol of every setting; the speeds are taken in turns, so that they can be compared."""
    ways = [(place, *way) for place, first in enumerate(firsts) for way in _ways(first)]
    alike: dict[str, list[int]] = {}
    for number, (place, *_) in enumerate(ways):
        alike.setdefault(_kind(firsts[place].test_set.objects), []).append(number)
    speeds: dict[int, float] = {}
    for numbers in alike.values():
        test_set = firsts[ways[numbers[0]][0]].test_set
        some = take(test_set.objects, torch.arange(min(_MOST_TIMED, len(test_set))))
        timed = [(firsts[place].network, protocol) for place, _, _, protocol in (ways[i] for i in numbers)]
        speeds |= dict(zip(numbers, objects_per_second(timed, some, rounds=_ROUNDS), strict=True))
    scores: dict[int, list[Evaluation]] = {number: [] for number in range(len(ways))}
    for place, (first, openers) in enumerate(zip(firsts, settings, strict=True)):
        mine = [(number, protocol) for number, (where, _, _, protocol) in enumerate(ways) if where == place]
        for subject in _each(first, openers):
            for number, protocol in mine:
                scores[number].append(evaluate(subject.network, subject.test_set, protocol))
    points: list[list[DialPoint]] = [[] for _ in firsts]
    for number, (place, name, draws, protocol) in enumerate(ways):
        one = map_objects(lambda tensor: tensor[:1], firsts[place].test_set.objects)
        points[place].append(
            DialPoint(
                name,
                draws,
                mean_over_runs([each.error for each in scores[number]]),
                mean_over_runs([each.nll for each in scores[number]]),
                multiply_adds_per_object(firsts[place].network, one, protocol),
                speeds[number],
            )
        )
    return [tuple(mine) for mine in points]


def _ways(subject: Subject) -> list[tuple[str, int, PredictionProtocol]]:
    """The protocols that a network can answer, with their draws."""
    context: Any = subject.context
    return [
        (name, draws, make_protocol(name, draws=draws, context=lambda: context))
        for name, kind in PROTOCOLS.items()
        if (can_be_grouped(subject.network) or not kind.tells_slots_apart)
        and (subject.context is not None or not takes(name, "context"))
        for draws in (DRAWS if takes(name, "draws") else (1,))
    ]


def can_be_grouped(network: AggregatedClassifier) -> bool:
    """Whether it can answer for different objects in the slots of a group."""
    return network.fold > 1 and not network.slot_blind


def _kind(objects: Objects) -> str:
    """The shape and type of objects, as text; networks for the same kind can take turns on the same objects."""
    tensors = [objects] if isinstance(objects, Tensor) else objects.values()
    return " ".join(f"{tuple(tensor.shape[1:])} {tensor.dtype}" for tensor in tensors)
