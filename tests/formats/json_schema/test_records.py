"""Records behind the prefix: read by the rules of `Json`, or refused with a reason, each by itself."""

from __future__ import annotations

import json
import pickle
import random
from typing import Any

import pyarrow as pa
import pytest
from tests.formats.avro.judge import framed
from tests.formats.cases import told

from lakestreams import Json, JsonSchema
from lakestreams.errors import InvalidFormat, InvalidOption
from lakestreams.formats import Format, WritableFormat
from lakestreams.formats.writers import JSON, RegistryFormat, UnknownIds, Written, with_known_schemas
from lakestreams.testing.encode import encode

DDL = (
    "id bigint not null, note string, at timestamp, price decimal(10, 2), tags array<string>, "
    "of map<string, bigint>, to struct<city: string, zip: int>, ok boolean, x double"
)
UNKNOWN = "schema {}: the registry has no JSON schema of this id"
UNFRAMED = "no registry prefix (0x00 and four bytes) before the record"


def some(by: random.Random) -> dict[str, Any]:
    """A row as a producer writes it."""
    row = {
        "id": by.choice([0, -1, 2**62, 7]),
        "note": by.choice([None, "", "a", "Grüße", "\U0001f600", 'q"\\']),
        "at": by.choice([None, "2024-03-01T12:00:00Z", "2024-03-01T12:00:00.123456+02:00"]),
        "price": by.choice([None, "12.50", 0.5, 3]),
        "tags": by.choice([None, [], ["a", None]]),
        "of": by.choice([None, {}, {"a": 1, "b": None}]),
        "to": by.choice([None, {"city": "Rome"}, {"zip": 5, "city": None}]),
        "ok": by.choice([None, True, False]),
        "x": by.choice([None, 0.5, 3, 1e300]),
        "more": by.choice([None, {"a": [1, {"b": 2}]}, "x"]),
    }
    return {name: one for name, one in row.items() if one is not None or by.random() < 0.5}


def bare(row: Any) -> bytes:
    return json.dumps(row, ensure_ascii=False).encode()


WAYS: list[tuple[str, Any]] = [
    *((f"of {name}: {wrong!r}", {name: wrong}) for name, wrong in [
        ("id", None), ("id", "5"), ("id", 5.5), ("id", 5.0), ("id", True), ("id", 2**63), ("id", [5]), ("id", {"a": 5}), ("id", -(2**63) - 1),
        ("note", [1e400]), ("at", "2024-03-01"), ("at", "2024-03-01T12:00:00"), ("at", 5), ("at", "soon"), ("at", "2024-02-30T12:00:00Z"),
        ("at", "2024-03-01T25:00:00Z"), ("at", "2024-03-01T12:00:00.1234567Z"), ("at", "0000-01-01T00:00:00Z"), ("at", ""), ("at", []),
        ("price", "12,50"), ("price", "1.234"), ("price", "123456789.00"), ("price", "a"), ("price", True), ("price", {}), ("price", 1.234),
        ("tags", "a"), ("tags", {"a": 1}), ("tags", 5), ("tags", True),
        ("of", []), ("of", "a"), ("of", {"a": "1"}), ("of", {"a": 1.5}), ("of", 5), ("of", {"a": {"b": 1}}),
        ("to", []), ("to", "Rome"), ("to", 5), ("to", {"zip": "5"}), ("to", {"zip": 2**31}), ("to", {"zip": 5.5}),
        ("ok", 1), ("ok", "true"), ("ok", 0), ("ok", []), ("x", "0.5"), ("x", True), ("x", []), ("x", {}),
    ]),
]  # fmt: skip
GOOD = bare({"id": 1, "note": "a"})
BYTES: list[tuple[str, bytes]] = [
    ("empty", b""), ("one zero", b"\0"), ("prefix cut", b"\0\0\0\0"), ("prefix alone", framed(b"")),
    ("magic byte 1", b"\x01" + framed(GOOD)[1:]), ("magic byte {", GOOD), ("two prefixes", framed(framed(GOOD))),
    ("id 0", framed(GOOD, 0)), ("an id of nobody", framed(GOOD, 9)), ("the largest id", framed(GOOD, 2**32 - 1)),
    ("truncated", framed(GOOD[:-1])), ("truncated in a text", framed(GOOD[:-3])), ("one brace", framed(b"{")),
    ("more behind", framed(GOOD + b"!")), ("two objects", framed(GOOD + GOOD)), ("array", framed(b"[1]")), ("text", framed(b'"a"')),
    ("number", framed(b"5")), ("blank", framed(b"  ")), ("no UTF-8", framed(b'{"id": 1, "note": "\xff"}')),
    ("mark", framed(b"\xef\xbb\xbf" + GOOD)), ("UTF-16", framed(GOOD.decode().encode("utf-16"))), ("single quotes", framed(b"{'id': 1}")),
    ("bare name", framed(b"{id: 1}")), ("NaN", framed(b'{"id": 1, "x": NaN}')), ("leading zero", framed(b'{"id": 01}')),
    ("plus", framed(b'{"id": +1}')), ("comma", framed(b'{"id": 1,}')), ("comment", framed(b'{"id": 1 /* */}')),
    ("half a pair", framed(b'{"id": 1, "note": "\\ud800"}')), ("control", framed(b'{"id": 1, "note": "a\nb"}')), ("deep", framed(b'{"id": 1, "more": ' + b"[" * 2000 + b"]" * 2000 + b"}")),
    ("key twice in a map", framed(b'{"id": 1, "of": {"a": 1, "a": 2}}')), ("zero byte", framed(b'{"id": 1}\0')),
    ("Protobuf", framed(b"\0\x08\x01")), ("Avro", framed(b"\x02\x02a")), ("message indexes", framed(b"\0" + GOOD)),
    ("Connect's wrapper", framed(b'{"schema": null, "payload": {"id": 1}}')),
]  # fmt: skip


