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
