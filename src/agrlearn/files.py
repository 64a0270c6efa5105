"""Files that are whole or absent, and texts that are small or refused."""

import json
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_LARGEST_TEXT = 2**26  # bytes; a million words are 2**24


def read_small_text(path: Path) -> str:
    """A text file of ours, which is never large; ValueError for any other, of which no more is read."""
    with path.open("rb") as file:
        content = file.read(_LARGEST_TEXT + 1)
    if len(content) > _LARGEST_TEXT:
        raise ValueError(f"it has more than {_LARGEST_TEXT:,} bytes")
    return content.decode()


def parse_json(text: str) -> Any:
    """What a JSON text holds; ValueError if it is none, or nested so deeply that it cannot be read."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def to_json(value: Any) -> str:
    """A JSON text, with null where a number is NaN, which JSON has not."""
    return json.dumps(_without_nan(value), indent=1, allow_nan=False) + "\n"


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(item) for item in value]
    return None if isinstance(value, float) and math.isnan(value) else value


def write_atomically(path: Path, content: bytes | str, *, keep: Path | None = None) -> None:
    """Replace `path` by `content` in one instant: killed at any moment, the old file or the new one is there.

    Args:
        keep: where the old file goes, instead of being lost; killed between the two, it is only there.
    """
    # File names that are no UTF-8 come in as surrogates, and go out as the bytes they were.
    data = content.encode(errors="surrogateescape") if isinstance(content, str) else content
    if path.exists() and not path.is_file():
        path.write_bytes(data)  # a pipe or a device is written to, never replaced
        return
    path = path.resolve()  # of a link, what it points to
    draft = path.with_name(f".{path.name}.draft")
    try:
        with draft.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if keep is not None and path.exists():
            path.replace(keep)
        draft.replace(path)
    except BaseException as error:
        draft.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is None:
            error.filename = str(path)  # a full disk is told without a name
        raise
    if os.name == "nt":
        return
    # The rename itself must reach the disk too.
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


@contextmanager
def one_process_at_a_time(folder: Path, *, wait: bool = True) -> Iterator[None]:
    """Wait until no other process is within this block for the same folder, or raise BlockingIOError at once.

    The end of a process, however it comes, lets the next one in. On Windows there are no such locks.
    """
    if os.name == "nt":
        yield
        return
    import fcntl

    held = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(held, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise
        except OSError:
            pass  # a file system that has no locks
        yield
    finally:
        os.close(held)
