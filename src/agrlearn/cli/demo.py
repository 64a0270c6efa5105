"""agrlearn demo"""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from agrlearn.cli.options import WholeNumber

if TYPE_CHECKING:
    from rich.table import Table

    from agrlearn.reporting.collect import Report
    from agrlearn.runs.many import Job
    from agrlearn.studies.demo import Demo

_MOST_WORKERS = 4
_WIDTH, _HEADING = 120, 11


def demo(
    *,
    seeds: WholeNumber = 10,
    epochs: WholeNumber = 60,
    run_dir: Path = Path("runs/demo"),
    fresh: bool = False,
    report: bool = True,
) -> None:
    """Train ordinary networks and groups on small digits, and compare them in one table.

    The digits come with scikit-learn. Groups that are unwrapped predict at the cost of an ordinary network; those whose
    slots are kept apart have a dial, with a line for each way to predict by the same weights. Runs that are done are
    kept, so a second call only shows the table again.

    Parameters
    ----------
    seeds
        Runs per network, each with other weights, groups and test digits.
    epochs
        Passes over the training digits.
    run_dir
        Where the runs and the table go.
    fresh
        Train again what is trained already.
    report
        Write report.html beside the table.
    """
    import os

    from rich.console import Console

    from agrlearn.cli.many import run_and_show
    from agrlearn.errors import RecipeError
    from agrlearn.files import REPORT_FILE
    from agrlearn.reporting.make import end_with_report
    from agrlearn.runs.jobs import Resources, one_thread
    from agrlearn.studies.demo import demo_jobs, write_demo

    if seeds < 1:
        raise RecipeError(f"seeds is the number of runs per network and at least 1, got {seeds}")
    console = Console(markup=False)
    jobs = demo_jobs(run_dir, seeds=seeds, epochs=epochs, fresh=fresh)
    to_do = [job for job in jobs if fresh or job.finished() is None]
    failures = run_and_show(to_do, Resources(workers=min(_MOST_WORKERS, os.cpu_count() or 1)), console)
    if failures:
        raise RecipeError(f"the demo cannot be shown: {failures[0]}")
    command = f"agrlearn demo --seeds {seeds} --epochs {epochs}"
    with one_thread():
        found = write_demo(jobs, run_dir, command)
    # Piped into a file there is no width to fit.
    wide = console if console.is_terminal else Console(width=_WIDTH, markup=False)
    wide.print(_table(found))
    console.print(found.verdict, soft_wrap=True)
    console.print(f"The runs, table.md and results.json are in {run_dir}", soft_wrap=True)
    if report:
        with one_thread():
            end_with_report(
                run_dir / REPORT_FILE, lambda: _report(jobs, f"{command} --run-dir {shlex.quote(str(run_dir))}")
            )
    console.print("Next: agrlearn compare YOUR.csv   tells whether groups are worth it on your data")
    console.print("      agrlearn train YOUR.csv     trains a network on it")


def _table(found: "Demo") -> "Table":
    """What fits on a screen, with a rule between networks."""
    import textwrap

    from rich import box
    from rich.table import Table

    from agrlearn.studies.demo import COLUMNS, PRINTED, TEXTS

    table = Table(title=f"{found.title}; mean ± standard error", box=box.SIMPLE, padding=(0, 1, 0, 0))
    for position, name in enumerate(PRINTED):
        heading = textwrap.fill(name, _HEADING, break_long_words=False, break_on_hyphens=False)
        table.add_column(heading, justify="left" if position < TEXTS else "right")
    for row, after in zip(found.rows, [*found.rows[1:], None], strict=True):
        last_of_network = after is None or after.setting != row.setting
        table.add_row(*(COLUMNS[name](row) for name in PRINTED), end_section=last_of_network)
    return table


def _report(jobs: "list[Job]", command: str) -> "Report":
    from agrlearn.reporting.make import Reporter
    from agrlearn.runs.facts import read_facts

    facts = [read_facts(job.run_dir) for job in jobs]
    return Reporter(dial=True).report(facts, "Groups and their controls on small digits", command=command)
