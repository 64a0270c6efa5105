"""Many training runs from one TOML file: a grid or a list of changes, times seeds."""

import itertools
import math
import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agrlearn.errors import RecipeError, hint
from agrlearn.evaluation.statistics import Mean, mean_over_runs
from agrlearn.files import markdown_table, read_small_text
from agrlearn.runs.many import Job
from agrlearn.runs.result import REPLICATED
from agrlearn.runs.spec import RunSpec
from agrlearn.training.checkpoint import read_records
from agrlearn.training.history import History, best_record
from agrlearn.training.recipe import Recipe

_MOST_TRIALS = 10_000
_LISTS = ("seeds", "grid", "trials")


@dataclass(frozen=True)
class SweepLine:
    """The runs of one setting."""

    name: str
    seeds: tuple[int, ...]
    error: Mean
    """Of the validation part, in percent: each run's median of its last ten epochs; with patience, the kept epoch's, of
    which another part was the judge."""
    nll: Mean
    """Of the validation part, at the last epoch or, with patience, the kept one."""
    loss: Mean
    """Of training, at that epoch."""


def read_sweep(file: Path, folder: Path, *, fresh: bool = False) -> list[Job]:
    """The trials that a TOML file describes, each with its run directory in `folder`."""
    try:
        values = tomllib.loads(read_small_text(file))
    except FileNotFoundError:
        raise RecipeError(f"there is no file {file}; a sweep is described by a TOML file") from None
    except (ValueError, RecursionError) as error:
        raise RecipeError(f"{file} is not TOML ({error})") from None
    base = {key: value for key, value in values.items() if key not in _LISTS}
    seeds = values.get("seeds", 1)
    numbers = list(range(min(seeds, _MOST_TRIALS + 1))) if isinstance(seeds, int) else seeds
    if not isinstance(numbers, list) or not numbers or not all(type(seed) is int and seed >= 0 for seed in numbers):
        raise RecipeError(f"{file}: seeds is a number of seeds or a list of them, got {seeds!r}")
    jobs: dict[tuple[str, int], Job] = {}
    for changes in _changes(values.get("grid", {}), values.get("trials", [{}]), file):
        named = dict(changes)
        name = str(named.pop("name", "")) or _name_of(named)
        settings = _merged(base, named)
        data_dir = settings.pop("data_dir", None)
        spec = _spec(settings, file)
        for seed in numbers:
            if (name, seed) in jobs:
                raise RecipeError(f"{file}: two trials are called {name!r}; give each a name of its own")
            if len(jobs) == _MOST_TRIALS:
                raise RecipeError(f"{file} asks for more than {_MOST_TRIALS:,} trials; split it into several sweeps")
            run_dir = folder / f"{_slug(name)}-seed{seed}"
            jobs[name, seed] = Job(
                name, spec.with_seed(seed), run_dir, data_dir=None if data_dir is None else Path(data_dir), fresh=fresh
            )
    names: dict[Path, str] = {}
    for job in jobs.values():
        other = names.setdefault(job.run_dir, job.label)
        if other != job.label:
            raise RecipeError(
                f"{file}: the trials {other!r} and {job.label!r} would share the directory {job.run_dir}; use names "
                "that differ in letters or digits"
            )
    return list(jobs.values())


def summarize_sweep(jobs: Sequence[Job]) -> list[SweepLine]:
    """One line for each setting, over its finished runs."""
    lines = []
    for name in dict.fromkeys(job.label for job in jobs):
        done = [job for job in jobs if job.label == name and job.finished() is not None]
        if not done:
            continue
        ends = [_end(job) for job in done]
        measured = [end for end in ends if end[0] is not None]
        lines.append(
            SweepLine(
                name,
                tuple(job.spec.seed for job in done),
                mean_over_runs([100 * (error or 0.0) for error, _, _ in measured]),
                mean_over_runs([math.nan if nll is None else nll for _, nll, _ in measured]),
                mean_over_runs([loss for _, _, loss in ends]),
            )
        )
    return lines


def _end(job: Job) -> tuple[float | None, float | None, float]:
    """The error, the likelihood and the training loss of a finished run; None where nothing was held out to measure."""
    history = History(tuple(read_records(job.run_dir)), 0.0)
    if job.spec.recipe.patience is not None:
        # The records are of the part that chose the epoch, so they flatter it.
        run = job.finished()
        scores = run.result.protocols.get(REPLICATED) if run else None
        error, nll = (scores.error, scores.nll) if scores else (None, None)
        return error, nll, best_record(history.records).loss
    last = history.records[-1]  # measured, if there is a validation part at all
    return None if last.validation_nll is None else history.final_error(), last.validation_nll, last.loss


def as_markdown(lines: Sequence[SweepLine]) -> str:
    """A table, mean ± standard error over seeds."""
    header = ("setting", "seeds", "validation error %", "validation NLL", "training loss")
    rows = [
        (line.name, str(len(line.seeds)), line.error.text(), line.nll.text(digits=4), line.loss.text(digits=4))
        for line in lines
    ]
    return markdown_table(header, rows)


def _changes(grid: Any, listed: Any, file: Path) -> Iterator[dict[str, Any]]:
    """Every trial of the list with every combination of the grid."""
    if (
        not isinstance(grid, dict)
        or not isinstance(listed, list)
        or not listed
        or not all(isinstance(one, dict) for one in listed)
    ):
        raise RecipeError(f"{file}: grid is a table of lists, and trials a list of tables ([[trials]])")
    leaves = dict(_leaves(grid))
    for path, values in leaves.items():
        if not isinstance(values, list) or not values:
            raise RecipeError(f"{file}: grid.{'.'.join(path)} is a list of values to try, got {values!r}")
    for one in listed:
        for values in itertools.product(*leaves.values()):
            changes = one
            for path, value in zip(leaves, values, strict=True):
                for part in reversed(path):
                    value = {part: value}
                changes = _merged(changes, value)
            yield changes


def _leaves(table: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _leaves(value, (*path, key))
        else:
            yield (*path, key), value


def _merged(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in changes.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _merged(merged[key], value) if both else value
    return merged


def _spec(values: dict[str, Any], file: Path) -> RunSpec:
    recipe = values.pop("recipe", {})
    if not isinstance(recipe, dict):
        raise RecipeError(f"{file}: recipe is a table of hyperparameters, got {recipe!r}")
    if "seed" in recipe:
        raise RecipeError(f"{file}: seeds stand at the top of the file, not in the recipe")
    known = [*RunSpec.model_fields, "data_dir", *_LISTS]
    for name in values.keys() - set(known):
        raise RecipeError(f"{file}: there is no setting {name!r}; {hint(name, known)} settings are: {', '.join(known)}")
    try:
        return RunSpec(recipe=Recipe(**recipe), **values)
    except RecipeError as error:
        raise RecipeError(f"{file}: {error}") from None


def _name_of(changes: dict[str, Any]) -> str:
    return " ".join(f"{path[-1]}={value}" for path, value in _leaves(changes)) or "base"


def _slug(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9.]+", "-", name).strip("-.") or "trial"
