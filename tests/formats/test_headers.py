"""Schemas that records name in a header: read as behind a prefix, both in one batch, and what is wrong with a header."""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from tests.formats.avro.judge import framed, written
from tests.formats.protobuf import judge as protobuf

from lakestreams import JsonSchema, RegistryAvro, RegistryProtobuf, Text
from lakestreams.formats.decoding import read_batches
from lakestreams.formats.headers import Heads, heads_of
from lakestreams.formats.writers import HEADERS, RegistryFormat, UnknownIds, Written, with_known_schemas

GUID, OTHER = uuid.UUID("7f0c1d1e-0000-4000-8000-00000000002a"), uuid.UUID(int=5)
ID = b"\0\0\0\0\7"
ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": "string"}],
}
OLD = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}]}
READ = json.dumps({**ORDER, "fields": [ORDER["fields"][0], {"name": "note", "type": "string", "default": "none"}]})
PROTO = 'syntax = "proto3"; package shop; message Item { string sku = 1; } message Order { int64 id = 1; Item item = 2; message In { int64 id = 1; } }'
Header = tuple[str, bytes | None]
TYPE = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def of_guid(one: uuid.UUID, behind: bytes = b"") -> bytes:
    return b"\1" + one.bytes + behind


def headers(*lists: Sequence[Header] | None) -> Any:
    rows = [None if one is None else [{"key": key, "value": value} for key, value in one] for one in lists]
    return pa.array(rows, TYPE)


def read(
    how: RegistryFormat, records: Sequence[tuple[bytes | None, Sequence[Header] | None]], side: str = "value"
) -> list[Any]:
    """Value and error of each record, as a worker reads a batch."""
    raw, none = pa.array([one for one, _ in records], pa.binary()), pa.nulls(len(records), pa.binary())
    own = headers(*(one for _, one in records))
    columns = {"key": none, "value": none, side: raw, "headers": own}
    batch = pa.RecordBatch.from_arrays(list(columns.values()), list(columns))
    ways: Any = {"key": Text("k"), "value": Text("v"), side: how}
    (found,) = read_batches(ways["key"], ways["value"], [batch])
    rows = found.column("k" if side == "key" else "v").to_pylist(maps_as_pydicts="strict")
    return list(zip(rows, found.column(f"{side}_error").to_pylist(), strict=True))


AVRO = RegistryAvro(READ).knowing({7: (json.dumps(OLD),), str(GUID): (json.dumps(ORDER),)}, strict=True)
JSON = JsonSchema("id bigint, note string").knowing({7: ("{}",), str(GUID): ("{}",)}, strict=True)
PROTOBUF = RegistryProtobuf(PROTO, "shop.Order").knowing({7: (PROTO,), str(GUID): (PROTO,)}, strict=True)
BODY = protobuf.written(PROTO, "shop.Order", id=5, item={"sku": "a"})
NEW = written(ORDER, {"id": 5, "note": "a"})


@pytest.mark.parametrize("side", ["key", "value"])
def test_each_format_by_id_and_by_guid_beside_prefixes(side: str) -> None:
    name = HEADERS[side]
    other = HEADERS["value" if side == "key" else "key"]
    old = written(OLD, {"id": 5})
    assert read(
        AVRO,
        [
            (old, [(name, ID)]),
            (NEW, [("trace", b"1"), (name, of_guid(GUID)), (other, b"what belongs to the other side")]),
            (framed(old, 7), None),
            (framed(old, 7), []),
            (framed(old, 7), [(other, of_guid(GUID))]),
            (None, [(name, of_guid(GUID))]),
        ],
        side,
    ) == [
        ({"id": 5, "note": "none"}, None),
        ({"id": 5, "note": "a"}, None),
        *[({"id": 5, "note": "none"}, None)] * 3,
        (None, None),
    ]
    raw = b'{"id": 5, "note": "a"}'
    both = [(raw, [(name, ID)]), (raw, [(name, of_guid(GUID))]), (framed(raw, 7), None)]
    assert read(JSON, both, side) == [({"id": 5, "note": "a"}, None)] * 3
    both = [(BODY, [(name, ID + b"\2\2")]), (BODY, [(name, of_guid(GUID, b"\2\2"))]), (framed(b"\2\2" + BODY, 7), None)]
    assert read(PROTOBUF, both, side) == [({"id": 5, "item": {"sku": "a"}}, None)] * 3


