"""Formats of one column that are mostly keys: short and whole numbers in bytes, UUIDs in bytes, and JSON without an object."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from lakestreams.errors import InvalidFormat
from lakestreams.formats.base import Field, Parsed
from lakestreams.spark import F

if TYPE_CHECKING:
    from pyspark.sql import Column

_UUID_BYTES: Final = 16
_UUID_PARTS: Final = ((1, 8), (9, 4), (13, 4), (17, 4), (21, 12))  # place and length in the hexadecimal digits
_UUID_TEXT: Final = r"\A[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\z"
_WHITE: Final = " \t\r\n"
_WHOLE: Final = r"\A-?(?:0|[1-9][0-9]*+)\z"
# Every repetition is possessive, so that Java's engine neither tries again nor calls itself: no text is too long for it.
# Half of a surrogate pair is no character.
_UNICODE: Final = r"u(?:(?![dD][89a-fA-F])[0-9a-fA-F]{4}|[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})"
_STRING: Final = rf'\A"(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|{_UNICODE}))*+"\z'
_TYPES: Final = ("string", "bigint", "int")


@dataclass(frozen=True)
class _Number:
    """A signed number in big-endian bytes, as Java writes it."""

    column: str = "value"

    size: ClassVar[int]
    type: ClassVar[str]
    word: ClassVar[str]

    @property
    def fields(self) -> tuple[Field, ...]:
        """One number."""
        return (Field(self.column, self.type),)

    def read(self, raw: Column) -> Column:
        """The bytes as a number, where there are as many as it has."""
        digits = F.conv(F.hex(raw), 16, 10).cast("bigint")
        half = 1 << (8 * self.size - 1)
        signed = F.when(digits >= half, digits - 2 * half).otherwise(digits)
        return F.when(F.octet_length(raw) == self.size, signed).cast(self.type)

    def parse(self, raw: Column, read: Column | None = None) -> Parsed:
        """Any other length is an error."""
        broken = raw.isNotNull() & (F.octet_length(raw) != self.size)
        number = self.read(raw) if read is None else read
        said = F.concat(F.lit(f"{self.word} has {self.size} bytes, not "), F.octet_length(raw).cast("string"))
        return Parsed(
            value=F.when(raw.isNotNull() & ~broken, F.struct(number.alias(self.column))), error=F.when(broken, said)
        )

    def write(self, value: Column) -> Column:
        """The number's bytes."""
        digits = 2 * self.size
        return F.unhex(F.substring(F.lpad(F.hex(value[self.column].cast("bigint")), 16, "0"), -digits, digits))

    def describe(self) -> str:
        """The format with its column."""
        return f"{type(self).__name__.lower()}({self.column})"


@dataclass(frozen=True)
class Int(_Number):
    """Four bytes, big endian, signed, as one int column (Kafka's IntegerSerializer)."""

    size, type, word = 4, "int", "an int"


@dataclass(frozen=True)
class Short(_Number):
    """Two bytes, big endian, signed, as one smallint column (Kafka's ShortSerializer)."""

    size, type, word = 2, "smallint", "a short"


