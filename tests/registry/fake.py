"""A registry that says what a test tells it to, on loopback."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.registry.serving import serving


class Fake(ThreadingHTTPServer):
    """Answers by method and path; notes what it was asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: dict[str, list[tuple[int, Any]]] = {}
        self.asked: list[tuple[str, dict[str, str], Any]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def says(self, question: str, *answers: tuple[int, Any]) -> None:
        """The answers to `GET /path`, one after the other; the last one again and again."""
        self.answers[question] = list(answers)


class _Handler(BaseHTTPRequestHandler):
    server: Fake

    def do_GET(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        question = f"{self.command} {self.path}"
        self.server.asked.append((question, dict(self.headers), body))
        answers = self.server.answers.get(question) or [(404, {"error_code": 40401, "message": "not found"})]
        status, said = answers.pop(0) if len(answers) > 1 else answers[0]
        text = said if isinstance(said, bytes) else json.dumps(said).encode()
        self.send_response(status)
        if status == 302:
            self.send_header("Location", "http://127.0.0.1:1/elsewhere")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_POST = do_GET  # noqa: N815 - the name is the library's

    def log_message(self, *_args: Any) -> None:
        """Nothing on the screen."""


def fake() -> AbstractContextManager[Fake]:
    return serving(Fake())
