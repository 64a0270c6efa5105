"""A page that follows one run while it trains, served to this machine only."""

import json
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

from agrlearn.errors import RunError
from agrlearn.report.collect import Report, report_of_runs
from agrlearn.report.page import payload, render
from agrlearn.report.runs import RunFacts, read_facts, settings_of

_HOST = "127.0.0.1"


class LiveRun:
    """What is known of a run now: its curves while it trains and, once it is finished, everything.

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
        """What the page can keep up to date by itself: all but tables."""
        return replace(report_of_runs(self._title, settings_of([facts])), comparison=())

    def _measure(self, facts: RunFacts) -> None:
        try:
            self._full = self._full_report(facts)
        except Exception as error:  # the curves are worth showing even so
            notes = [f"The network was not measured: {error}."]
            self._full = report_of_runs(self._title, settings_of([facts]), notes=notes)

    def _status(self, facts: RunFacts) -> str:
        epochs = f"epoch {len(facts.epochs)} of {facts.recipe['epochs']}"
        if facts.finished and self._full is not None:
            return f"Finished: {epochs}. This page no longer changes."
        if facts.finished:
            return f"Finished: {epochs}. Measuring the network …"
        return f"Under way: {epochs}, last heard of {_ago(facts.folder)}."


def make_server(run: LiveRun, port: int = 0) -> ThreadingHTTPServer:
    """A server on 127.0.0.1 of two addresses, the page and its data; 0 lets the system choose the port."""

    class Handler(BaseHTTPRequestHandler):
        server_version = "agrlearn"
        sys_version = ""

        def do_GET(self) -> None:
            # Another name for this machine may belong to a page elsewhere that wants to read this one (DNS rebinding).
            here = cast(ThreadingHTTPServer, self.server).server_port
            if self.headers.get("Host") not in (f"{_HOST}:{here}", f"localhost:{here}"):
                return self._answer(403, "text/plain", "This page is served to 127.0.0.1 alone.\n")
            try:
                if self.path == "/":
                    return self._answer(200, "text/html", run.page())
                if self.path == "/data.json":
                    return self._answer(200, "application/json", json.dumps(run.news(), allow_nan=False))
            except (RunError, OSError) as error:
                return self._answer(503, "text/plain", f"{error}\n")
            return self._answer(404, "text/plain", "There is the page, /, and its data, /data.json.\n")

        do_HEAD = do_GET  # noqa: N815 - the name that http.server asks for

        def _answer(self, code: int, kind: str, text: str) -> None:
            content = text.encode(errors="replace")
            self.send_response(code)
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Cache-Control", "no-store")
            self.send_header("X-Content-Type-Options", "nosniff")
            self.send_header("X-Frame-Options", "DENY")
            self.send_header("Cross-Origin-Resource-Policy", "same-origin")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing: the page asks every second."""

    return ThreadingHTTPServer((_HOST, port), Handler)


def _ago(folder: Path) -> str:
    newest = max(file.stat().st_mtime for file in folder.iterdir() if file.suffix in (".json", ".jsonl"))
    seconds = max(0.0, time.time() - newest)
    return f"{seconds:.0f} s ago" if seconds < 120 else f"{seconds / 60:.0f} minutes ago"
