"""Many runs with a table of how far they are, as demo, sweep and reproduce show them."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from agrlearn.runs.jobs import Resources
    from agrlearn.runs.many import Job

Part = Literal["test", "validation"]
_ROWS_SHOWN = 20
_ORDER = ("running", "failed", "waiting", "done")


def run_and_show(
    jobs: "Sequence[Job]", resources: "Resources", console: "Console", *, each: Part | None = "test"
) -> list[str]:
    """Do all runs; returns a sentence for each that failed.

    Args:
        each: print a line when a run is done, with its error on this part.
    """
    from rich.live import Live

    from agrlearn.runs.many import run_many

    states = {job.run_dir: "waiting" for job in jobs}
    failures: list[str] = []

    def on_start(job: "Job") -> None:
        states[job.run_dir] = "running"

    def on_done(job: "Job", outcome: Any) -> None:
        failed = isinstance(outcome, Exception)
        states[job.run_dir] = "failed" if failed else "done"
        name = f"{job.label}, seed {job.spec.seed}"
        if failed:
            failures.append(f"{name}: {outcome}")
            shown.console.print(f"failed: {failures[-1]}", soft_wrap=True, markup=False)
        elif each:
            scores = next(iter(outcome.result.protocols.values()), None)
            on_test = "" if scores is None else f"test error {scores.error:.2%}"
            error = on_test if each == "test" else _how_far(job)
            shown.console.print(f"{name}: {error} ({outcome.result.seconds:,.0f} s)", soft_wrap=True, markup=False)

    shown = Live(get_renderable=lambda: _table(jobs, states), console=console, transient=True)
    try:
        if jobs and console.is_terminal:
            shown.start()
        run_many(jobs, resources, on_start=on_start, on_done=on_done)
    except KeyboardInterrupt:
        console.print("Stopped. The same command goes on from here.")
        raise SystemExit(130) from None
    finally:
        shown.stop()
    return failures


def _table(jobs: "Sequence[Job]", states: dict[Path, str]) -> "Table":
    """The runs as they stand: what runs first, then what failed, what waits, and what is done."""
    from rich.table import Table

    counts = Counter(states.values())
    title = ", ".join(f"{counts[state]} {state}" for state in _ORDER if counts[state])
    table = Table("run", "seed", "state", "", title=title)
    for job in sorted(jobs, key=lambda job: _ORDER.index(states[job.run_dir]))[:_ROWS_SHOWN]:
        table.add_row(job.label, str(job.spec.seed), states[job.run_dir], _how_far(job))
    if len(jobs) > _ROWS_SHOWN:
        table.add_row(f"and {len(jobs) - _ROWS_SHOWN} more", "", "", "")
    return table


def _how_far(job: "Job") -> str:
    """The last epoch that a run has written down."""
    from agrlearn.training.checkpoint import read_records

    records = read_records(job.run_dir)
    if not records:
        return ""
    error = next((r.validation_error for r in reversed(records) if r.validation_error is not None), None)
    held_out = "" if error is None else f", validation error {error:.2%}"
    return f"epoch {records[-1].epoch} of {job.spec.recipe.epochs}{held_out}"
