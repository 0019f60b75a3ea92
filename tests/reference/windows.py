"""What the two rule sets of the stream-stream join share: windows, stored records, rows (semantics 3.1 and 3.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tests.reference.records import START, Joiner, Record, Result, key_bytes

How = Literal["inner", "left", "outer"]
Emit = Literal["on_window_close", "eager"]
RIGHT, LEFT = 0, 1  # unmatched rows of one time: right before left (`TimestampedKeyAndJoinSideSerializer`)


@dataclass(frozen=True)
class Windows:
    """`JoinWindows`: right.ts lies in [left.ts - before, left.ts + after], both ends in it; one may be negative."""

    before_ms: int
    after_ms: int
    grace_ms: int = 0

    def __post_init__(self) -> None:
        if self.before_ms + self.after_ms < 0 or self.grace_ms < 0:
            raise ValueError(f"{self}: before + after and grace must not be negative")

    @property
    def retention_ms(self) -> int:
        return self.before_ms + self.after_ms + self.grace_ms


@dataclass
class Entry:
    """A record on its side; `n` is its place in the task's order, `waiting` whether it may still come out unmatched."""

    arm: int
    record: Record
    n: int
    waiting: bool = False

    def bounds(self, windows: Windows) -> tuple[int, int]:
        """From when to when its partners' times lie."""
        before, after = windows.before_ms, windows.after_ms
        if self.arm == RIGHT:
            before, after = after, before
        return self.record.ts - before, self.record.ts + after

    def close(self, windows: Windows) -> int:
        """The last clock at which it still takes part; for an unmatched row this must have passed."""
        return self.bounds(windows)[1] + windows.grace_ms

    @property
    def flush_order(self) -> tuple[int, int, bytes, int]:
        return (self.record.ts, self.arm, key_bytes(self.record.key), self.n)


class StreamStreamJoin:
    """State and rows of either rule set; `stream_stream.py` and `stream_stream_kafka.py` say what happens when."""

    def __init__(self, how: How, windows: Windows, joiner: Joiner, emit: Emit = "on_window_close") -> None:
        self.outer_sides = {"inner": (), "left": (LEFT,), "outer": (LEFT, RIGHT)}[how]
        self.windows, self.eager = windows, emit == "eager"
        self.stored: list[Entry] = []
        self.late: list[Record] = []
        self._joiner = joiner
        self._clocks: dict[int, int] = {}
        self._taken = 0

    def left(self, record: Record) -> list[Result]:
        return self._take(LEFT, record)

    def right(self, record: Record) -> list[Result]:
        return self._take(RIGHT, record)

    def process(self, entry: Entry) -> list[Result]:
        raise NotImplementedError

    def clock(self, task: int) -> int:
        """Running maximum over every record of the task, those with null key or value too (`TimeTracker`)."""
        return self._clocks.get(task, START)

    @property
    def horizon(self) -> int:
        """The greatest clock of all tasks."""
        return max(self._clocks.values(), default=START)

    def moves(self, record: Record) -> int:
        """What a record moves its task's clock to."""
        return record.ts

    def _take(self, arm: int, record: Record) -> list[Result]:
        self._taken += 1
        self._clocks[record.task] = max(self.clock(record.task), self.moves(record))
        return self.process(Entry(arm, record, self._taken))

    def is_outer(self, entry: Entry) -> bool:
        return entry.arm in self.outer_sides

    def alone(self, entry: Entry, cause: Record) -> Result:
        """An unmatched row: its record's own time."""
        record, is_left = entry.record, entry.arm == LEFT
        value = self._joiner(record.key, record.value if is_left else None, None if is_left else record.value)
        return Result(record.key, value, record.ts, cause, (record, None) if is_left else (None, record))

    def pair(self, entry: Entry, partner: Entry) -> Result:
        """A matched row, caused by the later record: the greater of both times (KAFKA-6455)."""
        left, right = (entry, partner) if entry.arm == LEFT else (partner, entry)
        value = self._joiner(entry.record.key, left.record.value, right.record.value)
        ts = max(left.record.ts, right.record.ts)
        return Result(entry.record.key, value, ts, entry.record, (left.record, right.record))

    def partners(self, entry: Entry, first: int, last: int) -> list[Entry]:
        """Stored records of the other side with its key and a time in [first, last]: by time, then arrival."""
        found = [
            other
            for other in self.stored
            if other.arm != entry.arm and other.record.key == entry.record.key and first <= other.record.ts <= last
        ]
        return sorted(found, key=lambda other: (other.record.ts, other.n))
