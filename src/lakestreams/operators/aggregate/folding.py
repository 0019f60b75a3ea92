"""Folds: a key's rows one after the other, each with what was made of it and of all before it.

What windows of Spark cannot say, since they do not look at their own last result. The rows of a key are gathered into
one array: meant for keys that change some thousand times a cycle.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

SO_FAR = "made"
_ROWS, _PAST, _ROW, _POS = "fold_rows", "fold_past", "fold_row", "fold_pos"
_NOW = "now"

Step = Callable[["Column", "Column"], "Column"]  # what was made so far, a row: what is made now


def folded(rows: DataFrame, by: Sequence[str], order: Sequence[str], nothing: Column, step: Step) -> DataFrame:
    """The rows with a column `made`.

    Args:
        rows: any frame.
        by: the columns that say which rows belong together.
        order: the columns that order them, in total.
        nothing: what was made before the first row, of the type that is made.
        step: from what was made and a row (a struct) to what is made of both; of the same type.
    """
    kept = [name for name in rows.columns if name not in order and name not in by]
    gathered = _gathered(rows, by, order, kept)
    empty = F.filter(F.array(nothing), lambda _: F.lit(False))

    def onward(past: Column, row: Column) -> Column:
        def both(now: Column) -> Column:
            return F.struct(now.alias(_NOW), F.concat(past[_PAST], F.array(now)).alias(_PAST))

        return let(step(past[_NOW], row), both)

    past = F.aggregate(_ROWS, F.struct(nothing.alias(_NOW), empty.alias(_PAST)), onward)[_PAST]
    each = gathered.select(*by, _ROWS, past.alias(_PAST)).select(*by, F.posexplode(_ROWS).alias(_POS, _ROW), _PAST)
    return each.select(
        *by, *(F.col(_ROW)[name].alias(name) for name in (*order, *kept)), F.get(_PAST, F.col(_POS)).alias(SO_FAR)
    )


def _gathered(rows: DataFrame, by: Sequence[str], order: Sequence[str], kept: Sequence[str]) -> DataFrame:
    return rows.groupBy(*by).agg(in_order(F.collect_list(F.struct(*order, *kept)), *order).alias(_ROWS))


def in_order(structs: Column, *fields: str) -> Column:
    """An array of structs, ordered by these fields, whose values are never null; other fields may be of any type.

    Spark's own order compares all fields, and refuses to begin where one of them is a map.
    """

    def compared(one: Column, other: Column) -> Column:
        found = F.lit(0)
        for name in reversed(fields):
            found = F.when(one[name] < other[name], -1).when(one[name] > other[name], 1).otherwise(found)
        return found

    return F.array_sort(structs, compared)


def let(value: Column, use: Callable[[Column], Column]) -> Column:
    """What `use` makes of a value, the value computed once however often it is used."""
    return F.get(F.transform(F.array(value), use), F.lit(0))
