"""Everything that one page shows, gathered: from run directories, or from the results of an experiment."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from agrlearn.evaluation.metrics import METRICS
from agrlearn.grouping import GroupBatchSampler
from agrlearn.reporting.charts import Chart
from agrlearn.reporting.measure import Measurement
from agrlearn.reporting.measured_charts import dial_charts, heads_chart, reliability_chart
from agrlearn.reporting.overview import ComparisonRow, Headline, compare, headline
from agrlearn.reporting.paper_table import PublishedTable, published_table
from agrlearn.reporting.training_charts import information_plane, training_charts
from agrlearn.runs.facts import RunFacts, Setting
from agrlearn.studies.paper.experiments import Experiment
from agrlearn.studies.paper.results import CellResult
from agrlearn.studies.paper.rows import Row
from agrlearn.studies.paper.scales import Scale
from agrlearn.training.microbatches import mean_log_groups


@dataclass(frozen=True)
class Card:
    """What it takes to run a setting again."""

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
    cards: tuple[Card, ...]
    command: str = ""
    """Runs all of it again."""
    headline: Headline | None = None
    comparison: tuple[ComparisonRow, ...] = ()
    table: PublishedTable | None = None
    dial: tuple[Chart, ...] = ()
    reliability: Chart | None = None
    heads: Chart | None = None
    plane: Chart | None = None
    measured: Mapping[int, Measurement] = field(default_factory=dict)
    """By the number of the setting."""
    notes: tuple[str, ...] = ()
    """What is missing, and why."""

    def charts(self) -> list[Chart]:
        single = [chart for chart in (self.reliability, self.heads, self.plane) if chart is not None]
        return [*self.training, *self.dial, *single]


def report_of_runs(
    title: str, settings: Sequence[Setting], measured: Mapping[int, Measurement] | None = None, *, command: str = "",
    notes: Sequence[str] = (),
) -> Report:  # fmt: skip
    """A report of run directories, by setting.

    Args:
        measured: by number, the settings whose networks were measured.
        command: runs all of it again.
    """
    found = dict(measured or {})
    report = _report_of_settings(title, settings, command)
    rows = compare(settings, found)
    return replace(
        report,
        headline=headline(rows, found),
        comparison=tuple(rows),
        dial=tuple(dial_charts(report.settings, found)),
        reliability=reliability_chart(report.settings, found),
        heads=heads_chart(report.settings, found),
        plane=information_plane(settings),
        measured=found,
        notes=tuple(notes),
    )


def report_of_experiment(
    experiment: Experiment, scale: Scale, rows: Sequence[Row], results: Mapping[tuple[str, str], list[CellResult]],
    diverged: Mapping[tuple[str, str], Sequence[str]], command: str,
) -> Report:  # fmt: skip
    """A report of an experiment of the paper, from the results that exist."""
    table = published_table(experiment, scale, rows, results, diverged)
    settings = [
        Setting(f"{row.block}: {row.label}", tuple(_facts(result) for result in found))
        for row in rows
        if (found := results[row.block, row.label])
    ]
    report = _report_of_settings(table.title, settings, command)
    cards = tuple(replace(card, environment=table.environment) for card in report.cards)
    return replace(report, table=table, cards=cards)


def _report_of_settings(title: str, settings: Sequence[Setting], command: str) -> Report:
    """What is known of any settings: their curves, and how to run them again."""
    cards = [
        Card(
            number,
            json.dumps(run.identity, indent=1, ensure_ascii=False),
            "\n".join(f"{name} {value}" for name, value in run.versions.items()),
            run.command,
        )
        for number, run in enumerate(setting.runs[0] for setting in settings)
    ]
    names = tuple(setting.name for setting in settings)
    return Report(title, names, tuple(training_charts(settings)), tuple(cards), command)


def _facts(result: CellResult) -> RunFacts:
    """A cell's result as if its run directory were still there."""
    spec = result.run.spec
    records = []
    for point in result.result.curve:
        # An epoch has as many groups as there are objects, each of `fold` objects.
        sampler = GroupBatchSampler(
            point.objects_seen // (point.epoch * spec.fold), spec.fold, spec.recipe.batch_size
        )  # fmt: skip
        values = vars(point) | {f"validation_{name}": getattr(point, name, None) for name in METRICS}
        records.append(values | {"log_groups": mean_log_groups(sampler, spec.recipe)})
    settings = spec.settings()
    network = {"network": settings.pop("network"), "fold": settings.pop("fold"), **settings.pop("net")}
    identity = {**settings, "network": network, "recipe": spec.recipe.model_dump(mode="json")}
    return RunFacts(Path(), identity, result.run.versions, tuple(records), result.result.seconds, finished=True)
