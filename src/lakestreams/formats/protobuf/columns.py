"""Which column a type of Protobuf's becomes; docs/formats.md has the table."""

from __future__ import annotations

from typing import Final

from lakestreams.errors import InvalidFormat
from lakestreams.formats.base import Field
from lakestreams.formats.kinds import Array, Kind, Leaf, Map, Struct
from lakestreams.formats.kinds import Member as Column
from lakestreams.formats.places import RESERVED_PREFIX
from lakestreams.formats.protobuf.schema import DATE, TIMESTAMP, WRAPPED, Enum, Member, Message, Type

_SCALARS: Final = {
    "double": "double",
    "float": "float",
    "int32": "int",
    "sint32": "int",
    "sfixed32": "int",
    "int64": "bigint",
    "sint64": "bigint",
    "sfixed64": "bigint",
    "uint32": "bigint",
    "fixed32": "bigint",
    "uint64": "decimal(20,0)",
    "fixed64": "decimal(20,0)",
    "bool": "boolean",
    "string": "string",
    "bytes": "binary",
}
_HINT: Final = "leave the field out of the schema that is declared: it is passed over in the bytes"


def fields_of(root: Message) -> tuple[Field, ...]:
    """The columns of a message: its fields.

    Raises:
        InvalidFormat: if a table has no column for one of them.
    """
    members = _struct(root).members
    for one in members:
        if one.name.lower().startswith(RESERVED_PREFIX):
            raise InvalidFormat(f"field {one.name}: names that begin with {RESERVED_PREFIX} are taken", hint=_HINT)
    return tuple(Field(one.name, one.kind.spark, one.kind, required=one.required) for one in members)


def kind_of(kind: Type) -> Kind:
    """The column's type as a tree.

    Raises:
        InvalidFormat: as `fields_of`.
    """
    if isinstance(kind, Enum):
        return Leaf("string", "string")
    if isinstance(kind, str):
        return Leaf(_SCALARS[kind], _SCALARS[kind])
    if kind.name in (TIMESTAMP, DATE):
        plain = "timestamp" if kind.name == TIMESTAMP else "date"
        return Leaf(plain, plain)
    return kind_of(kind.members[0].type) if kind.name in WRAPPED else _struct(kind)


def _struct(message: Message) -> Struct:
    if not message.members:
        raise InvalidFormat(f"a table has no column for message {message.short} without fields", hint=_HINT)
    names = [one.name.lower() for one in message.members]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        msg = f"message {message.short} names {', '.join(twice)} twice"
        raise InvalidFormat(msg, hint="Spark does not tell capitals apart")
    return Struct(tuple(Column(one.name, one.name, _kind(one), required=not one.nullable) for one in message.members))


def _kind(one: Member) -> Kind:
    own = kind_of(one.type)
    if one.key is not None:
        return Map(own)
    return Array(own) if one.repeated else own


__all__ = ["fields_of", "kind_of"]
