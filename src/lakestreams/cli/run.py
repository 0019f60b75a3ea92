"""`lakestreams run`: pipelines one after another in one session, with progress while they run."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.live import Live
from rich.table import Table
from rich.text import Text

from lakestreams.cli.screen import Screen, table
from lakestreams.errors import LakestreamsError, unfold
from lakestreams.run import failure
from lakestreams.run.entry import stop_signal
from lakestreams.run.options import RunOptions
from lakestreams.run.runner import Outcome, load, open_session, prepare

if TYPE_CHECKING:
    from lakestreams.engine.runtime.progress import Event


def run(screen: Screen, options: RunOptions) -> int:
    """Runs the pipelines; returns the exit code."""
    progress = Progress(screen)
    job = prepare(load(options.files, screen.secrets), options, progress.note)
    with screen.working("starting Spark"):
        spark = open_session(ends=screen.ends, quick=options.quick, progress=screen.say)
    stop = stop_signal(options.timing.interval_ms)
    with progress.shown():
        outcomes = job.run(spark, stop)
    for outcome in outcomes:
        for warning in outcome.summary.warnings if outcome.summary else ():
            screen.say(Text.assemble(("warning", "yellow"), f"  {outcome.pipeline}: {screen.secrets.redact(warning)}"))
        for note in outcome.summary.notes if outcome.summary else ():
            screen.say(Text.assemble(("note", "dim"), f"  {outcome.pipeline}: {note}"))
    screen.show(_summary(outcomes))
    for outcome in outcomes:
        stages = "  ".join(
            f"{stage} {s:.1f}" for stage, s in (outcome.summary.seconds if outcome.summary else {}).items()
        )
        if stages:
            screen.say(
                Text(f"seconds of {outcome.pipeline} by stage (cycles run during ingest): {stages}", style="dim")
            )
    errors = [outcome.error for outcome in outcomes if outcome.error is not None]
    faults = [_with_faults(screen, outcome) for outcome in outcomes]
    screen.result({"ok": not errors, "pipelines": faults})
    return min((failure.exit_code(error) for error in errors), default=failure.OK)


def _with_faults(screen: Screen, outcome: Outcome) -> dict[str, Any]:
    result = outcome.as_dict()
    result["faults"] = []
    if outcome.error is not None:
        faults, result["log"] = screen.failure(outcome.error)
        result["faults"] = [fault.as_dict() for fault in faults]
    return result


def _summary(outcomes: list[Outcome]) -> Table:
    rows = [
        (
            outcome.pipeline,
            _state(outcome),
            *((s.epoch, s.cycles, s.records, s.bad) if (s := outcome.summary) else (None, None, None, None)),
            f"{outcome.seconds:.1f}",
        )
        for outcome in outcomes
    ]
    numbers = ("epoch", "cycles", "records", "unreadable", "seconds")
    return table("pipeline", "", *numbers, rows=rows, right=numbers)


def _state(outcome: Outcome) -> Text:
    if outcome.error is None:
        return Text("done", style="green")
    code = unfold(outcome.error)[0].code if isinstance(outcome.error, LakestreamsError) else LakestreamsError.code
    return Text(code, style="bold red")


@dataclass
class Line:
    """One pipeline's progress; `lag` is None where the engine does not tell it."""

    ingested: int = 0
    published: int = 0
    bad: int = 0
    cycle: int = 0
    lag: int | None = None
    began: float = 0.0
    changed: float = 0.0
    state: str = ""

    def note(self, event: Event) -> None:
        """Takes an event in."""
        facts = event.facts
        now = time.monotonic()
        self.began = self.began or now
        self.changed = now
        self.state = event.kind
        self.cycle = facts.get("cycle", self.cycle)
        self.lag = facts.get("lag", self.lag)
        if event.kind == "ingested":
            self.ingested += facts["records"]
        if event.kind == "published":
            self.published += facts["records"]
            self.bad += facts["bad"]

    @property
    def rate(self) -> float:
        """Records published a second, since the run's first event."""
        seconds = self.changed - self.began
        return self.published / seconds if seconds > 0 else 0.0


class Progress:
    """Shows the runs' events: a table that moves on a terminal, a plain line an event elsewhere."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._lines: dict[str, Line] = {}
        self._live: Live | None = None

    def note(self, pipeline: str, event: Event) -> None:
        """The listener of the runs."""
        line = self._lines.setdefault(pipeline, Line())
        line.note(event)
        if self._live is not None:
            self._live.update(self._table())
        elif event.kind in ("claimed", "recovered", "ingested", "published"):
            facts = "  ".join(f"{name} {_short(value)}" for name, value in event.facts.items() if name != "fingerprint")
            self._screen.say(f"{time.strftime('%H:%M:%S')} {pipeline}: {event.kind}  {facts}")

    @contextlib.contextmanager
    def shown(self) -> Iterator[None]:
        """Shows the moving table while the block runs, on a terminal."""
        if not self._screen.live:
            yield
            return
        with Live(self._table(), console=self._screen.console, refresh_per_second=4, transient=True) as self._live:
            yield
        self._live = None

    def _table(self) -> Table:
        rows = [
            (name, one.state, one.cycle, one.ingested, one.published, one.bad, one.lag, f"{one.rate:,.0f}")
            for name, one in self._lines.items()
        ]
        numbers = ("cycle", "ingested", "published", "unreadable", "lag", "records/s")
        return table("pipeline", "now", *numbers, rows=rows, right=numbers)


def _short(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)
