"""Suppression: a table's updates wait in a buffer, and only the last one of a while is told.

The law, of Kafka Streams' KTableSuppressProcessorSupplier and InMemoryTimeOrderedKeyValueChangeBuffer (semantics section
8.2): the buffer holds one update a key. A later update of the key replaces it and keeps its place and time. An update
first moves the task's clock (the running maximum of the updates' times), is then buffered, and then lets out what is
due, perhaps itself: by the time of the first update that waited, then the key's bytes. Due is an update when the clock
reaches its time and `until`, tombstones too; or, until a window closes, when it reaches the window's end and grace, and
tombstones are left out. If a task's buffer holds more keys than it may, the oldest come out early, or the run stops.

Without a bound: the record at which each update would be due comes from one exchange and two sorts by task; a key's
updates are then folded in their order (see `folding`), since where one wait begins depends on where the last one ended.
With a bound how many wait is counted beside it, and only a task whose buffer overflows is gone through update by update:
each one sorts the whole buffer, in memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import ArrayType

from lakestreams.operators.aggregate.folding import MADE, folded, in_order, let, reduced
from lakestreams.operators.records import (
    CONTRIBUTORS,
    KEY,
    KIND,
    ORDER,
    PLACE,
    RECORD_COLUMNS,
    TASK,
    TICK,
    TIME,
    VALUE,
    is_new,
    is_tick,
    renumber,
)
from lakestreams.operators.versions import byte_order, key_type
from lakestreams.operators.windows import CLOCK
from lakestreams.topology.kinds import WINDOW_COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

    from lakestreams.topology.kinds import WhenFull

# Of an update that waits: the time of the first one of its wait.
SINCE = "since_ms"
BUFFER_COLUMNS = (KEY, VALUE, TIME, ORDER, PLACE, KIND, CONTRIBUTORS, TASK, SINCE)

_AT, _DUE, _TRIGGER, _IS_STEP, _WAIT = "at", "due", "trigger", "is_step", "wait"
_FIRST, _MORE, _OVER = "first_at", "more", "over"


@dataclass(frozen=True)
class Hold:
    """The options of a buffer.

    Attributes:
        until_ms: how long updates wait; None: until their window has closed.
        grace_ms: of the windows, where they wait for those.
        max_records: how many keys a task holds, or None.
        when_full: `emit` or `shutdown`.
        name: the step's, for the message when a buffer is full.
    """

    until_ms: int | None
    grace_ms: int = 0
    max_records: int | None = None
    when_full: WhenFull = "emit"
    name: str = "suppress"

    @property
    def is_final(self) -> bool:
        """Whether only a window's final row comes out."""
        return self.until_ms is None

    def since(self) -> Column:
        """The time from which an update waits."""
        return F.col(KEY)[WINDOW_COLUMNS[1]] if self.is_final else F.col(TIME)

    @property
    def wait_ms(self) -> int:
        """How long after it."""
        return self.grace_ms if self.until_ms is None else self.until_ms


def execute(
    updates: DataFrame, buffered: DataFrame | None, clocks: DataFrame | None, hold: Hold, since: int
) -> DataFrame:
    """The updates that new ones let out, as records: `o` is the order of the one that did.

    Args:
        updates: new rows of the table: a records frame with `task`.
        buffered: what waits from before (`retain`), or None.
        clocks: where the tasks' clocks stood: `task, clock` (`last_clocks`), or None.
        hold: the options.
        since: the first new cycle.
    """
    return _told(_waits(updates, buffered, clocks, hold), hold, since)


def retain(updates: DataFrame, buffered: DataFrame | None, clocks: DataFrame | None, hold: Hold) -> DataFrame:
    """What still waits after these updates: `BUFFER_COLUMNS`, one row a key."""
    waits = _waits(updates, buffered, clocks, hold)
    return waits.where(F.col(_TRIGGER).isNull()).select(*BUFFER_COLUMNS)


def last_clocks(updates: DataFrame, clocks: DataFrame | None) -> DataFrame:
    """Where the clock of each task stands after these updates: `task, clock`."""
    seen = updates.select(TASK, F.col(TIME).alias(CLOCK))
    return (seen if clocks is None else seen.unionByName(clocks)).groupBy(TASK).agg(F.max(CLOCK).alias(CLOCK))


def explain(hold: Hold) -> str:
    """The plan in words, for `check --explain`."""
    until = "its window closes" if hold.is_final else f"{hold.until_ms} ms have passed"
    bound = "" if hold.max_records is None else f", at most {hold.max_records} keys a task, then {hold.when_full}"
    return f"suppress: an update waits until {until}{bound}; sorted once by task, then folded by key"


# --- waits: all updates of a key that come out as one ----------------------------------------------------------------


