"""Files that are whole or absent."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def write_atomically(path: Path, content: bytes | str) -> None:
    """Replace `path` by `content` in one instant: killed at any moment, the old file or the new one is there."""
    data = content.encode() if isinstance(content, str) else content
    draft = path.with_name(f".{path.name}.draft")
    try:
        with draft.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
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
def one_process_at_a_time(folder: Path) -> Iterator[None]:
    """Wait until no other process is within this block for the same folder (on Windows there is no wait)."""
    if os.name == "nt":
        yield
        return
    import fcntl

    held = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # a file system that has no locks
            fcntl.flock(held, fcntl.LOCK_EX)
        yield
    finally:
        os.close(held)  # releases the lock too, as does the end of the process
