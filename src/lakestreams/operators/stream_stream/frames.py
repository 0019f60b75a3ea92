"""Windowed stream-stream join over frames: what its kernel gets, and what becomes of its results.

Rows go to Python workers in one of three ways, whichever keeps what is equal together and a worker's share small:

- few rows: all to one worker, without an exchange;
- many, where equal keys share a task, as they do where all lie at home (`operators/homes`): by task, after one exchange;
- many, where they may not: by key, with the clocks of their tasks next to them, and then what waits by task.

Who is late and what is retained are filters on clocks and stay where the rows are.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.operators.balance import by_task
from lakestreams.operators.clocks import BEHIND, CARRIED, NEWEST, REACHED, with_clocks
from lakestreams.operators.homes import groups_in_words
from lakestreams.operators.records import (
    CONTRIBUTORS,
    KEY,
    KIND,
    ORDER,
    PLACE,
    RIGHT_VALUE,
    TASK,
    TIME,
    VALUE,
    is_new,
    is_tick,
)
from lakestreams.operators.stream_stream import worker
from lakestreams.operators.stream_stream.worker import TICK
from lakestreams.operators.windows import (
    ARM,
    AT,
    CLOCK,
    CLOCKS,
    CLOSED,
    HORIZON,
    LEFT,
    LEFT_TIME,
    LEFT_VALUE,
    MOVES,
    PART,
    RIGHT,
    RIGHT_TIME,
    Windowed,
    as_records,
    both_sides,
    by_arm,
    close,
    kernel_input,
    results_type,
    steps,
)
from lakestreams.operators.workers import ROWS_OF_A_WORKER, in_workers

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType


def execute(
    left: DataFrame,
    right: DataFrame,
    join: Windowed,
    since: int,
    *,
    both: DataFrame | None = None,
) -> DataFrame:
    """The rows that new records trigger.

    Args:
        left, right: records frames with `task`, the past that `retain` kept and what is new; null keys and values
            among them, since they move the clock. `moves` where a row moves the clock further than to its own time;
            the clocks (`windows.CLOCKS`) where they are known.
        both: left and right as arms with their clocks (`with_clocks`), where they are made already.

    Returns:
        Records columns with the left value in `v`, the right key and value in `rk` and `rv`; a missing side is null.
    """
    if join.by_key:
        both = with_clocks(both_sides(left, right, join), join, since) if both is None else both
        # rows whose clocks are known move them no further
        found = _by_key(both.withColumn(MOVES, F.col(CLOCK)), join, since)
    else:
        given = _kernel_input(both_sides(left, right, join), join)
        found = in_workers(given, partial(worker.joined, join, since), results_type(given), *join.spread())
    several = join.multi_row or join.overlap != "none"
    return as_records(found, right.schema[KEY].dataType, several=several)


def late(both: DataFrame, join: Windowed, since: int) -> DataFrame:
    """The new records that come too late under the rules `strict`: `arm, o, n, ts, contributors, clock, closed`.

    `closed` is when their window closed, ms. `both` are all arms with their clocks (`with_clocks`).
    """
    return both.where(is_new(since) & F.col(PART) & (close(join) < F.col(CLOCK))).select(
        ARM, ORDER, PLACE, TIME, CONTRIBUTORS, CLOCK, close(join).alias(CLOSED)
    )


def near_the_end(both: DataFrame, join: Windowed, reached: DataFrame) -> DataFrame:
    """What `retain` may keep of many rows, where clocks ascend: open ones, and those that have come as far as their task.

    Two numbers are computed first, and Spark hands them to the scan, so that files' pages without such rows are not read.
    The last row of a task has the latest stream time of its newest cycle, since the order goes by these.

    Args:
        both: all that `execute` was given, as arms (see `windows`).
        reached: what `tops_of` has made of them.

    Returns:
        Some of the arms with their clocks.
    """
    open_from = reached.select(F.min(BEHIND) - _reach(join)).scalar()
    last_from = reached.select(F.min(NEWEST)).scalar()
    is_open, is_last = F.col(TIME) >= open_from, F.col(ORDER)["stream_time_ms"] >= last_from
    some = both.where(F.col(CLOCK).isNotNull() | is_open | is_last)
    known = with_clocks(some, join, tops=reached)
    return known.where((F.col(CLOCK) == F.col(REACHED)) | _is_open(join, F.col(BEHIND)))


def retain(both: DataFrame, join: Windowed, right_key: DataType) -> tuple[DataFrame, DataFrame]:
    """What of the past may still matter: records in window and grace, and per task those that carry its clocks.

    Args:
        both: all that `execute` was given, or what of it is `near_the_end`: arms with their clocks.

    Returns:
        Left and right records frames with `task` and the clocks' columns.
    """
    last, carries, horizon = _last_ascending(both) if join.ascending else _last_of_all(both, join)
    kept = both.join(F.broadcast(last), F.col(TASK) == F.col("last_task")).where(carries | _is_open(join, horizon))

    def side(arm: int, value: str, key: Column) -> DataFrame:
        columns = [F.col(name) for name in (TIME, ORDER, PLACE, KIND, CONTRIBUTORS, TASK, *CLOCKS)]
        return kept.where(F.col(ARM) == arm).select(key.alias(KEY), F.col(value).alias(VALUE), *columns)

    return side(LEFT, LEFT_VALUE, F.col(KEY)), side(RIGHT, RIGHT_VALUE, F.col(KEY).cast(right_key))


def explain(join: Windowed) -> str:
    """The plan in words, for `check --explain`."""
    waits = ", and one for each task of what waits" if join.outer_sides and join.emit == "on_window_close" else ""
    by_key = f"a group of keys for each {ROWS_OF_A_WORKER:,}{waits}"
    return (
        f"stream-stream {join.how} join, {join.before} ms before to {join.after} ms after, grace {join.grace} ms, "
        f"rules {join.rules}: {groups_in_words(by_key if join.rules == 'strict' else None)}"
    )


def _last_ascending(both: DataFrame) -> tuple[DataFrame, Column, Column]:
    """The last record of each task, where clocks ascend: it stands at the clock that its task has reached.

    Returns:
        A row a task (`last_task`); next to it, whether a record carries its task's clocks, and from where the task is open.
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


