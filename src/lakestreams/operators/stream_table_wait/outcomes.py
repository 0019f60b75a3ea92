"""What becomes of a record that looks out: the rows before and behind it, and when its bounds have passed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812

from lakestreams.operators.clocks import CARRIED
from lakestreams.operators.records import CONTRIBUTORS, KEY, RIGHT_VALUE, TASK, TIME, VALUE, is_new, number_of
from lakestreams.operators.windows import ARM, AT, CLOCK, LEFT, LEFT_VALUE, RIGHT, Windowed

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from lakestreams.topology.kinds import JoinKind, Overlap

ROW: Final = "row"
BEFORE, BEHIND, REF = "before_row", "behind_row", "ref"
WAITED, AMENDED_UNTIL = "waited", "amended_until"  # the places at which the clock has passed the bounds
_HASH, _IS_STEP, _AHEAD, _REACHED, _BEFORE_IS_NONE = "h", "is_step", "ahead", "t", "meets_none"


@dataclass(frozen=True)
class WaitOptions:
    """The options; times in ms.

    Attributes:
        how: `inner` or `left`.
        wait: how long a record waits for a row, or None.
        amend: how long a result without a row can be put right, or None; of a left join.
        overlap: whether both sides hold rows of one source record, and whose come first.
        multi_row: whether a side holds several rows of one source record.
        realm, ascending: of the clocks (see `windows.Windowed`).
    """

    how: JoinKind
    wait: int | None
    amend: int | None
    overlap: Overlap = "none"
    multi_row: bool = False
    realm: int = 1
    ascending: bool = False

    @property
    def clocks(self) -> Windowed:
        """The sides as a windowed join has them: for their places, and their tasks' clocks over the records of both."""
        return Windowed("left", 0, 0, overlap=self.overlap, multi_row=self.multi_row, realm=self.realm,
                        ascending=self.ascending)  # fmt: skip


def of_use(join: WaitOptions) -> Column:
    """Whether the join has a use for a record: an inner one has none for a null key."""
    return F.lit(True) if join.how == "left" else F.col(KEY).isNotNull()


def meets_now(since: int) -> Column:
    """Whether a row of its key is valid at its own place; what looks out from before has met none."""
    return is_new(since) & F.coalesce(F.col(BEFORE)[RIGHT_VALUE].isNotNull(), F.lit(False))


def met_waiting() -> Column:
    """Whether a row came while it waited."""
    at, ends = F.col(BEHIND)["at"], F.col(WAITED)
    return F.coalesce(F.col(_BEFORE_IS_NONE) & at.isNotNull() & (ends.isNull() | (at < ends)), F.lit(False))


def has_expired(since: int) -> Column:
    """Whether it has stopped waiting without a row."""
    return ~meets_now(since) & F.col(WAITED).isNotNull() & ~met_waiting()


def met_later(since: int) -> Column:
    """Whether a row came after it had been given up, in time."""
    at, ends = F.col(BEHIND)["at"], F.col(AMENDED_UNTIL)
    in_time = at.isNotNull() & (at >= F.col(WAITED)) & (ends.isNull() | (at < ends))
    return has_expired(since) & F.coalesce(in_time, F.lit(False))


def of_records(both: DataFrame, state: DataFrame | None, join: WaitOptions, since: int) -> DataFrame:
    """Every record that may give something: its columns, the rows before and behind it, and when its bounds passed."""
    lookers = both.where((F.col(ARM) == LEFT) & F.col(LEFT_VALUE).isNotNull())
    records = _with_rows(lookers, both, state).withColumn(_BEFORE_IS_NONE, ~meets_now(since))
    # without a wait it is given up at once
    records = (
        records.withColumn(WAITED, F.col(AT)) if join.wait is None else _ended(both, records, join.wait, WAITED, since)
    )
    if join.amend is not None:
        records = _ended(both, records, join.amend, AMENDED_UNTIL, since)
    # what has no key can meet nothing
    return records.withColumn(WAITED, F.when(F.col(KEY).isNull(), F.col(AT)).otherwise(F.col(WAITED)))


