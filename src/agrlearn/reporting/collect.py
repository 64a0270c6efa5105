"""Everything that one page shows, gathered: from run directories, or from the results of an experiment."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agrlearn.grouping import GroupBatchSampler
from agrlearn.reporting.charts import Chart
from agrlearn.reporting.measure import Measurement
from agrlearn.reporting.measured_charts import dial_charts, heads_chart, reliability_chart
from agrlearn.reporting.overview import ComparisonRow, compare
from agrlearn.reporting.paper_table import PublishedTable, published_table
from agrlearn.reporting.training_charts import information_plane, training_charts
from agrlearn.runs.facts import RunFacts, Setting
from agrlearn.studies.paper.cells import CellResult, Point
from agrlearn.studies.paper.experiments import Experiment, Row
from agrlearn.studies.paper.scales import Scale
from agrlearn.training.microbatches import mean_log_groups
from agrlearn.training.recipe import Recipe


@dataclass(frozen=True)
class Card:
    """What makes a setting again."""

    setting: int
    recipe: str
    environment: str
    command: str


@dataclass(frozen=True)
class Report:
    """The contents of a page; what is empty is left out of it."""

    title: str
    settings: tuple[str, ...]
    training: tuple[Chart, ...]
    command: str = ""
    """That makes all of it again."""
    comparison: tuple[ComparisonRow, ...] = ()
    table: PublishedTable | None = None
    dial: tuple[Chart, ...] = ()
    reliability: Chart | None = None
    heads: Chart | None = None
    plane: Chart | None = None
    measured: Mapping[int, Measurement] = field(default_factory=dict)
    cards: tuple[Card, ...] = ()
    notes: tuple[str, ...] = ()
    """What is missing, and why."""

    def charts(self) -> list[Chart]:
        """All there is to draw."""
        single = [chart for chart in (self.reliability, self.heads, self.plane) if chart is not None]
        return [*self.training, *self.dial, *single]


def report_of_runs(
    title: str, settings: Sequence[Setting], measured: Mapping[int, Measurement] | None = None, *, command: str = "",
    notes: Sequence[str] = (),
) -> Report:  # fmt: skip
    """A report of run directories, by setting.

    Args:
        measured: by number, the settings whose networks were tried.
        command: that makes all of it again.
    """
    found = dict(measured or {})
    names = tuple(setting.name for setting in settings)
    return Report(
        title=title,
        settings=names,
        training=tuple(training_charts(settings)),
        command=command,
        comparison=tuple(compare(settings, found)),
        dial=tuple(dial_charts(names, found)),
        reliability=reliability_chart(names, found),
        heads=heads_chart(names, found),
        plane=information_plane(settings),
        measured=found,
        cards=tuple(_card(number, setting.runs[0]) for number, setting in enumerate(settings)),
        notes=tuple(notes),
    )


def report_of_experiment(
    experiment: Experiment, scale: Scale, rows: Sequence[Row], results: Mapping[tuple[str, str], list[CellResult]],
    diverged: Mapping[tuple[str, str], Sequence[str]], command: str,
) -> Report:  # fmt: skip
    """A report of an experiment of the paper, from the results there are."""
    table = published_table(experiment, scale, rows, results, diverged)
    settings = [
        Setting(f"{row.block}: {row.label}", tuple(_facts(result) for result in mine))
        for row in rows
        if (mine := results[row.block, row.label])
    ]
    cards = [
        Card(number, json.dumps(setting.runs[0].identity, indent=1, ensure_ascii=False), table.environment, "")
        for number, setting in enumerate(settings)
    ]
    return Report(
        title=table.title,
        settings=tuple(setting.name for setting in settings),
        training=tuple(training_charts(settings)),
        command=command,
        table=table,
        cards=tuple(cards),
    )


def _card(number: int, run: RunFacts) -> Card:
    return Card(
        number,
        json.dumps(run.identity, indent=1, ensure_ascii=False),
        "\n".join(f"{name} {value}" for name, value in run.versions.items()),
        run.command,
    )


def _facts(result: CellResult) -> RunFacts:
    """A cell's result as if its run directory were still there."""
    recipe = Recipe(**{**result.cell.get("recipe", {}), "seed": result.seed})
    fold = result.cell.get("fold", 1)
    lines = [
        {
            "epoch": point.epoch, "objects_seen": point.objects_seen, "loss": point.loss,
            "train_error": point.train_error, "validation_error": point.error, "validation_nll": point.nll,
            "information": point.information, "log_groups": _log_groups(point, fold, recipe),
        }
        for point in result.curve
    ]  # fmt: skip
    told = {name: value for name, value in result.cell.items() if name not in ("recipe", "network", "fold", "options")}
    network = {"network": result.cell["network"], "fold": fold, **result.cell.get("options", {})}
    identity = {"recipe": json.loads(recipe.model_dump_json()), "network": network, **told}
    return RunFacts(Path(), identity, result.versions, tuple(lines), result.seconds, finished=True)


def _log_groups(point: Point, fold: int, recipe: Recipe) -> float:
    """What training recorded beside J: an epoch has as many groups as there are objects, each of `fold` objects."""
    objects = point.objects_seen // (point.epoch * fold)
    return mean_log_groups(GroupBatchSampler(objects, fold, recipe.batch_size), recipe.accumulate)
