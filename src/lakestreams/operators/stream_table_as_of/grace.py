"""Points that wait under grace: what lets each one out (KIP-923; semantics 4.1).

With grace g the points of a task wait: a point moves the task's buffer time to its ts if that is greater, and each point
with ts <= buffer time - g comes out, itself included, by (ts, key bytes, arrival). So its trigger is the first point,
from itself on, with which the buffer time reaches ts + g. A point that comes too late for that is joined at once, alone.

Kafka fails at a null key under grace. Here such a point of a left join comes out at once, unmatched. It does not wait,
and does not move the buffer time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812

from lakestreams.operators.records import KEY, ORDER, PLACE, TASK, TIME, is_tick
from lakestreams.operators.versioned_table.frames import milliseconds

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

TRIGGER: Final = "trigger"
_BUFFER_TIME, _MOVES, _NEEDS, _STAYS = "_buffer_time", "_moves", "_needs", "_stays"


def retain(points: DataFrame, grace_ms: int | Column) -> DataFrame:
    """The points that still matter under grace: those that wait, and one a task with the greatest ts (buffer time)."""
    newest = Window.partitionBy(TASK).orderBy(~keeps_time(), F.col(TIME).desc(), ORDER, PLACE)
    buffer_time = F.first(F.when(keeps_time(), F.col(TIME))).over(newest)
    carries = keeps_time() & (F.row_number().over(newest) == 1)
    waits = F.col(KEY).isNotNull() & (F.col(TIME) + milliseconds(grace_ms) > buffer_time)
    return points.withColumn(_STAYS, waits | carries).where(_STAYS).select(*points.columns)


def with_triggers(points: DataFrame, grace_ms: int | Column) -> DataFrame:
    """Points with `trigger` struct<o, n>: the first point with which the buffer time reaches ts + grace; null: waiting."""
    at = F.struct(ORDER, PLACE)
    before = Window.partitionBy(TASK).orderBy(ORDER, PLACE).rowsBetween(Window.unboundedPreceding, -1)
    waits_for = F.col(TIME) + milliseconds(grace_ms)
    timed = points.withColumn(_BUFFER_TIME, F.max(F.when(keeps_time(), F.col(TIME))).over(before))
    at_once = F.col(KEY).isNull() | (F.greatest(_BUFFER_TIME, TIME) >= waits_for)
    moves = keeps_time() & (F.col(_BUFFER_TIME).isNull() | (F.col(TIME) > F.col(_BUFFER_TIME)))
    # Each point once where it waits and, if it moves the buffer time, once more where it moves it to.
    doubled = timed.withColumn(
        _MOVES, F.explode(F.when(moves, F.array(F.lit(True), F.lit(False))).otherwise(F.array(F.lit(False))))
    )
    doubled = doubled.withColumn(_NEEDS, F.when(F.col(_MOVES), F.col(TIME)).otherwise(waits_for))
    from_above = (
        Window.partitionBy(TASK)
        .orderBy(F.col(_NEEDS).desc(), F.col(_MOVES).desc())
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    reaches = F.last(F.when(F.col(_MOVES), at), ignorenulls=True).over(from_above)
    triggered = doubled.withColumn(TRIGGER, F.when(at_once, at).otherwise(reaches))
    return triggered.where(~F.col(_MOVES)).select(*points.columns, TRIGGER)


def keeps_time() -> Column:
    """The points that move the buffer time: those with a key, and ticks."""
    return F.col(KEY).isNotNull() | is_tick()
