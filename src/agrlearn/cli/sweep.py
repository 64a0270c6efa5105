"""agrlearn sweep"""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from agrlearn.cli.options import ResourceOptions

if TYPE_CHECKING:
    from rich.table import Table

    from agrlearn.reporting.collect import Report
    from agrlearn.studies.sweep import Trial

_DEFAULTS = ResourceOptions()
_LOG_FILE = "log.txt"
_ROWS_SHOWN = 20


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
    import functools
    from collections import Counter
    from dataclasses import asdict

    from rich.console import Console
    from rich.live import Live

    from agrlearn.errors import RecipeError
    from agrlearn.files import to_json, write_atomically
    from agrlearn.reporting.make import REPORT_FILE, end_with_report
    from agrlearn.runs.many import run_jobs
    from agrlearn.studies.sweep import as_markdown, read_sweep, summarize_sweep

    folder = (run_dir or Path("runs") / file.stem).resolve()
    trials = read_sweep(file, folder)
    folder.mkdir(parents=True, exist_ok=True)
    states = {trial.run_dir: "done" if trial.is_done() else "waiting" for trial in trials}
    console = Console(markup=False)
    failures: list[str] = []

    def on_start(trial: "Trial") -> None:
        states[trial.run_dir] = "running"

    def on_done(trial: "Trial", outcome: Any) -> None:
        failed = isinstance(outcome, Exception)
        states[trial.run_dir] = "failed" if failed else "done"
        if failed:
            failures.append(f"{trial.name}, seed {trial.seed}: {outcome}")
        elif not console.is_terminal:
            print(f"{trial.name}, seed {trial.seed}: {_how_far(trial)}", flush=True)

    jobs = [trial for trial in trials if states[trial.run_dir] == "waiting"]
    counts = Counter(states.values())
    console.print(f"{len(trials)} trials, {counts['done']} of them done already, in {folder}", soft_wrap=True)
    shown = Live(get_renderable=lambda: _table(trials, states), console=console, transient=True)
    try:
        if jobs and console.is_terminal:
            shown.start()
        run_jobs(
            jobs, functools.partial(_run_trial, fresh=fresh), resources.resources(), on_start=on_start, on_done=on_done
        )
    except KeyboardInterrupt:
        console.print("Stopped. The same command goes on from here.")
        raise SystemExit(130) from None
    finally:
        shown.stop()
    lines = summarize_sweep(trials)
    if lines:
        write_atomically(folder / "sweep.md", as_markdown(lines))
        write_atomically(folder / "sweep.json", to_json([asdict(line) for line in lines]))
        console.print(as_markdown(lines), soft_wrap=True, markup=False)
        console.print(f"The table is in {folder / 'sweep.md'}, each trial's run directory beside it.", soft_wrap=True)
    if report and lines:
        end_with_report(folder / REPORT_FILE, lambda: _report(trials, file))
    for failure in failures:
        console.print(f"failed: {failure}", soft_wrap=True, markup=False)
    if failures:
        raise RecipeError(
            f"{len(failures)} of {len(jobs)} trials failed, as told above; the same command tries them again, and "
            f"{_LOG_FILE} in their directories says more"
        )


def _report(trials: "list[Trial]", file: Path) -> "Report":
    from agrlearn.reporting.make import Reporter
    from agrlearn.runs.facts import read_facts

    facts = [read_facts(trial.run_dir) for trial in trials if trial.is_done()]
    return Reporter().report(facts, f"Sweep: {file.stem}", command=f"agrlearn sweep {shlex.quote(str(file))}")


def _run_trial(trial: "Trial", *, fresh: bool) -> None:
    """An ordinary `agrlearn train`, with what it prints in the run directory."""
    from contextlib import redirect_stdout

    from agrlearn.cli.train import train
    from agrlearn.files import make_own_folder, open_own

    settings = dict(trial.settings)
    recipe, net, data_dir = (settings.pop(name) for name in ("recipe", "net", "data_dir"))
    make_own_folder(trial.run_dir)
    with open_own(trial.run_dir / _LOG_FILE) as log, redirect_stdout(log):
        train(
            settings.pop("data"),
            **settings,
            net={name: str(value) for name, value in net.items()},
            data_dir=None if data_dir is None else Path(data_dir),
            run_dir=trial.run_dir,
            fresh=fresh,
            report=False,
            lines=False,
            recipe=recipe.model_copy(update={"seed": trial.seed}),
        )
    trial.note_down()


def _how_far(trial: "Trial") -> str:
    """The last epoch that a trial has written down."""
    from agrlearn.training.checkpoint import read_records

    records = read_records(trial.run_dir)
    if not records:
        return ""
    error = next((r.validation_error for r in reversed(records) if r.validation_error is not None), None)
    held_out = "" if error is None else f", validation error {error:.2%}"
    return f"epoch {records[-1].epoch} of {trial.settings.recipe.epochs}{held_out}"


def _table(trials: "list[Trial]", states: dict[Path, str]) -> "Table":
    """The trials as they stand: what runs first, then what failed, what waits, and what is done."""
    from rich.table import Table

    order = ("running", "failed", "waiting", "done")
    table = Table("trial", "seed", "state", "")
    for trial in sorted(trials, key=lambda trial: order.index(states[trial.run_dir]))[:_ROWS_SHOWN]:
        table.add_row(trial.name, str(trial.seed), states[trial.run_dir], _how_far(trial))
    if len(trials) > _ROWS_SHOWN:
        table.add_row(f"and {len(trials) - _ROWS_SHOWN} more", "", "", "")
    return table
