"""One pass of a model on the example: what its layers read and made, and what it returned."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from agrlearn.grouping import Objects, count_objects, first_tensor, map_objects
from agrlearn.networks.conversion.scores import Path, class_scores_in
from agrlearn.networks.conversion.tracing import call, hooks, tensors_in
from agrlearn.seeding import seeded


@dataclass(frozen=True)
class Call:
    """One call of a layer that may have made class scores."""

    name: str
    place: int
    """How often the layer had run before."""
    read: Tensor
    keyword: str | None
    """The name of the argument that it read, where it was called so."""
    made: Tensor

    @property
    def key(self) -> tuple[str, int]:
        return self.name, self.place

    @property
    def flat(self) -> Tensor:
        """(objects, ...), what it made of each object."""
        return self.made.flatten(1)

    @property
    def read_flat(self) -> Tensor:
        """(objects, ...), what it read of each object."""
        return self.read.reshape(len(self.read), -1)


@dataclass(frozen=True)
class Pass:
    """What was seen in a pass."""

    returned: Any
    entries: dict[Path, Tensor]
    """Outputs that may be class scores, (objects, classes)."""
    calls: list[Call]
    """Those that read one tensor and made another, with the objects first."""
    ran: dict[str, int]
    """How often each layer ran."""
    sigmoid: bool
    """Whether a call that was changed ended in a sigmoid."""


def record(
    model: nn.Module,
    objects: Objects,
    layers: dict[str, nn.Module],
    changed: Mapping[tuple[str, int], Tensor] | None = None,
) -> Pass:
    """Run the model, always under the same seed.

    Args:
        changed: what calls give instead of what they make, by their key.
    """
    count, sigmoid = count_objects(objects), False
    calls: list[Call] = []
    ran: dict[str, int] = {}
    reading: list[tuple[Tensor | None, str | None]] = []

    def enter(module: nn.Module, args: tuple, kwargs: dict) -> None:
        read = list(tensors_in((args, kwargs)))
        # A copy, since the model may go on to change it in place.
        only = read[0].detach().clone() if len(read) == 1 else None
        reading.append((only, next((key for key, value in kwargs.items() if isinstance(value, Tensor)), None)))

    def leave(name: str, made: Any) -> Tensor | None:
        nonlocal sigmoid
        (read, keyword), place = reading.pop(), ran.get(name, 0)
        ran[name] = place + 1
        if changed is not None and (name, place) in changed:
            sigmoid = type(made.grad_fn).__name__.startswith("Sigmoid")
            return changed[name, place]
        fits = isinstance(made, Tensor) and made.is_floating_point() and made.ndim > 1 and len(made) == count
        if fits and read is not None and read.shape[:1] == (count,):
            calls.append(Call(name, place, read, keyword, made.detach().clone()))
        return None

    handles = []
    for key, layer in layers.items():
        handles.append(layer.register_forward_pre_hook(enter, with_kwargs=True))
        handles.append(layer.register_forward_hook(lambda module, args, made, key=key: leave(key, made)))
    with torch.enable_grad(), hooks(handles), seeded(0, first_tensor(objects).device):
        returned = call(model, map_objects(Tensor.clone, objects))
    return Pass(returned, dict(class_scores_in(returned, count)), calls, ran, sigmoid)
