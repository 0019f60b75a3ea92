"""Bronze rows of Delta tables: their rows come typed, so Spark SQL judges them; records of topics are judged by `reading`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.engine.ingest.reading import FUTURE_TIMESTAMP, NO_TIMESTAMP

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from lakestreams.topology.endpoints import Source


def judged_rows(timed: DataFrame, source: Source, before_ms: int, seq: int, ingest_time_ms: int) -> DataFrame:
    """Bronze rows of changes that are typed and have their event time: what is wrong with each, and stream time.

    Args:
        timed: the raw columns of `bronze_schema` with `event_time_ms`, `k` and `v`, all of one partition.
        source: says what is refused.
        before_ms: the stream time before the first row.
        seq: the batch's sequence number.
        ingest_time_ms: one reading of the clock for the whole batch.
    """
    judged = timed.withColumn("error", _error(source, ingest_time_ms))
    moves = F.when(F.col("error").isNull(), F.col("event_time_ms"))
    in_order = Window.partitionBy("partition").orderBy("offset").rowsBetween(Window.unboundedPreceding, 0)
    return judged.select(
        "topic", "partition", "offset", "attempt", "key", "value", "headers", "timestamp_ms", "timestamp_type",
        "event_time_ms", _numbered(ingest_time_ms).alias("ingest_time_ms"),
        F.greatest(F.max(moves).over(in_order), _numbered(before_ms)).alias("stream_time_ms"),
        _numbered(seq).alias("seq"), "error", "k", "v",
    )  # fmt: skip


def event_time_of(source: Source) -> Column:
    """The event time of a row in ms, null where none is usable; over `v` and `timestamp_ms`."""
    types = {field.name: field.type for field in source.value.fields}
    field_type = types.get(source.event_time.field) if source.event_time.field else None
    event_time = source.event_time.extract(F.col("v"), field_type, F.col("timestamp_ms"))
    if source.kind == "stream":
        return event_time
    # a deletion has no field to take its time from, and must delete all the same
    own = F.when(F.col("timestamp_ms") >= 0, F.col("timestamp_ms"))
    return F.when(F.col("v").isNull(), own).otherwise(event_time)


def _error(source: Source, ingest_time_ms: int) -> Column:
    event_time = F.col("event_time_ms")
    own = "the record's timestamp" if source.event_time.field is None else f"field {source.event_time.field!r}"
    latest = _numbered(ingest_time_ms + source.max_future_ms)
    ahead = F.concat(
        F.lit("event time "), event_time.cast("string"), F.lit(f" is more than {source.max_future_ms} ms after ingest")
    )
    missing = _fault(NO_TIMESTAMP, F.lit(f"{own} is missing or negative"))
    return F.when(event_time.isNull(), missing).when(event_time > latest, _fault(FUTURE_TIMESTAMP, ahead))


def _fault(code: str, message: Column) -> Column:
    return F.struct(F.lit(code).alias("code"), message.alias("message"))


def _numbered(number: int) -> Column:
    """A number of this batch, bigint, over rows that have a `partition`.

    As a plain literal it would stand in the code that Spark generates, each batch would have other code than the one
    before, and the JVM would compile it again: seconds of both cores a batch. The elements of a list do not stand there,
    and the place in the list, which is always the first, is no constant to the optimiser.
    """
    return F.element_at(F.array(F.lit(number).cast("bigint")), F.pmod(F.col("partition"), F.lit(1)) + 1)


__all__ = ["event_time_of", "judged_rows"]
