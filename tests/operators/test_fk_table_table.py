"""The foreign-key table-table kernel: every recorded and random case, whole and cut; self-joins; hot keys; its plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from tests.conformance.cases import Case
from tests.operators import plans, recorded
from tests.operators.rows import frame, results

from lakestreams.operators.foreign_key import pruning, table_table
from lakestreams.operators.versions import TableSide

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HOWS = ["inner", "left"]
FK = {"fk": "struct<named: string>"}


def changes(rows: DataFrame) -> TableSide:
    return TableSide(None, rows)


# --- the cases -------------------------------------------------------------------------------------------------------


def cached(case: Case, rows: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """A cached and queryable result swallows a tombstone of a key that it never had: its store's part, not the join's."""
    if not (case.params.result_caching and case.params.queryable):
        return list(rows)
    has: set[Any] = set()
    told = []
    for row in rows:
        if row[2] is not None or row[1] in has:
            told.append(row)
        (has.discard if row[2] is None else has.add)(row[1])
    return told


@pytest.mark.connect
@pytest.mark.parametrize("how", HOWS)
def test_every_case_in_one_batch_and_the_results_before(spark: SparkSession, how: Any) -> None:
    cases = recorded.cases_of("fk-table-table", how)
    left = recorded.tables(spark, cases, "left", foreign_key=True)
    right = recorded.tables(spark, cases, "right")
    joined = table_table.execute(changes(left), changes(right), how, 0, with_old=True)
    found = recorded.produced([joined], cases, with_old=True)
    recorded.compare({number: cached(cases[number], rows) for number, rows in found.items()}, cases)
    for rows in found.values():
        last: dict[Any, Any] = {}
        for _, key, value, _, old in rows:
            assert old == last.get(key), "the result that the key had before"
            last[key] = value


@pytest.mark.slow
@pytest.mark.parametrize("how", HOWS)
def test_every_case_cut(spark: SparkSession, how: Any) -> None:
    cases = recorded.cases_of("fk-table-table", how)
    left = recorded.tables(spark, cases, "left", foreign_key=True)
    right = recorded.tables(spark, cases, "right")

    def run(left: TableSide, right: TableSide, since: int) -> DataFrame:
        sides = pruning.prune(left, right, since)[:2] if since else (left, right)
        return table_table.execute(*sides, how, since)

    found = recorded.produced(recorded.in_pieces(left, right, run), cases)
    recorded.compare({number: cached(cases[number], rows) for number, rows in found.items()}, cases)


@pytest.mark.lts
@pytest.mark.parametrize("how", HOWS)
def test_a_cycle_that_changes_one_side_alone(spark: SparkSession, how: Any) -> None:
    """Without changes a side is its state: shorter plans, same results."""
    left = frame(spark, "l", [("a", "1", 1, 1, "f"), ("b", "2", 1, 2, "g"), ("c", "3", 1, 3, None)], extra=FK)
    right = frame(spark, "r", [("f", "x", 5, 4)])
    new_left = frame(spark, "l", [("b", "4", 2, 5, "f"), ("d", "5", 9, 6, "h")], extra=FK)
    found = results(table_table.execute(TableSide(left, new_left), TableSide(right, None), how, 5))
    unmatched = [] if how == "inner" else [(6, 0, "d", "5", None, 9, "unmatched")]
    assert found == [(5, 0, "b", "4", "x", 5, "matched"), *unmatched]
    new_right = frame(spark, "r", [("f", None, 7, 5), ("g", "y", 8, 6)])
    found = results(table_table.execute(TableSide(left, None), TableSide(right, new_right), how, 5))
    gone = "tombstone" if how == "inner" else "unmatched"
    assert found == [(5, 0, "a", "1", None, 7, gone), (6, 0, "b", "2", "y", 8, "matched")]


# --- one record on both sides ----------------------------------------------------------------------------------------


def self_join(spark: SparkSession, rows: list[tuple[Any, ...]], how: Any) -> list[tuple[Any, ...]]:
    people = frame(spark, "people", rows, extra=FK)
    left, right = changes(people), changes(people.drop("fk"))
    return results(table_table.execute(left, right, how, 0, overlap="left_first", multi_row=True))


def test_a_table_that_names_its_own_rows(spark: SparkSession) -> None:
    """Left arm first, seeing the row as the record leaves it; then those whom it is the manager of, not itself again."""
    found = self_join(
        spark,
        [
            ("boss", "B", 1, 1, "boss"),
            ("b", "1", 2, 2, "boss"),
            ("a", "2", 3, 3, "boss"),
            ("boss", "C", 4, 4, "boss"),
            ("boss", None, 5, 5, None),
        ],
        "inner",
    )
    assert found == [
        (1, 0, "boss", "B", "B", 1, "matched"),
        (2, 0, "b", "1", "B", 2, "matched"),
        (3, 0, "a", "2", "B", 3, "matched"),
        (4, 0, "boss", "C", "C", 4, "matched"),
        (4, 1, "a", "2", "C", 4, "matched"),
        (4, 2, "b", "1", "C", 4, "matched"),
        (5, 0, "boss", None, None, 5, "tombstone"),
        (5, 1, "a", "2", None, 5, "tombstone"),
        (5, 2, "b", "1", None, 5, "tombstone"),
    ]


# --- what a result carries -------------------------------------------------------------------------------------------


def test_answers_come_in_the_byte_order_of_the_left_keys(spark: SparkSession) -> None:
    """Numbers big-endian, so negative ones last; text by its UTF-8 bytes."""
    names = [(-1, "b"), (2, "ä"), (-300, "a"), (2, "z"), (256, "a"), (None, "x")]
    rows = [(name, "v", 1, cycle, "f") for cycle, name in enumerate(names)]
    left = frame(spark, "l", rows, key="id: int, name: string", extra=FK)
    joined = table_table.execute(changes(left), changes(frame(spark, "r", [("f", "x", 1, 9)])), "inner", 0)
    assert [row[2] for row in results(joined)] == [(None, "x"), (2, "z"), (2, "ä"), (256, "a"), (-300, "a"), (-1, "b")]
    assert [row[1] for row in results(joined)] == [0, 1, 2, 3, 4, 5]


def test_a_null_inside_a_foreign_key_names_a_null(spark: SparkSession) -> None:
    named = {"fk": "struct<x: string, y: string>"}
    left = frame(
        spark, "l", [("a", "1", 1, 2, ("f", None)), ("b", "2", 1, 3, None), ("c", "3", 1, 4, (None, None))], extra=named
    )
    right = frame(spark, "r", [(("f", None), "x", 1, 1), ((None, None), "y", 1, 5)], key="p: string, q: string")
    found = results(table_table.execute(changes(left), changes(right), "left", 0))
    assert [row[:5] for row in found] == [
        (2, 0, "a", "1", "x"), (3, 0, "b", "2", None), (4, 0, "c", "3", None), (5, 0, "c", "3", "y"),
    ]  # fmt: skip


def test_contributors_are_those_that_are_in_the_row_and_the_deleting_record_of_a_tombstone(spark: SparkSession) -> None:
    left = frame(spark, "l", [("a", "1", 1, 1, "f"), ("a", None, 4, 5, None)], extra=FK)
    right = frame(spark, "r", [("f", "x", 2, 2), ("f", None, 3, 3), ("f", "y", 3, 4)])

    def contributors(how: Any) -> list[Any]:
        rows = sorted(table_table.execute(changes(left), changes(right), how, 0).collect(), key=lambda row: row.o)
        return [(row.kind, [(one.source, one.offset) for one in row.contributors], row.rk and row.rk.k) for row in rows]

    assert contributors("inner") == [
        ("matched", [("l", 1), ("r", 2)], "f"),
        ("tombstone", [("r", 3)], None),
        ("matched", [("l", 1), ("r", 4)], "f"),
        ("tombstone", [("l", 5)], None),
    ]
    assert contributors("left")[0] == ("unmatched", [("l", 1)], None)
    assert contributors("left")[2] == ("unmatched", [("l", 1)], None)


# --- state -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_pruned_is_what_nothing_new_can_reach(spark: SparkSession) -> None:
    rows = [("a", "1", 1, 1, "f"), ("b", "2", 1, 2, "g"), ("c", "3", 1, 3, "h"), ("d", "4", 1, 4, None)]
    left = TableSide(frame(spark, "l", rows, extra=FK), frame(spark, "l", [("b", "5", 1, 9, "i")], extra=FK))
    named = [(name, name, 1, cycle) for cycle, name in enumerate("fghij")]
    right = TableSide(frame(spark, "r", named), frame(spark, "r", [("f", "z", 1, 10)]))
    left, right, rows = pruning.prune(left, right, 9, lambda *frames: [(one, one.count()) for one in frames])
    assert rows == 5
    assert left.state is not None
    assert right.state is not None
    assert {row.k.k for row in left.state.collect()} == {"a", "b"}, "names a changed key, or has changed"
    assert {row.k.k for row in right.state.collect()} == {"f", "g", "i"}, "changed, or named by what has changed"
    assert left.state.columns == frame(spark, "l", [], extra=FK).columns


def test_a_past_change_replaces_what_pruning_keeps(spark: SparkSession) -> None:
    """The row of the state names the changed key, but a change since then names another."""
    left = TableSide(
        frame(spark, "l", [("a", "1", 1, 1, "f")], extra=FK), frame(spark, "l", [("a", "2", 1, 2, "g")], extra=FK)
    )
    right = TableSide(None, frame(spark, "r", [("f", "x", 1, 9), ("g", "y", 1, 10)]))
    found = results(table_table.execute(*pruning.prune(left, right, 9)[:2], "inner", 9))
    assert found == [(10, 0, "a", "2", "y", 1, "matched")]


# --- hot keys --------------------------------------------------------------------------------------------------------

UPDATES = 30_000


@pytest.mark.slow
def test_a_key_that_both_sides_keep_changing_costs_its_results_only(spark: SparkSession) -> None:
    """One left key names one right key, both change in turns: of 450 million pairs of versions 30,000 ever meet."""
    order = (
        "named_struct('cycle', 1L, 'stream_time_ms', id, 'side', 0, 'source', '{0}', 'partition', 0, 'offset', id,"
        " 'attempt', 0)"
    )
    rows = spark.range(UPDATES).selectExpr("*", "id % 2 = 0 is_left")
    sides = {}
    for topic, filter_ in (("l", "is_left"), ("r", "not is_left")):
        sides[topic] = rows.where(filter_).selectExpr(
            "struct('key' k) k", f"struct(id {topic}) v", "id ts", f"{order.format(topic)} o", "0 n", "'record' kind",
            f"array(named_struct('source', '{topic}', 'partition', 0, 'offset', id, 'attempt', 0)) contributors",
        )  # fmt: skip
    left = sides["l"].withColumn("fk", F.struct(F.lit("key").alias("named")))
    joined = table_table.execute(changes(left), changes(sides["r"]), "inner", 1)
    assert joined.where("v.l = rv.r + 1 or rv.r = v.l + 1").count() == joined.count() == UPDATES - 1


# --- plans -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sides(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[DataFrame, DataFrame]:
    root = tmp_path_factory.mktemp("fk_table_table")
    left = plans.stored(frame(spark, "l", [("a", "1", 1, 1, "f")], extra=FK), root / "left")
    return left, plans.stored(frame(spark, "r", [("f", "1", 1, 2)]), root / "right")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changed", "options", "cost"),
    [
        ("both", {}, {"Exchange": 2, "Sort": 4, "Window": 4}),
        ("both", {"multi_row": True}, {"Exchange": 3, "Sort": 5, "Window": 5}),
        ("both", {"with_old": True}, {"Exchange": 3, "Sort": 5, "Window": 5}),
        ("left", {}, {"Exchange": 2, "Sort": 2, "Window": 2}),
        ("right", {}, {"Exchange": 1, "Sort": 2, "Window": 2}),
    ],
)
@pytest.mark.parametrize("how", HOWS)
def test_the_sides_are_exchanged_by_the_left_key_and_by_the_foreign_key(
    spark: SparkSession, sides: tuple[DataFrame, DataFrame], how: Any, changed: str, options: Any, cost: dict[str, int]
) -> None:
    left = TableSide(sides[0], None if changed == "right" else sides[0])
    right = TableSide(sides[1], None if changed == "left" else sides[1])
    with plans.settings(spark, plans.SETTINGS):
        assert plans.cost(table_table.execute(left, right, how, 2, **options)) == cost


def test_pruning_reads_the_left_state_once_for_itself_and_exchanges_nothing_of_it(
    spark: SparkSession, sides: tuple[DataFrame, DataFrame]
) -> None:
    left, right = TableSide(sides[0], None), TableSide(None, sides[1])
    with plans.settings(spark, plans.SETTINGS):
        kept, _, _ = pruning.prune(left, right, 2)
        assert kept.state is not None
        cost = plans.cost(kept.state)
    assert cost == {"Exchange": 1, "BroadcastExchange": 1, "BroadcastHashJoin": 1}, (
        "the exchange makes the keys distinct"
    )


# --- words -----------------------------------------------------------------------------------------------------------


def test_explain_says_what_costs() -> None:
    assert "by the foreign key" in table_table.explain("left")
