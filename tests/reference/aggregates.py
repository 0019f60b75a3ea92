"""Counts, reductions and aggregates of streams and of tables, and tables made of streams (semantics section 7)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.reference.records import Record, Result
from tests.reference.tables import LatestTable, Table

Fold = Callable[[Any, Any], Any]  # (aggregate, value) -> aggregate; None deletes the row
Group = Callable[[Any, Any], tuple[Any, Any]]  # (key, value) -> the key of the group and the value to fold in


@dataclass(frozen=True)
class Aggregator:
    """How values are folded. `initial` is what a new group starts from; None: its first value is the result as it is."""

    add: Fold
    subtract: Fold | None = None
    initial: Any = None

    def added(self, aggregate: Any, value: Any) -> Any:
        start = self.initial if aggregate is None else aggregate
        return value if start is None else self.add(start, value)


COUNT = Aggregator(lambda count, _: count + 1, lambda count, _: count - 1, 0)


class StreamAggregate:
    """Each record changes its key's row, which gets the greatest time seen (`KStreamAggregate`, `KStreamReduce`).

    A null key or value changes nothing.
    """

    def __init__(self, aggregator: Aggregator) -> None:
        self._aggregator = aggregator
        self._rows: dict[Any, tuple[Any, int]] = {}

    def put(self, record: Record) -> list[Result]:
        if record.key is None or record.value is None:
            return []
        stored, ts = self._rows.get(record.key, (None, record.ts))
        value, ts = self._aggregator.added(stored, record.value), max(ts, record.ts)
        self._rows[record.key] = (value, ts)
        return [Result(record.key, value, ts, record, (record,), stored)]


class TableAggregate:
    """Rows of a table in groups: a change takes the old row out of its group and puts the new one into its own.

    Out first; one result if both are the same group (KIP-904), else one each. A group key or value that is null leaves
    its half out. The time is the greatest seen where there was a row before (`KTableAggregate`, `KTableReduce`).
    """

    def __init__(self, table: Table, group: Group, aggregator: Aggregator) -> None:
        self._table, self._group, self._aggregator = table, group, aggregator
        self._rows: dict[Any, tuple[Any, int]] = {}

    def put(self, record: Record) -> list[Result]:
        change = self._table.put(record)
        if change is None:
            return []
        out, into = self._half(change.old), self._half(change.new)
        if out and into and out[0] == into[0]:
            return [self._changed(record, out[0], out[1], into[1])]
        halves = [self._changed(record, out[0], out[1], None)] if out else []
        return halves + ([self._changed(record, into[0], None, into[1])] if into else [])

    def _half(self, row: Record | None) -> tuple[Any, Any] | None:
        key, value = (None, None) if row is None else self._group(row.key, row.value)
        return None if key is None or value is None else (key, value)

    def _changed(self, cause: Record, key: Any, out: Any, into: Any) -> Result:
        stored, ts = self._rows.get(key, (None, cause.ts))
        value, ts = stored, max(ts, cause.ts)
        if out is not None and stored is not None and self._aggregator.subtract is not None:
            value = self._aggregator.subtract(value, out)
        if into is not None:
            value = self._aggregator.added(value, into)
        if value is None:
            self._rows.pop(key, None)
        else:
            self._rows[key] = (value, ts)
        return Result(key, value, ts, cause, (cause,), stored)


class ToTable:
    """A stream as a table: by arrival, whatever the time; null keys are no rows (`KStream.toTable`)."""

    def __init__(self) -> None:
        self._table = LatestTable()

    def put(self, record: Record) -> list[Result]:
        change = self._table.put(record)
        if change is None:
            return []
        return [Result(record.key, record.value, record.ts, record, (record,), change.old and change.old.value)]


Summary = Callable[[list[Any]], Any]  # of the values of a group, in the order in which they were written


@dataclass(frozen=True)
class Row(Result):
    """A group's row; a table's row is a plain record, whatever it was made of."""

    @property
    def kind(self) -> str:
        return "tombstone" if self.value is None else "record"


class SummedTable:
    """As `TableAggregate`, with each row worked out anew from all rows that the group then has.

    A group without rows is summed up as it is, or deleted.
    """

    def __init__(self, group: Callable[[Any, Any], Any], summary: Summary, *, delete: bool = False) -> None:
        self._group, self._summary, self._delete = group, summary, delete
        self._rows: dict[Any, tuple[Any, Any]] = {}  # key -> group, value
        self._times: dict[Any, int] = {}  # of the groups that are there

    def left(self, record: Record) -> list[Result]:
        old = self._rows.pop(record.key, (None, None))[0]
        new = None if record.value is None else self._group(record.key, record.value)
        found = [self._changed(old, record)] if old is not None and old != new else []
        if new is not None:
            self._rows[record.key] = (new, record.value)
            found.append(self._changed(new, record))
        return found

    def right(self, record: Record) -> list[Result]:
        raise NotImplementedError(record)

    def _changed(self, group: Any, cause: Record) -> Result:
        values = [value for own, value in self._rows.values() if own == group]
        ts = self._times[group] = max(self._times.get(group, cause.ts), cause.ts)
        if self._delete and not values:
            del self._times[group]
            return Row(group, None, ts, cause, (cause,))
        return Row(group, self._summary(values), ts, cause, (cause,))


class SummedStream:
    """As `StreamAggregate`, with each row worked out anew from all values so far."""

    def __init__(self, summary: Summary) -> None:
        self._summary = summary
        self._values: dict[Any, list[Any]] = {}
        self._times: dict[Any, int] = {}

    def left(self, record: Record) -> list[Result]:
        if record.key is None or record.value is None:
            return []
        return [self.entered(record.key, record)]

    def right(self, record: Record) -> list[Result]:
        raise NotImplementedError(record)

    def entered(self, group: Any, record: Record) -> Result:
        """A record comes into a group, whatever its key."""
        self._values.setdefault(group, []).append(record.value)
        self._times[group] = max(self._times.get(group, record.ts), record.ts)
        return Row(group, self._summary(self._values[group]), self._times[group], record, (record,))


class SummedWindows(SummedStream):
    """The same by time windows: `[start, start + size)` for each multiple of `advance`, 0 or later.

    A window takes no record once the clock of the record's task, the record included, has reached its end and grace.
    """

    def __init__(self, summary: Summary, size: int, advance: int, grace: int) -> None:
        super().__init__(summary)
        self._size, self._advance, self._grace = size, advance, grace
        self._clocks: dict[int, int] = {}
        self.late: list[Record] = []

    def left(self, record: Record) -> list[Result]:
        if record.key is None or record.value is None:
            return []  # none reaches the group's task; its own partition's later records bring its time along
        clock = max(self._clocks.get(record.task, record.ts), record.ts, record.stream_time)
        self._clocks[record.task] = clock
        starts = range(record.ts // self._advance * self._advance, -1, -self._advance)
        found = []
        for start in sorted(start for start in starts if start + self._size > record.ts):
            if start + self._size + self._grace > clock:
                found.append(self.entered((record.key, start), record))
            else:
                self.late.append(record)
        return found
