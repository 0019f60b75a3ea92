"""The rows of a windowed join's outer sides that come out without a partner, and when.

Internal to `stream_stream`, which states the law.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.operators.balance import evenly
from lakestreams.operators.clocks import CARRIED, REACHED
from lakestreams.operators.records import CONTRIBUTORS, KEY, KIND, ORDER, PLACE, TASK, TIME, UNMATCHED, is_new
from lakestreams.operators.versions import byte_order, key_type
from lakestreams.operators.windows import (
    ARM,
    AT,
    CLOCK,
    LEFT,
    LEFT_VALUE,
    RIGHT,
    RIGHT_VALUE,
    TIMES,
    Windowed,
    bins,
    by_arm,
    close,
    condition,
    contributors,
    sides,
    steps,
)

if TYPE_CHECKING:
    from pyspark.sql import Column

_FIRST_PAIR, _ITSELF, _TRIGGER, _WANTED = "first_pair", "itself", "trigger", "wanted"
_TIME_REACHED, _IS_STEP, _AHEAD, _AT_ONCE = "t", "is_step", "ahead", "at_once"
_LANE, _OWN_ROW = "lane", "own_row"
_ROW = (KEY, TIME, CONTRIBUTORS, ARM, LEFT_VALUE, RIGHT_VALUE)
_CANDIDATE = (KEY, TIME, CONTRIBUTORS, TASK, ARM, AT, CLOCK, LEFT_VALUE, RIGHT_VALUE, _FIRST_PAIR, _ITSELF)


def rows(both: DataFrame, taking: DataFrame, join: Windowed, since: int) -> DataFrame:
    """Unmatched rows whose trigger is new: `k, lv, rv, ts, o, n, kind, contributors, at, own`.

    Args:
        both: the arms (see `windows`) with their clocks.
        taking: those that take part and matter to the new ones.
        join: the options, of a left or outer join.
        since: the first new cycle.
    """
    if join.emit == "eager":
        candidates = _with_first_pair(taking, join).where(~F.col(_ITSELF))
        nobody = both.where(_has_no_key(join))
        found = _row(candidates, F.col(AT), F.lit(0), F.lit(1)).unionByName(_row(nobody, F.col(AT), F.lit(0), F.lit(1)))
    elif join.rules == "strict":
        found = _closed(both, _unpaired(taking, join).withColumn(_AT_ONCE, F.lit(False)), join, since)
    else:
        over = by_arm(lambda arm: F.greatest(F.lit(0).cast("bigint"), join.times().end(arm))) < F.col(CLOCK)
        candidates = _with_first_pair(taking, join).where(~F.col(_ITSELF)).withColumn(_AT_ONCE, over)
        found = _closed(both, candidates, join, since)
    return found.where(F.col(ORDER)["cycle"] >= since)


def touched(taking: DataFrame, join: Windowed, since: int) -> DataFrame:
    """The records whose key the new ones touch: it occurs among them, or its window may close now.

    Worth it when the new ones are few: hashes of their keys are broadcast, and nothing of the past is exchanged but
    these. Two keys of one hash do no harm.
    """
    key, wanted = F.xxhash64(KEY), is_new(since)
    if join.outer_arms and join.emit == "on_window_close":
        wanted |= F.col(ARM).isin(*join.outer_arms) & _may_close(join)
    keys = taking.where(wanted).select(key.alias(_WANTED)).distinct()
    return taking.join(F.broadcast(keys), key == F.col(_WANTED), "left_semi")


def _may_close(join: Windowed) -> Column:
    """Whether a past record's window is open before the new ones and not after them."""
    open_before = F.coalesce(close(join) >= F.col(CARRIED), F.lit(True))
    return (close(join) < F.col(REACHED)) & (open_before if join.rules == "strict" else F.lit(True))


def _has_no_key(join: Windowed) -> Column:
    """Records of outer sides that nothing can pair with: they come out at once."""
    value_there = F.coalesce(F.col(LEFT_VALUE).isNotNull() | F.col(RIGHT_VALUE).isNotNull(), F.lit(False))
    return F.col(ARM).isin(*join.outer_arms) & F.col(KEY).isNull() & value_there


def _unpaired(taking: DataFrame, join: Windowed) -> DataFrame:
    """The records of outer sides that pair with nothing among the rows at hand: one fate a record."""
    left, right = sides(taking, join)
    found = [_candidates(left.join(right, condition(join), "left_anti"), taking, LEFT)]
    if RIGHT in join.outer_arms:
        pieces = right.join(left, condition(join), "left_anti")
        # a record that touches several bins is unmatched if it is so in every one
        whole = _each_once(pieces, RIGHT, join, F.count("*").alias("n"))
        first, last, width = bins(join, "r_")
        found.append(_candidates(whole.where(F.col("n") == (last - first) / width + 1), taking, RIGHT))
    return reduce(DataFrame.unionByName, found)


def _with_first_pair(taking: DataFrame, join: Windowed) -> DataFrame:
    """Every record of an outer side that takes part, with its first pair's trigger and whether it was its own."""
    left, right = sides(taking, join)
    by_left = F.col("l_at") > F.col("r_at")
    trigger = F.when(by_left, F.col("l_at")).otherwise(F.col("r_at"))
    found = []
    for arm in join.outer_arms:
        mine, other, own = (left, right, by_left) if arm == LEFT else (right, left, ~by_left)
        known = mine.join(other, condition(join), "left")
        paired = F.col("l_at").isNotNull() & F.col("r_at").isNotNull()
        first = F.min(F.when(paired, trigger)).alias(_FIRST_PAIR), F.max(F.when(paired, own)).alias(_ITSELF)
        found.append(_candidates(_each_once(known, arm, join, *first), taking, arm))
    return reduce(DataFrame.unionByName, found)


