"""The aggregation kernel on frames written by hand: emission, deleted groups, doubles, what a table's groups cost."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from tests.operators import plans
from tests.operators.rows import frame

from lakestreams import StreamsBuilder, Text, agg
from lakestreams.errors import BufferFull
from lakestreams.evaluate import walk
from lakestreams.evaluate.inputs import Inputs
from lakestreams.operators import versions
from lakestreams.operators.aggregate import changes, windowed
from lakestreams.operators.aggregate import group_rows as group_members
from lakestreams.operators.aggregate import kernel as aggregations
from lakestreams.operators.aggregate.columns import validate
from lakestreams.operators.aggregate.grouping import Grouping, Part
from lakestreams.operators.records import KEY, OLD, TASK, is_new
from lakestreams.operators.suppress import frames as suppress
from lakestreams.operators.suppress.kernel import Hold
from lakestreams.operators.versions import TableSide
from lakestreams.operators.workers import coded_errors
from lakestreams.topology.kinds import TimeWindows

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import Column, DataFrame, SparkSession

pytestmark = pytest.mark.slow

SUM = Part("of", "sum")


def entering(spark: SparkSession, rows: Iterable[tuple[Any, ...]], of: Column | None = None) -> DataFrame:
    """A stream's halves: (group, value, ts, cycle)."""
    made = frame(spark, "t", rows)
    value = F.col("v")["t"] if of is None else of
    into = F.struct(value.alias("of"))
    return made.withColumns({changes.INTO: into, changes.OUT: F.lit(None).cast(f"struct<of: {_type(made, value)}>")})


def _type(rows: DataFrame, of: Column) -> str:
    return rows.select(of.alias("of")).schema["of"].dataType.simpleString()


def number(text: str = "v") -> Column:
    return F.col(text)["t"].cast("double")


def told(rows: DataFrame) -> list[tuple[Any, ...]]:
    found = sorted(rows.collect(), key=lambda one: (one.o, one.n))
    return [(one.o.offset, one.k.k, one.v and one.v.of, one.ts, one.kind) for one in found]


def placed(rows: DataFrame) -> DataFrame:
    """Offsets that ascend with `ts` where several rows have one cycle."""
    return rows.withColumn("o", F.col("o").withField("offset", F.col("ts")))


def test_every_change_or_the_last_one_of_each_cycle(spark: SparkSession) -> None:
    given = placed(entering(spark, [("a", "1", 1, 1), ("a", "2", 2, 1), ("b", "4", 3, 1), ("a", "8", 4, 2)], number()))
    every, latest = (Grouping((SUM,), emit=emit) for emit in ("every_change", "latest"))  # type: ignore[arg-type]
    assert told(aggregations.execute(given, None, every, 1)) == [
        (1, "a", 1, 1, "record"), (2, "a", 3, 2, "record"), (3, "b", 4, 3, "record"), (4, "a", 11, 4, "record"),
    ]  # fmt: skip
    once = aggregations.execute(given, None, latest, 1, with_old=True)
    assert told(once) == [(2, "a", 3, 2, "record"), (3, "b", 4, 3, "record"), (4, "a", 11, 4, "record")]
    assert {one.o.offset: one[OLD] and one[OLD].of for one in once.collect()} == {2: None, 3: None, 4: 3}


def test_what_was_before_is_the_past_groups_row(spark: SparkSession) -> None:
    grouping = Grouping((SUM,))
    past = aggregations.retain(entering(spark, [("a", "1", 1, 1)], number()), None, grouping)
    (row,) = aggregations.execute(
        entering(spark, [("a", "2", 5, 2)], number()), past, grouping, 2, with_old=True
    ).collect()
    assert (row.v.of, row[OLD].of, row.ts) == (3, 1, 5)
    assert [(one.source, one.offset) for one in row.contributors] == [("t", 2)]


