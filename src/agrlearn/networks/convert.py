"""aggregate(): a classifier that somebody else wrote becomes one that classifies groups."""

import warnings
from contextlib import suppress
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from agrlearn.errors import ConversionError, look_up
from agrlearn.grouping import TOKEN_TYPES, Objects, count_objects, first_tensor, map_objects, replicate
from agrlearn.modes import evaluating, view
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.networks.conversion.arguments import check_example, check_options, module_name, original_module
from agrlearn.networks.conversion.before_class_layer import join_last_features
from agrlearn.networks.conversion.classifier import take_off_classifier
from agrlearn.networks.conversion.examples import at_least, vary_for
from agrlearn.networks.conversion.influence import is_slot_blind, refuse_unread_slots, slot_influence
from agrlearn.networks.conversion.joining import Body
from agrlearn.networks.conversion.tracing import FAILURES, arguments, copied
from agrlearn.networks.conversion.trial import buffers_kept
from agrlearn.networks.conversion.widening import add_slot_noise, widened_weights
from agrlearn.networks.conversion.within import FirstPiece, SecondPiece, WholeModel
from agrlearn.networks.cost import count_multiply_adds
from agrlearn.networks.joins import JOINS
from agrlearn.seeding import generator, keep_streams

INPUT = "input"
"""What `at` is called before the first layer."""
_MOST_OBJECTS = 8
"""Of the example, to try the slots on."""
_WEAK = 0.01
"""The share of the greatest influence below which a slot is warned of."""


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
    influence: tuple[float, ...] = ()
    """How far each slot moves T, relative to the slot that moves it most; not measured where they are pooled."""
    widened: tuple[str, ...] = ()
    """Layers that now read all slots."""
    mixer: bool = False
    """Whether a 1×1 layer brings the joined channels back to those of one slot."""
    parameters: tuple[int, int] = (0, 0)
    """Before and after."""
    multiply_adds: tuple[int, int] = (0, 0)
    """Of one object before, and of one group after."""

    def __str__(self) -> str:
        pooled = JOINS[self.join].slot_blind
        start = f"before {self.classifier}" if pooled else "at the input"
        where = start if self.at is None else f"after {self.at}"
        changed = "a 1×1 mixer" if self.mixer else ", ".join(self.widened) or "no layer"
        heads = "serves all slots" if pooled else f"became {self.fold} heads"
        growth = self.multiply_adds[1] / max(1, self.multiply_adds[0])
        parameters, costs = self.parameters, self.multiply_adds
        influence = f"; influence on T: {', '.join(f'{each:.2g}' for each in self.influence)}" if self.influence else ""
        left_out = f"; what the model does behind {self.classifier} is left out" if self.left_out else ""
        return (
            f"aggregated: {self.fold} objects a pass, joined {where} ({self.join})\n"
            f"  now reading all slots: {changed}; {self.classifier} {heads}{left_out}\n"
            f"  parameters {parameters[0]:,} -> {parameters[1]:,}\n"
            f"  multiply-adds {costs[0]:,} an object -> {costs[1]:,} a group of {self.fold} ({growth:.2f} times)\n"
            f"  slots {'cannot' if self.slot_blind else 'can'} be told apart{influence}\n"
            f"  one object in every slot changes its logits by {self.difference:.0e} of the largest, before slot noise"
        )


@torch.inference_mode(False)  # where weights could not learn
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

    The model is copied and left as it was. By default, the copy runs on each object as it is, and the slots are
    averaged right before its class layer, which serves them all, as does what follows it: this takes any model whose
    class scores come out of one layer, and `single` gives the model back. With `at`, or another join than max and
    mean, its stem or the layers after `at` are widened with tiled weights, its classifier becomes `fold` heads, and one
    object in every slot gives what the model gave, up to `slot_noise`.

    Args:
        example: one batch of objects, as the model takes them: a Tensor, or a mapping for models with keywords or
            with a dictionary as their argument.
        at: the name of a module to join after; what comes before it runs once per object, for all protocols. "input"
            joins before the first layer.
        join: a name in `JOINS`. By default mean; after a module channels; at the input channels for images and series
            (also where these come last), features for vectors, tandem for tokens (int32 or int64).
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
    check_options(fold, slot_noise, noise, at=at, join=join, stem=stem, classifier=classifier)
    check_example(example)
    model = original_module(model)
    if isinstance(model, AggregatedClassifier):
        raise ConversionError(
            "the network classifies groups already; pass single(network), an ordinary one, to start over"
        )
    at, classifier = module_name(model, at), module_name(model, classifier)
    at_input = at == INPUT and INPUT not in dict(model.named_modules())
    if at_input:
        at, join = None, join or _join_at_input(example)
    join = join or ("mean" if at is None else "channels")
    joined = look_up(JOINS, join, "join")
    if at_input and joined.slot_blind:
        raise ConversionError(f"{join} pools features, not inputs; leave out at= to pool right before the classifier")
    if joined.apart:
        raise ConversionError(f"aggregate cannot join by {join}, which is for the networks of the catalogue; use mean")
    draft = copied(model)
    objects = at_least(example, 2)
    with keep_streams(first_tensor(objects).device):
        if joined.slot_blind and at is None:
            unused = {"widen": widen, "stem": stem, "separator": separator, "slot_embeddings": slot_embeddings}
            for option, value in unused.items():
                if value not in (None, False):
                    raise ConversionError(
                        f"{option} is for joins at the input (at='input') or after a module (at=NAME), not for {join} "
                        "before the classifier; leave it out"
                    )
            with evaluating(draft.modules()), buffers_kept(draft):
                objects = vary_for(draft, objects)
                network, layer, difference = join_last_features(draft, objects, fold, join, classifier, noise)
            conversion = Conversion(
                fold=fold, join=join, at=None, classifier=layer.name or "the model", left_out=layer.left_out,
                slot_blind=True, difference=difference,
            )  # fmt: skip
            for module in {*network.modules()} - {*draft.modules()}:
                module.training = model.training
            _take_modes_by_name(network, model)
        else:
            draft.eval()
            objects = vary_for(draft, at_least(example, min(max(count_objects(example), 2), _MOST_OBJECTS)))
            network, conversion = _join_within(
                draft, objects, fold, join, at, stem=stem, classifier=classifier, slot_noise=slot_noise, widen=widen,
                separator=separator, slot_embeddings=slot_embeddings, noise=noise, seed=seed,
            )  # fmt: skip
            _take_modes(network, model)
        costs = _costs(model, network, objects)
    sizes = [sum(map(Tensor.numel, module.parameters())) for module in (model, network)]
    network.conversion = replace(conversion, parameters=(sizes[0], sizes[1]), multiply_adds=costs)
    _warn_of_weak_slots(conversion.influence)
    if verbose:
        print(network.conversion)
    return network


