"""JSON Schema from a real broker and a real registry into Delta and back to a topic."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
from tests.engine.harness import ZERO, fresh_topics
from tests.engine.test_avro import WithRegistry, assert_sound, consumed
from tests.formats.avro.judge import framed

from lakestreams import JsonSchema, StreamsBuilder
from lakestreams.local.registry import LocalRegistry
from lakestreams.registry import Registry, RegistryOptions, Schema
from lakestreams.testing.small import small

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.local.broker import Broker

pytestmark = pytest.mark.broker

KEY = {"type": "object", "properties": {"order": {"type": "string"}}, "required": ["order"]}
NOTE = {"oneOf": [{"type": "null"}, {"type": "string"}]}
ORDER = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Order",
    "type": "object",
    "additionalProperties": False,
    "properties": {"id": {"type": "integer"}, "at": {"type": "string", "format": "date-time"}},
    "required": ["id"],
}
LATER = {**ORDER, "properties": {**ORDER["properties"], "note": NOTE, "more": {"type": "number"}}}
OUT = {"type": "object", "properties": {"id": {"type": "integer"}, "note": {"type": "string"}}, "required": ["id"]}
AVRO = '"string"'


@pytest.fixture(scope="module")
def registry() -> Iterator[LocalRegistry]:
    with LocalRegistry() as found:
        yield found


@pytest.fixture(autouse=True, scope="module")
def _small(spark: SparkSession) -> Iterator[None]:
    with small(spark):
        yield


def record(value: dict[str, Any], number: int) -> bytes:
    return framed(json.dumps(value).encode(), number)


@pytest.mark.soak  # test_confluent takes each format both ways, test_broken_records what is refused of each
def test_from_broker_and_registry_into_delta_and_back_to_a_topic(
    spark: SparkSession, broker: Broker, registry: LocalRegistry, tmp_path: Path
) -> None:
    topic, out = fresh_topics(broker, topics=("JsonOrders", "JsonNotes"))
    options = RegistryOptions(registry.url, {"max.retries": "0"})
    client = Registry(options)
    key, one = (client.register(f"{topic}-{side}", Schema(json.dumps(text), "JSON")) for side, text in (("key", KEY), ("value", ORDER)))  # fmt: skip
    later, avro = client.register(f"{topic}-later", Schema(json.dumps(LATER), "JSON")), client.register(f"{topic}-avro", Schema(AVRO))  # fmt: skip

    builder = StreamsBuilder("json_orders")
    orders = builder.stream(topic, key=JsonSchema(json.dumps(KEY)), value=JsonSchema("id bigint not null, at timestamp, note string"))  # fmt: skip
    orders.to_delta("silver.json_orders")
    written = orders.map_values(lambda row: {"id": row.id, "note": row.note})
    written.to_kafka(out, key=JsonSchema("order string not null", register=True), value=JsonSchema(json.dumps(OUT), register=True))  # fmt: skip
    bench = WithRegistry(spark, broker, tmp_path, builder.build())
    bench.registry = options

    good = record({"id": 2, "at": "2024-03-01T12:00:00Z", "note": "ä", "more": 0.5}, later)
    broken = {
        "not framed": (b'{"id": 1}', "no registry prefix (0x00 and four bytes) before the record"),
        "truncated": (good[:-3], "does not fit id bigint not null, at timestamp, note string"),
        "unknown": (framed(b'{"id": 1}', 9999), "schema 9999: the registry has no JSON schema of this id"),
        "of avro": (framed(b"\x02a", avro), f"schema {avro}: the registry has no JSON schema of this id"),
        "no id": (record({"note": "a"}, later), "id: null or missing, but declared not null"),
    }
    records = [("a", record({"id": 1}, one), 0), *((name, raw, 1) for name, (raw, _) in broken.items()), ("b", good, 2)]
    broker.produce(topic, [(record({"order": name}, key), raw, ZERO + ms) for name, raw, ms in records])
    bench.run(max_bad_share=1.0)

    rows = bench.silver("silver.json_orders").selectExpr("order", "id", "unix_millis(at) as ms", "note").collect()
    assert {tuple(row) for row in rows} == {("a", 1, None, None), ("b", 2, 1_709_294_400_000, "ä")}
    bad = bench.bronze(topic).where("error is not null").select("k.order", "error.*").collect()
    assert {row["order"]: (row["code"], row["message"]) for row in bad} == {
        name: ("MALFORMED_VALUE", message) for name, (_, message) in broken.items()
    }
    came = consumed(broker, out, 2)
    found = {raw_key[5:]: json.loads(raw[5:]) for raw_key, raw in came if raw_key and raw}
    assert found == {b'{"order":"a"}': {"id": 1}, b'{"order":"b"}': {"id": 2, "note": "ä"}}
    for side, how in (("key", JsonSchema("order string not null")), ("value", JsonSchema(json.dumps(OUT)))):
        text = how.registered.texts[-1]
        number = client.id_of(f"{out}-{side}", Schema(text, "JSON"))
        raws = [pair[side == "value"] for pair in came]
        assert {raw[:5] for raw in raws if raw} == {framed(b"", number or 0)}
        for raw in raws:
            jsonschema.validate(json.loads((raw or b"")[5:]), json.loads(text))
    assert_sound(bench)
