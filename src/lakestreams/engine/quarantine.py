"""Quarantine: records that give no result and must not be lost, with reason, raw bytes and coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.engine.bronze import planned_rows
from lakestreams.engine.dataflow import Rejected
from lakestreams.engine.ingest import HEADERS_TYPE
from lakestreams.engine.lake import Table
from lakestreams.engine.ledger import Ledger, Plan
from lakestreams.topology.graph import sources_of
from lakestreams.topology.nodes import SelectKey, StreamTableJoin

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from lakestreams.topology.builder import Topology
    from lakestreams.topology.nodes import Node, Source

SCHEMA = (
    "pipeline string, code string, message string, node string, topic string, partition int, offset bigint, "
    f"attempt int, key binary, value binary, headers {HEADERS_TYPE}, timestamp_ms bigint, timestamp_type int, "
    "event_time_ms bigint, stream_time_ms bigint, ingest_time_ms bigint, cycle bigint"
)
NULL_KEY, NULL_VALUE, EXPECTATION = "NULL_KEY", "NULL_VALUE", "EXPECTATION"


def schema(spark: SparkSession) -> StructType:
    """The quarantine's columns."""
    return spark.createDataFrame([], SCHEMA).schema


def table(ledger: Ledger) -> Table:
    """The quarantine table; shared by the pipelines of a lake."""
    return ledger.lake.control("quarantine")


def rows(
    spark: SparkSession, ledger: Ledger, topology: Topology, plan: Plan, rejected: Sequence[Rejected]
) -> DataFrame | None:
    """What a plan sends to quarantine, or None when its counts already say that there is nothing.

    Args:
        spark: the session.
        ledger: of the pipeline.
        topology: the pipeline.
        plan: the cycle.
        rejected: what steps had no use for.
    """
    parts = [
        _of_source(spark, ledger, source, plan)
        for source in topology.sources
        if any(_suspect(source, part.bad, part.null_keys, part.null_values) for part in plan.of(source.topic))
    ]
    for one in rejected:
        node = next(node for node in topology.nodes if node.name == one.node)
        null_keys = sum(part.null_keys for source in _streams(node) for part in plan.of(source.topic))
        if null_keys or _rekeyed(node):
            parts.extend(_of_step(spark, ledger, source, plan, one) for source in _streams(node))
    if not parts:
        return None
    return reduce(lambda left, right: left.unionByName(right), parts)


def _suspect(source: Source, bad: int, null_keys: int, null_values: int) -> bool:
    if source.kind == "table":
        return bool(bad or null_keys)
    return bool(
        bad or (null_values and source.null_values == "quarantine") or (null_keys and source.keys_not_null == "drop")
    )


def _of_source(spark: SparkSession, ledger: Ledger, source: Source, plan: Plan) -> DataFrame:
    """Unreadable records, and null keys and values that the source itself has no use for."""
    found = planned_rows(spark, ledger, source, [plan], readable=False)
    reason = F.when(F.col("error").isNotNull(), F.col("error"))
    if source.kind == "table":
        reason = reason.when(F.col("k").isNull(), _reason(NULL_KEY, "a table's record without a key has no row"))
    else:
        if source.keys_not_null == "drop":
            reason = reason.when(F.col("k").isNull(), _reason(EXPECTATION, "keys_not_null"))
        if source.null_values == "quarantine":
            reason = reason.when(F.col("v").isNull(), _reason(NULL_VALUE, "a stream's null value gives no result"))
    judged = found.withColumn("reason", reason).where(F.col("reason").isNotNull())
    return _shaped(judged, ledger, plan, F.col("reason.code"), F.col("reason.message"), source.name)


def _of_step(spark: SparkSession, ledger: Ledger, source: Source, plan: Plan, one: Rejected) -> DataFrame:
    """Records that a step had no use for, fetched again with their raw bytes."""
    places = one.records.where(F.col("source") == source.topic).select(
        *(F.col(name).alias(f"at_{name}") for name in ("partition", "offset", "attempt"))
    )
    found = planned_rows(spark, ledger, source, [plan]).join(
        places,
        (F.col("partition") == F.col("at_partition"))
        & (F.col("offset") == F.col("at_offset"))
        & (F.col("attempt") == F.col("at_attempt")),
        "left_semi",
    )
    return _shaped(found, ledger, plan, F.lit(one.code), F.lit("an inner join has no use for a null key"), one.node)


def _shaped(frame: DataFrame, ledger: Ledger, plan: Plan, code, message, node: str) -> DataFrame:  # type: ignore[no-untyped-def]  # noqa: ANN001 - Columns
    return frame.select(
        F.lit(ledger.pipeline).alias("pipeline"),
        code.alias("code"),
        message.alias("message"),
        F.lit(node).alias("node"),
        *("topic", "partition", "offset", "attempt", "key", "value", "headers", "timestamp_ms", "timestamp_type"),
        *("event_time_ms", "stream_time_ms", "ingest_time_ms"),
        F.lit(plan.cycle).cast("bigint").alias("cycle"),
    )


def _reason(code: str, message: str):  # type: ignore[no-untyped-def]  # noqa: ANN202 - a Column
    return F.struct(F.lit(code).alias("code"), F.lit(message).alias("message"))


def _streams(node: Node) -> list[Source]:
    left = node.left if isinstance(node, StreamTableJoin) else node
    return [source for source in sources_of(left) if source.kind == "stream"]


def _rekeyed(node: Node) -> bool:
    """Whether a new key, which may be null, is made on the way to a step."""
    if isinstance(node, SelectKey):
        return True
    return any(_rekeyed(parent) for parent in node.parents[:1])
