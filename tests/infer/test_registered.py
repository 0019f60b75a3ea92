"""What is proposed for records behind a registry's prefix: the columns of their schema, and it reads the sample by them."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from tests.formats.avro import events
from tests.formats.avro.judge import framed
from tests.formats.avro.judge import written as avro
from tests.formats.protobuf.judge import written as protobuf
from tests.infer.test_proposal import declared

from lakestreams.formats.writers import RegistryFormat, with_known_schemas
from lakestreams.infer.proposal import Proposal, propose
from lakestreams.kafka.sample import Record
from lakestreams.registry import Registered, Schema

AT = 1_700_000_000_000
MOMENT = dt.datetime.fromtimestamp(AT / 1000, dt.UTC)
ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "placed", "type": "long"},
        {"name": "opens", "type": ["null", {"type": "int", "logicalType": "time-millis"}], "default": None},
        {"name": "note", "type": ["null", "string"], "doc": "what they: said", "default": None},
        {"name": "tags", "type": {"type": "array", "items": "string"}, "default": []},
        {"name": "raw", "type": "bytes", "default": ""},
    ],
}
BEFORE = {**ORDER, "fields": ORDER["fields"][:4]}
VALUE = {"id": 5, "amount": Decimal("12.50"), "at": MOMENT, "placed": AT, "opens": dt.time(12), "note": "a\nb\x1b[2J", "tags": ["x"], "raw": b"\1\2"}  # fmt: skip
PROTOBUF = """
syntax = "proto3";
package shop;
import "shop/item.proto";

// Two messages; records are the second one.
message Other { int64 id = 1; }
message Order {
  int64 id = 1;
  optional string note = 2;
  Item item = 3;
}
"""
ITEM = 'syntax = "proto3"; package shop; message Item { string sku = 1; }'
PLAIN = PROTOBUF.replace('import "shop/item.proto";\n', "").replace("  Item item = 3;\n", "")
JSON = {"type": "object", "properties": {"id": {"type": "integer"}, "at": {"type": "string", "format": "date-time"},
        "note": {"type": "string"}}, "required": ["id"]}  # fmt: skip


@dataclass(frozen=True)
class Registry:
    """One that knows some schemas, and subjects by their newest version."""

    schemas: Mapping[int | str, Schema]
    subjects: Mapping[str, Registered] = field(default_factory=dict)

    def by_name(self, name: int | str) -> Schema | None:
        return self.schemas.get(name)

    def newest(self, subject: str) -> Registered | None:
        return self.subjects.get(subject)


def of_value(number: int, schema: Schema, **others: Schema) -> Registry:
    """A registry whose newest version of the values' subject is this schema; the others are known by `_7` and so on."""
    newest = Registered("shop.orders-value", 4, number, schema)
    known = {number: schema} | {int(name[1:]): one for name, one in others.items()}
    return Registry(known, {newest.subject: newest})


def of(values: Sequence[bytes], registry: Registry, keys: Sequence[bytes] | None = None) -> Proposal:
    own = keys if keys is not None else [b"k%d" % place for place in range(len(values))]
    return propose("shop.orders", [Record(*pair) for pair in zip(own, values, strict=True)], registry)


def read(proposal: Proposal, raw: Sequence[bytes]) -> list[dict[str, Any] | None]:
    """The values as the printed lines read them."""
    how: Any = declared(proposal).value.build()
    assert isinstance(how, RegistryFormat)
    found = with_known_schemas(how, proposal.value.written, strict=False).decode(pa.array(raw, pa.binary()))  # type: ignore[attr-defined]
    assert found.errors.to_pylist() == [None] * len(raw)
    rows: list[dict[str, Any] | None] = found.values.to_pylist()
    return rows


def columns(proposal: Proposal) -> dict[str, tuple[str, float, str]]:
    return {one.name: (one.type, one.share, one.example) for one in proposal.value.columns}


def test_avro_by_the_newest_version_whoever_wrote_it() -> None:
    raw = [framed(avro(ORDER, VALUE), 8)] * 3 + [framed(avro(BEFORE, VALUE), 7)] * 3
    found = of(raw, of_value(8, Schema(json.dumps(ORDER)), _7=Schema(json.dumps(BEFORE))))
    assert found.value.declared == {"registry_avro": ORDER}
    assert columns(found) == {
        "id": ("bigint", 1, "5"),
        "amount": ("decimal(10,2)", 1, "12.50"),
        "at": ("timestamp", 1, "2023-11-14T22:13:20+00:00"),
        "placed": ("bigint", 1, str(AT)),
        "opens": ("int", 0.5, "43200000"),
        "note": ("string", 0.5, "a\nb\x1b[2J"),
        "tags": ("array<string>", 1, '["x"]'),
        "raw": ("binary", 1, "hex 0102"),
    }
    assert {one["id"] for one in read(found, raw) if one} == {5}
    assert found.event_time == "at"
    assert "          - {name: id, type: long}  # bigint, such as 5" in found.lines
    for told in (
        "written by schemas 7, 8 of the registry",
        "read by version 4 of subject shop.orders-value",
        "opens is time-millis: milliseconds of the day",
        "placed looks like milliseconds since 1970; a step makes it a time: timestamp_millis(placed)",
    ):
        assert f"value: {told}" in found.notes


