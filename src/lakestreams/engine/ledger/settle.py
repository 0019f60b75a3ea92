"""Settling: how far bronze may be read because its order is settled there. Plain Python over ledger rows.

`caught_up` (the default; Kafka's max.task.idle.ms=0): a partition holds the others back only while it is below the end that was
captured at the run's start. A cycle takes the records with stream_time strictly below the frontier, the minimum
stream_time over the partitions that hold back; when none does, it takes the rest. Since stream_time never falls within
a partition, the cut is one offset a partition.
`event_time`: every partition holds the others back, unless it has been silent for `idle_timeout`; what lies at or above
the frontier stays for a later run, and every task's clock moves on to the frontier.
Where a partition has been silent for `idle_timeout`, its task's clock goes on as time does (`idle_plan`), unless a
partition holds others back: what it holds lies in bronze, and no clock may pass it. How far clocks go is written down in
the plan (its ticks), so that whoever evaluates it again gets the same. Source: DESIGN section 2, decision 0016.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lakestreams.engine.ledger.plans import ATTEMPTS, NO_TIME, Ingest, Plan, Range
from lakestreams.kafka.noted import TopicPartition

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
        judged: topic to what is judged of its records, by id.
    """

    plan: Plan | None
    ingests: tuple[Ingest, ...]
    judged: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def open_ingests(self) -> tuple[Ingest, ...]:
        """The batches that the last plan has not emptied."""
        planned = self.plan.positions if self.plan else {}
        return tuple(
            ingest
            for ingest in self.ingests
            if any(part.to_offset > planned.get(part.at, part.from_offset) for part in ingest.ranges)
        )

    def stretches(self) -> tuple[dict[TopicPartition, Range], set[TopicPartition]]:
        """Per topic-partition one stretch: everything ingested and not planned, but for replayed records.

        Returns:
            The stretches with their counts, and those to be counted anew: a plan has cut a batch, or what is judged
            has changed since.
        """
        found = {
            part.at: Range(*part.at, part.to_offset, part.to_offset, stream_time_ms=part.stream_time_ms)
            for part in (self.plan.ranges if self.plan else ())
            if not part.of_attempts
        }
        cut: set[TopicPartition] = set()
        for ingest in self.ingests:
            for part in (one for one in ingest.ranges if not one.of_attempts):
                before = found.get(part.at)
                if before is None:
                    found[part.at] = part
                elif part.to_offset > before.to_offset:
                    if part.from_offset < before.to_offset:
                        cut.add(part.at)
                    found[part.at] = part.beside(before)
        cut.update(part.at for part in found.values() if part.records and not self.is_judged(part))
        return found, cut

    def again(
        self, frontier: int | None, whole: frozenset[str]
    ) -> tuple[dict[TopicPartition, Range], dict[TopicPartition, int]]:
        """The replayed records that may be planned: whole batches, in their order, up to the first that reaches the frontier.

        They hold nothing back, and are held back like any others: else they would move clocks past records that wait.

        Args:
            frontier: the stream time that they must lie below; None: any.
            whole: topics that know no frontier.

        Returns:
            A stretch a topic that has any, and the stream times to which they move the partitions that they are of.
        """
        found = {
            part.at: Range(*part.at, part.to_offset, part.to_offset, stream_time_ms=part.stream_time_ms)
            for part in (self.plan.ranges if self.plan else ())
            if part.of_attempts
        }
        moved: dict[TopicPartition, int] = {}
        held: set[str] = set()
        for ingest in self.ingests:
            for part in (one for one in ingest.ranges if one.of_attempts):
                before = found.setdefault(part.at, Range(*part.at, part.from_offset, part.from_offset))
                if part.to_offset <= before.to_offset or part.topic in held:
                    continue
                below = None if part.topic in whole else frontier
                if below is not None and part.stream_time_ms >= below:
                    held.add(part.topic)
                    continue
                reached = max(before.stream_time_ms, part.stream_time_ms)
                found[part.at] = replace(part.beside(before), stream_time_ms=reached)
                # where a partition stands below the frontier, all that it had up to this batch is planned
                stands = {one.at: one.stream_time_ms for one in ingest.ranges if one.topic == part.topic}
                moved |= {at: time for at, time in stands.items() if below is None or time < below}
        return found, moved

    def is_judged(self, part: Range) -> bool:
        """Whether all is counted of a stretch that is judged now; what an earlier configuration judged is not enough."""
        return self.judged.get(part.topic, frozenset()) <= part.failed.keys()


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
    always: Frontier | None = None,
) -> Plan | None:
    """The next cycle, or None if nothing is settled.

    Args:
        fingerprint: of topology and configuration.
        backlog: what is ingested and not planned.
        ends: the topics' ends captured at the run's start; none of a partition that is read to its end.
        topic_ids: topic to Kafka's id.
        cut: asks bronze where a stretch reaches the frontier; called only if the frontier lies inside one.
        whole: topics of global tables: nothing is settled before they are read to the ends, and they hold nothing back.
        always: of the settling `event_time`, what holds the others back whether it has come to its end or not.
    """
    stretches, miscounted = backlog.stretches()
    holds = holding(stretches, ends)
    if any(topic in whole for topic, _ in holds):
        return None
    if always is not None:
        held = (at for at in always.partitions if at[0] not in whole)
        holds = {at: stretches[at].stream_time_ms if at in stretches else NO_TIME for at in held}
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
    again, moved = backlog.again(frontier, whole)
    uncounted = [part for part in again.values() if part.records and not backlog.is_judged(part)]
    for at, part in (cut(uncounted, None, seq_from) if uncounted else {}).items():
        again[at] = replace(part, stream_time_ms=again[at].stream_time_ms)
    if not any(part.records for part in (*taken.values(), *again.values())):
        return None
    for at, time in moved.items():
        if at in taken and time > taken[at].stream_time_ms:
            taken[at] = replace(taken[at], stream_time_ms=time)
    clocks = dict(backlog.plan.clocks) if backlog.plan else {}
    clock_before = max(clocks.values(), default=NO_TIME)
    for part in (one for one in taken.values() if one.topic not in whole):
        clocks[part.partition] = max(clocks.get(part.partition, NO_TIME), part.stream_time_ms)
    ticks: dict[TopicPartition, int] = {}
    if always is not None and frontier is not None:
        ticks = {at: frontier for at in taken if at[0] in always.streams and clocks.get(at[1], NO_TIME) < frontier}
        clocks |= {partition: frontier for _, partition in ticks}
    # how far behind any clock: the task's may be ahead of the partition's stream time, behind which a record lies
    behind = {at: max(0, clock_before - before.get(at, NO_TIME)) for at in taken} | dict.fromkeys(again, clock_before)
    taken |= again
    return Plan(
        cycle=cycle,
        fingerprint=fingerprint,
        ranges=tuple(
            replace(
                taken[at],
                end_offset=ends.get(at),
                lag_ms=taken[at].lag_ms + max(0, behind[at]) if taken[at].records else 0,
            )
            for at in sorted(taken)
        ),
        clocks=clocks,
        seq_from=seq_from,
        seq=max(ingest.seq for ingest in backlog.ingests),
        topic_ids=topic_ids,
        ticks=ticks,
    )


