"""Every query of the dashboard, and the report, over the event log that real runs have written: their figures are the tables'.

One test, since the runs cost most of it. What is expected is counted in bronze, outputs, quarantine and ledger (`lived`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import sqlglot
from sqlglot import exp
from tests.deploy.board import DATASETS, in_spark
from tests.deploy.lived import CHANGES, CLICKED, LOCATED, PAID, Lived, Taken, kinds, lateness, lived, taken
from tests.docs.blocks import blocks
from tests.engine.harness import ZERO

from lakestreams import StreamsBuilder, Text
from lakestreams.cli import status
from lakestreams.engine.ledger.ledger import Ledger
from lakestreams.engine.ledger.plans import Plan, Range
from lakestreams.engine.ledger.rows import frame_of
from lakestreams.report.build import build
from lakestreams.report.health import badges
from lakestreams.report.model import LATENESS
from lakestreams.run.event_log import open_cycle, read_events, read_quarantine
from lakestreams.run.pipeline_tables import PipelineTables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.local.broker import Broker

# minutes: what it found has tests of its own in the faster lanes
pytestmark = [pytest.mark.broker, pytest.mark.soak, pytest.mark.usefixtures("small_input")]

PIPELINES = ("order_payments", "shop")
ROOT = Path(__file__).parents[2]


def test_the_dashboard_and_the_report_tell_what_is_in_the_tables(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    own = lived(spark, broker, tmp_path)
    found = {name: taken(own, name) for name in PIPELINES}
    assert len(found["shop"].closes) > 2, "a cycle while a table's commits were held back"
    log = own.lake.control("events").read(spark)
    log.createOrReplaceTempView("events")
    try:
        shown = {name: rows_of(spark, name) for name in DATASETS}
        told = list(queries_of_a_page(spark, "order_payments"))
    finally:
        spark.catalog.dropTempView("events")

    assert EXPECTED.keys() == DATASETS.keys()
    wrong = {}
    for name, wanted in EXPECTED.items():
        of_tables = {row for pipeline in PIPELINES for row in wanted(own, pipeline, found[pipeline])}
        told_of = {row for row in shown[name] if name != "nodes" or row[1] not in ("matched", "named", "located")}
        if told_of != of_tables:
            wrong[name] = sorted(map(str, told_of - of_tables)), sorted(map(str, of_tables - told_of))
    assert wrong == {}, "what the dashboard tells, and what is in the tables instead"
    for pipeline in PIPELINES:
        assert_report(own, pipeline, found[pipeline], shown)
        assert_status(own, pipeline, found[pipeline], shown)
    own_rows = {name: [row for row in shown[name] if row[0] == "order_payments"] for name in ("expectations", "nodes")}
    assert set(told[0]) == {(row[1], row[2], row[4], row[5]) for row in own_rows["expectations"]}
    assert set(told[1]) == {(row[1], row[4]) for row in own_rows["nodes"]}
    assert status.names(spark, own.lake) == ["idle", *PIPELINES]
    assert status.read(spark, own.lake, "idle").last_finished_cycle == 0
    assert (read_events(spark, own.lake, "idle", 9), open_cycle(spark, own.lake, "idle")) == ([], None)
    assert_lag(own)


def rows_of(spark: SparkSession, name: str) -> set[tuple[Any, ...]]:
    """A query's rows, each once; but for those that count nothing."""
    frame = spark.sql(in_spark(DATASETS[name], "1970-01-01 00:00:00", "2999-12-31 00:00:00"))
    rows = [row.asDict() for row in frame.collect()]
    for row in rows:
        row.pop("minutes_ago", None)
    kept = [row for row in rows if name != "lateness" or row["records"]]
    found = {tuple(map(_comparable, row.values())) for row in kept}
    assert len(found) == len(kept), name
    return found


def _comparable(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 6)
    return value.astimezone(UTC) if isinstance(value, datetime) else value


def queries_of_a_page(spark: SparkSession, pipeline: str) -> Iterator[list[tuple[Any, ...]]]:
    """What the two queries of the page on expectations find."""
    for block in blocks(ROOT / "docs" / "expectations.md"):
        if block.language == "sql":
            tree = sqlglot.parse_one(block.text, dialect="databricks")
            for table in tree.find_all(exp.Table):
                table.replace(exp.to_table("events"))
            text = tree.sql("spark")
            assert f"'{pipeline}'" in text
            yield [tuple(row) for row in spark.sql(text).collect()]


# --- what is expected ------------------------------------------------------------------------------------------------


