"""Taking the classifier off a model: what remains makes the bottleneck T."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from agrlearn.errors import ConversionError
from agrlearn.grouping import Objects
from agrlearn.networks.conversion.class_layer import find_class_layer
from agrlearn.networks.conversion.tracing import call, outputs_of
from agrlearn.networks.conversion.within import Tap, replace_module


@dataclass(frozen=True)
class Classifier:
    """The layer that made the class scores."""

    name: str
    weight: Tensor
    """(classes, features)."""
    bias: Tensor | None
    scores: Tensor
    """(objects, classes), for the example."""
    left_out: bool
    """Whether the model does something else with the scores than to make probabilities of them."""


def take_off_classifier(model: nn.Module, objects: Objects, name: str | None = None) -> Classifier:
    """Replace the model's classifier by a tap that hands out T, stopping there where the model does more behind it."""
    found = find_class_layer(model, objects, name, linear=True)
    if found.picks or found.calls > 1:
        often = "at every position of an object" if found.picks else f"{found.calls} times in a pass"
        raise ConversionError(
            f"{found.name} runs {often}, so it cannot be split into heads; leave at= out and pass join='max' or "
            "'mean', which keep it as it is"
        )
    layer = model.get_submodule(found.name)
    refuse_shared_weights(model, found.name, layer)
    _, calls = outputs_of(lambda: call(model, objects), {found.name: layer})
    t = calls[-1][1]
    tap = Tap(layer, stops=False)
    replace_module(model, found.name, tap)
    try:
        with torch.no_grad():
            output = call(model, objects)
        ends = isinstance(output, Tensor) and output.numel() == t.numel()
        tap.stops = not (ends and torch.equal(output.reshape(t.shape), t))
    except Exception:  # the model's own code behind its classifier may raise anything at the sight of T
        tap.stops = True
    weight, bias = layer.weight, layer.bias
    assert isinstance(weight, Tensor) and not isinstance(bias, nn.Module)
    return Classifier(
        found.name, weight.detach().flatten(1), None if bias is None else bias.detach(), found.scores, found.left_out
    )


def refuse_shared_weights(model: nn.Module, name: str, layer: nn.Module) -> None:
    """Widening one of two layers that share a weight would part or break them."""
    mine = {id(parameter) for parameter in layer.parameters()}
    owners: dict[int, list[str]] = {}
    for key, module in model.named_modules():
        for parameter in module.parameters(recurse=False):
            if id(parameter) in mine:
                owners.setdefault(id(parameter), []).append(key)
    for keys in owners.values():
        if len(keys) > 1:
            raise ConversionError(
                f"{' and '.join(keys)} share their weights, so {name} cannot be changed alone; untie them, or pass at= "
                "or classifier= to leave them as they are"
            )
