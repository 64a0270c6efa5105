"""Run the cells of experiments that are not done yet, in processes of one thread each."""

import fnmatch
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from lightning_fabric import Fabric

from agrlearn.errors import DataError, RecipeError, TrainingError, look_up
from agrlearn.files import make_own_folder, write_atomically
from agrlearn.grouping import group, map_objects, take
from agrlearn.runs.many import Resources, run_jobs
from agrlearn.studies.paper.cells import Cell, CellResult, divergence_file, read_result
from agrlearn.studies.paper.experiments import EXPERIMENTS, Row
from agrlearn.studies.paper.running import (
    Parts,
    make_network,
    open_parts,
    run_cell,
    run_directory,
    steps_per_epoch,
)
from agrlearn.studies.paper.scales import SCALES
from agrlearn.training.setup import make_optimizer, make_regularizer
from agrlearn.training.state import EpochTotals, TrainingState
from agrlearn.training.step import train_step

ALL = "all"
CELLS_FOLDER = "cells"
_QUICK_STEP = 0.25
_TIMED_STEPS = 3


@dataclass(frozen=True)
class Task:
    """A cell to train with a seed."""

    label: str
    cell: Cell
    seed: int


def choose_rows(names: Sequence[str], scale: str, patterns: Sequence[str] = ()) -> dict[str, list[Row]]:
    """The rows of the experiments called `names`; of these, where there are patterns, those that match one of them."""
    chosen = list(EXPERIMENTS) if ALL in names else names
    kind = look_up(SCALES, scale, "scale")
    rows = {name: look_up({**EXPERIMENTS, ALL: None}, name, "experiment").rows(kind) for name in chosen}  # type: ignore[union-attr]
    kept = {
        name: [row for row in found if not patterns or any(_matches(row, pattern) for pattern in patterns)]
        for name, found in rows.items()
    }
    if not any(kept.values()):
        some = ", ".join(dict.fromkeys(row.label for found in rows.values() for row in found))
        raise RecipeError(f"no cell matches {' or '.join(patterns)}; there are: {some}")
    return kept


def pending(rows: Iterable[Row], seeds: int, cells: Path) -> list[Task]:
    """What is not done yet: all rows with the first seed, then with the next, and so on."""
    tasks: dict[tuple[str, int], Task] = {}
    together = list(rows)
    for seed in range(seeds):
        for row in together:
            key = (row.cell.key(), seed)
            done = divergence_file(cells, row.cell, seed).exists() or read_result(cells, row.cell, seed) is not None
            if key not in tasks and not done:
                tasks[key] = Task(f"{row.block}: {row.label}, seed {seed}", row.cell, seed)
    return list(tasks.values())


def missing_data(tasks: Iterable[Task], data_dir: Path | None) -> dict[str, str]:
    """The data sets that cannot be had here, each with the reason."""
    reasons = {}
    for dataset, task in {task.cell.dataset: task for task in tasks}.items():
        try:
            open_parts(task.cell, task.seed, data_dir)
        except DataError as error:
            reasons[dataset] = str(error)
    return reasons


def estimate_seconds(cell: Cell, data_dir: Path | None) -> float:
    """What a run of `cell` takes of one core, or of the GPU where there is one, from a few timed steps.

    A step costs three passes, a measured object one.
    """
    parts = open_parts(cell, 0, data_dir)
    batch = min(cell.recipe.batch_size, len(parts.train))
    step = _step_seconds(cell, parts, batch)
    steps = cell.recipe.epochs * steps_per_epoch(cell, parts)
    measured = cell.recipe.epochs // cell.recipe.evaluate_every + (1 if cell.fold == 1 else 6 + 5 / cell.fold)
    return steps * step + measured * len(parts.test) * step / (3 * batch)


def run_tasks(
    tasks: Sequence[Task], cells: Path, runs: Path, resources: Resources, *, data_dir: Path | None = None,
    on_done: Callable[[Task, CellResult | Exception], None],
) -> None:  # fmt: skip
    """Run all tasks; results are written as they come, and a failure does not stop the others."""
    jobs = [_Job(task, cells.resolve(), runs.resolve(), data_dir) for task in tasks]
    run_jobs(jobs, _run_and_save, resources, on_done=lambda job, outcome: on_done(job.task, outcome))


@dataclass(frozen=True)
class _Job:
    task: Task
    cells: Path
    runs: Path
    data_dir: Path | None


def _run_and_save(job: _Job) -> CellResult:
    cell, seed = job.task.cell, job.task.seed
    done = read_result(job.cells, cell, seed)
    if done is not None:  # by another command, since this one looked
        return done
    try:
        result = run_cell(cell, seed, job.runs, job.data_dir)
    except TrainingError as error:
        make_own_folder(job.cells)
        write_atomically(divergence_file(job.cells, cell, seed), f"{error}\n")
        raise
    result.save(job.cells, cell)
    # The result has all that is left to know, and checkpoints are large.
    shutil.rmtree(run_directory(job.runs, cell, seed))
    return result


def _matches(row: Row, pattern: str) -> bool:
    """Whether a row is meant by a pattern such as "fold 2*" or "*CNN: fold*"."""
    return any(fnmatch.fnmatchcase(text, pattern) for text in (row.label, f"{row.block}: {row.label}"))


def _step_seconds(cell: Cell, parts: Parts, batch: int) -> float:
    device = Fabric(devices=1).device
    network = make_network(cell, 0, parts).train().to(device)
    regularizer = make_regularizer(network, parts.train, cell.recipe, device) if cell.recipe.alpha > 0 else None
    state = TrainingState(network, make_optimizer(network, cell.recipe), regularizer, EpochTotals.zero(device))
    random = torch.Generator().manual_seed(0)

    def seconds(groups: int) -> float:
        indices = torch.arange(groups * cell.fold) % len(parts.train)
        objects = map_objects(lambda tensor: tensor.to(device), take(parts.train.objects, indices))
        labels = parts.train.labels[indices].to(device)
        start = time.perf_counter()
        train_step(
            network, state, group(objects, cell.fold), labels.view(-1, cell.fold), cell.recipe, random,
            torch.Tensor.backward,
        )  # fmt: skip
        float(state.totals.loss)  # waits for the device
        return time.perf_counter() - start

    few = min(batch, 8)
    seconds(few)  # warms up
    of_few = seconds(few)
    if of_few > _QUICK_STEP:
        return of_few * batch / few
    return min(seconds(batch) for _ in range(_TIMED_STEPS))
