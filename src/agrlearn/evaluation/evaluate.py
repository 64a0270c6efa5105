"""Error, likelihood, calibration, and what the single heads do."""

import functools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.data import Dataset

from agrlearn.data.labelled import LabelledSet, check_range, fetch, fetch_each, told_of_lost_workers
from agrlearn.errors import DataError
from agrlearn.grouping import Objects
from agrlearn.modes import eval_view
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.prediction.predict import answers_of, check_answers, probability_type, resolve_protocol
from agrlearn.prediction.protocols import Answers, PredictionProtocol
from agrlearn.ranks import rank, sum_over_ranks, world_size

_BINS = 15


@dataclass(frozen=True)
class Scores:
    """How well label distributions fit the labels."""

    error: float
    """The share of objects whose most probable class is wrong."""
    nll: float
    """Mean negative log likelihood of the true class, in nats."""
    ece: float
    """Expected calibration error over 15 equal bins of confidence."""
    brier: float
    """Mean squared distance between the distribution and the true label, summed over classes."""


@dataclass(frozen=True)
class Evaluation(Scores):
    """A network's scores under one protocol."""

    objects: int
    head_errors: tuple[float, ...]
    """The error of each head's own answers; NaN for a head that gave none."""
    head_disagreement: float
    """The chance that two answers about one object name different classes; 0 where each object has one answer."""
    objects_per_second: float


def score(probabilities: Tensor, labels: Tensor) -> Scores:
    """Scores of label distributions.

    Args:
        probabilities: (objects, classes).
        labels: (objects,) class numbers.

    >>> score(torch.tensor([[0.5, 0.5], [1.0, 0.0]]), torch.tensor([0, 0])).error
    0.0
    """
    check_answers(probabilities)
    truth = F.one_hot(labels, probabilities.shape[1])
    likelihood = probabilities.gather(1, labels[:, None]).squeeze(1)
    confidence, chosen = probabilities.double().max(dim=1)
    right = (chosen == labels).double()
    return Scores(
        error=float(1 - right.mean()),
        # A probability that rounds to 0 counts as the smallest positive float: a large but finite loss.
        nll=float(-likelihood.double().clamp(min=torch.finfo(torch.float32).tiny).log().mean()),
        ece=_calibration_error(confidence, right),
        brier=float((probabilities - truth).double().square().sum(dim=1).mean()),
    )


def evaluate(
    network: AggregatedClassifier,
    test_set: Dataset,
    protocol: str | PredictionProtocol = "replicated",
    *,
    batch_size: int = 256,
    samples: int = 0,
    allow_slot_blind: bool = False,
    sharded: bool = False,
    workers: int = 0,
) -> Evaluation:
    """Predict `test_set` and compare with its labels.

    Args:
        test_set: any map-style Dataset of (object, label). Replicated prediction reads it batch by batch; the other
            protocols, which put any of its objects together, first load all of it.
        workers: processes that load a Dataset other than a `LabelledSet` batch by batch.

    The other arguments are those of `predict`.
    """
    if len(test_set) == 0:  # type: ignore[arg-type]
        raise DataError("the data set to evaluate on is empty; expected at least one object")
    network = eval_view(network)
    predicting = functools.partial(
        answers_of, network, protocol=protocol, batch_size=batch_size, samples=samples,
        allow_slot_blind=allow_slot_blind,
    )  # fmt: skip
    objects, labels = _load(test_set, protocol)
    check_range(labels, network.num_classes)
    if objects is not None:
        stream = predicting(objects, sharded=sharded)
    else:
        parts = list(enumerate(torch.arange(len(labels)).split(max(1, batch_size))))
        mine = parts[rank() :: world_size()] if sharded else parts
        stream = _batch_by_batch(test_set, mine, labels, network.num_classes, predicting, workers)
    total = torch.zeros(len(labels), network.num_classes, dtype=probability_type(network))
    votes = torch.zeros(len(labels), network.num_classes)
    wrong, asked = torch.zeros(network.fold), torch.zeros(network.fold)
    start = time.perf_counter()
    with told_of_lost_workers():
        for answers in stream:
            total.index_add_(0, answers.objects, answers.probabilities)
            chosen = answers.probabilities.argmax(dim=1)
            votes.index_put_((answers.objects, chosen), torch.ones(len(chosen)), accumulate=True)
            asked += answers.slots.bincount(minlength=network.fold)
            wrong += answers.slots[chosen != labels[answers.objects]].bincount(minlength=network.fold)
    if sharded:
        device = network.head.weight.device
        total, votes, wrong, asked = (sum_over_ranks(sums.to(device)).cpu() for sums in (total, votes, wrong, asked))
        if objects is None:  # each rank has read the labels of its own batches
            labels = sum_over_ranks(labels.to(device)).cpu()
    seconds = time.perf_counter() - start
    return Evaluation(
        **vars(score(total.div_(votes.sum(dim=1, keepdim=True)), labels)),
        objects=len(labels),
        head_errors=tuple((wrong / asked).tolist()),
        head_disagreement=_disagreement(votes),
        objects_per_second=len(labels) / seconds,
    )


def _load(test_set: Dataset, protocol: str | PredictionProtocol) -> tuple[Objects | None, Tensor]:
    """All objects with their labels; or None, and zeros for labels, where batch after batch can be loaded."""
    if isinstance(test_set, LabelledSet):
        return test_set.objects, test_set.labels.cpu()
    count = len(test_set)  # type: ignore[arg-type]
    if resolve_protocol(protocol).tells_slots_apart:
        return fetch(test_set, torch.arange(count))
    return None, torch.zeros(count, dtype=torch.int64)


def _batch_by_batch(
    test_set: Dataset, parts: Sequence[tuple[int, Tensor]], labels: Tensor, num_classes: int,
    predicting: Callable[..., Iterator[Answers]], workers: int,
) -> Iterator[Answers]:  # fmt: skip
    """Answers about the objects of each numbered part, loaded for it and forgotten; its labels go into `labels`."""
    loaded = fetch_each(test_set, [indices for _, indices in parts], workers=workers)
    for (number, indices), (objects, found) in zip(parts, loaded, strict=True):
        check_range(found, num_classes)
        labels[indices] = found
        for answers in predicting(objects, first_batch=number):
            yield answers._replace(objects=indices[answers.objects])


def _calibration_error(confidence: Tensor, right: Tensor) -> float:
    """The mean gap between confidence and accuracy, over equal bins of confidence."""
    bins = (confidence * _BINS).long().clamp(max=_BINS - 1)
    gaps = torch.zeros(_BINS, dtype=torch.float64).index_add_(0, bins, confidence - right)
    return float(gaps.abs().sum() / len(bins))


def _disagreement(votes: Tensor) -> float:
    """The chance that two different answers about an object disagree, averaged over objects."""
    answers = votes.sum(dim=1)
    if int(answers.max()) < 2:
        return 0.0
    agreeing = (votes * (votes - 1)).sum(dim=1) / (answers * (answers - 1))
    return float(1 - agreeing.mean())
