"""Results as the records of a Kafka topic: key and value as bytes, by the output's formats."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.errors import FormatUnfit
from lakestreams.evaluate.stateless import names
from lakestreams.formats.json import write_object
from lakestreams.operators.records import KEY, TIME, VALUE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from lakestreams.formats.base import Format, WritableFormat
    from lakestreams.topology.endpoints import KafkaSink


def encoded(sink: KafkaSink, rows: DataFrame, time: str) -> DataFrame:
    """The rows with their bytes besides them. A stream's null values, which move clocks on their way, are left out.

    Args:
        rows: a records frame.
        time: what a value's format calls the result's time (bigint, ms), unless the value has a column of that name.

    Returns:
        The columns of `rows`, and `key binary|null, value binary|null`; a deletion's value is null.

    Raises:
        FormatUnfit: if a format names columns that the results do not have, or have with another type, or not all
            columns of the key.
    """
    if not sink.is_table:
        rows = rows.where(F.col(VALUE).isNotNull())
    key = {name: F.col(KEY)[name] for name in names(rows, KEY)}
    value = {name: F.col(VALUE)[name] for name in names(rows, VALUE)}
    told = {time: F.col(TIME)} | value
    _require_fit(sink, rows, "key", sink.key, key)
    _require_fit(sink, rows, "value", sink.value, told)
    return rows.withColumns(
        {
            "key": _bytes(sink.key, key, list(key), F.col(KEY).isNotNull()),
            "value": _bytes(sink.value, told, list(value), F.col(VALUE).isNotNull()),
        }
    )


def _bytes(how: Format | None, columns: Mapping[str, Column], every: list[str], present: Column) -> Column:
    chosen = every if how is None else [field.name for field in how.fields]
    struct = F.when(present, F.struct(*(columns[name].alias(name) for name in chosen)))
    if how is None:
        return write_object(struct)
    writer: WritableFormat = how  # type: ignore[assignment] # build() lets no other format through
    return writer.write(struct)


def _require_fit(
    sink: KafkaSink, rows: DataFrame, side: str, how: Format | None, columns: Mapping[str, Column]
) -> None:
    if how is None:
        return
    declared = {field.name: field.type for field in how.fields}
    lacks = [name for name in declared if name not in columns]
    left_out = [name for name in columns if name not in declared] if side == "key" else []
    if lacks or left_out:
        fault = f"names {', '.join(lacks)}, which the {side} lacks" if lacks else f"leaves {', '.join(left_out)} out"
        message = f"{side}: {how.describe()} {fault}"
        raise FormatUnfit(message, hint=f"the {side} has: {', '.join(columns)}", where=sink.where)
    wanted = rows.select(*(F.lit(None).cast(kind).alias(name) for name, kind in declared.items())).schema
    found = rows.select(*(columns[name].alias(name) for name in declared)).schema
    wrong = [
        f"{there.name} is {there.dataType.simpleString()}, {side}: {how.describe()} writes it as "
        f"{asked.dataType.simpleString()}"
        for there, asked in zip(found.fields, wanted.fields, strict=True)
        if there.dataType.simpleString() != asked.dataType.simpleString()
    ]
    if wrong:
        hint = "declare it as it is, or cast it in a map_values or joiner"
        raise FormatUnfit("\n".join(wrong), hint=hint, where=sink.where)
