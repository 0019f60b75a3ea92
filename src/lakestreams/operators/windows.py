"""What a windowed join works on: both sides as one frame with the task's clocks, and the pairs among them.

Internal to `stream_stream`. A frame of *arms* has the columns
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
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.operators.records import CONTRIBUTORS, COORDINATES, KEY, KIND, ORDER, PLACE, TASK, TIME, VALUE, is_tick

if TYPE_CHECKING:
    from lakestreams.topology.kinds import Emission, OuterJoinKind, Overlap, Rules, WindowStore

CLOCK, LEFT_TIME, RIGHT_TIME, HORIZON = "clock", "left_time", "right_time", "horizon"
CLOCKS = (CLOCK, LEFT_TIME, RIGHT_TIME, HORIZON)
TIMES = ("before", "after", "grace")
CLOSED = "closed"  # when a late record's window closed
MOVES = "moves"  # what a row moves the clock to where that is more than its own time
LEFT, RIGHT = 0, 1
ARM, AT, PART, LEFT_VALUE, RIGHT_VALUE = "arm", "at", "part", "lv", "rv"
HASH, BIN, BY_LEFT = "h", "bin", "by_left"
_SEEN = "seen"  # rules kafka: the other side's time when the record came


@dataclass(frozen=True)
class PerTask:
    """Milliseconds that differ by task: what lets many small cases with different windows share one job.

    Attributes:
        of: case number to ms; a case has the tasks `number * stride` to `number * stride + stride - 1`.
        stride: how many tasks a case has.
    """

    of: Mapping[int, int]
    stride: int

    def column(self, task: Column) -> Column:
        """The ms of a row with this task."""
        entries = [F.lit(part).cast("bigint") for pair in self.of.items() for part in pair]
        return F.element_at(F.create_map(*entries), F.floor(task / self.stride).cast("bigint"))


Ms: TypeAlias = "int | PerTask"


@dataclass(frozen=True)
class Windowed:
    """The options of a windowed join; times in ms.

    Attributes:
        how: `inner`, `left` or `outer`.
        before, after: `l.ts - before <= r.ts <= l.ts + after`.
        grace: how long a window stays open after its end.
        emit: when unmatched rows come out.
        rules: `strict` or `kafka`.
        store: for the rules `kafka`.
        overlap: whether both sides hold rows of one source record, and whose come first.
        plural: whether a side holds several rows of one source record.
        interleaved: whether, where both hold the same several rows, each goes to both sides before the next.
        realm: how many tasks share a history: 0 to realm - 1, realm to 2 realm - 1, and so on.
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
    plural: bool = False
    interleaved: bool = False
    realm: int = 1
    ascending: bool = False

    @property
    def outer_arms(self) -> tuple[int, ...]:
        """The arms whose unmatched records come out."""
        return {"inner": (), "left": (LEFT,), "outer": (LEFT, RIGHT)}[self.how]

    @property
    def varies(self) -> bool:
        """Whether a time differs by task; then the times are columns of the rows."""
        return any(isinstance(ms, PerTask) for ms in (self.before, self.after, self.grace))

    def times(self, prefix: str = "") -> Times:
        """The three times as columns, of rows whose columns have this prefix."""
        if self.varies:
            return Times(*(F.col(prefix + name) for name in TIMES))
        return Times(*(F.lit(ms).cast("bigint") for ms in (self.before, self.after, self.grace)))

    def time_columns(self) -> dict[str, Column]:
        """The times as columns of rows with a task, if they differ by it."""
        if not self.varies:
            return {}
        return {
            name: ms.column(F.col(TASK)) if isinstance(ms, PerTask) else F.lit(ms).cast("bigint")
            for name, ms in zip(TIMES, (self.before, self.after, self.grace), strict=True)
        }


class Times(NamedTuple):
    """Before, after and grace as columns, and what follows from them."""

    before: Column
    after: Column
    grace: Column

    @property
    def retention(self) -> Column:
        """How far back a record can matter: window and grace."""
        return self.before + self.after + self.grace

    @property
    def bin(self) -> Column:
        """The width of a time bin: wide beside the window, so that few records touch two."""
        return F.greatest((self.before + self.after) * 4, F.lit(1).cast("bigint"))

    def end(self, arm: int) -> Column:
        """When a record's window ends, from its time."""
        return F.col(TIME) + (self.after if arm == LEFT else self.before)


def arms(left: DataFrame, right: DataFrame, join: Windowed) -> DataFrame:
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
            *(column.alias(name) for name, column in join.time_columns().items()),
        )

    return side(left, LEFT, LEFT_VALUE, RIGHT_VALUE).unionByName(side(right, RIGHT, RIGHT_VALUE, LEFT_VALUE))


def by_arm(of: Callable[[int], Column]) -> Column:
    """What depends on a row's arm."""
    return F.when(F.col(ARM) == LEFT, of(LEFT)).otherwise(of(RIGHT))


def close(join: Windowed, arm: int | None = None) -> Column:
    """When a record's window closes for good; of the row's own arm if none is given."""
    if arm is None:
        return by_arm(lambda mine: close(join, mine))
    times = join.times()
    return times.end(arm) + times.grace


def steps(join: Windowed) -> Column:
    """The records that can close windows: under `kafka` those that take part and are in order, and ticks."""
    in_order = (F.col(PART) | is_tick()) & (F.col(TIME) == F.col(CLOCK))
    return in_order if join.rules == "kafka" else F.lit(True)


