"""Joining right before a model's class layer: the model runs on each object as it is, nothing in it is changed."""

import copy
import threading
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from agrlearn.errors import ConversionError, look_up
from agrlearn.grouping import Objects, count_objects
from agrlearn.networks.conversion.classifier import explain_failure, scores_of
from agrlearn.networks.conversion.tracing import FAILURES, call, outputs_of, tensors_in


@dataclass(frozen=True)
class ClassLayer:
    """The layer that makes a model's class scores."""

    name: str
    classes: int
    shape: tuple[int, ...]
    """Of what it reads of one object."""
    picks: bool
    """Whether it scores every position of an object, of which the model picks one."""
    left_out: bool
    """Whether the model does something else with the scores than to make probabilities of them."""
    scores: Tensor
    """(objects, classes), for the example."""


def find_class_layer(model: nn.Module, objects: Objects, name: str | None = None) -> ClassLayer:
    """The layer called `name`, or the one whose output the model's class scores are."""
    layers = {key: module for key, module in model.named_modules() if next(module.parameters(), None) is not None}
    layers.pop("", None)
    if name is not None:
        layers = {name: look_up(layers, name, "layer of the model with weights")}
    try:
        output, calls = outputs_of(lambda: call(model, objects), layers)
    except FAILURES as error:
        raise explain_failure(model, objects, error) from error
    count = count_objects(objects)
    scores = scores_of(output, count)
    if scores is None and name is None:
        raise ConversionError(
            f"the model returns {type(output).__name__} without class scores of shape (objects, classes); name the "
            "layer that makes them with classifier="
        )
    found: dict[str, ClassLayer] = {}
    for key, read, made in calls:
        layer = None if not isinstance(made, Tensor) else _match(key, read, made, scores, count, named=name is not None)
        if layer is not None:
            found[key] = layer
    # A container makes what its last layer makes: the layer itself is meant.
    innermost = [layer for key, layer in found.items() if not any(other.startswith(f"{key}.") for other in found)]
    if len(innermost) > 1:
        names = " and ".join(layer.name for layer in innermost)
        raise ConversionError(f"{names} could each make the model's class scores; name one of them with classifier=")
    if innermost:
        return innermost[0]
    tried = ", ".join(dict.fromkeys(key for key, _, _ in calls[-3:])) or "none ran"
    raise ConversionError(
        "the model's class scores are not the output of one layer, nor its softmax or log-softmax (the last layers "
        f"are {tried}); name the layer that makes them with classifier=, or pass at= to join elsewhere"
    )


def _match(key: str, read: Any, made: Tensor, scores: Tensor | None, count: int, *, named: bool) -> ClassLayer | None:
    """The layer, if the model's class scores are what it made."""
    if made.shape[:1] != (count,) or not isinstance(read, Tensor) or read.shape[:1] != (count,):
        return None
    flat = made.reshape(count, -1)
    if scores is None or flat.shape == scores.shape:
        ends = scores is not None and is_end(flat, scores)
        if ends or named:
            known = flat if scores is None else scores if not ends else flat
            return ClassLayer(key, flat.shape[1], tuple(read.shape[1:]), False, not ends and scores is not None, known)
        return None
    if made.ndim == 3 and made.shape[2] == scores.shape[1]:  # every position, of which one is picked
        near = (made - scores[:, None]).abs().amax(dim=2).amin(dim=1)
        if bool((near <= 1e-6 * made.abs().amax().clamp(min=1)).all()):
            return ClassLayer(key, made.shape[2], tuple(read.shape[2:]), True, False, scores)
    return None


def is_end(made: Tensor, scores: Tensor) -> bool:
    """Whether a model ends in what a layer made: in it as it is, or in its softmax or log-softmax."""
    close = max(1e-6, *(8 * torch.finfo(tensor.dtype).eps for tensor in (made, scores)))
    made, scores = made.cpu().double(), scores.cpu().double()
    return any(
        torch.allclose(end, scores, rtol=close, atol=close)
        for end in (made, made.softmax(dim=1), made.log_softmax(dim=1))
    )


class _Watch(threading.local):
    """What the class layer reads in this thread's pass; others may be on their way through the model as well."""

    read: list[Tensor] | None = None


_WATCH = _Watch()


def _note_input(module: nn.Module, args: tuple, kwargs: dict) -> None:
    if _WATCH.read is not None:
        _WATCH.read.append(next(tensors_in((args, kwargs))))


def _number_positions(module: nn.Module, args: tuple, output: Tensor) -> Tensor | None:
    if _WATCH.read is None:
        return None
    return torch.arange(output.shape[1], device=output.device).to(torch.float32)[None, :, None].expand(output.shape)


class LastFeatures(nn.Module):
    """Objects to what the class layer reads of them: (objects, ...) -> (objects, features).

    Args:
        model: as it is; the class layer gets a hook that notes what it reads.
    """

    def __init__(self, model: nn.Module, layer: ClassLayer) -> None:
        super().__init__()
        self.model = model
        self.layer_name = layer.name
        self.picks = layer.picks
        self.layer.register_forward_pre_hook(_note_input, with_kwargs=True)
        if self.picks:
            self.layer.register_forward_hook(_number_positions)

    @property
    def layer(self) -> nn.Module:
        """The class layer."""
        return self.model.get_submodule(self.layer_name)

    def forward(self, objects: Objects) -> Tensor:
        before, _WATCH.read = _WATCH.read, []
        try:
            output = call(self.model, objects)
            features = _WATCH.read[-1]
        finally:
            _WATCH.read = before
        if self.picks:
            # Instead of scores the model was given the positions' numbers: what it picked of them is where it looks.
            picked = scores_of(output, len(features))
            assert picked is not None
            features = features[torch.arange(len(features), device=features.device), picked[:, 0].round().long()]
        return features.flatten(1)

    def ordinary(self) -> nn.Module:
        """A copy of the model with the weights that it has now, and without the hooks."""
        model = copy.deepcopy(self.model)
        layer = model.get_submodule(self.layer_name)
        for hooks, own in ((layer._forward_pre_hooks, _note_input), (layer._forward_hooks, _number_positions)):
            for key in [key for key, hook in hooks.items() if hook is own]:
                del hooks[key]
                layer._forward_pre_hooks_with_kwargs.pop(key, None)
        return model


class ClassHead(nn.Module):
    """The class layer on features that were flattened: (groups, features) -> (groups, classes)."""

    def __init__(self, layer: nn.Module, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.layer = layer
        self.shape = shape

    def forward(self, t: Tensor) -> Tensor:
        return self.layer(t.unflatten(1, self.shape)).flatten(1)
