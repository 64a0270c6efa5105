"""The progress bar."""

import sys
import time
from typing import Literal

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column

_SECONDS_BETWEEN_LINES = 30


class TrainingProgress:
    """A bar over all steps with loss, error, J, speed and time left.

    Args:
        total: steps of the whole run.
        done: steps done before the run was resumed.
        shown: None shows the bar on a terminal only; "lines" also prints a line now and then if there is no terminal.
    """

    def __init__(
        self, total: int, done: int, *, label: str = "training", shown: bool | Literal["lines"] | None = None
    ) -> None:
        console = Console(file=sys.stderr)
        self._label = label
        self._lines = shown == "lines" and not console.is_terminal
        self._last_line = time.monotonic()
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
            disable=not (shown if isinstance(shown, bool) else console.is_terminal),
        )
        self._task = self._bar.add_task(label, total=total, completed=done, figures="")

    def show(self, done: int, figures: str) -> None:
        self._bar.update(self._task, completed=done, figures=figures)
        if self._lines and time.monotonic() - self._last_line > _SECONDS_BETWEEN_LINES:
            self._last_line = time.monotonic()
            print(f"{self._label} · epoch {figures}", file=sys.stderr, flush=True)

    def __enter__(self) -> "TrainingProgress":
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()
