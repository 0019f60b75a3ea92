"""Plain lines in place of what rich draws, for jobs: their wheel does not require rich, which only the command line needs."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from lakestreams.errors import LakestreamsError, unfold
from lakestreams.run import failure
from lakestreams.visible import visible_lines


class Text(str):
    """A text that has forgotten its style."""

    __slots__ = ()

    def __new__(cls, text: str = "", style: str = "") -> Text:  # noqa: PYI034 - not for subclasses
        """The text alone."""
        del style
        return super().__new__(cls, text)

    @classmethod
    def assemble(cls, *parts: str | tuple[str, str]) -> Text:
        """The parts in a row."""
        return cls("".join(part if isinstance(part, str) else part[0] for part in parts))


class _Errors:
    @staticmethod
    def print(text: object, **_how: Any) -> None:
        sys.stderr.write(f"{visible_lines(str(text))}\n")


class Screen:
    """Where a job writes: lines on stdout, errors on stderr; what is not shown, and what ends with the job."""

    as_json = live = False
    errors = _Errors()

    def __init__(self) -> None:
        self.secrets = failure.Secrets()
        self.ends = contextlib.ExitStack()

    def say(self, text: str = "") -> None:
        """A line."""
        sys.stdout.write(f"{visible_lines(str(text))}\n")
        sys.stdout.flush()

    show = say

    def result(self, value: Any) -> None:
        """Nothing: a job is not asked for JSON."""

    @contextlib.contextmanager
    def working(self, what: str) -> Iterator[None]:
        """Says what takes its time."""
        self.say(what)
        yield

    def failure(self, error: Exception) -> tuple[list[LakestreamsError], str | None]:
        """Tells an error with its log; returns its single faults and the log's path."""
        as_shown, log = self.secrets.noted(error)
        self.errors.print(as_shown if log is None else f"{as_shown}\n  Log: {log}")
        return list(unfold(as_shown)), str(log) if log else None

    def fail(self, error: Exception) -> int:
        """Tells an error that ends the job, with its log; returns the exit code."""
        self.failure(error)
        return failure.exit_code(error)


def table(*columns: str, title: str = "", rows: Iterable[Sequence[object]] = (), right: Sequence[str] = ()) -> str:
    """A table as lines: its title, its headings, its rows."""
    del right
    lines = [columns, *([_cell(value) for value in row] for row in rows)]
    widths = [max(len(line[place]) for line in lines) for place in range(len(columns))]
    drawn = ["  ".join(f"{one:<{width}}" for one, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    return "\n".join([title, *drawn] if title else drawn)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
