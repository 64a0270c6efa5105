"""Evaluate a network: error, likelihood, calibration, and the errors of the single heads."""

import functools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields

import torch
from torch import Tensor
from torch.utils.data import Dataset

from agrlearn.data.batches import explain_lost_workers, fetch, fetch_each
from agrlearn.data.labelled import LabelledSet, check_range
from agrlearn.data.pairs import checked_dataset
from agrlearn.errors import DataError
from agrlearn.evaluation.metrics import ClassScores, Outcomes, Scores, macro_f1, outcomes_of, score, scores_by_class
from agrlearn.modes import eval_view
from agrlearn.networks.aggregated import AggregatedClassifier, check_network
from agrlearn.prediction.predict import Answers, answers_of, resolve_protocol
from agrlearn.prediction.protocols import PredictionProtocol
from agrlearn.ranks import rank, sum_over_ranks, world_size


@dataclass(frozen=True)
class Evaluation(Scores):
    """A network's scores under one protocol."""

    objects: int
    head_errors: tuple[float, ...]
    """The error of each head's own answers; NaN for a head that was not used."""
    head_disagreement: float
    """The probability that two answers for one object differ; 0 if each object has one answer."""
    objects_per_second: float
    classes: tuple[ClassScores, ...] = field(repr=False, compare=False)  # NaN differs from itself
    """By their numbers."""
    outcomes: Outcomes = field(repr=False, compare=False)
    """For each object, in the order of the data."""

    @property
    def accuracy(self) -> float:
        return 1 - self.error

    @property
    def macro_f1(self) -> float:
        """The mean F1 of the classes that occur, rare and frequent alike."""
        return macro_f1(self.classes)


def evaluate(
    network: AggregatedClassifier,
    test_set: Dataset,
    protocol: str | PredictionProtocol = "replicated",
    *,
    batch_size: int = 256,
    samples: int = 0,
    seed: int = 0,
    allow_slot_blind: bool = False,
    sharded: bool = False,
    workers: int = 0,
) -> Evaluation:
    """Predict `test_set` and compare with its labels.

    Args:
        test_set: any map-style Dataset of (object, label). Replicated prediction reads it batch by batch; the other
            protocols, which group its objects with each other, first load all of it.
        workers: processes that load a Dataset other than a `LabelledSet` batch by batch.

    The other arguments are those of `predict`.
    """
    check_network(network)
    if not isinstance(test_set, Dataset):
        test_set = checked_dataset(test_set)
    if len(test_set) == 0:  # type: ignore[arg-type]
        raise DataError("the data set to evaluate on is empty; expected at least one object")
    network = eval_view(network)
    predicting = functools.partial(
        answers_of, network, protocol=protocol, batch_size=batch_size, samples=samples, seed=seed,
        allow_slot_blind=allow_slot_blind,
    )  # fmt: skip
    if isinstance(test_set, LabelledSet) or resolve_protocol(protocol).tells_slots_apart:
        if isinstance(test_set, LabelledSet):
            objects, labels = test_set.objects, test_set.labels.cpu()
        else:
            objects, labels = fetch(test_set, torch.arange(len(test_set)))  # type: ignore[arg-type]
        check_range(labels, network.num_classes)
        stream = predicting(objects, sharded=sharded)
    else:
        labels = torch.zeros(len(test_set), dtype=torch.int64)  # type: ignore[arg-type]
        batches = list(enumerate(torch.arange(len(labels)).split(max(1, batch_size))))
        shard = batches[rank() :: world_size()] if sharded else batches
        stream = _batch_by_batch(test_set, shard, labels, network.num_classes, predicting, workers)
    # Only the few numbers that metrics need: with many classes, all distributions would fill the memory.
    names = [column.name for column in fields(Outcomes)]
    columns = torch.zeros(len(names) + 1, len(labels), dtype=torch.float64)
    wrong, asked = torch.zeros(2, network.fold, dtype=torch.float64)
    start = time.perf_counter()
    with explain_lost_workers():
        for answers in stream:
            true_labels = labels[answers.objects]
            found = outcomes_of(answers.mean(), true_labels)
            columns[:-1, answers.objects] = torch.stack([getattr(found, name).double() for name in names])
            chosen = answers.probabilities.argmax(dim=1)
            columns[-1, answers.objects] = _disagreement(answers, chosen, network.num_classes)
            asked += answers.slots.bincount(minlength=network.fold)
            wrong += answers.slots[chosen != true_labels[answers.places]].bincount(minlength=network.fold)
    if sharded and world_size() > 1:
        device = network.weight.device
        columns, wrong, asked = (sum_over_ranks(sums.to(device)).cpu() for sums in (columns, wrong, asked))
    seconds = time.perf_counter() - start
    numbers = dict(zip(names, columns[:-1], strict=True))
    outcomes = Outcomes(**numbers | {name: numbers[name].long() for name in ("label", "chosen")})
    return Evaluation(
        **vars(score(outcomes)),
        objects=len(labels),
        head_errors=tuple((wrong / asked).tolist()),
        head_disagreement=float(columns[-1].mean()),
        objects_per_second=len(labels) / seconds,
        classes=scores_by_class(outcomes, network.num_classes),
        outcomes=outcomes,
    )


def _batch_by_batch(
    test_set: Dataset, batches: Sequence[tuple[int, Tensor]], labels: Tensor, num_classes: int,
    predicting: Callable[..., Iterator[Answers]], workers: int,
) -> Iterator[Answers]:  # fmt: skip
    """Load one numbered batch after the other, yield the answers for it, and write its labels into `labels`."""
    loaded = fetch_each(test_set, [indices for _, indices in batches], workers=workers)
    for (number, indices), (objects, found) in zip(batches, loaded, strict=True):
        check_range(found, num_classes)
        labels[indices] = found
        for answers in predicting(objects, first_batch=number):
            yield answers._replace(objects=indices[answers.objects])


def _disagreement(answers: Answers, chosen: Tensor, num_classes: int) -> Tensor:
    """(objects,): the probability that two answers for an object disagree, 0 for one answer; `chosen` is (answers,)."""
    different, numbers = (answers.places * num_classes + chosen).unique(return_inverse=True)
    votes = numbers.bincount().double()
    counts = answers.places.bincount(minlength=len(answers.objects)).double()
    agreeing = torch.zeros_like(counts).index_add_(0, different // num_classes, votes * (votes - 1))
    return torch.where(counts > 1, 1 - agreeing / (counts * (counts - 1)).clamp(min=1), 0.0)
