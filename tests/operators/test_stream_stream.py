"""The windowed kernel on frames written by hand: what recorded cases, whose keys are texts, cannot show; its plans."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from tests.operators import plans
from tests.operators.rows import frame, results
from tests.reference.records import Record
from tests.reference.stream_stream_kafka import KafkaJoin
from tests.reference.windows import Windows

from lakestreams.operators.clocks import tops_of, with_clocks
from lakestreams.operators.records import CONTRIBUTOR_TYPE, ORDER_TYPE, unextracted
from lakestreams.operators.stream_stream import frames as stream_stream
from lakestreams.operators.stream_stream import pruning
from lakestreams.operators.windows import Windowed, both_sides
from lakestreams.testing.small import small

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.mark.connect
def test_keys_that_one_trigger_closes_come_in_the_order_of_their_bytes(spark: SparkSession) -> None:
    """Kafka's state store holds a Long as eight bytes, big-endian: negative ones lie behind all others."""
    left = frame(spark, "l", [(-1, "a", 10, 1), (3, "b", 10, 2), (-7, "c", 10, 3), (0, "d", 99, 4)], key="k: bigint")
    right = frame(spark, "r", [], key="k: bigint")
    sides = (side.withColumn("task", F.lit(0)) for side in (left, right))
    found = results(stream_stream.execute(*sides, Windowed("left", before=5, after=5), 1))
    assert [(row[0], row[2]) for row in found] == [(4, 3), (4, -7), (4, -1)]


def test_bounds_of_an_hour_around_a_record_at_time_zero(spark: SparkSession) -> None:
    """Kafka clips windows at 0: the record at 0 meets what lies up to 0 on its scale, in one bin or two."""
    left = frame(spark, "l", [("k", "a", 0, 1)]).withColumn("task", F.lit(0))
    right = frame(spark, "r", [("k", "b", 5, 2)]).withColumn("task", F.lit(0))
    join = Windowed("inner", before=-3_600_000, after=3_605_000, rules="kafka")
    page = KafkaJoin("inner", Windows(-3_600_000, 3_605_000, 0), lambda _, one, other: (one, other), "on_window_close")
    page.left(Record("l", 0, 1, 0, "k", "a"))
    wanted = page.right(Record("r", 0, 2, 5, "k", "b"))
    found = results(stream_stream.execute(left, right, join, 1))
    assert [(row[3], row[4]) for row in found] == [one.value for one in wanted]


# --- cycles of many records ------------------------------------------------------------------------------------------


def cycles(spark: SparkSession, topic: str, count: int, seed: int) -> DataFrame:
    """Records as the engine orders them: several a cycle, by the stream time of their partitions, many at one time."""
    rng = random.Random(f"{seed}/{topic}")
    times = dict.fromkeys(range(TASKS), 0)
    rows = []
    for offset in range(count):
        partition, cycle = rng.randrange(TASKS), 1 + offset * CYCLES // count
        ts = cycle * 20 + rng.choice([0, 0, 1, 2, 5, 9, 15, 19]) - rng.choice([0, 0, 0, 3, 25])
        times[partition] = max(times[partition], ts)
        at = (topic, partition, offset, 0)
        key = None if rng.random() < 0.05 else (rng.choice("abc"),)
        value = None if rng.random() < 0.1 else (f"{topic}{offset}",)
        rows.append((key, value, ts, (cycle, times[partition], 1, *at), 0, "record", [at], partition, times[partition]))
    types = f"k struct<k: string>, v struct<{topic}: string>, ts bigint, o {ORDER_TYPE}, n int, kind string"
    return spark.createDataFrame(rows, f"{types}, contributors array<{CONTRIBUTOR_TYPE}>, task int, moves bigint")


TASKS, CYCLES = 3, 3


@pytest.mark.soak  # test_properties cuts each setting in two
@pytest.mark.parametrize(("how", "seed"), [("outer", 1), ("left", 1), ("inner", 2), ("outer", 2)])
def test_clocks_without_a_sort_and_a_past_left_where_it_is_change_nothing(
    spark: SparkSession, how: Any, seed: int
) -> None:
    """Whole or a cycle at a time, clocks sorted or tallied, the past read whole or by the keys that come up."""
    left, right = (cycles(spark, topic, 60, seed).cache() for topic in "lr")
    ways = {}
    with small(spark):
        for ascending in (False, True):
            join = Windowed(how, 6, 4, 3, realm=TASKS, ascending=ascending)
            ways["whole", ascending] = results(stream_stream.execute(left, right, join, 1))
            for pruned in (False, True) if ascending else ():
                ways[pruned, ascending] = []
                past: tuple[DataFrame, ...] = (left.limit(0), right.limit(0))
                for cycle in range(1, CYCLES + 1):
                    new = [side.where(F.col("o.cycle") == cycle) for side in (left, right)]
                    both = [one.unionByName(old, allowMissingColumns=True) for one, old in zip(new, past, strict=True)]
                    read = reached(new, past, join, cycle) if pruned and cycle > 1 else both
                    ways[pruned, ascending] += results(stream_stream.execute(*read, join, cycle))
                    kept = retained(both, join)
                    past = tuple(spark.createDataFrame(side.collect(), side.schema) for side in kept)
    first = ways["whole", False]
    assert len(first) > 40
    assert {name for name, rows in ways.items() if rows != first} == set()


