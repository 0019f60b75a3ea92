"""What a driver still does while another one takes over: counted once, or not at all."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812
from tests.engine.harness import ZERO, Bench, assert_sound, facts, fresh_topics, page_views
from tests.engine.late import Statement, under_way
from tests.sampling import sampled

from lakestreams import StreamsBuilder, Text
from lakestreams.engine.driver import Driver
from lakestreams.engine.ledger import fence
from lakestreams.engine.ledger import ledger as ledgers
from lakestreams.engine.ledger.fence import translated
from lakestreams.engine.ledger.ledger import Ledger
from lakestreams.engine.ledger.plans import Plan, StoredState
from lakestreams.engine.protocol import commands, keeping
from lakestreams.engine.runtime.lake import Lake
from lakestreams.errors import Fenced
from lakestreams.testing.small import small

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakestreams.engine.runtime.progress import Event
    from lakestreams.local.broker import Broker

pytestmark = [pytest.mark.broker]

ROWS = "silver.rows"
PATIENCE_S = 240


@pytest.fixture(autouse=True, scope="module")
def _small(spark: SparkSession) -> Iterator[None]:
    with small(spark):
        yield


def test_what_the_older_driver_did_up_to_the_claim_is_not_done_again(
    spark: SparkSession, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newer one sees cycle 1 open; by the time that it has the pipeline, cycle 2 has deleted what 1 put there."""
    users, _ = fresh_topics(broker)
    builder = StreamsBuilder("two_drivers")
    builder.table(users, key=Text("user"), value=Text("region"), name="users").to_delta(ROWS, mode="merge")
    bench = Bench(spark, broker, tmp_path, builder.build())
    broker.produce(users, [("ann", "eu", ZERO), ("ben", "us", ZERO + 1)])
    planned, go_on, done = threading.Event(), threading.Event(), threading.Event()
    failed: list[BaseException] = []

    def pause(event: Event) -> None:
        if event.kind == "planned":
            planned.set()
            go_on.wait(PATIENCE_S)

    def work() -> None:
        try:
            older.start()
            older.round()
            broker.produce(users, [("ann", None, ZERO + 2)])
            older.round()
        except BaseException as error:  # noqa: BLE001 - the test tells
            failed.append(error)
        done.set()

    older = Driver(spark, bench.topology, bench.lake, bench.settings(), pause)
    thread = threading.Thread(target=work)
    thread.start()
    assert planned.wait(PATIENCE_S)
    real = Ledger.append_claim

    def claim(self: Ledger, *args: Any) -> bool:
        go_on.set()
        assert done.wait(PATIENCE_S)
        return real(self, *args)

    monkeypatch.setattr(Ledger, "append_claim", claim)
    bench.run()
    thread.join()
    assert not failed
    assert [row["user"] for row in bench.silver(ROWS).collect()] == ["ben"]
    assert_sound(bench)


class Twice:
    """A pipeline that an older driver has begun, and its rows of the first batch, as it would append them."""

    def __init__(self, spark: SparkSession, broker: Broker, root: Path) -> None:
        self.views, self.users = fresh_topics(broker)
        broker.produce(self.users, [("ann", "eu", ZERO), ("ben", "us", ZERO)])
        broker.produce(self.views, [("ann", "/a", ZERO + 1), ("ben", "/b", ZERO + 2)])
        topology = page_views(self.views, self.users)
        self.plain = Bench(spark, broker, root / "plain", topology)
        self.plain.run()
        self.bench = Bench(spark, broker, root / "both", topology)
        self.bench.driver().start()
        self.older = Ledger(self.bench.lake, topology.name, epoch=1)

    def rows(self, topic: str) -> DataFrame:
        return self.plain.bronze(topic).withColumn("ingest_time_ms", F.lit(1).cast("bigint"))

    def append(self, topic: str, rows: DataFrame) -> None:
        """Past its fence already."""
        name = self.bench.topology.name
        self.bench.lake.bronze(name, topic).append(rows, f"{name}/bronze/{topic}", 1)

    def assert_once(self) -> None:
        found, expected = facts(self.bench), facts(self.plain)
        for name, rows in expected.items():
            assert found[name] == rows, name
        assert_sound(self.bench)


@pytest.fixture
def twice(spark: SparkSession, broker: Broker, tmp_path: Path) -> Twice:
    return Twice(spark, broker, tmp_path)


@pytest.mark.soak  # in tests/protocol one is skipped by its number; the one in flight below is stopped
def test_rows_that_come_behind_the_newer_drivers_are_skipped(twice: Twice) -> None:
    newer = twice.bench.driver()
    newer.start()
    newer.round()
    for topic in (twice.views, twice.users):
        twice.append(topic, twice.rows(topic))
    newer.round()
    twice.assert_once()


