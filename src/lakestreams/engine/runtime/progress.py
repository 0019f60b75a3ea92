"""What a run tells while it works and when it is done: events, the summary, time by stage."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Event:
    """Something that happened in a run, for progress displays.

    Attributes:
        kind: checked, claimed, recovered, started, checkpoint, ingested, planned, published, finished, snapshot.
        facts: numbers and names that belong to it.
    """

    kind: str
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Summary:
    """What a run did.

    Attributes:
        epoch: the epoch it ran under.
        cycles: how many cycles it finished.
        records: bronze rows taken by them.
        bad: those among them that could not be read.
        seconds: wall time by stage.
        warnings: what was accepted and should be known.
        notes: what its outputs do not promise.
    """

    epoch: int = 0
    cycles: int = 0
    records: int = 0
    bad: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


Listener = Callable[[Event], None]


class Timer:
    """Adds the wall time of a block to a stage."""

    def __init__(self, seconds: dict[str, float], stage: str) -> None:
        self._seconds = seconds
        self._stage = stage
        self._began = 0.0

    def __enter__(self) -> None:
        self._began = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self._seconds[self._stage] = self._seconds.get(self._stage, 0.0) + time.perf_counter() - self._began


@dataclass
class Reporter:
    """Tells the user of a run: events as they come, and the summary.

    Attributes:
        summary: filled while the run goes on.
        listener: gets every event.
    """

    summary: Summary
    listener: Listener = lambda _: None

    def tell(self, kind: str, **facts: Any) -> None:
        """Tells the listener of an event."""
        self.listener(Event(kind, facts))

    def warn(self, *texts: str) -> None:
        """Adds warnings to the summary."""
        self.summary.warnings += texts

    def warn_once(self, *texts: str) -> None:
        """Adds those warnings that the summary does not have."""
        self.summary.warnings += [text for text in texts if text not in self.summary.warnings]

    def timed(self, stage: str) -> Timer:
        """Adds the time of a block to a stage of the summary."""
        return Timer(self.summary.seconds, stage)


def wall_clock_ms() -> int:
    """The machine's time."""
    return time.time_ns() // 1_000_000
