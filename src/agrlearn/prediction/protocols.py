"""The three ways of the paper to put objects into slots.

A protocol yields answers: what some head said about some object. Averaging an object's answers is left to `predict`.
The layers before the join run once per object in all of them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple, Protocol

import torch
from torch import Tensor

from agrlearn.errors import RecipeError, ShapeError
from agrlearn.grouping import Objects, count_objects, first_tensor, group, take
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.seeding import generator


class Answers(NamedTuple):
    """Label distributions of some objects from some heads: row i is head `slots[i]` on object `objects[i]`."""

    objects: Tensor
    slots: Tensor
    probabilities: Tensor


class Classify(Protocol):
    """What `predict` hands to a protocol: the way from the shared layers' output to the heads' answers."""

    def __call__(self, shared: Objects, *, replicated: bool = False, batch: int | None = None) -> Tensor:
        """Groups of objects that have passed the shared layers -> (groups, fold, classes) probabilities.

        With `replicated`, single objects instead, each of which stands in every slot of its own group. `batch` is the
        number of the batch, from which draws of a stochastic bottleneck are made, whatever process makes them.
        """
        ...


class PredictionProtocol(Protocol):
    """What `predict` asks of a protocol."""

    tells_slots_apart: ClassVar[bool]
    """Whether it puts different objects into a group, which a slot-blind network cannot answer."""

    def passes_per_object(self, fold: int) -> float:
        """How many passes behind the join an object's prediction takes."""
        ...

    def answers(
        self, network: AggregatedClassifier, objects: Objects, batch_size: int, classify: Classify, mine: slice
    ) -> Iterator[Answers]:
        """What the heads say, batch after batch, in those of the batches that are `mine`."""
        ...


@dataclass(frozen=True)
class Replicated:
    """Each object in every slot of its own group: an ensemble of `fold` heads at the price of one pass.

    It treats each object alone, so its answer does not depend on the other objects.
    """

    tells_slots_apart: ClassVar[bool] = False

    def passes_per_object(self, fold: int) -> float:
        return 1.0

    def answers(
        self, network: AggregatedClassifier, objects: Objects, batch_size: int, classify: Classify, mine: slice
    ) -> Iterator[Answers]:
        slots = torch.arange(network.fold)
        for number, indices in list(enumerate(torch.arange(count_objects(objects)).split(batch_size)))[mine]:
            probabilities = classify(_shared(network, objects, indices), replicated=True, batch=number)
            yield Answers(
                indices.repeat_interleave(network.fold), slots.repeat(len(indices)), probabilities.flatten(0, 1)
            )


@dataclass(frozen=True)
class Batched:
    """Random groups of the objects themselves: up to `fold` times the throughput of an ordinary network.

    The objects are shuffled once and cut into batches; within a batch, each draw groups them anew. Memory does not
    grow with the number of objects or draws. A last group that is not full takes in objects of its own batch again.

    Args:
        draws: how many random groups answer for each object, k in the paper.
        seed: of the shuffling; the answer for an object depends on it and on the other objects.
    """

    draws: int = 1
    seed: int = 0
    tells_slots_apart: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check_draws(self.draws)

    def passes_per_object(self, fold: int) -> float:
        return self.draws / fold

    def answers(
        self, network: AggregatedClassifier, objects: Objects, batch_size: int, classify: Classify, mine: slice
    ) -> Iterator[Answers]:
        fold = network.fold
        order = torch.randperm(count_objects(objects), generator=generator(self.seed))
        for number, indices in list(enumerate(order.split(batch_size * fold)))[mine]:
            random = generator(self.seed, 1 + number)
            shared = _shared(network, objects, indices)
            count = len(indices)
            for draw in range(self.draws):
                # The first draw takes the shuffled order as it is, without a copy where all groups are full.
                arrangement = torch.randperm(count, generator=random) if draw else torch.arange(count)
                filled = arrangement[torch.arange(-(-count // fold) * fold) % count]
                arranged = take(shared, filled) if draw or len(filled) > count else shared
                probabilities = classify(group(arranged, fold), batch=number).flatten(0, 1)[:count]
                yield Answers(indices[arrangement], torch.arange(count) % fold, probabilities)


@dataclass(frozen=True)
class Contextual:
    """Each object beside `fold - 1` random training objects.

    The object's slot moves on by one with every draw, so that `fold` draws hear every head.

    Args:
        context: training objects.
        draws: how many times each object is answered for, k in the paper.
        seed: of the choice of companions.
        pool: how many of the context's objects are drawn as possible companions; their shared layers run once.
    """

    context: Objects = field(repr=False)
    draws: int = 1
    seed: int = 0
    pool: int = 2048
    tells_slots_apart: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check_draws(self.draws)
        if count_objects(self.context) == 0:
            raise ShapeError("the context is empty; Contextual prediction needs training objects")
        if self.pool < 1:
            raise RecipeError(f"pool is the number of possible companions and at least 1, got {self.pool}")

    def passes_per_object(self, fold: int) -> float:
        return float(self.draws)

    def answers(
        self, network: AggregatedClassifier, objects: Objects, batch_size: int, classify: Classify, mine: slice
    ) -> Iterator[Answers]:
        expected, came = first_tensor(objects).shape[1:], first_tensor(self.context).shape[1:]
        if expected != came:
            raise ShapeError(f"the context's objects have shape {tuple(came)}, those to predict {tuple(expected)}")
        fold = network.fold
        pool = torch.randperm(count_objects(self.context), generator=generator(self.seed))[: self.pool]
        parts = [_shared(network, self.context, some) for some in pool.split(batch_size)]
        companions = _concatenate(parts)
        for number, indices in list(enumerate(torch.arange(count_objects(objects)).split(batch_size)))[mine]:
            random = generator(self.seed, 1 + number)
            shared = _shared(network, objects, indices)
            count = len(indices)
            for draw in range(self.draws):
                slot = draw % fold
                chosen = torch.randint(len(pool), (count * fold,), generator=random)
                groups = _seat(shared, group(take(companions, chosen), fold), slot)
                yield Answers(indices, torch.full((count,), slot), classify(groups, batch=number)[:, slot])


def _shared(network: AggregatedClassifier, objects: Objects, indices: Tensor) -> Objects:
    """The shared layers' output for some objects, computed on the network's device."""
    return network.shared(network.placed(take(objects, indices)))


def _seat(objects: Objects, groups: Objects, slot: int) -> Objects:
    """The groups with each of the objects in `slot` of its own group."""
    if isinstance(groups, Tensor):
        return _seat_tensor(first_tensor(objects), groups, slot)
    return {name: _seat_tensor(objects[name], tensor, slot) for name, tensor in groups.items()}  # type: ignore[index]


def _seat_tensor(objects: Tensor, groups: Tensor, slot: int) -> Tensor:
    seated = groups.to(torch.promote_types(groups.dtype, objects.dtype))  # fractions are not cut to whole numbers
    seated[:, slot] = objects
    return seated


def _concatenate(parts: list[Objects]) -> Objects:
    first = parts[0]
    if isinstance(first, Tensor):
        return torch.cat(parts)  # type: ignore[arg-type]
    return {name: torch.cat([part[name] for part in parts]) for name in first}  # type: ignore[index]


def _check_draws(draws: int) -> None:
    if draws < 1:
        raise RecipeError(f"draws is how often each object is answered for and at least 1, got {draws}")


PROTOCOLS: dict[str, type[Replicated] | type[Contextual] | type[Batched]] = {
    "replicated": Replicated,
    "contextual": Contextual,
    "batched": Batched,
}
"""Protocols by name."""
