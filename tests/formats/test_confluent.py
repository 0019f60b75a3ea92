"""confluent-kafka's serializers write and lakestreams reads, and the other way round, over the library's registry in memory."""

from __future__ import annotations

import datetime as dt
import json
import random
from decimal import Decimal
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from tests.formats import confluent
from tests.formats.protobuf import judge
from tests.formats.protobuf.schemas import ALL
from tests.formats.protobuf.test_types import some
from tests.formats.test_headers import read

from lakestreams import JsonSchema, RegistryAvro, RegistryProtobuf
from lakestreams.formats.headers import named
from lakestreams.formats.writers import TEST_ID, RegistryFormat, Written, with_known_schemas
from lakestreams.testing.encode import encode

SIDES = ("key", "value")
NOON = dt.datetime(2024, 3, 1, 12, 0, 0, 123000, tzinfo=dt.UTC)
AVRO_SCHEMA = {
    "type": "record", "name": "Order", "namespace": "shop", "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "counts", "type": {"type": "map", "values": "double"}},
        {"name": "item", "type": ["null", {"type": "record", "name": "Item", "fields": [{"name": "sku", "type": "string"}]}]},
    ],
}  # fmt: skip
AVRO_ROWS = [
    {"id": 1, "note": None, "amount": Decimal("-0.25"), "at": NOON, "day": NOON.date(), "state": "NEW", "tags": [], "counts": {}, "item": None},
    {"id": -(2**40), "note": "Grüße", "amount": Decimal("99999999.99"), "at": NOON, "day": dt.date(1969, 1, 1), "state": "PAID",
     "tags": ["", "a"], "counts": {"a": 0.1}, "item": {"sku": "x"}},
]  # fmt: skip
JSON_SCHEMA = {
    "$schema": "http://json-schema.org/draft-07/schema#", "title": "Order", "type": "object", "required": ["id"],
    "properties": {
        "id": {"type": "integer"}, "note": {"oneOf": [{"type": "null"}, {"type": "string"}]}, "rate": {"type": "number"},
        "tags": {"type": "array", "items": {"type": "string"}}, "item": {"type": "object", "properties": {"sku": {"type": "string"}}},
    },
}  # fmt: skip
JSON_ROWS = [
    {"id": 1, "note": None},
    {"id": 2**40, "note": "Grüße", "rate": 0.1, "tags": ["", "a"], "item": {"sku": "x"}},
]
PROTOBUF_ROWS = [some(random.Random(seed)) for seed in range(30)]
CASES: dict[str, tuple[Any, str, str, list[Any]]] = {
    "AVRO": (RegistryAvro(json.dumps(AVRO_SCHEMA)), json.dumps(AVRO_SCHEMA), "", AVRO_ROWS),
    "JSON": (JsonSchema(json.dumps(JSON_SCHEMA)), json.dumps(JSON_SCHEMA), "", JSON_ROWS),
    "PROTOBUF": (RegistryProtobuf(ALL, "All"), ALL, "shop.All", PROTOBUF_ROWS),
}


@pytest.fixture
def client() -> SchemaRegistryClient:
    return SchemaRegistryClient.new_client({"url": "mock://"})


def written_by(client: SchemaRegistryClient, how: RegistryFormat, name: int | str) -> RegistryFormat:
    """The format with the schema that the registry has under an id or a GUID."""
    found = client.get_schema(name) if isinstance(name, int) else client.get_schema_by_guid(name)
    return with_known_schemas(how, {name: Written(found.schema_type or "AVRO", (found.schema_str,))}, strict=True)


def as_columns(kind: str, row: Any) -> Any:
    """A row as columns have it."""
    if kind == "PROTOBUF":
        return judge.row(judge.kind(ALL, "shop.All")(**row))
    return dict.fromkeys(JSON_SCHEMA["properties"]) | row if kind == "JSON" else row


@pytest.mark.parametrize("way", confluent.WAYS)
@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("kind", CASES)
def test_what_its_serializers_write_is_read(client: SchemaRegistryClient, kind: str, side: str, way: str) -> None:
    how, schema, message, rows = CASES[kind]
    produce = confluent.Producing(client, kind, schema, message, way)
    records = [produce("Orders", side, row) for row in rows]
    headers = [header for _, one in records for header in one]
    assert [name for name, _ in headers] == ([] if way == "prefix" else [f"__{side}_schema_id"] * len(rows))
    said = named(headers[0][1] if headers else records[0][0])
    assert said is not None
    assert isinstance(said.schema, str) == (way == "GUID in header")
    found = read(written_by(client, how, said.schema), records, side)
    assert [error for _, error in found] == [None] * len(rows)
    for (value, _), row in zip(found, rows, strict=True):
        assert judge.is_same(value, as_columns(kind, row))


@pytest.mark.parametrize("kind", CASES)
def test_what_is_written_its_deserializers_read(client: SchemaRegistryClient, kind: str) -> None:
    how, schema, message, rows = CASES[kind]
    raw, _ = confluent.Producing(client, kind, schema, message)("Orders", "value", rows[0])  # registers the schema
    assert int.from_bytes(raw[1:5], "big") == TEST_ID  # under which formats write in tests
    cls = judge.kind(ALL, message) if kind == "PROTOBUF" else None
    for row in rows:
        # JSON is written by Spark; `tests/engine/test_confluent.py` looks at that
        own = encode(row if kind != "PROTOBUF" else as_columns(kind, row), how)
        assert own is not None
        assert judge.is_same(
            confluent.consumed(client, kind, "Orders", "value", own, cls),
            row if kind != "PROTOBUF" else as_columns(kind, row),
        )
