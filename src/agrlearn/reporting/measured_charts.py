"""The charts of what trained networks do: the dial, their reliability, and their heads."""

import math
from collections.abc import Mapping, Sequence

from agrlearn.evaluation.metrics import METRICS, Metric
from agrlearn.reporting.charts import Chart, Mark, Series
from agrlearn.reporting.measure import DialPoint, Measurement

_MARKS: dict[str, Mark] = {"replicated": "circle", "batched": "square", "contextual": "triangle"}


def dial_charts(names: Sequence[str], measured: Mapping[int, Measurement]) -> list[Chart]:
    """Each metric against cost, for every way to predict; none where there is but one."""
    dials = {
        (number, protocol): [point for point in found.dial if point.protocol == protocol]
        for number, found in measured.items()
        for protocol in dict.fromkeys(point.protocol for point in found.dial)
    }
    return [
        Chart(
            f"dial-{name}", f"{metric.title} against cost",
            f"{'Lower' if metric.lower_is_better else 'Higher'} is better, and so are fewer multiply-adds.",
            ("multiply-adds per object", "objects per second"), metric.label,
            tuple(_dial_series(names[number], number, points, name, metric) for (number, _), points in dials.items()),
            hover="point", logarithmic=True, key=tuple((mark, protocol) for protocol, mark in _MARKS.items()),
        )
        for name, metric in METRICS.items() if sum(map(len, dials.values())) > 1
    ]  # fmt: skip


def reliability_chart(names: Sequence[str], measured: Mapping[int, Measurement]) -> Chart | None:
    """How often answers of some confidence are right."""
    ece = METRICS["ece"]
    series = [
        Series(
            f"{names[number]} ({ece.label} {found.means['ece'].text(ece.scale, ece.mean_digits)})",
            number,
            (tuple(100 * each.confidence for each in found.bins),),
            tuple(100 * each.accuracy for each in found.bins),
            notes=tuple(f"{each.objects:,} answers" for each in found.bins),
            weights=tuple(math.sqrt(each.objects / max(other.objects for other in found.bins)) for each in found.bins),
            mark="circle",
        )
        for number, found in measured.items()
    ]
    if not series:
        return None
    return Chart(
        "reliability", "Accuracy by confidence",
        "How often answers are right, by how sure the network is of them. On the diagonal its confidence is right; "
        "below it is too sure of itself. Marks grow with the number of answers, and the ECE is their mean distance "
        "from the diagonal.", ("confidence %",), "accuracy %", tuple(series), hover="point", diagonal=True,
    )  # fmt: skip


def heads_chart(names: Sequence[str], measured: Mapping[int, Measurement]) -> Chart | None:
    """The error of each head beside that of all together."""
    several = {number: found for number, found in measured.items() if len(found.head_errors) > 1}
    if not several:
        return None
    scale, label = METRICS["error"].scale, METRICS["error"].label
    series = []
    for row, (number, found) in enumerate(several.items()):
        heads = range(1, len(found.head_errors) + 1)
        series += [
            Series(
                f"{names[number]}, one head", number, (tuple(scale * error for error in found.head_errors),),
                (float(row),) * len(heads), notes=tuple(f"head {head}" for head in heads), line="none", mark="circle",
            ),
            Series(
                f"{names[number]}, all heads", number, ((scale * found.means["error"].value,),), (float(row),),
                notes=("all heads averaged",), line="none", mark="diamond",
            ),
        ]  # fmt: skip
    return Chart(
        "heads", "Errors of the heads", "Each head's own error, and that of their average, by Replicated prediction.",
        (label,), "", tuple(series), hover="point", rows=tuple(names[number] for number in several),
        key=(("circle", "one head"), ("diamond", "all heads averaged")),
    )  # fmt: skip


def _dial_series(setting: str, number: int, points: Sequence[DialPoint], name: str, metric: Metric) -> Series:
    """The points of one protocol, by the metric called `name`."""
    protocol = points[0].protocol
    values = [metric.scale * point.scores[name].value for point in points]
    errors = [metric.scale * point.scores[name].standard_error for point in points]
    several = not any(math.isnan(error) for error in errors)
    return Series(
        f"{setting}, {protocol}",
        number,
        (tuple(point.multiply_adds for point in points), tuple(point.objects_per_second for point in points)),
        tuple(values),
        tuple(value - error for value, error in zip(values, errors, strict=True)) if several else None,
        tuple(value + error for value, error in zip(values, errors, strict=True)) if several else None,
        tuple(
            f"{point.draws} draw{'s' * (point.draws > 1)}, {point.multiply_adds:,.0f} multiply-adds" for point in points
        ),
        labels=tuple(str(point.draws) if protocol != "replicated" else "" for point in points),
        line="dotted",
        mark=_MARKS[protocol],
    )
