"""Event time: from the record or from a field of the value, with fallback."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakestreams.spark import F

if TYPE_CHECKING:
    from pyspark.sql import Column

NUMBER_TYPES = ("bigint", "long", "int", "integer")
TIME_TYPES = ("timestamp",)


@dataclass(frozen=True)
class EventTime:
    """Where a record's event time comes from.

    The usable ones are zero or later (Kafka writes -1 for "none"). A field that is null, missing or negative falls
    back to the record's own timestamp unless `fallback` is false; a record with no usable time is quarantined and
    does not move stream time (Kafka Streams' RecordQueue drops it likewise).

    Args:
        field: a bigint (ms since the epoch) or timestamp column of the value; other units are declared in its schema
            (`timestamp_s`, `timestamp_us`). None means the record's own timestamp.
        fallback: whether the record's own timestamp stands in for an unusable field.
    """

    field: str | None = None
    fallback: bool = True

    def extract(self, value: Column, field_type: str | None, record_ms: Column) -> Column:
        """Event time in ms, null where none is usable.

        Args:
            value: the typed value struct.
            field_type: the SQL type of `field`, or None.
            record_ms: the record's own timestamp in ms.
        """
        own = F.when(record_ms >= 0, record_ms)
        if self.field is None:
            return own
        column = value[self.field]
        millis = F.unix_millis(column) if field_type in TIME_TYPES else column.cast("bigint")
        usable = F.when(millis >= 0, millis)
        return F.coalesce(usable, own) if self.fallback else usable

    def describe(self) -> str:
        """The rule in a word or two."""
        if self.field is None:
            return "record"
        return f"field({self.field}{', record' if self.fallback else ''})"
