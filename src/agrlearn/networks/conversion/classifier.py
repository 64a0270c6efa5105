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
    left_out: bool
    """Whether the model does something else with the scores than to make probabilities of them."""


def take_off_classifier(model: nn.Module, objects: Objects, name: str | None = None) -> Classifier:
    """Replace the model's classifier by a tap that hands out T, stopping there where the model does more behind it."""
    classifier = _find(model, objects, name)
    layer = model.get_submodule(classifier.name)
    refuse_shared_weights(model, classifier.name, layer)
    _, calls = outputs_of(lambda: call(model, objects), {classifier.name: layer})
    t = calls[-1][1]
    tap = Tap(layer, stops=False)
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
        raise explain_failure(model, objects, error) from error
    count = count_objects(objects)
    scores = scores_of(output, count)
    classes = {key: len(layer.weight) for key, layer in layers.items()}  # type: ignore[arg-type]
    found = {key: made.reshape(count, -1) for key, _, made in calls if made.numel() == count * classes[key]}
    if scores is not None and name is None:
        found = {key: made for key, made in found.items() if made.shape == scores.shape}
        same = {key: made for key, made in found.items() if torch.equal(made.to(scores.dtype), scores)}
        found = same or {key: made for key, made in found.items() if _ends_in(made, scores)} or found
    if len(found) > 1:
        raise ConversionError(
            f"{' and '.join(found)} could each make the model's class scores; name the one to keep with classifier="
        )
    for key, made in found.items():
        left_out = scores is not None and not _ends_in(made, scores)
        if left_out and name is None:
            raise ConversionError(
                f"the model's class scores are not the output of {key}, nor its softmax, log-softmax or sigmoid; heads "
                f"know nothing of what the model does behind {key}: put it into the layer, as a factor into its "
                f"weights, or pass classifier={key!r} to leave it out"
            )
        return _classifier(key, layers[key], made, left_out)
    fitting = [made for made in calls if name or scores is None or classes[made[0]] == scores.shape[1]]
    if fitting and fitting[-1][2].numel() > count * classes[fitting[-1][0]]:
        key, _, made = fitting[-1]
        raise ConversionError(
            f"{key} runs at every position of an object and makes {tuple(made.shape)}, so it cannot be split into "
            f"heads; let the model pool the positions, or pick one, before {key}"
        )
    tried = ", ".join(dict.fromkeys(key for key, _, _ in calls[-3:])) or "none ran"
    raise ConversionError(
        f"no linear layer or 1×1 convolution makes the model's class scores (the last of them: {tried}); "
        "name the one that does with classifier="
    )


def _classifier(name: str, layer: nn.Module, made: Tensor, left_out: bool) -> Classifier:
    weight, bias = layer.weight, layer.bias
    assert isinstance(weight, Tensor) and not isinstance(bias, nn.Module)
    if len(weight) < 2:
        raise ConversionError(
            f"{name} makes a single score, but heads are softmax layers over at least two classes; give the model one "
            "score for each class, or name the layer that makes them with classifier="
        )
    return Classifier(name, weight.detach().flatten(1), None if bias is None else bias.detach(), made, left_out)


def _ends_in(made: Tensor, scores: Tensor) -> bool:
    """Whether the model ends in what a layer made: in it as it is, or in probabilities of it."""
    if made.shape != scores.shape:
        return False
    close = max(1e-6, *(8 * torch.finfo(tensor.dtype).eps for tensor in (made, scores)))
    made, scores = made.cpu().double(), scores.cpu().double()
    ends = (made, made.softmax(dim=1), made.log_softmax(dim=1), made.sigmoid())
    return any(torch.allclose(end, scores, rtol=close, atol=close) for end in ends)


def explain_failure(model: nn.Module, objects: Objects, error: Exception) -> ConversionError:
    """What to pass instead of an example that the model failed on."""
    hint = _what_it_takes(model, objects, error)
    return ConversionError(f"the model does not take the example as it is ({brief(error)}); {hint}")


def _what_it_takes(model: nn.Module, objects: Objects, error: Exception) -> str:
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


def scores_of(output: object, count: int) -> Tensor | None:
    """(objects, classes) in what a model returns: a Tensor, something with logits, or a tuple that starts with them."""
    if isinstance(output, dict):
        output = output.get("logits")
    elif isinstance(output, tuple | list):
        output = output[0]
    elif not isinstance(output, Tensor):
        output = getattr(output, "logits", None)
    found = isinstance(output, Tensor) and output.is_floating_point() and output.shape[:1] == (count,)
    return output.reshape(count, -1) if found else None  # type: ignore[attr-defined]


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
