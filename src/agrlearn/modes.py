"""Eval mode for a while, or in a second view of a module; the module itself stays as it is."""

import copy
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from torch import Tensor, nn

from agrlearn.errors import ConversionError

Module = TypeVar("Module", bound=nn.Module)


@contextmanager
def evaluating(modules: Iterable[nn.Module]) -> Iterator[None]:
    """Within this block the modules are in eval mode; afterwards each is in its own mode again.

    A normalisation that its user keeps frozen while the network around it trains stays frozen so. Only for modules
    that no other thread uses at the time; `eval_view` is for all others.

    Args:
        modules: a network's `modules()`, or some others with every module before its own parts.
    """
    modes = [(module, module.training) for module in modules]
    # Through eval() and train(), not by the flag alone: some layers prepare their weights there.
    for module, _ in modes:
        if module.training:
            module.eval()
    try:
        yield
    finally:
        for module, training in modes:
            if module.training != training:
                module.train(training)


def eval_view(module: Module) -> Module:
    """The module in eval mode: itself where it is so already, or else a view of it; its own modes do not change.

    >>> layers = nn.Sequential(nn.Linear(2, 2), nn.Dropout())
    >>> view = eval_view(layers)
    >>> view.training, layers.training, view[0].weight is layers[0].weight
    (False, True, True)
    """
    return view(module).eval() if any(part.training for part in module.modules()) else module


def view(module: Module, replaced: Mapping[Any, Tensor] | None = None) -> Module:
    """A second tree of modules over the same tensors, whose modes and attributes are its own.

    Args:
        replaced: tensors of the module that are others in the view.
    """
    others = {id(tensor): other for tensor, other in (replaced or {}).items()}
    shared = {}
    for part in module.modules():
        for held in (*part._parameters.values(), *part._buffers.values(), *vars(part).values()):
            if isinstance(held, Tensor):
                shared[id(held)] = others.get(id(held), held)
    try:
        return copy.deepcopy(module, shared)
    except Exception as error:  # parts that somebody else wrote may refuse in any way
        raise ConversionError(
            f"{type(module).__name__} cannot be copied ({error}), so it cannot be run in eval mode while it stays in "
            "train mode; call its eval() first"
        ) from error