def test_sums_of_doubles_are_the_same_to_the_last_bit_however_they_are_cut(spark: SparkSession) -> None:
    rng = random.Random(7)
    given = [("a", repr(rng.uniform(-1, 1) * 10 ** rng.randint(-9, 9)), n, n) for n in range(200)]
    grouping = Grouping((SUM, Part("mean", "avg")))

    def rows(some: list[tuple[Any, ...]]) -> DataFrame:
        made = frame(spark, "t", some)
        into = F.struct(number().alias("of"), number().alias("mean"))
        return made.withColumns({changes.INTO: into, changes.OUT: F.lit(None).cast("struct<of: double, mean: double>")})

    whole = aggregations.execute(rows(given), None, grouping, 0).repartition(7).collect()
    past = aggregations.retain(rows(given[:77]), None, grouping)
    rest = aggregations.execute(rows(given[77:]), past, grouping, 77).collect()
    wanted = {one.ts: (one.v.of, one.v.mean) for one in whole if one.ts >= 77}
    assert {one.ts: (one.v.of, one.v.mean) for one in rest} == wanted
    assert wanted[199][0] != sum(sorted(float(one[1]) for one in given)), "the order matters to these"


@pytest.mark.parametrize(
    ("of", "type_"), [("tinyint", "bigint"), ("decimal(9,2)", "decimal(19,2)"), ("float", "double")]
)
def test_types_of_sums(spark: SparkSession, of: str, type_: str) -> None:
    given = entering(spark, [("a", "1", 1, 1)], F.col("v")["t"].cast(of))
    found = aggregations.execute(given, None, Grouping((SUM,)), 1)
    assert found.schema["v"].dataType["of"].dataType.simpleString() == type_  # type: ignore[index]
    past = aggregations.retain(given, None, Grouping((SUM,)))
    again = aggregations.execute(given, past, Grouping((SUM,)), 1).schema["v"].dataType
    assert again.simpleString() == f"struct<of:{type_}>"


def test_what_cannot_be_added_up_is_told(spark: SparkSession) -> None:
    types = entering(spark, []).schema[changes.INTO].dataType
    assert validate(types, Grouping((SUM,))) == "sum of of: string is no number"  # type: ignore[arg-type]
    fold = Grouping((Part("of", "fold", F.lit(""), lambda made, _: made),), of_table=True)
    assert "there is no subtract" in str(validate(types, fold))  # type: ignore[arg-type]


def test_a_text_in_place_of_a_column_is_refused(spark: SparkSession) -> None:
    builder = StreamsBuilder("text")
    stream = builder.stream("s", key=Text("k"), value=Text("amount"))
    stream.group_by_key().aggregate(lambda _: {"low": agg.min("amount")}).to_delta("out")  # type: ignore[arg-type]
    _, (fault,) = walk.check(builder.build(), spark)
    assert "agg.min('amount') takes a column, not a text" in str(fault)
    assert "agg.min(row.amount)" in str(fault)


def test_wide_decimals_lose_nothing_in_a_stream_and_are_refused_in_a_table(spark: SparkSession) -> None:
    given = [("a", "12345678901234567890.123456789012345678", 1, 1), ("a", "0.000000000000000001", 2, 2)]
    adds_and_subtracts = entering(spark, given, F.col("v")["t"].cast("decimal(38,18)"))
    found = aggregations.execute(adds_and_subtracts, None, Grouping((SUM, Part("mean", "count"))), 1)
    assert str(told(found)[1][2]) == "12345678901234567890.123456789012345679"
    means = aggregations.execute(adds_and_subtracts, None, Grouping((Part("of", "avg"),)), 1)
    assert str(told(means)[0][2]).startswith("12345678901234567890.1234567890")
    types = adds_and_subtracts.schema[changes.INTO].dataType
    assert "more than 27 digits" in str(validate(types, Grouping((SUM,), of_table=True)))  # type: ignore[arg-type]


def test_a_settled_row_that_a_later_change_has_moved_is_in_no_group(spark: SparkSession) -> None:
    """A snapshot's row, a change of it since, and a new one of another key: the old group is what it is now."""
    rows = frame(spark, "t", [("k1", "5", 1, 1), ("k1", "7", 2, 2), ("k2", "9", 3, 3)])
    into = F.struct(number().alias("of"))
    group = F.struct(F.when(F.col("v")["t"] == "7", F.lit("g2")).otherwise(F.lit("g1")).alias("k"))
    grouped = rows.withColumns(
        {changes.INTO: into, changes.INTO_KEY: group, group_members.SETTLED: F.col("o")["cycle"] == 1}
    )
    adds_and_subtracts = changes.adds_and_subtracts(
        changes.with_before(versions.of_keys(grouped, grouped.where(is_new(3)))), 3
    )
    had = group_members.members(group_members.of_touched_groups(grouped, adds_and_subtracts, 3), 3)
    least = Grouping((Part("of", "min"),), of_table=True)
    assert told(aggregations.execute(adds_and_subtracts, None, least, 3, members=had)) == [(3, "g1", 9, 3, "record")]


