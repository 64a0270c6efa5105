"""Eval mode for a block, or in a second view of a module; the module itself does not change."""

import copy
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from torch import Tensor, nn

from agrlearn.errors import ConversionError

Module = TypeVar("Module", bound=nn.Module)


@contextmanager
def evaluating(modules: Iterable[nn.Module]) -> Iterator[None]:
    """Put the modules into eval mode within this block, and each back into its own mode afterwards.

    So a frozen normalisation in a network that trains stays frozen. Only for modules that no other thread uses;
    otherwise use `eval_view`.

    Args:
        modules: such as a network's `modules()`, with every module before its submodules.
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
    """The module itself if it is in eval mode, or else a view of it in eval mode; the module does not change.

    >>> layers = nn.Sequential(nn.Linear(2, 2), nn.Dropout())
    >>> view = eval_view(layers)
    >>> view.training, layers.training, view[0].weight is layers[0].weight
    (False, True, True)
    """
    return view(module).eval() if any(submodule.training for submodule in module.modules()) else module


def view(module: Module, replaced: Mapping[Any, Tensor] | None = None) -> Module:
    """Copy the tree of modules, with its modes and attributes, but share the tensors.

    Args:
        replaced: tensors of the module, each with the one that replaces it in the view.
    """
    others = {id(tensor): other for tensor, other in (replaced or {}).items()}
    shared = {}
    for submodule in module.modules():
        for value in (*submodule._parameters.values(), *submodule._buffers.values(), *vars(submodule).values()):
            if isinstance(value, Tensor):
                shared[id(value)] = others.get(id(value), value)
    try:
        return copy.deepcopy(module, shared)
    except Exception as error:  # modules of other libraries may raise anything
        raise ConversionError(
            f"{type(module).__name__} cannot be copied ({error}), so it cannot run in eval mode while it is in train "
            "mode; call its eval() first"
        ) from error
