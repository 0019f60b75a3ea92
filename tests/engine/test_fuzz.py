"""Many records, a tenth of them fuzzed: no failure, none is lost, and the good ones come out as without the bad ones."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import functions as F  # noqa: N812
from tests import fuzz
from tests.engine.harness import SILVER, Bench, assert_ledger_sound, fresh_topics
from tests.fuzz import JOINED, USERS, VIEWS, Fuzzed, Shape

from lakestreams import Json, StreamsBuilder, Text, Topology
from lakestreams.engine.ingest import query as ingest_query
from lakestreams.engine.publish.quarantine import LATE
from lakestreams.errors import IngestFailed
from lakestreams.verify.verify import verify

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakestreams.local.broker import Broker

pytestmark = [pytest.mark.broker]

SEED = 20261122
PLACE = ("topic", "partition", "offset")
_LARGE = 20 * fuzz.MIB
Place = tuple[str, int, int]


def enrichment(views: str, users: str) -> Topology:
    """Views with the row of their user: each good view gives one result."""
    builder = StreamsBuilder("fuzzed_views")
    stream = builder.stream(
        views, key=Text("user"), value=Json(VIEWS.schema), event_time="ms", keys_not_null="drop", name="views"
    )
    table = builder.table(users, key=Text("user"), value=Json(USERS.schema), name="users")
    stream.left_join(
        table,
        lambda view, user: {
            **{name: view[name] for name in ("n", "page", "price", "day", "tags")},
            **{name: user[name] for name in ("region", "visits", "since")},
        },
    ).to_delta(SILVER)
    return builder.build()


def correlation(views: str, clicks: str) -> Topology:
    """An outer windowed join, whose clocks no bad record may move."""
    builder = StreamsBuilder("fuzzed_clicks")
    left, right = (
        builder.stream(topic, key=Text("user"), value=Json(JOINED.schema), event_time="ms", name=name)
        for topic, name in ((views, "views"), (clicks, "clicks"))
    )
    left.outer_join(
        right,
        lambda view, click: {"view": view.n, "page": view.page, "click": click.n, "tags": click.tags},
        within="200 ms",
        grace="50 ms",
    ).to_delta(SILVER)
    return builder.build()


@dataclass
class Written:
    """What was produced into a topic.

    Attributes:
        count: how many records.
        checksum: the sum of their keys' and values' CRC-32.
        bad: place to fault and reason.
        faults: how many records have each.
    """

    count: int = 0
    checksum: int = 0
    bad: dict[Place, tuple[str, str]] = field(default_factory=dict)
    faults: dict[str, int] = field(default_factory=dict)


def produce(broker: Broker, topic: str, records: Iterator[Fuzzed]) -> Written:
    """Writes them, and writes down what they were."""
    written = Written()
    suspects: list[tuple[int, str, str]] = []

    def noted() -> Iterator[tuple[object, ...]]:
        for number, one in enumerate(records):
            written.count += 1
            written.checksum += zlib.crc32(one.key or b"") + zlib.crc32(one.value or b"")
            if one.fault:
                written.faults[one.fault] = written.faults.get(one.fault, 0) + 1
            if one.code is not None:
                suspects.append((number, one.fault, one.code))
            yield one.record

    places = broker.produce(topic, noted(), {"message.max.bytes": _LARGE})
    written.bad = {(topic, *places[number]): (fault, code) for number, fault, code in suspects}
    return written


@dataclass(frozen=True)
class Run:
    """A pipeline that has read its two topics to their end."""

    bench: Bench
    written: Mapping[str, Written]


def run(bench: Bench, left: Iterator[Fuzzed], right: Iterator[Fuzzed], batch: int) -> Run:
    """Produces both sides and runs the pipeline over them."""
    topics = [source.topic for source in bench.topology.sources]
    sides = {topic: produce(bench.broker, topic, side) for topic, side in zip(topics, (left, right), strict=True)}
    summary = bench.run(max_bad_share=0.2, max_offsets_per_trigger=batch)
    assert summary.records == sum(one.count for one in sides.values())
    return Run(bench, sides)


def only_good(records: Iterator[Fuzzed]) -> Iterator[Fuzzed]:
    return (one for one in records if one.code is None)


@dataclass(frozen=True)
class Fuzz:
    """A pipeline over two topics of fuzzed records.

    Attributes:
        spark, broker: the run's.
        root: where its tables lie.
        make: its topology, from the names of the topics.
        sides: what is in each topic, and how many records.
        huge: how many of these are of 1 to 10 MiB.
    """

    spark: SparkSession
    broker: Broker
    root: Path
    make: Callable[[str, str], Topology]
    sides: Sequence[tuple[Shape, int]]
    huge: int

    def dirty(self) -> Run:
        """Over all records."""
        print(f"\nseed {SEED}: {self._total} records")  # noqa: T201 - what a failure is found again by
        return self._run("dirty", iter)

    def clean(self) -> Run:
        """Over the same records without the bad ones, in other topics."""
        return self._run("clean", only_good)

    @property
    def _total(self) -> int:
        return sum(count for _, count in self.sides)

    def _run(self, name: str, kept: Callable[[Iterator[Fuzzed]], Iterator[Fuzzed]]) -> Run:
        topics = fresh_topics(self.broker, 2, config={"max.message.bytes": str(_LARGE)})
        bench = Bench(self.spark, self.broker, self.root / name, self.make(*topics))
        left, right = (kept(self._records(side)) for side in (0, 1))
        return run(bench, left, right, max(100_000, self._total // 4))

    def _records(self, side: int) -> Iterator[Fuzzed]:
        shape, count = self.sides[side]
        step_ms = 10 * max(count for _, count in self.sides) // count
        return fuzz.records(shape, count, f"{SEED}/{side}", step_ms=step_ms, huge=self.huge)


# --- what must hold ----------------------------------------------------------------------------------------------------


def assert_everything_is_in_bronze(run: Run) -> None:
    """Every record, its bytes as they were written."""
    checksum = sum((F.crc32(F.coalesce(column, F.lit(b""))) for column in ("key", "value")), F.lit(0))
    counted = bronze(run).groupBy("topic").agg(F.count("*"), F.sum(checksum))
    found = {row[0]: (row[1], row[2]) for row in counted.collect()}
    assert found == {topic: (one.count, one.checksum) for topic, one in run.written.items()}


def assert_the_bad_ones_are_in_quarantine(run: Run, other: tuple[str, ...] = ()) -> None:
    """Those and no others (but for the reasons `other`), each with its reason, a message and its bytes."""
    quarantine = run.bench.quarantine().where(~F.col("code").isin(*other))
    wanted = {place: said for written in run.written.values() for place, said in written.bad.items()}
    rows = quarantine.select(*PLACE, "code", "message").collect()
    found = {tuple(row)[:3]: row["code"] for row in rows}
    wrong = {
        place: (wanted.get(place), found.get(place))
        for place in wanted.keys() | found.keys()
        if wanted.get(place, ("", None))[1] != found.get(place)
    }
    assert wrong == {}, f"place: ((fault, reason), reason found); {dict(list(wrong.items())[:20])}"
    assert len(rows) == len(wanted), "a record is there twice"
    assert all(row["message"] for row in rows)
    kept = quarantine.select(
        *PLACE, F.col("key").alias("kept_key"), F.col("value").alias("kept_value"), "code", "message"
    )
    said = F.col("code").eqNullSafe(F.col("error.code")) & F.col("message").eqNullSafe(F.col("error.message"))
    same = F.col("key").eqNullSafe(F.col("kept_key")) & F.col("value").eqNullSafe(F.col("kept_value"))
    wrong_rows = (F.col("error").isNotNull() & ~said) | (F.col("code").isNotNull() & ~same)
    beside = bronze(run).join(kept, list(PLACE), "left").where(wrong_rows)
    assert beside.select(*PLACE).limit(5).collect() == [], "not in quarantine as it is in bronze"


def bronze(run: Run) -> DataFrame:
    """Both topics' records."""
    left, right = (run.bench.bronze(topic).select(*PLACE, "key", "value", "error") for topic in run.written)
    return left.unionByName(right)


