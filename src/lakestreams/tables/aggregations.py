"""Aggregations: one row a group, kept up to date by a stream's records or by a table's changes.

The law, of Kafka Streams' KStreamAggregate, KStreamReduce, KTableAggregate, KTableReduce (semantics section 7): each
record of a stream enters the group of its key. A table's change takes the old row out of its group and puts the new one
into its own: first out, one result each, or one result if the group is the same. Result time: the greatest time that the
group has seen since it is there. A group whose rows have all gone is a row of zeros and nulls (count 0), or is deleted.

What a *sum* is made of is added up in the order, so that sums of doubles do not depend on how the input was cut. Of
a stream `min`, `max`, `last` and `collect` run on as sums do. Of a table they look at the rows that the group has at the
change: rows that the new cycles leave alone are put together once a group, each change then meets that one and the
rows that change; so what a cycle costs is the rows of the groups that it touches, and the square of the changes of one
group.

What the groups were is a *groups* frame: `k`, `acc` (a struct of what is added up), `v`, `ts`, `o`, `n`; one row a group.

Plan: one exchange by the group and one sort; the groups of the past lie beside the changes. A table whose changes do not
say what was before needs one more exchange and sort by its own key. With `min` and the like of a table: its rows are
exchanged and sorted once more by their key, once by the group, and joined. A fold gathers its rows into arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import (
    ByteType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StructField,
    StructType,
)

from lakestreams.joins import validity
from lakestreams.joins.order import (
    CONTRIBUTORS,
    COORDINATES,
    KEY,
    KIND,
    OLD,
    ORDER,
    PLACE,
    RECORD,
    RECORD_COLUMNS,
    TIME,
    TOMBSTONE,
    VALUE,
    is_new,
)
from lakestreams.tables.changes import FROM, INTO, OUT, TO
from lakestreams.tables.folding import MADE, folded, let

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType
    from pyspark.sql.window import WindowSpec

    from lakestreams.topology.aggregators import AggregatorKind
    from lakestreams.topology.nodes import Changes, EmptyGroup

ACC = "acc"
GROUP_COLUMNS = (KEY, ACC, VALUE, TIME, ORDER, PLACE)

_SO_FAR: Final = (Window.unboundedPreceding, Window.currentRow)
_LEFT, _TIMES_GONE = "left", "times_gone"
_ROWS: Final = "rows"  # of the accumulators: how many records the group has
_FOLDS, _MEMBERS, _GROUP, _NOW = "folds", "members", "of_group", "now"
_GONE, _SPAN, _LAST = "gone", "span", "last"
_WHOLE: Final = (ByteType, ShortType, IntegerType, LongType)
_MOST_DIGITS = 38
_DIGITS = 27  # of a decimal that can be added up and taken off again in 38
_OF_MEMBERS: Final = ("min", "max", "last", "collect")


@dataclass(frozen=True, eq=False)
class Part:
    """One column of an aggregate.

    Attributes:
        name: the column's.
        kind: what is made of the values in the columns of this name in `into` and `out`; a count may have none.
        initial, add, subtract: of a fold; without an initial one a group's first value is its result as it is.
    """

    name: str
    kind: AggregatorKind
    initial: Column | None = None
    add: Callable[[Column, Column], Column] | None = None
    subtract: Callable[[Column, Column], Column] | None = None


@dataclass(frozen=True, eq=False)
class Grouping:
    """The options of an aggregation.

    Attributes:
        parts: its columns.
        of_table: whether rows leave groups, too.
        empty: what a table's group without rows is.
        emit: a row for each change, or one a group and cycle.
        alone: whether the only part is the value itself (a struct) rather than a column of it; where it is null, the
            row is deleted.
    """

    parts: tuple[Part, ...]
    of_table: bool = False
    empty: EmptyGroup = "keep"
    emit: Changes = "every_change"
    alone: bool = False

    @property
    def looks_at_members(self) -> bool:
        """Whether the rows that a group has must be looked at."""
        return self.of_table and any(part.kind in _OF_MEMBERS for part in self.parts)

    @property
    def deletes_empty(self) -> bool:
        """Whether a group without rows is deleted."""
        return self.of_table and self.empty == "delete"

    @property
    def may_vanish(self) -> bool:
        """Whether a group can be deleted."""
        return self.alone or self.deletes_empty


def validate(types: StructType, grouping: Grouping) -> str | None:
    """Whether the parts can be made of values of these types.

    Args:
        types: those of `into`, a field for each part that has values.
        grouping: the options.

    Returns:
        What is wrong, or None.
    """
    for part in grouping.parts:
        of = None if part.kind == "count" else types[part.name].dataType
        if part.kind in ("sum", "avg") and not isinstance(of, (*_WHOLE, DecimalType, FloatType, DoubleType)):
            return f"{part.kind} of {part.name}: {of.simpleString() if of else 'nothing'} is no number"
        if isinstance(of, DecimalType) and grouping.of_table and part.kind in ("sum", "avg") and of.precision > _DIGITS:
            return (
                f"{part.kind} of {part.name}: {of.simpleString()} has more than {_DIGITS} digits, and what leaves a"
                " table's group could not be taken off exactly"
            )
        if part.kind == "fold" and grouping.of_table and part.subtract is None:
            return f"{part.name}: a table's rows leave their groups, and there is no subtract"
    return None


def execute(
    halves: DataFrame,
    groups: DataFrame | None,
    grouping: Grouping,
    since: int,
    *,
    members: DataFrame | None = None,
    with_old: bool = False,
) -> DataFrame:
    """The rows that new changes make of the groups.

    Args:
        halves: what enters and leaves (see `changes`), new rows only; of a stream nothing leaves.
        groups: what the groups of the past were, at least those that are touched.
        grouping: the options.
        since: the first new cycle.
        members: of a table the rows that its groups have (see `changes.members`), where the options look at them.
        with_old: whether the result says in `old` what the row was before.

    Returns:
        Records; a group that is deleted is a tombstone. `emit="latest"` leaves one row a group and cycle.
    """
    rows = _made(halves, groups, grouping, members)
    in_order = Window.partitionBy(KEY).orderBy(ORDER, PLACE)
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
    trigger = F.array(F.struct(*(F.col(ORDER)[name].alias(name) for name in COORDINATES)))
    columns = {KIND: F.when(gone, F.lit(TOMBSTONE)).otherwise(F.lit(RECORD)), CONTRIBUTORS: trigger}
    return rows.where(is_new(since)).select(
        *(columns.get(name, F.col(name)).alias(name) for name in RECORD_COLUMNS), *([OLD] if with_old else [])
    )


def retain(
    halves: DataFrame, groups: DataFrame | None, grouping: Grouping, *, members: DataFrame | None = None
) -> DataFrame:
    """A groups frame of what the groups are after these changes; deleted ones are not among them.

    Args:
        halves, groups, grouping, members: as for `execute`.
    """
    rows = _made(halves, groups, grouping, members)
    following = F.lead(ORDER).over(Window.partitionBy(KEY).orderBy(ORDER, PLACE))
    last = rows.withColumn(_LAST, following.isNull()).where(_LAST)
    if grouping.deletes_empty:
        last = last.where(F.col(ACC)[_ROWS] > 0)
    elif grouping.may_vanish:
        last = last.where(F.col(VALUE).isNotNull())
    return last.select(*GROUP_COLUMNS)


def prune(groups: DataFrame, halves: DataFrame) -> DataFrame:
    """The groups that the changes touch: their keys are broadcast, the groups filtered where they lie.

    Worth it when the changes are few beside the groups; untouched groups stay as they were.
    """
    return validity.among(groups, KEY, validity.wanted(halves, KEY))


def explain(grouping: Grouping) -> str:
    """The plan in words, for `check --explain`."""
    further = "; the table's rows are joined to look at what a group has" if grouping.looks_at_members else ""
    folds = "; folds gather a group's changes into arrays" if any(one.kind == "fold" for one in grouping.parts) else ""
    before = ", a table once more by its own key unless its changes say what was before" if grouping.of_table else ""
    return f"aggregation: changes and groups of the past are exchanged by group and sorted once{before}{further}{folds}"


# --- the groups' rows, past ones and new ones ------------------------------------------------------------------------


def _made(halves: DataFrame, groups: DataFrame | None, grouping: Grouping, members: DataFrame | None) -> DataFrame:
    """`k, acc, v, ts, o, n` of every change and of the groups of the past, which have no `into` and no `out`."""
    rows = halves.select(KEY, INTO, OUT, TIME, ORDER, PLACE)
    past = F.lit(False)
    if groups is not None:
        rows, past = rows.unionByName(groups, allowMissingColumns=True), F.col(ACC).isNotNull()
    window = Window.partitionBy(KEY).orderBy(ORDER, PLACE)
    by = [KEY]
    if grouping.deletes_empty:  # what comes after a group has gone is added up anew, as if there had been none
        rows_now = _Running(past, groups is not None, window.rowsBetween(*_SO_FAR), leaves=True).sum(_ROWS, "bigint")
        earlier = F.sum((F.col(_LEFT) == 0).cast("int")).over(window.rowsBetween(Window.unboundedPreceding, -1))
        rows = rows.withColumn(_LEFT, rows_now).withColumn(_TIMES_GONE, F.coalesce(earlier, F.lit(0))).drop(_LEFT)
        by = [KEY, _TIMES_GONE]
    folds = [part for part in grouping.parts if part.kind == "fold"]
    if folds:
        types = {part.name: _fold_type(halves, part) for part in folds}
        nothing = F.struct(*(F.lit(None).cast(types[part.name]).alias(part.name) for part in folds))

        def step(made: Column, row: Column) -> Column:
            steps = (_fold(part, made, row, groups is not None, types[part.name]).alias(part.name) for part in folds)
            return F.struct(*steps)

        rows = folded(rows, by, [ORDER, PLACE], nothing, step).withColumnRenamed(MADE, _FOLDS)
    if grouping.looks_at_members:
        if members is None:
            msg = "these aggregates of a table need its rows"
            raise ValueError(msg)
        rows = _with_members(rows, members, [part for part in grouping.parts if part.kind in _OF_MEMBERS])
    so_far = Window.partitionBy(*by).orderBy(ORDER, PLACE).rowsBetween(*_SO_FAR)
    types_of = {field.name: field.dataType for field in _fields(halves)}
    running = _Running(past, groups is not None, so_far, leaves=grouping.of_table)
    accumulators = {_ROWS: running.sum(_ROWS, "bigint")}
    values: dict[str, Column] = {}
    for part in grouping.parts:
        found, value = _part(part, grouping, running, types_of)
        accumulators |= found
        values[part.name] = value
    rows = rows.withColumn(_NOW, F.struct(*(column.alias(name) for name, column in accumulators.items())))
    value = F.struct(*(column.alias(name) for name, column in values.items()))
    if grouping.alone:
        value = values[grouping.parts[0].name]
    if grouping.deletes_empty:
        value = F.when(F.col(_NOW)[_ROWS] > 0, value)
    value = value if groups is None else F.when(past, F.col(VALUE)).otherwise(value)
    rows = rows.withColumns({VALUE: value, ACC: F.col(_NOW)})
    if grouping.may_vanish:  # a group that was deleted begins with the time of its next row
        before = window.rowsBetween(Window.unboundedPreceding, -1)
        span = F.coalesce(F.sum(F.col(VALUE).isNull().cast("int")).over(before), F.lit(0))
        rows = rows.withColumn(_SPAN, F.struct(span.alias(_GONE), F.col(TIME)))
        rows = rows.withColumn(TIME, F.max(_SPAN).over(window.rowsBetween(*_SO_FAR))[TIME])
    else:
        rows = rows.withColumn(TIME, F.max(TIME).over(so_far))
    return rows.select(*GROUP_COLUMNS)


class _Running:
    """What is added up over a group's rows in their order, from what the past has."""

    def __init__(self, past: Column, has_past: bool, so_far: WindowSpec, *, leaves: bool) -> None:
        self._past, self._has_past, self._so_far, self._leaves = past, has_past, so_far, leaves

    def start(self, name: str, of_row: Column) -> Column:
        """A past group's accumulator, or what a row brings."""
        return F.when(self._past, F.col(ACC)[name]).otherwise(of_row) if self._has_past else of_row

    def sum(self, name: str, as_type: str, into: Column | None = None, out: Column | None = None) -> Column:
        """What has come in, less what has gone out; without values, how many rows have."""
        came, left = (
            F.coalesce((F.col(side).isNotNull() if of is None else of).cast(as_type), F.lit(0).cast(as_type))
            for side, of in ((INTO, into), (OUT, out))
        )
        # where nothing leaves nothing is taken off, which would cost wide decimals a digit
        delta = (came - left).cast(as_type) if self._leaves else came
        return F.sum(self.start(name, delta)).over(self._so_far).cast(as_type)

    def over(self, what: Column) -> Column:
        """An aggregate of Spark's over the rows so far."""
        return what.over(self._so_far)


