"""Cases of a format, in one Spark job: what each record becomes, and how that differs from what is wanted."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.formats import Format

BAD = "an error"  # stands for any error message


def read(
    spark: SparkSession, given: Format, cases: Mapping[str, bytes | None], nulls: Collection[str] = ()
) -> dict[str, tuple[Any, str | None]]:
    """Case name to (columns or None, error or None); `nulls` are the cases whose bytes say that there is no value."""
    raw = [(name, None if data is None else bytearray(data)) for name, data in cases.items()]
    parsed = given.parse(F.col("raw"))
    frame = spark.createDataFrame(raw, "name string, raw binary")
    rows = frame.select("name", parsed.value.alias("value"), parsed.error.alias("error")).collect()
    found = {row["name"]: (row["value"].asDict(recursive=True) if row["value"] else None, row["error"]) for row in rows}
    for name, (value, error) in found.items():
        assert value is None or error is None, f"{name}: a struct and an error"
        assert (value is None and error is None) == (cases[name] is None or name in nulls), (
            f"{name}: neither a struct nor an error"
        )
    return found


def differences(found: Mapping[str, tuple[Any, str | None]], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Cases that came out otherwise; a wanted value lists the columns that are not null, BAD any error."""
    wrong = {}
    for name, want in wanted.items():
        value, error = found[name]
        plain = BAD if error is not None else value and {k: v for k, v in value.items() if v is not None}
        if plain != want:
            wrong[name] = (plain, error)
    return wrong