def _waits(updates: DataFrame, buffered: DataFrame | None, clocks: DataFrame | None, hold: Hold) -> DataFrame:
    """One row a wait: its last update, the time and place of its first one, and `trigger`, the place that ends it."""
    rows = _timed(updates, buffered, clocks, hold)
    waits = _by_key(_with_due(rows, hold))
    if hold.max_records is None:
        return waits
    over = F.broadcast(_overfull(waits, hold, hold.max_records).withColumnRenamed(TASK, _OVER))
    fits = waits.join(over, F.col(TASK) == F.col(_OVER), "left_anti")
    if hold.when_full == "shutdown":
        return fits
    crowded = rows.join(over, F.col(TASK) == F.col(_OVER), "left_semi")
    return fits.unionByName(_one_by_one(crowded, hold, hold.max_records))


def _timed(updates: DataFrame, buffered: DataFrame | None, clocks: DataFrame | None, hold: Hold) -> DataFrame:
    """Updates, new ones and those that wait, with place, the task's clock, and the time from which they wait."""
    rows = updates.select(*RECORD_COLUMNS, TASK).withColumn(SINCE, F.lit(None).cast("bigint"))
    if buffered is not None:
        rows = rows.unionByName(buffered)
    is_new_one = F.col(SINCE).isNull()
    rows = rows.withColumns({_AT: F.struct(ORDER, PLACE), _IS_STEP: is_new_one, SINCE: F.coalesce(SINCE, hold.since())})
    before = F.lit(None).cast("bigint")
    if clocks is not None:
        stood = F.broadcast(clocks.select(F.col(TASK).alias("of_task"), F.col(CLOCK).alias("stood")))
        rows, before = rows.join(stood, F.col(TASK) == F.col("of_task"), "left"), F.col("stood")
    so_far = Window.partitionBy(TASK).orderBy(_AT).rowsBetween(Window.unboundedPreceding, Window.currentRow)
    moved = F.max(F.when(F.col(_IS_STEP), F.col(TIME))).over(so_far)
    return rows.withColumn(CLOCK, F.greatest(moved, before)).drop("of_task", "stood")


