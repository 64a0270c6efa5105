"""Class scores in what a model returns: where they are, what became of a layer's output, and which position it was."""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import torch
from torch import Tensor

from agrlearn.errors import ConversionError

Path = tuple[str | int, ...]
"""Where a tensor is in what a model returns."""

_BASE = 256  # bfloat16 still counts this far


def class_scores_in(output: Any, count: int, path: Path = ()) -> Iterator[tuple[Path, Tensor]]:
    """What may be class scores in a model's output, as (objects, classes): its logits, or all that have that shape."""
    if isinstance(output, Tensor):
        if output.is_floating_point() and output.shape[:1] == (count,):
            flat = output if output.ndim == 2 else output.reshape(count, -1)
            if flat.shape[1] == max(output.shape[1:], default=1):
                yield path, flat
        return
    if isinstance(output, Mapping):
        held: dict[Any, Any] = dict(output)
    elif hasattr(output, "logits"):
        held = {"logits": output.logits}
    elif is_dataclass(output):
        held = {field.name: getattr(output, field.name) for field in fields(output)}
    else:
        held = dict(enumerate(output)) if isinstance(output, tuple | list) else {}
    if "logits" in held:
        held = {"logits": held["logits"]}
    for key, value in held.items():
        yield from class_scores_in(value, count, (*path, key))


def class_scores_at(path: Path, output: Any, count: int) -> Tensor:
    """The class scores in a model's output, where they were for the example."""
    found = dict(class_scores_in(output, count)).get(path)
    if found is None:
        raise ConversionError(
            f"the model returns {type(output).__name__} here, without the class scores that it returned for the "
            "example; let it return the same in train and eval mode"
        )
    return found


def is_end(made: Tensor, scores: Tensor) -> bool:
    """Whether a model ends in what a layer made: in it as it is, or in its softmax or log-softmax."""
    return any(same(end, scores) for end in (made, made.double().softmax(dim=1), made.double().log_softmax(dim=1)))


def is_sigmoid(made: Tensor, scores: Tensor) -> bool:
    """Whether a model ends in the sigmoid of what a layer made."""
    return same(made.double().sigmoid(), scores)


def same(made: Tensor, scores: Tensor) -> bool:
    """Whether two tensors are equal up to a few roundings."""
    close = max(1e-6, *(8 * torch.finfo(tensor.dtype).eps for tensor in (made, scores)))
    return made.shape == scores.shape and torch.allclose(made.double(), scores.double(), rtol=close, atol=close)


def number_positions(made: Tensor) -> Tensor:
    """Scores whose first two tell their position: (objects, positions, classes)."""
    positions = torch.arange(made.shape[1], device=made.device)
    numbers = torch.zeros(made.shape, dtype=torch.float32, device=made.device)
    numbers[:, :, 0], numbers[:, :, 1] = positions // _BASE, positions % _BASE
    return numbers


def read_positions(scores: Tensor) -> Tensor:
    """The positions whose numbers a model has picked: (objects, classes) -> (objects,)."""
    return (scores[:, 0].float() * _BASE + scores[:, 1].float()).round().long()
