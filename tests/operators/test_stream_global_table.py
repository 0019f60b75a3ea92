"""The stream-global kernel: every recorded and random case, whole and cut; mapped keys; what its plan costs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from tests.operators import plans, recorded
from tests.operators.rows import frame, results

from lakestreams.operators.stream_table import kernel as stream_table
from lakestreams.operators.versions import TableSide

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HOWS = ["inner", "left"]
MAPPED = {"mapped": "struct<looked_up: string>"}
joined = partial(stream_table.execute, by=stream_table.MAPPED)


@pytest.mark.connect
@pytest.mark.parametrize("how", HOWS)
def test_every_case_in_one_batch(spark: SparkSession, how: Any) -> None:
    cases = recorded.cases_of("stream-global", how)
    points = recorded.streams(spark, cases, mapped=True)
    table = TableSide(None, recorded.tables(spark, cases, "right"))
    recorded.compare(recorded.produced([joined(points, table, how, 0)], cases), cases)


@pytest.mark.slow
@pytest.mark.parametrize("how", HOWS)
def test_every_case_cut(spark: SparkSession, how: Any) -> None:
    cases = recorded.cases_of("stream-global", how)
    points, rows = recorded.streams(spark, cases, mapped=True), recorded.tables(spark, cases, "right")
    old, new = recorded.between(points, 0, recorded.NEW), recorded.between(points, recorded.NEW, recorded.END)
    table = recorded.cut(rows)
    pieces = [
        joined(old, TableSide(None, recorded.between(rows, 0, recorded.NEW)), how, 0),
        joined(new, table, how, recorded.NEW),
    ]
    recorded.compare(recorded.produced(pieces, cases), cases)


def test_the_mapped_key_is_looked_up_and_the_own_key_kept(spark: SparkSession) -> None:
    table = TableSide(frame(spark, "t", [("a", "x", 9, 1), ((None,), "y", 9, 2)]), None)
    rows = [(None, "1", 1, 7, "a"), ("a", "2", 2, 8, None), ("p", "3", 3, 9, (None,)), ("p", "4", 4, 10, "b")]
    points = frame(spark, "s", rows, side=1, extra=MAPPED)
    left = results(joined(points, table, "left", 7))
    assert left == [
        (7, 0, None, "1", "x", 1, "matched"),
        (8, 0, "a", "2", None, 2, "unmatched"),
        (9, 0, "p", "3", "y", 3, "matched"),
        (10, 0, "p", "4", None, 4, "unmatched"),
    ]
    assert results(joined(points, table, "inner", 7)) == [row for row in left if row[-1] == "matched"]


def test_a_joiner_can_have_the_mapped_key(spark: SparkSession) -> None:
    points = frame(spark, "s", [("p", "4", 4, 10, "b")], side=1, extra=MAPPED)
    table = TableSide(frame(spark, "t", [("a", "x", 9, 1)]), None)
    assert joined(points, table, "left", 7).collect()[0].mapped.looked_up == "b"


@pytest.mark.slow
@pytest.mark.parametrize("changed", [False, True])
@pytest.mark.parametrize("how", HOWS)
def test_the_points_are_never_sorted(spark: SparkSession, tmp_path: Any, how: Any, changed: bool) -> None:
    rows = plans.stored(frame(spark, "t", [("a", "x", 9, 1)]), tmp_path / "table")
    points: DataFrame = plans.stored(frame(spark, "s", [("p", "4", 4, 10, "b")], side=1, extra=MAPPED), tmp_path / "s")
    wanted = {"BroadcastExchange": 1, "BroadcastHashJoin": 1}
    if changed:
        wanted |= {"Exchange": 1, "Sort": 1, "Window": 1}
    with plans.settings(spark, plans.SETTINGS | {"spark.sql.autoBroadcastJoinThreshold": "10m"}):
        assert plans.cost(joined(points, TableSide(rows, rows if changed else None), how, 1)) == wanted


def test_explain_says_what_costs() -> None:
    assert "hash join on the mapped key" in stream_table.explain("left", stream_table.MAPPED)
