"""Settling as plain Python: frontier, cut, clocks, counts."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from lakestreams.engine.ledger.backlog import Backlog
from lakestreams.engine.ledger.idle_policy import IdlePolicy, idle_plan, longest_idle_ms
from lakestreams.engine.ledger.plans import REPLAYED, Ingest, Plan, Range
from lakestreams.engine.ledger.settle import Frontier, holding, next_plan
from lakestreams.engine.publish.cycle import RunCounts
from lakestreams.kafka.noted import TopicPartition

Log = Mapping[TopicPartition, Sequence[int]]  # event times by offset


def batch(log: Log, seq: int, stretches: Mapping[TopicPartition, tuple[int, int]]) -> Ingest:
    """The ingest row that bronze rows of these stretches would give."""
    ranges = []
    for (topic, partition), (start, end) in sorted(stretches.items()):
        time = max([-1, *log[topic, partition][:end]])
        ranges.append(Range(topic, partition, start, end, records=end - start, stream_time_ms=time))
    return Ingest(seq, seq, tuple(ranges))


def cutter(log: Log):
    """What bronze answers, computed from the log itself."""

    def cut(stretches: Sequence[Range], below: int | None, _: int) -> Mapping[TopicPartition, Range]:
        parts = {}
        for one in stretches:
            end = one.from_offset
            while end < one.to_offset and (below is None or max(log[one.at][: end + 1]) < below):
                end += 1
            time = max([-1, *log[one.at][:end]])
            parts[one.at] = Range(*one.at, one.from_offset, end, records=end - one.from_offset, stream_time_ms=time)
        return parts

    return cut


def plan(
    log: Log,
    before: Plan | None,
    ingests: Sequence[Ingest],
    ends: Mapping[TopicPartition, int],
    whole: frozenset[str] = frozenset(),
) -> Plan | None:
    number = before.cycle + 1 if before else 1
    return next_plan(number, "f", Backlog(before, tuple(ingests)), ends, {}, cutter(log), whole)


V, U = ("views", 0), ("users", 0)


def test_records_read_by_themselves_count_for_the_first_plan_that_knows_their_batch() -> None:
    """However it cuts the batch. Of batches that another driver has ingested nothing is known, nor are replays counted."""
    log = {V: [1, 2, 3, 4], U: [9, 9]}
    one, two, three = (batch(log, seq, {V: (seq - 1, seq), U: (min(seq - 1, 1), 1)}) for seq in (1, 2, 3))
    known = [replace(one, one_by_one={"views": 3, "users": None}), replace(two, one_by_one={"views": 0})]
    first = plan(log, None, known, {V: 9, U: 1})
    assert first is not None
    assert first.one_by_one == {"users": None, "views": 3}
    again = replace(three, ranges=(*three.ranges, Range("more", REPLAYED, 3, 4, records=1)))
    second = plan(log, first, [*known, again], {})
    assert second is not None
    assert second.one_by_one == {"views": None}


def test_a_partition_below_its_end_holds_the_others_at_its_stream_time() -> None:
    log = {V: [1, 2, 3, 9], U: [0, 2, 5]}
    ingests = [batch(log, 1, {V: (0, 4), U: (0, 2)})]
    first = plan(log, None, ingests, {V: 4, U: 3})
    assert first is not None
    assert {part.at: part.to_offset for part in first.ranges} == {V: 1, U: 1}, "strictly below stream time 2"
    assert first.clocks == {0: 1}


def test_a_partition_at_its_end_holds_nothing() -> None:
    log = {V: [1, 2, 3, 9], U: [0]}
    ingests = [batch(log, 1, {V: (0, 4), U: (0, 1)})]
    assert holding(Backlog(None, tuple(ingests)).open_ranges()[0], {V: 4, U: 1}) == {}
    first = plan(log, None, ingests, {V: 4, U: 1})
    assert first is not None
    assert first.positions == {V: 4, U: 1}


def test_a_partition_never_read_holds_everything() -> None:
    log = {V: [1, 2], U: [0]}
    assert plan(log, None, [batch(log, 1, {V: (0, 2)})], {V: 2, U: 1}) is None


def test_nothing_is_planned_before_a_global_table_is_read_to_its_end() -> None:
    """Not even what lies below all that is still to come of it: it is looked up as a whole, whatever its times."""
    log = {V: [1, 2], U: [100, 101, 102]}
    ends = {V: 2, U: 3}
    ingests = [batch(log, 1, {V: (0, 2), U: (0, 2)})]
    assert plan(log, None, ingests, ends, frozenset({"users"})) is None
    ingests.append(batch(log, 2, {U: (2, 3)}))
    first = plan(log, None, ingests, ends, frozenset({"users"}))
    assert first is not None
    assert first.positions == ends


def test_counts_after_a_cut_are_counted_anew() -> None:
    log = {V: [1, 2, 3, 9], U: [0, 2, 5]}
    ingests = [batch(log, 1, {V: (0, 4), U: (0, 2)})]
    first = plan(log, None, ingests, {V: 4, U: 3})
    rest = plan(log, first, ingests, {})
    assert first is not None
    assert rest is not None
    assert {part.at: part.records for part in first.ranges} == {V: 1, U: 1}
    assert {part.at: part.records for part in rest.ranges} == {V: 3, U: 1}
    assert rest.clocks == {0: 9}


logs = st.dictionaries(
    st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 2)),
    st.lists(st.integers(0, 20), max_size=12),
    min_size=1,
    max_size=5,
)


@given(logs, st.randoms(use_true_random=False))
def test_any_cut_plans_every_record_once_in_one_order(log: Log, random) -> None:
    """Cycle by cycle, the order of records by (cycle, stream time, ...) is the one that a single cycle gives."""
    ends = {at: len(times) for at, times in log.items()}
    at_offset = dict.fromkeys(log, 0)
    ingests: list[Ingest] = []
    before: Plan | None = None
    order: list[tuple[int, TopicPartition, int]] = []

    def taken(plan: Plan) -> list[tuple[int, TopicPartition, int]]:
        rows = [
            (max(log[part.at][: offset + 1]), part.at, offset)
            for part in plan.ranges
            for offset in range(part.from_offset, part.to_offset)
        ]
        return sorted(rows)

    while any(at_offset[at] < ends[at] for at in log):
        # one of them moves in any case: a batch of nothing is none, and the loop comes to its end
        first = next(at for at in log if at_offset[at] < ends[at])
        step = {at: random.randint(int(at == first), 4) for at in log}
        moves = {at: (at_offset[at], min(ends[at], at_offset[at] + step[at])) for at in log}
        ingests.append(batch(log, len(ingests) + 1, moves))
        at_offset = {at: end for at, (_, end) in moves.items()}
        found = plan(log, before, ingests, ends)
        if found is not None:
            order += taken(found)
            before = found
    rest = plan(log, before, ingests, {}) if ingests else None
    order += taken(rest) if rest else []
    whole = [(max(times[: offset + 1]), at, offset) for at, times in log.items() for offset in range(len(times))]
    assert order == sorted(whole)


def test_how_late_a_record_can_be_is_told_from_the_clock_that_may_judge_it() -> None:
    """It lies behind its partition's stream time, which lies behind the clock that the other topic has moved on."""
    first = plan({V: [1_000], U: [500]}, None, [batch({V: [1_000], U: [500]}, 1, {V: (0, 1), U: (0, 1)})], {})
    part = Range(*U, 1, 2, records=1, stream_time_ms=510, lag_ms=60)  # at 450
    second = plan({}, first, [Ingest(2, 2, (Range(*V, 1, 1, stream_time_ms=1_000), part))], {})
    assert second is not None
    assert {one.at: one.lag_ms >= 550 for one in second.ranges if one.records} == {U: True}


