"""Taking a model apart at a module, without touching its forward, and putting it together again.

Each piece is a copy of the model's containers around the layers that it needs.
"""

import copy
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from agrlearn.grouping import Objects, map_objects
from agrlearn.networks.conversion.examples import at_least
from agrlearn.networks.conversion.tracing import calls_around, copied, tensors_in
from agrlearn.networks.conversion.within import FirstPiece, SecondPiece, StandIn, Tap, run_to_t, stop_here


def split(
    model: nn.Module, at: nn.Module, placeholder: Objects, *, changes_input: bool
) -> tuple[FirstPiece, SecondPiece]:
    """The model up to `at`, and from there to T."""

    def calls(count: int) -> tuple[list[tuple[nn.Module, Any]], list[nn.Module]]:
        return calls_around(model, lambda: run_to_t(model, at_least(placeholder, count)), at)

    (of_two, around), (of_three, _) = calls(2), calls(3)
    finished: dict[nn.Module, list] = {}
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
    first = _rebuilt(model, {module: StandIn(module) for module in later}, {at, *finished})
    remembered = {module: StandIn(module, outputs) for module, outputs in finished.items()}
    second = _rebuilt(model, {**remembered, at: StandIn(at, joins=True)}, later)
    at.register_forward_hook(stop_here)
    pieces = FirstPiece(first, changes_input=changes_input), SecondPiece(second, placeholder)
    _leave_to_the_second(*pieces, placeholder)
    return pieces


def _leave_to_the_second(first: FirstPiece, second: SecondPiece, placeholder: Objects) -> None:
    """Take parameters that the containers hold, and that only the second piece uses, off the first."""
    both, shared_modules = {*first.parameters()} & {*second.parameters()}, {*second.modules()}
    held = [
        (module, name, parameter)
        for module in {*first.modules()} - shared_modules
        for name, parameter in module._parameters.items()
        if parameter in both and parameter is not None and parameter.requires_grad
    ]
    with torch.enable_grad():
        features = first(at_least(placeholder, 2))
    wanted = [parameter for _, _, parameter in held]
    reached = (
        torch.autograd.grad(features.sum(), wanted, allow_unused=True) if wanted and features.requires_grad else ()
    )
    for (module, name, parameter), gradient in zip(held, reached, strict=False):
        if gradient is None:
            del module._parameters[name]
            vars(module)[name] = parameter  # where the model's code still finds it


def ordinary_model(second: SecondPiece, head: nn.Module) -> nn.Module:
    """A copy of the whole model with the head's weights in its classifier."""
    model = copied(put_together(second.model, lambda module: module))
    [tap] = [module for module in model.modules() if isinstance(module, Tap)]
    [classifier] = tap._classifier  # copied with the model
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
    return copy.deepcopy(model, memory | {id(old): new for old, new in replaced.items()})


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
