"""The stream-global table join: a stream looks up a table by a key that it maps itself (semantics section 5).

The table is whole on every task and has no time: whoever wants it loaded first gives its records first.
`KStreamKTableJoinProcessor` without grace; KAFKA-10277 (null stream key), KAFKA-19208 (null mapped key).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.reference.records import Record, Result, value_of
from tests.reference.tables import LatestTable

KeyMapper = Callable[[Any, Any], Any]  # (stream key, stream value, which may be None) -> table key or None
GlobalJoiner = Callable[[Any, Any, Any, Any], Any]  # (key, left, right, mapped key) -> value (KIP-1340)


class StreamGlobalJoin:
    """`left` takes the stream's records, `right` the global table's."""

    def __init__(self, how: str, mapper: KeyMapper, joiner: GlobalJoiner) -> None:
        self._is_left = how == "left"
        self._mapper, self._joiner = mapper, joiner
        self._table = LatestTable()

    def right(self, record: Record) -> list[Result]:
        self._table.put(record)
        return []

    def left(self, record: Record) -> list[Result]:
        """A null stream key does no harm as long as the mapped key is there; the result keeps the stream's key."""
        mapped = self._mapper(record.key, record.value)
        if record.value is None:
            return []
        found = None if mapped is None else self._table.get(mapped)
        if found is None and not self._is_left:
            return []
        value = self._joiner(record.key, record.value, value_of(found), mapped)
        return [Result(record.key, value, record.ts, record, (record, found))]
