"""What a few new records reach of a windowed join's past, found without looking at the clocks of all of it.

Retained rows know the clocks that they came with. So of a task's past one row more is enough, which says how far its clock
has come: then rows of other keys are not needed, unless their windows close now. For clocks that ascend, under `strict`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TypeAlias

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.operators.clocks import CARRIED, REACHED
from lakestreams.operators.records import (
    KEY,
    ORDER,
    ORDER_TYPE,
    STREAM_SIDE,
    TASK,
    TIME,
    VALUE,
    Extract,
    known_sum,
    ticks,
)
from lakestreams.operators.windows import CLOCK, HORIZON, MOVES, Windowed, close

_HASH, _LAST = "key_hash", "last_stream_time_ms"
Pair: TypeAlias = Sequence[DataFrame]


def prune(
    new: Pair, past: Pair, join: Windowed, since: int, clocks: DataFrame, extract: Extract
) -> tuple[DataFrame, DataFrame, int | None]:
    """Both sides: new rows, what they reach of the past, and a row a task for its clock.

    Args:
        new: the new rows of the left and of the right side, with `task` and `moves`.
        past: what is retained of them.
        clocks: of the past, as `last_clocks` gives them.
        extract: computes what is reached, before all else.

    Returns:
        Left, right, and how many rows of the past are among them, if it is known.
    """
    ((hashes, _),) = extract(key_hashes(new, past, clocks, join))
    # the hashes are broadcast, and the past is filtered where it lies
    is_wanted = F.xxhash64(KEY) == F.col(_HASH)
    found = extract(*(side.join(F.broadcast(hashes), is_wanted, "left_semi") for side in past))
    left, right = (rows.unionByName(one, allowMissingColumns=True) for rows, (one, _) in zip(new, found, strict=True))
    left = left.unionByName(clock_rows(clocks, past[0], since), allowMissingColumns=True)
    return left, right, known_sum([count for _, count in found])


def last_clocks(past: Pair) -> DataFrame:
    """How far the clocks of tasks have come: one row a task, `task, clock, horizon, last_stream_time_ms`."""
    columns = (TASK, CLOCK, HORIZON, F.col(ORDER)["stream_time_ms"].alias(_LAST))
    both = _union([side.select(*columns) for side in past])
    return both.groupBy(TASK).agg(*(F.max(name).alias(name) for name in (CLOCK, HORIZON, _LAST)))


def key_hashes(new: Pair, past: Pair, clocks: DataFrame, join: Windowed) -> DataFrame:
    """Hashes of the keys whose past is wanted: those of new rows, and those of rows whose windows may close now.

    Arguments are as those of `prune`.

    Returns:
        A column `key_hash`, each once. Two keys of one hash do no harm.
    """
    hashed = F.xxhash64(KEY).alias(_HASH)
    found = [side.where(F.col(KEY).isNotNull() & F.col(VALUE).isNotNull()).select(hashed) for side in new]
    if join.emit == "on_window_close" and join.outer_sides:
        moved = _union([side.select(TASK, MOVES) for side in new]).groupBy(TASK).agg(F.max(MOVES).alias(REACHED))
        moving = F.broadcast(clocks.select(TASK, F.col(CLOCK).alias(CARRIED)).join(moved, TASK))
        for arm in join.outer_sides:
            mine = past[arm].where(F.col(VALUE).isNotNull())
            closes = close(join, arm)
            waits = (closes >= F.col(CLOCK)) & (closes >= F.col(CARRIED)) & (closes < F.col(REACHED))
            found.append(mine.join(moving, TASK).where(waits).select(hashed))
    return _union(found).distinct()


def clock_rows(clocks: DataFrame, like: DataFrame, since: int) -> DataFrame:
    """Rows without a key, behind the past and before what is new, which move each task's clock to where it was.

    Args:
        like: what is retained of a side: the columns wanted.
    """
    # the fields of an order, from the cycle to the attempt
    order = F.struct(F.lit(since - 1), F.col(_LAST) + 1, F.lit(STREAM_SIDE), F.lit(""), F.lit(0), F.lit(0), F.lit(0))
    moves = {TIME: F.col(CLOCK), ORDER: order.cast(ORDER_TYPE)}
    return ticks(clocks.withColumns(moves).drop(_LAST), like)


def _union(frames: Pair) -> DataFrame:
    return reduce(DataFrame.unionByName, frames)
