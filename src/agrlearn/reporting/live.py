"""A page that follows one run while it trains, served to this machine only."""

import asyncio
import functools
import json
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from typing import Any

from agrlearn.errors import AgrLearnError
from agrlearn.reporting.collect import Report, report_of_runs
from agrlearn.reporting.page import payload, render
from agrlearn.runs.facts import RunFacts, read_facts, settings_of

_HOST = "127.0.0.1"
_MOST_CONNECTIONS, _LONGEST_REQUEST, _PATIENCE = 512, 2**14, 10.0  # bytes, and seconds


class LiveRun:
    """What is known of a run now: its curves while it trains, and everything once it is finished.

    Args:
        full_report: the whole report of a finished run, which may take a while to measure.
    """

    def __init__(self, folder: Path, full_report: Callable[[RunFacts], Report]) -> None:
        self._folder = folder
        self._title = folder.resolve().name
        self._full_report = full_report
        self._full: Report | None = None
        self._measuring: threading.Thread | None = None
        self._start = threading.Lock()

    def page(self) -> str:
        return render(self._report(read_facts(self._folder)), live=True)

    def news(self) -> dict[str, Any]:
        """What the page asks for again and again."""
        facts = read_facts(self._folder)
        done = facts.finished and self._full is not None
        return {**payload(self._report(facts), live=True), "status": self._status(facts), "done": done}

    def _report(self, facts: RunFacts) -> Report:
        if not facts.finished:
            self._full = self._measuring = None  # it may have been started over
            return self._curves(facts)
        with self._start:
            if self._measuring is None:
                self._measuring = threading.Thread(target=self._measure, args=(facts,), daemon=True)
                self._measuring.start()
        return self._full or self._curves(facts)

    def _curves(self, facts: RunFacts) -> Report:
        """What the page can keep up to date by itself: everything except tables."""
        return replace(report_of_runs(self._title, settings_of([facts])), comparison=())

    def _measure(self, facts: RunFacts) -> None:
        try:
            self._full = self._full_report(facts)
        except Exception as error:  # the curves are still worth showing
            notes = [f"The network was not measured: {error}."]
            self._full = report_of_runs(self._title, settings_of([facts]), notes=notes)

    def _status(self, facts: RunFacts) -> str:
        epochs = f"epoch {len(facts.epochs)} of {facts.recipe['epochs']}"
        if facts.finished and self._full is not None:
            return f"Finished: {epochs}. This page no longer changes."
        if facts.finished:
            return f"Finished: {epochs}. Measuring the network …"
        return f"Under way: {epochs}{_time_left(facts)}, last update {_ago(facts.folder)}."


class LiveServer:
    """Serves a run's page and its data on 127.0.0.1; connections are limited in number and in time.

    Args:
        port: 0 lets the system choose one.
    """

    def __init__(self, run: LiveRun, port: int = 0) -> None:
        self._run = run
        self._socket = socket.create_server((_HOST, port), backlog=_MOST_CONNECTIONS)
        self.address: tuple[str, int] = self._socket.getsockname()
        self._connections = 0
        self._closed = False
        self._stop: Callable[[], Any] = self._socket.close

    def serve_forever(self) -> None:
        """Answer until `close` is called in another thread, or Ctrl-C is pressed."""
        try:
            asyncio.run(self._serve())
        except OSError:
            if not self._closed:  # otherwise it was closed before it began
                raise

    def close(self) -> None:
        self._closed = True
        self._stop()

    async def _serve(self) -> None:
        stopped = asyncio.Event()
        self._stop = functools.partial(asyncio.get_running_loop().call_soon_threadsafe, stopped.set)
        async with await asyncio.start_server(self._meet, sock=self._socket, limit=_LONGEST_REQUEST):
            await stopped.wait()

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._connections == _MOST_CONNECTIONS:
            return writer.transport.abort()
        self._connections += 1
        try:
            async with asyncio.timeout(_PATIENCE):
                request = await reader.readuntil(b"\r\n\r\n")
            answer = await asyncio.to_thread(self._answer, request.decode("latin-1"))
            async with asyncio.timeout(_PATIENCE):
                writer.write(answer)
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            writer.transport.abort()  # the client went away, says nothing, or is not a browser
        finally:
            self._connections -= 1

    def _answer(self, request: str) -> bytes:
        """The whole response: headers and content."""
        first, *lines = request.split("\r\n")
        method, _, path = first.rpartition(" ")[0].partition(" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        code, kind, text = self._page(method, path, headers.get("host", ""))
        content = text.encode(errors="replace")
        head = (
            f"HTTP/1.1 {code} {HTTPStatus(code).phrase}", f"Content-Type: {kind}; charset=utf-8",
            f"Content-Length: {len(content)}", "Connection: close", "Cache-Control: no-store",
            "X-Content-Type-Options: nosniff", "X-Frame-Options: DENY", "Cross-Origin-Resource-Policy: same-origin",
        )  # fmt: skip
        return "".join(f"{line}\r\n" for line in (*head, "")).encode() + (b"" if method == "HEAD" else content)

    def _page(self, method: str, path: str, host: str) -> tuple[int, str, str]:
        # Another name for this machine may belong to a page elsewhere that wants to read this one (DNS rebinding).
        if host not in (f"{_HOST}:{self.address[1]}", f"localhost:{self.address[1]}"):
            return 403, "text/plain", "This page is served only at 127.0.0.1.\n"
        if method not in ("GET", "HEAD"):
            return 501, "text/plain", "This page can only be read.\n"
        try:
            if path == "/":
                return 200, "text/html", self._run.page()
            if path == "/data.json":
                return 200, "application/json", json.dumps(self._run.news(), allow_nan=False)
        except (AgrLearnError, OSError) as error:
            return 503, "text/plain", f"{error}\n"
        return 404, "text/plain", "Only the page, /, and its data, /data.json, are served.\n"


def _ago(folder: Path) -> str:
    newest = max(file.stat().st_mtime for file in folder.iterdir() if file.suffix in (".json", ".jsonl"))
    return f"{_duration(max(0.0, time.time() - newest))} ago"


def _time_left(facts: RunFacts) -> str:
    """How long the remaining epochs take, if they take as long as those so far; empty before the first."""
    if not facts.epochs:
        return ""
    done = len(facts.epochs)
    left = facts.seconds / done * (facts.recipe["epochs"] - done)
    return f", {'about' if facts.recipe.get('patience') is None else 'at most'} {_duration(left)} left"


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} minutes" if seconds < 7200 else f"{seconds / 3600:.1f} hours"
