"""The charts and tables of a report: from the table of metrics, and from the records of training."""

import dataclasses
import functools
import json
import re
import sys

import pytest

from agrlearn.evaluation.evaluate import Evaluation
from agrlearn.evaluation.metrics import METRICS, Metric, Scores
from agrlearn.reporting.collect import report_of_runs
from agrlearn.reporting.measure import measure
from agrlearn.reporting.measured_charts import dial_charts
from agrlearn.reporting.page import render
from agrlearn.reporting.training_charts import training_charts
from agrlearn.runs.facts import settings_of


@pytest.fixture
def accuracy(monkeypatch):
    """A metric of the user's own: an entry in METRICS and a field of Scores."""
    field = [("accuracy", float, dataclasses.field(default=0.0))]
    for kind in (Scores, Evaluation):
        wider = dataclasses.make_dataclass(kind.__name__, field, bases=(kind,), frozen=True, kw_only=True)
        monkeypatch.setattr(sys.modules[kind.__module__], kind.__name__, wider)
    metric = Metric(
        lambda outcomes: float(outcomes.right.mean()), "accuracy %", "Accuracy", 100, 1, lower_is_better=False
    )
    monkeypatch.setitem(METRICS, "accuracy", metric)


def test_a_metric_that_is_added_shows_up_in_every_table_and_in_the_dial(accuracy, trained):
    facts, subjects = trained
    settings = settings_of(facts)
    openers = [[functools.partial(subjects.get, run.folder) for run in setting.runs] for setting in settings]
    measured = dict(enumerate(measure(openers, dial=True)))
    report = report_of_runs("accuracy", settings, measured)
    page = render(report)
    assert page.count('title="Accuracy; higher is better">accuracy %&nbsp;↑</th>') == 2  # comparison, reliability
    mean = 1 - measured[1].means["error"].value
    error = measured[1].means["error"].standard_error
    assert f"{100 * mean:.2f} ±\N{NO-BREAK SPACE}{100 * error:.2f}</td>" in page.partition('id="curves"')[0]
    assert f"{100 * mean:.1f}</td>" in page.partition('id="reliability"')[2]
    (dial,) = [chart for chart in report.dial if chart.id == "dial-accuracy"]
    assert (dial.title, dial.y) == ("Accuracy against cost", "accuracy %")
    assert "Higher is better" in dial.about
    assert "dial-accuracy" in json.loads(re.search(r'id="report-data">(.*?)</script>', page)[1])["parts"]


def with_patience(run, kept: int | None):
    """The run as if its patience had kept an epoch."""
    identity = {**run.identity, "recipe": {**run.recipe, "patience": 1}}
    epochs = [{**line, "validation_nll": 0.1 if line["epoch"] == kept else 1.0} for line in run.epochs]
    return dataclasses.replace(run, identity=identity, epochs=tuple(epochs))


def test_the_epoch_that_patience_kept_is_marked_for_every_seed(trained):
    facts, _ = trained
    runs = [with_patience(facts[2], 3), with_patience(facts[3], 2)]
    charts = {chart.id: chart for chart in training_charts(settings_of(runs))}
    assert set(charts) == {"loss", "error", "nll", "penalty"}
    for chart in charts.values():
        (kept,) = [series for series in chart.series if series.name.endswith("kept by patience")]
        assert (kept.x[1], kept.mark, kept.line) == ((2, 3), "diamond", "none")
        assert kept.y == chart.series[0].y[1:3]
        assert kept.notes == ("epoch 2, seed 1", "epoch 3, seed 0")
    unfinished = [dataclasses.replace(run, finished=False) for run in runs]
    assert not [
        series for chart in training_charts(settings_of(unfinished)) for series in chart.series
        if "patience" in series.name
    ]  # fmt: skip


def test_the_part_that_chose_the_epoch_is_called_validation_and_not_held_out(trained):
    facts, _ = trained

    def words(runs) -> tuple[str, str]:
        (chart,) = [chart for chart in training_charts(settings_of(runs)) if chart.id == "error"]
        return dict(chart.key)["solid"], chart.about.partition(" by ")[0]

    assert words(facts) == ("held-out", "On held-out objects")
    assert words([with_patience(run, 2) for run in facts]) == ("validation", "On validation objects")
    assert words([facts[0], with_patience(facts[2], 2)])[0] == "held-out or validation"


def test_scores_from_the_part_that_chose_the_epoch_are_not_called_held_out(trained):
    facts, _ = trained
    runs = [with_patience(run, 2) for run in facts]
    assert "seeds, on the validation objects that chose the epoch by" in render(report_of_runs("", settings_of(runs)))
    assert "seeds, on held-out objects by" in render(report_of_runs("", settings_of(facts)))


def test_a_network_with_one_way_to_predict_has_no_dial(report, trained):
    both, (ordinary, grouped) = report.settings, (report.measured[0], report.measured[1])
    assert len(ordinary.dial) == 1
    assert dial_charts(both, {0: ordinary}) == []
    assert dial_charts(both, {1: grouped})
    page = render(report_of_runs("ordinary networks", settings_of(trained[0]), dict.fromkeys((0, 1), ordinary)))
    assert "Replicated puts an object into every slot" in page
    assert "Batched" not in page
