"""Many runs: each from its specification, in processes of its own, found again when it is done."""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path

from agrlearn.devices import engine_on
from agrlearn.errors import RunError, TrainingError
from agrlearn.files import NETWORK_FILE, RUN_FILE, data_stamp, make_own_folder, write_atomically
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.runs.jobs import Outcome, Resources, run_jobs
from agrlearn.runs.result import FinishedRun, RunResult, measure, read_finished
from agrlearn.runs.rivals import RIVALS, run_rival
from agrlearn.runs.spec import RunSpec
from agrlearn.runs.train import RunData, make_network, open_data, train_run
from agrlearn.training.checkpoint import clear_run, read_run, update_run
from agrlearn.training.history import History
from agrlearn.training.identity import RUN_FORMAT

_APART = 1_000_003  # between the seeds of the members of one run


@dataclass(frozen=True)
class Job:
    """A run to do."""

    label: str
    spec: RunSpec
    run_dir: Path
    cell: Path | None = None
    """A file for the result alone; with one, the run directory is removed in the end."""
    data_dir: Path | None = None
    dial: bool = False
    """Measure every way to predict, not only Replicated."""
    keep_checkpoints: bool = True
    """Write checkpoints, by which a stopped run goes on. A run of seconds is started over faster."""
    fresh: bool = False
    """Start over a run that is not finished, also where the directory holds a run of other settings or data."""
    device: str = "auto"

    def finished(self) -> FinishedRun | None:
        """What was left by a run of this very specification, on data that have not changed since."""
        if self.cell is not None:
            found = read_finished(self.cell)
        else:
            if not (self.run_dir / NETWORK_FILE).exists():
                return None
            try:
                unchanged = read_run(self.run_dir).data_stamp == data_stamp(self.spec.data, self.spec.test)
                found = read_finished(self.run_dir / RUN_FILE) if unchanged else None
            except RunError:
                return None  # training refuses the directory with a sentence
        return found if found is not None and found.is_of(self.spec) else None

    @property
    def divergence_file(self) -> Path | None:
        """Says in a sentence how the run diverged, which every other try would do too."""
        return self.cell and self.cell.with_suffix(".diverged.txt")


def run_many(
    jobs: Sequence[Job], resources: Resources, *, on_start: Callable[[Job], None] = lambda job: None,
    on_done: Callable[[Job, Outcome], None] = lambda job, outcome: None,
) -> None:  # fmt: skip
    """Do all runs; results are written as they come, and a failure does not stop the others.

    Args:
        on_done: is given a `FinishedRun`, or the exception that ended the run.
    """
    placed = [replace(job, device=resources.device) for job in jobs]
    run_jobs(placed, do_run, resources, on_start=on_start, on_done=on_done)


def do_run(job: Job) -> FinishedRun:
    """Train and measure one run, unless it is done."""
    done = None if job.fresh else job.finished()
    if done is not None:  # by another command, since this one looked
        return done
    data = open_data(job.spec, job.data_dir)
    result = run_rival(job.spec, data) if job.spec.network in RIVALS else _train_and_measure(job, data)
    versions = {package: version(package) for package in ("agrlearn", "torch", "numpy")}
    finished = FinishedRun(format=RUN_FORMAT, versions=versions, spec=job.spec, result=result)
    if job.cell is None and job.spec.network not in RIVALS:
        update_run(job.run_dir, result=asdict(result), data_stamp=data_stamp(job.spec.data, job.spec.test))
    elif job.cell is not None:
        make_own_folder(job.cell.parent)
        write_atomically(job.cell, finished.to_json())
        if job.run_dir.exists():
            shutil.rmtree(job.run_dir)  # the result has all that is left to know, and checkpoints are large
    return finished


def _train_and_measure(job: Job, data: RunData) -> RunResult:
    if job.keep_checkpoints:
        make_own_folder(job.run_dir)
        if job.fresh:
            clear_run(job.run_dir)
    try:
        networks, history = _train_members(job, data)
    except TrainingError as error:
        if job.divergence_file is not None:
            make_own_folder(job.divergence_file.parent)
            write_atomically(job.divergence_file, f"{error}\n")
        raise
    return measure(job.spec, data, networks, history, dial=job.dial)


def _train_members(job: Job, data: RunData) -> tuple[list[AggregatedClassifier], History]:
    """The network of a run, or several of them from other seeds, and how the first was trained."""
    networks, histories = [], []
    for member in range(job.spec.members):
        spec = job.spec.with_seed(job.spec.seed + member * _APART)
        run_dir = job.run_dir if member == 0 else job.run_dir / f"member-{member}"
        networks.append(make_network(spec, data))
        engine = engine_on(job.device, spec.precision)
        histories.append(train_run(spec, run_dir if job.keep_checkpoints else None, data, networks[-1], fabric=engine))
    seconds = sum(history.seconds for history in histories)
    return networks, replace(histories[0], seconds=seconds)
