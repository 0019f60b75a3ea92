"""confluent-kafka's serializers write topics and its deserializers read them: a real broker, a real registry, one job each."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from pyspark.sql import functions as F  # noqa: N812
from tests.engine.harness import ZERO, fresh_topics
from tests.engine.test_avro import WithRegistry, assert_sound, consumed
from tests.formats import confluent
from tests.formats.avro.events import decimal, envelope, semantic
from tests.formats.protobuf import judge
from tests.formats.protobuf.schemas import ALL
from tests.formats.test_confluent import CASES, as_columns

from lakestreams import DebeziumAvro, JsonSchema, RegistryAvro, RegistryProtobuf, StreamsBuilder, Text
from lakestreams.local.registry import LocalRegistry
from lakestreams.registry import Registry, RegistryOptions
from lakestreams.testing.small import small

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.local.broker import Broker

pytestmark = pytest.mark.broker

NOON = dt.datetime(2024, 3, 1, 12, tzinfo=dt.UTC)
AVRO = json.dumps({"type": "record", "name": "Order", "namespace": "shop", "fields": [
    {"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"], "default": None},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}}, {"name": "tags", "type": {"type": "array", "items": "string"}},
]})  # fmt: skip
JSON = json.dumps({"$schema": "http://json-schema.org/draft-07/schema#", "title": "Order", "type": "object", "required": ["id", "at", "tags"], "properties": {
    "id": {"type": "integer"}, "note": {"type": "string"}, "at": {"type": "string", "format": "date-time"},
    "tags": {"type": "array", "items": {"type": "string"}},
}})  # fmt: skip
KEYS = json.dumps({"title": "Key", "type": "object", "properties": {"k": {"type": "string"}}, "required": ["k"]})
HEAD = 'syntax = "proto3"; package shop; '
PROTO = HEAD + 'import "google/protobuf/timestamp.proto"; message Other { int32 a = 1; } message Order { int64 id = 1; optional string note = 2; google.protobuf.Timestamp at = 3; repeated string tags = 4; }'  # fmt: skip
PROTO_KEY = HEAD + "message Key { string k = 1; }"
TAG = HEAD + "message Tag { string word = 1; }"
NOTE = HEAD + 'import "shop/tag.proto"; message Note { int64 id = 1; optional string note = 2; repeated Tag tags = 3; }'
KINDS = ("AVRO", "JSON", "PROTOBUF")
ORDERS = {
    "a": {"id": 1, "note": None, "at": NOON, "tags": []},
    "b": {"id": 2**40, "note": "Grüße", "at": NOON + dt.timedelta(milliseconds=5), "tags": ["x", ""]},
    "c": {"id": -3, "note": "", "at": NOON, "tags": ["y"]},
}


@pytest.fixture(scope="module")
def registry() -> Iterator[LocalRegistry]:
    with LocalRegistry() as found:
        yield found


@pytest.fixture(scope="module")
def client(registry: LocalRegistry) -> SchemaRegistryClient:
    return confluent.Serializing({"url": registry.url})


@pytest.fixture(autouse=True, scope="module")
def _small(spark: SparkSession) -> Iterator[None]:
    with small(spark):
        yield


def given(kind: str, row: dict[str, Any]) -> dict[str, Any]:
    """A row as the serializer of a kind takes it."""
    if kind == "AVRO":
        return row
    there = {name: one for name, one in row.items() if one is not None}
    if kind == "JSON":
        return there | {"at": row["at"].isoformat()}
    return there | {"at": {"seconds": int(row["at"].timestamp()), "nanos": row["at"].microsecond * 1000}}


def keyed(kind: str, key: str) -> Any:
    return key if kind == "AVRO" else {"k": key}


def note(row: Any) -> dict[str, Any]:
    """The columns of the message Note, whose Tag is imported."""
    tags = F.transform(row["tags"], lambda one: F.struct(one.alias("word")))
    return {"id": row.id, "note": row.note, "tags": tags}


class Producers:
    """Keys and values of one kind, one record in a prefix and the next one in headers.

    Args:
        client: of the registry.
        kind: of the schemas.
        ways: how the schemas are named, in turns.
        newer: another schema of the values.
    """

    def __init__(
        self,
        client: SchemaRegistryClient,
        kind: str,
        ways: tuple[str, ...] = ("prefix", "id in header"),
        newer: str | None = None,
    ) -> None:
        schemas = {"AVRO": ('"string"', AVRO), "JSON": (KEYS, JSON), "PROTOBUF": (PROTO_KEY, PROTO)}[kind]
        messages = ("shop.Key", "shop.Order")
        schemas = (schemas[0], newer or schemas[1])
        self._kind = kind
        self._made = [
            [
                confluent.Producing(client, kind, schema, message, way)
                for schema, message in zip(schemas, messages, strict=True)
            ]
            for way in ways
        ]

    def __call__(self, topic: str, place: int, key: str, row: dict[str, Any]) -> tuple[Any, ...]:
        own, value = self._made[place % len(self._made)]
        (raw_key, headers), (raw, more) = (
            own(topic, "key", keyed(self._kind, key)),
            value(topic, "value", given(self._kind, row)),
        )
        return raw_key, raw, ZERO + place, 0, [*headers, ("trace", b"1"), *more]


def test_its_serializers_write_and_its_deserializers_read_each_format(
    spark: SparkSession, broker: Broker, registry: LocalRegistry, client: SchemaRegistryClient, tmp_path: Path
) -> None:
    topics = {kind: fresh_topics(broker, topics=(f"Confluent{kind}", f"Written{kind}")) for kind in KINDS}
    formats: dict[str, tuple[Any, Any, Any]] = {
        "AVRO": (RegistryAvro('"string"', "k", register=True), RegistryAvro(AVRO), RegistryAvro(AVRO, register=True)),
        "JSON": (JsonSchema(KEYS, register=True), JsonSchema(JSON), JsonSchema(JSON, register=True)),
        "PROTOBUF": (
            RegistryProtobuf(PROTO_KEY, register=True),
            RegistryProtobuf(PROTO, "Order"),
            RegistryProtobuf(NOTE, imports=(("shop/tag.proto", TAG),), register=True),
        ),
    }
    builder = StreamsBuilder("confluent")
    for kind, (key, value, out) in formats.items():
        orders = builder.stream(topics[kind][0], key=key, value=value)
        orders.to_delta(f"silver.{kind.lower()}")
        if kind == "PROTOBUF":
            orders = orders.map_values(note)
        orders.to_kafka(topics[kind][1], key=key, value=out)
    bench = WithRegistry(spark, broker, tmp_path, builder.build())
    bench.registry = RegistryOptions(registry.url, {"max.retries": "0"})
    for kind in KINDS:
        produce = Producers(client, kind)
        records = [produce(topics[kind][0], place, key, row) for place, (key, row) in enumerate(ORDERS.items())]
        broker.produce(topics[kind][0], records)

    mock = SchemaRegistryClient.new_client({"url": "mock://"})
    raw, headers = confluent.Producing(mock, "AVRO", AVRO, way="GUID in header")("Orders", "value", ORDERS["a"])
    key, _ = confluent.Producing(client, "AVRO", '"string"')(topics["AVRO"][0], "key", "guid")
    broker.produce(topics["AVRO"][0], [(key, raw, ZERO + 9, 0, headers)])
    bench.run(max_bad_share=1.0)

    for kind in KINDS:
        rows = bench.silver(f"silver.{kind.lower()}").selectExpr("k", "id", "note", "unix_millis(at) as at", "tags")
        found = {row["k"]: row.asDict() for row in rows.collect()}
        wanted = {key: {"k": key, **row, "at": round(row["at"].timestamp() * 1000)} for key, row in ORDERS.items()}
        assert found == wanted, kind
        bad = bench.bronze(topics[kind][0]).where("error is not null").select("k.k", "error.*").collect()
        assert [row["k"] for row in bad] == (["guid"] if kind == "AVRO" else [])
        for row in bad:  # Apicurio does not look schemas up by GUID
            assert row["code"] == "MALFORMED_VALUE"
            assert "cannot be used: this registry does not look schemas up by GUID" in row["message"]

    assert_read(broker, client, topics["AVRO"][1], "AVRO", dict(ORDERS))
    assert_read(broker, client, topics["JSON"][1], "JSON", {key: as_text(row) for key, row in ORDERS.items()})
    notes = {key: {"id": row["id"], "note": row["note"], "tags": [{"word": one} for one in row["tags"]]} for key, row in ORDERS.items()}  # fmt: skip
    assert_read(broker, client, topics["PROTOBUF"][1], "PROTOBUF", notes)
    out = Registry(bench.registry).version(f"{topics['PROTOBUF'][1]}-value")
    assert out.schema.references == ("shop/tag.proto", TAG)
    assert_sound(bench)


def as_text(row: dict[str, Any]) -> dict[str, Any]:
    """A row as the deserializer of JSON gives it: nulls are left out, times are texts."""
    there = {name: one for name, one in row.items() if one is not None}
    return there | {"at": f"{row['at']:%Y-%m-%dT%H:%M:%S}.{row['at'].microsecond:06}Z"}


def assert_read(
    broker: Broker, client: SchemaRegistryClient, topic: str, kind: str, wanted: dict[str, dict[str, Any]]
) -> None:
    """The deserializers read a topic's keys and values as these."""
    texts = ("shop/tag.proto", TAG, NOTE)
    classes = (judge.kind(PROTO_KEY, "shop.Key"), judge.kind(texts, "shop.Note")) if kind == "PROTOBUF" else (None, None)  # fmt: skip
    found = {}
    for key, raw in consumed(broker, topic, len(wanted)):
        assert key is not None
        assert raw is not None
        own = confluent.consumed(client, kind, topic, "key", key, classes[0])
        found[own if kind == "AVRO" else own["k"]] = confluent.consumed(client, kind, topic, "value", raw, classes[1])
    assert found == wanted


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
def test_every_type_of_a_format_there_and_back(
    spark: SparkSession,
    broker: Broker,
    registry: LocalRegistry,
    client: SchemaRegistryClient,
    tmp_path: Path,
    kind: str,
) -> None:
    how, schema, message, rows = CASES[kind]
    topic, out = fresh_topics(broker, topics=(f"Every{kind}", f"Again{kind}"))
    builder = StreamsBuilder(f"every_{kind.lower()}")
    stream = builder.stream(topic, key=Text("the_key"), value=how)
    stream.to_delta("silver.every")
    stream.to_kafka(out, key=Text("the_key"), value=replaced(how, register=True))
    bench = WithRegistry(spark, broker, tmp_path, builder.build())
    bench.registry = RegistryOptions(registry.url, {"max.retries": "0"})
    produce = [confluent.Producing(client, kind, schema, message, way) for way in ("prefix", "id in header")]
    records = []
    for place, row in enumerate(rows):
        raw, headers = produce[place % 2](topic, "value", row)
        records.append((str(place), raw, ZERO + place, 0, headers))
    broker.produce(topic, records)
    bench.run(max_bad_share=1.0)

    assert bench.bronze(topic).where("error is not null").select("error.*").collect() == []
    found = bench.silver("silver.every").drop("_lineage").toArrow().to_pylist(maps_as_pydicts="strict")
    by_key = {int(row.pop("the_key")): row for row in found}
    assert sorted(by_key) == list(range(len(rows)))
    wanted = [as_columns(kind, row) for row in rows]
    for place, row in enumerate(wanted):
        assert judge.is_same({name: by_key[place][name] for name in row}, row)
    cls = judge.kind(ALL, message) if kind == "PROTOBUF" else None
    came = {int(key or b""): raw for key, raw in consumed(broker, out, len(rows))}
    for place, row in enumerate(wanted):
        own = confluent.consumed(client, kind, out, "value", came[place] or b"", cls)
        assert judge.is_same(as_columns(kind, own) if kind == "JSON" else own, row)
    assert_sound(bench)


