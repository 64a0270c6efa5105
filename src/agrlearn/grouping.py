"""Groups: `fold` objects that one network pass classifies jointly."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Literal, TypeAlias

import torch
from torch import Tensor
from torch.utils.data import Sampler

from agrlearn.errors import DataError, ShapeError
from agrlearn.seeding import generator

Objects: TypeAlias = Tensor | Mapping[str, Tensor]
"""A Tensor, or a mapping of Tensors with equal first dimension (token models)."""

TOKEN_TYPES = (torch.int32, torch.int64)
"""The types of tokens: those that an embedding takes."""


def map_objects(function: Callable[[Tensor], Tensor], objects: Objects) -> Objects:
    """Apply `function` to the tensor, or to every tensor of the mapping."""
    if isinstance(objects, Tensor):
        return function(objects)
    return {name: function(tensor) for name, tensor in _mapping(objects).items()}


def first_tensor(objects: Objects) -> Tensor:
    """The tensor itself, or the first one of the mapping."""
    return objects if isinstance(objects, Tensor) else next(iter(_mapping(objects).values()))


def count_objects(objects: Objects) -> int:
    """The length of the first dimension, which all tensors of a mapping must share."""
    if isinstance(objects, Tensor):
        return objects.shape[0]
    lengths = {name: tensor.shape[0] for name, tensor in _mapping(objects).items()}
    if len(set(lengths.values())) != 1:
        raise ShapeError(f"expected tensors with equal first dimension, got {lengths or 'an empty mapping'}")
    return next(iter(lengths.values()))


def describe_objects(objects: Objects) -> str:
    """How many, and of which shape, for a person to read.

    >>> describe_objects({"tokens": torch.zeros(3, 7), "mask": torch.zeros(3, 7)})
    '3 objects of tokens (7,), mask (7,)'
    """
    if isinstance(objects, Tensor):
        shape = f"shape {tuple(objects.shape[1:])}"
    else:
        shape = ", ".join(f"{name} {tuple(tensor.shape[1:])}" for name, tensor in objects.items())
    return f"{count_objects(objects):,} objects of {shape}"


def take(objects: Objects, indices: Tensor) -> Objects:
    """The objects at `indices`, in that order."""
    # index_select is several times faster than tensor[indices], but takes no negative ones; to look for them on a GPU
    # would wait for it.
    plain = indices.device.type == "cpu" and indices.dim() == 1 and indices.dtype == torch.int64
    if plain and (len(indices) == 0 or int(indices.min()) >= 0):
        return map_objects(lambda tensor: tensor.index_select(0, indices.to(tensor.device)), objects)
    return map_objects(lambda tensor: tensor[indices.to(tensor.device)], objects)


def group(objects: Objects, fold: int) -> Objects:
    """Bundle consecutive objects so that one network pass classifies them jointly.

    Args:
        objects: (objects, ...), with `objects` divisible by `fold`.
    Returns:
        (groups, fold, ...), order kept; `ungroup` is the inverse.

    >>> group(torch.zeros(6, 3), fold=2).shape
    torch.Size([3, 2, 3])
    """
    _check_fold(fold)
    count = count_objects(objects)
    if count % fold:
        raise ShapeError(f"expected a multiple of fold={fold} objects, got {count}; leave out the last {count % fold}")
    return map_objects(lambda tensor: _bundle(tensor, fold), objects)


def _bundle(objects: Tensor, fold: int) -> Tensor:
    groups = (len(objects) // fold, fold)
    if objects.ndim == 4 and not objects.is_contiguous() and objects.is_contiguous(memory_format=torch.channels_last):
        # The same view, by a way whose gradient has its channels last too; the other kind makes a step slow.
        return objects.permute(0, 2, 3, 1).unflatten(0, groups).permute(0, 1, 4, 2, 3)
    return objects.reshape(*groups, *objects.shape[1:])


def ungroup(groups: Objects) -> Objects:
    """Undo `group`.

    Args:
        groups: (groups, fold, ...).
    Returns:
        (groups * fold, ...), order kept.

    >>> ungroup(torch.zeros(3, 2, 5)).shape
    torch.Size([6, 5])
    """
    return map_objects(lambda tensor: tensor.flatten(0, 1), groups)


def replicate(objects: Objects, fold: int) -> Objects:
    """Put each object into every slot of a group of its own, without copying it.

    Args:
        objects: (objects, ...).
    Returns:
        (objects, fold, ...), a view.

    >>> replicate(torch.zeros(4, 3), fold=2).shape
    torch.Size([4, 2, 3])
    """
    _check_fold(fold)
    return map_objects(lambda tensor: tensor.unsqueeze(1).expand(-1, fold, *tensor.shape[1:]), objects)


@dataclass(eq=False)
class GroupBatchSampler(Sampler[list[int]]):
    """Batches of groups for any map-style Dataset: an epoch is one group for every object.

    Each slot follows its own permutation of the objects, so every object occurs once per slot and epoch, with other
    objects each time. A batch is `batch_size * fold` indices with a group's slots next to each other, so that
    `group(batch, fold)` restores the groups. The order depends only on `seed` and the epoch.

    Args:
        num_objects: the size of the data set, N in the paper.
        fold: objects per group, n in the paper.
        batch_size: groups per batch over all ranks, m in the paper. A last batch of a single group is added to the one
            before it, because batch normalisation cannot train on one; so is one with fewer groups than ranks.
        repetition: the probability that a group has its first object in every slot. The other slots then no longer
            see every object exactly once.
        repetition_of: whether `repetition` is drawn for each group, or for each batch, all of whose groups then repeat.
        drop_last: leave out a last batch that is not full.
        rank, world_size: this process takes its share of the groups of every batch.

    >>> sampler = GroupBatchSampler(num_objects=5, fold=2, batch_size=2)
    >>> [len(batch) for batch in sampler]
    [4, 6]
    """

    num_objects: int
    fold: int
    batch_size: int
    _: KW_ONLY
    seed: int = 0
    repetition: float = 0.0
    repetition_of: Literal["groups", "batches"] = "groups"
    drop_last: bool = False
    rank: int = 0
    world_size: int = 1
    epoch: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        _check_fold(self.fold)
        count, size, ranks = self.num_objects, self.batch_size, self.world_size
        for wrong, message in (
            (count < 1, "expected at least one object, got an empty data set"),
            (self.fold > count, f"fold={self.fold} is larger than the data set of {count} objects; use a smaller fold"),
            (size < ranks or ranks < 1, f"batch_size={size} groups cannot be shared by world_size={ranks} processes"),
            (count < ranks, f"{count} objects are too few for world_size={ranks} processes"),
            (not 0 <= self.rank < ranks, f"rank={self.rank} is not one of the world_size={ranks} processes"),
            (not 0 <= self.repetition <= 1, f"repetition is a probability between 0 and 1, got {self.repetition}"),
            (
                self.drop_last and size > count,
                f"batch_size={size} with drop_last=True leaves none of {count} groups",
            ),
        ):
            if wrong:
                raise ShapeError(message)

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch for the next iteration."""
        self.epoch = epoch

    @property
    def sampler(self) -> "GroupBatchSampler":
        """Itself: Lightning tells the epoch to the sampler of a batch sampler."""
        return self

    def order(self) -> Tensor:
        """The groups of this epoch on all ranks: (num_objects, fold) indices."""
        random = generator(self.seed, self.epoch)
        slots = [torch.randperm(self.num_objects, generator=random) for _ in range(self.fold)]
        groups = torch.stack(slots, dim=1)
        if self.repetition > 0:
            whole = self.repetition_of == "batches"
            repeated = torch.rand(len(self) if whole else self.num_objects, generator=random) < self.repetition
            if whole:
                repeated = repeated[(torch.arange(self.num_objects) // self.batch_size).clamp(max=len(self) - 1)]
            groups[repeated] = groups[repeated, :1]
        return groups

    def batches(self, start: int = 0) -> Iterator[Tensor]:
        """This rank's batches, beginning with step `start`, each as a flat Tensor of indices."""
        return (batch.flatten() for batch in self.cut(self.order(), start))

    def cut(self, groups: Tensor, start: int = 0) -> Iterator[Tensor]:
        """This rank's part of each batch, beginning with step `start`.

        Args:
            groups: (num_objects, ...), the `order` of the epoch or what belongs to its groups, such as their labels.
        """
        for step in range(start, len(self)):
            first = step * self.batch_size
            batch = groups[first : first + self.groups_at(step)]
            yield batch if self.world_size == 1 else batch.tensor_split(self.world_size)[self.rank]

    def groups_at(self, step: int) -> int:
        """The number of groups in the batch of a step on all ranks together."""
        if step < len(self) - 1 or self.drop_last:
            return self.batch_size
        return self.num_objects - step * self.batch_size

    def __iter__(self) -> Iterator[list[int]]:
        return (batch.tolist() for batch in self.batches())

    def __len__(self) -> int:
        full, rest = divmod(self.num_objects, self.batch_size)
        if self.drop_last:
            return full
        # A last batch with fewer groups than ranks is added to the one before it, so that every rank has some.
        return max(1, full + (rest >= max(2, self.world_size)))


def _mapping(objects: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """Return the objects if they are a mapping of Tensors; arrays and lists are refused."""
    held = objects.values() if isinstance(objects, Mapping) else [objects]
    for wrong in held:
        if not isinstance(wrong, Tensor):
            raise DataError(
                f"expected objects as a Tensor or a mapping of Tensors, got {type(wrong).__name__}; "
                "torch.from_numpy(...) makes a Tensor of an array"
            )
    return objects


def _check_fold(fold: int) -> None:
    if fold < 1:
        raise ShapeError(f"expected a fold (objects per group) of at least 1, got {fold}")
