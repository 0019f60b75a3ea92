"""Time that goes on although no record comes: what waits comes out, once, and again the same when it is evaluated anew."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F  # noqa: N812
from tests.engine.harness import ZERO, Bench, fresh_topics
from tests.engine.jobs import JOBS

from lakestreams import Json, StreamsBuilder, Text
from lakestreams.cli import status
from lakestreams.engine.driver import Driver
from lakestreams.engine.ledger.ledger import Ledger
from lakestreams.engine.ledger.plans import Plan
from lakestreams.engine.publish import event_log
from lakestreams.engine.runtime import write_metrics
from lakestreams.testing.small import small
from lakestreams.topology.expectations import Expectations
from lakestreams.verify.verify import verify
from lakestreams.verify.why import why

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.local.broker import Broker
    from lakestreams.topology.kinds import Settling
    from lakestreams.topology.topology import Topology

pytestmark = [pytest.mark.broker]

HOUR = 3_600_000  # however slow the machine is, no test takes so long


@pytest.fixture(autouse=True, scope="module")
def _small(spark: SparkSession) -> Iterator[None]:
    with small(spark):
        yield


def assert_equal(bench: Bench, *, ask_second: bool = True) -> None:
    found = verify(bench.spark, bench.lake, bench.topology, ask_second=ask_second)
    assert {one.what: one.examples for one in found.findings if one.differs} == {}


def fates(bench: Bench, output: str) -> dict[tuple[str, int, int], list[str]]:
    """Topic, partition and offset of each record that could be read, with the kinds of its results and refusals."""
    found: dict[tuple[str, int, int], list[str]] = {}
    for source in bench.topology.sources:
        rows = bench.bronze(source.topic).where("error is null and v is not null")
        found |= {tuple(row): [] for row in rows.select("topic", "partition", "offset").collect()}
    told = bench.silver(output).select("_lineage.kind", F.explode("_lineage.contributors").alias("one"))
    for row in told.select("kind", "one.source", "one.partition", "one.offset").distinct().collect():
        found[row["source"], row["partition"], row["offset"]].append(row["kind"])
    refused = bench.quarantine().where("code in ('LATE', 'NO_PARTNER')")
    for row in refused.select("code", "topic", "partition", "offset").collect():
        found[row["topic"], row["partition"], row["offset"]].append(row["code"])
    return found


def unruled(*topics: str) -> Topology:
    """The correlation job without its rules: what they drop has no fate in a window."""
    return replace(JOBS["correlation"].build(*topics), expectations=Expectations())


@pytest.mark.soak
@pytest.mark.parametrize("settling", ["caught_up", "event_time"])
def test_the_last_rows_of_topics_that_fall_silent_come_out(
    settling: Settling, spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    job = JOBS["correlation"]
    topics = fresh_topics(broker, 2, job.topics)
    for topic, given in zip(topics, job.topics, strict=True):
        broker.produce(topic, job.old()[given])
    bench = Bench(spark, broker, tmp_path, unruled(*topics))
    later = [0]
    settings = bench.settings(idle_timeout_ms=HOUR, snapshot_every=1, settling=settling)

    def now_ms() -> int:
        return time.time_ns() // 1_000_000 + later[0]

    def driver() -> Driver:
        return Driver(spark, bench.topology, bench.lake, settings, bench.events.append, now_ms)

    first = driver()
    first.run(ends=False)
    output = "silver.order_payments"
    assert [] in fates(bench, output).values(), "the last ones wait for a record that never comes"
    before = _last_plan(bench)
    assert bool(before.ticks) == (settling == "event_time"), "the frontier alone moves clocks"
    first.round()
    assert _last_plan(bench) == before
    later[0] = 2 * HOUR
    second = driver()  # what arrived when is in the ledger
    second.run(ends=False)
    found = fates(bench, output)
    assert {tuple(kinds) for kinds in found.values()} == {("matched",), ("unmatched",), ("LATE",)}
    assert_equal(bench)
    last = _last_plan(bench)
    assert last.ticks
    later[0] = 9 * HOUR
    second.round()
    assert _last_plan(bench) == last, "nothing waits any more"
    for topic, given in zip(topics, job.topics, strict=True):
        broker.produce(topic, job.new()[given])
    driver().run()
    assert_equal(bench)


@pytest.mark.soak  # test_exactly_once has records that wait
def test_views_wait_for_profiles_and_profiles_amend(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    views, users = fresh_topics(broker, 1)
    builder = StreamsBuilder("races")
    stream = builder.stream(views, key=Text("user"), value=Text("page"), name="views")
    table = builder.table(users, key=Text("user"), value=Text("region"), name="users")
    stream.join(table, wait="100 ms", name="waited").to_delta("silver.waited")
    stream.left_join(table, amend="100 ms", name="amended").to_delta("silver.amended")
    bench = Bench(spark, broker, tmp_path, builder.build())
    broker.produce(users, [("known", "EU", ZERO)])
    broker.produce(views, [("known", "/1", ZERO + 10), ("new", "/2", ZERO + 20), ("never", "/3", ZERO + 30)])
    bench.run(snapshot_every=1)
    assert told(bench, "silver.waited") == [("/1", "EU", "matched")]
    assert told(bench, "silver.amended") == [
        ("/1", "EU", "matched"),
        ("/2", None, "unmatched"),
        ("/3", None, "unmatched"),
    ]
    broker.produce(users, [("new", "US", ZERO + 90)])
    bench.run()
    assert told(bench, "silver.waited")[1:] == [("/2", "US", "matched")]
    assert told(bench, "silver.amended")[3:] == [("/2", "US", "amended")]
    bench.run(drain=True)
    assert len(told(bench, "silver.waited")) == 2
    assert len(told(bench, "silver.amended")) == 4
    refused = bench.quarantine().select("code", "node", F.col("value").cast("string"), "message").collect()
    assert [tuple(row) for row in refused] == [
        ("NO_PARTNER", "waited", "/3", f"waited 100 ms for a row of its key, until {ZERO + 130}")
    ]
    assert_equal(bench)
    (trace,) = why(spark, bench.lake, bench.topology, place=(views, 0, 2))
    assert "is in quarantine by waited: NO_PARTNER" in " ".join(trace.sentences)


@pytest.mark.soak
def test_races_are_counted_where_they_are(
    spark: SparkSession, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind a re-key and a filter, in front of another join, with values that no join has a use for."""
    alone: list[str] = []
    by_itself = write_metrics.NodeMetrics._alone

    def counted_alone(self: write_metrics.NodeMetrics, node: str) -> dict[str, int]:
        alone.append(node)
        return by_itself(self, node)

    monkeypatch.setattr(write_metrics.NodeMetrics, "_alone", counted_alone)
    views, users = fresh_topics(broker, 1)
    builder = StreamsBuilder("counted_races")
    stream = builder.stream(views, key=Text("id"), value=Json("user string, page string"), name="views",
                            null_values="ignore")  # fmt: skip
    table = builder.table(users, key=Text("user"), value=Text("region"), name="users")
    by_user = stream.select_key(lambda view: {"user": view.user}, name="by_user").filter(
        lambda view: view.page != "/skip", name="wanted"
    )
    by_user.join(table, wait="100 ms", name="patient").to_delta("silver.patient")
    corrected = by_user.left_join(
        table, lambda view, user: {"page": view.page, "region": user.region}, wait="20 ms", amend="200 ms", name="late"
    )
    corrected.join(table, lambda row, user: {"page": row.page, "again": user.region}, name="again").to_delta(
        "silver.again"
    )
    bench = Bench(spark, broker, tmp_path, builder.build())

    def races() -> dict[str, dict[str, int]]:
        return status.read(spark, bench.lake, bench.topology.name).races

    def viewed(user: str, page: str, at: int) -> tuple[str, str, int]:
        return f"{user}{page}", json.dumps({"user": user, "page": page}), ZERO + at

    broker.produce(users, [("known", "EU", ZERO)])
    broker.produce(views, [viewed("known", "/1", 10), viewed("new", "/2", 12), viewed("never", "/3", 14)])
    broker.produce(views, [viewed("new", "/skip", 15), ("null", None, ZERO + 16)])
    bench.run()
    assert races() == {
        "patient": {"pending": 2, "amended": 0, "expired": 0},
        "late": {"pending": 2, "amended": 0, "expired": 0},
    }
    broker.produce(users, [("new", "US", ZERO + 60)])
    bench.run(snapshot_every=1)
    assert races() == {
        "patient": {"pending": 1, "amended": 0, "expired": 0},
        "late": {"pending": 0, "amended": 1, "expired": 2},
    }
    bench.run(drain=True)
    assert races() == {
        "patient": {"pending": 0, "amended": 0, "expired": 1},
        "late": {"pending": 0, "amended": 1, "expired": 2},
    }
    kinds = {one.node: one.kinds for one in event_log.totals(spark, Ledger(bench.lake, bench.topology.name))}
    assert alone == [], "the writes of the outputs have told it: no job of its own"
    assert kinds["patient"] == {"matched": 2}
    assert kinds["late"] == {"matched": 1, "unmatched": 2, "amended": 1}


