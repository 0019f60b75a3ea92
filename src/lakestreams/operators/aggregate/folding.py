"""Folds: a key's rows one after the other, each with what was made of it and of all before it.

What windows of Spark cannot say, since they do not look at their own last result. The rows of a key are gathered into
one array, so those of a cycle must fit a task.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

SO_FAR = "made"
_ROWS, _ROW, _EACH = "fold_rows", "fold_row", "fold_each"
# Each step copies what was made before it. So rows are taken in pieces, and only a piece copies all.
_PIECE = 128

Step = Callable[["Column", "Column"], "Column"]  # what was made so far, a row: what is made now


def folded(rows: DataFrame, by: Sequence[str], order: Sequence[str], nothing: Column, step: Step) -> DataFrame:
    """The rows with a column `made`.

    Args:
        by: the columns that say which rows belong together.
        order: the columns that order them, in total.
        nothing: what was made before the first row, of the type that is made.
        step: from what was made and a row (a struct) to what is made of both; of the same type.
    """
    kept = [name for name in rows.columns if name not in order and name not in by]
    gathered = rows.groupBy(*by).agg(in_order(F.collect_list(F.struct(*order, *kept)), *order).alias(_ROWS))

    def onward(results: Column, row: Column) -> Column:
        return F.concat(results, F.array(step(F.element_at(results, -1), row)))

    def piecewise(results: Column, piece: Column) -> Column:
        now = F.aggregate(piece, F.array(F.element_at(results, -1)), onward)
        return F.concat(results, F.slice(now, 2, _PIECE))

    pieces = F.transform(F.sequence(F.lit(1), F.size(_ROWS), F.lit(_PIECE)), lambda at: F.slice(_ROWS, at, _PIECE))
    results = F.slice(F.aggregate(pieces, F.array(nothing), piecewise), F.lit(2), F.size(_ROWS))
    # exploded together: a column next to what is exploded would be copied for each row
    both = F.arrays_zip(F.col(_ROWS).alias(_ROW), results.alias(SO_FAR))
    each = gathered.select(*by, F.explode(both).alias(_EACH))
    row = F.col(_EACH)[_ROW]
    return each.select(*by, *(row[name].alias(name) for name in (*order, *kept)), F.col(_EACH)[SO_FAR].alias(SO_FAR))


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
