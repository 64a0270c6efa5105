"""agrlearn reproduce"""

import functools
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from agrlearn.cli.options import ResourceOptions, WholeNumber

if TYPE_CHECKING:
    from rich.console import Console

    from agrlearn.runs.many import Job

_DEFAULTS = ResourceOptions()
_HOUR, _DAY = 3600, 86400


def reproduce(
    table: str,
    /,
    *,
    scale: Literal["smoke", "small", "medium", "paper"] = "small",
    seeds: WholeNumber | None = None,
    cells: Annotated[list[str] | None, Parameter(negative=(), consume_multiple=True)] = None,
    resources: Annotated[ResourceOptions, Parameter(name="*")] = _DEFAULTS,
    results: Path = Path("results"),
    runs: Path = Path("runs/reproduce"),
    data_dir: Path | None = None,
    yes: Annotated[bool, Parameter(negative=())] = False,
    only_write: Annotated[bool, Parameter(negative=())] = False,
) -> None:
    """Run an experiment of the paper with its controls, and write its table with the published numbers beside ours.

    Cells that are done are not run again, and a cell that was stopped goes on: the same command finishes a table.

    Parameters
    ----------
    table
        table1 to table6, table6-sgd (at small scale too by the paper's optimizer), figure3, data-efficiency,
        interaction, beyond (ways to train that the paper does not have), or all.
    scale
        paper is the published protocol and takes core-months; small shrinks it and says so beside every number; medium
        trains the main rows of the image tables ten times as long as small; smoke only shows that everything runs.
    seeds
        Runs of each cell: 7 at paper scale, as published, and 3 otherwise. A table has all that are done.
    cells
        Only rows whose name fits one of these patterns, such as "fold 2*" or "*CNN: *".
    results
        Where the tables and a small file for each finished cell go.
    runs
        Where cells under way keep their checkpoints.
    data_dir
        The folder with the data sets as they are published; by default that of AGRLEARN_DATA, or ~/.cache/agrlearn.
    yes
        Do not ask before a run at paper scale.
    only_write
        Run nothing: write the tables from the cells that are done.
    """
    from rich.console import Console

    from agrlearn.cli.many import run_and_show
    from agrlearn.errors import DataError, RecipeError
    from agrlearn.studies.paper import reproduce as engine
    from agrlearn.studies.paper.results import CELLS_FOLDER, Folders, collect, collect_divergences, pending

    seeds = (7 if scale == "paper" else 3) if seeds is None else seeds
    if seeds < 1:
        raise RecipeError(f"seeds is the number of runs of each cell and at least 1, got {seeds}")
    given = resources.resources()
    if not only_write:
        resources.announce()
    console = Console(markup=False)
    rows = engine.choose_rows([table], scale, cells or [])
    folders = Folders(results / CELLS_FOLDER, runs, data_dir)
    everything = [row for found in rows.values() for row in found]
    jobs = [] if only_write else pending(everything, seeds, folders)
    missing = engine.missing_data(jobs)
    for data, reason in missing.items():
        console.print(f"Left out because {data} is missing: {reason}", soft_wrap=True)
        jobs = [job for job in jobs if job.spec.data != data]
    failures: list[str] = []
    if jobs:
        _print_cost(console, jobs, given.workers)
        if scale == "paper" and not yes and not _agreed():
            return
        failures = run_and_show(jobs, given, console)
    known = (collect(everything, folders.cells), collect_divergences(everything, folders.cells))
    if not failures and not any(any(found.values()) for found in known):
        why = (
            f"{' and '.join(missing)} cannot be had, for the reasons above" if missing else f"{folders.cells} has none"
        )
        raise DataError(f"there are no finished runs to write a table from: {why}")
    _write(console, list(rows), scale, seeds, results)
    if failures:
        raise RecipeError(
            f"{len(failures)} of {len(jobs)} runs failed, for the reasons above; the same command tries those again "
            "that did not diverge"
        )


def _agreed() -> bool:
    from agrlearn.errors import RecipeError

    try:
        return input("Go on? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        raise RecipeError("there is no one to ask before a run at paper scale; pass --yes to go on") from None


def _print_cost(console: "Console", jobs: "list[Job]", workers: int) -> None:
    import torch
    from rich.progress import track

    from agrlearn.runs.jobs import one_thread
    from agrlearn.studies.paper.reproduce import estimate_seconds

    settings = {job.spec.key(): job for job in jobs}
    runs = Counter(job.spec.key() for job in jobs)
    with one_thread():
        seconds = sum(
            runs[key] * estimate_seconds(job.spec, job.data_dir)
            for key, job in track(settings.items(), "timing a few steps", console=console, transient=True)
        )
    unit, value = ("days", seconds / _DAY) if seconds > 2 * _DAY else ("hours", seconds / _HOUR)
    kind = "GPU" if torch.cuda.is_available() else "core"
    console.print(
        f"{len(jobs)} runs to do: about {value:.2g} {kind}-{unit}, {value / workers:.2g} {unit} with "
        f"--workers {workers}",
        soft_wrap=True,
    )


def _write(console: "Console", names: list[str], scale: str, seeds: int, results: Path) -> None:
    """The tables called `names`, with all of their rows and seeds that are done, not only those asked for now."""
    from agrlearn.reporting.collect import report_of_experiment
    from agrlearn.reporting.make import end_with_report
    from agrlearn.studies.paper.experiments import EXPERIMENTS
    from agrlearn.studies.paper.reproduce import choose_rows
    from agrlearn.studies.paper.results import CELLS_FOLDER, collect, collect_divergences
    from agrlearn.studies.paper.scales import SCALES
    from agrlearn.studies.paper.tabulate import write_tables

    for name in names:
        experiment, rows = EXPERIMENTS[name], choose_rows([name], scale)[name]
        done = collect(rows, results / CELLS_FOLDER)
        diverged = collect_divergences(rows, results / CELLS_FOLDER)
        found = {key: mine for key, mine in done.items() if mine}
        most = max([seeds, *(result.seed + 1 for mine in found.values() for result in mine)])
        command = f"agrlearn reproduce {name} --scale {scale} --seeds {most}"
        write_tables(name, experiment, SCALES[scale], rows, done, diverged, results, command)
        console.print(f"{experiment.title}: {results / f'{name}-{scale}.md'}", soft_wrap=True)
        make_report = functools.partial(report_of_experiment, experiment, SCALES[scale], rows, done, diverged, command)
        end_with_report(results / f"{name}-{scale}.html", make_report)
        if experiment.picture is not None and found:
            file = results / f"{name}-{scale}.png"
            experiment.picture(found, file, f"{experiment.title} ({scale} scale)")
            console.print(f"and its picture: {file}", soft_wrap=True)
