"""What trained networks do on objects that they were not trained on: all that the page shows beside the curves."""

import time
from collections.abc import Sequence
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


def measure(settings: Sequence[Sequence[Subject]], *, dial: bool | None = None) -> list[Measurement]:
    """Measure every setting, given as the subjects of its seeds.

    Args:
        dial: whether to try every protocol, which takes about twenty passes more; None does where a pass is quick.
    """
    few = max(3, min(_MOST_HARD, _MOST_HARD_OF_ALL // max(1, len(settings))))
    subjects = [[_sampled(subject) for subject in mine] for mine in settings]
    start = time.perf_counter()
    found = [[evaluate(subject.network, subject.test_set) for subject in mine] for mine in subjects]
    quick = time.perf_counter() - start < _QUICK_SECONDS
    points = _turn_dial(subjects) if (quick if dial is None else dial) else [()] * len(subjects)
    return [_summarize(mine, each, dial, few) for mine, each, dial in zip(subjects, found, points, strict=True)]


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


def _summarize(
    subjects: Sequence[Subject], evaluations: Sequence[Evaluation], dial: tuple[DialPoint, ...], few: int
) -> Measurement:
    first = subjects[0]
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


def _turn_dial(settings: Sequence[Sequence[Subject]]) -> list[tuple[DialPoint, ...]]:
    """Every protocol of every setting; the speeds are taken in turns, so that they can be compared."""
    ways = [(place, *way) for place, mine in enumerate(settings) for way in _ways(mine[0])]
    alike: dict[str, list[int]] = {}
    for number, (place, *_) in enumerate(ways):
        alike.setdefault(_kind(settings[place][0].test_set.objects), []).append(number)
    speeds: dict[int, float] = {}
    for numbers in alike.values():
        test_set = settings[ways[numbers[0]][0]][0].test_set
        some = take(test_set.objects, torch.arange(min(_MOST_TIMED, len(test_set))))
        timed = [(settings[place][0].network, protocol) for place, _, _, protocol in (ways[i] for i in numbers)]
        speeds |= dict(zip(numbers, objects_per_second(timed, some, rounds=_ROUNDS), strict=True))
    points: list[list[DialPoint]] = [[] for _ in settings]
    for number, (place, name, draws, protocol) in enumerate(ways):
        mine = settings[place]
        scores = [evaluate(subject.network, subject.test_set, protocol) for subject in mine]
        one = map_objects(lambda tensor: tensor[:1], mine[0].test_set.objects)
        points[place].append(
            DialPoint(
                name,
                draws,
                mean_over_runs([each.error for each in scores]),
                mean_over_runs([each.nll for each in scores]),
                multiply_adds_per_object(mine[0].network, one, protocol),
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
