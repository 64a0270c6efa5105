"""How convolutions keep images in memory: channel by channel, or with the channels of a pixel side by side.

The latter, "channels last", is what most processors are faster with. Values change by rounding only.
"""

import textwrap
from typing import Any

import torch
from torch import Tensor, nn

from agrlearn.grouping import Objects, map_objects
from agrlearn.modes import view
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.seeding import seeded

_LONGEST_REASON = 200
_TRIED = ("cpu", "cuda")
# The backward pass of oneDNN in torch 2.13 writes past its memory where a convolution of one pixel skips pixels and
# reads fewer channels than a register of the processor holds: 8 with AVX2, where it was seen from 16 answers an image
# on, and 16 with AVX-512, where it was seen from 832 on. With any stride and number of filters.
_ENOUGH_CHANNELS, _ENOUGH_FOR_FEW_POSITIONS, _FEW_POSITIONS = 16, 8, 256


def set_channels_last(network: nn.Module, last: bool) -> None:
    """Lay the weights of all convolutions out anew, which the layers' outputs then follow."""
    for weight in _weights(network):
        weight.data = _laid_out(weight, torch.channels_last if last else torch.contiguous_format)


def has_channels_last(network: nn.Module) -> bool:
    """Whether the weights are laid out so."""
    return any(
        not weight.is_contiguous() and weight.is_contiguous(memory_format=torch.channels_last)
        for weight in _weights(network)
    )


def why_contiguous(network: AggregatedClassifier, groups: Objects, device: torch.device) -> str | None:
    """Why a network should not be trained with channels last; None if it can be.

    Both layouts are tried in eval mode. The network and torch's random streams stay as they are.

    Args:
        groups: (groups, fold, ...) of training objects.
        device: to train on.
    """
    weights = _weights(network)
    if not weights:
        return "it has no convolutions of images"
    if device.type not in _TRIED:
        return f"it was never tried on {device.type}"
    like = network.weight
    groups = map_objects(lambda x: x.to(like.device, like.dtype if x.is_floating_point() else None), groups)
    crashes: list[str] = []

    def look(layer: nn.Conv2d, _: Any, answers: Tensor) -> None:
        if device.type == "cpu" and _may_crash(layer, answers):
            crashes.append(
                f"torch may crash in the backward pass of its 1×1 convolution from {layer.in_channels} channels to "
                f"{'×'.join(map(str, answers.shape[-2:]))} positions"
            )

    def answers_in(memory_format: torch.memory_format) -> Tensor:
        replaced = {weight: nn.Parameter(_laid_out(weight, memory_format), False) for weight in weights}
        tried = view(network, replaced).eval()
        for layer in tried.modules():
            if isinstance(layer, nn.Conv2d):
                layer.register_forward_hook(look)
        with seeded(0, like.device), torch.no_grad():
            return tried(groups)

    try:
        expected = answers_in(torch.contiguous_format)
        if crashes:
            return crashes[0]
        same = torch.allclose(
            answers_in(torch.channels_last), expected, rtol=1e-3, atol=1e-3 * float(expected.abs().max())
        )
    except Exception as error:  # modules of users may raise anything, such as that they expect one layout
        return f"it does not run so ({textwrap.shorten(str(error), _LONGEST_REASON, placeholder=' …')})"
    return None if same else "its answers are others then"


def _may_crash(layer: nn.Conv2d, answers: Tensor) -> bool:
    skips_pixels = layer.kernel_size == (1, 1) and layer.stride != (1, 1)
    enough = _ENOUGH_CHANNELS if answers.shape[-2:].numel() > _FEW_POSITIONS else _ENOUGH_FOR_FEW_POSITIONS
    return skips_pixels and layer.in_channels // layer.groups < enough


def _laid_out(weight: Tensor, memory_format: torch.memory_format) -> Tensor:
    # Not contiguous() or to(), which leave the strides of 1×1 convolutions as they are: these fit both formats.
    return weight.detach().clone(memory_format=memory_format)


def _weights(network: nn.Module) -> list[nn.Parameter]:
    """Of all convolutions of images, those that are not computed from other weights."""
    layers = (layer for layer in network.modules() if isinstance(layer, nn.Conv2d))
    return [weight for layer in layers if (weight := layer._parameters.get("weight")) is not None]
