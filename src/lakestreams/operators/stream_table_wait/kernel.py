"""Stream-table join whose records look out for rows that come after them, inner and left: `wait` and `amend`.

The law: a record that meets no row of its key at its place in the order (see `stream_table`) looks out for the first row
of its key, deletions aside, that comes before the task's clock passes its time and a bound. `wait=w`: it has one outcome,
either that row at the row's place, or none at the record that moved the clock past that, where it comes out without a
row (left) or is refused (inner). `amend=a` (left): a record that has come out without a row is put right by that row, in a
second result of the kind `amended`, at the row's place.

Source: DESIGN section 1; Kafka Streams has no such choice.

Plan: records that look out, table changes and the table's rows are exchanged once by key and sorted twice (the row
before, the row behind); for each bound they are exchanged by task and sorted once next to the clocks; results once by
trigger.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.operators.clocks import with_clocks
from lakestreams.operators.records import (
    AMENDED,
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
    TICK,
    TIME,
    UNMATCHED,
    VALUE,
    is_new,
    renumber,
)
from lakestreams.operators.stream_table_wait import outcomes
from lakestreams.operators.windows import AT, CLOCK, CLOCKS, LEFT_VALUE, both_sides

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame

    from lakestreams.operators.stream_table_wait.outcomes import WaitOptions
    from lakestreams.topology.kinds import JoinKind

CAME, EXPIRED = "came", "expired"
_TRIGGER = "trigger"
_OUTCOME, _OWN, _FORTH, _BACK = "fate", "own", "forth", "back"


def execute(
    points: DataFrame,
    changes: DataFrame,
    state: DataFrame | None,
    join: WaitOptions,
    since: int,
    counted: Callable[[DataFrame], DataFrame] = lambda looked: looked,
) -> DataFrame:
    """The rows that new records trigger.

    Args:
        points: a records frame of the stream with `task` and `moves`: what `retain` kept, and what is new.
        changes: new versions of the table, with `task` and `moves`.
        state: the table's rows of the past, one a key; or None.
        since: the first new cycle.
        counted: counts the records that look out on their way (see `counts`), and gives them as they are.

    Returns:
        Records columns, key and time the record's, with the row's key and value in `rk` and `rv`, null where there is
        none.
    """
    both = with_clocks(both_sides(points, changes, join.clocks), join.clocks, since)
    looked = counted(outcomes.of_records(both, state, join, since))
    own, at, waited, behind = F.col(AT), F.col(outcomes.BEHIND)["at"], F.col(outcomes.WAITED), F.col(outcomes.BEHIND)
    nothing = F.lit(None).cast(looked.schema[outcomes.BEFORE].dataType)

    def outcome(when: Column, trigger: Column, kind: str, row: Column) -> Column:
        known = F.struct(trigger.alias(_TRIGGER), F.lit(kind).alias(KIND), row.alias(outcomes.ROW))
        return F.when(when & (trigger[ORDER]["cycle"] >= since), known)

    possible = [
        outcome(outcomes.meets_now(since), own, MATCHED, F.col(outcomes.BEFORE)),
        outcome(outcomes.met_waiting(), at, MATCHED, behind),
    ]
    if join.how == "left":
        possible.append(outcome(outcomes.has_expired(since), waited, UNMATCHED, nothing))
    if join.amend is not None:
        possible.append(outcome(outcomes.met_later(since), at, AMENDED, behind))
    each = looked.withColumn(_OUTCOME, F.explode(F.filter(F.array(*possible), lambda one: one.isNotNull())))
    with_outcomes = each.withColumns({name: F.col(_OUTCOME)[name] for name in (_TRIGGER, KIND, outcomes.ROW)})
    return _placed(with_outcomes, changes, join)


def counts(join: WaitOptions, since: int, wanted: int) -> dict[str, Column]:
    """What is counted of the records that look out, by name: how many came, and what became of them.

    Args:
        since: the first new cycle.
        wanted: the first cycle whose results are counted.

    Returns:
        Aggregates over what `execute` hands to `counted`: `came`, and `matched`, `unmatched`, `amended`; `expired` is
        what an inner join has no row of.
    """

    def of(when: Column, trigger: Column) -> Column:
        return F.count_if(when & (trigger[ORDER]["cycle"] >= wanted))

    own, at, waited = F.col(AT), F.col(outcomes.BEHIND)["at"], F.col(outcomes.WAITED)
    result = {
        CAME: F.count_if(is_new(wanted) & outcomes.of_use(join)),
        MATCHED: of(outcomes.meets_now(since), own) + of(outcomes.met_waiting(), at),
        UNMATCHED if join.how == "left" else EXPIRED: of(outcomes.has_expired(since) & outcomes.of_use(join), waited),
    }
    return result | ({AMENDED: of(outcomes.met_later(since), at)} if join.amend is not None else {})


def expired(points: DataFrame, changes: DataFrame, state: DataFrame | None, join: WaitOptions, since: int) -> DataFrame:
    """Of an inner join what has waited for nothing: `o` (the cycle that of its end), `ts`, `contributors`, `closed`."""
    both = with_clocks(both_sides(points, changes, join.clocks), join.clocks, since)
    ended = outcomes.of_records(both, state, join, since).where(outcomes.has_expired(since) & F.col(KEY).isNotNull())
    return ended.where(F.col(outcomes.WAITED)[ORDER]["cycle"] >= since).select(
        F.col(ORDER).withField("cycle", F.col(outcomes.WAITED)[ORDER]["cycle"]).alias(ORDER),
        TIME,
        CONTRIBUTORS,
        (F.col(TIME) + F.lit(join.wait)).alias("closed"),
    )


def retain(points: DataFrame, changes: DataFrame, state: DataFrame | None, join: WaitOptions, since: int) -> DataFrame:
    """The records that still look out, and one row a task that carries its clock: records with `task` and clocks."""
    both = with_clocks(both_sides(points, changes, join.clocks), join.clocks, since)
    waiting = outcomes.of_records(both, state, join, since).where(
        F.col(KEY).isNotNull() & ~outcomes.meets_now(since) & ~outcomes.met_waiting()
    )
    looks_out = F.lit(False)
    if join.wait is not None:
        looks_out |= F.col(outcomes.WAITED).isNull()
    if join.amend is not None:
        looks_out |= F.col(outcomes.AMENDED_UNTIL).isNull() & ~outcomes.met_later(since)
    columns = (KEY, LEFT_VALUE, TIME, ORDER, PLACE, KIND, CONTRIBUTORS, TASK, *CLOCKS)
    last = both.groupBy(TASK).agg(F.max_by(F.struct(*columns), AT).alias("last"), F.max(CLOCK).alias("reached"))
    carried = {KEY: F.lit(None), LEFT_VALUE: F.lit(None), KIND: F.lit(TICK), CLOCK: F.col("reached")}
    carriers = last.select(
        *(
            carried.get(name, F.col("last")[name]).cast(both.schema[name].dataType).alias(name)
            for name in columns
            if name != TASK
        ),
        F.col(TASK),
    )
    return waiting.where(looks_out).select(*columns).unionByName(carriers).withColumnRenamed(LEFT_VALUE, VALUE)


def explain(how: JoinKind, wait: int | None, amend: int | None) -> str:
    """The plan in words, for `check --explain`."""
    bounds = [f"{word} {ms} ms" for word, ms in (("waits", wait), ("amends for", amend)) if ms is not None]
    return (
        f"stream-table {how} join, lookup latest, {' and '.join(bounds)}: records, changes and rows exchanged once by "
        "key and sorted twice; exchanged once a bound by task, beside the clocks"
    )


def _placed(with_outcomes: DataFrame, changes: DataFrame, join: WaitOptions) -> DataFrame:
    """Rows with their places among those of their trigger: what its time closes, below 0, then what meets it."""
    with_outcomes = with_outcomes.withColumn(_OWN, F.col(_TRIGGER) == F.col(AT))
    closed = F.col(KIND) == UNMATCHED
    of_trigger = Window.partitionBy(_TRIGGER, closed)
    numbers = {
        _FORTH: F.row_number().over(of_trigger.orderBy(AT)),
        _BACK: F.row_number().over(of_trigger.orderBy(F.desc(AT))),
    }
    place = F.when(F.col(_OWN), F.col(PLACE)).when(closed, -F.col(_BACK)).otherwise(F.col(_FORTH) - 1)
    placed = with_outcomes.withColumns(numbers).withColumn(PLACE, place)
    met = F.col(outcomes.ROW).isNotNull()
    rows = placed.withColumns(
        {
            ORDER: F.col(_TRIGGER)[ORDER],
            VALUE: F.col(LEFT_VALUE),
            CONTRIBUTORS: F.when(met, F.concat(F.col(CONTRIBUTORS), F.col(outcomes.ROW)[outcomes.REF])).otherwise(
                F.col(CONTRIBUTORS)
            ),
            RIGHT_KEY: F.when(met, F.col(KEY).cast(changes.schema[KEY].dataType)),
            RIGHT_VALUE: F.col(outcomes.ROW)[RIGHT_VALUE],
        }
    )
    if join.multi_row or join.overlap != "none":
        rows = renumber(rows, F.col(_TRIGGER), F.col(PLACE))
    return rows.select(*RECORD_COLUMNS, RIGHT_KEY, RIGHT_VALUE)
