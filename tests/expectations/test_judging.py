"""Rules and invariants over handmade frames; tallies and events as plain values."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from lakestreams import Json, StreamsBuilder, Text, invariants
from lakestreams.engine.ledger.plans import Plan, Range
from lakestreams.engine.publish import events, orphans
from lakestreams.engine.publish.events import CycleSummary
from lakestreams.errors import UnknownColumn
from lakestreams.evaluate.walk import check
from lakestreams.expectations import judging, outcomes
from lakestreams.expectations.cycle_metrics import CycleMetrics, Expected
from lakestreams.expectations.judging import Dataset
from lakestreams.expectations.rules import names_of
from lakestreams.operators.records import CONTRIBUTOR_TYPE, ORDER_TYPE
from lakestreams.topology.fields import Fields

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TYPES = (
    "k struct<id: string>, v struct<a: int, t: string>, ts bigint, "
    f"o {ORDER_TYPE}, n int, kind string, contributors array<{CONTRIBUTOR_TYPE}>"
)
FIELDS = {"id": "`k`.`id`", "a": "`v`.`a`", "t": "`v`.`t`"}


def frame(spark: SparkSession, *rows: tuple[str, Any, str, int, int]) -> DataFrame:
    """Rows of (key, value, kind, offset of the left record and of the trigger, place)."""
    made = [
        ((key,), value, offset, (1, offset, 1, "s", 0, offset, 0), place, kind, [("s", 0, offset, 0)])
        for key, value, kind, offset, place in rows
    ]
    return spark.createDataFrame(made, TYPES)


def fields() -> Fields:
    return Fields("d", FIELDS, [], "test")


def test_null_is_violated_and_nothing_raises(spark: SparkSession) -> None:
    rows = frame(
        spark,
        ("1", (5, "12"), "record", 1, 0),
        ("2", (None, None), "record", 2, 0),
        ("3", (0, "x"), "record", 3, 0),
        ("4", None, "record", 4, 0),
    )
    rules = [
        invariants.Rule("d", "positive", "a > 0"),
        invariants.Rule("d", "number", "cast(t as int) > 10"),
        invariants.Rule("d", "share", "10 / a < 100 and 7 % a < 7"),
        invariants.Rule("d", "date", "to_date(t, 'yyyy') is null"),
        invariants.Rule("d", "function", lambda row: row.a.isNotNull()),
        invariants.Rule("d", "large", "a * 1000000000 * 1000000000 * 1000000000 > 0"),
    ]
    found = {row["id"]: row["names"] for row in rows.select("k.id", names_of(rules, fields()).alias("names")).collect()}
    assert found == {
        "1": ["large"],
        "2": ["positive", "number", "share", "function", "large"],
        "3": ["positive", "number", "share", "large"],
        "4": [],
    }


def test_every_count_of_a_dataset_in_one_job(spark: SparkSession) -> None:
    rows = frame(
        spark,
        ("1", (5, "x"), "matched", 1, 0),
        ("1", (6, "x"), "matched", 1, 1),
        ("2", (-1, "x"), "unmatched", 2, 0),
        ("2", (7, "x"), "matched", 2, 0),
        ("3", None, "tombstone", 3, 0),
    )
    rule = invariants.Rule("d", "positive", "a > 0")
    held = (
        invariants.FanOut(at_most=1), invariants.OneOutcomePerLeft(), invariants.NoDuplicateResult(),
        invariants.UniqueKey(columns=("id",)),
    )  # fmt: skip
    dataset = Dataset(
        "d", rows, fields(), (rule,), held,
        outcomes=outcomes.count(rows, ["s"], None, 0), columns=FIELDS,
    )  # fmt: skip
    found = judging.as_dict(judging.counted(dataset).collect())["d"]
    assert found == {
        "rows": (5, 0), "rows.record": (0, 0), "rows.matched": (3, 0), "rows.unmatched": (1, 0),
        "rows.amended": (0, 0), "rows.tombstone": (1, 0), "positive": (4, 1), "fan_out": (2, 1),
        "one_outcome_per_left": (2, 1), "no_duplicate_result": (5, 1), "unique_key": (5, 2),
    }  # fmt: skip
    assert judging.examples(dataset, rule) == ['s-0@2 {"key":{"id":"2"},"value":{"a":-1,"t":"x"}}']
    assert judging.examples(dataset, held[0]) == ["s-0@1: matched 2 times, unmatched 0"]
    assert judging.examples(dataset, held[1]) == ["s-0@2: matched 1 times, unmatched 1"]
    assert judging.examples(dataset, held[2]) == ["s-0@2 row 0 twice"]
    assert judging.examples(dataset, held[3]) == ['{"id":"1"} stands in 2 rows', '{"id":"2"} stands in 2 rows']


def test_a_unique_key_is_looked_for_among_earlier_rows_nearby(spark: SparkSession) -> None:
    rows = frame(spark, ("1", (5, "x"), "matched", 1_000, 0), ("2", (5, "x"), "matched", 1_000, 0))
    earlier = spark.createDataFrame([("1", 900), ("2", 100)], "id string, event_time_ms bigint")
    what = invariants.UniqueKey(columns=("id",), within="500 ms")
    dataset = Dataset("d", rows, fields(), (), (what,), earlier=lambda: earlier, columns=FIELDS)
    assert judging.examples(dataset, what) == ['{"id":"1"} stands in 2 rows']


def test_a_unique_key_may_come_again_later_in_the_same_cycle_or_between_the_times_of_two(spark: SparkSession) -> None:
    """A first load has the rows of years in one cycle: how cycles cut the rows decides nothing."""
    times = [("1", 1_000), ("1", 9_000), ("2", 5_000), ("3", 9_000), ("3", 9_100), ("4", 5_000)]
    rows = frame(spark, *((key, (5, "x"), "matched", at, 0) for key, at in times))
    earlier = spark.createDataFrame(
        [("2", 2_000), ("4", 4_500), ("4", 4_400), ("5", 900), ("5", 901)], "id string, event_time_ms bigint"
    )
    what = invariants.UniqueKey(columns=("id",), within="500 ms")
    dataset = Dataset("d", rows, fields(), (), (what,), earlier=lambda: earlier, columns=FIELDS)
    assert judging.examples(dataset, what) == ['{"id":"4"} stands in 2 rows', '{"id":"3"} stands in 2 rows']
    assert judging.as_dict(judging.counted(dataset).collect())["d"]["unique_key"] == (6, 2)
    alone = Dataset("d", rows, fields(), (), (what,), columns=FIELDS)
    assert judging.examples(alone, what) == ['{"id":"3"} stands in 2 rows']


def test_a_row_that_a_rule_drops_doubles_no_key(spark: SparkSession) -> None:
    rows = frame(
        spark, ("1", (5, "x"), "matched", 1, 0), ("1", (-5, "x"), "matched", 2, 0), ("2", (-1, "x"), "record", 3, 0)
    )
    earlier = spark.createDataFrame([("2", 3)], "id string, event_time_ms bigint")
    what = invariants.UniqueKey(columns=("id",))
    for action, doubled in (("drop", 0), ("warn", 2)):
        rule = invariants.Rule("d", "positive", "a > 0", action)
        dataset = Dataset("d", rows, fields(), (rule,), (what,), earlier=lambda: earlier, columns=FIELDS)
        assert judging.as_dict(judging.counted(dataset).collect())["d"]["unique_key"] == (3, doubled)


def test_outcomes_are_counted_over_cycles_and_forgotten_when_no_more_can_come(spark: SparkSession) -> None:
    first = outcomes.count(frame(spark, ("1", (5, "x"), "matched", 1, 0)), ["s"], None, 0)
    kept = outcomes.retain(first, clock_ms=100, span_ms=200)
    assert kept.count() == 1
    second = outcomes.count(frame(spark, ("1", (5, "x"), "unmatched", 1, 0)), ["s"], kept, 0)
    assert second.where(outcomes.wrong(invariants.OneOutcomePerLeft())).count() == 1
    assert outcomes.retain(second, clock_ms=1_000, span_ms=200).count() == 0
    assert outcomes.retain(second, clock_ms=None, span_ms=200).count() == 1


def test_a_rule_is_checked_against_the_schema_before_the_start(spark: SparkSession) -> None:
    builder = StreamsBuilder("p")
    stream = builder.stream("s", key=Text("id"), value=Json("amount int"))
    stream.expect("wrong", "amout > 0")
    mapped = stream.map_values(lambda row: {"x": row.amount}, name="mapped")
    mapped.expect("gone", "amount > 0").expect("runs_code", "reflect('java.lang.Runtime', 'getRuntime') is not null")
    mapped.to_delta("silver.x").holds(invariants.UniqueKey(columns=("y",)))
    _, faults = check(builder.build(), spark)
    as_rows = {(fault.code, fault.where) for fault in faults}
    assert (UnknownColumn.code, 'expectation "wrong" of s') in as_rows
    assert sum(code == UnknownColumn.code for code, _ in as_rows) >= 2
    assert any("reflect" in fault.message for fault in faults)


def test_a_row_as_text_has_all_that_the_row_has(spark: SparkSession) -> None:
    """Its nulls, which rules are about, and times to the microsecond in UTC, wherever the session is."""
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
    try:
        rows = spark.sql(
            "SELECT struct(timestamp_micros(1000000 + id) AS at) AS k, struct(int(null) AS a) AS v, 'unmatched' AS kind,"
            f" true AS orphan, struct(int(null) AS b) AS foreign_key, 1L AS ts, 0 AS n, cast(null AS {ORDER_TYPE}) AS o,"
            f" cast(array() AS array<{CONTRIBUTOR_TYPE}>) AS contributors FROM range(2)"
        )
        texts = [row[0] for row in rows.select(judging.row_text()).collect()]
        listed = sorted((row["key"], row["foreign_key"]) for row in orphans.changes("p", "named", rows).collect())
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    assert sorted(texts)[1] == '{"key":{"at":"1970-01-01T00:00:01.000001Z"},"value":{"a":null}}'
    assert listed == [(f'{{"at":"1970-01-01T00:00:01.00000{no}Z"}}', '{"b":null}') for no in (0, 1)]


# --- plain values ----------------------------------------------------------------------------------------------------


def _topology() -> Any:
    builder = StreamsBuilder("p")
    stream = builder.stream("topic", key=Text("id"), value=Json("amount int"), name="s")
    stream.select_key("amount", name="keyed").map_values(lambda row: {"x": row.amount}, name="mapped").to_delta(
        "silver.x"
    )
    return builder.build()


def test_a_tally_fills_in_what_follows_and_survives_the_ledger() -> None:
    cycle_metrics = CycleMetrics()
    cycle_metrics.of("s").rows_in = 10
    cycle_metrics.of("s").expected.append(Expected("r", "drop", 7, 2))
    cycle_metrics.quarantined("s", "EXPECTATION", 2)
    cycle_metrics.quarantined("s", "MALFORMED_VALUE", 1)
    cycle_metrics.rows("silver.x", {"rows": 7, "rows_record": 7, "rows_matched": 0})
    cycle_metrics.complete(_topology())
    assert [cycle_metrics.of(name).rows for name in ("s", "keyed", "mapped", "silver.x")] == [7, 7, 7, 7]
    assert CycleMetrics.from_dict(json.loads(json.dumps(cycle_metrics.as_dict()))) == cycle_metrics


def test_what_a_rule_of_a_step_drops_is_counted_once() -> None:
    """The step was judged before its rule: it passed on less than it made, and the step before made no more than that."""
    cycle_metrics = CycleMetrics()
    cycle_metrics.of("s").rows_in = 10
    cycle_metrics.rows("mapped", {"rows": 10, "rows.record": 10})
    cycle_metrics.quarantined("mapped", "EXPECTATION", 2)
    cycle_metrics.rows("silver.x", {"rows": 8, "rows_record": 8})
    cycle_metrics.complete(_topology())
    assert [cycle_metrics.of(name).rows for name in ("s", "keyed", "mapped", "silver.x")] == [10, 10, 8, 8]


def test_events_have_lakeflows_names() -> None:
    cycle_metrics = CycleMetrics()
    cycle_metrics.of("s").rows_in = 10
    cycle_metrics.of("s").expected.append(Expected("r", "drop", 7, 2))
    cycle_metrics.quarantined("s", "EXPECTATION", 2)
    cycle_metrics.rows("silver.x", {"rows": 8, "rows_record": 8})
    topology = _topology()
    cycle_metrics.complete(topology)
    part = Range("topic", 0, 5, 15, 10, 0, 0, 0, 900, 30, end_offset=20, lateness=(9, 1, 0, 0, 0, 0, 0, 0))
    plan = Plan(3, "f", (part,), {0: 900}, 1, 2)
    summary = CycleSummary(3, cycle_metrics, {"join": 1.5}, "run", 1_000, 2_000)
    rows = events.of_cycle(topology, plan, CycleSummary.from_dict(json.loads(json.dumps(summary.as_dict()))))
    assert [row["event_type"] for row in rows] == ["flow_progress"] * 4 + ["cycle_progress"]
    assert [row["sequence"] for row in rows] == sorted({row["sequence"] for row in rows})
    flow = json.loads(rows[0]["details"])["flow_progress"]
    assert json.loads(rows[0]["origin"])["flow_name"] == "s"
    assert flow["metrics"] == {"num_input_rows": 10, "num_output_rows": 8}
    assert flow["data_quality"] == {
        "dropped_records": 2,
        "expectations": [{"name": "r", "dataset": "s", "passed_records": 7, "failed_records": 2, "action": "drop"}],
    }
    cycle = json.loads(rows[-1]["details"])["cycle_progress"]
    assert cycle["sources"][0]["lag_records"] == 5
    assert cycle["sources"][0]["lateness"] == [9, 1, 0, 0, 0, 0, 0, 0]
    assert cycle["seconds"] == {"join": 1.5}


@pytest.mark.parametrize(
    ("topic", "end", "told"), [("topic", 20, 5), ("topic", None, None), ("delta/t", 20, None), ("delta/t", 15, 0)]
)
def test_what_a_delta_table_has_more_is_no_number_of_records(topic: str, end: int | None, told: int | None) -> None:
    """Its offsets count commits, 2^32 each: a dashboard said that a table is four thousand million records behind."""
    plan = Plan(3, "f", (Range(topic, 0, 5, 15, 10, end_offset=end),), {}, 1, 2)
    row = events.of_cycle(_topology(), plan, CycleSummary(3, CycleMetrics(), {}, "run", 1_000, 2_000))[-1]
    assert json.loads(row["details"])["cycle_progress"]["sources"][0]["lag_records"] == told


def test_the_text_of_a_refused_row_has_its_times_to_the_microsecond(spark: SparkSession) -> None:
    made = "select struct(1 as id) as k, struct(timestamp'2026-01-01 00:00:00.123456+00:00' as at) as v"
    (row,) = spark.sql(made).select(judging.row_text()).collect()
    assert row[0] == '{"key":{"id":1},"value":{"at":"2026-01-01T00:00:00.123456Z"}}'
