"""A run directory: what the run is, its progress and its records. A run killed at any moment can be resumed."""

import hashlib
import io
import json
import pickle
import warnings
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from pydantic import TypeAdapter
from torch import Tensor

from agrlearn.errors import AgrLearnWarning, RunError
from agrlearn.files import (
    NETWORK_FILE,
    RUN_FILE,
    one_process_at_a_time,
    open_own,
    open_regular,
    read_json,
    whole_lines,
    write_atomically,
)
from agrlearn.ranks import rank
from agrlearn.training.history import EPOCH_RECORD, EPOCH_TIME, EpochRecord, EpochTime
from agrlearn.training.identity import RUN_FORMAT, DataNote, Identity, RunFile
from agrlearn.training.longer import apart_from_length, make_longer

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
        path: created if it does not exist.
        identity: what the run is (recipe, network, data); a directory of another run is refused.
        data: where the data come from, for `RunFile`.
        class_names: for `RunFile`.
        more_epochs: go on with a run that had fewer epochs.
    """

    def __init__(
        self, path: str | Path, identity: Callable[[], Identity], data: Callable[[], DataNote | None] = lambda: None,
        class_names: Sequence[str] = (), *, more_epochs: bool = False,
    ) -> None:  # fmt: skip
        self.path = Path(path)
        self._identity = identity
        self._data = data
        self._class_names = list(class_names)
        self._more_epochs = more_epochs
        self._lock = ExitStack()

    def open(self, on_claim: Callable[[Path], None] | None = None) -> dict[str, Any] | None:
        """Lock the directory for this run and return its last checkpoint, or None at the start of a run.

        Args:
            on_claim: called with the directory once it is locked and known to be this run's.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except FileExistsError:
            raise RunError(f"{self.path} is a file; a run needs a directory") from None
        self._lock.enter_context(_alone_in(self.path))
        identity = self._identity()
        if not (self.path / RUN_FILE).exists():
            versions = {package: version(package) for package in ("agrlearn", "torch", "numpy", "lightning-fabric")}
            about = RunFile(
                format=RUN_FORMAT, versions=versions, identity=identity, data=self._data(),
                class_names=self._class_names,
            )  # fmt: skip
            _write_run(self.path, about)
        found = read_run(self.path)
        self._check_same(found.identity, identity)
        checkpoint = self.load()
        if identity.recipe.epochs != found.identity.recipe.epochs:
            longer = make_longer(self.path, found.identity, identity, checkpoint)
            # First the network, which says that a run is finished: killed in between, it is the shorter run, stopped.
            (self.path / NETWORK_FILE).unlink(missing_ok=True)
            update_run(self.path, identity=longer, result=None)
        if on_claim is not None:
            on_claim(self.path)
        return checkpoint

    def _check_same(self, found: Identity, wanted: Identity) -> None:
        """Refuse a directory of another run."""
        if self._more_epochs:
            wanted = apart_from_length(wanted, found)
        elif found.made_longer_after and found.recipe.epochs == wanted.recipe.epochs:
            raise RunError(
                f"{self.path} had fewer epochs when it began, so it is not this run: to go on with it, name its epochs "
                f"(agrlearn train --epochs {found.recipe.epochs}); or use another run directory"
            )
        if differences := _differences(found.model_dump(mode="json"), wanted.model_dump(mode="json")):
            if apart_from_length(wanted, found) == found and wanted.recipe.epochs > found.recipe.epochs:
                epochs = wanted.recipe.epochs
                raise RunError(
                    f"{self.path} is this run with {found.recipe.epochs} epochs, not {epochs}; to train it longer, "
                    f"name its epochs (agrlearn train --epochs {epochs}) or pass more_epochs=True to fit; or start it "
                    "over (--fresh), or use another run directory"
                )
            more = f"; and {len(differences) - 3} more" if len(differences) > 3 else ""
            raise RunError(
                f"{self.path} belongs to another run ({'; '.join(differences[:3])}{more}): use another run directory, "
                "or start this one over (delete the directory, or agrlearn train --fresh)"
            )

    def close(self) -> None:
        """Release the lock."""
        self._lock.close()

    def save(self, state: Callable[[], dict[str, Any]]) -> None:
        """Replace the checkpoint atomically, and keep the one before it."""
        if rank() > 0:
            return
        buffer = io.BytesIO()
        torch.save(state(), buffer)
        content = buffer.getvalue()
        signed = hashlib.sha256(content).digest() + content
        write_atomically(self.path / _CHECKPOINT_FILE, signed, keep=self.path / _PREVIOUS_CHECKPOINT_FILE)

    def load(self) -> dict[str, Any] | None:
        """The last intact checkpoint, or None at the start of a run."""
        state, damaged = read_checkpoint(self.path)
        if damaged is not None:
            # Renamed, so that the next save does not replace the good one by it.
            damaged.replace(self.path / _DAMAGED_CHECKPOINT_FILE)
            message = f"{damaged} is damaged; the run resumes from the checkpoint before it"
            warnings.warn(message, AgrLearnWarning, stacklevel=2)
        return state

    def write_records(self, records: list[EpochRecord]) -> None:
        """Write all records as new files, when a run starts or is resumed."""
        if rank() > 0:
            return
        try:
            times = read_times(self.path)
        except (RunError, OSError):
            times = {}  # the file was damaged or replaced
        known = [EpochTime(record.epoch, times[record.epoch]) for record in records if record.epoch in times]
        for name, lines in ((METRICS_FILE, records), (_TIMING_FILE, known)):
            if lines:
                write_atomically(self.path / name, (json.dumps(asdict(line)) + "\n" for line in lines))
            else:
                (self.path / name).unlink(missing_ok=True)

    def append_record(self, record: EpochRecord, seconds: float) -> None:
        """Append one epoch; its time goes into another file, because times differ when a run is repeated."""
        if rank() > 0:
            return
        for name, line in ((METRICS_FILE, record), (_TIMING_FILE, EpochTime(record.epoch, round(seconds, 4)))):
            with open_own(self.path / name) as file:
                file.write(json.dumps(asdict(line)) + "\n")


