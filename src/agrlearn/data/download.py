"""Published files from their official addresses: whole and checked, or not there at all."""

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

from agrlearn.data.folder import FOLDER_VARIABLE
from agrlearn.errors import DataError
from agrlearn.files import one_process_at_a_time

_BLOCK = 2**16
_VAIN_ATTEMPTS = 3
_ALLOWED = ContextVar("downloads_are_allowed", default=True)


class DownloadError(DataError):
    """A file cannot be had from its official address."""


class _BrokenOffError(Exception):
    """The connection failed in a way that may pass."""


@contextmanager
def no_downloads() -> Iterator[None]:
    """Within this block what is missing is not fetched, and nothing is written: `DownloadError` is raised instead."""
    before = _ALLOWED.set(False)
    try:
        yield
    finally:
        _ALLOWED.reset(before)


def download(
    url: str, target: Path, check: Callable[[Path], object], *, timeout: float = 30.0, pause: float = 1.0
) -> None:
    """Fetch `url` into the file `target`, which appears only when it is whole and `check` has passed it.

    A transfer that breaks off is tried again as long as that brings anything, and goes on where it was. What has come
    stays in a file ending in .part, with which the next call goes on.

    Args:
        url: an http or https address.
        check: raises DataError if the file it is given is not the published one.
        timeout: seconds without an answer after which a connection counts as broken.
        pause: seconds before the second attempt.
    """
    if not _ALLOWED.get():
        raise DownloadError(f"{target} is not there; put it there by hand")
    part = _part(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with one_process_at_a_time(target.parent):
            if target.exists():
                return  # another process has fetched it meanwhile
            for goes_on in (True, False) if part.exists() else (False,):
                _fetch(url, target, timeout, pause)
                try:
                    check(part)
                except DataError as error:
                    part.unlink()
                    if not goes_on:
                        raise _failure(url, target, "what came is not the published file") from error
                    _tell(f"{part} was not the beginning of the published file; starting over")
                else:
                    part.replace(target)
                    return
    except OSError as error:
        raise DownloadError(
            f"{url} cannot be kept in {target.parent} ({error.strerror or error}); make room there, or choose another "
            f"folder with --data-dir or {FOLDER_VARIABLE}"
        ) from error


def _fetch(url: str, target: Path, timeout: float, pause: float) -> None:
    """Bring the .part file to its full length."""
    longest, vain = _size(_part(target)), 0
    while True:
        try:
            return _transfer(url, target, timeout)
        except _BrokenOffError as error:
            size = _size(_part(target))
            vain = 0 if size > longest else vain + 1
            longest = max(longest, size)
            if vain == _VAIN_ATTEMPTS:
                raise _failure(url, target, str(error)) from error
            time.sleep(pause * max(1, vain))


def _transfer(url: str, target: Path, timeout: float) -> None:
    """One connection: append to the .part file what is missing, or write all of it if the server sends all."""
    part = _part(target)
    present = _size(part)
    answer = _open(url, target, present, timeout)
    if answer is None:
        return
    with answer:
        goes_on = answer.status == 206
        if goes_on and not answer.headers.get("Content-Range", "").startswith(f"bytes {present}-"):
            part.unlink()
            raise _BrokenOffError("the server sent another piece of the file than it was asked for")
        if not goes_on:
            present = 0
        total = None if answer.length is None else present + answer.length
        verb = f"going on at {present / 1e6:.1f} MB with" if goes_on else "downloading"
        size = "" if total is None else f", {total / 1e6:.1f} MB,"
        _tell(f"{verb} {url}{size} into {part.parent}")
        with part.open("ab" if goes_on else "wb") as file:
            _copy(answer, file, present, total)
            file.flush()
            os.fsync(file.fileno())
    if total is not None and _size(part) < total:
        raise _BrokenOffError(f"the connection ended after {_size(part):,} of {total:,} bytes")


def _open(url: str, target: Path, present: int, timeout: float) -> HTTPResponse | None:
    """The server's answer; None if no byte is missing after those that are present."""
    headers = {"User-Agent": "agrlearn", **({"Range": f"bytes={present}-"} if present else {})}
    try:
        return _opener().open(request.Request(url, headers=headers), timeout=timeout)
    except HTTPError as error:
        error.close()
        if error.code == 416 and present:
            return None
        reason = f"the server answered {error.code} {error.reason}"
        if error.code >= 500:
            raise _BrokenOffError(reason) from error
        raise _failure(url, target, reason) from error
    except URLError as error:
        if isinstance(error.reason, socket.gaierror):
            raise _failure(url, target, "there is no connection to the network, or the server is gone") from error
        if isinstance(error.reason, OSError):
            raise _BrokenOffError(str(error.reason)) from error
        raise _failure(url, target, str(error.reason)) from error
    except (OSError, HTTPException) as error:
        raise _BrokenOffError(str(error) or type(error).__name__) from error


def _opener() -> request.OpenerDirector:
    """Opens http and https and nothing else: a redirection must not lead to a local file."""
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
                raise _BrokenOffError(str(error) or type(error).__name__) from error
            if not block:
                return
            file.write(block)
            bar.advance(task, len(block))


def _failure(url: str, target: Path, reason: str) -> DownloadError:
    return DownloadError(
        f"{url} cannot be downloaded ({reason}); put {target.name} into {target.parent} by hand, or name a folder that "
        f"holds it with --data-dir or {FOLDER_VARIABLE}"
    )


def _part(target: Path) -> Path:
    return target.with_name(f"{target.name}.part")


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def _tell(sentence: str) -> None:
    print(sentence, file=sys.stderr)
