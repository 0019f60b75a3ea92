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

Plan: both sides are exchanged once by a hash of (key, time bin), so that a key with many records is spread over its
bins and a record meets only the bins that its window touches (the right side is doubled where it touches two). One
number is what they are sorted by; one further sort gives the pairs their places. Each outer side is joined once more for
the rows that pair with nothing; these and the records' clocks are exchanged once by task and sorted twice. Clocks of
sources under `strict` come from one row a task and cycle, broadcast; all others from an exchange and a sort by task
(`clocks`). Exchanges and sorts, those of the few rows of clocks among them: `strict` on window close inner 4 and 5, left 8
and 10, outer 10 and 14; `kafka` 4 and 5, 10 and 13, 15 and 19. No past record is exchanged unless its
key comes up or its window may close, where the caller says that the new ones are `few`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.operators.clocks import BEHIND, REACHED, with_clocks
from lakestreams.operators.records import (
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
    renumber,
)
from lakestreams.operators.stream_stream import unmatched
from lakestreams.operators.windows import (
    ARM,
    AT,
    BY_LEFT,
    CLOCK,
    CLOCKS,
    CLOSED,
    HASH,
    LEFT,
    LEFT_TIME,
    LEFT_VALUE,
    PART,
    RIGHT,
    RIGHT_TIME,
    Windowed,
    arms,
    bins,
    by_arm,
    close,
    contributors,
    pairs,
    steps,
    taking_part,
)

if TYPE_CHECKING:
    from pyspark.sql import Column

# A record on the doubled side can have pairs in two bins: those of the second are numbered from here on.
_SECOND_BIN = 1 << 24


def clocked(
    left: DataFrame,
    right: DataFrame,
    join: Windowed,
    since: int = 0,
    hold: Callable[[DataFrame], DataFrame] | None = None,
) -> DataFrame:
    """Both sides as one frame with their clocks: what the other functions work on, made once for all of them.

    Args:
        left, right: as `execute` is given them.
        since: the first new cycle.
        hold: keeps a small frame that is read often.

    Returns:
        Arms (see `windows`) with their clocks.
    """
    return with_clocks(arms(left, right, join), join, since, hold)


def retain(
    left: DataFrame, right: DataFrame, join: Windowed, both: DataFrame | None = None
) -> tuple[DataFrame, DataFrame]:
    """What of the past may still matter: records in window and grace, and per task those that carry its clocks.

    Args:
        left, right: all that `execute` was given.
        both: what `clocked` has made of them.

    Returns:
        Left and right records frames with `task` and the clocks' columns.
    """
    both = clocked(left, right, join) if both is None else both
    last, carries, horizon = _last_ascending(both) if join.ascending else _last_of_all(both, join)
    kept = both.join(F.broadcast(last), F.col(TASK) == F.col("last_task")).where(
        carries | (F.col(PART) & (F.col(TIME) >= horizon - _reach(join)))
    )

    def side(arm: int, value: str, key: Column) -> DataFrame:
        columns = [F.col(name) for name in (TIME, ORDER, PLACE, KIND, CONTRIBUTORS, TASK, *CLOCKS)]
        return kept.where(F.col(ARM) == arm).select(key.alias(KEY), F.col(value).alias(VALUE), *columns)

    right_key = F.col(KEY).cast(right.schema[KEY].dataType)
    return side(LEFT, LEFT_VALUE, F.col(KEY)), side(RIGHT, RIGHT_VALUE, right_key)


def execute(
    left: DataFrame,
    right: DataFrame,
    join: Windowed,
    since: int,
    *,
    few: bool = False,
    both: DataFrame | None = None,
) -> DataFrame:
    """The rows that new records trigger.

    Args:
        left, right: records frames with `task`, the past that `retain` kept and what is new; null keys and values
            among them, since they move the clock. `moves` where a row moves the clock further than to its own time;
            the clocks (`windows.CLOCKS`) where they are known.
        since: the first new cycle.
        few: whether the new rows are few beside the past: then their keys are broadcast, and the past is left where it
            is but for these keys and those of the windows that close.
        both: what `clocked` has made of left and right.

    Returns:
        Records columns with the left value in `v`, the right key and value in `rk` and `rv`; a missing side is null.
    """
    both = clocked(left, right, join, since) if both is None else both
    rows = taking_part(both, join)
    if few:
        rows = unmatched.touched(rows, join, since)
    parts = [_numbered(pairs(rows, join).where(F.col(AT)[ORDER]["cycle"] >= since), join)]
    if join.outer_arms:
        parts.append(unmatched.rows(both, rows, join, since))
    found = reduce(DataFrame.unionByName, parts)
    if join.plural or join.overlap != "none":
        # one input row after the other, what its time closes before its own
        found = renumber(found, F.col(AT), F.col("own"), F.col(PLACE))
    rk = F.when(F.col(RIGHT_VALUE).isNotNull(), F.col(KEY).cast(right.schema[KEY].dataType))
    return found.withColumns({VALUE: F.col(LEFT_VALUE), RIGHT_KEY: rk}).select(
        *RECORD_COLUMNS, RIGHT_KEY, F.col("rv").alias(RIGHT_VALUE)
    )


