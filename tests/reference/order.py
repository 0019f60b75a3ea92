"""The order in which a task takes its records: Kafka's choice among queues, made total (semantics section 2).

A task takes, among the heads of its partitions, the record with the smallest (stream time, table before stream, topic
as UTF-8 bytes, partition, offset), and never reorders a partition (`PartitionGroup`; ties are lakestreams' choice).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tests.reference.records import START, Record


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


def timed(records: Iterable[Record]) -> list[Record]:
    """Records in order, each carrying the stream time of its topic-partition."""
    return [replace(record, stream_time=time) for time, record in in_order(records)]


def split(records: Sequence[Record], stream_time: int) -> tuple[list[Record], list[Record]]:
    """What a cycle boundary at a stream time divides: records strictly below it, and the others."""
    below: list[Record] = []
    others: list[Record] = []
    for time, record in in_order(records):
        (below if time < stream_time else others).append(record)
    return below, others
