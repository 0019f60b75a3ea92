"""What joins in Python workers work on: both sides as one frame, with their tasks' clocks where the join looks at them.

A frame of *arms* has the columns
    k, ts, o, n, kind, contributors, task      as in a records frame, the key in the left side's type
    arm int                                    0 left, 1 right
    at struct<o, rank, n> or <o, n, rank>      the place in the order, also between the arms of one source record
    part boolean                               key and value are there
    lv, rv                                     the left or the right value; the other one is null
    clock, left_time, right_time, horizon bigint   the running maxima (see `clocks`), null until they are known
    moves bigint                               what the row moves its task's clock to, or the clock if it is known
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from lakestreams.operators.records import (
    CONTRIBUTORS,
    KEY,
    KIND,
    ORDER,
    PLACE,
    RECORD_COLUMNS,
    RIGHT_KEY,
    TASK,
    TIME,
    VALUE,
    is_tick,
    lean_contributors,
    renumber,
)
from lakestreams.operators.workers import Shares

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

    from lakestreams.operators.segments import Ints
    from lakestreams.topology.kinds import Emission, OuterJoinKind, Overlap, Rules, WindowStore

CLOCK, LEFT_TIME, RIGHT_TIME, HORIZON = "clock", "left_time", "right_time", "horizon"
CLOCKS = (CLOCK, LEFT_TIME, RIGHT_TIME, HORIZON)
CLOSED = "closed"  # when a late record's window closed
MOVES = "moves"  # what a row moves the clock to where that is more than its own time
LEFT, RIGHT = 0, 1
ARM, AT, PART, LEFT_VALUE, RIGHT_VALUE = "arm", "at", "part", "lv", "rv"
TURN = "turn"  # of the trigger's row, among the rows of its source record
RECORD_AT = "record_at"  # the place of a result's record


@dataclass(frozen=True)
class PerTask:
    """Milliseconds that differ by task: what lets many small cases with different windows share one job.

    Attributes:
        of: case number to ms; a case has the tasks `number * stride` to `number * stride + stride - 1`.
        stride: how many tasks a case has.
    """

    of: Mapping[int, int]
    stride: int

    def column(self) -> Column:
        """The ms of a row, by its task."""
        entries = [F.lit(part).cast("bigint") for pair in self.of.items() for part in pair]
        return F.element_at(F.create_map(*entries), F.floor(F.col(TASK) / self.stride).cast("bigint"))

    def of_tasks(self, tasks: Ints) -> Ints:
        """The ms of rows with these tasks."""
        return np.array([self.of[number] for number in (tasks // self.stride).tolist()], np.int64)


Ms: TypeAlias = "int | PerTask"


@dataclass(frozen=True)
class Windowed(Shares):
    """The options of a windowed join; times in ms.

    Attributes:
        before, after: `l.ts - before <= r.ts <= l.ts + after`.
        grace: how long a window stays open after its end.
        emit: when unmatched rows come out.
        store: for the rules `kafka`.
        overlap: whether both sides hold rows of one source record, and whose come first.
        multi_row: whether a side holds several rows of one source record.
        interleaved: whether, where both hold the same several rows, each goes to both sides before the next.
        ascending: whether every row moves its task's clock to its own stream time (`moves`), as sources do under
            the rules `strict`. Then clocks need no sort.
    """

    how: OuterJoinKind
    before: Ms
    after: Ms
    grace: Ms = 0
    emit: Emission = "on_window_close"
    rules: Rules = "strict"
    store: WindowStore = "persistent"
    overlap: Overlap = "none"
    multi_row: bool = False
    interleaved: bool = False
    ascending: bool = False

    @property
    def outer_sides(self) -> tuple[int, ...]:
        """The arms whose unmatched records come out."""
        return {"inner": (), "left": (LEFT,), "outer": (LEFT, RIGHT)}[self.how]

    @property
    def varies(self) -> bool:
        """Whether a time differs by task."""
        return any(isinstance(ms, PerTask) for ms in (self.before, self.after, self.grace))

    def times(self) -> tuple[Column, ...]:
        """Before, after and grace as columns; of rows with a task where they differ by it."""
        given = (self.before, self.after, self.grace)
        return tuple(ms.column() if isinstance(ms, PerTask) else F.lit(ms).cast("bigint") for ms in given)


def both_sides(left: DataFrame, right: DataFrame, join: Windowed) -> DataFrame:
    """Both sides as one frame: common columns, `arm`, `at` (place in the order), `part`, `lv`, `rv`, known clocks."""
    value_types = {LEFT_VALUE: left.schema[VALUE].dataType, RIGHT_VALUE: right.schema[VALUE].dataType}
    rank = {LEFT: 0, RIGHT: 1} if join.overlap != "right_first" else {LEFT: 1, RIGHT: 0}
    key_type = left.schema[KEY].dataType

    def side(rows: DataFrame, arm: int, mine: str, other: str) -> DataFrame:
        clocks = [(F.col(name) if name in rows.columns else F.lit(None).cast("bigint")).alias(name) for name in CLOCKS]
        turn = F.lit(rank[arm]).alias("rank")
        moves = F.coalesce(*(F.col(name) for name in (CLOCK, MOVES, TIME) if name in rows.columns))
        return rows.select(
            moves.alias(MOVES),
            F.col(KEY).cast(key_type).alias(KEY),
            *(F.col(name) for name in (TIME, ORDER, PLACE, KIND, CONTRIBUTORS, TASK)),
            F.lit(arm).alias(ARM),
            F.struct(ORDER, *((PLACE, turn) if join.interleaved else (turn, PLACE))).alias(AT),
            (F.col(KEY).isNotNull() & F.col(VALUE).isNotNull()).alias(PART),
            F.col(VALUE).alias(mine),
            F.lit(None).cast(value_types[other]).alias(other),
            *clocks,
        )

    return side(left, LEFT, LEFT_VALUE, RIGHT_VALUE).unionByName(side(right, RIGHT, RIGHT_VALUE, LEFT_VALUE))


def by_arm(of: Callable[[int], Column]) -> Column:
    """What depends on a row's arm."""
    return F.when(F.col(ARM) == LEFT, of(LEFT)).otherwise(of(RIGHT))