@pytest.mark.parametrize("how", ["in flight", pytest.param("paused", marks=pytest.mark.soak)])
def test_a_topics_first_append_in_a_later_batch_than_its_drivers_first_comes_once(
    spark: SparkSession, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    views, users = fresh_topics(broker)
    both = Bench(spark, broker, tmp_path / "both", page_views(views, users))
    broker.produce(users, [("ann", "eu", ZERO), ("ben", "us", ZERO)])
    older = Driver(spark.newSession(), both.topology, both.lake, both.settings())
    older.start()
    older.round()
    broker.produce(views, [("ann", "/a", ZERO + 1), ("ben", "/b", ZERO + 2)])
    first = Statement(both.lake.bronze("page_views", views).name)
    with under_way(monkeypatch, first, how, tmp_path, older.round) as (raised, go_on):
        newer = both.driver()
        newer.start()
        go_on()
        newer.round()
    assert [type(one) for one in raised] == [Fenced]
    for topic, column, values in ((users, "region", ["eu", "us"]), (views, "page", ["/a", "/b"])):
        rows = both.bronze(topic).select("offset", "attempt", "k.user", f"v.{column}").orderBy("offset").collect()
        assert [tuple(row) for row in rows] == [(0, 0, "ann", values[0]), (1, 0, "ben", values[1])], topic
    assert both.enriched() == [("ann", "/a", "eu"), ("ben", "/b", "us")]
    assert both.quarantine().count() == 0
    assert_sound(both)


@pytest.mark.soak  # the one in flight above is stopped, too
def test_the_rest_of_a_batch_does_not_come_behind_its_recovery(twice: Twice, tmp_path: Path) -> None:
    """One topic is in bronze when the newer driver looks, the other one is being written."""
    twice.append(twice.users, twice.rows(twice.users))
    go_on, begun = tmp_path / "go-on", tmp_path / "begun"
    found: list[Exception] = []

    @F.udf("long")
    def slow(offset: int) -> int:
        begun.touch()
        for _ in range(10 * PATIENCE_S):
            if go_on.exists():
                break
            time.sleep(0.1)
        return offset

    def late() -> None:
        rows = twice.rows(twice.views).withColumn("offset", slow("offset"))
        try:
            with translated("page_views"):
                twice.append(twice.views, twice.older.fence(twice.bench.spark, rows))
        except Exception as error:  # noqa: BLE001 - it is what is asked for
            found.append(error)

    thread = threading.Thread(target=late)
    thread.start()
    while not begun.exists():
        assert thread.is_alive(), found
        time.sleep(0.1)
    newer = twice.bench.driver()
    newer.start()
    go_on.touch()
    thread.join()
    assert [type(one) for one in found] == [Fenced]
    newer.round()
    twice.assert_once()


STATE = StoredState(cycle=1, fingerprint="any", slot="a", rows=0, frames=())


def said(ledger: Ledger, kind: keeping.Kept) -> commands.Append:
    (command,) = keeping.say(ledger.turn, kind, STATE)
    assert isinstance(command, commands.Append)
    return command


NOTHING = Plan(cycle=1, fingerprint="any", ranges=(), clocks={}, seq_from=1, seq=1)
# Rows of which no other driver appends one of the same number, so that Delta's refusal of a number never stops them.
OF_THEIR_OWN: dict[str, Callable[[SparkSession, Ledger], None]] = {
    "taken": lambda spark, ledger: ledger.record_taken(spark, 1, "any"),
    "state": lambda spark, ledger: ledger.append_stored(spark, said(ledger, "state")),
    "base": lambda spark, ledger: ledger.append_stored(spark, said(ledger, "base")),
    "trim": lambda spark, ledger: ledger.record_trim(spark, NOTHING, done=False),
}


class Claimed:
    """A ledger of one driver, and a newer one that takes it over."""

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self.spark = spark
        first = Ledger(Lake(str(root)), "claimed", epoch=1, run_id="older")
        first.create(spark)
        first.append_claim(spark, {}, None)
        fence.raise_to(spark, first.lake, first.pipeline, first.role, 1, first.run_id)
        self.older, self.newer = first, replace(first, epoch=2, run_id="newer")

    def take_over(self) -> None:
        assert self.newer.append_claim(self.spark, {}, None)
        fence.raise_to(self.spark, self.newer.lake, self.newer.pipeline, self.newer.role, 2, self.newer.run_id)
        self.newer.table.seal(self.spark, self.newer.pipeline, 2)

    def kinds(self) -> list[str]:
        return sorted(row["kind"] for row in self.older.rows(self.spark).select("kind").collect())


@pytest.fixture
def claimed(spark: SparkSession, tmp_path: Path) -> Claimed:
    return Claimed(spark, tmp_path / "lake")


def test_an_older_driver_writes_no_row_of_its_own_behind_a_takeover(claimed: Claimed) -> None:
    claimed.take_over()
    for record in OF_THEIR_OWN.values():
        with pytest.raises(Fenced):
            record(claimed.spark, claimed.older)
    assert claimed.kinds() == ["epoch", "epoch"]
    for record in OF_THEIR_OWN.values():
        record(claimed.spark, claimed.newer)
    assert claimed.kinds() == ["base", "epoch", "epoch", "state", "taken", "trim"]


@pytest.mark.parametrize("kind", sampled(OF_THEIR_OWN, 1, others=pytest.mark.soak))
def test_a_takeover_while_such_a_row_is_being_written_stops_it(
    claimed: Claimed, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looked at the fence before the takeover and would commit behind it."""
    go_on, begun = tmp_path / "go-on", tmp_path / "begun"
    real = ledgers.frame_of

    @F.udf("string")
    def slow(pipeline: str) -> str:
        begun.touch()
        for _ in range(10 * PATIENCE_S):
            if go_on.exists():
                break
            time.sleep(0.1)
        return pipeline

    def frame(spark: SparkSession, rows: list[dict[str, Any]]) -> DataFrame:
        return real(spark, rows).withColumn("pipeline", slow("pipeline"))

    found: list[BaseException] = []

    def write() -> None:
        try:
            OF_THEIR_OWN[kind](claimed.spark, claimed.older)
        except Exception as error:  # noqa: BLE001 - it is what is asked for
            found.append(error)

    monkeypatch.setattr(ledgers, "frame_of", frame)
    thread = threading.Thread(target=write)
    thread.start()
    while not begun.exists():
        assert thread.is_alive(), found
        time.sleep(0.1)
    monkeypatch.undo()
    claimed.take_over()
    go_on.touch()
    thread.join()
    assert [type(one) for one in found] == [Fenced]
    assert claimed.kinds() == ["epoch", "epoch"]
