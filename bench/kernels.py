"""The join kernels alone, on records frames in local Parquet. `python -m bench.kernels --help`.

Each case runs a few times in one JVM into a sink that drops its rows; the first run is cold. Printed are wall time,
CPU time of the JVM and its Python workers (what counts on a shared machine) and records/s of both. A case that states a
ratio prints it against another case. With `--beside` windowed joins run once more by the operators of another checkout, such
as the relational ones of commit 417e416, and the rows of both are compared.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from rich.console import Console
from rich.table import Table

from bench import derived, timed_lookups
from bench.frames import MINUTE, PARTITIONS, Frames, many_changes, orders, payments, share, text
from bench.measures import Case, Measure, measure
from bench.other import Other
from lakestreams.engine.runtime.tuning import ARROW
from lakestreams.engine.state.cached_frames import CachedFrames
from lakestreams.local.session import spark_session
from lakestreams.operators.clocks import with_clocks
from lakestreams.operators.foreign_key import pruning as fk_pruning
from lakestreams.operators.foreign_key import table_table as fk_table_table
from lakestreams.operators.homes import share_tasks
from lakestreams.operators.records import KEY, ORDER
from lakestreams.operators.stream_stream import frames as stream_stream
from lakestreams.operators.stream_stream import pruning
from lakestreams.operators.stream_table import kernel as stream_table
from lakestreams.operators.table_table import kernel as table_table
from lakestreams.operators.versions import TableSide
from lakestreams.operators.windows import Windowed, both_sides
from lakestreams.operators.workers import ROWS_OF_A_WORKER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

console = Console(width=160)
WINDOW = 5 * MINUTE
SPREAD = 35 * MINUTE
CYCLE = 1


def _windowed(frames: Frames, count: int) -> Iterator[Case]:
    left = frames.stream("orders", orders(frames.spark, count // 2, SPREAD))
    right = frames.stream("payments", payments(frames.spark, count // 2, SPREAD, WINDOW))
    shares = max(2, -(-count // ROWS_OF_A_WORKER))
    for how in ("inner", "left", "outer"):
        join = _join_of(how)
        yield Case(f"windowed {how}, by key", count, _join(left, right, replace(join, shares=shares)))
        by_task = _join(left, right, replace(join, shares=shares, together=True))
        yield Case(f"windowed {how}, by task", count, by_task)
        if how == "left":
            asks = replace(by_task, options={**by_task.options, "asks": True})
            yield Case(f"windowed {how}, by task, homes looked for", count, asks)
        yield Case(f"windowed {how}, one worker", count, _join(left, right, join))
    sorting = replace(_join_of("left"), shares=shares, ascending=False)  # what the results of other joins need
    yield Case("windowed left, clocks sorted", count, _join(left, right, sorting))


def _join_of(how: str, window: int = WINDOW) -> Windowed:
    return Windowed(how, window, window, realm=PARTITIONS, ascending=True)  # type: ignore[arg-type]


def _join(left: DataFrame, right: DataFrame, join: Windowed, **options: Any) -> Windows:
    return Windows(left, right, join, options)


@dataclass(frozen=True)
class Windows:
    """A windowed join on its input; calling it gives the rows."""

    left: DataFrame
    right: DataFrame
    join: Windowed
    options: Mapping[str, Any]

    def __call__(self) -> DataFrame:
        options = dict(self.options)
        options.pop("whole", None)  # for another checkout
        if options.pop("asks", False):  # as jobs do where ingest has not noted it
            assert share_tasks(both_sides(self.left, self.right, self.join), PARTITIONS)
        if past := options.pop("past", None):
            clocks, compute = pruning.last_clocks(past), CachedFrames().extract
            left, right, _ = pruning.prune((self.left, self.right), past, self.join, CYCLE, clocks, compute)
            return stream_stream.execute(left, right, self.join, CYCLE, **options)
        return stream_stream.execute(self.left, self.right, self.join, CYCLE, **options)

    def by(self, other: Other) -> DataFrame:
        """The rows by another checkout's operators, which find by themselves what new records reach of the past."""
        few = {"few": True} if "past" in self.options else {}
        left, right = self.options.get("whole", (self.left, self.right))
        return other.windowed(left, right, self.join, CYCLE, **few)


def _beside(cases: Iterable[Case], other: Other) -> Iterator[Case]:
    """Each windowed case, and before it the same by another checkout's operators."""
    known: set[tuple[int, int, Any]] = set()
    for case in cases:
        if isinstance(case.run, Windows):
            run, before = case.run, f"{case.name.split(', by ')[0].split(', one ')[0]}, {other.name}"
            at = id(run.left), id(run.right), (replace(run.join, shares=1, together=False), "past" in run.options)
            if at not in known:
                known.add(at)
                yield Case(before, case.records, partial(run.by, other))
            case = replace(case, than=before)  # noqa: PLW2901
        yield case


