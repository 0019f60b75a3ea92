"""Rounds of a few records beside much that is remembered. `python -m bench.rounds --help`.

A windowed left join whose window holds everything; a foreign key whose left table has it all, merged into its output; views that
wait for their user's row, next to a table of all users; views as of their time, next to a history of all users. With another
checkout's `src` before this one's on PYTHONPATH the same is measured of that one.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

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

OUTPUT = "silver.rows"
HELD_MS, WINDOW = 9 * MINUTE, "30 minutes"  # the window holds everything
PRODUCTS = 1_000


class Window:
    """Orders with their payments; half of the new payments are of orders that the window holds."""

    topics = "orders", "payments"
    columns = "order_id, amount, method"

    def topology(self) -> Topology:
        builder = StreamsBuilder("bench_rounds")
        left = builder.stream("orders", key=Text("order_id"), value=Json("amount bigint"))
        right = builder.stream("payments", key=Text("order_id"), value=Json("method string"))
        joined = left.left_join(
            right, lambda order, paid: {"amount": order.amount, "method": paid.method}, within=WINDOW, grace="0 minutes"
        )
        joined.to_delta(OUTPUT)
        return builder.build()

    def load(self, broker: Broker, held: int) -> None:
        broker.produce("orders", records(0, held // 2, {"amount": 5}, START_MS, HELD_MS))
        broker.produce("payments", records(held // 4, held // 2, {"method": "card"}, START_MS, HELD_MS))

    def more(self, broker: Broker, held: int, new: int, number: int) -> None:
        at, half = START_MS + HELD_MS + number * 1_000, new // 2
        broker.produce("orders", records(held + number * half, half, {"amount": 7}, at, 1_000))
        broker.produce("payments", records(number * half, half // 2, {"method": "cash"}, at, 1_000))
        broker.produce("payments", records(held + number * half, half // 2, {"method": "new"}, at + 1, 1_000))


class ForeignKey:
    """Orders with the product that they name; each round changes half as many old orders as it brings, and a product."""

    topics = "orders", "products"
    columns = "order_id, product, amount, title"

    def topology(self) -> Topology:
        builder = StreamsBuilder("bench_rounds")
        left = builder.table("orders", key=Text("order_id"), value=Json("product string, amount bigint"))
        right = builder.table("products", key=Text("product_id"), value=Json("title string"))
        joined = left.left_join(
            right,
            lambda order, product: {"product": order.product, "amount": order.amount, "title": product.title},
            left_on=lambda order: order.product,
        )
        joined.to_delta(OUTPUT, mode="merge")
        return builder.build()

    def load(self, broker: Broker, held: int) -> None:
        products = ((f"p{number}", json.dumps({"title": "first"}), START_MS) for number in range(held // PRODUCTS))
        broker.produce("products", products)
        broker.produce("orders", self._orders(0, held, held, START_MS, HELD_MS))

    def more(self, broker: Broker, held: int, new: int, number: int) -> None:
        at, third = START_MS + HELD_MS + number * 1_000, new // 3
        broker.produce("orders", self._orders(held + number * third * 2, third * 2, held, at, 1_000))
        broker.produce("orders", self._orders(number * third, third, held, at, 1_000))
        broker.produce("products", [(f"p{number}", json.dumps({"title": f"of round {number}"}), at)])

    @staticmethod
    def _orders(first: int, count: int, held: int, at: int, over_ms: int) -> Iterator[tuple[str, str, int]]:
        for key, _, ms in records(first, count, {}, at, over_ms):
            number = int(key.removeprefix("order"))
            yield key, json.dumps({"product": f"p{number % (held // PRODUCTS)}", "amount": ms - START_MS}), ms


class Waiting:
    """Views of users: half of the users are known, a quarter come after their view, and a quarter never."""

    topics = "users", "views"
    columns = "user, page, region"

    def topology(self) -> Topology:
        builder = StreamsBuilder("bench_rounds")
        views = builder.stream("views", key=Text("user"), value=Json("page string"))
        users = builder.table("users", key=Text("user"), value=Json("region string"))
        views.left_join(users, wait="3 seconds").to_delta(OUTPUT)
        return builder.build()

    def load(self, broker: Broker, held: int) -> None:
        broker.produce("users", records(0, held, {"region": "EU"}, START_MS, HELD_MS))

    def more(self, broker: Broker, held: int, new: int, number: int) -> None:
        at, some = START_MS + HELD_MS + number * 1_000, new // 5
        broker.produce("views", records(number * some * 2, some * 2, {"page": "/"}, at, 1_000))
        broker.produce("views", records(held + number * some * 2, some * 2, {"page": "/new"}, at, 1_000))
        broker.produce("users", records(held + number * some * 2, some, {"region": "US"}, at + 1_500, 1_000))


class AsOf:
    """Views of users as of their time, and changes of other users; the history holds everything."""

    topics = "users", "views"
    columns = "user, page, region"

    def topology(self) -> Topology:
        builder = StreamsBuilder("bench_rounds")
        views = builder.stream("views", key=Text("user"), value=Json("page string"))
        users = builder.table("users", key=Text("user"), value=Json("region string"), as_of=True, history="1 hour")
        views.left_join(users).to_delta(OUTPUT)
        return builder.build()

    def load(self, broker: Broker, held: int) -> None:
        for first in (0, held // 2):  # two versions of each
            at, over_ms = START_MS + first, HELD_MS // 2
            broker.produce("users", records(0, held // 2, {"region": f"EU{first}"}, at, over_ms))

    def more(self, broker: Broker, held: int, new: int, number: int) -> None:
        at, some = START_MS + HELD_MS + number * 1_000, new // 5
        broker.produce("views", records(number * some * 4, some * 4, {"page": "/"}, at, 1_000))
        broker.produce("users", records(held // 2 - (number + 1) * some, some, {"region": "US"}, at, 1_000))


def records(first: int, count: int, body: dict[str, object], at: int, over_ms: int) -> Iterator[tuple[str, str, int]]:
    """Records of so many keys from a number on, evenly over the time."""
    text = json.dumps(body)
    for place in range(count):
        yield f"order{first + place:09d}", text, at + place * over_ms // count


def main(
    shape: Annotated[Literal["window", "foreign-key", "waiting", "as-of"], typer.Argument()] = "window",
    held: Annotated[int, typer.Option(help="records that are remembered")] = 1_000_000,
    new: Annotated[int, typer.Option(help="records of a round")] = 1_000,
    count: Annotated[int, typer.Option("--rounds")] = 16,
    partitions: int = 4,
) -> None:
    """Measures rounds."""
    console.print(f"lakestreams of {Path(lakestreams.__file__).parents[2]}")
    work: Any = {"window": Window, "foreign-key": ForeignKey, "waiting": Waiting, "as-of": AsOf}[shape]()
    with Broker(heap_mb=1024) as broker, tempfile.TemporaryDirectory(prefix="lakestreams-bench-") as folder:
        for topic in work.topics:
            broker.create_topic(topic, partitions)
        work.load(broker, held)
        spark = spark_session("lakestreams-bench", memory="4g")
        settings = RunSettings(
            kafka={"kafka.bootstrap.servers": broker.bootstrap_servers, "kafka.isolation.level": "read_committed"}
        )
        running = Driver(spark, work.topology(), Lake(str(Path(folder, "lake"))), settings)
        running.start()
        running.round(0)
        found = rounds(running, count, lambda number: work.more(broker, held, new, number))
        show(f"{shape}: rounds of {new:,} records beside {held:,}", found)
        running.end()
        rows = Lake(str(Path(folder, "lake"))).output(OUTPUT).read(spark)
        hashed = rows.selectExpr(f"sum(cast(xxhash64({work.columns}) as decimal(38, 0)))")
        console.print(f"{rows.count():,} rows, hash {hashed.first()[0]}")  # type: ignore[index]
        spark.stop()


if __name__ == "__main__":
    typer.run(main)
