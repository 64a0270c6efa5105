"""Make what a recipe describes: the optimizer, its learning rate, and the regularizer."""

import copy
import functools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NamedTuple

import torch
from lightning_fabric import Fabric
from lightning_fabric.plugins import Precision
from lightning_fabric.strategies import SingleDeviceStrategy
from torch import Tensor, nn
from torch.utils.data import Dataset

from agrlearn.adam import Adam
from agrlearn.data.batches import fetch
from agrlearn.errors import RecipeError
from agrlearn.grouping import Objects, group
from agrlearn.information.bottleneck import BottleneckRegularizer, Regularizer, VariationalRegularizer, memory_for
from agrlearn.information.critics import Critic, Means, critic_for
from agrlearn.information.regularizer import InformationRegularizer
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.networks.catalogue import standardizers
from agrlearn.networks.conversion.widening import WidenedBottleneck
from agrlearn.seeding import derive_seed, generator, seeded
from agrlearn.training.recipe import Recipe

_FACTOR = "rate_factor"  # of a group of parameters in the optimizer
_CRITIC = 3  # keeps the critic's initial weights apart from the random streams of a step


def make_optimizer(network: AggregatedClassifier, recipe: Recipe) -> torch.optim.Optimizer:
    """The recipe's optimizer, in which the heads and what `aggregate` added may have a rate of their own."""
    trained = [parameter for parameter in network.parameters() if parameter.requires_grad]
    return make_optimizer_of(trained, head_parameters(network), recipe)


def make_optimizer_of(trained: Sequence[Tensor], heads: Sequence[Tensor], recipe: Recipe) -> torch.optim.Optimizer:
    """The recipe's optimizer of these tensors, of which those of the heads may have a rate of their own."""
    groups = _parameter_groups(trained, heads, recipe)
    if recipe.optimizer in ("adam", "adamw"):
        decoupled = recipe.optimizer == "adamw"
        return Adam(groups, lr=recipe.learning_rate, weight_decay=recipe.weight_decay, decoupled=decoupled)
    return torch.optim.SGD(
        groups, lr=recipe.learning_rate, momentum=recipe.momentum, nesterov=recipe.momentum > 0,
        weight_decay=recipe.weight_decay,
    )  # fmt: skip


class Wrapped(NamedTuple):
    """A network and its optimizer as the engine runs them."""

    module: nn.Module
    optimizer: torch.optim.Optimizer
    backward: Callable[[Tensor], None]
    unsynchronized: Callable[[], AbstractContextManager]
    """A block in which the processes do not exchange gradients."""


def wrap(engine: Fabric, network: AggregatedClassifier, optimizer: torch.optim.Optimizer) -> Wrapped:
    """Put the network on its device, and in the engine's wrappers only if they do anything: a small step feels them."""
    module, wrapped = engine.setup(network, optimizer)
    plain = type(engine.strategy) is SingleDeviceStrategy and type(engine.strategy.precision) is Precision
    if plain and not engine._callbacks:
        return Wrapped(network, optimizer, Tensor.backward, nullcontext)
    return Wrapped(module, wrapped, engine.backward, functools.partial(engine.no_backward_sync, module))


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Give every group of parameters this rate, times its own factor."""
    for settings in optimizer.param_groups:
        settings["lr"] = rate * settings.get(_FACTOR, 1.0)


def head_parameters(network: AggregatedClassifier) -> list[nn.Parameter]:
    """The weights of the heads, of a join that has weights, and of the feature layer that widen=True adds.

    Layers that were widened to read all slots are not among them: they hold the model's own weights, tiled.
    """
    added = [module for module in network.modules() if isinstance(module, WidenedBottleneck)]
    joins = [network.join] if isinstance(network.join, nn.Module) else []
    return [parameter for module in (network.head, *joins, *added) for parameter in module.parameters()]


def _parameter_groups(trained: Sequence[Tensor], heads: Sequence[Tensor], recipe: Recipe) -> list[dict[str, Any]]:
    if recipe.head_rate_factor == 1:
        return [{"params": list(trained)}]
    known = {id(parameter) for parameter in heads}
    parts = {factor: [p for p in trained if (id(p) in known) == own]
             for factor, own in ((1.0, False), (recipe.head_rate_factor, True))}  # fmt: skip
    return [
        {"params": parameters, "lr": recipe.learning_rate * factor, _FACTOR: factor}
        for factor, parameters in parts.items()
        if parameters
    ]


def learning_rate_at(recipe: Recipe, epoch: float) -> float:
    """The main network's learning rate after `epoch` epochs, which may be fractional.

    >>> [learning_rate_at(Recipe(epochs=400), epoch) for epoch in (99, 100, 150, 250)]
    [0.1, 0.01, 0.001, 0.0001]
    """
    passed = epoch / recipe.epochs
    if recipe.schedule == "cosine":
        return recipe.learning_rate * 0.5 * (1 + math.cos(math.pi * passed))
    if recipe.schedule == "steps":
        drops = sum(passed >= milestone for milestone in recipe.milestones)
        return float(f"{recipe.learning_rate * recipe.decay**drops:.12g}")
    return recipe.learning_rate


def make_regularizer(
    network: AggregatedClassifier, train_set: Dataset, recipe: Recipe, device: torch.device,
    augment: Callable[[Objects, torch.Generator], Objects] | None = None, critic: nn.Module | None = None,
) -> Regularizer:  # fmt: skip
    """The recipe's regularizer: with this critic, or with a new one, initialised from the recipe's seed."""
    # The recipe limits the gradient of alpha · J.
    clip = None if recipe.clip_penalty is None else recipe.clip_penalty / recipe.alpha
    bound = recipe.bound_of_j if critic is None else recipe.bound or "dv"
    if bound == "vib":
        if not network.noise > 0:
            raise RecipeError(
                "bound='vib' needs a stochastic bottleneck; build the network with noise=1 or so (--net.noise 1)"
            )
        return VariationalRegularizer(network.noise)
    if bound == "leave-one-out":
        memory = memory_for(len(train_set))  # type: ignore[arg-type]
        return BottleneckRegularizer(network.noise, learning_rate=recipe.critic_learning_rate, clip=clip, memory=memory)
    if critic is None and recipe.critic == "bottleneck":
        with seeded(derive_seed(recipe.seed, 0, 0, _CRITIC)):
            width = recipe.critic_width
            critic = Critic(Means(network.features, width), network.features, width=width, depth=recipe.critic_depth)
    elif critic is None:
        objects, _ = fetch(train_set, torch.arange(network.fold))
        if augment is not None:  # it may change the objects' size
            objects = augment(objects, generator(recipe.seed))
        prepare = [copy.deepcopy(layer) for layer in standardizers(network)[:1]]
        with seeded(derive_seed(recipe.seed, 0, 0, _CRITIC)):
            critic = critic_for(
                group(objects, network.fold), network.features, width=recipe.critic_width, depth=recipe.critic_depth,
                prepare=prepare[0] if prepare else None,
            )  # fmt: skip
    return InformationRegularizer(
        critic.to(device, torch.float32), bound, learning_rate=recipe.critic_learning_rate, clip=clip
    )


@contextmanager
def explain_single_groups() -> Iterator[None]:
    """Within this block, raise a `RecipeError` if a batch is too small for batch normalisation."""
    try:
        yield
    except ValueError as error:
        if "more than 1 value per channel" in str(error):
            raise RecipeError(
                "batch normalisation cannot train on a single group; pass a batch_size, and objects, of 2 or more"
            ) from error
        raise