def test_the_place_of_a_message_in_a_header() -> None:
    item, inner = RegistryProtobuf(PROTO, "Item"), RegistryProtobuf(PROTO, "In")
    known = {str(GUID): (PROTO,)}
    raw, nested = protobuf.written(PROTO, "shop.Item", sku="a"), protobuf.written(PROTO, "shop.Order.In", id=5)
    records = [
        (raw, [(HEADERS["value"], of_guid(GUID, b"\0"))]),
        (nested, [(HEADERS["value"], of_guid(GUID, b"\4\2\0"))]),
    ]
    assert read(item.knowing(known, strict=True), records)[0] == ({"sku": "a"}, None)
    assert read(inner.knowing(known, strict=True), records) == [
        (
            None,
            f"schema {GUID} cannot be read as declared: written as message shop.Item, declared message shop.Order.In",
        ),
        ({"id": 5}, None),
    ]


NEITHER = "is neither 0x00 and an id of four bytes nor 0x01 and a GUID of sixteen"
WRONG: list[tuple[list[bytes | None], str]] = [
    ([b""], f"0x {NEITHER}"),
    ([b"\0"], f"0x00 {NEITHER}"),
    ([b"\0\0\0\7"], f"0x00000007 {NEITHER}"),
    ([b"\2\0\0\0\7"], f"0x0200000007 {NEITHER}"),
    ([b"7"], f"0x37 {NEITHER}"),
    ([str(GUID).encode()], f"0x{str(GUID).encode().hex()[:40]}... of 36 bytes {NEITHER}"),
    ([GUID.bytes], f"0x{GUID.hex} {NEITHER}"),
    ([of_guid(GUID)[:-1]], f"0x01{GUID.hex[:-2]} {NEITHER}"),
    ([None], "null"),
    ([None, ID], "null"),
    ([ID, of_guid(GUID)], f"0x0000000007 and 0x01{GUID.hex}"),
]


@pytest.mark.parametrize(("values", "said"), WRONG, ids=[said for _, said in WRONG])
@pytest.mark.parametrize("side", ["key", "value"])
def test_a_header_that_names_no_schema_refuses_its_record_alone(
    values: list[bytes | None], said: str, side: str
) -> None:
    name = HEADERS[side]
    wrong = [(name, one) for one in values]
    for how, raw, good in ((AVRO, NEW, of_guid(GUID)), (JSON, b"{}", ID), (PROTOBUF, BODY, ID + b"\2\2")):
        found = read(how, [(raw, [(name, good)]), (raw, wrong), (raw, [(name, good)] * 2), (None, wrong)], side)
        assert found[1] == (None, f"header {name}: {said}")
        assert found[0] == found[2] != (None, None)
        assert found[3] == (None, None)  # a tombstone names no schema


@pytest.mark.parametrize(
    ("how", "header", "said"),
    [
        (AVRO, ID + b"\0", ": 1 bytes behind the schema"),
        (JSON, of_guid(GUID, b"\2\2"), ": 2 bytes behind the schema"),
        (PROTOBUF, ID, ": no place of a message behind the schema: the record ends within it"),
        (PROTOBUF, of_guid(GUID, b"\4\2"), ": no place of a message behind the schema: the record ends within it"),
        (PROTOBUF, ID + b"\0\0", ": 1 bytes behind the place of the message"),
    ],
)
def test_what_stands_behind_the_schema_in_a_header(how: RegistryFormat, header: bytes, said: str) -> None:
    ((value, error),) = read(how, [(NEW, [(HEADERS["value"], header)])])
    assert value is None
    assert error.startswith(f"header {HEADERS['value']}: 0x{header.hex()}")
    assert error.endswith(said)


