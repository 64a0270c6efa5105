"""Estimates of information: near the truth where it is known, and a sentence where there is none."""

import math

import numpy
import pytest
import torch
from torch import nn

from agrlearn.errors import AgrLearnError, DataError, RecipeError, ShapeError, TrainingError, UnknownNameError
from agrlearn.information import estimator, read_out
from agrlearn.information.bounds import BOUNDS
from agrlearn.information.estimator import estimate

QUICK = dict(steps=100, batch_size=128)


def gaussian(count, dimension, nats, seed=0):
    rho = math.sqrt(1 - math.exp(-2 * nats / dimension))
    random = torch.Generator().manual_seed(seed)
    x, noise = torch.randn(2, count, dimension, generator=random)
    return x, rho * x + math.sqrt(1 - rho**2) * noise


@pytest.mark.parametrize(("dimension", "nats", "tolerance"), [(1, 0.5, 0.06), (3, 1.5, 0.1)])
def test_the_default_settings_come_near_the_gaussian_information(dimension, nats, tolerance):
    result = estimate(*gaussian(3000, dimension, nats), batch_size=256)
    assert result.nats == pytest.approx(nats, abs=tolerance)
    assert result.bits == pytest.approx(result.nats / math.log(2))
    assert result.lower_bound <= result.nats
    assert 0 < result.spread < 0.1
    assert len(result.curves) == 3
    assert all(max(curve) > nats - 0.3 for curve in result.curves)
    assert result.warnings == ()


class Concatenating(nn.Module):
    """A user's critic with a layer of its own in the middle."""

    def __init__(self, layer):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), layer, nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, x, y):
        return self.layers(torch.cat([x, y], dim=1)).squeeze(1)


def test_a_critic_with_dropout_is_read_out_without_it_and_repeats_with_its_seed():
    critic = Concatenating(nn.Dropout(0.5))
    options = {"critic": critic, "marginals": "permutation", "learning_rate": 5e-3, **QUICK}
    once, again = (estimate(*gaussian(1000, 1, 0.8), **options) for _ in range(2))
    assert once == again
    assert once.nats == pytest.approx(0.8, abs=0.15)
    assert critic.training


def test_a_critic_that_normalises_over_batches_is_refused():
    critic = Concatenating(nn.BatchNorm1d(64))
    with pytest.raises(RecipeError, match="use LayerNorm instead"):
        estimate(*gaussian(100, 1, 0.8), critic=critic)
    estimate(*gaussian(100, 1, 0.8), critic=critic.eval(), steps=2)


@pytest.mark.parametrize("bound", BOUNDS)
def test_every_bound_trains_and_reads_out(bound):
    result = estimate(*gaussian(1500, 1, 0.5), bound, **QUICK)
    assert result.nats == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize(("critic", "marginals"), [("concatenated", "shifts"), ("separable", "permutation")])
def test_other_critics_and_marginals_work_too(critic, marginals):
    result = estimate(
        *gaussian(1500, 1, 0.5), critic=critic, marginals=marginals, shifts=4, learning_rate=3e-3, **QUICK
    )
    assert result.nats == pytest.approx(0.5, abs=0.2)


def test_rising_maps_of_a_column_change_nothing():
    x, y = gaussian(300, 2, 1.0)
    plain = estimate(x, y, steps=20)
    assert estimate(x.double() * 1e200, y**3, steps=20) == plain
    assert estimate(torch.exp(x), 1e-30 * y, steps=20) == plain


def test_independent_samples_have_next_to_no_information():
    x, y = torch.randn(2, 1500, 3, generator=torch.Generator().manual_seed(0))
    assert 0 <= estimate(x, y, **QUICK).nats < 0.03


def test_the_figure_is_never_read_off_samples_that_the_critic_was_trained_on(monkeypatch):
    """A critic that learns its samples by heart finds nothing in noise."""
    used = []
    original = estimator._train

    def remember(critic, x, y, *rest):
        used.append((critic, {tuple(row) for row in x.tolist()}))
        return original(critic, x, y, *rest)

    def check(critics, x, y, bound):
        if len(critics) > 1:
            rows = {tuple(row) for row in x.tolist()}
            for critic in critics:
                trained_on = next(rows for other, rows in used if other is critic)
                assert not rows & trained_on
            checked.append(len(rows))
        return read(critics, x, y, bound)

    checked, read = [], estimator.read_out
    monkeypatch.setattr(estimator, "_train", remember)
    monkeypatch.setattr(estimator, "read_out", check)
    estimate(*gaussian(300, 2, 0.5), steps=2)
    assert sum(checked) == 300


