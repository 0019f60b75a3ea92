"""Lakestreams beside its floor, Kafka Streams, Flink SQL and Spark's own operators, on the same topics, in one run.

`python -m bench.versus --help`. Loads each work's topics once into a real broker; then the contenders take turns, the
first round cold, the others warm. Every run's rows are compared with what SQL finds in the topics before its time
counts. With `--page` the table and a plot are written into a page of the documentation.
"""

from __future__ import annotations

import json
import platform
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import psutil
import pyspark
import typer
from rich.console import Console

from bench import results
from bench.contenders import CONTENDERS, FEWER, FLOOR, SPARK, Bench, answer, summed
from bench.works import WORKS
from lakestreams.local.broker import Broker
from lakestreams.local.session import spark_session

if TYPE_CHECKING:
    from bench.results import Runs
    from bench.works import Work

console = Console(width=150)
_USUAL = [name for name in CONTENDERS if name != "flink-rocksdb"]  # whose windowed join takes minutes


def load(broker: Broker, work: Work, count: int, partitions: int, suffix: str = "") -> int:
    """Loads a work's topics: how many records."""
    for topic, (_, records) in work.topics.items():
        broker.create_topic(topic + suffix, partitions)
        broker.produce(topic + suffix, records(count))
    return sum(sum(broker.end_offsets(topic + suffix).values()) for topic in work.topics)


def measure(bench: Bench, work: Work, count: int, names: Sequence[str], rounds: int, fewer: int) -> Runs:
    """Every contender once a round: the records that each got, and its runs.

    Raises:
        AssertionError: a contender gave other rows than the topics hold.
    """
    records = load(bench.broker, work, count, bench.partitions)
    runs: Runs = {name: (records, []) for name in names}
    wanted: dict[str, tuple[int, int | None]] = dict.fromkeys(names, summed(answer(bench, work)))
    if FLOOR in names:
        wanted[FLOOR] = (sum(bench.broker.end_offsets(work.copied).values()), None)
    if SPARK in names:
        some = load(bench.broker, work, max(1_000, count // fewer), bench.partitions, FEWER)
        runs[SPARK] = (some, [])
        wanted[SPARK] = summed(answer(bench, work, FEWER))
    for number in range(rounds + 1):
        for name in names if number % 2 == 0 else reversed(names):
            run, rows = CONTENDERS[name](bench, work)
            found, (expected, digest) = summed(rows), wanted[name]
            if found[0] != expected or digest not in (None, found[1]):
                msg = f"{name} gave {found[0]:,} rows of {work.name}, {expected:,} were expected, or others"
                raise AssertionError(msg)
            runs[name][1].append(run)
            told = " ".join(f"{stage} {spent:.1f}" for stage, spent in run.stages.items())
            rate = runs[name][0] / run.seconds
            console.print(f"{work.name} {name} {number or 'cold'}: {run.seconds:.1f} s, {rate:,.0f} records/s  {told}")
    return runs


def main(
    works: Annotated[str, typer.Option("--works", help="joined by commas")] = ",".join(WORKS),
    contenders: Annotated[str, typer.Option("--contenders", help="joined by commas")] = ",".join(_USUAL),
    scale: Annotated[float, typer.Option(help="of the records: 4, 2 and 1 million of the larger topics")] = 1.0,
    rounds: Annotated[int, typer.Option(help="warm rounds after the cold one")] = 3,
    batch: Annotated[int, typer.Option(help="records that an ingest batch reads at most")] = 5_000_000,
    fewer: Annotated[int, typer.Option(help="Spark's own operators get one of so many records")] = 10,
    partitions: int = 4,
    memory: Annotated[str, typer.Option(help="heap of Spark's JVM")] = "6g",
    page: Annotated[Path | None, typer.Option(help="page that gets the results, such as docs/benchmarks.md")] = None,
    keep: Annotated[Path | None, typer.Option(help="file that gets all figures as JSON")] = None,
    again: Annotated[Path | None, typer.Option(help="show the figures of this file, and measure none")] = None,
) -> None:
    """Measures contenders side by side."""
    if again is not None:
        found = _kept(again)
        for name, runs in found.items():
            console.print(results.table(name, runs))
            console.print(results.ratios(runs))
        if page is not None:
            results.write(page, found, machine())
        return
    names, chosen = ([name for name in text.split(",") if name] for text in (contenders, works))
    unknown = sorted({*names} - CONTENDERS.keys() | {*chosen} - WORKS.keys())
    if unknown:
        msg = f"unknown: {', '.join(unknown)}; works are {', '.join(WORKS)}, contenders {', '.join(CONTENDERS)}"
        raise typer.BadParameter(msg)
    found = {}
    for work in (WORKS[name] for name in chosen):
        with Broker(heap_mb=1024) as broker, tempfile.TemporaryDirectory(prefix="lakestreams-bench-") as folder:
            spark = spark_session("lakestreams-bench", memory=memory)
            bench = Bench(spark, broker, Path(folder), batch, partitions)
            began = time.perf_counter()
            found[work.name] = measure(bench, work, int(work.size * scale), names, rounds, fewer)
            console.print(results.table(work.name, found[work.name]))
            console.print(results.ratios(found[work.name]))
            console.print(f"{work.name}: {time.perf_counter() - began:.0f} s in all")
            spark.stop()
    if keep is not None:
        keep.write_text(json.dumps({name: _plain(runs) for name, runs in found.items()}, indent=1), encoding="utf-8")
    if page is not None:
        results.write(page, found, machine())


def _plain(runs: Runs) -> dict[str, object]:
    return {name: {"records": records, "runs": [asdict(one) for one in all_]} for name, (records, all_) in runs.items()}


def _kept(file: Path) -> dict[str, Runs]:
    """What `--keep` has written."""
    figures = json.loads(file.read_text(encoding="utf-8"))
    return {
        work: {name: (one["records"], [results.Run(**run) for run in one["runs"]]) for name, one in runs.items()}
        for work, runs in figures.items()
    }


def machine() -> str:
    """What it ran on: cores, memory, versions, commit."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    memory = psutil.virtual_memory().total / 2**30
    return (
        f"{psutil.cpu_count()} cores, {memory:.0f} GiB, {platform.system()}, Python {platform.python_version()}, "
        f"pyspark {pyspark.__version__}, commit {commit.stdout.strip() or 'unknown'}, {time.strftime('%Y-%m-%d')}"
    )


if __name__ == "__main__":
    typer.run(main)
