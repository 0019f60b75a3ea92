"""Joins that wait and amend through Spark: the three ways of their rows, what is kept, and what a plan costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from tests.operators import plans
from tests.operators.rows import frame, results
from tests.operators.test_stream_stream import CYCLES, TASKS, costs, cycles

from lakestreams.operators import versions
from lakestreams.operators.stream_table_wait import frames as waiting
from lakestreams.operators.stream_table_wait.frames import StreamAndTable
from lakestreams.operators.stream_table_wait.worker import WaitOptions
from lakestreams.operators.versions import TableSide
from lakestreams.testing.small import small

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

JOINS = {
    "inner": WaitOptions("inner", 9, None, realm=TASKS),
    "left": WaitOptions("left", 9, None, realm=TASKS),
    "amends": WaitOptions("left", 4, 30, realm=TASKS),
    "amends at once": WaitOptions("left", None, 25, realm=TASKS),
}
WAYS: dict[str, dict[str, Any]] = {
    "few": {},
    "by task": {"shares": 2, "together": True},
    "by key, clocks sorted": {"shares": 2},
    "by key, clocks tallied": {"shares": 2, "ascending": True},
}


@pytest.mark.parametrize(
    ("name", "at_home", "cut"),
    [
        ("inner", True, ["by task"]),
        ("amends", False, ["by key, clocks tallied"]),
        ("amends at once", False, []),
        *(pytest.param(name, at_home, WAYS, marks=pytest.mark.soak) for name in JOINS for at_home in (True, False)),
    ],
)
def test_every_way_gives_the_same(spark: SparkSession, name: str, at_home: bool, cut: Sequence[str]) -> None:
    """Whole, and in some ways a cycle at a time with what is kept; keys lie in one task each, or anywhere."""
    with small(spark):
        points, changes = (side.cache() for side in sides(spark, at_home=at_home))
        ways = {way: replace(JOINS[name], **options) for way, options in WAYS.items() if at_home or way != "by task"}
        given = StreamAndTable(points, changes)
        found = {way: (results(waiting.execute(given, one, 1)), expired(given, one, 1)) for way, one in ways.items()}
        rows, refused = found["few"]
        assert len(rows) > 30
        assert bool(refused) == (name == "inner")
        assert {way for way, one in found.items() if one != (rows, refused)} == set()
        for way in cut:
            if way in ways:
                assert a_cycle_at_a_time(spark, points, changes, ways[way]) == (rows, refused), way


def sides(spark: SparkSession, *, at_home: bool) -> tuple[DataFrame, DataFrame]:
    """A stream and a table, of which each key has a task, or may lie in any."""
    points, changes = cycles(spark, "l", 70, 5), cycles(spark, "r", 50, 6)
    points, changes = points.where(F.col("v").isNotNull()), changes.where(F.col("k").isNotNull())
    changes = changes.withColumn("o", F.col("o").withField("side", F.lit(0)))
    task = F.coalesce(F.ascii(F.col("k.k")) % TASKS, F.lit(0)) if at_home else F.col("task")
    return points.withColumn("task", task), changes.withColumn("task", task)


def expired(given: StreamAndTable, join: WaitOptions, since: int) -> list[Any]:
    """What an inner join has refused: coordinates, cycle and the end of the wait."""
    return [] if join.how == "left" else sorted(map(tuple, waiting.expired(given, join, since).collect()))


def a_cycle_at_a_time(spark: SparkSession, points: DataFrame, changes: DataFrame, join: WaitOptions) -> Any:
    """Results and what was refused, of cycles that get what the one before has kept."""
    kept, live = points.limit(0), None
    rows, refused = [], []
    for cycle in range(1, CYCLES + 1):
        new, changed = (side.where(F.col("o.cycle") == cycle) for side in (points, changes))
        given = StreamAndTable(new.unionByName(kept, allowMissingColumns=True), changed, live)
        rows += results(waiting.execute(given, join, cycle))
        refused += expired(given, join, cycle)
        left = waiting.retain(given, join, cycle)
        kept = spark.createDataFrame(left.collect(), left.schema)
        left = versions.live(TableSide(live, changed)).select(changed.columns)
        live = spark.createDataFrame(left.collect(), left.schema)
    return rows, sorted(refused)


@pytest.mark.connect
def test_a_record_with_two_rows_gives_each_result_a_place_of_its_own(spark: SparkSession) -> None:
    """The table's rows `a` and `b` come of one record; two records waited for them."""
    points = frame(spark, "l", [("a", "1", 10, 1), ("b", "2", 11, 2)], side=1).withColumn("task", F.lit(0))
    rows = frame(spark, "r", [("a", "x", 12, 3), ("b", "y", 12, 3)])
    rows = rows.withColumns({"task": F.lit(0), "n": F.when(F.col("k.k") == "b", F.lit(1)).otherwise(F.lit(0))})
    join = WaitOptions("left", 100, None, multi_row=True)
    for one in (join, replace(join, shares=2)):
        found = results(waiting.execute(StreamAndTable(points, rows), one, 1))
        assert [row[:5] for row in found] == [(3, 0, "a", "1", "x"), (3, 1, "b", "2", "y")]


