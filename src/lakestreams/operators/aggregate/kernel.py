"""Aggregations: one row a group, kept up to date by a stream's records or by a table's changes.

The law: each record of a stream enters the group of its key; a table's change takes the old row out of its group and
puts the new one into its own, first out, with one result each, or one result if the group is the same. A result's time
is the greatest time that the group has seen since it is there. A group whose rows have all gone is a row of zeros and
nulls (count 0), or is deleted.

Source: Kafka Streams' KStreamAggregate, KStreamReduce, KTableAggregate, KTableReduce; semantics section 7.

Sums are added up in the order, so that those of doubles do not depend on how the input was cut. Of a stream `min`, `max`,
`last` and `collect` run on as sums do; of a table they look at the rows that the group then has (`group_rows`).

What the groups were is a *groups* frame: `k`, `acc` (a struct of what is added up), `v`, `ts`, `o`, `n`; one row a group.

Plan: one exchange by the group and one sort; the groups of the past lie next to the changes. A table whose changes do not
say what was before needs one more exchange and sort by its own key. With `min` and the like of a table: its rows are
exchanged and sorted once more by their key, once by the group, and joined. A fold gathers its rows into arrays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.operators import versions
from lakestreams.operators.aggregate import columns as parts
from lakestreams.operators.aggregate import group_rows as of_members
from lakestreams.operators.aggregate.changes import INTO, OUT
from lakestreams.operators.aggregate.columns import ACC, FOLDS, ROWS, Running
from lakestreams.operators.aggregate.folding import SO_FAR, folded
from lakestreams.operators.aggregate.grouping import LOOK_AT_MEMBERS, Grouping
from lakestreams.operators.records import (
    BY_KEY,
    CONTRIBUTORS,
    KEY,
    KEY_HASH,
    KIND,
    OLD,
    ORDER,
    PLACE,
    RECORD,
    RECORD_COLUMNS,
    TIME,
    TOMBSTONE,
    VALUE,
    coordinates,
    hashed,
    is_new,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


GROUP_COLUMNS = (KEY, ACC, VALUE, TIME, ORDER, PLACE)

_SO_FAR: Final = (Window.unboundedPreceding, Window.currentRow)
_LEFT, _TIMES_GONE = "left", "times_gone"
_NOW, _GONE, _SPAN, _LAST = "now", "gone", "span", "last"


def execute(
    adds_and_subtracts: DataFrame,
    groups: DataFrame | None,
    grouping: Grouping,
    since: int,
    *,
    members: DataFrame | None = None,
    with_old: bool = False,
) -> DataFrame:
    """The rows that new changes make of the groups.

    Args:
        adds_and_subtracts: what enters and leaves (see `changes`), new rows only; of a stream nothing leaves.
        groups: what the groups of the past were, at least those that are touched.
        members: of a table the rows that its groups have (`group_rows.members`), where the options look at them.
        with_old: whether the result says in `old` what the row was before.

    Returns:
        Records; a group that is deleted is a tombstone. `emit="latest"` leaves one row a group and cycle.
    """
    rows = _folded(adds_and_subtracts, groups, grouping, members)
    in_order = Window.partitionBy(*BY_KEY).orderBy(ORDER, PLACE)
    if grouping.emit == "latest":
        following = F.lead(ORDER).over(in_order)["cycle"]
        rows = rows.withColumn(_LAST, following.isNull() | (following != F.col(ORDER)["cycle"])).where(_LAST)
        # a group that came and went within the cycle was never there
        rows = rows.withColumn(OLD, F.lag(VALUE).over(in_order)).where(
            F.col(VALUE).isNotNull() | F.col(OLD).isNotNull()
        )
    elif with_old:
        rows = rows.withColumn(OLD, F.lag(VALUE).over(in_order))
    gone = F.col(VALUE).isNull()
    columns = {KIND: F.when(gone, F.lit(TOMBSTONE)).otherwise(F.lit(RECORD)), CONTRIBUTORS: F.array(coordinates())}
    return rows.where(is_new(since)).select(
        *(columns.get(name, F.col(name)).alias(name) for name in RECORD_COLUMNS), *([OLD] if with_old else [])
    )


def retain(
    adds_and_subtracts: DataFrame, groups: DataFrame | None, grouping: Grouping, *, members: DataFrame | None = None
) -> DataFrame:
    """A groups frame of what the groups are after these changes; deleted ones are not among them.

    Args:
        adds_and_subtracts, groups, grouping, members: as for `execute`.
    """
    rows = _folded(adds_and_subtracts, groups, grouping, members)
    following = F.lead(ORDER).over(Window.partitionBy(*BY_KEY).orderBy(ORDER, PLACE))
    last = rows.withColumn(_LAST, following.isNull()).where(_LAST)
    if grouping.deletes_empty:
        last = last.where(F.col(ACC)[ROWS] > 0)
    elif grouping.may_vanish:
        last = last.where(F.col(VALUE).isNotNull())
    return last.select(*GROUP_COLUMNS)


def explain(grouping: Grouping) -> str:
    """The plan in words, for `check --explain`."""
    further = "; the table's rows are joined to look at what a group has" if grouping.looks_at_members else ""
    folds = "; folds gather a group's changes into arrays" if any(one.kind == "fold" for one in grouping.parts) else ""
    before = ", a table once more by its own key unless its changes say what was before" if grouping.of_table else ""
    return f"aggregation: changes and groups of the past are exchanged by group and sorted once{before}{further}{folds}"


# --- the groups' rows, past ones and new ones ------------------------------------------------------------------------


def _folded(
    adds_and_subtracts: DataFrame, groups: DataFrame | None, grouping: Grouping, members: DataFrame | None
) -> DataFrame:
    """`k_hash, k, acc, v, ts, o, n` of every change and of the groups of the past, which have no `into` and no `out`."""
    rows = adds_and_subtracts.select(KEY, INTO, OUT, TIME, ORDER, PLACE)
    past = F.lit(False)
    if groups is not None:
        rows, past = rows.unionByName(groups, allowMissingColumns=True), F.col(ACC).isNotNull()
    rows = hashed(rows)
    window = Window.partitionBy(*BY_KEY).orderBy(ORDER, PLACE)
    by = [*BY_KEY]
    if grouping.deletes_empty:  # what comes after a group has gone is added up again, as if there had been none
        rows_now = Running(past, groups is not None, window.rowsBetween(*_SO_FAR), leaves=True).sum(ROWS, "bigint")
        earlier = F.sum((F.col(_LEFT) == 0).cast("int")).over(window.rowsBetween(Window.unboundedPreceding, -1))
        rows = rows.withColumn(_LEFT, rows_now).withColumn(_TIMES_GONE, F.coalesce(earlier, F.lit(0))).drop(_LEFT)
        by = [*BY_KEY, _TIMES_GONE]
    folds = [part for part in grouping.parts if part.kind == "fold"]
    if folds:
        types = {part.name: parts.fold_type(adds_and_subtracts, part) for part in folds}
        nothing = F.struct(*(F.lit(None).cast(types[part.name]).alias(part.name) for part in folds))

        def step(so_far: Column, row: Column) -> Column:
            steps = (
                parts.fold(part, so_far, row, groups is not None, types[part.name]).alias(part.name) for part in folds
            )
            return F.struct(*steps)

        rows = folded(rows, by, [ORDER, PLACE], nothing, step).withColumnRenamed(SO_FAR, FOLDS)
    if grouping.looks_at_members:
        if members is None:
            msg = "these aggregates of a table need its rows"
            raise ValueError(msg)
        rows = of_members.met(rows, members, [part for part in grouping.parts if part.kind in LOOK_AT_MEMBERS])
    so_far = Window.partitionBy(*by).orderBy(ORDER, PLACE).rowsBetween(*_SO_FAR)
    types_of = {field.name: field.dataType for field in versions.key_type(adds_and_subtracts, INTO).fields}
    running = Running(past, groups is not None, so_far, leaves=grouping.of_table)
    accumulators = {ROWS: running.sum(ROWS, "bigint")}
    values: dict[str, Column] = {}
    for part in grouping.parts:
        found, value = parts.added_up(part, running, types_of, of_table=grouping.of_table)
        accumulators |= found
        values[part.name] = value
    rows = rows.withColumn(_NOW, F.struct(*(column.alias(name) for name, column in accumulators.items())))
    value = F.struct(*(column.alias(name) for name, column in values.items()))
    if grouping.alone:
        value = values[grouping.parts[0].name]
    if grouping.deletes_empty:
        value = F.when(F.col(_NOW)[ROWS] > 0, value)
    value = value if groups is None else F.when(past, F.col(VALUE)).otherwise(value)
    rows = rows.withColumns({VALUE: value, ACC: F.col(_NOW)})
    if grouping.may_vanish:  # a group that was deleted begins with the time of its next row
        before = window.rowsBetween(Window.unboundedPreceding, -1)
        span = F.coalesce(F.sum(F.col(VALUE).isNull().cast("int")).over(before), F.lit(0))
        rows = rows.withColumn(_SPAN, F.struct(span.alias(_GONE), F.col(TIME)))
        rows = rows.withColumn(TIME, F.max(_SPAN).over(window.rowsBetween(*_SO_FAR))[TIME])
    else:
        rows = rows.withColumn(TIME, F.max(TIME).over(so_far))
    return rows.select(KEY_HASH, *GROUP_COLUMNS)
