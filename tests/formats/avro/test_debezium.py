"""Change events in Avro: which row each leaves, and which column each type of Debezium's and Connect's becomes."""

from __future__ import annotations

import datetime as dt
import json
import pickle
from decimal import Decimal
from typing import Any

import pytest
from tests.formats import cases
from tests.formats.avro.events import decimal, envelope, event, row, semantic
from tests.formats.avro.judge import framed, written

from lakestreams import DebeziumAvro, RegistryAvro
from lakestreams.errors import InvalidFormat, InvalidOption
from lakestreams.formats import Format, WritableFormat
from lakestreams.formats.avro.debezium import rows_of
from lakestreams.formats.writers import AVRO, RegistryFormat, UnknownIds, Written, with_known_schemas
from lakestreams.testing.encode import encode

NOON = dt.datetime(2024, 3, 1, 12, 0, 0, 123456, tzinfo=dt.UTC)
SECOND = NOON.replace(microsecond=123000)
DAY = 19_783  # of NOON
MICROS = 1_709_294_400_123_456
TIME, CONNECT, DATA = "io.debezium.time", "org.apache.kafka.connect.data", "io.debezium.data"
VARIABLE = {"type": "record", "name": "VariableScaleDecimal", "namespace": DATA, "connect.version": 1, "connect.name": f"{DATA}.VariableScaleDecimal",
            "fields": [{"name": "scale", "type": "int"}, {"name": "value", "type": "bytes"}]}  # fmt: skip
POINT = {"type": "record", "name": "Point", "namespace": f"{DATA}.geometry", "connect.version": 1, "connect.name": f"{DATA}.geometry.Point",
         "fields": [{"name": "x", "type": "double"}, {"name": "y", "type": "double"}, {"name": "wkb", "type": ["null", "bytes"], "default": None},
                    {"name": "srid", "type": ["null", "int"], "default": None}]}  # fmt: skip

