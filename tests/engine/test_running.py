"""What a run says of others: of the run that had its pipeline, of a clock that cannot be right, of too many bad records."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pyspark.sql import Row

from lakestreams import Json, StreamsBuilder, Text
from lakestreams.engine.ledger import rows
from lakestreams.engine.ledger.plans import Claim, History, Plan, Range
from lakestreams.engine.publish.cycle import RunCounts
from lakestreams.engine.takeover import running
from lakestreams.errors import TooManyBadRecords
from lakestreams.expectations.cycle_metrics import CycleMetrics

NOW = 1_700_000_000_000
BEFORE = Claim("3f2a", 4, NOW - 90_000, NOW - 5_000)
DAY = 86_400_000


def plan(read: int, bad: int, topic: str = "t") -> Plan:
    return Plan(1, "f", (Range(topic, 0, 0, read, records=read, bad=bad),), {}, 1, 1)


# --- who had it ------------------------------------------------------------------------------------------------------


def test_a_run_that_takes_over_an_unfinished_one_says_which_and_when() -> None:
    (warning,) = running.taken_from(History(epoch=4, plan=plan(1, 0), done_cycle=0, claim=BEFORE))
    for word in ("run 3f2a (epoch 4)", "cycle 1", "2023-11-14 22:11:50 UTC", "2023-11-14 22:13:15 UTC", "LS503"):
        assert word in warning


def test_a_finished_run_is_no_news() -> None:
    assert running.taken_from(History()) == []
    assert running.taken_from(History(epoch=4, plan=plan(1, 0), done_cycle=1, claim=BEFORE)) == []


def test_a_run_that_waits_between_rounds_and_has_not_ended_may_still_run() -> None:
    row = Row(run_id="3f2a", epoch=4, written_at_ms=NOW, options=rows.interval_option(30_000))
    former, own = Row(epoch=3), Row(epoch=4)
    for ended, told in ((None, 1), (former, 1), (own, 0)):
        claim = rows.claim_in(row, NOW, ended)
        found = running.taken_from(History(epoch=4, plan=plan(1, 0), done_cycle=1, claim=claim))
        assert ["run 3f2a (epoch 4) has not ended" in one for one in found] == [True] * told
    once = Row(run_id="3f2a", epoch=4, written_at_ms=NOW, options=rows.interval_option(None))
    assert running.taken_from(History(epoch=4, claim=rows.claim_in(once, NOW))) == []


def test_a_run_that_is_taken_over_can_say_by_whom() -> None:
    assert running.taken_by(BEFORE, 3) == "run 3f2a (epoch 4) took it over at 2023-11-14 22:11:50 UTC"
    assert running.taken_by(BEFORE, 4) is None
    assert running.taken_by(None, 4) is None


# --- clocks ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("behind_ms", "told"), [(-DAY, 0), (0, 0), (60_000, 0), (60_001, 1), (2 * DAY, 1)])
def test_a_clock_behind_the_ledger_is_told(behind_ms: int, told: int) -> None:
    found = running.clock_behind(History(claim=BEFORE), BEFORE.last_ms - behind_ms)
    assert len(found) == told
    assert all("FUTURE_TIMESTAMP" in one and running.shown(BEFORE.last_ms) in one for one in found)


def test_a_first_run_has_no_clock_to_compare_with() -> None:
    assert running.clock_behind(History(), 0) == []


@pytest.mark.parametrize(("read", "future", "told"), [(100, 0, 0), (100, 1, 0), (100, 2, 1), (1, 1, 1), (None, 0, 0)])
def test_many_records_of_the_future_are_told(read: int | None, future: int, told: int) -> None:
    builder = StreamsBuilder("p")
    builder.stream("t", key=Text("a"), value=Text("b")).to_delta("silver.t")
    cycle_metrics = CycleMetrics()
    cycle_metrics.of("t").rows_in = read
    cycle_metrics.quarantined("t", "FUTURE_TIMESTAMP", future)
    cycle_metrics.quarantined("t", "MALFORMED_VALUE", 50)
    found = running.in_the_future(builder.build(), cycle_metrics, NOW)
    assert len(found) == told
    assert all(f"t: {future} of {read} records" in one and running.shown(NOW) in one for one in found)


@pytest.mark.parametrize(
    ("stream_time_ms", "told"),
    [(-1, 0), (0, 0), (90_000, 0), (631_151_999, 0), (631_152_000, 1), (NOW // 1_000, 1), (4_102_444_800, 0), (NOW, 0)],
)
def test_event_times_that_look_like_seconds_are_told_with_the_type_that_reads_them(
    stream_time_ms: int, told: int
) -> None:
    builder = StreamsBuilder("p")
    builder.stream("t", key=Text("a"), value=Json("at bigint"), event_time="at").to_delta("silver.t")
    builder.stream("u", key=Text("a"), value=Text("b")).to_delta("silver.u")
    ranges = tuple(Range(topic, 0, 0, 5, records=5, stream_time_ms=stream_time_ms) for topic in ("t", "u"))
    found = running.in_seconds(builder.build(), Plan(1, "f", ranges, {}, 1, 1))
    assert len(found) == 2 * told
    assert all(said in one for one, said in zip(found, ("at timestamp_s", "u: "), strict=False))
    idle = tuple(replace(one, to_offset=0, records=0) for one in ranges)
    assert running.in_seconds(builder.build(), Plan(1, "f", idle, {}, 1, 1)) == []


def test_times_that_no_calendar_has_are_shown_as_numbers() -> None:
    assert running.shown(1 << 62) == f"{1 << 62} ms"


# --- bad records -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("read", "bad", "passes"),
    [
        (1, 1, True), (2, 2, True), (3, 3, False), (3, 2, True), (19, 19, False), (100, 19, True), (100, 20, False),
        (400, 20, True), (399, 20, False), (999, 1, True), (1_000, 50, True), (1_000, 51, False), (5, 0, True),
    ],
)  # fmt: skip
def test_small_runs_are_judged_too_and_one_bad_record_stops_none(read: int, bad: int, passes: bool) -> None:
    counts = RunCounts()
    counts.add(plan(read, bad))
    counts.require_share(1.0)
    if passes:
        counts.require_share(0.05)
        return
    with pytest.raises(TooManyBadRecords, match=f"t: {bad} of {read} records"):
        counts.require_share(0.05)
