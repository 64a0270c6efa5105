"""Label distributions for objects, by any protocol."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from agrlearn.errors import NotFiniteError, RecipeError, ShapeError
from agrlearn.grouping import Objects, count_objects, first_tensor, group, take
from agrlearn.modes import eval_view
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.networks.replicated import ReplicatedModel
from agrlearn.prediction.protocols import PredictionProtocol, make_protocol
from agrlearn.ranks import rank, sum_over_ranks, world_size
from agrlearn.seeding import generator

_BLOCK = 2**24  # probabilities


class Answers(NamedTuple):
    """All that the heads said about a batch of objects: row i is head `slots[i]` on object `objects[places[i]]`."""

    objects: Tensor
    """(objects,): their numbers."""
    places: Tensor
    slots: Tensor
    probabilities: Tensor
    """(answers, classes)."""

    def mean(self) -> Tensor:
        """(objects, classes): the average of the answers about each object."""
        counts = self.places.bincount(minlength=len(self.objects))[:, None]
        total = self.probabilities.new_zeros(len(self.objects), self.probabilities.shape[1])
        return total.index_add_(0, self.places, self.probabilities).div_(counts)


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
    predicted = torch.zeros(count_objects(objects), network.num_classes, dtype=probability_type(network))
    for answers in answers_of(
        network, objects, protocol, batch_size=batch_size, samples=samples, seed=seed,
        allow_slot_blind=allow_slot_blind, sharded=sharded, first_batch=first_batch,
    ):  # fmt: skip
        predicted[answers.objects] = answers.mean()
    if sharded:
        predicted = sum_over_ranks(predicted.to(network.head.weight.device)).cpu()
    check_answers(predicted)
    return predicted


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
    count = count_objects(objects)
    if count == 0:
        raise ShapeError("expected at least one object to predict, got none")
    if batch_size < 1:
        raise ShapeError(f"batch_size is the number of groups per pass and at least 1, got {batch_size}")
    if samples < 0:
        raise RecipeError(f"samples is a number of draws, or 0 for the mean of the bottleneck, got {samples}")
    check_objects(network, objects)
    view = eval_view(network)
    alone = None if chosen.tells_slots_apart else ReplicatedModel(view)
    with torch.inference_mode():
        companions = _shared_companions(view, chosen, objects, batch_size)
    beside = 0 if companions is None else count_objects(companions)
    shard = slice(rank(), None, world_size()) if sharded else slice(None)
    for number, numbers in list(enumerate(chosen.batches(count, view.fold, batch_size)))[shard]:
        random = generator(seed, 1 + first_batch + number)
        # Not around the yield: an error between two batches would leave torch in this mode.
        with torch.inference_mode():
            shared = view.shared(view.to_device(take(objects, numbers)))
            heard = []
            for groups, counts in chosen.seatings(number, len(numbers), view.fold, beside):
                t = alone.bottleneck(shared) if alone else view.bottleneck_from(_seat(groups, shared, companions))
                answers = _classify(view, t, samples, random)
                slots = torch.arange(view.fold).expand_as(groups)
                heard.append((groups[counts], slots[counts], answers.flatten(0, 1)[counts.flatten()]))
            places, slots, probabilities = (torch.cat(column) for column in zip(*heard, strict=True))
        yield Answers(numbers, places, slots, probabilities)


def _classify(network: AggregatedClassifier, t: Tensor, samples: int, random: torch.Generator) -> Tensor:
    """(groups, fold, classes) probabilities, over draws of a stochastic bottleneck where these are asked for."""
    precision = probability_type(network)
    if samples == 0 or network.noise == 0:
        return network.heads(t).softmax(dim=-1, dtype=precision).cpu()
    draws = (network.heads(network.perturb(t, random)).softmax(dim=-1, dtype=precision) for _ in range(samples))
    return (sum(draws, start=torch.zeros(())) / samples).cpu()


def _shared_companions(
    network: AggregatedClassifier, protocol: PredictionProtocol, objects: Objects, batch_size: int
) -> Objects | None:
    """What the shared layers make of the protocol's companions, batch by batch."""
    companions = protocol.companions()
    if companions is None:
        return None
    expected, came = first_tensor(objects).shape[1:], first_tensor(companions).shape[1:]
    if expected != came:
        raise ShapeError(f"the context's objects have shape {tuple(came)}, those to predict {tuple(expected)}")
    parts: list[Any] = [
        network.shared(network.to_device(take(companions, numbers)))
        for numbers in torch.arange(count_objects(companions)).split(batch_size)
    ]
    if isinstance(parts[0], Tensor):
        return torch.cat(parts)
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


def _seat(groups: Tensor, shared: Objects, companions: Objects | None) -> Objects:
    """(groups, fold, ...): in every slot what `groups` names, of the batch's objects or the companions behind them."""
    count, fold = count_objects(shared), groups.shape[1]
    flat = groups.flatten()
    if companions is None:
        in_order = len(flat) == count and torch.equal(flat, torch.arange(count))
        return group(shared if in_order else take(shared, flat), fold)  # without a copy where all are in order
    mine = (flat < count).nonzero().squeeze(1)
    seated = take(companions, (flat - count).clamp(min=0))
    chosen = take(shared, flat[mine])

    def fill(places: Tensor, objects: Tensor) -> Tensor:
        filled = places.to(torch.promote_types(places.dtype, objects.dtype))  # fractions are not cut to whole numbers
        filled[mine.to(filled.device)] = objects.to(filled.dtype)
        return filled

    if isinstance(seated, Tensor):
        return group(fill(seated, first_tensor(chosen)), fold)
    return group({name: fill(tensor, chosen[name]) for name, tensor in seated.items()}, fold)  # type: ignore[index]


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
    return make_protocol(protocol) if isinstance(protocol, str) else protocol