# As the converter writes the type; what is in the bytes; the column; what is in the column.
TYPES: list[tuple[str, Any, Any, str, Any]] = [
    ("int2", {"type": "int", "connect.type": "int16"}, 5, "int", 5),
    ("int4", "int", -5, "int", -5),
    ("int8", "long", 2**40, "bigint", 2**40),
    ("float4", "float", 0.5, "float", 0.5),
    ("float8", "double", 0.1, "double", 0.1),
    ("boolean", "boolean", True, "boolean", True),
    ("text", "string", "Grüße", "string", "Grüße"),
    ("bytea", "bytes", b"\0\xff", "binary", b"\0\xff"),
    ("date", semantic("int", f"{TIME}.Date"), DAY, "date", NOON.date()),
    ("date before 1970", semantic("int", f"{TIME}.Date"), -1, "date", dt.date(1969, 12, 31)),
    ("Connect's date", semantic("int", f"{CONNECT}.Date", logicalType="date"), NOON.date(), "date", NOON.date()),
    ("timestamp(3)", semantic("long", f"{TIME}.Timestamp"), MICROS // 1000, "timestamp", SECOND),
    ("timestamp(6)", semantic("long", f"{TIME}.MicroTimestamp"), MICROS, "timestamp", NOON),
    ("timestamp(9)", semantic("long", f"{TIME}.NanoTimestamp"), MICROS * 1000 + 789, "bigint", MICROS * 1000 + 789),
    ("Connect's timestamp", semantic("long", f"{CONNECT}.Timestamp", logicalType="timestamp-millis"), SECOND, "timestamp", SECOND),
    ("timestamptz", semantic("string", f"{TIME}.ZonedTimestamp"), "2024-03-01T12:00:00.123456Z", "timestamp", NOON),
    ("timestamptz of whole seconds", semantic("string", f"{TIME}.ZonedTimestamp"), "2024-03-01T12:00:00Z", "timestamp", NOON.replace(microsecond=0)),
    ("timestamptz elsewhere", semantic("string", f"{TIME}.ZonedTimestamp"), "2024-03-01T14:00:00.123456+02:00", "timestamp", NOON),
    ("time(3)", semantic("int", f"{TIME}.Time"), 43_200_123, "int", 43_200_123),
    ("time(6)", semantic("long", f"{TIME}.MicroTime"), 43_200_123_456, "bigint", 43_200_123_456),
    ("time(9)", semantic("long", f"{TIME}.NanoTime"), 43_200_123_456_789, "bigint", 43_200_123_456_789),
    ("Connect's time", semantic("int", f"{CONNECT}.Time", logicalType="time-millis"), dt.time(12, 0, 0, 123000), "int", 43_200_123),
    ("timetz", semantic("string", f"{TIME}.ZonedTime"), "12:00:00Z", "string", "12:00:00Z"),
    ("interval", semantic("long", f"{TIME}.MicroDuration"), 5, "bigint", 5),
    ("year", semantic("int", f"{TIME}.Year"), 2024, "int", 2024),
    ("numeric(10, 2)", decimal(2, 10), Decimal("-12.50"), "decimal(10,2)", Decimal("-12.50")),
    ("numeric(38, 0)", decimal(0, 38), Decimal(10**37), "decimal(38,0)", Decimal(10**37)),
    ("decimal of no precision", decimal(2, None), Decimal("12.50"), "decimal(38,2)", Decimal("12.50")),
    ("numeric", VARIABLE, {"scale": 3, "value": b"\x04\xd2"}, "struct<scale: int, value: binary>", {"scale": 3, "value": b"\x04\xd2"}),
    ("decimals as text", "string", "12.50", "string", "12.50"),
    ("json", semantic("string", f"{DATA}.Json"), '{"a": 1}', "string", '{"a": 1}'),
    ("uuid", semantic("string", f"{DATA}.Uuid"), "550e8400-e29b-41d4-a716-446655440000", "string", "550e8400-e29b-41d4-a716-446655440000"),
    ("enum", semantic("string", f"{DATA}.Enum", **{"connect.parameters": {"allowed": "a,b"}}), "a", "string", "a"),
    ("bit(9)", semantic("bytes", f"{DATA}.Bits", **{"connect.parameters": {"length": "9"}}), b"\x01\0", "binary", b"\x01\0"),
    ("point", POINT, {"x": 1.0, "y": 2.0, "wkb": None, "srid": None}, "struct<x: double, y: double, wkb: binary, srid: int>", {"x": 1.0, "y": 2.0, "wkb": None, "srid": None}),
    ("int4[]", {"type": "array", "items": ["null", "int"]}, [1, None], "array<int>", [1, None]),
    ("hstore", {"type": "map", "values": ["null", "string"]}, {"a": "b", "c": None}, "map<string, string>", {"a": "b", "c": None}),
]  # fmt: skip


def decoded(how: RegistryFormat, *raw: bytes | None) -> list[tuple[Any, str | None]]:
    return cases.told(how, raw)


@pytest.mark.parametrize(("name", "kind", "given", "column", "read"), TYPES, ids=[one[0] for one in TYPES])
def test_the_column_of_a_type(name: str, kind: Any, given: Any, column: str, read: Any) -> None:
    schema = envelope(("id", "int"), ("x", kind), ("maybe", ["null", kind]) if not isinstance(kind, dict) or "name" not in kind else ("maybe", ["null", "string"]))  # fmt: skip
    text = json.dumps(schema)
    how = DebeziumAvro(text).knowing({7: (text,)}, strict=True)
    assert [(one.type, one.required) for one in how.fields][:2] == [("int", True), (column, True)], name
    assert not how.fields[2].required
    maybe = given if how.fields[2].type == column else None
    full, none = ({"id": 1, "x": given, "maybe": one} for one in (maybe, None))
    own = read if maybe is not None else None
    assert decoded(how, framed(event(schema, "c", full), 7), framed(event(schema, "u", none, full), 7)) == [
        ({"id": 1, "x": read, "maybe": own}, None),
        ({"id": 1, "x": read, "maybe": None}, None),
    ]
    # the unwrapped row, and a row's schema that is declared alone
    rows = json.dumps(row(("id", "int"), ("x", kind)))
    plain = RegistryAvro(rows).knowing({7: (rows,)}, strict=True)
    raw = framed(written(json.loads(rows), {"id": 1, "x": given}), 7)
    assert decoded(plain, raw) == [({"id": 1, "x": read}, None)]
    alone = DebeziumAvro(rows).knowing({7: (text,)}, strict=True)
    assert decoded(alone, framed(event(schema, "r", full), 7)) == [({"id": 1, "x": read}, None)]


SCHEMA = envelope(("id", "int"), ("name", ["null", "string"]), ("at", ["null", semantic("string", f"{TIME}.ZonedTimestamp")]))  # fmt: skip
TEXT = json.dumps(SCHEMA)
ADA, BOB = {"id": 1, "name": "Ada", "at": None}, {"id": 1, "name": "Bob", "at": "2024-03-01T12:00:00Z"}
HOW = DebeziumAvro(TEXT).knowing({7: (TEXT,)}, strict=True)


def of(op: str, after: Any, before: Any = None) -> bytes:
    return framed(event(SCHEMA, op, after, before), 7)


def test_what_each_event_leaves() -> None:
    bob = {**BOB, "at": dt.datetime(2024, 3, 1, 12, tzinfo=dt.UTC)}
    events = [of("r", ADA), of("c", ADA), of("u", BOB, ADA), of("u", BOB), of("d", None, BOB), of("d", None), None]
    assert decoded(HOW, *events) == [(ADA, None), (ADA, None), (bob, None), (bob, None), (None, None), (None, None), (None, None)]  # fmt: skip
    assert decoded(HOW) == []
    assert decoded(HOW, None) == [(None, None)]
    assert decoded(HOW, of("d", ADA)) == [(None, None)]


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (of("t", None), "op t (truncate) deletes rows that it does not name; a table cannot follow it"),
        (of("m", None), "op m (message) is not a change of a row"),
        (of("x", ADA), "unknown op x"),
        (of("", ADA), "unknown op "),
        (of("x" * 50, None), f"unknown op {'x' * 20}"),
        *((of(op, None, ADA), f"op {op} without after") for op in "cru"),
        (of("c", {**ADA, "at": "soon"}), 'after.at: "soon" is no timestamp with a zone, such as 2024-03-01T12:00:00Z (for numbers: timestamp_s, timestamp_ms, timestamp_us)'),
        (of("c", ADA)[:-1], "ts_ms: the record ends within it"),
        (of("c", ADA)[:-2], "ts_ms: the record ends within it"),
        (of("c", ADA) + b"\0", "1 bytes behind the record"),
        (b'{"op": "c"}', "no registry prefix (0x00 and four bytes) before the record"),
        (framed(event(SCHEMA, "c", ADA), 0), "schema 0: the registry has no Avro schema of this id"),
    ],
)  # fmt: skip
def test_what_is_no_change_of_a_row_is_refused_alone(raw: bytes, message: str) -> None:
    assert decoded(HOW, of("c", ADA), raw, of("d", None)) == [(ADA, None), (None, message), (None, None)]


