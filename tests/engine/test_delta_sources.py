"""Delta tables as sources: pipelines without Kafka from real Delta tables into silver, whatever the tables go through."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812
from tests.engine.harness import ZERO, Bench, assert_ledger_sound, fresh_topics
from tests.sampling import sampled

from lakestreams import StreamsBuilder, Text, Topology
from lakestreams.cli import status
from lakestreams.config.compile import load_pipeline
from lakestreams.engine.ingest.delta_source import ROWS_A_VERSION, examine, versions
from lakestreams.engine.ingest.table_reader import TableReader
from lakestreams.engine.ledger.ledger import Ledger
from lakestreams.engine.ledger.plans import BronzeState, Position
from lakestreams.engine.runtime.failpoints import VARIABLE, FailpointReached
from lakestreams.engine.runtime.settings import RunSettings
from lakestreams.errors import (
    ChangeFeedOff,
    DeltaTableMissing,
    InvalidFormat,
    OffsetsExpired,
    RowsChanged,
    TopicRecreated,
    TopologyChanged,
    TopologyInvalid,
    UnknownColumn,
    unfold,
)
from lakestreams.testing.small import small
from lakestreams.verify.verify import verify

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.local.broker import Broker

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("small_input")]

FEED = "delta.enableChangeDataFeed"
SOURCES = """
topics:
  orders:
    kind: stream
    delta: shop.orders
    key: order_id bigint
    value: "customer_id bigint, amount int, placed timestamp"
    event_time: placed
  customers: {kind: table, delta: shop.customers, key: id bigint, value: "name string, region string"}
  compared: {kind: table, delta: shop.customers, changes: snapshot, key: id bigint, value: "name string, region string"}
"""
PIPELINE = """
pipeline: shop
steps:
  by_customer: {select_key: {from: orders, select: {id: customer_id}}}
  named:
    left_join: {left: by_customer, right: customers}
    select: {amount: amount, name: name}
outputs:
  silver.named: {from: named}
  silver.customers: {from: customers}
  silver.compared: {from: compared}
