"""Rows that weigh: no batch for a worker is many bytes, and the rows that arrive are those that were sent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F  # noqa: N812
from tests.operators.plans import settings

from lakestreams.engine.runtime.tuning import ARROW
from lakestreams.operators.weights import BYTES_A_ROW, EMPTY, arrived, weighed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 10
LARGE = ROWS * BYTES_A_ROW
# A type, and values of it that have `LARGE` bytes, whichever part of them has.
LARGE_VALUES: tuple[tuple[str, str], ...] = (
    ("string", "large"),
    ("binary", "cast(large as binary)"),
    ("array<string>", "array('', null, large)"),
    ("array<binary>", "array(cast(large as binary))"),
    ("map<string, string>", "map('a', null, 'b', large)"),
    ("map<string, int>", "map(large, 1)"),
    ("struct<a: int, b: string>", "named_struct('a', 1, 'b', large)"),
    ("array<struct<a: int, b: string>>", "array(null, named_struct('a', null, 'b', large))"),
    ("array<struct<a: struct<b: binary>>>", "array(named_struct('a', named_struct('b', cast(large as binary))))"),
    ("array<array<string>>", "array(null, array(null, large))"),
    ("struct<m: map<string, array<string>>>", "named_struct('m', map('', array(large)))"),
    ("array<map<string, string>>", "array(map('x', large))"),
    ("array<array<string>>", f"array_repeat(array(), {LARGE // 16})"),
    ("array<struct<a: struct<>, b: int>>", f"array_repeat(named_struct('a', struct(), 'b', 1), {LARGE // 16})"),
    ("array<bigint>", f"array_repeat(1L, {LARGE // 16})"),
)


# Behind Connect: fields and elements of lists, with functions of an element and without.
BEHIND_CONNECT = ("array<struct<a: int, b: string>>", "struct<m: map<string, array<string>>>")


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        pytest.param(kind, value, marks=pytest.mark.connect if kind in BEHIND_CONNECT else pytest.mark.lts)
        for kind, value in LARGE_VALUES
    ],
)
def test_a_value_of_many_bytes_counts_as_many_rows_wherever_they_are(
    spark: SparkSession, kind: str, value: str
) -> None:
    given = spark.range(1).select("id", F.expr(f"repeat('x', {LARGE})").alias("large"))
    rows = given.select("id", F.expr(value).cast(kind).alias("v"))
    rows = rows.unionByName(rows.select("id", F.lit(None).cast(kind).alias("v")))
    sent = weighed(rows)
    found = sent.groupBy(EMPTY, F.col("v").isNull().alias("null")).count().collect()
    counts = {(row[EMPTY], row["null"]): row["count"] for row in found}
    assert counts.pop((True, True)) >= ROWS
    assert counts == {(False, False): 1, (False, True): 1}
    assert sent.where(~F.col(EMPTY)).drop(EMPTY).collect() == rows.collect()


def test_rows_of_fixed_size_are_sent_as_they_are(spark: SparkSession) -> None:
    rows = spark.range(3).select("id", F.struct("id").alias("s"), F.lit("x").alias("name"))
    assert weighed(rows, small=("name",)).columns == rows.columns


@pytest.mark.slow
def test_no_batch_is_many_bytes_and_every_row_arrives_in_its_place(spark: SparkSession) -> None:
    """Records of 1 MB among many of a few bytes, as Kafka allows them."""
    size = F.when((F.col("id") > 30_000) & (F.col("id") <= 30_300), 1 << 20).otherwise(5)
    rows = spark.range(0, 60_000, 1, 1).select("id", F.expr("'x'").alias("x"), size.cast("int").alias("size"))
    rows = rows.select("id", F.expr("repeat(x, size)").alias("v"))

    def told(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            own = next(arrived([batch]))
            ids = own.column("id").to_pylist()
            yield pa.RecordBatch.from_pydict(
                {"sent": [batch.num_rows], "bytes": [batch.nbytes], "ids": pa.array([ids], pa.list_(pa.int64()))}
            )

    with settings(spark, ARROW):
        found = weighed(rows).mapInArrow(told, "sent bigint, bytes bigint, ids array<bigint>").collect()
    assert [one for row in found for one in row["ids"]] == [*range(60_000)]
    assert max(row["sent"] for row in found) == 5_000
    assert max(row["bytes"] for row in found) < 5_000 * (BYTES_A_ROW + 64) + (1 << 20)
    assert len(found) < 15, "rows of few bytes still go together"
