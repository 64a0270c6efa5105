"""Every bound: below the truth, exact where it should be, and finite everywhere."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agrlearn.information.bounds import (
    BOUNDS,
    MovingAverage,
    averaged_donsker_varadhan,
    donsker_varadhan,
    info_nce,
    jensen_shannon,
    log_mean_exp,
    smile,
)
from agrlearn.information.critics import Critic, VectorGroups
from agrlearn.information.pair_critics import CallableCritic, ConcatenatedCritic, SeparableCritic
from agrlearn.information.pairs import MARGINALS, split_diagonal
from agrlearn.information.regularizer import InformationRegularizer

RHO = 0.8
TRUTH = -0.5 * math.log(1 - RHO**2)


def log_ratio(x, y):
    rest = 1 - RHO**2
    return TRUTH - (RHO**2 * (x**2 + y**2) - 2 * RHO * x * y) / (2 * rest)


def gaussian_pairs(count, partners):
    random = torch.Generator().manual_seed(0)
    x, noise = torch.randn(2, count, generator=random, dtype=torch.float64)
    y = RHO * x + math.sqrt(1 - RHO**2) * noise
    others = torch.stack([y.roll(-shift) for shift in range(1, partners + 1)], dim=1)
    return log_ratio(x, y), log_ratio(x[:, None], others)


@pytest.mark.parametrize("name", BOUNDS)
def test_every_bound_reaches_the_gaussian_information_with_the_optimal_critic(name):
    value = BOUNDS[name](*gaussian_pairs(4000, 200)).item()
    assert value == pytest.approx(TRUTH, abs=0.03)


@pytest.mark.parametrize("name", [name for name in BOUNDS if name != "smile"])
def test_a_worse_critic_gives_a_lower_value(name):
    joint, marginal = gaussian_pairs(4000, 50)
    best = BOUNDS[name](joint, marginal).item()
    assert BOUNDS[name](0.5 * joint, 0.5 * marginal).item() < best
    assert BOUNDS[name](1.5 * joint, 1.5 * marginal).item() < best


@pytest.mark.parametrize("name", BOUNDS)
@pytest.mark.parametrize("shape", [(6,), (6, 1), (6, 5)])
def test_marginal_scores_may_be_one_or_many_for_each_sample(name, shape):
    value = BOUNDS[name](torch.ones(6), torch.ones(shape))
    assert value.shape == ()
    assert torch.isfinite(value)


@pytest.mark.parametrize("name", BOUNDS)
@settings(max_examples=30, deadline=None)
@given(
    joint=st.lists(st.floats(-1e4, 1e4, width=32), min_size=2, max_size=6),
    scale=st.sampled_from([1.0, 95.0, 1e4]),
    partners=st.integers(1, 4),
)
def test_no_scores_make_a_value_or_a_gradient_that_is_not_finite(name, joint, scale, partners):
    joint_scores = torch.tensor(joint, requires_grad=True)
    marginal = (scale * torch.randn(len(joint), partners, generator=torch.Generator().manual_seed(0))).requires_grad_()
    value = BOUNDS[name](joint_scores, marginal)
    value.backward()
    assert torch.isfinite(value)
    assert torch.isfinite(joint_scores.grad).all()
    assert torch.isfinite(marginal.grad).all()


def test_log_mean_exp_is_exact_and_keeps_its_gradient_where_scores_are_far_apart():
    scores = torch.tensor([[0.0, -5.0], [-200.0, 3.0]], requires_grad=True)
    value = log_mean_exp(scores)
    value.backward()
    assert value.item() == pytest.approx(math.log((1 + math.exp(-5) + math.exp(3)) / 4), abs=1e-6)
    assert torch.allclose(scores.grad, scores.detach().flatten().softmax(0).view(2, 2), atol=1e-7)


def test_info_nce_cannot_pass_the_log_of_its_partners():
    for scale in (1.0, 1e3):
        assert info_nce(torch.full((8,), scale), torch.zeros(8, 7)).item() <= math.log(8) + 1e-6


def test_the_jensen_shannon_critic_learns_by_logistic_regression_and_reads_out_by_donsker_varadhan():
    joint, marginal = torch.randn(8, requires_grad=True), torch.randn(8, 3, requires_grad=True)
    value = jensen_shannon(joint, marginal)
    assert value.item() == pytest.approx(donsker_varadhan(joint, marginal).item(), abs=1e-6)
    gradients = torch.autograd.grad(value, [joint, marginal])
    likelihood = torch.sigmoid(joint).log().mean() + torch.sigmoid(-marginal).log().mean()
    for mine, expected in zip(gradients, torch.autograd.grad(likelihood, [joint, marginal]), strict=True):
        assert torch.allclose(mine, expected, atol=1e-6)


def test_smile_clips_the_exponentials_and_nothing_else():
    joint, marginal = torch.tensor([9.0, 1.0]), torch.tensor([20.0, -20.0])
    expected = 5.0 - math.log((math.exp(5) + math.exp(-5)) / 2)
    assert smile(joint, marginal).item() == pytest.approx(expected, abs=1e-5)


def test_the_moving_average_survives_a_score_of_95_and_divides_by_the_average():
    average = MovingAverage(decay=0.9)
    for level in (0.0, 95.0, 500.0):
        marginal = torch.full((4,), level, requires_grad=True)
        value = average(torch.zeros(4), marginal)
        value.backward()
        assert torch.isfinite(value)
        assert torch.isfinite(marginal.grad).all()
    first, second = torch.tensor([1.0, 2.0]), torch.tensor([0.5, 3.0], requires_grad=True)
    average = MovingAverage(decay=0.9)
    average(torch.zeros(2), first)
    value = average(torch.zeros(2), second)
    denominator = 0.9 * first.exp().mean() + 0.1 * second.detach().exp().mean()
    assert average.log_average.exp().item() == pytest.approx(denominator.item(), rel=1e-5)
    value.backward()
    assert torch.allclose(second.grad, -second.detach().exp() / 2 / denominator, rtol=1e-5)


def test_without_a_past_the_averaged_gradient_is_the_ordinary_one():
    scores = torch.randn(5, requires_grad=True)
    mine = torch.autograd.grad(averaged_donsker_varadhan(torch.zeros(5), scores), scores)[0]
    assert torch.allclose(mine, torch.autograd.grad(donsker_varadhan(torch.zeros(5), scores), scores)[0], atol=1e-6)


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


@given(size=st.integers(2, 7))
@settings(max_examples=6, deadline=None)
def test_splitting_the_diagonal_keeps_rows_values_and_gradients(size):
    matrix = torch.randn(size, size, requires_grad=True)
    joint, marginal = split_diagonal(matrix)
    for row in range(size):
        others = torch.cat([matrix[row, :row], matrix[row, row + 1 :]])
        assert torch.equal(joint[row], matrix[row, row])
        assert torch.equal(marginal[row], others)
    weights = torch.randn(size, size - 1)
    (joint.square().sum() + (weights * marginal).sum()).backward()
    expected = torch.diag(2 * matrix.detach().diagonal())
    expected[~torch.eye(size, dtype=torch.bool)] = weights.flatten()
    assert torch.allclose(matrix.grad, expected)


CRITICS = {
    "separable": lambda: SeparableCritic(3, 2, width=8, rank=4),
    "concatenated": lambda: ConcatenatedCritic(3, 2, width=8),
    "callable": lambda: CallableCritic(lambda x, y: x[:, 0] * y[:, 1]),
}


@pytest.mark.parametrize("name", CRITICS)
def test_a_critics_matrix_holds_the_scores_of_its_pairs(name):
    critic = CRITICS[name]()
    x, y = torch.randn(5, 3), torch.randn(7, 2)
    matrix = critic.matrix(*critic.parts(x, y))
    for i in range(5):
        assert torch.allclose(matrix[i], critic(x[i].expand(7, 3), y), atol=1e-5)


@pytest.mark.parametrize("name", CRITICS)
@pytest.mark.parametrize("marginals", MARGINALS)
def test_independent_pairs_are_pairs_of_the_batch_and_shifts_have_no_fixed_points(name, marginals):
    critic = CRITICS[name]()
    x_part, y_part = critic.parts(torch.randn(6, 3), torch.randn(6, 2))
    joint, marginal = MARGINALS[marginals](critic, x_part, y_part, 3, torch.Generator().manual_seed(0))
    matrix = critic.matrix(x_part, y_part)
    assert torch.allclose(joint, matrix.diagonal(), atol=1e-5)
    assert marginal.shape == {"permutation": (6,), "shifts": (6, 3), "all": (6, 5)}[marginals]
    for i, row in enumerate(marginal.view(6, -1)):
        columns = [column for column in range(6) if marginals == "permutation" or column != i]
        assert all(torch.isclose(matrix[i, columns], score, atol=1e-5).any() for score in row)
