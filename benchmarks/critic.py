"""What the information penalty costs on a PreAct ResNet-18 for 32×32 images, and what the split first layer saves."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from agrlearn.data.labelled import LabelledSet
from agrlearn.grouping import group
from agrlearn.information.bounds import donsker_varadhan
from agrlearn.information.critics import critic_for
from agrlearn.information.regularizer import InformationRegularizer
from agrlearn.networks.catalogue import build_network
from agrlearn.seeding import generator
from agrlearn.training.recipe import Recipe
from agrlearn.training.setup import make_optimizer, make_regularizer
from agrlearn.training.state import EpochTotals, TrainingState
from agrlearn.training.step import train_step
from benchmarks.timing import ratio, take_turns

SHAPE, CLASSES, GROUPS, FOLD, WIDTH, BOTTLENECK = (3, 32, 32), 10, 64, 2, 16, 256


def resnet_step(**recipe_options: object) -> Callable[[], None]:
    """A training step of 64 groups of 2, as `fit` takes it."""
    random = generator(0)
    pixels = torch.randint(0, 256, (GROUPS * FOLD, *SHAPE), generator=random, dtype=torch.uint8)
    labels = torch.randint(0, CLASSES, (GROUPS * FOLD,), generator=random)
    data = LabelledSet(pixels, labels, tuple(map(str, range(CLASSES))))
    network = build_network(
        "preact-resnet", object_shape=SHAPE, num_classes=CLASSES, fold=FOLD, objects=pixels, width=WIDTH
    ).train()
    recipe, device = Recipe(**recipe_options), torch.device("cpu")
    regularizer = make_regularizer(network, data, recipe, device) if recipe.alpha else None
    state = TrainingState(network, make_optimizer(network, recipe), regularizer, EpochTotals.zero(device))
    groups, targets = group(pixels, FOLD), labels.view(-1, FOLD)
    return lambda: train_step(network, state, groups, targets, recipe, random, torch.Tensor.backward)


def concatenating(groups: Tensor, t: Tensor, ascents: int) -> Callable[[], None]:
    """K ascents and one penalty of a critic that concatenates x and t, once for each kind of pair."""
    x = groups.flatten(1)
    critic = nn.Sequential(nn.Linear(x.shape[1] + t.shape[1], 128), nn.ReLU(inplace=True), nn.Linear(128, 1))
    optimizer = torch.optim.Adam(critic.parameters(), lr=1e-3, fused=True)

    def j(t: Tensor) -> Tensor:
        shuffled = t[torch.randperm(len(t))]
        return donsker_varadhan(
            critic(torch.cat([x, t], dim=1)).squeeze(1), critic(torch.cat([x, shuffled], dim=1)).squeeze(1)
        )

    def act() -> None:
        for _ in range(ascents):
            optimizer.zero_grad(set_to_none=True)
            (-j(t.detach())).backward()
            optimizer.step()
        torch.autograd.grad(j(t), t)

    return act


def split(groups: Tensor, t: Tensor, ascents: int) -> Callable[[], None]:
    """The same by the regularizer that `fit` uses."""
    regularizer = InformationRegularizer(critic_for(groups, t.shape[1]))

    def act() -> None:
        for _ in range(ascents):
            regularizer.ascend(groups, t)
        torch.autograd.grad(regularizer.penalty(groups, t), t)

    return act


def critic() -> list[str]:
    actions = {"0": resnet_step(), "1": resnet_step(alpha=0.3), "5": resnet_step(alpha=0.3, ascent_steps=5)}
    times = take_turns(actions, rounds=20)
    lines = ["| a step of PreAct ResNet-18, width 16, fold 2 | over alpha = 0 | quartiles |", "|---|---:|---:|"]
    for ascents in ("1", "5"):
        middle, low, high = ratio(times, ascents, "0")
        lines.append(f"| alpha > 0, K = {ascents} | {middle:.2f} | {low:.2f} to {high:.2f} |")
    groups = torch.rand(GROUPS, FOLD, *SHAPE, generator=generator(0))
    t = torch.randn(GROUPS, BOTTLENECK, generator=generator(1)).requires_grad_()
    lines += ["", "| the critic alone | concatenating over split first layer | quartiles |", "|---|---:|---:|"]
    for ascents in (1, 5):
        actions = {"naive": concatenating(groups, t, ascents), "split": split(groups, t, ascents)}
        middle, low, high = ratio(take_turns(actions, rounds=40), "naive", "split")
        lines.append(f"| K = {ascents} | {middle:.2f} | {low:.2f} to {high:.2f} |")
    return lines