"""


class TableBench(Bench):
    """A pipeline without Kafka, and the tables that it reads, all in one folder."""

    def __init__(self, spark: SparkSession, root: Path, topology: Topology) -> None:
        super().__init__(spark, None, root, topology)  # type: ignore[arg-type] - there is no broker

    def settings(self, **more: Any) -> RunSettings:
        return RunSettings(kafka={}, **more)

    def sql(self, statement: str) -> None:
        """Runs a statement; `{name}` is the table `shop.name`."""
        self.spark.sql(statement.replace("{", f"delta.`{self.root}/shop/").replace("}", "`"))

    def create(self, name: str, columns: str, *, feed: bool = True) -> None:
        self.sql(f"CREATE TABLE {{{name}}} ({columns}) USING delta TBLPROPERTIES ({FEED} = {str(feed).lower()})")

    def turn_feed(self, name: str, *, on: bool) -> None:
        self.sql(f"ALTER TABLE {{{name}}} SET TBLPROPERTIES ({FEED} = {str(on).lower()})")

    def rows(self, output: str, *columns: str) -> list[tuple[Any, ...]]:
        return sorted((tuple(row) for row in self.silver(output).select(*columns).collect()), key=repr)

    def table(self, name: str) -> list[tuple[Any, ...]]:
        rows = self.spark.read.format("delta").load(f"{self.root}/shop/{name}").where("id is not null")
        return sorted((tuple(row) for row in rows.collect()), key=repr)

    def customers(self) -> list[tuple[Any, ...]]:
        """Both tables made of the customers: by the feed and by comparing; they are equal."""
        fed, compared = (self.rows(f"silver.{name}", "id", "name", "region") for name in ("customers", "compared"))
        assert fed == compared
        return fed


# Undisturbed it is a part of the other.
@pytest.mark.parametrize(
    "falls", [pytest.param(False, marks=pytest.mark.soak), True], ids=["undisturbed", "fallen on the way"]
)
def test_orders_with_customers_by_feed_and_by_comparing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, falls: bool
) -> None:
    (tmp_path / "sources.yml").write_text(SOURCES)
    (tmp_path / "shop.yml").write_text(PIPELINE)
    pipeline = load_pipeline(tmp_path / "shop.yml")
    bench = TableBench(spark, tmp_path / "lake", pipeline.topology)
    bench.create("orders", "order_id bigint, customer_id bigint, amount int, placed timestamp, note string")
    bench.create("customers", "id bigint, name string, region string")
    bench.sql("INSERT INTO {customers} VALUES (1, 'ann', 'eu'), (2, 'bob', 'us'), (3, 'cat', 'eu'), (null, '?', '?')")
    placed = "timestamp'2031-01-01 00:00:0{}'"  # past the customers' commits, whose time is now
    bench.sql("INSERT INTO {orders} VALUES " + _orders((12, 2, placed.format(2)), (11, 1, placed.format(1))))

    # dated past max_future, all orders are in quarantine, and move no clock
    first = bench.run()
    assert (first.cycles, first.records, first.bad) == (1, 10, 2)
    assert bench.customers() == bench.table("customers") == [(1, "ann", "eu"), (2, "bob", "us"), (3, "cat", "eu")]
    quarantined = {tuple(row) for row in bench.quarantine().select("code", F.col("value").cast("string")).collect()}
    assert ("FUTURE_TIMESTAMP", '{"customer_id":1,"amount":11,"placed":"2031-01-01T00:00:01.000000Z"}') in quarantined
    assert sorted(code for code, _ in quarantined) == ["FUTURE_TIMESTAMP"] * 2 + ["NULL_KEY"]

    bench.sql("UPDATE {customers} SET region = 'asia' WHERE id = 1")
    bench.sql("DELETE FROM {customers} WHERE id = 3")
    bench.sql("UPDATE {customers} SET id = 4 WHERE id = 2")  # the row of key 2 becomes that of key 4
    bench.sql("INSERT INTO {orders} VALUES " + _orders((14, 4, "current_timestamp()"), (13, 2, "current_timestamp()")))
    if falls:
        monkeypatch.setenv(VARIABLE, "bronze.after:1")  # of three appends
        with pytest.raises(FailpointReached):
            bench.run()
        monkeypatch.delenv(VARIABLE)
    bench.run()
    assert bench.customers() == bench.table("customers") == [(1, "ann", "asia"), (4, "bob", "us")]
    # the second customer's order meets no row any more: it is dated behind the commit that moved it
    assert bench.rows("silver.named", "id", "amount", "name") == [(2, 13, None), (4, 14, "bob")]
    assert_ledger_sound(bench)
    offsets = bench.bronze("delta/customers").select("offset", "event_time_ms", F.col("v").isNull().alias("gone"))
    told = [(divmod(row["offset"], ROWS_A_VERSION), row["gone"]) for row in offsets.orderBy("offset").collect()]
    assert told == [((1, n), False) for n in range(4)] + [
        ((2, 0), False), ((3, 0), True), ((4, 0), True), ((4, 1), False),
    ]  # fmt: skip

    # nothing new is nothing read
    batches = bench.ledger().where("kind = 'ingest'").count()
    assert bench.run().cycles == 0
    assert bench.ledger().where("kind = 'ingest'").count() == batches

    shown = {one.topic: one for one in status.read(spark, bench.lake, "shop", pipeline).partitions}
    assert {topic: (one.ingested_to, one.end, one.lag) for topic, one in shown.items()} == {
        "delta/customers": (5, 5, 0), "delta/compared": (5, 5, 0), "delta/orders": (3, 3, 0),
    }  # fmt: skip
    assert verify(spark, bench.lake, pipeline.topology, ask_second=False).equal  # of joins others ask for it


def test_tables_that_are_read_whole_are_known_to_be_large(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "sources.yml").write_text(SOURCES)
    (tmp_path / "shop.yml").write_text(PIPELINE)
    topology = load_pipeline(tmp_path / "shop.yml").topology
    bench = TableBench(spark, tmp_path / "lake", topology)
    bench.create("orders", "order_id bigint, customer_id bigint, amount int, placed timestamp, note string")
    bench.create("customers", "id bigint, name string, region string")
    bench.sql("INSERT INTO {customers} SELECT id, 'ann', 'eu' FROM range(70)")
    found, _ = examine(spark, bench.lake, topology.sources)
    reader = TableReader(spark, Ledger(bench.lake, "shop"))
    assert reader.rows(found, BronzeState(0, {})) == 70 + 70, "both read from the beginning; nobody has ordered"
    met = {one.at: Position(one.end) for one in found}
    assert reader.rows(found, BronzeState(1, met)) == 70, "what is compared is read whole each time"


def _orders(*orders: tuple[int, int, str]) -> str:
    return ", ".join(f"({number}, {customer}, {number}, {placed}, 'unread')" for number, customer, placed in orders)


def _of_bronze() -> Topology:
    builder = StreamsBuilder("regions")
    rows = builder.stream(
        "bronze_customers",
        delta="bronze.shop__delta_customers",
        key="partition int, offset bigint",
        value="v struct<name: string, region: string>, event_time_ms bigint",
        event_time="event_time_ms",
    )
    live = rows.filter(lambda row: row.v.isNotNull()).select_key(lambda row: {"region": row.v.region})
    counted = live.group_by_key().count()
    counted.to_delta("silver.changes_of_regions")
    return builder.build()


@pytest.mark.soak
def test_another_pipeline_reads_bronze_as_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    """It was created with the feed on."""
    (tmp_path / "sources.yml").write_text(SOURCES)
    (tmp_path / "shop.yml").write_text(PIPELINE)
    bench = TableBench(spark, tmp_path / "lake", load_pipeline(tmp_path / "shop.yml").topology)
    bench.create("orders", "order_id bigint, customer_id bigint, amount int, placed timestamp, note string")
    bench.create("customers", "id bigint, name string, region string")
    bench.sql("INSERT INTO {customers} VALUES (1, 'ann', 'eu'), (2, 'bob', 'us'), (3, 'cat', 'eu')")
    bench.run()
    bench.sql("UPDATE {customers} SET region = 'asia' WHERE id = 1")
    bench.run()
    reader = TableBench(spark, bench.root, _of_bronze())
    reader.run()
    assert reader.rows("silver.changes_of_regions", "region", "count") == [("asia", 1), ("eu", 2), ("us", 1)]


@pytest.mark.slow
def test_files_that_are_gone_behind_others_that_are_there(spark: SparkSession, tmp_path: Path) -> None:
    """Small files are joined and removed; a large one between them stays, and so does its commit."""
    builder = StreamsBuilder("gaps")
    events = builder.stream("events", delta=f"{tmp_path}/shop/events", key="id bigint", value="name string")
    events.to_delta("silver.events")
    with small(spark):
        bench = TableBench(spark, tmp_path, builder.build())
        bench.create("events", "id bigint, name string")
        bench.sql("INSERT INTO {events} VALUES (1, 'a')")
        bench.run()
        known: set[Path] = set()
        gone = []
        for number in (2, 3, 4):
            known = set((tmp_path / "shop" / "events").rglob("*.parquet"))
            bench.sql(
                f"INSERT INTO {{events}} SELECT id, 'b' FROM range({number}, {1_000 if number == 3 else number + 1})"
            )
            if number != 3:
                gone += [*({*(tmp_path / "shop" / "events").rglob("*.parquet")} - known)]
        bench.sql("INSERT INTO {events} VALUES (9, 'i')")
        for file in gone:
            file.unlink()
            (file.parent / f".{file.name}.crc").unlink(missing_ok=True)
        with pytest.raises(OffsetsExpired, match=r"shop/events: versions 2 to 4"):
            bench.run()
        bench.run(accept_data_loss=True)
        assert bench.rows("silver.events", "id", "name") == [(1, "a"), (9, "i")]


@pytest.mark.soak
def test_what_a_feed_no_longer_tells_and_what_a_stream_cannot_be(spark: SparkSession, tmp_path: Path) -> None:
    """The feed is turned on late, and off for a commit: tables are compared, streams say what they miss. A stream's table
    is appended to."""

    def topology(**more: Any) -> Topology:
        builder = StreamsBuilder("late")
        rows = builder.table("rows", delta="shop.rows", key="id bigint", value="name string")
        rows.to_delta("silver.rows")
        events = builder.stream("events", delta=f"{tmp_path}/shop/events", key="id bigint", value="name string", **more)
        events.to_delta("silver.events")
        return builder.build()

    bench = TableBench(spark, tmp_path, topology())
    for name in ("rows", "events"):
        bench.create(name, "id bigint, name string", feed=False)
        bench.sql(f"INSERT INTO {{{name}}} VALUES (1, 'a'), (2, 'b')")
    with pytest.raises(TopologyInvalid) as refused:
        bench.driver().check()
    assert [type(fault) for fault in unfold(refused.value)] == [ChangeFeedOff, ChangeFeedOff]
    assert f"ALTER TABLE shop.rows SET TBLPROPERTIES ({FEED} = true)" in str(refused.value)

    for name in ("rows", "events"):
        bench.turn_feed(name, on=True)  # version 2
    bench.run()
    assert bench.rows("silver.rows", "id", "name") == bench.table("rows") == [(1, "a"), (2, "b")]
    assert bench.rows("silver.events", "id", "name") == [(1, "a"), (2, "b")]
    times = bench.bronze("delta/rows").select("event_time_ms").distinct().collect()
    assert [row[0] for row in times] == [0], "what was there when the reading began was there before anything else"

    for name in ("rows", "events"):
        bench.turn_feed(name, on=False)  # version 3
    bench.sql("INSERT INTO {events} VALUES (3, 'lost')")
    bench.sql("DELETE FROM {rows} WHERE id = 1")
    for name in ("rows", "events"):
        bench.turn_feed(name, on=True)  # version 5
    bench.sql("INSERT INTO {events} VALUES (4, 'd')")
    bench.sql("INSERT INTO {rows} VALUES (3, 'c')")
    with pytest.raises(OffsetsExpired, match=r"shop/events: versions 3 to 4"):
        bench.run()
    summary = bench.run(accept_data_loss=True)
    assert any("versions 3 to 4" in warning for warning in summary.warnings)
    # the tables were read in one batch up to the failed one: the first was compared by the run that failed
    assert bench.rows("silver.rows", "id", "name") == bench.table("rows") == [(2, "b"), (3, "c")]
    assert bench.rows("silver.events", "id", "name") == [(1, "a"), (2, "b"), (4, "d")]
    lost = bench.ledger().where("kind = 'loss'").select(F.explode("ranges").alias("r")).select("r.*").collect()
    assert [(row["topic"], versions(row["from_offset"]), versions(row["to_offset"])) for row in lost] == [
        ("delta/events", 3, 5)
    ]
    assert_ledger_sound(bench)

    bench.sql("UPDATE {events} SET name = 'x' WHERE id = 1")
    bench.sql("INSERT INTO {events} VALUES (5, 'e')")
    with pytest.raises(RowsChanged, match=r"version 7 of .* updates 1 rows and deletes 0") as stopped:
        bench.run()
    assert "ignore_changes" in str(stopped.value)
    bench.topology = topology(ignore_changes=True)
    bench.run()
    assert bench.rows("silver.events", "id", "name") == [(1, "a"), (2, "b"), (4, "d"), (5, "e")]


def test_tables_are_checked_before_anything_is_there(spark: SparkSession, tmp_path: Path) -> None:
    builder = StreamsBuilder("faulty")
    wrong = builder.table("wrong", delta="shop.wrong", key="id int", value="regoin string", changes="snapshot")
    nowhere = builder.table("nowhere", delta="shop.nowhere", key="id int", value="region string")
    wrong.left_join(nowhere).to_delta("silver.out")
    bench = TableBench(spark, tmp_path, builder.build())
    bench.create("wrong", "id bigint, region string", feed=False)
    with pytest.raises(TopologyInvalid) as refused:
        bench.run()
    faults = unfold(refused.value)
    assert [type(fault) for fault in faults] == [InvalidFormat, UnknownColumn, DeltaTableMissing]
    assert "column 'id' of shop.wrong is bigint, declared is int" in str(faults[0])
    assert "did you mean 'region'" in str(faults[1])
    assert not (tmp_path / "bronze").exists()


@pytest.mark.broker
def test_a_topic_and_a_table(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """A Delta table meets a topic of three partitions, whatever their counts; another one of its name is refused."""
    views, _ = fresh_topics(broker, (3, 1))

    def topology(users_table: str) -> Topology:
        builder = StreamsBuilder("mixed")
        stream = builder.stream(views, key=Text("user"), value=Text("page"))
        users = builder.table("users", delta=users_table, key="user string", value="region string")
        stream.left_join(users, lambda view, user: {"page": view.page, "region": user.region}).to_delta("silver.views")
        return builder.build()

    bench = Bench(spark, broker, tmp_path, topology("shop.users"))
    tables = TableBench(spark, tmp_path, bench.topology)
    for name in ("users", "others"):
        tables.create(name, "user string, region string")
    tables.sql("INSERT INTO {users} VALUES ('alice', 'eu')")
    tables.turn_feed("users", on=False)
    tables.turn_feed("users", on=True)  # so that reading begins with the content, which is older than any view
    broker.produce(views, [("alice", "/1", ZERO, 2), ("alice", "/2", ZERO + 5, 1), ("bob", "/3", ZERO + 6, 1)])
    bench.run()
    found = sorted(tuple(row) for row in bench.silver("silver.views").select("user", "page", "region").collect())
    assert found == [("alice", "/1", "eu"), ("alice", "/2", "eu"), ("bob", "/3", None)]
    assert_ledger_sound(bench)
    bench.topology = topology("shop.others")
    with pytest.raises(TopologyChanged, match=r"users: delta shop.users -> shop.others"):
        bench.run()
    with pytest.raises(TopicRecreated, match=r"shop.others is not the table that was read before"):
        bench.run(accept_change=True)


def _made_anew(bench: TableBench, versions: int) -> None:
    """Another table under the old one's name, with more commits."""
    shutil.rmtree(bench.root / "shop" / "events")
    bench.create("events", "id bigint, name string")
    for number in range(versions):
        bench.sql(f"INSERT INTO {{events}} VALUES ({100 + number}, 'new')")


