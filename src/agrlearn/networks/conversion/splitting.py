"""Taking a model apart at a module, without touching its forward, and putting it together again.

Each piece is a copy of the model's containers around the layers that it needs.
"""

import functools
import itertools
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from agrlearn.grouping import Objects, map_objects
from agrlearn.modes import copy_modules
from agrlearn.networks.conversion.examples import at_least
from agrlearn.networks.conversion.scores import Path
from agrlearn.networks.conversion.tracing import FAILURES, Flow, call, calls_around, copied, hooks, tensors_in
from agrlearn.networks.conversion.trial import train_mode
from agrlearn.networks.conversion.within import FirstPiece, SecondPiece, StandIn, Tap, run_to_t, stop_here


def split(
    model: nn.Module, at: nn.Module, placeholder: Objects, *, changes_input: bool
) -> tuple[FirstPiece, SecondPiece]:
    """The model up to `at`, and from there to T."""
    finished, later = _around(model, at, lambda count: run_to_t(model, at_least(placeholder, count)))
    first = _rebuilt(model, {module: StandIn(module) for module in later}, {at, *finished})
    second = _rest(model, at, finished, later)
    at.register_forward_hook(stop_here)
    pieces = FirstPiece(first, changes_input=changes_input), SecondPiece(second, placeholder)
    _take_off_unused(pieces[0], pieces[1], lambda: pieces[0](at_least(placeholder, 2)))
    return pieces


def rest_behind(model: nn.Module, at: nn.Module, made: Tensor, placeholder: Objects, path: Path) -> SecondPiece:
    """The model, which itself stays whole, from what `at` has made to the class scores that it returns at `path`."""
    finished, later = _around(model, at, lambda count: call(model, at_least(placeholder, count)))
    rest = SecondPiece(_rest(model, at, finished, later), placeholder, path)
    if reads_again(rest, made):
        raise ValueError("it reads again there what it computed before")
    usual = _layers_run(rest, later, made)
    containers = {*rest.modules()} - {*model.modules()}
    buffers = [
        (module, name, held.clone()) for module in containers for name, held in module.named_buffers(recurse=False)
    ]
    with train_mode(rest):
        if not _layers_run(rest, later, made) <= usual:
            raise ValueError("it runs other layers in train mode, such as a head of its own")
        if not all(torch.equal(module.get_buffer(name), before) for module, name, before in buffers):
            raise ValueError("it has a buffer that changes in train mode, outside of a layer of its own")
    _take_off_unused(rest, model, lambda: rest(made))
    return rest


_Finished = dict[nn.Module, list[tuple[Any, Any]]]
"""Modules with what each of their calls gave for two and for three objects."""


def _around(model: nn.Module, at: nn.Module, run: Callable[[int], Any]) -> tuple[_Finished, set[nn.Module]]:
    """The modules that have finished before `at`, and those that come later."""
    (of_two, around), (of_three, _) = (calls_around(model, functools.partial(run, count), at) for count in (2, 3))
    finished: _Finished = {}
    for (module, two), (other, three) in zip(of_two, of_three, strict=True):
        if module is not other or at in module.modules():
            raise ValueError("it runs other layers for another number of objects, or a layer that holds itself")
        finished.setdefault(module, []).append((two, three))
    before = {at, *finished, *around}
    # Not those that are only indexed, such as a ParameterList.
    later = {
        module
        for module in model.modules()
        if before.isdisjoint(module.modules()) and type(module).forward is not nn.Module.forward
    }
    return finished, later


@torch.no_grad()
def _layers_run(piece: SecondPiece, layers: set[nn.Module], joined: Tensor) -> set[nn.Module]:
    """Which of the layers run behind the join."""
    ran: set[nn.Module] = set()
    with hooks([layer.register_forward_pre_hook(lambda layer, args: ran.add(layer)) for layer in layers]):
        piece(joined)
    return ran


def _rest(model: nn.Module, at: nn.Module, finished: _Finished, later: set[nn.Module]) -> nn.Module:
    remembered = {module: StandIn(module, outputs) for module, outputs in finished.items()}
    return _rebuilt(model, {**remembered, at: StandIn(at, joins=True)}, later)


