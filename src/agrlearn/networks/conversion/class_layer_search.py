"""Finding the layer that makes a model's class scores: by what it makes, and by what follows when that is changed."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from agrlearn.errors import ConversionError, look_up
from agrlearn.grouping import Objects, count_objects, map_objects
from agrlearn.networks.conversion.class_layer import NORMALISATIONS, ClassLayer, Reading, is_linear
from agrlearn.networks.conversion.class_layer_refusals import (
    at_every_position,
    no_class_layer,
    refuse_multi_label,
    single_score,
)  # fmt: skip
from agrlearn.networks.conversion.examples import differ_more, explain_failure
from agrlearn.networks.conversion.recording import Call, record
from agrlearn.networks.conversion.scores import Path, is_end, is_sigmoid, number_positions, read_positions, same
from agrlearn.networks.conversion.tracing import FAILURES, Flow
from agrlearn.networks.conversion.trial import train_mode
from agrlearn.seeding import generator


@dataclass(frozen=True)
class _Match:
    call: Call
    path: Path
    picks: bool = False


def find_class_layer(
    model: nn.Module, objects: Objects, name: str | None = None, *, linear: bool = False
) -> ClassLayer:
    """The layer called `name`, or the one whose output the model's class scores are.

    Args:
        linear: consider only linear layers and 1×1 convolutions, and of these a single one.
    """
    refuse_multi_label(getattr(getattr(model, "config", None), "problem_type", None) == "multi_label_classification")
    layers = {key: module for key, module in model.named_modules() if _has_weights(module, linear)}
    if len(layers) > 1 or linear:
        layers.pop("", None)  # unless the model is a class layer and nothing else
    if name is not None:
        kind = "linear layer of the model" if linear else "layer of the model with weights"
        layers = {name: look_up(layers, name, kind)}
    search = Search(model, objects, layers, named=name is not None)
    found = search.class_layers()
    if len(found) > 1 and name is None:
        names = " and ".join(dict.fromkeys(match.call.name for match in found))
        raise ConversionError(
            f"{names} could each make the model's class scores; name the one to keep with classifier="
        )
    if found:
        return search.with_what_follows(found[-1], linear=linear)
    if name is not None:
        return search.named(name)
    unusual = None if linear else search.added() or search.followed_by_more()
    if unusual is None:
        raise no_class_layer(search, linear=linear)
    return unusual


class Search:
    """A model, what its layers made of the example, and what it returned."""

    def __init__(self, model: nn.Module, objects: Objects, layers: dict[str, nn.Module], *, named: bool) -> None:
        self.model, self.objects, self.layers, self.named_one = model, objects, layers, named
        self.count = count_objects(objects)
        try:
            seen = record(model, objects, layers)
        except FAILURES as error:
            raise explain_failure(model, objects, error) from error
        self.entries, self.calls, self.ran, self.returned = seen.entries, seen.calls, seen.ran, seen.returned
        self.reads_again: set[Path] = set()
        """Class scores that the model changes by what it reads of each object, behind the layer that makes them."""
        self.scores = {path: entry.detach() for path, entry in self.entries.items() if entry.shape[1] > 1}
        self.makes_one_score = bool(self.entries) and not self.scores

    def class_layers(self) -> list[_Match]:
        """The layers that class scores among the outputs come from, each without the containers that hold it."""
        found: list[_Match] = []
        later = {}  # outputs of the model that are made of what a match has made
        matches = [match for made in self.calls for match in self._matches(made)]
        for match in sorted(matches, key=lambda match: -match.call.name.count(".")):
            name = match.call.name
            if not any(other.call.name.startswith(f"{name}.") and other.path == match.path for other in found):
                changed = self._follow(match)
                if changed is not None:
                    found.append(match)
                    later[id(match)] = changed
        # An embedding that is returned beside the class scores is made before them: they change with it.
        ends = [match for match in found if not later[id(match)]]
        known = {match.path for match in found}
        others = [
            path for path in self.scores if path not in known and not any(self._is_read(path, end) for end in ends)
        ]
        if found and (others or not ends) and not self.named_one:
            names = " and ".join(dict.fromkeys(match.call.name for match in found))
            raise ConversionError(
                f"the model returns what {names} made, and beside it something else that may be its class scores; name "
                "the layer that makes them with classifier="
            )
        ends.sort(key=lambda match: self.calls.index(match.call))
        return list({match.call.name: match for match in ends if not self._only_changes_scores(match.call)}.values())

    def _matches(self, made: Call) -> Iterator[_Match]:
        for path, scores in self.scores.items():
            if made.flat.shape == scores.shape:
                if is_end(made.flat, scores) or is_sigmoid(made.flat, scores):
                    yield _Match(made, path)
            elif made.made.ndim == 3 and made.made.shape[2] == scores.shape[1] and self.ran[made.name] == 1:
                near = (made.made - scores[:, None]).abs().amax(dim=2).amin(dim=1)
                if bool((near <= 1e-6 * made.made.abs().amax().clamp(min=1)).all()):
                    yield _Match(made, path, picks=True)

    def _follow(self, match: _Match) -> list[Path] | None:
        """Other outputs that change with what the layer makes; None if the class scores are not what it makes.

        Values alone may agree by chance, as where weights start at zero; and a factor that starts at one is seen
        by its gradient.
        """
        made, other = match.call.made, _another(match.call)
        try:
            with Flow(values=True) as flow:
                flow.tag(self.objects if isinstance(self.objects, Tensor) else dict(self.objects))
                changed = record(self.model, self.objects, self.layers, {match.call.key: other})
            picked = self._picked(match) if match.picks else None
        except FAILURES:
            return None
        scores = changed.entries.get(match.path)
        if scores is None or scores.requires_grad or (match.picks and picked is None):
            return None
        follows = other.flatten(1) if picked is None else other[torch.arange(self.count, device=made.device), picked]
        ends = is_end(follows, scores)
        refuse_multi_label((ends and changed.sigmoid) or is_sigmoid(follows, scores))
        if not ends:
            return None
        if picked is None and flow.touches(scores):
            self.reads_again.add(match.path)
        return [
            path
            for path, entry in changed.entries.items()
            if path in self.scores and not same(entry, self.scores[path]) and not is_end(follows, entry)
        ]

    def with_what_follows(self, match: _Match, *, linear: bool) -> ClassLayer:
        """A class layer, with what the model does behind it in train mode alone."""
        name, found = match.call.name, self.describe(match, left_out=False)
        again = match.path in self.reads_again
        if not again and self._ends_in_training(match):
            return found
        if self.named_one:
            return replace(found, left_out=True)
        what = "by what it reads of each object, as by a mask of classes" if again else "in train mode"
        if again or linear or not same(found.scores, self.scores[match.path]):
            raise ConversionError(
                f"the model changes the class scores of {name} {what}, which heads for groups cannot do; take that out "
                f"of the model, or pass classifier={name!r} to leave it out"
            )
        return replace(found, made=match.call.made)

    def _ends_in_training(self, match: _Match) -> bool:
        """Whether the model returns what the layer makes in train mode too, as far as that can be seen."""
        other = _another(match.call)
        try:
            with train_mode(self.model):
                seen = record(self.model, self.objects, self.layers, {match.call.key: other})
        except FAILURES:
            return True
        scores, name = seen.entries.get(match.path), match.call.name
        if scores is None or match.picks or seen.ran.get(name) != self.ran[name]:
            return True
        return is_end(other.flatten(1), scores.detach())

    def _picked(self, match: _Match) -> Tensor | None:
        """The position that the model picks of each object."""
        made = match.call.made
        numbered = record(self.model, self.objects, self.layers, {match.call.key: number_positions(made)})
        scores = numbered.entries.get(match.path)
        picked = None if scores is None else read_positions(scores)
        return picked if picked is not None and bool(((picked >= 0) & (picked < made.shape[1])).all()) else None

    def _is_read(self, path: Path, end: _Match) -> bool:
        """Whether an output is on the way to the class scores, as features that are returned beside them."""
        before, scores = self.entries[path], self.entries[end.path]
        if same(before, end.call.read_flat):
            return True
        if not (before.requires_grad and scores.requires_grad):
            return False
        [gradient] = torch.autograd.grad(scores.sum(), before, retain_graph=True, allow_unused=True)
        return gradient is not None

    def _only_changes_scores(self, made: Call) -> bool:
        """Whether a layer works on scores that another has made, as a normalisation or a learned temperature does."""
        layer = self.layers[made.name]
        if is_linear(layer) or self.named_one:
            return False
        before = (other.flat for other in self.calls if other.name != made.name and other.flat.shape == made.flat.shape)
        return isinstance(layer, NORMALISATIONS) or any(torch.equal(flat, made.read_flat) for flat in before)

    def named(self, name: str) -> ClassLayer:
        """The layer that the user names, though the model's scores are not its output."""
        made = next((made for made in reversed(self.calls) if made.flat.shape[1] == max(made.made.shape[1:])), None)
        if made is None and self.calls:
            raise at_every_position(self.calls[-1])
        if made is None:
            ran = "does not run" if self.ran.get(name, 0) == 0 else "reads or makes no single Tensor with objects first"
            raise ConversionError(f"{name} {ran} in a pass of the example; name another layer with classifier=")
        widths = [scores.shape[1] for scores in self.scores.values()]
        if widths and made.flat.shape[1] not in (1, *widths):
            raise ConversionError(
                f"{name} makes {made.flat.shape[1]} numbers of an object, but the model returns {widths[0]} class "
                "scores; name the layer that makes these with classifier="
            )
        return self.describe(_Match(made, ()), left_out=bool(self.scores))

    def describe(self, match: _Match, *, left_out: bool) -> ClassLayer:
        made = match.call
        scores = self.scores[match.path] if match.picks else made.flat
        if scores.shape[1] < 2:
            raise single_score(made.name)
        distributes = bool((scores >= 0).all()) and torch.allclose(scores.sum(dim=1), torch.ones_like(scores[:, 0]))
        if distributes:
            raise ConversionError(
                f"{made.name} makes probabilities, but heads are trained on scores before the softmax; take the "
                f"softmax out of {made.name}"
            )
        return ClassLayer(
            (self._reading(made, picks=match.picks),), scores, match.path, picks=match.picks, left_out=left_out
        )

    def _reading(self, made: Call, *, picks: bool = False) -> Reading:
        if not (made.read.is_floating_point() or made.read.is_complex()):
            raise ConversionError(
                f"{made.name or 'the model'} makes the class scores of whole numbers, which have no mean; let a layer "
                "embed and pool them, and another one make the class scores"
            )
        if made.name == "" and not self._is_affine():
            raise ConversionError(
                "the model has no layers that can be watched, since its weights are parameters of its own or its parts "
                "are scripted or quantized; let a layer, such as nn.Linear, make the class scores"
            )
        calls = self.ran[made.name]
        place = -1 if made.place == calls - 1 else made.place
        return Reading(made.name, tuple(made.read.shape[2 if picks else 1 :]), place, calls, made.keyword)

    def _is_affine(self) -> bool:
        """Whether a model that is one layer makes the mean of objects into the mean of their scores."""
        far = differ_more(self.objects, 2)
        means = map_objects(lambda tensor: (tensor + tensor.flip(0)) / 2, far)
        made, of_means = (record(self.model, objects, self.layers).calls[0].flat for objects in (far, means))
        return same(of_means, (made + made.flip(0)) / 2)

    def added(self) -> ClassLayer | None:
        """The linear layers whose sum or mean the class scores are, as with a wide layer beside a deep one."""
        for path, scores in self.scores.items():
            made = [
                call
                for call in self.calls
                if is_linear(self.layers[call.name]) and self.ran[call.name] == 1 and call.flat.shape == scores.shape
            ]
            for share in (1.0, 1 / max(1, len(made))):
                if len(made) > 1 and self._is_sum(made, share, path):
                    total = share * torch.stack([call.flat for call in made]).sum(dim=0)
                    return ClassLayer(tuple(map(self._reading, made)), total, path, share=share)
        return None

    def _is_sum(self, made: list[Call], share: float, path: Path) -> bool:
        """Whether the class scores are this share of the sum of what these made, also when they make something else."""
        if not is_end(share * torch.stack([call.flat for call in made]).sum(dim=0), self.scores[path]):
            return False
        random = generator(1)
        others = {call.key: torch.randn(call.made.shape, generator=random).to(call.made) for call in made}
        try:
            changed = record(self.model, self.objects, self.layers, others).entries.get(path)
        except FAILURES:
            return False
        total = share * torch.stack([other.flatten(1) for other in others.values()]).sum(dim=0)
        # Weights of the heads that learn, and start alike, are seen by their gradient.
        return changed is not None and not changed.requires_grad and is_end(total, changed)

    def followed_by_more(self) -> ClassLayer | None:
        """The last layer that makes all that the class scores are made of, as where a factor or a pooling follows."""
        if len(self.scores) != 1:
            return None
        [(path, scores)] = self.scores.items()
        made = [
            call
            for call in self.calls
            if call.made.shape[1] == scores.shape[1]
            and self.ran[call.name] == 1
            and not self._only_changes_scores(call)
        ]
        for call in reversed(made):
            holds_another = any(other.name.startswith(f"{call.name}.") for other in made)
            if not holds_another and self._is_all_there_is(call, path):
                return ClassLayer((self._reading(call),), scores, path, made=call.made)
        return None

    def _is_all_there_is(self, made: Call, path: Path) -> bool:
        """Whether the class scores follow what a layer makes, and nothing else that the model computes of objects."""
        other = _another(made, 100)
        flipped = map_objects(lambda tensor: tensor.flip(0), self.objects)
        try:
            changed, again = (
                record(self.model, objects, self.layers, {made.key: other}).entries.get(path)
                for objects in (self.objects, flipped)
            )
        except FAILURES:
            return False
        if changed is None or again is None or not same(changed, again):
            return False
        # So far apart, scores are only within these limits if they are probabilities.
        return not bool(((changed >= 0) & (changed <= 1)).all()) and not same(changed, self.scores[path])


def _another(made: Call, scale: float = 1) -> Tensor:
    """Something else for a call to give."""
    return (scale * torch.randn(made.made.shape, generator=generator(1))).to(made.made.device, made.made.dtype)


def _has_weights(module: nn.Module, linear: bool) -> bool:
    if isinstance(module, torch.jit.ScriptModule):
        return False
    return is_linear(module) if linear else next(module.parameters(), None) is not None
