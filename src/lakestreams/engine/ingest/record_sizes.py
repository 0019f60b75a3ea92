"""What records weigh: the bytes of key, value and headers, as Kafka has them."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.kafka.noted import TopicPartition

BYTES: Final = (
    "coalesce(octet_length(key), 0) + coalesce(octet_length(value), 0) + coalesce(aggregate(headers, 0L, (sum, one) -> "
    "sum + octet_length(one.key) + coalesce(octet_length(one.value), 0)), 0L)"
)
"""SQL over `key`, `value` and `headers`, bigint."""

_RECORDS, _PARTITIONS = 8, 16  # of a partition, of a topic


def sample(
    spark: SparkSession,
    options: Mapping[str, str],
    positions: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> dict[str, int]:
    """Topic to the mean bytes of the first records that are to be read; one small job.

    Of none where that fails: what keeps it from reading is reported by the query that reads all.

    Args:
        options: of Spark's Kafka source.
        positions, ends: what is to be read.
    """
    chosen: dict[str, list[int]] = {}
    for topic, partition in sorted(ends):
        own = chosen.setdefault(topic, [])
        if len(own) < _PARTITIONS:
            own.append(partition)
    first = {topic: {str(one): positions[topic, one] for one in own} for topic, own in chosen.items()}
    last = {
        topic: {str(one): min(ends[topic, one], positions[topic, one] + _RECORDS) for one in own}
        for topic, own in chosen.items()
    }
    with contextlib.suppress(Exception):
        records = (
            spark.read.format("kafka")
            .options(**options)
            .option("assign", json.dumps(chosen))
            .option("includeHeaders", "true")
            .option("failOnDataLoss", "false")
            .option("startingOffsets", json.dumps(first))
            .option("endingOffsets", json.dumps(last))
            .load()
        )
        means = records.coalesce(1).groupBy("topic").agg(F.avg(F.expr(BYTES)).alias("mean")).collect()
        return {row["topic"]: round(row["mean"]) for row in means}
    return {}


__all__ = ["BYTES", "sample"]
