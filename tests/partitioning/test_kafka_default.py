"""Partitions of keys as Kafka's default partitioner computes them, from its own vectors and from a plain murmur2."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.partitioning.kafka_default import partition_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CASES = Path(__file__).parents[1] / "conformance" / "cases" / "kafka_streams.json"
VECTORS = json.loads(CASES.read_text(encoding="utf-8"))["partitioner_vectors"]
COUNTS = sorted({int(count) for vector in VECTORS for count in vector["partition_by_count"]})
MASK, M = 0xFFFFFFFF, 0x5BD1E995


def murmur2(data: bytes) -> int:
    """The hash as Kafka's serializers and producers use it, as a signed 32-bit number."""
    hashed = 0x9747B28C ^ len(data)
    full = len(data) - len(data) % 4
    for at in range(0, full, 4):
        word = int.from_bytes(data[at : at + 4], "little") * M & MASK
        hashed = hashed * M & MASK ^ ((word ^ word >> 24) * M & MASK)
    if data[full:]:
        hashed = (hashed ^ int.from_bytes(data[full:], "little")) * M & MASK
    hashed = (hashed ^ hashed >> 13) * M & MASK
    hashed ^= hashed >> 15
    return hashed - (1 << 32) if hashed > MASK >> 1 else hashed


def partition(data: bytes, count: int) -> int:
    return (murmur2(data) & 0x7FFFFFFF) % count


def computed(keys: DataFrame, counts: list[int]) -> list[tuple[int | None, ...]]:
    """The partitions of each row for each count, in order of the column `no`."""
    columns = [partition_of(keys, "k", count).alias(f"p{count}") for count in counts]
    return [tuple(row) for row in keys.orderBy("no").select(*columns).collect()]


def test_the_plain_murmur2_gives_what_kafka_asserts():
    assert [murmur2(bytes.fromhex(one["key_bytes_hex"])) for one in VECTORS] == [one["murmur2"] for one in VECTORS]


def test_kafkas_vectors_as_bytes(spark: SparkSession):
    rows = [(no, (bytes.fromhex(one["key_bytes_hex"]),)) for no, one in enumerate(VECTORS)]
    expected = [tuple(one["partition_by_count"][str(count)] for count in COUNTS) for one in VECTORS]
    assert computed(spark.createDataFrame(rows, "no int, k struct<b: binary>"), COUNTS) == expected


@pytest.mark.parametrize(("kind", "size"), [("string", None), ("bigint", 8), ("int", 4)])
def test_random_keys_of_one_column(spark: SparkSession, kind: str, size: int | None):
    rng = random.Random(20260821)
    if size is None:
        letters = "abcXYZ019-_ äß€🚲\u0000\u00ff"
        # around the 40 bytes that are unrolled, and far beyond
        keys: list = ["".join(rng.choices(letters, k=length)) for length in [*range(60), 150] for _ in range(4)]
        data = [key.encode() for key in keys]
    else:
        bound = 1 << (8 * size - 1)
        keys = [0, 1, -1, bound - 1, -bound, *(rng.randrange(-bound, bound) for _ in range(200))]
        data = [key.to_bytes(size, "big", signed=True) for key in keys]
    frame = spark.createDataFrame([(no, (key,)) for no, key in enumerate(keys)], f"no int, k struct<key: {kind}>")
    assert computed(frame, [7, 12]) == [(partition(one, 7), partition(one, 12)) for one in data]


def test_the_same_from_a_table_on_disk(spark: SparkSession, tmp_path: Path):
    """Local rows are evaluated while planning; rows of a file by generated code."""
    keys = [f"{'x' * length}{no}" for no, length in enumerate([*range(50), 200])]
    rows = [(no, (key,)) for no, key in enumerate(keys)]
    spark.createDataFrame(rows, "no int, k struct<key: string>").write.parquet(str(tmp_path / "keys"))
    frame = spark.read.parquet(str(tmp_path / "keys"))
    assert computed(frame, [12]) == [(partition(key.encode(), 12),) for key in keys]


def test_other_keys_are_hashed_as_compact_json(spark: SparkSession):
    rows = [(0, ("de", 5)), (1, (None, 5)), (2, ("ü", None)), (3, (None, None))]
    texts = ['{"country":"de","shop":5}', '{"shop":5}', '{"country":"ü"}', "{}"]
    frame = spark.createDataFrame(rows, "no int, k struct<country: string, shop: int>")
    assert computed(frame, [12]) == [(partition(text.encode(), 12),) for text in texts]
    frame = spark.createDataFrame([(0, (1.5,))], "no int, k struct<d: double>")
    assert computed(frame, [12]) == [(partition(b'{"d":1.5}', 12),)]


def test_null_keys_and_nulls_inside(spark: SparkSession):
    for kind, empty in (("string", b""), ("bigint", b"")):
        frame = spark.createDataFrame([(0, None), (1, (None,))], f"no int, k struct<key: {kind}>")
        assert computed(frame, [12]) == [(None,), (partition(empty, 12),)]


def test_the_scope_in_front_of_a_key_is_no_part_of_it(spark: SparkSession):
    plain = spark.createDataFrame([(0, ("foobar",)), (1, None)], "no int, k struct<key: string>")
    scope = F.struct(F.lit(3).alias("_scope"), F.col("k.key").alias("key"))
    scoped = plain.withColumn("k", F.when(F.col("k").isNotNull(), scope))
    assert computed(scoped, [12]) == computed(plain, [12]) == [(partition(b"foobar", 12),), (None,)]