def read_checkpoint(path: Path) -> tuple[dict[str, Any] | None, Path | None]:
    """The last intact checkpoint, None before the first; and the file of a later one, if that is damaged.

    It has tensors and plain values only. The run may be under way.
    """
    last, previous = path / _CHECKPOINT_FILE, path / _PREVIOUS_CHECKPOINT_FILE
    if not last.exists():
        return (_read_checkpoint(previous) if previous.exists() else None), None
    try:
        return _read_checkpoint(last), None
    except RunError:
        if not previous.exists():
            raise
        return _read_checkpoint(previous), last


def _read_checkpoint(file: Path) -> dict[str, Any]:
    try:
        with open_regular(file) as content:
            # The size is checked before anything is read into memory: torch does not compress and stores everything
            # once, so a file that unpacks to more than its size was not written by torch.
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
    """Refuse tensors that need more memory than their part of the file: expanded or sparse ones."""
    if isinstance(state, Tensor):
        whole = state.layout is torch.strided and state.device.type == "cpu" and not state.is_quantized
        if not whole or state.numel() * state.element_size() > state.untyped_storage().nbytes():
            raise ValueError(f"a tensor of shape {tuple(state.shape)} does not store all its values")
    elif isinstance(state, dict | list | tuple):
        for item in state.values() if isinstance(state, dict) else state:
            _check_tensors(item)


def read_run(path: str | Path) -> RunFile:
    """Read run.json."""
    file = Path(path) / RUN_FILE
    if not file.is_file():
        raise RunError(f"{path} is not a run directory: it has no {RUN_FILE}; `agrlearn train` makes one")
    try:
        return RunFile.model_validate(read_json(file))
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
    """The epochs of a run, from metrics.jsonl; an incomplete last line is left out."""
    return _read_lines(Path(path) / METRICS_FILE, EPOCH_RECORD, "`agrlearn train` writes it again")


def read_times(path: str | Path) -> dict[int, float]:
    """The seconds of every epoch, from timing.jsonl; of an epoch that was trained again, the last ones."""
    return {time.epoch: time.seconds for time in _read_lines(Path(path) / _TIMING_FILE, EPOCH_TIME, "remove it")}


def _read_lines(file: Path, kind: TypeAdapter, advice: str) -> list[Any]:
    try:
        return [kind.validate_json(line) for line in whole_lines(file)] if file.exists() else []
    except ValueError:
        raise RunError(f"{file} was not written by a run; {advice}") from None


def clear_run(path: str | Path) -> None:
    """Remove a run's own files, so that it starts over; other files in the directory stay."""
    folder = Path(path)
    if folder.is_dir():
        with _alone_in(folder):
            for name in _ALL_FILES:
                (folder / name).unlink(missing_ok=True)


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Keep other processes from training in the folder within this block."""
    with ExitStack() as held:
        try:
            held.enter_context(one_process_at_a_time(folder, wait=False))
        except BlockingIOError:
            raise RunError(
                f"another process is training in {folder}; wait for it, stop it, or use another run directory"
            ) from None
        yield


def _differences(found: Any, expected: Any, name: str = "") -> list[str]:
    if isinstance(found, dict) and isinstance(expected, dict):
        return [text for key in found | expected for text in _differences(found.get(key), expected.get(key), key)]
    return [] if found == expected else [f"its {name.replace('_', ' ')} is {found}, not {expected}"]
