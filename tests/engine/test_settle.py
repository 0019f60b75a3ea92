"""Settling as plain Python: frontier, cut, clocks, counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st

from lakestreams.engine.ledger import Ingest, Plan, Range, TopicPartition
from lakestreams.engine.settle import Backlog, Frontier, Silence, holding, idle_plan, next_plan

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


def plan(log: Log, before: Plan | None, ingests: Sequence[Ingest], ends: Mapping[TopicPartition, int]) -> Plan | None:
    number = before.cycle + 1 if before else 1
    return next_plan(number, "f", Backlog(before, tuple(ingests)), ends, {}, cutter(log))


V, U = ("views", 0), ("users", 0)


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
    assert holding(Backlog(None, tuple(ingests)).stretches()[0], {V: 4, U: 1}) == {}
    first = plan(log, None, ingests, {V: 4, U: 1})
    assert first is not None
    assert first.positions == {V: 4, U: 1}


def test_a_partition_never_read_holds_everything() -> None:
    log = {V: [1, 2], U: [0]}
    assert plan(log, None, [batch(log, 1, {V: (0, 2)})], {V: 2, U: 1}) is None


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


def quiet(plan: Plan | None, arrived: Mapping[TopicPartition, int], now: int, **more) -> Plan | None:
    silence = Silence(STREAMS, more.pop("tasks", 0), more.pop("longest_ms", 100), more.pop("timeout_ms", 50))
    return idle_plan((plan.cycle if plan else 0) + 1, "f", plan, silence, arrived, now, **more)


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
    assert drained.ticks == {V: 1_101, V1: 601, ("clicks", 2): 601, ("clicks", 3): 601}
    one = quiet(plan, {V: 0, V1: 1_000_000}, 1_000_000, tasks=4)
    assert one is not None
    assert one.ticks == {V: 1_101}
