"""Tasks of re-keyed records, by the second opinion's own murmur2: Kafka's vectors, and keys of every kind."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest
from tests.partitioning.test_kafka_default import VECTORS, partition

from lakestreams import Json, StreamsBuilder
from lakestreams.operators.records import STREAM_SIDE, records
from lakestreams.testing.small import small
from lakestreams.verify.sql_sides import Evaluation, Sides

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHANCE = random.Random(20260821)
TEXTS = ["".join(CHANCE.choices("aé€𝄞z", k=size)) for size in range(24)]
NUMBERS = [0, 1, -1, *(CHANCE.randrange(-(2**31), 2**31) for _ in range(20))]
# of each kind of key: its columns, keys, and the bytes that Kafka's serializers write of them
KINDS: dict[str, tuple[str, Sequence[tuple[Any, ...]], Sequence[bytes]]] = {
    "Kafka's vectors": (
        "b binary",
        [(bytes.fromhex(one["key_bytes_hex"]),) for one in VECTORS],
        [bytes.fromhex(one["key_bytes_hex"]) for one in VECTORS],
    ),
    "text": ("a string", [(text,) for text in TEXTS], [text.encode() for text in TEXTS]),
    "bigint": (
        "a bigint",
        [(one * 2**32,) for one in NUMBERS],
        [(one * 2**32).to_bytes(8, "big", signed=True) for one in NUMBERS],
    ),
    "int": ("a int", [(one,) for one in NUMBERS], [one.to_bytes(4, "big", signed=True) for one in NUMBERS]),
    "two columns": (
        "a string, b int",
        [("x", one) for one in NUMBERS],
        [f'{{"a":"x","b":{one}}}'.encode() for one in NUMBERS],
    ),
    "a null column": ("a string", [(None,)], [b""]),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [1, 6, 100])
def test_a_re_keyed_record_is_in_the_task_of_its_key(spark: SparkSession, kind: str, count: int) -> None:
    columns, keys, as_bytes = KINDS[kind]
    builder = StreamsBuilder("re_keyed")
    left, right = (builder.stream(name, key=Json(columns), value=Json("n int")) for name in "AB")
    joined = left.repartition(count, name="spread").join(
        right.repartition(count, name="other"), within="1 s", name="joined"
    )
    joined.to_delta("silver.out")
    topology = builder.build()
    rows = [(key, (0,), 0, 0, 7, place, 0, 1) for place, key in enumerate([*keys, None])]
    frame = spark.createDataFrame(
        rows,
        f"k struct<{columns.replace(' ', ': ')}>".replace(",: ", ", ")
        + ", v struct<n: int>, event_time_ms bigint, stream_time_ms bigint, partition int, offset bigint, attempt int, "
        "cycle bigint",
    )
    given = records(frame, "A", STREAM_SIDE, frame["cycle"])
    sides = Sides(spark, topology, Evaluation({"spread": given}, {"A": 8, "B": 8}))
    (join,) = topology.joins
    with small(spark):
        tasks = [row["task"] for row in sides.tasked(join, join.left).orderBy("at").select("task").collect()]
    assert tasks == [*(partition(data, count) for data in as_bytes), 7 % count]


def test_topics_that_have_grown_had_fewer_tasks(spark: SparkSession) -> None:
    builder = StreamsBuilder("grown")
    left, right = (builder.stream(name, key=Json("a string"), value=Json("n int")) for name in "AB")
    rekeyed = left.select_key(lambda one: {"a": one.a}, name="rekeyed")
    rekeyed.join(right, within="1 s", name="joined").to_delta("silver.out")
    topology = builder.build()
    rows = [((text,), (0,), 0, 0, 0, place, 0, cycle) for cycle in (1, 2, 3) for place, text in enumerate(TEXTS)]
    frame = spark.createDataFrame(
        rows,
        "k struct<a: string>, v struct<n: int>, event_time_ms bigint, stream_time_ms bigint, partition int, offset bigint, "
        "attempt int, cycle bigint",
    )
    given = records(frame, "A", STREAM_SIDE, frame["cycle"])
    evaluation = Evaluation({"rekeyed": given}, {"A": 1, "B": 8}, fewer=[(2, {"A": 1, "B": 2}), (3, {"A": 1, "B": 4})])
    (join,) = topology.joins
    with small(spark):
        found = Sides(spark, topology, evaluation).tasked(join, join.left).orderBy("at").select("task").collect()
    assert [row["task"] for row in found] == [partition(text.encode(), count) for count in (2, 4, 8) for text in TEXTS]
