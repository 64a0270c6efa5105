"""Eval mode for a block, or in a second view of a module; the module itself does not change."""

import copy
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

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
    if not any(submodule.training for submodule in module.modules()):
        return module
    seen = view(module)
    seen.eval()  # whose own train() may return nothing
    return seen


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
        return copy_modules(module, shared)
    except Exception as error:  # modules of other libraries may raise anything
        raise ConversionError(
            f"{type(module).__name__} cannot be copied ({error}), so it cannot run in eval mode while it is in train "
            "mode; call its eval() first"
        ) from error


def copy_modules(module: Module, memory: dict[int, Any] | None = None) -> Module:
    """A deep copy, also after a pass that left tensors with a history in the module, as weight_norm leaves weights.

    Args:
        memory: what stands in the copy for things in the module, by their identities.
    """
    with _CopiesWithoutHistory():
        return copy.deepcopy(module, memory)


class _CopiesWithoutHistory(TorchFunctionMode):
    """Copies tensors that were computed, which torch refuses, by their values."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is Tensor.__deepcopy__ and not args[0].is_leaf:
            tensor, memory = args
            if id(tensor) not in memory:
                memory[id(tensor)] = tensor.detach().clone()
            return memory[id(tensor)]
        return func(*args, **(kwargs or {}))
