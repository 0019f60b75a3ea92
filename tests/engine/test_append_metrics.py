"""What bronze holds of a batch: told while it is appended, and read back, it is the same; what was not appended tells nothing."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F  # noqa: N812
from tests.engine.harness import claimed
from tests.engine.test_bronze_rows import NOW, SOURCE, Sent, batch

from lakestreams import StreamsBuilder, invariants
from lakestreams.engine.ingest import batch_metrics, bronze_rows
from lakestreams.engine.ledger.ledger import Ledger
from lakestreams.engine.ledger.plans import Range
from lakestreams.engine.runtime import write_metrics
from lakestreams.engine.runtime.lake import Lake
from lakestreams.engine.runtime.table import Table
from lakestreams.engine.state.bronze import cut_below
from lakestreams.expectations.rules import RecordRules
from lakestreams.testing.small import small

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakestreams.topology.endpoints import Source

SEQ = 7
FAULTS = ("", "", "", "", "key", "value", "null_key", "null_value")


@pytest.fixture(autouse=True, scope="module")
def _small(spark: SparkSession) -> Iterator[None]:
    with small(spark):
        yield


def judged() -> tuple[Source, RecordRules]:
    """The source with a rule that nulls violate, one that none does, and an invariant of single records."""
    builder = StreamsBuilder("p")
    stream = builder.stream(SOURCE.topic, key=SOURCE.key, value=SOURCE.value, event_time=SOURCE.event_time)
    stream.expect("has_ms", "ms is not null").expect_or_drop("page", "page is null or page = '/'")
    stream.holds(invariants.Lateness("warn", "5 ms"))
    stream.to_delta("silver.out")
    topology = builder.build()
    (source,) = topology.sources
    return source, RecordRules(topology.expectations, {source.topic: 3})


def records(seed: int, count: int = 60) -> list[Sent]:
    rng = random.Random(seed)
    offsets = [0, 0, 0]
    found = []
    for _ in range(count):
        partition = rng.choice([0, 0, 2])  # of partition 1 there is none
        offsets[partition] += rng.choice([1, 1, 3])
        ms = None if rng.random() < 0.1 else rng.randint(0, 90_000)
        found.append(Sent(partition, offsets[partition], rng.randint(-1, 50), ms, rng.choice(FAULTS)))
    return found


class Place:
    """A lake with an empty bronze table, and what appends to it."""

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self.spark = spark
        self.source, self.rules = judged()
        ledger = Ledger(Lake(str(root)), "p")
        ledger.create(spark)
        self.ledger = claimed(spark, ledger, "run")
        bronze_rows.create_bronze(spark, ledger.lake, "p", self.source)

    @property
    def bronze(self) -> Table:
        return self.ledger.lake.bronze("p", self.source.topic)

    def rows(self, sent: list[Sent], seq: int = SEQ) -> DataFrame:
        return bronze_rows.bronze_rows(batch(self.spark, sent), self.source, {}, seq, NOW, counted=True)

    def metrics(self, partitions: tuple[int, ...] | None = (0, 1, 2), seq: int = SEQ) -> batch_metrics.AppendMetrics:
        return batch_metrics.AppendMetrics(self.ledger, self.source, partitions, self.rules, seq, NOW)

    def append(self, metrics: batch_metrics.AppendMetrics, sent: list[Sent], seq: int = SEQ) -> bool:
        rows = self.ledger.fence(self.spark, metrics.of(self.rows(sent, seq)))
        return self.bronze.append(rows, "p/bronze", seq)

    def read_back(self, seq: int = SEQ) -> object:
        return batch_metrics.read_back(self.spark, self.ledger, [self.source], seq - 1, self.rules)


@pytest.mark.slow
@pytest.mark.lts
def test_what_an_append_tells_is_what_is_read_back(spark: SparkSession, tmp_path: Path) -> None:
    place = Place(spark, tmp_path)
    for seed in (1, 2):
        metrics = place.metrics(seq=SEQ + seed)
        assert place.append(metrics, records(seed), SEQ + seed)
        told = metrics.appended()
        assert told == place.read_back(SEQ + seed)
        assert told is not None
        assert set(told) == {(SOURCE.topic, 0), (SOURCE.topic, 2)}
        parts = [one.range for one in told.values()]
        for what in ("bad", "null_keys", "null_values", "lag_ms"):
            assert any(getattr(part, what) for part in parts), what
        assert [len(part.failed) for part in parts] == [3, 3]
        assert all(
            part.failed[one.id] for part in parts for one in place.rules.of(place.source) if one.name == "has_ms"
        )
        assert sum(part.records for part in parts) == 60


@pytest.mark.slow
def test_an_append_that_is_skipped_tells_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That is known from a later statement, not because time is over."""
    monkeypatch.setattr(write_metrics, "_PATIENCE_S", 100_000.0)
    place = Place(spark, tmp_path)
    assert place.append(place.metrics(), records(1))
    again = place.metrics(seq=SEQ)
    assert place.append(again, records(2)), "skipped at the first attempt: Delta has its number"
    assert again.appended() is None
    assert place.bronze.read(spark).count() == 60


