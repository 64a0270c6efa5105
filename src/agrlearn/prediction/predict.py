"""Predict label distributions, by any protocol."""

import math
import operator
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor

from agrlearn.errors import NotFiniteError, RecipeError, ShapeError
from agrlearn.grouping import Objects, count_objects, first_tensor, group, map_objects, take
from agrlearn.modes import eval_view
from agrlearn.networks.aggregated import AggregatedClassifier, check_network
from agrlearn.networks.single import OneObject
from agrlearn.prediction.protocols import PredictionProtocol, make_protocol
from agrlearn.ranks import rank, sum_over_ranks, world_size
from agrlearn.seeding import generator

_BLOCK, _LARGEST_BLOCK = 2**20, 2**14  # probabilities, and objects


class _HasObjects(Protocol):
    @property
    def objects(self) -> Objects: ...


AnyPart = TypeVar("AnyPart", bound=_HasObjects)


class Answers(NamedTuple):
    """All answers of the heads for a batch of objects: row i is head `slots[i]` on object `objects[places[i]]`."""

    objects: Tensor
    """(objects,): their numbers."""
    places: Tensor
    slots: Tensor
    probabilities: Tensor
    """(answers, classes)."""

    def mean(self) -> Tensor:
        """(objects, classes): the average of the answers for each object."""
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
    """Predict the label distribution of every object, in input order: the average of the heads' answers for it.

    The network does not change, so several threads may predict with one network at once.

    Args:
        objects: (objects, ...).
        protocol: "replicated", "batched", or an instance such as `Batched(draws=4)` or `Contextual(train_objects)`.
        batch_size: groups per pass.
        samples: draws of a stochastic bottleneck to average over; 0 uses its mean.
        seed: of those draws.
        allow_slot_blind: let Contextual and Batched run on a network whose heads cannot know which object they
            answer for.
        sharded: share the batches between the processes of torch.distributed, all of which must call this; each
            returns all predictions.
        first_batch: the number of batches before these objects, if they are part of more: it selects the draws of a
            stochastic bottleneck.
    Returns:
        (objects, classes) probabilities on the CPU, in double precision from a network of doubles and in single
        precision otherwise.
    """
    check_network(network)
    chosen = resolve_protocol(protocol)
    predicted = torch.zeros(count_objects(objects), network.num_classes, dtype=probability_type(network))
    if chosen.tells_slots_apart:
        for answers in answers_of(
            network, objects, chosen, batch_size=batch_size, samples=samples, seed=seed,
            allow_slot_blind=allow_slot_blind, sharded=sharded, first_batch=first_batch,
        ):  # fmt: skip
            predicted[answers.objects] = answers.mean()
    else:
        _check(network, objects, chosen, batch_size, samples, allow_slot_blind)
        _replicated(eval_view(network), objects, predicted, batch_size, samples, seed, first_batch, sharded=sharded)
    if sharded:
        predicted = sum_over_ranks(predicted.to(network.weight.device)).cpu()
    check_answers(predicted)
    return predicted


