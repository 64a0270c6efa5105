"""The penalty whose critic reads the bottleneck, and that of the variational bottleneck."""

import math

import numpy
import pytest
import torch

from agrlearn import LabelledSet, Recipe, build_network, fit
from agrlearn.errors import RecipeError
from agrlearn.information import discrete_information
from agrlearn.information.bottleneck import BottleneckRegularizer, VariationalRegularizer
from agrlearn.information.plane import gaussian_scores, leave_one_out_bounds
from agrlearn.training.identity import Identity


@pytest.fixture
def draws():
    torch.manual_seed(0)
    means = 2 * torch.randn(64, 5)
    return means, means + 0.7 * torch.randn(64, 5)


def test_nothing_about_t_is_lost_by_reading_h_of_x():
    random = numpy.random.default_rng(0)
    chances, h = random.dirichlet(numpy.ones(7)), numpy.array([0, 1, 0, 2, 2, 1, 0])
    t_given_h = random.dirichlet(numpy.ones(4), size=3)
    of_x = chances[:, None] * t_given_h[h]
    of_h = numpy.stack([of_x[h == value].sum(0) for value in range(3)])
    assert discrete_information(of_x) == pytest.approx(discrete_information(of_h), abs=1e-12)


def test_j_is_the_lower_bound_of_the_known_noise_and_its_gradient_that_of_the_upper_one(draws):
    means, t = draws[0], draws[1].requires_grad_()
    value = BottleneckRegularizer(0.7).penalty(means, t)
    scores = gaussian_scores(t.detach(), means, 0.7)
    assert value.item() == pytest.approx(leave_one_out_bounds(scores)[0], abs=1e-4)

    free = t.detach().double().requires_grad_()
    table = -torch.cdist(free, means.double()).square() / (2 * 0.7**2)
    others = table.masked_fill(torch.eye(64, dtype=torch.bool), -math.inf)
    (expected,) = torch.autograd.grad((table.diagonal() - others.logsumexp(1)).mean(), free)
    (found,) = torch.autograd.grad(value, t)
    assert torch.allclose(found.double(), expected, atol=1e-5)


def test_groups_of_earlier_batches_are_compared_with_too(draws):
    means, t = draws
    regularizer = BottleneckRegularizer(0.7, memory=40)
    regularizer.penalty(means, t)
    again = regularizer.penalty(means[:8], t[:8]).item()
    scores = gaussian_scores(t[:8], torch.cat([means[:8], means[:40]])[:, :], 0.7)
    expected = (scores.diagonal() - scores.logsumexp(1)).mean() + math.log(48)
    assert again == pytest.approx(expected.item(), abs=1e-4)
    assert len(regularizer.memory) == 40


@pytest.mark.parametrize("start", [0.3, 2.0])
def test_ascents_find_the_precision_of_the_noise(start):
    torch.manual_seed(0)
    regularizer = BottleneckRegularizer(start, learning_rate=0.05)
    for _ in range(400):
        means = torch.randn(64, 3)
        regularizer.ascend(means, means + 0.7 * torch.randn(64, 3))
    assert math.exp(-regularizer.log_precision / 2) == pytest.approx(0.7, rel=0.1)


def test_without_noise_j_never_exceeds_the_logarithm_of_what_it_compares():
    torch.manual_seed(0)
    regularizer = BottleneckRegularizer(learning_rate=1.0, memory=100)
    for _ in range(300):
        t = 100 * torch.randn(50, 3)
        values = regularizer.ascend(t, t), regularizer.penalty(t, t)
    assert values[0] <= math.log(50) + 1e-4
    assert math.log(150) - 1 < values[1] <= math.log(150) + 1e-4


def test_bottlenecks_that_are_not_finite_move_nothing_and_are_not_remembered(draws):
    means, t = draws
    regularizer = BottleneckRegularizer(0.7)
    regularizer.penalty(means, t)
    before = regularizer.state_dict()
    assert not torch.isfinite(regularizer.ascend(means, t + math.inf))
    assert not torch.isfinite(regularizer.penalty(means, t + math.inf))
    assert regularizer.state_dict()["log_precision"] == before["log_precision"]
    assert torch.equal(regularizer.state_dict()["memory"], before["memory"])