def closed_at(found: Taken, cycle: int) -> datetime:
    return datetime.fromtimestamp(found.closes[cycle]["closed_at_ms"] / 1_000, UTC)


def cycles(own: Lived, pipeline: str, found: Taken) -> Iterator[tuple[Any, ...]]:
    for cycle, closes in found.closes.items():
        rows = [one for one in found.rows if one["cycle"] == cycle]
        begun = [clock for clock in found.clocks[cycle] if clock > 0]
        behind = round((closes["closed_at_ms"] - min(begun)) / 1_000, 6) if begun else None
        bad = sum(one["error"] is not None for one in rows)
        yield pipeline, cycle, closed_at(found, cycle), len(rows), bad, behind


def lag(own: Lived, pipeline: str, found: Taken) -> Iterator[tuple[Any, ...]]:
    for source in own.benches[pipeline].topology.sources:
        for cycle in found.closes:
            first = [one for one in found.of(source.name) if one["cycle"] <= cycle and not one["attempt"]]
            there = own.there(pipeline, source.topic, cycle)
            if not there:
                continue  # a topic is not known before its first record
            left: int | None = there - len(first)
            if source.delta is not None and left:
                left = None  # how many records a table's commits have is not known
            yield pipeline, closed_at(found, cycle), f"{pipeline}: {source.name}", left


def late(own: Lived, pipeline: str, found: Taken) -> Iterator[tuple[Any, ...]]:
    for source in own.benches[pipeline].topology.sources:
        for place, count in lateness(found, source.name).items():
            yield pipeline, f"{pipeline}: {source.name}", f"{'abcdefgh'[place]}  {LATENESS[place]}", count


def stages(own: Lived, pipeline: str, found: Taken) -> Iterator[tuple[Any, ...]]:
    for cycle, closes in found.closes.items():
        for stage, seconds in closes["seconds"].items():
            yield pipeline, closed_at(found, cycle), stage, seconds


def last_cycles(own: Lived, pipeline: str, found: Taken) -> Iterator[tuple[Any, ...]]:
    last = found.finished
    records = sum(one["cycle"] == last for one in found.rows)
    closes = found.closes[last]
    seconds = round(sum(closes["seconds"].values()), 6)
    yield pipeline, last, closed_at(found, last), records, seconds, closes["run_id"]


def quarantined(own: Lived, pipeline: str, found: Taken) -> Iterator[tuple[Any, ...]]:
    rows = own.benches[pipeline].quarantine().where(f"pipeline = '{pipeline}'").groupBy("node", "code").count()
    return ((pipeline, *row) for row in rows.collect())


def matches(own: Lived, pipeline: str, found: Taken) -> Iterator[tuple[Any, ...]]:
    of_joins = {"order_payments": {"matched": PAID}, "shop": {"named": CLICKED, "located": CHANGES}}
    for join, output in of_joins[pipeline].items():
        for cycle, count in kinds(own, output):
            matched, both = count["matched"], count["matched"] + count["unmatched"]
            if both:
                share = round(100 * matched / both, 2)
                yield pipeline, closed_at(found, cycle), f"{pipeline}: {join}", matched, both, share


def nodes(own: Lived, pipeline: str, found: Taken) -> Iterator[tuple[Any, ...]]:
    """Of sources and outputs; what lies between need not be counted."""
    bench = own.benches[pipeline]
    refused = {row[1:3]: row[3] for row in quarantined(own, pipeline, found)}
    for source in bench.topology.sources:
        rows, dropped = len(found.of(source.name)), refused.get((source.name, "EXPECTATION"), 0)
        passed = rows - sum(count for (node, _), count in refused.items() if node == source.name)
        yield pipeline, source.name, source.kind, rows, passed, dropped
    for sink in bench.topology.sinks:
        # of a change log all changes; a merged table has had the last one of each key and cycle
        changes = bench.silver(CHANGES if sink.name == LOCATED else sink.name)
        merged = changes.selectExpr("id", "_lineage.cycle").distinct() if sink.name == LOCATED else changes
        yield pipeline, sink.name, "to_delta", None, merged.count(), 0
    for topic in bench.topology.kafka_sinks:
        yield pipeline, topic.name, "to_kafka", None, sum(bench.broker.end_offsets(topic.name).values()), 0


