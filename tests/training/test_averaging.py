"""Averaged weights: what they are, what batch normalisation becomes, and what is measured."""

import pytest
import torch

from agrlearn.errors import RecipeError, RunError
from agrlearn.evaluation.evaluate import evaluate
from agrlearn.training import loop
from agrlearn.training.loop import fit
from agrlearn.training.recipe import Recipe
from agrlearn.training.step import train_step
from tests.training.small_runs import FAST

STEPS = 3 * 10  # of a run


@pytest.fixture
def weights_by_step(monkeypatch):
    """The weights after every step of `fit`."""
    seen = []

    def step(module, state, *arguments, **options):
        train_step(module, state, *arguments, **options)
        seen.append({name: value.detach().double() for name, value in state.network.named_parameters()})

    monkeypatch.setattr(loop, "train_step", step)
    return seen


@pytest.mark.parametrize("share", [0.0, 0.5, 0.75, 0.99])
def test_the_network_ends_with_the_mean_of_its_weights_after_the_steps_of_that_share(
    share, vectors, make_mlp, weights_by_step
):
    network = make_mlp(2)
    fit(network, vectors, Recipe(**FAST, average_from=share))
    assert len(weights_by_step) == STEPS
    last = weights_by_step[int(share * STEPS) :]
    for name, value in network.named_parameters():
        expected = torch.stack([each[name] for each in last]).mean(dim=0)
        torch.testing.assert_close(value.detach().double(), expected, rtol=1e-5, atol=1e-6)


def test_batch_normalisation_has_the_mean_and_variance_that_the_averaged_weights_make(vectors, make_mlp):
    network = make_mlp(1)
    fit(network, vectors, Recipe(**{**FAST, "batch_size": 150}, average_from=0.5))
    linear, normalisation = network.encoder[0][0], network.encoder[0][1]
    with torch.no_grad():
        made = linear(network.shared(vectors.objects))
    torch.testing.assert_close(normalisation.running_mean, made.mean(dim=0))
    torch.testing.assert_close(normalisation.running_var, made.var(dim=0))
    assert normalisation.momentum == 0.1


def test_frozen_normalisation_stays_as_it_was(vectors, make_mlp):
    network = make_mlp(1)
    frozen = network.encoder[0][1].eval()
    fit(network, vectors, Recipe(**FAST, average_from=0.5))
    assert (frozen.running_mean == 0).all() and (frozen.running_var == 1).all()


def test_the_last_epoch_is_measured_with_the_averaged_weights(vectors, make_mlp):
    network = make_mlp(2)
    history = fit(network, vectors, Recipe(**FAST, average_from=0.5), vectors)
    assert history.records[-1].validation_nll == evaluate(network, vectors).nll


def test_steps_before_the_average_are_those_of_a_run_without_one(vectors, make_mlp, weights_by_step):
    fit(make_mlp(2), vectors, Recipe(**FAST, average_from=0.5))
    fit(make_mlp(2), vectors, Recipe(**FAST))
    with_average, without = weights_by_step[:STEPS], weights_by_step[STEPS:]
    assert all(
        torch.equal(one[name], other[name]) for one, other in zip(with_average, without, strict=True) for name in one
    )


def test_patience_and_an_average_are_refused_together():
    with pytest.raises(RecipeError, match="patience keeps the best epoch"):
        Recipe(patience=3, average_from=0.5)


def test_a_run_that_averages_is_not_made_longer(vectors, make_mlp, tmp_path):
    fit(make_mlp(2), vectors, Recipe(**FAST, average_from=0.5), run_dir=tmp_path)
    with pytest.raises(RunError, match="has begun to average its weights"):
        fit(make_mlp(2), vectors, Recipe(**{**FAST, "epochs": 5}, average_from=0.5), run_dir=tmp_path, more_epochs=True)
