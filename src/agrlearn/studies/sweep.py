"""Many training runs from one TOML file: a grid or a list of changes, times seeds."""

import itertools
import json
import math
import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agrlearn.errors import RecipeError
from agrlearn.evaluation.statistics import Mean, mean_over_runs
from agrlearn.files import markdown_table, parse_json, read_small_text, write_atomically
from agrlearn.training.checkpoint import NETWORK_FILE, read_records
from agrlearn.training.history import History, best_record
from agrlearn.training.recipe import Recipe

_TRIAL_FILE = "trial.json"
_MOST_TRIALS = 10_000
_LISTS = ("seeds", "grid", "trials")


class TrialSettings(BaseModel):
    """All options of `agrlearn train` that decide what is trained, without the seed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    data: str
    fold: Annotated[int, Field(ge=1)] = 2
    network: str | None = None
    net: dict[str, str | int | float | bool] = {}
    data_dir: str | None = None
    validation_fraction: float = 0.1
    image_size: int | None = None
    text_column: str | None = None
    label_column: str | None = None
    skip_bad: bool = False
    precision: str = "32-true"
    recipe: Recipe = Recipe()


@dataclass(frozen=True)
class Trial:
    """One training run of a sweep."""

    name: str
    settings: TrialSettings
    seed: int
    run_dir: Path

    def is_done(self) -> bool:
        """Whether the directory holds the finished run of these very settings, and the data are as they were."""
        file = self.run_dir / _TRIAL_FILE
        if not (self.run_dir / NETWORK_FILE).exists() or not file.exists():
            return False
        try:
            return parse_json(read_small_text(file)) == self._told()
        except ValueError:
            return False  # `train` looks whether it is the same run, and it is written anew

    def note_down(self) -> None:
        """Leave in the directory what was trained there."""
        write_atomically(self.run_dir / _TRIAL_FILE, json.dumps(self._told(), indent=1) + "\n")

    def _told(self) -> Any:
        told = json.loads(self.settings.model_dump_json())
        return told | {"seed": self.seed, "data_files": _stamp(Path(self.settings.data))}


@dataclass(frozen=True)
class SweepLine:
    """The runs of one setting."""

    name: str
    seeds: tuple[int, ...]
    error: Mean
    """Of the validation part, in percent: each run's median of its last ten epochs; with patience, the kept epoch's."""
    nll: Mean
    """Of the validation part, at the last epoch or, with patience, the kept one."""
    loss: Mean
    """Of training, at that epoch."""


def read_sweep(file: Path, folder: Path) -> list[Trial]:
    """The trials that a TOML file describes, each with its run directory in `folder`."""
    try:
        told = tomllib.loads(read_small_text(file))
    except FileNotFoundError:
        raise RecipeError(f"there is no file {file}; a sweep is described by a TOML file") from None
    except (ValueError, RecursionError) as error:
        raise RecipeError(f"{file} is not TOML ({error})") from None
    base = {key: value for key, value in told.items() if key not in _LISTS}
    seeds = told.get("seeds", 1)
    numbers = list(range(min(seeds, _MOST_TRIALS + 1))) if isinstance(seeds, int) else seeds
    if not isinstance(numbers, list) or not numbers or not all(type(seed) is int and seed >= 0 for seed in numbers):
        raise RecipeError(f"{file}: seeds is a number of seeds or a list of them, got {seeds!r}")
    trials: dict[tuple[str, int], Trial] = {}
    for changes in _changes(told.get("grid", {}), told.get("trials", [{}]), file):
        named = dict(changes)
        name = str(named.pop("name", "")) or _name_of(named)
        settings = _settings(_merged(base, named), file)
        for seed in numbers:
            if (name, seed) in trials:
                raise RecipeError(f"{file}: two trials are called {name!r}; give each a name of its own")
            if len(trials) == _MOST_TRIALS:
                raise RecipeError(f"{file} asks for more than {_MOST_TRIALS:,} trials; split it into several sweeps")
            trials[name, seed] = Trial(name, settings, seed, folder / f"{_slug(name)}-seed{seed}")
    names: dict[Path, str] = {}
    for trial in trials.values():
        other = names.setdefault(trial.run_dir, trial.name)
        if other != trial.name:
            raise RecipeError(
                f"{file}: the trials {other!r} and {trial.name!r} would share the directory {trial.run_dir}; name them "
                "apart by letters or digits"
            )
    return list(trials.values())


def summarize_sweep(trials: Sequence[Trial]) -> list[SweepLine]:
    """One line for each setting, over its finished runs."""
    lines = []
    for name in dict.fromkeys(trial.name for trial in trials):
        done = [trial for trial in trials if trial.name == name and trial.is_done()]
        if not done:
            continue
        ends = [_end(trial) for trial in done]
        # The last epoch is measured, if there is a validation part at all.
        measured = [history for history in ends if history.records[-1].validation_nll is not None]
        lines.append(
            SweepLine(
                name,
                tuple(trial.seed for trial in done),
                mean_over_runs([100 * history.final_error() for history in measured]),
                mean_over_runs([history.records[-1].validation_nll or math.nan for history in measured]),
                mean_over_runs([history.records[-1].loss for history in ends]),
            )
        )
    return lines


def _end(trial: Trial) -> History:
    """The epochs that a finished trial is judged by: all, or the one whose weights its patience has kept."""
    history = History(tuple(read_records(trial.run_dir)), 0.0)
    return history if trial.settings.recipe.patience is None else History((best_record(history.records),), 0.0)


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


def _settings(values: dict[str, Any], file: Path) -> TrialSettings:
    recipe = values.pop("recipe", {})
    if not isinstance(recipe, dict):
        raise RecipeError(f"{file}: recipe is a table of hyperparameters, got {recipe!r}")
    if "seed" in recipe:
        raise RecipeError(f"{file}: seeds stand at the top of the file, not in the recipe")
    try:
        return TrialSettings(recipe=Recipe(**recipe), **values)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        known = ", ".join((*TrialSettings.model_fields, *_LISTS))
        reason = f"there is no such setting; there are {known}" if first["type"] == "extra_forbidden" else first["msg"]
        raise RecipeError(f"{file}: {where}: {reason}") from None


def _stamp(path: Path) -> list[list[Any]]:
    """The files of the data, each with its size and time: cheap to compare, and changed by every change."""
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    return [[str(file), file.stat().st_size, file.stat().st_mtime_ns] for file in files if file.is_file()]


def _name_of(changes: dict[str, Any]) -> str:
    return " ".join(f"{path[-1]}={value}" for path, value in _leaves(changes)) or "base"


def _slug(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9.]+", "-", name).strip("-.") or "trial"
