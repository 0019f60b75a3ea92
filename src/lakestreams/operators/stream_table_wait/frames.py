"""Stream-table join whose records look out, over frames: what its kernel gets, and what becomes of its results.

Rows go to Python workers in one of three ways (see `stream_stream.frames`). If by key, Spark finds by task before where
bounds end, and results get their places by their triggers afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import LongType, StructField, StructType

from lakestreams.operators.clocks import CARRIED, with_clocks
from lakestreams.operators.homes import groups_in_words
from lakestreams.operators.nullability import nullable_type
from lakestreams.operators.records import (
    AMENDED,
    CONTRIBUTORS,
    KEY,
    KIND,
    MATCHED,
    ORDER,
    PLACE,
    RIGHT_VALUE,
    TASK,
    TICK,
    TIME,
    UNMATCHED,
    VALUE,
    is_new,
    lean_contributors,
)
from lakestreams.operators.stream_table_wait import worker
from lakestreams.operators.stream_table_wait.worker import CAME, EXPIRED, KEPT, UNTIL, WAITED, WaitOptions
from lakestreams.operators.windows import (
    ARM,
    AT,
    CLOCK,
    CLOCKS,
    LEFT,
    LEFT_VALUE,
    MOVES,
    RECORD_AT,
    RIGHT,
    TURN,
    as_records,
    both_sides,
    kernel_input,
    results_type,
)
from lakestreams.operators.workers import ROWS_OF_A_WORKER, in_workers

if TYPE_CHECKING:
    from pyspark.sql import Column

    from lakestreams.operators.workers import Step
    from lakestreams.topology.kinds import JoinKind

_BEFORE_ALL = -1  # a cycle
_HASH, _REACHED, _IS_STEP = "trigger_hash", "reached_by", "is_step"
Counted: TypeAlias = "Callable[[DataFrame, Mapping[str, Column]], DataFrame]"


@dataclass(frozen=True)
class StreamAndTable:
    """What a join reads: records frames.

    Attributes:
        points: the stream, with `task` and `moves`: what `retain` kept, and what is new.
        changes: new versions of the table, with `task` and `moves`.
        state: the table's rows of the past, one a key, with `task`; or None.
    """

    points: DataFrame
    changes: DataFrame
    state: DataFrame | None = None

    def both(self, join: WaitOptions) -> DataFrame:
        """Points and changes as arms (see `windows`)."""
        return both_sides(self.points, self.changes, join.clocks)


def execute(
    sides: StreamAndTable,
    join: WaitOptions,
    since: int,
    *,
    wanted: int | None = None,
    counted: Counted = lambda rows, _: rows,
) -> DataFrame:
    """The rows that new records trigger.

    Args:
        wanted: the first cycle whose results are counted.
        counted: counts rows on their way by aggregates with names, and gives them as they are: how many records `came`, and what
            became of them: `matched`, `unmatched` and `amended`; `expired` is what an inner join has no row of.

    Returns:
        Records columns, key and time the record's, with the row's key and value in `rk` and `rv`, null where there is
        none.
    """
    of_now, now = is_new(since if wanted is None else wanted), F.col(KIND)
    kinds = [MATCHED, UNMATCHED if join.how == "left" else EXPIRED, *([] if join.amend is None else [AMENDED])]
    counts = {one: F.count_if(of_now & (now == one)) for one in kinds}
    counts[CAME] = F.coalesce(F.sum(F.when(now == CAME, F.col(PLACE))), F.lit(0))
    found = counted(_outcomes(sides, join, since, wanted), counts).where(~now.isin(CAME, EXPIRED))
    several = join.multi_row or join.overlap != "none"
    return as_records(found, sides.changes.schema[KEY].dataType, several=several)


def expired(sides: StreamAndTable, join: WaitOptions, since: int) -> DataFrame:
    """Of an inner join what has waited for nothing: `o` (its cycle that of its end), `ts`, `contributors`, `closed`."""
    ended = _outcomes(sides, join, since, with_records=True).where(F.col(KIND) == EXPIRED)
    at = F.col(RECORD_AT)[ORDER].withField("cycle", F.col(ORDER)["cycle"]).alias(ORDER)
    return ended.select(at, TIME, CONTRIBUTORS, (F.col(TIME) + F.lit(join.wait)).alias("closed"))


def retain(sides: StreamAndTable, join: WaitOptions, since: int) -> DataFrame:
    """The records that still look out, and one row a task that carries its clock: records with `task` and clocks."""
    both = sides.both(join)
    types = {name: LongType() if name == CLOCK else both.schema[name].dataType for name in KEPT}
    schema = StructType([StructField(name, kind) for name, kind in types.items()])
    # of the table it matters only where there are rows
    is_there = F.when(F.col(RIGHT_VALUE).isNotNull(), F.lit(True))
    state = (
        None if sides.state is None else sides.state.withColumn(VALUE, F.when(F.col(VALUE).isNotNull(), F.lit(True)))
    )
    step = partial(worker.looking_out, join, since)
    waiting = _through_workers(both.withColumn(RIGHT_VALUE, is_there), state, step, schema, join, since)
    carried = [name for name in KEPT if name not in (KEY, LEFT_VALUE, KIND, TASK, CLOCK)]
    last = both.groupBy(TASK).agg(F.max_by(F.struct(*carried), AT).alias("last"), F.max(MOVES).alias(CLOCK))
    known = {name: F.col("last")[name] for name in carried} | {
        KIND: F.lit(TICK),
        TASK: F.col(TASK),
        CLOCK: F.col(CLOCK),
    }
    carriers = last.select(
        *(known.get(one.name, F.lit(None)).cast(one.dataType).alias(one.name) for one in schema.fields)
    )
    unknown = {name: F.lit(None).cast("bigint") for name in CLOCKS if name != CLOCK}
    return waiting.unionByName(carriers).withColumns(unknown).withColumnRenamed(LEFT_VALUE, VALUE)


def explain(how: JoinKind, wait: int | None, amend: int | None) -> str:
    """The plan in words, for `check --explain`."""
    bounds = [f"{word} {ms} ms" for word, ms in (("waits", wait), ("amends for", amend)) if ms is not None]
    otherwise = f"exchanged once a bound by task, then by key in groups of {ROWS_OF_A_WORKER:,}, and results by trigger"
    return f"stream-table {how} join, lookup latest, {' and '.join(bounds)}: {groups_in_words(otherwise)}"


def _outcomes(
    sides: StreamAndTable, join: WaitOptions, since: int, wanted: int | None = None, *, with_records: bool = False
) -> DataFrame:
    """What the kernel gives: results, `expired` ones among them, and rows that count (`came`), of which all else is null."""
    both, with_records = sides.both(join), with_records or join.by_key
    schema, wanted = results_type(both, with_records=with_records), since if wanted is None else wanted
    step = partial(worker.joined, join, since, wanted=wanted, with_records=with_records)
    found = _through_workers(both, sides.state, step, schema, join, since)
    return _closed_numbered(found) if join.by_key else found


def _through_workers(
    both: DataFrame, state: DataFrame | None, step: Step, schema: StructType, join: WaitOptions, since: int
) -> DataFrame:
    """What a step makes of rows that share what it needs, in one of the three ways."""
    rows = _kernel_input(_with_ends(both, join, since) if join.by_key else both, state)
    return in_workers(rows, step, schema, *join.spread(), small=(WAITED, UNTIL))


def _with_ends(both: DataFrame, join: WaitOptions, since: int) -> DataFrame:
    """Records that look and rows of the table, with their clocks; of the former also where each bound ends.

    Returns:
        Arms with `waited` and `until`, each only if there is that bound: a place like `at`; null: it has not ended.

    The clock ascends in the order. So if a task's records and steps are sorted by time, the newest first, the step at which a
    record's bound ends is the last one before it; at the same time a step comes behind, since the clock must be past the bound.
    Of the past, what carries the clock is enough: what it has closed is not new.
    """
    known = with_clocks(both, join.clocks, since).withColumn(MOVES, F.col(CLOCK))
    rows = known.where((F.col(ARM) == LEFT) & F.col(LEFT_VALUE).isNotNull())
    steps = known.where(is_new(since) | (F.col(CLOCK) == F.col(CARRIED))).select(
        TASK, AT, F.col(CLOCK).alias(_REACHED), F.lit(True).alias(_IS_STEP)
    )
    newest_first = Window.partitionBy(TASK).orderBy(F.desc(_REACHED), _IS_STEP, F.desc(AT))
    so_far = newest_first.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    step = F.last(F.when(F.col(_IS_STEP), F.col(AT)), ignorenulls=True).over(so_far)
    for name, bound in ((WAITED, join.wait), (UNTIL, join.amend)):
        if bound is not None:
            asked = rows.withColumns({_REACHED: F.col(TIME) + F.lit(bound), _IS_STEP: F.lit(False)})
            told = asked.unionByName(steps, allowMissingColumns=True).withColumn(name, step).where(~F.col(_IS_STEP))
            end = F.when(F.col(name).isNotNull(), F.greatest(name, AT))  # at the earliest where it is itself
            rows = told.withColumn(name, end).drop(_REACHED, _IS_STEP)
    of_table = known.where((F.col(ARM) == RIGHT) & F.col(KEY).isNotNull())
    return rows.unionByName(of_table, allowMissingColumns=True)


def _closed_numbered(outcomes: DataFrame) -> DataFrame:
    """Results with the places of those that a trigger closes, counted over all keys, as the kernel does over all that it has."""
    at, closed = F.struct(ORDER, TURN), F.col(KIND).isin(UNMATCHED, EXPIRED)
    # a number first, as in `hashed`
    of_trigger = Window.partitionBy(_HASH, ORDER, TURN, closed).orderBy(F.desc(RECORD_AT))
    place = F.when(closed & (F.col(RECORD_AT) != at), -F.row_number().over(of_trigger)).otherwise(F.col(PLACE))
    return outcomes.withColumn(_HASH, F.xxhash64(at)).withColumn(PLACE, place).drop(_HASH)


def _kernel_input(both: DataFrame, state: DataFrame | None) -> DataFrame:
    """What the kernel looks at, and what its results are made of. The table's old rows come first, and move no clock."""
    ends = [name for name in (WAITED, UNTIL) if name in both.columns]
    rows = kernel_input(both, MOVES, KIND, *ends)
    if state is None:
        return rows
    known = {
        RIGHT_VALUE: F.col(VALUE),
        ORDER: F.col(ORDER).withField("cycle", F.lit(_BEFORE_ALL)),
        ARM: F.lit(RIGHT),
        CONTRIBUTORS: lean_contributors(),
        **{name: F.col(name) for name in (KEY, TIME, PLACE, TASK, KIND)},
    }
    columns = (
        known.get(one.name, F.lit(None)).cast(nullable_type(one.dataType)).alias(one.name) for one in rows.schema.fields
    )
    return rows.unionByName(state.select(*columns))
