"""What a person sees while a network trains."""

import sys
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn


class TrainingProgress:
    """A bar over all steps with loss, error, J, speed and time left; silent where there is no terminal.

    Args:
        total: steps of the whole run.
        done: steps that an earlier sitting has done.
        shown: None shows the bar on a terminal only.
    """

    def __init__(self, total: int, done: int, *, label: str = "training", shown: bool | None = None) -> None:
        console = Console(file=sys.stderr)
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%"),
            TextColumn("{task.fields[figures]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not (console.is_terminal if shown is None else shown),
        )
        self._task = self._bar.add_task(label, total=total, completed=done, figures="")

    def show(self, done: int, figures: str) -> None:
        self._bar.update(self._task, completed=done, figures=figures)

    def __enter__(self) -> "TrainingProgress":
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()
