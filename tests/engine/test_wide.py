"""Topics with hundreds of partitions, keys with hundreds of records: conditions on them all, behind Spark Connect too."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F  # noqa: N812

from lakestreams.engine.ledger.plans import Plan, Range
from lakestreams.engine.state import bronze
from lakestreams.spark import holds_any
from lakestreams.verify.configurations import within
from lakestreams.verify.identity import any_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

pytestmark = [pytest.mark.connect, pytest.mark.broker]  # no broker, but a session: not for the fast lane

MANY = 600
"""More than Spark takes in a chain; a Connect client does not send one of 50."""


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    """A record of each of twice as many partitions, at the offset of its partition's number."""
    number = F.col("id").cast("int")
    of_cycle = F.struct(F.col("id").alias("cycle")).alias("_lineage")
    return spark.range(2 * MANY).select(
        F.lit("t").alias("topic"), number.alias("partition"), F.col("id").alias("offset"), F.lit(0).alias("attempt"),
        F.lit(1).alias("seq"), of_cycle,
    )  # fmt: skip


@pytest.mark.parametrize(
    "condition",
    [
        lambda: any_of([("t", place, place, 0) for place in range(MANY)], F.col("topic")),
        lambda: bronze.within(dict.fromkeys(range(MANY), (0, MANY))),
        lambda: within(range(0, 2 * MANY, 2)),
        lambda: holds_any(F.col("partition") == place for place in range(MANY)),
    ],
    ids=["records", "partitions", "cycles", "any"],
)
def test_a_condition_on_many_is_no_chain(rows: DataFrame, condition: object) -> None:
    wanted: Column = condition()  # type: ignore[operator]
    assert rows.where(wanted).count() == MANY


def test_the_cycle_of_a_record_is_known_in_each_of_many_partitions(rows: DataFrame) -> None:
    plans = [
        Plan(cycle, "f", tuple(Range("t", at, half * (cycle - 1), half * cycle) for at in range(2 * MANY)), {}, 1, 1)
        for half in (MANY,)
        for cycle in (1, 2)
    ]
    cycle = bronze.row_cycle("t", plans).alias("cycle")
    found = rows.select(cycle).groupBy("cycle").count().collect()
    assert {row["cycle"]: row["count"] for row in found} == {1: MANY, 2: MANY}


def test_none_of_no_conditions_holds(rows: DataFrame) -> None:
    assert rows.where(holds_any([])).count() == 0
