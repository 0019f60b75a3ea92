"""Avro from a real broker and a real registry into Delta and back to a topic: several writers in one batch, broken records,
a registry that is gone. What is written and what comes out is judged by fastavro."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer
from pyspark.sql import functions as F  # noqa: N812
from tests.engine.harness import ZERO, Bench, assert_ledger_sound, fresh_topics
from tests.formats.avro.judge import framed, judged, written

from lakestreams import RegistryAvro, StreamsBuilder
from lakestreams.engine.ledger.ledger import Ledger
from lakestreams.engine.replay import deciding
from lakestreams.errors import LakestreamsError
from lakestreams.registry import Registry, RegistryOptions, Schema
from lakestreams.testing.small import small
from lakestreams.verify.verify import verify

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.api.streams import KStream
    from lakestreams.engine.runtime.settings import RunSettings
    from lakestreams.local.broker import Broker
    from lakestreams.local.registry import LocalRegistry

pytestmark = pytest.mark.broker

UTC = dt.timezone.utc  # noqa: UP017 - `dt.UTC` reads worse beside datetime
MONEY = {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}
TIME = {"type": "long", "logicalType": "timestamp-millis"}


def order(*more: dict[str, Any], **of: Any) -> dict[str, Any]:
    fields = [{"name": "id", "type": "int"}, {"name": "amount", "type": MONEY}, {"name": "at", "type": TIME}, *more]
    return {"type": "record", "name": "Order", "namespace": "shop", "fields": fields, **of}


STATE = {"type": "enum", "name": "State", "symbols": ["OPEN", "PAID", "LOST"], "default": "OPEN"}
ITEM = {"type": "record", "name": "Item", "fields": [{"name": "sku", "type": "string"}, {"name": "n", "type": "long"}]}
ONE = order()
TWO = order({"name": "state", "type": {**STATE, "symbols": ["NEW", "PAID"], "default": "NEW"}},
            {"name": "items", "type": {"type": "array", "items": ITEM}})  # fmt: skip
READ = order(
    {"name": "state", "type": ["null", STATE], "default": None},
    {"name": "items", "type": {"type": "array", "items": ITEM}, "default": []},
)
READ["fields"][0]["type"] = "long"
OTHER = {"type": "record", "name": "Other", "fields": [{"name": "id", "type": "int"}]}


@pytest.fixture(scope="module")
def registry() -> Iterator[LocalRegistry]:
    from lakestreams.local.registry import LocalRegistry

    with LocalRegistry() as found:
        yield found


@pytest.fixture(autouse=True, scope="module")
def _small(spark: SparkSession) -> Iterator[None]:
    with small(spark):
        yield


class WithRegistry(Bench):
    """A bench whose runs know the registry."""

    registry: RegistryOptions

    def settings(self, **more: Any) -> RunSettings:
        return super().settings(registry=self.registry, **more)


def values(number: int) -> dict[str, Any]:
    return {"id": number, "amount": Decimal(number) / 4, "at": dt.datetime(2024, 3, 1, tzinfo=UTC)}


def consumed(broker: Broker, topic: str, count: int) -> list[tuple[bytes | None, bytes | None]]:
    settings = {"group.id": "judge", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer(broker.client_config(**settings))
    consumer.subscribe([topic])
    found: list[tuple[bytes | None, bytes | None]] = []
    while len(found) < count:
        message = consumer.poll(60)
        assert message is not None
        assert message.error() is None
        found.append((message.key(), message.value()))
    consumer.close()
    return found


FULL = {**values(2), "state": "PAID", "items": [{"sku": "a", "n": 1}, {"sku": "ä", "n": 2**40}]}
NEW = {**values(3), "state": "NEW", "items": []}
TEXTS = [json.dumps("string"), *map(json.dumps, (ONE, TWO, OTHER))]


class Shop:
    """A topic of orders by several writers, and schemas of theirs in the registry."""

    def __init__(self, broker: Broker, registry: LocalRegistry) -> None:
        self.broker = broker
        self.topic, self.out = fresh_topics(broker, topics=("AvroOrders", "AvroPaid"))
        self.options = RegistryOptions(registry.url, {"max.retries": "0"})
        self.client = Registry(self.options)
        self.key_id, self.one, self.two, self.other = self.register()

    def register(self) -> list[int]:
        subjects = [f"{self.topic}-key", f"{self.topic}-value", f"{self.topic}-value", "other"]
        return [self.client.register(at, Schema(text)) for at, text in zip(subjects, TEXTS, strict=True)]

    def orders(self, builder: StreamsBuilder) -> KStream:
        return builder.stream(
            self.topic, key=RegistryAvro('"string"', "order_id"), value=RegistryAvro(json.dumps(READ))
        )

    def bench(self, spark: SparkSession, folder: Path, builder: StreamsBuilder) -> WithRegistry:
        bench = WithRegistry(spark, self.broker, folder, builder.build())
        bench.registry = self.options
        return bench

    def broken(self) -> dict[str, tuple[bytes, str]]:
        """Key to bytes that are no order, and what is wrong with them."""
        good, unlike = framed(written(TWO, FULL), self.two), "value: written as record Other, declared record Order"
        return {
            "not framed": (b'{"id": 1}', "no registry prefix (0x00 and four bytes) before the record"),
            "truncated": (good[:-3], "items[].n: the record ends within it"),
            "unknown": (framed(b"\x02", 9999), "schema 9999: the registry has no Avro schema of this id"),
            "other": (
                framed(written(OTHER, {"id": 1}), self.other),
                f"schema {self.other} cannot be read as declared: {unlike}",
            ),
            "more": (good + b"!", "1 bytes behind the record"),
        }

    def produce(self, *records: tuple[str, bytes, int]) -> None:
        """Records: key, value, and how long after `ZERO` in ms."""
        named = [(framed(written("string", key), self.key_id), raw, ZERO + ms) for key, raw, ms in records]
        self.broker.produce(self.topic, named)

    def old(self, number: int) -> bytes:
        """An order by the first writer."""
        return framed(written(ONE, values(number)), self.one)

    def produce_first(self) -> None:
        """Orders by both writers, with broken ones between them."""
        self.produce(
            ("a", self.old(1), 0),
            *((name, raw, 1) for name, (raw, _) in self.broken().items()),
            ("b", framed(written(TWO, FULL), self.two), 2),
            ("c", framed(written(TWO, NEW), self.two), 3),
        )


def by_order(bench: Bench, table: str) -> dict[str, dict[str, Any]]:
    rows = bench.silver(table).drop("_lineage").collect()
    return {row["order_id"]: row.asDict(recursive=True) for row in rows}


def assert_sound(bench: Bench) -> None:
    checked = verify(bench.spark, bench.lake, bench.topology)
    assert {one.what: one.examples for one in checked.findings if one.differs} == {}
    assert_ledger_sound(bench)


@pytest.mark.soak  # test_confluent takes each format both ways, test_registry_killed two writers, test_broken_records what is refused
def test_from_broker_and_registry_into_delta_and_back_to_a_topic(
    spark: SparkSession, broker: Broker, registry: LocalRegistry, tmp_path: Path
) -> None:
    shop, builder = Shop(broker, registry), StreamsBuilder("avro_orders")
    orders = shop.orders(builder)
    orders.to_delta("silver.avro_orders")
    orders.filter(lambda row: row.id > 1).to_kafka(
        shop.out,
        key=RegistryAvro('"string"', "order_id", register=True),
        value=RegistryAvro(json.dumps(READ), register=True),
    )
    bench = shop.bench(spark, tmp_path, builder)
    shop.produce_first()
    bench.run(max_bad_share=1.0)

    found = by_order(bench, "silver.avro_orders")
    assert sorted(found) == ["a", "b", "c"]
    told = [found["a"][name] for name in ("id", "amount", "state", "items")]
    assert told == [1, Decimal("0.25"), None, []]  # the first writer has neither state nor items
    assert {name: found["b"][name] for name in ("id", "state", "items")} == {
        name: FULL[name] for name in ("id", "state", "items")
    }
    assert found["c"]["state"] == "OPEN"  # a symbol that the reader does not know: its default
    times = bench.silver("silver.avro_orders").select(F.unix_millis("at")).distinct().collect()
    assert [row[0] for row in times] == [1_709_251_200_000]

    bad = bench.bronze(shop.topic).where("error is not null").select("k.order_id", "error.*").collect()
    assert {row["order_id"]: (row["code"], row["message"]) for row in bad} == {
        name: ("MALFORMED_VALUE", message) for name, (_, message) in shop.broken().items()
    }

    ids = [
        shop.client.id_of(f"{shop.out}-{side}", Schema(text))
        for side, text in (("key", '"string"'), ("value", json.dumps(READ)))
    ]
    came = consumed(broker, shop.out, 2)
    assert {(key[:5], raw[:5]) for key, raw in came if key and raw} == {tuple(framed(b"", one or 0) for one in ids)}
    assert [judged(raw[5:], READ)["id"] for _, raw in came if raw] == [2, 3]
    assert [judged(raw[5:], "string") for raw, _ in came if raw] == ["b", "c"]
    assert_sound(bench)


@pytest.mark.soak
def test_with_the_registry_gone_what_is_known_goes_on_and_nothing_is_ingested_half(
    spark: SparkSession, broker: Broker, registry: LocalRegistry, tmp_path: Path
) -> None:
    shop, builder = Shop(broker, registry), StreamsBuilder("avro_known")
    shop.orders(builder).to_delta("silver.avro_known")
    known = shop.bench(spark, tmp_path, builder)
    other = StreamsBuilder("avro_written")
    shop.orders(other).to_kafka(shop.out, value=RegistryAvro(json.dumps(READ), register=True))
    writing = shop.bench(spark, tmp_path, other)
    shop.produce_first()

    registry.stop()
    for bench in (known, writing):  # one knows no schema yet; of the other the output's subject is looked at first
        with pytest.raises(LakestreamsError, match="LS308"):
            bench.run(max_bad_share=1.0)
    assert known.bronze(shop.topic).count() == 0

    registry.start()
    assert shop.register() == [shop.key_id, shop.one, shop.two, shop.other]
    known.run(max_bad_share=1.0)
    assert sorted(by_order(known, "silver.avro_known")) == ["a", "b", "c"]
    registry.stop()
    shop.produce(("d", shop.old(4), 10))
    known.run(max_bad_share=1.0)  # no output asks, and every schema is known
    assert sorted(by_order(known, "silver.avro_known")) == ["a", "b", "c", "d"]

    asked = deciding.request(spark, Ledger(known.lake, "avro_known"), deciding.Selection())
    assert sum(one.records for one in asked) == len(shop.broken())
    with pytest.raises(LakestreamsError, match="LS308"):  # one of them names a schema that nobody knew
        known.run(max_bad_share=1.0)
    registry.start()
    known.run(max_bad_share=1.0)
    assert known.bronze(shop.topic).where("attempt > 0").count() == len(shop.broken())
    assert_sound(known)
