"""The paper's numbers beside ours."""

import math

import numpy
import pytest

from agrlearn.evaluation.statistics import Mean, mean_over_runs
from agrlearn.reporting.collect import report_of_experiment
from agrlearn.reporting.page import render
from agrlearn.reporting.paper_table import agreement
from agrlearn.runs.result import FinishedRun, Point, ProtocolScores, RunResult
from agrlearn.studies.paper.experiments import EXPERIMENTS
from agrlearn.studies.paper.results import CellResult
from agrlearn.studies.paper.scales import SCALES
from tests.reporting.test_page import assert_every_row_fits_its_headings


@pytest.mark.parametrize(
    ("ours", "published", "smaller_is_better", "verdict"),
    [
        (Mean(5.0, 0.1, 7), 5.19, True, "agrees"),
        (Mean(5.0, 0.1, 7), 5.3, True, "better"),
        (Mean(5.0, 0.1, 7), 4.7, True, "worse"),
        (Mean(5.0, 0.1, 3), 5.4, True, "agrees"),  # of three seeds, little is known
        (Mean(90.0, 0.1, 7), 91.0, False, "worse"),
        (Mean(90.0, 0.1, 7), 89.0, False, "better"),
        (Mean(5.0, math.nan), 5.0, True, "open"),
        (Mean(5.0, 0.1, 7), None, True, "open"),
    ],
)
def test_agreement_is_within_the_t_interval(ours, published, smaller_is_better, verdict):
    assert agreement(ours, published, smaller_is_better=smaller_is_better) == verdict


def test_numbers_that_truly_agree_are_called_so_nineteen_times_in_twenty():
    random = numpy.random.default_rng(0)
    for seeds in (3, 7):
        verdicts = [
            agreement(mean_over_runs(list(random.normal(5.0, 0.3, seeds))), 5.0, smaller_is_better=True)
            for _ in range(2000)
        ]
        assert verdicts.count("agrees") / 2000 == pytest.approx(0.95, abs=0.02)


def result(row, seed: int, error: float, information: float | None = None) -> CellResult:
    points = tuple(Point(epoch, 100 * epoch, 1.0 / epoch, 0.1, error, 0.3, information) for epoch in (1, 2))
    scores = {"Replicated": ProtocolScores(error, 0.3, 0.1, 0.2, 0.0, 20.0)}
    left = RunResult(scores, points, 10, 30, 200, 1.0, "cpu")
    run = FinishedRun(format="", versions={"torch": "2"}, spec=row.spec.with_seed(seed), result=left)
    return CellResult(run, (error,))


def test_the_table_says_in_words_whether_numbers_agree_and_what_was_not_run():
    experiment, scale = EXPERIMENTS["table1"], SCALES["paper"]
    rows = experiment.rows(scale)
    errors = {"fold 1": (0.0500, 0.0516), "fold 2": (0.0700, 0.0701), "fold 2, α = 0.3": (0.0100, 0.0101)}
    results = {
        (row.block, row.label): [
            result(row, seed, error)
            for seed, error in enumerate(errors.get(row.label, ()) if row.block == "CIFAR-10" else ())
        ]
        for row in rows
    }
    report = report_of_experiment(experiment, scale, rows, results, {}, "agrlearn reproduce table1")
    verdicts = {row.line.label: row.verdict for row in report.table.blocks[0].rows}
    assert verdicts == {"fold 1": "agrees", "fold 2": "worse", "fold 2, α = 0.3": "better"}
    page = render(report)
    assert all(
        word in page for word in ("≈ agrees", "▼ worse", "▲ better", "Not run: fold 1", "−0.19", "reproduce table1")
    )
    assert_every_row_fits_its_headings(page)
    assert "Brier&nbsp;↓" in page
    assert '<section id="overview"' not in page
    assert len(report.training[0].series) == 3
    smaller = report_of_experiment(experiment, SCALES["small"], rows, results, {}, "agrlearn reproduce table1")
    assert {row.verdict for row in smaller.table.blocks[0].rows} == {"open"}  # it is another experiment


def test_j_is_drawn_beside_the_log_of_the_groups_that_it_saw():
    experiment, scale = EXPERIMENTS["table1"], SCALES["small"]
    rows = [row for row in experiment.rows(scale) if row.spec.fold == 2 and row.spec.recipe.critic == "input"][:1]
    results = {(row.block, row.label): [result(row, 0, 0.1, information=2.0)] for row in rows}
    report = report_of_experiment(experiment, scale, rows, results, {}, "agrlearn reproduce table1")
    [penalty] = [chart for chart in report.training if chart.id == "penalty"]
    assert rows[0].spec.recipe.batch_size == 64  # and 50 objects: 100 of them pass an epoch at fold 2
    assert [series.y for series in penalty.series] == [
        (2.0, 2.0),
        pytest.approx((math.log(50), math.log(50))),
    ]