def assert_equal(found: DataFrame, wanted: DataFrame) -> None:
    """The same rows, each as often."""
    both = found.withColumn("times", F.lit(1)).unionByName(wanted.withColumn("times", F.lit(-1)))
    more = both.groupBy(*found.columns).agg(F.sum("times").alias("times")).where("times <> 0")
    assert more.limit(5).collect() == [], "in the first (times > 0) or in the second more often"


def assert_good_views_come_out(run: Run) -> None:
    """Each once, with the values that bronze has of it."""
    columns = ("n", "page", "price", "day", "tags")
    good = run.bench.bronze(next(iter(run.written))).where("error is null and k is not null and v is not null")
    assert_equal(results(run).select(*columns), good.select(*(F.col("v")[name].alias(name) for name in columns)))


def results(run: Run) -> DataFrame:
    return run.bench.silver().withColumn("kind", F.col("_lineage.kind")).drop("_lineage")


def assert_all_faults_occur(run: Run) -> None:
    seen = {fault for written in run.written.values() for fault in written.faults}
    assert set(fuzz.FAULTS) <= seen


# Views are compared with bronze, and what they are joined to with the second opinion in SQL; that a run without the bad records
# gives the same, in `make soak`.
@pytest.mark.parametrize(
    ("views", "users", "huge"),
    [
        (12_000, 2_000, 2),
        pytest.param(900_000, 100_000, 24, marks=[pytest.mark.soak, pytest.mark.timeout(3_600)]),
    ],
)
def test_enrichment_of_fuzzed_records(
    spark: SparkSession, broker: Broker, tmp_path: Path, views: int, users: int, huge: int
) -> None:
    fuzzed = Fuzz(spark, broker, tmp_path, enrichment, ((VIEWS, views), (USERS, users)), huge)
    dirty = fuzzed.dirty()
    assert_all_faults_occur(dirty)
    assert_ledger_sound(dirty.bench)
    assert_everything_is_in_bronze(dirty)
    assert_the_bad_ones_are_in_quarantine(dirty)
    assert_good_views_come_out(dirty)
    if views <= 100_000:
        assert verify(spark, dirty.bench.lake, dirty.bench.topology).equal
    else:
        clean = fuzzed.clean()
        assert clean.bench.quarantine().count() == 0
        assert_equal(results(dirty), results(clean))
    bench = dirty.bench
    for name, table in {
        "views": bench.bronze(next(iter(dirty.written))),
        "good": bench.silver(),
        "quarantine": bench.quarantine(),
    }.items():
        table.createOrReplaceTempView(f"fuzz_{name}")
    counted = spark.sql(
        "select (select count(*) from fuzz_views) as read, (select count(*) from fuzz_good) as good, "
        "(select count(*) from fuzz_quarantine where node = 'views') as quarantined"
    ).first()
    for name in ("views", "good", "quarantine"):
        spark.catalog.dropTempView(f"fuzz_{name}")
    assert counted is not None
    assert counted["read"] == views == counted["good"] + counted["quarantined"]
    assert counted["quarantined"] > views // 20


