"""The rows of a windowed join's outer sides that come out without a partner, and when.

Internal to `stream_stream`, which states the law.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.joins.order import CONTRIBUTORS, KEY, KIND, ORDER, PLACE, TASK, TIME, UNMATCHED
from lakestreams.joins.validity import byte_order, key_type
from lakestreams.joins.windows import (
    ARM,
    AT,
    BY_LEFT,
    CLOCK,
    LEFT,
    LEFT_VALUE,
    RIGHT,
    RIGHT_VALUE,
    TIMES,
    Windowed,
    by_arm,
    close,
    condition,
    pairs,
    sides,
    steps,
)

if TYPE_CHECKING:
    from pyspark.sql import Column

_FIRST_PAIR, _ITSELF, _TRIGGER = "first_pair", "itself", "trigger"
_CANDIDATE = (KEY, TIME, CONTRIBUTORS, TASK, ARM, AT, CLOCK, LEFT_VALUE, RIGHT_VALUE, _FIRST_PAIR, _ITSELF)


def rows(both: DataFrame, join: Windowed, since: int) -> DataFrame:
    """Unmatched rows whose trigger is new: `k, lv, rv, ts, o, n, kind, contributors, at, own`.

    Args:
        both: the arms (see `windows`).
        join: the options, of a left or outer join.
        since: the first new cycle.
    """
    value_there = F.coalesce(F.col(LEFT_VALUE).isNotNull() | F.col(RIGHT_VALUE).isNotNull(), F.lit(False))
    nobody = both.where(F.col(ARM).isin(*join.outer_arms) & F.col(KEY).isNull() & value_there)
    one_fate = join.rules == "strict" and join.emit == "on_window_close"
    candidates = _unpaired(both, join) if one_fate else _with_first_pair(both, join)
    at_once = ~F.col(_ITSELF)
    if join.emit == "eager":
        found = [_at_once(nobody), _at_once(candidates.where(at_once))]
    elif one_fate:
        found = [_at_once(nobody), _closed(both, candidates, join)]
    else:
        candidates = candidates.where(at_once)
        over = by_arm(lambda arm: F.greatest(F.lit(0).cast("bigint"), join.times().end(arm))) < F.col(CLOCK)
        held = _closed(both, candidates.where(~over), join)
        found = [_at_once(nobody), _at_once(candidates.where(over)), held]
    return reduce(DataFrame.unionByName, found).where(F.col(ORDER)["cycle"] >= since)


def _unpaired(both: DataFrame, join: Windowed) -> DataFrame:
    """The records of outer sides that pair with nothing among the rows at hand: one fate a record."""
    left, right = sides(both, join)
    found = [_candidates(left.join(right, condition(join), "left_anti"), both, LEFT)]
    if RIGHT in join.outer_arms:
        pieces = right.join(left, condition(join), "left_anti")
        names = [name for name in pieces.columns if name not in ("r_at", "r_bin")]
        # a record that touches several bins is unmatched if it is so in every one
        whole = pieces.groupBy("r_at").agg(F.count("*").alias("n"), *(F.first(name).alias(name) for name in names))
        found.append(_candidates(whole.where(F.col("n") == F.col("r_bins")), both, RIGHT))
    return reduce(DataFrame.unionByName, found)


def _with_first_pair(both: DataFrame, join: Windowed) -> DataFrame:
    """Every record of an outer side that takes part, with its first pair's trigger and whether it was its own."""
    left, right = sides(both, join)
    right = right.where(F.col("r_bin") == F.col("r_first"))  # each once
    known = pairs(both, join)
    found = []
    for arm in join.outer_arms:
        side, at, itself = (left, "l_at", F.col(BY_LEFT)) if arm == LEFT else (right, "r_at", ~F.col(BY_LEFT))
        first = known.groupBy(at).agg(F.min(AT).alias(_FIRST_PAIR), F.max(itself).alias(_ITSELF))
        found.append(_candidates(side.join(first, at, "left"), both, arm))
    return reduce(DataFrame.unionByName, found)


def _candidates(side: DataFrame, both: DataFrame, arm: int) -> DataFrame:
    """`l_` or `r_` columns as columns of both arms again."""
    prefix, other = ("l_", RIGHT_VALUE) if arm == LEFT else ("r_", LEFT_VALUE)
    at_type = both.schema[AT].dataType
    given = {_FIRST_PAIR: F.lit(None).cast(at_type), _ITSELF: F.lit(False)}
    if _ITSELF in side.columns:
        given = {_FIRST_PAIR: F.col(_FIRST_PAIR), _ITSELF: F.coalesce(F.col(_ITSELF), F.lit(False))}
    given |= {ARM: F.lit(arm), other: F.lit(None).cast(both.schema[other].dataType)}
    names = (*_CANDIDATE, *(name for name in TIMES if prefix + name in side.columns))
    return side.select(*(given.get(name, F.col(prefix + name)).alias(name) for name in names))


def _at_once(found: DataFrame) -> DataFrame:
    return _row(found, F.col(AT), F.lit(0), own=1)


def _closed(both: DataFrame, candidates: DataFrame, join: Windowed) -> DataFrame:
    """Each candidate that a record has closed, triggered by the first one that did, unless a pair came before.

    The clock ascends in the order, so the first record with a clock past `close` is found by sorting both by time,
    newest first. A candidate that was past its close when it came (windows clipped at 0) waits for the next record.
    """
    waits = close(join) < F.col(CLOCK)
    columns = [*_CANDIDATE, "t", "tie", "step"]
    at_type = both.schema[AT].dataType
    closing = both.where(steps(join)).select(
        *(
            F.lit(None).cast(candidates.schema[name].dataType).alias(name)
            for name in _CANDIDATE
            if name not in (TASK, AT)
        ),
        TASK,
        F.lit(None).cast(at_type).alias(AT),
        F.col(CLOCK).alias("t"),
        F.col(AT).alias("tie"),
        F.col(AT).alias("step"),
    )
    waiting = candidates.withColumns(
        {
            "t": F.when(waits, F.col(CLOCK)).otherwise(close(join)),
            "tie": F.when(waits, F.col(AT)),
            "step": F.lit(None).cast(at_type),
        }
    )
    newest_first = (
        Window.partitionBy(TASK)
        .orderBy(F.desc("t"), F.desc_nulls_first("tie"))
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    found = (
        closing.select(*columns)
        .unionByName(waiting.select(*columns))
        .withColumn(_TRIGGER, F.min("step").over(newest_first))
        .where(F.col(AT).isNotNull() & F.col(_TRIGGER).isNotNull())
        .where(F.col(_FIRST_PAIR).isNull() | (F.col(_FIRST_PAIR) >= F.col(_TRIGGER)))
    )
    by_key = byte_order(F.col(KEY), key_type(found))
    # before the trigger's own rows: -1 is the last one
    backwards = Window.partitionBy(_TRIGGER).orderBy(
        F.desc(TIME), F.asc(ARM), *(part.desc() for part in by_key), F.desc(AT)
    )
    return _row(found, F.col(_TRIGGER), -F.row_number().over(backwards), own=0)


def _row(found: DataFrame, trigger: Column, place: Column, own: int) -> DataFrame:
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
        F.lit(own).alias("own"),
    )
