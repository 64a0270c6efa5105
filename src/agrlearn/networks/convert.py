"""aggregate(): a classifier that somebody else wrote becomes one that classifies groups."""

import copy
import math
from contextlib import suppress
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from agrlearn.errors import ConversionError, look_up
from agrlearn.grouping import TOKEN_TYPES, Objects, count_objects, group, map_objects, replicate
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.networks.conversion.classifier import take_off_classifier
from agrlearn.networks.conversion.examples import at_least, vary_for
from agrlearn.networks.conversion.joining import Body
from agrlearn.networks.conversion.last_features import ClassHead, LastFeatures, find_class_layer
from agrlearn.networks.conversion.tracing import brief
from agrlearn.networks.conversion.widening import TAKE_OFF, add_slot_noise, widened_weights
from agrlearn.networks.conversion.within import WholeModel
from agrlearn.networks.cost import count_multiply_adds, count_parameters
from agrlearn.networks.joins import JOINS, Join
from agrlearn.seeding import generator


@dataclass(frozen=True)
class Conversion:
    """What `aggregate` changed."""

    fold: int
    join: str
    at: str | None
    """The module after which the slots are joined; None at the input, or before the classifier for max and mean."""
    classifier: str
    left_out: bool
    """Whether the model does something behind its classifier, other than probabilities, that the heads do not."""
    slot_blind: bool
    difference: float
    """The largest change of a logit, relative to the largest one, for one object in every slot before slot noise."""
    widened: tuple[str, ...] = ()
    """Layers that now read all slots."""
    mixer: bool = False
    """Whether a 1×1 layer brings the joined channels back to those of one slot."""
    parameters: tuple[int, int] = (0, 0)
    """Before and after."""
    multiply_adds: tuple[int, int] = (0, 0)
    """Of one object before, and of one group after."""

    def __str__(self) -> str:
        start = f"before {self.classifier}" if self.slot_blind else "at the input"
        where = start if self.at is None else f"after {self.at}"
        changed = "a 1×1 mixer" if self.mixer else ", ".join(self.widened) or "no layer"
        heads = "serves all slots" if self.slot_blind else f"became {self.fold} heads"
        growth = self.multiply_adds[1] / max(1, self.multiply_adds[0])
        parameters, costs = self.parameters, self.multiply_adds
        left_out = f"; what the model does behind {self.classifier} is left out" if self.left_out else ""
        return (
            f"aggregated: {self.fold} objects a pass, joined {where} ({self.join})\n"
            f"  now reading all slots: {changed}; {self.classifier} {heads}{left_out}\n"
            f"  parameters {parameters[0]:,} -> {parameters[1]:,}\n"
            f"  multiply-adds {costs[0]:,} an object -> {costs[1]:,} a group of {self.fold} ({growth:.2f} times)\n"
            f"  slots {'cannot' if self.slot_blind else 'can'} be told apart\n"
            f"  one object in every slot changes its logits by {self.difference:.0e} of the largest, before slot noise"
        )


def aggregate(
    model: nn.Module,
    fold: int,
    example: Objects,
    *,
    at: str | None = None,
    join: str | None = None,
    stem: str | list[str] | None = None,
    classifier: str | None = None,
    slot_noise: float = 0.1,
    widen: bool = False,
    separator: int | None = None,
    slot_embeddings: bool = False,
    noise: float = 0.0,
    seed: int = 0,
    verbose: bool = True,
) -> AggregatedClassifier:
    """Turn a classifier into one that classifies `fold` objects in one pass, keeping its weights.

    The model is copied and left as it was. Its stem (or the layers after `at`) is widened with tiled weights, its
    classifier becomes `fold` heads, and one object in every slot gives what the model gave, up to `slot_noise`.

    Args:
        example: one batch of objects, as the model takes them: a Tensor, or a mapping for models with keywords.
        at: the name of a module to join after; what comes before it runs once per object, for all protocols.
        join: a name in `JOINS`; by default channels for images and series (also where these come last), features for
            vectors, tandem for tokens (int32 or int64). With max or mean and no `at`, the slots are joined at the
            bottleneck.
        stem: the layers that read the input, where they are not found by running the example.
        classifier: the layer that makes the class scores, where it is not found.
        slot_noise: breaks the symmetry of equal slots, in units of each weight's spread. 0 keeps the model's output
            exactly, but equal slots are a saddle point of training.
        widen: give the bottleneck `fold` times its width, as the paper does, by a further feature layer.
        separator: a token to put between sentences.
        slot_embeddings: let words know their slot, for token models.
        noise: see `AggregatedClassifier`.
        seed: of the slot noise and of new weights.
        verbose: print what was changed; `network.conversion` holds it as data.

    >>> model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 6 * 6, 10))
    >>> network = aggregate(model, 2, torch.zeros(2, 3, 8, 8), verbose=False)
    >>> network(torch.zeros(5, 2, 3, 8, 8)).shape
    torch.Size([5, 2, 10])
    """
    if fold < 1:
        raise ConversionError(f"fold is the number of objects in a group and at least 1, got {fold}")
    _check_example(example)
    join = join or _default_join(example, at)
    joined = look_up(JOINS, join, "join")
    draft = _copied(model).eval()
    objects = vary_for(draft, at_least(example, 2))
    if joined.slot_blind and at is None:
        if widen:
            raise ConversionError(f"widen is for joins that keep the slots apart, not for {join}; leave it out")
        network, conversion = _join_last_features(draft, objects, fold, join, classifier, noise)
        for mine, theirs in zip(draft.modules(), model.modules(), strict=True):
            mine.training = theirs.training
    else:
        network, conversion = _join_within(
            draft, objects, fold, join, at, stem=stem, classifier=classifier, slot_noise=slot_noise, widen=widen,
            separator=separator, slot_embeddings=slot_embeddings, noise=noise, seed=seed,
        )  # fmt: skip
        _take_modes(network, model)
    one = map_objects(lambda tensor: tensor[:1], objects)
    network.conversion = replace(
        conversion,
        parameters=(count_parameters(model), count_parameters(network)),
        multiply_adds=(
            count_multiply_adds(model, one) if isinstance(one, Tensor) else count_multiply_adds(model, **one),
            count_multiply_adds(network, replicate(one, fold)),
        ),
    )
    if verbose:
        print(network.conversion)
    return network