@pytest.mark.soak
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("side", [25_000, 150_000])
def test_a_windowed_join_of_fuzzed_records(spark: SparkSession, broker: Broker, tmp_path: Path, side: int) -> None:
    fuzzed = Fuzz(spark, broker, tmp_path, correlation, ((JOINED, side), (JOINED, side)), 6)
    dirty, clean = fuzzed.dirty(), fuzzed.clean()
    assert_all_faults_occur(dirty)
    assert_ledger_sound(dirty.bench)
    assert_everything_is_in_bronze(dirty)
    assert_the_bad_ones_are_in_quarantine(dirty, (LATE,))
    kinds = {row["kind"]: row["count"] for row in results(dirty).groupBy("kind").count().collect()}
    assert min(kinds.get("matched", 0), kinds.get("unmatched", 0)) > 1_000, kinds
    assert_equal(results(dirty), results(clean))
    late = ("code", "node", "key", "value", "event_time_ms", "message")
    refused = [one.bench.quarantine().where(F.col("code") == LATE).select(*late) for one in (dirty, clean)]
    assert refused[0].count() > 0
    assert_equal(*refused)
    assert clean.bench.quarantine().where(F.col("code") != LATE).count() == 0


def test_the_record_is_named_whose_timestamp_spark_cannot_hold() -> None:
    said = "[KAFKA_MALFORMED_RECORD_TIMESTAMP] Record at topic page.views partition 3 offset 17 has timestamp value "
    error = ingest_query.unreadable_time(
        f"Task failed: {said}1700000000000000000 that overflows when converting to Spark's"
    )
    assert error is not None
    assert "record page.views-3@17 is 1700000000000000000 ms" in error.message
    assert ingest_query.unreadable_time("java.lang.OutOfMemoryError: Java heap space") is None


@pytest.mark.soak
def test_a_timestamp_that_spark_cannot_hold_is_named_and_can_be_passed(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    """Nanoseconds where Kafka has milliseconds: Spark's Kafka source fails before anything of ours sees the record."""
    topics = fresh_topics(broker, 1)
    bench = Bench(spark, broker, tmp_path, enrichment(*topics))
    nanoseconds = 1_700_000_000_000_000_000
    times = [fuzz.START, nanoseconds, fuzz.START + 1]
    broker.produce(topics[0], [("u1", f'{{"n": {number}}}', time) for number, time in enumerate(times)])
    with pytest.raises(IngestFailed, match=f"record {topics[0]}-0@1 is {nanoseconds} ms") as refused:
        bench.run(max_offsets_per_trigger=1)
    assert "delete the partition's records up to it" in refused.value.hint
    admin = AdminClient(broker.client_config())
    for done in admin.delete_records([TopicPartition(topics[0], 0, 2)]).values():
        done.result(30)
    bench.run(accept_data_loss=True)
    assert sorted(row["n"] for row in bench.silver().select("n").collect()) == [0, 2]
