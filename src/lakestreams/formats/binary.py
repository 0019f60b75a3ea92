"""Formats of one column: UTF-8 text and Kafka's eight-byte long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakestreams.formats.base import Field
from lakestreams.spark import F

if TYPE_CHECKING:
    from pyspark.sql import Column

    from lakestreams.formats.decoding import Decoded

_LONG_BYTES = 8


@dataclass(frozen=True)
class Text:
    """UTF-8 text as one string column (Kafka's StringSerializer)."""

    column: str = "value"

    @property
    def fields(self) -> tuple[Field, ...]:
        """One string."""
        return (Field(self.column, "string"),)

    def decode(self, raw: Any) -> Decoded:
        """Invalid UTF-8 is an error: Spark would otherwise carry the broken bytes on silently."""
        from lakestreams.formats.decoding import text_column  # noqa: PLC0415 - declaring needs no Arrow

        return text_column(self.fields, raw, "not valid UTF-8")

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

    def decode(self, raw: Any) -> Decoded:
        """Any other length than eight bytes is an error."""
        from lakestreams.formats.decoding import number_column  # noqa: PLC0415 - as above

        return number_column(self.fields, raw, _LONG_BYTES, "a long")

    def write(self, value: Column) -> Column:
        """The number's eight bytes."""
        return F.unhex(F.lpad(F.hex(value[self.column]), 2 * _LONG_BYTES, "0"))

    def describe(self) -> str:
        """The format with its column."""
        return f"long({self.column})"
