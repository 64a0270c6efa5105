"""The regularizing network: J, its ascent, and its use as a penalty."""

import copy
import math

import pytest
import torch
from torch import nn

from agrlearn.information.critics import Critic, VectorGroups, critic_for
from agrlearn.information.regularizer import InformationRegularizer
from agrlearn.networks.standardize import Standardize
from tests.information.test_critics import EXAMPLES


def naive_j(critic, groups, t, permutation):
    """J of Algorithm 1, one pair at a time."""
    pairs = range(len(t))
    joint = [critic(groups[i : i + 1], t[i : i + 1]).item() for i in pairs]
    shuffled = [critic(groups[i : i + 1], t[j : j + 1]).item() for i, j in zip(pairs, permutation, strict=True)]
    return sum(joint) / len(joint) - math.log(sum(math.exp(score) for score in shuffled) / len(shuffled))


def make_regularizer(fold=2, features=5, bottleneck=4, **options):
    torch.manual_seed(3)
    critic = Critic(VectorGroups(fold, features, 32), bottleneck, width=32, depth=2)
    return InformationRegularizer(critic, **options)


@pytest.mark.parametrize("kind", EXAMPLES)
def test_j_equals_a_naive_loop_for_every_kind_of_object(kind):
    groups = EXAMPLES[kind]
    prepare = Standardize(1).fit(groups.flatten(0, 1)) if kind.startswith("standardized") else None
    critic = critic_for(groups, 4, width=16, prepare=prepare)
    t = torch.randn(9, 4)
    permutation = torch.randperm(9, generator=torch.Generator().manual_seed(5))
    with torch.no_grad():
        value = InformationRegularizer(critic).penalty(groups, t, torch.Generator().manual_seed(5))
        assert value.item() == pytest.approx(naive_j(critic, groups, t, permutation.tolist()), abs=1e-5)


def test_a_double_bottleneck_has_the_j_of_a_single_one_and_a_double_gradient():
    groups, t = EXAMPLES["vectors"], torch.randn(9, 4, dtype=torch.float64, requires_grad=True)
    regularizer = InformationRegularizer(critic_for(groups, 4))
    double, single = (regularizer.penalty(groups, t.to(kind), torch.Generator()) for kind in (t.dtype, torch.float32))
    double.backward()
    assert double.item() == single.item()
    assert t.grad.abs().sum() > 0


def test_ascent_raises_j_and_moves_only_the_critic():
    regularizer = make_regularizer()
    encoder = nn.Linear(10, 4)
    groups = torch.randn(64, 2, 5)
    before = copy.deepcopy(encoder.state_dict())
    t = encoder(groups.flatten(1))
    values = [regularizer.ascend(groups, t, torch.Generator().manual_seed(step)).item() for step in range(300)]
    assert sum(values[-20:]) / 20 > sum(values[:20]) / 20 + 0.5
    assert all(torch.equal(before[name], value) for name, value in encoder.state_dict().items())
    assert all(parameter.grad is None for parameter in encoder.parameters())


def test_the_penalty_reaches_the_encoder_and_leaves_the_critic_alone():
    regularizer = make_regularizer()
    encoder = nn.Linear(10, 4)
    groups = torch.randn(64, 2, 5)
    before = copy.deepcopy(regularizer.critic.state_dict())
    regularizer.penalty(groups, encoder(groups.flatten(1))).backward()
    assert encoder.weight.grad.abs().sum() > 0
    assert all(parameter.grad is None and parameter.requires_grad for parameter in regularizer.critic.parameters())
    assert all(torch.equal(before[name], value) for name, value in regularizer.critic.state_dict().items())


def test_descending_the_penalty_lowers_j():
    regularizer = make_regularizer()
    encoder = nn.Linear(10, 4)
    groups = torch.randn(64, 2, 5)
    for step in range(200):
        regularizer.ascend(groups, encoder(groups.flatten(1)), torch.Generator().manual_seed(step))
    optimizer = torch.optim.SGD(encoder.parameters(), lr=0.05)
    values = []
    for step in range(50):
        value = regularizer.penalty(groups, encoder(groups.flatten(1)), torch.Generator().manual_seed(step))
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        values.append(value.item())
    assert sum(values[-10:]) < sum(values[:10])


def test_a_j_that_is_not_finite_moves_nothing():
    regularizer = make_regularizer()
    before = copy.deepcopy(regularizer.critic.state_dict())
    value = regularizer.ascend(torch.randn(8, 2, 5), torch.full((8, 4), math.inf))
    assert not torch.isfinite(value)
    assert all(torch.equal(before[name], value) for name, value in regularizer.critic.state_dict().items())


@pytest.mark.parametrize("scale", [1.0, 2.0**16])  # as a gradient scaler would
def test_clipping_bounds_the_gradient_of_j_at_the_bottleneck_and_keeps_its_direction(scale):
    groups, t = torch.randn(16, 2, 5), torch.randn(16, 4, requires_grad=True)
    gradients, values = [], []
    for clip in (None, 1e-3):
        value = make_regularizer(clip=clip).penalty(groups, t, torch.Generator().manual_seed(0))
        gradients.append(torch.autograd.grad(scale * value, t)[0] / scale)
        values.append(value.item())
    free, clipped = gradients
    assert free.norm() > 1e-3
    assert values[0] == values[1]
    assert clipped.norm().item() == pytest.approx(1e-3, rel=1e-3)
    assert torch.allclose(clipped / clipped.norm(), free / free.norm(), atol=1e-4)


def test_the_regularizers_moving_average_is_saved_and_restored():
    def make():
        torch.manual_seed(3)
        return InformationRegularizer(Critic(VectorGroups(2, 5, 8), 4, width=8), bound="dv-average")

    groups, t = torch.randn(16, 2, 5), torch.randn(16, 4)
    whole, cut = make(), make()
    for regularizer in (whole, cut):
        regularizer.ascend(groups, t, torch.Generator().manual_seed(0))
    resumed = make()
    resumed.load_state_dict(cut.state_dict())
    for regularizer in (whole, resumed):
        regularizer.ascend(groups, t, torch.Generator().manual_seed(1))
    assert torch.equal(whole.bound.log_average, resumed.bound.log_average)
    for name, value in whole.critic.state_dict().items():
        assert torch.equal(value, resumed.critic.state_dict()[name])
