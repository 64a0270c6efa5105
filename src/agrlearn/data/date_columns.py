"""How a column of dates becomes features: their parts."""

import re
from collections.abc import Callable
from datetime import date, datetime
from typing import Annotated, Any, Literal

import numpy
from pydantic import Field

from agrlearn.data.cells import is_missing, shorten
from agrlearn.data.columns import BaseColumn, Cells, Finite

_TIME = r"(?:[ T](\d{1,2}):(\d{2})(?::(\d{2})(?:\.\d+)?)?)?"
_FIRST_CELLS = 100


def _iso(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def _pattern(order: str, separator: str) -> Callable[[str], datetime | None]:
    """A reader of dates with their parts in an order, such as dmy."""
    sizes = {"d": r"(\d{1,2})", "m": r"(\d{1,2})", "y": r"(\d{4})"}
    pattern = re.compile(re.escape(separator).join(sizes[part] for part in order) + _TIME, re.ASCII)

    def read(text: str) -> datetime | None:
        match = pattern.fullmatch(text)
        if match is None:
            return None
        found = dict(zip(order, map(int, match.groups()[:3]), strict=True))
        try:
            hour, minute, second = (int(part or 0) for part in match.groups()[3:])
            return datetime(found["y"], found["m"], found["d"], hour, minute, second)
        except ValueError:
            return None

    return read


DATE_FORMS: dict[str, Callable[[str], datetime | None]] = {
    "year-month-day": _iso,
    "year/month/day": _pattern("ymd", "/"),
    "month/day/year": _pattern("mdy", "/"),
    "day/month/year": _pattern("dmy", "/"),
    "day.month.year": _pattern("dmy", "."),
    "day-month-year": _pattern("dmy", "-"),
}
"""Readers of dates by their form; the first that reads all dates of a column is taken."""


def as_date(cell: Any, form: str) -> datetime | None:
    """The date in a cell, written in a form of `DATE_FORMS`; None if it holds none.

    >>> as_date("31/12/2024 18:30", "day/month/year")
    datetime.datetime(2024, 12, 31, 18, 30)
    """
    if isinstance(cell, datetime):
        return cell
    if isinstance(cell, date):
        return datetime(cell.year, cell.month, cell.day)
    return DATE_FORMS[form](cell.strip()) if isinstance(cell, str) else None


class Date(BaseColumn):
    """Dates as their parts: year, month, day, day of the week and, if training had times, hour."""

    kind: Literal["date"] = "date"
    form: Literal["year-month-day", "year/month/day", "month/day/year", "day/month/year", "day.month.year",
                  "day-month-year"]  # fmt: skip
    medians: Annotated[list[Finite], Field(min_length=4, max_length=5)]
    gaps: bool

    @staticmethod
    def learn(column: str, cells: Cells, form: str | None = None) -> "Date":
        form = form or date_form(cells) or "year-month-day"
        parts = _date_parts(cells, form, 5)
        filled = parts[~numpy.isnan(parts[:, 0])]
        kept = 5 if len(filled) and filled[:, 4].any() else 4
        medians = numpy.median(filled[:, :kept], axis=0).tolist() if len(filled) else [0.0] * kept
        return Date(column=column, form=form, medians=medians, gaps=len(filled) < len(parts))  # type: ignore[arg-type]

    @property
    def width(self) -> int:
        return len(self.medians) + self.gaps

    def check(self, cells: Cells) -> dict[int, str]:
        reason = f"the column {self.column!r} holds {{}}, which is not a date like {self.form}"
        return {
            row: reason.format(shorten(cell))
            for row, cell in enumerate(cells)
            if not is_missing(cell) and as_date(cell, self.form) is None
        }

    def apply(self, cells: Cells) -> numpy.ndarray:
        parts = _date_parts(cells, self.form, len(self.medians))
        missing = numpy.isnan(parts[:, :1])
        filled = numpy.where(missing, self.medians, parts)
        return numpy.hstack([filled, missing]) if self.gaps else filled

    def describe(self, cells: Cells) -> str:
        hour = ", hour" if len(self.medians) == 5 else ""
        return f"read as {self.form}: year, month, day, weekday{hour}{'; gaps flagged' if self.gaps else ''}"


def date_form(cells: Cells) -> str | None:
    """The form of `DATE_FORMS` that reads most dates of a column, the first of equals; None if none reads any."""
    filled = [cell for cell in cells if not is_missing(cell)]
    # A column of other words is recognised by its first cells; of dates, all are needed to tell days from months.
    likely = [form for form in DATE_FORMS if any(as_date(cell, form) is not None for cell in filled[:_FIRST_CELLS])]
    read = {form: sum(as_date(cell, form) is not None for cell in filled) for form in likely}
    return max(read, key=read.__getitem__) if read else None


def _date_parts(cells: Cells, form: str, count: int) -> numpy.ndarray:
    dates = [None if is_missing(cell) else as_date(cell, form) for cell in cells]
    rows = [
        [numpy.nan] * 5 if day is None else [day.year, day.month, day.day, day.weekday(), day.hour] for day in dates
    ]
    return numpy.array(rows, dtype=numpy.float64)[:, :count]
