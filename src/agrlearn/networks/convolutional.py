"""What the convolutional networks share: where their layers are joined, and how they are pooled."""

from torch import Tensor, nn

from agrlearn.errors import RecipeError
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.networks.joins import IMAGES, Join, join_for, pool_globally, pool_slots
from agrlearn.networks.stacked import SlotScaling
from agrlearn.networks.standardize import Standardize


def join_of_images(name: str, object_shape: tuple[int, ...], *, join: str, slotwise: bool) -> Join:
    """The join of a convolutional network; what it cannot take is refused."""
    if len(object_shape) != 3:
        raise RecipeError(
            f"{name} takes images of shape (channels, height, width), got {object_shape}; mlp takes vectors"
        )
    found = join_for(join, IMAGES, name)
    if slotwise and not found.keeps_positions:
        raise RecipeError(f"slot-wise pooling needs the join width or height, got {join}")
    return found


def join_layers(
    layers: list[nn.Module],
    shared_layers: int,
    *,
    object_shape: tuple[int, ...],
    num_classes: int,
    fold: int,
    features: int,
    channels: int,
    join: Join,
    slotwise: bool,
    dropout: float,
    noise: float,
) -> AggregatedClassifier:
    """A network whose first layers every object passes alone and whose others read the joined slots.

    Args:
        layers: each maps feature maps to feature maps; the first joined one expects what `join` makes.
        shared_layers: how many of them run before the join; where all do, the pooling does too.
        features: channels of the last layer.
        channels: those of the feature maps that are joined.
        slotwise: pool each slot's segment by itself.
        dropout: the share of the bottleneck's features that is dropped in training.
    """
    pool = SlotPool(fold, join.axis) if slotwise and join.axis is not None else GlobalPool()
    drop = [nn.Dropout(dropout)] if dropout > 0 else []
    layers = [Standardize(object_shape[0]), *layers, pool]
    shared = 1 + shared_layers + (shared_layers == len(layers) - 2)
    stacked = fold > 1 and join.apart
    scaling = [SlotScaling(fold, channels)] if stacked else []
    return AggregatedClassifier(
        nn.Sequential(*scaling, *layers[shared:], *drop),
        features=features * (fold if slotwise or stacked else 1),
        fold=fold,
        num_classes=num_classes,
        join=join,
        shared=nn.Sequential(*layers[:shared]),
        noise=noise,
    )


class GlobalPool(nn.Module):
    """The mean over all positions: (groups, channels, height, width) -> (groups, channels)."""

    def forward(self, features: Tensor) -> Tensor:
        return pool_globally(features)


class SlotPool(nn.Module):
    """The mean over each slot's positions: (groups, channels, height, width) -> (groups, fold * channels)."""

    def __init__(self, fold: int, dim: int) -> None:
        super().__init__()
        self.fold = fold
        self.dim = dim

    def forward(self, features: Tensor) -> Tensor:
        return pool_slots(features, self.fold, dim=self.dim)