def test_there_are_seventy_ways() -> None:
    assert len(WAYS) + len(BYTES) >= 70


@pytest.mark.parametrize(("way", "wrong"), WAYS, ids=[way for way, _ in WAYS])
def test_a_value_of_another_sort_refuses_its_record_alone(way: str, wrong: dict[str, Any]) -> None:
    how, good = JsonSchema(DDL), framed(bare({"id": 1}))
    found = told(how, [good, framed(bare({"id": 1, **wrong})), good])
    assert found[0] == found[2] == told(how, [good])[0]
    value, error = found[1]
    assert (value, bool(error)) == (None, True), way
    assert found[1] == told(Json(DDL), [bare({"id": 1, **wrong})])[0]


@pytest.mark.parametrize(("way", "raw"), BYTES, ids=[way for way, _ in BYTES])
def test_bytes_that_are_no_record(way: str, raw: bytes) -> None:
    good = framed(bare({"id": 1}))
    found = told(JsonSchema(DDL), [good, raw, good, None])
    assert found[0] == found[2] == told(JsonSchema(DDL), [good])[0]
    assert found[3] == (None, None)
    value, error = found[1]
    assert (value, bool(error)) == (None, True), way


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", UNFRAMED),
        (b"\0\0\0\0", UNFRAMED),
        (b'{"id": 1}', UNFRAMED),
        (framed(b""), "not a JSON object"),
        (framed(b'{"id": 1}', 7), UNKNOWN.format(7)),
        (framed(b'{"id": 1}', 2**32 - 1), UNKNOWN.format(2**32 - 1)),
        (framed(b'{"id": "1"}'), 'id: "1" is no bigint'),
        (framed(b'{"id": "1"'), f"does not fit {DDL}"),
        (framed(b'{"id": 1, "price": "1,5"}'), 'price: "1,5" is no decimal(10, 2)'),
        (framed(b"{}"), "id: null or missing, but declared not null"),
    ],
)
def test_the_reason(raw: bytes, message: str) -> None:
    assert told(JsonSchema(DDL), [raw]) == [(None, message)]


