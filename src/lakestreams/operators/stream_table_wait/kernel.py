"""Stream-table join whose records look out for rows that come after them, inner and left: `wait` and `amend`.

The law: a record that meets no row of its key at its place in the order (see `stream_table`) does not give up at once.
`wait=w`: it waits until the task's clock passes its time and w. The first row of its key that comes before that is what
it meets, at the row's place; if none does, it comes out without a row (left) or is refused (inner), at the record that
moved the clock. One fate a record.
`amend=a` (left): having come out without a row, it is put right by the first row of its key that comes before the clock
passes its time and a: a second result, of the kind `amended`, at the row's place.
A deletion is no row. A record whose bound has passed when it comes does not look out at all. The clock is the task's, over
the records of both sides, as in windowed joins (`clocks`). A result has the record's key and time. Source: DESIGN section
1; Kafka Streams has no such choice. Rows of one trigger: what its time closes, in places below 0, then what meets it.

Plan: records that look out, table changes and the table's rows are exchanged once by key and sorted twice (the row
before, the row behind); for each bound they are exchanged by task and sorted once beside the clocks; results once by
trigger.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.operators.clocks import CARRIED, with_clocks
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
from lakestreams.operators.windows import ARM, AT, CLOCK, CLOCKS, LEFT, LEFT_VALUE, RIGHT, Windowed, arms

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame

    from lakestreams.topology.kinds import JoinKind, Overlap

_HASH, _ROW, _BEFORE, _BEHIND, _REF = "h", "row", "before_row", "behind_row", "ref"
_WAITED, _AMENDED = "waited", "amended_until"  # the places at which the clock has passed the bounds
_TRIGGER, _IS_STEP, _AHEAD, _REACHED = "trigger", "is_step", "ahead", "t"
_BEFORE_IS_NONE = "meets_none"
CAME, EXPIRED = "came", "expired"
_FATE, _OWN, _FORTH, _BACK = "fate", "own", "forth", "back"


@dataclass(frozen=True)
class Race:
    """The options; times in ms.

    Attributes:
        how: `inner` or `left`.
        wait: how long a record waits for a row, or None.
        amend: how long a result without a row can be put right, or None; of a left join.
        overlap: whether both sides hold rows of one source record, and whose come first.
        plural: whether a side holds several rows of one source record.
        realm, ascending: of the clocks (see `windows.Windowed`).
    """

    how: JoinKind
    wait: int | None
    amend: int | None
    overlap: Overlap = "none"
    plural: bool = False
    realm: int = 1
    ascending: bool = False

    @property
    def clocks(self) -> Windowed:
        """The sides as a windowed join has them: for their places and their tasks' clocks."""
        return Windowed("left", 0, 0, overlap=self.overlap, plural=self.plural, realm=self.realm,
                        ascending=self.ascending)  # fmt: skip


def execute(
    points: DataFrame,
    changes: DataFrame,
    state: DataFrame | None,
    join: Race,
    since: int,
    counted: Callable[[DataFrame], DataFrame] = lambda found: found,
) -> DataFrame:
    """The rows that new records trigger.

    Args:
        points: a records frame of the stream with `task` and `moves`: what `retain` kept, and what is new.
        changes: new versions of the table, with `task` and `moves`.
        state: the table's rows of the past, one a key; or None.
        since: the first new cycle.
        counted: counts the records that look out on their way (see `counts`), and gives them as they are.

    Returns:
        Records columns with the row's key and value in `rk` and `rv`, null where there is none.
    """
    both = with_clocks(arms(points, changes, join.clocks), join.clocks, since)
    found = counted(_fates(both, state, join, since))
    own, at, waited, behind = F.col(AT), F.col(_BEHIND)["at"], F.col(_WAITED), F.col(_BEHIND)
    nothing = F.lit(None).cast(found.schema[_BEFORE].dataType)

    def fate(when: Column, trigger: Column, kind: str, row: Column) -> Column:
        known = F.struct(trigger.alias(_TRIGGER), F.lit(kind).alias(KIND), row.alias(_ROW))
        return F.when(when & (trigger[ORDER]["cycle"] >= since), known)

    fates = [fate(_meets_now(since), own, MATCHED, F.col(_BEFORE)), fate(_met_waiting(), at, MATCHED, behind)]
    if join.how == "left":
        fates.append(fate(_given_up(since), waited, UNMATCHED, nothing))
    if join.amend is not None:
        fates.append(fate(_met_later(since), at, AMENDED, behind))
    each = found.withColumn(_FATE, F.explode(F.filter(F.array(*fates), lambda one: one.isNotNull())))
    fated = each.withColumns({_TRIGGER: F.col(_FATE)[_TRIGGER], KIND: F.col(_FATE)[KIND], _ROW: F.col(_FATE)[_ROW]})
    return _placed(fated, changes, join)


