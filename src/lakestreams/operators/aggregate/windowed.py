"""Records in time windows: which ones each lies in, and which it comes too late for.

The law (Kafka Streams' TimeWindows and KStreamWindowAggregate; semantics section 7): a window `[start, start + size)`
starts at a multiple of `advance`, 0 or later; a record is counted in each window that holds its time, unless the window
has closed: the task's clock, the record itself included, has reached `end + grace`. The clock is the task's own
(`clocks`).

Plan: an explode where windows overlap; clocks of sources come from one row a task and cycle, broadcast, clocks of rows
that a join made from one exchange and one sort by task.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.operators.clocks import BEHIND, tallied
from lakestreams.operators.records import KEY, ORDER, PLACE, TASK, TIME, renumber
from lakestreams.operators.versions import key_type
from lakestreams.operators.windows import CLOCK, HORIZON, MOVES
from lakestreams.topology.kinds import WINDOW_COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from lakestreams.topology.kinds import TimeWindows

CLOCK_COLUMNS = (TASK, ORDER, CLOCK)
_START, _POS = "w_start", "w_pos"


def with_clock(rows: DataFrame, clocks: DataFrame | None, since: int, *, ascending: bool) -> DataFrame:
    """New records with the `clock` that each meets.

    Args:
        rows: a records frame with `task` and `moves`, what a row moves its task's clock to.
        clocks: the clocks of the past, as `last_clocks` left them; or None.
        ascending: whether every row moves its task's clock to its own stream time (see `operators.clocks`).
    """
    rows = rows.withColumn(CLOCK, F.lit(None).cast("bigint"))
    if clocks is not None:
        past = clocks.withColumn(MOVES, F.col(CLOCK))
        rows = rows.unionByName(past, allowMissingColumns=True)
    if ascending:
        found = tallied(rows.withColumn(HORIZON, F.col(CLOCK)), 1, since).drop(HORIZON, BEHIND)
    else:
        so_far = Window.partitionBy(TASK).orderBy(ORDER, PLACE).rowsBetween(Window.unboundedPreceding, 0)
        found = rows.withColumn(CLOCK, F.max(MOVES).over(so_far))
    return found.where(F.col(ORDER)["cycle"] >= since)


def last_clocks(clocked: DataFrame, clocks: DataFrame | None) -> DataFrame:
    """Where the clock of each task stands after what `with_clock` gave: `task, o, clock`, one row a task."""
    known = clocked.select(*CLOCK_COLUMNS)
    if clocks is not None:
        known = known.unionByName(clocks)
    return known.groupBy(TASK).agg(F.max(ORDER).alias(ORDER), F.max(CLOCK).alias(CLOCK)).select(*CLOCK_COLUMNS)


def assigned(rows: DataFrame, windows: TimeWindows, *, multi_row: bool = False) -> DataFrame:
    """Each record once a window that holds its time, the window's bounds in its key.

    Args:
        rows: a records frame; times are 0 or later.
        multi_row: whether a trigger may have several records: where windows overlap, they are then numbered again.
    """
    many = -(-windows.size_ms // windows.advance_ms)
    if many == 1:
        found = rows.withColumns({_START: _first(windows), _POS: F.lit(0)})
    else:
        starts = F.sequence(_first(windows), _aligned(F.col(TIME), windows), F.lit(windows.advance_ms).cast("bigint"))
        found = rows.select("*", F.posexplode(starts).alias(_POS, _START))
    start, end = F.col(_START), F.col(_START) + windows.size_ms
    bounds = (bound.cast("bigint").alias(name) for name, bound in zip(WINDOW_COLUMNS, (start, end), strict=True))
    key = F.struct(*(F.col(KEY)[name].alias(name) for name in key_type(rows).names), *bounds)
    found = found.withColumn(KEY, key)
    placed = (
        renumber(found, F.col(PLACE), F.col(_POS))
        if multi_row and many > 1
        else found.withColumn(PLACE, F.col(PLACE) + F.col(_POS))
    )
    return placed.drop(_START, _POS)


def is_open(windows: TimeWindows) -> Column:
    """Of assigned rows with a clock: whether the window takes the record."""
    return F.col(KEY)[WINDOW_COLUMNS[1]] + windows.grace_ms > F.col(CLOCK)


def open_groups(groups: DataFrame, clocks: DataFrame, windows: TimeWindows, tasks: int) -> DataFrame:
    """The groups whose windows may still take a record.

    A group with a `task` goes by that task's clock. Without one its key may come up in any task, so the slowest decides,
    and a task that has seen no record yet takes any.

    Args:
        groups: a groups frame with windows in its key, perhaps with `task`.
        clocks: where the clocks stand (`last_clocks`).
        tasks: how many there are; clocks of others were moved by time alone, and no record comes there.
    """
    closes = F.col(KEY)[WINDOW_COLUMNS[1]] + windows.grace_ms
    if TASK in groups.columns:
        own = F.broadcast(clocks.select(F.col(TASK).alias("of_task"), F.col(CLOCK).alias("stands")))
        known = groups.join(own, F.col(TASK) == F.col("of_task"), "left")
        return known.where(F.col("stands").isNull() | (closes > F.col("stands"))).drop("of_task", "stands", TASK)
    slowest = clocks.where(F.col(TASK) < tasks).groupBy().agg(F.min(CLOCK).alias("slowest"), F.count("*").alias("seen"))
    still = (F.col("seen") < tasks) | (closes > F.col("slowest"))
    return groups.crossJoin(F.broadcast(slowest)).where(still).drop("slowest", "seen")


def _aligned(time: Column, windows: TimeWindows) -> Column:
    return time - F.pmod(time, F.lit(windows.advance_ms).cast("bigint"))


def _first(windows: TimeWindows) -> Column:
    """The first start of a window that holds a record's time: after `time - size`, 0 or later."""
    earliest = F.greatest(F.col(TIME) - windows.size_ms + windows.advance_ms, F.lit(0).cast("bigint"))
    return _aligned(earliest, windows)
