"""Which rows of an experiment to run, what they need, and how long they take."""

import fnmatch
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch
from lightning_fabric import Fabric

from agrlearn.errors import DataError, RecipeError, look_up
from agrlearn.grouping import GroupBatchSampler, group, map_objects, take
from agrlearn.runs.many import Job
from agrlearn.runs.spec import RunSpec
from agrlearn.runs.train import RunData, make_network, open_data
from agrlearn.studies.paper.experiments import EXPERIMENTS
from agrlearn.studies.paper.rows import Row
from agrlearn.studies.paper.scales import SCALES
from agrlearn.training.setup import make_optimizer, make_regularizer
from agrlearn.training.state import EpochTotals, TrainingState
from agrlearn.training.step import train_step

ALL = "all"
_QUICK_STEP = 0.25
_TIMED_STEPS = 3


def choose_rows(names: Sequence[str], scale: str, patterns: Sequence[str] = ()) -> dict[str, list[Row]]:
    """The rows of the experiments called `names`; of these, where there are patterns, those that match one of them."""
    kind = look_up(SCALES, scale, "scale")
    there = {name: experiment for name, experiment in EXPERIMENTS.items() if experiment.remark(kind)}
    for name in names:
        if name in EXPERIMENTS and name not in there:
            raise RecipeError(f"{name} has no {scale} scale; the experiments that do are: {', '.join(there)}")
    chosen = list(there) if ALL in names else names
    rows = {name: look_up({**there, ALL: None}, name, "experiment").rows(kind) for name in chosen}  # type: ignore[union-attr]
    everything = [row for found in rows.values() for row in found]
    for pattern in patterns:
        if not any(_matches(row, pattern) for row in everything):
            known = "; ".join(dict.fromkeys(row.label for row in everything))
            blocks = "; ".join(dict.fromkeys(row.block for row in everything))
            raise RecipeError(f"no cell matches {pattern}; there are, in the blocks {blocks}: {known}")
    return {
        name: [row for row in found if not patterns or any(_matches(row, pattern) for pattern in patterns)]
        for name, found in rows.items()
    }


def missing_data(jobs: Iterable[Job]) -> dict[str, str]:
    """The data sets that cannot be had here, each with the reason."""
    reasons = {}
    for data, job in {job.spec.data: job for job in jobs}.items():
        try:
            open_data(job.spec, job.data_dir)
        except DataError as error:
            reasons[data] = str(error)
    return reasons


def estimate_seconds(spec: RunSpec, data_dir: Path | None) -> float:
    """What a run takes of one core, or of the GPU where there is one, from a few timed steps.

    A step costs three passes, a measured object one.
    """
    data = open_data(spec, data_dir)
    recipe, tested = spec.recipe, 0 if data.test is None else len(data.test)
    batch = min(recipe.batch_size, len(data.train))
    step = _step_seconds(spec, data, batch)
    steps = recipe.epochs * len(GroupBatchSampler(len(data.train), spec.fold, recipe.batch_size))
    measured = recipe.epochs // recipe.evaluate_every + (1 if spec.fold == 1 else 6 + 5 / spec.fold)
    return spec.members * (steps * step + measured * tested * step / (3 * batch))


def _matches(row: Row, pattern: str) -> bool:
    """Whether a row is meant by a pattern such as "fold 2*" or "*CNN: fold*"."""
    return any(fnmatch.fnmatchcase(text, pattern) for text in (row.label, f"{row.block}: {row.label}"))


def _step_seconds(spec: RunSpec, data: RunData, batch: int) -> float:
    recipe, device = spec.recipe, Fabric(devices=1).device
    network = make_network(spec, data).train().to(device)
    regularizer = make_regularizer(network, data.train, recipe, device) if recipe.alpha > 0 else None
    state = TrainingState(network, make_optimizer(network, recipe), regularizer, EpochTotals.zero(device))
    random = torch.Generator().manual_seed(0)

    def seconds(groups: int) -> float:
        indices = torch.arange(groups * spec.fold) % len(data.train)
        objects = map_objects(lambda tensor: tensor.to(device), take(data.train.objects, indices))
        labels = data.train.labels[indices].to(device)
        start = time.perf_counter()
        train_step(
            network, state, group(objects, spec.fold), labels.view(-1, spec.fold), recipe, random,
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
