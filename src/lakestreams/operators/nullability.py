"""Keys and values whose columns may all be null, whatever made them: rows meet only where their types are the same.

Spark keeps for every column, array and map whether it can hold a null, and refuses some casts and set operations where
two sides differ in that alone. A literal, a count or a `coalesce` cannot be null, a record's column can. So each step's
keys and values are taken as if they could.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def nullable(rows: DataFrame, *columns: str) -> DataFrame:
    """Rows whose columns of these names hold types that allow nulls at every depth.

    Args:
        rows: any frame; it is given back as it is where nothing has to change.
        columns: names, of which the frame may lack some.
    """
    changed = {}
    for field in rows.schema.fields:
        if field.name in columns and field.dataType != (wanted := nullable_type(field.dataType)):
            changed[field.name] = F.col(field.name).cast(wanted)
    return rows.withColumns(changed) if changed else rows


def nullable_type(kind: DataType) -> DataType:
    """The same type with nulls allowed in every field, element and map value."""
    if isinstance(kind, StructType):
        fields = (StructField(one.name, nullable_type(one.dataType), True, one.metadata) for one in kind.fields)
        return StructType(list(fields))
    if isinstance(kind, ArrayType):
        return ArrayType(nullable_type(kind.elementType), containsNull=True)
    if isinstance(kind, MapType):
        return MapType(nullable_type(kind.keyType), nullable_type(kind.valueType), valueContainsNull=True)
    return kind
