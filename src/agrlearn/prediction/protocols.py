"""The paper's three ways to put objects into slots.

A protocol assigns objects to slots, as numbers, without using the network. `predict` runs the shared layers once per
object, puts their outputs into the slots, and averages the heads' answers for each object.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, NamedTuple, Protocol

import torch
from torch import Tensor

from agrlearn.errors import RecipeError, ShapeError, look_up
from agrlearn.grouping import Objects, count_objects, take
from agrlearn.seeding import generator


class Seating(NamedTuple):
    """The groups of one pass."""

    groups: Tensor
    """(groups, fold): the object in each slot. Numbers below the batch's count are its objects, others companions."""
    heard: Tensor
    """(groups, fold): whether the head's answer counts, for the object in its slot."""


class PredictionProtocol(Protocol):
    """The interface of a protocol, as `predict` uses it."""

    tells_slots_apart: ClassVar[bool]
    """Whether it puts different objects into a group, which a slot-blind network cannot answer; otherwise it puts each
    object into every slot of its own group."""

    def passes_per_object(self, fold: int) -> float:
        """The number of passes after the join for each object."""

    def companions(self) -> Objects | None:
        """Other objects to group with those that are predicted, the same for all batches; None for none."""

    def batches(self, count: int, fold: int, batch_size: int) -> Sequence[Tensor]:
        """The numbers of the `count` objects, each once, in batches."""

    def seatings(self, batch: int, count: int, fold: int, companions: int) -> Iterator[Seating]:
        """The passes of a batch of `count` objects, with equally many answers for each object."""


@dataclass(frozen=True)
class Replicated:
    """Each object in every slot of its own group: an ensemble of `fold` heads at the price of one pass.

    The prediction for an object does not depend on the other objects.
    """

    tells_slots_apart: ClassVar[bool] = False

    def passes_per_object(self, fold: int) -> float:
        return 1.0

    def companions(self) -> None:
        return None

    def batches(self, count: int, fold: int, batch_size: int) -> Sequence[Tensor]:
        return torch.arange(count).split(batch_size)

    def seatings(self, batch: int, count: int, fold: int, companions: int) -> Iterator[Seating]:
        groups = torch.arange(count)[:, None].expand(count, fold)
        yield Seating(groups, torch.ones_like(groups, dtype=torch.bool))


@dataclass(frozen=True)
class Batched:
    """Random groups of the objects themselves: up to `fold` times the throughput of an ordinary network.

    The objects are shuffled once and split into batches; within a batch, each draw makes new groups. Memory does not
    grow with the number of objects or draws. A last group that is not full is filled with objects of its batch.

    Args:
        draws: how many random groups answer for each object, k in the paper.
        seed: of the shuffling; the prediction for an object depends on it and on the other objects.
    """

    draws: int = 1
    seed: int = 0
    tells_slots_apart: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check_draws(self.draws)

    def passes_per_object(self, fold: int) -> float:
        return self.draws / fold

    def companions(self) -> None:
        return None

    def batches(self, count: int, fold: int, batch_size: int) -> Sequence[Tensor]:
        return torch.randperm(count, generator=generator(self.seed)).split(batch_size * fold)

    def seatings(self, batch: int, count: int, fold: int, companions: int) -> Iterator[Seating]:
        random = generator(self.seed, 1 + batch)
        places = torch.arange(-(-count // fold) * fold)
        for draw in range(self.draws):
            # The first draw uses the shuffled order itself.
            order = torch.randperm(count, generator=random) if draw else torch.arange(count)
            yield Seating(order[places % count].view(-1, fold), (places < count).view(-1, fold))


@dataclass(frozen=True)
class Contextual:
    """Each object in a group with `fold - 1` random training objects.

    The object's slot moves by one with every draw, so that `fold` draws use every head.

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
            raise RecipeError(f"expected a pool (possible companions) of at least 1, got {self.pool}")

    def passes_per_object(self, fold: int) -> float:
        return float(self.draws)

    def companions(self) -> Objects:
        chosen = torch.randperm(count_objects(self.context), generator=generator(self.seed))[: self.pool]
        return take(self.context, chosen)

    def batches(self, count: int, fold: int, batch_size: int) -> Sequence[Tensor]:
        return torch.arange(count).split(batch_size)

    def seatings(self, batch: int, count: int, fold: int, companions: int) -> Iterator[Seating]:
        random = generator(self.seed, 1 + batch)
        for draw in range(self.draws):
            slot = draw % fold
            groups = count + torch.randint(companions, (count, fold), generator=random)
            groups[:, slot] = torch.arange(count)
            heard = torch.zeros_like(groups, dtype=torch.bool)
            heard[:, slot] = True
            yield Seating(groups, heard)


def _check_draws(draws: int) -> None:
    if draws < 1:
        raise RecipeError(f"expected draws (answers for each object) to be at least 1, got {draws}")


PROTOCOLS: dict[str, Any] = {"replicated": Replicated, "contextual": Contextual, "batched": Batched}
"""Protocols by name."""


def takes(name: str, option: str) -> bool:
    """Whether the protocol called `name` has an option, such as draws or context."""
    return option in {known.name for known in fields(look_up(PROTOCOLS, name, "protocol"))}


def make_protocol(name: str, *, context: Callable[[], Objects] | None = None, **options: Any) -> PredictionProtocol:
    """Make the protocol called `name` with those of the options that it has.

    Args:
        context: returns the training objects; called only for a protocol that needs them.

    >>> make_protocol("batched", draws=4), make_protocol("replicated", draws=4)
    (Batched(draws=4, seed=0), Replicated())
    """
    chosen = {option: value for option, value in options.items() if takes(name, option)}
    if takes(name, "context"):
        if context is None:
            kind = name.capitalize()
            raise RecipeError(f"{kind} prediction needs training objects; pass {kind}(context=train_objects)")
        chosen["context"] = context()
    return PROTOCOLS[name](**chosen)
