"""Points, versions and the total order: the columns that every kernel works on.

order = (cycle, stream_time_ms, side, source, partition, offset, attempt). Inside a cycle the cycle is constant, so a
record's place is its `trigger`; what earlier cycles left behind comes before all of it. `side` is 0 for a table and 1
for a stream (tables first on ties), `source` compares as UTF-8 bytes. Source of the rule: DESIGN section 2.

A *points* frame has one row a stream record, with the columns
    k struct|null, v struct|null, ts bigint (ms, the result's time), trigger struct, n int, kind string,
    contributors array<struct<source, partition, offset, attempt>>
A *versions* frame has one row a table record:
    k struct, v struct|null (null: tombstone), ts bigint, o struct<cycle, ...trigger>
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

Side = Literal[0, 1]
TABLE_SIDE: Side = 0
STREAM_SIDE: Side = 1

KEY, VALUE, TIME, TRIGGER, PLACE, KIND, CONTRIBUTORS = "k", "v", "ts", "trigger", "n", "kind", "contributors"
ORDER = "o"
POINT_COLUMNS = (KEY, VALUE, TIME, TRIGGER, PLACE, KIND, CONTRIBUTORS)
VERSION_COLUMNS = (KEY, VALUE, TIME, ORDER)

COORDINATES = ("source", "partition", "offset", "attempt")
TRIGGER_FIELDS = ("stream_time_ms", "side", *COORDINATES)

TRIGGER_TYPE = "struct<stream_time_ms: bigint, side: int, source: string, partition: int, offset: bigint, attempt: int>"
CONTRIBUTOR_TYPE = "struct<source: string, partition: int, offset: bigint, attempt: int>"
LINEAGE_TYPE = (
    f"struct<cycle: bigint, trigger: {TRIGGER_TYPE}, n: int, kind: string, contributors: array<{CONTRIBUTOR_TYPE}>>"
)


def points(records: DataFrame, source: str) -> DataFrame:
    """A points frame of a stream's records.

    Args:
        records: columns `k, v, event_time_ms, stream_time_ms, partition, offset, attempt`.
        source: the topic's name.
    """
    trigger = _trigger(source, STREAM_SIDE)
    contributor = F.struct(F.lit(source).alias("source"), F.col("partition"), F.col("offset"), F.col("attempt"))
    return records.select(
        F.col("k").alias(KEY),
        F.col("v").alias(VALUE),
        F.col("event_time_ms").alias(TIME),
        trigger.alias(TRIGGER),
        F.lit(0).alias(PLACE),
        F.lit("record").alias(KIND),
        F.array(contributor).alias(CONTRIBUTORS),
    )


def versions(records: DataFrame, source: str, cycle: Column) -> DataFrame:
    """A versions frame of a table's records.

    Args:
        records: columns `k, v, event_time_ms, stream_time_ms, partition, offset, attempt`.
        source: the topic's name.
        cycle: the cycle in which each record was planned.
    """
    parts = [_trigger(source, TABLE_SIDE).getField(name).alias(name) for name in TRIGGER_FIELDS]
    return records.select(
        F.col("k").alias(KEY),
        F.col("v").alias(VALUE),
        F.col("event_time_ms").alias(TIME),
        F.struct(cycle.cast("bigint").alias("cycle"), *parts).alias(ORDER),
    )


def trigger_of(order: Column) -> Column:
    """The in-cycle part of an order."""
    return F.struct(*(order[name].alias(name) for name in TRIGGER_FIELDS))


def contributor_of(order: Column) -> Column:
    """The coordinates of an order, as a contributor."""
    return F.struct(*(order[name].alias(name) for name in COORDINATES))


def lineage(cycle: int) -> Column:
    """The trailing column `_lineage` of a result row, from a points frame."""
    return F.struct(
        F.lit(cycle).cast("bigint").alias("cycle"),
        F.col(TRIGGER).alias("trigger"),
        F.col(PLACE).alias("n"),
        F.col(KIND).alias("kind"),
        F.col(CONTRIBUTORS).alias("contributors"),
    )


def _trigger(source: str, side: Side) -> Column:
    return F.struct(
        F.col("stream_time_ms").cast("bigint").alias("stream_time_ms"),
        F.lit(side).cast("int").alias("side"),
        F.lit(source).alias("source"),
        F.col("partition").cast("int").alias("partition"),
        F.col("offset").cast("bigint").alias("offset"),
        F.col("attempt").cast("int").alias("attempt"),
    )