def _each_once(known: DataFrame, arm: int, join: Windowed, *found: Column) -> DataFrame:
    """A record's rows, of all its bins and pairs, as one; a left record lies in one bin, hence no exchange."""
    prefix = "l_" if arm == LEFT else "r_"
    by = ["l_h", "l_at"] if arm == LEFT else ["r_at"]
    names = [name for name in (*_CANDIDATE, *join.time_columns()) if prefix + name in known.columns and name != AT]
    return known.groupBy(*by).agg(*found, *(F.first(prefix + name).alias(prefix + name) for name in names))


def _candidates(side: DataFrame, both: DataFrame, arm: int) -> DataFrame:
    """`l_` or `r_` columns as columns of both arms again."""
    prefix, other = ("l_", RIGHT_VALUE) if arm == LEFT else ("r_", LEFT_VALUE)
    at_type = both.schema[AT].dataType
    given = {_FIRST_PAIR: F.lit(None).cast(at_type), _ITSELF: F.lit(False)}
    if _ITSELF in side.columns:
        given = {_FIRST_PAIR: F.col(_FIRST_PAIR), _ITSELF: F.coalesce(F.col(_ITSELF), F.lit(False))}
    given |= {ARM: F.lit(arm), other: F.lit(None).cast(both.schema[other].dataType)}
    given[CONTRIBUTORS] = contributors(prefix)
    names = (*_CANDIDATE, *(name for name in TIMES if prefix + name in side.columns))
    return side.select(*(given.get(name, F.col(prefix + name)).alias(name) for name in names))


def _closed(both: DataFrame, candidates: DataFrame, join: Windowed, since: int) -> DataFrame:
    """Each candidate that a record has closed, triggered by the first one that did, unless a pair came before.

    Candidates `at_once` and records without a key are triggered by themselves. The clock ascends in the order, so with
    all sorted by time, newest first, the first record whose clock is past `close` is the last one seen; of records that
    can only be triggers no more than place and clock is sorted. Under `strict` the past needs only the records at the
    clock that the new ones find: what they closed is not new. Under `kafka` a candidate that was past its close when it
    came (windows clipped at 0) waits for the next record.
    """
    is_step, waits = steps(join), F.lit(False)
    if join.rules == "strict":
        is_step &= is_new(since) | (F.col(CLOCK) == F.col(CARRIED))
    else:
        waits = close(join) < F.col(CLOCK)
    alone = _has_no_key(join)
    nobody = F.lit(None).cast(both.schema[AT].dataType).alias(_FIRST_PAIR)
    stepping = both.where(is_step | alone).select(
        TASK,
        AT,
        F.col(CLOCK).alias(_TIME_REACHED),
        is_step.alias(_IS_STEP),
        F.lit(False).alias(_AHEAD),
        alone.alias(_AT_ONCE),
        F.when(alone, F.struct(*_ROW, nobody)).alias(_OWN_ROW),
    )
    waiting = candidates.select(
        TASK,
        AT,
        F.when(waits, F.col(CLOCK)).otherwise(close(join)).alias(_TIME_REACHED),
        F.lit(False).alias(_IS_STEP),
        (~waits).alias(_AHEAD),
        _AT_ONCE,
        F.struct(*_ROW, _FIRST_PAIR).alias(_OWN_ROW),
    )
    lane = evenly(F.col(TASK), join.realm)
    newest_first = (
        Window.partitionBy(_LANE)
        .orderBy(F.desc(_TIME_REACHED), F.desc(_AHEAD), F.desc(AT), F.asc(_IS_STEP))
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    step = F.last(F.when(F.col(_IS_STEP), F.col(AT)), ignorenulls=True).over(newest_first)
    at_once = F.col(_AT_ONCE)
    found = (
        stepping.unionByName(waiting)
        .withColumn(_LANE, lane)
        .withColumn(_TRIGGER, F.when(at_once, F.col(AT)).otherwise(step))
        .where((at_once | ~F.col(_IS_STEP)) & F.col(_TRIGGER).isNotNull())
        .select(_LANE, AT, _AT_ONCE, _TRIGGER, f"{_OWN_ROW}.*")
        .where(at_once | F.col(_FIRST_PAIR).isNull() | (F.col(_FIRST_PAIR) >= F.col(_TRIGGER)))
    )
    # before the trigger's own rows: -1 is the last one; the trigger is of the same task, which spares an exchange
    backwards = Window.partitionBy(_LANE, _TRIGGER).orderBy(
        at_once,
        F.desc(TIME),
        F.asc(ARM),
        *(part.desc() for part in byte_order(F.col(KEY), key_type(found))),
        F.desc(AT),
    )
    place = F.when(at_once, F.lit(0)).otherwise(-F.row_number().over(backwards))
    return _row(found, F.col(_TRIGGER), place, at_once.cast("int"))


def _row(found: DataFrame, trigger: Column, place: Column, own: Column) -> DataFrame:
    return found.select(
        KEY,
        LEFT_VALUE,
        RIGHT_VALUE,
        TIME,
        trigger[ORDER].alias(ORDER),
        place.alias(PLACE),
        F.lit(UNMATCHED).alias(KIND),
        CONTRIBUTORS,
        trigger.alias(AT),
        own.alias("own"),
    )
