"""Settling: how far bronze may be read because its order is settled there. Plain Python over ledger rows.

`caught_up` (the default; Kafka's max.task.idle.ms=0): a partition holds the others back only while it is below the end that was
captured at the run's start. A cycle takes the records with stream_time strictly below the frontier, the minimum
stream_time over the partitions that hold back; when none does, it takes the rest. Since stream_time never falls within
a partition, the cut is one offset a partition.
`event_time`: every partition holds the others back, unless it has been silent for `idle_timeout`; what lies at or above
the frontier stays for a later run, and every task's clock moves on to the frontier.
How far it moves them is written down in the plan (its ticks). What moves clocks without a record is in `silence`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from lakestreams.engine.ledger.backlog import Backlog
from lakestreams.engine.ledger.pieces import divided, joined
from lakestreams.engine.ledger.plans import NO_TIME, Plan, Range
from lakestreams.kafka.noted import TopicPartition

# Asks bronze for the part of the given ranges that lies strictly below a stream time (None: all of it), counted again:
# one range a topic-partition, however many of it are given. Arguments: the ranges, ascending, the stream time, the first
# ingest batch that can hold their rows.
Cutter = Callable[[Sequence[Range], int | None, int], Mapping[TopicPartition, Range]]
Ends = Mapping[TopicPartition, int]


@dataclass(frozen=True)
class Frontier:
    """What the settling `event_time` goes by.

    Attributes:
        partitions: those that hold the others back: they have records, and have not been silent for too long.
        streams: the topics whose clocks move on to the frontier.
        tasks: how many tasks a step behind a new key can have; topics may have fewer partitions.
    """

    partitions: frozenset[TopicPartition]
    streams: frozenset[str]
    tasks: int = 0


def holding(ranges: Mapping[TopicPartition, Range], ends: Ends) -> dict[TopicPartition, int]:
    """The partitions that hold the others back, with their stream times.

    Args:
        ranges: what is ingested, per topic-partition.
        ends: the topics' ends captured at the run's start.
    """
    return {
        at: ranges[at].stream_time_ms if at in ranges else NO_TIME
        for at, end in ends.items()
        if (ranges[at].to_offset if at in ranges else 0) < end
    }


def next_plan(
    cycle: int,
    fingerprint: str,
    backlog: Backlog,
    ends: Ends,
    topic_ids: Mapping[str, str],
    cut: Cutter,
    whole: frozenset[str] = frozenset(),
    always: Frontier | None = None,
) -> Plan | None:
    """The next cycle, or None if nothing is settled.

    Args:
        fingerprint: of topology and configuration.
        backlog: what is ingested and not planned.
        ends: the topics' ends captured at the run's start; none of a partition that is read to its end.
        topic_ids: topic to Kafka's id.
        cut: asks bronze where a range reaches the frontier; called only if the frontier lies inside one.
        whole: topics of global tables: nothing is settled before they are read to the ends, and they hold nothing back.
        always: of the settling `event_time`, what holds the others back whether it has come to its end or not.
    """
    open_ranges, miscounted = backlog.open_ranges()
    holds = holding(open_ranges, ends)
    if any(topic in whole for topic, _ in holds):
        return None
    if always is not None:
        holding_back = (at for at in always.partitions if at[0] not in whole)
        holds = {at: open_ranges[at].stream_time_ms if at in open_ranges else NO_TIME for at in holding_back}
    frontier = min(holds.values(), default=None)
    asked = [
        part
        for part in open_ranges.values()
        if part.to_offset > part.from_offset
        and part.topic not in whole
        and (part.at in miscounted or (frontier is not None and part.stream_time_ms >= frontier))
    ]
    taken = open_ranges | _cut(backlog, asked, frontier, cut)
    again, moved = _replayed(backlog, frontier, whole, cut)
    if not any(part.records for part in (*taken.values(), *again.values())):
        return None
    for at, time in moved.items():
        if at in taken and time > taken[at].stream_time_ms:
            taken[at] = replace(taken[at], stream_time_ms=time)
    clocks = _clocks(backlog.plan, (part for part in taken.values() if part.topic not in whole))
    ticks = _ticks(taken, clocks, frontier, always)
    ranges = [replace(part, end_offset=ends.get(part.at)) for part in _with_lags(backlog, taken, again)]
    return Plan(
        cycle=cycle,
        fingerprint=fingerprint,
        ranges=tuple(sorted(ranges, key=lambda part: part.at)),
        clocks=clocks | {partition: time for (_, partition), time in ticks.items()},
        seq_from=backlog.seq_from,
        seq=max(ingest.seq for ingest in backlog.ingests),
        topic_ids=topic_ids,
        ticks=ticks,
        one_by_one=backlog.one_by_one(),
    )


def _cut(backlog: Backlog, asked: Sequence[Range], frontier: int | None, cut: Cutter) -> dict[TopicPartition, Range]:
    """These offset ranges, up to the frontier and counted again; bronze is asked only for what lies at their ends."""
    if not asked:
        return {}
    pieces, before = backlog.pieces(), backlog.stream_times()
    judged = {part.at: backlog.judged.get(part.topic, frozenset()) for part in asked}
    divisions = {part.at: divided(part, pieces.get(part.at, ()), frontier, judged[part.at]) for part in asked}
    read = [part for one in divisions.values() for part in one.read]
    counted = cut(read, frontier, backlog.seq_from) if read else {}
    found = {}
    for part in asked:
        one = joined(part, divisions[part.at], counted.get(part.at), judged[part.at])
        if one.to_offset == part.from_offset:  # nothing of it yet: its clock stays where it was
            one = replace(one, stream_time_ms=before.get(part.at, NO_TIME))
        found[part.at] = replace(one, homes=part.homes)  # what holds of all holds of some
    return found


def _replayed(
    backlog: Backlog, frontier: int | None, whole: frozenset[str], cut: Cutter
) -> tuple[dict[TopicPartition, Range], dict[TopicPartition, int]]:
    """The replayed records that may be planned, counted; and the stream times to which they move partitions."""
    again, moved = backlog.again(frontier, whole)
    uncounted = [part for part in again.values() if part.records and not backlog.is_judged(part)]
    for at, part in (cut(uncounted, None, backlog.seq_from) if uncounted else {}).items():
        again[at] = replace(part, stream_time_ms=again[at].stream_time_ms)
    return again, moved


def _clocks(plan: Plan | None, taken: Iterable[Range]) -> dict[int, int]:
    """Task to its clock behind these records."""
    clocks = dict(plan.clocks) if plan else {}
    for part in taken:
        clocks[part.partition] = max(clocks.get(part.partition, NO_TIME), part.stream_time_ms)
    return clocks


def _ticks(
    taken: Iterable[TopicPartition], clocks: Mapping[int, int], frontier: int | None, always: Frontier | None
) -> dict[TopicPartition, int]:
    """Of the settling `event_time`: the clocks that move on to the frontier without a record, of all tasks of each stream."""
    if always is None or frontier is None:
        return {}
    every = {at for at in taken if at[0] in always.streams}
    every |= {(topic, task) for topic in always.streams for task in range(always.tasks)}
    return {at: frontier for at in every if clocks.get(at[1], NO_TIME) < frontier}


def _with_lags(
    backlog: Backlog, taken: Mapping[TopicPartition, Range], again: Mapping[TopicPartition, Range]
) -> Iterator[Range]:
    """All these offset ranges, with how far their records lie behind any clock.

    A task's clock may be ahead of the partition's stream time, behind which a record lies.
    """
    clock = max(backlog.plan.clocks.values(), default=NO_TIME) if backlog.plan else NO_TIME
    before = backlog.stream_times()
    behind = {at: max(0, clock - before.get(at, NO_TIME)) for at in taken} | dict.fromkeys(again, max(0, clock))
    for at, part in {**taken, **again}.items():
        yield replace(part, lag_ms=part.lag_ms + behind[at] if part.records else 0)