def test_schemas_that_nobody_knows_and_that_cannot_be_had() -> None:
    name = HEADERS["value"]
    records = [
        (NEW, [(name, of_guid(OTHER))]),
        (NEW, [(name, b"\0\0\0\0\x09")]),
        (NEW, [(name, b"\0" * 5)]),
        (NEW, [(name, of_guid(GUID))]),
    ]
    with pytest.raises(UnknownIds) as asked:
        read(AVRO, records)
    assert asked.value.ids == [str(OTHER), 9]
    for how, word, text in ((AVRO, "Avro", json.dumps(ORDER)), (JSON, "JSON", "{}"), (PROTOBUF, "Protobuf", PROTO)):
        kind = how.registered.kind
        told = with_known_schemas(
            how, {str(OTHER): "nobody can say", str(GUID): Written("OTHER", (text,)), 9: None}, strict=True
        )
        own = [
            (raw, [(name, value + (b"\0" if how is PROTOBUF else b"")) for name, value in one]) for raw, one in records
        ]
        assert [error for _, error in read(told, own)] == [
            f"schema {OTHER} cannot be used: nobody can say",
            f"schema 9: the registry has no {word} schema of this id",
            f"schema 0: the registry has no {word} schema of this id",
            f"schema {GUID}: the registry has no {word} schema of this GUID",
        ]
        assert told == how
        assert with_known_schemas(how, {str(GUID): Written(kind, (text,)), 7: None}, strict=False) == how


@pytest.mark.parametrize("seed", range(20))
def test_a_batch_of_both_is_read_as_the_same_batch_of_prefixes(seed: int) -> None:
    by = random.Random(seed)
    guids = {7: of_guid(GUID), 8: ID[:-1] + b"\x08"}
    known = {7: (json.dumps(OLD),), 8: (json.dumps(ORDER),), str(GUID): (json.dumps(OLD),)}
    protos = {7: (PROTO,), 8: (PROTO,), str(GUID): (PROTO,)}
    jsons: dict[int | str, tuple[str, ...]] = dict.fromkeys(known, ("{}",))
    ways: list[tuple[RegistryFormat, list[bytes], bytes]] = [
        (RegistryAvro(READ).knowing(known, strict=True), [NEW, NEW[:-1], b"", b"\x0a"], b""),
        (JSON.knowing(jsons, strict=True), [b'{"id": 5}', b'{"id": "5"}', b"", b"{}"], b""),
        (PROTOBUF.knowing(protos, strict=True), [BODY, BODY[:-1], b"", b"\x08"], b"\2\2"),
    ]
    for how, bodies, place in ways:
        chosen = [(by.choice([7, 8]), by.choice(bodies)) for _ in range(by.choice([1, 5, 300]))]
        prefixed = [(framed(place + body, number), None) for number, body in chosen]
        mixed = [
            (body, [(HEADERS["value"], guids[number] + place)]) if by.random() < 0.5 else one
            for (number, body), one in zip(chosen, prefixed, strict=True)
        ]
        found = [(row, error and error.replace(str(GUID), "7")) for row, error in read(how, mixed)]
        assert found == read(how, prefixed)


def test_headers_of_slices_and_of_batches_without_any() -> None:
    name = HEADERS["value"]
    whole = headers([("a", b"b")], None, [(name, ID)], [], [("a", None), (name, of_guid(GUID))])
    assert heads_of(whole.slice(0, 2), "value") is None
    assert heads_of(headers(None, None), "value") is None
    assert heads_of(headers(), "value") is None
    found = heads_of(whole.slice(1, 4), "value")
    assert isinstance(found, Heads)
    assert found.values.to_pylist() == [None, ID, None, of_guid(GUID)]
    assert found.faults == {}