# --- replayed records ------------------------------------------------------------------------------------------------

AGAIN = ("views", REPLAYED)


def replayed(seq: int, before: Ingest, times: Mapping[TopicPartition, Sequence[int]], bad: int = 0) -> Ingest:
    """The ingest row of a request for attempts at records of one topic, with these event times."""
    ((topic, _), *_) = times
    ranges = {part.at: Range(*part.at, part.to_offset, part.to_offset, stream_time_ms=part.stream_time_ms)
              for part in before.ranges}  # fmt: skip
    for at, own in times.items():
        ranges[at] = Range(*at, ranges[at].to_offset, ranges[at].to_offset,
                           stream_time_ms=max([ranges[at].stream_time_ms, *own]))  # fmt: skip
    start = ranges[topic, REPLAYED].to_offset if (topic, REPLAYED) in ranges else seq
    ranges[topic, REPLAYED] = Range(
        topic, REPLAYED, start, seq + 1, records=sum(map(len, times.values())), bad=bad,
        stream_time_ms=max(ranges[at].stream_time_ms for at in times),
    )  # fmt: skip
    return Ingest(seq, seq, tuple(ranges[at] for at in sorted(ranges)), request=seq)


def test_replayed_records_are_planned_whole_and_move_their_partition() -> None:
    log = {V: [1, 5], U: [3]}
    read = batch(log, 1, {V: (0, 2), U: (0, 1)})
    first = plan(log, None, [read], {})
    again = replayed(2, read, {V: [2, 9]}, bad=1)
    second = plan(log, first, [read, again], {})
    assert second is not None
    assert {part.at: part.records for part in second.ranges} == {V: 0, U: 0, AGAIN: 2}
    assert second.positions == {V: 2, U: 1, AGAIN: 3}
    assert {part.at: part.stream_time_ms for part in second.ranges} == {V: 9, U: 3, AGAIN: 9}
    assert second.clocks == {0: 9}, "no task is named after them"
    assert (second.seq_from, second.seq) == (2, 2)
    assert plan(log, second, [read, again], {}) is None, "once"
    counts = RunCounts()
    counts.add(second)
    assert counts.bad == {"views": 0, "users": 0}, "the producer's share knows nothing of them"


