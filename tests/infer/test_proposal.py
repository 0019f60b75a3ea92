"""What is proposed for a sample: formats, columns, units and kinds; and it reads the sample that it was made of."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
import yaml

from lakestreams.config.formats import FormatSpec
from lakestreams.config.models import TopicSpec
from lakestreams.formats.jsontext import Number
from lakestreams.infer.proposal import Proposal, propose
from lakestreams.infer.seen import Seen
from lakestreams.kafka.sample import Record

AT = 1_700_000_000_000


def of(values: Sequence[Any], keys: Sequence[bytes | None] | None = None, **more: Any) -> Proposal:
    """What is proposed for values: bytes as they are, anything else as JSON."""
    raw = [one if isinstance(one, bytes) or one is None else json.dumps(one).encode() for one in values]
    own = keys if keys is not None else [b"k%d" % place for place in range(len(raw))]
    return propose("shop.orders", [Record(key, value) for key, value in zip(own, raw, strict=True)], **more)


def declared(proposal: Proposal) -> TopicSpec:
    """The lines, read as the sources' file is."""
    ((name, parts),) = yaml.safe_load("\n".join(proposal.lines)).items()
    assert name == "shop_orders"
    assert {name: parts} == json.loads(json.dumps(proposal.declared))
    return TopicSpec.model_validate(parts)


def read(spec: FormatSpec, raw: Sequence[bytes | None]) -> list[str | None]:
    errors: list[str | None] = spec.build().decode(pa.array(raw, pa.binary())).errors.to_pylist()
    return errors


def columns(proposal: Proposal) -> dict[str, str]:
    return {one.name: one.type for one in proposal.value.columns}


TYPES: dict[str, tuple[Sequence[Any], str]] = {
    "whole numbers": ((1, -5, 2**40), "bigint"),
    "beyond 64 bits": ((1, 2**70), "decimal(38,0)"),
    "with a point": ((1.5, 2), "double"),
    "words": (("a", "", None), "string"),
    "booleans": ((True, False), "boolean"),
    "moments": (("2024-03-01T12:00:00Z", "2024-03-01T12:00:00.5+02:00"), "timestamp"),
    "moments without a zone": (("2024-03-01T12:00:00",), "string"),
    "days": (("2024-03-01",), "date"),
    "milliseconds": ((AT, AT + 1), "timestamp_ms"),
    "microseconds": ((AT * 1000, AT * 1000 + 1), "timestamp_us"),
    "nothing": ((None, None), "string"),
    "texts and numbers": (("a", 5), "string"),
    "lists": (([1, 2], []), "array<bigint>"),
    "lists of objects": (([{"a": 1}, {"b": "x"}],), "array<struct<a: bigint, b: string>>"),
    "objects": (({"a": 1, "b": {"c": True}}, {"a": None}), "struct<a: bigint, b: struct<c: boolean>>"),
    "names of data": (tuple({f"name{place}": place} for place in range(40)), "map<string, bigint>"),
    "empty objects": (({}, {}), "map<string, string>"),
}


@pytest.mark.parametrize("name", TYPES)
def test_a_type_holds_what_was_seen(name: str) -> None:
    values, kind = TYPES[name]
    found = of([{"id": 1, "x": value} for value in values])
    assert columns(found) == {"id": "bigint", "x": kind}
    raw = [json.dumps({"id": 1, "x": value}).encode() for value in values]
    assert read(declared(found).value, raw) == [None] * len(raw)


def test_seconds_are_told_by_their_name() -> None:
    found = of([{"created_at": 1_700_000_000, "number": 1_700_000_000}] * 3)
    assert columns(found) == {"created_at": "timestamp_s", "number": "bigint"}
    assert any("created_at looks like seconds" in one for one in found.notes)
    assert found.event_time == "created_at"
    assert "    # event_time: created_at" in "\n".join(found.lines)


