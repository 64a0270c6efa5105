"""A small convolutional network for small images: what the demo trains."""

from torch import nn

from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.networks.convolutional import join_layers, join_of_images


def small_cnn(
    object_shape: tuple[int, ...],
    num_classes: int,
    fold: int = 1,
    *,
    width: int = 16,
    join: str = "channels",
    join_after: int = -1,
    slotwise: bool = False,
    dropout: float = 0.0,
    noise: float = 0.0,
) -> AggregatedClassifier:
    """Four 3×3 convolutions, the second and fourth halving the image, one 1×1 convolution, then pooling.

    Only the last layer grows with `fold`, and it is a cheap one: Batched prediction gains the more throughput, the
    earlier the join.

    Args:
        object_shape: (channels, height, width) of one image.
        width: filters of the first layer, doubled where the image is halved; the last feature layer has `fold` times
            more, as in the paper, unless the slots are pooled.
        join: channels, width, height, max, mean or stack.
        join_after: how many of the convolutions every object passes alone, before the join; -1 is one of them, and for
            max and mean all and the pooling.
        slotwise: pool each slot's segment by itself (for the width and height joins).
        dropout: the share of the last features that is dropped in training.
        noise: see `AggregatedClassifier`.
    """
    joined = join_of_images("small-cnn", object_shape, join=join, slotwise=slotwise)
    shapes = [(3, 1), (3, 2), (3, 1), (3, 2), (1, 1)]
    shared = joined.place(join_after, first=1, last=len(shapes) if joined.slot_blind else 4, network="small-cnn")
    filters = [object_shape[0], width, 2 * width, 2 * width, 4 * width, 4 * width * joined.growth(fold)]
    layers: list[nn.Module] = []
    for depth, (kernel, stride) in enumerate(shapes):
        slots = fold if joined.widens and depth == shared else 1
        layers.append(_convolution(slots * filters[depth], filters[depth + 1], kernel, stride))
    return join_layers(
        layers, shared, object_shape=object_shape, num_classes=num_classes, fold=fold, features=filters[-1],
        channels=filters[shared], join=joined, slotwise=slotwise, dropout=dropout, noise=noise,
    )  # fmt: skip


def _convolution(inputs: int, outputs: int, kernel: int, stride: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
    )
