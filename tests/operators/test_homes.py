"""Homes of keys: Kafka's hash over arrays, beside the values that Kafka's own tests have and beside the same in SQL."""

from __future__ import annotations

import random
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import functions as F  # noqa: N812

from lakestreams.operators.homes import LAWS, homes, laws_of, murmur2, share_tasks
from lakestreams.operators.noted_homes import of_all
from lakestreams.partitioning.kafka_default import partition_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# As Kafka's UtilsTest has them.
KNOWN = {
    b"21": -973932308, b"foobar": -790332482, b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829, b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}  # fmt: skip


LAWS_OF = {
    "murmur2": homes,
    "crc32": lambda keys, tasks: np.array([zlib.crc32(one.encode()) % tasks for one in keys.to_pylist()]),
}


def test_hashes_are_kafkas() -> None:
    data, sizes = b"".join(KNOWN), np.array([*map(len, KNOWN)])
    found = murmur2(np.frombuffer(data, np.uint8), np.cumsum(sizes) - sizes, sizes)
    assert found.astype(np.int32).tolist() == [*KNOWN.values()]


def test_keys_in_a_slice_have_their_own_bytes() -> None:
    whole = pa.array([b"x" * 9, b"foobar", None, b"21", b""], pa.binary())
    assert homes(whole.slice(1), 1000).tolist() == homes(whole, 1000).tolist()[1:]
    assert homes(pa.array([], pa.string()), 7).tolist() == []


def texts() -> list[Any]:
    rng = random.Random(1)
    return [*("".join(rng.choices("abcä€😀", k=size)) for size in range(30) for _ in range(3)), "", None]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("string", texts()[:-1]),
        pytest.param("binary", [bytearray(one.encode()) for one in texts()[:-1]], marks=pytest.mark.slow),
        pytest.param("bigint", [0, 1, -1, 2**63 - 1, -(2**63), 1234567890123], marks=pytest.mark.slow),
        pytest.param("int", [0, 1, -1, 2**31 - 1, -(2**31)], marks=pytest.mark.slow),
    ],
)
def test_homes_are_those_of_the_same_in_sql(spark: SparkSession, kind: str, values: list[Any]) -> None:
    rows = spark.createDataFrame([((one,),) for one in values], f"k struct<x: {kind}>").coalesce(1)
    for count in (1, 7):
        placed = rows.withColumn("task", partition_of(rows, "k", count))
        assert share_tasks(placed, count)
        table = placed.toArrow()
        assert homes(table["k"].combine_chunks().flatten()[0], count).tolist() == table["task"].to_pylist()
        materialise = placed.unionByName(placed.withColumn("task", F.col("task") + 1))
        assert not share_tasks(materialise, count)


@pytest.mark.parametrize("size", [1, 9, 500])
def test_what_is_noted_does_not_depend_on_how_keys_are_cut(size: int) -> None:
    """Few keys may lie at the homes of several laws, but for the same few."""
    keys = pa.array([f"k{one % 15}" for one in range(180)])
    rows = pa.StructArray.from_arrays([keys], names=["k"])
    whole = {law: {*keys.filter(pa.array(homes_of(keys, 2) != 1)).to_pylist()} for law, homes_of in LAWS_OF.items()}
    assert all(0 < len(elsewhere) < 15 for elsewhere in whole.values())
    parts = [laws_of(rows.slice(at, size), 1, 2, LAWS) for at in range(0, 180, size)]
    assert of_all(parts) == whole
    many = pa.StructArray.from_arrays([pa.array([f"k{one}" for one in range(180)])], names=["k"])
    assert of_all([laws_of(many.slice(at, size), 1, 2, LAWS) for at in range(0, 180, size)]) == {}


@pytest.mark.slow
def test_keys_of_librdkafkas_producers_are_at_home_too(spark: SparkSession) -> None:
    keys = [*texts()[:-1], "foobar"]
    rows = spark.createDataFrame(
        [((one,), zlib.crc32(one.encode()) % 5) for one in keys], "k struct<x: string>, task int"
    )
    assert share_tasks(rows, 5)
    other = spark.createDataFrame([(("foobar",), homes(pa.array(["foobar"]), 5).item())], rows.schema)
    assert other.first()["task"] != rows.where("k.x = 'foobar'").first()["task"]
    assert not share_tasks(rows.unionByName(other), 5), "one of each: neither law has all"


@pytest.mark.slow
def test_a_few_keys_may_be_elsewhere_if_each_lies_in_one_task(spark: SparkSession) -> None:
    """Heartbeats that a producer sends to every partition by its number."""
    keys = spark.range(50_000).select(F.struct(F.col("id").cast("string").alias("x")).alias("k"))
    rows = keys.withColumn("task", partition_of(keys, "k", 4))
    beats = spark.createDataFrame([((f"beat{task}",), task) for task in range(4)], rows.schema)
    assert share_tasks(rows.unionByName(beats), 4)
    assert not share_tasks(rows.unionByName(beats).unionByName(beats.selectExpr("k", "(task + 1) % 4 as task")), 4)
    home = rows.where("k.x = '77'").first()["task"]
    assert not share_tasks(rows.unionByName(spark.createDataFrame([(("77",), (home + 1) % 4)], rows.schema)), 4)


def test_long_keys_and_tasks_with_too_many_rows_are_not_told(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert share_tasks(keyed(spark, "struct<x: string>", (("x" * 256,), 0)), 1)
    assert not share_tasks(keyed(spark, "struct<x: string>", (("x" * 257,), 0)), 1)
    assert not share_tasks(keyed(spark, "struct<x: string>", ((None,), 0)), 1), "a null inside a key equals another one"
    rows = keyed(spark, "struct<x: string>", *(((str(place),), 0) for place in range(9)), (None, 0))
    for most, told in ((10, True), (9, False)):
        monkeypatch.setattr("lakestreams.operators.homes.ROWS_OF_A_TASK", most)
        assert share_tasks(rows, 1) == told


def keyed(spark: SparkSession, kind: str, *rows: tuple[Any, int]) -> DataFrame:
    return spark.createDataFrame([*rows], f"k {kind}, task int")


def test_null_keys_have_no_home_and_keys_of_other_kinds_none_that_is_known(spark: SparkSession) -> None:
    assert share_tasks(keyed(spark, "struct<x: string>", (None, 3)), 4)
    assert not share_tasks(keyed(spark, "struct<x: string, y: string>", (("a", "b"), 0)), 1)
    assert not share_tasks(keyed(spark, "struct<x: double>", ((1.5,), 0)), 1)


@pytest.mark.slow
def test_one_key_elsewhere_among_many(spark: SparkSession) -> None:
    keys = spark.range(50_000).select(F.struct(F.col("id").cast("string").alias("x")).alias("k"))
    rows = keys.withColumn("task", partition_of(keys, "k", 4))
    assert share_tasks(rows, 4)
    assert share_tasks(rows.withColumn("task", F.when(F.col("k")["x"] == "33333", -1).otherwise(F.col("task"))), 4)
    assert not share_tasks(rows, 8), "too many to look for"
