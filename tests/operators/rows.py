"""Frames written by hand: a row is (key, value, ts, cycle[, foreign or mapped key]); keys and values are short texts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from lakestreams.operators.records import CONTRIBUTOR_TYPE, ORDER_TYPE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def frame(
    spark: SparkSession,
    topic: str,
    rows: Iterable[tuple[Any, ...]],
    *,
    side: int = 0,
    key: str = "k: string",
    extra: Mapping[str, str] | None = None,
) -> DataFrame:
    """A records frame; the offset of a record is its cycle, keys of several columns are tuples."""
    extra = extra or {}
    made = []
    for name, value, ts, cycle, *more in rows:
        at = (topic, 0, cycle, 0)
        cells = [_cell(cell) for cell in more]
        made.append((_cell(name), _cell(value), ts, (cycle, cycle, side, *at), 0, "record", [at], *cells))
    types = {
        "k": f"struct<{key}>",
        "v": f"struct<{topic}: string>",
        "ts": "bigint",
        "o": ORDER_TYPE,
        "n": "int",
        "kind": "string",
        "contributors": f"array<{CONTRIBUTOR_TYPE}>",
        **extra,
    }
    return spark.createDataFrame(made, ", ".join(f"{name} {type_}" for name, type_ in types.items()))


def in_turns(spark: SparkSession, count: int) -> tuple[DataFrame, DataFrame]:
    """So many records of one key in one cycle, a table's and a stream's in turns; each value is its place."""
    rows = spark.range(count).selectExpr("*", "id % 2 = 0 is_row")
    order = "named_struct('cycle', 1L, 'stream_time_ms', id, 'side', 0, 'source', '{}', 'partition', 0, 'offset', id, 'attempt', 0)"
    columns = ["struct('key' k) k", "struct(id {}) v", "id ts", f"{order} o", "0 n", "'record' kind",
               "array(named_struct('source', '{}', 'partition', 0, 'offset', id, 'attempt', 0)) contributors"]  # fmt: skip
    table = rows.where("is_row").selectExpr(*(one.format("t") for one in columns))
    return table, rows.where("not is_row").selectExpr(*(one.format("s") for one in columns))


def _cell(value: Any) -> Any:
    return value if value is None or isinstance(value, tuple) else (value,)


def results(joined: DataFrame) -> list[tuple[Any, ...]]:
    """(cycle, n, key, left value, right value, ts, kind), in order; of one column a struct is its column."""
    rows = sorted(joined.collect(), key=lambda row: (row.o, row.n))
    return [(row.o.cycle, row.n, _plain(row.k), _plain(row.v), _plain(row.rv), row.ts, row.kind) for row in rows]


def _plain(value: Any) -> Any:
    return value[0] if value is not None and len(value) == 1 else value and tuple(value)
