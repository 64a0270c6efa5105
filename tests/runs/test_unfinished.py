"""A run that was stopped can be used as it is, and says what it is."""

import json
import os
import subprocess
import sys

import numpy
import pytest
import torch

from agrlearn.data.labelled import LabelledSet
from agrlearn.errors import AgrLearnWarning, RunError
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.networks.catalogue import build_network
from agrlearn.prediction.predict import predict
from agrlearn.runs.run import Run
from agrlearn.training.history import best_record
from agrlearn.training.loop import fit
from agrlearn.training.recipe import Recipe
from tests.cli.commands import call
from tests.training import stopping

COMMAND = ("train", "t.npz", "--run-dir", "run", "--epochs", 6, "--batch-size", 32, "--no-report")
STEPS = 5  # of an epoch: 135 objects in batches of 32 groups


@pytest.fixture(autouse=True)
def _table(tmp_path, monkeypatch, vectors):
    monkeypatch.chdir(tmp_path)
    numpy.savez("t.npz", x=vectors.objects.numpy(), y=numpy.array(["ant", "bee", "cow"])[vectors.labels])


def stop_after(steps, *options, command=COMMAND):
    with pytest.raises(stopping.StoppedError), stopping.at_most(steps):
        call(*command, *options)


def test_a_stopped_run_predicts_with_the_weights_that_as_many_epochs_have(vectors):
    stop_after(3 * STEPS + 2, "--schedule", "constant")
    with pytest.warns(AgrLearnWarning, match=r"with 3 of 6 epochs; using epoch 3, the last so far; go on with: agr"):
        found = Run.open("run").predict("t.npz")
    shorter = ["other" if word == "run" else 3 if word == 6 else word for word in COMMAND]
    assert call(*shorter, "--schedule", "constant") == 0
    assert torch.equal(found, Run.open("other").predict("t.npz"))
    assert Run.open("run").about.class_names == ["ant", "bee", "cow"]


def test_with_patience_the_best_epoch_so_far_is_used(vectors, make_mlp):
    train, held_out = vectors.subset(torch.arange(100)), vectors.subset(torch.arange(100, 150))
    flipped = LabelledSet(held_out.objects, (held_out.labels + 1) % 3, held_out.class_names)  # so that it gets worse
    recipe = Recipe(epochs=6, batch_size=20, learning_rate=0.05, patience=5)
    with pytest.raises(stopping.StoppedError), stopping.at_most(4 * 5 + 1):
        fit(make_mlp(2), train, recipe, flipped, "run")
    run = Run.open("run")
    best = best_record(run.records)
    assert best.epoch < len(run.records) == 4
    with pytest.warns(AgrLearnWarning, match=rf"using epoch {best.epoch}, the best so far; go on with: fit\(\.\.\."):
        network = run.network
    nll = torch.nn.functional.nll_loss(predict(network, flipped.objects).log(), flipped.labels)
    assert float(nll) == pytest.approx(best.validation_nll, rel=1e-5)
    assert run.class_names == vectors.class_names


def test_within_an_epoch_the_last_checkpoint_is_used(vectors, make_mlp):
    network = make_mlp(2)
    with pytest.raises(stopping.StoppedError), stopping.at_most(3):
        fit(network, vectors, Recipe(epochs=2, batch_size=16), run_dir="run", checkpoint_seconds=0)
    with pytest.warns(AgrLearnWarning, match="with 0 of 2 epochs; using its last checkpoint, within epoch 1"):
        assert torch.equal(Run.open("run").network.weight, network.weight)


def test_using_a_stopped_run_changes_nothing_in_it(tmp_path):
    stop_after(2 * STEPS + 1)
    (tmp_path / "run" / "checkpoint.pt").write_bytes(b"damaged")
    before = {file.name: file.read_bytes() for file in (tmp_path / "run").iterdir()}
    with pytest.warns(AgrLearnWarning, match="using epoch 1, the last so far"):
        Run.open("run").predict("t.npz")
    assert {file.name: file.read_bytes() for file in (tmp_path / "run").iterdir()} == before


