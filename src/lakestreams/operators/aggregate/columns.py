"""The columns of an aggregate, one by one: what each adds up over a group's rows, and what its value is.

Internal to this folder. Sums run on in the order, so that those of doubles do not depend on how the input was cut.
Of a stream extremes, last values and lists run on too; of a table they are what `members` says.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import (
    ByteType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
)

from lakestreams.operators.aggregate import group_rows
from lakestreams.operators.aggregate.changes import INTO, OUT
from lakestreams.operators.aggregate.folding import let
from lakestreams.operators.nullability import nullable_type

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType
    from pyspark.sql.window import WindowSpec

    from lakestreams.operators.aggregate.grouping import Grouping, Part

ACC = "acc"  # what is added up
ROWS: Final = "rows"  # of it: how many records the group has
FOLDS = "folds"
_WHOLE: Final = (ByteType, ShortType, IntegerType, LongType)
_MOST_DIGITS = 38
_DIGITS = 27  # of a decimal that can be added up and taken off again in 38


def validate(types: StructType, grouping: Grouping) -> str | None:
    """Why an aggregation's parts cannot be made of values of these types, or None.

    Args:
        types: those of `into`, a field for each part that has values.
    """
    wrong = (_wrong(part, types, of_table=grouping.of_table) for part in grouping.parts)
    return next(filter(None, wrong), None)


def _wrong(part: Part, types: StructType, *, of_table: bool) -> str | None:
    of = None if part.kind == "count" else types[part.name].dataType
    if part.kind in ("sum", "avg") and not isinstance(of, (*_WHOLE, DecimalType, FloatType, DoubleType)):
        return f"{part.kind} of {part.name}: {of.simpleString() if of else 'nothing'} is no number"
    if isinstance(of, DecimalType) and of_table and part.kind in ("sum", "avg") and of.precision > _DIGITS:
        return (
            f"{part.kind} of {part.name}: {of.simpleString()} has more than {_DIGITS} digits, and what leaves a"
            " table's group could not be taken off exactly"
        )
    if part.kind == "fold" and of_table and part.subtract is None:
        return f"{part.name}: a table's rows leave their groups, and there is no subtract"
    return None


class Running:
    """What is added up over a group's rows in their order, from what the past has."""

    def __init__(self, past: Column, has_past: bool, so_far: WindowSpec, *, leaves: bool) -> None:
        self._past, self._has_past, self.so_far, self._leaves = past, has_past, so_far, leaves

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
        return F.sum(self.start(name, delta)).over(self.so_far).cast(as_type)


def added_up(
    part: Part, running: Running, types: Mapping[str, DataType], *, of_table: bool
) -> tuple[dict[str, Column], Column]:
    """What a part adds up, and what its value is."""
    name = part.name
    if part.kind == "count" and name not in types:
        return {}, running.sum(ROWS, "bigint")
    if part.kind == "count":
        into, out = F.col(INTO)[name].isNotNull(), F.col(OUT)[name].isNotNull()
        found = running.sum(f"count_{name}", "bigint", into, out)
        return {f"count_{name}": found}, found
    if part.kind == "fold":
        made = F.col(FOLDS)[name]
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
    if of_table:
        return {}, group_rows.value_of(part)
    return _of_records(part, running)


def _of_records(part: Part, running: Running) -> tuple[dict[str, Column], Column]:
    """Of a stream: extremes, last values and lists run on."""
    name, of = part.name, F.col(INTO)[part.name]
    if part.kind in ("min", "max"):
        found = {"min": F.min, "max": F.max}[part.kind](running.start(f"of_{name}", of)).over(running.so_far)
        return {f"of_{name}": found}, found
    boxed = running.start(f"of_{name}", F.array(of))
    if part.kind == "last":
        found = F.last(boxed).over(running.so_far)
        return {f"of_{name}": found}, F.get(found, F.lit(0))
    found = F.flatten(F.collect_list(boxed).over(running.so_far))
    return {f"of_{name}": found}, found


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


def fold_type(adds_and_subtracts: DataFrame, part: Part) -> DataType:
    """The type of what a fold makes: that of its initial value, or of what it folds."""
    start = F.col(INTO)[part.name] if part.initial is None else part.initial
    return nullable_type(adds_and_subtracts.select(start.alias("start")).schema["start"].dataType)


def fold(part: Part, value: Column, row: Column, has_past: bool, as_type: DataType) -> Column:
    """One step of a fold: what leaves first, then what enters (Kafka Streams' subtractor and adder)."""
    now, into, out, add = value[part.name], row[INTO], row[OUT], part.add
    if add is None:
        msg = f"the fold {part.name} has no add"
        raise ValueError(msg)
    left = now
    if part.subtract is not None:
        taken_off = part.subtract(now, out[part.name]).cast(as_type)
        left = F.when(out.isNotNull() & now.isNotNull(), taken_off).otherwise(now)

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