def _part(
    part: Part, grouping: Grouping, running: _Running, types: Mapping[str, DataType]
) -> tuple[dict[str, Column], Column]:
    """What a part adds up, and what its value is."""
    name = part.name
    if part.kind == "count" and name not in types:
        return {}, running.sum(_ROWS, "bigint")
    if part.kind == "count":
        into, out = F.col(INTO)[name].isNotNull(), F.col(OUT)[name].isNotNull()
        found = running.sum(f"count_{name}", "bigint", into, out)
        return {f"count_{name}": found}, found
    if part.kind == "fold":
        made = F.col(_FOLDS)[name]
        return {f"of_{name}": made}, made
    if part.kind in ("sum", "avg"):
        of = types[name]
        into, out = F.col(INTO)[name], F.col(OUT)[name]
        total = running.sum(f"sum_{name}", _sum_type(of, part.kind), into, out)
        if part.kind == "sum":
            return {f"sum_{name}": total}, total
        count = running.sum(f"count_{name}", "bigint", into.isNotNull(), out.isNotNull())
        exact = total if isinstance(of, DecimalType) else total.cast("double")
        mean = F.when(count > 0, (exact / count).cast(_mean_type(of)))
        return {f"sum_{name}": total, f"count_{name}": count}, mean
    if grouping.of_table:
        value = F.col(_MEMBERS)[name]
        return {}, _of_members(part, value)
    return _of_records(part, running)


