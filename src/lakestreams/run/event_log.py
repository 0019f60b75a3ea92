"""The event log and the quarantine as plain rows, bounded, and the open cycle: what a report is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.engine.runtime.lake import Lake

_LONGEST_MESSAGE, _LONGEST_VALUE = 1_000, 1_000  # signs, bytes
_COORDINATES = ("topic", "partition", "offset", "attempt", "cycle")


def read_events(spark: SparkSession, lake: Lake, pipeline: str, cycles: int) -> list[dict[str, Any]]:
    """The events of a pipeline's newest cycles.

    Args:
        cycles: of how many.

    Returns:
        Rows of `_lakestreams.events`, `timestamp` in ms since 1970; none where there is no such table.
    """
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - the package imports without pyspark

    table = lake.control("events")
    if not table.exists(spark):
        return []
    own = table.read(spark).where(F.col("pipeline") == pipeline)
    newest = own.select("cycle").distinct().orderBy(F.desc("cycle")).limit(cycles).agg(F.min("cycle")).first()
    if newest is None or newest[0] is None:
        return []
    columns = ("pipeline", "cycle", "id", "sequence", "event_type", "origin", "details")
    rows = own.where(F.col("cycle") >= newest[0]).select(*columns, F.unix_millis("timestamp").alias("timestamp"))
    return [row.asDict() for row in rows.orderBy("sequence").collect()]


def open_cycle(spark: SparkSession, lake: Lake, pipeline: str) -> int | None:
    """The cycle of a pipeline that is planned and not finished; None: there is none."""
    from lakestreams.engine.ledger.ledger import Ledger  # noqa: PLC0415 - the package imports without pyspark

    ledger = Ledger(lake, pipeline)
    plan = ledger.history(spark).open_plan if ledger.table.exists(spark) else None
    return None if plan is None else plan.cycle


def read_quarantine(
    spark: SparkSession,
    lake: Lake,
    pipeline: str,
    *,
    from_cycle: int = 0,
    to_cycle: int | None = None,
    examples: int = 5,
    values: bool = False,
) -> list[dict[str, Any]]:
    """What is in a pipeline's quarantine, by node and reason.

    Args:
        from_cycle, to_cycle: the first and the last cycle whose records count; None: all later ones.
        examples: how many of the newest records of each.
        values: whether the examples bring their raw keys and values, or the beginning of long ones; else these are not
            even read.

    Returns:
        `node, code, records, first_cycle, last_cycle, examples`, each example with `topic, partition, offset, attempt,
        cycle, message, rules` (and `key, value`); none where there is no such table.
    """
    from pyspark.sql import Window  # noqa: PLC0415 - the package imports without pyspark
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    table = lake.control("quarantine")
    if not table.exists(spark):
        return []
    stored = table.read(spark)
    of_cycles = F.col("cycle") >= from_cycle
    if to_cycle is not None:
        of_cycles &= F.col("cycle") <= to_cycle
    own = stored.where((F.col("pipeline") == pipeline) & of_cycles)
    bounds = F.count("*").alias("records"), F.min("cycle").alias("first_cycle"), F.max("cycle").alias("last_cycle")
    groups = [row.asDict() for row in own.groupBy("node", "code").agg(*bounds).orderBy("node", "code").collect()]
    newest = Window.partitionBy("node", "code").orderBy(
        F.desc("cycle"), "topic", "partition", F.desc("offset"), F.desc("attempt")
    )
    shown = [*_COORDINATES, *(name for name in ("rules",) if name in stored.columns)]  # older lakes have no rules
    raw = [F.substring(name, 1, _LONGEST_VALUE).alias(name) for name in ("key", "value")] if values else []
    message = F.substring("message", 1, _LONGEST_MESSAGE).alias("message")
    rows = (
        own.withColumn("place", F.row_number().over(newest))
        .where(F.col("place") <= examples)
        .select("node", "code", "place", *shown, message, *raw)
        .orderBy("node", "code", "place")
        .collect()
    )
    for group in groups:
        own_rows = (row.asDict() for row in rows if (row["node"], row["code"]) == (group["node"], group["code"]))
        group["examples"] = [
            {name: row[name] for name in row if name not in ("node", "code", "place")} for row in own_rows
        ]
    return groups
