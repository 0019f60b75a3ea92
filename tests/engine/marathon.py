"""A driver in a process of its own that runs round after round: `python -m tests.engine.marathon ROOT SERVERS WORK TOPICS...`.

A line to stdin is a round; a line of JSON on stdout says what it took: seconds of the clock, CPU seconds of this process and
its JVM, and seconds by stage. After the line `memory` it says what is in use once all garbage is collected: the JVM's heap and
this process, in bytes, and the files and connections that both have open. The session is the one of a job: its code is compiled as far as the JVM can.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from lakestreams import Json, StreamsBuilder, Text, Topology
from lakestreams.engine.driver import Driver
from lakestreams.engine.runtime.lake import Lake
from lakestreams.engine.runtime.settings import RunSettings
from lakestreams.local.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def lookups(views: str, users: str) -> Topology:
    """Views with their users' regions, appended: what is remembered are snapshots of a table source."""
    builder = StreamsBuilder("lookups")
    table = builder.table(users, key=Text("user"), value=Text("region"))
    builder.stream(views, key=Text("user"), value=Text("page")).left_join(table).to_delta("silver.lookups")
    return builder.build()


def tables(orders: str, customers: str) -> Topology:
    """Orders with their customers, merged: what is remembered is what a node keeps of two tables."""
    builder = StreamsBuilder("tables")
    left = builder.table(orders, key=Text("order_id"), value=Json("customer string, amount bigint"))
    right = builder.table(customers, key=Text("customer_id"), value=Text("name"))
    left.left_join(right, left_on=lambda order: order.customer).to_delta("silver.tables")
    return builder.build()


_COLLECTIONS, _SAME, _CLEANS_S = 10, 0.98, 3.0

WORKS: dict[str, Callable[[str, str], Topology]] = {"lookups": lookups, "tables": tables}


def main() -> None:
    root, servers, work, *topics = sys.argv[1:]
    spark = spark_session()
    kafka = {"kafka.bootstrap.servers": servers, "kafka.isolation.level": "read_committed"}
    driver = Driver(spark, WORKS[work](*topics), Lake(str(Path(root))), RunSettings(kafka=kafka))
    driver.start()
    stages = driver.summary.seconds
    for line in sys.stdin:
        if line == "memory\n":
            tell(memory(spark))
            continue
        before, cpu, began = dict(stages), cpu_seconds(), time.perf_counter()
        driver.round()
        spent = {stage: seconds - before.get(stage, 0.0) for stage, seconds in stages.items()}
        tell({"wall": time.perf_counter() - began, "cpu": cpu_seconds() - cpu, **spent})
    driver.end()


def tell(what: dict[str, float]) -> None:
    print(json.dumps(what), flush=True)  # noqa: T201  # read by the test


def cpu_seconds() -> float:
    """Of this process and its JVM; what these start for a moment counts once it has ended."""
    found, own = 0.0, psutil.Process()
    for one in (own, *own.children()):
        with suppress(psutil.NoSuchProcess):  # Hadoop starts a process to change a file's mode
            times = one.cpu_times()
            found += times.user + times.system + times.children_user + times.children_system
    return found


def memory(spark: SparkSession) -> dict[str, float]:
    """What is in use once a collection finds nothing more.

    Spark frees broadcasts behind a collection that has found that nobody holds them. One collection alone would show what the
    rounds since the last one have left, and more of it the more these were.
    """
    gc.collect()  # what Python holds of Spark's objects
    jvm = spark._jvm
    assert jvm is not None
    beans = jvm.java.lang.management.ManagementFactory.getMemoryMXBean()
    used: list[int] = []
    while len(used) < _COLLECTIONS and (len(used) < 2 or used[-1] < _SAME * used[-2]):
        if used:
            time.sleep(_CLEANS_S)
        jvm.java.lang.System.gc()
        used.append(beans.getHeapMemoryUsage().getUsed())
    own = psutil.Process()
    files = sum(one.num_fds() for one in (own, *own.children()))
    return {"heap": used[-1], "python": own.memory_info().rss, "files": files}


if __name__ == "__main__":
    main()
