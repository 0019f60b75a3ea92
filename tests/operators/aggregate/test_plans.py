"""What aggregations and buffers cost: exchanges and sorts of each plan, and a past that is left where it is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from tests.operators import plans
from tests.operators.rows import frame

from lakestreams.operators import versions
from lakestreams.operators.aggregate import changes, windowed
from lakestreams.operators.aggregate import group_rows as group_members
from lakestreams.operators.aggregate import kernel as aggregations
from lakestreams.operators.aggregate.grouping import Grouping, Part
from lakestreams.operators.records import KEY, TASK, is_new
from lakestreams.operators.suppress import frames as suppress
from lakestreams.operators.suppress.kernel import Hold
from lakestreams.operators.windows import MOVES
from lakestreams.topology.kinds import TimeWindows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.slow

SUM, LOW = Part("of", "sum"), Part("of", "min")


@pytest.fixture(scope="module", autouse=True)
def _as_it_is_made(spark: SparkSession) -> Iterator[None]:
    with plans.settings(spark, plans.SETTINGS):
        yield


@pytest.fixture(scope="module")
def rows(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    """A grouped frame: ten rows of cycle 1 and two of cycle 2; the group is the value's first letter."""
    folder = tmp_path_factory.mktemp("rows")
    given = [(f"k{n}", f"g{n}", n, 1) for n in range(10)] + [("k1", "h1", 20, 2), ("k2", None, 21, 2)]
    into = F.when(F.col("v").isNotNull(), F.struct(F.col("ts").alias("of")))
    group = F.when(F.col("v").isNotNull(), F.struct(F.col("v")["t"].alias("g")))
    made = frame(spark, "t", given).withColumns({changes.INTO_KEY: group, changes.INTO: into})
    return plans.stored(made, folder / "rows")


def halves_of_stream(rows: DataFrame) -> DataFrame:
    made = rows.where("v is not null and o.cycle = 2").withColumn(KEY, F.col(changes.INTO_KEY))
    return made.withColumn(changes.OUT, F.lit(None).cast(made.schema[changes.INTO].dataType))


def groups(rows: DataFrame, grouping: Grouping, path: Path) -> DataFrame:
    past = rows.where("o.cycle = 1")
    members = group_members.members(past, 1) if grouping.looks_at_members else None
    adds_and_subtracts = changes.adds_and_subtracts(changes.with_before(past), 1)
    return plans.stored(aggregations.retain(adds_and_subtracts, None, grouping, members=members), path)