def _is_open(join: Windowed, horizon: Column) -> Column:
    """Whether a record may still matter, by a clock."""
    return F.col(PART) & (F.col(TIME) >= horizon - _reach(join))


def _reach(join: Windowed) -> Column:
    """How far behind the clock a record may still matter, ms."""
    before, after, grace = join.times()
    if join.rules == "kafka":
        return (F.abs(before) + F.abs(after) + grace) * 2
    # a record is open until after + grace (or before + grace) past it; its partners lie up to the window's size before
    # it; one of the two bounds may be negative
    return F.greatest(before + after, before, after) + grace


# --- what the kernel is given ----------------------------------------------------------------------------------------


def _by_key(both: DataFrame, join: Windowed, since: int) -> DataFrame:
    """Pairs by key; then, by task, what time alone lets out: it waits there next to the places and clocks of all rows."""
    given = _kernel_input(both, join)
    results = results_type(given)
    found = in_workers(given, partial(worker.met, join, since), results, *join.spread())
    if not join.outer_sides or join.emit == "eager":
        return found
    waiting = in_workers(given, partial(worker.waiting, join, since), given.schema, *join.spread())
    steps = both.where(is_new(since) | (F.col(CLOCK) == F.col(CARRIED)))
    nothing = {
        name: F.lit(None).cast(given.schema[name].dataType) for name in (KEY, LEFT_VALUE, RIGHT_VALUE, CONTRIBUTORS)
    }
    together = waiting.unionByName(_kernel_input(steps, join).withColumns(nothing))
    return found.unionByName(in_workers(together, partial(worker.let_out, join, since), results, *by_task(join.realm)))


def _kernel_input(rows: DataFrame, join: Windowed) -> DataFrame:
    known = (LEFT_TIME, RIGHT_TIME) if join.rules == "kafka" else (HORIZON,)
    return kernel_input(rows, MOVES, is_tick().alias(TICK), *known)
