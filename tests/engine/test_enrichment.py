"""Scenario 1 on the real broker: inner, left, races, re-key, tombstone, updates, several partitions."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from chispa import assert_df_equality
from pyspark.sql import functions as F  # noqa: N812
from tests.engine.harness import (
    SILVER,
    ZERO,
    Bench,
    assert_ledger_sound,
    assert_sound,
    at,
    facts,
    fresh_topics,
    page_views,
)

from lakestreams import Json, Long, RegistryJson, StreamsBuilder, Text
from lakestreams.engine.driver import Driver
from lakestreams.engine.ingest import query as ingest_query
from lakestreams.engine.runtime import failpoints
from lakestreams.testing.small import small

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.local.broker import Broker

pytestmark = [pytest.mark.broker]

# Behind Connect and on the long-term runtime; on the classic session of today's Spark `test_exactly_once` and `test_taken_over`
# have restarts.
ELSEWHERE = os.environ.get("LAKESTREAMS_TEST_MODE") == "connect" or os.environ.get("LAKESTREAMS_SPARK") == "lts"
IN_CONNECT = [pytest.mark.connect, *([] if ELSEWHERE else [pytest.mark.soak])]

PROFILES = at(("alice", "us-east", 0), ("bob", "eu-west", 0), ("carol", "ap-south", 0))
VIEWS = at(("alice", "/home", 1), ("bob", "/products", 2), ("carol", "/checkout", 3), ("dave", "/home", 4))
ENRICHED = [
    ("alice", "/home", "us-east"),
    ("bob", "/products", "eu-west"),
    ("carol", "/checkout", "ap-south"),
]


@pytest.fixture
def bench(spark: SparkSession, broker: Broker, tmp_path: Path) -> Bench:
    """Scenario 1's pipeline on four partitions, nothing produced yet."""
    return Bench(spark, broker, tmp_path, page_views(*fresh_topics(broker, 4)))


def topics(bench: Bench) -> tuple[str, str]:
    views, users = (source.topic for source in bench.topology.sources)
    return views, users


def assert_joined(bench: Bench, *later: tuple[str, str, str, int]) -> None:
    """Every view has its row, the unknown user the default, and those that came later follow."""
    expected = [(*row, ZERO + ms) for ms, row in enumerate([*ENRICHED, ("dave", "/home", "<unknown>")], start=1)]
    expected += later
    assert_df_equality(
        bench.silver().drop("_lineage"),
        bench.spark.createDataFrame(expected, "user string, page string, region string, event_time_ms bigint"),
        ignore_row_order=True,
        ignore_nullable=True,
    )
    assert bench.enriched() == [row[:3] for row in expected]


@pytest.mark.lts  # behind Connect the restart below gives as much
def test_left_join_gives_every_view_and_a_run_on_no_new_data_writes_its_claim_and_its_end(bench: Bench) -> None:
    views, users = topics(bench)
    bench.broker.produce(users, PROFILES)
    bench.broker.produce(views, VIEWS)
    summary = bench.run()
    assert_joined(bench)
    assert (summary.cycles, summary.records, summary.bad) == (1, 7, 0)
    assert_ledger_sound(bench)

    before = _versions(bench)
    rows = bench.ledger().count()
    bench.run()
    after = _versions(bench)
    assert bench.ledger().count() == rows + 2
    assert bench.ledger().where("kind = 'epoch'").count() == 2
    commits = {name: after[name] - version for name, version in before.items()}
    written = {"_lakestreams.ledger": 2, "_lakestreams.epochs": 1}
    assert commits == {name: written.get(name, 0) for name in before}, "whoever reads an output as a stream reads on"


@pytest.mark.parametrize(
    "point",
    [pytest.param("plan.after", marks=IN_CONNECT), pytest.param("publish.after", marks=pytest.mark.soak)],
)
def test_a_restart_finishes_what_was_planned(bench: Bench, monkeypatch: pytest.MonkeyPatch, point: str) -> None:
    views, users = topics(bench)
    bench.broker.produce(users, PROFILES)
    bench.broker.produce(views, [*VIEWS, ("erin", b"\xff", ZERO + 5)])
    monkeypatch.setenv(failpoints.VARIABLE, f"{point}:1:raise")
    with pytest.raises(failpoints.FailpointReached):
        bench.run()
    monkeypatch.delenv(failpoints.VARIABLE)
    bench.broker.produce(views, at(("alice", "/after-the-crash", 50)))
    bench.run()
    assert_joined(bench, ("alice", "/after-the-crash", "us-east", ZERO + 50))
    assert [(row["key"], row["code"]) for row in bench.quarantine().collect()] == [(b"erin", "MALFORMED_VALUE")]
    assert_sound(bench)