def test_money_is_told() -> None:
    found = of([b'{"price": 1.50}', b'{"price": 19.99}'])
    assert columns(found) == {"price": "double"}
    assert any("decimal(10,2) holds them exactly" in one for one in found.notes)


def test_fields_whose_names_are_no_columns_are_mapped() -> None:
    rows = [{"user-id": 1, "@timestamp": "2024-03-01T12:00:00Z", "a b": 2, "A_B": 3, "2024": 4, "order": 5, "": 6}] * 3
    found = of(rows)
    assert {one.name: one.field for one in found.value.columns} == {
        "user_id": "user-id", "timestamp": "@timestamp", "a_b": "a b", "A_B_2": "A_B", "field_2024": "2024", "order": None, "field": "",
    }  # fmt: skip
    raw = [json.dumps(one).encode() for one in rows]
    spec = declared(found).value
    assert read(spec, raw) == [None] * 3
    (first, *_) = spec.build().decode(pa.array(raw, pa.binary())).values.to_pylist()
    assert (first["user_id"], first["a_b"], first["A_B_2"], first["field_2024"], first["field"]) == (1, 2, 3, 4, 6)


CHANGES = [{"before": None, "after": {"id": 1, "name": "ann"}, "op": "c", "source": {}}] * 3
EVENTS: dict[str, tuple[Sequence[Any], str, str]] = {
    "bare": ([{"id": 1, "name": "ann"}] * 3, "json", "stream"),
    "Connect": ([{"schema": None, "payload": {"id": 1, "name": "ann"}}] * 3, "connect_json", "stream"),
    "Debezium": (CHANGES, "debezium_json", "table"),
    "Debezium in Connect": ([{"schema": {}, "payload": one} for one in CHANGES], "debezium_json", "table"),
    "MongoDB": (
        [{"after": json.dumps({"id": 1, "name": "ann"}), "op": "c", "source": {}}] * 3,
        "debezium_json",
        "table",
    ),
    "Maxwell": (
        [{"table": "t", "type": kind, "data": {"id": 1, "name": "ann"}} for kind in ("insert", "update", "delete")],
        "maxwell_json",
        "table",
    ),
    "with a tombstone": ([{"id": 1, "name": "ann"}, None, {"id": 2, "name": "bob"}], "json", "table"),
}


@pytest.mark.parametrize("name", EVENTS)
def test_wrappers_and_changes(name: str) -> None:
    values, fmt, kind = EVENTS[name]
    found = of(values)
    assert (found.value.format, found.kind, columns(found)) == (fmt, kind, {"id": "bigint", "name": "string"})
    raw = [None if one is None else json.dumps(one).encode() for one in values]
    assert read(declared(found).value, raw) == [None] * len(raw)


def test_documents_of_mongodb_say_types_with_objects() -> None:
    document = {
        "_id": {"$oid": "65"},
        "at": {"$date": AT},
        "size": {"w": 1, "$x": 2},
        "items": [{"n": {"$numberLong": "5"}}],
    }
    values = [{"after": json.dumps(document), "op": "c", "source": {}}] * 3
    found = of(values)
    assert found.value.declared == {
        "debezium_json": "id string, at timestamp_ms, size struct<w: bigint>, items array<struct<n: map<string, string>>>",
        "fields": {"id": ["_id", "$oid"], "at": ["at", "$date"]},
    }
    assert read(declared(found).value, [json.dumps(one).encode() for one in values]) == [None] * 3


def test_rows_that_say_that_they_are_deleted_are_a_table() -> None:
    found = of([{"id": 1, "__deleted": "false"}] * 3)
    assert (found.kind, columns(found)) == ("table", {"id": "bigint", "deleted": "string"})
    assert any("rows that deleted marks are deleted" in one for one in found.notes)


def test_messages_of_canal_are_known() -> None:
    found = of([{"data": [{"id": "1"}], "old": None, "isDdl": False, "type": "INSERT", "table": "t"}] * 3)
    assert (found.value.format, found.kind) == ("json", "stream")
    assert any("docs/cdc.md makes a table of them" in one for one in found.notes)


