"""The types that a schema declares, as a tree: what a table has, and how the text of a record says it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

# Types of ours, with the type of their column: numbers that are times.
UNITS: Final = {
    "timestamp_s": "timestamp",
    "timestamp_ms": "timestamp",
    "timestamp_us": "timestamp",
    "date_days": "date",
}
# And the type of decimals that Connect writes as the Base64 of their digits, a number of bytes.
BASE64: Final = "decimal_base64"


@dataclass(frozen=True)
class Leaf:
    """A type without parts.

    Attributes:
        spark: the column's type in Spark SQL.
        declared: the type as the schema says it: Spark's, or one of `UNITS`, or `BASE64` with its digits.
    """

    spark: str
    declared: str


@dataclass(frozen=True)
class Array:
    """An array of elements of one type."""

    element: Kind

    @property
    def spark(self) -> str:
        """The type in Spark SQL."""
        return f"array<{self.element.spark}>"

    @property
    def declared(self) -> str:
        """The type as the schema says it."""
        return f"array<{self.element.declared}>"


@dataclass(frozen=True)
class Map:
    """An object whose names are data, with values of one type."""

    value: Kind

    @property
    def spark(self) -> str:
        """The type in Spark SQL."""
        return f"map<string, {self.value.spark}>"

    @property
    def declared(self) -> str:
        """The type as the schema says it."""
        return f"map<string, {self.value.declared}>"


@dataclass(frozen=True)
class Member:
    """A member of a struct.

    Attributes:
        field: its name in the JSON object.
        name: its name in the struct that is read.
        kind: its type.
        required: whether the schema says `not null`.
    """

    field: str
    name: str
    kind: Kind
    required: bool = False

    @property
    def declared(self) -> str:
        """The type as the schema says it."""
        return self.kind.declared + (" not null" if self.required else "")


@dataclass(frozen=True)
class Struct:
    """An object with known members."""

    members: tuple[Member, ...]

    @property
    def spark(self) -> str:
        """The type in Spark SQL."""
        return "struct<" + ", ".join(f"{member.name}: {member.kind.spark}" for member in self.members) + ">"

    @property
    def declared(self) -> str:
        """The type as the schema says it."""
        return "struct<" + ", ".join(f"{member.name}: {member.declared}" for member in self.members) + ">"


Kind: TypeAlias = Leaf | Array | Map | Struct

__all__ = ["BASE64", "UNITS", "Array", "Kind", "Leaf", "Map", "Member", "Struct"]
