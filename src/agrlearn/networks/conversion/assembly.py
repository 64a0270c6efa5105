"""The pieces of an aggregated network, put together with the classifier's weights in its heads."""

from dataclasses import dataclass

import torch
from torch import nn

from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.networks.conversion.classifier import Classifier
from agrlearn.networks.conversion.widening import WidenedBottleneck
from agrlearn.networks.joins import Join


@dataclass(frozen=True)
class Parts:
    """The three pieces of an aggregated network, and what was widened to make them."""

    shared: nn.Module
    join: nn.Module | Join
    encoder: nn.Module
    names: list[str]
    readers: list[nn.Module]
    mixer: bool = False


def assemble(
    parts: Parts, classifier: Classifier, fold: int, *, widen: bool, noise: float, sums_slots: bool
) -> AggregatedClassifier:
    """A network with the classifier's weights in every head.

    Args:
        sums_slots: whether weights that read the slots may be summed for one object in every slot.
    """
    classes, features = classifier.weight.shape
    repeats = fold if widen else 1
    dtype = classifier.weight.dtype  # of the new layers alone: a model may mix types
    encoder = parts.encoder
    if widen:
        encoder = nn.Sequential(encoder, WidenedBottleneck(features, fold).to(dtype))
    network = AggregatedClassifier(
        encoder, features=features * repeats, fold=fold, num_classes=classes, join=parts.join, shared=parts.shared,
        noise=noise, slot_weights=_slot_weights(parts, encoder) if sums_slots else [],
    )  # fmt: skip
    if network.shares_head and classifier.bias is None:  # a bias that is learned could not go back into the model
        network.head = nn.Linear(features * repeats, classes, bias=False)
    network.to(classifier.weight.device).eval()
    network.head.to(dtype)
    heads = 1 if network.shares_head else fold
    weight, *biases = network.head.parameters()
    with torch.no_grad():
        weight.copy_(classifier.weight.repeat(heads, repeats) / repeats)
        for bias in biases:
            bias.copy_(torch.zeros(classes * heads) if classifier.bias is None else classifier.bias.repeat(heads))
    return network


def _slot_weights(parts: Parts, encoder: nn.Module) -> list[str]:
    """The widened weights by their names in the encoder, where a sum over slots can stand for `fold` equal inputs."""
    # These very classes: one that is derived from them may work on its weights, as weight standardisation does.
    if not all(type(reader) in (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d) for reader in parts.readers):
        return []
    weights = {id(reader.weight) for reader in parts.readers}
    names = [name for name, parameter in encoder.named_parameters() if id(parameter) in weights]
    return names if len(names) == len(parts.readers) else []  # a weight that is computed has no name of its own
