"""Suppression over arrays: a table's updates wait in a buffer, and only the last one of a while comes out.

The law: the buffer of a task holds one update per key; a later one replaces it, and waits on in its place and from its
time. An update moves the task's clock (the running maximum of the updates' times), is buffered, and lets out all that
has waited `wait_ms` since its time or since its window's end, perhaps itself. If more keys wait than may, the oldest
come out early, by the time of the first update that waited, then by the key's bytes; or the run stops.

Source: Kafka Streams' KTableSuppressProcessorSupplier and InMemoryTimeOrderedKeyValueChangeBuffer; semantics section 8.2.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from lakestreams.errors import BufferFull
from lakestreams.operators.segments import Flags, Ints, groups

if TYPE_CHECKING:
    from lakestreams.topology.kinds import WhenFull

STAYS: Final = -1  # the trigger of what still waits


@dataclass(frozen=True)
class Hold:
    """The options of a buffer.

    Attributes:
        until_ms: how long updates wait; None: until their window has closed.
        grace_ms: of the windows, where they wait for those.
        max_records: how many keys a task holds, or None.
        name: the step's, for the message when a buffer is full.
    """

    until_ms: int | None
    grace_ms: int = 0
    max_records: int | None = None
    when_full: WhenFull = "emit"
    name: str = "suppress"

    @property
    def is_final(self) -> bool:
        """Whether only a window's final row comes out."""
        return self.until_ms is None

    @property
    def wait_ms(self) -> int:
        """How long an update waits."""
        return self.grace_ms if self.until_ms is None else self.until_ms


@dataclass(frozen=True)
class Rows:
    """Updates in their order, those that wait from before among them; times in ms."""

    task: Ints
    key: Ints  # equal numbers for equal keys
    rank: Ints  # numbers in the order of the keys' bytes; looked at where a buffer is bounded
    time: Ints
    since: Ints  # from when the update waits
    stood: Ints  # where its task's clock stood before these rows
    step: Flags  # whether it moves the clock, which what waits from before has done
    tick: Flags  # no update, only a move of the clock


class Waits(NamedTuple):
    """Updates of a key that come out as one: places of the first and the last one, and of the one that lets it out."""

    first: Ints
    last: Ints
    trigger: Ints


def waits(rows: Rows, hold: Hold) -> Waits:
    """All waits, those that go on among them.

    Raises:
        BufferFull: if the options say so.
    """
    found = [wait for task, places in groups(rows.task) for wait in _of_task(rows, hold, task, places)]
    return Waits(*np.array(found, np.int64).reshape(-1, 3).T)


def _of_task(rows: Rows, hold: Hold, task: int, places: Ints) -> Iterator[tuple[int, int, int]]:
    names = ("key", "rank", "time", "since", "step", "tick")
    columns = (getattr(rows, name)[places].tolist() for name in names)
    clock, wait_ms, most = int(rows.stood[places].max()), hold.wait_ms, hold.max_records
    held: dict[int, list[int]] = {}  # key to the places of its first and last update
    by_time: list[tuple[int, int, int]] = []
    for place, key, rank, time, since, step, tick in zip(places.tolist(), *columns, strict=True):
        if key in held and not tick:
            held[key][1] = place
        elif not tick:
            held[key] = [place, place]
            heappush(by_time, (since, rank, key))
        if not step:
            continue
        clock = max(clock, time)
        while by_time and (by_time[0][0] + wait_ms <= clock or (most is not None and len(held) > most)):
            oldest, _, gone = heappop(by_time)
            if hold.when_full == "shutdown" and oldest + wait_ms > clock:
                msg = f'suppress "{hold.name}": {len(held)} keys wait in task {task}, max_records is {most}'
                raise BufferFull(msg)
            first, last = held.pop(gone)
            yield first, last, place
    for first, last in held.values():
        yield first, last, STAYS
