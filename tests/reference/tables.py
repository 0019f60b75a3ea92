"""Tables: the latest row of each key by arrival, or every version within a retention by event time (semantics 7, 8.1).

State is by key over all partitions; a store's clock is the task's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from tests.reference.records import START, Record


@dataclass(frozen=True)
class Change:
    """What a table tells its readers: the row that is valid now and the one before; None is no row."""

    new: Record | None
    old: Record | None


class Table(Protocol):
    def put(self, record: Record) -> Change | None:
        """Applies a record; None if the readers hear nothing of it."""

    def get(self, key: Any) -> Record | None:
        """The key's latest row."""

    def rows(self) -> Iterator[Record]:
        """The latest row of every key that has one."""


def make_table(
    *, versioned: bool, retention_ms: int | None = None, cached: bool = False
) -> LatestTable | VersionedTable:
    """A versioned store is never cached (section 8.1)."""
    if not versioned:
        return LatestTable(cached=cached)
    if retention_ms is None:
        raise ValueError("a versioned table needs a history retention")
    return VersionedTable(retention_ms)


class LatestTable:
    """The last record by arrival wins, whatever its time (`KTableSource`).

    With a record cache in front, flushed after each record, a delete of a row that is not there is swallowed
    (`CachingKeyValueStore`).
    """

    def __init__(self, rows: Mapping[Any, Record] | None = None, *, cached: bool = False) -> None:
        self._rows = dict(rows or {})
        self._cached = cached

    def put(self, record: Record) -> Change | None:
        if record.key is None:
            return None
        old = self._rows.pop(record.key, None)
        if record.value is not None:
            self._rows[record.key] = record
            return Change(record, old)
        return None if self._cached and old is None else Change(None, old)

    def get(self, key: Any) -> Record | None:
        return self._rows.get(key)

    def rows(self) -> Iterator[Record]:
        return iter(self._rows.values())


class VersionedTable:
    """Versions by event time, tombstones among them (KIP-889, KIP-914, `RocksDBVersionedStore`).

    A put below the store's clock - retention is ignored. A put that is not the key's latest goes into the history, and
    readers of the table as a table hear nothing of it.

    Kafka keeps the latest live row apart from the closed versions and remembers no tombstone but as an end of those.
    `_ends` is the newest such end of a key. A tombstone at the very time of the live row leaves no trace unless that
    time is an end already: it vanishes together with the row, and an older record may then be the latest (section 7).
    """

    def __init__(self, retention_ms: int) -> None:
        self._retention = retention_ms
        self._clocks: dict[int, int] = {}
        self._history: dict[Any, list[Record]] = {}  # of a key, oldest first; at most one version a time
        self._ends: dict[Any, int] = {}

    def put(self, record: Record) -> Change | None:
        key, ts = record.key, record.ts
        if key is None or ts < self._bound(record.task):
            return None
        self._clocks[record.task] = max(self._clocks.get(record.task, START), ts)
        live, end = self.get(key), self._ends.get(key, START)
        is_latest = ts >= (end if live is None else live.ts)
        if is_latest:
            closes = record.value is None if live is None else ts > live.ts
            self._ends[key] = ts if closes else end
            vanishes = record.value is None and self._ends[key] < ts
        else:
            self._ends[key] = live.ts if live is not None and ts >= end else end
            vanishes = False
        versions = [one for one in self._history.get(key, []) if one.ts != ts] + ([] if vanishes else [record])
        self._history[key] = sorted(versions, key=lambda one: one.ts)
        return Change(None if record.value is None else record, live) if is_latest else None

    def get(self, key: Any) -> Record | None:
        history = self._history.get(key)
        return history[-1] if history and history[-1].value is not None else None

    def as_of(self, key: Any, ts: int, task: int) -> Record | None:
        """The newest version at or before a time; below the retention only the latest version counts.

        So it does in a task that has taken no version, where Kafka would find none: the key's lie in another task.
        """
        versions = self._history.get(key, [])
        if task not in self._clocks or ts < self._bound(task):
            versions = versions[-1:]
        found = [one for one in versions if one.ts <= ts][-1:]
        return found[0] if found and found[0].value is not None else None

    def rows(self) -> Iterator[Record]:
        return (history[-1] for history in self._history.values() if history and history[-1].value is not None)

    def _bound(self, task: int) -> int:
        return self._clocks.get(task, START) - self._retention
