"""agrlearn sweep"""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from agrlearn.cli.options import ResourceOptions

if TYPE_CHECKING:
    from agrlearn.reporting.collect import Report
    from agrlearn.runs.many import Job

_DEFAULTS = ResourceOptions()


def sweep(
    file: Path,
    /,
    *,
    run_dir: Path | None = None,
    fresh: bool = False,
    report: bool = True,
    resources: Annotated[ResourceOptions, Parameter(name="*")] = _DEFAULTS,
) -> None:
    """Train many networks: a grid or a list of settings, with several seeds each, from a TOML file.

    Stopped or killed, the same command goes on; trials that are done are not run again. The file holds what
    `agrlearn train` takes (data, fold, network, net, recipe), `seeds`, and what varies:

        data = "digits"
        seeds = 3
        recipe.epochs = 20
        [grid]
        fold = [1, 2, 4]
        recipe.alpha = [0.0, 0.3]

    or a list of [[trials]] with a name each.

    Parameters
    ----------
    file
        The TOML file.
    run_dir
        Where the trials' run directories and the table go; by default runs/ and the file's name.
    fresh
        Start trials over that are not finished, also where their directories hold a run of other settings or data.
    report
        Write report.html, which shows the whole sweep, beside the table.
    """
    from dataclasses import asdict

    from rich.console import Console

    from agrlearn.cli.many import run_and_show
    from agrlearn.errors import RecipeError
    from agrlearn.files import REPORT_FILE, to_json, write_atomically
    from agrlearn.reporting.make import end_with_report
    from agrlearn.studies.sweep import as_markdown, read_sweep, summarize_sweep

    resources.announce()
    folder = (run_dir or Path("runs") / file.stem).resolve()
    jobs = read_sweep(file, folder, fresh=fresh)
    folder.mkdir(parents=True, exist_ok=True)
    to_do = [job for job in jobs if job.finished() is None]
    console = Console(markup=False)
    console.print(f"{len(jobs)} trials, {len(jobs) - len(to_do)} of them done already, in {folder}", soft_wrap=True)
    # A sweep is there to choose a setting, which a test part must not do.
    failures = run_and_show(to_do, resources.resources(), console, each="validation")
    lines = summarize_sweep(jobs)
    if lines:
        write_atomically(folder / "sweep.md", as_markdown(lines))
        write_atomically(folder / "sweep.json", to_json([asdict(line) for line in lines]))
        console.print(as_markdown(lines), soft_wrap=True, markup=False)
        console.print(f"The table is in {folder / 'sweep.md'}, each trial's run directory beside it.", soft_wrap=True)
    if report and lines:
        end_with_report(folder / REPORT_FILE, lambda: _report(jobs, file))
    if failures:
        raise RecipeError(
            f"{len(failures)} of {len(to_do)} trials failed, for the reasons above; the same command tries them again"
        )


def _report(jobs: "list[Job]", file: Path) -> "Report":
    from agrlearn.reporting.make import Reporter
    from agrlearn.runs.facts import read_facts

    facts = [read_facts(job.run_dir) for job in jobs if job.finished() is not None]
    return Reporter().report(facts, f"Sweep: {file.stem}", command=f"agrlearn sweep {shlex.quote(str(file))}")
