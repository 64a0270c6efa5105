"""Many runs: each from its specification, in processes of its own, found again when it is done."""

import math
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from agrlearn.devices import choose_device, engine_on
from agrlearn.errors import RunError, TrainingError
from agrlearn.files import NETWORK_FILE, RUN_FILE, data_stamp, make_own_folder, write_atomically
from agrlearn.grouping import first_tensor
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.runs.jobs import Outcome, Resources, run_jobs
from agrlearn.runs.result import FinishedRun, RunResult, measure, read_finished
from agrlearn.runs.rivals import RIVALS, run_rival
from agrlearn.runs.spec import RunSpec
from agrlearn.runs.train import RunData, files_of, make_network, open_data, train_run, watched_part
from agrlearn.training.checkpoint import clear_run, read_run, update_run
from agrlearn.training.history import History
from agrlearn.training.identity import RUN_FORMAT
from agrlearn.training.together import Trainee, fit_together

_APART = 1_000_003  # between the seeds of the members of one run
_LARGEST_BUNDLE = 10  # runs that a worker does at the same time, and that are lost if it dies
_MOST_BYTES = 2**28  # of the objects of a bundle


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
            if found is not None and found.data_stamp not in (None, _stamp_of(self.spec)):
                return None
        else:
            if not (self.run_dir / NETWORK_FILE).exists():
                return None
            try:
                unchanged = read_run(self.run_dir).data_stamp == data_stamp(*files_of(self.spec))
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

    def start(bundle: Sequence[Job]) -> None:
        for job in bundle:
            on_start(job)

    def tell(bundle: Sequence[Job], outcome: Outcome) -> None:
        each = outcome if isinstance(outcome, list) else [outcome] * len(bundle)
        for job, own in zip(bundle, each, strict=True):
            on_done(job, own)

    run_jobs(bundles_of(placed, resources), _do_bundle, resources, on_start=start, on_done=tell)


def bundles_of(jobs: Sequence[Job], resources: Resources) -> list[list[Job]]:
    """The runs as workers take them: small networks that differ by their seed alone in bundles, to train together.

    A run with checkpoints stays alone, and so do all on a cluster, which has room for all at once.
    """
    size = 1 if resources.address is not None else min(_LARGEST_BUNDLE, math.ceil(len(jobs) / resources.workers))
    alike: dict[object, list[Job]] = {}
    for job in jobs:
        alone = job.keep_checkpoints or job.spec.network != "mlp"
        settings = replace(job, label="", spec=job.spec.with_seed(0), run_dir=Path(), cell=None)
        alike.setdefault(job.run_dir if alone else repr(settings), []).append(job)
    return [same[first : first + size] for same in alike.values() for first in range(0, len(same), size)]


def _do_bundle(jobs: Sequence[Job]) -> list[Outcome]:
    """As `do_runs`, but a run that is alone raises what ended it, as every job of `run_jobs` may."""
    return [do_run(jobs[0])] if len(jobs) == 1 else do_runs(jobs)


def do_run(job: Job) -> FinishedRun:
    """Train and measure one run, unless it is done."""
    (outcome,) = do_runs([job])
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def do_runs(jobs: Sequence[Job]) -> list[Outcome]:
    """Train and measure runs that are not done, at the same time where their networks can be trained together.

    Returns:
        For each a `FinishedRun`, or the exception that ended it.
    """
    first = _attempt(_open, jobs[0])
    if len(jobs) > 1 and isinstance(first, _OpenRun) and first.bytes * len(jobs) > _MOST_BYTES:
        return [_attempt(do_run, job) for job in jobs]
    opened = [first, *(_attempt(_open, job) for job in jobs[1:])]
    waiting = [run for run in opened if isinstance(run, _OpenRun)]
    together = [(run, member) for run in waiting if run.may_train_together for member in run.members]
    histories = fit_together([member.trainee for _, member in together])
    for (_, member), history in zip(together, histories, strict=True):
        member.history = history
    return [_attempt(_finish, run) if isinstance(run, _OpenRun) else run for run in opened]


