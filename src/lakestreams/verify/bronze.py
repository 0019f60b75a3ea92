"""What plans and bronze say of themselves, computed again from bronze's raw columns: stream time, no gap, no record twice."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.engine.ledger.ledger import Ledger
from lakestreams.engine.ledger.plans import NO_TIME, REPLAYED, Plan, Range
from lakestreams.engine.state.bronze import planned_rows, row_cycle, within
from lakestreams.verify.comparison import Comparison
from lakestreams.verify.outputs import EXAMPLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.topology.endpoints import Source


def newest(plans: Sequence[Plan]) -> list[Range]:
    """The last range of each topic-partition; not every configuration reads every topic."""
    return list({part.at: part for plan in plans for part in plan.ranges}.values())


def plans_follow_each_other(plans: Sequence[Plan]) -> Comparison:
    """Each plan takes a partition up where the one before has left it; cycles ascend by one."""
    wrong = [
        f"cycle {plan.cycle} comes behind cycle {before.cycle}"
        for before, plan in pairwise(plans)
        if plan.cycle != before.cycle + 1
    ]
    position: dict[tuple[str, int], int] = {}
    for plan in plans:
        for part in plan.ranges:
            at = position.get(part.at)
            if at is not None and part.from_offset != at:
                wrong.append(
                    f"cycle {plan.cycle}: {part.topic}-{part.partition} from {part.from_offset}, not from {at}"
                )
            position[part.at] = part.to_offset
    return Comparison("plans", len(plans), len(wrong), tuple(wrong[:EXAMPLES]))


def settled(spark: SparkSession, ledger: Ledger, sources: Sequence[Source], plans: Sequence[Plan]) -> Comparison:
    """In a round, a cycle's records lie strictly before those of all later cycles: what was planned was settled.

    A round is known by the ends that it has captured; what lies past them, replayed records, and global tables, which are
    read to their end first, hold nobody back.
    """
    bounds: dict[int, list[tuple[int, int]]] = {}
    for source in sources:
        ends = [
            (plan.cycle, part.partition, part.end_offset)
            for plan in plans
            for part in plan.of(source.topic)
            if part.end_offset is not None
        ]
        if source.kind == "global_table" or not ends:
            continue
        taken = [plan for plan in plans if plan.of(source.topic)]
        captured = spark.createDataFrame(ends, "cycle bigint, partition int, end_offset bigint")
        planned = planned_rows(spark, ledger, source, taken, readable=False).where(F.col("attempt") == 0)
        rows = planned.select(row_cycle(source.topic, taken).alias("cycle"), "partition", "offset", "stream_time_ms")
        of_round = rows.join(F.broadcast(captured), ["cycle", "partition"]).where("offset < end_offset")
        for row in of_round.groupBy("cycle").agg(F.min("stream_time_ms"), F.max("stream_time_ms")).collect():
            bounds.setdefault(row[0], []).append((row[1], row[2]))
    wrong = []
    reached: int | None = None
    captured_before: dict[tuple[str, int], int | None] = {}
    for plan in plans:
        captured_now = {part.at: part.end_offset for part in plan.ranges if not part.of_replays}
        if captured_now != captured_before:
            reached, captured_before = None, captured_now
        if plan.cycle not in bounds:
            continue
        first, last = min(low for low, _ in bounds[plan.cycle]), max(high for _, high in bounds[plan.cycle])
        if reached is not None and first <= reached:
            wrong.append(f"cycle {plan.cycle} begins at stream time {first}, an earlier one has reached {reached}")
        reached = last if reached is None else max(reached, last)
    return Comparison("plans, what was settled", len(plans), len(wrong), tuple(wrong[:EXAMPLES]))


def of_source(
    spark: SparkSession, ledger: Ledger, source: Source, plans: Sequence[Plan], before: Sequence[Range]
) -> list[Comparison]:
    """Stream time computed again from the raw columns; no record twice; as many rows as the plans took."""
    begins = {part.partition: part for part in before if part.topic == source.topic}
    ends = {part.partition: part.to_offset for part in newest(plans) if part.topic == source.topic}
    if not ends:
        return []
    starts = {partition: part.to_offset for partition, part in begins.items()}
    planned_now = within({partition: (starts.get(partition, 0), end) for partition, end in ends.items()})
    wanted = planned_now
    if REPLAYED in ends:  # a replayed record moves stream time where it was ingested, also one that waits for its plan
        wanted |= (F.col("attempt") > 0) & F.col("seq").between(starts.get(REPLAYED, 0), plans[-1].seq)
    rows = ledger.lake.bronze(ledger.pipeline, source.topic).read(spark).where(wanted)
    in_order = Window.partitionBy("partition").orderBy("seq", "offset", "attempt")
    moves = F.when(F.col("error").isNull(), F.col("event_time_ms"))
    stood = F.when(F.lit(False), NO_TIME)  # where the partition's stream time stood before the first of these rows
    for part in begins.values():
        if not part.of_replays:
            stood = stood.when(F.col("partition") == part.partition, part.stream_time_ms)
    stood = stood.otherwise(NO_TIME)
    so_far = F.max(moves).over(in_order.rowsBetween(Window.unboundedPreceding, 0))
    expected = F.greatest(so_far, stood.cast("bigint"))
    before_it = in_order.rowsBetween(Window.unboundedPreceding, -1)
    as_read = F.col("attempt") == 0
    twice = as_read & (F.max(F.when(as_read, F.col("offset"))).over(before_it) >= F.col("offset"))
    judged = rows.withColumns({"_expected": expected, "_twice": F.coalesce(twice, F.lit(False))}).where(planned_now)
    wrong = (F.col("_expected") != F.col("stream_time_ms")) | F.col("_twice")
    (total,) = judged.agg(F.count("*").alias("all"), F.count_if(wrong).alias("wrong")).collect()
    examples = judged.where(wrong).orderBy("partition", "offset").limit(EXAMPLES).collect() if total["wrong"] else []
    texts = tuple(
        f"{source.topic}-{row['partition']}@{row['offset']}: "
        + ("twice" if row["_twice"] else f"stream time {row['stream_time_ms']}, computed {row['_expected']}")
        for row in examples
    )
    planned = sum(plan.records(source.topic) for plan in plans)
    missing = abs(planned - total["all"])
    counted = Comparison(
        f"bronze of {source.topic}, rows",
        planned,
        missing,
        (f"the plans took {planned} records, bronze holds {total['all']} of them",) if missing else (),
    )
    return [Comparison(f"bronze of {source.topic}, stream time", total["all"], total["wrong"], texts), counted]