def test_a_run_without_a_checkpoint_says_how_to_go_on(capsys):
    stop_after(2, "--fresh")  # which would start over
    for command in (["evaluate", "run", "t.npz"], ["predict", "run", "t.npz"], ["export", "run", "m.safetensors"]):
        assert call(*command) == 2
        told = capsys.readouterr().err
        assert "run has no checkpoint yet" in told
        assert told.endswith("go on with: agrlearn train t.npz --run-dir run --epochs 6 --batch-size 32 --no-report\n")


@pytest.mark.parametrize("command", ["rm -rf /", "agrlearn train 'a", "agrlearn train \x1b[2J", "agrlearn theory"])
def test_only_a_command_that_trains_is_recommended(command, tmp_path):
    stop_after(STEPS + 1)
    about = json.loads((tmp_path / "run" / "run.json").read_text())
    (tmp_path / "run" / "run.json").write_text(json.dumps({**about, "command": command}))
    with pytest.warns(AgrLearnWarning, match="the last so far; go on with the command that started it$"):
        _ = Run.open("run").network
    (tmp_path / "run" / "run.json").write_text(json.dumps({**about, "command": "agrlearn train a; rm b"}))
    with pytest.warns(AgrLearnWarning, match="go on with: agrlearn train 'a;' rm b$"):
        _ = Run.open("run").network


def test_every_command_uses_a_stopped_run_and_says_so_in_one_line(tmp_path):
    stop_after(2 * STEPS + 1)
    line = (
        "agrlearn: run is not finished, with 2 of 6 epochs; using epoch 2, the last so far; go on with: "
        "agrlearn train t.npz --run-dir run --epochs 6 --batch-size 32 --no-report\n"
    )
    for command in (["evaluate", "run", "t.npz"], ["predict", "run", "t.npz"], ["export", "run", "m.safetensors"]):
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        ended = subprocess.run(
            [sys.executable, "-m", "agrlearn", *command], capture_output=True, text=True, env=environment
        )
        assert (ended.returncode, ended.stderr) == (0, line)
    assert (tmp_path / "predictions.csv").exists()
    assert (tmp_path / "m.safetensors").exists()


def test_a_network_built_in_python_is_filled_and_one_of_another_shape_refused(vectors):
    def make(width):
        return AggregatedClassifier(torch.nn.Linear(12, width), features=width, fold=2, num_classes=3, join="features")

    network = make(5)
    with pytest.raises(stopping.StoppedError), stopping.at_most(1):
        fit(network, vectors, Recipe(epochs=2, batch_size=16), run_dir="run", checkpoint_seconds=0)
    with pytest.warns(AgrLearnWarning):
        assert torch.equal(Run.open("run", model=make(5)).network.weight, network.weight)
    with pytest.warns(AgrLearnWarning), pytest.raises(RunError, match="does not fit the network"):
        _ = Run.open("run", model=make(6)).network
    with pytest.warns(AgrLearnWarning), pytest.raises(RunError, match="not in the catalogue"):
        _ = Run.open("run").network


@pytest.mark.filterwarnings("ignore::agrlearn.errors.AgrLearnWarning")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda about: about["identity"]["network"].update(width=10**9), "far larger network than it holds"),
        (lambda about: about["identity"]["network"].update(object_shape=[0]), "does not describe its network"),
        (lambda about: about.update(class_names=["one"]), "names 1 classes of a network of 3"),
        (lambda about: about.update(class_names=["x" * 2000] * 3), "does not name its classes"),
    ],
)
def test_a_record_that_does_not_fit_the_checkpoint_is_refused(change, message, vectors, tmp_path):
    network = build_network("mlp", object_shape=(6,), num_classes=3, fold=2)
    with pytest.raises(stopping.StoppedError), stopping.at_most(1):
        fit(network, vectors, Recipe(epochs=2, batch_size=16), run_dir="run", checkpoint_seconds=0)
    about = json.loads((tmp_path / "run" / "run.json").read_text())
    change(about)
    (tmp_path / "run" / "run.json").write_text(json.dumps(about))
    with pytest.raises(RunError, match=message):
        _ = Run.open("run").class_names
