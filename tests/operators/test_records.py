"""Records frames: what the number in front of a key rests on."""

from __future__ import annotations

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.operators.records import KEY_HASH, hashed


@pytest.mark.parametrize("kind", ["double", "float"])
@pytest.mark.parametrize("inside", ["x", "array(x)", "named_struct('a', x)", "array(named_struct('a', array(x)))"])
def test_keys_that_are_equal_have_the_same_number(spark: SparkSession, kind: str, inside: str) -> None:
    """Of text it is the bytes' number: a key has no collation (`walk`)."""
    zeros = spark.createDataFrame([(0.0,), (-0.0,)], f"x {kind}")
    others = spark.createDataFrame([(float("nan"),), (-float("nan"),)], f"x {kind}")
    for equal in (zeros, others):
        keys = hashed(equal.selectExpr(f"named_struct('k', {inside}) as k"))
        assert keys.agg(F.count_distinct("k"), F.count_distinct(KEY_HASH)).first() == Row(1, 1)


def test_keys_that_differ_stay_apart(spark: SparkSession) -> None:
    keys = hashed(spark.range(1_000).selectExpr("named_struct('k', id) as k"))
    assert keys.agg(F.count_distinct(KEY_HASH)).first() == Row(1_000)
