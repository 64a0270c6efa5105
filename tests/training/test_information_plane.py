"""The information plane: bounds that hold where everything is known, and a refusal where nothing is."""

import json
import math
from dataclasses import asdict

import pytest
import torch
from torch import nn

from agrlearn.data.labelled import LabelledSet
from agrlearn.errors import RecipeError, ShapeError
from agrlearn.information.plane import (
    gaussian_scores,
    label_bound,
    leave_one_out_bounds,
    leave_one_out_label_information,
)
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.training.checkpoint import read_records
from agrlearn.training.information_plane import measure_information
from agrlearn.training.loop import fit
from agrlearn.training.recipe import Recipe

TRACKED = dict(epochs=3, batch_size=16, learning_rate=0.05, track_information=True)


def binary_channel(count, noise):
    """X = Y = ±1 with equal chance and T = X + noise: I(X;T) = I(Y;T), by numerical integration."""
    labels = torch.arange(count) % 2
    means = (2.0 * labels - 1).unsqueeze(1)
    grid = torch.linspace(-1 - 8 * noise, 1 + 8 * noise, 20001, dtype=torch.float64)

    def density(mean):
        return torch.exp(-((grid - mean) ** 2) / (2 * noise**2)) / (noise * math.sqrt(2 * math.pi))

    mixture = 0.5 * (density(-1.0) + density(1.0))
    entropy = -torch.trapezoid(torch.special.xlogy(mixture, mixture), grid)
    truth = float(entropy) - 0.5 * math.log(2 * math.pi * math.e * noise**2)
    random = torch.Generator().manual_seed(0)
    return labels, means, means + noise * torch.randn(count, 1, generator=random), truth


@pytest.mark.parametrize("noise", [0.5, 1.0, 2.0])
def test_the_bounds_enclose_an_information_that_is_known(noise):
    labels, means, t, truth = binary_channel(2000, noise)
    scores = gaussian_scores(t, means, noise)
    lower, upper = leave_one_out_bounds(scores)
    assert lower <= upper
    assert lower == pytest.approx(truth, abs=0.03)
    assert upper == pytest.approx(truth, abs=0.03)
    assert leave_one_out_label_information(scores, labels.unsqueeze(1), 2) == pytest.approx(truth, abs=0.03)


