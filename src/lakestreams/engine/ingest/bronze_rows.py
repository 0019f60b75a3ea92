"""Bronze rows: what a topic's records become, read by the source's formats and judged, with the clock of their partition."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.engine.ingest.reading import Reading
from lakestreams.engine.ingest.row_counts import COUNTS
from lakestreams.engine.runtime.lake import OWNER, Lake, owned_by
from lakestreams.engine.runtime.tuning import SMALL_INPUT
from lakestreams.formats.base import struct_type
from lakestreams.operators.balance import balanced
from lakestreams.operators.weights import weighed
from lakestreams.sql import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from lakestreams.engine.ledger.plans import Position
    from lakestreams.topology.endpoints import Source

ERROR_TYPE = "struct<code: string, message: string>"
HEADERS_TYPE = "array<struct<key: string, value: binary>>"
# Only what the engine selects by; statistics of the payload would cost a pass over it. The change data feed, which
# another pipeline reads, costs nothing where rows are only appended.
_PROPERTIES = {
    "delta.dataSkippingStatsColumns": "partition,offset,seq,event_time_ms,stream_time_ms",
    "delta.enableChangeDataFeed": "true",
}
_SLOT = "_lane"


Placing: TypeAlias = Callable[["DataFrame"], "DataFrame"]
"""Brings raw records to the tasks that read them: each partition's to one of Spark's tasks, in the order of offsets."""


def as_read(raw: DataFrame) -> DataFrame:
    """They stay where Kafka's source has read them: a task has whole partitions, in order."""
    return raw


def in_any_order(raw: DataFrame) -> DataFrame:
    """Records that lie anywhere, to as many tasks as Spark makes."""
    return raw.repartition("partition").sortWithinPartitions("partition", "offset")


def _to_tasks(numbers: Mapping[int, int], count: int, raw: DataFrame) -> DataFrame:
    """To so many tasks, by the hash of the number that each partition has (see `operators/balance.py`)."""
    brought = raw.withColumn(_SLOT, F.coalesce(_lookup(numbers), F.lit(0))).repartition(count, _SLOT)
    return brought.sortWithinPartitions("partition", "offset").drop(_SLOT)


def placing(news: Mapping[int, int], shuffles: str | None) -> Placing:
    """Where records are read that Kafka's source gives, which has a task for each partition.

    They stay there, unless fewer tasks are enough for so few records, or the session has fewer: each writes a file.

    Args:
        news: partition to how many records it has; empty where that is unknown.
        shuffles: how many tasks the session has behind an exchange.
    """
    if not news or shuffles is None or not shuffles.isdecimal():
        return as_read
    tasks = min(int(shuffles), len(news), -(-sum(news.values()) // SMALL_INPUT))
    return as_read if tasks == len(news) else partial(_to_tasks, balanced(news, tasks), tasks)


def bronze_schema(spark: SparkSession, source: Source) -> StructType:
    """The columns of a source's bronze table."""
    return spark.createDataFrame([], bronze_columns(source)).schema


def bronze_columns(source: Source) -> str:
    """The same as DDL text."""
    return (
        "topic string, partition int, offset bigint, attempt int, key binary, value binary, "
        f"headers {HEADERS_TYPE}, timestamp_ms bigint, timestamp_type int, event_time_ms bigint, "
        f"ingest_time_ms bigint, stream_time_ms bigint, seq bigint, error {ERROR_TYPE}, "
        f"k {struct_type(source.key.fields)}, v {struct_type(source.value.fields)}"
    )


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
    placed: Placing = in_any_order,
    *,
    counted: bool = False,
    partitions: int = 0,
) -> DataFrame:
    """Bronze rows of one topic's part of a batch.

    Args:
        batch: Spark's Kafka columns (key, value, topic, partition, offset, timestamp, timestampType, headers).
        source: the topic's source, which says how the bytes are read.
        positions: per partition where bronze stands; rows below it are dropped, stream time goes on from it.
        seq: the batch's sequence number.
        ingest_time_ms: one reading of the clock for the whole batch; recorded, since `max_future` is judged by it.
        placed: brings them to the tasks that read them.
        counted: count them on the way, for `AppendMetrics`.
        partitions: as for `row_counts.with_counts`.

    Returns:
        The columns of `bronze_schema`, and `row_counts.COUNTS` if they are counted. A record that cannot be read, has no
        usable time or lies too far in the future has an `error`. It does not move `stream_time_ms`. Null keys and values do.
    """
    raw = batch.select(
        F.col("topic"),
        F.col("partition").cast("int").alias("partition"),
        F.col("offset").cast("bigint").alias("offset"),
        F.lit(0).alias("attempt"),
        F.col("key"),
        F.col("value"),
        F.col("headers").cast(HEADERS_TYPE).alias("headers"),
        F.unix_millis("timestamp").alias("timestamp_ms"),
        F.col("timestampType").cast("int").alias("timestamp_type"),
    )
    known = {partition: position.offset for partition, position in positions.items() if position.offset > 0}
    if known:
        raw = raw.where(F.col("offset") >= F.coalesce(_lookup(known), F.lit(0)))
    return read_rows(raw, source, positions, seq, ingest_time_ms, placed, counted=counted, partitions=partitions)


def read_rows(
    raw: DataFrame,
    source: Source,
    positions: Mapping[int, Position],
    seq: int,
    ingest_time_ms: int,
    placed: Placing = in_any_order,
    *,
    counted: bool = False,
    partitions: int = 0,
) -> DataFrame:
    """Bronze rows of raw records, in the order of their offsets: read by the source's formats, and judged.

    Args:
        raw: the raw columns of `bronze_schema`, up to `timestamp_type`.
        source, positions, seq, ingest_time_ms, placed, counted, partitions: as for `bronze_rows`.
    """
    clocks = {partition: position.stream_time_ms for partition, position in positions.items()}
    judged = partial(Reading.of(source).judged, clocks, seq, ingest_time_ms, counted=counted, partitions=partitions)
    columns = bronze_columns(source) + (f", {COUNTS} string" if counted else "")
    return weighed(placed(raw)).mapInArrow(judged, columns)


def typed_rows(raw: DataFrame, source: Source) -> DataFrame:
    """Raw records as their source's formats read them, with their event time, and nothing judged.

    Jobs and tests both read by this, so that they refuse the same records.

    Args:
        raw: columns `key, value, timestamp_ms` and any other.
        source: says how they are read.

    Returns:
        The columns of `raw`, and `k, key_error, v, value_error, one_by_one, event_time_ms`.
    """
    columns = [f"{quoted(one.name)} {one.dataType.simpleString()}" for one in raw.schema.fields]
    key, value = struct_type(source.key.fields), struct_type(source.value.fields)
    columns += [f"k {key}", "key_error string", f"v {value}", "value_error string"]
    columns += ["one_by_one boolean", "event_time_ms bigint"]
    return weighed(raw).mapInArrow(Reading.of(source).typed, ", ".join(columns))


def _lookup(values: Mapping[int, int]) -> Column:
    pairs = [F.lit(item) for partition, value in sorted(values.items()) for item in (partition, value)]
    return F.try_element_at(F.create_map(*pairs), F.col("partition"))
