"""The charts of what training recorded: its curves, and the information plane."""

import math
import statistics
from collections.abc import Callable, Sequence
from typing import Any, Literal

from agrlearn.evaluation.metrics import METRICS, Metric
from agrlearn.reporting.charts import Chart, Mark, Series
from agrlearn.runs.facts import RunFacts, Setting

_POINTS, _POINTS_OF_ALL = 400, 16_000
_X = ("objects seen", "epochs")
_BAND = " Lines are means over seeds, bands their range."
_KEPT = ("diamond", "epoch that patience kept")


def training_charts(settings: Sequence[Setting]) -> list[Chart]:
    """Loss, metrics and J while the networks train; the mean over seeds with a band of their range."""
    charts = [
        Chart(
            "loss", "Training loss per slot",
            "Cross-entropy of a group divided by its fold, so that folds can be compared." + _BAND, _X,
            "nats per slot", _curves(settings, lambda run, record: record["loss"] / run.fold), key=(_KEPT,),
        ),
        *(_metric_chart(settings, name, metric) for name, metric in METRICS.items()),
        Chart(
            "penalty", "Penalty J beside log m",
            "J approaches log m, the logarithm of the number of groups that it compares, where the critic "
            "distinguishes all of them. With a deterministic encoder it is a regularizer, not I(X;T)." + _BAND, _X,
            "nats",
            _curves(settings, lambda run, record: record.get("information"))
            + _curves(settings, _log_groups, ", log m", line="dotted"),
            key=(("solid", "J"), ("dotted", "log m"), _KEPT),
        ),
    ]  # fmt: skip
    return [chart for chart in charts if chart.series]


def information_plane(settings: Sequence[Setting]) -> Chart | None:
    """The path of each run through the plane of I(X;T) and I(Y;T), where training tracked it.

    The names of the values are those of `EpochRecord`.
    """
    kinds: list[tuple[str, Literal["solid", "dotted"], Mark, str]] = [
        ("y_information", "solid", "circle", ""),
        ("y_information_bound", "dotted", "diamond", ", bound of Theorem 3"),
    ]
    series = []
    for number, setting in enumerate(settings):
        for run in setting.runs:
            for name, line, mark, title in kinds:
                tracked = [
                    record for record in run.epochs
                    if record.get("x_information_lower") is not None and record.get(name) is not None
                ]  # fmt: skip
                if tracked:
                    series.append(
                        Series(
                            f"{setting.name}, seed {run.seed}{title}", number,
                            (tuple(record["x_information_lower"] for record in tracked),),
                            tuple(record[name] for record in tracked), notes=tuple(map(_plane_note, tracked)),
                            line=line, mark=mark,
                        )
                    )  # fmt: skip
    if not series:
        return None
    return Chart(
        "plane", "I(X;T) and I(Y;T)",
        "How much the bottleneck T keeps of the input X, and how much of that is about the labels Y, epoch by epoch. "
        "All are lower estimates on held-out groups; by Theorem 3, H(Y) minus the heads' cross-entropy is one of "
        "I(Y;T).", ("I(X;T), nats",), "I(Y;T), nats", tuple(series), hover="point",
        key=(("circle", "I(Y;T), estimated"), ("diamond", "bound of Theorem 3")),
    )  # fmt: skip


def _metric_chart(settings: Sequence[Setting], name: str, metric: Metric) -> Chart:
    """A metric of the objects that training measured on, and of those in training, wherever it was recorded."""
    direction = "lower" if metric.lower_is_better else "higher"
    patient = {setting.has_patience for setting in settings}
    parts = [word for word, there in (("held-out", False in patient), ("validation", True in patient)) if there]
    chose = " Validation objects chose the epoch and are not the test part." if True in patient else ""
    return Chart(
        name, metric.title,
        f"On {' or '.join(parts)} objects by Replicated prediction; {direction} is better.{chose}{_BAND}", _X,
        metric.label,
        _curves(settings, lambda run, record: record.get(f"validation_{name}"), scale=metric.scale, mark="circle")
        + _curves(settings, lambda run, record: record.get(f"train_{name}"), " in training", scale=metric.scale,
                  line="dotted"),
        key=(("solid", " or ".join(parts)), ("dotted", "in training"), _KEPT),
    )  # fmt: skip


def _curves(
    settings: Sequence[Setting], value: Callable[[RunFacts, dict[str, Any]], float | None], suffix: str = "", *,
    scale: float = 1.0, line: Literal["solid", "dotted"] = "solid", mark: Mark | None = None,
) -> tuple[Series, ...]:  # fmt: skip
    """A series for each setting that has such values: at every epoch, the mean and range over its runs.

    Solid lines are followed by the epochs that patience kept.
    """
    most = min(_POINTS, max(40, _POINTS_OF_ALL // max(1, len(settings))))
    series = []
    for number, setting in enumerate(settings):
        columns: dict[int, list[float]] = {}
        objects: dict[int, float] = {}
        for run in setting.runs:
            for record in run.epochs:
                found = value(run, record)
                if found is not None and math.isfinite(found):
                    columns.setdefault(record["epoch"], []).append(scale * found)
                    objects[record["epoch"]] = record["objects_seen"]
        epochs = _thinned(sorted(columns), most)
        if not epochs:
            continue
        several = max(len(column) for column in columns.values()) > 1
        series.append(
            Series(
                setting.name + suffix, number, *_means_at(epochs, columns, objects),
                tuple(min(columns[epoch]) for epoch in epochs) if several else None,
                tuple(max(columns[epoch]) for epoch in epochs) if several else None,
                line=line, mark=mark if len(epochs) <= 30 else None,
            )
        )  # fmt: skip
        kept = sorted((epoch, run.seed) for run in setting.runs if (epoch := _kept_epoch(run)) in columns)
        if kept and line == "solid":
            series.append(
                Series(
                    f"{setting.name}, kept by patience", number,
                    *_means_at([epoch for epoch, _ in kept], columns, objects),
                    notes=tuple(f"epoch {epoch}, seed {seed}" for epoch, seed in kept), line="none", mark="diamond",
                )
            )  # fmt: skip
    return tuple(series)


def _means_at(
    epochs: Sequence[int], columns: dict[int, list[float]], objects: dict[int, float]
) -> tuple[tuple[tuple[float, ...], ...], tuple[float, ...]]:
    """The x, by either axis, and the y of points at some epochs."""
    x = tuple(objects[epoch] for epoch in epochs), tuple(epochs)
    return x, tuple(statistics.fmean(columns[epoch]) for epoch in epochs)


def _kept_epoch(run: RunFacts) -> int:
    """The epoch whose weights a finished run kept because its patience ran out; 0 for any other run."""
    patient = run.finished and run.recipe.get("patience") is not None
    return int(run.outcome("epoch") or 0) if patient else 0


def _log_groups(run: RunFacts, record: dict[str, Any]) -> float | None:
    """The logarithm of the groups that a penalty J sees, where there is one."""
    return record.get("log_groups") if run.recipe.get("alpha", 0) > 0 else None


def _plane_note(record: dict[str, Any]) -> str:
    upper = record.get("x_information_upper")
    return f"epoch {record['epoch']}" + ("" if upper is None else f", I(X;T) at most {upper:.3g}")


def _thinned(values: list[int], most: int) -> list[int]:
    """At most so many of the values, evenly, the first and the last among them."""
    if len(values) <= most:
        return values
    return [values[round(place * (len(values) - 1) / (most - 1))] for place in range(most)]
