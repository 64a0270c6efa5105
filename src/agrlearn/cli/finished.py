"""A run that is finished already, answered from its run.json alone. Nothing here imports torch."""

from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

from pydantic import BaseModel

from agrlearn.cli.engine import command_line, is_main_process
from agrlearn.files import NETWORK_FILE, REPORT_FILE, RUN_FILE, data_stamp, read_json, run_stamp

ALREADY = "This run was finished already; more --epochs go on with it, --fresh starts over."


class _Scores(BaseModel):
    error: float
    nll: float
    ece: float


class _Result(BaseModel):
    protocols: dict[str, _Scores]
    seconds: float


class _Finished(BaseModel):
    versions: dict[str, str]
    command: str
    data_stamp: str
    run_stamp: str
    result: _Result


def find_finished(folders: Iterable[Path], data: str, test: str | None, *, report: bool) -> Path | None:
    """The folder in which this very command has finished, on files that are as they were then, and say so.

    Args:
        report: whether the run's report must be there too.
    """
    for folder in folders:
        try:
            found = _Finished.model_validate(read_json(folder / RUN_FILE))
            same = found.data_stamp == data_stamp(data, *([test] if test else [])) and found.run_stamp == run_stamp(
                folder
            )
        except (OSError, ValueError):  # no run, one that is not finished, or one that training refuses in a sentence
            continue
        if not same or found.command != command_line() or found.versions.get("agrlearn") != version("agrlearn"):
            continue
        if not (folder / NETWORK_FILE).is_file() or (report and not (folder / REPORT_FILE).is_file()):
            continue
        if is_main_process():
            print(f"{ALREADY} It took {found.result.seconds:.1f} s.")
            for name, scores in found.result.protocols.items():
                print(f"{scores_line(scores.error, scores.nll, scores.ece, test)} ({name})")
            if report:
                print(f"Report: {folder / REPORT_FILE}")
        return folder
    return None


def scores_line(error: float, nll: float, ece: float, test: str | None) -> str:
    """How well a run does on what it held out, or on a test file."""
    return f"{'test' if test else 'held-out'} error {error:.2%} · NLL {nll:.4f} · ECE {ece:.4f}"
