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
    for gradient, expected in zip(gradients, torch.autograd.grad(likelihood, [joint, marginal]), strict=True):
        assert torch.allclose(gradient, expected, atol=1e-6)


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
    gradient = torch.autograd.grad(averaged_donsker_varadhan(torch.zeros(5), scores), scores)[0]
    assert torch.allclose(gradient, torch.autograd.grad(donsker_varadhan(torch.zeros(5), scores), scores)[0], atol=1e-6)


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
