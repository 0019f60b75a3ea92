"""Rounds of a few records through a windowed left join beside many that its window holds. `python -m bench.window_rounds --help`.

With another checkout's `src` before this one's on PYTHONPATH the same is measured of that one.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

import lakestreams
from bench.data import MINUTE, START_MS
from bench.small import console, rounds, show
from lakestreams import Json, StreamsBuilder, Text, Topology
from lakestreams.engine.driver import Driver
from lakestreams.engine.runtime.lake import Lake
from lakestreams.engine.runtime.settings import RunSettings
from lakestreams.local.broker import Broker
from lakestreams.local.session import spark_session

OUTPUT = "silver.paid"
HELD_MS, WINDOW = 9 * MINUTE, "30 minutes"  # the window holds everything


def topology() -> Topology:
    """Orders with their payments."""
    builder = StreamsBuilder("bench_window_rounds")
    left = builder.stream("orders", key=Text("order_id"), value=Json("amount bigint"))
    right = builder.stream("payments", key=Text("order_id"), value=Json("method string"))
    joined = left.left_join(
        right, lambda order, paid: {"amount": order.amount, "method": paid.method}, within=WINDOW, grace="0 minutes"
    )
    joined.to_delta(OUTPUT)
    return builder.build()


def records(first: int, count: int, body: dict[str, object], at: int, over_ms: int) -> Iterator[tuple[str, str, int]]:
    """Records of so many keys from a number on, evenly over the time."""
    text = json.dumps(body)
    for place in range(count):
        yield f"order{first + place:09d}", text, at + place * over_ms // count


def main(
    held: Annotated[int, typer.Option(help="records that the window holds")] = 1_000_000,
    new: Annotated[int, typer.Option(help="records of a round")] = 1_000,
    count: Annotated[int, typer.Option("--rounds")] = 16,
    partitions: int = 4,
) -> None:
    """Measures rounds; half of their payments are of orders that the window holds."""
    console.print(f"lakestreams of {Path(lakestreams.__file__).parents[2]}")
    with Broker(heap_mb=1024) as broker, tempfile.TemporaryDirectory(prefix="lakestreams-bench-") as folder:
        for topic in ("orders", "payments"):
            broker.create_topic(topic, partitions)
        broker.produce("orders", records(0, held // 2, {"amount": 5}, START_MS, HELD_MS))
        broker.produce("payments", records(held // 4, held // 2, {"method": "card"}, START_MS, HELD_MS))
        spark = spark_session("lakestreams-bench", memory="4g")
        settings = RunSettings(
            kafka={"kafka.bootstrap.servers": broker.bootstrap_servers, "kafka.isolation.level": "read_committed"}
        )
        running = Driver(spark, topology(), Lake(str(Path(folder, "lake"))), settings)
        running.start()
        running.round(0)

        def produce(number: int) -> None:
            at, half = START_MS + HELD_MS + number * 1_000, new // 2
            broker.produce("orders", records(held + number * half, half, {"amount": 7}, at, 1_000))
            broker.produce("payments", records(number * half, half // 2, {"method": "cash"}, at, 1_000))
            broker.produce("payments", records(held + number * half, half // 2, {"method": "new"}, at + 1, 1_000))

        show(f"Rounds of {new:,} records beside {held:,}", rounds(running, count, produce))
        running.end()
        rows = Lake(str(Path(folder, "lake"))).output(OUTPUT).read(spark)
        console.print(
            f"{rows.count():,} rows, hash {rows.selectExpr('sum(cast(xxhash64(order_id, amount, method) as decimal(38, 0)))').first()[0]}"
        )  # type: ignore[index]
        spark.stop()


if __name__ == "__main__":
    typer.run(main)
