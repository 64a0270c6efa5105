"""Label distributions for objects, by any protocol."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from agrlearn.errors import NotFiniteError, RecipeError, ShapeError, look_up
from agrlearn.grouping import Objects, count_objects, take
from agrlearn.modes import eval_view
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.networks.replicated import ReplicatedModel
from agrlearn.prediction.protocols import PROTOCOLS, Answers, Contextual, PredictionProtocol
from agrlearn.ranks import rank, sum_over_ranks, world_size
from agrlearn.seeding import generator

_BLOCK = 2**24  # probabilities


def predict(
    network: AggregatedClassifier,
    objects: Objects,
    protocol: str | PredictionProtocol = "replicated",
    *,
    batch_size: int = 256,
    samples: int = 0,
    seed: int = 0,
    allow_slot_blind: bool = False,
    sharded: bool = False,
    first_batch: int = 0,
) -> Tensor:
    """The label distribution of every object, in input order: the average of what the heads say about it.

    The network is only read, so several threads may predict with one network at once.

    Args:
        objects: (objects, ...).
        protocol: "replicated", "batched", or an instance such as `Batched(draws=4)` or `Contextual(train_objects)`.
        batch_size: groups per pass.
        samples: draws of a stochastic bottleneck to average over; 0 uses its mean.
        seed: of those draws.
        allow_slot_blind: let Contextual and Batched run on a network whose heads cannot know which object they
            answer for.
        sharded: share the batches between the processes of torch.distributed, all of which must call this; each is
            given all predictions.
        first_batch: where the objects are part of more, how many batches come before them: each batch has draws of a
            stochastic bottleneck of its own.
    Returns:
        (objects, classes) probabilities on the CPU, in double precision from a network of doubles and in single
        precision otherwise.
    """
    total = torch.zeros(count_objects(objects), network.num_classes, dtype=probability_type(network))
    counts = torch.zeros(len(total), 1)
    stream = answers_of(
        network, objects, protocol, batch_size=batch_size, samples=samples, seed=seed,
        allow_slot_blind=allow_slot_blind, sharded=sharded, first_batch=first_batch,
    )  # fmt: skip
    for answers in stream:
        total.index_add_(0, answers.objects, answers.probabilities)
        counts.index_add_(0, answers.objects, torch.ones(len(answers.objects), 1))
    if sharded:
        device = network.head.weight.device
        total, counts = (sum_over_ranks(sums.to(device)).cpu() for sums in (total, counts))
    total.div_(counts)  # in place: for many objects the answers are what fills the memory
    check_answers(total)
    return total


def predict_in_blocks(
    network: AggregatedClassifier, objects: Objects, protocol: str | PredictionProtocol = "replicated", *,
    batch_size: int = 256, samples: int = 0, seed: int = 0, sharded: bool = False,
) -> Iterator[Tensor]:  # fmt: skip
    """What `predict` gives, in blocks of some objects one after the other, so that many classes fit into the memory.

    Protocols that put any of the objects together make a single block.
    """
    chosen = resolve_protocol(protocol)
    size = count_objects(objects)
    if not chosen.tells_slots_apart:
        size = max(1, _BLOCK // (network.num_classes * batch_size)) * batch_size
    view = eval_view(network)
    for first, indices in enumerate(torch.arange(count_objects(objects)).split(size)):
        yield predict(
            view, take(objects, indices), chosen, batch_size=batch_size, samples=samples, seed=seed, sharded=sharded,
            first_batch=first * size // batch_size,
        )  # fmt: skip


def answers_of(
    network: AggregatedClassifier,
    objects: Objects,
    protocol: str | PredictionProtocol = "replicated",
    *,
    batch_size: int = 256,
    samples: int = 0,
    seed: int = 0,
    allow_slot_blind: bool = False,
    sharded: bool = False,
    first_batch: int = 0,
) -> Iterator[Answers]:
    """Every answer by itself, batch after batch: what `predict` averages. The arguments are those of `predict`."""
    chosen = resolve_protocol(protocol)
    if chosen.tells_slots_apart and network.slot_blind and network.fold > 1 and not allow_slot_blind:
        raise RecipeError(
            f"this network is slot-blind: its heads cannot know which object of a group they answer for, so "
            f"{type(chosen).__name__} prediction cannot work; use Replicated, or train with a join that tells slots "
            "apart (channels, width, features, or slot-wise pooling), or pass allow_slot_blind=True"
        )
    if count_objects(objects) == 0:
        raise ShapeError("expected at least one object to predict, got none")
    if batch_size < 1:
        raise ShapeError(f"batch_size is the number of groups per pass and at least 1, got {batch_size}")
    if samples < 0:
        raise RecipeError(f"samples is a number of draws, or 0 for the mean of the bottleneck, got {samples}")
    check_objects(network, objects)
    network = eval_view(network)
    alone = None if chosen.tells_slots_apart else ReplicatedModel(network)
    random, current = generator(seed), None
    precision = probability_type(network)

    def classify(shared: Objects, *, replicated: bool = False, batch: int | None = None) -> Tensor:
        nonlocal random, current
        if batch is not None and batch != current:
            random, current = generator(seed, 1 + first_batch + batch), batch
        t = (alone or ReplicatedModel(network)).bottleneck(shared) if replicated else network.bottleneck_from(shared)
        if samples == 0 or network.noise == 0:
            return network.heads(t).softmax(dim=-1, dtype=precision).cpu()
        draws = (network.heads(network.perturb(t, random)).softmax(dim=-1, dtype=precision) for _ in range(samples))
        return (sum(draws, start=torch.zeros(())) / samples).cpu()

    mine = slice(rank(), None, world_size()) if sharded else slice(None)
    stream = chosen.answers(network, objects, batch_size, classify, mine)
    while True:
        # Not around the yield: an error between two batches would leave torch in this mode.
        with torch.inference_mode():
            answers = next(stream, None)
        if answers is None:
            return
        yield answers


def check_objects(network: AggregatedClassifier, objects: Objects) -> None:
    """Refuse objects of another kind than a network of the catalogue was built for; images may have another size."""
    described: Any = network.description
    if described is None or not isinstance(objects, Tensor):
        return
    expected, came = tuple(described["object_shape"]), tuple(objects.shape[1:])
    if len(expected) != len(came) or (not network.reads_tokens and expected[:1] != came[:1]):
        raise ShapeError(f"the network was built for objects of shape {expected}, got objects of shape {came}")


def check_answers(probabilities: Tensor) -> None:
    """Refuse label distributions that are not numbers."""
    if not torch.isfinite(probabilities).all():
        raise NotFiniteError(
            "the network's answers are not finite numbers: its weights have grown too large in training, which a lower "
            "learning rate prevents, or the objects hold NaN or infinite values"
        )


def probability_type(network: AggregatedClassifier) -> torch.dtype:
    """What the network's probabilities are kept in: its own precision, but single at least."""
    return torch.promote_types(network.head.weight.dtype, torch.float32)


def resolve_protocol(protocol: str | PredictionProtocol) -> PredictionProtocol:
    """The protocol itself, or the one of that name with its defaults."""
    if not isinstance(protocol, str):
        return protocol
    kind = look_up(PROTOCOLS, protocol, "protocol")
    if kind is Contextual:
        raise RecipeError("Contextual prediction needs training objects; pass Contextual(context=train_objects)")
    return kind()  # type: ignore[call-arg]
