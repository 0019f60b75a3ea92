"""Bad input: each kind goes to quarantine with its reason, raw bytes and place; everything else goes on."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.engine.harness import SILVER, ZERO, Bench, assert_ledger_sound, at, fresh_topics, page_views

from lakestreams import EventTime, Json, StreamsBuilder, Text
from lakestreams.errors import ExpectationFailed, TooManyBadRecords

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.local.broker import Broker

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("small_input")]


@pytest.mark.lts  # behind Connect test_enrichment has a bad record
def test_each_kind_of_bad_record_is_kept_with_its_reason(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    views, users = fresh_topics(broker, 1)
    builder = StreamsBuilder("bad_input")
    stream = builder.stream(
        views, key=Text("user"), value=Json("ms bigint, page string"), event_time=EventTime("ms", fallback=False)
    )
    table = builder.table(users, key=Text("user"), value=Text("region"))
    stream.left_join(table, lambda view, user: {"page": view.page, "region": user.region}).to_delta(SILVER)
    bench = Bench(spark, broker, tmp_path, builder.build())
    future = time.time_ns() // 1_000_000 + 3 * 86_400_000
    bad = {
        0: (b"alice", b"{broken", "MALFORMED_VALUE"),
        1: (b"alice", b'{"ms": "x", "page": "/"}', "MALFORMED_VALUE"),
        2: (b"alice", b'{"ms": 1, "page": "/"} trailing', "MALFORMED_VALUE"),
        3: (b"\xff\xfe", b'{"ms": 1, "page": "/"}', "MALFORMED_KEY"),
        4: (b"alice", b'{"page": "/no-time"}', "NO_TIMESTAMP"),
        5: (b"alice", b'{"ms": -5, "page": "/negative"}', "NO_TIMESTAMP"),
        6: (b"alice", b'{"ms": %d, "page": "/future"}' % future, "FUTURE_TIMESTAMP"),
        7: (b"alice", b"[1, 2]", "MALFORMED_VALUE"),
        8: (b"alice", b'{"ms": 1, "page": "\xff"}', "MALFORMED_VALUE"),
        9: (b"alice", b'{"page": ' + b"[" * 2_000 + b"]" * 2_000 + b"}", "MALFORMED_VALUE"),
    }
    broker.produce(views, [(key, value, ZERO) for key, value, _ in bad.values()])
    broker.produce(views, [("alice", None, ZERO), ("alice", '{"ms": 1010, "page": "/good"}', ZERO)])
    broker.produce(users, [("alice", "eu", ZERO), (None, "nobody", ZERO)])
    bench.run()
    found = bench.quarantine().orderBy("topic", "offset").collect()
    reasons = {(row["topic"], row["offset"]): row["code"] for row in found}
    # the tombstone has no field to take its time from, and no fallback: that is its fault, found before its null value
    wanted = {(views, offset): code for offset, (_, _, code) in bad.items()}
    assert reasons == wanted | {(views, 10): "NO_TIMESTAMP", (users, 1): "NULL_KEY"}
    kept = {
        row["offset"]: (bytes(row["key"]), bytes(row["value"]))
        for row in found
        if row["offset"] in bad and row["topic"] == views
    }
    assert kept == {offset: (key, value) for offset, (key, value, _) in bad.items()}
    assert [(row["page"], row["region"]) for row in bench.silver().collect()] == [("/good", "eu")]
    assert bench.bronze(views).agg({"stream_time_ms": "max"}).collect()[0][0] == 1010, "bad records moved the clock"
    assert_ledger_sound(bench)


@pytest.mark.soak  # test_same_refusals shows it for random records
def test_null_values_and_keys_by_shape(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    views, users = fresh_topics(broker, 1)
    bench = Bench(spark, broker, tmp_path, page_views(views, users, how="left"))
    broker.produce(users, at(("alice", "eu", 0)))
    broker.produce(views, [("alice", None, ZERO + 1), (None, "/anonymous", ZERO + 2), ("alice", "/home", ZERO + 3)])
    bench.run()
    assert bench.enriched() == [(None, "/anonymous", "<unknown>"), ("alice", "/home", "eu")]
    assert [(row["code"], row["offset"]) for row in bench.quarantine().collect()] == [("NULL_VALUE", 0)]


@pytest.mark.soak  # test_same_refusals shows it for random records
def test_an_inner_join_quarantines_null_keys(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    views, users = fresh_topics(broker, 1)
    bench = Bench(spark, broker, tmp_path, page_views(views, users, how="inner"))
    broker.produce(users, at(("alice", "eu", 0)))
    broker.produce(views, [(None, "/anonymous", ZERO + 2), ("alice", "/home", ZERO + 3)])
    bench.run()
    assert bench.enriched() == [("alice", "/home", "eu")]
    assert [(row["code"], row["offset"]) for row in bench.quarantine().collect()] == [("NULL_KEY", 0)]


@pytest.mark.soak  # test_same_refusals shows it for random records
def test_ignored_null_values_leave_no_trace_but_bronze(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    views, users = fresh_topics(broker, 1)
    builder = StreamsBuilder("ignoring")
    stream = builder.stream(views, key=Text("user"), value=Text("page"), null_values="ignore")
    stream.left_join(builder.table(users, key=Text("user"), value=Text("region"))).to_delta(SILVER)
    bench = Bench(spark, broker, tmp_path, builder.build())
    broker.produce(views, [("alice", None, ZERO), ("alice", "/home", ZERO)])
    bench.run()
    assert (bench.bronze(views).count(), bench.silver().count(), bench.quarantine().count()) == (2, 1, 0)


def test_keys_not_null_fails_before_anything_is_published(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    views, users = fresh_topics(broker, 1)

    def pipeline(action: str) -> Bench:
        builder = StreamsBuilder("strict_keys")
        stream = builder.stream(views, key=Text("user"), value=Text("page"), keys_not_null=action)  # type: ignore[arg-type]
        stream.left_join(builder.table(users, key=Text("user"), value=Text("region"))).to_delta(SILVER)
        return Bench(spark, broker, tmp_path, builder.build())

    broker.produce(views, [("alice", "/home", ZERO), (None, "/anonymous", ZERO + 1)])
    failing = pipeline("fail")
    with pytest.raises(ExpectationFailed) as refused:
        failing.run()
    assert f"{views}-0@1" in str(refused.value)
    assert failing.silver().count() == 0
    # after the change nothing is lost: the same plan passes, the record without a key goes to quarantine
    dropping = pipeline("drop")
    dropping.run()
    assert [(row["user"], row["page"]) for row in dropping.silver().collect()] == [("alice", "/home")]
    assert [row["code"] for row in dropping.quarantine().collect()] == ["EXPECTATION"]
    assert_ledger_sound(dropping)


def test_too_many_bad_records_stop_the_run_and_the_operator_may_let_them_pass(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    views, users = fresh_topics(broker, 1)
    builder = StreamsBuilder("broken_producer")
    stream = builder.stream(views, key=Text("user"), value=Json("page string"))
    stream.left_join(builder.table(users, key=Text("user"), value=Text("region"))).to_delta(SILVER)
    bench = Bench(spark, broker, tmp_path, builder.build())
    broker.produce(views, [("u", '{"page": "/"}' if number % 10 else "broken", ZERO) for number in range(1_000)])
    with pytest.raises(TooManyBadRecords) as refused:
        bench.run()
    assert "100 of 1000" in str(refused.value)
    assert "--max-bad-share" in str(refused.value)
    assert (bench.silver().count(), bench.quarantine().count()) == (0, 0)
    with pytest.raises(TooManyBadRecords):
        bench.run()
    bench.run(max_bad_share=0.2)
    assert (bench.silver().count(), bench.quarantine().count()) == (900, 100)
    assert_ledger_sound(bench)
