"""agrlearn demo"""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from agrlearn.cli.options import WholeNumber

if TYPE_CHECKING:
    from agrlearn.reporting.collect import Report
    from agrlearn.runs.many import Job

_MOST_WORKERS = 4


def demo(
    *,
    seeds: WholeNumber = 3,
    epochs: WholeNumber = 25,
    run_dir: Path = Path("runs/demo"),
    fresh: bool = False,
    report: bool = True,
) -> None:
    """Train an ordinary network and aggregated ones on small images of digits, and compare them in one table.

    The digits come with scikit-learn. Each line of the table is one way to predict with a trained network: the same
    weights serve all lines of a fold. Runs that are done are kept, so a second call only shows the table again.

    Parameters
    ----------
    seeds
        Runs per network, each with other weights and groups.
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
    from rich.table import Table

    from agrlearn.cli.many import run_and_show
    from agrlearn.errors import RecipeError
    from agrlearn.files import REPORT_FILE
    from agrlearn.reporting.make import end_with_report
    from agrlearn.runs.jobs import Resources, one_thread
    from agrlearn.studies.demo import HEADER, as_cells, demo_jobs, write_demo

    if seeds < 1:
        raise RecipeError(f"seeds is the number of runs per network and at least 1, got {seeds}")
    console = Console(markup=False)
    jobs = demo_jobs(run_dir, seeds=seeds, epochs=epochs, fresh=fresh)
    to_do = [job for job in jobs if fresh or job.finished() is None]
    failures = run_and_show(to_do, Resources(workers=min(_MOST_WORKERS, os.cpu_count() or 1)), console)
    if failures:
        raise RecipeError(f"the demo cannot be shown: {failures[0]}")
    with one_thread():
        rows = write_demo(jobs, run_dir)
    table = Table(title=f"digits: 898 to train on, 899 to test on; mean ± standard error of {seeds} seeds")
    for position, name in enumerate(HEADER):
        table.add_column(name, justify="left" if position < 2 else "right")
    before = rows[0].setting
    for row in rows:
        if row.setting != before:
            table.add_section()
            before = row.setting
        table.add_row(*as_cells(row))
    # Piped into a file there is no width to fit: keep every cell whole.
    console.print(table) if console.is_terminal else Console(width=200, markup=False).print(table)
    console.print(f"The runs, table.md and results.json are in {run_dir}", soft_wrap=True)
    if report:
        with one_thread():
            end_with_report(run_dir / REPORT_FILE, lambda: _report(jobs, run_dir, seeds, epochs))


def _report(jobs: "list[Job]", run_dir: Path, seeds: int, epochs: int) -> "Report":
    from agrlearn.reporting.make import Reporter
    from agrlearn.runs.facts import read_facts

    facts = [read_facts(job.run_dir) for job in jobs]
    command = f"agrlearn demo --seeds {seeds} --epochs {epochs} --run-dir {shlex.quote(str(run_dir))}"
    return Reporter("digits", dial=True).report(facts, "Aggregated Learning on small digits", command=command)
