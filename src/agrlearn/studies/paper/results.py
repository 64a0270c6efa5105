"""What is done of an experiment: a small file for each finished run, under results/cells."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agrlearn.runs.many import Job
from agrlearn.runs.result import REPLICATED, FinishedRun, RunResult, read_finished
from agrlearn.runs.spec import RunSpec

if TYPE_CHECKING:
    from agrlearn.studies.paper.rows import Row

FOLD_1 = "fold 1"
"""The label of the row that the others of its block are compared with."""
CELLS_FOLDER = "cells"


@dataclass(frozen=True)
class CellResult:
    """A finished run of a row."""

    run: FinishedRun
    test_errors: tuple[float, ...]
    """The measurements on the test part that a table reports the median of."""

    @property
    def seed(self) -> int:
        return self.run.seed

    @property
    def result(self) -> RunResult:
        return self.run.result


@dataclass(frozen=True)
class Folders:
    """Where results and runs under way are kept."""

    cells: Path
    runs: Path = Path("runs")
    data_dir: Path | None = None

    def job(self, row: "Row", seed: int) -> Job:
        """A row with a seed."""
        spec = row.spec.with_seed(seed)
        name = f"{spec.key()}-seed{seed}"
        return Job(
            f"{row.block}: {row.label}", spec, (self.runs / name).resolve(), (self.cells / f"{name}.json").resolve(),
            self.data_dir, dial=True,
        )  # fmt: skip


def pending(rows: Iterable["Row"], seeds: int, folders: Folders) -> list[Job]:
    """What is not done yet: all rows with the first seed, then with the next, and so on."""
    listed = list(rows)
    jobs = {job.cell: job for seed in range(seeds) for row in listed for job in [folders.job(row, seed)]}
    return [job for job in jobs.values() if not _has_diverged(job) and job.finished() is None]


def _has_diverged(job: Job) -> bool:
    return job.divergence_file is not None and job.divergence_file.exists()


def collect(rows: Sequence["Row"], cells: Path) -> dict[tuple[str, str], list[CellResult]]:
    """All results there are, by block and label."""
    return {(row.block, row.label): _results(row, cells) for row in rows}


def _results(row: "Row", cells: Path) -> list[CellResult]:
    runs = [(seed, read_finished(file)) for seed, file in _files(row.spec, cells, "json").items()]
    found = [run for seed, run in runs if run is not None and run.is_of(row.spec.with_seed(seed))]
    return [CellResult(run, _test_errors(run, row.last)) for run in found]


def _test_errors(run: FinishedRun, last: int) -> tuple[float, ...]:
    # The curve is of the part that stopped it, of the first member, or of weights that are not averaged yet.
    spec = run.spec
    if spec.stopping_fraction > 0 or spec.members > 1 or spec.recipe.average_from is not None:
        return (run.result.protocols[REPLICATED].error,)
    return tuple(point.error for point in run.result.curve[-last:])


def collect_divergences(rows: Sequence["Row"], cells: Path) -> dict[tuple[str, str], list[str]]:
    """How runs diverged, by block and label of the rows where some did."""
    found = {
        (row.block, row.label): [file.read_text().strip() for file in _files(row.spec, cells, "diverged.txt").values()]
        for row in rows
    }
    return {key: sentences for key, sentences in found.items() if sentences}


def describe_divergences(diverged: Mapping[tuple[str, str], Sequence[str]], block: str) -> tuple[str, ...]:
    """A sentence for each row of `block` of which runs diverged."""
    return tuple(
        f"{label}, {len(sentences)} of its seeds: {sentences[0]}"
        for (where, label), sentences in diverged.items()
        if where == block
    )


def _files(spec: RunSpec, cells: Path, ending: str) -> dict[int, Path]:
    """The files of a setting by seed."""
    files = {
        file.name.rpartition("-seed")[2].partition(".")[0]: file for file in cells.glob(f"{spec.key()}-seed*.{ending}")
    }
    return {int(seed): files[seed] for seed in sorted(filter(str.isdecimal, files), key=int)}
