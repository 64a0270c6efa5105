"""The examples do what they say."""

import importlib.util
import json
from pathlib import Path

import nbclient
import nbformat
import pytest
import torch
import transformers

from agrlearn import aggregate
from tests.networks import foreign

EXAMPLES = Path(__file__).parents[1] / "examples"


def load(name):
    foreign.declare_missing_operators()
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(name, **arguments):
    return load(name).main(**arguments)


def test_every_example_is_tried_here():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {
        "own_training_loop", "with_lightning", "finetune_pretrained", "with_transformers", "turn_the_dial",
    }  # fmt: skip
    assert {path.stem for path in EXAMPLES.glob("*.ipynb")} == {"digits-to-the-dial", "is-it-worth-it"}


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


@pytest.mark.filterwarnings("ignore")
def test_the_hugging_face_trainer_takes_rows_as_they_are_and_evaluates_them(tmp_path):
    example, count = load("with_transformers"), 33
    words = torch.randint(1, 20, (count, 5)).tolist()
    rows = [{"input_ids": ids, "attention_mask": [1] * 5, "label": place % 2} for place, ids in enumerate(words)]
    network = aggregate(foreign.tiny_bert(), 2, {"input_ids": torch.tensor(words[:2])}, verbose=False)
    arguments = transformers.TrainingArguments(
        str(tmp_path), num_train_epochs=1, per_device_train_batch_size=8, per_device_eval_batch_size=8, report_to=[],
        save_strategy="no", remove_unused_columns=False, dataloader_drop_last=True, label_names=["labels"],
        use_cpu=True, disable_tqdm=True,
    )  # fmt: skip
    trainer = example.AggregatedTrainer(
        network, arguments, train_dataset=rows, eval_dataset=rows, data_collator=example.collate_groups
    )
    trainer.train()
    predicted = trainer.predict(rows)
    assert predicted.label_ids.tolist() == [[0, 1]] * 16  # the last row has no partner
    assert predicted.predictions.shape[:2] == (16, 2)


# What the notebooks are about, as the tests read it.
DIAL = """
import json
scores = {name: evaluate(network, test) for name, network in networks.items()}
print(json.dumps({
    "dial": [[line.network, line.prediction, line.error, line.multiply_adds, line.objects_per_second] for line in dial],
    "heads": {name: each.head_errors for name, each in scores.items()},
    "ece": {name: each.ece for name, each in scores.items()},
}))
"""
WORTH = """
print(json.dumps({
    "methods": {line.name: line.scores["error"].value for line in found.lines},
    "verdict": found.verdict,
    "fold": classifier.network_.fold,
    "ordinary": sorted(single(classifier.network_).state_dict()) == sorted(
        single(AgrLearnClassifier(fold=1, epochs=1).fit(x_train, y_train).network_).state_dict()
    ),
    "error": 1 - classifier.score(x_test, y_test),
    "reported": top.row.scores["error"].value,
    "difference": float(difference),
    "gaps": int(x.isna().sum().sum()),
    "page": Path("report.html").stat().st_size,
}))
"""


def run_notebook(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, *, tell: str) -> dict:
    """What the code `tell` prints as JSON when a notebook has run from its first cell to its last."""
    # Neither the user's start-up scripts nor their kernels.
    for variable in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR", "JUPYTER_CONFIG_DIR"):
        monkeypatch.setenv(variable, str(folder / variable))
    notebook = nbformat.read(EXAMPLES / f"{name}.ipynb", as_version=4)
    nbformat.validate(notebook)
    notebook.cells.append(nbformat.v4.new_code_cell(tell))
    nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(folder)}}).execute()
    # A kernel may send what a cell prints in several pieces.
    return json.loads("".join(output.text for output in notebook.cells[-1].outputs if output.get("name") == "stdout"))


# One test, so that two processes do not run the notebook twice.
def test_the_notebook_turns_the_dial_and_its_last_words_are_true(tmp_path, monkeypatch):
    told = run_notebook("digits-to-the-dial", tmp_path, monkeypatch, tell=DIAL)
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


def test_the_notebook_goes_from_a_table_with_gaps_to_an_ordinary_model_that_answers_alike(tmp_path, monkeypatch):
    told = run_notebook("is-it-worth-it", tmp_path, monkeypatch, tell=WORTH)
    assert told["gaps"] > 100
    assert {"ordinary network", "mixup", "ensemble of 4", "fold 2, mean"} <= told["methods"].keys()
    assert max(told["methods"].values()) < 0.2
    assert told["verdict"]
    assert (told["fold"], told["ordinary"]) == (2, True)
    assert told["reported"] == pytest.approx(told["error"])
    assert told["error"] < 0.1
    assert told["difference"] < 1e-5
    assert told["page"] > 10_000
    assert not (tmp_path / "report.html").exists()  # it leaves nothing beside itself


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.ipynb")), ids=lambda file: file.stem)
def test_a_stored_notebook_is_whole_and_small(file):
    assert file.stat().st_size < 150_000
    cells = [cell for cell in json.loads(file.read_text())["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    # No tracebacks, no warnings, and so no paths of the machine that made it.
    assert {(output["output_type"], output.get("name", "")) for output in outputs} == {
        ("stream", "stdout"), ("display_data", ""),
    }  # fmt: skip
