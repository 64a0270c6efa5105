"""Atomic writes that never follow a link, and reads of bounded size."""

import errno
import hashlib
import json
import math
import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, TextIO

RUN_FILE, NETWORK_FILE, REPORT_FILE = "run.json", "network.safetensors", "report.html"
"""In a run directory."""
_LARGEST_TEXT = 2**26  # bytes; a million words are 2**24
_NO_LINK, _NO_WAIT = getattr(os, "O_NOFOLLOW", 0), getattr(os, "O_NONBLOCK", 0)  # Windows has neither
_BINARY = getattr(os, "O_BINARY", 0)
_FORMULA = re.compile(r"[=+\-@\t\r\n＝＋－＠]")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file to read bytes; OSError for a pipe or a device, which could block forever."""
    file = os.fdopen(os.open(path, os.O_RDONLY | _NO_WAIT | _BINARY), "rb")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "This is not a regular file", str(path))
    return file


def read_small_text(path: Path) -> str:
    """Read a text file; ValueError if it is larger than any file that agrlearn writes."""
    with open_regular(path) as file:
        content = file.read(_LARGEST_TEXT + 1)
    if len(content) > _LARGEST_TEXT:
        raise ValueError(f"it has more than {_LARGEST_TEXT:,} bytes")
    return content.decode()


def whole_lines(path: Path) -> list[str]:
    """The lines of a small text file, without an incomplete last line."""
    return [line for line in read_small_text(path).splitlines(keepends=True) if line.endswith("\n")]


def parse_json(text: str) -> Any:
    """Parse JSON; ValueError if the text is not JSON, or is nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def read_json(path: Path) -> Any:
    """Parse a small JSON file; ValueError if that fails."""
    return parse_json(read_small_text(path))


def data_stamp(*names: str) -> str:
    """A fingerprint of the files' names, sizes and times: cheap to compare, and changed by every change."""
    paths = [Path(name) for name in names]
    return _stamp(file for path in paths for file in (sorted(path.rglob("*")) if path.is_dir() else [path]))


def run_stamp(folder: Path) -> str:
    """The same of the files of a run directory, except run.json, which keeps it, and the report, made from them."""
    return _stamp(file for file in sorted(folder.iterdir()) if file.name not in (RUN_FILE, REPORT_FILE))


def _stamp(files: Iterable[Path]) -> str:
    facts = [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files if file.is_file()]
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]


def to_json(value: Any) -> str:
    """Format as JSON, with null for NaN, which JSON does not have."""
    return json.dumps(_without_nan(value), indent=1, allow_nan=False) + "\n"


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(item) for item in value]
    return None if isinstance(value, float) and math.isnan(value) else value


def write_atomically(path: Path, content: bytes | str | Iterable[str], *, keep: Path | None = None) -> None:
    """Replace `path` by a new file atomically: if killed at any moment, the old file or the new one is there.

    A link at `path` is itself replaced. Its target, and other names of the old file, are not changed.

    Args:
        content: the content, or an iterable of its pieces.
        keep: where the old file is moved; if killed between the two moves, it is only there.
    """
    draft = path.with_name(f".{path.name}.draft")
    try:
        draft.unlink(missing_ok=True)  # left by a killed process, or a link made by someone else
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK | _BINARY
        with os.fdopen(os.open(draft, flags, 0o666), "wb") as file:
            file.writelines(_pieces(content))
            file.flush()
            os.fsync(file.fileno())
        if keep is not None and path.exists():
            path.replace(keep)
        draft.replace(path)
    except BaseException as error:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename in (None, str(draft)):
            error.filename, error.filename2 = str(path), None  # the user does not know the draft
        raise
    if os.name == "nt":
        return
    # The rename itself must reach the disk too.
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _pieces(content: bytes | str | Iterable[str]) -> Iterator[bytes]:
    for piece in [content] if isinstance(content, bytes | str) else content:
        # File names that are not UTF-8 contain surrogates, which become the original bytes again.
        yield piece.encode(errors="surrogateescape") if isinstance(piece, str) else piece


def resolve_output(path: Path) -> Path:
    """The path of a file that the user has named, with links resolved except in a run directory."""
    return path if (path.parent / "run.json").exists() else path.resolve()


def write_output(path: Path, content: bytes | str | Iterable[str]) -> None:
    """Write to a file that the user has named, or to a pipe or device. Missing folders are created."""
    path = resolve_output(path)
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            file.writelines(_pieces(content))
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, content)


def open_own(path: Path) -> TextIO:
    """Open a text file to append to it; OSError if it is a link, has other names, or is not a regular file."""
    opened = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | _NO_LINK | _NO_WAIT, 0o666)
    file = os.fdopen(opened, "a", encoding="utf-8", errors="surrogateescape")
    about = os.fstat(opened)
    if not stat.S_ISREG(about.st_mode) or about.st_nlink > 1:
        file.close()
        raise OSError(errno.EINVAL, "This is not a regular file of one name", str(path))
    return file


def make_own_folder(path: Path) -> None:
    """Create a folder and its parents; a link is refused, because it could point outside the parent."""
    if path.is_symlink():
        raise OSError(errno.ELOOP, "Expected a folder, got a link", str(path))
    path.mkdir(parents=True, exist_ok=True)


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]], *, texts: int = 1) -> str:
    """Format a Markdown table; all columns except the first `texts` are right-aligned.

    >>> print(markdown_table(("fold", "error %"), [("1", "3.2")]), end="")
    | fold | error % |
    | --- | ---: |
    | 1 | 3.2 |
    """
    rule = ["---"] * texts + ["---:"] * (len(header) - texts)
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (header, rule, *rows))


def spreadsheet_cell(text: str) -> str:
    """Escape text for a spreadsheet: what it would run as a formula gets an apostrophe in front.

    >>> spreadsheet_cell("=SUM(A1)"), spreadsheet_cell("-1"), spreadsheet_cell("cat")
    ("'=SUM(A1)", '-1', 'cat')
    """
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


@contextmanager
def one_process_at_a_time(folder: Path, *, wait: bool = True) -> Iterator[None]:
    """Lock a folder within this block: wait for other processes, or with `wait=False` raise BlockingIOError.

    The lock ends with its process, even if that is killed. On Windows nothing is locked.
    """
    if os.name == "nt":
        yield
        return
    import fcntl

    held, owner = os.open(folder, os.O_RDONLY), os.getpid()
    try:
        try:
            fcntl.flock(held, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise
        except OSError:
            pass  # the file system does not support locks
        yield
    finally:
        with suppress(OSError):
            if os.getpid() == owner:  # processes forked from here share the lock and may outlive the block
                fcntl.flock(held, fcntl.LOCK_UN)
        os.close(held)