def _join_last_features(
    model: nn.Module, objects: Objects, fold: int, join: str, classifier: str | None, noise: float
) -> tuple[AggregatedClassifier, Conversion]:
    """The simple way: the model runs on each object as it is, and the slots are pooled before its class layer."""
    layer = find_class_layer(model, objects, classifier)
    shared = LastFeatures(model, layer)
    network = AggregatedClassifier(
        nn.Identity(), features=math.prod(layer.shape), fold=fold, num_classes=layer.classes, join=join,
        shared=shared, noise=noise,
        head=shared.layer if len(layer.shape) == 1 else ClassHead(shared.layer, layer.shape),
    ).eval()  # fmt: skip
    network.slot_blind = True
    with torch.no_grad():
        answers = network(replicate(objects, fold))
    difference = float((answers - layer.scores[:, None]).abs().max() / layer.scores.abs().max().clamp(min=1.0))
    conversion = Conversion(
        fold=fold, join=join, at=None, classifier=layer.name, left_out=layer.left_out, slot_blind=network.slot_blind,
        difference=difference,
    )  # fmt: skip
    return network.train(), conversion


def _join_within(
    draft: nn.Module, objects: Objects, fold: int, join: str, at: str | None, *, stem: str | list[str] | None,
    classifier: str | None, slot_noise: float, widen: bool, separator: int | None, slot_embeddings: bool, noise: float,
    seed: int,
) -> tuple[AggregatedClassifier, Conversion]:  # fmt: skip
    """The surgical way: the slots are joined at the input or behind a module, and layers are widened to read them."""
    joined = look_up(JOINS, join, "join")
    classifier_layer = take_off_classifier(draft, objects, classifier)
    body = Body(draft, objects, classifier_layer, fold, joined)
    parts = body.joined_at_the_input(stem, separator, slot_embeddings, seed) if at is None else body.joined_after(at)
    network = body.assemble(parts, widen=widen, noise=noise)
    difference = body.difference(network)
    network.slot_blind = _is_slot_blind(network, objects, joined)
    random = generator(seed)
    if fold > 1 and not network.shares_head:
        add_slot_noise([weight for reader in parts.readers for weight in widened_weights(reader)], slot_noise, random)
        add_slot_noise([network.weight], slot_noise, random)
    conversion = Conversion(
        fold=fold, join=join, at=at, widened=tuple(parts.names), mixer=parts.mixer, classifier=classifier_layer.name,
        left_out=classifier_layer.left_out, slot_blind=network.slot_blind, difference=difference,
    )  # fmt: skip
    return network, conversion


def _copied(model: nn.Module) -> nn.Module:
    try:
        return copy.deepcopy(model)
    except (RuntimeError, TypeError) as error:
        raise ConversionError(
            f"the model cannot be copied ({brief(error)}); where its weights are computed, {TAKE_OFF}"
        ) from error


def _take_modes(network: AggregatedClassifier, model: nn.Module) -> None:
    """Put every module into the mode that the model has it in, so that what its user keeps frozen stays so."""
    [whole] = [module for module in network.modules() if isinstance(module, WholeModel)]
    network.train(model.training)
    for name, module in model.named_modules():
        with suppress(AttributeError):  # parts of the classifier, which was taken off
            part = whole.model.get_submodule(name)
            if part.training != module.training:
                part.train(module.training)


def _default_join(objects: Objects, at: str | None) -> str:
    if at is not None:
        return "channels"
    if not isinstance(objects, Tensor) or (objects.ndim == 2 and objects.dtype in TOKEN_TYPES):
        return "tandem"
    return "features" if objects.ndim == 2 else "channels"


@torch.no_grad()
def _is_slot_blind(network: AggregatedClassifier, objects: Objects, join: Join) -> bool:
    """Whether moving a group's objects on by a slot leaves T as it is: never, where layers read the slots apart."""
    if join.slot_blind or join.widens or network.fold == 1:
        return join.slot_blind
    groups = group(at_least(objects, 2 * network.fold), network.fold)
    # Not turned around, as a group of three with two different objects may read the same from both ends.
    moved = map_objects(lambda tensor: tensor.roll(1, dims=1), groups)
    t = network.bottleneck(groups)
    return bool((t - network.bottleneck(moved)).abs().max() <= 1e-6 * t.abs().max())


def _check_example(example: Objects) -> None:
    if isinstance(example, tuple | list):
        raise ConversionError(
            "the example is a tuple; pass a Tensor of objects, or a mapping of argument names to tensors for a model "
            "with several inputs"
        )
    if count_objects(example) == 0:
        raise ConversionError("the example is empty; pass a batch of at least one object")
