"""What functions get to see: columns by name, wrong names noted, and whether a side is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakestreams import Fields, MaybeFields, is_missing
from lakestreams.errors import InvalidExpression

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = {"user": "k.user", "region": "v.region"}


def test_a_missing_side_is_told_from_one_of_nulls(spark: SparkSession) -> None:
    side = MaybeFields("Users", COLUMNS, [], "here", "v is null")
    rows = spark.sql(
        "select * from values (1, struct('a' as user), struct(null as region)), (2, struct('b' as user), null) "
        "as t(n, k, v)"
    )
    found = rows.orderBy("n").select(is_missing(side), side.region.isNull()).collect()
    assert [tuple(row) for row in found] == [(False, True), (True, True)]


def test_a_side_that_is_always_there_is_not_asked() -> None:
    for side, shown in ((Fields("Views", COLUMNS, [], "here"), "Views"), ("Views", "'Views'")):
        with pytest.raises(InvalidExpression) as caught:
            is_missing(side)  # type: ignore[arg-type]
        assert caught.value.message == f"is_missing({shown}): this side is always there"


def test_a_wrong_name_is_noted_and_a_null_stands_in(spark: SparkSession) -> None:
    faults: list = []
    side = MaybeFields("Users", COLUMNS, faults, 'left_join "j"', "v is null")
    assert spark.range(1).select(side.regoin).collect()[0][0] is None
    assert [(fault.message, fault.where) for fault in faults] == [("Users has no column 'regoin'", 'left_join "j"')]
    assert (list(side), "user" in side, "plan" in side) == (["user", "region"], True, False)
