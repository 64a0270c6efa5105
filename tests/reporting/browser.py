"""A real browser for tests: headless Chromium, driven over its DevTools protocol."""

import asyncio
import json
import shutil
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any

import aiohttp
import pytest

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_browser = pytest.mark.skipif(PROGRAM is None, reason="there is no Chromium here: apt install chromium")
_PATIENCE = 60.0


class Browser:
    """A running Chromium."""

    def __init__(self, profile: Path) -> None:
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--remote-debugging-port=0"]
        self._process = subprocess.Popen(
            [str(PROGRAM), *options, f"--user-data-dir={profile}", "about:blank"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        port_file = profile / "DevToolsActivePort"
        wait_for(lambda: port_file.exists() and len(port_file.read_text().splitlines()) > 1, "the browser to start")
        self._address = f"http://127.0.0.1:{port_file.read_text().split()[0]}"

    def open(self, url: str, *, width: int = 1200, height: int = 900, dark: bool = False) -> "Page":
        request = urllib.request.Request(f"{self._address}/json/new?about:blank", method="PUT")
        with urllib.request.urlopen(request, timeout=_PATIENCE) as answer:
            page = Page(json.load(answer)["webSocketDebuggerUrl"])
        page.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        page.call("Emulation.setEmulatedMedia", features=[scheme])
        page.call("Page.navigate", url=url)
        wait_for(lambda: page.run("document.readyState === 'complete' && location.href !== 'about:blank'"), url)
        return page

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(timeout=_PATIENCE)


class Page:
    """A tab: what it shows, what it complains of, and a mouse and keys for it."""

    def __init__(self, address: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._session, self._socket = self._loop.run_until_complete(_connect(address))
        self._number = 0
        self.complaints: list[str] = []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> Any:
        """One command of the protocol."""
        self._number += 1
        return self._loop.run_until_complete(self._exchange(self._number, method, parameters))

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def count(self, selector: str) -> int:
        return self.run(f"document.querySelectorAll({json.dumps(selector)}).length")

    def place(self, selector: str, across: float = 0.5, down: float = 0.5) -> tuple[float, float]:
        """A point within an element, which is brought into view."""
        box = self.run(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            "e.scrollIntoView({block: 'center'}); const b = e.getBoundingClientRect();"
            "return [b.left, b.top, b.width, b.height]; })()"
        )
        return box[0] + across * box[2], box[1] + down * box[3]

    def mouse(self, kind: str, x: float, y: float, *, clicks: int = 0) -> None:
        held = {"button": "left", "buttons": 1, "clickCount": max(1, clicks)} if kind != "mouseMoved" or clicks else {}
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **held)

    def click(self, selector: str) -> None:
        x, y = self.place(selector)
        self.mouse("mousePressed", x, y)
        self.mouse("mouseReleased", x, y)

    def press(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, text=key if len(key) == 1 else "")

    def close(self) -> None:
        self._loop.run_until_complete(self._socket.close())
        self._loop.run_until_complete(self._session.close())
        self._loop.close()

    async def _exchange(self, number: int, method: str, parameters: dict[str, Any]) -> Any:
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        while True:
            message = await asyncio.wait_for(self._socket.receive_json(), _PATIENCE)
            if message.get("id") == number:
                assert "error" not in message, message
                return message["result"]
            self._note(message.get("method"), message.get("params", {}))

    def _note(self, event: str | None, details: dict[str, Any]) -> None:
        if event in ("Runtime.exceptionThrown", "Page.javascriptDialogOpening"):
            self.complaints.append(json.dumps(details))
        elif event == "Log.entryAdded" and details["entry"]["level"] in ("error", "warning"):
            self.complaints.append(json.dumps(details["entry"]))
        elif event == "Runtime.consoleAPICalled" and details["type"] in ("error", "warning", "assert"):
            self.complaints.append(json.dumps(details["args"]))


def wait_for(condition: Any, what: str, seconds: float = _PATIENCE) -> Any:
    """The condition's value as soon as it is true."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"waited {seconds:.0f} s in vain for {what}")


async def _connect(address: str) -> Any:
    session = aiohttp.ClientSession()
    return session, await session.ws_connect(address, max_msg_size=0)
