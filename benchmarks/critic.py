"""What the information penalty costs on a PreAct ResNet-18 for 32×32 images, and what the split first layer saves."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from agrlearn.information.bounds import donsker_varadhan
from agrlearn.information.critics import critic_for
from agrlearn.information.regularizer import InformationRegularizer
from agrlearn.networks.catalogue import build_network
from agrlearn.seeding import generator
from benchmarks.made import CLASSES, images, step
from benchmarks.timing import heading, ratio, take_turns, verdict

SHAPE, GROUPS, FOLD, WIDTH, BOTTLENECK = (3, 32, 32), 64, 2, 16, 256
AIMS = {1: 1.1, 5: 1.3}


def resnet_step(**recipe_options: object) -> Callable[[], None]:
    data = images(GROUPS * FOLD)
    network = build_network(
        "preact-resnet", object_shape=SHAPE, num_classes=CLASSES, fold=FOLD, objects=data.objects, width=WIDTH
    )
    return step(network, data, **recipe_options)


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


def regularizer() -> list[str]:
    """A step of PreAct ResNet-18 (width 16, fold 2, 64 groups) with the penalty over one without.

    The critic's first layer is split into W_x·x and W_t·t, so that shuffled pairs cost no second product with x.
    Beside it, a critic that concatenates x and t. Aims: at most 1.1 at K = 1 and 1.3 at K = 5.
    """
    actions = {"0": resnet_step(), "1": resnet_step(alpha=0.3), "5": resnet_step(alpha=0.3, ascent_steps=5)}
    times = take_turns(actions, rounds=20)
    lines = heading("a step", "over alpha = 0", "quartiles", "")
    for ascents, aim in AIMS.items():
        found = ratio(times, str(ascents), "0")
        lines.append(f"| alpha > 0, K = {ascents} | {found} | {verdict(found.middle <= aim)} |")
    groups = torch.rand(GROUPS, FOLD, *SHAPE, generator=generator(0))
    t = torch.randn(GROUPS, BOTTLENECK, generator=generator(1)).requires_grad_()
    lines += ["", *heading("the critic alone", "concatenating over split", "quartiles")]
    for ascents in AIMS:
        actions = {"naive": concatenating(groups, t, ascents), "split": split(groups, t, ascents)}
        lines.append(f"| K = {ascents} | {ratio(take_turns(actions, rounds=40), 'naive', 'split')} |")
    return lines
