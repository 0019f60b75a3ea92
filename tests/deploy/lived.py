"""A lake that several pipelines have lived in, and what their cycles took, read off its tables and not off the event log.

`order_payments`: two topics, a windowed join into a table and a topic; records of every fate, one of them repaired and
replayed; its last run fails by a rule. `shop`: a topic and two Delta tables, one read by its feed and one compared, joined
by key and by foreign key into an appended, a merged and a changes table. `idle`: taken over, and nothing has come.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.engine.harness import ZERO, Bench, claimed, fresh_topics

from lakestreams import Json, StreamsBuilder, Text, Topology, invariants
from lakestreams.engine.ledger.ledger import Ledger
from lakestreams.engine.replay import deciding
from lakestreams.engine.replay.deciding import Selection
from lakestreams.engine.replay.edits import Repair
from lakestreams.errors import ExpectationFailed

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

    from lakestreams.engine.runtime.lake import Lake
    from lakestreams.local.broker import Broker

PAID, CLICKED, LOCATED, CHANGES = "silver.order_payments", "silver.clicks", "silver.located", "silver.located_changes"
HOUR = 3_600_000
LATENESS_MS = (0, 1_000, 10_000, 60_000, 600_000, HOUR, 24 * HOUR)


def order_payments(orders: str, payments: str, sent: str) -> Topology:
    builder = StreamsBuilder("order_payments")
    left = builder.stream(orders, key=Text("order_id"), value=Json("customer string, amount int"), name="orders")
    left.expect("has_customer", "customer is not null").expect_or_drop("positive", "amount > 0")
    left.expect_or_fail("not_too_much", "amount < 1000")
    right = builder.stream(payments, key=Text("order_id"), value=Json("ref string"), name="payments")
    matched = left.left_join(right, within="5 minutes", name="matched")
    matched.to_delta(PAID)
    matched.to_kafka(sent)
    return builder.build()


def shop(clicks: str) -> Topology:
    builder = StreamsBuilder("shop")
    views = builder.stream(clicks, key=Text("id"), value=Json("page string"), name="clicks")
    customers = builder.table("customers", delta="shop.customers", key="id string", value="name string, region string")
    regions = builder.table(
        "regions", delta="shop.regions", changes="snapshot", key="region string", value="label string"
    )
    views.left_join(customers, lambda view, one: {"page": view.page, "name": one.name}, name="named").to_delta(CLICKED)
    located = customers.left_join(regions, left_on="region", name="located")
    located.holds(invariants.ForeignKeyExists())
    located.to_delta(LOCATED)
    located.to_delta(CHANGES, mode="changes")
    return builder.build()


@dataclass
class Lived:
    """The lake, and how many records of each topic there were at the end of each cycle's run.

    Attributes:
        benches: by pipeline.
        sent: the topic that is written.
        known: pipeline and topic to pairs of a run's last cycle and the records that were there.
    """

    spark: SparkSession
    root: Path
    benches: dict[str, Bench]
    sent: str
    known: dict[tuple[str, str], list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))

    @property
    def lake(self) -> Lake:
        return self.benches["shop"].lake

    def sql(self, statement: str) -> None:
        """Runs a statement; `{name}` is the table `shop.name`."""
        self.spark.sql(statement.replace("{", f"delta.`{self.root}/shop/").replace("}", "`"))

    def run(self, pipeline: str, **more: Any) -> None:
        bench = self.benches[pipeline]
        bench.run(max_bad_share=1.0, **more)
        done = Ledger(bench.lake, pipeline).history(self.spark).done_cycle
        for source in bench.topology.sources:
            there = bench.bronze(source.topic).where("attempt = 0").count()  # a run reads all
            self.known[pipeline, source.topic].append((done, there))

    def there(self, pipeline: str, topic: str, cycle: int) -> int:
        """How many records a topic had when a cycle was planned."""
        return next(count for last, count in self.known[pipeline, topic] if cycle <= last)


def lived(spark: SparkSession, broker: Broker, root: Path) -> Lived:
    """Lives it."""
    orders, payments = fresh_topics(broker, 2, ("orders", "payments"))
    clicks, sent = fresh_topics(broker, 1, ("clicks", "sent"))
    topologies = {"order_payments": order_payments(orders, payments, sent), "shop": shop(clicks)}
    own = Lived(spark, root, {name: Bench(spark, broker, root, one) for name, one in topologies.items()}, sent)
    _tables(own)
    own.run("shop")  # no click yet: the clock stands where the tables' content is dated
    _orders(broker, orders, payments)
    own.run("order_payments")
    own.sql("INSERT INTO {customers} VALUES ('c', 'Cid', 'as'), ('d', 'Dora', 'us')")
    own.sql("UPDATE {customers} SET name = 'Annie' WHERE id = 'a'")
    own.sql("DELETE FROM {regions} WHERE region = 'eu'")
    broker.produce(clicks, [(key, '{"page": "/"}', ZERO + n) for n, key in enumerate("abcdabcdabcd")])
    own.run("shop", max_offsets_per_trigger=3)  # what the tables have is of now, and waits until all clicks are read
    _repaired(own, "broken", '{"customer": "c", "amount": 7}')
    _repaired(own, "negative", '{"customer": "c", "amount": -7}')  # and refused once more
    broker.produce(payments, [("later", '{"ref": "r3"}', ZERO + 2 * HOUR, 0)])
    own.run("order_payments")
    broker.produce(orders, [("vast", '{"customer": "c", "amount": 5000}', ZERO + 3 * HOUR, 0)])
    with pytest.raises(ExpectationFailed, match="not_too_much"):
        own.benches["order_payments"].run()
    idle = Ledger(own.lake, "idle")
    claimed(spark, idle, "run")
    return own


def _tables(own: Lived) -> None:
    feed = "TBLPROPERTIES (delta.enableChangeDataFeed = {})"
    own.sql("CREATE TABLE {customers} (id string, name string, region string) USING delta")
    own.sql("CREATE TABLE {regions} (region string, label string) USING delta")
    own.sql("INSERT INTO {customers} VALUES ('a', 'Ann', 'eu'), ('b', 'Bob', 'xx'), (null, '?', '?')")
    own.sql("INSERT INTO {regions} VALUES ('eu', 'Europe'), ('us', 'America')")
    own.sql("ALTER TABLE {customers} SET " + feed.format("true"))  # so late that reading begins with the content


def _orders(broker: Broker, orders: str, payments: str) -> None:
    """One partition of each has records that are good, late, refused by a rule, broken or null; the other one few."""
    broker.produce(
        orders,
        [
            ("paid", '{"customer": "a", "amount": 1}', ZERO, 0),
            ("unpaid", '{"customer": null, "amount": 2}', ZERO + 500, 0),
            ("negative", '{"customer": "a", "amount": -1}', ZERO + 400, 0),
            ("broken", b"{", ZERO + 600, 0),
            ("nothing", None, ZERO + 700, 0),
            ("later", '{"customer": "b", "amount": 3}', ZERO + 2 * HOUR, 0),
            ("late", '{"customer": "b", "amount": 4}', ZERO + HOUR, 0),
            ("elsewhere", '{"customer": "b", "amount": 5}', ZERO, 1),
        ],
    )
    broker.produce(payments, [("paid", '{"ref": "r1"}', ZERO + 30_000, 0), ("elsewhere", '{"ref": "r2"}', ZERO, 1)])


def _repaired(own: Lived, key: str, value: str) -> None:
    bench = own.benches["order_payments"]
    rows = bench.quarantine().where(f"cast(key as string) = '{key}' and code <> 'NULL_VALUE'")
    ((topic, partition, offset),) = rows.select("topic", "partition", "offset").collect()
    repair = Repair(topic, partition, offset, None, {"value": value.encode()})
    deciding.request(own.spark, Ledger(bench.lake, "order_payments"), Selection(repairs=(repair,)))


# --- what its cycles took --------------------------------------------------------------------------------------------


@dataclass
class Taken:
    """What a pipeline's finished cycles took, by ledger and bronze.

    Attributes:
        finished: the last finished cycle.
        closes: cycle to what the ledger row that closes it says.
        clocks: cycle to the clocks of its plan.
        rows: bronze rows with `source` and `cycle`, of the finished cycles.
    """

    finished: int = 0
    closes: dict[int, dict[str, Any]] = field(default_factory=dict)
    clocks: dict[int, list[int]] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)

    def of(self, source: str, cycle: int | None = None) -> list[dict[str, Any]]:
        return [one for one in self.rows if one["source"] == source and cycle in (None, one["cycle"])]

    def readable(self, source: str) -> list[dict[str, Any]]:
        return [one for one in self.of(source) if one["error"] is None]


def taken(own: Lived, pipeline: str) -> Taken:
    """Reads it."""
    bench, found = own.benches[pipeline], Taken()
    rows = bench.ledger().where(f"pipeline = '{pipeline}' and kind in ('plan', 'done')").orderBy("cycle").collect()
    plans = [row for row in rows if row["kind"] == "plan"]
    for row in rows:
        closes = json.loads(row["details"] or "{}").get("closes")
        found.closes |= {closes["cycle"]: closes} if closes else {}
    found.finished = max(found.closes)
    found.clocks = {row["cycle"]: [one["clock_ms"] for one in row["clocks"]] for row in plans}
    for source in bench.topology.sources:
        for row in bench.bronze(source.topic).collect():
            cycle = _cycle_of(row, plans)
            if cycle is not None and cycle <= found.finished:
                found.rows.append({**row.asDict(recursive=True), "source": source.name, "cycle": cycle})
    return found


def _cycle_of(row: Row, plans: list[Row]) -> int | None:
    """The plan that takes a row: by its offset, or of an attempt by its batch."""
    partition, number = (-1, row["seq"]) if row["attempt"] else (row["partition"], row["offset"])
    return next(
        (plan["cycle"] for plan in plans for part in plan["ranges"]
         if (part["topic"], part["partition"]) == (row["topic"], partition)
         and part["from_offset"] <= number < part["to_offset"]),
        None,
    )  # fmt: skip


def lateness(found: Taken, source: str) -> Counter[int]:
    """Place among the bounds to readable records so far behind the furthest one before them in their partition."""
    counts: Counter[int] = Counter()
    furthest: dict[int, int] = {}
    first = (one for one in found.readable(source) if not one["attempt"])
    for row in sorted(first, key=lambda one: (one["partition"], one["offset"])):
        at, time = row["partition"], row["event_time_ms"]
        furthest[at] = max(furthest.get(at, time), time)
        behind = furthest[at] - time
        counts[next((place for place, most in enumerate(LATENESS_MS) if behind <= most), len(LATENESS_MS))] += 1
    return counts


def kinds(own: Lived, output: str) -> Iterator[tuple[int, Counter[str]]]:
    """Cycle and how many of an output's rows are of which kind."""
    rows = (
        own.lake.output(output).read(own.spark).selectExpr("_lineage.cycle as cycle", "_lineage.kind as kind").collect()
    )
    for cycle in sorted({row["cycle"] for row in rows}):
        yield cycle, Counter(row["kind"] for row in rows if row["cycle"] == cycle)
