"""Schemas that records name by GUID in headers, through a whole job: a real broker, and a registry that looks them up.

confluent-kafka's serializers write the records, as they do for Confluent's registry since 8.0 (`tests/registry/guids.py`).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from tests.engine.harness import fresh_topics
from tests.engine.test_avro import WithRegistry, assert_sound
from tests.engine.test_confluent import AVRO, JSON, KEYS, KINDS, ORDERS, PROTO, PROTO_KEY, Producers
from tests.formats import confluent
from tests.registry.guids import Guids, guids

from lakestreams import JsonSchema, RegistryAvro, RegistryProtobuf, StreamsBuilder
from lakestreams.engine.ledger.ledger import Ledger
from lakestreams.local.registry import LocalRegistry
from lakestreams.registry import RegistryOptions
from lakestreams.testing.small import small

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.local.broker import Broker

pytestmark = pytest.mark.broker

WAY = ("GUID in header", "prefix", "id in header")
LOST = UUID(int=42)
_AVRO, _JSON = json.loads(AVRO), json.loads(JSON)
# What a later version of each schema adds is not declared, and passed over.
NEWER = {
    "AVRO": json.dumps({**_AVRO, "fields": [{"name": "more", "type": "int", "default": 7}, *_AVRO["fields"]]}),
    "JSON": json.dumps({**_JSON, "properties": {"more": {"type": "integer"}, **_JSON["properties"]}}),
    "PROTOBUF": PROTO.replace("message Order {", "message Order { int32 more = 9;"),
}
MORE = {"AVRO": {"more": 1}, "JSON": {"more": 1}, "PROTOBUF": {"more": 1}}


@pytest.fixture(scope="module")
def registry() -> Iterator[Guids]:
    with LocalRegistry() as found, guids(found.url) as server:
        yield server


@pytest.fixture(autouse=True, scope="module")
def _small(spark: SparkSession) -> Iterator[None]:
    with small(spark):
        yield


def rows(bench: WithRegistry, kind: str) -> dict[str, dict[str, Any]]:
    found = bench.silver(f"silver.{kind.lower()}").selectExpr("k", "id", "note", "unix_millis(at) as at", "tags")
    return {row["k"]: row.asDict() for row in found.collect()}


def wanted(orders: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {key: {"k": key, **row, "at": round(row["at"].timestamp() * 1000)} for key, row in orders.items()}


@pytest.mark.soak  # test_schema_headers takes GUIDs into bronze and the ledger, formats/test_confluent reads each format by one
def test_schemas_named_by_guid_through_a_job(
    spark: SparkSession, broker: Broker, registry: Guids, tmp_path: Path
) -> None:
    client = confluent.Serializing({"url": registry.url})
    topics = {kind: fresh_topics(broker, topics=(f"Guid{kind}", f"Unused{kind}"))[0] for kind in KINDS}
    formats: dict[str, tuple[Any, Any]] = {
        "AVRO": (RegistryAvro('"string"', "k"), RegistryAvro(AVRO)),
        "JSON": (JsonSchema(KEYS), JsonSchema(JSON)),
        "PROTOBUF": (RegistryProtobuf(PROTO_KEY), RegistryProtobuf(PROTO, "Order")),
    }
    builder = StreamsBuilder("guids")
    for kind, (key, value) in formats.items():
        builder.stream(topics[kind], key=key, value=value).to_delta(f"silver.{kind.lower()}")
    bench = WithRegistry(spark, broker, tmp_path, builder.build())
    bench.registry = RegistryOptions(registry.url, {"max.retries": "0"})

    newest = {"d": {"id": 4, "note": "new", "at": ORDERS["a"]["at"], "tags": ["z"]}}
    made = {kind: Producers(client, kind, WAY) for kind in KINDS}
    for kind in KINDS:
        records = [made[kind](topics[kind], place, key, row) for place, (key, row) in enumerate(ORDERS.items())]
        newer = Producers(client, kind, WAY[:1], NEWER[kind])
        records.append(newer(topics[kind], 3, "d", newest["d"] | MORE[kind]))
        raw_key, raw, at, partition, headers = made[kind](topics[kind], 0, "lost", ORDERS["a"])
        other = [(name, b"\1" + LOST.bytes + one[17:] if "value" in name else one) for name, one in headers]
        records.append((raw_key, raw, at, partition, other))
        broker.produce(topics[kind], records)
    registry.asked.clear()
    bench.run(max_bad_share=1.0)

    words = {"AVRO": "Avro", "JSON": "JSON", "PROTOBUF": "Protobuf"}
    for kind in KINDS:
        assert rows(bench, kind) == wanted(ORDERS | newest), kind
        bad = bench.bronze(topics[kind]).where("error is not null").select("k.k", "error.*").collect()
        assert [(row["k"], row["code"], row["message"]) for row in bad] == [
            ("lost", "MALFORMED_VALUE", f"schema {LOST}: the registry has no {words[kind]} schema of this GUID")
        ]
    asked = Counter(one.partition("guids/")[2] for one in registry.asked if "/schemas/guids/" in one)
    known = {one for one in Ledger(bench.lake, "guids").schemas(spark) if isinstance(one, str)}
    assert known <= registry.ids.keys()
    assert len(known) == 3 * len(KINDS)  # a key's and two values'
    assert {guid: asked[guid] for guid in known} == dict.fromkeys(known, 1), "each is asked for once"

    registry.kill()  # what is known is read, and what was lost is refused, without the registry
    later = {"e": {"id": 5, "note": None, "at": ORDERS["a"]["at"], "tags": []}}
    for kind in KINDS:
        broker.produce(topics[kind], [made[kind](topics[kind], 0, "e", later["e"])])
    bench.run(max_bad_share=1.0)
    for kind in KINDS:
        assert rows(bench, kind) == wanted(ORDERS | newest | later), kind
    registry.restart()
    assert_sound(bench)
