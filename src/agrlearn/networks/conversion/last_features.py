"""Joining right before a model's class layer: the model runs on each object as it is, nothing in it is changed."""

import math
import threading
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor, nn

from agrlearn.errors import ConversionError, ShapeError
from agrlearn.grouping import Objects, count_objects, map_objects
from agrlearn.networks.conversion.class_layer import ClassLayer, Reading
from agrlearn.networks.conversion.scores import class_scores_at, number_positions, read_positions
from agrlearn.networks.conversion.tracing import call, copied, tensors_in
from agrlearn.networks.conversion.within import ReachedError, SecondPiece


class _Watch(threading.local):
    """What class layers read in this thread's pass; others may be on their way through the model as well."""

    read: list[tuple[nn.Module, Tensor]] | None = None
    grad: bool = True
    stops: bool = False
    """Whether the pass ends where the class layer has read."""


_WATCH = _Watch()


# quantize_dynamic carries hooks over to its own layers, but not that they take keywords.
def _note_input(module: nn.Module, args: tuple, kwargs: dict | None = None) -> None:
    if _WATCH.read is not None:
        # A copy, since the model may go on to change it in place.
        _WATCH.read.append((module, next(tensors_in((args, kwargs))).clone()))
        _WATCH.grad = torch.is_grad_enabled()
        if _WATCH.stops and not torch.compiler.is_exporting():  # which does not see exceptions
            raise ReachedError(None)


def _number_positions(module: nn.Module, args: tuple, output: Tensor) -> Tensor | None:
    return None if _WATCH.read is None else number_positions(output)


class LastFeatures(nn.Module):
    """Objects to what the class layer reads of them: (objects, ...) -> (objects, features).

    Where the class scores are the sum of what several layers make, what each reads stands side by side.

    Args:
        model: as it is; the class layer gets a hook that notes what it reads.
    """

    def __init__(self, model: nn.Module, layer: ClassLayer) -> None:
        super().__init__()
        self.model = model
        self.readings, self.share, self.picks, self.path = layer.readings, layer.share, layer.picks, layer.path
        self.rest: SecondPiece | None = None
        """What the model does behind its class layer, if that is more: on groups, and not on single objects, which
        would move the statistics of a normalisation there."""
        self.changes_input = False
        """Whether the model works on its input in place, so that it is given a copy."""
        for part in self.layers():
            part.register_forward_pre_hook(_note_input, with_kwargs=True, prepend=True)
            if self.picks:
                part.register_forward_hook(_number_positions)

    def layers(self, model: nn.Module | None = None) -> list[nn.Module]:
        """The layers that make class scores, also in a copy of the model."""
        return [(model or self.model).get_submodule(reading.name) for reading in self.readings]

    def forward(self, objects: Objects) -> Tensor:
        if self.changes_input:
            objects = map_objects(Tensor.clone, objects)
        before = _WATCH.read, _WATCH.stops
        noted: list[tuple[nn.Module, Tensor]] = []
        _WATCH.read, _WATCH.stops, output = noted, self.rest is not None, None
        try:
            with suppress(ReachedError):
                output = call(self.model, objects)
        finally:
            _WATCH.read, _WATCH.stops = before
        parts = []
        for reading, layer in zip(self.readings, self.layers(), strict=True):
            read = [tensor for module, tensor in noted if module is layer]
            self._check_calls(reading, len(read))
            features = read[reading.place]
            if self.picks:
                features = self._picked(features, output)
            expected = (count_objects(objects), *reading.shape)
            if expected[0] == 1 and features.shape == reading.shape:
                features = features[None]  # squeeze() takes off the dimension of a single object as well
            if features.shape != expected:
                raise ShapeError(
                    f"{reading.name} read {tuple(features.shape)}, but {expected} was expected of {expected[0]} "
                    "objects; pass objects of the size of the example that the model was aggregated with"
                )
            parts.append(features.flatten(1))
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)

    def _check_calls(self, reading: Reading, ran: int) -> None:
        """Refuse a pass in which another call of the class layer may be taken for the one, or gradients are lost."""
        if ran != reading.calls and (ran == 0 or reading.calls == 1 or reading.place >= 0):
            raise ConversionError(
                f"{reading.name} ran {ran} times in this pass in {'train' if self.training else 'eval'} mode, but "
                f"{reading.calls} times on the example in eval mode, so what it reads cannot be told; let the model "
                "run it as often in both modes"
            )
        if self.training and torch.is_grad_enabled() and not _WATCH.grad:
            raise ConversionError(
                f"{reading.name} runs without gradients, so nothing before it would learn, as in a part under "
                "torch.no_grad or a checkpoint with use_reentrant=True; pass use_reentrant=False there"
            )

    def _picked(self, features: Tensor, output: Any) -> Tensor:
        # Instead of scores the model was given the positions' numbers: what it picked of them is where it looks.
        picked = class_scores_at(self.path, output, len(features))
        return features[torch.arange(len(features), device=features.device), read_positions(picked)]

    def ordinary(self) -> nn.Module:
        """A copy of the model with the weights that it has now, and without the hooks."""
        model = copied(self.model)
        for layer in self.layers(model):
            for hooks, own in ((layer._forward_pre_hooks, _note_input), (layer._forward_hooks, _number_positions)):
                for key in [key for key, hook in hooks.items() if hook is own]:
                    del hooks[key]
                    layer._forward_pre_hooks_with_kwargs.pop(key, None)
        return model


class ClassHead(nn.Module):
    """Class layers on features that were flattened, and their sum: (groups, features) -> (groups, classes).

    Args:
        shared: has these layers.
    """

    def __init__(self, shared: LastFeatures) -> None:
        super().__init__()
        self.layers = nn.ModuleList(shared.layers())
        self.readings, self.share = shared.readings, shared.share
        self.rest = shared.rest

    def forward(self, t: Tensor) -> Tensor:
        made = []
        parts = t.split([math.prod(reading.shape) for reading in self.readings], dim=1)
        for part, layer, reading in zip(parts, self.layers, self.readings, strict=True):
            read = part.unflatten(1, reading.shape).clone()  # the layer may work on it in place
            made.append(layer(read) if reading.keyword is None else layer(**{reading.keyword: read}))
        if self.rest is not None:
            return self.rest(made[0])
        flat = [each.flatten(1) for each in made]
        return flat[0] if len(flat) == 1 else self.share * torch.stack(flat).sum(dim=0)


def changes_input(model: nn.Module, objects: Objects) -> bool:
    """Whether the model works on its input in place."""
    given = map_objects(Tensor.clone, objects)
    versions = [tensor._version for tensor in tensors_in(given)]
    with torch.no_grad():
        call(model, given)
    return versions != [tensor._version for tensor in tensors_in(given)]
