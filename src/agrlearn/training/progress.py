"""The progress bar, or lines where there is no terminal, and how long training will take."""

import sys
import time
from typing import Literal

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column

_SECONDS_BETWEEN_LINES = 30
_SECONDS_BEFORE_ESTIMATE = 2.0


class TrainingProgress:
    """A bar over all steps with loss, error, J, speed and time left.

    Args:
        total: steps of the whole run.
        done: steps done before the run was resumed.
        epochs: of the whole run.
        may_stop: whether a recipe's patience can end the run before.
        shown: None shows the bar on a terminal only; True and "lines" also say after a few seconds how long it will
            take, and print a line now and then if there is no terminal, as in a notebook; True says when it is done.
    """

    def __init__(
        self, total: int, done: int, *, epochs: int = 1, may_stop: bool = False, label: str = "training",
        shown: bool | Literal["lines"] | None = None,
    ) -> None:  # fmt: skip
        # In a notebook, rich would look for widgets, and warn where they are not installed; and what a terminal does
        # with a bar, which a notebook claims to be, it does not.
        terminal = False if Console().is_jupyter else None
        console = Console(
            file=sys.stderr, force_jupyter=False, force_terminal=terminal, markup=False, highlight=False
        )  # fmt: skip
        self._label, self._total, self._start, self._epochs, self._may_stop = label, total, done, epochs, may_stop
        self._speaks = bool(shown)
        self._lines = self._speaks and not console.is_terminal
        self._says_end = self._lines and shown is True
        self._began = self._last_line = time.monotonic()
        self._first_look: tuple[float, int] | None = None
        self._estimated = False
        whole = Column(no_wrap=True)
        self._bar = Progress(
            TextColumn("{task.description}", table_column=whole),
            BarColumn(bar_width=20, table_column=whole),
            TextColumn("{task.percentage:>3.0f}%", table_column=whole),
            TimeRemainingColumn(compact=True, table_column=whole),
            TextColumn("left", table_column=whole),
            # Last, so that a narrow terminal cuts off the least important figures and nothing else.
            TextColumn("{task.fields[figures]}", table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1)),
            console=console,
            expand=True,
            transient=True,
            disable=shown is False or not console.is_terminal,
        )
        self._task = self._bar.add_task(label, total=total, completed=done, figures="")

    def show(self, done: int, figures: str) -> None:
        self._bar.update(self._task, completed=done, figures=figures)
        if not self._speaks:
            return
        now = time.monotonic()
        # From the first look on: the first steps also set up what the others use.
        since, before = self._first_look = self._first_look or (now, done)
        per_step = (now - since) / (done - before) if done > before else None
        if per_step and not self._estimated and now - since > _SECONDS_BEFORE_ESTIMATE:
            self._estimated = True
            if per_step * (self._total - done) > _SECONDS_BEFORE_ESTIMATE:  # else it is there before it is read
                self._bar.console.print(self._estimate(per_step), soft_wrap=True)
        if self._lines and now - self._last_line > _SECONDS_BETWEEN_LINES:
            self._last_line = now
            left = f" · {duration(per_step * (self._total - done))} left" if per_step and done < self._total else ""
            print(f"{self._label} · epoch {figures}{left}", file=sys.stderr, flush=True)

    def _estimate(self, per_step: float) -> str:
        steps = self._total - self._start
        epochs = max(1, round(self._epochs * steps / self._total))
        about = f"{'at most about' if self._may_stop else 'about'} {duration(per_step * steps)}"
        return f"{self._label} · {about} for {epochs} {'epoch' if epochs == 1 else 'epochs'}"

    def __enter__(self) -> "TrainingProgress":
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()
        if self._says_end and error[0] is None:
            print(f"{self._label} · done in {duration(time.monotonic() - self._began)}", file=sys.stderr, flush=True)


def duration(seconds: float) -> str:
    """A time for a person to read.

    >>> [duration(seconds) for seconds in (0.3, 40, 150, 5000, 30000)]
    ['0.3 s', '40 s', '2.5 min', '83 min', '8.3 h']
    """
    for unit, size, limit in (("s", 1, 100), ("min", 60, 6000)):
        if seconds < limit:
            return f"{seconds / size:.{1 if seconds / size < 10 else 0}f} {unit}"
    return f"{seconds / 3600:.1f} h"
