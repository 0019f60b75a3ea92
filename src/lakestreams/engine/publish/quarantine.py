"""Quarantine: records that give no result and must not be lost, with reason, raw bytes and coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.engine.ingest.bronze_rows import HEADERS_TYPE
from lakestreams.engine.ingest.reading import FUTURE_TIMESTAMP, MALFORMED_KEY, MALFORMED_VALUE, NO_TIMESTAMP
from lakestreams.engine.ledger.ledger import Ledger
from lakestreams.engine.ledger.plans import Plan, Range
from lakestreams.engine.runtime.table import Table
from lakestreams.engine.state.bronze import planned_rows, with_offsets
from lakestreams.evaluate.inputs import DETAIL, EXPECTATION, ROW, RULES, Rejected
from lakestreams.expectations.rules import dropped, fields_of, names_of
from lakestreams.topology.graph import (
    is_derived,
    is_rekeyed,
    may_delete,
    passes_null_values,
    refuses_null_values,
    sources_of,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from lakestreams.topology.endpoints import Source
    from lakestreams.topology.node import Node
    from lakestreams.topology.topology import Topology

SCHEMA = (
    "pipeline string, code string, message string, node string, topic string, partition int, offset bigint, "
    f"attempt int, key binary, value binary, headers {HEADERS_TYPE}, timestamp_ms bigint, timestamp_type int, "
    "event_time_ms bigint, stream_time_ms bigint, ingest_time_ms bigint, cycle bigint, "
    "rules array<string>, row string"
)
NULL_KEY, NULL_VALUE, LATE = "NULL_KEY", "NULL_VALUE", "LATE"
NO_PARTNER = "NO_PARTNER"
_WORDS: Final = {
    NULL_KEY: "the step cannot use a null key",
    NULL_VALUE: "the step cannot use a null value",
}


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
        rejected: what steps had no use for.
    """
    parts = [
        _of_source(spark, ledger, source, plan, topology)
        for source in topology.sources
        if any(_suspect(source, part, topology) for part in plan.of(source.topic))
    ]
    for one in rejected:
        node = next(node for node in topology.nodes if node.name == one.node)
        taken = [source for source in sources_of(node) if plan.of(source.topic)]
        if one.earlier:  # perhaps of a plan without records: time alone lets out what waits
            if one.code in (NO_PARTNER, EXPECTATION) or _possible(one.code, node, taken, plan, topology):
                parts.extend(_of_earlier(spark, ledger, sources_of(node), plan, one, topology))
            continue
        if _possible(one.code, node, taken, plan, topology):
            parts.extend(_of_step(spark, ledger, source, plan, one, topology) for source in taken)
    if not parts:
        return None
    return reduce(lambda left, right: left.unionByName(right), parts)


def reasons(topology: Topology, rejected: Sequence[Rejected]) -> list[tuple[str, str]]:
    """Every node and code that a cycle's quarantine may have: what a source refuses, and what steps have refused."""
    codes = (MALFORMED_KEY, MALFORMED_VALUE, NO_TIMESTAMP, FUTURE_TIMESTAMP, NULL_KEY, NULL_VALUE, EXPECTATION)
    own = [(source.name, code) for source in topology.sources for code in codes]
    return list(dict.fromkeys([*own, *((one.node, one.code) for one in rejected)]))


def _suspect(source: Source, part: Range, topology: Topology) -> bool:
    """Whether the counts of a range say that the source itself refuses some of it; what is not counted may be."""
    dropping = [rule for rule in topology.expectations.rules_of(source.name) if rule.action == "drop"]
    if part.records and any(part.failed.get(rule.id, 1) for rule in dropping):
        return True
    if source.kind != "stream":
        return bool(part.bad or part.null_keys)
    nulls = part.null_values and refuses_null_values(source, topology.nodes)
    return bool(part.bad or nulls or (part.null_keys and source.keys_not_null == "drop"))


def _possible(code: str, node: Node, taken: Sequence[Source], plan: Plan, topology: Topology) -> bool:
    """Whether a step can have refused anything, as far as the plan's counts tell."""
    parts = [part for source in taken for part in plan.of(source.topic)]
    if code == LATE:
        waits = any(is_derived(parent) for parent in node.parents)  # what a join made may be of any age
        return waits or max((part.lag_ms for part in parts if part.records), default=0) > node.least_slack_ms
    if code == NULL_KEY:
        return any(part.null_keys for part in parts) or is_rekeyed(node)
    lets_nulls_pass = any(passes_null_values(source, topology.nodes) for source in taken)
    return may_delete(node) or (lets_nulls_pass and any(part.null_values for part in parts))


