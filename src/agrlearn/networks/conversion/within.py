"""A model of somebody else's in two pieces, without touching its forward: up to a module, and from there to T.

The pieces are the same model, run with a `JoinPoint` in the place of the module. The first stops there; the second
lets everything before it see one placeholder object and goes on with the features it is given.
"""

import copy
import threading
from typing import Any

import torch
from torch import Tensor, nn

from agrlearn.errors import ConversionError
from agrlearn.grouping import Objects
from agrlearn.modes import evaluating
from agrlearn.networks.conversion.tracing import call


class ReachedError(BaseException):
    """Carries features out of a forward pass whose rest is not needed."""

    def __init__(self, features: Any) -> None:
        self.features = features


class _Pass(threading.local):
    """What this thread's pass through a model wants at a join point; others may be on their way through it as well."""

    point: "JoinPoint | None" = None
    joined: Tensor | None = None
    """Features to go on with; without them, the pass stops at the point."""


_PASS = _Pass()


class JoinPoint(nn.Module):
    """Stands in for the module after which the slots are joined."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        if _PASS.point is not self:
            return self.inner(*args, **kwargs)
        if _PASS.joined is not None:
            return _PASS.joined
        raise ReachedError(self.inner(*args, **kwargs))

    def __getattr__(self, name: str) -> Any:
        # Models ask their parts for more than forward, such as patch_embed.num_patches.
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("inner"), name)


class Tap(nn.Module):
    """Stands in for the classifier and hands out what it would have read: the bottleneck T."""

    def __init__(self, classifier: nn.Module, *, stops: bool) -> None:
        super().__init__()
        self._classifier = (classifier,)  # a tuple, so that its parameters are not registered
        self.stops = stops
        """Whether the model goes on behind its classifier, which is then not run."""

    def forward(self, t: Tensor) -> Tensor:
        if self.stops:
            raise ReachedError(t)
        return t


class WholeModel(nn.Module):
    """Objects, or joined ones, to T: (objects, ...) -> (objects, features)."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, objects: Objects) -> Tensor:
        try:
            t = call(self.model, objects)
        except ReachedError as reached:
            t = reached.features
        return t.flatten(1)


class FirstPiece(nn.Module):
    """Objects to the features after the join point. It registers no parameters: `SecondPiece` holds the model."""

    def __init__(self, model: nn.Module, point: JoinPoint) -> None:
        super().__init__()
        self._parts = (model, point)  # a tuple, so that the model's parameters are not registered twice

    def forward(self, objects: Objects) -> Tensor:
        model, point = self._parts
        _PASS.point, _PASS.joined = point, None
        try:
            call(model, objects)
        except ReachedError as reached:
            return reached.features
        finally:
            _PASS.point = None
        raise ConversionError("the model no longer runs the module after which the slots are joined")


class SecondPiece(nn.Module):
    """Joined features to T."""

    def __init__(self, model: nn.Module, point: JoinPoint, before: list[nn.Module], placeholder: Objects) -> None:
        super().__init__()
        self.whole = WholeModel(model)
        # Without modules that hold another one which may run later; last first, since they return after their parts.
        done = set(before)
        self._parts = (point, tuple(module for module in reversed(before) if done.issuperset(module.modules())))
        self._names = () if isinstance(placeholder, Tensor) else tuple(placeholder)
        for name, tensor in [("", placeholder)] if isinstance(placeholder, Tensor) else placeholder.items():
            self.register_buffer(f"placeholder_{name}", tensor, persistent=False)

    def forward(self, joined: Tensor) -> Tensor:
        point, before = self._parts
        _PASS.point, _PASS.joined = point, joined
        try:
            # The placeholder must not move running statistics, nor be refused by a normalisation for being alone.
            with evaluating(before):
                return self.whole(self._placeholder())
        finally:
            _PASS.point = _PASS.joined = None

    def ordinary(self, head: nn.Module) -> nn.Module:
        """A copy of the model without the join point, and with the head's weights in its classifier."""
        model = copy.deepcopy(self.whole.model)
        for name, module in list(model.named_modules()):
            if isinstance(module, JoinPoint):
                replace_module(model, name, module.inner)
            elif isinstance(module, Tap):
                [classifier] = copy.deepcopy(module._classifier)
                with torch.no_grad():
                    for old, new in zip(classifier.parameters(), head.parameters(), strict=True):
                        old.copy_(new.view_as(old))
                replace_module(model, name, classifier)
        return model

    def _placeholder(self) -> Objects:
        if self._names:
            return {name: self.get_buffer(f"placeholder_{name}") for name in self._names}
        return self.get_buffer("placeholder_")


def replace_module(model: nn.Module, name: str, new: nn.Module) -> nn.Module:
    """Put `new` where the module called `name` is, through whatever containers; the old module."""
    parent_name, _, child = name.rpartition(".")
    parent = model.get_submodule(parent_name)
    old = parent.get_submodule(child)
    setattr(parent, child, new)  # containers too hold their children as attributes
    return old


def placeholder_of(objects: Objects, count: int = 1) -> Objects:
    """Objects to run the layers before the join on: zeros, or for tokens those of the example."""

    def make(tensor: Tensor) -> Tensor:
        return torch.zeros_like(tensor[:count]) if tensor.is_floating_point() else tensor[:count].clone()

    return make(objects) if isinstance(objects, Tensor) else {name: make(tensor) for name, tensor in objects.items()}