@dataclass(frozen=True)
class Frontier:
    """What the settling `event_time` goes by.

    Attributes:
        partitions: those that hold the others back: they have records, and have not been silent for too long.
        streams: the topics whose clocks move on to the frontier.
    """

    partitions: frozenset[TopicPartition]
    streams: frozenset[str]


@dataclass(frozen=True)
class Silence:
    """How clocks go on where no record comes.

    Attributes:
        streams: the topics that are read as streams.
        tasks: how many tasks a step can have; some may have no partition of their own.
        longest_ms: how far a clock must pass a record's time until nothing of it waits any more.
        timeout_ms: how long a task's partitions must have been silent; None: they never are for too long.
    """

    streams: frozenset[str]
    tasks: int
    longest_ms: int
    timeout_ms: int | None = None


def idle_plan(
    cycle: int,
    fingerprint: str,
    plan: Plan | None,
    silence: Silence,
    arrived: Mapping[TopicPartition, int],
    now_ms: int,
    always: Frontier | None = None,
    *,
    drain: bool = False,
) -> Plan | None:
    """A cycle without records that moves clocks on, or None if none is due.

    A task whose partitions have all been silent for the timeout has its clock where it would be if its last record's time
    had gone on by itself since; no further than it takes for all that waits to come out, and not more often than once a
    timeout. `drain`: as far as that at once, whatever the time.

    Args:
        fingerprint: of topology and configuration.
        plan: the last one, after which nothing is left to plan.
        silence: the rule.
        arrived: when the last records of each topic-partition were ingested, ms.
        always: of the settling `event_time`, what the plan before went by: as long as a partition holds others back, the
            frontier alone moves clocks. A record that it holds may go to any task, once it has a new key.
        drain: no record will ever come, says the user.
    """
    if plan is None or not silence.longest_ms or not (drain or silence.timeout_ms is not None):
        return None
    if always is not None and always.partitions:
        return None
    own = [part for part in plan.ranges if part.topic in silence.streams and not part.of_attempts]
    tasks = {part.partition for part in own if part.stream_time_ms > NO_TIME}
    clocks, silent = dict(plan.clocks), set()
    for task in sorted(tasks):
        parts = [part for part in own if part.partition == task]
        reached = max(part.stream_time_ms for part in parts)
        last = reached + silence.longest_ms + 1
        stands, moves = clocks.get(task, NO_TIME), last
        if not drain:
            timeout = silence.timeout_ms or 0
            quiet = now_ms - max(_last_of(part, arrived, now_ms) for part in parts if part.stream_time_ms > NO_TIME)
            if quiet < timeout:
                continue
            moves = min(reached + quiet, last)
            if moves < last and moves - stands < timeout:
                moves = stands
        silent.add(task)
        clocks[task] = max(stands, moves)
    if silent == tasks and tasks:  # a re-keyed step may have more tasks than there are partitions
        furthest = min(clocks[task] for task in tasks)
        clocks |= {task: furthest for task in range(silence.tasks) if clocks.get(task, NO_TIME) < furthest}
    moved = {task: clock for task, clock in clocks.items() if clock > plan.clocks.get(task, NO_TIME)}
    if not moved:
        return None
    topics = {part.at for part in own}
    first = min(silence.streams)
    ticks = {
        (topic, task): clock
        for task, clock in moved.items()
        for topic in sorted(name for name, partition in topics if partition == task) or [first]
    }
    ranges = tuple(replace(Range(*part.at, part.to_offset, part.to_offset), stream_time_ms=part.stream_time_ms,
                           end_offset=part.end_offset) for part in plan.ranges)  # fmt: skip
    return replace(plan, cycle=cycle, fingerprint=fingerprint, ranges=ranges, clocks=clocks, ticks=ticks)


def _last_of(part: Range, arrived: Mapping[TopicPartition, int], now_ms: int) -> int:
    """When a partition's last records came; replayed records of its topic may have been of it."""
    return max(arrived.get(part.at, now_ms), arrived.get((part.topic, ATTEMPTS), 0))
