"""Formats of one column: UTF-8 text and Kafka's eight-byte long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakestreams.formats.base import Field, Parsed
from lakestreams.spark import F

if TYPE_CHECKING:
    from pyspark.sql import Column

_LONG_BYTES = 8


@dataclass(frozen=True)
class Text:
    """UTF-8 text as one string column (Kafka's StringSerializer)."""

    column: str = "value"

    @property
    def fields(self) -> tuple[Field, ...]:
        """One string."""
        return (Field(self.column, "string"),)

    def read(self, raw: Column) -> Column:
        """The bytes as text."""
        return raw.cast("string")

    def parse(self, raw: Column, read: Column | None = None) -> Parsed:
        """Invalid UTF-8 is an error: Spark would otherwise carry the broken bytes on silently."""
        text = self.read(raw) if read is None else read
        broken = raw.isNotNull() & ~F.is_valid_utf8(text)
        return Parsed(
            value=F.when(raw.isNotNull() & ~broken, F.struct(text.alias(self.column))),
            error=F.when(broken, F.lit("not valid UTF-8")),
        )

    def write(self, value: Column) -> Column:
        """The text as UTF-8."""
        return value[self.column].cast("binary")

    def describe(self) -> str:
        """The format with its column."""
        return f"text({self.column})"


@dataclass(frozen=True)
class Long:
    """Eight bytes, big endian, signed, as one bigint column (Kafka's LongSerializer)."""

    column: str = "value"

    @property
    def fields(self) -> tuple[Field, ...]:
        """One bigint."""
        return (Field(self.column, "bigint"),)

    def read(self, raw: Column) -> Column:
        """The bytes as a number, where there are eight of them."""
        # a negative target base makes conv() read the sixteen hex digits as a signed number
        return F.when(F.octet_length(raw) == _LONG_BYTES, F.conv(F.hex(raw), 16, -10).cast("bigint"))

    def parse(self, raw: Column, read: Column | None = None) -> Parsed:
        """Any other length than eight bytes is an error."""
        broken = raw.isNotNull() & (F.octet_length(raw) != _LONG_BYTES)
        number = self.read(raw) if read is None else read
        return Parsed(
            value=F.when(raw.isNotNull() & ~broken, F.struct(number.alias(self.column))),
            error=F.when(broken, F.concat(F.lit("a long has 8 bytes, not "), F.octet_length(raw).cast("string"))),
        )

    def write(self, value: Column) -> Column:
        """The number's eight bytes."""
        return F.unhex(F.lpad(F.hex(value[self.column]), 2 * _LONG_BYTES, "0"))

    def describe(self) -> str:
        """The format with its column."""
        return f"long({self.column})"
