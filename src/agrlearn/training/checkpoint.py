"""A run directory: what the run is, how far it came, and its records. Killed at any instant, it can go on."""

import hashlib
import io
import json
import pickle
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from agrlearn.errors import RunError
from agrlearn.files import (
    one_process_at_a_time,
    open_own,
    open_regular,
    parse_json,
    read_small_text,
    whole_lines,
    write_atomically,
)
from agrlearn.ranks import rank
from agrlearn.training.history import EPOCH_RECORD, EPOCH_TIME, EpochRecord, EpochTime
from agrlearn.training.identity import RUN_FORMAT, DataNote, Identity, RunFile

NETWORK_FILE = "network.safetensors"
RUN_FILE = "run.json"
METRICS_FILE = "metrics.jsonl"
_TIMING_FILE = "timing.jsonl"
_CHECKPOINT_FILE = "checkpoint.pt"
_PREVIOUS_CHECKPOINT_FILE = "checkpoint.previous.pt"
_DAMAGED_CHECKPOINT_FILE = "checkpoint.damaged.pt"
_DIGEST_BYTES = 32
_ZIP = b"PK\x03\x04"
_ALL_FILES = (
    NETWORK_FILE, METRICS_FILE, _TIMING_FILE, _CHECKPOINT_FILE, _PREVIOUS_CHECKPOINT_FILE, _DAMAGED_CHECKPOINT_FILE,
    RUN_FILE,
)  # fmt: skip


