"""A multilayer perceptron for vectors."""

import itertools

from torch import nn

from agrlearn.errors import RecipeError
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.networks.joins import VECTORS, join_for
from agrlearn.networks.stacked import SlotScaling
from agrlearn.networks.standardize import Standardize


def mlp(
    object_shape: tuple[int, ...],
    num_classes: int,
    fold: int = 1,
    *,
    width: int = 128,
    depth: int = 2,
    join: str = "mean",
    join_after: int = -1,
    dropout: float = 0.0,
    noise: float = 0.0,
) -> AggregatedClassifier:
    """`depth` hidden layers with batch normalisation.

    Args:
        object_shape: (features,) of one vector.
        width: units of a hidden layer; where the slots are concatenated, the last one has `fold` times more, as in the
            paper.
        join: mean and max pool the last features of a group; features concatenates its vectors; stack lets each slot
            pass the layers by itself, with a scaling of its features and a head of its own.
        join_after: how many hidden layers every object passes alone, before the join; -1 is none of them for features
            and stack, and all for max and mean.
        dropout: the share of a hidden layer's outputs that is dropped in training.
        noise: see `AggregatedClassifier`.
    """
    if len(object_shape) != 1:
        raise RecipeError(f"mlp takes vectors of shape (features,), got {object_shape}; small-cnn takes images")
    if depth < 1:
        raise RecipeError(f"mlp needs at least one hidden layer, got depth={depth}")
    joined = join_for(join, VECTORS, "mlp")
    shared = joined.place(join_after, first=0, last=depth, network="mlp")
    outputs = [*[width] * (depth - 1), width * joined.growth(fold)]
    layers: list[nn.Module] = []
    for number, (read, made) in enumerate(itertools.pairwise([object_shape[0], *outputs])):
        slots = fold if joined.widens and number == shared else 1
        drop = [nn.Dropout(dropout)] if dropout > 0 else []
        layers.append(
            nn.Sequential(nn.Linear(slots * read, made, bias=False), nn.BatchNorm1d(made), nn.ReLU(inplace=True), *drop)
        )
    stacked = fold > 1 and joined.apart
    features = outputs[-1] * (fold if stacked or (joined.widens and shared == depth) else 1)
    scaling = [SlotScaling(fold, [object_shape[0], *outputs][shared])] if stacked else []
    return AggregatedClassifier(
        nn.Sequential(*scaling, *layers[shared:]),
        features=features,
        fold=fold,
        num_classes=num_classes,
        join=joined,
        shared=nn.Sequential(Standardize(object_shape[0]), *layers[:shared]),
        noise=noise,
    )
