"""Seeing how tensors flow through a model that somebody else wrote, by running it once."""

import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import is_parametrized
from torch.optim.swa_utils import AveragedModel
from torch.overrides import TorchFunctionMode

from agrlearn.errors import ConversionError
from agrlearn.grouping import Objects
from agrlearn.modes import copy_modules

FAILURES = (RuntimeError, ValueError, IndexError, KeyError, TypeError, AttributeError, AssertionError)
"""What models raise at shapes and types they do not expect."""

TAKE_OFF = (
    "take that off first, with remove_weight_norm, remove_spectral_norm, prune.remove or "
    "parametrize.remove_parametrizations of torch.nn.utils"
)
"""What to do about weights that are computed from others, to end a message."""

_INTO_PYTHON = ("tolist", "item", "numpy", "__int__", "__index__", "__float__")
_WRAPPERS = (nn.DataParallel, nn.parallel.DistributedDataParallel, AveragedModel)
_OPAQUE = (nn.RNNBase, nn.MultiheadAttention)
_CHANNELWISE = (nn.modules.batchnorm._BatchNorm,)


@dataclass(frozen=True)
class Consumer:
    """A weighted layer that reads the traced tensor, directly or through operations without weights."""

    name: str
    layer: nn.Module
    uses: int


def call(model: nn.Module, objects: Objects) -> Any:
    """Run a model on a batch."""
    args, kwargs = arguments(model, objects)
    return model(*args, **kwargs)


def arguments(model: nn.Module, objects: Objects) -> tuple[tuple, dict[str, Tensor]]:
    """How a model takes a batch: as its argument, or a mapping as keywords where its forward has such."""
    if isinstance(objects, Tensor):
        return (objects,), {}
    inner = model.module if isinstance(model, _WRAPPERS) else model
    try:
        inspect.signature(inner.forward).bind(**objects)
    except TypeError:  # as in forward(self, batch: dict)
        return (dict(objects),), {}
    return (), dict(objects)


def brief(error: BaseException) -> str:
    """The first line of a failure, to quote in a sentence."""
    return str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__


Run = Callable[[], Any]
"""Runs a model once on some objects."""


def find_consumers(model: nn.Module, run: Run, source: Objects | nn.Module) -> list[Consumer]:
    """The weighted layers that read `source`, the model's input or a module's output, in order of use."""
    flow = Flow()
    handles = []
    uses: dict[str, int] = {}
    units = {name: module for name, module in model.named_modules() if is_weighted_unit(module)}

    def enter(name: str) -> Callable[..., None]:
        def hook(module: nn.Module, args: tuple, kwargs: dict) -> None:
            if flow.inside == 0 and flow.touches((args, kwargs)):
                uses[name] = uses.get(name, 0) + 1
            flow.inside += 1

        return hook

    def leave(name: str) -> Callable[..., None]:
        def hook(module: nn.Module, args: tuple, kwargs: dict, output: Any) -> None:
            flow.inside -= 1
            # Channel by channel, a normalisation can be widened along with its input: what it makes is read next.
            if name in uses and flow.inside == 0 and isinstance(module, _CHANNELWISE):
                flow.tag(output)

        return hook

    for name, unit in units.items():
        handles.append(unit.register_forward_pre_hook(enter(name), with_kwargs=True))
        handles.append(unit.register_forward_hook(leave(name), with_kwargs=True))
    if isinstance(source, nn.Module):
        handles.append(source.register_forward_hook(lambda module, args, output: flow.tag(output)))
    else:
        flow.tag(dict(source) if not isinstance(source, Tensor) else source)
    with torch.no_grad(), hooks(handles), flow:
        run()
    return [Consumer(name, units[name], count) for name, count in uses.items()]