# --- buffers ---------------------------------------------------------------------------------------------------------


def test_a_buffer_stops_the_run_when_it_is_more_than_full_and_not_before(spark: SparkSession) -> None:
    hold = Hold(1_000, max_records=2, when_full="shutdown", name="held")
    updates = frame(spark, "t", [("a", "1", 1, 1), ("b", "1", 2, 2), ("a", "2", 3, 3)]).withColumn(TASK, F.lit(0))
    assert suppress.execute(suppress.waits_of(updates, None, None, hold), hold, 1).collect() == []
    one_more = frame(spark, "t", [("c", "1", 4, 4)]).withColumn(TASK, F.lit(0))
    with pytest.raises(BufferFull, match='suppress "held": 3 keys wait in task 0, max_records is 2'), coded_errors():
        suppress.waits_of(updates.unionByName(one_more), None, None, hold).collect()


def test_windows_that_have_closed_are_kept_no_longer(spark: SparkSession) -> None:
    windows = TimeWindows(10, 10, 5)
    clocks = spark.createDataFrame([(0, 26), (1, 100)], "task int, clock bigint")
    keys = [("a", 0, 10, 0), ("a", 10, 20, 0), ("a", 20, 30, 0), ("b", 80, 90, 1), ("c", 0, 10, 2)]
    groups = spark.createDataFrame(
        [((key, start, end), task) for key, start, end, task in keys],
        "k struct<k: string, window_start_ms: bigint, window_end_ms: bigint>, task int",
    )

    def kept(frame: DataFrame, tasks: int) -> list[str]:
        return sorted(
            f"{one.k.k}{one.k.window_start_ms}" for one in windowed.open_groups(frame, clocks, windows, tasks).collect()
        )

    assert kept(groups, 3) == ["a20", "c0"], "each by its own task; one that has seen nothing takes any"
    assert kept(groups.drop(TASK), 2) == ["a20", "b80"], "by the slowest task"
    assert len(kept(groups.drop(TASK), 3)) == len(keys), "a third task has seen nothing yet"


# --- through a topology: the past is filtered where the counts say that it is worth it ---------------------------------


def _run(spark: SparkSession, counts: dict[str, int]) -> tuple[list[tuple[Any, ...]], dict[str, int]]:
    builder = StreamsBuilder("few")
    lines = builder.table("lines", key=Text("k"), value=Text("lines"))
    lines.group_by(lambda one: {"k": one.lines}).aggregate(
        lambda one: {"of": agg.count(), "low": agg.min(one.lines), "ids": agg.collect(one.k)}, name="made"
    ).to_delta("out", mode="changes")
    topology = builder.build()
    past = frame(spark, "lines", [(f"k{n}", f"g{n % 3}", n, n) for n in range(1, 9)])
    first = walk.run(topology, Inputs({}, {"lines": TableSide(None, past)}, 1, keeps=True))
    new = frame(spark, "lines", [("k1", "g2", 20, 20), ("k2", None, 21, 21)])
    inputs = Inputs({}, {"lines": TableSide(None, new)}, 20, changes=counts, retained=first.kept)
    rows = walk.run(topology, inputs).records["out"]
    with plans.settings(spark, plans.SETTINGS):
        cost = plans.cost(rows)
    found = sorted(rows.collect(), key=lambda one: (one.o, one.n))
    return [(one.o.offset, one[KEY].k, *one.v, one.ts) for one in found], cost


def test_a_cycle_of_few_records_leaves_out_what_they_do_not_touch(spark: SparkSession) -> None:
    wanted = [
        (20, "g1", 2, "g1", ["k4", "k7"], 20),
        (20, "g2", 4, "g2", ["k2", "k5", "k8", "k1"], 20),
        (21, "g2", 3, "g2", ["k5", "k8", "k1"], 21),
    ]
    found, cost = _run(spark, {})
    assert found == wanted
    assert "BroadcastExchange" not in cost
    found, cost = _run(spark, {"lines": 2})
    assert found == wanted
    assert cost["BroadcastExchange"] >= 3, "groups, changed keys and touched groups are broadcast"
