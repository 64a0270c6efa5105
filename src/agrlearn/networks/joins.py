"""How a group becomes one input, and how the encoder's features are pooled into the bottleneck.

The paper concatenates the objects of a group and does not say along which axis. Here each axis has a name.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from agrlearn.errors import RecipeError, ShapeError, look_up
from agrlearn.grouping import map_objects

PADDING = 0
"""The token that stands for nothing."""


@dataclass(frozen=True)
class Join:
    """A way to make one input of a group, and all that others need to know about it."""

    function: Callable[[Tensor], Tensor]
    """(groups, fold, ...) -> (groups, ...)."""
    kinds: tuple[str, ...]
    """The objects it is for: images, vectors or tokens."""
    axis: int | None = None
    """The dimension along which it lines the slots up; None where they share all dimensions."""
    readers: tuple[type[nn.Module], ...] = ()
    """Layers that read the slots it has put side by side by weights of their own: these must be `fold` times as wide,
    and their weights can be summed for one object in every slot."""
    slot_blind: bool = False
    """Whether exchanging two objects of a group leaves its result as it was."""
    apart: bool = False
    """Whether it does not join at all: (groups, fold, ...) -> (groups * fold, ...), so that every slot passes the next
    layers by itself, and has a head of its own."""

    def __call__(self, groups: Any) -> Any:
        """(groups, fold, ...) -> (groups, ...), or each tensor of a mapping so."""
        return map_objects(self.function, groups)

    @property
    def widens(self) -> bool:
        """Whether the next layer reads `fold` times as many features."""
        return bool(self.readers)

    def place(self, join_after: int, *, first: int, last: int, network: str) -> int:
        """How many of a network's layers run before the join.

        Args:
            join_after: that number, or -1 for the join's own place: behind all features where it pools the slots.
            first: the place of all other joins.
            last: how many layers there are.
        """
        place = join_after if join_after >= 0 else last if self.slot_blind else first
        if not -1 <= join_after <= last:
            raise RecipeError(f"{network} can join after 0 to {last} of its layers, got join_after={join_after}")
        return place

    def growth(self, fold: int) -> int:
        """How many times as wide as an ordinary network's the last layer is: as often as it must tell slots apart."""
        return 1 if self.slot_blind or self.apart else fold

    @property
    def keeps_positions(self) -> bool:
        """Whether slots are segments of the positions, so that `pool_slots` can take them apart again."""
        return self.axis is not None and not self.widens


def channels(groups: Tensor) -> Tensor:
    """Stack a group's images on top of each other: (groups, fold, channels, ...) -> (groups, fold * channels, ...).

    >>> channels(torch.zeros(2, 4, 3, 32, 32)).shape
    torch.Size([2, 12, 32, 32])
    """
    _expect_dimensions(groups, "channels", at_least=3)
    if groups.ndim == 5 and not groups.is_contiguous() and groups.permute(0, 1, 3, 4, 2).is_contiguous():
        # Images with their channels last stay so; flattened as they are, they would be copied number by number.
        return groups.permute(0, 3, 4, 1, 2).flatten(3).permute(0, 3, 1, 2)
    return groups.flatten(1, 2)


def width(groups: Tensor) -> Tensor:
    """Lay a group's images side by side: (groups, fold, channels, height, width) -> (..., height, fold * width).

    >>> width(torch.zeros(2, 4, 3, 32, 32)).shape
    torch.Size([2, 3, 32, 128])
    """
    _expect_dimensions(groups, "width", at_least=5)
    return torch.cat(groups.unbind(1), dim=-1)


def height(groups: Tensor) -> Tensor:
    """Lay a group's images below each other: (groups, fold, channels, height, width) -> (..., fold * height, width).

    >>> height(torch.zeros(2, 4, 3, 32, 32)).shape
    torch.Size([2, 3, 128, 32])
    """
    _expect_dimensions(groups, "height", at_least=5)
    return torch.cat(groups.unbind(1), dim=-2)


def features(groups: Tensor) -> Tensor:
    """Concatenate a group's vectors: (groups, fold, features) -> (groups, fold * features).

    >>> features(torch.zeros(2, 4, 10)).shape
    torch.Size([2, 40])
    """
    _expect_dimensions(groups, "features", at_least=3)
    return groups.flatten(1)


def maximum(groups: Tensor) -> Tensor:
    """Keep the largest value of the slots: (groups, fold, ...) -> (groups, ...). It forgets which slot it came from.

    >>> maximum(torch.tensor([[[1.0, 5.0], [3.0, 2.0]]]))
    tensor([[3., 5.]])
    """
    return groups.amax(dim=1) if groups.shape[1] > 1 else groups.squeeze(1)


def average(groups: Tensor) -> Tensor:
    """Take the mean over the slots: (groups, fold, ...) -> (groups, ...). It forgets which slot it came from.

    >>> average(torch.tensor([[[1.0, 5.0], [3.0, 2.0]]]))
    tensor([[2.0000, 3.5000]])
    """
    return groups.mean(dim=1) if groups.shape[1] > 1 else groups.squeeze(1)


