"""How commands show things: tables and colour on a terminal, plain lines in a pipe, one JSON value with `--json`."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from lakestreams.errors import LakestreamsError, TopologyInvalid, unfold
from lakestreams.run import failure
from lakestreams.visible import visible_json, visible_lines


class VisibleConsole(Console):
    """A console on which no text is obeyed: what a key, a value or a message has of control characters is written out.

    It looks at what is about to be written, so no command can forget it; moves and colours of rich's own pass.
    """

    def _render_buffer(self, buffer: Iterable[Segment]) -> str:
        shown = (one if one.control else Segment(visible_lines(one.text), one.style) for one in buffer)
        return super()._render_buffer(shown)


class Screen:
    """Where a command writes. With `as_json` the only thing on stdout is one JSON value, given to `result`.

    Args:
        as_json: whether `--json` was given.

    Attributes:
        secrets: what is not shown.
        ends: what ends with the command: a local session that it starts.
    """

    def __init__(self, *, as_json: bool = False) -> None:
        self.as_json = as_json
        self.secrets = failure.Secrets()
        self.ends = contextlib.ExitStack()
        # Everything that is not the result itself leaves stdout alone, so that a pipe gets nothing but results.
        self.console = VisibleConsole(stderr=as_json, highlight=False, soft_wrap=not sys.stdout.isatty())
        self.errors = VisibleConsole(stderr=True, highlight=False, soft_wrap=True)

    @property
    def live(self) -> bool:
        """Whether moving displays make sense."""
        return self.console.is_terminal and not self.as_json

    def say(self, text: str | Text = "") -> None:
        """A line for people; nothing with `--json`."""
        if not self.as_json:
            self.console.print(text, markup=False, soft_wrap=True)

    def show(self, what: Any) -> None:
        """A table or another renderable for people; nothing with `--json`."""
        if not self.as_json:
            if isinstance(what, Table):
                _fold_if_need_be(what, self.console)
            self.console.print(what, soft_wrap=False)

    def result(self, value: Any) -> None:
        """The one JSON value on stdout; nothing without `--json`."""
        if self.as_json:
            sys.stdout.write(visible_json(json.dumps(value, indent=2, ensure_ascii=False, default=str)) + "\n")

    def line(self, value: Any) -> None:
        """A value as one JSON line on stdout, at once; nothing with `--json`."""
        if not self.as_json:
            sys.stdout.write(visible_json(json.dumps(value, ensure_ascii=False, default=str)) + "\n")
            sys.stdout.flush()

    @contextlib.contextmanager
    def working(self, what: str) -> Iterator[None]:
        """Shows that something takes its time, on a terminal."""
        if not self.live:
            yield
            return
        with self.console.status(what):
            yield

    def failure(self, error: Exception) -> tuple[list[LakestreamsError], str | None]:
        """Prints an error in its form on stderr.

        Returns:
            Its single faults, and the path of the log with the whole trace: written where our own error is not the
            whole story.
        """
        told, log = self.secrets.noted(error)
        self.errors.print(error_text(told))
        if log and isinstance(error, LakestreamsError):
            self.errors.print(f"  Log: {log}", markup=False)
        return list(unfold(told)), str(log) if log else None

    def fail(self, error: Exception) -> int:
        """Tells an error that ends the command; returns its exit code."""
        faults, log = self.failure(error)
        self.result({"ok": False, "faults": [fault.as_dict() for fault in faults], "log": log})
        return failure.exit_code(error)


def error_text(error: LakestreamsError) -> Text:
    """The error's own form, its code in red and its fix in green."""
    if isinstance(error, TopologyInvalid) and len(error.faults) > 1:
        head = Text(f"{error.code} {error.name}", style="bold red")
        head.append(f"   {error.where}" if error.where else "", style="default not bold")
        head.append(f": {len(error.faults)} faults", style="default not bold")
        return Text("\n").join([head, *(error_text(fault) for fault in error.faults)])
    if isinstance(error, TopologyInvalid) and error.faults:
        return error_text(error.faults[0])
    text = Text(str(error))
    text.stylize("bold red", 0, len(f"{error.code} {error.name}"))
    text.highlight_regex(r"(?m)^  Fix: .*?(?=        lakestreams explain )", "green")
    text.highlight_regex(r"lakestreams explain LS\d+", "dim")
    return text


def table(*columns: str, title: str = "", rows: Iterable[Sequence[object]] = (), right: Sequence[str] = ()) -> Table:
    """A table in the one style of all commands.

    Args:
        columns: headings.
        title: above it.
        rows: cells, shown by their `str`; None is a dash.
        right: headings of the columns that are numbers.
    """
    lines = [[_cell(value) for value in row] for row in rows]
    made = Table(
        title=title or None,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
    )
    for place, column in enumerate(columns):
        # Numbers stay in one line, and so does the name of the row, which somebody may want to copy; texts fold.
        short = all(line[place].cell_len <= _NEVER_FOLDED for line in lines)
        whole = short and (place == 0 or column in right)
        made.add_column(column, justify="right" if column in right else "left", overflow="fold", no_wrap=whole)
    for line in lines:
        made.add_row(*line)
    return made


_NEVER_FOLDED = 32  # cells


def _fold_if_need_be(shown: Table, console: Console) -> None:
    """Lets all columns fold where those that should not are wider than the screen: else their ends would be cut off."""
    least = console.measure(shown, options=console.options.update(width=10_000)).minimum
    if least > console.width:
        for column in shown.columns:
            column.no_wrap = False


def _cell(value: object) -> Text:
    if isinstance(value, Text):
        return value
    if value is None:
        return Text("-", style="dim")
    return Text(f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else visible_lines(str(value)))