def calls_around(model: nn.Module, run: Run, point: nn.Module) -> tuple[list[tuple[nn.Module, Any]], list[nn.Module]]:
    """The modules that returned before `point` was entered, with their outputs, and those that `point` runs within.

    Of modules that ran within one another, the outer one alone.
    """
    finished: list[tuple[nn.Module, Any]] = []
    stack: list[tuple[nn.Module, int]] = []
    reached = False

    def enter(module: nn.Module, args: Any) -> None:
        nonlocal reached
        reached = reached or module is point
        if not reached:
            stack.append((module, len(finished)))

    def leave(module: nn.Module, args: Any, output: Any) -> None:
        if not reached:
            _, start = stack.pop()
            finished[start:] = [(module, output)]

    handles = [module.register_forward_pre_hook(enter) for module in model.modules()]
    handles += [module.register_forward_hook(leave) for module in model.modules()]
    with torch.no_grad(), hooks(handles):
        run()
    return finished, [module for module, _ in stack]


def outputs_before(model: nn.Module, run: Run, module: nn.Module, name: str) -> list[tuple[nn.Module, Any]]:
    """The weighted layers that ran up to `module`, in that order, and in the end `module`, each with its output."""
    calls: list[tuple[nn.Module, Any]] = []
    ran: list[int] = []

    def note(layer: nn.Module, args: Any, output: Any) -> None:
        # A copy, since the model may go on to change it in place.
        calls.append((layer, output.clone() if isinstance(output, Tensor) else output))
        if layer is module:
            ran.append(len(calls))

    layers = {module, *(unit for unit in model.modules() if is_weighted_unit(unit))}
    with torch.no_grad(), hooks([layer.register_forward_hook(note) for layer in layers]):
        run()
    if len(ran) != 1:
        raise ConversionError(f"{name} runs {len(ran)} times in a pass; choose a module that runs once to join after")
    return calls[: ran[0]]


def is_weighted_unit(module: nn.Module) -> bool:
    """Whether a module works on its input with parameters of its own, and its parts, such as padding, have none."""
    if isinstance(module, _OPAQUE) or is_parametrized(module):
        return True
    own = next(module.parameters(recurse=False), None)
    return own is not None and all(next(child.parameters(), None) is None for child in module.children())


class Flow(TorchFunctionMode):
    """Follows tagged tensors through operations outside of weighted layers.

    Args:
        values: follow only what is computed from their values, not what merely has their shape or type.
    """

    def __init__(self, *, values: bool = False) -> None:
        super().__init__()
        self.inside = 0
        self.values = values
        self.left = False
        """Whether values were read into Python, where nothing can be followed."""
        self._tagged: dict[int, Tensor] = {}  # the tensors themselves too, lest an identity be used again

    def tag(self, things: Any) -> None:
        for tensor in tensors_in(things):
            self._tagged[id(tensor)] = tensor

    def touches(self, things: Any) -> bool:
        return any(id(tensor) in self._tagged for tensor in tensors_in(things))

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = getattr(func, "__name__", "")
        read: Any = (args, kwargs)
        if self.values and name.endswith(("_as", "to")):
            read = args[:1]
        elif self.values and (name.endswith("_like") or name.startswith("new_")):
            read = ()
        if self.inside == 0 and self.touches(read):
            self.left |= self.values and name in _INTO_PYTHON
            self.tag(args[0] if name == "__setitem__" else result)
        return result


def tensors_in(things: Any) -> Iterator[Tensor]:
    """The tensors in what models take and give: alone, or in lists, tuples and dictionaries."""
    if isinstance(things, Tensor):
        yield things
    elif isinstance(things, dict):
        for thing in things.values():
            yield from tensors_in(thing)
    elif isinstance(things, list | tuple):
        for thing in things:
            yield from tensors_in(thing)


def copied(model: nn.Module) -> nn.Module:
    """A copy of the model, also after a pass that left tensors with a history in it, as weight_norm leaves weights."""
    try:
        return copy_modules(model)
    except Exception as error:  # the model's own code may raise anything
        raise ConversionError(
            f"the model cannot be copied ({type(error).__name__}: {error}); take off what copy.deepcopy does not copy, "
            "such as a lock or an open file"
        ) from error


@contextmanager
def hooks(handles: Iterable[Any]) -> Iterator[None]:
    """Take the hooks off after this block."""
    kept = list(handles)
    try:
        yield
    finally:
        for handle in kept:
            handle.remove()
