"""The executable specification of the stream-table join: plain Python, one record at a time, nothing from `src`.

Only stream records give results, each at most one, with its own key and time. A `latest` table shows the last record by
arrival; an `as_of` one (KIP-889 versioned) the version that was valid at the stream record's time, and then stream
records may wait for the table by a grace period (KIP-923). Semantics section 4, `KStreamKTableJoinProcessor`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.reference.order import in_order, split
from tests.reference.records import START, STREAM, TABLE, Joiner, Record, Result, key_bytes, value_of
from tests.reference.tables import LatestTable, VersionedTable

__all__ = ["STREAM", "TABLE", "Record", "Row", "StreamTableJoin", "in_order", "join", "split", "state_after"]


class StreamTableJoin:
    """`left` takes the stream's records, `right` the table's."""

    def __init__(
        self,
        how: str,
        table: LatestTable | VersionedTable,
        joiner: Joiner,
        *,
        grace_ms: int | None = None,
    ) -> None:
        if grace_ms is not None and not isinstance(table, VersionedTable):
            raise ValueError("KTable must be versioned to use a grace period in a stream table join.")
        self._is_left = how == "left"
        self._table, self._joiner, self._grace = table, joiner, grace_ms
        self._waiting: dict[int, list[Record]] = {}  # by task
        self._buffer_times: dict[int, int] = {}

    def right(self, record: Record) -> list[Result]:
        """Changes the table; waiting stream records stay where they are."""
        self._table.put(record)
        return []

    def left(self, record: Record) -> list[Result]:
        if record.value is None or (record.key is None and not self._is_left):
            return []
        if self._grace is None or record.key is None:
            # Kafka fails at a null key under a grace period; here it has no row to wait for and goes through.
            return self._look_up(record, record)
        task = record.task
        self._buffer_times[task] = max(self._buffer_times.get(task, START), record.ts)
        self._waiting.setdefault(task, []).append(record)
        ready = self._release(task, self._buffer_times[task] - self._grace)
        return [result for one in ready for result in self._look_up(one, record)]

    def _release(self, task: int, until: int) -> list[Record]:
        """Whose grace has passed by the stream side's clock, in the order (time, key bytes, arrival).

        A record that comes too late to wait is released at once and alone: the others up to there are gone already.
        """
        ready = [one for one in self._waiting[task] if one.ts <= until]
        self._waiting[task] = [one for one in self._waiting[task] if one.ts > until]
        return sorted(ready, key=lambda one: (one.ts, key_bytes(one.key)))

    def _look_up(self, record: Record, cause: Record) -> list[Result]:
        found = None
        if record.key is not None and isinstance(self._table, VersionedTable):
            found = self._table.as_of(record.key, record.ts, record.task)
        elif record.key is not None:
            found = self._table.get(record.key)
        if found is None and not self._is_left:
            return []
        value = self._joiner(record.key, record.value, value_of(found))
        return [Result(record.key, value, record.ts, cause, (record, found))]


# --- a whole task ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """A result with both values side by side and its lineage: the order of its trigger and the contributors."""

    key: Any
    left: Any
    right: Any
    ts: int
    trigger: tuple[int, int, str, int, int, int]
    kind: str
    contributors: tuple[tuple[str, int, int, int], ...]


def join(records: Iterable[Record], how: str, before: Mapping[Any, Record] | None = None) -> list[Row]:
    """The results of one task over a `latest` table, in order; `before` are the table's rows from earlier, by key."""
    page = StreamTableJoin(how, LatestTable(before), lambda _, left, right: (left, right))
    return [
        Row(
            key=result.key,
            left=result.value[0],
            right=result.value[1],
            ts=result.ts,
            trigger=(stream_time, result.cause.side, *result.cause.at),
            kind=result.kind,
            contributors=tuple(one.at for one in result.contributors if one is not None),
        )
        for stream_time, record in in_order(records)
        for result in (page.right(record) if record.side == TABLE else page.left(record))
    ]


def state_after(records: Iterable[Record]) -> dict[Any, Record]:
    """The table's rows after these records, by key."""
    table = LatestTable()
    for _, record in in_order(records):
        if record.side == TABLE:
            table.put(record)
    return {row.key: row for row in table.rows()}
