"""The charts of what training wrote down: its curves, and the information plane."""

import math
import statistics
from collections.abc import Callable, Sequence
from typing import Any, Literal

from agrlearn.reporting.charts import Chart, Mark, Series
from agrlearn.runs.facts import RunFacts, Setting

_POINTS, _POINTS_OF_ALL = 400, 16_000
_X = ("objects seen", "epochs")


def training_charts(settings: Sequence[Setting]) -> list[Chart]:
    """Loss, errors, likelihood and J while the networks train; the mean over seeds with a band of their range."""
    band = " Lines are means over seeds, bands their range."
    charts = [
        Chart(
            "loss", "Training loss per slot",
            "Cross-entropy of a group divided by its fold, so that folds can be compared." + band, _X,
            "nats per slot", _curves(settings, lambda run, line: line["loss"] / run.fold),
        ),
        Chart(
            "error", "Error", "Held-out error by Replicated prediction, and the error in training." + band, _X,
            "error %",
            _curves(settings, lambda run, line: _percent(line.get("validation_error")), mark="circle")
            + _curves(settings, lambda run, line: _percent(line["train_error"]), " in training", line="dotted"),
            key=(("solid", "held-out"), ("dotted", "in training")),
        ),
        Chart(
            "nll", "Held-out likelihood", "Mean negative log likelihood of the true class; lower is better." + band,
            _X, "nats", _curves(settings, lambda run, line: line.get("validation_nll"), mark="circle"),
        ),
        Chart(
            "penalty", "Penalty J beside log m",
            "J comes near log m, the logarithm of the groups it sees at a time, where the critic tells them all apart. "
            "With a deterministic encoder it is a regularizer, not I(X;T)." + band, _X, "nats",
            _curves(settings, lambda run, line: line.get("information"))
            + _curves([_penalized(setting) for setting in settings], lambda run, line: line.get("log_groups"),
                      ", log m", line="dotted"),
            key=(("solid", "J"), ("dotted", "log m")),
        ),
    ]  # fmt: skip
    return [chart for chart in charts if chart.series]


def information_plane(settings: Sequence[Setting]) -> Chart | None:
    """The path of each run through the plane of I(X;T) and I(Y;T), where training tracked it.

    The four names below are those of `EpochRecord`.
    """
    x_lower, x_upper, y_lower, y_theorem = (
        "x_information_lower", "x_information_upper", "y_information", "y_information_bound",
    )  # fmt: skip
    kinds: list[tuple[str, Literal["solid", "dotted"], Mark, str]] = [
        (y_lower, "solid", "circle", ""), (y_theorem, "dotted", "diamond", ", bound of Theorem 3"),
    ]  # fmt: skip
    series = []
    for number, setting in enumerate(settings):
        for run in setting.runs:
            lines = [line for line in run.epochs if line.get(x_lower) is not None]
            for name, line, mark, title in kinds:
                told = [each for each in lines if each.get(name) is not None]
                if not told:
                    continue
                notes = [
                    f"epoch {each['epoch']}"
                    + ("" if each.get(x_upper) is None else f", I(X;T) at most {each[x_upper]:.3g}")
                    for each in told
                ]
                series.append(
                    Series(
                        f"{setting.name}, seed {run.seed}{title}", number, (tuple(each[x_lower] for each in told),),
                        tuple(each[name] for each in told), notes=tuple(notes), line=line, mark=mark,
                    )
                )  # fmt: skip
    if not series:
        return None
    return Chart(
        "plane", "Information plane",
        "How much the bottleneck T keeps of the input X, and how much of that is about the labels Y, epoch by epoch. "
        "All are lower estimates on held-out groups; by Theorem 3, H(Y) less the heads' cross-entropy is one of "
        "I(Y;T).", ("I(X;T), nats",), "I(Y;T), nats", tuple(series), hover="point",
        key=(("circle", "I(Y;T), estimated"), ("diamond", "bound of Theorem 3")),
    )  # fmt: skip


def _curves(
    settings: Sequence[Setting], value: Callable[[RunFacts, dict[str, Any]], float | None], suffix: str = "",
    *, line: Literal["solid", "dotted"] = "solid", mark: Mark | None = None,
) -> tuple[Series, ...]:  # fmt: skip
    """A series for each setting that has such values: at every epoch, the mean and range over its runs."""
    most = min(_POINTS, max(40, _POINTS_OF_ALL // max(1, len(settings))))
    series = []
    for number, setting in enumerate(settings):
        columns: dict[int, list[float]] = {}
        objects: dict[int, float] = {}
        for run in setting.runs:
            for told in run.epochs:
                found = value(run, told)
                if found is not None and math.isfinite(found):
                    columns.setdefault(told["epoch"], []).append(found)
                    objects[told["epoch"]] = told["objects_seen"]
        epochs = _thinned(sorted(columns), most)
        if epochs:
            several = max(len(column) for column in columns.values()) > 1
            series.append(
                Series(
                    setting.name + suffix, number,
                    (tuple(objects[epoch] for epoch in epochs), tuple(epochs)),
                    tuple(statistics.fmean(columns[epoch]) for epoch in epochs),
                    tuple(min(columns[epoch]) for epoch in epochs) if several else None,
                    tuple(max(columns[epoch]) for epoch in epochs) if several else None,
                    line=line, mark=mark if len(epochs) <= 30 else None,
                )
            )  # fmt: skip
    return tuple(series)


def _penalized(setting: Setting) -> Setting:
    """The runs of a setting that have a penalty."""
    return Setting(setting.name, tuple(run for run in setting.runs if run.recipe.get("alpha", 0) > 0))


def _thinned(values: list[int], most: int) -> list[int]:
    """At most so many of the values, evenly, the first and the last among them."""
    if len(values) <= most:
        return values
    return [values[round(place * (len(values) - 1) / (most - 1))] for place in range(most)]


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share
