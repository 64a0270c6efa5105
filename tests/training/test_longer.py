"""A run can be given more epochs, and what comes of it is known beforehand."""

import json

import pytest
import torch

from agrlearn.errors import AgrLearnWarning, RunError
from agrlearn.runs.facts import read_facts, settings_of
from agrlearn.runs.run import Run
from agrlearn.training.checkpoint import read_records
from agrlearn.training.loop import fit
from agrlearn.training.recipe import Recipe
from agrlearn.training.setup import learning_rate_at
from tests.training import stopping
from tests.training.small_runs import same, weights

SETTINGS = dict(batch_size=32, learning_rate=0.05, optimizer="adamw")
STEPS = 5  # of an epoch


def recipe(epochs, **options):
    return Recipe(epochs=epochs, **{"schedule": "cosine", **SETTINGS, **options})


@pytest.fixture
def train(tmp_path, vectors, make_mlp):
    held_out = vectors.subset(torch.arange(0, 150, 3))

    def train(name, epochs, more_epochs=True, **options):
        network = make_mlp(2)
        history = fit(network, vectors, recipe(epochs, **options), held_out, tmp_path / name, more_epochs=more_epochs)
        return network, history

    return train


def longer(epochs):
    return pytest.warns(AgrLearnWarning, match=rf"goes on from epoch \d+ to {epochs}")


def test_at_a_constant_rate_a_longer_run_is_one_that_was_so_long_from_the_start(train, tmp_path):
    train("run", 2, schedule="constant")
    with longer(4) as told:
        network, history = train("run", 4, schedule="constant")
    assert "learning rate" not in str(told[0].message)
    whole, expected = train("whole", 4, schedule="constant")
    assert same(weights(network), weights(whole))
    assert history.records == expected.records
    assert (tmp_path / "run" / "metrics.jsonl").read_text() == (tmp_path / "whole" / "metrics.jsonl").read_text()


def test_the_rate_of_a_longer_run_is_that_of_the_new_length_from_there_on(train, tmp_path):
    train("run", 2)
    with longer(4) as told:
        network, history = train("run", 4)
    assert "its learning rate is that of a run of 4 epochs" in str(told[0].message)
    rates = [record.learning_rate for record in history.records]
    expected = [*(learning_rate_at(recipe(2), epoch) for epoch in (0, 1)),
                *(learning_rate_at(recipe(4), epoch) for epoch in (2, 3))]  # fmt: skip
    assert rates == expected
    assert not history.was_finished
    run = Run.open(tmp_path / "run")
    assert run.about.identity.made_longer_after == [2]
    assert same(weights(run.network), weights(network))


def test_a_longer_run_that_is_stopped_anywhere_ends_with_the_same_weights(train, tmp_path):
    train("run", 2)
    with longer(4):
        network, _ = train("run", 4)
    for steps in (0, 3, STEPS, 2 * STEPS - 1):
        name = f"stopped after {steps}"
        train(name, 2)
        with longer(4), pytest.raises(stopping.StoppedError), stopping.at_most(steps):
            train(name, 4)
        assert not Run.open(tmp_path / name).finished
        with pytest.warns(AgrLearnWarning, match=r"is not finished, with \d of 4 epochs"):
            _ = Run.open(tmp_path / name).network
        again, _ = train(name, 4)  # says nothing more: it is a run of 4 epochs now
        assert same(weights(again), weights(network))
    again, history = train("run", 4)
    assert history.was_finished
    assert same(weights(again), weights(network))


def test_a_stopped_run_can_be_made_longer_too(train, tmp_path):
    with pytest.raises(stopping.StoppedError), stopping.at_most(STEPS + 2):
        train("run", 2)
    with longer(3):
        _, history = train("run", 3)
    assert [record.epoch for record in history.records] == [1, 2, 3]
    assert Run.open(tmp_path / "run").about.identity.made_longer_after == [1]
    with pytest.raises(stopping.StoppedError), stopping.at_most(1):
        train("unborn", 2)
    network, _ = train("unborn", 3)  # nothing was trained, so this is the run of 3 epochs itself
    assert same(weights(network), weights(train("whole", 3)[0]))
    assert Run.open(tmp_path / "unborn").about.identity.made_longer_after == []


@pytest.mark.parametrize(
    ("epochs", "options", "message"),
    [
        (1, {}, "is a run of 2 epochs, and epochs can be raised but not lowered to 1"),
        (4, {"more_epochs": False}, "is this run with 2 epochs, not 4; .* more_epochs=True"),
        (4, {"seed": 1}, "belongs to another run \\(its seed is 0, not 1\\)"),
    ],
)
def test_a_run_that_is_refused_stays_as_it_is(epochs, options, message, train, tmp_path):
    train("run", 2)
    before = {file.name: file.read_bytes() for file in (tmp_path / "run").iterdir()}
    with pytest.raises(RunError, match=message):
        train("run", epochs, **options)
    assert {file.name: file.read_bytes() for file in (tmp_path / "run").iterdir()} == before


def test_a_run_that_its_patience_ended_is_not_made_longer(train, tmp_path):
    _, history = train("run", 30, patience=1, learning_rate=0.5)
    assert len(history.records) < 30
    with pytest.raises(RunError, match=rf"was ended by its patience after epoch {len(history.records)}, so more"):
        train("run", 40, patience=1, learning_rate=0.5)
    assert Run.open(tmp_path / "run").finished
    # One that ended before its patience goes on, and keeps the best epoch of all.
    train("patient", 2, patience=20)
    with longer(4):
        train("patient", 4, patience=20)
    assert len(read_records(tmp_path / "patient")) == 4


def test_a_longer_run_is_not_taken_for_one_that_was_so_long_from_the_start(train, tmp_path):
    train("whole", 3)
    train("run", 2)
    with longer(3):
        train("run", 3)
    with pytest.raises(RunError, match=r"had fewer epochs when it began, .* name its epochs .*--epochs 3"):
        train("run", 3, more_epochs=False)
    assert len(settings_of([read_facts(tmp_path / "whole"), read_facts(tmp_path / "run")])) == 2


def test_the_result_of_the_shorter_run_is_not_kept(train, tmp_path):
    train("run", 2)
    file = tmp_path / "run" / "run.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "result": {"protocols": {}}}))
    with longer(3):
        train("run", 3)
    assert Run.open(tmp_path / "run").about.result is None
