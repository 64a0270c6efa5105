"""Taking the classifier off a model: what remains makes the bottleneck T."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from agrlearn.errors import ConversionError
from agrlearn.grouping import Objects, map_objects
from agrlearn.networks.conversion.class_layer_search import find_class_layer
from agrlearn.networks.conversion.splitting import replace_module
from agrlearn.networks.conversion.tracing import call, copied, hooks
from agrlearn.networks.conversion.trial import train_mode
from agrlearn.networks.conversion.within import Tap


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
    [reading] = found.readings
    if found.picks or reading.calls > 1:
        often = "at every position of an object" if found.picks else f"{reading.calls} times in a pass"
        raise ConversionError(
            f"{found.name} runs {often}, so it cannot be split into heads; leave at= out and pass join='max' or "
            "'mean', which keep it as it is"
        )
    layer = model.get_submodule(found.name)
    refuse_shared_weights(model, found.name, layer)
    tap = Tap(copied(layer))
    replace_module(model, layer, tap)
    ends = _ends_in(model, tap, objects)
    with train_mode(model):  # where some models return more than their scores, or something else
        tap.stops = not (_ends_in(model, tap, objects) and ends)
    weight, bias = layer.weight, layer.bias
    assert isinstance(weight, Tensor) and not isinstance(bias, nn.Module)
    return Classifier(
        found.name, weight.detach().flatten(1), None if bias is None else bias.detach(), found.scores, found.left_out
    )


@torch.no_grad()
def _ends_in(model: nn.Module, tap: Tap, objects: Objects) -> bool:
    """Whether what the tap hands out is what the model returns."""
    tap.stops, read = False, []
    with hooks([tap.register_forward_hook(lambda module, args, t: read.append(t.clone()))]):
        try:
            output = call(model, map_objects(Tensor.clone, objects))
        except Exception:  # the model's own code behind its classifier may raise anything at the sight of T
            return False
    if not read:
        raise ConversionError(
            f"the model does not run its classifier in {'train' if model.training else 'eval'} mode; let it return its "
            "class scores in both"
        )
    return isinstance(output, Tensor) and torch.equal(output.flatten(1), read[-1].flatten(1))


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
