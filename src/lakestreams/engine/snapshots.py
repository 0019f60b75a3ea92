"""Snapshots: the live rows of a table source as of a finished cycle, so that state need not be read from the start.

A cache: deleted, it is rebuilt from bronze. Each row keeps raw bytes, headers, coordinates and event time beside the
typed columns, so that a later topology can read from it what this one did not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.engine import pace
from lakestreams.engine.bronze import planned_rows, row_cycle
from lakestreams.engine.failpoints import failpoint
from lakestreams.engine.ledger import Ledger, translated
from lakestreams.engine.plans import Plan
from lakestreams.expectations.rules import kept
from lakestreams.joins.order import TABLE_SIDE, records
from lakestreams.joins.validity import TableSide

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakestreams.topology.expectations import Expectations
    from lakestreams.topology.nodes import Source

_RAW = ("topic", "partition", "offset", "attempt", "key", "value", "headers", "timestamp_ms", "timestamp_type",
        "event_time_ms", "stream_time_ms", "k", "v")  # fmt: skip
_FORMATS = "formats"


@dataclass(frozen=True)
class Snapshot:
    """Where a source's snapshot stands: as of the end of a cycle, with so many rows; cycle 0 is "none yet"."""

    cycle: int = 0
    rows: int = 0


def find(spark: SparkSession, ledger: Ledger, source: Source) -> Snapshot:
    """The snapshot that is there and fits the source's formats."""
    table = ledger.lake.snapshot(ledger.pipeline, source.topic)
    if not table.exists(spark):
        return Snapshot()
    found = table.read(spark).where(F.col(_FORMATS) == _formats(source)).agg(F.max("as_of_cycle"), F.count("*")).first()
    return Snapshot(found[0], found[1]) if found is not None and found[0] is not None else Snapshot()


def state(spark: SparkSession, ledger: Ledger, source: Source, snapshot: Snapshot) -> DataFrame | None:
    """The snapshot as a records frame, or None if there is none."""
    if not snapshot.cycle:
        return None
    kept = ledger.lake.snapshot(ledger.pipeline, source.topic).read(spark)
    return records(kept, source.topic, TABLE_SIDE, F.col("row_cycle"))


def side(
    spark: SparkSession,
    ledger: Ledger,
    source: Source,
    snapshot: Snapshot,
    plans: Sequence[Plan],
    expectations: Expectations,
) -> tuple[TableSide, int, int]:
    """What a table source brings into a cycle, about how many rows that is, and how many of them are changes.

    Args:
        spark: the session.
        ledger: of the pipeline.
        source: the table source.
        snapshot: where its snapshot stands.
        plans: the plans after the snapshot, ascending, the cycle's own last.
        expectations: of the topology; what they drop is not in the table.
    """
    since = [plan for plan in plans if plan.cycle > snapshot.cycle and plan.records(source.topic)]
    before = state(spark, ledger, source, snapshot)
    changes = None
    if since:
        rows = kept(planned_rows(spark, ledger, source, since), source, expectations).where(F.col("k").isNotNull())
        changes = records(rows, source.topic, TABLE_SIDE, row_cycle(source.topic, since))
    elif before is None:
        rows = planned_rows(spark, ledger, source, plans[-1:]).where(F.lit(False))
        changes = records(rows, source.topic, TABLE_SIDE, F.lit(0))
    changed = sum(plan.records(source.topic) for plan in since)
    return TableSide(before, changes), snapshot.rows + changed, changed


def due(source: Source, snapshot: Snapshot, plans: Sequence[Plan], every: int) -> bool:
    """Whether the tail behind a snapshot has grown enough to be worth folding in.

    Args:
        source: the table source.
        snapshot: where its snapshot stands.
        plans: the finished plans after it.
        every: the longest tail in cycles.
    """
    changed = [plan for plan in plans if plan.cycle > snapshot.cycle and plan.records(source.topic)]
    rows = sum(plan.records(source.topic) for plan in changed)
    return pace.source_due(len(changed), rows, snapshot.rows, every)


def refresh(
    spark: SparkSession,
    ledger: Ledger,
    source: Source,
    snapshot: Snapshot,
    plans: Sequence[Plan],
    expectations: Expectations,
) -> None:
    """Folds the tail into the snapshot, as of the last of the finished plans."""
    as_of = plans[-1].cycle
    since = [plan for plan in plans if plan.cycle > snapshot.cycle]
    table = ledger.lake.snapshot(ledger.pipeline, source.topic)
    tail = kept(planned_rows(spark, ledger, source, since), source, expectations).where(F.col("k").isNotNull())
    rows = tail.select(*_RAW, row_cycle(source.topic, since).alias("row_cycle"))
    if snapshot.cycle:
        rows = table.read(spark).select(*_RAW, "row_cycle").unionByName(rows)
    newest_first = Window.partitionBy("k").orderBy(
        *(F.desc(name) for name in ("row_cycle", "stream_time_ms", "partition", "offset", "attempt"))
    )
    live = (
        rows.withColumn("place", F.row_number().over(newest_first))
        .where((F.col("place") == 1) & F.col("v").isNotNull())
        .select(
            F.lit(as_of).cast("bigint").alias("as_of_cycle"),
            F.lit(_formats(source)).alias(_FORMATS),
            "row_cycle",
            *_RAW,
        )
    )
    failpoint("snapshot.before", source.topic)
    with translated(ledger.pipeline):
        table.overwrite(ledger.fence(spark, live))
    failpoint("snapshot.after", source.topic)


def _formats(source: Source) -> str:
    return f"{source.key.describe()} {source.value.describe()}"
