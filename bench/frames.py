"""Records frames for the kernel benchmark: typed, with their tasks, in Parquet, as a cycle reads them.

Every frame is in time order in each partition, as a topic usually is: a record's stream time is its own time.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.operators.records import ORDER, STREAM_SIDE, TABLE_SIDE, TASK, TIME, records
from lakestreams.operators.windows import MOVES
from lakestreams.partitioning.kafka_default import partition_of_bytes

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from lakestreams.operators.records import Side

START_MS = 1_700_000_000_000
MINUTE = 60_000
PARTITIONS = 4


class Frames:
    """Makes frames once in a folder and reads them from there."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder

    def stream(self, name: str, rows: DataFrame, *, cycle: Column | None = None) -> DataFrame:
        """Points of a source: `rows` has `key, at` (ms after the start) and the columns of the value."""
        return self._read(name, rows, STREAM_SIDE, cycle)

    def table(self, name: str, rows: DataFrame, *, cycle: Column | None = None) -> DataFrame:
        """Versions of a source."""
        return self._read(name, rows, TABLE_SIDE, cycle)

    def kept(self, name: str, rows: DataFrame) -> DataFrame:
        """Any frame, written once."""
        path = self.folder / name
        if not path.exists():
            rows.write.parquet(str(path))
        return self.spark.read.parquet(str(path))

    def _read(self, name: str, rows: DataFrame, side: Side, cycle: Column | None) -> DataFrame:
        path = self.folder / name
        if not path.exists():
            self._write(path, name, rows, side, cycle if cycle is not None else F.lit(1))
        return self.spark.read.parquet(str(path))

    def _write(self, path: Path, name: str, rows: DataFrame, side: Side, cycle: Column) -> None:
        values = [column for column in rows.columns if column not in ("key", "at")]
        in_order = Window.partitionBy("partition").orderBy("at", "key")
        placed = (
            rows.withColumn("partition", partition_of_bytes(F.col("key").cast("binary"), PARTITIONS))
            .withColumn("offset", F.row_number().over(in_order).cast("bigint"))
            .select(
                F.struct("key").alias("k"),
                F.struct(*values).alias("v"),
                (F.col("at") + START_MS).alias("event_time_ms"),
                (F.col("at") + START_MS).alias("stream_time_ms"),
                "partition",
                "offset",
                F.lit(0).alias("attempt"),
                cycle.alias("cycle"),
            )
        )
        frame = records(placed, name, side, F.col("cycle")).withColumn(TASK, F.col(ORDER)["partition"])
        frame = frame.withColumn(MOVES, F.greatest(TIME, F.col(ORDER)["stream_time_ms"]))
        frame.write.parquet(str(path), mode="overwrite")


def text(prefix: str, number: Column | str, digits: int = 9) -> Column:
    """A number as text of fixed length: what keys and references look like."""
    return F.concat(
        F.lit(prefix), F.lpad(F.col(number).cast("string") if isinstance(number, str) else number, digits, "0")
    )


def share(salt: int) -> Column:
    """A number in [0, 1) for each `id`, the same in every run."""
    return F.pmod(F.xxhash64(F.col("id"), F.lit(salt)), F.lit(1_000_003)) / 1_000_003


def orders(spark: SparkSession, keys: int, spread_ms: int) -> DataFrame:
    """One order a key, evenly over the time."""
    return spark.range(keys).select(
        text("order", "id").alias("key"),
        (F.col("id") * spread_ms / keys).cast("bigint").alias("at"),
        (share(1) * 10_000).cast("bigint").alias("amount"),
        F.concat(F.lit("/products/"), (share(2) * 5_000).cast("int")).alias("item"),
    )


def payments(spark: SparkSession, keys: int, spread_ms: int, within_ms: int) -> DataFrame:
    """One payment a key: 9 of 10 inside the window after the order, the others too late for it."""
    delay = F.when(share(3) < 0.9, share(4) * within_ms).otherwise(within_ms * (1.1 + share(4)))
    return spark.range(keys).select(
        text("order", "id").alias("key"),
        (F.col("id") * spread_ms / keys + delay).cast("bigint").alias("at"),
        text("ref", "id", 12).alias("ref"),
        (share(5) * 10_000).cast("bigint").alias("paid"),
    )


def many_changes(spark: SparkSession, count: int, salt: int, *, hot: int, keys: int, spread_ms: int) -> DataFrame:
    """Records at random times: the first `hot` of them of one key, the others of `keys` keys."""
    cold = F.concat(F.lit("k"), F.pmod(F.col("id"), F.lit(keys)).cast("string"))
    return spark.range(count).select(
        F.when(F.col("id") < hot, F.lit("hot")).otherwise(cold).alias("key"),
        (share(salt) * spread_ms).cast("bigint").alias("at"),
        text(f"v{salt}-", "id").alias("item"),
    )
