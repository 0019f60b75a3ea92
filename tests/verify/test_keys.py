"""Keys as somebody writes them, among typed ones."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F  # noqa: N812

from lakestreams.verify.keys import has_key

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ONE = "k struct<n: bigint>, row int"
TWO = "k struct<region: string, at: struct<x: int, y: int>>, row int"
TIME = "k struct<at: timestamp>, row int"
EXACT = "k struct<price: decimal(38, 18)>, row int"
WINDOW = "k struct<region: string, window_start_ms: bigint, window_end_ms: bigint>, row int"


def _at(microsecond: int) -> datetime:
    return datetime(2026, 1, 1, microsecond=microsecond, tzinfo=UTC)


@pytest.mark.parametrize(
    ("types", "keys", "given", "found"),
    [
        (ONE, [(42,), (4,), None], "42", [0]),
        (ONE, [(42,), (4,), None], ' {"n" : 42}', [0]),
        (ONE, [(42,), (None,), None], '{"n": "asia"}', []),
        (ONE, [(42,), (None,), None], '{"n": null}', []),
        (ONE, [(42,), None], '{"m": 42}', []),
        (ONE, [(42,), None], "{}", []),
        (TWO, [("asia", (1, 2)), ("asia", (2, 1)), ("asia", None)], '{"at":{"y":2, "x":1}, "region":"asia"}', [0]),
        (TWO, [("asia", (1, 2)), ("asia", None), ("eu", None)], '{"region": "asia", "at": null}', [1]),
        (TWO, [("asia", (1, 2)), ("asia", None), ("eu", None)], '{"region": "asia"}', [0, 1]),
        (TWO, [("asia", None)], "asia", []),
        (TIME, [(_at(123_456),), (_at(123_457),), (_at(123_000),)], '{"at": "2026-01-01T00:00:00.123456Z"}', [0]),
        (
            EXACT,
            [(Decimal("0.123456789012345678"),), (Decimal("0.12345678901234568"),)],
            '{"price": 0.123456789012345678}',
            [0],
        ),
        (WINDOW, [("asia", 0, 10), ("asia", 10, 20), ("eu", 0, 10)], "asia", [0, 1]),
        (WINDOW, [("asia", 0, 10), ("asia", 10, 20), ("eu", 0, 10)], '{"region":"asia","window_start_ms":10}', [1]),
    ],
)
def test_a_key_is_found_by_what_can_be_read_of_it(
    spark: SparkSession, types: str, keys: list[object], given: str, found: list[int]
) -> None:
    rows = spark.createDataFrame([(key, number) for number, key in enumerate(keys)], types)
    columns = {name: F.col("k")[name] for name in rows.schema["k"].dataType.fieldNames()}  # type: ignore[attr-defined]
    assert [row["row"] for row in rows.where(has_key(rows, columns, given)).orderBy("row").collect()] == found
