"""The charts of what trained networks do: the dial, their reliability, and their heads."""

import math
from collections.abc import Mapping, Sequence

from agrlearn.evaluation.statistics import Mean, mean_over_runs
from agrlearn.reporting.charts import Chart, Mark, Series
from agrlearn.reporting.measure import DialPoint, Measurement

_MARKS: dict[str, Mark] = {"replicated": "circle", "batched": "square", "contextual": "triangle"}


def dial_charts(names: Sequence[str], measured: Mapping[int, Measurement]) -> list[Chart]:
    """Error and likelihood against speed, for every way to predict."""
    charts = []
    for name, title, unit in (
        ("error", "Error against speed", "error %"),
        ("nll", "Likelihood against speed", "NLL, nats"),
    ):
        series = []
        for number, found in measured.items():
            for protocol in dict.fromkeys(point.protocol for point in found.dial):
                mine = [point for point in found.dial if point.protocol == protocol]
                series.append(_dial_series(f"{names[number]}, {protocol}", number, protocol, mine, name))
        if series:
            charts.append(
                Chart(
                    f"dial-{name}", title,
                    "Each point is a way to predict with trained weights: right is faster, lower is better. Points of "
                    "a protocol are joined, and numbered by draws; bars are one standard error over seeds.",
                    ("objects per second",), unit, tuple(series), hover="point", logarithmic=True,
                    key=tuple((mark, protocol) for protocol, mark in _MARKS.items()),
                )
            )  # fmt: skip
    return charts


def reliability_chart(names: Sequence[str], measured: Mapping[int, Measurement]) -> Chart | None:
    """How often answers of some confidence are right."""
    series = []
    for number, found in measured.items():
        ece = mean_over_runs([scores.ece for scores in found.scores])
        series.append(
            Series(
                f"{names[number]} (ECE {ece.text(digits=3)})",
                number,
                (tuple(100 * each.confidence for each in found.bins),),
                tuple(100 * each.accuracy for each in found.bins),
                notes=tuple(f"{each.objects:,} answers" for each in found.bins),
                weights=tuple(
                    math.sqrt(each.objects / max(other.objects for other in found.bins)) for each in found.bins
                ),
                mark="circle",
            )
        )
    if not series:
        return None
    return Chart(
        "reliability", "Reliability",
        "How often answers are right, by how sure the network is of them. On the diagonal it knows what it knows; "
        "below it is too sure of itself. Marks grow with the number of answers, and the ECE is their mean distance "
        "from the diagonal.", ("confidence %",), "accuracy %", tuple(series), hover="point", diagonal=True,
    )  # fmt: skip


def heads_chart(names: Sequence[str], measured: Mapping[int, Measurement]) -> Chart | None:
    """The error of each head beside that of all together."""
    several = {number: found for number, found in measured.items() if len(found.head_errors) > 1}
    if not several:
        return None
    series = []
    for row, (number, found) in enumerate(several.items()):
        heads = range(1, len(found.head_errors) + 1)
        together = 100 * mean_over_runs([scores.error for scores in found.scores]).value
        series += [
            Series(
                f"{names[number]}, one head", number, (tuple(100 * error for error in found.head_errors),),
                (float(row),) * len(heads), notes=tuple(f"head {head}" for head in heads), line="none", mark="circle",
            ),
            Series(
                f"{names[number]}, all heads", number, ((together,),), (float(row),), notes=("all heads averaged",),
                line="none", mark="diamond",
            ),
        ]  # fmt: skip
    return Chart(
        "heads", "Errors of the heads", "Each head's own error, and that of their average, by Replicated prediction.",
        ("error %",), "", tuple(series), hover="point", rows=tuple(names[number] for number in several),
        key=(("circle", "one head"), ("diamond", "all heads averaged")),
    )  # fmt: skip


def _dial_series(name: str, number: int, protocol: str, points: Sequence[DialPoint], score: str) -> Series:
    means: list[Mean] = [getattr(point, score) for point in points]
    scale = 100 if score == "error" else 1
    known = all(not math.isnan(mean.standard_error) for mean in means)
    return Series(
        name,
        number,
        (tuple(point.objects_per_second for point in points),),
        tuple(scale * mean.value for mean in means),
        tuple(scale * (mean.value - mean.standard_error) for mean in means) if known else None,
        tuple(scale * (mean.value + mean.standard_error) for mean in means) if known else None,
        tuple(
            f"{point.draws} draw{'s' * (point.draws > 1)}, {point.multiply_adds:,.0f} multiply-adds" for point in points
        ),
        labels=tuple(str(point.draws) if protocol != "replicated" else "" for point in points),
        line="dotted",
        mark=_MARKS[protocol],
    )
