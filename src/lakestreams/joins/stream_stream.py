"""Windowed stream-stream join, inner, left and outer: pairs of records of one key whose times lie close together.

The law: `l` and `r` pair iff their keys are equal and `l.ts - before <= r.ts <= l.ts + after`; the later of the two in
the order triggers the pair, whose time is the greater of both. What the rules add (semantics 3.7; C is the task's
clock, the running maximum of ts over every record of either side, null ones too):

`strict`: a window closes when C passes `close` (left: ts + after + grace, right: ts + before + grace). A record whose
window is closed when it arrives is late and takes no part. A pair needs both windows open at its trigger. An unmatched
record of an outer side comes out at the first record that moves C past its close: one fate a record.
`kafka`: Kafka Streams' KStreamKStreamJoin, without the bookkeeping of its flushes: what a record sees is bounded by
the other side's own time, its window is clipped at 0, out-of-order records without a partner come out at once, held
ones at the first record in order past their close, if no pair came before.
`eager` (either rules): a record of an outer side without a partner comes out at once, and may pair later all the same.

A record with a null key of an outer side comes out at once, unmatched; any other record with a null key or value only
moves the clock. Rows of one trigger: those whose window it closes, by (ts, right before left, key, order), in places
below 0; then its pairs by the partner's (ts, order), from 0 on, ascending but not always without gaps.

Plan: both sides are exchanged once by (key, time bin), so that a key with many records is spread over its bins and a
record meets only the bins that its window touches (the right side is doubled where it touches two). One sort gives
the pairs their places. Outer sides: the rows that pair with nothing (an anti join over the same exchanges) and the
records' clocks are exchanged and sorted once by task. Clocks that the caller does not bring: one more exchange and sort
by task before all that.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.joins import unmatched
from lakestreams.joins.order import (
    CONTRIBUTORS,
    KEY,
    KIND,
    MATCHED,
    ORDER,
    PLACE,
    RECORD_COLUMNS,
    RIGHT_KEY,
    RIGHT_VALUE,
    TASK,
    TIME,
    VALUE,
    is_new,
    key_types_differ,
    renumber,
)
from lakestreams.joins.windows import (
    ARM,
    AT,
    BY_LEFT,
    CLOCK,
    CLOCKS,
    LEFT,
    LEFT_TIME,
    LEFT_VALUE,
    PART,
    RIGHT,
    RIGHT_TIME,
    Windowed,
    arms,
    close,
    pairs,
    steps,
)

if TYPE_CHECKING:
    from pyspark.sql import Column

# A record on the doubled side can have pairs in two bins: those of the second are numbered from here on.
_SECOND_BIN = 1 << 24


def validate(left_key: Sequence[str], right_key: Sequence[str]) -> str | None:
    """Whether keys of these types can be equal.

    Args:
        left_key, right_key: the SQL types of the key's columns, in order.

    Returns:
        What is wrong, or None.
    """
    return key_types_differ(left_key, right_key)


def retain(left: DataFrame, right: DataFrame, join: Windowed) -> tuple[DataFrame, DataFrame]:
    """What of the past may still matter: records in window and grace, and per task those that carry its clocks.

    Args:
        left, right: all that `execute` was given.
        join: the options.

    Returns:
        Left and right records frames with `task` and the clocks' columns.
    """
    both = arms(left, right, join)
    task = Window.partitionBy(TASK)
    step = F.when(steps(join), F.col(AT))
    carries = (F.col(AT) == F.max(AT).over(task)) | F.coalesce(F.col(AT) == F.max(step).over(task), F.lit(False))
    times = join.times()
    # a record is open until after + grace (or before + grace) past it; its partners lie up to the window's size before
    # it; one of the two bounds may be negative
    furthest = F.greatest(times.before + times.after, times.before, times.after)
    horizon, reach = F.max(CLOCK).over(task), furthest + times.grace
    if join.rules == "kafka":
        stepped = F.coalesce(F.max(F.when(steps(join), F.col(CLOCK))).over(task), F.lit(0))
        own = F.when(F.col(ARM) == LEFT, F.max(LEFT_TIME).over(task)).otherwise(F.max(RIGHT_TIME).over(task))
        horizon = F.least(stepped, F.coalesce(own, F.lit(0)))
        reach = (F.abs(times.before) + F.abs(times.after) + times.grace) * 2
    elif join.realm > 1:
        # a partner may lie in a task whose clock is ahead: what a record has paired with stays as long as the record
        both = both.withColumn("behind", F.max(CLOCK).over(task))
        horizon = F.min("behind").over(Window.partitionBy(F.floor(F.col(TASK) / join.realm)))
    kept = both.withColumn("keep", carries | (F.col(PART) & (F.col(TIME) >= horizon - reach))).where("keep")

    def side(arm: int, value: str, key: Column) -> DataFrame:
        columns = [F.col(name) for name in (TIME, ORDER, PLACE, KIND, CONTRIBUTORS, TASK, *CLOCKS)]
        return kept.where(F.col(ARM) == arm).select(key.alias(KEY), F.col(value).alias(VALUE), *columns)

    right_key = F.col(KEY).cast(right.schema[KEY].dataType)
    return side(LEFT, LEFT_VALUE, F.col(KEY)), side(RIGHT, RIGHT_VALUE, right_key)


def execute(left: DataFrame, right: DataFrame, join: Windowed, since: int) -> DataFrame:
    """The rows that new records trigger.

    Args:
        left, right: records frames with `task`, the past that `retain` kept and what is new; null keys and values
            among them, since they move the clock. `moves` where a row moves the clock further than to its own time; the clocks (`windows.CLOCKS`) where known.
        join: the options.
        since: the first new cycle.

    Returns:
        Records columns with the left value in `v`, the right key and value in `rk` and `rv`; a missing side is null.
    """
    both = arms(left, right, join)
    parts = [_numbered(pairs(both, join).where(F.col(AT)[ORDER]["cycle"] >= since))]
    if join.outer_arms:
        parts.append(unmatched.rows(both, join, since))
    found = reduce(DataFrame.unionByName, parts)
    if join.plural or join.overlap != "none":
        # rows that a record's window closes come first, then each arm's own, then within one input row
        found = renumber(found, F.col("own"), F.col(AT)["rank"], F.col(AT)[PLACE], F.col(PLACE))
    rk = F.when(F.col(RIGHT_VALUE).isNotNull(), F.col(KEY).cast(right.schema[KEY].dataType))
    return found.withColumns({VALUE: F.col(LEFT_VALUE), RIGHT_KEY: rk}).select(
        *RECORD_COLUMNS, RIGHT_KEY, F.col("rv").alias(RIGHT_VALUE)
    )


def late(left: DataFrame, right: DataFrame, join: Windowed, since: int) -> DataFrame:
    """The new records that come too late under the rules `strict`: columns `arm, o, n, ts, clock`."""
    both = arms(left, right, join)
    return both.where(is_new(since) & F.col(PART) & (close(join) < F.col(CLOCK))).select(ARM, ORDER, PLACE, TIME, CLOCK)


def explain(join: Windowed) -> str:
    """The plan in words, for `check --explain`."""
    outer = "; unmatched rows and clocks exchanged and sorted once by task" if join.outer_arms else ""
    return (
        f"stream-stream {join.how} join, {join.before} ms before to {join.after} ms after, grace {join.grace} ms, "
        f"rules {join.rules}: both sides exchanged once by key and time bin, pairs sorted once{outer}"
    )


def _numbered(found: DataFrame) -> DataFrame:
    """Pairs as rows, with their places among those of their trigger."""
    by_left = F.col(BY_LEFT)
    partner = (
        F.when(by_left, F.col("r_ts")).otherwise(F.col("l_ts")),
        F.when(by_left, F.col("r_at")).otherwise(F.col("l_at")),
    )
    place = F.row_number().over(Window.partitionBy("l_k", "l_bin", AT).orderBy(*partner)) - 1
    further = ((F.col("r_bin") - F.col("r_first")) / F.col("r_width")).cast("int") * _SECOND_BIN
    return found.select(
        F.col("l_k").alias(KEY),
        F.col("l_lv").alias(LEFT_VALUE),
        F.col("r_rv").alias("rv"),
        F.greatest("l_ts", "r_ts").alias(TIME),
        F.col(AT)[ORDER].alias(ORDER),
        (place + F.when(by_left, F.lit(0)).otherwise(further)).alias(PLACE),
        F.lit(MATCHED).alias(KIND),
        F.concat(f"l_{CONTRIBUTORS}", f"r_{CONTRIBUTORS}").alias(CONTRIBUTORS),
        F.col(AT),
        F.lit(1).alias("own"),
    )