def test_replayed_records_wait_for_the_frontier_and_hold_nothing_back() -> None:
    log = {V: [1, 5, 6], U: [3, 4]}
    read = batch(log, 1, {V: (0, 2), U: (0, 1)})
    again = replayed(2, read, {V: [2]})  # at the stream time that it finds: 5
    waits = plan(log, None, [read, again], {V: 2, U: 2})
    assert waits is not None
    assert waits.positions == {V: 1, U: 0, AGAIN: 2}, "users stand at 3"
    assert Backlog(waits, (read, again)).open_ingests() == (read, again)
    more = batch(log, 3, {V: (2, 2), U: (1, 2)})
    more = Ingest(3, 3, (*more.ranges, Range(*AGAIN, 3, 3)), request=2)
    rest = plan(log, waits, [read, again, more], {V: 2, U: 2})
    assert rest is not None
    assert rest.positions == {V: 2, U: 2, AGAIN: 3}
    assert rest.seq_from == 1


def test_a_silent_task_has_heard_of_what_was_replayed() -> None:
    plan = planned({V: 1_000})
    arrived = {V: 10_000}
    assert quiet(plan, arrived, 10_060) is not None
    assert quiet(plan, arrived | {AGAIN: 10_050}, 10_060) is None


@given(st.data())
def test_any_mixture_of_batches_and_requests_is_planned_once_and_in_order(data: st.DataObject) -> None:
    """Stream times never fall over the cycles of a partition, and a request is taken below the frontier, or at the end."""
    partitions = [("a", 0), ("a", 1), ("b", 0)]
    log = {at: data.draw(st.lists(st.integers(0, 20), max_size=8)) for at in partitions}
    done = dict.fromkeys(partitions, 0)
    ingests: list[Ingest] = [Ingest(0, 0, tuple(Range(*at, 0, 0) for at in partitions))]
    stands = dict.fromkeys(partitions, -1)
    requests: list[int] = []
    before: Plan | None = None
    plans: list[Plan] = []

    def cut(stretches: Sequence[Range], below: int | None, _: int) -> Mapping[TopicPartition, Range]:
        found = {}
        for one in stretches:
            rows = [(offset, time) for offset, time in enumerate(times[one.at])
                    if one.from_offset <= offset < one.to_offset]  # fmt: skip
            taken = [(offset, time) for offset, time in rows if below is None or time < below]
            end = taken[-1][0] + 1 if taken else one.from_offset
            found[one.at] = Range(*one.at, one.from_offset, end, records=len(taken),
                                  stream_time_ms=taken[-1][1] if taken else -1)  # fmt: skip
        return found

    times: dict[TopicPartition, list[int]] = {at: [] for at in partitions}  # stream time by offset
    ends = {at: len(own) for at, own in log.items()}
    for seq in range(1, data.draw(st.integers(1, 8)) + 1):
        last = ingests[-1]
        if data.draw(st.booleans()):
            ranges = {part.at: Range(*part.at, part.to_offset, part.to_offset, stream_time_ms=part.stream_time_ms)
                      for part in last.ranges}  # fmt: skip
            for at in partitions:
                end = data.draw(st.integers(done[at], len(log[at])))
                for offset in range(done[at], end):
                    stands[at] = max(stands[at], log[at][offset])
                    times[at].append(stands[at])
                ranges[at] = Range(*at, done[at], end, records=end - done[at], stream_time_ms=stands[at])
                done[at] = end
            ingests.append(Ingest(seq, seq, tuple(ranges[at] for at in sorted(ranges)), last.request))
        else:
            topic = data.draw(st.sampled_from("ab"))
            own = {at: data.draw(st.lists(st.integers(0, 25), min_size=1, max_size=2)) for at in partitions
                   if at[0] == topic}  # fmt: skip
            ingests.append(replayed(seq, last, own))
            stands |= {at: max(stands[at], *new) for at, new in own.items()}
            requests.append(seq)
        holds = ends if data.draw(st.booleans()) else {}
        found = next_plan(len(plans) + 1, "f", Backlog(before, tuple(ingests)), holds, {}, cut)
        if found is not None:
            plans.append(found)
            before = found
    found = next_plan(len(plans) + 1, "f", Backlog(before, tuple(ingests)), {}, {}, cut)
    plans += [found] if found is not None else []
    positions: dict[TopicPartition, int] = {}
    for one in plans:
        assert REPLAYED not in one.clocks
        for part in one.ranges:
            assert part.from_offset == positions.get(part.at, part.from_offset)
            positions[part.at] = part.to_offset
    for topic in "ab":
        asked = [part for one in ingests for part in one.ranges if part.at == (topic, REPLAYED) and part.records]
        taken = [part for one in plans for part in one.ranges if part.at == (topic, REPLAYED)]
        assert sum(part.records for part in taken) == sum(part.records for part in asked)
        for earlier, later in itertools.pairwise(taken):
            assert earlier.to_offset == later.from_offset
    last_plan = {part.at: part for part in plans[-1].ranges} if plans else {}
    for at in partitions if plans else ():
        steps = [next(part.stream_time_ms for part in one.ranges if part.at == at) for one in plans]
        assert steps == sorted(steps)
        assert last_plan[at].stream_time_ms == stands[at]
        assert last_plan[at].to_offset == done[at]


