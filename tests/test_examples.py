"""The examples do what they say."""

import importlib.util
from pathlib import Path

import pytest

from tests.networks import foreign

EXAMPLES = Path(__file__).parents[1] / "examples"


def run(name, **arguments):
    foreign.declare_missing_operators()
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.main(**arguments)


def test_every_example_is_tried_here():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {
        "own_training_loop", "with_lightning", "finetune_pretrained", "with_transformers",
    }  # fmt: skip


def test_the_own_loop_changes_fewer_than_ten_lines_and_learns():
    changed = (EXAMPLES / "own_training_loop.py").read_text().count("# changed")
    assert 0 < changed < 10
    assert run("own_training_loop") < 0.15


@pytest.mark.filterwarnings("ignore")
def test_lightning_trains_with_the_penalty():
    assert run("with_lightning", epochs=12) < 0.12


@pytest.mark.filterwarnings("ignore")
def test_a_pretrained_model_is_aggregated_and_gets_better():
    before, after = run("finetune_pretrained")
    assert after < before < 0.9


@pytest.mark.filterwarnings("ignore")
def test_the_hugging_face_trainer_needs_a_collator_and_a_loss():
    assert run("with_transformers") < 0.1