def _of_records(part: Part, running: _Running) -> tuple[dict[str, Column], Column]:
    """Of a stream: extremes, last values and lists run on."""
    name, of = part.name, F.col(INTO)[part.name]
    if part.kind in ("min", "max"):
        found = running.over({"min": F.min, "max": F.max}[part.kind](running.start(f"of_{name}", of)))
        return {f"of_{name}": found}, found
    boxed = running.start(f"of_{name}", F.array(of))
    if part.kind == "last":
        found = running.over(F.last(boxed))
        return {f"of_{name}": found}, F.get(found, F.lit(0))
    found = F.flatten(running.over(F.collect_list(boxed)))
    return {f"of_{name}": found}, found


# --- the rows that a table's groups have -----------------------------------------------------------------------------


def _partial(part: Part) -> Column:
    """What a row brings to what is put together."""
    of = F.col(INTO)[part.name]
    if part.kind in ("min", "max"):
        return of
    placed = F.struct(F.col("at"), of.alias("of"))
    return placed if part.kind == "last" else F.array(placed)


def _together(part: Part, what: Column) -> Column:
    if part.kind == "min":
        return F.min(what)
    if part.kind in ("max", "last"):
        return F.max(what)
    return F.flatten(F.collect_list(what))


def _of_members(part: Part, value: Column) -> Column:
    if part.kind == "last":
        return value["of"]
    if part.kind == "collect":
        return F.transform(F.array_sort(F.coalesce(value, F.array())), lambda one: one["of"])
    return value


