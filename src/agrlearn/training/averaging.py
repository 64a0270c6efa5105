"""Equal averages of the weights over the end of training (Izmailov et al. 2018), and the normalisation they need."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from agrlearn.grouping import Objects
from agrlearn.training.recipe import Recipe
from agrlearn.training.state import TrainingState


def averages_after(recipe: Recipe, epochs: float) -> bool:
    """Whether the weights after so many epochs, which may be fractional, are part of the average.

    >>> [averages_after(Recipe(epochs=4, average_from=0.75), epochs) for epochs in (2.9, 3, 3.01, 4)]
    [False, False, True, True]
    """
    return recipe.average_from is not None and epochs > recipe.average_from * recipe.epochs


def add_to_average(state: TrainingState) -> None:
    """Count the network's present weights as one more of those that are averaged."""
    state.averaged += 1
    if state.average is None:
        state.average = {name: weight.clone() for name, weight in _trained(state.network).items()}
    else:
        for name, weight in _trained(state.network).items():
            state.average[name].lerp_(weight, 1 / state.averaged)


def use_average(state: TrainingState, module: nn.Module, epoch: Iterable[Objects]) -> None:
    """Give the network the averaged weights, and its batch normalisations the means and variances that these make.

    Args:
        module: the network, as the engine wrapped it.
        epoch: training groups, in batches.
    """
    assert state.average is not None
    with torch.no_grad():
        for name, weight in state.network.named_parameters():
            if name in state.average:
                weight.copy_(state.average[name])
        _measure_normalisation(module, epoch)


def _measure_normalisation(module: nn.Module, epoch: Iterable[Objects]) -> None:
    """Replace the running averages of all batch normalisations that are not frozen by the mean over these batches."""
    layers = [
        layer for layer in module.modules()
        if isinstance(layer, nn.modules.batchnorm._BatchNorm) and layer.training and layer.track_running_stats
    ]  # fmt: skip
    if not layers:
        return
    momenta = [layer.momentum for layer in layers]
    for layer in layers:
        layer.reset_running_stats()
        layer.momentum = None  # an equal average over all batches
    try:
        for groups in epoch:
            module(groups)
    finally:
        for layer, momentum in zip(layers, momenta, strict=True):
            layer.momentum = momentum


def _trained(network: nn.Module) -> dict[str, Tensor]:
    """The trained weights by name, in at least single precision: an average of halves would stand still."""
    return {
        name: weight.detach().to(torch.promote_types(weight.dtype, torch.float32))
        for name, weight in network.named_parameters()
        if weight.requires_grad
    }