def test_clipping_bounds_the_gradient_and_keeps_its_direction(draws):
    means, t = draws[0], draws[1].requires_grad_()
    free, clipped = (
        torch.autograd.grad(BottleneckRegularizer(0.7, clip=clip).penalty(means, t), t)[0] for clip in (None, 1e-3)
    )
    assert clipped.norm().item() == pytest.approx(1e-3, rel=1e-3)
    assert torch.allclose(clipped / clipped.norm(), free / free.norm(), atol=1e-5)


def test_the_variational_penalty_is_the_divergence_from_a_standard_normal(draws):
    means, t = draws[0], draws[1].requires_grad_()
    normal = torch.distributions.Normal
    expected = torch.distributions.kl_divergence(normal(means, 0.7), normal(0.0, 1.0)).sum(1).mean()
    value = VariationalRegularizer(0.7).penalty(means, t)
    assert value.item() == pytest.approx(expected.item(), rel=1e-5)
    assert torch.allclose(torch.autograd.grad(value, t)[0], means / 64)


def trained(alpha, noise=1.0, **options):
    random = torch.Generator().manual_seed(0)
    objects = torch.randn(400, 6, generator=random)
    data = LabelledSet(objects, (objects[:, 0] > 0).long(), ("no", "yes"))
    network = build_network("mlp", object_shape=(6,), num_classes=2, fold=2, join="features", noise=noise)
    recipe = Recipe(
        epochs=6, batch_size=32, optimizer="adam", learning_rate=0.003, alpha=alpha, track_information=noise > 0,
        **options,
    )  # fmt: skip
    return fit(network, data, recipe, data if noise > 0 else None, progress=False).records[-1]


def test_in_training_j_shows_what_t_keeps_and_the_penalty_lowers_it():
    free, penalized = (trained(alpha, noise=3.0) for alpha in (1e-6, 1.0))
    assert penalized.information < free.information - 0.3
    for record in (free, penalized):
        assert record.information <= record.log_groups
        within = 0.9 * record.x_information_lower <= record.information <= 1.1 * record.x_information_upper
        assert within or record.information > record.log_groups - 0.3


@pytest.mark.parametrize("bound", ["vib", "dv", "dv-average", "nwj", "infonce", "smile", "js"])
def test_every_bound_trains_with_a_critic_that_reads_the_bottleneck(bound):
    assert math.isfinite(trained(0.01, bound=bound).information)


def test_a_critic_of_the_users_own_reads_the_bottleneck_or_the_objects():
    class Own(torch.nn.Module):
        def __init__(self, features):
            super().__init__()
            self.linear = torch.nn.Linear(features, 8)

        def forward(self, seen, t):
            self.seen = seen.shape
            return self.linear(seen.flatten(1)).sum(1) + t.sum(1)

    random = torch.Generator().manual_seed(0)
    data = LabelledSet(torch.randn(40, 6, generator=random), torch.arange(40) % 2, ("no", "yes"))
    network = build_network("mlp", object_shape=(6,), num_classes=2, fold=2, join="features")
    for reads, shape in (("bottleneck", (8, network.features)), ("input", (8, 2, 6))):
        critic = Own(math.prod(shape[1:]))
        fit(network, data, Recipe(epochs=1, batch_size=8, alpha=0.1, critic=reads), critic=critic, progress=False)
        assert critic.seen == shape


def test_bounds_that_cannot_be_are_refused_in_a_sentence():
    with pytest.raises(RecipeError, match="critic='bottleneck'"):
        Recipe(critic="input", bound="vib")
    with pytest.raises(RecipeError, match="noise"):
        trained(0.1, noise=0.0, bound="vib")


def test_a_run_from_before_there_was_a_choice_had_a_critic_that_reads_objects():
    saved = {
        "precision": "32-true", "recipe": Recipe(alpha=0.3, bound="dv").model_dump(exclude={"critic"}),
        "network": {"network": "mlp", "fold": 2}, "initial_seed": 0, "training_data": "", "validation_data": None,
        "augmentation": None,
    }  # fmt: skip
    assert Identity.model_validate(saved).recipe.critic == "input"