def test_equal_seeds_give_equal_estimates_and_the_global_stream_stays():
    x, y = gaussian(300, 1, 0.5)
    torch.manual_seed(7)
    expected = torch.rand(2)
    torch.manual_seed(7)
    first = estimate(x, y, steps=10, seed=1)
    assert torch.equal(torch.rand(2), expected)
    assert estimate(x, y, steps=10, seed=1) == first
    assert estimate(x, y, steps=10, seed=2) != first


def test_arrays_tensors_and_lists_are_one():
    x, y = gaussian(90, 1, 1.0)
    x, y = x.round(decimals=3), y.round(decimals=3)
    results = {
        estimate(a, b, steps=2).nats
        for a, b in ((x, y), (x.double().numpy(), y.flatten()), (x.flatten().tolist(), y.numpy()))
    }
    assert max(results) - min(results) < 1e-6


def test_booleans_and_integers_give_the_discrete_information():
    random = numpy.random.default_rng(0)
    x = random.random(2000) < 0.5
    y = x ^ (random.random(2000) < 0.1)
    truth = math.log(2) + 0.1 * math.log(0.1) + 0.9 * math.log(0.9)
    assert estimate(x, y, **QUICK).nats == pytest.approx(truth, abs=0.05)
    assert estimate(x.astype(numpy.uint8) * 200, torch.tensor(y), **QUICK).nats == pytest.approx(truth, abs=0.05)
    labels = random.integers(0, 4, 1500)
    assert estimate(labels, labels, **QUICK).nats == pytest.approx(math.log(4), abs=0.1)


@pytest.mark.parametrize("kind", ["uniform with noise", "discrete and continuous"])
def test_where_densities_end_abruptly_the_bound_still_holds(kind):
    random = numpy.random.default_rng(0)
    if kind == "uniform with noise":
        x = random.random(2000)
        y, truth = x + 0.5 * random.random(2000), 0.25 + math.log(2)
    else:
        x = random.integers(0, 5, 2000)
        y, truth = x + 2 * random.random(2000), math.log(5) - 0.8 * math.log(2)
    assert 0.75 * truth < estimate(x, y, **QUICK).lower_bound < truth + 0.02


def log_ratio(x, y, rho=0.8):
    each = -0.5 * math.log(1 - rho**2) - (rho**2 * (x**2 + y**2) - 2 * rho * x * y) / (2 * (1 - rho**2))
    return each.sum(dim=1)


@pytest.mark.parametrize("dimension", [1, 7, 20])
def test_the_lower_bound_is_on_average_at_most_the_information_also_where_no_sample_reaches_it(dimension):
    """With the best critic, Donsker-Varadhan's value on as many pairs is too high on average in 7 and 20 dimensions."""
    truth = -0.5 * dimension * math.log(1 - 0.9**2)  # 0.8, 5.8 and 16.6 nats
    samples = [gaussian(300, dimension, truth, seed) for seed in range(8)]
    figures = [estimate(x, y, critic=lambda x, y: log_ratio(x, y, 0.9)).lower_bound for x, y in samples]
    mean, deviation = numpy.mean(figures), numpy.std(figures, ddof=1)
    assert mean <= truth + 2 * deviation / math.sqrt(8)
    assert mean > min(truth, math.log(100)) - 0.6


def test_the_lower_bound_of_learned_critics_is_on_average_at_most_the_information():
    figures = [estimate(*gaussian(400, 2, 1.0, seed), seed=seed, **QUICK).lower_bound for seed in range(6)]
    assert 0.7 < numpy.mean(figures) <= 1.0 + 2 * numpy.std(figures, ddof=1) / math.sqrt(6)


@pytest.mark.parametrize("bound", BOUNDS)
def test_the_lower_bound_of_a_critic_is_the_same_whatever_bound_it_is_read_out_by(bound):
    x, y = gaussian(90, 20, 16.6)
    figures = {
        estimate(x, y, name, critic=lambda x, y: log_ratio(x, y, 0.9)).lower_bound for name in ("infonce", bound)
    }
    assert len(figures) == 1


@pytest.mark.parametrize(("count", "dimension"), [(1000, 10), (1000, 20), (3000, 20)])
def test_information_far_past_the_samples_gives_neither_absurd_figures_nor_silence(count, dimension):
    truth = -0.5 * dimension * math.log(1 - 0.9**2)  # 8.3 and 16.6 nats
    result = estimate(*gaussian(count, dimension, truth))
    assert 5 < result.lower_bound <= result.nats < truth
    assert result.lower_bound < math.log(count / 3 + 1)
    assert any("lower_bound" in warning for warning in result.warnings)
    assert not any("the figure as a lower bound" in warning for warning in result.warnings)


