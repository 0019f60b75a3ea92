"""A real headless Chromium, steered through its DevTools protocol over a pipe: no driver, no port, no package."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Literal, Self

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_FLAGS = (  # without a sandbox, which root and containers cannot have: it is to open our own page only
    "--headless=new", "--no-sandbox", "--remote-debugging-pipe", "--no-first-run", "--disable-gpu", "--disable-dev-shm-usage",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--force-color-profile=srgb",
    "--hide-scrollbars", "--font-render-hinting=none",
)  # fmt: skip
_ANSWER_S = 60.0
# The browser reads commands from 3 and writes answers to 4: the protocol's fixed numbers.
_START = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.dup2(int(sys.argv[2]), 4)
os.execvp(sys.argv[3], sys.argv[3:])
"""


def find() -> str | None:
    """The browser: that of LAKESTREAMS_BROWSER, which must be there, else the first on PATH, else none."""
    chosen = os.environ.get("LAKESTREAMS_BROWSER")
    if chosen:
        return chosen
    return next((found for name in _NAMES if (found := shutil.which(name))), None)


class Browser:
    """A browser with one page. Use as a context manager.

    Attributes:
        told: what the page has told the console, what it has thrown, and what the browser has said of it.
        requested: the addresses that it has asked for.
    """

    def __init__(self, program: str) -> None:
        self.told: list[str] = []
        self.requested: list[str] = []
        self._number = 0
        self._loaded = False
        self._session: str | None = None
        self._unread = b""
        self._profile = tempfile.mkdtemp(prefix="lakestreams-browser-")
        command_out, self._commands = os.pipe()
        self._answers, answer_in = os.pipe()
        flags = (*_FLAGS, f"--user-data-dir={self._profile}", "about:blank")
        self._process = subprocess.Popen(
            [sys.executable, "-c", _START, str(command_out), str(answer_in), program, *flags],
            pass_fds=(command_out, answer_in),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(command_out)
        os.close(answer_in)

    def __enter__(self) -> Self:
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)
        os.close(self._commands)
        os.close(self._answers)
        shutil.rmtree(self._profile, ignore_errors=True)

    def open(self, page: Path, *, width: int, scheme: Literal["light", "dark"] = "light") -> None:
        """Opens a file in a window of this many pixels, and waits until it is drawn."""
        phone = width < 600
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=844 if phone else 800,
            deviceScaleFactor=2 if phone else 1,
            mobile=phone,
        )
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self._loaded = False
        self.ask("Page.navigate", url=page.resolve().as_uri())
        while not self._loaded:
            self._hear()
        self.value("document.fonts.ready.then(() => 1)")

    def value(self, expression: str) -> Any:
        """What an expression is in the page."""
        found = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def point(self, x: float, y: float) -> None:
        """Moves the mouse."""
        self.ask("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def screenshot(self, file: Path, *, height: int | None = None) -> None:
        """The whole page as a picture, or its upper part."""
        size = self.ask("Page.getLayoutMetrics")["cssContentSize"]
        clip = {
            "x": 0,
            "y": 0,
            "width": size["width"],
            "height": min(size["height"], height or size["height"]),
            "scale": 1,
        }
        found = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(base64.b64decode(found["data"]))

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Sends a command and returns its result."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            heard = self._hear()
            if heard.get("id") == self._number:
                assert "error" not in heard, (method, heard["error"])
                return heard["result"]

    def _hear(self) -> dict[str, Any]:
        """The next message; events are noted."""
        until = time.monotonic() + _ANSWER_S
        while b"\0" not in self._unread:
            ready, _, _ = select.select([self._answers], [], [], max(0.0, until - time.monotonic()))
            assert ready, f"the browser has not answered for {_ANSWER_S:.0f} s"
            data = os.read(self._answers, 1 << 16)
            assert data, f"the browser has ended, with {self._process.poll()}"
            self._unread += data
        line, _, self._unread = self._unread.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, method: str, parameters: dict[str, Any]) -> None:
        if method == "Page.loadEventFired":
            self._loaded = True
        elif method in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"):
            self.told.append(json.dumps(parameters))
        elif method == "Network.requestWillBeSent":
            self.requested.append(parameters["request"]["url"])