@pytest.mark.parametrize(
    "moment", sampled(["between rounds", "while it is read", "after a crash"], 1, others=pytest.mark.soak)
)
def test_another_table_of_the_same_name_is_refused(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Grown past the old one's versions: its id alone tells."""
    builder = StreamsBuilder("replaced")
    builder.stream("events", delta="shop.events", key="id bigint", value="name string").to_delta("silver.events")
    bench = TableBench(spark, tmp_path, builder.build())
    bench.create("events", "id bigint, name string")
    bench.sql("INSERT INTO {events} VALUES (1, 'a')")
    driver = bench.driver()
    published = [(1, "a")]
    if moment == "after a crash":
        monkeypatch.setenv(VARIABLE, "plan.before:1:raise")
        with pytest.raises(FailpointReached):
            bench.run()
        monkeypatch.delenv(VARIABLE)
        _made_anew(bench, 3)
        published = []
        driver = bench.driver()
        with pytest.raises(
            TopicRecreated, match=r"Delta table shop.events is not the table that was read before \(id "
        ):
            driver.run()
    elif moment == "between rounds":
        driver.run(ends=False)
        _made_anew(bench, 3)
        with pytest.raises(
            TopicRecreated, match=r"Delta table shop.events is not the table that was read before \(id "
        ):
            driver.round()
    else:
        driver.run(ends=False)
        bench.sql("INSERT INTO {events} VALUES (2, 'b')")
        ingest = TableReader.ingest

        def late(self: TableReader, *given: Any) -> Any:
            _made_anew(bench, 3)
            return ingest(self, *given)

        monkeypatch.setattr(TableReader, "ingest", late)
        with pytest.raises(
            TopicRecreated, match=r"Delta table shop.events was deleted and created again while it was read"
        ):
            driver.round()
    assert bench.rows("silver.events", "id", "name") == published
