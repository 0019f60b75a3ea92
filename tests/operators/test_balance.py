"""Few things are spread evenly over Spark's tasks by the numbers that stand for them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.operators.balance import balanced, evenly, hashed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOME = [*range(-5, 200), 2**31 - 1, -(2**31)]


def test_the_hash_is_sparks(spark: SparkSession) -> None:
    rows = spark.createDataFrame([(number,) for number in SOME], "n int").select("n", F.hash("n")).collect()
    assert [tuple(row) for row in rows] == [(number, hashed(number)) for number in SOME]


@pytest.mark.parametrize(("things", "tasks"), [(4, 4), (4, 2), (3, 8), (12, 5), (100, 200), (200, 100)])
def test_each_task_gets_as_many(spark: SparkSession, things: int, tasks: int) -> None:
    numbers = balanced(dict.fromkeys(range(things), 10), tasks)
    assert numbers.keys() == set(range(things))
    rows = spark.createDataFrame(list(numbers.items()), "thing int, lane int").repartition(tasks, "lane")
    placed = Counter(row[0] for row in rows.select(F.spark_partition_id()).collect())
    assert len(placed) == min(things, tasks)
    assert max(placed.values()) - min(placed.values()) <= 1


@pytest.mark.parametrize("things", [2, 3, 4, 7, 12, 100])
@pytest.mark.parametrize("tasks", [2, 4, 8, 16])
def test_without_knowing_the_tasks_each_gets_as_many(spark: SparkSession, things: int, tasks: int) -> None:
    rows = spark.range(things).select(evenly(F.col("id").cast("int"), things).alias("lane"))
    assert rows.distinct().count() == things
    placed = Counter(row[0] for row in rows.repartition(tasks, "lane").select(F.spark_partition_id()).collect())
    assert len(placed) == min(things, tasks)
    assert max(placed.values()) - min(placed.values()) <= 1


def test_what_has_no_number_of_its_own_keeps_apart(spark: SparkSession) -> None:
    rows = spark.range(100).select(evenly(F.col("id").cast("int"), 4).alias("lane"))
    assert rows.distinct().count() == 100


def test_heavy_things_are_kept_apart() -> None:
    weights = {0: 5, 1: 50, 2: 5, 3: 40, 4: 10}
    found = balanced(weights, 2)
    loads = Counter(dict.fromkeys(found.values(), 0))
    for thing, lane in found.items():
        loads[lane] += weights[thing]
    assert sorted(loads.values()) == [55, 55]
    assert found[1] != found[3]


@pytest.mark.parametrize(("weights", "tasks"), [({}, 4), ({7: 3}, 4), ({1: 1, 2: 1}, 1)])
def test_where_nothing_is_to_be_spread_all_are_equal(weights: dict[int, int], tasks: int) -> None:
    assert set(balanced(weights, tasks).values()) <= {0}
    assert balanced(weights, tasks).keys() == weights.keys()