@pytest.mark.parametrize("seed", range(40))
def test_broken_records_are_refused_or_read_as_json_reads_them(seed: int) -> None:
    by = random.Random(seed)
    good = [bare(some(by)) for _ in range(80)]
    bad = [broken(by, by.choice(good)) for _ in good]
    mixed = [framed(one) for pair in zip(good, bad, strict=True) for one in pair]
    found = told(JsonSchema(DDL), mixed)
    assert found[::2] == told(Json(DDL), good)
    assert found[1::2] == told(Json(DDL), bad)
    for value, error in found:
        assert (value is None) == (error is not None)


def broken(by: random.Random, raw: bytes) -> bytes:
    at = by.randrange(len(raw))
    return by.choice(
        [
            raw[:at],
            raw[:at] + by.randbytes(by.choice([1, 2, 9])) + raw[at:],
            raw[:at] + raw[at + by.choice([1, 3]) :],
            raw[:at] + bytes([raw[at] ^ 1 << by.randrange(8)]) + raw[at + 1 :],
            by.randbytes(by.randrange(40)) or b"-",
        ]
    )


def test_ids_that_are_known_are_read_and_others_asked_for() -> None:
    how = JsonSchema("id bigint")
    raw = pa.array([framed(b'{"id": 1}', one) for one in (7, 8, 0)] + [None], pa.binary())
    found = how.knowing({7: ("{}",), 8: None}, strict=True).decode(raw)
    assert found.values.to_pylist() == [{"id": 1}, None, None, None]
    assert found.errors.to_pylist() == [None, UNKNOWN.format(8), UNKNOWN.format(0), None]
    with pytest.raises(UnknownIds) as asked:
        how.knowing({8: None}, strict=True).decode(raw)
    assert asked.value.ids == [7]
    with pytest.raises(UnknownIds):
        how.knowing({}, strict=True).decode(raw)
    assert isinstance(how, RegistryFormat)
    other = with_known_schemas(how, {7: Written("AVRO", ('"long"',)), 8: Written(JSON, ("{}",))}, strict=False)
    assert other.decode(raw).values.to_pylist() == [None, {"id": 1}, None, None]
    sliced = pa.array([b"", framed(b'{"id": 1}'), b""]).slice(1, 1)
    assert how.decode(sliced).values.to_pylist() == [{"id": 1}]
    assert len(how.decode(pa.array([], pa.binary())).values) == 0


def test_values_and_words() -> None:
    one = JsonSchema("id bigint", subject="shop-value", register=True)
    assert one == JsonSchema("id bigint", subject="shop-value", register=True) == one.knowing({7: ("{}",)}, strict=True)
    assert one != JsonSchema("id bigint")
    assert hash(one) == hash(one.knowing({}, strict=True))
    assert isinstance(one, Format) and isinstance(one, WritableFormat)  # noqa: PT018
    assert pickle.loads(pickle.dumps(one.knowing({7: ("{}",)}, strict=True)))._known == ((7, True),)
    assert one.describe() == "json_schema of shop-value(id bigint)"
    given = json.dumps({"type": "object", "properties": {"id": {"type": "integer"}}})
    assert JsonSchema(given).describe() == JsonSchema(given.replace(" ", "")).describe()
    assert JsonSchema(given).registered == Written(JSON, (given,))
    raw = encode({"id": 5}, one)
    assert raw == framed(b'{"id": 5}')
    assert told(one, [raw]) == [({"id": 5}, None)]
    with pytest.raises(InvalidOption):
        encode("a", one)


def test_what_cannot_be_written_is_refused_before_a_run() -> None:
    with pytest.raises(InvalidFormat, match="read only"):
        JsonSchema("at timestamp_ms").write(None)  # type: ignore[arg-type]
    both = {"a": {"type": ["string", "null"]}, "b": {"type": "string"}}
    with pytest.raises(InvalidFormat, match="read only"):
        JsonSchema(json.dumps({"type": "object", "properties": both, "required": ["a"]})).write(None)  # type: ignore[arg-type]
