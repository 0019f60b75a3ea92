"""How Spark writes values as JSON text of which equal texts are equal values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lakestreams.spark import F

if TYPE_CHECKING:
    from pyspark.sql import Column

# Without these Spark cuts times off behind the millisecond, and writes them in the session's zone.
EXACT: Final = {
    "timeZone": "UTC",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}


def exact_json(value: Column, *, nulls: bool = False) -> Column:
    """A struct, a list or a map as compact JSON text, times to the microsecond and in UTC; null for a null.

    Args:
        nulls: whether members of structs that are null are written.
    """
    return F.to_json(value, {**EXACT, "ignoreNullFields": str(not nulls).lower()})


__all__ = ["EXACT", "exact_json"]
