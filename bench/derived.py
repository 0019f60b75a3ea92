"""Cases of aggregations, windows and buffers for `bench.kernels`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from bench.frames import MINUTE, Frames, orders, share, text
from bench.measures import Case
from lakestreams.operators import versions
from lakestreams.operators.aggregate import changes, windowed
from lakestreams.operators.aggregate import group_rows as group_members
from lakestreams.operators.aggregate import kernel as aggregations
from lakestreams.operators.aggregate.grouping import Grouping, Part
from lakestreams.operators.records import KEY, ORDER, VALUE, is_new
from lakestreams.operators.suppress import frames as suppress
from lakestreams.operators.suppress.kernel import Hold
from lakestreams.topology.kinds import TimeWindows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SPREAD = 35 * MINUTE
CYCLE = 1
SUMS = (Part("number", "count"), Part("amount", "sum"), Part("mean", "avg"))

FOLD = Part("amount", "fold", add=lambda so_far, amount: (so_far * 3 + amount) % 1_000_003)


def cases(frames: Frames, count: int) -> Iterator[Case]:
    """A stream's records by key and by window; a table's rows by group; a cycle that touches little; buffers."""
    spark, keys = frames.spark, count // 2
    stream = frames.stream("clicks", _clicks(spark, count, keys))
    sums = Grouping(SUMS)
    yield Case("stream, sums, every change", count, _of_stream(stream, None, sums))
    yield Case("stream, sums, latest", count, _of_stream(stream, None, Grouping(SUMS, emit="latest")))
    groups = frames.kept("groups", aggregations.retain(_halves(stream), None, sums))
    small_input = frames.stream("few_clicks", _clicks(spark, count, keys).where(share(9) < 0.005), cycle=F.lit(2))
    touched = count // 200
    yield Case("0.5 % more, groups filtered", touched, _of_stream(small_input, groups, sums, prune=True))
    yield Case("0.5 % more, all groups", touched, _of_stream(small_input, groups, sums))
    yield Case("tumbling windows of 1 minute", count, lambda: _in_windows(stream, TimeWindows(MINUTE, MINUTE)))
    yield Case("hopping windows, 5 each", count, lambda: _in_windows(stream, TimeWindows(5 * MINUTE, MINUTE)))
    often = frames.stream("few_keys", _clicks(spark, count // 10, 10))
    yield Case("a fold, 10 keys", count // 10, _of_stream(often, None, Grouping((FOLD,))))
    lines = orders(spark, keys, SPREAD)
    state = frames.table("lines", lines, cycle=F.lit(0))
    edited = frames.table("edited", lines.where(share(8) < 0.1))
    changed = keys // 10
    for name, part in (("sums", SUMS), ("min", (Part("amount", "min"),))):
        grouping = Grouping(part, of_table=True)
        yield Case(f"table, 10 % edited, {name} of 10 rows", changed, _of_table(state, edited, grouping, keys // 10))
    yield Case("suppress, 10 s", changed, lambda: _buffered(edited, Hold(10_000)))


def _clicks(spark: SparkSession, count: int, keys: int) -> DataFrame:
    """Records at even distances, each of one of so many keys."""
    return spark.range(count).select(
        text("order", (share(7) * keys).cast("bigint").cast("string")).alias("key"),
        (F.col("id") * SPREAD / count).cast("bigint").alias("at"),
        (share(1) * 100).cast("bigint").alias("amount"),
    )


def _halves(rows: DataFrame) -> DataFrame:
    amount = F.col(VALUE)["amount"]
    into = F.struct(amount.alias("amount"), amount.alias("mean"))
    return rows.withColumns({changes.INTO: into, changes.OUT: F.lit(None).cast("struct<amount: bigint, mean: bigint>")})


def _of_stream(
    rows: DataFrame, groups: DataFrame | None, grouping: Grouping, *, prune: bool = False
) -> Callable[[], DataFrame]:
    def run() -> DataFrame:
        halves = _halves(rows)
        past = versions.of_keys(groups, halves) if prune and groups is not None else groups
        return aggregations.execute(halves, past, grouping, CYCLE)

    return run


def _in_windows(rows: DataFrame, windows: TimeWindows) -> DataFrame:
    assigned = windowed.assigned(windowed.with_clock(rows, None, CYCLE, ascending=True), windows)
    return aggregations.execute(_halves(assigned.where(windowed.is_open(windows))), None, Grouping(SUMS), CYCLE)


def _of_table(state: DataFrame, edited: DataFrame, grouping: Grouping, groups: int) -> Callable[[], DataFrame]:
    """Each group has ten rows; an edited one moves to another group."""

    def grouped(rows: DataFrame) -> DataFrame:
        group = F.pmod(F.hash(KEY) + F.col(ORDER)["cycle"], F.lit(groups))
        amount = F.col(VALUE)["amount"]
        into = F.struct(amount.alias("amount"), amount.alias("mean"))
        return rows.withColumns({changes.INTO_KEY: F.struct(group.alias("g")), changes.INTO: into})

    def run() -> DataFrame:
        settled = state.withColumn(group_members.SETTLED, F.lit(True))
        rows = grouped(settled.unionByName(edited.withColumn(group_members.SETTLED, F.lit(False))))
        changed = versions.of_keys(rows, rows.where(is_new(CYCLE)))
        halves = changes.adds_and_subtracts(changes.with_before(changed), CYCLE)
        members = None
        if grouping.looks_at_members:
            members = group_members.members(group_members.of_touched_groups(rows, halves, CYCLE), CYCLE)
        return aggregations.execute(halves, None, grouping, CYCLE, members=members)

    return run


def _buffered(updates: DataFrame, hold: Hold) -> DataFrame:
    return suppress.execute(suppress.waits_of(updates, None, None, hold), hold, CYCLE)
