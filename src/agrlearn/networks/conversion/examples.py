"""Objects to try a model on: the user's example, made so that it hides nothing."""

import torch
from torch import Tensor, nn

from agrlearn.errors import ConversionError
from agrlearn.grouping import Objects, count_objects, map_objects
from agrlearn.networks.conversion.tracing import FAILURES, brief, call, tensors_in
from agrlearn.networks.joins import PADDING
from agrlearn.seeding import generator


def at_least(objects: Objects, count: int) -> Objects:
    """The first `count` objects, repeated where there are fewer."""
    have = count_objects(objects)
    return map_objects(lambda tensor: tensor[torch.arange(count, device=tensor.device) % have], objects)


def vary_for(model: nn.Module, objects: Objects) -> Objects:
    """The objects varied, or as they are where the model does not take that.

    An example of zeros, or of one object alone, makes networks and slots look equal that are not.
    """
    varied = vary(objects)
    try:
        with torch.no_grad():
            given = call(model, map_objects(Tensor.clone, varied))
    except Exception:  # the model's own code may raise anything at objects that it does not expect
        return objects
    return objects if any(bool(tensor.isnan().any()) for tensor in tensors_in(given)) else varied


def vary(objects: Objects) -> Objects:
    """The objects with noise on fractions, and with words in another order where all sentences are the same.

    >>> vary(torch.tensor([[5, 6, 7, 0], [5, 6, 7, 0]]))
    tensor([[5, 6, 7, 0],
            [7, 5, 6, 0]])
    """
    if isinstance(objects, Tensor):
        return _with_noise(objects) if objects.is_floating_point() else _with_other_words(objects)
    varied = dict(objects)
    for name, tensor in objects.items():
        if tensor.is_floating_point() and "mask" not in name:
            varied[name] = _with_noise(tensor)
        elif name == "input_ids":
            varied[name] = _with_other_words(tensor)
    return varied


def differ_more(objects: Objects, times: int) -> Objects:
    """Fractions with noise of 10 ** `times` their spread, and words drawn from all that there are."""
    random = generator(times)

    def change(tensor: Tensor) -> Tensor:
        if tensor.is_floating_point():
            noise = torch.randn(tensor.shape, generator=random).to(tensor.device, tensor.dtype)
            return tensor + noise * 10**times * (tensor.max() - tensor.min())
        drawn = torch.randint(tensor.numel(), tensor.shape, generator=random).to(tensor.device)
        return torch.where(tensor == PADDING, tensor, tensor.flatten()[drawn])

    if isinstance(objects, Tensor):
        return change(objects)
    return {name: tensor if "mask" in name else change(tensor) for name, tensor in objects.items()}


def with_padding(objects: Objects) -> Objects:
    """The objects with one position masked, where they have an attention mask."""
    if isinstance(objects, Tensor) or "attention_mask" not in objects:
        return objects
    mask = objects["attention_mask"].clone()
    mask[0, ..., -1] = 0
    return {**objects, "attention_mask": mask}


def _with_noise(objects: Tensor) -> Tensor:
    # Below 1, and never negative, so that whole numbers that a model reads as categories stay what they are.
    noise = torch.rand(objects.shape, generator=generator(0)).to(objects.device, objects.dtype)
    return objects + noise * (min(1.0, float(objects.max() - objects.min())) or 1.0)


def _with_other_words(objects: Tensor) -> Tensor:
    if not torch.equal(objects, objects[:1].expand_as(objects)):
        return objects
    first = objects[0].long()
    # The same words, since models count on some of them, such as one end of sentence.
    other = first.masked_scatter(first != PADDING, first[first != PADDING].roll(1))
    if torch.equal(other, first):
        other = (first - 1).abs()  # a single word: a neighbour that the vocabulary holds as well
    varied = objects.clone()
    varied[1::2] = other.to(objects.dtype)
    return varied


def explain_failure(model: nn.Module, objects: Objects, error: Exception) -> ConversionError:
    """What to pass instead of an example that the model failed on."""
    hint = _what_it_takes(model, objects, error)
    return ConversionError(f"the model does not take the example as it is ({brief(error)}); {hint}")


def _what_it_takes(model: nn.Module, objects: Objects, error: Exception) -> str:
    if isinstance(error, TypeError | KeyError):
        return "pass a mapping of its arguments' names to tensors where it has several inputs"
    weights = next((parameter.dtype for parameter in model.parameters() if parameter.is_floating_point()), None)
    try:
        with torch.no_grad():
            call(model, map_objects(lambda tensor: tensor.to(weights), objects))
    except FAILURES:
        return "pass a batch of objects, (objects, ...), as the model takes them"
    return f"it takes {weights}: convert the example, and the objects to train on, with .to({weights})"