@torch.no_grad()
def reads_again(second: SecondPiece, joined: Any) -> bool:
    """Whether the rest depends on anything but the joined features; it is told if the model counts its objects."""
    for counts in (False, True):
        second.counts_objects = counts
        try:
            with Flow(values=True) as flow:
                flow.tag(list(second.memory()))
                made = second(joined)
        except FAILURES:
            if counts:
                raise
        else:
            again = flow.left or flow.touches(made)
            if again or len(made) == len(joined):
                return again
    raise ValueError(f"it makes {len(made)} of {len(joined)} groups")


def _take_off_unused(piece: nn.Module, other: nn.Module, run: Callable[[], Tensor]) -> None:
    """Take parameters that a piece's containers hold, and that only the other piece uses, off this one."""
    both, shared_modules = {*piece.parameters()} & {*other.parameters()}, {*other.modules()}
    held = [
        (module, name, parameter)
        for module in {*piece.modules()} - shared_modules
        for name, parameter in module._parameters.items()
        if parameter in both and parameter is not None and parameter.requires_grad
    ]
    with torch.enable_grad():
        made = run()
    wanted = [parameter for _, _, parameter in held]
    reached = torch.autograd.grad(made.sum(), wanted, allow_unused=True) if wanted and made.requires_grad else ()
    for (module, name, parameter), gradient in itertools.zip_longest(held, reached):
        if gradient is None:
            del module._parameters[name]
            vars(module)[name] = parameter  # where the model's code still finds it


def ordinary_model(second: SecondPiece, head: nn.Module) -> nn.Module:
    """A copy of the whole model with the head's weights in its classifier."""
    model = copied(put_together(second.model, lambda module: module))
    [tap] = [module for module in model.modules() if isinstance(module, Tap)]
    classifier = tap.module  # copied with the model
    with torch.no_grad():
        for old, new in zip(classifier.parameters(), head.parameters(), strict=True):
            old.copy_(new.view_as(old))
    replace_module(model, tap, classifier)
    return let_run(model)


def put_together(model: nn.Module, joined: Callable[[nn.Module], nn.Module]) -> nn.Module:
    """A second piece with the first one's modules in their places, and at the join what `joined` makes of that one."""
    stand_ins = [module for module in model.modules() if isinstance(module, StandIn)]
    kept = {module for module in model.modules() if not any(isinstance(part, StandIn) for part in module.modules())}
    real: dict[nn.Module, nn.Module] = {each: joined(each.module) if each.joins else each.module for each in stand_ins}
    return _rebuilt(model, real, kept)


def _rebuilt(model: nn.Module, replaced: Mapping[nn.Module, nn.Module], kept: set[nn.Module]) -> nn.Module:
    """The model with modules replaced, wherever it holds them: its containers are copied, tensors and others kept."""
    held = (tensor for module in model.modules() for tensor in tensors_in(vars(module)))
    memory: dict[int, Any] = {id(thing): thing for thing in (*held, *kept)}
    return copy_modules(model, memory | {id(old): new for old, new in replaced.items()})


def let_run(model: nn.Module) -> nn.Module:
    """The model without the hook that stops it at the join."""
    for module in model.modules():
        for key in [key for key, hook in module._forward_hooks.items() if hook is stop_here]:
            del module._forward_hooks[key]
    return model


def replace_module(model: nn.Module, old: nn.Module, new: nn.Module) -> None:
    """Put `new` wherever `old` is in the model."""
    for parent in list(model.modules()):
        for name in [name for name, child in parent._modules.items() if child is old]:
            setattr(parent, name, new)  # containers too hold their children as attributes


def placeholder_of(objects: Objects) -> Objects:
    """An object to run the layers before the join on: zeros, or for tokens that of the example."""
    return map_objects(
        lambda tensor: torch.zeros_like(tensor[:1]) if tensor.is_floating_point() else tensor[:1].clone(), objects
    )
