"""A multilayer perceptron for vectors."""

import itertools

from torch import nn

from agrlearn.errors import RecipeError
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.networks.standardize import Standardize


def mlp(
    object_shape: tuple[int, ...],
    num_classes: int,
    fold: int = 1,
    *,
    width: int = 128,
    depth: int = 2,
    noise: float = 0.0,
) -> AggregatedClassifier:
    """`depth` hidden layers with batch normalisation on the concatenated vectors of a group.

    Args:
        object_shape: (features,) of one vector.
        width: units of a hidden layer; the last one has `fold` times more, as in the paper.
        noise: see `AggregatedClassifier`.
    """
    if len(object_shape) != 1:
        raise RecipeError(f"mlp takes vectors of shape (features,), got {object_shape}; small-cnn takes images")
    if depth < 1:
        raise RecipeError(f"mlp needs at least one hidden layer, got depth={depth}")
    sizes = [fold * object_shape[0], *[width] * (depth - 1), width * fold]
    layers: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise(sizes):
        layers += [nn.Linear(inputs, outputs, bias=False), nn.BatchNorm1d(outputs), nn.ReLU(inplace=True)]
    return AggregatedClassifier(
        nn.Sequential(*layers),
        features=sizes[-1],
        fold=fold,
        num_classes=num_classes,
        join="features",
        shared=Standardize(object_shape[0]),
        noise=noise,
    )
