"""Messages of Protobuf as plain values: workers read and write by them without any library of Protobuf's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

VARINT, FIXED64, LENGTH, START, END, FIXED32 = range(6)
"""Wire types: how a value's bytes are distinguished from those behind it."""

WIRE: Final = {
    "int32": VARINT,
    "int64": VARINT,
    "uint32": VARINT,
    "uint64": VARINT,
    "sint32": VARINT,
    "sint64": VARINT,
    "bool": VARINT,
    "fixed64": FIXED64,
    "sfixed64": FIXED64,
    "double": FIXED64,
    "fixed32": FIXED32,
    "sfixed32": FIXED32,
    "float": FIXED32,
    "string": LENGTH,
    "bytes": LENGTH,
}
"""The scalar types."""

TIMESTAMP: Final = "google.protobuf.Timestamp"
DATE: Final = "google.type.Date"
WRAPPED: Final = frozenset(
    f"google.protobuf.{one}Value"
    for one in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
"""Messages around one scalar, which are that scalar or null."""


@dataclass(frozen=True)
class Enum:
    """Names for numbers; of several names of one number the first.

    Attributes:
        name: with its package.
        names: number and name.
    """

    name: str
    names: tuple[tuple[int, str], ...]


@dataclass(frozen=True)
class Member:
    """A field of a message.

    Attributes:
        number: as it stands in the bytes.
        name: as the schema has it.
        type: a scalar type's name, an enum or a message.
        repeated: whether it is a list.
        key: of a map the scalar type of its keys; `type` is that of its values.
        has_presence: whether a field that is absent is distinguished from one with the default value.
        required: whether it must be there (proto2).
        default: its value where it is absent, if the schema says one (proto2).
        oneof: the group of which one field at most is set.
        packed: whether a list of numbers is written as one value.
    """

    number: int
    name: str
    type: Type
    repeated: bool = False
    key: str | None = None
    has_presence: bool = False
    required: bool = False
    default: str | int | float | bool | bytes | None = None
    oneof: int | None = None
    packed: bool = False

    @property
    def wire(self) -> int:
        """The wire type of one value."""
        if self.key is not None or isinstance(self.type, Message):
            return LENGTH
        return VARINT if isinstance(self.type, Enum) else WIRE[self.type]

    @property
    def nullable(self) -> bool:
        """Whether a record may lack it, and so its column be null."""
        return self.has_presence and not self.required and self.default is None


@dataclass(frozen=True)
class Message:
    """Fields, in the order of the schema.

    Attributes:
        name: with its package.
        members: its fields.
    """

    name: str
    members: tuple[Member, ...]

    @property
    def short(self) -> str:
        """The name without package and outer messages."""
        return self.name.rpartition(".")[2]


Type: TypeAlias = "str | Enum | Message"


def word(kind: Type) -> str:
    """A type in a message."""
    if isinstance(kind, str):
        return kind
    return f"{'enum' if isinstance(kind, Enum) else 'message'} {kind.name.rpartition('.')[2]}"


__all__ = [
    "DATE",
    "END",
    "FIXED32",
    "FIXED64",
    "LENGTH",
    "START",
    "TIMESTAMP",
    "VARINT",
    "WIRE",
    "WRAPPED",
    "Enum",
    "Member",
    "Message",
    "Type",
    "word",
]
