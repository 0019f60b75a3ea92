"""The foreign-key stream-table join: one stream record to many table rows (KIP-955, never built in Kafka).

The foreign key lies in the table's value: a row matches when fk(row) = stream key. What the proposal leaves open follows
the stream-table and the foreign-key joins by analogy (semantics section 11).
"""

from __future__ import annotations

from tests.reference.fk_table_table import ForeignKey
from tests.reference.records import Joiner, Record, Result, key_bytes, value_of
from tests.reference.tables import LatestTable


class ForeignKeyStreamJoin:
    """`left` takes the stream's records, `right` the table's; only the former give results, with their key and time."""

    def __init__(self, how: str, foreign_key: ForeignKey, joiner: Joiner) -> None:
        self._is_left = how == "left"
        self._foreign_key, self._joiner = foreign_key, joiner
        self._table = LatestTable()

    def right(self, record: Record) -> list[Result]:
        self._table.put(record)
        return []

    def left(self, record: Record) -> list[Result]:
        """One result a matching row, by table key bytes; a row without a foreign key matches nothing."""
        if record.value is None:
            return []
        matching: list[Record] = []
        if record.key is not None:
            matching = [row for row in self._table.rows() if self._foreign_key(row.key, row.value) == record.key]
        found: list[Record | None] = [*sorted(matching, key=lambda row: key_bytes(row.key))]
        if not found and self._is_left:
            found.append(None)
        return [
            Result(record.key, self._joiner(record.key, record.value, value_of(row)), record.ts, record, (record, row))
            for row in found
        ]