def told(bench: Bench, output: str) -> list[tuple[str, str | None, str]]:
    rows = bench.silver(output).orderBy("_lineage.cycle", "_lineage.trigger", "_lineage.n")
    return [tuple(row) for row in rows.select("page", "region", "_lineage.kind").collect()]


def test_drained_records_behind_a_new_key_come_out_of_every_task(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    """The table has more partitions than the stream: in most tasks no partition of the stream moves the clock."""
    number = fresh_topics(broker, 1)[0]
    views, users = f"Few{number}", f"Many{number}"
    broker.create_topic(views, 2)
    broker.create_topic(users, 6)
    builder = StreamsBuilder("rekeyed")
    stream = builder.stream(views, key=Text("id"), value=Text("user"))
    table = builder.table(users, key=Text("user"), value=Text("region"))
    stream.select_key(lambda view: {"user": view.user}).left_join(table, wait="10 s").to_delta("silver.waited")
    bench = Bench(spark, broker, tmp_path, builder.build())
    broker.produce(views, [(f"v{n}", f"u{n}", ZERO) for n in range(24)])
    bench.run(drain=True)
    found = {row[0] for row in bench.silver("silver.waited").select("user").collect()}
    assert found == {f"u{n}" for n in range(24)}


@pytest.mark.soak
def test_by_event_time_the_tail_waits_for_the_slower_topic(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    orders, payments = fresh_topics(broker, 1, ("Orders", "Payments"))
    bench = Bench(spark, broker, tmp_path, unruled(orders, payments))
    broker.produce(orders, [(f"o{n}", str(n), ZERO + 100 * n) for n in range(10)])
    broker.produce(payments, [("o0", "p0", ZERO + 50), ("o3", "p3", ZERO + 350)])
    bench.run(settling="event_time")
    rows = bench.silver("silver.order_payments").select("amount", "reference").orderBy("amount")
    assert [tuple(row) for row in rows.collect()] == [("0", "p0"), ("1", None), ("2", None)]
    positions = {part.topic: part.to_offset for part in _last_plan(bench).ranges}
    assert positions == {orders: 4, payments: 1}, "strictly below the slower one's stream time"
    assert _last_plan(bench).clocks == {0: ZERO + 350}
    assert_equal(bench)


def test_drained_by_event_time_what_was_held_back_is_taken_before_clocks_go_on(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    orders, payments = fresh_topics(broker, 1, ("Orders", "Payments"))
    builder = StreamsBuilder("drained")
    left, right = (builder.stream(topic, key=Text("id"), value=Text(topic.lower())) for topic in (orders, payments))
    left.left_join(right, within="5 s", name="paid").to_delta("silver.paid")
    bench = Bench(spark, broker, tmp_path, builder.build())
    broker.produce(orders, [("o1", "ten", ZERO), ("o2", "two", ZERO + 500)])
    broker.produce(payments, [("p0", "nothing", ZERO + 100), ("o1", "paid", ZERO + 1_500)])
    bench.run(settling="event_time")
    held = {part.topic: part.to_offset for part in _last_plan(bench).ranges}
    assert held == {orders: 1, payments: 1}, "the payment lies in bronze, in no plan"
    bench.run(settling="event_time", drain=True)
    rows = bench.silver("silver.paid").select("id", "_lineage.kind").orderBy("id").collect()
    assert [tuple(row) for row in rows] == [("o1", "matched"), ("o2", "unmatched")]
    assert_equal(bench, ask_second=False)  # SQL's join over drained clocks is compared in test_expectations


@pytest.mark.soak
def test_what_time_lets_out_too_late_for_its_window_is_in_quarantine(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    views, clicks = fresh_topics(broker, 1, ("Views", "Clicks"))
    builder = StreamsBuilder("too_late")
    left, right = (builder.stream(topic, key=Text("ad"), value=Text(topic.lower())) for topic in (views, clicks))
    pairs = left.left_join(right, within="6 s", name="pairs")
    pairs.group_by_key().windowed_by("1 s").count(name="counted").to_stream(name="told").to_delta("silver.counts")
    bench = Bench(spark, broker, tmp_path, builder.build())
    broker.produce(views, [("a", "waits", ZERO), ("b", "meets", ZERO + 5_000)])
    broker.produce(clicks, [("b", "at once", ZERO + 5_000)])
    bench.run(snapshot_every=1)
    assert bench.quarantine().count() == 0
    bench.run(drain=True)
    last = _last_plan(bench)
    assert last.ticks
    assert not any(part.records for part in last.ranges)
    refused = bench.quarantine().select("cycle", "node", "code", "topic", "offset", F.col("value").cast("string"))
    assert [tuple(row) for row in refused.collect()] == [(last.cycle, "counted", "LATE", views, 0, "waits")]
    assert [row["ad"] for row in bench.silver("silver.counts").collect()] == ["b"]
    assert_equal(bench)


def _last_plan(bench: Bench) -> Plan:
    plan = Ledger(bench.lake, bench.topology.name).history(bench.spark).plan
    assert plan is not None
    return plan