# --- event time, silence ---------------------------------------------------------------------------------------------


STREAMS = frozenset({"views", "clicks"})
V1, C = ("views", 1), ("clicks", 0)


def by_event_time(log: Log, before: Plan | None, ingests: Sequence[Ingest], holds: set[TopicPartition]) -> Plan | None:
    frontier = Frontier(frozenset(holds), STREAMS)
    number = before.cycle + 1 if before else 1
    return next_plan(number, "f", Backlog(before, tuple(ingests)), {}, {}, cutter(log), always=frontier)


def test_by_event_time_a_partition_at_its_end_holds_all_the_same() -> None:
    log = {V: [1, 2, 3, 9], C: [0, 4]}
    ingests = [batch(log, 1, {V: (0, 4), C: (0, 2)})]
    first = by_event_time(log, None, ingests, {V, C})
    assert first is not None
    assert {part.at: part.to_offset for part in first.ranges} == {V: 3, C: 1}, "strictly below stream time 4"
    assert first.ticks == {V: 4, C: 4}, "the frontier moves every task's clock"
    assert first.clocks == {0: 4}
    assert by_event_time(log, first, ingests, {V, C}) is None, "the tail stays"
    silent = by_event_time(log, first, ingests, {V})
    assert silent is not None
    assert silent.positions == {V: 3, C: 2}, "what has been silent for too long holds nothing"


