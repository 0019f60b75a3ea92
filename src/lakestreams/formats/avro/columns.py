"""Which column a type of Avro's becomes: `kind_of`; docs/formats.md has the table."""

from __future__ import annotations

from typing import Final

from lakestreams.errors import InvalidFormat
from lakestreams.formats.avro.schema import ZONED, Array, Enum, Fixed, Map, Named, Primitive, Record, Type, Union, word
from lakestreams.formats.base import Field
from lakestreams.formats.kinds import Array as ArrayKind
from lakestreams.formats.kinds import Kind, Leaf, Member, Struct
from lakestreams.formats.kinds import Map as MapKind

_PLAIN: Final = {"boolean": "boolean", "int": "int", "long": "bigint", "float": "float", "double": "double",
                 "bytes": "binary", "string": "string"}  # fmt: skip
# Spark's times have microseconds: nanoseconds stay the numbers that they are, and so do times of a day.
_LOGICAL: Final = {
    "date": "date",
    "uuid": "string",
    "timestamp-millis": "timestamp",
    "timestamp-micros": "timestamp",
    ZONED: "timestamp",
    "local-timestamp-millis": "timestamp_ntz",
    "local-timestamp-micros": "timestamp_ntz",
}
_MOST_DIGITS: Final = 38
# Numbers of one sort share a column that holds them all.
_WIDER: Final = {frozenset({"int", "long"}): "long", frozenset({"float", "double"}): "double"}


def fields_of(root: Type, column: str) -> tuple[Field, ...]:
    """The columns of a schema: a record's fields, or one column of this name.

    Raises:
        InvalidFormat: if a table has no column for one of its types.
    """
    record = inner(root)
    if not isinstance(record, Record):
        kind = kind_of(root)
        return (Field(column, kind.spark, kind),)
    members = _struct(record, ()).members
    return tuple(Field(one.name, one.kind.spark, one.kind, required=one.required) for one in members)


def inner(one: Type) -> Type:
    """The type itself; of a union of null and one other type that one."""
    return _others(one)[0] if isinstance(one, Union) and len(_others(one)) == 1 else one


def is_nullable(one: Type) -> bool:
    """Whether a value may be null."""
    return isinstance(one, Union) and len(_others(one)) < len(one.branches)


def wider(one: Union) -> Primitive | None:
    """The type of numbers that holds those of all branches of a union, if they are of one sort."""
    kinds = frozenset(branch.kind for branch in _others(one) if branch == Primitive(getattr(branch, "kind", "")))
    return Primitive(_WIDER[kinds]) if kinds in _WIDER and len(_others(one)) == len(kinds) else None


def member_name(branch: Type) -> str:
    """What the column of a union calls the member of a branch."""
    if isinstance(branch, Named):
        return branch.short
    return branch.kind if isinstance(branch, Primitive) else type(branch).__name__.lower()


def kind_of(one: Type, inside: tuple[Record, ...] = ()) -> Kind:
    """The column's type as a tree.

    Args:
        inside: the records that it stands in.

    Raises:
        InvalidFormat: as `fields_of`.
    """
    if isinstance(one, Primitive):
        return _primitive(one)
    if isinstance(one, Enum):
        return _leaf("string")
    if isinstance(one, Fixed):
        return _of_bytes(one)
    if isinstance(one, Array):
        return ArrayKind(kind_of(one.items, inside))
    if isinstance(one, Map):
        return MapKind(kind_of(one.values, inside))
    return _union(one, inside) if isinstance(one, Union) else _struct(one, inside)


def _primitive(one: Primitive) -> Kind:
    if one.kind == "null":
        raise _no_column("null alone", "leave the field out of the schema that is declared")
    return _of_bytes(one) if one.kind == "bytes" else _leaf(_named(one) or _PLAIN[one.kind])


def _of_bytes(one: Primitive | Fixed) -> Kind:
    if one.logical is None or one.logical.name != "decimal":
        return _leaf(_named(one) or "binary")
    if one.logical.precision > _MOST_DIGITS:
        raise _no_column(
            word(one), f"declare bytes without the logical type: tables have at most {_MOST_DIGITS} digits"
        )
    return _leaf(f"decimal({one.logical.precision},{one.logical.scale})")


def _named(one: Primitive | Fixed) -> str | None:
    return _LOGICAL.get(one.logical.name) if one.logical else None


def _union(one: Union, inside: tuple[Record, ...]) -> Kind:
    others, number = _others(one), wider(one)
    if number is not None:
        return _primitive(number)
    if len(others) == 1:
        return kind_of(others[0], inside)
    members = tuple(Member(member_name(one), member_name(one), kind_of(one, inside)) for one in others)
    _require_distinct([member.name for member in members], word(one))
    return Struct(members)


def _struct(one: Record, inside: tuple[Record, ...]) -> Struct:
    if any(one is outer for outer in inside):
        raise _no_column(f"record {one.short} inside of itself", "leave the field out of the schema that is declared")
    if not one.members:
        raise _no_column(f"record {one.short} without fields", "leave the field out of the schema that is declared")
    _require_distinct([member.name for member in one.members], word(one))
    return Struct(
        tuple(
            Member(
                member.name, member.name, kind_of(member.type, (*inside, one)), required=not is_nullable(member.type)
            )
            for member in one.members
        )
    )


def _others(one: Union) -> list[Type]:
    found = [branch for branch in one.branches if branch != Primitive("null")]
    if not found:
        raise _no_column("null alone", "leave the field out of the schema that is declared")
    return found


def _leaf(spark: str) -> Leaf:
    return Leaf(spark, spark)


def _require_distinct(names: list[str], where: str) -> None:
    low = [name.lower() for name in names]
    twice = sorted({name for name in low if low.count(name) > 1})
    if twice:
        raise _no_column(f"{where}: {', '.join(twice)} twice", "Spark does not tell capitals apart, nor namespaces")


def _no_column(what: str, hint: str) -> InvalidFormat:
    return InvalidFormat(f"a table has no column for this type of the Avro schema: {what}", hint=hint)


__all__ = ["fields_of", "inner", "is_nullable", "kind_of", "member_name", "wider"]
