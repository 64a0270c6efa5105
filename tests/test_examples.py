"""The examples do what they say."""

import importlib.util
import json
from pathlib import Path

import nbclient
import nbformat
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
        "own_training_loop", "with_lightning", "finetune_pretrained", "with_transformers", "turn_the_dial",
    }  # fmt: skip
    assert {path.stem for path in EXAMPLES.glob("*.ipynb")} == {"digits-to-the-dial"}


def test_the_own_loop_changes_fewer_than_ten_lines_and_learns():
    changed = (EXAMPLES / "own_training_loop.py").read_text().count("# changed")
    assert 0 < changed < 10
    assert run("own_training_loop") < 0.1


def test_a_join_inside_the_model_turns_the_dial():
    (replicated, dear), (batched, cheap) = run("turn_the_dial")
    assert max(replicated, batched) < 0.1
    assert cheap < 0.7 < 1 < dear < 1.1


@pytest.mark.filterwarnings("ignore")
def test_lightning_trains_it():
    assert run("with_lightning", epochs=12) < 0.1


@pytest.mark.filterwarnings("ignore")
def test_a_pretrained_model_is_fine_tuned_in_groups_and_gets_better():
    before, after = run("finetune_pretrained")
    assert after < before < 0.9


@pytest.mark.filterwarnings("ignore")
def test_the_hugging_face_trainer_needs_a_collator_and_a_loss():
    assert run("with_transformers") < 0.1


# What the notebook's last words are about, as the test reads it.
TOLD = """
import json
scores = {name: evaluate(network, test) for name, network in networks.items()}
print(json.dumps({
    "dial": [[line.network, line.prediction, line.error, line.multiply_adds, line.objects_per_second] for line in dial],
    "heads": {name: each.head_errors for name, each in scores.items()},
    "ece": {name: each.ece for name, each in scores.items()},
}))
"""


def run_notebook(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict:
    """What is left when a notebook has run from its first cell to its last."""
    # Neither the user's start-up scripts nor their kernels.
    for variable in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR", "JUPYTER_CONFIG_DIR"):
        monkeypatch.setenv(variable, str(folder / variable))
    notebook = nbformat.read(EXAMPLES / f"{name}.ipynb", as_version=4)
    nbformat.validate(notebook)
    notebook.cells.append(nbformat.v4.new_code_cell(TOLD))
    nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(folder)}}).execute()
    # A kernel may send what a cell prints in several pieces.
    return json.loads("".join(output.text for output in notebook.cells[-1].outputs if output.get("name") == "stdout"))


# One test, so that two processes do not run the notebook twice.
def test_the_notebook_turns_the_dial_and_its_last_words_are_true(tmp_path, monkeypatch):
    told = run_notebook("digits-to-the-dial", tmp_path, monkeypatch)
    ways = ["Replicated", "Contextual, 4 draws", "Batched, 4 draws", "Batched, 1 draw"]
    lines = {(network, way): figures for network, way, *figures in told["dial"]}
    assert list(lines) == [
        ("fold 1", "ordinary"),
        ("fold 1, objects as fold 4", "ordinary"),
        *(("fold 2", way) for way in ways),
        *(("fold 4", way) for way in ways),
    ]
    error = {line: error for line, (error, _, _) in lines.items()}
    cost = {line: multiply_adds for line, (_, multiply_adds, _) in lines.items()}
    assert error["fold 1", "ordinary"] < 0.06
    assert max(error.values()) < 0.25
    for fold in ("fold 2", "fold 4"):
        assert cost[fold, "Batched, 1 draw"] < cost["fold 1", "ordinary"]
        extra = error[fold, "Batched, 1 draw"] - error["fold 1", "ordinary"]
        for better in ("Batched, 4 draws", "Replicated"):
            assert error[fold, "Batched, 1 draw"] - error[fold, better] > extra / 3
        assert error[fold, "Replicated"] < min(told["heads"][fold])
    assert error["fold 1, objects as fold 4", "ordinary"] == min(error.values())
    assert told["ece"]["fold 4"] == max(told["ece"].values())


def test_the_stored_notebook_is_whole_and_small():
    file = EXAMPLES / "digits-to-the-dial.ipynb"
    assert file.stat().st_size < 150_000
    cells = [cell for cell in json.loads(file.read_text())["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    # No tracebacks, no warnings, and so no paths of the machine that made it.
    assert {(output["output_type"], output.get("name", "")) for output in outputs} == {
        ("stream", "stdout"), ("display_data", ""),
    }  # fmt: skip
