"""The windowed kernel on frames written by hand: what recorded cases, whose keys are texts, cannot show."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from tests.joins.rows import frame, results

from lakestreams.joins import stream_stream
from lakestreams.joins.windows import Windowed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_keys_that_one_trigger_closes_come_in_the_order_of_their_bytes(spark: SparkSession) -> None:
    """Kafka's state store holds a Long as eight bytes, big-endian: negative ones lie behind all others."""
    left = frame(spark, "l", [(-1, "a", 10, 1), (3, "b", 10, 2), (-7, "c", 10, 3), (0, "d", 99, 4)], key="k: bigint")
    right = frame(spark, "r", [], key="k: bigint")
    sides = (side.withColumn("task", F.lit(0)) for side in (left, right))
    found = results(stream_stream.execute(*sides, Windowed("left", before=5, after=5), 1))
    assert [(row[0], row[2]) for row in found] == [(4, 3), (4, -7), (4, -1)]