def replaced(how: Any, **more: Any) -> Any:
    """The format with other options."""
    given = {"imports": how.imports, "message": how.message} if isinstance(how, RegistryProtobuf) else {}
    return type(how)(how.schema, **given, **more)


TABLE = envelope(
    ("name", ["null", "string"]),
    ("credit", ["null", decimal(2, 10)]),
    ("born", ["null", semantic("int", "io.debezium.time.Date")]),
    ("seen", ["null", semantic("long", "io.debezium.time.MicroTimestamp")]),
    ("at", ["null", semantic("string", "io.debezium.time.ZonedTimestamp")]),
)


def change(op: str, after: Any, before: Any = None) -> dict[str, Any]:
    source = {"version": "3", "connector": "postgresql", "ts_ms": 1, "snapshot": "false", "lsn": None}
    return {"before": before, "after": after, "source": source, "transaction": None, "op": op, "ts_ms": 1}


@pytest.mark.soak  # test_broken_records takes such events into a table, formats/avro/test_debezium reads each kind of them
def test_change_events_in_avro_are_a_table(
    spark: SparkSession, broker: Broker, registry: LocalRegistry, client: SchemaRegistryClient, tmp_path: Path
) -> None:
    orders, customers = fresh_topics(broker, topics=("DebeziumOrders", "DebeziumCustomers"))
    key = confluent.Producing(client, "AVRO", json.dumps({"type": "record", "name": "Key", "fields": [{"name": "id", "type": "int"}]}))  # fmt: skip
    value = confluent.Producing(client, "AVRO", json.dumps(TABLE))
    ada = {"name": "Ada", "credit": Decimal("100.00"), "born": -1, "seen": 1_709_294_400_000_005, "at": "2024-03-01T12:00:00Z"}  # fmt: skip
    bob = {"name": "Bob", "credit": None, "born": None, "seen": None, "at": None}
    king = {**ada, "name": "Ada King", "credit": Decimal("-0.25")}
    events = [(1, change("r", ada), 0), (2, change("c", bob), 0), (1, change("u", king, ada), 2), (1, change("t", None), 3), (2, change("d", None, bob), 4), (2, None, 4)]  # fmt: skip

    builder = StreamsBuilder("debezium")
    keys = RegistryAvro(json.dumps({"type": "record", "name": "Key", "fields": [{"name": "id", "type": "int"}]}))
    table = builder.table(customers, name="Customers", key=keys, value=DebeziumAvro(json.dumps(TABLE)))
    stream = builder.stream(orders, name="Orders", key=keys, value=Text("item"))
    table.to_delta("silver.customers")
    stream.left_join(table, lambda order, customer: {"item": order.item, "name": customer.name, "credit": customer.credit}).to_delta("silver.named")  # fmt: skip
    bench = WithRegistry(spark, broker, tmp_path, builder.build())
    bench.registry = RegistryOptions(registry.url, {"max.retries": "0"})
    own = lambda topic, number: key(topic, "key", {"id": number})[0]  # noqa: E731
    written = [(own(customers, number), None if one is None else value(customers, "value", one)[0], ZERO + ms) for number, one, ms in events]  # fmt: skip
    broker.produce(customers, written)
    broker.produce(orders, [(own(orders, number), item, ZERO + ms) for number, item, ms in [(1, b"lamp", 1), (2, b"desk", 1), (1, b"chair", 3), (2, b"vase", 5)]])  # fmt: skip
    bench.run(max_bad_share=1.0)

    rows = bench.silver("silver.customers").selectExpr("id", "name", "credit", "cast(born as string) born", "unix_micros(seen) seen", "unix_millis(at) at").collect()  # fmt: skip
    assert [tuple(row) for row in rows] == [
        (1, "Ada King", Decimal("-0.25"), "1969-12-31", 1_709_294_400_000_005, 1_709_294_400_000)
    ]
    named = {tuple(row) for row in bench.silver("silver.named").select("item", "name", "credit").collect()}
    assert named == {
        ("lamp", "Ada", Decimal("100.00")), ("desk", "Bob", None), ("chair", "Ada King", Decimal("-0.25")), ("vase", None, None),
    }  # fmt: skip
    (bad,) = bench.bronze(customers).where("error is not null").select("error.*").collect()
    assert (bad["code"], bad["message"]) == ("MALFORMED_VALUE", "op t (truncate) deletes rows that it does not name; a table cannot follow it")  # fmt: skip
    assert_sound(bench)