def told(rows: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(((one.o.cycle, one.n, one.k.g, one.v and tuple(one.v), one.ts) for one in rows.collect()), key=repr)


@pytest.mark.parametrize(
    ("grouping", "wanted"),
    [
        (Grouping((SUM,)), {"Exchange": 1, "Sort": 1, "Window": 1}),
        (Grouping((LOW,), emit="latest"), {"Exchange": 1, "Sort": 1, "Window": 2}),
    ],
    ids=["sum", "min, latest"],
)
def test_of_a_stream_there_is_one_exchange_and_one_sort(
    rows: DataFrame, tmp_path: Path, grouping: Grouping, wanted: dict[str, int]
) -> None:
    past = groups(rows, grouping, tmp_path / "groups")
    assert plans.cost(aggregations.execute(halves_of_stream(rows), past, grouping, 2)) == wanted


def test_a_table_is_sorted_once_more_by_its_own_key(rows: DataFrame, tmp_path: Path) -> None:
    grouping = Grouping((SUM,), of_table=True)
    past = groups(rows, grouping, tmp_path / "groups")
    found = aggregations.execute(changes.adds_and_subtracts(changes.with_before(rows), 2), past, grouping, 2)
    assert plans.cost(found) == {"Exchange": 2, "Sort": 2, "Window": 2}
    known = changes.with_before(rows).withColumn("at", F.lit(1))
    known = plans.stored(known.where("o.cycle = 2"), tmp_path / "known")
    found = aggregations.execute(changes.adds_and_subtracts(known, 2), past, grouping, 2)
    assert plans.cost(found) == {"Exchange": 1, "Sort": 1, "Window": 1}


@pytest.mark.parametrize(
    ("empty", "wanted"), [("keep", (5, 6)), ("delete", (5, 8))], ids=["groups stay", "empty groups go"]
)
def test_looking_at_a_groups_rows_leaves_them_where_they_lie(
    rows: DataFrame, tmp_path: Path, empty: Any, wanted: tuple[int, int]
) -> None:
    grouping = Grouping((LOW,), of_table=True, empty=empty)
    past, changed = groups(rows, grouping, tmp_path / "groups"), changes.with_before(rows)
    members = group_members.members(rows, 2)
    cost = plans.cost(aggregations.execute(changes.adds_and_subtracts(changed, 2), past, grouping, 2, members=members))
    assert (cost["Exchange"], cost["Sort"]) == wanted


def test_extremes_of_a_table_look_at_its_rows(rows: DataFrame, tmp_path: Path) -> None:
    grouping = Grouping((LOW,), of_table=True)
    past = groups(rows, grouping, tmp_path / "groups")
    adds_and_subtracts = changes.adds_and_subtracts(changes.with_before(rows), 2)
    found = aggregations.execute(adds_and_subtracts, past, grouping, 2, members=group_members.members(rows, 2))
    cost = plans.cost(found)
    assert (cost["Exchange"], cost["SortMergeJoin"]) == (5, 1)
    assert told(found) == [(2, 0, "g1", (None,), 20), (2, 0, "g2", (None,), 21), (2, 1, "h1", (20,), 20)]


@pytest.mark.parametrize("part", [SUM, LOW], ids=["sum", "min"])
def test_what_nothing_new_touches_is_neither_exchanged_nor_sorted(rows: DataFrame, tmp_path: Path, part: Part) -> None:
    """Groups, and the table's own rows: filtered where they lie, by the keys of what is new; same results."""
    grouping = Grouping((part,), of_table=True)
    past = groups(rows, grouping, tmp_path / "groups")
    whole = changes.adds_and_subtracts(changes.with_before(rows), 2)
    few = changes.adds_and_subtracts(changes.with_before(versions.of_keys(rows, rows.where(is_new(2)))), 2)
    members = [None, None]
    if grouping.looks_at_members:
        touched = group_members.of_touched_groups(rows.withColumn(group_members.SETTLED, F.expr("o.cycle = 1")), few, 2)
        assert {one.k.k for one in touched.collect()} == {"k1", "k2"}
        members = [group_members.members(rows, 2), group_members.members(touched, 2)]
    pruned = versions.of_keys(past, few)
    assert {one.k.g for one in pruned.collect()} == {"g1", "g2"}
    pruning = plans.cost(versions.of_keys(past, plans.stored(few, tmp_path / "few")))
    assert pruning == {"Exchange": 1, "BroadcastExchange": 1, "BroadcastHashJoin": 1}, "of the keys alone, each once"
    found = aggregations.execute(few, pruned, grouping, 2, members=members[1])
    assert told(found) == told(aggregations.execute(whole, past, grouping, 2, members=members[0]))


def test_windows_of_sources_need_no_sort_for_their_clocks(rows: DataFrame, tmp_path: Path) -> None:
    tasked = rows.withColumns({TASK: F.col("o")["partition"], MOVES: F.col("ts")}).drop(changes.INTO_KEY)
    tasked = plans.stored(tasked, tmp_path / "tasked")
    windows = TimeWindows(10, 5, 2)
    clocked = windowed.with_clock(tasked, None, 2, ascending=True)
    cost = plans.cost(windowed.assigned(clocked, windows).where(windowed.is_open(windows)))
    assert (cost["BroadcastExchange"], cost.get("SortMergeJoin", 0)) == (1, 0)
    assert cost["Exchange"] == 2, "of one row a task and cycle"
    sorted_clocks = windowed.with_clock(tasked, None, 2, ascending=False)
    assert plans.cost(sorted_clocks) == {"Exchange": 1, "Sort": 1, "Window": 1}


def test_a_buffers_updates_are_exchanged_by_task_if_they_are_many(rows: DataFrame, tmp_path: Path) -> None:
    updates = rows.withColumn(TASK, F.col("o")["partition"]).drop(changes.INTO_KEY, changes.INTO)
    updates = plans.stored(updates, tmp_path / "updates")
    numbered = {"Sort": 1, "Window": 1}  # the results of a record, which may come from several tasks
    few, many = (suppress.waits_of(updates, None, None, Hold(5), shares=shares) for shares in (1, 2))
    assert plans.cost(suppress.execute(few, Hold(5), 1), python=True) == numbered
    many = plans.cost(suppress.execute(many, Hold(5), 1), python=True)
    assert many == {**numbered, "Exchange": 2}
