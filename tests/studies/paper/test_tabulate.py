"""From results to a table."""

import csv
import json
import math

import pytest

from agrlearn.runs.result import FinishedRun, Point, ProtocolScores, RunResult
from agrlearn.runs.spec import RunSpec
from agrlearn.studies.paper.experiments import Experiment
from agrlearn.studies.paper.lines import summarize
from agrlearn.studies.paper.results import collect
from agrlearn.studies.paper.rows import Row
from agrlearn.studies.paper.scales import SMALL
from agrlearn.studies.paper.tabulate import write_tables
from agrlearn.training.recipe import Recipe

ONE, TWO = (RunSpec(data="digits", network="mlp", fold=fold) for fold in (1, 2))
ROWS = [
    Row("block", "fold 1", ONE, 5.0, last=3), Row("block", "fold 2", TWO, 4.0, last=3),
    Row("block", "fold 2, never run", RunSpec(data="digits", network="mlp", share=0.5), part="beyond"),
]  # fmt: skip
ERRORS = Experiment("Errors", lambda scale: ROWS)
ACCURACIES = Experiment("Accuracies", lambda scale: ROWS, measure="accuracy")


def store(folder, spec, seed, errors):
    scores = ProtocolScores(errors[-1], 0.5, 0.1, 0.2, 0.0, 20.0)
    protocols = {"Replicated": scores} | ({"Batched, 1 draw": scores} if spec.fold > 1 else {})
    curve = tuple(Point(epoch, 100, 1.0, 0.5, error, 0.5, None) for epoch, error in enumerate(errors, start=1))
    result = RunResult(protocols, curve, 10, 30, 40, 50.0 + seed, "cpu")
    run = FinishedRun(format="agrlearn-run-3", versions={"torch": "2"}, spec=spec.with_seed(seed), result=result)
    folder.mkdir(exist_ok=True)
    (folder / f"{spec.key()}-seed{seed}.json").write_text(run.to_json())


@pytest.fixture
def cells(tmp_path):
    folder = tmp_path / "cells"
    store(folder, ONE, 0, [0.10, 0.30, 0.20])
    store(folder, ONE, 1, [0.40, 0.10, 0.40])
    store(folder, TWO, 0, [0.10, 0.10, 0.10])
    store(folder, TWO, 1, [0.20, 0.25, 0.30])
    return folder


@pytest.fixture
def cells_of_three_seeds(cells):
    store(cells, TWO, 2, [0.60, 0.60, 0.60])
    return cells


def test_both_readings_of_the_papers_sentence(cells):
    first, _ = summarize(ERRORS, ROWS, collect(ROWS, cells))
    assert first.ours.value == pytest.approx(30)  # the medians 20 and 40, averaged
    assert first.averaged_first == pytest.approx(25)  # the averages 25, 20 and 30: their median


def test_differences_are_paired_by_seed(cells_of_three_seeds):
    first, second = summarize(ERRORS, ROWS, collect(ROWS, cells_of_three_seeds))
    assert math.isnan(first.difference.value)
    assert second.seeds == (0, 1, 2)
    assert second.difference.value == pytest.approx((-10 - 15) / 2)
    assert second.difference.standard_error == pytest.approx(2.5)


def test_a_fold_is_also_compared_with_the_fold_1_that_saw_as_many_objects(cells_of_three_seeds):
    control = RunSpec(data="digits", network="mlp", fold=1, recipe=Recipe(batch_size=128))
    rows = [*ROWS, Row("block", "fold 1, objects as fold 2", control, part="control")]
    store(cells_of_three_seeds, control, 1, [0.15])
    store(cells_of_three_seeds, control, 2, [0.50])
    first, second, third = summarize(ERRORS, rows, collect(rows, cells_of_three_seeds))
    assert second.at_equal_objects.value == pytest.approx(10)  # 25 − 15 and 60 − 50
    assert second.at_equal_objects.standard_error == pytest.approx(0)
    assert math.isnan(first.at_equal_objects.value) and math.isnan(third.at_equal_objects.value)


@pytest.mark.parametrize("changes", [{"members": 2}, {"recipe": Recipe(average_from=0.75)}, {"stopping_fraction": 0.1}])
def test_a_run_whose_curve_is_of_other_weights_or_objects_is_judged_by_its_last_weights_alone(changes, cells):
    spec = ONE.model_copy(update=changes)
    store(cells, spec, 0, [0.9, 0.8, 0.7])
    rows = [Row("block", "a control", spec, last=3)]
    (result,) = collect(rows, cells)["block", "a control"]
    assert result.test_errors == (0.7,)  # not the median of the last three points


def test_accuracies_are_one_hundred_less_errors(cells):
    _, second = summarize(ACCURACIES, ROWS, collect(ROWS, cells))
    assert second.ours.value == pytest.approx(100 - 17.5)
    assert second.difference.value == pytest.approx(12.5)


def test_a_table_says_its_scale_its_command_and_what_was_not_run(cells_of_three_seeds, tmp_path):
    cells = cells_of_three_seeds
    write_tables("errors", ERRORS, SMALL, ROWS, collect(ROWS, cells), {}, tmp_path, "agrlearn reproduce errors")
    text = (tmp_path / "errors-small.md").read_text()
    assert SMALL.images in text
    assert "`agrlearn reproduce errors`" in text
    assert "Not run: fold 2, never run." in text
    assert "| fold 2 | 4 | 31.67 ± 14.81 |" in text
    assert "−12.50 ± 2.50" in text
    table = list(csv.DictReader((tmp_path / "errors-small.csv").open()))
    assert [line["label"] for line in table] == ["fold 1", "fold 2"]
    assert [float(line["ours_standard_error"]) for line in table] == pytest.approx([10, 14.81], abs=0.01)
    assert [line["difference"] for line in table] == ["", "-12.5"]
    told = json.loads((tmp_path / "errors-small.json").read_text())
    assert told["rows"][0]["difference"]["value"] is None
    assert [(line["label"], line["protocol"]) for line in told["protocols"]] == [
        ("fold 1", "Replicated"), ("fold 2", "Replicated"), ("fold 2", "Batched, 1 draw"),
    ]  # fmt: skip
    assert [line["head_disagreement"] is None for line in told["protocols"]] == [True, False, True]
