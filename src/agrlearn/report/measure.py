"""What trained networks do on objects that they were not trained on: all that the page shows beside the curves."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from agrlearn.data.labelled import LabelledSet
from agrlearn.evaluation.comparison import Mean, mean_over_runs
from agrlearn.evaluation.evaluate import Scores, evaluate, score
from agrlearn.evaluation.throughput import objects_per_second
from agrlearn.grouping import Objects, map_objects, take
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.networks.cost import count_parameters
from agrlearn.prediction.cost import multiply_adds_per_object
from agrlearn.prediction.predict import answers_of, probability_type
from agrlearn.prediction.protocols import Batched, Contextual, PredictionProtocol, Replicated
from agrlearn.report.objects import HardObject, show_object
from agrlearn.seeding import generator

DRAWS = (1, 2, 4)
_BINS = 15  # those of the ECE
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
class Bin:
    """Answers of about the same confidence."""

    confidence: float
    accuracy: float
    objects: int


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
    heard = [[_hear(subject) for subject in mine] for mine in subjects]
    quick = time.perf_counter() - start < _QUICK_SECONDS
    points = _turn_dial(subjects) if (quick if dial is None else dial) else [()] * len(subjects)
    return [_summarize(mine, answers, found, few) for mine, answers, found in zip(subjects, heard, points, strict=True)]


def reliability(probabilities: Tensor, labels: Tensor) -> tuple[Bin, ...]:
    """The accuracy of answers by their confidence; the mean gap between the two, by objects, is the ECE.

    Args:
        probabilities: (objects, classes).
        labels: (objects,).
    """
    confidence, answer = probabilities.max(dim=1)
    right = (answer == labels).double()
    bounds = torch.linspace(0, 1, _BINS + 1, dtype=confidence.dtype)
    places = torch.bucketize(confidence, bounds, right=True).clamp(1, _BINS) - 1
    bins = []
    for number in range(_BINS):
        here = places == number
        if here.any():
            bins.append(
                Bin(float(confidence[here].double().mean()), float(right[here].mean()), int(here.count_nonzero()))
            )
    return tuple(bins)


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


def _hear(subject: Subject) -> Tensor:
    """(objects, fold, classes): what each head says of each object, seated in every slot."""
    network, count = subject.network, len(subject.test_set)
    heard = torch.zeros(count, network.fold, network.num_classes, dtype=probability_type(network))
    for answers in answers_of(network, subject.test_set.objects, Replicated()):
        heard[answers.objects, answers.slots] = answers.probabilities
    return heard


def _summarize(
    subjects: Sequence[Subject], heard: Sequence[Tensor], dial: tuple[DialPoint, ...], few: int
) -> Measurement:
    first = subjects[0]
    classes = first.network.num_classes
    confusion = torch.zeros(classes, classes, dtype=torch.int64)
    averaged = [heads.mean(dim=1) for heads in heard]
    for subject, probabilities in zip(subjects, averaged, strict=True):
        pairs = subject.test_set.labels * classes + probabilities.argmax(dim=1)
        confusion += pairs.bincount(minlength=classes * classes).view(classes, classes)
    wrong = [
        (heads.argmax(dim=2) != subject.test_set.labels[:, None]).double().mean(dim=0)
        for subject, heads in zip(subjects, heard, strict=True)
    ]
    one = map_objects(lambda tensor: tensor[:1], first.test_set.objects)
    return Measurement(
        origin=first.origin,
        objects=len(first.test_set),
        class_names=first.test_set.class_names,
        scores=tuple(
            score(probabilities, subject.test_set.labels)
            for subject, probabilities in zip(subjects, averaged, strict=True)
        ),
        head_errors=tuple(torch.stack(wrong).mean(dim=0).tolist()),
        head_disagreement=mean_over_runs([_disagreement(heads) for heads in heard]),
        bins=reliability(torch.cat(averaged), torch.cat([subject.test_set.labels for subject in subjects])),
        confusion=tuple(tuple(row) for row in confusion.tolist()),
        hardest=_hardest(first, heard[0], few),
        parameters=count_parameters(first.network),
        multiply_adds=multiply_adds_per_object(first.network, one, Replicated()),
        dial=dial,
    )


def _disagreement(heads: Tensor) -> float:
    """The chance that two heads name different classes."""
    fold = heads.shape[1]
    if fold == 1:
        return 0.0
    answers = heads.argmax(dim=2)
    differing = (answers[:, :, None] != answers[:, None, :]).double().sum(dim=(1, 2))
    return float(differing.mean() / (fold * (fold - 1)))


def _hardest(subject: Subject, heads: Tensor, few: int) -> tuple[HardObject, ...]:
    """The objects whose true class the heads together find least likely."""
    names, labels = subject.test_set.class_names, subject.test_set.labels
    likelihood = heads.mean(dim=1).gather(1, labels[:, None]).squeeze(1)
    found = []
    for number in likelihood.argsort(stable=True)[:few].tolist():
        confidences, answers = heads[number].max(dim=1)
        found.append(
            HardObject(
                number,
                names[int(labels[number])],
                float(likelihood[number]),
                tuple((names[answer], float(sure)) for answer, sure in zip(answers.tolist(), confidences, strict=True)),
                *show_object(subject.test_set.objects, number, subject.words),
            )
        )
    return tuple(found)


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
    ways: list[tuple[str, int, PredictionProtocol]] = [("replicated", 1, Replicated())]
    if not can_be_grouped(subject.network):
        return ways
    if subject.context is not None:
        ways += [("contextual", draws, Contextual(subject.context, draws=draws)) for draws in DRAWS]
    return ways + [("batched", draws, Batched(draws=draws)) for draws in DRAWS]


def can_be_grouped(network: AggregatedClassifier) -> bool:
    """Whether it can answer for different objects in the slots of a group."""
    return network.fold > 1 and not network.slot_blind


def _kind(objects: Objects) -> str:
    """The shape and type of objects, as text; networks for the same kind can take turns on the same objects."""
    tensors = [objects] if isinstance(objects, Tensor) else objects.values()
    return " ".join(f"{tuple(tensor.shape[1:])} {tensor.dtype}" for tensor in tensors)