@dataclass
class _Member:
    """A network of a run."""

    spec: RunSpec
    network: AggregatedClassifier
    trainee: Trainee
    run_dir: Path | None
    history: History | None = None
    """Once it is trained."""


@dataclass
class _OpenRun:
    """A run with its data, and with its networks unless it is one of scikit-learn."""

    job: Job
    data: RunData
    stamp: str | None
    """Of the data when they were read."""
    members: list[_Member]
    may_train_together: bool
    """Whether its networks may be trained with others, as far as the job says."""

    @property
    def bytes(self) -> int:
        return sum(first_tensor(part.objects).nbytes for part in (self.data.train, self.data.test) if part is not None)


def _attempt(function: Callable[[Any], Any], argument: Any) -> Outcome:
    try:
        return function(argument)
    except Exception as error:
        return error


def _open(job: Job) -> FinishedRun | _OpenRun:
    done = None if job.fresh else job.finished()
    if done is not None:  # by another command, since this one looked
        return done
    stamp = _stamp_of(job.spec)
    data = open_data(job.spec, job.data_dir)
    members = []
    for number in range(job.spec.members if job.spec.network not in RIVALS else 0):
        spec = job.spec.with_seed(job.spec.seed + number * _APART)
        run_dir = job.run_dir if number == 0 else job.run_dir / f"member-{number}"
        network = make_network(spec, data)
        trainee = Trainee(network, data.train, spec.recipe, watched_part(spec, data))
        members.append(_Member(spec, network, trainee, run_dir if job.keep_checkpoints else None))
    plain = job.spec.precision == "32-true" and not job.spec.augment and not job.keep_checkpoints
    return _OpenRun(job, data, stamp, members, plain and choose_device(job.device).type == "cpu")


def _stamp_of(spec: RunSpec) -> str | None:
    """A fingerprint of the user's files, of data and of a network; None without any, as what has a name is the same."""
    files = [name for name in files_of(spec) if Path(name).exists()]
    return data_stamp(*files) if files else None


def _finish(run: _OpenRun) -> FinishedRun:
    """Train what is not trained yet, measure it, and write the result down."""
    job, data = run.job, run.data
    result = _train_and_measure(run) if run.members else run_rival(job.spec, data)
    versions = {package: version(package) for package in ("agrlearn", "torch", "numpy")}
    finished = FinishedRun(
        format=RUN_FORMAT, versions=versions, spec=job.spec, result=result, data_stamp=run.stamp
    )  # fmt: skip
    if job.cell is None and job.spec.network not in RIVALS:
        update_run(job.run_dir, result=asdict(result), data_stamp=data_stamp(*files_of(job.spec)))
    elif job.cell is not None:
        make_own_folder(job.cell.parent)
        write_atomically(job.cell, finished.to_json())
        if job.run_dir.exists():
            shutil.rmtree(job.run_dir)  # the result has all that is left to know, and checkpoints are large
    return finished


def _train_and_measure(run: _OpenRun) -> RunResult:
    job = run.job
    if job.keep_checkpoints:
        make_own_folder(job.run_dir)
        if job.fresh:
            clear_run(job.run_dir)
    histories = []
    try:
        for member in run.members:
            if member.history is None:
                engine = engine_on(job.device, member.spec.precision)
                member.history = train_run(member.spec, member.run_dir, run.data, member.network, fabric=engine)
            histories.append(member.history)
    except TrainingError as error:
        if job.divergence_file is not None:
            make_own_folder(job.divergence_file.parent)
            write_atomically(job.divergence_file, f"{error}\n")
        raise
    history = replace(histories[0], seconds=sum(history.seconds for history in histories))
    return measure(job.spec, run.data, [member.network for member in run.members], history, dial=job.dial)
