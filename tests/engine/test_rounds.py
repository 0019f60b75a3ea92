"""Rounds that follow each other: when their cycles are closed, and what a crash between two of them leaves."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.engine.harness import Bench, assert_ledger_sound, assert_sound, at, fresh_topics, page_views
from tests.engine.test_kafka_sink import enrichment

from lakestreams.engine.ledger.ledger import Ledger, OwnRow
from lakestreams.engine.ledger.pending_append import PendingAppend
from lakestreams.engine.ledger.plans import History
from lakestreams.engine.publish import cycle
from lakestreams.engine.state.policy import FOLLOWS_WITHIN_S
from lakestreams.engine.takeover import running
from lakestreams.errors import BrokerUnreachable, IngestFailed
from lakestreams.verify.verify import verify

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.local.broker import Broker

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("small_input")]


def make(spark: SparkSession, broker: Broker, root: Path) -> Bench:
    return Bench(spark, broker, root, page_views(*fresh_topics(broker)))


def said(bench: Bench) -> History:
    return Ledger(bench.lake, bench.topology.name).history(bench.spark)


def kinds(bench: Bench) -> list[str]:
    """The rows that tell of cycles, in the order of their times."""
    rows = bench.ledger().where("kind in ('plan', 'done')").orderBy("written_at_ms").select("kind", "cycle").collect()
    return [f"{row['kind']} {row['cycle']}" for row in rows]


def equal(bench: Bench) -> bool:
    return verify(bench.spark, bench.lake, bench.topology).equal


def test_the_next_plan_closes_a_cycle_and_without_one_the_next_round(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    bench = make(spark, broker, tmp_path)
    views = bench.topology.sources[0].topic
    driver = bench.driver(interval_ms=30_000)
    driver.start()
    for number in (1, 2):
        broker.produce(views, at(("alice", f"/{number}", number)))
        driver.round(0)
        assert len(bench.enriched()) == number, "published, whether it is closed or not"
        history = said(bench)
        assert (history.done_cycle, history.open_plan and history.open_plan.cycle) == (number - 1, number)
    driver.round(0)
    assert kinds(bench) == ["plan 1", "plan 2", "done 2"]
    driver.round(0)
    assert kinds(bench) == ["plan 1", "plan 2", "done 2"], "an idle round has nothing to say"
    assert driver.summary.cycles == 2

    broker.produce(views, at(("alice", "/3", 3)))
    driver.round(FOLLOWS_WITHIN_S + 0.1)
    assert kinds(bench)[3:] == ["plan 3", "done 3"], "who comes back later closes what is there"
    broker.produce(views, at(("alice", "/4", 4)))
    driver.round(0)
    driver.round(0)
    (warning,) = running.taken_from(said(bench))
    assert f"run {said(bench).claim.run_id} (epoch 1) has not ended" in warning  # type: ignore[union-attr]
    driver.end()
    assert running.taken_from(said(bench)) == []
    assert kinds(bench)[5:] == ["plan 4", "done 4"]
    assert_ledger_sound(bench)
    told = [event.facts["cycle"] for event in bench.events if event.kind == "finished"]
    assert told == [1, 2, 3, 4]


@pytest.mark.soak
def test_a_cycle_that_was_left_open_is_repeated_and_changes_nothing(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    bench = make(spark, broker, tmp_path)
    views, users = (source.topic for source in bench.topology.sources)
    broker.produce(users, at(("alice", "eu", 0)))
    broker.produce(views, at(("alice", "/1", 1)))
    driver = bench.driver()
    driver.start()
    driver.round(0)
    del driver  # it falls between two rounds
    rows = bench.enriched()
    assert rows == [("alice", "/1", "eu")]
    broker.produce(views, at(("alice", "/2", 2)))
    summary = bench.run()
    assert summary.cycles == 2
    assert bench.enriched() == [*rows, ("alice", "/2", "eu")]
    assert_ledger_sound(bench)
    assert equal(bench)
    events = bench.lake.control("events").read(spark).where("event_type = 'cycle_progress'").orderBy("cycle")
    assert [row["cycle"] for row in events.collect()] == [1, 2]


@pytest.mark.soak
def test_a_round_that_fails_closes_the_cycle_that_was_left_open(
    spark: SparkSession, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever makes it fail may be mended by another configuration, which goes on from no cycle but a closed one."""
    bench = make(spark, broker, tmp_path)
    broker.produce(bench.topology.sources[0].topic, at(("alice", "/1", 1)))
    driver = bench.driver()
    driver.start()
    driver.round(0)
    assert said(bench).open_plan is not None

    def away(*_: object) -> object:
        message = "no broker"
        raise BrokerUnreachable(message)

    monkeypatch.setattr(driver.setup.endpoints, "view", away)
    with pytest.raises(BrokerUnreachable):
        driver.round(0)
    assert kinds(bench) == ["plan 1", "done 1"]
    with pytest.raises(RuntimeError, match="this driver of page_views has failed"):
        driver.round(0)
    driver.end()
    assert kinds(bench) == ["plan 1", "done 1"]
    assert_sound(bench)