def close(join: Windowed, arm: int | None = None) -> Column:
    """When a record's window closes for good; of the row's own arm if none is given."""
    if arm is None:
        return by_arm(lambda mine: close(join, mine))
    before, after, grace = join.times()
    return F.col(TIME) + (after if arm == LEFT else before) + grace


def steps(join: Windowed) -> Column:
    """The records that can close windows: under `kafka` those that take part and are in order, and ticks."""
    in_order = (F.col(PART) | is_tick()) & (F.col(TIME) == F.col(CLOCK))
    return in_order if join.rules == "kafka" else F.lit(True)


def kernel_input(both: DataFrame, *more: str | Column) -> DataFrame:
    """What each kernel looks at and what its results are made of, and more columns."""
    return both.select(KEY, LEFT_VALUE, RIGHT_VALUE, TIME, ORDER, PLACE, TASK, ARM, lean_contributors(), *more)


def results_type(both: DataFrame, *, with_records: bool = False) -> StructType:
    """The columns of a kernel's results over these arms: as they were given, and the turn of the trigger's row.

    Args:
        with_records: whether results have the places of their records, too: `record_at`.
    """
    names = (KEY, LEFT_VALUE, RIGHT_VALUE, TIME, ORDER, CONTRIBUTORS)
    made = [StructField(PLACE, IntegerType()), StructField(KIND, StringType()), StructField(TURN, LongType())]
    if with_records:
        place = [StructField(ORDER, both.schema[ORDER].dataType), StructField(TURN, LongType())]
        made.append(StructField(RECORD_AT, StructType(place)))
    return StructType([*(StructField(name, both.schema[name].dataType) for name in names), *made])


def as_records(results: DataFrame, right_key: DataType, *, several: bool) -> DataFrame:
    """A kernel's results as records with `rk` and `rv`.

    Args:
        results: records columns but for the value, with `lv`, `rv`, and the turn of the trigger's row (`turn`).
        several: whether source records have several rows: then results are counted over all of them, one after the other.
    """
    rows = renumber(results, F.col(TURN), F.col(PLACE)) if several else results
    rk = F.when(F.col(RIGHT_VALUE).isNotNull(), F.col(KEY).cast(right_key))
    return rows.withColumns({VALUE: F.col(LEFT_VALUE), RIGHT_KEY: rk}).select(*RECORD_COLUMNS, RIGHT_KEY, RIGHT_VALUE)