def test_nats_repeats_the_lower_bound_where_no_independent_pair_comes_near():
    names = torch.arange(300)  # each value once, so that nobody can know by how much own pairs are the likelier ones
    result = estimate(names, names, critic=lambda x, y: 1e3 * (x == y))
    assert result.nats == result.lower_bound == pytest.approx(math.log(100))
    assert "100% of the samples score far above every independent pair" in result.warnings[0]
    one_pair_decides = estimate(*gaussian(300, 1, 1.0), critic=lambda x, y: 1e3 * (x * y).squeeze(1))
    assert one_pair_decides.nats == one_pair_decides.lower_bound
    assert "about 1 independent pairs decide" in one_pair_decides.warnings[0]


def test_a_function_from_the_user_is_read_out_on_all_samples():
    x, noise = torch.randn(2, 2000, 1, generator=torch.Generator().manual_seed(0))
    y = 0.8 * x + 0.6 * noise
    result = estimate(x, y, critic=log_ratio)
    assert result.nats == pytest.approx(log_ratio(x, y).mean().item(), abs=0.05)
    assert result.curves == ((), (), ())
    assert result.lower_bound <= result.nats == pytest.approx(result.lower_bound, abs=0.02)


def test_a_module_from_the_user_is_copied_and_trained():
    class Bilinear(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(3))

        def forward(self, x, y):
            features = torch.cat([x * y, x * x, y * y], dim=1)
            return features @ self.weight

    critic = Bilinear()
    result = estimate(*gaussian(1500, 1, 0.5), critic=critic, learning_rate=0.03, **QUICK)
    assert result.nats == pytest.approx(0.5, abs=0.08)
    assert torch.equal(critic.weight, torch.zeros(3))


def test_read_outs_do_not_depend_on_the_training_batch():
    """One log-sum-exp over a whole part: a fixed critic's figure is the same whatever the batch size."""
    x, y = gaussian(600, 1, 2.0)
    rho = math.sqrt(1 - math.exp(-4))
    figures = {estimate(x, y, critic=lambda x, y: log_ratio(x, y, rho), batch_size=size).nats for size in (2, 50, 600)}
    assert len(figures) == 1


def test_copies_of_samples_are_left_out_and_atoms_are_not():
    x, y = gaussian(300, 1, 1.0)
    plain = estimate(x, y, steps=20)
    doubled = estimate(x.repeat(3, 1), y.repeat(3, 1), steps=20)
    assert doubled.nats == plain.nats
    assert "600 samples are copies" in doubled.warnings[0]
    with pytest.raises(DataError, match="60 different samples, got 30"):
        estimate(x[:30].repeat(3, 1), y[:30].repeat(3, 1))
    atoms = torch.where(x.abs() < 1, 0.0, x)
    assert not any(
        "copies" in warning for warning in estimate(atoms, torch.where(x.abs() < 1, 0.0, y), steps=20).warnings
    )


@pytest.mark.parametrize(
    ("kind", "flips", "truth"), [("age", 0.1, 0.368), ("standardized age", 0.1, 0.368), ("code of 1000", 0.0, 0.693)]
)
def test_values_that_recur_of_themselves_are_not_taken_for_copies(kind, flips, truth):
    random = numpy.random.default_rng(0)
    x = random.integers(0, 1000, 3000) if kind == "code of 1000" else random.integers(18, 91, 3000)
    y = (x > numpy.median(x)) ^ (random.random(3000) < flips)
    result = estimate((x - 54) / 21 if kind == "standardized age" else x, y, **QUICK)
    assert result.nats == pytest.approx(truth, abs=0.08)
    assert not any("copies" in warning for warning in result.warnings)


@pytest.mark.parametrize("constant", ["x", "y"])
def test_a_constant_has_no_information(constant):
    x, y = gaussian(100, 2, 1.0)
    result = estimate(torch.full((100, 2), 3.0) if constant == "x" else x, y if constant == "x" else torch.ones(100))
    assert result.nats == 0
    assert f"{constant} is constant" in result.warnings[0]


