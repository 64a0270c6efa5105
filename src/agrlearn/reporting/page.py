"""A report becomes one HTML file: its style, its script and its numbers inside, and nothing from elsewhere.

By its Content-Security-Policy the page loads nothing and runs only its own script. Names from the user's data reach it
in two ways: escaped by jinja2, or as JSON that the script inserts as text.
"""

import base64
import hashlib
import math
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.resources import files
from typing import Any

from agrlearn.evaluation.metrics import METRICS, Metric
from agrlearn.evaluation.statistics import Mean
from agrlearn.reporting.collect import Report
from agrlearn.reporting.measure import Measurement

_FILES = "page_files"
_SHOWN_AT_FIRST = 8
_MOST_CLASSES, _MOST_CONFUSIONS = 20, 20
_SHADES = 8


def render(report: Report, *, live: bool = False) -> str:
    """The page; a live one asks its server for `data.json` again and again."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    folder = files("agrlearn.reporting") / _FILES
    style, script = ((folder / name).read_text(encoding="utf-8") for name in ("style.css", "charts.js"))
    network = "'self'" if live else "'none'"
    policy = (
        f"default-src 'none'; img-src data:; style-src 'sha256-{_digest(style)}'; "
        f"script-src 'sha256-{_digest(script)}'; connect-src {network}; "
        "base-uri 'none'; form-action 'none'"
    )
    environment = Environment(
        loader=PackageLoader("agrlearn.reporting", _FILES), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    environment.filters |= {"mean": _mean, "signed": _signed, "count": _count}
    return environment.get_template("page.html").render(
        report=report,
        metrics=METRICS,
        live=live,
        policy=policy,
        style=Markup(style),
        script=Markup(script),
        data=payload(report, live=live),
        confusions={number: _confusion(found) for number, found in report.measured.items()},
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        version=version("agrlearn"),
    )


def payload(report: Report, *, live: bool = False) -> dict[str, Any]:
    """What the page's script reads."""
    return {
        "live": live,
        "settings": list(report.settings),
        "shown": _SHOWN_AT_FIRST,
        "parts": [*(chart.id for chart in report.charts()), *report.notes],
        "charts": [_without_nan(asdict(chart)) for chart in report.charts()],
    }


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _confusion(found: Measurement) -> dict[str, Any]:
    """The whole matrix with a shade for each cell, or for many classes the pairs that are most often confused."""
    names = found.class_names
    if len(names) <= _MOST_CLASSES:
        rows = [
            (name, [(count, math.ceil(_SHADES * count / max(1, sum(row)))) for count in row])
            for name, row in zip(names, found.confusion, strict=True)
        ]
        return {"rows": rows, "pairs": []}
    pairs = [
        (count, names[truth], names[answer])
        for truth, row in enumerate(found.confusion)
        for answer, count in enumerate(row)
        if truth != answer and count > 0
    ]
    return {"rows": [], "pairs": sorted(pairs, key=lambda pair: -pair[0])[:_MOST_CONFUSIONS]}


def _mean(mean: Mean | None, metric: Metric | None = None, digits: int = 2, scale: float = 1) -> str:
    """A mean as its metric is shown, or with so many digits."""
    if mean is None or math.isnan(mean.value):
        return "–"
    return _unbroken(mean.text(metric.scale, metric.mean_digits) if metric else mean.text(scale, digits))


def _signed(value: Mean | float | None, metric: Metric | None = None) -> str:
    mean = Mean(value, math.nan) if isinstance(value, float) else value
    scale, digits = (metric.scale, metric.mean_digits) if metric else (1.0, 2)
    return _unbroken(mean.signed_text(scale, digits) if mean is not None else "") or "–"


def _unbroken(text: str) -> str:
    """In a narrow column the standard error goes to a line of its own."""
    return text.replace("± ", "±\N{NO-BREAK SPACE}")


def _count(number: float | None, digits: int = 0) -> str:
    return "–" if number is None else f"{number:,.{digits}f}"


def _without_nan(value: Any) -> Any:
    """Numbers rounded to what can be seen, and null instead of NaN and infinity, which JSON does not have."""
    if isinstance(value, float):
        return float(f"{value:.5g}") if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items() if item is not None}
    return [_without_nan(item) for item in value] if isinstance(value, list | tuple) else value
