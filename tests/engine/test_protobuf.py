"""Protobuf from a real broker and a real registry into Delta and back to a topic: two writers in one batch, broken records.
What is written and what comes out is judged by Google's own library."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.engine.harness import ZERO, fresh_topics
from tests.engine.test_avro import WithRegistry, assert_sound, consumed
from tests.formats.protobuf.judge import framed, judged, kind, written

from lakestreams import RegistryProtobuf, StreamsBuilder
from lakestreams.local.registry import LocalRegistry
from lakestreams.registry import Registry, RegistryOptions, Schema
from lakestreams.testing.small import small

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.local.broker import Broker

pytestmark = pytest.mark.broker

HEAD = 'syntax = "proto3"; package shop; import "google/protobuf/timestamp.proto"; '
ITEM = "message Item { string sku = 1; } "
KEY = 'syntax = "proto3"; package shop; message Key { string order = 1; }'
FIRST = HEAD + "message Order { int32 id = 1; google.protobuf.Timestamp at = 2; }"
LATER = (
    HEAD
    + ITEM
    + "message Order { int64 id = 1; repeated Item items = 3; uint64 big = 4; google.protobuf.Timestamp at = 2; string more = 9; }"
)
READ = (
    HEAD
    + ITEM
    + "message Order { int64 id = 1; google.protobuf.Timestamp at = 2; repeated Item items = 3; optional uint64 big = 4; }"
)
OUT = 'syntax = "proto3"; package shop; message Item { string sku = 1; } message Note { int64 id = 1; repeated Item items = 2; }'


@pytest.fixture(scope="module")
def registry() -> Iterator[LocalRegistry]:
    with LocalRegistry() as found:
        yield found


@pytest.fixture(autouse=True, scope="module")
def _small(spark: SparkSession) -> Iterator[None]:
    with small(spark):
        yield


@pytest.mark.soak  # test_confluent takes each format both ways, test_broken_records what is refused of each
def test_from_broker_and_registry_into_delta_and_back_to_a_topic(
    spark: SparkSession, broker: Broker, registry: LocalRegistry, tmp_path: Path
) -> None:
    topic, out = fresh_topics(broker, topics=("ProtobufOrders", "ProtobufNotes"))
    options = RegistryOptions(registry.url, {"max.retries": "0"})
    client = Registry(options)
    key, first, later = (client.register(f"{topic}-{name}", Schema(text, "PROTOBUF")) for name, text in (("key", KEY), ("value", FIRST), ("later", LATER)))  # fmt: skip

    builder = StreamsBuilder("protobuf_orders")
    orders = builder.stream(topic, key=RegistryProtobuf(KEY), value=RegistryProtobuf(READ, "Order"))
    orders.to_delta("silver.protobuf_orders")
    notes = orders.map_values(lambda row: {"id": row.id, "items": row["items"]})
    notes.to_kafka(out, key=RegistryProtobuf(KEY, register=True), value=RegistryProtobuf(OUT, "Note", register=True))
    bench = WithRegistry(spark, broker, tmp_path, builder.build())
    bench.registry = options

    at = kind(LATER, "google.protobuf.Timestamp")(seconds=1_709_294_400)
    items = [kind(LATER, "shop.Item")(sku=sku) for sku in ("a", "ä")]
    full = framed(b"\x02\x02" + written(LATER, "shop.Order", id=2, at=at, items=items, big=2**64 - 1, more="x"), later)
    broken = {
        "not framed": (b"\x08\x01", "no registry prefix (0x00 and four bytes) before the record"),
        "truncated": (framed(b"\x02\x02\x08\x02\x1a\x02", later), "items[]: 2 bytes, 0 left"),
        "unknown": (framed(b"\x00\x08\x01", 9999), "schema 9999: the registry has no Protobuf schema of this id"),
        "other": (
            framed(b"\x00", later),
            f"schema {later} cannot be read as declared: written as message shop.Item, declared message shop.Order",
        ),
        "no place": (
            framed(b"", later),
            "no place of a message behind the registry's prefix: the record ends within it",
        ),
    }
    records = [
        ("a", framed(b"\x00" + written(FIRST, "shop.Order", id=1), first), 0),
        *((name, raw, 1) for name, (raw, _) in broken.items()),
        ("b", full, 2),
    ]
    broker.produce(topic, [(framed(b"\x00" + written(KEY, "shop.Key", order=name), key), raw, ZERO + ms) for name, raw, ms in records])  # fmt: skip
    bench.run(max_bad_share=1.0)

    rows = bench.silver("silver.protobuf_orders").selectExpr("order", "id", "unix_millis(at) as ms", "items.sku", "big").collect()  # fmt: skip
    assert sorted((tuple(row) for row in rows), key=lambda row: row[0]) == [
        ("a", 1, None, [], None),
        ("b", 2, 1_709_294_400_000, ["a", "ä"], Decimal(2**64 - 1)),
    ]
    bad = bench.bronze(topic).where("error is not null").select("k.order", "error.*").collect()
    assert {row["order"]: (row["code"], row["message"]) for row in bad} == {
        name: ("MALFORMED_VALUE", message) for name, (_, message) in broken.items()
    }
    came = consumed(broker, out, 2)
    texts = {"key": KEY, "value": OUT}
    numbers = {side: client.id_of(f"{out}-{side}", Schema(text, "PROTOBUF")) or 0 for side, text in texts.items()}
    heads = {"key": framed(b"\x00", numbers["key"]), "value": framed(b"\x02\x02", numbers["value"])}
    assert {(own[:6], raw[:7]) for own, raw in came if own and raw} == {(heads["key"], heads["value"])}
    found = {
        judged(KEY, "shop.Key", own[6:])["order"]: judged(OUT, "shop.Note", raw[7:]) for own, raw in came if own and raw
    }
    assert found == {"a": {"id": 1, "items": []}, "b": {"id": 2, "items": [{"sku": "a"}, {"sku": "ä"}]}}
    assert_sound(bench)