def stack(groups: Tensor) -> Tensor:
    """Let every slot pass the next layers by itself: (groups, fold, ...) -> (groups * fold, ...).

    >>> stack(torch.zeros(2, 4, 10)).shape
    torch.Size([8, 10])
    """
    return groups.flatten(0, 1)


def tandem(groups: Tensor, separator: int | None = None) -> Tensor:
    """Put a group's sentences one after the other.

    Args:
        groups: (groups, fold, length) tokens, 0 being padding.
        separator: None keeps the zero padding between sentences, as the paper does for its CNN. A token removes the
            padding and stands between sentences, as the end-of-sentence word does for the paper's LSTM.
    Returns:
        (groups, fold * length) tokens, or with a separator (groups, longest) with padding at the end only.

    >>> tandem(torch.tensor([[[5, 6, 0], [7, 0, 0]]]))
    tensor([[5, 6, 0, 7, 0, 0]])
    >>> tandem(torch.tensor([[[5, 6, 0], [7, 0, 0]]]), separator=2)
    tensor([[5, 6, 2, 7]])
    """
    if groups.ndim != 3:
        raise ShapeError(f"the tandem join expects tokens of shape (groups, fold, length), got {tuple(groups.shape)}")
    if separator is None:
        return groups.flatten(1)
    ends = torch.full_like(groups[:, :, :1], separator)
    ends[:, -1] = PADDING
    tokens = torch.cat([groups, ends], dim=2).flatten(1)
    kept = tokens != PADDING
    # A stable sort by "is padding" moves the padding behind the words and keeps their order.
    order = (~kept).to(torch.uint8).argsort(dim=1, stable=True)
    longest = max(1, int(kept.sum(dim=1).max()))
    return tokens.gather(1, order)[:, :longest]


def pool_slots(features: Tensor, fold: int, reduce: str = "mean", *, dim: int = -1) -> Tensor:
    """Pool each slot's segment by itself, so that the bottleneck keeps the slots apart.

    Args:
        features: (groups, channels, ...) whose dimension `dim` lines up the slots in equal segments, as the width,
            height and tandem joins do.
        reduce: "mean" or "max" over a segment and all other positions.
    Returns:
        (groups, fold * channels), slot by slot.

    >>> pool_slots(torch.tensor([[[1.0, 3.0, 10.0, 20.0]]]), fold=2)
    tensor([[ 2., 15.]])
    """
    length = features.shape[dim]
    if length % fold:
        raise ShapeError(
            f"expected a length divisible by fold={fold} to pool slot by slot, got {length}; "
            "pad the objects, or pool globally"
        )
    # (groups, channels, fold, positions): the slots' dimension first, then everything else within a segment.
    segments = features.movedim(dim, 2).unflatten(2, (fold, length // fold)).flatten(3)
    pooled = look_up(_REDUCTIONS, reduce, "reduction")(segments)
    return pooled.transpose(1, 2).flatten(1)


def pool_globally(features: Tensor, reduce: str = "mean") -> Tensor:
    """Pool all positions: (groups, channels, ...) -> (groups, channels)."""
    return look_up(_REDUCTIONS, reduce, "reduction")(features.flatten(2))


def _expect_dimensions(groups: Tensor, join: str, *, at_least: int) -> None:
    if groups.ndim < at_least:
        fitting = "features, for vectors" if groups.ndim == 3 else "channels"
        raise ShapeError(
            f"the {join} join expects at least {at_least} dimensions (groups, fold, ...), got {tuple(groups.shape)}; "
            f"the join that fits is: {fitting}"
        )


_REDUCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "mean": lambda positions: positions.mean(dim=-1),
    "max": lambda positions: positions.amax(dim=-1),
}

IMAGES, VECTORS, TOKENS = "images", "vectors", "tokens"
JOINS: dict[str, Join] = {
    "channels": Join(channels, (IMAGES,), axis=1, readers=(nn.Conv1d, nn.Conv2d, nn.Conv3d)),
    "width": Join(width, (IMAGES,), axis=-1),
    "height": Join(height, (IMAGES,), axis=-2),
    "features": Join(features, (VECTORS,), axis=1, readers=(nn.Linear,)),
    "tandem": Join(tandem, (TOKENS,), axis=-1),
    "max": Join(maximum, (IMAGES, VECTORS, TOKENS), slot_blind=True),
    "mean": Join(average, (IMAGES, VECTORS, TOKENS), slot_blind=True),
    "stack": Join(stack, (IMAGES, VECTORS), apart=True),
}
"""Joins by name."""


def join_for(name: str, kind: str, network: str) -> Join:
    """The join called `name`, if it is for objects of this kind."""
    join = look_up(JOINS, name, "join")
    if kind not in join.kinds:
        fitting = ", ".join(other for other, known in JOINS.items() if kind in known.kinds)
        raise RecipeError(f"{network} can join by {fitting}, got {name}")
    return join