KEYS: dict[str, tuple[Callable[[int], bytes | None], str]] = {
    "text": (lambda n: b"user %d" % n, "text"),
    "digits": (lambda n: b"%d" % n, "text"),
    "a long": (lambda n: (n - 2).to_bytes(8, "big", signed=True), "long"),
    "an int": (lambda n: (n - 2).to_bytes(4, "big", signed=True), "int"),
    "a UUID": (lambda n: bytes([n + 200] * 16), "uuid"),
    "in quotes": (lambda n: b'"user %d"' % n, "json_scalar"),
    "an object": (lambda n: b'{"id": %d}' % n, "json"),
    "null": (lambda _: None, "text"),
}


@pytest.mark.parametrize("name", KEYS)
def test_keys(name: str) -> None:
    make, fmt = KEYS[name]
    keys = [make(place) for place in range(6)]
    found = of([{"id": 1}] * 6, keys)
    assert found.key.format == fmt
    assert read(declared(found).key, keys) == [None] * 6


def test_a_key_that_comes_again_may_be_a_table() -> None:
    found = of([{"id": 1}] * 6, [b"a", b"b"] * 3)
    assert found.kind == "stream"
    assert any("3.0 times on average: kind: table" in one for one in found.notes)


def test_a_few_broken_records_hide_nothing() -> None:
    found = of([*[{"id": place, "name": "x"} for place in range(95)], *[b"\xff{", b"{", b"5", b"", b"[1]"]])
    assert columns(found) == {"id": "bigint", "name": "string"}


def test_behind_a_prefix_without_a_registry() -> None:
    alone = of([b"\0\0\0\0\7\2\4ab"] * 6)
    assert any("name the registry in the sources' file" in one for one in alone.notes)
    text = of([b'\0\0\0\0\7{"id": 5}'] * 6)
    assert text.value.declared == {"registry_json": "id bigint"}


def test_behind_the_header_of_glue() -> None:
    version = bytes.fromhex("b7b4a7f09c964e4aa687fb5de9ef0c61")
    found = of([b"\3\0" + version + b"\x0a", b"\3\5" + version + b"x\x9c"] * 3)
    assert not found.is_whole
    assert any("by schema versions b7b4a7f0-9c96-4e4a-a687-fb5de9ef0c61: glue_avro" in one for one in found.notes)


@pytest.mark.parametrize("header", [b"\0\0\0\0\7", b"\1" + UUID(int=5).bytes])
def test_schemas_that_headers_name_without_a_registry(header: bytes) -> None:
    def proposed(value: bytes) -> Proposal:
        return propose("shop.orders", [Record(b"a", value, (("__value_schema_id", header),))] * 6)

    alone = proposed(b"\2\4a\xff")
    assert any("its schema is named in a header: name the registry" in one for one in alone.notes)
    assert proposed(b'{"id": 5}').value.declared == {"json": "id bigint"}


def test_what_fits_nothing_is_said() -> None:
    found = of([bytes([200, 201, place, 255, place]) for place in range(6)])
    assert not found.is_whole
    assert any("Avro or Protobuf need their schema" in one for one in found.notes)
    assert "    # value: which format?" in found.lines


def test_long_declarations_have_a_column_a_line() -> None:
    rows = [{f"column_number_{place}": place for place in range(12)}] * 3
    found = of(rows)
    assert "      json: >-" in found.lines
    assert "        column_number_0 bigint," in found.lines
    assert found.lines[-1] == "        column_number_11 bigint"
    assert len(columns(found)) == 12
    assert len(declared(found).value.build().fields) == 12


def test_seen_values_are_merged() -> None:
    one, other, whole = Seen(), Seen(), Seen()
    for value in (5, Number("1.25"), None):
        one.add(value)
        whole.add(value)
    for value in (-7, {"a": [1]}, ["x"], "2024-03-01"):
        other.add(value)
        whole.add(value)
    one.merge(other)
    assert one == whole