def test_rows_from_before_may_differ_in_what_can_be_null(spark: SparkSession) -> None:
    """Records are made with literals for their source, which cannot be null; what a table has stored can."""
    came = frame(spark, "l", [("a", "1", 10, 2), ("b", "2", 11, 2), ("z", "3", 400, 3)], side=1)
    strict = F.struct(*(F.coalesce(F.col("o")[name], F.lit(default)).alias(name) for name, default in ORDER.items()))
    points = came.withColumns({"task": F.lit(0), "o": strict})
    assert not points.schema["o"].dataType["side"].nullable
    state = frame(spark, "r", [("a", "x", 5, 1)]).withColumn("task", F.lit(0))
    changes = frame(spark, "r", []).withColumns({"task": F.lit(0), "o": strict})
    for options in WAYS.values():
        given = StreamAndTable(points, changes, state)
        found = results(waiting.execute(given, WaitOptions("left", 50, None, **options), 2))
        assert [row[2:5] for row in found] == [("a", "1", "x"), ("b", "2", None)]
        assert waiting.retain(given, WaitOptions("left", 50, None, **options), 2).count() == 2


ORDER: dict[str, Any] = {
    "cycle": 0, "stream_time_ms": 0, "side": 0, "source": "", "partition": 0, "offset": 0, "attempt": 0
}  # fmt: skip


def test_records_are_counted_on_their_way(spark: SparkSession) -> None:
    """Those of cycles that are wanted: one is met, one given up, one still waits; a null key is of no use to an inner join."""
    came = [("a", "1", 10, 1), ("a", "1", 10, 2), ("b", "2", 11, 2), (None, "3", 12, 2), ("z", "4", 400, 3)]
    points = frame(spark, "l", came, side=1).withColumn("task", F.lit(0))
    rows = frame(spark, "r", [("a", "x", 12, 2)]).withColumn("task", F.lit(0))
    for how, known in (
        ("inner", {"came": 3, "matched": 2, "expired": 1}),
        ("left", {"came": 4, "matched": 2, "unmatched": 2}),
    ):
        for options in WAYS.values():
            seen: list[dict[str, int]] = []

            def counted(frame: DataFrame, counts: Any, seen: list[dict[str, int]] = seen) -> DataFrame:
                seen.append(frame.agg(*(count.alias(name) for name, count in counts.items())).first().asDict())
                return frame

            join = WaitOptions(how, 100, None, **options)  # type: ignore[arg-type]
            waiting.execute(StreamAndTable(points, rows), join, 1, wanted=2, counted=counted)
            assert seen == [known]


@pytest.mark.parametrize(("name", "by_key"), [("inner", 3), ("amends", 4)])
def test_what_a_plan_costs(spark: SparkSession, tmp_path: Any, name: str, by_key: int) -> None:
    """Few rows are not exchanged at all, and those of tasks once. By key: once for each bound, by key, and by trigger."""
    given = (
        frame(spark, topic, [("a", "1", 10, 2), ("b", "2", 20, 3)], side=side) for topic, side in (("l", 1), ("r", 0))
    )
    stored = [plans.stored(one.withColumn("task", F.lit(0)), tmp_path / str(place)) for place, one in enumerate(given)]
    told = {}
    with plans.settings(spark, plans.SETTINGS):
        for way, options in WAYS.items():
            told[way] = costs(waiting.execute(StreamAndTable(*stored), replace(JOINS[name], realm=2, **options), 2))
    assert told["few"] == {}
    assert told["by task"] == {"Exchange": 1}
    assert (
        told["by key, clocks sorted"]["Exchange"] - 3 * told["by key, clocks sorted"].get("BroadcastExchange", 0)
        >= by_key
    )
