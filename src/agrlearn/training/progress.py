"""What a person sees while a network trains."""

import sys
import time
from types import TracebackType
from typing import Literal

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column

_SECONDS_BETWEEN_LINES = 30


class TrainingProgress:
    """A bar over all steps with loss, error, J, speed and time left; silent where there is no terminal.

    Args:
        total: steps of the whole run.
        done: steps that an earlier sitting has done.
        shown: None shows the bar on a terminal only; "lines" as well, and elsewhere the figures in a line now and then.
    """

    def __init__(
        self, total: int, done: int, *, label: str = "training", shown: bool | Literal["lines"] | None = None
    ) -> None:
        console = Console(file=sys.stderr)
        self._label = label
        self._lines = shown == "lines" and not console.is_terminal
        self._told = time.monotonic()
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
        if self._lines and time.monotonic() - self._told > _SECONDS_BETWEEN_LINES:
            self._told = time.monotonic()
            print(f"{self._label} · epoch {figures}", file=sys.stderr, flush=True)

    def __enter__(self) -> "TrainingProgress":
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()
