"""How commands show things: tables and colour on a terminal, plain lines in a pipe, one JSON value with `--json`."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Any

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from lakestreams.errors import LakestreamsError, TopologyInvalid, unfold
from lakestreams.run import failure
from lakestreams.visible import visible_json, visible_lines, visible_number


class VisibleConsole(Console):
    """A console on which no text is obeyed: what a key, a value or a message has of control characters is written out.

    It looks at what is about to be written, so no command can forget it; moves and colours of rich's own pass.
    """

    def _render_buffer(self, buffer: Iterable[Segment]) -> str:
        shown = (one if one.control else Segment(visible_lines(one.text), one.style) for one in buffer)
        return super()._render_buffer(shown)

    def on_broken_pipe(self) -> None:
        """Goes on although nobody reads any more, as behind `| head -1`: what a command does is not for its lines alone."""
        self.quiet = True
        _into_nothing(self.file)


def _into_nothing(stream: IO[str]) -> None:
    """What is still written to a stream that nobody reads goes nowhere; else Python tells of it when it ends."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, stream.fileno())
    os.close(nothing)


def _json(value: Any, indent: int | None = None) -> str:
    """A value as JSON that every program reads, in the characters that stdout can write."""
    is_utf = (getattr(sys.stdout, "encoding", None) or "utf-8").lower().startswith("utf")
    text = json.dumps(_finite(value), indent=indent, ensure_ascii=not is_utf, default=str, allow_nan=False)
    return visible_json(text)


def _finite(value: Any) -> Any:
    """The value with texts in the place of numbers that JSON lacks: NaN, Infinity, -Infinity."""
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return visible_number(value) if isinstance(value, float) else value


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
        # A text is what it says: brackets in it are no styles, and `:x:`, as in a key, is no picture.
        plain: dict[str, Any] = {"highlight": False, "markup": False, "emoji": False}
        self.console = VisibleConsole(stderr=as_json, soft_wrap=not sys.stdout.isatty(), **plain)
        self.errors = VisibleConsole(stderr=True, soft_wrap=True, **plain)

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
            for one in what.fitted(self.console) if isinstance(what, Listing) else (what,):
                self.console.print(one, soft_wrap=False)

    def result(self, value: Any) -> None:
        """The one JSON value on stdout; nothing without `--json`."""
        if self.as_json:
            self.out(f"{_json(value, indent=2)}\n")

    def line(self, value: Any) -> bool:
        """A value as one JSON line on stdout, at once; nothing with `--json`. Returns whether somebody reads it."""
        return self.as_json or self.out(f"{_json(value)}\n")

    @staticmethod
    def out(text: str) -> bool:
        """Writes a text, which is visible already, to stdout at once; returns whether somebody still reads it."""
        try:
            sys.stdout.write(text)
            sys.stdout.flush()
        except BrokenPipeError:
            _into_nothing(sys.stdout)
            return False
        return True

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
        as_shown, log = self.secrets.noted(error)
        self.errors.print(error_text(as_shown))
        if log and (isinstance(error, LakestreamsError) or as_shown.code != LakestreamsError.code):
            self.errors.print(f"  Log: {log}", markup=False)
        return list(unfold(as_shown)), str(log) if log else None

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


def table(*columns: str, title: str = "", rows: Iterable[Sequence[object]] = (), right: Sequence[str] = ()) -> Listing:
    """A table in the one style of all commands.

    Args:
        columns: headings.
        title: above it.
        rows: cells, shown by their `str`; None is a dash.
        right: headings of the columns that are numbers.
    """
    return Listing(columns, [[_cell(value) for value in row] for row in rows], title=title, right=right)


class Listing(Table):
    """A table that breaks no word on a narrow screen: its columns wrap, or each row becomes lines of its own.

    Args:
        headings: of the columns.
        lines: the cells, row by row.
        title: above it.
        right: headings of the columns that are numbers.
    """

    def __init__(
        self, headings: Sequence[str], lines: Sequence[Sequence[Text]], *, title: str, right: Sequence[str]
    ) -> None:
        super().__init__(
            box=box.SIMPLE_HEAD,
            pad_edge=False,
            collapse_padding=True,
        )
        self._above = title
        self._headings = headings
        self._lines = lines
        self._right = right
        for heading in headings:
            self.add_column(heading, justify="right" if heading in right else "left", overflow="fold")
        for line in lines:
            self.add_row(*line)

    def fitted(self, console: Console) -> Iterator[Table | Text | str]:
        """What is printed: the table, or a small one for each row if the screen is too narrow for whole words."""
        if self._above:  # a title of the table's own would be folded to its width
            yield Text(self._above, style="bold")
        wanted, room = self._wanted(), self._room(console)
        if self.fits(console):
            yield self
            return
        widths = [self._least(place) for place in range(len(self._headings))]
        if sum(widths) > room:
            widths[0] = min(widths[0], _FOLDED)
        if sum(widths) > room:
            yield from self._row_by_row()
            return
        numbers = [place for place, heading in enumerate(self._headings) if heading in self._right]
        texts = [place for place in range(len(widths)) if place not in numbers]
        for places in (numbers, texts):  # numbers read best in one line
            _widen(widths, wanted, places, room - sum(widths))
        for column, width in zip(self.columns, widths, strict=True):
            column.width = width
        yield self

    def fits(self, console: Console) -> bool:
        """Whether each row is one line of the screen."""
        return sum(self._wanted()) <= self._room(console)

    def _wanted(self) -> list[int]:
        return [max(map(cell_len, (heading, *self._cells(place)))) for place, heading in enumerate(self._headings)]

    def _room(self, console: Console) -> int:
        """How many characters of the screen are for the cells, without the gaps between them."""
        full = console.measure(self, options=console.options.update(width=_ANY)).maximum
        return console.width - (full - sum(self._wanted()))

    def _cells(self, place: int) -> list[str]:
        return [part for line in self._lines for part in line[place].plain.splitlines()]

    def _least(self, place: int) -> int:
        """How narrow a column may be: words stay whole, and so does the name of the row, which somebody may copy."""
        cells = self._cells(place)
        if place == 0 and max(map(cell_len, cells), default=0) <= _LONG:
            return max(map(cell_len, (*self._headings[0].split(), *cells)), default=1)
        lengths = [cell_len(word) for text in (self._headings[place], *cells) for word in text.split()]
        return max([length if length <= _LONG else _FOLDED for length in lengths], default=1)

    def _row_by_row(self) -> Iterator[Table | Text | str]:
        for line in self._lines:
            row = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 1))
            row.add_column(no_wrap=True, style="dim")
            row.add_column(overflow="fold")
            for heading, cell in zip(self._headings, line, strict=True):
                row.add_row(heading, cell)
            yield ""
            yield row
        yield ""


def _widen(widths: list[int], wanted: Sequence[int], places: Sequence[int], spare: int) -> None:
    """Widens some columns up to what they want; those that want least are served first."""
    for served, place in enumerate(sorted(places, key=lambda one: wanted[one] - widths[one])):
        more = min(wanted[place] - widths[place], spare // (len(places) - served))
        widths[place] += more
        spare -= more


_ANY = 10_000  # a screen as wide as any table
_LONG = 32  # what is longer is no name, and may be folded anywhere
_FOLDED = 14


def _cell(value: object) -> Text:
    if isinstance(value, Text):
        return value
    if value is None:
        return Text("-", style="dim")
    return Text(f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else visible_lines(str(value)))