def _hot(frames: Frames, count: int) -> Iterator[Case]:
    """Half of the records are one key's, with 2,000 of them inside its window at any time; the same results uniform."""
    spark, side = frames.spark, count // 2
    spread = 2 * WINDOW * (count // 2) // 2_000
    inputs: dict[str, dict[str, int]] = {
        # a hot record meets 1,000 of the other side; uniform, each record meets 500
        "uniform": {"hot": 0, "keys": max(1, round(side * 2 * WINDOW / spread / 500)), "spread_ms": spread},
        "hot": {"hot": side // 2, "keys": side, "spread_ms": spread},
    }
    for name, shape in inputs.items():
        left, right = (frames.stream(f"{name}{no}", many_changes(spark, side, no, **shape)) for no in (1, 2))
        for how in ("inner", "left"):
            than = "" if name == "uniform" else f"uniform key, {how}"
            yield Case(f"{name} key, {how}", count, _join(left, right, _join_of(how)), than)


def _past(frames: Frames, count: int) -> Iterator[Case]:
    """A window that holds ten times the batch, against the batch alone."""
    spread, window = 66 * MINUTE, 60 * MINUTE
    keys = count * 11 // 2
    cycle = F.when(F.col("at") >= spread * 10 // 11, F.lit(CYCLE)).otherwise(F.lit(0))
    left = frames.stream("past_orders", orders(frames.spark, keys, spread), cycle=cycle)
    right = frames.stream("past_payments", payments(frames.spark, keys, spread, MINUTE * 10), cycle=cycle)
    new = F.col(ORDER)["cycle"] == CYCLE
    fresh_left, fresh_right = left.where(new), right.where(new)
    for how in ("inner", "left"):
        join = _join_of(how, window)
        yield Case(f"batch alone, {how}", count, _join(fresh_left, fresh_right, join))
        arms = with_clocks(both_sides(left.where(~new), right.where(~new), join), join)
        past = [side.persist() for side in stream_stream.retain(arms, join, right.schema[KEY].dataType)]
        pruned = _join(fresh_left, fresh_right, join, past=past, whole=(left, right))
        yield Case(f"past 10 x, {how}", count, pruned, f"batch alone, {how}")
        yield Case(f"past 10 x unfiltered, {how}", count, _join(left, right, join), f"batch alone, {how}")


def _tables(frames: Frames, count: int) -> Iterator[Case]:
    spark, keys = frames.spark, count // 2
    random_key = text("order", (share(7) * keys).cast("bigint").cast("string"))
    views = spark.range(count).select(
        random_key.alias("key"),
        (F.col("id") * SPREAD / count).cast("bigint").alias("at"),
        text("page", "id").alias("page"),
    )
    state = frames.table("state", orders(spark, keys, SPREAD), cycle=F.lit(0))
    changes = frames.table("changes", orders(spark, keys, SPREAD).where(share(8) < 0.1))
    points = frames.stream("views", views)
    known, changing = TableSide(state, None), TableSide(state, changes)
    yield Case("stream-table, state only", count, lambda: stream_table.execute(points, known, "left", CYCLE))
    yield Case("stream-table, with changes", count, lambda: stream_table.execute(points, changing, "left", CYCLE))
    yield Case("stream-table, with many changes", count,
               lambda: stream_table.execute(points, changing, "left", CYCLE, many_changes=True))  # fmt: skip
    left = frames.table("left_changes", orders(spark, keys, SPREAD))
    right = frames.table("right_changes", payments(spark, keys, SPREAD, WINDOW))
    yield Case(
        "table-table", count, lambda: table_table.execute(TableSide(None, left), TableSide(None, right), "left", CYCLE)
    )
    products = spark.range(keys // 10).select(
        text("p", "id").alias("key"), F.lit(0).alias("at"), text("name", "id").alias("title")
    )
    named = frames.table("products", products, cycle=F.lit(0))
    renamed = frames.table("renamed", products.where(share(9) < 0.01).withColumn("at", F.lit(SPREAD)))
    product = text("p", (F.pmod(F.hash(KEY), F.lit(keys // 10))).cast("string"))
    holders = TableSide(state.withColumn("fk", F.struct(product.alias("key"))), None)
    sides = holders, TableSide(named, renamed)
    touched = keys // 1000  # changes of the right; ten left rows name each
    yield Case("fk table-table, 1 % of the right changes", touched,
               lambda: fk_table_table.execute(*fk_pruning.prune(*sides, CYCLE)[:2], "left", CYCLE))  # fmt: skip
    yield Case("fk table-table, the same unpruned", touched,
               lambda: fk_table_table.execute(*sides, "left", CYCLE))  # fmt: skip
    left_touched, right_touched, _ = fk_pruning.prune(*sides, CYCLE)
    alone = TableSide(frames.kept("touched", left_touched.all()), None)
    yield Case("fk table-table, what it touches alone", touched,
               lambda: fk_table_table.execute(alone, right_touched, "left", CYCLE))  # fmt: skip


def _compare(cases: Iterable[Case], other: Other) -> None:
    """Says for windowed cases whether both checkouts give the same rows, their places aside."""
    for case in cases:
        if isinstance(case.run, Windows):
            mine, theirs = (rows.drop("n") for rows in (case.run(), case.run.by(other)))
            differing = mine.exceptAll(theirs).count() + theirs.exceptAll(mine).count()
            console.print(f"{case.name}: {mine.count():,} rows, {differing} of them otherwise than in {other.name}")


def main(
    records: Annotated[int, typer.Option(help="of both sides together; half as many keys")] = 2_000_000,
    hot: Annotated[int, typer.Option(help="records of the hot and the uniform case")] = 40_000,
    batch: Annotated[int, typer.Option(help="new records of the case with ten times as many before")] = 200_000,
    repeats: Annotated[int, typer.Option(help="runs of each case; the first one is cold")] = 3,
    group: Annotated[str, typer.Option(help="tables, windowed, hot, past, derived or timed; default all")] = "",
    only: Annotated[list[str] | None, typer.Option(help="cases whose name has this text, or one of several")] = None,
    folder: Annotated[Path | None, typer.Option(help="where the inputs are kept for the next time")] = None,
    beside: Annotated[Path | None, typer.Option(help="another checkout, whose windowed joins run beside these")] = None,
    stages: Annotated[bool, typer.Option(help="CPU seconds and shuffled bytes of each stage of the last run")] = False,
    memory: str = "4g",
) -> None:
    """Measures the kernels."""
    # AQE would look at sizes in between and change the plan from run to run of a case
    conf = {"spark.sql.autoBroadcastJoinThreshold": "-1", **ARROW}
    spark = spark_session("lakestreams-kernels", memory=memory, extra_conf=conf)
    with tempfile.TemporaryDirectory(prefix="lakestreams-kernels-") as temporary:
        frames = Frames(spark, folder or Path(temporary))
        groups = {
            "tables": (_tables, records),
            "windowed": (_windowed, records),
            "hot": (_hot, hot),
            "past": (_past, batch),
            "derived": (derived.cases, records),
            "timed": (timed_lookups.cases, records),
        }
        chosen = [make(frames, count) for name, (make, count) in groups.items() if group in ("", name)]
        cases = [case for cases in chosen for case in cases]
        if beside is not None:
            other = Other(beside)
            cases = list(_beside(cases, other))
        cases = [case for case in cases if any(text in case.name for text in only or [""])]
        if beside is not None:
            _compare(cases, other)
        best: dict[str, Measure] = {}
        table = Table(title=f"Kernels, {records:,} records, {records // 2:,} keys, heap {memory}")
        for heading in ("case", "results", "s", "records/s", "CPU s", "records/s of 2 CPUs", "against"):
            table.add_column(heading, justify="left" if heading == "case" else "right")
        for case in cases:
            runs = [measure(spark, case) for _ in range(repeats)]
            console.print(f"{case.name}: " + ", ".join(f"{run.seconds:.1f} s ({run.cpu:.1f} CPU)" for run in runs))
            one = best[case.name] = min(runs, key=lambda run: run.cpu)
            ratio = f"{one.cpu / best[case.than].cpu:.2f} of {case.than}" if case.than in best else ""
            table.add_row(case.name, f"{one.rows:,}", f"{one.seconds:.1f}", f"{case.records / one.seconds:,.0f}",
                          f"{one.cpu:.1f}", f"{2 * case.records / one.cpu:,.0f}", ratio)  # fmt: skip
            if stages:
                for at in one.stages:
                    first = one.stages[0].began
                    console.print(f"  stage {at.number}: {(at.began - first) / 1000:.1f} to {(at.ended - first) / 1000:.1f} s, "
                                  f"{at.tasks} tasks, {at.cpu:.1f} s CPU, {at.shuffled / 1e6:,.0f} MB shuffled")  # fmt: skip
        console.print(table)
        spark.stop()


if __name__ == "__main__":
    typer.run(main)
