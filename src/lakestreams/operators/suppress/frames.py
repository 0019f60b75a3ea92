"""Suppression over frames: what its kernel gets, and what becomes of its waits.

All rows of a task go to one Python worker: few rows all to one, without an exchange, many by task after one exchange.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import LongType, StructField, StructType

from lakestreams.operators.balance import evenly
from lakestreams.operators.records import (
    KEY,
    ORDER,
    PLACE,
    RECORD_COLUMNS,
    TASK,
    TIME,
    VALUE,
    is_new,
    renumber,
)
from lakestreams.operators.suppress import worker
from lakestreams.operators.suppress.kernel import Hold
from lakestreams.operators.suppress.worker import FIRST, LAST, SINCE, STEP, STOOD, TRIGGER
from lakestreams.operators.versions import byte_order, key_type
from lakestreams.operators.windows import CLOCK
from lakestreams.operators.workers import in_workers
from lakestreams.topology.kinds import WINDOW_COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BUFFER_COLUMNS = (*LAST, SINCE)


def execute(waits: DataFrame, hold: Hold, since: int) -> DataFrame:
    """The updates that new ones let out, as records: `o` is the order of the one that did.

    Args:
        waits: as `waits_of` gives them.
    """
    out = waits.where(F.col(TRIGGER).isNotNull())
    if hold.is_final:
        out = out.where(F.col(VALUE).isNotNull())
    out = out.withColumn(ORDER, F.col(TRIGGER)[ORDER]).where(is_new(since))
    by = (F.col(TRIGGER)[PLACE], F.col(SINCE), *byte_order(F.col(KEY), key_type(out)), F.col(FIRST))
    return renumber(out, *by).select(*RECORD_COLUMNS)


def retain(waits: DataFrame) -> DataFrame:
    """What still waits: `BUFFER_COLUMNS`, one row a key."""
    return waits.where(F.col(TRIGGER).isNull()).select(*BUFFER_COLUMNS)


def last_clocks(updates: DataFrame, clocks: DataFrame | None) -> DataFrame:
    """Where the clock of each task stands after these updates: `task, clock`."""
    seen = updates.select(TASK, F.col(TIME).alias(CLOCK))
    return (seen if clocks is None else seen.unionByName(clocks)).groupBy(TASK).agg(F.max(CLOCK).alias(CLOCK))


def explain(hold: Hold) -> str:
    """The plan in words, for `check --explain`."""
    until = "its window closes" if hold.is_final else f"{hold.until_ms} ms have passed"
    bound = "" if hold.max_records is None else f", at most {hold.max_records} keys a task, then {hold.when_full}"
    return f"suppress: an update waits until {until}{bound}; a task's updates go to one Python worker"


def waits_of(
    updates: DataFrame, buffered: DataFrame | None, clocks: DataFrame | None, hold: Hold, *, shares: int = 1
) -> DataFrame:
    """One row a wait: its last update, the time and place of its first one, and `trigger`, the place that ends it.

    Args:
        updates: new rows of the table: a records frame with `task`.
        buffered: what waits from before (`retain`), or None.
        clocks: where the tasks' clocks stood: `task, clock` (`last_clocks`), or None.
        shares: how many workers the rows need.
    """
    begins = F.col(KEY)[WINDOW_COLUMNS[1]] if hold.is_final else F.col(TIME)
    rows = updates.select(*LAST, begins.cast("bigint").alias(SINCE), F.lit(True).alias(STEP))
    if buffered is not None:
        rows = rows.unionByName(buffered.withColumn(STEP, F.lit(False)))
    if clocks is None:
        rows = rows.withColumn(STOOD, F.lit(None).cast("bigint"))
    else:
        stood = F.broadcast(clocks.select(F.col(TASK).alias("of_task"), F.col(CLOCK).alias(STOOD)))
        rows = rows.join(stood, F.col(TASK) == F.col("of_task"), "left").drop("of_task")
    by = evenly(F.col(TASK), shares) if shares > 1 else None
    at = StructType([rows.schema[ORDER], rows.schema[PLACE]])
    told = [StructField(SINCE, LongType()), StructField(FIRST, at), StructField(TRIGGER, at)]
    given = [StructField(name, rows.schema[name].dataType) for name in LAST]
    return in_workers(rows, partial(worker.waits, hold), StructType([*given, *told]), by, shares)
