"""Suppression of a table's updates: a buffer in front of its readers (semantics section 8.2).

`KTableSuppressProcessorSupplier`, `InMemoryTimeOrderedKeyValueChangeBuffer`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from tests.reference.records import START, Record, Result, key_bytes


class BufferFull(Exception):
    """More keys wait than fit, and the user asked for a stop."""


@dataclass(frozen=True)
class _Entry:
    time: int  # of the first update that waits; a later one keeps its place
    update: Record


class Suppress:
    """Holds updates back until the clock has gone on by `until_ms`; then the last one of a key comes out.

    The clock is that of the updates alone. It moves first, then the update is buffered, then what is due comes out by
    (time of the first update, key bytes), perhaps the update itself; then the oldest ones, until the rest fits. Until a
    window closes, an update waits from its window's end (`time_of`) for the grace (`until_ms`).
    """

    def __init__(
        self,
        until_ms: int,
        *,
        most: int | None = None,
        full: Literal["emit", "shutdown"] = "emit",
        time_of: Callable[[Record], int] = lambda update: update.ts,
    ) -> None:
        self._until, self._most, self._full, self._time_of = until_ms, most, full, time_of
        self._clock = START
        self._waiting: dict[Any, _Entry] = {}

    def put(self, update: Record) -> list[Record]:
        """The updates that come out while this one is processed, in order."""
        self._clock = max(self._clock, update.ts)
        first = self._waiting.get(update.key, _Entry(self._time_of(update), update))
        self._waiting[update.key] = replace(first, update=update)
        out = []
        for key, entry in sorted(self._waiting.items(), key=lambda one: (one[1].time, key_bytes(one[0]))):
            too_many = self._most is not None and len(self._waiting) > self._most
            due = entry.time <= self._clock - self._until
            if not due and too_many and self._full == "shutdown":
                raise BufferFull(f"{len(self._waiting)} keys wait, {self._most} fit")
            if due or too_many:
                out.append(self._waiting.pop(key).update)
        return out


def results(suppress: Suppress, update: Record) -> list[Result]:
    """What comes out, as results whose cause is the update that let them out."""
    return [Result(one.key, one.value, one.ts, update, (one,)) for one in suppress.put(update)]
