"""Wide residual networks (Zagoruyko and Komodakis 2016) for small images; 22 layers and width 10 in the paper."""

from typing import cast

from torch import nn

from agrlearn.errors import RecipeError
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.networks.convolutional import join_layers, join_of_images
from agrlearn.networks.preact_resnet import residual_layers

_STEM = 16


def wide_resnet(
    object_shape: tuple[int, ...],
    num_classes: int,
    fold: int = 1,
    *,
    depth: int = 22,
    width: int = 10,
    join: str = "channels",
    join_after: int = -1,
    stem_stride: int = 1,
    widen: int = 1,
    slotwise: bool = False,
    dropout: float = 0.0,
    noise: float = 0.0,
) -> AggregatedClassifier:
    """A 3×3 convolution of 16 filters, three stages of wide pre-activation blocks, and a last normalisation.

    Args:
        object_shape: (channels, height, width) of one image.
        depth: layers, 6·k + 4 for k blocks a stage.
        width: what the 16, 32 and 64 filters of the stages are multiplied by; the last layer has `fold` times more.
        join: channels, width, height, max, mean or stack.
        join_after: how many blocks every object passes alone, before the join; 0 joins at the input. -1 is 0, and for
            max and mean all blocks and the pooling.
        stem_stride: 2 works at half the resolution.
        widen: widens the last layer beyond that; at fold 1 it gives the layers of that fold, for comparison.
        slotwise: pool each slot's segment by itself (for the width and height joins).
        dropout: the share of the last features that is dropped in training.
        noise: see `AggregatedClassifier`.
    """
    joined = join_of_images("wide-resnet", object_shape, join=join, slotwise=slotwise)
    blocks, rest = divmod(depth - 4, 6)
    if rest or blocks < 1:
        raise RecipeError(f"wide-resnet has 6·k + 4 layers, such as 16, 22 or 28, got depth={depth}")
    bottom = _STEM * width * 4
    outputs = [_STEM * width * 2**stage for stage in range(3) for _ in range(blocks)]
    outputs[-1] *= joined.growth(fold) * widen
    last = len(outputs) if joined.slot_blind else len(outputs) - 1
    join_after = joined.place(join_after, first=0, last=last, network="wide-resnet")
    strides = [2 if stage > 0 and block == 0 else 1 for stage in range(3) for block in range(blocks)]
    layers = residual_layers(
        object_shape[0], _STEM, outputs, strides, fold=fold if joined.widens else 1, join_after=join_after,
        stem_stride=stem_stride, bottom=bottom,
    )  # fmt: skip
    layers += [nn.BatchNorm2d(outputs[-1]), nn.ReLU(inplace=True)]
    shared_layers = len(layers) if join_after == len(outputs) else join_after and join_after + 1
    network = join_layers(
        layers, shared_layers, object_shape=object_shape, num_classes=num_classes, fold=fold,
        features=outputs[-1], channels=[object_shape[0], *outputs][join_after], join=joined,
        slotwise=slotwise, dropout=dropout, noise=noise,
    )  # fmt: skip
    # As in the authors' code.
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out")
    nn.init.zeros_(cast(nn.Linear, network.head).bias)
    return network
