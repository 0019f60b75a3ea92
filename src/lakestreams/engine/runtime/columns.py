"""The columns of two tables compared, whatever may be null in them."""

from __future__ import annotations

from pyspark.sql.types import ArrayType, DataType, MapType, StructType


def shape(kind: DataType) -> object:
    """A type without nullability, which tables relax; struct columns with their order."""
    if isinstance(kind, StructType):
        return tuple((field.name, shape(field.dataType)) for field in kind.fields)
    if isinstance(kind, ArrayType):
        return ("array", shape(kind.elementType))
    if isinstance(kind, MapType):
        return ("map", shape(kind.keyType), shape(kind.valueType))
    return kind.simpleString()


def columns_of_shape(shape: object) -> tuple[tuple[str, object], ...]:
    """Name and shape of each column."""
    return shape if isinstance(shape, tuple) else ()


def same_columns(actual: object, wanted: object) -> bool:
    """Whether both have the same columns, in whatever order; writers go by name."""
    return sorted(map(repr, columns_of_shape(actual))) == sorted(map(repr, columns_of_shape(wanted)))


def difference(actual: object, wanted: object) -> str:
    """What a table has and lacks compared with what is written to it, a line per column."""
    have = dict(actual) if isinstance(actual, tuple) else {}
    want = dict(wanted) if isinstance(wanted, tuple) else {}
    lines = [f"  - {name}: {have[name]} (the pipeline does not write it)" for name in have if name not in want]
    lines += [f"  + {name}: {want[name]} (the table lacks it)" for name in want if name not in have]
    lines += [
        f"  ~ {name}: {have[name]} in the table, {want[name]} in the pipeline"
        for name in want
        if name in have and have[name] != want[name]
    ]
    return "\n".join(lines) or "  the order of the columns differs"
