"""Pre-activation ResNets for small images (He et al. 2016), as the paper's reference implementation builds them."""

from collections.abc import Sequence

from torch import Tensor, nn
from torch.nn import functional as F

from agrlearn.errors import RecipeError
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.networks.convolutional import join_layers, join_of_images

_STRIDES = (1, 2, 2, 2)
_DEPTHS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3)}


def preact_resnet(
    object_shape: tuple[int, ...],
    num_classes: int,
    fold: int = 1,
    *,
    depth: int = 18,
    width: int = 64,
    join: str = "channels",
    join_after: int = -1,
    stem_stride: int = 1,
    widen: int = 1,
    slotwise: bool = False,
    dropout: float = 0.0,
    noise: float = 0.0,
) -> AggregatedClassifier:
    """A 3×3 convolution and four stages of pre-activation blocks: 18 or 34 layers, for 32×32 images.

    Args:
        object_shape: (channels, height, width) of one image.
        depth: 18 or 34.
        width: filters of the first stage, doubled in each further one. The last layer has `fold` times more, as in the
            paper, unless the slots are pooled; 128 doubles every layer, the "double layer" of its Table 4.
        join: channels, width, height, max, mean or stack.
        join_after: how many blocks every object passes alone, before the join; 0 joins at the input. -1 is 0, and for
            max and mean all blocks and the pooling.
        stem_stride: 2 works at half the resolution.
        widen: widens the last layer beyond that; at fold 1 it gives the layers of that fold, for comparison.
        slotwise: pool each slot's segment by itself (for the width and height joins).
        dropout: the share of the last features that is dropped in training.
        noise: see `AggregatedClassifier`.
    """
    joined = join_of_images("preact-resnet", object_shape, join=join, slotwise=slotwise)
    if depth not in _DEPTHS:
        raise RecipeError(f"preact-resnet has 18 or 34 layers, got depth={depth}")
    counts = _DEPTHS[depth]
    outputs = [width * 2**stage for stage, count in enumerate(counts) for _ in range(count)]
    outputs[-1] *= joined.growth(fold) * widen
    last = len(outputs) if joined.slot_blind else len(outputs) - 1
    join_after = joined.place(join_after, first=0, last=last, network="preact-resnet")
    strides = [
        stride if block == 0 else 1 for stride, count in zip(_STRIDES, counts, strict=True) for block in range(count)
    ]
    layers = residual_layers(
        object_shape[0], width, outputs, strides, fold=fold if joined.widens else 1, join_after=join_after,
        stem_stride=stem_stride, bottom=width * 2**3,
    )  # fmt: skip
    return join_layers(
        layers, join_after and join_after + 1, object_shape=object_shape, num_classes=num_classes, fold=fold,
        features=outputs[-1], channels=[object_shape[0], *outputs][join_after], join=joined,
        slotwise=slotwise, dropout=dropout, noise=noise,
    )  # fmt: skip


def residual_layers(
    channels: int,
    stem: int,
    outputs: Sequence[int],
    strides: Sequence[int],
    *,
    fold: int,
    join_after: int,
    stem_stride: int,
    bottom: int,
) -> list[nn.Module]:
    """The stem and one block for each of `outputs`; the first layer behind the join reads `fold` times the channels.

    Args:
        stem: filters of the first convolution.
        outputs: channels of each block's output.
        bottom: filters within the last block, whose output alone is widened by the fold.
    """
    first = channels * (fold if join_after == 0 else 1)
    layers: list[nn.Module] = [nn.Conv2d(first, stem, 3, stem_stride, padding=1, bias=False)]
    inputs = [stem, *outputs[:-1]]
    for number, (read, made, stride) in enumerate(zip(inputs, outputs, strides, strict=True)):
        slots = fold if join_after == number and number > 0 else 1
        inner = bottom if number == len(outputs) - 1 else made
        layers.append(PreActBlock(slots * read, inner, made, stride))
    return layers


class PreActBlock(nn.Module):
    """Normalise, rectify and convolve, twice, beside a shortcut that is a projection where shapes differ."""

    def __init__(self, inputs: int, inner: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(inputs)
        self.conv1 = nn.Conv2d(inputs, inner, 3, stride, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(inner)
        self.conv2 = nn.Conv2d(inner, outputs, 3, padding=1, bias=False)
        projects = stride != 1 or inputs != outputs
        self.shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False) if projects else None

    def forward(self, x: Tensor) -> Tensor:
        active = F.relu(self.norm1(x))
        beside = x if self.shortcut is None else self.shortcut(active)
        return self.conv2(F.relu(self.norm2(self.conv1(active)))) + beside
