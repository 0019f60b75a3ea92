"""The windowed kernel on frames written by hand: what recorded cases, whose keys are texts, cannot show; its plans."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from tests.joins import plans
from tests.joins.rows import frame, results

from lakestreams.joins import stream_stream
from lakestreams.joins.windows import Windowed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def test_keys_that_one_trigger_closes_come_in_the_order_of_their_bytes(spark: SparkSession) -> None:
    """Kafka's state store holds a Long as eight bytes, big-endian: negative ones lie behind all others."""
    left = frame(spark, "l", [(-1, "a", 10, 1), (3, "b", 10, 2), (-7, "c", 10, 3), (0, "d", 99, 4)], key="k: bigint")
    right = frame(spark, "r", [], key="k: bigint")
    sides = (side.withColumn("task", F.lit(0)) for side in (left, right))
    found = results(stream_stream.execute(*sides, Windowed("left", before=5, after=5), 1))
    assert [(row[0], row[2]) for row in found] == [(4, 3), (4, -7), (4, -1)]


# --- plans -----------------------------------------------------------------------------------------------------------

SIDE = [("a", "1", 10, 1), ("b", "2", 20, 2)]


@pytest.fixture(scope="module")
def stored(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[DataFrame, DataFrame]:
    root = tmp_path_factory.mktemp("stream_stream")
    frames = (frame(spark, name, SIDE, side=1).withColumn("task", F.lit(0)) for name in ("l", "r"))
    left, right = (plans.stored(one, root / name) for one, name in zip(frames, ("l", "r"), strict=True))
    return left, right


# (exchanges, broadcasts, sorts, windows, joins of the records)
COSTS = {
    ("strict", "inner", "on_window_close"): (4, 1, 5, 3, 1),
    ("strict", "left", "on_window_close"): (8, 2, 10, 7, 2),
    ("strict", "outer", "on_window_close"): (10, 2, 14, 7, 3),
    ("strict", "left", "eager"): (7, 2, 8, 3, 2),
    ("strict", "outer", "eager"): (10, 2, 12, 3, 3),
    ("kafka", "inner", "on_window_close"): (4, 0, 5, 3, 1),
    ("kafka", "left", "on_window_close"): (10, 0, 13, 8, 2),
    ("kafka", "outer", "on_window_close"): (15, 0, 19, 10, 3),
    ("kafka", "left", "eager"): (7, 0, 10, 5, 2),
    ("kafka", "outer", "eager"): (11, 0, 16, 7, 3),
}


@pytest.mark.parametrize(("setting", "wanted"), COSTS.items(), ids=map(", ".join, COSTS))
def test_what_a_plan_costs(
    spark: SparkSession, stored: tuple[DataFrame, DataFrame], setting: Any, wanted: tuple[int, ...]
) -> None:
    """Two sources without a join before them: under `strict` their clocks ascend (see `clocks`)."""
    rules, how, emit = setting
    join = Windowed(how, 5, 5, emit=emit, rules=rules, realm=2, ascending=rules == "strict")
    with plans.settings(spark, plans.SETTINGS):
        cost = plans.cost(stream_stream.execute(*stored, join, 2))
    names = ("Exchange", "BroadcastExchange", "Sort", "Window", "SortMergeJoin")
    assert tuple(cost.get(name, 0) for name in names) == wanted
    assert not cost.keys() & {"CartesianProduct", "BroadcastNestedLoopJoin"}


def test_one_number_is_what_both_sides_are_exchanged_and_sorted_by(
    spark: SparkSession, stored: tuple[DataFrame, DataFrame]
) -> None:
    """A key of many columns costs no more: Spark sorts one number by its digits."""
    with plans.settings(spark, plans.SETTINGS):
        plan = plans.plan_of(stream_stream.execute(*stored, Windowed("inner", 5, 5, ascending=True), 2))
    assert re.search(r"SortMergeJoin \[l_h#\d+L\], \[r_h#\d+L\], Inner", plan), plan
