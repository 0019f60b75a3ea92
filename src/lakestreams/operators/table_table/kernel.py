"""Table-table join, inner, left and outer: two tables' rows of one key, kept up to date.

The law: each update of either side is joined with the row that the other side has then, and the result is what the join
of both rows is: `matched`, `unmatched`, or `tombstone` where nothing is left. An update gives a result if the other side
has a row, or if its own side may stand alone (left of a left join, either of an outer one) and has or had a row. The
result's time is the later of the update's and the other row's.

Source: Kafka Streams' KTableKTable{Inner,Left,Right,Outer}Join and KTableKTableJoinMerger; semantics section 6.

Both sides of one record (a self-join, or a chain that comes back to a table): Kafka Streams puts the record into the
table's store before any join sees it. So each arm is looked up as it is after the whole trigger, and the record gives
a result an arm, the arm first whose path leaves the table first. A table joined with itself therefore gives each
result twice, and an inner self-join says nothing when a row goes: each arm finds the other side gone already. This is
Kafka's (recorded: tt-int-multi-*), stale result row included. Where a repartition lies on the way of one arm, its row
comes as a record of its own (`apart`): the first arm finds the other side as it was before, the second one after.

Plan: one exchange by the key, one sort; a row is both an update and the state that the other side sees. One more
exchange and sort (the places of rows) only if both sides hold rows of one record and may hold several of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.operators import versions as validity
from lakestreams.operators.records import (
    BY_KEY,
    CONTRIBUTORS,
    KEY,
    KEY_HASH,
    OLD,
    ORDER,
    PLACE,
    RECORD_COLUMNS,
    TIME,
    VALUE,
    hashed,
    is_new,
    renumber,
)
from lakestreams.operators.table_table.results import ARM, LEFT, OF_LEFT, OF_RIGHT, RIGHT, SEEN_TIME, before, joined
from lakestreams.operators.versions import TableSide

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakestreams.topology.kinds import OuterJoinKind, Overlap


def execute(
    left: TableSide,
    right: TableSide,
    how: OuterJoinKind,
    since: int,
    *,
    overlap: Overlap = "none",
    multi_row: bool = False,
    sequential_sides: bool = False,
    with_old: bool = False,
) -> DataFrame:
    """Joins the new changes of both tables.

    Args:
        left, right: versions, new ones and older ones; `old` and `seen_ts` are used where there.
        overlap: whether both sides hold rows of one trigger, and whose come first.
        multi_row: whether a side may hold several rows of one trigger.
        sequential_sides: whether both sides' rows of one trigger come one after the other.
        with_old: whether the result feeds another table join.

    Returns:
        Records: `k` (named as the left key), `v` (the left value), `rk`, `rv`, `kind` matched, unmatched or tombstone.
        With `with_old` also `old_v`, `old_rv`, `old_kind`: the result for what the updated side had before (`old_kind`
        null: none), and `seen_ts`.
    """
    rows = _both(left, right, overlap, sequential_sides=sequential_sides, needs_old=how != "inner" or with_old)
    is_left = F.col(ARM) == LEFT
    left_there, right_there = F.col(OF_LEFT)[VALUE].isNotNull(), F.col(OF_RIGHT)[VALUE].isNotNull()
    # nothing is compared: an update that changes nothing is a result, a deletion of an absent row a tombstone
    says = F.when(is_left, right_there).otherwise(left_there)
    if how != "inner":
        has_or_had = [left_there | F.col(OF_LEFT)[OLD].isNotNull(), right_there | F.col(OF_RIGHT)[OLD].isNotNull()]
        alone = F.when(is_left, has_or_had[LEFT]).otherwise(has_or_had[RIGHT] if how == "outer" else F.lit(False))
        says = says | alone
    right_key = validity.renamed(left.all(), KEY, validity.key_type(right.all()).names)
    columns = joined(how, F.when(right_there, right_key)) | (before(how) if with_old else {})
    results = rows.where(is_new(since) & says).select(
        *(columns.pop(name, F.col(name)).alias(name) for name in RECORD_COLUMNS),
        *(column.alias(name) for name, column in columns.items()),
        ARM,
        KEY_HASH,
    )
    return _places(results, overlap, multi_row=multi_row).drop(ARM, KEY_HASH)


def explain(how: OuterJoinKind) -> str:
    """The plan in words, for `check --explain`."""
    return f"table-table {how} join: both tables are exchanged by the key and sorted once; no join of Spark's is needed"


def _both(left: TableSide, right: TableSide, overlap: Overlap, *, sequential_sides: bool, needs_old: bool) -> DataFrame:
    """Every row with `l` and `r`: its own side's version, and the one that the other side has after the trigger."""
    names = validity.key_type(left.all()).names
    rows = hashed(_arm(left, LEFT, names).unionByName(_arm(right, RIGHT, names), allowMissingColumns=True))
    first = [] if overlap == "none" else [F.col(ARM) if overlap == "left_first" else -F.col(ARM)]
    by_key = Window.partitionBy(*BY_KEY)
    in_order = by_key.orderBy(ORDER, *first, PLACE)
    if needs_old:
        earlier = in_order.rowsBetween(Window.unboundedPreceding, -1)
        before = {name: F.last(name, ignorenulls=True).over(earlier)[VALUE] for name in (OF_LEFT, OF_RIGHT)}
        rows = rows.withColumns({f"{name}_before": column for name, column in before.items()})
    # No trigger on both sides at once: rows up to this one. Otherwise all rows of the trigger, the later ones too.
    until = (
        in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
        if overlap == "none" or sequential_sides
        else by_key.orderBy(ORDER).rangeBetween(Window.unboundedPreceding, Window.currentRow)
    )
    seen = rows.withColumns(
        {f"{name}_seen": F.last(name, ignorenulls=True).over(until) for name in (OF_LEFT, OF_RIGHT)}
    )
    versions = {name: F.coalesce(F.col(name), F.col(f"{name}_seen")) for name in (OF_LEFT, OF_RIGHT)}
    if needs_old:
        sides = {OF_LEFT: left, OF_RIGHT: right}
        versions = {
            name: column if OLD in sides[name].all().columns else column.withField(OLD, F.col(f"{name}_before"))
            for name, column in versions.items()
        }
    return seen.withColumns(versions)


def _arm(side: TableSide, arm: int, names: Sequence[str]) -> DataFrame:
    rows = side.all()
    version = [F.col(VALUE), F.col(TIME), F.col(CONTRIBUTORS)]
    seen = F.coalesce(F.col(SEEN_TIME), F.col(TIME)) if SEEN_TIME in rows.columns else F.col(TIME)
    version.append(seen.alias(SEEN_TIME))
    if OLD in rows.columns:
        version.append(F.col(OLD))
    return rows.select(
        validity.renamed(rows, KEY, names).alias(KEY),
        ORDER,
        PLACE,
        F.lit(arm).alias(ARM),
        F.struct(*version).alias(OF_LEFT if arm == LEFT else OF_RIGHT),
    )


def _places(results: DataFrame, overlap: Overlap, *, multi_row: bool) -> DataFrame:
    """A place of its own for each row of a trigger; the inputs' places do where only one side has rows of it."""
    if overlap == "none":
        return results
    arm = F.col(ARM) if overlap == "left_first" else -F.col(ARM)
    if multi_row:
        return renumber(results, arm, F.col(PLACE))
    # a trigger has one row an arm, both of one key: they lie together already
    return results.withColumn(PLACE, F.row_number().over(Window.partitionBy(*BY_KEY, ORDER).orderBy(arm)) - 1)
