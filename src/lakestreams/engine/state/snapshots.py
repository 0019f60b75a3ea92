"""Snapshots: the live rows of a table source as of a finished cycle, so that state need not be read from the start.

A cache: deleted, it is rebuilt from bronze, and so it is where other formats read its rows, or other rules would drop
other ones. Behind a trim bronze still has every row that was there (decision 0015). Each row keeps raw bytes, headers,
coordinates and event time next to the typed columns, so that a later topology can read from it what this one did not.

One row more is no row of the table: it has no key, and says as of which cycle the others are, also where there are none.
It is in the same commit as they are, so no crash can part them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.engine.ledger.ledger import Ledger
from lakestreams.engine.ledger.plans import Plan
from lakestreams.engine.runtime.commits import holds
from lakestreams.engine.runtime.table import MARK, Table
from lakestreams.engine.state import policy
from lakestreams.engine.state.bronze import planned_rows, row_cycle
from lakestreams.engine.state.overwriting import overwrite_counted
from lakestreams.expectations.rules import kept
from lakestreams.operators.records import TABLE_SIDE, records
from lakestreams.operators.versions import TableSide
from lakestreams.sql import literal

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from lakestreams.topology.endpoints import Source
    from lakestreams.topology.expectations import Expectations

_RAW = ("topic", "partition", "offset", "attempt", "key", "value", "headers", "timestamp_ms", "timestamp_type",
        "event_time_ms", "stream_time_ms", "k", "v")  # fmt: skip
_FORMATS, _AS_OF, _ROW_CYCLE = "formats", "as_of_cycle", "row_cycle"


@dataclass(frozen=True)
class Snapshot:
    """Where a source's snapshot stands: as of the end of a cycle, with so many rows; cycle 0 is "none yet", or unfit."""

    cycle: int = 0
    rows: int = 0


def find(spark: SparkSession, ledger: Ledger, source: Source, expectations: Expectations) -> Snapshot:
    """The snapshot that is there, if it holds the rows that the source's formats and rules give.

    Args:
        source: the table source.
    """
    table = ledger.lake.snapshot(ledger.pipeline, source.topic)
    if not table.exists(spark):
        return Snapshot()
    cycle = _as_of(spark, table, F.col(_FORMATS) == _formats(source, expectations))
    if not cycle or not holds(spark, table, _mark(cycle)):
        return Snapshot()
    return Snapshot(cycle, table.read(spark).count() - 1)  # Delta's log knows, so no file is read


def forget(spark: SparkSession, ledger: Ledger, source: Source, expectations: Expectations | None) -> None:
    """Makes a snapshot unfit: bronze is trimmed by the formats and rules of now, so it goes no further with others.

    Args:
        expectations: those of now, whose snapshot stays; None: none stays.
    """
    table = ledger.lake.snapshot(ledger.pipeline, source.topic)
    if table.exists(spark):
        others = "" if expectations is None else f" AND {_FORMATS} <> {literal(_formats(source, expectations))}"
        table.delete(spark, f"{_ROW_CYCLE} IS NULL{others}")


def lacks_from(spark: SparkSession, ledger: Ledger, source: Source) -> int | None:
    """From which cycle on bronze has what a snapshot lacks, whatever that is good for; None: there is no snapshot.

    Where a key is deleted from there on, the deletion alone says that the snapshot's row is gone.
    """
    table = ledger.lake.snapshot(ledger.pipeline, source.topic)
    cycle = _as_of(spark, table, F.lit(True)) if table.exists(spark) else 0
    return cycle + 1 if cycle else None


def _as_of(spark: SparkSession, table: Table, where: Column) -> int:
    """As of which cycle a snapshot's rows are; 0: of none. Files of rows alone are skipped by their statistics."""
    itself = table.read(spark).where(F.col(_ROW_CYCLE).isNull() & where).agg(F.max(_AS_OF)).first()
    return int(itself[0] or 0) if itself is not None else 0


def state(spark: SparkSession, ledger: Ledger, source: Source, snapshot: Snapshot) -> DataFrame | None:
    """The snapshot as a records frame, or None if there is none."""
    if not snapshot.cycle:
        return None
    return records(_live(spark, ledger, source), source.topic, TABLE_SIDE, F.col(_ROW_CYCLE))


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
    return policy.source_due(len(changed), rows, snapshot.rows, every)


def refresh(
    spark: SparkSession,
    ledger: Ledger,
    source: Source,
    snapshot: Snapshot,
    plans: Sequence[Plan],
    expectations: Expectations,
) -> Snapshot:
    """Folds the tail into the snapshot, as of the last of the finished plans."""
    since = [plan for plan in plans if plan.cycle > snapshot.cycle and plan.records(source.topic)]
    table = ledger.lake.snapshot(ledger.pipeline, source.topic)
    later = kept(planned_rows(spark, ledger, source, since), source, expectations).where(F.col("k").isNotNull())
    rows = later.select(*_RAW, row_cycle(source.topic, since).alias(_ROW_CYCLE))
    if snapshot.cycle:
        rows = _live(spark, ledger, source).select(*_RAW, _ROW_CYCLE).unionByName(rows)
    newest_first = Window.partitionBy("k").orderBy(*(F.desc(name) for name in (_ROW_CYCLE, *order_within(source))))
    live = rows.withColumn("place", F.row_number().over(newest_first)).where("place = 1 and v is not null")
    as_of = F.lit(plans[-1].cycle).cast("bigint").alias(_AS_OF)
    formats = F.lit(_formats(source, expectations)).alias(_FORMATS)
    itself = spark.range(0, 1, 1, 1).select(as_of, formats)
    stored = live.select(as_of, formats, _ROW_CYCLE, *_RAW).unionByName(itself, allowMissingColumns=True)
    cycle = plans[-1].cycle
    ledger.failpoint("snapshot.before", source.topic)
    count = overwrite_counted(spark, ledger, table, stored, f"{cycle} snapshot {source.topic}", _mark(cycle))
    ledger.failpoint("snapshot.after", source.topic)
    return Snapshot(cycle, count - 1)


def order_within(source: Source) -> tuple[str, ...]:
    """By which columns of bronze a table's records of one cycle stand in their order (`inputs.first_of_all`)."""
    return (*(() if source.kind == "global_table" else ("stream_time_ms",)), "partition", "offset", "attempt")


def _mark(cycle: int) -> str:
    """What the commit carries that writes a snapshot: another one's content is not taken for it.

    Those without the number of the kind were written when trimming took deletions that they lacked: they are rebuilt.
    """
    return f"{MARK}snapshot 2 {cycle}"


def _live(spark: SparkSession, ledger: Ledger, source: Source) -> DataFrame:
    """The rows, without the one that says what they are as of."""
    return ledger.lake.snapshot(ledger.pipeline, source.topic).read(spark).where(F.col(_ROW_CYCLE).isNotNull())


def _formats(source: Source, expectations: Expectations) -> str:
    """All that decides which rows of bronze a snapshot has, and how they are read."""
    formats = f"{source.key.describe()} {source.value.describe()}"
    dropping = sorted(rule.id for rule in expectations.rules_of(source.name) if rule.action == "drop")
    return f"{formats}, dropped by {', '.join(dropping)}" if dropping else formats
