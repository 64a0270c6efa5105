"""Run directories become facts: what each run is, how far it came, and which runs differ only by their seed."""

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agrlearn.errors import RunError
from agrlearn.grouping import GroupBatchSampler
from agrlearn.runs.run import Run
from agrlearn.training.checkpoint import RUN_FILE


@dataclass(frozen=True)
class RunFacts:
    """What a run directory contains, finished or not."""

    folder: Path
    identity: dict[str, Any]
    versions: dict[str, str]
    epochs: tuple[dict[str, Any], ...]
    """Each as the values of its `EpochRecord`, by name."""
    seconds: float
    """Of training."""
    finished: bool
    command: str = ""
    """That made it; empty for a run from Python."""
    spec: dict[str, Any] | None = None
    """Of a run that was made from one."""
    data_stamp: str | None = None

    @property
    def recipe(self) -> dict[str, Any]:
        return self.identity["recipe"]

    @property
    def seed(self) -> int:
        return self.recipe["seed"]

    @property
    def fold(self) -> int:
        return self.identity["network"]["fold"]

    @property
    def objects_seen(self) -> int:
        return self.epochs[-1]["objects_seen"] if self.epochs else 0

    @property
    def steps(self) -> int:
        """Training steps so far."""
        if not self.epochs:
            return 0
        objects = self.objects_seen // (self.fold * len(self.epochs))
        return len(self.epochs) * len(GroupBatchSampler(objects, self.fold, self.recipe["batch_size"]))

    def outcome(self, name: str) -> float | None:
        """What was written down under `name` of the network there is: last, or in the epoch that its patience kept."""
        if self.finished and self.recipe.get("patience") is not None:
            measured = [line for line in self.epochs if line.get("validation_nll") is not None]
            if measured:
                return min(measured, key=lambda line: line["validation_nll"]).get(name)  # as `best_record`
        return next((line[name] for line in reversed(self.epochs) if line.get(name) is not None), None)


@dataclass(frozen=True)
class Setting:
    """Runs that differ only by their seed."""

    name: str
    runs: tuple[RunFacts, ...]

    @property
    def fold(self) -> int:
        return self.runs[0].fold

    @property
    def has_patience(self) -> bool:
        """Whether what training measured on also chose the epoch."""
        return self.runs[0].recipe.get("patience") is not None


def find_runs(paths: Sequence[Path]) -> list[Path]:
    """The run directories among `paths`, and those within the other folders."""
    found: dict[Path, Path] = {}
    for path in paths:
        if not path.is_dir():
            raise RunError(f"there is no folder {path}; give the directory of a run, or a folder of such directories")
        here = [path] if (path / RUN_FILE).exists() else _in_order(path)
        if not here:
            raise RunError(f"{path} is not a run directory and holds none: `agrlearn train` makes one")
        found |= {folder.resolve(): folder for folder in here}
    return list(found.values())


def read_facts(folder: Path) -> RunFacts:
    """What is known of a run, which may be under way."""
    run = Run.open(folder)
    return RunFacts(
        folder,
        run.about.identity.model_dump(mode="json"),
        run.about.versions,
        tuple(asdict(record) for record in run.records),
        run.seconds,
        run.finished,
        run.about.command or "",
        run.about.spec,
        run.about.data_stamp,
    )


def settings_of(runs: Sequence[RunFacts]) -> list[Setting]:
    """Runs together that differ only by their seed, in the order in which they came."""
    together: dict[str, list[RunFacts]] = {}
    for run in runs:
        recipe = {**run.recipe, "seed": None}
        rest = {**run.identity, "initial_seed": None, "recipe": recipe}
        if run.spec is not None and _draws_objects_by_seed(run):
            drawn_from = [{**run.spec, "recipe": recipe}, run.data_stamp]
            rest |= {"training_data": drawn_from, "validation_data": drawn_from}
        key = json.dumps(rest, sort_keys=True)
        # A second run of the same seed is a repetition, which has no partner to be paired with.
        again = sum(run.seed == other.seed for name, mine in together.items() if name.startswith(key) for other in mine)
        together.setdefault(f"{key}{again or ''}", []).append(run)
    groups = [tuple(mine) for mine in together.values()]
    names = [_without_seed(mine[0].folder.resolve().name) for mine in groups]
    names = [
        f"{_without_seed(mine[0].folder.resolve().parent.name)}/{name}" if count > 1 else name
        for mine, name, count in zip(groups, names, [Counter(names)[name] for name in names], strict=True)
    ]
    seen: Counter[str] = Counter()
    settings = []
    for name, mine in zip(names, groups, strict=True):
        seen[name] += 1
        settings.append(Setting(f"{name} ({seen[name]})" if seen[name] > 1 else name, mine))
    return settings


def _draws_objects_by_seed(run: RunFacts) -> bool:
    """Whether another seed trains on other objects of the same data."""
    spec = run.spec or {}
    fractions = ("test_fraction", "tuning_fraction", "stopping_fraction", "label_noise")
    return run.recipe.get("patience") is not None or spec.get("share", 1) != 1 or any(map(spec.get, fractions))


def _in_order(folder: Path) -> list[Path]:
    """The run directories within a folder, those that differ by their seed beside each other."""
    found = [file.parent for file in folder.glob(f"*/{RUN_FILE}")]
    return sorted(found, key=lambda run: (_without_seed(run.name), run.name))


def _without_seed(name: str) -> str:
    return re.sub(r"[-_ ]*seed[-_ =]*\d+$", "", name) or name