def _with_members(rows: DataFrame, members: DataFrame, parts: Sequence[Part]) -> DataFrame:
    """Rows with what the members of their group at their place give, as `members`."""
    given = members.select(KEY, FROM, TO, *(_partial(part).alias(f"m_{part.name}") for part in parts))
    stays = F.col(FROM).isNull() & F.col(TO).isNull()
    gathered = [_together(part, F.col(f"m_{part.name}")).alias(f"m_{part.name}") for part in parts]
    nothing = F.lit(None).cast(given.schema[TO].dataType)
    always = given.where(stays).groupBy(KEY).agg(*gathered).withColumns({FROM: nothing, TO: nothing})
    present = always.unionByName(given.where(~stays)).withColumnRenamed(KEY, _GROUP)
    at = F.struct(ORDER, PLACE)
    inside = (F.col(FROM).isNull() | (F.col(FROM) <= at)) & (F.col(TO).isNull() | (at < F.col(TO)))
    met = rows.join(
        present, (F.col(KEY) == F.col(_GROUP)) & inside & F.coalesce(F.col(INTO), F.col(OUT)).isNotNull(), "left"
    )
    others = [name for name in rows.columns if name not in (KEY, ORDER, PLACE)]
    found = met.groupBy(KEY, ORDER, PLACE).agg(*(F.first(name).alias(name) for name in others), *gathered)
    made = F.struct(*(F.col(f"m_{part.name}").alias(part.name) for part in parts))
    return found.select(*rows.columns, made.alias(_MEMBERS))


