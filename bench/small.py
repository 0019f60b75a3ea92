"""Small work: cold runs, cycles of a thousand records beside a large table, idle rounds, time from producing to committed.

`python -m bench.small --help`. A real broker, the enrichment of `bench.enrichment`. The cold run is a process of its own,
timed from its start, that finds new records and existing tables, as a scheduled job does.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from rich.console import Console
from rich.table import Table

from bench.data import profiles, views
from bench.enrichment import pipeline
from bench.measures import Cpu, own_processes
from lakestreams.engine.driver import Driver
from lakestreams.engine.runtime.lake import Lake
from lakestreams.engine.runtime.settings import RunSettings
from lakestreams.local.broker import Broker
from lakestreams.local.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.engine.runtime.progress import Event

OUTPUT = "silver.enriched"
console = Console()


def driver(spark: SparkSession, servers: str, root: Path, told: list[tuple[float, Event]] | None = None) -> Driver:
    """A driver of the enrichment; `told` receives its events with the time of each."""
    settings = RunSettings(kafka={"kafka.bootstrap.servers": servers, "kafka.isolation.level": "read_committed"})

    def listen(event: Event) -> None:
        if told is not None:
            told.append((time.time(), event))

    return Driver(spark, pipeline("join"), Lake(str(root)), settings, listen)


# --- a cold run, in a process of its own -----------------------------------------------------------------------------


def cold(servers: str, root: Path) -> dict[str, float]:
    """Runs once over what is new, in a new process: seconds by part, to its committed output, and to its end."""
    command = [sys.executable, "-m", "bench.small", "--child", str(root), "--servers", servers]
    began = time.time()
    done = subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ})
    whole = time.time() - began
    parts: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    python, committed, ended = (parts.pop(name) - began for name in ("imported", "committed", "ended"))
    return {"python": python, **parts, "end": whole - ended, "to committed": committed, "whole": whole}


def _child(servers: str, root: Path) -> None:
    parts = {"imported": time.time()}
    began = time.perf_counter()
    spark = spark_session("lakestreams-bench")
    parts["session"] = time.perf_counter() - began
    told: list[tuple[float, Event]] = []
    summary = driver(spark, servers, root, told).run()
    parts |= {stage: round(seconds, 2) for stage, seconds in summary.seconds.items()}
    parts["committed"] = max(when for when, event in told if event.kind == "published")
    parts["records"], parts["ended"] = summary.records, time.time()
    print(json.dumps(parts), flush=True)


# --- warm rounds -----------------------------------------------------------------------------------------------------


def rounds(running: Driver, count: int, produce: Callable[[int], object]) -> list[dict[str, float]]:
    """Rounds, before each of which something is produced: wall and CPU seconds, and those by stage."""
    found = []
    for number in range(count):
        produce(number)
        before = dict(running.summary.seconds)
        cpu, began = Cpu(own_processes), time.perf_counter()
        running.round(0)
        one = {"wall": time.perf_counter() - began, "cpu": cpu.spent()}
        one |= {stage: s - before.get(stage, 0.0) for stage, s in running.summary.seconds.items()}
        found.append(one)
    return found


def latencies(
    spark: SparkSession, broker: Broker, root: Path, rate: int, seconds: float, users: int
) -> tuple[float, float, int]:
    """From producing to committed, in seconds: median, 99th percentile, and how many records.

    A row is committed when its cycle is published; its record was produced at its own timestamp.
    """
    told: list[tuple[float, Event]] = []
    running = driver(spark, broker.bootstrap_servers, root, told)
    running.start()
    running.round()
    first = max((int(event.facts["cycle"]) for _, event in told if event.kind == "published"), default=0)
    stop = threading.Event()

    def produce() -> None:
        tick, number = max(0.05, 1 / rate), 0
        began = time.time()
        while not stop.is_set():
            due = int((time.time() - began) * rate)
            if due > number:
                broker.produce("views", _now(due - number, users))
                number = due
            time.sleep(tick)

    producer = threading.Thread(target=produce)
    producer.start()
    began = time.time()
    while time.time() - began < seconds:
        running.round(0)
    stop.set()
    producer.join()
    running.round()
    running.end()
    at = {int(event.facts["cycle"]): when for when, event in told if event.kind == "published"}
    committed = F.lit(None).cast("double")
    for cycle, when in at.items():
        committed = F.when(F.col("_lineage.cycle") == cycle, F.lit(when)).otherwise(committed)
    took = (committed - F.col("event_time_ms") / 1000).alias("took")
    rows = Lake(str(root)).output(OUTPUT).read(spark).where(F.col("_lineage.cycle") > first).select(took)
    row = rows.agg(F.percentile("took", 0.5), F.percentile("took", 0.99), F.count("took")).first()
    if row is None:
        raise AssertionError
    return float(row[0]), float(row[1]), int(row[2])


def _now(count: int, users: int) -> Iterator[tuple[str, str, int]]:
    stamp = time.time_ns() // 1_000_000
    for number in range(count):
        body = {"ms": stamp, "page": f"/products/{number % 5_000}", "session": f"s{number:012d}", "referrer": "search"}
        yield f"user{(number * 7_919) % users:07d}", json.dumps(body), stamp


# --- the command -----------------------------------------------------------------------------------------------------


def main(
    users: Annotated[int, typer.Option("--profiles", help="rows of the table")] = 1_000_000,
    records: Annotated[int, typer.Option(help="of a small cycle")] = 1_000,
    count: Annotated[int, typer.Option("--cycles")] = 20,
    cold_records: int = 10_000,
    rates: Annotated[str, typer.Option(help="records/s whose latency is measured, joined by commas")] = "1000,20000",
    seconds: Annotated[float, typer.Option(help="how long, each")] = 120,
    partitions: int = 4,
    child: Annotated[Path | None, typer.Option(hidden=True)] = None,
    servers: Annotated[str, typer.Option(hidden=True)] = "",
) -> None:
    """Measures small work."""
    if child is not None:
        _child(servers, child)
        return
    with Broker(heap_mb=1024) as broker, tempfile.TemporaryDirectory(prefix="lakestreams-bench-") as folder:
        root = Path(folder, "lake")
        for topic in ("views", "profiles"):
            broker.create_topic(topic, partitions)
        broker.produce("profiles", profiles(users))
        broker.produce("views", views(1_000, users))
        spark = spark_session("lakestreams-bench", memory="4g")
        driver(spark, broker.bootstrap_servers, root).run()
        console.print(f"a table of {users:,} rows is there")
        running = driver(spark, broker.bootstrap_servers, root)
        running.start()
        made = rounds(running, count, lambda _: broker.produce("views", views(records, users)))
        show(f"Cycles of {records:,} records", made)
        show("Idle rounds", rounds(running, 3, lambda _: None))
        running.end()
        for rate in (int(text) for text in rates.split(",") if text):
            median, most, rows = latencies(spark, broker, root, rate, seconds, users)
            console.print(
                f"{rate:,} records/s: p50 {median:.1f} s, p99 {most:.1f} s from producing to committed, {rows:,} rows"
            )
        spark.stop()
        if cold_records:
            broker.produce("views", views(cold_records, users))
            parts = cold(broker.bootstrap_servers, root)
            told = ", ".join(f"{name} {value:,.1f}" for name, value in parts.items())
            console.print(f"cold, {cold_records:,} records: {told}")


def show(title: str, found: list[Mapping[str, float]] | list[dict[str, float]]) -> None:
    half = found[len(found) // 2 :]  # the first ones warm the JVM up
    stages = list(dict.fromkeys(stage for one in found for stage in one))
    table = Table(title=f"{title}: s, median and spread of the last {len(half)} of {len(found)}")
    for heading in stages:
        table.add_column(heading, justify="right")
    values = {stage: [one.get(stage, 0.0) for one in half] for stage in stages}
    table.add_row(*(f"{statistics.median(values[stage]):.2f}" for stage in stages))
    table.add_row(*(f"{min(values[stage]):.2f}-{max(values[stage]):.2f}" for stage in stages))
    console.print(table)


if __name__ == "__main__":
    typer.run(main)