def test_a_schema_that_is_no_record_is_one_column() -> None:
    keys = [framed(avro("string", f"o{place}"), 3) for place in range(4)]
    registry = of_value(8, Schema(json.dumps(ORDER)), _3=Schema('"string"'))
    found = of([framed(avro(ORDER, VALUE), 8)] * 4, registry, keys)
    assert found.key.declared == {"registry_avro": "string", "column": "shop_order_id"}
    assert "    key: {registry_avro: string, column: shop_order_id}" in found.lines
    assert [(one.name, one.type, one.example) for one in found.key.columns] == [("shop_order_id", "string", "o0")]
    assert (
        "key: the registry has no readable version of subject shop.orders-key: read by schema 3, the newest of them"
        in found.notes
    )
    declared(found)


@pytest.mark.parametrize("imports", [False, True])
def test_protobuf_by_the_message_that_records_are(imports: bool) -> None:
    text, references = (PROTOBUF, ("shop/item.proto", ITEM)) if imports else (PLAIN, ())
    raw = [framed(b"\x02\x02" + protobuf(PLAIN, "shop.Order", id=5, note="a"), 7)] * 3
    found = of(raw, of_value(7, Schema(text, "PROTOBUF", references)))
    more = {"imports": {"shop/item.proto": ITEM}} if imports else {}
    assert found.value.declared == {"registry_protobuf": text.strip() + "\n", "message": "shop.Order", **more}
    assert "      registry_protobuf: |" in found.lines
    assert {name: one[0] for name, one in columns(found).items()} == {"id": "bigint", "note": "string"} | (
        {"item": "struct<sku: string not null>"} if imports else {}
    )
    assert columns(found)["note"] == ("string", 1, "a")
    assert [one and (one["id"], one["note"]) for one in read(found, raw)] == [(5, "a")] * 3


@pytest.mark.parametrize("header", [b"\0\0\0\0\7", b"\1" + UUID(int=5).bytes])
def test_schemas_that_headers_name(header: bytes) -> None:
    def proposed(value: bytes, schema: Schema, place: bytes = b"") -> Proposal:
        registry = Registry({7: schema, str(UUID(int=5)): schema})
        return propose("shop.orders", [Record(b"a", value, (("__value_schema_id", header + place),))] * 6, registry)

    found = proposed(avro(ORDER, VALUE), Schema(json.dumps(ORDER)))
    assert (found.value.declared, columns(found)["id"]) == ({"registry_avro": ORDER}, ("bigint", 1, "5"))
    found = proposed(protobuf(PLAIN, "shop.Order", id=5), Schema(PLAIN, "PROTOBUF"), b"\2\2")
    assert (found.value.declared["message"], columns(found)["id"]) == ("shop.Order", ("bigint", 1, "5"))
    found = proposed(b'{"id": 5}', Schema(json.dumps(JSON), "JSON"))
    assert (found.value.format, columns(found)["id"]) == ("json_schema", ("bigint", 1, "5"))


def of_changes(schema: dict[str, Any], rows: Sequence[Any]) -> tuple[Proposal, list[bytes]]:
    raw = [framed(events.event(schema, "c", one), 7) for one in rows] + [framed(events.event(schema, "d", None), 7)]
    return of(raw, of_value(7, Schema(json.dumps(schema)))), raw


def test_change_events_of_debezium_are_a_table_of_the_rows() -> None:
    since = events.semantic("int", "io.debezium.time.Date")
    schema = events.envelope(("id", "int"), ("name", ["null", "string"]), ("since", ["null", since]))
    found, raw = of_changes(schema, [{"id": 1, "name": "Ada", "since": 19_783}, {"id": 2, "name": None, "since": None}])
    assert (found.kind, found.value.declared) == ("table", {"debezium_avro": schema})
    assert columns(found) == {
        "id": ("int", 1, "1"),
        "name": ("string", 0.5, "Ada"),
        "since": ("date", 0.5, "2024-03-01"),
    }
    assert "value: Debezium's change events: the row in `after`" in found.notes
    assert [one and one["id"] for one in read(found, raw)] == [1, 2, None]
    asked = of([raw[-1]] * 3, of_value(7, Schema(json.dumps(schema), references=('"string"',))))
    assert asked.value.declared == {"debezium_avro": "schemas/shop.orders-value.v4.avsc"}
    assert (asked.kind, asked.value.columns) == ("table", ())