def test_a_task_that_ran_twice_has_counted_the_same(spark: SparkSession, tmp_path: Path) -> None:
    """Spark may run a stage again; an offset that is really there twice is not known of."""
    place = Place(spark, tmp_path)
    place.rules = RecordRules()
    metrics, rows = place.metrics(), place.rows(records(1))
    place.bronze.append(place.ledger.fence(spark, metrics.of(rows.unionAll(rows))), "p/bronze", SEQ)
    told = metrics.appended()
    assert told is not None
    assert sum(one.range.records for one in told.values()) == 60
    text = '[{"partition":0,"first":0,"last":9,"records":%d,"bad":0,"null_keys":0,"null_values":0,"bytes":1,"one_by_one":0,"stream_time_ms":5,"lag_ms":0,"lateness":[0,0,0,0,0,0,0,0],"homes":{"crc32":[%s]}}]'
    metrics.__dict__["_values"] = {"row_counts": f"{text % (9, '7')}\n{text % (8, '')}"}
    del metrics.__dict__["_pieces"]
    assert metrics.appended() is None, "17 records between 0 and 9"
    assert metrics.homes(3) == {(SOURCE.topic, 0): {("crc32", 3): {7}}}, "of both tasks"


@pytest.mark.slow
def test_what_is_counted_below_a_cut_is_what_lies_there(spark: SparkSession, tmp_path: Path) -> None:
    """Of several parts of a partition, as one range; and an append's pieces are what bronze has of them."""
    place = Place(spark, tmp_path)
    assert place.append(place.metrics(), records(3))
    rows = [row for row in place.bronze.read(spark).orderBy("offset").collect() if row["partition"] == 0]
    offsets = [row["offset"] for row in rows]
    parts_of_it = [(offsets[2], offsets[5]), (offsets[9], offsets[-1] + 4)]
    ranges = [Range(SOURCE.topic, 0, *one) for one in parts_of_it] + [Range(SOURCE.topic, 2, 0, 1_000)]
    inside = [row for row in rows if any(start <= row["offset"] < end for start, end in parts_of_it)]
    for below in (inside[0]["stream_time_ms"], inside[-1]["stream_time_ms"], None):
        found = cut_below(spark, place.ledger, ranges, below, SEQ, place.rules, [place.source])
        assert set(found) == {(SOURCE.topic, 0), (SOURCE.topic, 2)}
        part = found[SOURCE.topic, 0]
        under = [row for row in inside if below is None or row["stream_time_ms"] < below]
        good = [row for row in under if row["error"] is None]
        end = offsets[-1] + 4 if below is None else under[-1]["offset"] + 1 if under else parts_of_it[0][0]
        assert (part.from_offset, part.to_offset, part.records) == (parts_of_it[0][0], end, len(under))
        assert part.bad == len(under) - len(good)
        assert part.null_keys == sum(row["k"] is None for row in good)
        assert part.null_values == sum(row["v"] is None for row in good)
        assert sum(part.lateness) == len(good)


@pytest.mark.slow
def test_pieces_are_known_where_no_rules_are_judged(spark: SparkSession, tmp_path: Path) -> None:
    place = Place(spark, tmp_path)
    told = place.metrics()
    place.append(told, records(1))
    assert {one.pieces for one in (told.appended() or {}).values()} == {()}
    place.rules = RecordRules()
    told = place.metrics(seq=SEQ + 1)
    place.append(told, records(1), SEQ + 1)
    parts = (told.appended() or {}).values()
    assert parts
    assert all(one.pieces == (one.range,) for one in parts), "so few are one piece"


@pytest.mark.slow
def test_rows_of_a_partition_that_was_not_expected_are_read_back(spark: SparkSession, tmp_path: Path) -> None:
    """What rules say of them was not asked; without rules nothing has to be asked."""
    place = Place(spark, tmp_path)
    metrics = place.metrics(partitions=(0, 1))
    place.append(metrics, records(1))
    assert metrics.appended() is None
    place.rules = RecordRules()
    metrics = place.metrics(partitions=None, seq=SEQ + 1)
    place.append(metrics, records(1), SEQ + 1)
    assert metrics.appended() == place.read_back(SEQ + 1)


@pytest.mark.slow
@pytest.mark.parametrize("partitions", [(0, 1, 2), tuple(range(65)), None])
def test_every_append_tells_what_its_records_weigh(
    spark: SparkSession, tmp_path: Path, partitions: tuple[int, ...] | None
) -> None:
    """Of many partitions, or of many rows, it does not say what rules say of them."""
    place = Place(spark, tmp_path)
    metrics = place.metrics(partitions=partitions)
    header = F.expr("if(offset % 2 = 0, array(named_struct('key', 'trace', 'value', X'0102')), null)")
    sent = batch(spark, records(1)).withColumn("headers", header)
    rows = bronze_rows.bronze_rows(sent, place.source, {}, SEQ, NOW, counted=True)
    place.bronze.append(place.ledger.fence(spark, metrics.of(rows)), "p/bronze", SEQ)
    assert (metrics.appended() is None) == (partitions != (0, 1, 2))
    kept = place.bronze.read(spark).select("key", "value", "headers").collect()
    parts = [
        [row["key"], row["value"], *(part for one in row["headers"] or () for part in (one["key"], one["value"]))]
        for row in kept
    ]
    values = sum(row["value"] is not None for row in kept)
    assert metrics.weight() == batch_metrics.Weight(60, sum(len(part or "") for own in parts for part in own), values)