def late(left: DataFrame, right: DataFrame, join: Windowed, since: int, both: DataFrame | None = None) -> DataFrame:
    """The new records that come too late under the rules `strict`: `arm, o, n, ts, contributors, clock, closed`.

    `closed` is when their window closed, ms. `both` is what `clocked` has made of left and right.
    """
    both = clocked(left, right, join, since) if both is None else both
    return both.where(is_new(since) & F.col(PART) & (close(join) < F.col(CLOCK))).select(
        ARM, ORDER, PLACE, TIME, CONTRIBUTORS, CLOCK, close(join).alias(CLOSED)
    )


def explain(join: Windowed) -> str:
    """The plan in words, for `check --explain`."""
    outer = "; unmatched rows and clocks exchanged and sorted once by task" if join.outer_arms else ""
    return (
        f"stream-stream {join.how} join, {join.before} ms before to {join.after} ms after, grace {join.grace} ms, "
        f"rules {join.rules}: both sides exchanged once by key and time bin, pairs sorted once{outer}"
    )


def _last_ascending(both: DataFrame) -> tuple[DataFrame, Column, Column]:
    """The last record of each task, where clocks ascend: it stands at the clock that its task has reached.

    Returns:
        A row a task (`last_task`); beside it, whether a record carries its task's clocks, and from where the task is open.
    """
    at_the_end = both.where(F.col(CLOCK) == F.col(REACHED))  # few, so that no batch is sorted to find one
    last = at_the_end.groupBy(F.col(TASK).alias("last_task")).agg(F.max(AT).alias("last_at"))
    return last, F.col(AT) == F.col("last_at"), F.col(BEHIND)


def _last_of_all(both: DataFrame, join: Windowed) -> tuple[DataFrame, Column, Column]:
    """The same for any clocks: the last record of each task, and the last one that can close windows."""
    at = F.when(steps(join), F.col(AT))
    stepped, own = F.max(F.when(steps(join), F.col(CLOCK))), [F.max(LEFT_TIME), F.max(RIGHT_TIME)]
    last = both.groupBy(F.col(TASK).alias("last_task")).agg(
        F.max(AT).alias("last_at"), F.max(at).alias("last_step"), F.max(CLOCK).alias("last_clock"),
        stepped.alias("last_stepped"), own[LEFT].alias("last_left"), own[RIGHT].alias("last_right"),
    )  # fmt: skip
    carries = (F.col(AT) == F.col("last_at")) | F.coalesce(F.col(AT) == F.col("last_step"), F.lit(False))
    horizon = F.col("last_clock")
    if join.rules == "kafka":
        side_time = by_arm(lambda arm: F.col("last_left" if arm == LEFT else "last_right"))
        horizon = F.least(F.coalesce(F.col("last_stepped"), F.lit(0)), F.coalesce(side_time, F.lit(0)))
    elif join.realm > 1:
        # a partner may lie in a task whose clock is ahead: what a record has paired with stays as long as the record
        realm = Window.partitionBy(F.floor(F.col("last_task") / join.realm))
        last = last.withColumn("furthest_behind", F.min("last_clock").over(realm))
        horizon = F.col("furthest_behind")
    return last, carries, horizon


def _reach(join: Windowed) -> Column:
    """How far behind the clock a record may still matter, ms."""
    times = join.times()
    if join.rules == "kafka":
        return (F.abs(times.before) + F.abs(times.after) + times.grace) * 2
    # a record is open until after + grace (or before + grace) past it; its partners lie up to the window's size before
    # it; one of the two bounds may be negative
    return F.greatest(times.before + times.after, times.before, times.after) + times.grace


def _numbered(found: DataFrame, join: Windowed) -> DataFrame:
    """Pairs as rows, with their places among those of their trigger."""
    by_left = F.col(BY_LEFT)
    first, _, width = bins(join, "r_")
    further = ((F.col("r_bin") - first) / width).cast("int") * _SECOND_BIN
    # only what the rows need goes through the sort
    narrow = found.select(
        F.col("l_k").alias(KEY),
        F.col("l_lv").alias(LEFT_VALUE),
        F.col("r_rv").alias(RIGHT_VALUE),
        F.greatest("l_ts", "r_ts").alias(TIME),
        F.concat(contributors("l_"), contributors("r_")).alias(CONTRIBUTORS),
        F.col(AT),
        F.when(by_left, F.lit(0)).otherwise(further).alias("from"),
        F.col("l_h").alias(HASH),
        F.when(by_left, F.col("r_ts")).otherwise(F.col("l_ts")).alias("partner_ts"),
        F.when(by_left, F.col("r_at")).otherwise(F.col("l_at")).alias("partner_at"),
    )
    place = F.row_number().over(Window.partitionBy(HASH, AT).orderBy("partner_ts", "partner_at")) - 1
    return narrow.select(
        KEY,
        LEFT_VALUE,
        RIGHT_VALUE,
        TIME,
        F.col(AT)[ORDER].alias(ORDER),
        (place + F.col("from")).alias(PLACE),
        F.lit(MATCHED).alias(KIND),
        CONTRIBUTORS,
        AT,
        F.lit(1).alias("own"),
    )
