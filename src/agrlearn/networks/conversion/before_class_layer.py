"""Pooling the slots right before a model's class layer: the network, tried on one object in every slot."""

import math

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import CheckpointError

from agrlearn.errors import ConversionError
from agrlearn.grouping import Objects, replicate
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.networks.conversion.class_layer import ClassLayer, is_linear
from agrlearn.networks.conversion.class_layer_search import find_class_layer
from agrlearn.networks.conversion.last_features import ClassHead, LastFeatures, changes_input
from agrlearn.networks.conversion.splitting import placeholder_of, rest_behind
from agrlearn.networks.conversion.tracing import FAILURES, brief
from agrlearn.networks.conversion.trial import trained_names
from agrlearn.networks.conversion.within import SecondPiece
from agrlearn.seeding import seeded

_LARGEST_SCORE = 1e4


def join_last_features(
    model: nn.Module, objects: Objects, fold: int, join: str, classifier: str | None, noise: float
) -> tuple[AggregatedClassifier, ClassLayer, float]:
    """The simple way: the model runs on each object as it is, and the slots are pooled before its class layer.

    Returns:
        The network, the class layer, and how far it is from the model for one object in every slot.
    """
    layer = find_class_layer(model, objects, classifier)
    shared = LastFeatures(model, layer)
    shared.changes_input = changes_input(model, objects)
    first, readings = shared.layers()[0], layer.readings
    if layer.made is not None:
        shared.rest = _rest_of(model, first, layer, layer.made, objects)
    plain = len(readings) == len(readings[0].shape) == 1 and is_linear(first) and readings[0].keyword is None
    network = AggregatedClassifier(
        nn.Identity(), features=sum(math.prod(reading.shape) for reading in readings), fold=fold,
        num_classes=layer.scores.shape[1], join=join, shared=shared, noise=noise,
        head=first if plain and shared.rest is None else ClassHead(shared),
    ).eval()  # fmt: skip
    network.slot_blind = True
    try:
        # Under the seed of the search, for dropout that is always on.
        with torch.no_grad(), seeded(0, layer.scores.device):
            answers = network.heads(network.bottleneck_from(replicate(shared(objects), fold)))
    except FAILURES as error:
        todo = "name the layer that makes the class scores with classifier=, or pass at= to join elsewhere"
        if "same dtype" in str(error):
            todo = "take torch.autocast out of the model's forward, and turn it on around the training step"
        raise ConversionError(f"{layer.name} cannot run on joined features alone ({brief(error)}); {todo}") from error
    if shared.rest is not None:
        _try_training(network, objects, layer.name)
    difference = difference_of(answers, layer.scores)
    if not difference <= max(1e-4, 4 * torch.finfo(layer.scores.dtype).eps):
        raise ConversionError(
            f"{layer.name} makes other scores ({difference:.2g} of the largest) of the same features when it runs "
            "again, as when it draws random numbers or reads more than one tensor; name the layer behind that with "
            "classifier=, or pass at= to join elsewhere"
        )
    return network, layer, difference


def difference_of(answers: Tensor, scores: Tensor) -> float:
    """The largest change of a score, relative to the largest of those that are no mask, such as -1e9 or -inf."""
    scores, is_mask = scores[:, None].expand_as(answers), scores[:, None].abs() > _LARGEST_SCORE
    largest = scores.abs().masked_fill(is_mask, 0).max().clamp(min=1.0)
    changes = (answers - scores).abs() / torch.where(is_mask, scores.abs(), largest)
    return float(changes.masked_fill(answers == scores, 0).max())


def _try_training(network: AggregatedClassifier, objects: Objects, name: str) -> None:
    """Refuse a network that cannot go on behind the class layer in a step of training."""
    try:
        trained_names(network, lambda: network(replicate(objects, network.fold)))
    except (ConversionError, CheckpointError) as error:
        raise ConversionError(
            f"the model cannot go on behind {name} in training ({brief(error)}), as where a checkpoint is around both; "
            f"take that off, or pass classifier={name!r} to leave out what follows"
        ) from error
    except FAILURES:  # at so few objects, which prove nothing
        pass


def _rest_of(model: nn.Module, at: nn.Module, layer: ClassLayer, made: Tensor, objects: Objects) -> SecondPiece:
    """What the model does behind its class layer."""
    try:
        return rest_behind(model, at, made, placeholder_of(objects), layer.path)
    except FAILURES as error:
        raise ConversionError(
            f"the model cannot go on behind {layer.name} with joined features ({brief(error)}); put what it does there "
            f"into the layer, as a factor into its weights, or pass classifier={layer.name!r} to leave it out"
        ) from error