# With 1 something of the past would be due.
@pytest.mark.parametrize("every", [1, pytest.param(100, marks=pytest.mark.soak)])
def test_a_plan_that_cannot_be_appended_closes_no_cycle_and_nothing_of_the_past_is_stored(
    spark: SparkSession, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: int
) -> None:
    """It is pending; the cycle that was left is closed by a row of its own."""
    bench = make(spark, broker, tmp_path)
    views, users = (source.topic for source in bench.topology.sources)
    broker.produce(users, at(("alice", "eu", 0)))
    broker.produce(views, at(("alice", "/1", 1)))
    driver = bench.driver(snapshot_every=every)
    driver.start()
    driver.round(0)
    broker.produce(views, at(("alice", "/2", 2)))

    def away(_ledger: Ledger, _spark: object, *rows: OwnRow) -> None:
        message = f"no ledger for {[one.kind for one in rows]}"
        raise OSError(message)

    monkeypatch.setattr(Ledger, "record", away)
    with pytest.raises(OSError, match=r"no ledger for \['ingest', 'plan'\]"):
        driver.round(0)
    assert kinds(bench) == ["plan 1", "done 1"]
    assert [event for event in bench.events if event.kind == "snapshot"] == []
    assert bench.enriched() == [("alice", "/1", "eu")]


@pytest.mark.soak  # tests/protocol has one that fails, test_last_cycle what may be closed
def test_a_cycle_that_was_not_executed_is_never_closed(
    spark: SparkSession, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = make(spark, broker, tmp_path)
    views = bench.topology.sources[0].topic
    broker.produce(views, at(("alice", "/1", 1)))
    driver = bench.driver()
    driver.start()
    driver.round(0)
    broker.produce(views, at(("alice", "/2", 2)))

    def falls(*_: object, **__: object) -> object:
        message = "no memory"
        raise MemoryError(message)

    monkeypatch.setattr(cycle, "execute", falls)
    with pytest.raises(MemoryError):
        driver.round(0)
    driver.end()
    assert kinds(bench) == ["plan 1", "plan 2"]
    monkeypatch.undo()
    assert bench.run().cycles == 1
    assert bench.enriched() == [("alice", "/1", "<unknown>"), ("alice", "/2", "<unknown>")]
    assert kinds(bench) == ["plan 1", "plan 2", "done 2"]
    assert_sound(bench)


@pytest.mark.soak
def test_where_a_topic_is_written_no_cycle_is_left_open(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    bench = Bench(spark, broker, tmp_path, enrichment(*fresh_topics(broker)))
    for sink in bench.topology.kafka_sinks:
        broker.create_topic(sink.name)
    broker.produce(bench.topology.sources[0].topic, at(("alice", "/1", 1)))
    driver = bench.driver()
    driver.start()
    driver.round(0)
    assert said(bench).open_plan is None
    assert kinds(bench) == ["plan 1", "done 1"]


def test_a_batch_that_was_planned_before_its_row_was_there_is_closed_by_the_next_driver(
    spark: SparkSession, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Markers behind the last record: bronze has no row of them, so the batch ends earlier there than in the plan.

    The two rows are appended one by one here, as they are where the query goes on to its next batch. Of a cycle whose batch
    has no row nothing is out.
    """
    bench = make(spark, broker, tmp_path)
    views, users = (source.topic for source in bench.topology.sources)
    broker.produce_transaction(users, at(("alice", "eu", 0)))
    broker.produce_transaction(views, at(("alice", "/1", 1)))
    planned, record, append = threading.Event(), Ledger.record, PendingAppend.append

    def falls(self: Ledger, spark: Any, row: OwnRow) -> None:
        if row.kind == "plan":
            record(self, spark, row)
            planned.set()
            return
        assert planned.wait(120), "the plan waited for the row"
        msg = "it fell before the row was there"
        raise RuntimeError(msg)

    def at_once(self: PendingAppend, *given: Any, **how: Any) -> None:
        append(self, *given, **{**how, "holds": False})

    monkeypatch.setattr(Ledger, "record", falls)
    monkeypatch.setattr(PendingAppend, "append", at_once)
    with pytest.raises(IngestFailed, match="before the row was there"):
        bench.run()
    monkeypatch.setattr(Ledger, "record", record)
    assert (said(bench).ingest, said(bench).open_plan is not None) == (None, True)
    assert bench.enriched() == []

    summary = bench.run()
    assert summary.cycles == 1
    assert [event.facts["seq"] for event in bench.events if event.kind == "recovered"] == [1]
    broker.produce_transaction(views, at(("alice", "/2", 2)))
    bench.run()
    assert bench.enriched() == [("alice", "/1", "eu"), ("alice", "/2", "eu")]
    batches = bench.ledger().where("kind = 'ingest'").orderBy("seq").select("seq", "seq_from").collect()
    assert [tuple(row) for row in batches] == [(1, 1), (2, 2)]
    assert_sound(bench)
