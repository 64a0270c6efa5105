"""A small convolutional network for small images: what the demo trains."""

from torch import nn

from agrlearn.errors import RecipeError
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.networks.convolutional import join_layers, join_of_images


def small_cnn(
    object_shape: tuple[int, ...],
    num_classes: int,
    fold: int = 1,
    *,
    width: int = 16,
    join: str = "channels",
    join_after: int = 1,
    slotwise: bool = False,
    noise: float = 0.0,
) -> AggregatedClassifier:
    """Four 3×3 convolutions, the second and fourth halving the image, one 1×1 convolution, then pooling.

    Only the last layer grows with `fold`, and it is a cheap one: Batched prediction gains the more throughput, the
    earlier the join.

    Args:
        object_shape: (channels, height, width) of one image.
        width: filters of the first layer, doubled where the image is halved; the last feature layer has `fold` times
            more, as in the paper.
        join: channels, width, height, max or mean.
        join_after: how many of the 3×3 convolutions every object passes alone, before the join.
        slotwise: pool each slot's segment by itself (for the width and height joins).
        noise: see `AggregatedClassifier`.
    """
    joined = join_of_images("small-cnn", object_shape, join=join, slotwise=slotwise)
    if not 0 <= join_after <= 4:
        raise RecipeError(f"small-cnn can join after 0 to 4 of its convolutions, got join_after={join_after}")
    filters = [object_shape[0], width, 2 * width, 2 * width, 4 * width, 4 * width * fold]
    shapes = [(3, 1), (3, 2), (3, 1), (3, 2), (1, 1)]
    layers: list[nn.Module] = []
    for depth, (kernel, stride) in enumerate(shapes):
        slots = fold if joined.widens and depth == join_after else 1
        layers.append(_convolution(slots * filters[depth], filters[depth + 1], kernel, stride))
    return join_layers(
        layers, join_after, object_shape=object_shape, num_classes=num_classes, fold=fold, features=filters[-1],
        join=joined, slotwise=slotwise, noise=noise,
    )  # fmt: skip


def _convolution(inputs: int, outputs: int, kernel: int, stride: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
    )
