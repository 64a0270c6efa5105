"""Layers that read `fold` objects instead of one, with their weights kept."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from agrlearn.errors import ConversionError
from agrlearn.networks.conversion.tracing import TAKE_OFF


def widen_input(name: str, layer: nn.Module, fold: int) -> None:
    """Make `layer` read `fold` inputs side by side, so that `fold` equal inputs give what one gave before.

    Weights are tiled and divided by `fold`; a batch normalisation's are tiled.
    """
    if isinstance(layer, nn.modules.conv._ConvNd) and not layer.transposed and layer.groups == 1:
        layer.in_channels *= fold
        _tile(name, layer, "weight", fold)
    elif isinstance(layer, nn.Linear):
        layer.in_features *= fold
        _tile(name, layer, "weight", fold)
    elif isinstance(layer, nn.RNNBase):
        layer.input_size *= fold
        for weight in ("weight_ih_l0", "weight_ih_l0_reverse"):
            if hasattr(layer, weight):
                _tile(name, layer, weight, fold)
        layer.flatten_parameters()
    elif isinstance(layer, nn.modules.batchnorm._BatchNorm):
        layer.num_features *= fold
        for held in ("weight", "bias", "running_mean", "running_var"):
            value = getattr(layer, held)
            if value is not None:
                tiled = value.detach().repeat(fold)
                if isinstance(value, nn.Parameter):
                    tiled = nn.Parameter(tiled, requires_grad=value.requires_grad)
                setattr(layer, held, tiled)
    else:
        raise ConversionError(f"{name} ({type(layer).__name__}) cannot be widened to read {fold} objects")


def _tile(owner: str, layer: nn.Module, name: str, fold: int) -> None:
    weight: Tensor = getattr(layer, name)
    if not isinstance(weight, nn.Parameter):
        raise ConversionError(f"{owner} cannot be widened, since its {name} is computed from others; {TAKE_OFF}")
    tiled = weight.detach().repeat(1, fold, *[1] * (weight.ndim - 2)) / fold
    setattr(layer, name, nn.Parameter(tiled, requires_grad=weight.requires_grad))


def widened_weights(layer: nn.Module) -> list[nn.Parameter]:
    """The weights of a widened layer that tell the slots apart once they differ."""
    names = ("weight_ih_l0", "weight_ih_l0_reverse") if isinstance(layer, nn.RNNBase) else ("weight",)
    if isinstance(layer, nn.modules.batchnorm._BatchNorm):
        return []
    return [getattr(layer, name) for name in names if hasattr(layer, name)]


@torch.no_grad()
def add_slot_noise(weights: Sequence[Tensor], slot_noise: float, random: torch.Generator) -> None:
    """Break the symmetry of equal slots by noise, in units of each weight's own spread."""
    for weight in weights:
        spread = weight.std() if weight.numel() > 1 else weight.abs().mean()
        noise = torch.randn(weight.shape, generator=random).to(weight.device, weight.dtype)
        weight.add_(noise * spread, alpha=slot_noise)


class SlotMixer(nn.Module):
    """A 1×1 layer from all slots' channels to the channels of one, starting as the slots' mean.

    Args:
        channels: of one slot's features.
        dim: where the channels are in an object's features: 1, or -1 for features with channels last.
    """

    def __init__(self, fold: int, channels: int, dim: int) -> None:
        super().__init__()
        self.dim = dim
        self.weight = nn.Parameter(torch.eye(channels).repeat(1, fold) / fold)

    def forward(self, groups: Tensor) -> Tensor:
        """(groups, fold, channels, ...) -> (groups, channels, ...), or with the channels last."""
        joined = join_channels(groups, self.dim)
        if self.dim == -1:
            return F.linear(joined, self.weight)
        return F.conv1d(joined.flatten(2), self.weight[:, :, None]).unflatten(2, joined.shape[2:])


class ChannelJoin(nn.Module):
    """Concatenates the slots' channels: (groups, fold, channels, ...) -> (groups, fold * channels, ...)."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, groups: Tensor) -> Tensor:
        return join_channels(groups, self.dim)


def join_channels(groups: Tensor, dim: int) -> Tensor:
    """Concatenate the slots' features along the dimension of an object's channels, 1 or -1."""
    return groups.flatten(1, 2) if dim == 1 else torch.cat(groups.unbind(1), dim=-1)


def channel_dimensions(features: Tensor, makers: Sequence[nn.Module], readers: Sequence[nn.Module]) -> list[int]:
    """Where features may have their channels: 1, or -1 for last; both where the layers around them do not agree.

    Args:
        makers: the layers that ran before, the last one first.
        readers: the layers that read the features.
    """
    if features.ndim == 2:
        return [-1]
    found = []
    for layers, names in ((makers, _GIVES), (readers, _READS)):
        for layer in layers:
            sizes = [getattr(layer, size, None) for size in names] + [*getattr(layer, "normalized_shape", ())]
            if isinstance(layer, nn.RNNBase) and names is _GIVES:
                sizes = [layer.hidden_size * (1 + layer.bidirectional)]
            dims = [dim for dim in (1, -1) if features.shape[dim] in sizes]
            if len(dims) == 1:
                return dims
            if dims:  # of the same size: the kind of layer tells which it works on
                found.append(1 if isinstance(layer, _CHANNELS_FIRST) else -1)
                break
    return list(dict.fromkeys(found))


_GIVES = ("out_channels", "out_features", "num_features", "num_channels", "embedding_dim", "embed_dim")
_READS = ("in_channels", "in_features", "num_features", "num_channels", "input_size", "embed_dim")
_CHANNELS_FIRST = (nn.modules.conv._ConvNd, nn.modules.batchnorm._NormBase, nn.GroupNorm)


class WidenedBottleneck(nn.Module):
    """A further feature layer, `fold` times as wide as T, that starts as copies of T.

    GELU has value 0 and slope ½ at 0, so that the new units start without effect and learn from the first step.
    """

    def __init__(self, features: int, fold: int) -> None:
        super().__init__()
        self.fold = fold
        self.extra = nn.Linear(features, fold * features)
        nn.init.zeros_(self.extra.weight)
        nn.init.zeros_(self.extra.bias)

    def forward(self, t: Tensor) -> Tensor:
        return t.repeat(1, self.fold) + F.gelu(self.extra(t))