def test_change_events_of_mongodb_are_declared_by_their_documents() -> None:
    document = events.semantic("string", "io.debezium.data.Json")
    schema = events.envelope(("id", "int"))
    schema["fields"][:2] = [{"name": name, "type": ["null", document], "default": None} for name in ("before", "after")]
    rows = [json.dumps({"sku": "B2", "stars": stars, "at": {"$date": AT}}) for stars in (5, None)]
    found, raw = of_changes(schema, rows)
    assert found.kind == "table"
    fields = {"fields": {"at": ["at", "$date"]}}
    assert found.value.declared == {"debezium_avro": "sku string, stars bigint, at timestamp_ms"} | fields
    assert [one and (one["sku"], one["stars"]) for one in read(found, raw)] == [("B2", 5), ("B2", None), None]
    empty, _ = of_changes(schema, [])
    assert empty.value.declared == {"debezium_avro": "schemas/shop.orders-value.v4.avsc"}


def test_json_schema_as_columns() -> None:
    raw = [
        framed(json.dumps(one).encode(), 7)
        for one in ({"id": 1, "at": "2024-03-01T12:00:00Z"}, {"id": AT, "note": "a"})
    ]
    found = of(raw, of_value(7, Schema(json.dumps(JSON), "JSON")))
    assert found.value.declared == {"json_schema": "id bigint not null, at timestamp, note string"}
    assert columns(found)["at"] == ("timestamp", 0.5, "2024-03-01T12:00:00+00:00")
    assert [one and one["id"] for one in read(found, raw)] == [1, AT]


def test_json_whose_schema_no_column_can_be_is_looked_at_itself() -> None:
    wide = {"type": "object", "properties": {"user-id": {"type": "integer"}, "code": {"type": ["string", "integer"]}}}
    raw = [framed(json.dumps({"user-id": place, "code": "x"}).encode(), 7) for place in range(3)]
    found = of(raw, of_value(7, Schema(json.dumps(wide), "JSON")))
    assert found.value.declared == {"json_schema": "user_id bigint, code string", "fields": {"user_id": "user-id"}}
    assert any("columns by its records: " in one for one in found.notes)
    assert [one and one["user_id"] for one in read(found, raw)] == [0, 1, 2]


def test_what_cannot_be_declared_in_the_sources_is_a_file() -> None:
    schema = Schema(json.dumps({**ORDER, "fields": [{"name": "item", "type": "Item"}]}), references=('"string"',))
    found = of([framed(b"\2", 7)] * 3, of_value(7, schema))
    assert (found.value.declared, found.value.columns) == ({"registry_avro": "schemas/shop.orders-value.v4.avsc"}, ())
    assert any("its columns are not known: it refers to other schemas" in one for one in found.notes)
    inside = {"type": "record", "name": "N", "fields": [{"name": "next", "type": ["null", "N"]}]}
    found = of([framed(b"\0", 7)] * 3, Registry({7: Schema(json.dumps(inside))}))
    assert found.value.declared == {"registry_avro": "schemas/shop.orders-value.avsc"}
    assert any("its columns are not known: a table has no column" in one for one in found.notes)


def test_a_prefix_of_schemas_that_the_registry_does_not_know() -> None:
    unknown = of([framed(b"\2", 7)] * 6, Registry({}))
    assert (unknown.value.format, unknown.is_whole) == ("", False)
    assert any("schemas that the registry does not know: 7" in one for one in unknown.notes)


def test_the_page_shows_what_is_proposed() -> None:
    time = {"type": "long", "logicalType": "timestamp-millis"}
    paid = {"type": "record", "name": "Paid", "fields": [{"name": "id", "type": "long"}, {"name": "at", "type": time}]}
    raw = [framed(avro(paid, {"id": place, "at": MOMENT}), 7) for place in range(3)]
    records = [Record(b"a%d" % place, one) for place, one in enumerate(raw)]
    page = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
    shown = page.partition("\nBehind a prefix it asks the registry")[2].partition("```text\n")[2].partition("```")[0]
    assert propose("paid", records, Registry({7: Schema(json.dumps(paid))})).lines == shown.rstrip().split("\n")
