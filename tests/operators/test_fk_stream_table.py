"""The foreign-key stream-table kernel (KIP-955): every random case, whole and cut; order, places, hot keys; its plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from tests.operators import plans, recorded
from tests.operators.rows import frame, in_turns, results

from lakestreams.operators.foreign_key import stream_table
from lakestreams.operators.versions import TableSide

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HOWS = ["inner", "left"]
FK = {"fk": "struct<named: string>"}


# --- the cases -------------------------------------------------------------------------------------------------------


@pytest.mark.connect
@pytest.mark.parametrize("how", HOWS)
def test_every_case_in_one_batch(spark: SparkSession, how: Any) -> None:
    cases = recorded.cases_of("stream-table-fk", how)
    points = recorded.streams(spark, cases)
    table = TableSide(None, recorded.tables(spark, cases, "right", foreign_key=True))
    for multi_row in (False, True):
        joined = stream_table.execute(points, table, how, 0, multi_row=multi_row)
        recorded.compare(recorded.produced([joined], cases), cases)


@pytest.mark.slow
@pytest.mark.parametrize("how", HOWS)
def test_every_case_cut(spark: SparkSession, how: Any) -> None:
    cases = recorded.cases_of("stream-table-fk", how)
    points = recorded.streams(spark, cases)
    rows = recorded.tables(spark, cases, "right", foreign_key=True)
    old, new = recorded.between(points, 0, recorded.NEW), recorded.between(points, recorded.NEW, recorded.END)
    table = recorded.cut(rows)
    pieces = [
        stream_table.execute(old, TableSide(None, recorded.between(rows, 0, recorded.NEW)), how, 0),
        stream_table.execute(new, table, how, recorded.NEW),
    ]
    recorded.compare(recorded.produced(pieces, cases), cases)


# --- what a result carries -------------------------------------------------------------------------------------------


def test_rows_come_in_the_byte_order_of_the_table_keys(spark: SparkSession) -> None:
    ids = [3, -2, 70_000, -70_000, 0]
    table = frame(
        spark, "t", [((id_,), str(id_), 9, cycle, "p") for cycle, id_ in enumerate(ids)], key="id: int", extra=FK
    )
    points = frame(spark, "s", [("p", "1", 1, 7), ("q", "2", 2, 8)], side=1)
    found = results(stream_table.execute(points, TableSide(table, None), "left", 7))
    assert [row[:6] for row in found] == [
        *((7, n, "p", "1", value, 1) for n, value in enumerate(["0", "3", "70000", "-70000", "-2"])),
        (8, 0, "q", "2", None, 2),
    ]


def test_a_point_without_a_key_and_a_row_that_names_nothing_never_meet(spark: SparkSession) -> None:
    table = frame(spark, "t", [("a", "x", 1, 1, None), ("b", "y", 1, 2, (None,))], extra=FK)
    points = frame(spark, "s", [(None, "1", 1, 7), ((None,), "2", 1, 8)], side=1)
    left = results(stream_table.execute(points, TableSide(None, table), "left", 7))
    inner = results(stream_table.execute(points, TableSide(None, table), "inner", 7))
    assert left == [(7, 0, None, "1", None, 1, "unmatched"), (8, 0, None, "2", "y", 1, "matched")]
    assert inner == left[1:], "a null inside a key equals a null"


def test_both_contribute_where_both_are_there(spark: SparkSession) -> None:
    table = frame(spark, "t", [("a", "x", 1, 1, "p")], extra=FK)
    points = frame(spark, "s", [("p", "1", 1, 7), ("q", "2", 1, 8)], side=1)
    rows = sorted(stream_table.execute(points, TableSide(None, table), "left", 7).collect(), key=lambda row: row.o)
    found = [([(one.source, one.offset) for one in row.contributors], row.rk and row.rk.k) for row in rows]
    assert found == [([("s", 7), ("t", 1)], "a"), ([("s", 8)], None)]


@pytest.mark.parametrize(("overlap", "seen"), [("left_first", [None, "1"]), ("right_first", ["1", "2"])])
def test_a_record_that_is_a_point_and_a_row(spark: SparkSession, overlap: Any, seen: list[Any]) -> None:
    """A stream that is also read as a table: the side whose path leaves it first is served first."""
    rows = [("a", "1", 1, 1, "p"), ("a", "2", 2, 2, "p")]
    points = frame(spark, "s", [("p", *row[1:4]) for row in rows], side=1)
    table = frame(spark, "s", rows, side=1, extra=FK)
    joined = stream_table.execute(points, TableSide(None, table), "left", 0, overlap=overlap)
    assert [row[4] for row in results(joined)] == seen


def test_several_points_of_one_record_are_numbered_through(spark: SparkSession) -> None:
    table = frame(spark, "t", [("a", "x", 1, 1, "p"), ("b", "y", 1, 2, "p"), ("c", "z", 1, 3, "q")], extra=FK)
    points = frame(spark, "s", [("q", "0", 1, 7), ("p", "1", 1, 7), ("q", "2", 1, 7)], side=1)
    points = points.withColumn("n", F.col("v.s").cast("int"))
    found = results(stream_table.execute(points, TableSide(table, None), "left", 7, multi_row=True))
    assert [row[1:5] for row in found] == [
        (0, "q", "0", "z"),
        (1, "p", "1", "x"),
        (2, "p", "1", "y"),
        (3, "q", "2", "z"),
    ]


# --- hot keys --------------------------------------------------------------------------------------------------------

UPDATES = 30_000


@pytest.mark.slow
def test_a_row_that_keeps_changing_costs_its_results_only(spark: SparkSession) -> None:
    """Points and changes of the row they meet, in turns: of 225 million pairs 15,000 ever meet."""
    table, points = in_turns(spark, UPDATES)
    table = table.withColumn("fk", F.struct(F.lit("key").alias("named")))
    joined = stream_table.execute(points, TableSide(None, table), "left", 1)
    assert joined.where("v.s = rv.t + 1").count() == joined.count() == UPDATES // 2


# --- plans -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changed", "multi_row", "cost"),
    [
        (True, False, {"Exchange": 2, "Sort": 4, "Window": 4}),
        (True, True, {"Exchange": 3, "Sort": 5, "Window": 5}),
        (False, False, {"Exchange": 1, "Sort": 2, "Window": 2}),
    ],
)
@pytest.mark.parametrize("how", HOWS)
def test_the_sides_are_exchanged_once_by_the_stream_key(
    spark: SparkSession, tmp_path: Any, how: Any, changed: bool, multi_row: bool, cost: dict[str, int]
) -> None:
    rows = plans.stored(frame(spark, "t", [("a", "x", 1, 1, "p")], extra=FK), tmp_path / "table")
    points: DataFrame = plans.stored(frame(spark, "s", [("p", "1", 1, 7)], side=1), tmp_path / "points")
    table = TableSide(rows, rows if changed else None)
    with plans.settings(spark, plans.SETTINGS):
        assert plans.cost(stream_table.execute(points, table, how, 1, multi_row=multi_row)) == cost


# --- words -----------------------------------------------------------------------------------------------------------


def test_explain_says_what_costs() -> None:
    assert "exchanged by the stream key" in stream_table.explain("left")