def _of_source(spark: SparkSession, ledger: Ledger, source: Source, plan: Plan, topology: Topology) -> DataFrame:
    """Unreadable records, null keys and values that the source itself has no use for, and what its rules drop."""
    null_values = refuses_null_values(source, topology.nodes)
    rows = planned_rows(spark, ledger, source, [plan], readable=False)
    reason = F.when(F.col("error").isNotNull(), F.col("error"))
    if source.kind != "stream":
        reason = reason.when(F.col("k").isNull(), _reason(NULL_KEY, "a table's record without a key has no row"))
    else:
        if source.keys_not_null == "drop":
            reason = reason.when(F.col("k").isNull(), _reason(EXPECTATION, "keys_not_null"))
        if null_values:
            reason = reason.when(F.col("v").isNull(), _reason(NULL_VALUE, "a stream's null value gives no result"))
    out = dropped(source, topology.expectations)
    broken = names_of(topology.expectations.rules_of(source.name), fields_of(source))
    if source.keys_not_null != "off":
        broken = F.concat(F.array_compact(F.array(F.when(F.col("k").isNull(), F.lit("keys_not_null")))), broken)
    if out is not None:
        text = F.struct(F.lit(EXPECTATION).alias("code"), F.array_join(broken, ", ").alias("message"))
        reason = reason.when(out, text)
    judged = rows.withColumn("reason", reason).where(F.col("reason").isNotNull())
    judged = judged.withColumn(RULES, F.when(F.col("error").isNull(), broken))
    return _shaped(judged, ledger, plan, F.col("reason.code"), F.col("reason.message"), source.name)


def _of_step(
    spark: SparkSession, ledger: Ledger, source: Source, plan: Plan, one: Rejected, topology: Topology
) -> DataFrame:
    """Records that a step had no use for, fetched again with their raw bytes."""
    rows = _reported_by_steps(planned_rows(spark, ledger, source, [plan]), source, one, topology)
    return _fetched(rows, ledger, source, plan, one)


def _reported_by_steps(rows: DataFrame, source: Source, one: Rejected, topology: Topology) -> DataFrame:
    """Rows without the null values of a stream that refuses or ignores them itself, where null values are refused."""
    if one.code != NULL_VALUE or source.kind != "stream" or passes_null_values(source, topology.nodes):
        return rows
    return rows.where(F.col("v").isNotNull())


def _fetched(rows: DataFrame, ledger: Ledger, source: Source, plan: Plan, one: Rejected) -> DataFrame:
    if one.code == EXPECTATION:
        return _fetched_each(rows, ledger, source, plan, one)
    said = F.col(DETAIL) if DETAIL in one.records.columns else F.lit(_WORDS.get(one.code, one.code))
    # a record may be refused several times: late for each of several windows
    places = (
        one.records.where(F.col("source") == source.topic)
        .groupBy(*(F.col(name).alias(f"at_{name}") for name in ("partition", "offset", "attempt")))
        .agg(F.array_join(F.array_sort(F.collect_set(said)), "; ").alias(DETAIL))
    )
    fetched = rows.join(
        places,
        (F.col("partition") == F.col("at_partition"))
        & (F.col("offset") == F.col("at_offset"))
        & (F.col("attempt") == F.col("at_attempt")),
    )
    return _shaped(fetched, ledger, plan, F.lit(one.code), F.col(DETAIL), one.node)


def _fetched_each(rows: DataFrame, ledger: Ledger, source: Source, plan: Plan, one: Rejected) -> DataFrame:
    """Of rows that a step made and a rule drops, one each: a record may have made several."""
    own = one.records.where(F.col("source") == source.topic)
    wanted = own.select(*(F.col(name).alias(f"at_{name}") for name in ("partition", "offset", "attempt")), RULES, ROW)
    fetched = rows.join(
        wanted,
        (F.col("partition") == F.col("at_partition"))
        & (F.col("offset") == F.col("at_offset"))
        & (F.col("attempt") == F.col("at_attempt")),
    )
    return _shaped(fetched, ledger, plan, F.lit(one.code), F.array_join(RULES, ", "), one.node)


def _of_earlier(
    spark: SparkSession, ledger: Ledger, sources: Sequence[Source], plan: Plan, one: Rejected, topology: Topology
) -> list[DataFrame]:
    """Records that waited, some of them since earlier cycles: where they lie is looked up first, one row a partition."""
    bounds = F.min("offset").alias("first"), F.max("offset").alias("last")
    bounds_of = one.records.groupBy("source", "partition").agg(*bounds).collect()
    parts = []
    for source in sources:
        own = {row["partition"]: (row["first"], row["last"] + 1) for row in bounds_of if row["source"] == source.topic}
        if own:
            rows = ledger.lake.bronze(ledger.pipeline, source.topic).read(spark).where(with_offsets(own))
            readable = _reported_by_steps(rows.where(F.col("error").isNull()), source, one, topology)
            parts.append(_fetched(readable, ledger, source, plan, one))
    return parts


def _shaped(frame: DataFrame, ledger: Ledger, plan: Plan, code, message, node: str) -> DataFrame:  # type: ignore[no-untyped-def]  # noqa: ANN001 - Columns
    return frame.select(
        F.lit(ledger.pipeline).alias("pipeline"),
        code.alias("code"),
        message.alias("message"),
        F.lit(node).alias("node"),
        *("topic", "partition", "offset", "attempt", "key", "value", "headers", "timestamp_ms", "timestamp_type"),
        *("event_time_ms", "stream_time_ms", "ingest_time_ms"),
        F.lit(plan.cycle).cast("bigint").alias("cycle"),
        (F.col(RULES) if RULES in frame.columns else F.lit(None).cast("array<string>")).alias(RULES),
        (F.col(ROW) if ROW in frame.columns else F.lit(None).cast("string")).alias(ROW),
    )


def _reason(code: str, message: str):  # type: ignore[no-untyped-def]  # noqa: ANN202 - a Column
    return F.struct(F.lit(code).alias("code"), F.lit(message).alias("message"))
