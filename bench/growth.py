"""How a work grows with its records: the windowed and the foreign-key join at several sizes, and the line through them.

`python -m bench.growth --help`. One session; a broker of its own for each size. The smallest size runs once before all
others, cold; then every size takes its turn, warm. A run counts if its rows are those that SQL finds in the topics, and
every order has exactly one of them.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import numpy as np
import typer
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from rich.console import Console
from rich.table import Table

from bench.contenders import Bench, answer, ours, summed
from bench.results import Run, replace_between
from bench.versus import load, machine
from bench.works import WORKS
from lakestreams.local.broker import Broker
from lakestreams.local.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from bench.works import Work

BEGIN, END = "<!-- growth: begin -->", "<!-- growth: end -->"
PLOT: Final = "growth.png"
GROWING: Final = ("correlation", "foreign_key")
"""Works whose results have an order each."""
WORTH: Final = 0.5
"""Seconds: where a stage takes less, its distance from a line is noise."""
HEADINGS: Final = ("orders", "records", "run", "s", "records/s", "off the line")
console = Console(width=170)


@dataclass(frozen=True)
class Grown:
    """A run of some size: orders, records of all topics, whether it was the session's first, and what it took."""

    orders: int
    records: int
    cold: bool
    run: Run


def once(spark: SparkSession, work: Work, orders: int, rounds: int, batch: int, *, cold: bool) -> list[Grown]:
    """So many runs over topics that are loaded for them.

    Raises:
        AssertionError: a run gave other rows than the topics hold, or an order none, or two.
    """
    with Broker(heap_mb=1024) as broker, tempfile.TemporaryDirectory(prefix="lakestreams-bench-") as folder:
        bench = Bench(spark, broker, Path(folder), batch, 4)
        records = load(broker, work, orders, bench.partitions)
        wanted = summed(answer(bench, work))
        whole = sum(broker.end_offsets(work.copied).values())
        found = []
        for _ in range(rounds):
            run, rows = ours(bench, work, join=True)
            keys = rows.agg(F.count_distinct("key")).first()
            if summed(rows) != wanted or keys is None or not keys[0] == wanted[0] == whole:
                msg = f"{work.name} of {orders:,}: {summed(rows)[0]:,} rows of {keys}, {wanted[0]:,} were expected"
                raise AssertionError(msg)
            found.append(Grown(orders, records, cold, run))
            told = " ".join(f"{stage} {spent:.1f}" for stage, spent in run.stages.items())
            word = "cold" if cold else "warm"
            console.print(f"{work.name} {orders:,} {word}: {run.seconds:.1f} s, {records / run.seconds:,.0f}/s  {told}")
        return found


Points = Sequence[tuple[int, float]]
"""Records and seconds, one pair a run or a size."""


def line(points: Points) -> tuple[float, float]:
    """Seconds that no record costs, and seconds a record: the straight line with the least relative errors."""
    sizes, seconds = (np.array(each, dtype=float) for each in zip(*points, strict=True))
    (fixed, each), *_ = np.linalg.lstsq(
        np.column_stack([1 / seconds, sizes / seconds]), np.ones(len(points)), rcond=None
    )
    return float(fixed), float(each)


def off(points: Points, of_line: tuple[float, float]) -> float:
    """How far the farthest point is off a line, as a share of what the line says."""
    fixed, each = of_line
    return max(abs(seconds / (fixed + each * records) - 1) for records, seconds in points)


def medians(found: Sequence[Grown], stage: str = "") -> Points:
    """The median of each size's runs, or of a stage of them."""
    sizes = dict.fromkeys(one.records for one in found)
    seconds = ((one.records, one.run.stages.get(stage, 0.0) if stage else one.run.seconds) for one in found)
    taken = list(seconds)
    return [(size, statistics.median(spent for of, spent in taken if of == size)) for size in sizes]


def rows(found: Sequence[Grown]) -> tuple[list[str], list[tuple[str, ...]]]:
    """Headings and lines of a table: a line a size, the median of its warm runs, one of the cold run, and how far each
    stage is off a line of its own.
    """
    warm = [one for one in found if not one.cold]
    fixed, each = line(_runs(warm))
    stages = list(dict.fromkeys(stage for one in found for stage in one.run.stages))
    told: list[tuple[str, ...]] = []
    groups = dict.fromkeys((one.orders, one.cold) for one in found)
    for orders, cold in groups:
        same = [one for one in found if (one.orders, one.cold) == (orders, cold)]
        ((records, seconds),) = medians(same)
        far = "" if cold else f"{seconds / (fixed + each * records) - 1:+.0%}"
        spent = (medians(same, stage)[0][1] for stage in stages)
        told.append(
            (
                f"{orders:,}", f"{records:,}", "cold" if cold else "warm", f"{seconds:.1f}",
                f"{records / seconds:,.0f}", far, *(f"{one:.1f}" for one in spent),
            )
        )  # fmt: skip
    own = [_off_its_line(warm, stage) for stage in stages]
    if any(own):
        told.append(("", "", "off its own line", "", "", "", *own))
    return [*HEADINGS, *stages], told