@dataclass(frozen=True)
class Uuid:
    """Sixteen bytes as one string column in the usual form, `550e8400-e29b-41d4-a716-446655440000`.

    Kafka's UUIDSerializer writes this form as text: `Text` reads that.
    """

    column: str = "value"

    @property
    def fields(self) -> tuple[Field, ...]:
        """One string."""
        return (Field(self.column, "string"),)

    def read(self, raw: Column) -> Column:
        """The bytes in hexadecimal digits with dashes between, in small letters."""
        digits = F.lower(F.hex(raw))
        parts = (F.substring(digits, place, length) for place, length in _UUID_PARTS)
        return F.when(F.octet_length(raw) == _UUID_BYTES, F.concat_ws("-", *parts))

    def parse(self, raw: Column, read: Column | None = None) -> Parsed:
        """Any other length than sixteen bytes is an error."""
        broken = raw.isNotNull() & (F.octet_length(raw) != _UUID_BYTES)
        text = self.read(raw) if read is None else read
        said = F.concat(F.lit(f"a UUID has {_UUID_BYTES} bytes, not "), F.octet_length(raw).cast("string"))
        return Parsed(
            value=F.when(raw.isNotNull() & ~broken, F.struct(text.alias(self.column))), error=F.when(broken, said)
        )

    def write(self, value: Column) -> Column:
        """The sixteen bytes; a text that is no UUID ends the run."""
        text = value[self.column]
        wrong = F.raise_error(F.concat(F.lit("not a UUID: "), F.substring(text, 1, 40)))
        digits = F.when(text.rlike(_UUID_TEXT) | text.isNull(), text).otherwise(wrong.cast("string"))
        return F.unhex(F.replace(digits, F.lit("-"), F.lit("")))

    def describe(self) -> str:
        """The format with its column."""
        return f"uuid({self.column})"


@dataclass(frozen=True)
class JsonScalar:
    """A JSON text or whole number without an object around it, as one column: `"a"` or `5`.

    JSON's `null` is a null. A number in quotes is a text, and the other way round it is an error.

    Args:
        schema: the column and its type, such as `id bigint`: string, bigint or int.
    """

    schema: str

    def __post_init__(self) -> None:
        """Refuses a schema of other than one such column."""
        name, _, kind = self.schema.strip().partition(" ")
        if kind.strip().lower() not in _TYPES:
            msg = f"the schema {self.schema!r} is not one column of {', '.join(_TYPES)}"
            raise InvalidFormat(msg, hint='such as JsonScalar("id bigint"); Json reads objects')
        object.__setattr__(self, "_field", Field(name, kind.strip().lower()))

    @property
    def _one(self) -> Field:
        field: Field = self._field  # type: ignore[attr-defined]
        return field

    @property
    def fields(self) -> tuple[Field, ...]:
        """The one column."""
        return (self._one,)

    def read(self, raw: Column) -> Column:
        """The value where the bytes are one of the declared type, else null."""
        text = F.trim(raw.cast("string"), F.lit(_WHITE))
        if self._one.type != "string":
            return F.when(text.rlike(_WHOLE), text.try_cast(self._one.type))
        inner = F.from_json(F.concat(F.lit('{"v":'), text, F.lit("}")), "v string")["v"]
        return F.when(F.is_valid_utf8(raw.cast("string")) & text.rlike(_STRING), inner)

    def parse(self, raw: Column, read: Column | None = None) -> Parsed:
        """The value, null where it is null, or what is wrong with it."""
        found = self.read(raw) if read is None else read
        text = raw.cast("string")
        null = F.trim(text, F.lit(_WHITE)) == "null"
        wanted = "text in quotes" if self._one.type == "string" else f"whole number of {self._one.type}"
        said = F.when(~F.is_valid_utf8(text), F.lit("not valid UTF-8")).otherwise(
            F.concat(F.lit(f"{self._one.name} is no JSON {wanted}: "), F.substring(text, 1, 40))
        )
        return Parsed(
            value=F.when(found.isNotNull(), F.struct(found.alias(self._one.name))),
            error=F.when(raw.isNotNull() & found.isNull() & ~null, said),
        )

    def write(self, value: Column) -> Column:
        """The value as JSON."""
        own = value[self._one.name]
        if self._one.type != "string":
            return own.cast("string").cast("binary")
        text = F.to_json(F.struct(own.alias("v")), {"ignoreNullFields": "false"})
        return F.when(own.isNotNull(), F.substring(text, F.lit(len('{"v":') + 1), F.length(text) - len('{"v":}'))).cast(
            "binary"
        )

    def describe(self) -> str:
        """The format with its column."""
        return f"json_scalar({self._one.name} {self._one.type})"


__all__ = ["Int", "JsonScalar", "Short", "Uuid"]
