"""Taking the classifier off a model: what remains makes the bottleneck T."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from agrlearn.errors import ConversionError, look_up
from agrlearn.grouping import Objects, count_objects, map_objects
from agrlearn.networks.conversion.tracing import FAILURES, brief, call, outputs_of
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


def take_off_classifier(model: nn.Module, objects: Objects, name: str | None = None) -> Classifier:
    """Replace the model's classifier by a tap that hands out T, stopping there where the model does more behind it."""
    classifier = _find(model, objects, name)
    layer = model.get_submodule(classifier.name)
    refuse_shared_weights(model, classifier.name, layer)
    _, calls = outputs_of(lambda: call(model, objects), {classifier.name: layer})
    t = calls[-1][1]
    tap = Tap(stops=False)
    replace_module(model, classifier.name, tap)
    try:
        with torch.no_grad():
            output = call(model, objects)
        ends = isinstance(output, Tensor) and output.numel() == t.numel()
        tap.stops = not (ends and torch.equal(output.reshape(t.shape), t))
    except Exception:  # the model's own code behind its classifier may raise anything at the sight of T
        tap.stops = True
    return classifier


def _find(model: nn.Module, objects: Objects, name: str | None) -> Classifier:
    """The layer called `name`, or the only one that could make the model's output."""
    layers: dict[str, nn.Module] = {key: module for key, module in model.named_modules() if _could_classify(module)}
    if name is not None:
        layers = {name: look_up(layers, name, "linear layer of the model")}
    try:
        output, calls = outputs_of(lambda: call(model, objects), layers)
    except FAILURES as error:
        raise ConversionError(
            f"the model does not take the example as it is ({brief(error)}); {_what_it_takes(model, objects, error)}"
        ) from error
    scores, count = _scores(output), count_objects(objects)
    found: dict[str, Tensor] = {}
    for key, _, made in calls:
        flat = made.reshape(count, -1)
        if flat.shape[1] == layers[key].weight.shape[0]:  # type: ignore[index]
            found[key] = flat.clone()
    if scores is not None and name is None:
        scores = scores.reshape(count, -1)
        found = {key: made for key, made in found.items() if made.shape == scores.shape}
        same = {key: made for key, made in found.items() if torch.equal(made, scores)}
        found = same or found
    if len(found) > 1:
        raise ConversionError(
            f"{' and '.join(found)} could each make the model's class scores; name the one to keep with classifier="
        )
    for key, made in found.items():
        weight, bias = layers[key].weight, layers[key].bias
        assert isinstance(weight, Tensor) and not isinstance(bias, nn.Module)
        if len(weight) < 2:
            raise ConversionError(
                f"{key} makes a single score, but heads are softmax layers over at least two classes; give the model "
                "one score for each class, or name the layer that makes them with classifier="
            )
        return Classifier(key, weight.detach().flatten(1), None if bias is None else bias.detach(), made)
    tried = ", ".join(dict.fromkeys(key for key, _, _ in calls[-3:])) or "none ran"
    raise ConversionError(
        f"no linear layer or 1×1 convolution makes the model's class scores (the last of them: {tried}); "
        "name the one that does with classifier="
    )


def _what_it_takes(model: nn.Module, objects: Objects, error: Exception) -> str:
    """What to pass instead of an example that the model failed on."""
    if isinstance(error, TypeError):
        return "pass a mapping of its arguments' names to tensors where it has several inputs"
    weights = next((parameter.dtype for parameter in model.parameters() if parameter.is_floating_point()), None)
    try:
        with torch.no_grad():
            call(model, map_objects(lambda tensor: tensor.to(weights), objects))
    except FAILURES:
        return "pass a batch of objects, (objects, ...), as the model takes them"
    return f"it takes {weights}: convert the example, and the objects to train on, with .to({weights})"


def _could_classify(module: nn.Module) -> bool:
    pointwise = isinstance(module, nn.modules.conv._ConvNd) and set(module.kernel_size) == {1} and module.groups == 1
    return isinstance(module, nn.Linear) or pointwise


def _scores(output: object) -> Tensor | None:
    """The class scores in what a model returns: a Tensor, something with logits, or a tuple that starts with them."""
    if isinstance(output, Tensor):
        return output
    if isinstance(output, dict):
        output = output.get("logits")
    elif isinstance(output, tuple | list):
        output = output[0]
    else:
        output = getattr(output, "logits", None)
    return output if isinstance(output, Tensor) else None


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