@pytest.mark.connect
@pytest.mark.parametrize(
    ("seed", "span"),
    [(1, 7), pytest.param(2, 7, marks=pytest.mark.soak), pytest.param(3, 60, marks=pytest.mark.soak)],
)
def test_what_lies_near_the_end_is_all_that_is_retained(spark: SparkSession, seed: int, span: int) -> None:
    """A cycle at a time: of many rows, those near the end are enough to find what `retain` finds in all of them."""
    left, right = (cycles(spark, topic, 60, seed).cache() for topic in "lr")
    join, fewer = Windowed("outer", span, 4, 3, realm=TASKS, ascending=True), 0
    with small(spark):
        past: tuple[DataFrame, ...] = (left.limit(0), right.limit(0))
        for cycle in range(1, CYCLES + 1):
            # the last task has nothing new in the last cycle
            new = [
                side.where((F.col("o.cycle") == cycle) & (F.col("task") < TASKS - (cycle // CYCLES)))
                for side in (left, right)
            ]
            both = [one.unionByName(old, allowMissingColumns=True) for one, old in zip(new, past, strict=True)]
            arms = both_sides(*both, join)
            near = stream_stream.near_the_end(arms, join, tops_of(arms, join.realm, cycle))
            kept, wanted = retained(both, join, near), retained(both, join)
            for mine, other in zip(kept, wanted, strict=True):
                assert sorted(map(str, mine.collect())) == sorted(map(str, other.collect()))
            fewer += sum(side.count() for side in both) - near.count()
            past = tuple(spark.createDataFrame(side.collect(), side.schema) for side in wanted)
    assert fewer > 0 or span == 60


def retained(both: list[DataFrame], join: Windowed, near: DataFrame | None = None) -> tuple[DataFrame, DataFrame]:
    arms = with_clocks(both_sides(*both, join), join) if near is None else near
    return stream_stream.retain(arms, join, both[1].schema["k"].dataType)


def reached(new: list[DataFrame], past: tuple[DataFrame, ...], join: Windowed, cycle: int) -> Any:
    """New rows with what they reach of the past, and its clocks."""
    clocks = pruning.last_clocks(past)
    return pruning.prune(new, past, join, cycle, clocks, unextracted)[:2]


# --- plans -----------------------------------------------------------------------------------------------------------

SIDE = [("a", "1", 10, 1), ("b", "2", 20, 2)]
HOWS = {"inner": 1, "left": 3, "outer": 3}  # exchanges where keys may lie in several tasks


@pytest.fixture(scope="module")
def stored(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[DataFrame, DataFrame]:
    root = tmp_path_factory.mktemp("stream_stream")
    frames = (frame(spark, name, SIDE, side=1).withColumn("task", F.lit(0)) for name in ("l", "r"))
    left, right = (plans.stored(one, root / name) for one, name in zip(frames, ("l", "r"), strict=True))
    return left, right


@pytest.mark.parametrize("rules", ["strict", "kafka"])
@pytest.mark.parametrize("how", HOWS)
def test_what_a_plan_costs(spark: SparkSession, stored: tuple[DataFrame, DataFrame], how: Any, rules: Any) -> None:
    """Few rows are not exchanged at all, and those of tasks once; nothing is sorted or joined by Spark."""
    join = Windowed(how, 5, 5, rules=rules, realm=2, ascending=rules == "strict", together=True)
    with plans.settings(spark, plans.SETTINGS):
        assert costs(stream_stream.execute(*stored, join, 2)) == {}
        assert costs(stream_stream.execute(*stored, replace(join, shares=2), 2)) == {"Exchange": 1}


@pytest.mark.parametrize(("how", "exchanges"), HOWS.items())
def test_what_a_plan_costs_where_a_key_may_lie_in_two_tasks(
    spark: SparkSession, stored: tuple[DataFrame, DataFrame], how: Any, exchanges: int
) -> None:
    """By key, and what waits by task; clocks come from one row a task, which costs two small exchanges more."""
    join = Windowed(how, 5, 5, realm=2, ascending=True)
    with plans.settings(spark, plans.SETTINGS):
        cost = costs(stream_stream.execute(*stored, replace(join, shares=2), 2))
    assert "SortMergeJoin" not in cost
    assert cost["Exchange"] - cost["BroadcastExchange"] <= exchanges + 2


def costs(found: DataFrame) -> dict[str, int]:
    """What a plan costs but for Python, which `plans.cost` refuses."""
    return plans.cost(found, python=True)