# --- types and folds -------------------------------------------------------------------------------------------------


def _fields(halves: DataFrame) -> list[StructField]:
    found = halves.schema[INTO].dataType
    return list(found.fields) if isinstance(found, StructType) else []


def _sum_type(of: DataType, kind: str) -> str:
    if isinstance(of, _WHOLE):
        return "bigint" if kind == "sum" else f"decimal({_MOST_DIGITS}, 0)"
    if isinstance(of, DecimalType):
        return f"decimal({min(_MOST_DIGITS, of.precision + 10)}, {of.scale})"
    return "double"


def _mean_type(of: DataType) -> str:
    if isinstance(of, DecimalType):
        whole = of.precision - of.scale
        scale = min(of.scale + 4, _MOST_DIGITS - whole)
        return f"decimal({whole + scale}, {scale})"
    return "double"


def _fold_type(halves: DataFrame, part: Part) -> DataType:
    start = F.col(INTO)[part.name] if part.initial is None else part.initial
    return halves.select(start.alias("start")).schema["start"].dataType


def _fold(part: Part, made: Column, row: Column, has_past: bool, as_type: DataType) -> Column:
    """One step of a fold: what leaves first, then what enters (Kafka Streams' subtractor and adder)."""
    now, into, out, add = made[part.name], row[INTO], row[OUT], part.add
    if add is None:
        msg = f"the fold {part.name} has no add"
        raise ValueError(msg)
    if part.subtract is not None:
        left = F.when(out.isNotNull() & now.isNotNull(), part.subtract(now, out[part.name]).cast(as_type)).otherwise(
            now
        )
    else:
        left = now

    def enter(rest: Column) -> Column:
        if part.initial is None:
            added = F.when(rest.isNull(), into[part.name].cast(as_type)).otherwise(
                add(rest, into[part.name]).cast(as_type)
            )
        else:
            added = add(F.coalesce(rest, part.initial.cast(as_type)), into[part.name]).cast(as_type)
        return F.when(into.isNotNull(), added).otherwise(rest)

    after = let(left, enter)
    return F.when(row[ACC].isNotNull(), row[ACC][f"of_{part.name}"]).otherwise(after) if has_past else after
