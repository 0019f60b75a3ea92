"""Settling: how far bronze may be read because its order is settled there. Plain Python over ledger rows.

`caught_up` (Kafka's max.task.idle.ms=0): a partition holds the others back only while it is below the end that was
captured at the run's start. A cycle takes the records with stream_time strictly below the frontier, the minimum
stream_time over the partitions that hold back; when none does, it takes the rest. Since stream_time never falls within
a partition, the cut is one offset a partition. Source: DESIGN section 2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from lakestreams.engine.ledger import NO_TIME, Ingest, Plan, Range, TopicPartition

# Asks bronze for the part of each given stretch that lies strictly below a stream time (None: all of it), counted
# anew. Arguments: the stretches, the stream time, the first ingest batch that can hold their rows.
Cutter = Callable[[Sequence[Range], int | None, int], Mapping[TopicPartition, Range]]
Ends = Mapping[TopicPartition, int]


@dataclass(frozen=True)
class Backlog:
    """What is in bronze and not yet in a plan.

    Attributes:
        plan: the last plan, or None before the first.
        ingests: complete batches that may hold unplanned rows, ascending.
    """

    plan: Plan | None
    ingests: tuple[Ingest, ...]

    def open_ingests(self) -> tuple[Ingest, ...]:
        """The batches that the last plan has not emptied."""
        planned = self.plan.positions if self.plan else {}
        return tuple(
            ingest
            for ingest in self.ingests
            if any(part.to_offset > planned.get(part.at, part.from_offset) for part in ingest.ranges)
        )

    def stretches(self) -> tuple[dict[TopicPartition, Range], set[TopicPartition]]:
        """Per topic-partition one stretch: everything ingested and not planned.

        Returns:
            The stretches with their counts, and those whose counts are too high because a plan has cut a batch.
        """
        found = {
            part.at: Range(*part.at, part.to_offset, part.to_offset, stream_time_ms=part.stream_time_ms)
            for part in (self.plan.ranges if self.plan else ())
        }
        cut: set[TopicPartition] = set()
        for ingest in self.ingests:
            for part in ingest.ranges:
                before = found.get(part.at)
                if before is None:
                    found[part.at] = part
                elif part.to_offset > before.to_offset:
                    if part.from_offset < before.to_offset:
                        cut.add(part.at)
                    found[part.at] = replace(
                        part,
                        from_offset=before.from_offset,
                        records=before.records + part.records,
                        bad=before.bad + part.bad,
                        null_keys=before.null_keys + part.null_keys,
                        null_values=before.null_values + part.null_values,
                        lag_ms=max(before.lag_ms, part.lag_ms),
                    )
        return found, cut


def holding(stretches: Mapping[TopicPartition, Range], ends: Ends) -> dict[TopicPartition, int]:
    """The partitions that hold the others back, with their stream times.

    Args:
        stretches: what is ingested, per topic-partition.
        ends: the topics' ends captured at the run's start.
    """
    return {
        at: stretches[at].stream_time_ms if at in stretches else NO_TIME
        for at, end in ends.items()
        if (stretches[at].to_offset if at in stretches else 0) < end
    }


def next_plan(
    cycle: int,
    fingerprint: str,
    backlog: Backlog,
    ends: Ends,
    topic_ids: Mapping[str, str],
    cut: Cutter,
    whole: frozenset[str] = frozenset(),
) -> Plan | None:
    """The next cycle, or None if nothing is settled.

    Args:
        cycle: its number.
        fingerprint: of topology and configuration.
        backlog: what is ingested and not planned.
        ends: the topics' ends captured at the run's start; none of a partition that is read to its end.
        topic_ids: topic to Kafka's id.
        cut: asks bronze where a stretch reaches the frontier; called only if the frontier lies inside one.
        whole: topics of global tables: nothing is settled before they are read to the ends, and they hold nothing back.
    """
    stretches, miscounted = backlog.stretches()
    holds = holding(stretches, ends)
    if any(topic in whole for topic, _ in holds):
        return None
    frontier = min(holds.values(), default=None)
    seq_from = min((ingest.seq_from for ingest in backlog.open_ingests()), default=0)
    asked = [
        part
        for part in stretches.values()
        if part.to_offset > part.from_offset
        and part.topic not in whole
        and (part.at in miscounted or (frontier is not None and part.stream_time_ms >= frontier))
    ]
    taken = stretches | (dict(cut(asked, frontier, seq_from)) if asked else {})
    before = {part.at: part.stream_time_ms for part in (backlog.plan.ranges if backlog.plan else ())}
    for part in asked:
        if taken[part.at].to_offset == part.from_offset:  # nothing of it yet: its clock stays where it was
            taken[part.at] = replace(taken[part.at], stream_time_ms=before.get(part.at, NO_TIME))
    if not any(part.records for part in taken.values()):
        return None
    clocks = dict(backlog.plan.clocks) if backlog.plan else {}
    clock_before = max(clocks.values(), default=NO_TIME)
    for part in (one for one in taken.values() if one.topic not in whole):
        clocks[part.partition] = max(clocks.get(part.partition, NO_TIME), part.stream_time_ms)
    return Plan(
        cycle=cycle,
        fingerprint=fingerprint,
        ranges=tuple(
            replace(
                taken[at],
                end_offset=ends.get(at),
                lag_ms=max(taken[at].lag_ms, clock_before - before.get(at, NO_TIME)) if taken[at].records else 0,
            )
            for at in sorted(taken)
        ),
        clocks=clocks,
        seq_from=seq_from,
        seq=max(ingest.seq for ingest in backlog.ingests),
        topic_ids=topic_ids,
    )
