"""The table-table kernel: every recorded and random case, whole and cut; chains; self-joins; what its plan costs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from tests.operators import plans, recorded
from tests.operators.rows import frame, results

from lakestreams.operators.records import RECORD_COLUMNS
from lakestreams.operators.table_table import kernel as table_table
from lakestreams.operators.versions import TableSide, live

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HOWS = ["inner", "left", "outer"]


def changes(rows: DataFrame) -> TableSide:
    return TableSide(None, rows)


# --- the cases -------------------------------------------------------------------------------------------------------


@pytest.mark.connect
@pytest.mark.parametrize("how", HOWS)
def test_every_case_in_one_batch(spark: SparkSession, how: Any) -> None:
    cases = recorded.cases_of("table-table", how)
    left, right = (recorded.tables(spark, cases, side) for side in ("left", "right"))
    joined = table_table.execute(changes(left), changes(right), how, 0, with_old=True)
    found = recorded.produced([joined], cases, with_old=True)
    recorded.compare(found, cases)
    for number, case in cases.items():
        if case.compares_old:
            assert [row[4] for row in found[number]] == [row.old_value for row in case.expected], case.id
            assert any(row[4] for row in found[number])


@pytest.mark.slow
@pytest.mark.parametrize("how", HOWS)
def test_every_case_cut(spark: SparkSession, how: Any) -> None:
    cases = recorded.cases_of("table-table", how)
    left, right = (recorded.tables(spark, cases, side) for side in ("left", "right"))

    def run(left: TableSide, right: TableSide, since: int) -> DataFrame:
        return table_table.execute(left, right, how, since)

    pieces = recorded.in_pieces(left, right, run)
    recorded.compare(recorded.produced(pieces, cases), cases)


def joined_values(rows: DataFrame) -> DataFrame:
    """What the walk makes of a join whose result feeds another one; the joiner is `{left}-{right}`."""

    def text(side: str) -> Any:
        return F.coalesce(F.regexp_replace(f"{side}.json", '"', ""), F.lit("null"))

    def value(left: str, right: str) -> Any:
        joined = F.concat(F.lit('"'), text(left), F.lit("-"), text(right), F.lit('"'))
        return F.struct(F.col("k.left_case").alias("case"), joined.alias("json"))

    return rows.withColumns(
        {
            "v": F.when(F.col("kind") != "tombstone", value("v", "rv")),
            "old": F.when(F.col("old_kind").isNotNull(), value("old_v", "old_rv")),
        }
    ).select(*RECORD_COLUMNS, "old", "seen_ts")


@pytest.mark.slow
@pytest.mark.parametrize(("how", "multi_row"), [("inner", False), ("left", False), ("outer", False), ("outer", True)])
def test_chains_that_come_back_to_the_right_table(spark: SparkSession, how: Any, multi_row: bool) -> None:
    """Each join hears the right table by itself: repeated and out-of-date results, in Kafka's order."""
    chains = recorded.cases_of("table-table", how, chains=True)
    pieces = []
    for first in HOWS:
        cases = {number: case for number, case in chains.items() if case.params.chain == (first, how)}
        if cases:
            left, right = (recorded.tables(spark, cases, side) for side in ("left", "right"))
            inner = joined_values(table_table.execute(changes(left), changes(right), first, 0, with_old=True))  # type: ignore[arg-type]
            pieces.append(
                table_table.execute(changes(inner), changes(right), how, 0, overlap="left_first", multi_row=multi_row)
            )
    recorded.compare(recorded.produced(pieces, chains), chains)


# --- one record on both sides ----------------------------------------------------------------------------------------

PEOPLE = [("a", "1", 5, 1), ("a", "2", 3, 2), ("a", None, 9, 3)]


def self_join(spark: SparkSession, how: Any, **options: Any) -> list[tuple[Any, ...]]:
    people = frame(spark, "people", PEOPLE)
    same = people.withColumn("v", F.when(F.col("v").isNotNull(), F.struct(F.upper("v.people").alias("other"))))
    return results(table_table.execute(changes(people), changes(same), how, 0, **options))


@pytest.mark.slow
@pytest.mark.parametrize("overlap", ["left_first", "right_first"])
@pytest.mark.parametrize("multi_row", [False, True])
def test_a_self_join_says_each_row_twice_and_sees_the_record_on_both_sides(
    spark: SparkSession, overlap: str, multi_row: bool
) -> None:
    found = self_join(spark, "inner", overlap=overlap, multi_row=multi_row)
    assert found == [
        (cycle, n, "a", value, value, ts, "matched") for cycle, value, ts in [(1, "1", 5), (2, "2", 3)] for n in (0, 1)
    ]


def test_an_inner_self_join_does_not_hear_of_a_deletion_but_an_outer_one_does_twice(spark: SparkSession) -> None:
    """As in Kafka Streams, where the table's store is empty before either arm looks (recorded: tt-int-multi-*)."""
    deleted = [row[-1] for row in self_join(spark, "inner", overlap="left_first") if row[0] == 3]
    assert deleted == []
    assert [row[-1] for row in self_join(spark, "outer", overlap="left_first") if row[0] == 3] == ["tombstone"] * 2