def test_by_event_time_tasks_without_a_partition_move_to_the_frontier() -> None:
    log = {V: [1, 2, 3, 9], C: [0, 4]}
    ingests = [batch(log, 1, {V: (0, 4), C: (0, 2)})]
    frontier = Frontier(frozenset({V, C}), STREAMS, tasks=3)
    first = next_plan(1, "f", Backlog(None, tuple(ingests)), {}, {}, cutter(log), always=frontier)
    assert first is not None
    assert first.ticks == {(topic, task): 4 for topic in STREAMS for task in range(3)}, (
        "a new key may lie in any of them"
    )
    assert first.clocks == {0: 4, 1: 4, 2: 4}


def quiet(plan: Plan | None, arrived: Mapping[TopicPartition, int], now: int, **more) -> Plan | None:
    idle_policy = IdlePolicy(STREAMS, more.pop("tasks", 0), more.pop("longest_ms", 100), more.pop("timeout_ms", 50))
    return idle_plan((plan.cycle if plan else 0) + 1, "f", plan, idle_policy, arrived, now, **more)


def planned(times: Mapping[TopicPartition, int]) -> Plan:
    ranges = tuple(Range(*at, 0, 5, records=5, stream_time_ms=time) for at, time in sorted(times.items()))
    clocks: dict[int, int] = {}
    for (_, partition), time in times.items():
        clocks[partition] = max(clocks.get(partition, -1), time)
    return Plan(1, "f", ranges, clocks, 1, 1)


def test_a_silent_task_s_clock_goes_on_as_time_does() -> None:
    plan = planned({V: 1_000, C: 900, V1: 500})
    arrived = {V: 10_000, C: 10_000, V1: 10_040}
    assert quiet(plan, arrived, 10_049) is None, "not silent for long enough"
    first = quiet(plan, arrived, 10_060)
    assert first is not None
    assert first.ticks == {V: 1_060, C: 1_060}, "the other partition has had a record since"
    assert first.positions == plan.positions
    assert not any(part.records for part in first.ranges)
    assert quiet(first, arrived, 10_089) is None, "once a timeout"
    second = quiet(first, arrived, 10_095)
    assert second is not None
    assert second.ticks == {V1: 555}
    third = quiet(second, arrived, 99_999)
    assert third is not None
    assert third.ticks == {V: 1_101, C: 1_101, V1: 601}, "no further than until nothing waits"
    assert quiet(third, arrived, 999_999) is None