@pytest.mark.soak  # so do those of the next cycles in test_exactly_once
def test_later_views_meet_the_profile_of_an_earlier_run(bench: Bench) -> None:
    views, users = topics(bench)
    bench.broker.produce(users, PROFILES)
    bench.run()
    bench.broker.produce(views, VIEWS)
    bench.run()
    assert bench.enriched() == [*ENRICHED, ("dave", "/home", "<unknown>")]
    assert_ledger_sound(bench)


@pytest.mark.soak  # the test driver shows the same in tests/conformance and tests/scenarios
def test_inner_join_drops_the_view_without_a_profile(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    views, users = fresh_topics(broker, 2)
    bench = Bench(spark, broker, tmp_path, page_views(views, users, how="inner"))
    broker.produce(users, PROFILES)
    broker.produce(views, VIEWS)
    bench.run()
    assert bench.enriched() == ENRICHED
    assert bench.quarantine().count() == 0


@pytest.mark.soak  # the test driver shows the same in tests/conformance and tests/scenarios
def test_a_profile_that_comes_later_does_not_change_earlier_views(bench: Bench) -> None:
    """Race orders: at the same time the table goes first, later profiles meet later views only."""
    views, users = topics(bench)
    bench.broker.produce(views, at(("alice", "/early", 1), ("bob", "/same-time", 5), ("alice", "/late", 9)))
    bench.broker.produce(users, at(("alice", "us-east", 5), ("bob", "eu-west", 5)))
    bench.run()
    assert bench.enriched() == [
        ("alice", "/early", "<unknown>"),
        ("bob", "/same-time", "eu-west"),
        ("alice", "/late", "us-east"),
    ]


@pytest.mark.soak  # the test driver shows the same in tests/conformance and tests/scenarios
def test_an_update_between_two_views_and_a_tombstone(bench: Bench) -> None:
    views, users = topics(bench)
    bench.broker.produce(users, at(("alice", "us-east", 0), ("alice", "eu-north", 2), ("alice", None, 4)))
    bench.broker.produce(views, at(("alice", "/one", 1), ("alice", "/two", 3), ("alice", "/three", 5)))
    bench.run()
    assert bench.enriched() == [
        ("alice", "/one", "us-east"),
        ("alice", "/two", "eu-north"),
        ("alice", "/three", "<unknown>"),
    ]
    bench.broker.produce(users, at(("alice", "sa-west", 7)))
    bench.broker.produce(views, at(("alice", "/four", 6), ("alice", "/five", 8)))
    bench.run()
    assert bench.enriched()[3:] == [("alice", "/four", "<unknown>"), ("alice", "/five", "sa-west")]
    assert_ledger_sound(bench)


@pytest.mark.soak
def test_a_profile_is_found_across_runs_snapshots_and_their_loss(bench: Bench) -> None:
    views, users = topics(bench)
    expected = []
    for number in range(4):
        bench.broker.produce(users, at(("alice", f"r{number}", 10 * number), (f"user{number}", "x", 10 * number)))
        bench.broker.produce(views, at(("alice", f"/{number}", 10 * number + 1)))
        if number == 3:
            _remove(bench.lake.snapshot(bench.topology.name, users).path)
        bench.run(snapshot_every=1)
        expected.append(("alice", f"/{number}", f"r{number}"))
        if number < 3:
            assert (
                bench.lake.snapshot(bench.topology.name, users).read(bench.spark).where("k is not null").count()
                == number + 2
            )
    bench.broker.produce(views, at(*((f"user{number}", "/end", 90) for number in range(4))))
    bench.run(snapshot_every=1)
    assert bench.enriched()[:4] == expected
    assert {row[2] for row in bench.enriched()[4:]} == {"x"}


@pytest.mark.soak  # test_cuts and test_settle have idle partitions
def test_partitions_without_a_record_hold_nothing_back(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    views, users = fresh_topics(broker, 6)
    bench = Bench(spark, broker, tmp_path, page_views(views, users))
    broker.produce(users, at(("alice", "us-east", 0)))
    broker.produce(views, at(("alice", "/home", 1)))
    bench.run()
    assert bench.enriched() == [("alice", "/home", "us-east")]


def test_a_global_table_is_read_to_its_end_before_anything_is_joined(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    """Five records a batch, and the views older than every product: each of them meets its product all the same."""
    views, products = fresh_topics(broker, 1, ("ProductViews", "Products"))
    builder = StreamsBuilder("looked_up")
    stream = builder.stream(views, key=Text("user"), value=Text("product"))
    table = builder.global_table(products, key=Text("product"), value=Text("title"))
    stream.left_join(table, left_on="product").to_delta(SILVER)
    bench = Bench(spark, broker, tmp_path, builder.build())
    broker.produce(products, at(*((f"p{number}", f"title {number}", 100 + number) for number in range(10))))
    broker.produce(views, at(*((f"user{number}", f"p{9 - number}", number) for number in range(5))))
    with small(spark):
        bench.run(max_offsets_per_trigger=5)
    assert bench.ledger().where("kind = 'ingest'").count() > 1, "read at once, nothing would have to wait"
    rows = bench.silver().orderBy("user").select("user", "title").collect()
    assert [tuple(row) for row in rows] == [(f"user{number}", f"title {9 - number}") for number in range(5)]
    assert_ledger_sound(bench)


def test_what_a_pipeline_says_of_reading_comes_before_our_own_defaults(
    spark: SparkSession, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Options that the ingest sets by itself may be set; they were refused as given twice."""
    # with any of these Kafka's client would not start
    monkeypatch.setattr(ingest_query, "READER", dict.fromkeys(ingest_query.READER, "-1"))
    bench = Bench(spark, broker, tmp_path, page_views(*fresh_topics(broker, 1)))
    views, _ = (source.topic for source in bench.topology.sources)
    broker.produce(views, at(("alice", "/a", 1), ("bob", "/b", 2)))
    own = {
        "kafka.max.poll.records": "1",
        "kafka.fetch.max.wait.ms": "10",
        "kafka.max.partition.fetch.bytes": "1024",
    }
    assert own.keys() == ingest_query.READER.keys()
    settings = bench.settings()
    settings = replace(settings, kafka={**settings.kafka, **own})
    summary = Driver(spark, bench.topology, bench.lake, settings).run()
    assert summary.records == 2
    assert bench.silver().count() == 2


@pytest.mark.soak  # the test driver shows the same in tests/conformance and tests/scenarios
def test_a_rekeyed_stream_meets_the_table_by_its_new_key(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """Orders are keyed by order id; re-keyed to the customer they need no equal partition counts."""
    orders, customers = fresh_topics(broker, (3, 2))
    builder = StreamsBuilder("orders")
    stream = builder.stream(orders, key=Long("order_id"), value=Json("customer string, amount decimal(10,2)"))
    table = builder.table(customers, key=Text("customer"), value=RegistryJson("name string"))
    by_customer = stream.select_key(lambda order: {"customer": order.customer})
    by_customer.join(table, lambda order, customer: {"amount": order.amount, "name": customer.name}).to_delta(SILVER)
    bench = Bench(spark, broker, tmp_path, builder.build())
    broker.produce(customers, [("c1", b'\x00\x00\x00\x00\x07{"name": "Ada"}', ZERO)])
    broker.produce(
        orders,
        [
            ((1).to_bytes(8, "big"), '{"customer": "c1", "amount": 12.50}', ZERO + 1),
            ((-2).to_bytes(8, "big", signed=True), '{"customer": "c9", "amount": 1}', ZERO + 2),
            ((3).to_bytes(8, "big"), '{"amount": 1}', ZERO + 3),
        ],
    )
    bench.run()
    rows = bench.silver().select("customer", F.col("amount").cast("string"), "name").collect()
    assert [tuple(row) for row in rows] == [("c1", "12.50", "Ada")]
    lost = bench.quarantine().select("code", "topic", "node").collect()
    assert [tuple(row) for row in lost] == [("NULL_KEY", orders, bench.topology.joins[0].name)]


def test_event_time_from_a_field_falls_back_to_the_record(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    views, users = fresh_topics(broker, 1)
    builder = StreamsBuilder("timed")
    stream = builder.stream(views, key=Text("user"), value=Json("ms bigint, page string"), event_time="ms")
    table = builder.table(users, key=Text("user"), value=Text("region"))
    stream.left_join(table, lambda view, user: {"page": view.page, "region": user.region}).to_delta(SILVER)
    bench = Bench(spark, broker, tmp_path, builder.build())
    broker.produce(users, at(("alice", "us-east", 10)))
    broker.produce(
        views,
        [
            ("alice", f'{{"ms": {ZERO + 1}, "page": "/by-field"}}', ZERO + 50),
            ("alice", '{"page": "/by-record"}', ZERO + 20),
        ],
    )
    bench.run()
    rows = bench.silver().orderBy("event_time_ms").select("page", "region", "event_time_ms").collect()
    assert [tuple(row) for row in rows] == [("/by-field", None, ZERO + 1), ("/by-record", "us-east", ZERO + 20)]


@pytest.mark.soak  # the test driver shows the same in tests/conformance and tests/scenarios
def test_map_values_filter_and_two_outputs(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    views, users = fresh_topics(broker, 2)
    builder = StreamsBuilder("shaped")
    stream = builder.stream(views, key=Text("user"), value=Text("page"))
    table = builder.table(users, key=Text("user"), value=Text("region"))
    known = table.filter(lambda user: user.region != "secret").map_values(lambda user: {"area": F.upper(user.region)})
    joined = stream.filter(lambda view: view.page.startswith("/")).left_join(known)
    joined.to_delta("silver.all_views")
    joined.filter(lambda row: row.area.isNotNull(), name="only_known").to_delta("silver.known_views")
    bench = Bench(spark, broker, tmp_path, builder.build())
    broker.produce(users, at(("alice", "eu", 0), ("bob", "us", 0), ("bob", "secret", 2)))
    broker.produce(views, at(("alice", "/a", 1), ("bob", "/b", 1), ("bob", "/c", 3), ("carol", "x", 3)))
    bench.run()
    rows = bench.silver("silver.all_views").orderBy("page").select("user", "page", "area").collect()
    assert [tuple(row) for row in rows] == [("alice", "/a", "EU"), ("bob", "/b", "US"), ("bob", "/c", None)]
    assert bench.silver("silver.known_views").count() == 2


def _versions(bench: Bench) -> dict[str, int]:
    tables = [bench.lake.control("ledger"), bench.lake.control("quarantine"), bench.lake.output(SILVER)]
    tables += [bench.lake.bronze(bench.topology.name, source.topic) for source in bench.topology.sources]
    return {
        table.name: bench.spark.sql(f"describe history {table.reference} limit 1").collect()[0]["version"]
        for table in tables
    }


def _remove(path: str | None) -> None:
    import shutil

    assert path is not None
    shutil.rmtree(path)


@pytest.mark.soak
def test_silver_does_not_depend_on_how_the_log_is_read(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """One fixed log on the broker, read one record a trigger, seventeen, and all at once: the same silver rows."""
    rng = random.Random(20261121)
    names = fresh_topics(broker, [4, 4])
    people = ["alice", "bob", "carol", "dave", "erin"]
    broker.produce(names[1], at(*((rng.choice(people), f"region{n}", rng.randint(0, 30)) for n in range(5))))
    broker.produce(names[0], at(*((rng.choice(people), f"/{n}", rng.randint(0, 30)) for n in range(15))))
    found = {}
    for size in (1, 17, 1_000):
        bench = Bench(spark, broker, tmp_path / str(size), page_views(*names))
        summary = bench.run(max_offsets_per_trigger=size)
        assert summary.records == 20
        found[size] = facts(bench)[SILVER]
        assert_ledger_sound(bench)
    assert len(found[1_000]) == 15
    assert found[1] == found[17] == found[1_000]