@pytest.mark.parametrize(("overlap", "times"), [("left_first", [5, 6]), ("right_first", [6, 5])])
def test_the_arm_that_leaves_the_table_first_comes_first(spark: SparkSession, overlap: Any, times: list[int]) -> None:
    """One record of `people` has deleted a row on both sides; the times tell the arms apart."""
    old = {"old": "struct<people: string>"}
    left = frame(spark, "people", [("a", None, 5, 1, "1")], extra=old)
    right = frame(spark, "people", [("a", None, 6, 1, "2")], extra=old)
    found = results(table_table.execute(changes(left), changes(right), "outer", 0, overlap=overlap))
    assert [row[5:] for row in found] == [(ts, "tombstone") for ts in times]


# --- what a result carries -------------------------------------------------------------------------------------------


def test_contributors_are_those_that_are_in_the_row_and_the_deleting_record_of_a_tombstone(spark: SparkSession) -> None:
    left = frame(spark, "l", [("a", "x", 1, 1), ("a", None, 4, 4)])
    right = frame(spark, "r", [("a", "y", 2, 2), ("a", None, 3, 3)])
    joined = table_table.execute(changes(left), changes(right), "outer", 0)
    found = [
        (row.kind, [(one.source, one.offset) for one in row.contributors], row.rk and row.rk.k)
        for row in sorted(joined.collect(), key=lambda row: row.o)
    ]
    assert found == [
        ("unmatched", [("l", 1)], None),
        ("matched", [("l", 1), ("r", 2)], "a"),
        ("unmatched", [("l", 1)], None),
        ("tombstone", [("l", 4)], None),
    ]


def test_keys_of_other_names_and_nulls_inside(spark: SparkSession) -> None:
    """A null inside a key equals a null; the result's key has the left names."""
    left = frame(spark, "l", [(("x", None), "1", 1, 1), ((None, None), "2", 2, 2)], key="a: string, b: string")
    right = frame(spark, "r", [(("x", None), "3", 3, 3), ((None, None), "4", 4, 4)], key="c: string, d: string")
    joined = table_table.execute(changes(left), changes(right), "inner", 0)
    assert joined.schema["k"].dataType.names == ["a", "b"]  # type: ignore[attr-defined]
    assert joined.schema["rk"].dataType.names == ["c", "d"]  # type: ignore[attr-defined]
    assert [row[2:5] for row in results(joined)] == [(("x", None), "1", "3"), ((None, None), "2", "4")]


def test_a_lookup_into_a_join_sees_the_time_of_its_rows_not_of_its_last_update(spark: SparkSession) -> None:
    """Kafka Streams computes an intermediate join's row when asked: a deleted row leaves no time behind."""
    left, right = frame(spark, "l", [("a", "x", 9, 1)]), frame(spark, "r", [("a", "y", 10, 2), ("a", None, 20, 3)])
    first = table_table.execute(changes(left), changes(right), "left", 0, with_old=True)
    assert [(row.ts, row.seen_ts) for row in sorted(first.collect(), key=lambda row: row.o)] == [
        (9, 9),
        (10, 10),
        (20, 9),
    ]
    feed = first.withColumn("old", F.col("old_v")).select(*RECORD_COLUMNS, "old", "seen_ts")
    late = frame(spark, "s", [("a", "z", 12, 4)])
    second = table_table.execute(changes(feed), changes(late), "inner", 0)
    assert [row[5] for row in results(second)] == [12]


# --- state -----------------------------------------------------------------------------------------------------------


def test_what_lives_on_is_the_row_of_each_key(spark: SparkSession) -> None:
    state = frame(spark, "l", [("a", "1", 1, 1), ("b", "2", 1, 2), ("c", "3", 1, 3)])
    later = frame(spark, "l", [("a", "4", 0, 4), ("b", None, 1, 5), ("d", None, 1, 6), ("e", "5", 1, 7)])
    kept = live(TableSide(state, later))
    assert {row.k.k: row.v.l for row in kept.collect()} == {"a": "4", "c": "3", "e": "5"}
    assert live(TableSide(state, None)).count() == 3


# --- plans -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "options", "cost"),
    [
        ("inner", {}, {"Exchange": 1, "Sort": 1, "Window": 1}),
        ("left", {}, {"Exchange": 1, "Sort": 1, "Window": 1}),
        ("outer", {"with_old": True}, {"Exchange": 1, "Sort": 1, "Window": 1}),
        ("outer", {"overlap": "left_first"}, {"Exchange": 1, "Sort": 1, "Window": 3}),
        ("outer", {"overlap": "left_first", "multi_row": True}, {"Exchange": 2, "Sort": 2, "Window": 3}),
    ],
)
def test_one_exchange_and_one_sort(
    spark: SparkSession, tmp_path: Path, how: Any, options: dict[str, Any], cost: dict[str, int]
) -> None:
    left = plans.stored(frame(spark, "l", [("a", "1", 1, 1)]), tmp_path / "left")
    right = plans.stored(frame(spark, "r", [("a", "1", 1, 2)]), tmp_path / "right")
    with plans.settings(spark, plans.SETTINGS):
        assert (
            plans.cost(table_table.execute(TableSide(left, left), TableSide(right, right), how, 2, **options)) == cost
        )


# --- words -----------------------------------------------------------------------------------------------------------


def test_explain_says_what_costs() -> None:
    assert "sorted once" in table_table.explain("outer")
