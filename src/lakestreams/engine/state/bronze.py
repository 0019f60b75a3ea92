"""Reading bronze by plans: the rows of a cycle, and the cycle of a row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.engine.ingest.bronze_rows import bronze_columns
from lakestreams.engine.ledger.ledger import Ledger
from lakestreams.engine.ledger.plans import LATENESS_MS, REPLAYED, Plan, Range
from lakestreams.engine.runtime.parallel import in_parallel
from lakestreams.expectations.rules import BEHIND
from lakestreams.kafka.noted import TopicPartition
from lakestreams.spark import holds_any

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from lakestreams.expectations.rules import RecordRules
    from lakestreams.topology.endpoints import Source


def planned_rows(
    spark: SparkSession, ledger: Ledger, source: Source, plans: Sequence[Plan], *, readable: bool = True
) -> DataFrame:
    """Bronze rows of a source that these plans take.

    Args:
        source: whose rows.
        plans: ascending; those left out between them took no records of the source.
        readable: leave out rows with an `error`.
    """
    ranges: dict[int, tuple[int, int]] = {}
    for plan in plans:
        for part in plan.of(source.topic):
            start = ranges.get(part.partition, (part.from_offset, 0))[0]
            ranges[part.partition] = (start, part.to_offset)
    bronze = ledger.lake.bronze(ledger.pipeline, source.topic)
    if not ranges and not bronze.exists(spark):
        return spark.createDataFrame([], bronze_columns(source))  # no run has read the source yet
    rows = bronze.read(spark)
    if not ranges:
        return rows.where(F.lit(False))
    # the batch bounds let Delta skip files that the offsets of several partitions alone would not
    batches = F.col("seq").between(min(plan.seq_from for plan in plans), max(plan.seq for plan in plans))
    taken = rows.where(batches & within(ranges))
    return taken.where(F.col("error").isNull()) if readable else taken


def row_cycle(topic: str, plans: Sequence[Plan]) -> Column:
    """The cycle of a row that one of these plans takes: the first whose end in the row's partition lies past it.

    A replayed record's place among the plans is its ingest batch. The rows have `partition, offset`; where a plan takes
    replayed records, `attempt, seq` too.
    """
    if len(plans) == 1:
        return F.lit(plans[0].cycle).cast("bigint")
    ends: dict[int, list[tuple[int, int]]] = {}
    for plan in plans:
        for part in plan.of(topic):
            ends.setdefault(part.partition, []).append((part.to_offset, plan.cycle))
    again = ends.pop(REPLAYED, None)
    cycle = F.when(F.lit(False) if again is None else F.col("attempt") > 0, _first_past("seq", again or ()))
    for partition, bounds in sorted(ends.items()):  # one case with many branches, which is not nested
        cycle = cycle.when(F.col("partition") == partition, _first_past("offset", bounds))
    return cycle


def _first_past(number: str, bounds: Sequence[tuple[int, int]]) -> Column:
    """The cycle of the first end that a number lies below; pairs of end and cycle, ascending.

    Halved again and again: Spark walks through expressions by recursion, and its stack ends at 500 in a chain.
    """
    if not bounds:
        return F.lit(None).cast("bigint")
    if len(bounds) == 1:
        ((end, cycle),) = bounds
        return F.when(F.col(number) < end, F.lit(cycle).cast("bigint"))
    half = len(bounds) // 2
    below = F.col(number) < bounds[half - 1][0]
    return F.when(below, _first_past(number, bounds[:half])).otherwise(_first_past(number, bounds[half:]))


def cut_below(
    spark: SparkSession,
    ledger: Ledger,
    ranges: Sequence[Range],
    below: int | None,
    seq_from: int,
    rules: RecordRules,
    sources: Sequence[Source],
) -> Mapping[TopicPartition, Range]:
    """The part of these ranges strictly below a stream time (None: all of it), counted: one range a topic-partition.

    One small aggregation a topic over what is ingested and not planned. Of replayed records no request is cut.

    Args:
        ranges: of any topics; of a topic-partition they ascend.
        below: the stream time.
        seq_from: the first ingest batch that can hold their rows.
        rules: what is judged of single records.
        sources: of the topics.
    """
    by_topic = {
        topic: [part for part in ranges if part.topic == topic] for topic in sorted({one.topic for one in ranges})
    }

    def counted(topic: str) -> Mapping[TopicPartition, Range]:
        judged = [(source, one) for source in sources if source.topic == topic for one in rules.of(source)]
        rows = ledger.lake.bronze(ledger.pipeline, topic).read(spark).where(F.col("seq") >= seq_from)
        return _counted_below(
            rows, by_topic[topic], below, {one.id: rules.violated(source, one) for source, one in judged}
        )

    found = in_parallel(spark, [partial(counted, topic) for topic in by_topic])
    return {at: part for one in found for at, part in one.items()}


def _counted_below(
    rows: DataFrame, ranges: Sequence[Range], below: int | None, violated: Mapping[str, Column]
) -> dict[TopicPartition, Range]:
    """The same of one topic.

    Args:
        rows: of its bronze.
        violated: whether a row violates what is judged, by id.
    """
    under = F.lit(True) if below is None else F.col("stream_time_ms") < below
    good = under & F.col("error").isNull()
    counted_rows = (
        rows.where(holds_any(map(within, _one_of_each(ranges))))
        .groupBy(F.when(F.col("attempt") > 0, REPLAYED).otherwise(F.col("partition")).alias("partition"))
        .agg(
            F.max(F.when(under, F.col("offset"))).alias("last"),
            F.min(F.when(~under, F.col("offset"))).alias("next"),
            F.count_if(under).alias("records"),
            F.count_if(under & F.col("error").isNotNull()).alias("bad"),
            F.count_if(good & F.col("k").isNull()).alias("null_keys"),
            F.count_if(good & F.col("v").isNull()).alias("null_values"),
            F.max(F.when(under, F.col("stream_time_ms"))).alias("stream_time_ms"),
            F.max(F.when(good, F.expr(BEHIND))).alias("lag_ms"),
            F.array(*late(F.when(good, F.expr(BEHIND)))).alias("lateness"),
            F.array(*(F.count_if(good & one) for one in violated.values())).alias("failed"),
        )
        .collect()
    )
    counted = {row["partition"]: row.asDict() for row in counted_rows}
    spans: dict[TopicPartition, Range] = {}
    for part in ranges:
        spans[part.at] = replace(part, from_offset=spans.get(part.at, part).from_offset)
    return {at: _cut(span, counted.get(span.partition, {}), list(violated)) for at, span in spans.items()}


def _one_of_each(ranges: Sequence[Range]) -> list[dict[int, tuple[int, int]]]:
    """Ranges as mappings that have one of a partition each, as few as there are of any partition."""
    found: list[dict[int, tuple[int, int]]] = []
    for part in ranges:
        free = next((one for one in found if part.partition not in one), None)
        if free is None:
            found.append(free := {})
        free[part.partition] = part.from_offset, part.to_offset
    return found


def late(lag: Column) -> list[Column]:
    """How many rows lie how far behind, by `LATENESS_MS`: aggregates, one a range.

    Args:
        lag: ms, null of rows that are not counted.
    """
    bounds = (None, *LATENESS_MS, None)
    steps = pairwise(bounds)
    return [
        F.count_if((F.lit(True) if over is None else lag > over) & (lag.isNotNull() if up_to is None else lag <= up_to))
        for over, up_to in steps
    ]


def _cut(part: Range, row: Mapping[str, Any], judged: Sequence[str]) -> Range:
    if not row.get("records"):
        end = part.from_offset if row.get("next") is not None else part.to_offset
        return Range(*part.at, part.from_offset, end, stream_time_ms=part.stream_time_ms)
    return Range(
        *part.at,
        part.from_offset,
        # nothing above: the range ends where reading ended, which may lie past the last row (transaction markers)
        part.to_offset if row.get("next") is None else int(row["last"] or 0) + 1,
        int(row["records"] or 0),
        int(row["bad"] or 0),
        int(row["null_keys"] or 0),
        int(row["null_values"] or 0),
        int(row["stream_time_ms"] or 0),
        int(row["lag_ms"] or 0),
        failed=dict(zip(judged, row["failed"], strict=True)),
        lateness=tuple(row["lateness"]),
    )


def within(ranges: Mapping[int, tuple[int, int]]) -> Column:
    """Whether a row lies in its partition's range of offsets, the end exclusive.

    A replayed record lies in no partition's range, whatever its offset, but in that of ATTEMPTS, by its batch.
    """
    partitions = {partition: one for partition, one in ranges.items() if partition != REPLAYED}
    conditions = [(F.col("attempt") == 0) & with_offsets(partitions)] if partitions else []
    if REPLAYED in ranges:
        start, end = ranges[REPLAYED]
        conditions.append((F.col("attempt") > 0) & (F.col("seq") >= start) & (F.col("seq") < end))
    return holds_any(conditions)


def with_offsets(ranges: Mapping[int, tuple[int, int]]) -> Column:
    """Whether a row's offset lies in its partition's range, the end exclusive, whichever attempt it is."""
    return holds_any(
        (F.col("partition") == partition) & (F.col("offset") >= start) & (F.col("offset") < end)
        for partition, (start, end) in sorted(ranges.items())
    )