def expectations(own: Lived, pipeline: str, found: Taken) -> Iterator[tuple[Any, ...]]:
    def told(dataset: str, name: str, action: str, passed: int, failed_in: list[int]) -> tuple[Any, ...]:
        failed = len(failed_in)
        last = closed_at(found, max(failed_in)) if failed_in else None
        return pipeline, dataset, name, action, passed, failed, round(100 * failed / (passed + failed), 2), last

    if pipeline == "order_payments":
        orders = [one for one in found.readable("orders") if one["v"] is not None]
        for name, action, holds in RULES:
            wrong = [one["cycle"] for one in orders if not holds(one["v"])]
            yield told("orders", name, action, len(orders) - len(wrong), wrong)
        return
    for source in ("customers", "regions"):
        wrong = [one["cycle"] for one in found.readable(source) if one["k"] is None]
        yield told(source, "keys_not_null", "drop", len(found.readable(source)) - len(wrong), wrong)
    counts = list(kinds(own, CHANGES))
    lost = [cycle for cycle, count in counts for _ in range(count["unmatched"])]
    yield told("located", "foreign_key_exists", "warn", sum(count["matched"] for _, count in counts), lost)


RULES: tuple[tuple[str, str, Callable[[dict[str, Any]], bool]], ...] = (
    ("has_customer", "warn", lambda v: v["customer"] is not None),
    ("positive", "drop", lambda v: v["amount"] > 0),
    ("not_too_much", "fail", lambda v: v["amount"] < 1_000),
)
EXPECTED: dict[str, Callable[[Lived, str, Taken], Iterator[tuple[Any, ...]]]] = {
    "cycles": cycles, "lag": lag, "lateness": late, "stages": stages, "last_cycles": last_cycles, "nodes": nodes,
    "matches": matches, "expectations": expectations, "quarantine": quarantined,
}  # fmt: skip


# --- what else reads the log -----------------------------------------------------------------------------------------


def assert_report(own: Lived, pipeline: str, found: Taken, shown: Mapping[str, set[tuple[Any, ...]]]) -> None:
    """Its totals are the dashboard's, and it says that the failed run has left a cycle."""
    spark, lake = own.spark, own.benches[pipeline].lake
    last = found.finished
    refused = read_quarantine(spark, lake, pipeline, from_cycle=1, to_cycle=last)
    report = build(pipeline, read_events(spark, lake, pipeline, 200), refused, open_cycle(spark, lake, pipeline))
    outputs = [row for row in shown["nodes"] if row[0] == pipeline and row[2].startswith("to_")]
    assert (report.records, report.written) == (len(found.rows), sum(row[4] for row in outputs))
    assert [one.number for one in report.cycles] == list(found.closes)
    told = {(pipeline, one.node, one.code, one.records) for one in report.quarantine or ()}
    assert told == {row for row in shown["quarantine"] if row[0] == pipeline}
    assert report.quarantined == sum(row[3] for row in told)
    stuck = [f"cycle {last + 1} not finished"] if pipeline == "order_payments" else []
    assert [one.says for one in badges(report) if "not finished" in one.says] == stuck


def assert_status(own: Lived, pipeline: str, found: Taken, shown: Mapping[str, set[tuple[Any, ...]]]) -> None:
    one = status.read(own.spark, own.benches[pipeline].lake, pipeline)
    assert one.last_finished_cycle == found.finished
    assert one.open_plan == ({"cycle": found.finished + 1, "records": 1} if pipeline == "order_payments" else None)
    codes: Counter[str] = Counter()
    for _, _, code, count in (row for row in shown["quarantine"] if row[0] == pipeline):
        codes[code] += count
    assert one.quarantine == codes
    told = {(e["dataset"], e["name"], e["passed"], e["failed"]) for e in one.expectations}
    assert told == {(row[1], row[2], row[4], row[5]) for row in shown["expectations"] if row[0] == pipeline}


def assert_lag(own: Lived) -> None:
    """What a Delta table had before it was read is dated 1970, which is not how far its time is behind."""
    ledger = Ledger(own.lake, "idle")
    parts = tuple(
        Range(topic, partition, 0, 9, 9, stream_time_ms=time)
        for topic, partition, time in (("delta/t", 0, 0), ("t", 0, ZERO), ("t", 1, ZERO + 7), ("t", 2, -1))
    )
    plan = ledger.plan_row(Plan(1, "f", parts, {}, 1, 2), None).columns
    ledger.table.append(frame_of(own.spark, [plan]), "test", 1)
    builder = StreamsBuilder("idle")
    builder.stream("t", key=Text("id"), value=Text("page")).to_delta("silver.idle")
    lag = PipelineTables(own.spark, own.lake, builder.build()).lag().collect()
    assert [row["behind_ms"] for row in lag] == [None, 7, 0, None]