def counts(join: Race, since: int, wanted: int) -> dict[str, Column]:
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

    own, at, waited = F.col(AT), F.col(_BEHIND)["at"], F.col(_WAITED)
    found = {
        CAME: F.count_if(is_new(wanted) & _of_use(join)),
        MATCHED: of(_meets_now(since), own) + of(_met_waiting(), at),
        UNMATCHED if join.how == "left" else EXPIRED: of(_given_up(since) & _of_use(join), waited),
    }
    return found | ({AMENDED: of(_met_later(since), at)} if join.amend is not None else {})


def expired(points: DataFrame, changes: DataFrame, state: DataFrame | None, join: Race, since: int) -> DataFrame:
    """Of an inner join what has waited for nothing: `o` (the cycle that of its end), `ts`, `contributors`, `closed`."""
    both = with_clocks(arms(points, changes, join.clocks), join.clocks, since)
    found = _fates(both, state, join, since).where(_given_up(since) & F.col(KEY).isNotNull())
    return found.where(F.col(_WAITED)[ORDER]["cycle"] >= since).select(
        F.col(ORDER).withField("cycle", F.col(_WAITED)[ORDER]["cycle"]).alias(ORDER),
        TIME,
        CONTRIBUTORS,
        (F.col(TIME) + F.lit(join.wait)).alias("closed"),
    )


def retain(points: DataFrame, changes: DataFrame, state: DataFrame | None, join: Race, since: int) -> DataFrame:
    """The records that still look out, and one row a task that carries its clock: records with `task` and clocks."""
    both = with_clocks(arms(points, changes, join.clocks), join.clocks, since)
    found = _fates(both, state, join, since).where(F.col(KEY).isNotNull() & ~_meets_now(since) & ~_met_waiting())
    looks_out = F.lit(False)
    if join.wait is not None:
        looks_out |= F.col(_WAITED).isNull()
    if join.amend is not None:
        looks_out |= F.col(_AMENDED).isNull() & ~_met_later(since)
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
    return found.where(looks_out).select(*columns).unionByName(carriers).withColumnRenamed(LEFT_VALUE, VALUE)


def explain(how: JoinKind, wait: int | None, amend: int | None) -> str:
    """The plan in words, for `check --explain`."""
    bounds = [f"{word} {ms} ms" for word, ms in (("waits", wait), ("amends for", amend)) if ms is not None]
    return (
        f"stream-table {how} join, lookup latest, {' and '.join(bounds)}: records, changes and rows exchanged once by "
        "key and sorted twice; exchanged once a bound by task, beside the clocks"
    )


def _of_use(join: Race) -> Column:
    """Whether the join has a use for a record: an inner one has none for a null key."""
    return F.lit(True) if join.how == "left" else F.col(KEY).isNotNull()


# --- what becomes of a record ----------------------------------------------------------------------------------------


def _meets_now(since: int) -> Column:
    """Whether a row of its key is valid at its own place; what looks out from before has met none."""
    return is_new(since) & F.coalesce(F.col(_BEFORE)[RIGHT_VALUE].isNotNull(), F.lit(False))


def _met_waiting() -> Column:
    """Whether a row came while it waited."""
    at, ends = F.col(_BEHIND)["at"], F.col(_WAITED)
    return F.coalesce(F.col(_BEFORE_IS_NONE) & at.isNotNull() & (ends.isNull() | (at < ends)), F.lit(False))


def _given_up(since: int) -> Column:
    """Whether it has stopped waiting without a row."""
    return ~_meets_now(since) & F.col(_WAITED).isNotNull() & ~_met_waiting()


def _met_later(since: int) -> Column:
    """Whether a row came after it had been given up, in time."""
    at, ends = F.col(_BEHIND)["at"], F.col(_AMENDED)
    in_time = at.isNotNull() & (at >= F.col(_WAITED)) & (ends.isNull() | (at < ends))
    return _given_up(since) & F.coalesce(in_time, F.lit(False))


def _fates(both: DataFrame, state: DataFrame | None, join: Race, since: int) -> DataFrame:
    """Every record that may give something: its columns, the rows before and behind it, and when its bounds passed."""
    lookers = both.where((F.col(ARM) == LEFT) & F.col(LEFT_VALUE).isNotNull())
    found = _with_rows(lookers, both, state).withColumn(_BEFORE_IS_NONE, ~_meets_now(since))
    # without a wait it is given up at once
    found = (
        found.withColumn(_WAITED, F.col(AT)) if join.wait is None else _ended(both, found, join.wait, _WAITED, since)
    )
    if join.amend is not None:
        found = _ended(both, found, join.amend, _AMENDED, since)
    # what has no key can meet nothing
    return found.withColumn(_WAITED, F.when(F.col(KEY).isNull(), F.col(AT)).otherwise(F.col(_WAITED)))


