"""Bronze rows: what a topic's records become, read by the source's formats and judged, with the clock of their partition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial, reduce
from operator import or_
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.engine.ledger.plans import NO_TIME, Position
from lakestreams.engine.runtime.lake import OWNER, Lake, owned_by
from lakestreams.engine.runtime.tuning import FEW
from lakestreams.formats.base import struct_type
from lakestreams.formats.decoding import read_batches
from lakestreams.operators.balance import lanes
from lakestreams.sql import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession
    from pyspark.sql.types import StructType

    from lakestreams.topology.endpoints import Source

ERROR_TYPE = "struct<code: string, message: string>"
HEADERS_TYPE = "array<struct<key: string, value: binary>>"
# Only what the engine selects by; statistics of the payload would cost a pass over it. The change data feed, which
# another pipeline reads, costs nothing where rows are only appended.
_PROPERTIES = {
    "delta.dataSkippingStatsColumns": "partition,offset,seq,event_time_ms,stream_time_ms",
    "delta.enableChangeDataFeed": "true",
}
LANE = "_lane"
MALFORMED_KEY, MALFORMED_VALUE = "MALFORMED_KEY", "MALFORMED_VALUE"
NO_TIMESTAMP, FUTURE_TIMESTAMP = "NO_TIMESTAMP", "FUTURE_TIMESTAMP"


@dataclass(frozen=True)
class Spread:
    """Over which tasks the partitions of a topic are spread.

    Attributes:
        lanes: partition to the number that is hashed in its place (see `operators/balance.py`).
        tasks: how many tasks there are.
    """

    lanes: Mapping[int, int]
    tasks: int


def spread_of(news: Mapping[int, int], shuffles: str | None) -> Spread | None:
    """How the partitions are spread that have so many records each; None where Spark decides by itself.

    It does where there is no choice: with one partition; with none, as the offsets of a batch may be unknown; and of
    few records, which need one file.
    """
    if shuffles is None or not shuffles.isdecimal():
        return None
    # A partition is in one task, so further ones have nothing to do; and Spark does not merge tasks it was told to make:
    # by its default there would be 200.
    tasks = min(int(shuffles), len(news), -(-sum(news.values()) // FEW))
    return Spread(lanes(news, tasks), tasks) if tasks > 1 else None


def bronze_schema(spark: SparkSession, source: Source) -> StructType:
    """The columns of a source's bronze table."""
    columns = (
        "topic string, partition int, offset bigint, attempt int, key binary, value binary, "
        f"headers {HEADERS_TYPE}, timestamp_ms bigint, timestamp_type int, event_time_ms bigint, "
        f"ingest_time_ms bigint, stream_time_ms bigint, seq bigint, error {ERROR_TYPE}, "
        f"k {struct_type(source.key.fields)}, v {struct_type(source.value.fields)}"
    )
    return spark.createDataFrame([], columns).schema


def create_bronze(spark: SparkSession, lake: Lake, pipeline: str, source: Source) -> bool:
    """Creates the bronze table of a source unless it is there: whether it was not."""
    owned = {**_PROPERTIES, OWNER: owned_by(pipeline, f"topic {source.topic}")}
    return lake.bronze(pipeline, source.topic).create(spark, bronze_schema(spark, source), properties=owned)


def bronze_rows(
    batch: DataFrame,
    source: Source,
    positions: Mapping[int, Position],
    seq: int,
    ingest_time_ms: int,
    spread: Spread | None = None,
) -> DataFrame:
    """Bronze rows of one topic's part of a batch.

    Args:
        batch: Spark's Kafka columns (key, value, topic, partition, offset, timestamp, timestampType, headers).
        source: the topic's source, which says how the bytes are read.
        positions: per partition where bronze stands; rows below it are dropped, stream time goes on from it.
        seq: the batch's sequence number.
        ingest_time_ms: one reading of the clock for the whole batch; recorded, since `max_future` is judged by it.
        spread: how the partitions are spread over tasks; by default as Spark does.

    Returns:
        The columns of `bronze_schema`. A record that cannot be read, has no usable time or lies too far in the future
        has an `error`, and does not move `stream_time_ms`; null keys and values do move it.
    """
    record_ms = F.unix_millis("timestamp")
    raw = batch.select(
        F.col("topic"),
        F.col("partition").cast("int").alias("partition"),
        F.col("offset").cast("bigint").alias("offset"),
        F.lit(0).alias("attempt"),
        F.col("key"),
        F.col("value"),
        F.col("headers").cast(HEADERS_TYPE).alias("headers"),
        record_ms.alias("timestamp_ms"),
        F.col("timestampType").cast("int").alias("timestamp_type"),
    )
    known = {partition: position.offset for partition, position in positions.items() if position.offset > 0}
    if known:
        raw = raw.where(F.col("offset") >= F.coalesce(_lookup(known), F.lit(0)))
    typed = typed_rows(raw, source)
    if spread is not None:
        # after reading: Spark does not see that workers keep the partition, so the window would exchange rows again
        lane = F.coalesce(_lookup(spread.lanes), F.lit(0))
        spread_out = typed.withColumn(LANE, lane).repartition(spread.tasks, LANE)
        typed = spread_out.sortWithinPartitions(LANE, "partition", "offset")
    return judged_rows(typed, source, positions, seq, ingest_time_ms)


