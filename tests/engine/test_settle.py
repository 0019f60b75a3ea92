"""Settling as plain Python: frontier, cut, clocks, counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st

from lakestreams.engine.ledger import Ingest, Plan, Range, TopicPartition
from lakestreams.engine.settle import Backlog, holding, next_plan

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
