"""Formats of one column that are mostly keys: short and whole numbers in bytes, UUIDs in bytes, and JSON without an object."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final
from uuid import UUID

from lakestreams.errors import InvalidFormat
from lakestreams.formats.base import Field, require_text
from lakestreams.formats.encoding import unwritable
from lakestreams.formats.jsontext import WHITE, parsed
from lakestreams.formats.objects import NOT_UTF8
from lakestreams.spark import F

if TYPE_CHECKING:
    from pyspark.sql import Column

    from lakestreams.formats.decoding import Decoded

_UUID_BYTES: Final = 16
_UUID_TEXT: Final = r"\A[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\z"
_WHOLE: Final = re.compile(r"-?(?:0|[1-9][0-9]*+)\Z")
_BITS: Final = {"bigint": 64, "int": 32}
_SHOWN: Final = 40  # characters of a record in a message
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

    def decode(self, raw: Any) -> Decoded:
        """Any other length is an error."""
        from lakestreams.formats.decoding import number_column  # noqa: PLC0415 - declaring needs no Arrow

        return number_column(self.fields, raw, self.size, self.word)

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

    def decode(self, raw: Any) -> Decoded:
        """Any other length than sixteen bytes is an error."""
        from lakestreams.formats.decoding import one_by_one  # noqa: PLC0415 - as above

        return one_by_one(self.fields, self._one, raw)

    def _one(self, raw: bytes) -> tuple[dict[str, Any] | None, str | None]:
        if len(raw) != _UUID_BYTES:
            return None, f"a UUID has {_UUID_BYTES} bytes, not {len(raw)}"
        return {self.column: str(UUID(bytes=raw))}, None

    def write(self, value: Column) -> Column:
        """The sixteen bytes; a text that is no UUID ends the run."""
        text = value[self.column]
        wrong = unwritable(f"{self.describe()}: not a UUID: ", F.substring(text, 1, _SHOWN))
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
        require_text(self.schema)
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

    def decode(self, raw: Any) -> Decoded:
        """The value, null where it is null, or what is wrong with it."""
        from lakestreams.formats.decoding import one_by_one  # noqa: PLC0415 - as above

        return one_by_one(self.fields, self._judged, raw)

    def _judged(self, raw: bytes) -> tuple[dict[str, Any] | None, str | None]:
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            return None, NOT_UTF8
        bare, one = text.strip(WHITE), self._one
        if bare == "null":
            return None, None
        value = _text(bare) if one.type == "string" else _whole(bare, _BITS[one.type])
        if value is None:
            wanted = "text in quotes" if one.type == "string" else f"whole number of {one.type}"
            return None, f"{one.name} is no JSON {wanted}: {text[:_SHOWN]}"
        return {one.name: value}, None

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


def _whole(text: str, bits: int) -> int | None:
    if not _WHOLE.match(text) or len(text) > bits:
        return None
    number = int(text)
    return number if -(2 ** (bits - 1)) <= number < 2 ** (bits - 1) else None


def _text(text: str) -> str | None:
    """A text in quotes; none, if half of a surrogate pair is in it."""
    if not text.startswith('"'):
        return None
    try:
        found: str = parsed(text)
        found.encode()
    except ValueError:
        return None
    return found


__all__ = ["Int", "JsonScalar", "Short", "Uuid"]