def read_rows(
    raw: DataFrame, source: Source, positions: Mapping[int, Position], seq: int, ingest_time_ms: int
) -> DataFrame:
    """Bronze rows of raw records, in the order of their offsets: read by the source's formats, and judged.

    Args:
        raw: the raw columns of `bronze_schema`, up to `timestamp_type`.
        source, positions, seq, ingest_time_ms: as for `bronze_rows`.
    """
    return judged_rows(typed_rows(raw, source), source, positions, seq, ingest_time_ms)


def typed_rows(raw: DataFrame, source: Source) -> DataFrame:
    """Raw records as their source's formats read them: the columns that `judged_rows` takes.

    Jobs and tests both read by this, so that they refuse the same records.

    Args:
        raw: columns `key, value, timestamp_ms` and any other.
        source: says how they are read.
    """
    columns = [f"{quoted(one.name)} {one.dataType.simpleString()}" for one in raw.schema.fields]
    key, value = struct_type(source.key.fields), struct_type(source.value.fields)
    columns += [f"k {key}", "key_error string", f"v {value}", "value_error string"]
    read = raw.mapInArrow(partial(read_batches, source.key, source.value), ", ".join(columns))
    keyed = read.withColumn("k", _key_of(source))
    return keyed.withColumn("event_time_ms", event_time_of(source))


def _key_of(source: Source) -> Column:
    """The key in `k`, null where none of its columns has a value.

    Such bytes name no row: the object lacks what was declared. Read as a key of nulls, all of them would join each other
    (decision 0027).
    """
    there = reduce(or_, (F.col("k")[field.name].isNotNull() for field in source.key.fields))
    return F.when(there, F.col("k"))


def event_time_of(source: Source) -> Column:
    """The event time of a record in ms, null where none is usable; over `v`, `value_error` and `timestamp_ms`."""
    types = {field.name: field.type for field in source.value.fields}
    field_type = types.get(source.event_time.field) if source.event_time.field else None
    event_time = source.event_time.extract(F.col("v"), field_type, F.col("timestamp_ms"))
    if source.kind == "stream":
        return event_time
    # a deletion has no field to take its time from, and must delete all the same
    own = F.when(F.col("timestamp_ms") >= 0, F.col("timestamp_ms"))
    deletes = F.col("v").isNull() & F.col("value_error").isNull()
    return F.when(deletes, own).otherwise(event_time)


def judged_rows(
    timed: DataFrame, source: Source, positions: Mapping[int, Position], seq: int, ingest_time_ms: int
) -> DataFrame:
    """Bronze rows of records that are read and have their event time: what is wrong with each, and stream time.

    Args:
        timed: the raw columns of `bronze_schema` with `event_time_ms`, `k`, `v`, `key_error` and `value_error`.
        source, positions, seq, ingest_time_ms: as for `bronze_rows`.
    """
    judged = timed.withColumn("error", _error(source, ingest_time_ms)).withColumn(
        "moves", F.when(F.col("error").isNull(), F.col("event_time_ms"))
    )
    # rows that are spread already are neither exchanged nor sorted once more
    together = (LANE, "partition") if LANE in timed.columns else ("partition",)
    in_order = Window.partitionBy(*together).orderBy("offset").rowsBetween(Window.unboundedPreceding, 0)
    carried = {partition: position.stream_time_ms for partition, position in positions.items()}
    before = F.coalesce(_lookup(carried), F.lit(NO_TIME)) if carried else F.lit(NO_TIME)
    stream_time = F.greatest(F.max("moves").over(in_order), before.cast("bigint"))
    return judged.select(
        "topic", "partition", "offset", "attempt", "key", "value", "headers", "timestamp_ms", "timestamp_type",
        "event_time_ms", _given(ingest_time_ms).alias("ingest_time_ms"), stream_time.alias("stream_time_ms"),
        _given(seq).alias("seq"), "error", "k", "v",
    )  # fmt: skip


def _error(source: Source, ingest_time_ms: int) -> Column:
    event_time = F.col("event_time_ms")
    own = "the record's timestamp" if source.event_time.field is None else f"field {source.event_time.field!r}"
    latest = _given(ingest_time_ms + source.max_future_ms)
    ahead = F.concat(
        F.lit("event time "), event_time.cast("string"), F.lit(f" is more than {source.max_future_ms} ms after ingest")
    )
    return (
        F.when(F.col("key_error").isNotNull(), _fault(MALFORMED_KEY, F.col("key_error")))
        .when(F.col("value_error").isNotNull(), _fault(MALFORMED_VALUE, F.col("value_error")))
        .when(event_time.isNull(), _fault(NO_TIMESTAMP, F.lit(f"{own} is missing or negative")))
        .when(event_time > latest, _fault(FUTURE_TIMESTAMP, ahead))
    )


def _fault(code: str, message: Column) -> Column:
    return F.struct(F.lit(code).alias("code"), message.alias("message"))


def _lookup(values: Mapping[int, int]) -> Column:
    pairs = [F.lit(item) for partition, value in sorted(values.items()) for item in (partition, value)]
    return F.try_element_at(F.create_map(*pairs), F.col("partition"))


def _given(number: int) -> Column:
    """A number of this batch, bigint, over rows that have a `partition`.

    As a plain literal it would stand in the code that Spark generates, each batch would have other code than the one
    before, and the JVM would compile it anew: seconds of both cores a batch. The elements of a list do not stand there,
    and the place in the list, which is always the first, is no constant to the optimiser.
    """
    return F.element_at(F.array(F.lit(number).cast("bigint")), F.pmod(F.col("partition"), F.lit(1)) + 1)
