"""Enrichment against its own floor, the same run with no join, and with ten rules a source. `python -m bench.enrichment --help`.

Loads page views and profiles once into a real broker, then runs the variants in turn, each time into new tables, in one
JVM: the first round is cold, the others warm. Prints records/s for the whole run and by stage.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from bench.data import profiles, views
from lakestreams import Json, StreamsBuilder, Text, Topology
from lakestreams.engine.driver import Driver
from lakestreams.engine.runtime.lake import Lake
from lakestreams.engine.runtime.progress import Summary
from lakestreams.engine.runtime.settings import RunSettings
from lakestreams.local.broker import Broker
from lakestreams.local.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VIEW = "ms bigint, page string, session string, referrer string"
PROFILE = "region string, plan string, since bigint"
STAGES = ("check", "prepare", "ingest", "settle", "join", "snapshot", "finish", "events")
VARIANTS = ("join", "floor", "rules")
console = Console()


VIEW_RULES = {
    "has_page": "page is not null", "page_is_path": "startswith(page, '/')", "short_page": "length(page) < 40",
    "has_session": "session is not null", "session_is_long": "length(session) = 13", "has_time": "ms is not null",
    "time_is_recent": "ms > 1600000000000", "known_referrer": "referrer in ('search', 'mail', 'ad')",
    "has_user": "user is not null", "page_not_session": "page != session",
}  # fmt: skip
PROFILE_RULES = {
    "has_region": "region is not null", "is_region": "startswith(region, 'region-')", "short": "length(region) < 12",
    "has_plan": "plan is not null", "known_plan": "plan in ('free', 'pro')", "has_since": "since is not null",
    "since_is_past": "since < 1800000000000", "has_user": "user is not null", "is_user": "startswith(user, 'user')",
    "number": "cast(substring(user, 5, 20) as int) >= 0",
}  # fmt: skip


def pipeline(variant: str) -> Topology:
    """The enrichment; the same with ten rules a source; or with no join: views are copied to silver."""
    builder = StreamsBuilder(f"bench_{variant}")
    stream = builder.stream("views", key=Text("user"), value=Json(VIEW))
    table = builder.table("profiles", key=Text("user"), value=Json(PROFILE))
    if variant == "rules":
        stream.expect_all(dict(list(VIEW_RULES.items())[:5])).expect_all_or_drop(dict(list(VIEW_RULES.items())[5:]))
        table.expect_all(dict(list(PROFILE_RULES.items())[:5]))
        table.expect_all_or_drop(dict(list(PROFILE_RULES.items())[5:]))
    if variant != "floor":
        stream.left_join(
            table, lambda view, user: {"ms": view.ms, "page": view.page, "region": user.region, "plan": user.plan}
        ).to_delta("silver.enriched")
    else:
        stream.map_values(
            lambda view: {"ms": view.ms, "page": view.page, "region": view.session, "plan": view.referrer}
        ).to_delta("silver.copied")
    return builder.build()


def measure(
    spark: SparkSession, servers: str, root: Path, variant: str, *, batch: int, expected: int
) -> dict[str, Any]:
    """One run into new tables; wall time by stage. The result's rows are counted before its time counts."""
    shutil.rmtree(root, ignore_errors=True)
    topology = pipeline(variant)
    settings = RunSettings(
        kafka={"kafka.bootstrap.servers": servers, "kafka.isolation.level": "read_committed"},
        max_offsets_per_trigger=batch,
    )
    began = time.perf_counter()
    summary: Summary = Driver(spark, topology, Lake(str(root)), settings).run()
    seconds = time.perf_counter() - began
    rows = Lake(str(root)).output(topology.sinks[0].name).read(spark).count()
    if rows != expected:
        msg = f"{rows} rows came out, {expected} were expected"
        raise AssertionError(msg)
    return {"seconds": seconds, "cycles": summary.cycles, "stages": summary.seconds}


def main(
    count: Annotated[int, typer.Option("--views")] = 1_000_000,
    users: Annotated[int, typer.Option("--profiles")] = 100_000,
    partitions: int = 4,
    batch: Annotated[int, typer.Option(help="records an ingest batch reads at most")] = 2_000_000,
    repeats: Annotated[int, typer.Option(help="warm pairs of runs after the cold one")] = 3,
) -> None:
    """Measures enrichment beside its floor."""
    with Broker(heap_mb=1024) as broker, tempfile.TemporaryDirectory(prefix="lakestreams-bench-") as folder:
        for topic in ("views", "profiles"):
            broker.create_topic(topic, partitions)
        began = time.perf_counter()
        broker.produce("profiles", profiles(users))
        broker.produce("views", views(count, users))
        console.print(f"loaded {count + users:,} records in {time.perf_counter() - began:.1f} s")
        began = time.perf_counter()
        spark = spark_session("lakestreams-bench", memory="4g")
        console.print(f"session in {time.perf_counter() - began:.1f} s")
        runs: dict[str, list[dict[str, Any]]] = {variant: [] for variant in VARIANTS}
        for number in range(repeats + 1):
            # the cold round begins with the join, since that is what a job does; warm rounds take turns
            for variant in VARIANTS if number % 2 == 0 else reversed(VARIANTS):
                one = measure(spark, broker.bootstrap_servers, Path(folder, "lake"), variant, batch=batch,
                              expected=count)  # fmt: skip
                runs[variant].append(one)
                word = "cold" if number == 0 else f"warm {number}"
                console.print(f"{variant} {word}: {one['seconds']:.1f} s")
        _report(runs, count + users)
        spark.stop()


def _report(runs: dict[str, list[dict[str, Any]]], records: int) -> None:
    table = Table(title=f"Enrichment, {records:,} records")
    for heading in ("run", "s", "records/s", "cycles", *STAGES, "rest"):
        table.add_column(heading, justify="left" if heading == "run" else "right")
    for variant in VARIANTS:
        for number, one in enumerate(runs[variant]):
            stages = [one["stages"].get(stage, 0.0) for stage in STAGES]
            shown = [f"{seconds:.1f}" for seconds in stages]
            name = f"{variant} {'cold' if number == 0 else 'warm'}"
            rest = max(0.0, one["seconds"] - sum(stages))
            table.add_row(name, f"{one['seconds']:.1f}", f"{records / one['seconds']:,.0f}", str(one["cycles"]), *shown,
                          f"{rest:.1f}")  # fmt: skip
    console.print(table)
    warm = {variant: [one["seconds"] for one in runs[variant][1:]] for variant in runs}
    if all(warm.values()):
        medians = {variant: statistics.median(warm[variant]) for variant in warm}
        told = ", ".join(
            f"{variant} {medians[variant]:.1f} s ({min(warm[variant]):.1f}-{max(warm[variant]):.1f})"
            for variant in VARIANTS
        )
        console.print(
            f"warm: {told}; {records / medians['join']:,.0f} records/s, {medians['join'] / medians['floor']:.2f} times the "
            f"floor; with rules {medians['join'] / medians['rules']:.1%} of the throughput without"
        )


if __name__ == "__main__":
    typer.run(main)