def _with_due(rows: DataFrame, hold: Hold) -> DataFrame:
    """Updates with `due`: the place of the first update at which the clock lets them out, or null.

    The clock ascends with the place. So with all sorted by time, newest first, the last one seen is the first that is
    past; one that is due when it comes is let out by itself.
    """
    end = F.col(SINCE) + hold.wait_ms
    step, waits = (
        F.struct(time.alias("t"), F.lit(wait).alias(_WAIT)) for time, wait in ((F.col(CLOCK), False), (end, True))
    )
    as_both = F.when(is_tick(), F.array(step)).when(F.col(_IS_STEP), F.array(step, waits)).otherwise(F.array(waits))
    each = rows.select("*", F.inline(as_both))
    newest_first = (
        Window.partitionBy(TASK)
        .orderBy(F.desc("t"), F.asc(_WAIT), F.desc(_AT))
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    past = F.last(F.when(~F.col(_WAIT), F.col(_AT)), ignorenulls=True).over(newest_first)
    found = each.withColumn(_DUE, past).where(_WAIT)
    at_once = F.col(_IS_STEP) & (F.col(CLOCK) >= end)
    return found.withColumn(_DUE, F.when(at_once, F.col(_AT)).otherwise(F.col(_DUE))).drop("t", _WAIT)


def _by_key(rows: DataFrame) -> DataFrame:
    """The waits of updates with `due`: one begins with the key's first update in its task after the last one has ended."""
    nothing = F.struct(
        F.lit(0).alias("no"), F.lit(None).cast(_type(rows, _AT)).alias("ends"), F.lit(None).cast("bigint").alias(SINCE)
    )

    def step(made: Column, row: Column) -> Column:
        at = F.struct(row[ORDER].alias(ORDER), row[PLACE].alias(PLACE))
        begins = (made["no"] == 0) | F.coalesce(made["ends"] < at, F.lit(False))
        return F.struct(
            (made["no"] + begins.cast("int")).alias("no"),
            F.when(begins, row[_DUE]).otherwise(made["ends"]).alias("ends"),
            F.when(begins, row[SINCE]).otherwise(made[SINCE]).alias(SINCE),
        )

    kept = rows.select(*RECORD_COLUMNS, TASK, SINCE, _DUE)
    made = folded(kept, [TASK, KEY], [ORDER, PLACE], nothing, step)
    wait = Window.partitionBy(TASK, KEY, F.col(MADE)["no"]).orderBy(ORDER, PLACE)
    ends = {_MORE: F.lead(PLACE).over(wait), _FIRST: F.first(F.struct(ORDER, PLACE)).over(wait)}
    last = made.withColumns(ends).where(F.col(_MORE).isNull())
    return last.withColumns({SINCE: F.col(MADE)[SINCE], _TRIGGER: F.col(MADE)["ends"]}).drop(_DUE, MADE, _MORE)


def _told(waits: DataFrame, hold: Hold, since: int) -> DataFrame:
    """What has come out, in the order in which it does."""
    out = waits.where(F.col(_TRIGGER).isNotNull())
    if hold.is_final:
        out = out.where(F.col(VALUE).isNotNull())
    out = out.withColumn(ORDER, F.col(_TRIGGER)[ORDER]).where(is_new(since))
    return renumber(
        out, F.col(_TRIGGER)[PLACE], F.col(SINCE), *byte_order(F.col(KEY), key_type(out)), F.col(_FIRST)
    ).select(*RECORD_COLUMNS)


# --- a buffer that overflows -----------------------------------------------------------------------------------------


def _overfull(waits: DataFrame, hold: Hold, most: int) -> DataFrame:
    """The tasks whose buffer would hold more keys than it may, once what is due has come out: `task`."""
    begins = waits.select(TASK, F.col(_FIRST).alias(_AT), F.lit(1).alias("d"))
    ends = waits.where(F.col(_TRIGGER).isNotNull()).select(TASK, F.col(_TRIGGER).alias(_AT), F.lit(-1).alias("d"))
    at_each = begins.unionByName(ends).groupBy(TASK, _AT).agg(F.sum("d").alias("d"))
    so_far = Window.partitionBy(TASK).orderBy(_AT).rowsBetween(Window.unboundedPreceding, Window.currentRow)
    counted = at_each.withColumn("held", F.sum("d").over(so_far))
    if hold.when_full == "shutdown":
        message = F.concat(
            F.lit(f'BUFFER_FULL   suppress "{hold.name}": '), F.col("held").cast("string"),
            F.lit(" keys wait in task "), F.col(TASK).cast("string"),
            F.lit(f", {most} fit, and when_full says shutdown; raise max_records, or say emit"),
        )  # fmt: skip
        # of what the window has counted, so that no optimiser can raise it before
        counted = counted.withColumn(
            "held", F.when(F.col("held") > most, F.raise_error(message).cast("bigint")).otherwise(F.col("held"))
        )
    return counted.where(F.col("held") > most).select(TASK).distinct()


def _one_by_one(rows: DataFrame, hold: Hold, most: int) -> DataFrame:
    """The waits of tasks whose buffer overflows: each update goes through the buffer as the law says."""
    update = [KEY, VALUE, TIME, ORDER, PLACE, KIND, CONTRIBUTORS]
    rows = rows.withColumn("sorts", F.struct(*byte_order(F.col(KEY), key_type(rows)), F.col(KEY)))
    entry = F.struct(
        SINCE,
        "sorts",
        F.col(_AT).alias(_FIRST),
        F.struct(*update).alias("last"),
        F.lit(None).cast(_type(rows, _AT)).alias(_TRIGGER),
    )
    rows = rows.withColumn("entry", entry).select(TASK, ORDER, PLACE, _IS_STEP, CLOCK, "entry")
    entries = ArrayType(_type(rows, "entry"))
    nothing = F.struct(F.array().cast(entries).alias("held"), F.array().cast(entries).alias("out"))

    def step(made: Column, row: Column) -> Column:
        mine, at = row["entry"], F.struct(row[ORDER].alias(ORDER), row[PLACE].alias(PLACE))

        def put(held: Column) -> Column:
            found = F.filter(held, lambda one: one["sorts"] == mine["sorts"])
            kept = F.transform(
                held,
                lambda one: F.when(one["sorts"] == mine["sorts"], one.withField("last", mine["last"])).otherwise(one),
            )
            with_mine = F.when(F.size(found) > 0, kept).otherwise(F.concat(held, F.array(mine)))
            with_mine = in_order(with_mine, SINCE, "sorts")
            return F.when(mine["last"][KIND] == TICK, held).otherwise(with_mine)

        def leave(held: Column) -> Column:
            # sorted by time, so what is due comes first; then as many as are too many
            due = F.size(F.filter(held, lambda one: one[SINCE] + hold.wait_ms <= row[CLOCK]))
            going = F.when(row[_IS_STEP], F.greatest(due, F.size(held) - most, F.lit(0))).otherwise(F.lit(0))

            def parted(count: Column) -> Column:
                out = F.transform(F.slice(held, F.lit(1), count), lambda one: one.withField(_TRIGGER, at))
                rest = F.slice(held, count + 1, F.size(held))
                return F.struct(rest.alias("held"), F.concat(made["out"], out).alias("out"))

            return let(going, parted)

        return let(put(made["held"]), leave)

    made = reduced(rows, [TASK], [ORDER, PLACE], nothing, step)
    each = made.select(TASK, F.explode(F.concat(F.col(MADE)["out"], F.col(MADE)["held"])).alias("one"))
    last = F.col("one")["last"]
    return each.select(
        TASK, *(last[name].alias(name) for name in update), F.col("one")[SINCE].alias(SINCE),
        F.col("one")[_FIRST].alias(_FIRST), F.col("one")[_TRIGGER].alias(_TRIGGER),
    )  # fmt: skip


def _type(frame: DataFrame, name: str) -> DataType:
    return frame.schema[name].dataType
