"""Rows that weigh: a row of many bytes counts as several, so that a batch of rows is never too many bytes for a worker.

Spark sends rows to Python in batches of so many. So that these are not too large, it asks for the size of every column
before every row, which walks through all lists and structs and costs ten times as much as sending them. That is turned
off (`tuning`), and rows of many bytes are followed by empty ones, which are dropped where they arrive.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import ArrayType, BinaryType, MapType, StringType, StructType

from lakestreams.sql import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

BYTES_A_ROW: Final = 32 << 10
"""Of so many bytes a row counts once: a batch of 5,000 has at most 160 MB, and one row more.

Not fewer, since Spark may copy a whole row for each that follows it."""
EMPTY: Final = "_lakestreams_empty"
_NTH: Final = "_lakestreams_nth"
_FIXED: Final = 16  # bytes of an element without a size of its own, at most


def weighed(rows: DataFrame, small: Collection[str] = ()) -> DataFrame:
    """The rows, and behind each of many bytes as many empty ones as it counts more.

    Args:
        small: columns that are never many bytes.

    Returns:
        The same columns, those of any size null in empty rows; and the flag `EMPTY` where there may be such rows.
    """
    sized = {one.name: one.dataType for one in rows.schema.fields if one.name not in small and _varies(one.dataType)}
    if not sized:
        return rows
    size = reduce(add, (_size(F.col(quoted(name)), kind) for name, kind in sized.items()))
    once, several = F.array(F.lit(0)), F.sequence(F.lit(0), (size / BYTES_A_ROW).cast("int"))
    counted = rows.withColumn(_NTH, F.explode(F.when(size < BYTES_A_ROW, once).otherwise(several)))
    own, column = F.col(_NTH) == 0, {name: F.col(quoted(name)) for name in rows.columns}
    kept = [F.when(own, one).alias(name) if name in sized else one for name, one in column.items()]
    return counted.select(*kept, (~own).alias(EMPTY))


def arrived(batches: Iterable[Any]) -> Iterator[Any]:
    """Batches of weighed rows in a worker: without the empty ones and their flag."""
    for batch in batches:
        at = batch.schema.get_field_index(EMPTY)
        if at < 0:
            yield batch
            continue
        empty = batch.column(at)
        columns, names = list(batch.columns), list(batch.schema.names)
        del columns[at], names[at]
        own = pa.RecordBatch.from_arrays(columns, names=names)
        yield own.filter(pc.invert(empty)) if pc.any(empty).as_py() else own


def _varies(kind: DataType) -> bool:
    """Whether values of a type may be of any size."""
    if isinstance(kind, StructType):
        return any(_varies(one.dataType) for one in kind.fields)
    return isinstance(kind, StringType | BinaryType | ArrayType | MapType)


def _size(value: Column, kind: DataType) -> Column:
    """About how many bytes a value has, 0 of a null one; what is fixed in it does not count outside of lists and maps."""
    if isinstance(kind, StructType):
        parts = [_size(value[one.name], one.dataType) for one in kind.fields if _varies(one.dataType)]
        return reduce(add, parts, F.lit(0))
    if isinstance(kind, ArrayType):
        return _of_elements(value, kind.elementType)
    if isinstance(kind, MapType):
        return _of_elements(F.map_keys(value), kind.keyType) + _of_elements(F.map_values(value), kind.valueType)
    return F.coalesce(F.octet_length(value), F.lit(0)).cast("bigint")


def _of_elements(value: Column, kind: DataType) -> Column:
    """The same of a list's elements. Without functions of one element where that is possible: Spark interprets those."""
    if isinstance(kind, StructType):
        return reduce(add, [_of_elements(value[one.name], one.dataType) for one in kind.fields], _count(value))
    if isinstance(kind, StringType | BinaryType):
        return _count(value) + _size(F.concat_ws("", value.cast("array<string>")), StringType())
    if _varies(kind):
        total = F.aggregate(value, F.lit(0).cast("bigint"), lambda sum_, one: sum_ + _size(one, kind))
        return _count(value) + F.coalesce(total, F.lit(0))
    return _count(value)


def _count(value: Column) -> Column:
    """What the elements of a list have without what varies."""
    return F.coalesce(F.size(value), F.lit(0)).cast("bigint") * _FIXED