def _with_rows(lookers: DataFrame, both: DataFrame, state: DataFrame | None) -> DataFrame:
    """Records with the row of their key before them and the first one behind them that is no deletion."""
    types = {name: both.schema[name].dataType for name in (KEY, AT)}
    changed = both.where((F.col(ARM) == RIGHT) & F.col(KEY).isNotNull())
    row = F.struct(F.col("rv").alias(RIGHT_VALUE), F.col(CONTRIBUTORS).alias(REF), F.col(AT).alias("at"))
    versions = changed.select(KEY, AT, row.alias(ROW))
    if state is not None:
        no_place = F.lit(None).cast(types[AT])
        known = F.struct(F.col(VALUE).alias(RIGHT_VALUE), F.col(CONTRIBUTORS).alias(REF), no_place.alias("at"))
        versions = versions.unionByName(
            state.select(F.col(KEY).cast(types[KEY]).alias(KEY), no_place.alias(AT), known.alias(ROW))
        )
    columns = [name for name in lookers.columns if name not in (KEY, AT)]
    events = lookers.select(KEY, AT, F.struct(*columns).alias("looks"))
    every = events.unionByName(versions, allowMissingColumns=True)
    every = every.withColumn(_HASH, number_of(F.col(KEY), F.col(AT)))
    by_key, so_far = Window.partitionBy(_HASH, KEY), (Window.unboundedPreceding, Window.currentRow)
    before = F.last(ROW, ignorenulls=True).over(by_key.orderBy(F.asc_nulls_first(AT)).rowsBetween(*so_far))
    existing = F.when(F.col(ROW)[RIGHT_VALUE].isNotNull() & F.col(AT).isNotNull(), F.col(ROW))
    behind = F.last(existing, ignorenulls=True).over(by_key.orderBy(F.desc_nulls_last(AT)).rowsBetween(*so_far))
    both_ways = every.withColumns({BEFORE: before, BEHIND: behind}).where(F.col("looks").isNotNull())
    no_key = F.col(KEY).isNull()
    return both_ways.select(
        KEY,
        AT,
        *(F.col("looks")[name].alias(name) for name in columns),
        *(F.when(~no_key, F.col(name)).alias(name) for name in (BEFORE, BEHIND)),
    )


def _ended(both: DataFrame, records: DataFrame, bound: int, name: str, since: int) -> DataFrame:
    """Records with the place at which the clock has passed their time and a bound, at the earliest their own; or null.

    A record whose bound has passed when it comes ends at its own place, and so does not look out at all.

    The clock ascends in the order, so with all sorted by time, newest first, the first record whose clock is past is the
    last one seen. Of the past, the record that carries the clock is enough: what it has closed is not new.
    """
    steps = both.where(is_new(since) | (F.col(CLOCK) == F.col(CARRIED))).select(
        TASK, AT, F.col(CLOCK).alias(_REACHED), F.lit(True).alias(_IS_STEP), F.lit(False).alias(_AHEAD)
    )
    waiting = records.withColumns({_REACHED: F.col(TIME) + F.lit(bound), _IS_STEP: F.lit(False), _AHEAD: F.lit(True)})
    newest_first = (
        Window.partitionBy(TASK)
        .orderBy(F.desc(_REACHED), F.desc(_AHEAD), F.desc(AT))
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    step = F.last(F.when(F.col(_IS_STEP), F.col(AT)), ignorenulls=True).over(newest_first)
    ended = waiting.unionByName(steps, allowMissingColumns=True).withColumn(name, step).where(~F.col(_IS_STEP))
    ended = ended.withColumn(name, F.when(F.col(name).isNotNull(), F.greatest(name, AT)))
    return ended.drop(_REACHED, _IS_STEP, _AHEAD)
