"""Counts up to a cut, from counts of pieces: the same as counting all rows, and few of them are read."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakestreams.engine.ledger import pieces as known_pieces
from lakestreams.engine.ledger import settle
from lakestreams.engine.ledger.backlog import Backlog
from lakestreams.engine.ledger.pieces import Piece, divided
from lakestreams.engine.ledger.plans import LATENESS_MS, NO_TIME, AppendedRange, BronzeState, Ingest, Plan, Range
from lakestreams.engine.protocol import decisions
from lakestreams.kafka.noted import TopicPartition

RULE = "r"
JUDGED = {"a": frozenset({RULE}), "b": frozenset[str]()}
HOMES = [("murmur2", 2), ("crc32", 2), ("murmur2", 3)]


class Row(NamedTuple):
    """A row of bronze, as far as it is counted; `time` is the stream time at it."""

    offset: int
    time: int
    lag: int = 0
    bad: bool = False
    null_key: bool = False
    null_value: bool = False
    fails: bool = False


Bronze = Mapping[TopicPartition, Sequence[Row]]


def totals(at: TopicPartition, start: int, end: int, rows: Sequence[Row]) -> Range:
    """All that is counted of these rows, one by one."""
    good = [row for row in rows if not row.bad]
    lateness = [0] * (len(LATENESS_MS) + 1)
    for row in good:
        lateness[bisect_left(LATENESS_MS, row.lag)] += 1
    return Range(
        *at,
        start,
        end,
        records=len(rows),
        bad=len(rows) - len(good),
        null_keys=sum(row.null_key for row in good),
        null_values=sum(row.null_value for row in good),
        stream_time_ms=max(row.time for row in rows),
        lag_ms=max((row.lag for row in good), default=0),
        failed={name: sum(row.fails for row in good) for name in JUDGED[at[0]]},
        lateness=tuple(lateness),
    )


def cut_below(bronze: Bronze, ranges: Sequence[Range], below: int | None) -> dict[TopicPartition, Range]:
    """What `bronze.cut_below` promises: its counts of the rows of these ranges, and where it says that they end."""
    found = {}
    for at in dict.fromkeys(part.at for part in ranges):
        own = [part for part in ranges if part.at == at]
        start, end = own[0].from_offset, own[-1].to_offset
        rows = [row for row in bronze[at] if any(one.from_offset <= row.offset < one.to_offset for one in own)]
        under = [row for row in rows if below is None or row.time < below]
        if not under:
            found[at] = Range(*at, start, start if rows else end, stream_time_ms=own[-1].stream_time_ms)
        else:
            found[at] = totals(at, start, end if len(under) == len(rows) else under[-1].offset + 1, under)
    return found


def counting_all(
    backlog: Backlog, asked: Sequence[Range], frontier: int | None, cut: settle.Cutter
) -> dict[TopicPartition, Range]:
    """`settle._cut` as it would be if nothing were known: every range is read from end to end."""
    found = dict(cut(asked, frontier, backlog.seq_from)) if asked else {}
    before = backlog.stream_times()
    for part in asked:
        if found[part.at].to_offset == part.from_offset:
            found[part.at] = replace(found[part.at], stream_time_ms=before.get(part.at, NO_TIME))
    return found


@dataclass
class Round:
    """A batch, and what is asked of settling behind it."""

    batch: Ingest
    ends: Mapping[TopicPartition, int]


class Settling:
    """Plans one cycle after another."""

    def __init__(self, bronze: Bronze) -> None:
        self._bronze = bronze
        self.plans: list[Plan] = []
        self.batches: tuple[Ingest, ...] = ()
        self.read: list[Sequence[Range]] = []

    def round(self, one: Round) -> None:
        last = self.plans[-1] if self.plans else None
        backlog = Backlog(last, (*self.batches, one.batch), JUDGED)
        found = settle.next_plan(len(self.plans) + 1, "f", backlog, one.ends, {}, self._cut)
        self.plans += [] if found is None else [found]
        self.batches = Backlog(found or last, backlog.ingests).open_ingests() or backlog.ingests[-1:]

    def _cut(self, ranges: Sequence[Range], below: int | None, _: int) -> Mapping[TopicPartition, Range]:
        self.read.append(ranges)
        return cut_below(self._bronze, ranges, below)


def followed(bronze: Bronze, rounds: Iterable[Round]) -> Settling:
    settling = Settling(bronze)
    for one in rounds:
        settling.round(one)
    return settling


@st.composite
def histories(draw: st.DrawFn) -> tuple[Bronze, list[Round]]:
    """Rows of several topics, the batches that they came in, and ends that hold some partitions back, or none.

    Offsets have gaps, batches end behind their last row, pieces are known of some batches, and what is judged of most.
    """
    bronze: dict[TopicPartition, list[Row]] = {("a", 0): [], ("a", 1): [], ("b", 0): []}
    state = BronzeState(0, {})
    rounds = []
    for _ in range(draw(st.integers(1, 5))):
        appended, ends = {}, {}
        for at, rows in bronze.items():
            start, time = state.offset(at), rows[-1].time if rows else NO_TIME
            fresh = []
            for step, gap in draw(
                st.lists(st.tuples(st.sampled_from([0, 0, 1, 3]), st.sampled_from([1, 1, 1, 4])), max_size=9)
            ):
                time += step
                start += gap
                flags = draw(st.lists(st.sampled_from([False, False, True]), min_size=4, max_size=4))
                fresh.append(Row(start - 1, time, draw(st.sampled_from([0, 0, 7, 5_000])), *flags))
            bronze[at] = [*rows, *fresh]
            ends[at] = start + draw(st.sampled_from([0, 0, 2]))
            if fresh:
                appended[at] = _appended(draw, at, fresh)
        batch = decisions.closed(state, appended, ends)
        if draw(st.booleans()):
            batch = replace(batch, pieces={})  # as the ledger tells it
        if draw(st.sampled_from([False, False, True])):
            batch = replace(batch, ranges=tuple(replace(part, failed={}) for part in batch.ranges))  # by other rules
        state = BronzeState(batch.seq, BronzeState.after([batch]).positions)
        holding = {at: end + draw(st.sampled_from([0, 1])) for at, end in ends.items()}
        rounds.append(Round(batch, draw(st.sampled_from([holding, {}]))))
    return bronze, [*rounds, replace(rounds[-1], batch=decisions.closed(state, {}, {}), ends={})]


def _appended(draw: st.DrawFn, at: TopicPartition, rows: Sequence[Row]) -> AppendedRange:
    size = draw(st.integers(1, 4))
    parts = [rows[start : start + size] for start in range(0, len(rows), size)]
    pieces = [replace(totals(at, one[0].offset, one[-1].offset + 1, one), failed={}) for one in parts]
    homes = draw(st.dictionaries(st.sampled_from(HOMES), st.frozensets(st.integers(1, 4))))
    whole = replace(totals(at, rows[0].offset, rows[-1].offset + 1, rows), homes=homes)
    return AppendedRange(whole, 0, 0, () if JUDGED[at[0]] else tuple(pieces))


@settings(max_examples=400, deadline=None)
@given(histories(), st.sampled_from([1, 2, 16]))
def test_plans_are_those_of_counting_every_row(history: tuple[Bronze, list[Round]], most: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(known_pieces, "_MOST_READ", most)
        found = followed(*history)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(settle, "_cut", counting_all)
        wanted = followed(*history)
    assert found.plans == wanted.plans
    assert sum(map(_offsets, found.read)) <= sum(map(_offsets, wanted.read))
    assert sum(part.records for plan in found.plans for part in plan.ranges) == sum(map(len, history[0].values()))
    batches = [part for one in history[1] for part in one.batch.ranges if part.records]
    for taken in (part for plan in found.plans for part in plan.ranges if part.records):
        own = [one for one in batches if one.at == taken.at and _overlap(one, taken)]
        for law, keys in taken.homes.items():  # of what each of its batches says
            assert all(keys >= one.homes.get(law, {None}) for one in own)


def _overlap(one: Range, other: Range) -> bool:
    return one.from_offset < other.to_offset and other.from_offset < one.to_offset


def _offsets(ranges: Sequence[Range]) -> int:
    return sum(part.to_offset - part.from_offset for part in ranges)


VIEWS = ("b", 0)


def backlog_of(plan: Plan | None, count: int, size: int, *, known: bool = True) -> Backlog:
    """A backlog of two batches of one partition, one record a ms."""
    batches = []
    for seq in (1, 2):
        rows = [Row(offset, offset) for offset in range((seq - 1) * count, seq * count)]
        whole = totals(VIEWS, rows[0].offset, rows[-1].offset + 1, rows)
        pieces = [rows[start : start + size] for start in range(0, count, size)]
        fine = tuple(totals(VIEWS, one[0].offset, one[-1].offset + 1, one) for one in pieces)
        batches.append(Ingest(seq, seq, (whole,), pieces={VIEWS: fine} if known else {}))
    return Backlog(plan, tuple(batches), JUDGED)


@pytest.mark.parametrize(
    ("known", "below", "read"),
    [
        (True, 130, [(30, 40), (130, 140)]),
        (True, 35, [(30, 40)]),
        (True, 140, [(30, 40), (140, 150)]),  # its first record may lie below
        (True, None, [(30, 40)]),
        (False, 130, [(30, 200)]),
        (False, None, [(30, 100)]),
    ],
)
def test_only_pieces_at_a_cut_are_read(known: bool, below: int | None, read: list[tuple[int, int]]) -> None:
    """The one that the frontier lies in, and the one that the plan before has cut; of the ledger's batches, these."""
    part = Range(*VIEWS, 33, 200)
    division = divided(part, backlog_of(None, 100, 10, known=known).pieces()[VIEWS], below, ())
    asked = [(one.from_offset, one.to_offset) for one in division.read]
    assert asked == [(max(33, start), end) for start, end in read]
    assert division.above == (below is not None and read[-1][1] < 200)


