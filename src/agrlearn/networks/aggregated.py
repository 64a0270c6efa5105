"""The main network of the paper: groups in, one label distribution per slot out."""

from collections.abc import Callable, Sequence
from typing import Literal, overload

import torch
from torch import Tensor, nn

from agrlearn.errors import ConversionError, ShapeError, look_up
from agrlearn.grouping import Objects, first_tensor, group, map_objects, ungroup
from agrlearn.networks.joins import JOINS, Join
from agrlearn.networks.stacked import SlotHeads


class AggregatedClassifier(nn.Module):
    """Encoder h and `fold` parallel softmax heads: classifies `fold` objects in one pass.

    The way of a group is: `shared` layers on each object alone, the join of the slots, the `encoder` to the bottleneck
    T, and one linear layer that holds all heads. Behind a slot-blind join, as the maximum or the mean, all slots share
    one head: T is the same for each of them, so heads of their own could only learn the same. Train and eval mode
    compute the same function up to what the layers themselves do (batch normalisation, and the noise below).

    Args:
        encoder: maps the joined input to the bottleneck, (groups, ...) -> (groups, features).
        features: the width of the bottleneck.
        join: a name in `JOINS`, a `Join`, or a function (groups, fold, ...) -> (groups, ...). Behind stack, the encoder
            maps (groups * fold, ...) to (groups * fold, features / fold).
        shared: layers that every object passes alone, before the join.
        noise: standard deviation of Gaussian noise on T while training, which makes T a stochastic representation
            with a finite I(X;T); in eval mode T is its mean.
        slot_blind: whether exchanging two objects of a group leaves T as it is; a join that is so says it itself.
        head: the layer of `shared` that makes class scores of T, (groups, features) -> (groups, classes), where all
            slots share it; by default a linear layer of its own.
        own_heads: give each slot a head of its own also behind a slot-blind join, as the paper's sentence CNN has.
        slot_weights: names of the encoder's weights that read the slots side by side, in their second dimension, where
            they are all that does; found by itself for an encoder that is a Sequential.

    >>> network = AggregatedClassifier(nn.Linear(8, 16), features=16, fold=2, num_classes=3, join="features")
    >>> network(torch.zeros(5, 2, 4)).shape
    torch.Size([5, 2, 3])
    """

    def __init__(
        self,
        encoder: nn.Module,
        *,
        features: int,
        fold: int,
        num_classes: int,
        join: str | Callable[[Tensor], Tensor],
        shared: nn.Module | None = None,
        noise: float = 0.0,
        slot_blind: bool = False,
        head: nn.Module | None = None,
        own_heads: bool = False,
        slot_weights: Sequence[str] | None = None,
    ) -> None:
        super().__init__()
        self.fold = fold
        self.num_classes = num_classes
        self.features = features
        self.noise = noise
        self.shared = nn.Identity() if shared is None else shared
        self.join = look_up(JOINS, join, "join") if isinstance(join, str) else join
        self.slot_blind = slot_blind or (fold > 1 and isinstance(self.join, Join) and self.join.slot_blind)
        self.encoder = encoder
        self.shares_head = head is not None or (not own_heads and isinstance(self.join, Join) and self.join.slot_blind)
        self.stacked = fold > 1 and isinstance(self.join, Join) and self.join.apart
        if self.stacked and head is None:
            self.head: nn.Module = SlotHeads(fold, features // fold, num_classes)
        elif head is None:
            self.head = nn.Linear(features, num_classes if self.shares_head else fold * num_classes)
        else:
            vars(self)["head"] = head  # not registered a second time, since it may be a layer of `shared`
        self.slot_weights = _find_slot_weights(self.join, encoder) if slot_weights is None else tuple(slot_weights)
        self.description: dict[str, object] | None = None
        """How the catalogue builds this network again, as JSON; None for a network of the user's own."""
        self.initial_seed: int | None = None
        """The seed of its initial weights, where the catalogue drew them."""
        self.conversion: object | None = None
        """What `aggregate` changed to make this network; None for a network that was built so."""

    @property
    def reads_tokens(self) -> bool:
        """Whether a network of the catalogue, or from outside, was built for sentences as numbered words."""
        described = self.description or {}
        return "vocabulary" in described or bool(described.get("tokens"))

    def bottleneck(self, groups: Objects) -> Tensor:
        """The representation T: (groups, fold, ...) -> (groups, features)."""
        return self._with_noise(self._mean(groups))

    def _mean(self, groups: Objects) -> Tensor:
        """h(x): T before its noise."""
        slots = first_tensor(groups).shape[1]
        if slots != self.fold:
            raise ShapeError(
                f"expected groups of fold={self.fold} objects, got {slots} in a tensor of shape "
                f"{tuple(first_tensor(groups).shape)}; group(objects, fold={self.fold}) makes them"
            )
        return self._mean_from(group(self.shared(ungroup(groups)), self.fold))

    def bottleneck_from(self, shared_groups: Objects) -> Tensor:
        """T from groups whose objects have passed `shared` already, so that prediction runs it once per object."""
        return self._with_noise(self._mean_from(shared_groups))

    def _mean_from(self, shared_groups: Objects) -> Tensor:
        mean = self.encoder(self.join(shared_groups))  # type: ignore[arg-type]
        return mean.reshape(-1, self.features) if self.stacked else mean

    def _with_noise(self, mean: Tensor) -> Tensor:
        return self.perturb(mean) if self.noise > 0 and self.training else mean

    def perturb(self, t: Tensor, random: torch.Generator | None = None) -> Tensor:
        """A draw of the stochastic bottleneck around its mean `t`."""
        drawn = torch.randn(t.shape, generator=random, device=random.device if random else t.device, dtype=t.dtype)
        return t + self.noise * drawn.to(t.device)

    def to_device(self, objects: Objects) -> Objects:
        """Objects on the network's device, and fractions in its precision."""
        # That of the first layers, since a head may have a precision of its own.
        weight = next((parameter for parameter in self.parameters() if parameter.is_floating_point()), self.weight)
        single = weight.dtype == torch.float32

        def move(tensor: Tensor) -> Tensor:
            # Mixed precision hands a network of single precision what is in half precision.
            other = tensor.dtype == torch.float64 if single else tensor.is_floating_point()
            return tensor.to(weight.device, weight.dtype if other else None)

        return map_objects(move, objects)

    def heads(self, t: Tensor) -> Tensor:
        """Logits of every slot's label: (groups, features) -> (groups, fold, classes)."""
        if self.shares_head and self.fold > 1:
            return self.head(t).view(-1, 1, self.num_classes).expand(-1, self.fold, -1)
        return self.head(t).view(-1, self.fold, self.num_classes)

    @property
    def weight(self) -> Tensor:
        """A weight of the head, which has the network's device and precision."""
        return next(self.head.parameters())

    @overload
    def forward(self, groups: Objects, *, with_bottleneck: Literal[False] = False) -> Tensor: ...
    @overload
    def forward(
        self, groups: Objects, *, with_bottleneck: Literal[True], mix: tuple[Tensor, float] | None = None
    ) -> tuple[Tensor, Tensor, Tensor]: ...
    def forward(
        self, groups: Objects, *, with_bottleneck: bool = False, mix: tuple[Tensor, float] | None = None
    ) -> Tensor | tuple[Tensor, Tensor, Tensor]:
        """Logits (groups, fold, classes); where it is asked for, with the bottleneck T, and with T before its noise.

        Args:
            mix: (groups,) the partner of each group and the group's own share, by which bottlenecks are averaged.
        """
        mean = self._mean(groups)
        if mix is not None:
            mean = torch.lerp(mean[mix[0]], mean, mix[1])
        t = self._with_noise(mean)
        logits = self.heads(t)
        # Under data parallelism T must leave through forward: only forward is synchronised.
        return (logits, t, mean) if with_bottleneck else logits


def check_network(network: object) -> None:
    """Refuse a model that does not classify groups, as one has before `aggregate` or after `single`."""
    if not hasattr(network, "fold"):
        raise ConversionError(
            f"expected a network that classifies groups, got {type(network).__name__}; aggregate(model, fold, example) "
            "makes one of a model, build_network(...) one by name. A model without groups predicts when you call it"
        )


def _find_slot_weights(join: object, encoder: nn.Module) -> tuple[str, ...]:
    """The weight of the encoder's first layer, where the join puts the slots side by side for it."""
    path, layer = "", encoder
    # These very classes: one that is derived from them may add to what its layers do, as a residual block does, or
    # work on its weights, as weight standardisation does.
    while type(layer) is nn.Sequential and len(layer) > 0:
        path, layer = f"{path}0.", layer[0]
    reads = isinstance(join, Join) and type(layer) in join.readers and getattr(layer, "groups", 1) == 1
    if not reads or sum(module is layer for _, module in encoder.named_modules(remove_duplicate=False)) > 1:
        return ()  # a layer that also reads what comes later must keep its shape
    return (f"{path}weight",)
