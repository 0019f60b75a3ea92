"""The way to a real registry, which can end at any question: as if the registry was killed there."""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from contextlib import AbstractContextManager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from tests.registry.serving import serving


class Gate(ThreadingHTTPServer):
    """Passes questions on to a registry, and its answers back, until one of them is where the registry dies.

    Attributes:
        asked: the questions that came, such as `GET /schemas/ids/7`.
        answered: those of them whose answers came back.
        is_gone: whether nobody answers any more.
    """

    def __init__(self, behind: str, handler: type[Passing] | None = None) -> None:
        super().__init__(("127.0.0.1", 0), handler or Passing)
        self.behind = behind
        self.asked: list[str] = []
        self.answered: list[str] = []
        self.is_gone = False
        self._dies_at: re.Pattern[str] | None = None
        self._is_late = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}{urlsplit(self.behind).path}"

    def dies_at(self, question: str, *, late: bool) -> None:
        """From the first question that this pattern matches on nobody answers.

        Args:
            late: whether the registry has done what it was asked for, and only its answer is lost.
        """
        self._dies_at, self._is_late, self.is_gone = re.compile(question), late, False

    def kill(self) -> None:
        """Nobody answers."""
        self.is_gone = True

    def restart(self) -> None:
        """All is as before; it has kept what it had."""
        self._dies_at, self.is_gone = None, False

    def passes(self, question: str) -> bool:
        """Whether the registry gets a question: not if it is dead, nor as a rule if it dies of it."""
        if self.is_gone:
            return False
        if self._dies_at is not None and self._dies_at.match(question):
            self.is_gone = True
            return self._is_late
        return True


class Passing(BaseHTTPRequestHandler):
    """Passes a question on."""

    server: Gate

    def do_GET(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length) if length else None
        path = self.path.removeprefix(urlsplit(self.server.behind).path)
        question = f"{self.command} {path}"
        self.server.asked.append(question)
        self.close_connection = True
        if not self.server.passes(question):
            return
        code, text = self.answered(path, body)
        if self.server.is_gone:
            return
        self.send_response(code)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
        self.server.answered.append(question)

    do_POST = do_GET  # noqa: N815 - the name is the library's

    def answered(self, path: str, body: bytes | None) -> tuple[int, bytes]:
        """The answer's code and text."""
        return self.passed_on(self.command, path, body)

    def passed_on(self, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        """What the registry behind answers to a question."""
        headers = {name: self.headers[name] for name in ("Accept", "Content-Type") if name in self.headers}
        asked = urllib.request.Request(self.server.behind + path, body, headers, method=method)
        try:
            with urllib.request.urlopen(asked) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()

    def log_message(self, *_args: Any) -> None:
        """Nothing on the screen."""


def gate(behind: str) -> AbstractContextManager[Gate]:
    return serving(Gate(behind))
