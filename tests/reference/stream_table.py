"""The executable specification of the stream-table join: plain Python, one record at a time, nothing from `src`.

A task takes, among the heads of its partitions, the record with the smallest (stream time, table before stream, topic
as UTF-8 bytes, partition, offset); a table record replaces or deletes its key's row; a stream record looks its key up.
Written from Kafka Streams' rules (semantics sections 2 and 4), not from the kernels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

TABLE, STREAM = 0, 1
START = -1  # a partition's stream time before its first record


@dataclass(frozen=True)
class Record:
    """A record as it lies in a topic. A value of None is a tombstone in a table and gives no result in a stream."""

    source: str
    partition: int
    offset: int
    ts: int
    key: Any
    value: Any
    side: int  # TABLE or STREAM

    @property
    def at(self) -> tuple[str, int, int, int]:
        """Its coordinates; the last one is the attempt, 0 as Kafka gave it."""
        return (self.source, self.partition, self.offset, 0)


@dataclass(frozen=True)
class Row:
    """A result: the stream record's key and time, both values, and where it comes from."""

    key: Any
    left: Any
    right: Any
    ts: int
    trigger: tuple[int, int, str, int, int, int]
    kind: str
    contributors: tuple[tuple[str, int, int, int], ...]


def in_order(records: Iterable[Record]) -> list[tuple[int, Record]]:
    """Records with their stream times, in the order in which a task with these partitions takes them."""
    queues: dict[tuple[str, int], list[Record]] = {}
    for record in sorted(records, key=lambda one: one.offset):
        queues.setdefault((record.source, record.partition), []).append(record)
    clocks = dict.fromkeys(queues, START)
    taken: list[tuple[int, Record]] = []
    while any(queues.values()):
        heads = [
            (max(clocks[at], queue[0].ts), queue[0].side, at[0].encode(), at[1], at)
            for at, queue in queues.items()
            if queue
        ]
        stream_time, _, _, _, at = min(heads)
        clocks[at] = stream_time
        taken.append((stream_time, queues[at].pop(0)))
    return taken


def join(records: Iterable[Record], how: str, before: Mapping[Any, Record] | None = None) -> list[Row]:
    """The results of one task, in order.

    Args:
        records: of both sides.
        how: `inner` or `left`.
        before: rows of the table from earlier, by key.
    """
    table = dict(before or {})
    rows: list[Row] = []
    for stream_time, record in in_order(records):
        if record.side == TABLE:
            if record.key is None:
                continue
            if record.value is None:
                table.pop(record.key, None)
            else:
                table[record.key] = record
            continue
        if record.value is None:
            continue
        found = None if record.key is None else table.get(record.key)
        if found is None and how == "inner":
            continue
        rows.append(
            Row(
                key=record.key,
                left=record.value,
                right=None if found is None else found.value,
                ts=record.ts,
                trigger=(stream_time, STREAM, *record.at),
                kind="unmatched" if found is None else "matched",
                contributors=(record.at,) if found is None else (record.at, found.at),
            )
        )
    return rows


def state_after(records: Iterable[Record]) -> dict[Any, Record]:
    """The table's rows after these records, by key."""
    table: dict[Any, Record] = {}
    for _, record in in_order(records):
        if record.side == TABLE and record.key is not None:
            table.pop(record.key, None)
            if record.value is not None:
                table[record.key] = record
    return table


def split(records: Sequence[Record], stream_time: int) -> tuple[list[Record], list[Record]]:
    """What a cycle boundary at a stream time divides: records strictly below it, and the others."""
    below, others = [], []
    for time, record in in_order(records):
        (below if time < stream_time else others).append(record)
    return below, others
