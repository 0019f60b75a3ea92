"""The foreign-key table-table join: many left rows to one right row (semantics section 10, KIP-213, KIP-1104).

What Kafka does with subscriptions and answers between two tasks, seen from outside once every answer has come. Rules of
4.1 and later (KAFKA-16394, KAFKA-16407, KAFKA-18713). `SubscriptionSendProcessorSupplier`, `ResponseJoin...`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.reference.records import Joiner, Record, Result, key_bytes, value_of
from tests.reference.tables import Table

ForeignKey = Callable[[Any, Any], Any]  # (key, value) of a row -> foreign key or None


class ForeignKeyJoin:
    """Results are keyed by the left key.

    With `result_cached` the result is a cached, queryable table: it swallows a tombstone for a key that it never had.
    """

    def __init__(
        self,
        how: str,
        left: Table,
        right: Table,
        foreign_key: ForeignKey,
        joiner: Joiner,
        *,
        result_cached: bool = False,
    ) -> None:
        self._is_left = how == "left"
        self._left, self._right = left, right
        self._foreign_key, self._joiner = foreign_key, joiner
        self._result_keys: set[Any] | None = set() if result_cached else None

    def left(self, record: Record) -> list[Result]:
        change = self._left.put(record)
        if change is None or (change.new is None and change.old is None):
            return []
        new, old = self._key_of(change.new), self._key_of(change.old)
        found = None if new is None else self._right.get(new)
        if change.new is None:
            # An inner tombstone is the answer of the row that it was subscribed to, with that row's time.
            answer = None if self._is_left or old is None else self._right.get(old)
            return self._tombstone(record, answer) if self._is_left or old is not None else []
        if found is not None or self._is_left:
            ts = record.ts if found is None else max(record.ts, found.ts)
            return self._row(change.new, found, ts, record)
        if old is None or old == new:
            return []  # nothing was there before, or nothing has changed for the right side
        return self._tombstone(record, self._right.get(old) if new is None else None)

    def right(self, record: Record) -> list[Result]:
        """One answer a subscriber, by left key bytes, whatever the change was; with the right record's time alone."""
        change = self._right.put(record)
        if change is None:
            return []
        subscribers = [row for row in self._left.rows() if self._key_of(row) == record.key]
        results = []
        for row in sorted(subscribers, key=lambda one: key_bytes(one.key)):
            if change.new is None and not self._is_left:
                results += self._forward(Result(row.key, None, record.ts, record, (row, None)))
            else:
                results += self._row(row, change.new, record.ts, record)
        return results

    def _key_of(self, row: Record | None) -> Any:
        return None if row is None else self._foreign_key(row.key, row.value)

    def _row(self, left: Record, right: Record | None, ts: int, cause: Record) -> list[Result]:
        value = self._joiner(left.key, left.value, value_of(right))
        return self._forward(Result(left.key, value, ts, cause, (left, right)))

    def _tombstone(self, cause: Record, answer: Record | None) -> list[Result]:
        ts = cause.ts if answer is None else max(cause.ts, answer.ts)
        return self._forward(Result(cause.key, None, ts, cause, (self._left.get(cause.key), None)))

    def _forward(self, result: Result) -> list[Result]:
        if self._result_keys is None:
            return [result]
        if result.value is not None:
            self._result_keys.add(result.key)
            return [result]
        if result.key not in self._result_keys:
            return []
        self._result_keys.discard(result.key)
        return [result]
