"""The idle policy: how clocks go on where no record comes, if the user says that they may. Plain Python over ledger rows.

Where a partition has been silent for `idle_timeout`, its task's clock goes on as time does (`idle_plan`), unless a
partition holds others back: what it holds lies in bronze, and no clock may pass it. How far clocks go is written down in
the plan (its ticks), so that whoever evaluates it again gets the same. Source: decision 0016.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from lakestreams.engine.ledger.plans import NO_TIME, REPLAYED, Plan, Range
from lakestreams.engine.ledger.settle import Frontier
from lakestreams.kafka.noted import TopicPartition


@dataclass(frozen=True)
class IdlePolicy:
    """How clocks go on where no record comes.

    Attributes:
        streams: the topics that are read as streams.
        tasks: how many tasks a step behind a new key can have; topics may have fewer partitions.
        longest_ms: how far a clock must pass a record's time until nothing of it waits any more.
        timeout_ms: how long a task's partitions must have been silent; None: they never are for too long.
    """

    streams: frozenset[str]
    tasks: int
    longest_ms: int
    timeout_ms: int | None = None


def longest_idle_ms(timeout_ms: int, longest_ms: int) -> int:
    """The longest idle time that matters: a longer one moves no clock further."""
    return max(timeout_ms, longest_ms + 1)


def idle_plan(
    cycle: int,
    fingerprint: str,
    plan: Plan | None,
    policy: IdlePolicy,
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
        policy: the rule.
        arrived: when the last records of each topic-partition were ingested, ms.
        always: of the settling `event_time`, what the plan before went by: as long as a partition holds others back, the
            frontier alone moves clocks. A record that it holds may go to any task, once it has a new key.
        drain: no record will ever come, says the user.
    """
    if plan is None or not policy.longest_ms or not (drain or policy.timeout_ms is not None):
        return None
    if always is not None and always.partitions:
        return None
    own = [part for part in plan.ranges if part.topic in policy.streams and not part.of_replays]
    clocks, furthest = _clocks(plan, own, policy, arrived, None if drain else now_ms)
    moved = {task: clock for task, clock in clocks.items() if clock > plan.clocks.get(task, NO_TIME)}
    if not moved:
        return None
    topics = {part.at for part in own}
    ticks = {at: moved[at[1]] for at in topics if at[1] in moved}
    if furthest is not None:  # each step hears of its own topics alone, and its keys may lie in any task
        # numbers of no partition are taken modulo a step's tasks: drained, those that have a partition get them, too
        numbers = range(2 * policy.tasks if drain else policy.tasks)
        every = {(topic, number) for topic in policy.streams for number in numbers}
        ticks |= dict.fromkeys(every - topics, furthest)
    ranges = tuple(replace(Range(*part.at, part.to_offset, part.to_offset), stream_time_ms=part.stream_time_ms,
                           end_offset=part.end_offset) for part in plan.ranges)  # fmt: skip
    return replace(plan, cycle=cycle, fingerprint=fingerprint, ranges=ranges, clocks=clocks, ticks=ticks)


def _clocks(
    plan: Plan, own: Sequence[Range], policy: IdlePolicy, arrived: Mapping[TopicPartition, int], now_ms: int | None
) -> tuple[dict[int, int], int | None]:
    """Task to its clock, moved on where its partitions have been silent; without a time of now as far as is of any use.

    And up to where tasks without a partition move, if all are silent.
    """
    tasks = {part.partition for part in own if part.stream_time_ms > NO_TIME}
    clocks, silent = dict(plan.clocks), set()
    for task in sorted(tasks):
        parts = [part for part in own if part.partition == task]
        stands = clocks.get(task, NO_TIME)
        moves = _moves(parts, stands, policy, arrived, now_ms)
        if moves is not None:
            silent.add(task)
            clocks[task] = max(stands, moves)
    if silent != tasks or not tasks:
        return clocks, None
    # a record that comes yet may lie in any task behind a new key; where none will come, all that lies there comes out
    furthest = (max if now_ms is None else min)(clocks[task] for task in tasks)
    clocks |= {
        task: furthest for task in range(policy.tasks) if task not in tasks and clocks.get(task, NO_TIME) < furthest
    }
    return clocks, furthest


def _moves(
    parts: Sequence[Range], stands: int, policy: IdlePolicy, arrived: Mapping[TopicPartition, int], now_ms: int | None
) -> int | None:
    """Up to where the clock of a task with these partitions moves; None: they have not been silent for long enough."""
    reached = max(part.stream_time_ms for part in parts)
    last = reached + policy.longest_ms + 1
    if now_ms is None:
        return last
    timeout = policy.timeout_ms or 0
    quiet = now_ms - max(_last_of(part, arrived, now_ms) for part in parts if part.stream_time_ms > NO_TIME)
    if quiet < timeout:
        return None
    moves = min(reached + quiet, last)
    return stands if moves < last and moves - stands < timeout else moves


def _last_of(part: Range, arrived: Mapping[TopicPartition, int], now_ms: int) -> int:
    """When a partition's last records came; replayed records of its topic may have been of it."""
    return max(arrived.get(part.at, now_ms), arrived.get((part.topic, REPLAYED), 0))