@given(
    st.tuples(*[st.integers(0, 2_000)] * 3), st.integers(0, 2_000), st.integers(0, 300),
    st.integers(1, 200), st.integers(1, 200), st.integers(0, 3),
)  # fmt: skip
def test_how_long_a_long_silence_was_moves_no_clock(
    came: tuple[int, int, int], began: int, later: int, timeout_ms: int, longest_ms: int, tasks: int
) -> None:
    """So a driver that begins looks at no older batches."""
    plan = planned({V: 1_000, C: 900, V1: 500})
    arrived = dict(zip((V, C, V1), came, strict=True))
    since = began - longest_idle_ms(timeout_ms, longest_ms)
    known = {at: max(when, since) for at, when in arrived.items()}
    how = {"timeout_ms": timeout_ms, "longest_ms": longest_ms, "tasks": tasks}
    assert quiet(plan, known, began + later, **how) == quiet(plan, arrived, began + later, **how)


def test_drained_clocks_pass_everything_at_once() -> None:
    plan = planned({V: 1_000, V1: 500})
    drained = quiet(plan, {}, 0, drain=True, timeout_ms=None)
    assert drained is not None
    assert drained.ticks == {V: 1_101, V1: 601}
    assert quiet(drained, {}, 0, drain=True) is None
    assert quiet(plan, {}, 0, drain=True, longest_ms=0) is None, "nothing waits"
    assert quiet(None, {}, 0, drain=True) is None, "there never was a record"


def test_tasks_without_a_partition_go_on_once_all_are_silent() -> None:
    plan = planned({V: 1_000, V1: 500})
    drained = quiet(plan, {}, 0, drain=True, tasks=4)
    assert drained is not None

    def every(numbers: int, time: int) -> dict[TopicPartition, int]:
        return {(topic, number): time for topic in ("clicks", "views") for number in range(numbers)}

    # each topic's, since a step hears of its own topics alone; twice, since a new key may have brought records of V to task 1
    assert drained.ticks == every(8, 1_101) | {V1: 601}
    idle = quiet(plan, {V: 0, V1: 0}, 1_000_000, tasks=4)
    assert idle is not None
    assert idle.ticks == every(4, 601) | {V: 1_101}, "no further than the task that is furthest behind"
    assert quiet(idle, {V: 0, V1: 0}, 2_000_000, tasks=4) is None
    one = quiet(plan, {V: 0, V1: 1_000_000}, 1_000_000, tasks=4)
    assert one is not None
    assert one.ticks == {V: 1_101}


ORDERS, PAYMENTS, LATER, OTHERS = ("orders", 0), ("payments", 0), ("orders", 1), ("payments", 1)


def test_silence_moves_no_clock_past_what_a_partition_holds_back() -> None:
    log = {ORDERS: [1_000, 1_500], PAYMENTS: [1_100, 2_500], LATER: [1_600], OTHERS: [1_600]}
    ingests = [batch(log, 1, {at: (0, len(times)) for at, times in log.items()})]
    streams = frozenset({"orders", "payments"})
    active = Frontier(frozenset({LATER, OTHERS}), streams)
    first = next_plan(1, "f", Backlog(None, tuple(ingests)), {}, {}, cutter(log), always=active)
    assert first is not None
    assert first.positions[PAYMENTS] == 1, "the payment of 2500 is held"
    idle_policy = IdlePolicy(streams, 0, 5_000, 50)
    arrived = {ORDERS: 0, PAYMENTS: 0, LATER: 9_990, OTHERS: 9_990}
    assert idle_plan(2, "f", first, idle_policy, arrived, 10_000, active) is None, "the order of 1000 would be given up"
    all_silent = Frontier(frozenset(), streams)
    rest = next_plan(2, "f", Backlog(first, tuple(ingests)), {}, {}, cutter(log), always=all_silent)
    assert rest is not None
    assert rest.positions[PAYMENTS] == 2
    moved = idle_plan(3, "f", rest, idle_policy, dict.fromkeys(arrived, 0), 10_000, all_silent)
    assert moved is not None
    assert moved.ticks[PAYMENTS] == 7_501, "everything is planned: nothing waits in bronze any more"