def _costs(model: nn.Module, network: AggregatedClassifier, objects: Objects) -> tuple[int, int]:
    """Multiply-adds of the model for an object, and of the network for a group."""
    # Views, with buffers of their own: some models change them in every pass.
    seen, grouped = (view(each, {buffer: buffer.clone() for buffer in each.buffers()}) for each in (model, network))

    def count(objects: Objects) -> tuple[int, int]:
        args, kwargs = arguments(model, map_objects(Tensor.clone, objects))
        groups = map_objects(Tensor.clone, replicate(objects, network.fold))
        return count_multiply_adds(seen, *args, **kwargs), count_multiply_adds(grouped, groups)

    try:
        return count(map_objects(lambda tensor: tensor[:1], objects))
    except FAILURES:  # models that compare objects, as by the statistics of a batch, take no single one
        of_two = count(map_objects(lambda tensor: tensor[:2], objects))
        return of_two[0] // 2, of_two[1] // 2


def _join_within(
    draft: nn.Module, several: Objects, fold: int, join: str, at: str | None, *, stem: str | list[str] | None,
    classifier: str | None, slot_noise: float, widen: bool, separator: int | None, slot_embeddings: bool, noise: float,
    seed: int,
) -> tuple[AggregatedClassifier, Conversion]:  # fmt: skip
    """The surgical way: the slots are joined at the input or behind a module, and layers are widened to read them."""
    joined, objects = look_up(JOINS, join, "join"), at_least(several, 2)
    classifier_layer = take_off_classifier(draft, objects, classifier)
    body = Body(draft, objects, classifier_layer, fold, joined)
    parts = body.joined_at_the_input(stem, separator, slot_embeddings, seed) if at is None else body.joined_after(at)
    network = body.assemble(parts, widen=widen, noise=noise)
    difference = body.difference(network)
    random = generator(seed)
    if fold > 1 and not network.shares_head:
        add_slot_noise([weight for reader in parts.readers for weight in widened_weights(reader)], slot_noise, random)
        add_slot_noise([network.weight], slot_noise, random)
    influence: tuple[float, ...] = ()
    network.slot_blind = joined.slot_blind
    if fold > 1 and not joined.slot_blind:
        influence = slot_influence(network, several)
        refuse_unread_slots(network, several, influence)
        network.slot_blind = not joined.widens and is_slot_blind(network, several)
    conversion = Conversion(
        fold=fold, join=join, at=at, widened=tuple(parts.names), mixer=parts.mixer, classifier=classifier_layer.name,
        left_out=classifier_layer.left_out, slot_blind=network.slot_blind, difference=difference, influence=influence,
    )  # fmt: skip
    return network, conversion


def _take_modes(network: AggregatedClassifier, model: nn.Module) -> None:
    """Put every module into the mode that the model has it in, so that what its user keeps frozen stays so."""
    network.train(model.training)
    _take_modes_by_name(network, model)


def _take_modes_by_name(network: AggregatedClassifier, model: nn.Module) -> None:
    for piece in network.modules():
        if isinstance(piece, WholeModel | FirstPiece | SecondPiece):
            for name, module in model.named_modules():
                with suppress(AttributeError):  # parts of the classifier, which was taken off
                    part = piece.model.get_submodule(name)
                    if part.training != module.training:
                        part.train(module.training)


def _warn_of_weak_slots(influence: tuple[float, ...]) -> None:
    weak = [f"slot {slot + 1} moves T by {share:.1g}" for slot, share in enumerate(influence) if share < _WEAK]
    if weak:
        warnings.warn(
            f"{' and '.join(weak)} of what slot {influence.index(1.0) + 1} does, so the network will hardly learn what "
            "stands there, as where a model goes by its first or last word; pass join='max' or 'mean' to join before "
            "the classifier instead",
            stacklevel=3,
        )


def _join_at_input(objects: Objects) -> str:
    if not isinstance(objects, Tensor) and (len(objects) > 1 or "input_ids" in objects):
        return "tandem" if "input_ids" in objects else "channels"
    tensor = first_tensor(objects)
    if tensor.ndim == 2:
        return "tandem" if tensor.dtype in TOKEN_TYPES else "features"
    return "channels"
