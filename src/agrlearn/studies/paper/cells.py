"""A cell of a table: one setting that is trained with several seeds, and what each training run left as numbers."""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from agrlearn.errors import RunError
from agrlearn.files import make_own_folder, write_atomically
from agrlearn.networks.catalogue import network_defaults
from agrlearn.training.recipe import Recipe

FOLD_1 = "fold 1"
"""The label of the cell that the others of its block are compared with."""
_FORMAT = "agrlearn-cell-1"


class Cell(BaseModel):
    """Everything that decides a training run but its seed."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    dataset: str
    network: str
    fold: int = 1
    options: dict[str, int | float | str | bool] = {}
    """The network's own, such as width."""
    recipe: Recipe = Recipe()
    """Its seed is replaced by that of the run."""
    share: float = 1.0
    """Of the training objects, drawn by the seed, alike in every class."""
    augment: bool = False
    """Crop and flip the training images."""
    stop_early: bool = False
    """Hold out a tenth of the training objects and keep the weights that did best on it."""
    final: int = 1
    """The last so many measurements on the test part, of which the median is reported."""

    def settings(self) -> dict[str, Any]:
        """All of it as JSON, with the values of whatever is left to defaults, also of the network's options."""
        told = self.model_dump(mode="json")
        del told["recipe"]["seed"]
        return told | {"options": {**network_defaults(self.network), **told["options"]}}

    def key(self) -> str:
        """A name for files: readable, and another one for any other setting."""
        # Without defaults, so that a hyperparameter that is new to the library does not rename what was run before.
        told = json.dumps(self.model_dump(exclude_defaults=True), sort_keys=True)
        digest = hashlib.sha256(told.encode()).hexdigest()[:8]
        return f"{self.dataset}-{self.network}-fold{self.fold}-{digest}"


@dataclass(frozen=True)
class Point:
    """A measurement while a network trained."""

    epoch: int
    objects_seen: int
    loss: float
    train_error: float
    error: float
    """On the test part; on the part that is held out, for a cell that stops early."""
    nll: float
    information: float | None
    """The penalty J, where there is one."""


@dataclass(frozen=True)
class ProtocolScores:
    """What the trained network did on the test part under one protocol."""

    error: float
    nll: float
    ece: float
    brier: float
    head_disagreement: float
    multiply_adds: float
    """Per object; a sentence has as many words as the longest."""


@dataclass(frozen=True)
class CellResult:
    """What one training run left: a small JSON file under results/cells."""

    cell: dict[str, Any]
    seed: int
    test_errors: tuple[float, ...]
    """The last measurements on the test part by Replicated prediction, as many as the cell's `final`."""
    protocols: dict[str, ProtocolScores]
    """By the protocol's name, with the last weights."""
    curve: tuple[Point, ...]
    parameters: int
    steps: int
    objects_seen: int
    seconds: float
    """Of training."""
    versions: dict[str, str]
    machine: str

    def save(self, folder: Path, cell: Cell) -> None:
        """Write the result where `read_result` finds it."""
        make_own_folder(folder)
        told = {"format": _FORMAT, **asdict(self)}
        write_atomically(result_file(folder, cell, self.seed), json.dumps(_rounded(told), indent=1) + "\n")


def seeds_done(folder: Path, cell: Cell) -> list[int]:
    """The seeds that `cell` was run with."""
    numbers = (file.stem.rpartition("-seed")[2] for file in folder.glob(f"{cell.key()}-seed*.json"))
    return sorted(int(number) for number in numbers if number.isdecimal())


def divergence_file(folder: Path, cell: Cell, seed: int) -> Path:
    """Says in a sentence how a run of `cell` diverged, which every other try with its seed would do too."""
    return folder / f"{cell.key()}-seed{seed}.diverged.txt"


def read_divergences(folder: Path, cell: Cell) -> list[str]:
    """How the runs of `cell` that diverged did so."""
    return [file.read_text().strip() for file in sorted(folder.glob(f"{cell.key()}-seed*.diverged.txt"))]


def result_file(folder: Path, cell: Cell, seed: int) -> Path:
    return folder / f"{cell.key()}-seed{seed}.json"


def read_result(folder: Path, cell: Cell, seed: int) -> CellResult | None:
    """The result of a run of these very settings that is done, or None."""
    file = result_file(folder, cell, seed)
    if not file.exists():
        return None
    try:
        told = json.loads(file.read_text())
        if not isinstance(told, dict) or told.pop("format") != _FORMAT:
            raise ValueError
        # Of a setting that is new to the library, the value by default; a default that has changed is another setting.
        if Cell(**told["cell"]).settings() != cell.settings():
            return None
        told["curve"] = tuple(Point(**point) for point in told["curve"])
        told["protocols"] = {name: ProtocolScores(**scores) for name, scores in told["protocols"].items()}
        told["test_errors"] = tuple(told["test_errors"])
        return CellResult(**told)
    except (ValueError, KeyError, TypeError):
        raise RunError(f"{file} is not a result of this version of agrlearn; remove it to run its cell again") from None


def _rounded(value: Any) -> Any:
    """The same with floats of seven digits: beyond that they are noise."""
    if isinstance(value, float):
        return float(f"{value:.7g}")
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, list | tuple) else value