def taking_part(both: DataFrame, join: Windowed) -> DataFrame:
    """The records that can pair: with key and value, and under `strict` not late."""
    rows = both.where(F.col(PART))
    return rows.where(close(join) >= F.col(CLOCK)) if join.rules == "strict" else rows


def sides(rows: DataFrame, join: Windowed) -> tuple[DataFrame, DataFrame]:
    """Records as columns `l_...` in their bin, and `r_...` in each bin that their window touches.

    `l_h` and `r_h` are a hash of key and bin: one number is what both sides are exchanged and sorted by, since Spark
    sorts one number by its digits and compares structs field by field.
    """

    def side(arm: int, time_bin: Column) -> list[Column]:
        prefix, value, seen = ("l_", LEFT_VALUE, RIGHT_TIME) if arm == LEFT else ("r_", RIGHT_VALUE, LEFT_TIME)
        columns = [F.xxhash64(KEY, time_bin).alias(prefix + HASH), _others().alias(prefix + CONTRIBUTORS)]
        columns += [F.col(name).alias(prefix + name) for name in (KEY, TIME, AT, TASK, CLOCK, value)]
        columns += [F.col(name).alias(prefix + name) for name in join.time_columns()]
        if join.rules == "kafka":
            columns.append(F.coalesce(F.col(seen), F.lit(0)).alias(prefix + _SEEN))
        elif join.realm > 1:
            columns.append(F.col(HORIZON).alias(prefix + HORIZON))
        return columns

    left = rows.where(F.col(ARM) == LEFT)
    first, last, width = bins(join)
    # most records touch one bin, and a sequence is dear beside an array of one
    touched = F.when(first == last, F.array(first)).otherwise(F.sequence(first, last, width))
    right = rows.where(F.col(ARM) == RIGHT).withColumn(BIN, F.explode(touched))
    return left.select(*side(LEFT, _bin_of(F.col(TIME), width))), right.select(
        F.col(BIN).alias("r_bin"), *side(RIGHT, F.col(BIN))
    )


def bins(join: Windowed, prefix: str = "") -> tuple[Column, Column, Column]:
    """The first and the last bin that a right record's window touches, and the width of a bin."""
    times, time = join.times(prefix), F.col(prefix + TIME)
    low, high = time - times.after, time + times.before
    if join.rules == "kafka":  # windows are clipped at 0, and no record is older
        zero = F.lit(0).cast("bigint")
        low, high = F.when(time == 0, zero).otherwise(F.greatest(low, zero)), F.greatest(high, zero)
    return _bin_of(low, times.bin), _bin_of(high, times.bin), times.bin


def _bin_of(time: Column, width: Column) -> Column:
    return time - F.pmod(time, width)


def _others() -> Column:
    """Contributors, but null for a record's own coordinates: they lie in its order and need not travel twice."""
    return F.when(F.col(CONTRIBUTORS) != F.array(_coordinates(F.col(ORDER))), F.col(CONTRIBUTORS))


def contributors(prefix: str) -> Column:
    """What `sides` left out, put back."""
    return F.coalesce(F.col(prefix + CONTRIBUTORS), F.array(_coordinates(F.col(prefix + AT)[ORDER])))


def _coordinates(order: Column) -> Column:
    return F.struct(*(order[name].alias(name) for name in COORDINATES))


def condition(join: Windowed) -> Column:
    """When two records of a bin pair."""
    l_ts, r_ts, times = F.col("l_ts"), F.col("r_ts"), join.times("l_")
    # inside `when`, so that Spark does not take the key for a second column to sort by
    same = (F.col("l_k") == F.col("r_k")) & (F.col("r_bin") == _bin_of(l_ts, times.bin))
    same_task = F.col("l_task") == F.col("r_task")
    if join.rules == "strict":
        inside = (r_ts >= l_ts - times.before) & (r_ts <= l_ts + times.after)
        now = F.greatest("l_clock", "r_clock")
        if join.realm > 1:
            # a key that lies in two tasks is judged by the greatest clock of all tasks, else a record could come out
            # unmatched by its own task's clock and pair afterwards
            now = F.when(same_task, now).otherwise(F.greatest("l_horizon", "r_horizon"))
        r_times = join.times("r_")
        first_close = F.least(l_ts + times.after + times.grace, r_ts + r_times.before + r_times.grace)
        paired = inside & (now <= first_close)
    else:
        zero, kept = F.lit(0).cast("bigint"), times.retention - 1
        by_left = r_ts.between(F.greatest(zero, l_ts - times.before), F.greatest(zero, l_ts + times.after)) & (
            r_ts >= F.col("l_seen") - kept
        )
        by_right = l_ts.between(F.greatest(zero, r_ts - times.after), F.greatest(zero, r_ts + times.before)) & (
            l_ts >= F.col("r_seen") - kept
        )
        # a Kafka Streams task never sees another's records
        paired = same_task & F.when(F.col("l_at") > F.col("r_at"), by_left).otherwise(by_right)
    return (F.col("l_h") == F.col("r_h")) & F.when(same, paired)


def pairs(rows: DataFrame, join: Windowed) -> DataFrame:
    """Every pair among the rows at hand, new or not: `l_` and `r_` columns, `at` of its trigger, `by_left`."""
    left, right = sides(rows, join)
    by_left = F.col("l_at") > F.col("r_at")
    trigger = F.when(by_left, F.col("l_at")).otherwise(F.col("r_at"))
    return left.join(right, condition(join)).withColumns({AT: trigger, BY_LEFT: by_left})
