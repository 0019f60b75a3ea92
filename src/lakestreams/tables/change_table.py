"""Change tables: what one stateful step tells the next, as rows that can be appended and read again.

A table that a join or an aggregation makes, and that another one reads, is written as its changes: the bronze of the
next step (DESIGN section 2). Its columns:
    key struct              the row's key
    old, new struct|null    the value before and after; null is absent
    ts_ms bigint            the change's time
    seen_ts_ms bigint|null  the time that a lookup into the table sees, where it is another one (joins of tables)
    _lineage struct         cycle, trigger, n, kind, contributors (see `joins.order`)

The order is in the lineage; `(trigger, n)` of a cycle is unique. What the table held before a cycle is the newest change
of each key among the cycles before (`rows_before`): a merged table is a projection of its changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.joins.order import (
    CONTRIBUTORS,
    KEY,
    KIND,
    OLD,
    ORDER,
    PLACE,
    RECORD_COLUMNS,
    TIME,
    TRIGGER_FIELDS,
    VALUE,
    lineage,
)
from lakestreams.joins.table_table import SEEN_TIME

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

KEY_COLUMN, OLD_COLUMN, NEW_COLUMN, TIME_COLUMN, SEEN_COLUMN = "key", "old", "new", "ts_ms", "seen_ts_ms"
LINEAGE = "_lineage"
CHANGE_COLUMNS = (KEY_COLUMN, OLD_COLUMN, NEW_COLUMN, TIME_COLUMN, SEEN_COLUMN, LINEAGE)


def written(rows: DataFrame) -> DataFrame:
    """A table's changes as a change table holds them.

    Args:
        rows: a records frame of a table with `old`, and `seen_ts` where its times need it.
    """
    seen = F.col(SEEN_TIME) if SEEN_TIME in rows.columns else F.lit(None).cast("bigint")
    return rows.select(
        F.col(KEY).alias(KEY_COLUMN),
        F.col(OLD).alias(OLD_COLUMN),
        F.col(VALUE).alias(NEW_COLUMN),
        F.col(TIME).alias(TIME_COLUMN),
        seen.alias(SEEN_COLUMN),
        lineage().alias(LINEAGE),
    )


def read(changes: DataFrame) -> DataFrame:
    """The same changes as a records frame with `old` and `seen_ts`."""
    columns = {
        KEY: F.col(KEY_COLUMN), VALUE: F.col(NEW_COLUMN), TIME: F.col(TIME_COLUMN), ORDER: _order(),
        PLACE: F.col(LINEAGE)["n"], KIND: F.col(LINEAGE)["kind"], CONTRIBUTORS: F.col(LINEAGE)["contributors"],
    }  # fmt: skip
    seen = F.coalesce(SEEN_COLUMN, TIME_COLUMN).alias(SEEN_TIME)
    return changes.select(*(columns[name].alias(name) for name in RECORD_COLUMNS), F.col(OLD_COLUMN).alias(OLD), seen)


def rows_before(changes: DataFrame, cycle: int) -> DataFrame:
    """What the table held before a cycle, as a records frame: one row a key, none of a key that was deleted.

    One exchange and one sort of the changes of earlier cycles.
    """
    earlier = changes.where(F.col(LINEAGE)["cycle"] < cycle)
    in_order = Window.partitionBy(KEY_COLUMN).orderBy(_order(), F.col(LINEAGE)["n"])
    newest = earlier.withColumn("following", F.lead(F.lit(1)).over(in_order)).where(F.col("following").isNull())
    return read(newest.where(F.col(NEW_COLUMN).isNotNull()).drop("following")).drop(OLD)


def _order() -> Column:
    cycle, trigger = F.col(LINEAGE)["cycle"].alias("cycle"), F.col(LINEAGE)["trigger"]
    return F.struct(cycle, *(trigger[name].alias(name) for name in TRIGGER_FIELDS))
