"""Download published files from their official addresses: complete and checked, or not at all."""

import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import BinaryIO
from urllib import request
from urllib.error import HTTPError, URLError

from agrlearn.errors import DataError
from agrlearn.files import one_process_at_a_time

FOLDER_VARIABLE = "AGRLEARN_DATA"
"""The environment variable that names the folder of published data sets."""
_BLOCK = 2**16
_ATTEMPTS_WITHOUT_PROGRESS = 3
_ALLOWED = ContextVar("downloads_are_allowed", default=True)


class DownloadError(DataError):
    """A file cannot be downloaded from its official address."""


class _ConnectionError(Exception):
    """The connection failed in a way that may pass."""


def data_folder(chosen: str | Path | None = None) -> Path:
    """The folder of published data sets: the chosen one, that of AGRLEARN_DATA, or one in the user's cache."""
    return Path(chosen or os.environ.get(FOLDER_VARIABLE) or "~/.cache/agrlearn").expanduser()


@contextmanager
def no_downloads() -> Iterator[None]:
    """Within this block nothing is downloaded or written: `DownloadError` is raised for a missing file instead."""
    before = _ALLOWED.set(False)
    try:
        yield
    finally:
        _ALLOWED.reset(before)


def download(
    url: str, target: Path, check: Callable[[Path], object], *, timeout: float = 30.0, pause: float = 1.0
) -> None:
    """Download `url` to the file `target`, which appears only when it is complete and `check` accepts it.

    An interrupted transfer is resumed as long as it makes progress. Incomplete content stays in a file ending in .part,
    which the next call resumes.

    Args:
        url: an http or https address.
        check: raises DataError if the file it is given is not the published one.
        timeout: seconds without an answer after which a connection counts as broken.
        pause: seconds before the second attempt.
    """
    if not _ALLOWED.get():
        raise DownloadError(f"{target} is missing; put it there by hand")
    part = target.with_name(f"{target.name}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with one_process_at_a_time(target.parent):
            if target.exists():
                return  # another process has downloaded it in the meantime
            for resumed in (True, False) if part.exists() else (False,):
                _fetch(url, part, timeout, pause)
                try:
                    check(part)
                except DataError as error:
                    part.unlink()
                    if not resumed:
                        raise DownloadError("what the server sent is not the published file") from error
                    print(f"{part} was not the beginning of the published file; starting over", file=sys.stderr)
                else:
                    part.replace(target)
                    return
    except (_ConnectionError, DownloadError) as error:
        raise DownloadError(
            f"{url} cannot be downloaded ({error}); put {target.name} into {target.parent} by hand, or name a folder "
            f"that has it with --data-dir or {FOLDER_VARIABLE}"
        ) from error
    except OSError as error:
        raise DownloadError(
            f"{url} cannot be stored in {target.parent} ({error.strerror or error}); make room, or choose another "
            f"folder with --data-dir or {FOLDER_VARIABLE}"
        ) from error


def _fetch(url: str, part: Path, timeout: float, pause: float) -> None:
    """Complete the .part file, over several connections if necessary."""
    longest, failures = _size(part), 0
    while True:
        try:
            return _transfer(url, part, timeout)
        except _ConnectionError:
            failures = 0 if _size(part) > longest else failures + 1
            longest = max(longest, _size(part))
            if failures == _ATTEMPTS_WITHOUT_PROGRESS:
                raise
            time.sleep(pause * max(1, failures))


def _transfer(url: str, part: Path, timeout: float) -> None:
    """Open one connection and append what is missing to the .part file, or replace it if the server sends all."""
    present = _size(part)
    answer = _open(url, present, timeout)
    if answer is None:
        return
    with answer:
        resumed = answer.status == 206
        if resumed and not answer.headers.get("Content-Range", "").startswith(f"bytes {present}-"):
            part.unlink()
            raise _ConnectionError("the server sent another range of the file than it was asked for")
        if not resumed:
            present = 0
        total = None if answer.length is None else present + answer.length
        verb = f"resuming at {present / 1e6:.1f} MB:" if resumed else "downloading"
        size = "" if total is None else f", {total / 1e6:.1f} MB,"
        print(f"{verb} {url}{size} into {part.parent}", file=sys.stderr)
        with part.open("ab" if resumed else "wb") as file:
            _copy(answer, file, present, total)
            file.flush()
            os.fsync(file.fileno())
    if total is not None and _size(part) < total:
        raise _ConnectionError(f"the connection ended after {_size(part):,} of {total:,} bytes")


def _open(url: str, present: int, timeout: float) -> HTTPResponse | None:
    """The server's answer; None if no byte is missing after those that are present."""
    headers = {"User-Agent": "agrlearn", **({"Range": f"bytes={present}-"} if present else {})}
    try:
        return _opener().open(request.Request(url, headers=headers), timeout=timeout)
    except HTTPError as error:
        error.close()
        if error.code == 416 and present:
            return None
        kind = _ConnectionError if error.code >= 500 else DownloadError
        raise kind(f"the server answered {error.code} {error.reason}") from error
    except URLError as error:
        if isinstance(error.reason, socket.gaierror):
            raise DownloadError("there is no network connection, or the server no longer exists") from error
        kind = _ConnectionError if isinstance(error.reason, OSError) else DownloadError
        raise kind(str(error.reason)) from error
    except (OSError, HTTPException) as error:
        raise _ConnectionError(str(error) or type(error).__name__) from error


def _opener() -> request.OpenerDirector:
    """Opens http and https only: a redirection must not lead to a local file."""
    opener = request.OpenerDirector()
    for handler in (
        request.ProxyHandler(), request.HTTPHandler(), request.HTTPSHandler(), request.HTTPRedirectHandler(),
        request.HTTPDefaultErrorHandler(), request.HTTPErrorProcessor(), request.UnknownHandler(),
    ):  # fmt: skip
        opener.add_handler(handler)
    return opener


def _copy(answer: HTTPResponse, file: BinaryIO, present: int, total: int | None) -> None:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    console = Console(file=sys.stderr)
    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn(compact=True))
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=total, completed=present)
        while True:
            try:
                block = answer.read(_BLOCK)
            except (OSError, HTTPException) as error:
                raise _ConnectionError(str(error) or type(error).__name__) from error
            if not block:
                return
            file.write(block)
            bar.advance(task, len(block))


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0