def test_rows_of_two_versions_of_a_table_in_one_batch() -> None:
    later = envelope(("id", "long"), ("city", "string"), ("name", ["null", "string"]), ("at", ["null", "string"]))
    known = {7: (TEXT,), 8: (json.dumps(later),)}
    how = DebeziumAvro(json.dumps(row(("id", "long"), ("name", ["null", "string"])))).knowing(known, strict=True)
    new = framed(event(later, "u", {"id": 2, "city": "Rome", "name": "Bob", "at": None}), 8)
    assert decoded(how, of("c", ADA), new) == [({"id": 1, "name": "Ada"}, None), ({"id": 2, "name": "Bob"}, None)]
    other = json.dumps(row(("id", "int")))
    unwrapped = DebeziumAvro(other).knowing({7: (other,)}, strict=True)
    ((value, said),) = decoded(unwrapped, framed(b"\2", 7))
    assert value is None
    assert said == "schema 7 cannot be read as declared: value: written as record Value, declared record Envelope"
    with pytest.raises(UnknownIds):
        decoded(how, framed(b"\2", 9))


def test_values_and_words() -> None:
    one = DebeziumAvro(TEXT)
    assert one == DebeziumAvro(TEXT) == HOW
    assert hash(one) == hash(HOW)
    assert one != DebeziumAvro(json.dumps(row(("id", "int"))))
    assert isinstance(one, Format) and isinstance(one, RegistryFormat)  # noqa: PT018
    assert not isinstance(one, WritableFormat)
    assert decoded(pickle.loads(pickle.dumps(HOW)), of("c", ADA)) == [(ADA, None)]
    assert one.describe().startswith("debezium_avro(id int not null, name string, at timestamp; schema ")
    assert one.describe() == DebeziumAvro(json.dumps(SCHEMA, indent=1)).describe()
    told = with_known_schemas(
        one, {7: Written(AVRO, (TEXT,)), 8: Written("JSON", ("{}",)), "g": "nobody can say"}, strict=True
    )
    assert decoded(told, of("c", ADA), framed(b"", 8))[1][1] == "schema 8: the registry has no Avro schema of this id"
    at = dt.datetime(2024, 3, 1, 14, tzinfo=dt.timezone(dt.timedelta(hours=2)))
    raw = encode({"id": 1, "name": "Ada", "at": at}, one)
    assert decoded(one, raw) == [({"id": 1, "name": "Ada", "at": at.astimezone(dt.UTC)}, None)]
    with pytest.raises(InvalidOption):
        encode({"id": "1"}, one)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ('"string"', "is no record"),
        ("{", "is no record"),
        (json.dumps({"type": "record", "name": "R"}), "is no record"),
        (json.dumps({"type": "record", "name": "R", "fields": [{"name": "op", "type": "string"}, {"name": "after", "type": ["null", "string"]}]}), "after is no record that may be null"),
        (json.dumps({"type": "record", "name": "R", "fields": [{"name": "op", "type": "string"}, {"name": "after", "type": "int"}]}), "after is no record that may be null"),
        (json.dumps({"type": "record", "name": "R", "fields": [{"name": "op", "type": "string"}, {"name": "after", "type": ["null", "Value"]}]}), "'Value' is not defined"),
        (json.dumps(row(("id", "null"))), "null alone"),
    ],
)  # fmt: skip
def test_a_schema_that_is_none_of_change_events(schema: str, message: str) -> None:
    with pytest.raises(InvalidFormat, match=message):
        DebeziumAvro(schema)