@pytest.mark.parametrize(
    ("x", "y", "kind", "message"),
    [
        (numpy.array([1.0]), numpy.array([2.0]), DataError, "at least 60 samples, got 1"),
        (numpy.zeros(0), numpy.zeros(0), DataError, "no samples"),
        (1.0, 2.0, ShapeError, "a single number"),
        (numpy.full(100, math.nan), numpy.zeros(100), DataError, "x holds NaN or infinite values in 100 of 100"),
        (numpy.zeros(100), numpy.full(100, math.inf), DataError, "y holds NaN"),
        (numpy.zeros(100), numpy.zeros(99), ShapeError, "100 and 99"),
        (numpy.array(["a"] * 100), numpy.zeros(100), DataError, "numbers or booleans"),
    ],
)
def test_samples_that_cannot_work_get_a_sentence(x, y, kind, message):
    with pytest.raises(kind, match=message):
        estimate(x, y)


def test_options_that_cannot_work_get_a_sentence():
    x, y = gaussian(90, 1, 1.0)
    with pytest.raises(UnknownNameError, match="did you mean 'infonce'"):
        estimate(x, y, "info-nce")
    with pytest.raises(UnknownNameError, match="no critic"):
        estimate(x, y, critic="separate")
    with pytest.raises(UnknownNameError, match="permutation"):
        estimate(x, y, marginals="everything")
    with pytest.raises(RecipeError, match="parts of at least 3"):
        estimate(x, y, parts=2)
    with pytest.raises(ShapeError, match="one score for each"):
        estimate(x, y, critic=lambda x, y: x * y)
    with pytest.raises(TrainingError, match="not finite"):
        estimate(x, y, critic=lambda x, y: (x * y).squeeze(1) * math.nan)


def test_an_estimate_past_what_the_batch_supports_says_so():
    x, y = gaussian(2000, 1, 3.0)
    small = estimate(x, y, "infonce", batch_size=8, marginals="all")
    assert any("more than batches of 8" in warning for warning in small.warnings)
    rough = estimate(x[:90], 1e-3 * torch.randn(90, 1) + x[:90], critic=lambda x, y: -50 * (x - y).square().squeeze(1))
    assert any("independent pairs decide" in warning for warning in rough.warnings)
    hurried = estimate(x[:300], y[:300], steps=15)
    assert any("raise steps" in warning for warning in hurried.warnings)
    assert "warning: " in str(hurried)


@pytest.mark.parametrize("dimension", [1, 5, 20])
def test_infonce_that_saturates_on_few_samples_says_so_whatever_the_batch_size(dimension):
    result = estimate(*gaussian(90, dimension, 6.9), "infonce", batch_size=512)
    assert result.nats < 4
    assert any("more than batches of 30" in warning and "collect more" in warning for warning in result.warnings)


def test_infonce_that_saturates_on_the_pairs_it_is_read_out_on_says_so(monkeypatch):
    monkeypatch.setattr(read_out, "_PAIRS_AT_MOST", {True: 2**13, False: 2**13})
    result = estimate(*gaussian(1500, 1, 4.0), "infonce")
    assert result.nats < math.log(17)
    [warning] = [warning for warning in result.warnings if "more than batches of 17 with 16" in warning]
    assert "raise" not in warning and "collect" not in warning  # neither would help


@pytest.mark.parametrize("kind", ["tiny", "skewed", "many columns", "few"])
def test_awkward_samples_give_a_finite_figure_or_a_sentence(kind):
    random = torch.Generator().manual_seed(0)
    x, y = {
        "tiny": gaussian(60, 1, 4.0),
        "skewed": (torch.randn(90, 1, generator=random).double().mul(200).exp(), torch.randn(90, generator=random)),
        "many columns": (torch.randn(90, 300, generator=random), torch.randint(0, 2, (90, 200), generator=random)),
        "few": gaussian(5, 1, 1.0),
    }[kind]
    try:
        result = estimate(x, y, steps=25)
    except AgrLearnError as error:
        assert len(str(error)) > 20
    else:
        assert math.isfinite(result.nats) and result.nats >= 0
        assert math.isfinite(result.spread)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dimension", "nats", "tolerance"),
    [(1, 0.5, 0.02), (5, 0.5, 0.02), (20, 0.5, 0.03), (5, 2.0, 0.06), (20, 5.0, 0.5)],
)
def test_ten_thousand_samples_reach_the_aims(dimension, nats, tolerance):
    figures = [estimate(*gaussian(10_000, dimension, nats, seed), seed=seed).nats for seed in range(2)]
    assert sum(figures) / 2 == pytest.approx(nats, abs=tolerance)
