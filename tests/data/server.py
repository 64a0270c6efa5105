"""A local web server that can be told to misbehave."""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Files:
    """What the server serves, and how.

    Args:
        content: each path's bytes.
        breaks_after: the connection ends after so many bytes of each answer.
        breaks: so many answers break off, the later ones do not.
        knows_ranges: False for a server that always sends the whole file.
        status: an error to answer with, while `breaks` lasts.
        announces_length: False for a server that does not tell how much it sends.
        moved_to: where every request is sent on to.
        wrong_range: the server says that it sends another piece than was asked for.
        silent: no answer comes before the server is closed.
    """

    content: dict[str, bytes] = field(default_factory=dict)
    breaks_after: int = 10**9
    breaks: int = 10**9
    knows_ranges: bool = True
    status: int | None = None
    announces_length: bool = True
    moved_to: str | None = None
    wrong_range: bool = False
    silent: bool = False
    url: str = ""
    requests: list[str | None] = field(default_factory=list)
    """The range that each request asked for."""
    closed: threading.Event = field(default_factory=threading.Event)


@contextmanager
def serving(files: Files) -> Iterator[Files]:
    """The files at `files.url` for as long as the block lasts."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            _answer(self, files)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    files.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield files
    finally:
        files.closed.set()
        server.shutdown()
        server.server_close()
        thread.join()


def _answer(handler: BaseHTTPRequestHandler, files: Files) -> None:
    asked = handler.headers.get("Range")
    files.requests.append(asked)
    misbehaves = len(files.requests) <= files.breaks
    if files.silent and misbehaves:
        files.closed.wait()
        return
    if files.moved_to:
        handler.send_response(302)
        handler.send_header("Location", files.moved_to)
        handler.end_headers()
        return
    content = files.content.get(handler.path)
    if content is None or (files.status and misbehaves):
        handler.send_error(files.status or 404)
        return
    start = int(re.fullmatch(r"bytes=(\d+)-", asked)[1]) if asked and files.knows_ranges else 0
    if start >= len(content) > 0:
        handler.send_error(416)
        return
    handler.send_response(206 if start else 200)
    if start:
        told = start + 1 if files.wrong_range else start
        handler.send_header("Content-Range", f"bytes {told}-{len(content) - 1}/{len(content)}")
    if files.announces_length:
        handler.send_header("Content-Length", str(len(content) - start))
    handler.end_headers()
    handler.wfile.write(content[start : start + files.breaks_after] if misbehaves else content[start:])