def _with_rows(lookers: DataFrame, both: DataFrame, state: DataFrame | None) -> DataFrame:
    """Records with the row of their key before them and the first one behind them that is no deletion."""
    types = {name: both.schema[name].dataType for name in (KEY, AT)}
    changed = both.where((F.col(ARM) == RIGHT) & F.col(KEY).isNotNull())
    row = F.struct(F.col("rv").alias(RIGHT_VALUE), F.col(CONTRIBUTORS).alias(_REF), F.col(AT).alias("at"))
    versions = changed.select(KEY, AT, row.alias(_ROW))
    if state is not None:
        no_place = F.lit(None).cast(types[AT])
        known = F.struct(F.col(VALUE).alias(RIGHT_VALUE), F.col(CONTRIBUTORS).alias(_REF), no_place.alias("at"))
        versions = versions.unionByName(
            state.select(F.col(KEY).cast(types[KEY]).alias(KEY), no_place.alias(AT), known.alias(_ROW))
        )
    columns = [name for name in lookers.columns if name not in (KEY, AT)]
    events = lookers.select(KEY, AT, F.struct(*columns).alias("looks"))
    every = events.unionByName(versions, allowMissingColumns=True)
    # records without a key meet nothing and must not all come to one place
    spread = F.when(F.col(KEY).isNull(), F.xxhash64(AT)).otherwise(F.xxhash64(KEY))
    every = every.withColumn(_HASH, spread)
    by_key, so_far = Window.partitionBy(_HASH, KEY), (Window.unboundedPreceding, Window.currentRow)
    before = F.last(_ROW, ignorenulls=True).over(by_key.orderBy(F.asc_nulls_first(AT)).rowsBetween(*so_far))
    there = F.when(F.col(_ROW)[RIGHT_VALUE].isNotNull() & F.col(AT).isNotNull(), F.col(_ROW))
    behind = F.last(there, ignorenulls=True).over(by_key.orderBy(F.desc_nulls_last(AT)).rowsBetween(*so_far))
    found = every.withColumns({_BEFORE: before, _BEHIND: behind}).where(F.col("looks").isNotNull())
    no_key = F.col(KEY).isNull()
    return found.select(
        KEY,
        AT,
        *(F.col("looks")[name].alias(name) for name in columns),
        *(F.when(~no_key, F.col(name)).alias(name) for name in (_BEFORE, _BEHIND)),
    )


def _ended(both: DataFrame, found: DataFrame, bound: int, name: str, since: int) -> DataFrame:
    """Records with the place at which the clock has passed their time and a bound, at the earliest their own; or null.

    The clock ascends in the order, so with all sorted by time, newest first, the first record whose clock is past is the
    last one seen. Of the past, the record that carries the clock is enough: what it has closed is not new.
    """
    steps = both.where(is_new(since) | (F.col(CLOCK) == F.col(CARRIED))).select(
        TASK, AT, F.col(CLOCK).alias(_REACHED), F.lit(True).alias(_IS_STEP), F.lit(False).alias(_AHEAD)
    )
    waiting = found.withColumns({_REACHED: F.col(TIME) + F.lit(bound), _IS_STEP: F.lit(False), _AHEAD: F.lit(True)})
    newest_first = (
        Window.partitionBy(TASK)
        .orderBy(F.desc(_REACHED), F.desc(_AHEAD), F.desc(AT))
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    step = F.last(F.when(F.col(_IS_STEP), F.col(AT)), ignorenulls=True).over(newest_first)
    ended = waiting.unionByName(steps, allowMissingColumns=True).withColumn(name, step).where(~F.col(_IS_STEP))
    ended = ended.withColumn(name, F.when(F.col(name).isNotNull(), F.greatest(name, AT)))
    return ended.drop(_REACHED, _IS_STEP, _AHEAD)


def _placed(fated: DataFrame, changes: DataFrame, join: Race) -> DataFrame:
    """Rows with their places among those of their trigger."""
    fated = fated.withColumn(_OWN, F.col(_TRIGGER) == F.col(AT))
    closed = F.col(KIND) == UNMATCHED
    of_trigger = Window.partitionBy(_TRIGGER, closed)
    numbers = {
        _FORTH: F.row_number().over(of_trigger.orderBy(AT)),
        _BACK: F.row_number().over(of_trigger.orderBy(F.desc(AT))),
    }
    place = F.when(F.col(_OWN), F.col(PLACE)).when(closed, -F.col(_BACK)).otherwise(F.col(_FORTH) - 1)
    placed = fated.withColumns(numbers).withColumn(PLACE, place)
    met = F.col(_ROW).isNotNull()
    rows = placed.withColumns(
        {
            ORDER: F.col(_TRIGGER)[ORDER],
            VALUE: F.col(LEFT_VALUE),
            CONTRIBUTORS: F.when(met, F.concat(F.col(CONTRIBUTORS), F.col(_ROW)[_REF])).otherwise(F.col(CONTRIBUTORS)),
            RIGHT_KEY: F.when(met, F.col(KEY).cast(changes.schema[KEY].dataType)),
            RIGHT_VALUE: F.col(_ROW)[RIGHT_VALUE],
        }
    )
    if join.plural or join.overlap != "none":
        rows = renumber(rows, F.col(_TRIGGER), F.col(PLACE))
    return rows.select(*RECORD_COLUMNS, RIGHT_KEY, RIGHT_VALUE)
