"""The protocol of a format: raw bytes in, structs of typed columns and error messages out."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from lakestreams.errors import InvalidFormat
from lakestreams.formats.kinds import Kind, Leaf, Member
from lakestreams.sql import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column

    from lakestreams.formats.decoding import Decoded

LONGEST_NAME: Final = 128
_COLUMN_NAME = re.compile(rf"[A-Za-z_][A-Za-z0-9_]{{0,{LONGEST_NAME - 1}}}\Z")


@dataclass(frozen=True)
class Field:
    """One typed column of a format.

    Attributes:
        name: the column's name.
        type: its Spark SQL type as DDL text, such as `bigint` or `array<string>`.
        kind: its type as a tree, with the units of numbers; without one it is a type without parts.
        required: whether the schema says `not null`.
    """

    name: str
    type: str
    kind: Kind | None = field(default=None, compare=False, repr=False)
    required: bool = field(default=False, compare=False, repr=False, kw_only=True)

    def __post_init__(self) -> None:
        """Refuses names that cannot be a column everywhere."""
        if not is_column_name(self.name):
            msg = f"column name {self.name!r} has characters that tables cannot carry"
            if len(str(self.name)) > LONGEST_NAME:
                msg = f"column name {self.name[:20]!r}... has {len(self.name)} characters; {LONGEST_NAME} are the most"
            raise InvalidFormat(msg, hint="letters, digits and _ only, not starting with a digit")

    @property
    def member(self) -> Member:
        """The column as a member of an object, with its type as a tree."""
        kind = Leaf(self.type, self.type) if self.kind is None else self.kind
        return Member(self.name, self.name, kind, required=self.required)


@runtime_checkable
class Format(Protocol):
    """A way to read bytes. Implementations are frozen dataclasses of plain values: they are compared, and sent to workers."""

    @property
    def fields(self) -> tuple[Field, ...]:
        """The typed columns that come out."""
        ...

    def decode(self, raw: Any) -> Decoded:
        """Reads an Arrow array of bytes, in a Python worker of Spark or anywhere. Never raises for a record.

        Returns:
            An array of structs of `fields`, null where the bytes are or say null or cannot be read; and an array of
            messages, null where nothing is wrong.
        """
        ...

    def describe(self) -> str:
        """One line that is equal for equal formats; part of the topology's fingerprint."""
        ...


@runtime_checkable
class WritableFormat(Format, Protocol):
    """A format that can be written as well: what it has written it reads as the same columns.

    A null of a format of one column is bytes that are null, and so reads as no key or no value at all.
    """

    def write(self, value: Column) -> Column:
        """The bytes of a struct of the format's fields, in their order; null for a null struct."""
        ...


@runtime_checkable
class PackedFormat(Protocol):
    """A format whose records may be compressed, so that a few bytes may become very many."""

    def unpacked_bytes(self, raw: Any) -> Any:
        """How many bytes each record of an Arrow array has when it is no longer compressed, as an array of NumPy."""
        ...


def is_column_name(name: object) -> bool:
    """Whether a name can be a column everywhere."""
    return isinstance(name, str) and _COLUMN_NAME.match(name) is not None


def struct_type(fields: tuple[Field, ...]) -> str:
    """The Spark SQL type of a struct of these fields."""
    return "struct<" + ", ".join(f"{quoted(field.name)}: {field.type}" for field in fields) + ">"


def require_text(schema: object) -> None:
    """Refuses a schema that is no text; users without a type checker pass anything.

    Raises:
        InvalidFormat: then.
    """
    if not isinstance(schema, str):
        hint = "json.dumps(...) makes a text of it" if isinstance(schema, dict | list) else "write the schema as a text"
        raise InvalidFormat(f"the schema {schema!r} is no text", hint=hint)