class RunDirectory:
    """The files of one run. Of several processes, only rank 0 reads and writes them.

    Args:
        path: made if it does not exist.
        identity: what the run is (recipe, network, data), as JSON; a directory of another run is refused.
        data: where the data come from, for `RunFile`.
    """

    def __init__(
        self, path: str | Path, identity: Callable[[], Identity], data: Callable[[], DataNote | None] = lambda: None
    ) -> None:
        self.path = Path(path)
        self._identity = identity
        self._data = data
        self._lock = ExitStack()

    def open(self) -> dict[str, Any] | None:
        """Take the directory for this run, alone; its last checkpoint, or None at the start of a run."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except FileExistsError:
            raise RunError(f"{self.path} is a file; a run needs a directory") from None
        self._lock.enter_context(_alone_in(self.path))
        identity = self._identity()
        if (self.path / RUN_FILE).exists():
            theirs = read_run(self.path).identity.model_dump(mode="json")
            _refuse_differences(self.path, theirs, identity.model_dump(mode="json"))
        else:
            _write_run(
                self.path, RunFile(format=RUN_FORMAT, versions=_versions(), identity=identity, data=self._data())
            )
        return self.load()

    def close(self) -> None:
        """Let other processes have the directory."""
        self._lock.close()

    def save(self, state: Callable[[], dict[str, Any]]) -> None:
        """Replace the checkpoint in one instant, and keep the one before it."""
        if rank() > 0:
            return
        buffer = io.BytesIO()
        torch.save(state(), buffer)
        content = buffer.getvalue()
        write_atomically(
            self.path / _CHECKPOINT_FILE,
            hashlib.sha256(content).digest() + content,
            keep=self.path / _PREVIOUS_CHECKPOINT_FILE,
        )

    def load(self) -> dict[str, Any] | None:
        """The last whole checkpoint, or None at the start of a run. Its file can hold tensors and plain values only."""
        last, previous = self.path / _CHECKPOINT_FILE, self.path / _PREVIOUS_CHECKPOINT_FILE
        if not last.exists():
            return _read_checkpoint(previous) if previous.exists() else None
        try:
            return _read_checkpoint(last)
        except RunError:
            if not previous.exists():
                raise
            state = _read_checkpoint(previous)
        # Out of the way, so that it does not take the place of the good one when the next is saved.
        last.replace(self.path / _DAMAGED_CHECKPOINT_FILE)
        warnings.warn(f"{last} is damaged; the run goes on from the checkpoint before it", stacklevel=2)
        return state

    def write_records(self, records: list[EpochRecord]) -> None:
        """All records at once, as new files: what a run starts from, or goes on from."""
        if rank() > 0:
            return
        try:
            times = read_times(self.path)
        except (RunError, OSError):
            times = {}  # whatever is there instead of them
        known = [EpochTime(record.epoch, times[record.epoch]) for record in records if record.epoch in times]
        for name, lines in ((METRICS_FILE, records), (_TIMING_FILE, known)):
            if lines:
                write_atomically(self.path / name, map(_line, lines))
            else:
                (self.path / name).unlink(missing_ok=True)

    def append_record(self, record: EpochRecord, seconds: float) -> None:
        """One more epoch; its time goes to a file of its own, since times do not repeat."""
        if rank() > 0:
            return
        took = EpochTime(record.epoch, round(seconds, 4))
        for name, line in ((METRICS_FILE, _line(record)), (_TIMING_FILE, _line(took))):
            with open_own(self.path / name) as file:
                file.write(line)


def _read_checkpoint(file: Path) -> dict[str, Any]:
    try:
        with open_regular(file) as content:
            # A file of any size is judged before it is held in memory: torch does not compress and stores everything
            # once, so what unpacks to more than the file was made by someone else, perhaps to fill the memory.
            with zipfile.ZipFile(content) as records:
                unpacked = sum(record.file_size for record in records.infolist())
            content.seek(0)
            digest, start = content.read(_DIGEST_BYTES), content.read(len(_ZIP))
            if start == _ZIP and unpacked < file.stat().st_size:
                content.seek(_DIGEST_BYTES)
                saved = content.read()
                if hashlib.sha256(saved).digest() == digest:
                    state = torch.load(io.BytesIO(saved), map_location="cpu", weights_only=True)
                    _check_tensors(state)
                    return state
    except (
        RuntimeError, pickle.UnpicklingError, EOFError, ValueError, OSError, zipfile.BadZipFile, NotImplementedError,
        LookupError, TypeError, AttributeError, RecursionError,
    ):  # fmt: skip
        pass
    raise RunError(
        f"{file} is not a readable checkpoint; restore it, or start over, in another directory or with agrlearn train "
        "--fresh"
    )


def _check_tensors(state: Any) -> None:
    """Refuse tensors that take no room in the file and would take it in memory: expanded, or sparse."""
    if isinstance(state, Tensor):
        whole = state.layout is torch.strided and state.device.type == "cpu" and not state.is_quantized
        if not whole or state.numel() * state.element_size() > state.untyped_storage().nbytes():
            raise ValueError(f"a tensor of shape {tuple(state.shape)} has no values of its own")
    elif isinstance(state, dict | list | tuple):
        for part in state.values() if isinstance(state, dict) else state:
            _check_tensors(part)


def read_run(path: str | Path) -> RunFile:
    """What run.json tells of a run."""
    file = Path(path) / RUN_FILE
    if not file.is_file():
        raise RunError(f"{path} is not a run directory: it has no {RUN_FILE}; `agrlearn train` makes one")
    try:
        return RunFile.model_validate(parse_json(read_small_text(file)))
    except ValueError:
        raise RunError(f"{file} was not written by this version of agrlearn; use another run directory") from None


def update_run(path: Path, **changes: Any) -> None:
    """Change what run.json says of a run beside what it is."""
    about = read_run(path)
    changed = about.model_copy(update=changes)
    if changed != about:
        _write_run(path, changed)


def _write_run(path: Path, about: RunFile) -> None:
    write_atomically(path / RUN_FILE, json.dumps(about.model_dump(mode="json"), indent=2) + "\n")


def read_records(path: str | Path) -> list[EpochRecord]:
    """The epochs of a run, from metrics.jsonl; a last line that is not whole yet is left out."""
    file = Path(path) / METRICS_FILE
    if not file.exists():
        return []
    try:
        return [EPOCH_RECORD.validate_json(line) for line in whole_lines(file)]
    except ValueError:
        raise RunError(f"{file} does not hold the records of a run; `agrlearn train` writes it anew") from None


def read_times(path: str | Path) -> dict[int, float]:
    """The seconds of every epoch, from timing.jsonl; of one that was trained again, the last ones."""
    file = Path(path) / _TIMING_FILE
    if not file.exists():
        return {}
    try:
        return {time.epoch: time.seconds for time in map(EPOCH_TIME.validate_json, whole_lines(file))}
    except ValueError:
        raise RunError(f"{file} does not hold the times of a run; remove it") from None


def clear_run(path: str | Path) -> None:
    """Remove a run's own files, so that it starts over; other files in the directory stay."""
    folder = Path(path)
    if folder.is_dir():
        with _alone_in(folder):
            for name in _ALL_FILES:
                (folder / name).unlink(missing_ok=True)


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Within this block no other process trains in the folder."""
    with ExitStack() as held:
        try:
            held.enter_context(one_process_at_a_time(folder, wait=False))
        except BlockingIOError:
            raise RunError(
                f"another process is training in {folder}; wait for it, stop it, or use another run directory"
            ) from None
        yield


def _line(record: EpochRecord | EpochTime) -> str:
    return json.dumps(asdict(record)) + "\n"


def _versions() -> dict[str, str]:
    return {package: version(package) for package in ("agrlearn", "torch", "numpy", "lightning-fabric")}


def _refuse_differences(path: Path, theirs: Any, mine: Any) -> None:
    differences = list(_differences(theirs, mine))
    if differences:
        raise RunError(
            f"{path} belongs to another run ({'; '.join(differences[:3])}"
            f"{f'; and {len(differences) - 3} more' if len(differences) > 3 else ''}): "
            "use another run directory, or start this one over (agrlearn train --fresh)"
        )


def _differences(theirs: Any, mine: Any, where: str = "") -> list[str]:
    if isinstance(theirs, dict) and isinstance(mine, dict):
        names = [*theirs, *(name for name in mine if name not in theirs)]
        return [
            text for name in names for text in _differences(theirs.get(name), mine.get(name), name.replace("_", " "))
        ]
    return [] if theirs == mine else [f"its {where} is {theirs}, not {mine}"]
