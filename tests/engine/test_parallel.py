"""Statements that run at once: results in order, nothing left running, and part of who has begun them."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING

import pytest

from lakestreams.engine.runtime.parallel import concurrently, in_parallel

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_they_run_at_once_and_are_told_in_their_order(spark: SparkSession) -> None:
    meeting = threading.Barrier(3, timeout=30)  # one alone would never get past it

    def counted(number: int) -> int:
        meeting.wait()
        return int(spark.range(number).count())

    assert in_parallel(spark, [lambda: counted(3), lambda: counted(1), lambda: counted(2)]) == [3, 1, 2]


def test_the_first_failure_comes_when_all_have_ended(spark: SparkSession) -> None:
    ended = []

    def fails(name: str) -> None:
        raise ValueError(name)

    def goes_on() -> None:
        time.sleep(0.2)
        ended.append(1)

    with pytest.raises(ValueError, match="first"):
        in_parallel(spark, [goes_on, lambda: fails("first"), lambda: fails("second"), goes_on])
    assert ended == [1, 1]


def test_one_alone_runs_where_it_is(spark: SparkSession) -> None:
    assert in_parallel(spark, [threading.get_ident]) == [threading.get_ident()]
    assert in_parallel(spark, []) == []


def test_what_runs_beside_a_block_has_ended_with_it_whatever_becomes_of_it(spark: SparkSession) -> None:
    ended = []

    def goes_on() -> int:
        time.sleep(0.2)
        ended.append(1)
        return int(spark.range(3).count())

    def fails() -> None:
        raise ValueError

    with concurrently(spark) as begin:
        counted, failed = begin(goes_on), begin(fails)
    assert counted.result() == 3
    assert isinstance(failed.exception(), ValueError)
    with contextlib.suppress(KeyError), concurrently(spark) as begin:
        begin(goes_on)
        raise KeyError
    assert ended == [1, 1]


def test_they_end_with_what_has_begun_them(spark: SparkSession) -> None:
    """A query that is stopped cancels its jobs by their group, which a plain thread would not have."""
    context = spark.sparkContext
    context.setLocalProperty("spark.jobGroup.id", "the query")
    try:
        found = in_parallel(spark, [lambda: context.getLocalProperty("spark.jobGroup.id")] * 2)
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)
    assert found == ["the query", "the query"]