def test_gaussian_information_lies_between_the_bounds_on_average():
    """X of variance 1, T = X + noise of variance ½: I(X;T) = ½ log 3."""
    values = []
    for seed in range(20):
        x, noise = torch.randn(2, 200, 1, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        values.append(leave_one_out_bounds(gaussian_scores(x + math.sqrt(0.5) * noise, x, math.sqrt(0.5))))
    lower, upper = (sum(column) / 20 for column in zip(*values, strict=True))
    assert lower - 0.03 < 0.5 * math.log(3) < upper + 0.03
    assert upper - lower < 0.1


def test_theorem_3_holds_for_every_classifier_and_is_reached_by_the_true_posterior():
    noise = 1.0
    labels, _, t, truth = binary_channel(20_000, noise)
    margins = torch.linspace(0.0, 4.0, 17)

    def bound(slope):
        logits = torch.cat([-slope * t, slope * t], dim=1).unsqueeze(1)
        return label_bound(torch.log_softmax(logits, dim=-1), labels.unsqueeze(1))

    values = [bound(float(slope)) for slope in margins]
    assert max(values) <= truth + 0.01
    assert bound(1.0) == pytest.approx(truth, abs=0.01)  # p(y|t) = sigmoid(2 t y / noise²)
    assert max(values) == bound(1.0)


def test_the_lower_bound_cannot_pass_log_m_and_the_upper_one_can():
    means = 100.0 * torch.arange(50.0).unsqueeze(1)
    lower, upper = leave_one_out_bounds(gaussian_scores(means + 0.1, means, 1.0))
    assert lower == pytest.approx(math.log(50))
    assert upper > 1000
    with pytest.raises(ShapeError, match="at least 2 samples"):
        gaussian_scores(means[:1], means[:1], 1.0)


def test_a_network_whose_information_is_known_is_placed_where_it_belongs():
    labels = torch.arange(1500) % 2
    held_out = LabelledSet((2.0 * labels - 1).unsqueeze(1), labels, ("minus", "plus"))
    network = AggregatedClassifier(nn.Identity(), features=2, fold=2, num_classes=2, join="features", noise=1.0)
    with torch.no_grad():  # each head reads its own slot's coordinate by the true posterior
        network.head.weight.copy_(torch.tensor([[-1.0, 0.0], [1.0, 0.0], [0.0, -1.0], [0.0, 1.0]]))
        network.head.bias.zero_()
    plane = measure_information(network, held_out)
    truth = 2 * binary_channel(2, 1.0)[-1]  # two independent slots
    assert network.training
    for value in asdict(plane).values():
        assert value == pytest.approx(truth, abs=0.06)
    assert plane == measure_information(network, held_out)
    assert plane != measure_information(network, held_out, seed=1)


def test_measuring_takes_any_precision_and_leaves_every_module_in_its_own_mode(vectors):
    encoder = nn.Sequential(nn.Linear(12, 4), nn.BatchNorm1d(4))
    network = AggregatedClassifier(encoder, features=4, fold=2, num_classes=3, join="features", noise=0.3)
    encoder[1].eval()
    plane = measure_information(network.double(), vectors)
    assert 0 < plane.x_information_lower <= min(plane.x_information_upper, math.log(150))
    assert [module for module in network.modules() if not module.training] == [encoder[1]]
    with pytest.raises(RuntimeError):
        measure_information(network, LabelledSet(torch.rand(9, 5), torch.arange(9) % 3, ("a", "b", "c")))
    assert network.training


def test_a_run_records_its_plane_and_resumes_to_the_same(vectors, make_mlp, tmp_path):
    fit(make_mlp(2, noise=0.3), vectors, Recipe(**TRACKED), vectors, tmp_path / "run")
    records = read_records(tmp_path / "run")
    assert all(record.x_information_lower <= record.x_information_upper for record in records)
    assert all(record.x_information_lower <= math.log(150) + 1e-9 for record in records)
    assert records[-1].y_information_bound > records[0].y_information_bound
    assert records[-1].y_information_bound <= 2 * math.log(3) + 1e-9
    again = fit(make_mlp(2, noise=0.3), vectors, Recipe(**TRACKED), vectors)
    assert list(again.records) == records


def test_tracking_does_not_change_the_training(vectors, make_mlp):
    tracked, plain = make_mlp(2, noise=0.3), make_mlp(2, noise=0.3)
    fit(tracked, vectors, Recipe(**TRACKED), vectors)
    fit(plain, vectors, Recipe(**{**TRACKED, "track_information": False}), vectors)
    assert all(torch.equal(value, plain.state_dict()[name]) for name, value in tracked.state_dict().items())


def test_a_deterministic_encoder_is_refused_and_told_why(vectors, make_mlp):
    with pytest.raises(RecipeError, match="a deterministic encoder has no finite I"):
        fit(make_mlp(2), vectors, Recipe(**TRACKED), vectors)
    with pytest.raises(RecipeError, match="pass a validation set"):
        fit(make_mlp(2, noise=0.3), vectors, Recipe(**TRACKED))
    with pytest.raises(RecipeError, match="at least 4 held-out objects"):
        fit(make_mlp(2, noise=0.3), vectors, Recipe(**TRACKED), vectors.subset(torch.arange(3)))


def test_runs_of_versions_without_tracking_are_still_read_and_resumed(vectors, make_mlp, tmp_path):
    recipe = Recipe(epochs=2, batch_size=16)
    fit(make_mlp(2), vectors, recipe, vectors, tmp_path)
    about = json.loads((tmp_path / "run.json").read_text())
    del about["identity"]["recipe"]["track_information"]
    (tmp_path / "run.json").write_text(json.dumps(about))
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    old = [{key: value for key, value in line.items() if "_information" not in key} for line in lines]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in old))
    assert [record.epoch for record in read_records(tmp_path)] == [1, 2]
    assert fit(make_mlp(2), vectors, recipe, vectors, tmp_path).was_finished
