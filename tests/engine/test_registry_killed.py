"""A registry that dies at each question of a run: a coded error each time, nothing lost, and the next run goes on.

The registry is a real one. What dies is the way to it (`tests/registry/gate.py`), so that it can die at any question; that
of `test_avro.py` is really killed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.engine.harness import ZERO, facts, fresh_topics
from tests.engine.test_avro import WithRegistry, assert_sound, consumed
from tests.formats.avro.judge import framed, judged, written
from tests.registry.gate import Gate, gate

from lakestreams import RegistryAvro, StreamsBuilder, Text
from lakestreams.engine.ledger.ledger import Ledger
from lakestreams.engine.replay import deciding
from lakestreams.engine.replay import ingest as attempts
from lakestreams.errors import LakestreamsError, RegistryUnreachable
from lakestreams.local.registry import LocalRegistry
from lakestreams.registry import Registry, RegistryOptions, Schema
from lakestreams.testing.small import small

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.local.broker import Broker

pytestmark = pytest.mark.broker


def order(*more: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}, *more]}


ITEM = {"type": "record", "name": "Item", "fields": [{"name": "sku", "type": "string"}]}
ONE, TWO = order(), order({"name": "item", "type": ITEM})
REFERRING = json.dumps(order({"name": "item", "type": "Item"}))
READ = json.dumps(order({"name": "item", "type": ["null", ITEM], "default": None}))
OUT = json.dumps(order({"name": "region", "type": ["null", "string"]}))
STRING = json.dumps("string")


@pytest.fixture(scope="module")
def way() -> Iterator[Gate]:
    with LocalRegistry() as registry, gate(registry.url) as found:
        yield found


@pytest.fixture(autouse=True, scope="module")
def _small(spark: SparkSession) -> Iterator[None]:
    with small(spark):
        yield


class Story:
    """Orders behind a registry, customers without one, what they give in Delta and in a topic behind the registry."""

    def __init__(self, broker: Broker, way: Gate) -> None:
        self.broker, self.way = broker, way
        self.topic, self.customers = fresh_topics(broker, topics=("KilledOrders", "KilledCustomers"))
        (self.out, _) = fresh_topics(broker, topics=("KilledOut", "KilledUnused"))
        client = Registry(RegistryOptions(way.url))
        self.key = client.register(f"{self.topic}-key", Schema(STRING))
        self.one = client.register(f"{self.topic}-value", Schema(json.dumps(ONE)))
        self.item = f"{self.topic}-item"
        client.register(self.item, Schema(json.dumps(ITEM)))
        self.two = self._referring()
        self.unknown = 2_000_000_000

    def _referring(self) -> int:
        """The id of a schema that refers to another subject; our client registers none of these."""
        body = {"schema": REFERRING, "references": [{"name": "Item", "subject": self.item, "version": 1}]}
        found = Registry(RegistryOptions(self.way.url))._ask("POST", f"/subjects/{self.topic}-two/versions", body)
        assert found is not None
        return int(found["id"])

    def bench(self, spark: SparkSession, folder: Path) -> WithRegistry:
        builder = StreamsBuilder("killed")
        orders = builder.stream(self.topic, key=RegistryAvro(STRING, "customer"), value=RegistryAvro(READ))
        customers = builder.table(self.customers, key=Text("customer"), value=Text("region"))
        joined = orders.left_join(
            customers, lambda order, customer: {"id": order.id, "item": order.item, "region": customer.region}
        )
        joined.to_delta("silver.killed")
        joined.map_values(lambda row: {"id": row.id, "region": row.region}).to_kafka(
            self.out, key=RegistryAvro(STRING, "customer", register=True), value=RegistryAvro(OUT, register=True)
        )
        bench = WithRegistry(spark, self.broker, folder, builder.build())
        bench.registry = RegistryOptions(self.way.url, {"max.retries": "0"})
        return bench

    def produce(self) -> None:
        self.broker.produce(self.customers, [("ann", "EU", ZERO), ("bob", "US", ZERO + 1)])
        two = framed(written(TWO, {"id": 2, "item": {"sku": "a"}}), self.two)
        values = [
            ("ann", framed(written(ONE, {"id": 1}), self.one)),
            ("bob", two),
            ("cid", framed(b"\2", self.unknown)),
        ]
        named = [(framed(written("string", key), self.key), value) for key, value in values]
        self.broker.produce(self.topic, [(key, value, ZERO + 10 + n) for n, (key, value) in enumerate(named)])

    def deaths(self, *, is_every: bool) -> list[tuple[str, bool]]:
        """Every question of a run, in its order; twice where it matters whether the registry still got it. Or some."""
        subjects = []
        for side in ("key", "value"):
            subject = f"{self.out}-{side}"
            subjects += [
                (f"POST /subjects/{subject}$", False),
                (f"POST /compatibility/subjects/{subject}/", False),
                (f"POST /subjects/{subject}/versions$", False),
                (f"POST /subjects/{subject}/versions$", True),
            ]
        ids = [f"GET /schemas/ids/{number}$" for number in (self.key, self.one, self.two)]
        asked = [*ids, f"GET /subjects/{self.item}/versions/1$", f"GET /schemas/ids/{self.unknown}$"]
        every = [*subjects, *((one, False) for one in asked)]
        return every if is_every else [every[place] for place in (3, -2)]

    def dies(self, bench: WithRegistry, question: str, *, late: bool = False) -> None:
        """A run during which the registry dies at a question, and comes back behind it."""
        self.way.dies_at(question, late=late)
        with pytest.raises(RegistryUnreachable, match="LS308") as told:
            bench.run(max_bad_share=1.0)
        assert self.way.is_gone, f"{question} was not asked"
        assert "lakestreams local up --registry" in str(told.value)
        self.way.restart()


@pytest.mark.soak  # that a registry cannot be reached stops a run, and what is asked of it, is in tests/registry
@pytest.mark.parametrize("is_every", [False, True])
def test_a_registry_that_dies_at_each_question_of_a_run(
    spark: SparkSession, broker: Broker, way: Gate, tmp_path: Path, is_every: bool
) -> None:
    story = Story(broker, way)
    story.produce()
    bench = story.bench(spark, tmp_path / "killed")
    way.asked.clear()
    way.answered.clear()
    for question, late in story.deaths(is_every=is_every):
        story.dies(bench, question, late=late)
        written = (bench.lake.bronze("killed", story.topic), bench.lake.output("silver.killed"))
        assert sum(one.read(spark).count() for one in written if one.exists(spark)) == 0, question
    bench.run(max_bad_share=1.0)
    for number in (story.key, story.one, story.two):
        assert way.answered.count(f"GET /schemas/ids/{number}") <= 2, (
            "an id is asked for once more only if its references were lost"
        )
    found = by_order_of(bench)
    assert found == {"ann": (1, None, "EU"), "bob": (2, "a", "US")}
    came = [judged((raw or b"")[5:], json.loads(OUT)) for _, raw in consumed(broker, story.out, 2)]
    assert came == [{"id": 1, "region": "EU"}, {"id": 2, "region": "US"}]

    if is_every:
        plain = story.bench(spark, tmp_path / "plain")
        plain.run(max_bad_share=1.0)
        assert facts(bench) == facts(plain), "as if the registry had never died"

    ledger = Ledger(bench.lake, "killed")
    asked = deciding.request(spark, ledger, deciding.Selection())
    assert [one.records for one in asked] == [1]
    for _ in range(2 if is_every else 1):
        story.dies(bench, f"GET /schemas/ids/{story.unknown}$")
        assert bench.bronze(story.topic).where("attempt > 0").count() == 0
    bench.run(max_bad_share=1.0)
    assert bench.bronze(story.topic).where("attempt > 0").count() == 1

    way.kill()
    way.asked.clear()
    assert_sound(bench)
    assert way.asked == [], "verify asks no registry"
    chosen = deciding.chosen(spark, ledger, deciding.Selection())
    with pytest.raises(LakestreamsError, match="LS308"):
        attempts.outlook(spark, ledger, bench.topology, chosen, bench.registry)
    way.restart()


def by_order_of(bench: WithRegistry) -> dict[str, tuple[Any, ...]]:
    rows = bench.silver("silver.killed").select("customer", "id", "item.sku", "region").collect()
    return {row[0]: tuple(row)[1:] for row in rows}