def _off_its_line(warm: Sequence[Grown], stage: str) -> str:
    """How far a stage is off its line, and of how many sizes: those at which it takes time, if there are enough."""
    points = [(records, spent) for records, spent in medians(warm, stage) if spent >= WORTH]
    return f"{off(points, line(points)):.0%} of {len(points)}" if len(points) > 2 else ""


def _runs(found: Sequence[Grown]) -> Points:
    return [(one.records, one.run.seconds) for one in found]


def sentence(found: Sequence[Grown]) -> str:
    """The line in words."""
    warm = [one for one in found if not one.cold]
    fixed, each = found_line = line(_runs(warm))
    return (
        f"{fixed:.1f} s and {each * 1e6:.1f} s for a million records; no size is more than "
        f"{off(medians(warm), found_line):.0%} off that line, and no run more than {off(_runs(warm), found_line):.0%}"
    )


def show(work: str, found: Sequence[Grown]) -> None:
    """A table for a terminal."""
    headings, told = rows(found)
    table = Table(title=work)
    for heading in headings:
        table.add_column(heading, justify="right")
    for one in told:
        table.add_row(*one)
    console.print(table)
    console.print(f"{work}: {sentence(found)}")


def write(page: Path, found: dict[str, list[Grown]]) -> None:
    """Puts tables and a plot between the page's marks.

    Raises:
        ValueError: the page has no marks.
    """
    parts = ["", f"{machine()}.", "", f"![seconds by records](images/{PLOT})", ""]
    for work, each in found.items():
        headings, told = rows(each)
        parts += [
            f"**{work}**: {sentence(each)}.",
            "",
            "| " + " | ".join(headings) + " |",
            "|" + "---|" * len(headings),
        ]
        parts += ["| " + " | ".join(one) + " |" for one in told] + [""]
    replace_between(page, BEGIN, END, parts)
    draw(page.parent / "images" / PLOT, found)


def draw(file: Path, found: dict[str, list[Grown]]) -> None:
    """Seconds over records, warm, with the line of each work."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - slow to import, and few commands draw

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    for colour, (work, all_) in zip(("#2a6f97", "#c0632b", "#5a8f3c"), found.items(), strict=False):
        warm = [one for one in all_ if not one.cold]
        fixed, each = line(_runs(warm))
        sizes = sorted({one.records for one in warm})
        axes.scatter([one.records / 1e6 for one in warm], [one.run.seconds for one in warm], color=colour, label=work)
        axes.plot([size / 1e6 for size in sizes], [fixed + each * size for size in sizes], color=colour, linewidth=1)
    axes.set_xlabel("million records")
    axes.set_ylabel("s, warm")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    file.parent.mkdir(exist_ok=True)
    figure.savefig(file, dpi=110)


def main(
    works: Annotated[str, typer.Option("--works", help="joined by commas")] = ",".join(GROWING),
    sizes: Annotated[str, typer.Option("--sizes", help="orders, joined by commas")] = "50000,500000,1000000,5000000",
    rounds: Annotated[int, typer.Option(help="warm runs of each size")] = 3,
    batch: Annotated[int, typer.Option(help="records that an ingest batch reads at most")] = 10_000_000,
    memory: Annotated[str, typer.Option(help="heap of Spark's JVM")] = "9g",
    master: Annotated[str, typer.Option(help="Spark's, such as local-cluster[2,1,4096]; default threads")] = "",
    page: Annotated[Path | None, typer.Option(help="page that gets the results, such as docs/benchmarks.md")] = None,
    keep: Annotated[Path | None, typer.Option(help="file that gets all figures as JSON")] = None,
) -> None:
    """Measures how works grow."""
    names = [name for name in works.split(",") if name]
    unknown = {*names} - {*GROWING}
    if unknown:
        msg = f"unknown: {', '.join(sorted(unknown))}; works are {', '.join(GROWING)}"
        raise typer.BadParameter(msg)
    orders = sorted(int(text) for text in sizes.split(",") if text)
    found: dict[str, list[Grown]] = {}
    conf = {"spark.master": master, "spark.executor.memory": "3g"} if master else None
    for name in names:
        spark = spark_session("lakestreams-bench", memory=memory, extra_conf=conf)
        began = time.perf_counter()
        runs = once(spark, WORKS[name], orders[0], 1, batch, cold=True)
        for size in orders:
            runs += once(spark, WORKS[name], size, rounds, batch, cold=False)
        found[name] = runs
        show(name, runs)
        console.print(f"{name}: {time.perf_counter() - began:.0f} s in all")
        spark.stop()
    if keep is not None:
        text = {name: [asdict(one) for one in runs] for name, runs in found.items()}
        keep.write_text(json.dumps(text, indent=1), encoding="utf-8")
    if page is not None:
        write(page, found)


if __name__ == "__main__":
    typer.run(main)