DOCUMENT = semantic("string", f"{DATA}.Json")
SITE = {"type": "record", "name": "Envelope", "namespace": "shop.site.reviews", "fields": [
    {"name": "before", "type": ["null", DOCUMENT], "default": None}, {"name": "after", "type": ["null", DOCUMENT], "default": None},
    {"name": "updateDescription", "type": ["null", "string"], "default": None}, {"name": "op", "type": "string"},
    {"name": "ts_ms", "type": ["null", "long"], "default": None},
]}  # fmt: skip
REVIEWS = DebeziumAvro("sku string, stars int, written timestamp_ms", fields={"written": ["written", "$date"]}).knowing(
    {9: (json.dumps(SITE),)}, strict=True
)
GOOD = {"sku": "B2", "stars": 5, "written": SECOND}


def document(op: str, after: Any) -> bytes:
    text = after if isinstance(after, str | None) else json.dumps(after, ensure_ascii=False)
    whole = {"before": None, "after": text, "updateDescription": None, "op": op, "ts_ms": 1}
    return framed(written(SITE, whole), 9)


@pytest.mark.parametrize("many", [1, 200])
def test_documents_of_mongodb_are_read_from_their_texts(many: int) -> None:
    row = {"_id": {"$oid": "65"}, "sku": "B2", "stars": 5, "written": {"$date": MICROS // 1000}}
    events = [document("c", row), document("u", row), document("r", row), document("d", None), None, document("d", row)]
    want = [(GOOD, None)] * 3 + [(None, None)] * 3
    assert decoded(REVIEWS, *events * many) == want * many


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (document("u", None), "op u without after"),
        (document("t", None), "op t (truncate) deletes rows that it does not name; a table cannot follow it"),
        (document("c", "{"), "after: does not fit sku string, stars int, written timestamp_ms"),
        (document("c", {"stars": "5"}), 'after: stars: "5" is no int'),
        (document("c", r'{"sku": "\\ud83d\ude00"}'), "after: half of a surrogate pair, which is no character"),
        (document("c", "[1]"), "after: not a JSON object"),
        (document("c", ""), "after: not a JSON object"),
        (document("c", "null"), "after: not a JSON object"),
        (document("x", "{"), "unknown op x"),
        (document("c", {"sku": "B2"})[:-1], "ts_ms: the record ends within it"),
        (framed(b"", 8), "schema 8: the registry has no Avro schema of this id"),
    ],
)
def test_documents_that_are_none_are_refused_alone(raw: bytes, message: str) -> None:
    how = REVIEWS.knowing({9: (json.dumps(SITE),), 8: None}, strict=True)
    good = document("c", {"sku": "B2", "stars": 5, "written": {"$date": MICROS // 1000}})
    assert decoded(how, good, raw, good) == [(GOOD, None), (None, message), (GOOD, None)]


def test_documents_are_declared_by_their_columns() -> None:
    one = DebeziumAvro("sku string, stars int")
    assert isinstance(one, Format) and isinstance(one, RegistryFormat)  # noqa: PT018
    assert decoded(one, encode({"sku": "ä", "stars": 5}, one)) == [({"sku": "ä", "stars": 5}, None)]
    assert decoded(pickle.loads(pickle.dumps(REVIEWS)), document("d", None)) == [(None, None)]
    with pytest.raises(InvalidFormat, match="after is no record that may be null") as told:
        DebeziumAvro(json.dumps(SITE))
    assert "declare the columns of the documents" in str(told.value.hint)
    with pytest.raises(InvalidFormat, match="fields are of documents"):
        DebeziumAvro(TEXT, fields={"name": "the name"})
    assert (rows_of(TEXT), rows_of(json.dumps(SITE))) == ("records", "documents")
    for other in (json.dumps(row(("op", "string"), ("after", "int"))), '"string"', "sku string", "{", "[1]"):
        assert rows_of(other) == ""


@pytest.mark.parametrize("name", ["Value", "shop.Value"])
@pytest.mark.parametrize("place", ["before", "source"])
def test_the_row_is_the_record_of_its_full_name(name: str, place: str) -> None:
    other = {
        "type": "record",
        "name": "Value",
        "namespace": "io.other",
        "fields": [{"name": "wrong", "type": "string"}],
    }
    row_type = {"type": "record", "name": "Value", "fields": [{"name": "right", "type": "int"}]}
    holder = {
        "type": "record",
        "name": "io.other.Source",
        "fields": [{"name": "v", "type": {**row_type, "namespace": "shop"}}],
    }
    first = row_type if place == "before" else holder
    schema = {"type": "record", "name": "Envelope", "namespace": "shop", "fields": [
        {"name": "info", "type": ["null", other]}, {"name": place, "type": ["null", first]},
        {"name": "after", "type": ["null", name]}, {"name": "op", "type": "string"}]}  # fmt: skip
    how = DebeziumAvro(json.dumps(schema))
    assert [one.name for one in how.fields] == ["right"]
    raw = framed(written(schema, {"info": None, place: None, "after": {"right": 5}, "op": "c"}), 7)
    known = how.knowing({7: (json.dumps(schema),)}, strict=True)
    assert decoded(known, raw) == [({"right": 5}, None)]
