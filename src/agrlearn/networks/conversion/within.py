"""The pieces of a model that somebody else wrote: up to the module after which slots are joined, and from there to T.

The first piece runs the model and stops at the module. The second remembers what had finished before it, and goes on
with the features that it is given.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence
from torch.utils import _pytree as pytree

from agrlearn.errors import ConversionError
from agrlearn.grouping import Objects, count_objects, map_objects
from agrlearn.networks.conversion.scores import Path, class_scores_at
from agrlearn.networks.conversion.tracing import call, tensors_in


class ReachedError(BaseException):
    """Carries features out of a forward pass whose rest is not needed."""

    def __init__(self, features: Any) -> None:
        self.features = features


def stop_here(module: nn.Module, args: Any, output: Any) -> None:
    raise ReachedError(output)


class _Pass(threading.local):
    """This thread's pass through a model; others may be on their way through it as well."""

    t: Tensor | None = None
    """The bottleneck, where the model goes on behind it."""
    joined: Tensor | None = None
    """The features to go on with, until they have been taken."""
    count: int = 1
    """The number of placeholders that the model is run on."""
    calls: Counter["StandIn"] = Counter()  # noqa: RUF012 - every pass sets its own


_PASS = _Pass()


class _InPlaceOf(nn.Module):
    """Stands in for a module, and answers for it where the model asks its parts for more than forward."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self._module = (module,)  # a tuple, so that its parameters are not registered

    @property
    def module(self) -> nn.Module:
        """The module that it stands in for."""
        return self._module[0]

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name.startswith("__") or "_module" not in self.__dict__:  # how it is copied itself
                raise
            return getattr(self.module, name)

    def __getitem__(self, place: Any) -> Any:
        return self.module[place]  # type: ignore[index]  # such as features[0].weight.dtype


class Tap(_InPlaceOf):
    """Stands in for the classifier and hands out what it would have read: the bottleneck T."""

    def __init__(self, classifier: nn.Module) -> None:
        super().__init__(classifier)
        self.stops = True
        """Whether the model goes on behind its classifier, which is then not run."""

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        t = next(tensors_in((args, kwargs)))
        if not self.stops:
            return t
        if not torch.compiler.is_exporting():  # which does not see exceptions
            raise ReachedError(t)
        _PASS.t = t
        return self.module.forward(*args, **kwargs)


@dataclass(frozen=True)
class _Kept:
    """A tensor in what a module gave: the buffer with what it gave for one object."""

    name: str
    grows: tuple[bool, ...]
    """Which of its dimensions grow with the number of objects."""


class StandIn(_InPlaceOf):
    """Stands in for a module that the other piece registers, or for the one after which the slots are joined.

    Args:
        outputs: what its first calls gave for two equal objects, and for three; later calls run the module.
        joins: give the joined features instead.
    """

    def __init__(self, module: nn.Module, outputs: Sequence[tuple[Any, Any]] = (), *, joins: bool = False) -> None:
        super().__init__(module)
        self.joins = joins
        self._outputs = [pytree.tree_map(self._keep, two, three, is_leaf=_is_packed) for two, three in outputs]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        if self.joins:
            joined, _PASS.joined = _PASS.joined, None
            if joined is None:
                raise ConversionError("what is around the join runs a second time")
            return joined
        if _PASS.calls[self] >= len(self._outputs):
            return self.module(*args, **kwargs)
        _PASS.calls[self] += 1
        return pytree.tree_map(self._give, self._outputs[_PASS.calls[self] - 1], is_leaf=_is_packed)

    def _keep(self, two: Any, three: Any) -> Any:
        if not isinstance(two, Tensor):
            return two
        kept = _Kept(
            f"output_{len(self._buffers)}",
            tuple(have != more for have, more in zip(two.shape, three.shape, strict=True)),
        )
        for dim, grows in enumerate(kept.grows):
            if grows:
                two = two.narrow(dim, 0, three.shape[dim] - two.shape[dim])
        self.register_buffer(kept.name, two.detach().clone(), persistent=False)
        return kept

    def _give(self, leaf: Any) -> Any:
        if not isinstance(leaf, _Kept):
            return leaf
        # A copy, since the model may go on to change it in place.
        return self.get_buffer(leaf.name).repeat([_PASS.count if grows else 1 for grows in leaf.grows])


def _is_packed(output: Any) -> bool:
    return isinstance(output, PackedSequence)  # a tuple that does not hold what it is not made for


class WholeModel(nn.Module):
    """Objects, or joined ones, to T: (objects, ...) -> (objects, features)."""

    def __init__(self, model: nn.Module, *, changes_input: bool = False) -> None:
        super().__init__()
        self.model = model
        self.changes_input = changes_input
        """Whether the model works on its input in place, so that it is given a copy."""

    def forward(self, objects: Objects) -> Tensor:
        return run_to_t(self.model, map_objects(Tensor.clone, objects) if self.changes_input else objects)


def run_to_t(model: nn.Module, objects: Objects, groups: int | None = None) -> Tensor:
    """T of the objects, or of as many groups where the model goes on with joined features."""
    try:
        t = call(model, objects)
    except ReachedError as reached:
        t = reached.features
    noted, _PASS.t = _PASS.t, None
    t = t if noted is None else noted
    # squeeze() takes off the dimension of a single object as well.
    return t[None] if t.ndim == 1 and (count_objects(objects) if groups is None else groups) == 1 else t.flatten(1)


_NOT_RUN = (
    "the model did not run the module after which the slots are joined, as when it skips layers at random in training; "
    "turn that off, or join after another module"
)


class FirstPiece(nn.Module):
    """Objects to the features after which they are joined."""

    def __init__(self, model: nn.Module, *, changes_input: bool) -> None:
        super().__init__()
        self.model = model
        self.changes_input = changes_input

    def forward(self, objects: Objects) -> Tensor:
        try:
            call(self.model, map_objects(Tensor.clone, objects) if self.changes_input else objects)
        except ReachedError as reached:
            return reached.features
        raise ConversionError(_NOT_RUN)


class SecondPiece(nn.Module):
    """Joined features to T, or to class scores.

    Args:
        path: where the model returns its class scores; None stops at T.
    """

    def __init__(self, model: nn.Module, placeholder: Objects, path: Path | None = None) -> None:
        super().__init__()
        self.model = model
        self.path = path
        self.counts_objects = False
        """Whether the model goes by the number of objects that it read before the join, as view(batch, -1) does."""
        self._names = () if isinstance(placeholder, Tensor) else tuple(placeholder)
        for name, tensor in [("", placeholder)] if isinstance(placeholder, Tensor) else placeholder.items():
            self.register_buffer(f"placeholder_{name}", tensor[:1].clone(), persistent=False)

    def forward(self, joined: Tensor) -> Tensor:
        before = _PASS.joined, _PASS.count, _PASS.calls
        _PASS.joined, _PASS.count, _PASS.calls = joined, len(joined) if self.counts_objects else 1, Counter()
        try:
            placeholders = self._placeholders(_PASS.count)
            if self.path is None:
                made = run_to_t(self.model, placeholders, len(joined))
            else:
                made = call(self.model, placeholders)
            if _PASS.joined is not None:
                raise ConversionError(_NOT_RUN)
            return made if self.path is None else class_scores_at(self.path, made, len(joined))
        finally:
            _PASS.joined, _PASS.count, _PASS.calls = before

    def _placeholders(self, count: int) -> Objects:
        def repeated(name: str) -> Tensor:
            one = self.get_buffer(f"placeholder_{name}")
            return one.repeat([count] + [1] * (one.ndim - 1))

        return {name: repeated(name) for name in self._names} if self._names else repeated("")

    def memory(self) -> Iterator[Tensor]:
        """What the model is given in place of what it has read and computed before the join."""
        for module in self.modules():
            if isinstance(module, StandIn | SecondPiece):
                yield from module.buffers(recurse=False)


class JoinedInOnePass(_InPlaceOf):
    """Stands in for the module after which the slots are joined, for one object in every slot."""

    def __init__(self, module: nn.Module, join: Callable[[Tensor], Tensor], slots: int) -> None:
        super().__init__(module)
        self.joined, self.join, self.slots = module, join, slots

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        features: Tensor = self.joined(*args, **kwargs)
        return self.join(features.unsqueeze(1).expand(-1, self.slots, *features.shape[1:]))
