"""The figure on top of the page, and settings side by side: paired by seed, with what each of them cost."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agrlearn.evaluation.metrics import METRICS
from agrlearn.evaluation.statistics import Mean, mean_over_runs, paired_difference, share_interval
from agrlearn.reporting.measure import Measurement
from agrlearn.runs.facts import Setting


@dataclass(frozen=True)
class ComparisonRow:
    """A setting over its seeds; what is not known is None."""

    setting: int
    fold: int
    alpha: float
    seeds: int
    scores: Mapping[str, Mean]
    """By the names of `METRICS`, those that are known."""
    difference: Mean | None
    """Of the first metric to the first setting, over the seeds that both have; None if they are of other objects."""
    parameters: int | None
    multiply_adds: float | None
    """Of Replicated prediction, per object."""
    objects_seen: int
    steps: int
    seconds: float
    """Of training, the median."""
    progress: str
    chosen_by: bool = False
    """Whether the scores are of the objects that chose the epoch."""


@dataclass(frozen=True)
class Headline:
    """The one figure to take away: how often the network errs on objects that it has not seen."""

    row: ComparisonRow
    objects: str
    """What it was measured on."""
    low: float
    high: float
    """The 95 % interval of the error."""
    over: str
    """What the interval is over: the objects for one run, the seeds for several."""
    settings: int
    """Of which this one errs least."""


def headline(rows: Sequence[ComparisonRow], measured: Mapping[int, Measurement]) -> Headline | None:
    """The setting that errs least; None unless all were measured on the same objects."""
    if not rows or len(measured) < len(rows) or len({found.origin for found in measured.values()}) > 1:
        return None
    row = min(rows, key=lambda row: row.scores["error"].value)
    found, error = measured[row.setting], row.scores["error"]
    if row.seeds == 1:
        objects = sum(map(sum, found.confusion))
        low, high = share_interval(error.value, objects)
        over = f"over the {objects:,} objects"
    else:
        width = error.half_width()
        low, high = max(0.0, error.value - width), min(1.0, error.value + width)
        over = f"over {row.seeds} seeds"
    return Headline(row, found.origin, low, high, over, len(rows))


def compare(settings: Sequence[Setting], measured: Mapping[int, Measurement]) -> list[ComparisonRow]:
    """One row for each setting; measured where all of them are, and otherwise from the records of training."""
    everything = len(measured) == len(settings)
    if everything:
        objects: list[str | None] = [measured[number].origin for number in range(len(settings))]
        values = [_measured_by_seed(setting, measured[number]) for number, setting in enumerate(settings)]
    else:
        objects = [setting.runs[0].identity.get("validation_data") for setting in settings]
        values = [_recorded_by_seed(setting) for setting in settings]
    first = next(iter(METRICS))
    rows = []
    for number, setting in enumerate(settings):
        found = measured.get(number)
        comparable = number > 0 and objects[number] == objects[0]
        rows.append(
            ComparisonRow(
                setting=number,
                fold=setting.fold,
                alpha=setting.runs[0].recipe.get("alpha", 0.0),
                seeds=len(setting.runs),
                scores={name: mean_over_runs([*seeds.values()]) for name, seeds in values[number].items() if seeds},
                difference=paired_difference(values[number][first], values[0][first]) if comparable else None,
                parameters=found.parameters if found else None,
                multiply_adds=found.multiply_adds if found else None,
                objects_seen=max(run.objects_seen for run in setting.runs),
                steps=max(run.steps for run in setting.runs),
                seconds=statistics.median(run.seconds for run in setting.runs),
                progress=_progress(setting),
                chosen_by=setting.has_patience and not everything,
            )
        )
    return rows


def _measured_by_seed(setting: Setting, found: Measurement) -> dict[str, dict[int, float]]:
    runs = list(zip(setting.runs, found.scores, strict=True))
    return {name: {run.seed: getattr(scores, name) for run, scores in runs} for name in METRICS}


def _recorded_by_seed(setting: Setting) -> dict[str, dict[int, float]]:
    """What the records of training hold of each metric."""
    values = {name: {run.seed: run.outcome(f"validation_{name}") for run in setting.runs} for name in METRICS}
    return {name: {seed: value for seed, value in seeds.items() if value is not None} for name, seeds in values.items()}


def _progress(setting: Setting) -> str:
    unfinished = [f"{len(run.epochs)} of {run.recipe['epochs']}" for run in setting.runs if not run.finished]
    return f"epoch {' and '.join(unfinished)}" if unfinished else "finished"