@torch.inference_mode()
def _replicated(
    network: AggregatedClassifier, objects: Objects, predicted: Tensor, batch_size: int, samples: int, seed: int,
    first_batch: int, *, sharded: bool,
) -> None:  # fmt: skip
    """Fill `predicted` where each object is alone: without numbers of places and slots, which a small network feels."""
    alone, one_answer = OneObject(network), network.shares_head or network.fold == 1
    sample = first_tensor(objects)[:1]
    in_place = isinstance(objects, Tensor) and network.to_device(sample) is sample  # nothing to move or to convert
    for number in range(-(-len(predicted) // batch_size))[_shard(sharded)]:
        here = slice(number * batch_size, (number + 1) * batch_size)
        batch = map_objects(operator.itemgetter(here), objects)
        t = alone.bottleneck(network.shared(batch if in_place else network.to_device(batch)))
        if one_answer and (samples == 0 or network.noise == 0):
            predicted[here] = network.head(t).softmax(dim=-1, dtype=predicted.dtype)
        else:
            random = _random_of(network, samples, seed, 1 + first_batch + number)
            predicted[here] = _classify(network, t, samples, random).mean(dim=1)


def predict_in_blocks(
    network: AggregatedClassifier, parts: Iterable[AnyPart], protocol: str | PredictionProtocol = "replicated", *,
    batch_size: int = 256, samples: int = 0, seed: int = 0, sharded: bool = False,
) -> Iterator[tuple[AnyPart, Tensor]]:  # fmt: skip
    """Each part of some data and what `predict` gives for its objects: neither need fit into memory as a whole.

    The predictions are those of all objects at once, if the parts have the size that `block_size` gives.
    """
    view, batches = eval_view(network), 0
    for part in parts:
        yield part, predict(
            view, part.objects, protocol, batch_size=batch_size, samples=samples, seed=seed, sharded=sharded,
            first_batch=batches,
        )  # fmt: skip
        batches += count_objects(part.objects) // batch_size


def block_size(network: AggregatedClassifier, protocol: str | PredictionProtocol, batch_size: int) -> int | None:
    """How many objects to predict at once: whole batches; None, all of them, if the protocol groups them together."""
    if resolve_protocol(protocol).tells_slots_apart:
        return None
    return max(1, min(_LARGEST_BLOCK, _BLOCK // network.num_classes) // batch_size) * batch_size


def answers_of(
    network: AggregatedClassifier, objects: Objects, protocol: str | PredictionProtocol = "replicated", *,
    batch_size: int = 256, samples: int = 0, seed: int = 0, allow_slot_blind: bool = False, sharded: bool = False,
    first_batch: int = 0,
) -> Iterator[Answers]:  # fmt: skip
    """Yield the single answers, batch by batch, which `predict` averages. The arguments are those of `predict`."""
    chosen = resolve_protocol(protocol)
    _check(network, objects, chosen, batch_size, samples, allow_slot_blind)
    view = eval_view(network)
    alone = None if chosen.tells_slots_apart else OneObject(view)
    with torch.inference_mode():
        companions = _shared_companions(view, chosen, objects, batch_size)
    num_companions = 0 if companions is None else count_objects(companions)
    batches = chosen.batches(count_objects(objects), view.fold, batch_size)
    for number, numbers in list(enumerate(batches))[_shard(sharded)]:
        random = _random_of(view, samples, seed, 1 + first_batch + number)
        # Not around the yield: an error in the caller would leave torch in inference mode.
        with torch.inference_mode():
            shared = view.shared(view.to_device(take(objects, numbers)))
            passes = []
            for groups, counts in chosen.seatings(number, len(numbers), view.fold, num_companions):
                t = alone.bottleneck(shared) if alone else view.bottleneck_from(_seat(groups, shared, companions))
                answers = _classify(view, t, samples, random).expand(-1, view.fold, -1)
                slots = torch.arange(view.fold).expand_as(groups)
                passes.append((groups[counts], slots[counts], answers.flatten(0, 1)[counts.flatten()]))
            places, slots, probabilities = (torch.cat(column) for column in zip(*passes, strict=True))
        yield Answers(numbers, places, slots, probabilities)


def _shard(sharded: bool) -> slice:
    """The batches of this process."""
    return slice(rank(), None, world_size()) if sharded else slice(None)


def _check(
    network: AggregatedClassifier, objects: Objects, chosen: PredictionProtocol, batch_size: int, samples: int,
    allow_slot_blind: bool,
) -> None:  # fmt: skip
    """Refuse what cannot be predicted."""
    if chosen.tells_slots_apart and network.slot_blind and network.fold > 1 and not allow_slot_blind:
        raise RecipeError(
            f"this network is slot-blind: its heads cannot know which object of a group they answer for, so "
            f"{type(chosen).__name__} prediction cannot work; use Replicated, or train with a join that distinguishes "
            "slots (channels, width, features, or slot-wise pooling)"
        )
    if count_objects(objects) == 0:
        raise ShapeError("expected at least one object to predict, got none")
    if batch_size < 1:
        raise ShapeError(f"expected a batch_size (groups per pass) of at least 1, got {batch_size}")
    if samples < 0:
        raise RecipeError(f"expected samples (draws) of at least 1, or 0 for the mean of the bottleneck, got {samples}")
    check_objects(network, objects)


def _random_of(network: AggregatedClassifier, samples: int, *keys: int) -> torch.Generator | None:
    """What a batch's draws of a stochastic bottleneck come from; None where there are none."""
    return generator(*keys) if samples > 0 and network.noise > 0 else None


def _classify(network: AggregatedClassifier, t: Tensor, samples: int, random: torch.Generator | None) -> Tensor:
    """(groups, fold, classes) probabilities, or (groups, 1, classes) where all slots share one head.

    Args:
        random: average over `samples` draws of a stochastic bottleneck from it.
    """
    precision = probability_type(network)
    heads = slice(1 if network.shares_head else None)
    if random is None:
        return network.heads(t)[:, heads].softmax(dim=-1, dtype=precision).cpu()
    draws = (
        network.heads(network.perturb(t, random))[:, heads].softmax(dim=-1, dtype=precision) for _ in range(samples)
    )
    return (sum(draws, start=torch.zeros(())) / samples).cpu()


def _shared_companions(
    network: AggregatedClassifier, protocol: PredictionProtocol, objects: Objects, batch_size: int
) -> Objects | None:
    """Run the shared layers on the protocol's companions, batch by batch."""
    companions = protocol.companions()
    if companions is None:
        return None
    expected, given = (tuple(first_tensor(some).shape[1:]) for some in (objects, companions))
    if expected != given:
        raise ShapeError(f"expected context objects of shape {expected}, as those to predict, got shape {given}")
    batches: list[Any] = [
        network.shared(network.to_device(take(companions, numbers)))
        for numbers in torch.arange(count_objects(companions)).split(batch_size)
    ]
    if isinstance(batches[0], Tensor):
        return torch.cat(batches)
    return {name: torch.cat([batch[name] for batch in batches]) for name in batches[0]}


def _seat(groups: Tensor, shared: Objects, companions: Objects | None) -> Objects:
    """(groups, fold, ...): the objects that `groups` names: those of the batch, then the companions."""
    count, fold = count_objects(shared), groups.shape[1]
    flat = groups.flatten()
    if companions is None:
        in_order = len(flat) == count and torch.equal(flat, torch.arange(count))
        return group(shared if in_order else take(shared, flat), fold)  # no copy if all are in order
    own = (flat < count).nonzero().squeeze(1)
    seated = take(companions, (flat - count).clamp(min=0))
    chosen = take(shared, flat[own])

    def fill(slots: Tensor, objects: Tensor) -> Tensor:
        filled = slots.to(torch.promote_types(slots.dtype, objects.dtype))  # do not truncate fractions to integers
        filled[own.to(filled.device)] = objects.to(filled.dtype)
        return filled

    if isinstance(seated, Tensor):
        return group(fill(seated, first_tensor(chosen)), fold)
    return group({name: fill(tensor, chosen[name]) for name, tensor in seated.items()}, fold)  # type: ignore[index]


def check_objects(network: AggregatedClassifier, objects: Objects) -> None:
    """Refuse objects that do not fit a network of the catalogue; images may have another size."""
    described: Any = network.description
    if described is None or not isinstance(objects, Tensor):
        return
    expected, given = tuple(described["object_shape"]), tuple(objects.shape[1:])
    if len(expected) != len(given) or (not network.reads_tokens and expected[:1] != given[:1]):
        raise ShapeError(f"the network was built for objects of shape {expected}, got objects of shape {given}")


def check_answers(probabilities: Tensor) -> None:
    """Refuse label distributions that are not finite."""
    if not math.isfinite(probabilities.sum()):  # where one is not, the sum is not: all others are between 0 and 1
        raise NotFiniteError(
            "the network's answers are not finite numbers: its weights grew too large in training (use a lower "
            "learning rate), or the objects have NaN or infinite values"
        )


def probability_type(network: AggregatedClassifier) -> torch.dtype:
    """The type of the network's probabilities: its own precision, but at least single."""
    return torch.promote_types(network.weight.dtype, torch.float32)


def resolve_protocol(protocol: str | PredictionProtocol) -> PredictionProtocol:
    """The protocol itself, or the one of that name with its defaults."""
    return make_protocol(protocol) if isinstance(protocol, str) else protocol
