"""The regularizing network: J, its ascent, and its use as a penalty."""

import copy
import math

import pytest
import torch
from torch import nn

from agrlearn.errors import DataError
from agrlearn.information.bounds import BOUNDS, donsker_varadhan
from agrlearn.information.critics import Critic, TokenGroups, VectorGroups, critic_for
from agrlearn.information.regularizer import InformationRegularizer
from agrlearn.networks.standardize import Standardize


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


EXAMPLES = {
    "images": torch.rand(9, 2, 3, 40, 36),
    "bytes": torch.randint(0, 255, (9, 2, 1, 8, 8), dtype=torch.uint8),
    "standardized bytes": torch.randint(0, 255, (9, 2, 1, 8, 8), dtype=torch.uint8),
    "large bytes": torch.randint(0, 255, (9, 2, 3, 40, 36), dtype=torch.uint8),
    "vectors": torch.randn(9, 2, 5),
    "double vectors": torch.randn(9, 2, 5, dtype=torch.float64),
    "numbers": torch.randn(9, 2),
    "series": torch.randn(9, 2, 3, 20),
    "standardized series": torch.randn(9, 2, 1, 20),
    "volumes": torch.randn(9, 2, 1, 4, 4, 4),
    "tokens": torch.randint(0, 50, (9, 2, 12)),
    "short tokens": torch.randint(0, 50, (9, 2, 12), dtype=torch.int32),
}


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


def test_a_critic_learns_as_much_of_bytes_as_of_the_same_numbers_from_0_to_1():
    numbers = torch.randint(0, 255, (64, 2, 1, 8, 8), dtype=torch.uint8)
    t = numbers.float().flatten(1)[:, :4] / 255
    ends = []
    for groups in (numbers, numbers.float() / 255):
        torch.manual_seed(0)
        regularizer = InformationRegularizer(critic_for(groups, 4))
        ends.append([regularizer.ascend(groups, t, torch.Generator().manual_seed(s)).item() for s in range(300)][-1])
    assert ends[0] == pytest.approx(ends[1], abs=1e-3)
    assert ends[0] > 0.1


def test_tokens_are_words_in_short_numbers_too():
    kinds = [type(critic_for(EXAMPLES[kind], 4).group_features) for kind in ("tokens", "short tokens")]
    assert kinds == [TokenGroups, TokenGroups]


def test_a_mapping_that_no_critic_reads_is_refused_with_what_to_do():
    groups = {"image": torch.rand(4, 2, 3, 8, 8), "about": torch.rand(4, 2, 5)}
    with pytest.raises(DataError, match=r"'input_ids'; got a mapping of image, about: .*alpha=0"):
        critic_for(groups, 4)


def test_the_split_first_layer_equals_a_layer_on_the_concatenation():
    critic = Critic(VectorGroups(2, 5, 16), 4, width=16)
    groups, t = torch.randn(6, 2, 5), torch.randn(6, 4)
    whole = torch.cat([critic.group_features.linear.weight, critic.bottleneck_part.weight], dim=1)
    concatenated = torch.cat([groups.flatten(1), t], dim=1) @ whole.T + critic.bottleneck_part.bias
    assert torch.allclose(critic(groups, t), critic.score(concatenated.relu()).squeeze(1), atol=1e-5)


def test_tokens_beyond_padding_count_and_padding_does_not():
    critic = critic_for(EXAMPLES["tokens"], 4)
    t = torch.randn(9, 4)
    longer = torch.cat([EXAMPLES["tokens"], torch.zeros(9, 2, 5, dtype=torch.int64)], dim=2)
    assert torch.allclose(critic(longer, t), critic(EXAMPLES["tokens"], t), atol=1e-6)
    changed = EXAMPLES["tokens"].clone()
    changed[:, :, 0] = 49
    assert not torch.allclose(critic(changed, t), critic(EXAMPLES["tokens"], t))


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


def test_large_scores_do_not_overflow():
    scores = torch.full((8,), 500.0)
    assert donsker_varadhan(scores, scores).item() == pytest.approx(0.0, abs=1e-3)
    assert torch.isfinite(donsker_varadhan(torch.full((8,), -1e4), scores))


@pytest.mark.parametrize("name", BOUNDS)
def test_every_bound_is_zero_for_a_constant_critic_and_a_scalar_with_gradients(name):
    scores = torch.zeros(10, requires_grad=True)
    value = BOUNDS[name](scores, scores * 1.0)
    value.backward()
    assert value.shape == ()
    assert value.item() == pytest.approx(0.0, abs=1e-6)
    assert torch.isfinite(scores.grad).all()


def test_donsker_varadhan_reaches_the_gaussian_information_with_the_optimal_critic():
    rho, count = 0.8, 200_000
    random = torch.Generator().manual_seed(0)
    x, noise = torch.randn(2, count, generator=random, dtype=torch.float64)
    y = rho * x + math.sqrt(1 - rho**2) * noise

    def log_ratio(x, y):
        spread = 1 - rho**2
        return -0.5 * math.log(spread) - (rho**2 * (x**2 + y**2) - 2 * rho * x * y) / (2 * spread)

    value = donsker_varadhan(log_ratio(x, y), log_ratio(x, y[torch.randperm(count, generator=random)]))
    assert value.item() == pytest.approx(-0.5 * math.log(1 - rho**2), abs=0.02)


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
