"""The last row of each key of a merged output is the same one, whether keys have many rows or one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakestreams.engine.publish import sinks
from lakestreams.operators.records import ORDER_TYPE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = [
    ("a", 0.0, "first", (1, (1, 9, 1, "t", 0, 5, 0), 0)),
    ("a", -0.0, "the same number", (1, (1, 9, 1, "t", 0, 6, 0), 0)),
    ("a", 1.0, "another number", (1, (1, 9, 1, "t", 0, 1, 0), 0)),
    (None, None, "no key", (1, (1, 9, 1, "t", 0, 7, 0), 1)),
    (None, None, "no key, a place before", (1, (1, 9, 1, "t", 0, 7, 0), 0)),
    ("b", None, "a cycle later", (2, (2, 1, 1, "t", 0, 0, 0), 0)),
    ("b", None, "a cycle before", (1, (1, 99, 1, "t", 1, 8, 0), 3)),
]


@pytest.mark.lts
@pytest.mark.connect
@pytest.mark.parametrize("repeated", [False, True])
def test_the_last_row_of_each_key(spark: SparkSession, repeated: bool) -> None:
    """Also where columns have the names that a query could choose for its own."""
    types = (
        f"`row` string, later double, `latest` string, _lineage struct<cycle: bigint, trigger: {ORDER_TYPE}, n: int>"
    )
    rows = spark.createDataFrame(ROWS, types)
    found = sinks.latest(rows, ["`row`", "later"], repeated=repeated)
    assert found.columns == rows.columns
    wanted = {"the same number", "another number", "no key", "a cycle later"}
    assert sorted(row["latest"] for row in found.collect()) == sorted(wanted)


@pytest.mark.parametrize("repeated", [False, True])
def test_a_column_of_the_key_may_be_called_as_one_of_the_querys_own(spark: SparkSession, repeated: bool) -> None:
    types = f"latest string, later string, v int, _lineage struct<cycle: bigint, trigger: {ORDER_TYPE}, n: int>"
    order = (1, 9, 1, "t", 0, 1, 0)
    rows = spark.createDataFrame([("a", "b", place, (1, order, place)) for place in range(3)], types)
    found = sinks.latest(rows, ["`latest`", "`later`"], repeated=repeated)
    assert [(row["latest"], row["later"], row["v"]) for row in found.collect()] == [("a", "b", 2)]
