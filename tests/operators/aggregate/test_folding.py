"""Folds, beside the same loop in Python: keys with fewer rows than a piece has, as many, and more."""

from __future__ import annotations

from pyspark.sql import Column, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.operators.aggregate import folding
from lakestreams.operators.aggregate.folding import SO_FAR, folded

PIECE = folding._PIECE
LENGTHS = (1, 2, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE, 2 * PIECE + 1, 5 * PIECE + 7)


def test_every_row_has_what_was_made_of_all_before_it(spark: SparkSession) -> None:
    rows = [Row(key=key, at=at, value=(at * 31 + key) % 17) for key in LENGTHS for at in range(key)]

    def step(so_far: Column, row: Column) -> Column:
        return (F.coalesce(so_far, F.lit(1)) * 3 + row["value"]) % 10_007

    found = folded(
        spark.createDataFrame(rows, "key int, at int, value int"), ["key"], ["at"], F.lit(None).cast("int"), step
    )
    expected = {}
    for key in LENGTHS:
        so_far = 1
        for at in range(key):
            so_far = expected[key, at] = (so_far * 3 + (at * 31 + key) % 17) % 10_007
    assert {(row["key"], row["at"]): row[SO_FAR] for row in found.collect()} == expected
    assert found.columns == ["key", "at", "value", SO_FAR]


def test_what_is_made_can_be_a_list_and_rows_may_hold_maps(spark: SparkSession) -> None:
    rows = spark.range(PIECE + 3).select(
        F.lit("k").alias("key"), F.col("id").alias("at"), F.create_map(F.lit("id"), F.col("id")).alias("value")
    )

    def step(so_far: Column, row: Column) -> Column:
        return F.concat(so_far, F.array(row["value"]["id"]))

    found = folded(rows, ["key"], ["at"], F.array().cast("array<bigint>"), step)
    for row in found.collect():
        assert row[SO_FAR] == list(range(row["at"] + 1))
        assert row["value"] == {"id": row["at"]}