def test_a_cut_between_counted_pieces_asks_nothing() -> None:
    pieces = backlog_of(None, 100, 10).pieces()[VIEWS]
    division = divided(Range(*VIEWS, 0, 200), pieces, None, ())
    assert division.read == ()
    assert sum(one.records for one in division.whole) == 200


def test_a_batch_that_ends_behind_its_last_record_is_read() -> None:
    """Where a cut lies behind it, the range ends at its last record, wherever that is."""
    first = totals(VIEWS, 0, 3, [Row(0, 0), Row(1, 1)])
    second = totals(VIEWS, 3, 4, [Row(3, 9)])
    division = divided(Range(*VIEWS, 0, 4), [Piece(first, to_its_end=False), Piece(second, to_its_end=True)], 9, ())
    assert [(one.from_offset, one.to_offset) for one in division.read] == [(0, 4)]


def test_of_a_cut_range_is_known_what_is_known_of_all_of_it() -> None:
    backlog = backlog_of(None, 100, 10)
    known = [{("murmur2", 2): frozenset({"a"}), ("crc32", 2): frozenset()}, {("murmur2", 2): frozenset({"b"})}]
    batches = tuple(
        replace(one, ranges=tuple(replace(part, homes=homes) for part in one.ranges))
        for one, homes in zip(backlog.ingests, known, strict=True)
    )
    rows = {VIEWS: [Row(offset, offset) for offset in range(200)]}
    found = settle.next_plan(
        1,
        "f",
        replace(backlog, ingests=batches),
        {VIEWS: 300},
        {},
        lambda parts, below, _: cut_below(rows, parts, below),
    )
    assert found is not None
    assert [(part.to_offset, part.homes) for part in found.ranges] == [(199, {("murmur2", 2): {"a", "b"}})]
