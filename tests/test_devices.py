"""A device is chosen by name, announced, and refused in a sentence where it is not there."""

import pytest
import torch

from agrlearn import AgrLearnClassifier
from agrlearn.devices import choose_device, engine_on
from agrlearn.errors import RecipeError
from agrlearn.runs.many import Job, do_run
from agrlearn.runs.spec import RunSpec
from agrlearn.training.checkpoint import read_run
from agrlearn.training.recipe import Recipe
from tests.cli.commands import call


@pytest.fixture
def without_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)


def test_auto_is_the_best_that_is_there(without_gpu, monkeypatch):
    assert choose_device("auto") == torch.device("cpu")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert choose_device("auto") == torch.device("mps")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert choose_device("auto") == torch.device("cuda")
    assert choose_device("cpu") == torch.device("cpu")


COMMANDS = [["train", "digits"], ["predict", "run", "digits"], ["evaluate", "run", "digits"], ["compare", "digits"],
            ["sweep", "grid.toml"]]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_a_device_that_is_not_there_is_refused_before_anything_is_read(command, without_gpu, capsys):
    assert call(*command, "--device", "cuda") == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "finds no cuda device here; it can use cpu" in said.err and len(said.err.splitlines()) == 1


# The answer for a single object is a line by itself, so predict says it once it knows what it predicts.
@pytest.mark.parametrize("command", [c for c in COMMANDS if c[0] != "predict"], ids=lambda command: command[0])
def test_the_first_line_says_the_device(command, capsys):
    call(*command, *(["--validation-fraction", "2"] if command[0] == "train" else []),
         *(["--seeds", "1"] if command[0] == "compare" else []), "--device", "cpu")  # fmt: skip
    assert capsys.readouterr().out.splitlines()[0] == "Running on cpu"


def test_an_estimator_refuses_a_device_that_is_not_there(without_gpu):
    with pytest.raises(RecipeError, match="finds no cuda device"):
        AgrLearnClassifier(device="cuda").fit([[0.0], [1.0]], [0, 1])
    with pytest.raises(RecipeError, match="device is one of auto, cpu, cuda, mps, got 'gpu'"):
        engine_on("gpu")


def test_one_of_many_runs_has_the_precision_of_its_specification(tmp_path):
    spec = RunSpec(data="digits", fold=1, net={"width": 4}, precision="64-true", share=0.1, recipe=Recipe(epochs=1))
    do_run(Job("double", spec, tmp_path / "run", device="cpu"))
    assert read_run(tmp_path / "run").identity.precision == "64-true"
