"""Any schema and any bytes: what is read is what the judge reads, what is broken is refused, and harms no other record."""

from __future__ import annotations

import datetime as dt
import json
import random
import string
import sys
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from tests.formats.avro.judge import framed, judged, read, written
from tests.formats.cases import told

from lakestreams import RegistryAvro
from lakestreams.errors import InvalidFormat
from lakestreams.formats.avro import encode
from lakestreams.formats.avro.decode import Decoder, UnknownIds
from lakestreams.formats.avro.schema import parse
from lakestreams.formats.writers import AVRO, Written, with_known_schemas

UTC = dt.timezone.utc  # noqa: UP017 - `dt.UTC` reads worse beside datetime
PLAIN = ("boolean", "int", "long", "float", "double", "bytes", "string")
LOGICAL = (
    {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 3},
    {"type": "int", "logicalType": "date"},
    {"type": "long", "logicalType": "timestamp-millis"},
    {"type": "long", "logicalType": "timestamp-micros"},
    {"type": "long", "logicalType": "local-timestamp-micros"},
)


class Some:
    """Schemas and values by chance."""

    def __init__(self, seed: int) -> None:
        self.by = random.Random(seed)
        self.names = 0

    def name(self) -> str:
        self.names += 1
        return f"N{self.names}"

    def schema(self, deep: int) -> Any:
        kind = self.by.choice(
            ["plain", "plain", "logical", "enum", "fixed", "array", "map", "record", "nullable", "union"]
        )
        if deep == 0 or kind == "plain":
            return self.by.choice(PLAIN)
        if kind == "logical":
            return dict(self.by.choice(LOGICAL))
        if kind == "enum":
            return {"type": "enum", "name": self.name(), "symbols": ["A", "B", "C"]}
        if kind == "fixed":
            return {"type": "fixed", "name": self.name(), "size": self.by.choice([0, 1, 7, 40])}
        if kind == "array":
            return {"type": "array", "items": self.schema(deep - 1)}
        if kind == "map":
            return {"type": "map", "values": self.schema(deep - 1)}
        if kind == "record":
            return self.record(deep - 1)
        if kind == "nullable":
            one = self.schema(deep - 1)
            return one if isinstance(one, list) else self.by.choice([["null", one], [one, "null"]])
        return ["null", "string", "long", {"type": "map", "values": "int"}]

    def record(self, deep: int) -> dict[str, Any]:
        fields = [{"name": f"f{place}", "type": self.schema(deep)} for place in range(self.by.randint(1, 4))]
        return {"type": "record", "name": self.name(), "fields": fields}

    def value(self, schema: Any) -> Any:
        """A value, as columns have it; a union's branch is told by the type of the value."""
        by = self.by
        if isinstance(schema, list):
            return self.value(by.choice(schema))
        kind = schema["type"] if isinstance(schema, dict) else schema
        if isinstance(schema, dict) and "logicalType" in schema:
            return self.logical(schema["logicalType"])
        if kind == "record":
            return {one["name"]: self.value(one["type"]) for one in schema["fields"]}
        if kind == "array":
            return [self.value(schema["items"]) for _ in range(by.choice([0, 1, 3]))]
        if kind == "map":
            return {by.choice(string.ascii_letters): self.value(schema["values"]) for _ in range(by.choice([0, 1, 3]))}
        return {
            "null": lambda: None,
            "boolean": lambda: by.random() < 0.5,
            "int": lambda: by.choice([0, -1, 63, 64, -(2**31), 2**31 - 1]),
            "long": lambda: by.choice([0, -64, -65, 2**35, -(2**63), 2**63 - 1]),
            "float": lambda: by.choice([0.0, 0.5, -1.25]),
            "double": lambda: by.choice([0.1, -1e300]),
            "bytes": lambda: by.randbytes(by.choice([0, 1, 5])),
            "string": lambda: by.choice(["", "a", "Grüße", "\U0001f600", "x" * 200]),
            "enum": lambda: by.choice(schema["symbols"]),
            "fixed": lambda: by.randbytes(schema["size"]),
        }[kind]()

    def logical(self, name: str) -> Any:
        day = dt.date(1, 1, 1) + dt.timedelta(days=self.by.randrange(3_652_000))
        if name == "decimal":
            return Decimal(self.by.randrange(-(10**20) + 1, 10**20)).scaleb(-3)
        if name == "date":
            return day
        at = dt.datetime(day.year, day.month, day.day, 1, 2, 3, self.by.randrange(1000) * 1000, UTC)
        return at.replace(tzinfo=None) if name.startswith("local") else at


def as_column(schema: Any, value: Any) -> Any:
    """What the judge reads, as the column has it: of unions of several types the branch is a member."""
    if isinstance(schema, list):
        others = [one for one in schema if one != "null"]
        if len(others) == 1 or value is None:
            return None if value is None else as_column(others[0], value)
        own = {str: "string", int: "long", dict: "map"}[type(value)]
        return {"string": None, "long": None, "map": None} | {own: value}
    kind = schema["type"] if isinstance(schema, dict) else schema
    if kind == "record":
        return {one["name"]: as_column(one["type"], value[one["name"]]) for one in schema["fields"]}
    if kind == "array":
        return [as_column(schema["items"], one) for one in value]
    if kind == "map":
        return {key: as_column(schema["values"], one) for key, one in value.items()}
    return value


@pytest.mark.parametrize("seed", range(60))
def test_what_the_judge_writes_and_reads(seed: int) -> None:
    some = Some(seed)
    schema = some.record(3)
    raw = [written(schema, some.value(schema)) for _ in range(7)]
    want = [(as_column(schema, judged(one, schema)), None) for one in raw]
    assert read(schema, {1: schema}, [framed(one) for one in raw]) == want


@pytest.mark.parametrize("seed", range(60, 90))
def test_what_is_written_the_judge_reads(seed: int) -> None:
    some = Some(seed)
    schema = some.record(3)
    write = encode.writer_of(parse(json.dumps(schema)))
    for _ in range(5):
        want = as_column(schema, some.value(schema))
        out = bytearray()
        write(want, out)
        assert as_column(schema, judged(bytes(out), schema)) == want
        assert read(schema, {1: schema}, [framed(bytes(out))]) == [(want, None)]


def shown(value: Any) -> str:
    """Of text, since NaN is no NaN."""
    return repr(value).replace("zoneinfo.ZoneInfo(key='UTC')", "datetime.timezone.utc")


def broken(by: random.Random, raw: bytes) -> bytes:
    """The bytes with something wrong, mostly."""
    way = by.randrange(6)
    at = by.randrange(len(raw) + 1)
    if way == 0:
        return raw[:at]
    if way == 1:
        return raw[:at] + by.randbytes(by.choice([1, 2, 9])) + raw[at:]
    if way == 2:
        return raw[:at] + raw[at + by.choice([1, 3]) :]
    if way == 3 and raw:
        at = min(at, len(raw) - 1)
        return raw[:at] + bytes([raw[at] ^ 1 << by.randrange(8)]) + raw[at + 1 :]
    if way == 4:
        return raw[:at] + by.choice([b"\xff" * 12, b"\x80" * 9 + b"\x01", b"\xfe\xff\xff\xff\x0f"]) + raw[at:]
    return by.randbytes(by.randrange(40))


@pytest.mark.parametrize("seed", range(70))
def test_broken_records_are_refused_or_read_as_the_judge_reads_them(seed: int) -> None:
    some = Some(seed)
    schema = some.record(3)
    good = [written(schema, some.value(schema)) for _ in range(20)]
    bad = [broken(some.by, some.by.choice(good)) for _ in range(20)]
    mixed = [framed(one) for pair in zip(good, bad, strict=True) for one in pair]
    found = read(schema, {1: schema}, mixed)
    assert found[::2] == read(schema, {1: schema}, [framed(one) for one in good])
    for raw, (value, error) in zip(bad, found[1::2], strict=True):
        assert (value is None) == (error is not None)
        try:
            want = judged(raw, schema)
        except Exception:  # noqa: BLE001 - whatever it raises, it refuses the record
            assert error is not None, raw
            continue
        if error is None:
            assert shown(value) == shown(as_column(schema, want)), raw
        else:  # what we refuse and the judge reads, and why
            allowed = (
                "64 bits",
                "no int",
                "of a year 1 to 9999",
                "a key twice",
                "no decimal",
                "neither 0 nor 1",
                "items,",
                "symbol -",  # the judge counts from behind
                "branch -",
            )
            assert any(one in error for one in allowed), (error, raw)


LONGS = {"type": "record", "name": "R", "fields": [{"name": "n", "type": {"type": "array", "items": "long"}}]}
TEXT = {"type": "record", "name": "R", "fields": [{"name": "s", "type": "string"}]}
NULLS = {"type": "record", "name": "R", "fields": [{"name": "n", "type": {"type": "array", "items": "null"}}]}


@pytest.mark.parametrize(
    ("schema", "raw", "message"),
    [
        (TEXT, b"", "no registry prefix (0x00 and four bytes) before the record"),
        (TEXT, b"\0\0\0\0", "no registry prefix (0x00 and four bytes) before the record"),
        (TEXT, b'{"s": "a"}', "no registry prefix (0x00 and four bytes) before the record"),
        (TEXT, framed(b""), "s: the record ends within it"),
        (TEXT, framed(b"\x04a"), "s: string of 2 bytes, 1 left"),
        (TEXT, framed(b"\x03a"), "s: string of -2 bytes, 1 left"),
        (TEXT, framed(b"\xd4\xff\xff\xff\x0fa"), "s: string of 2147483626 bytes, 1 left"),
        (TEXT, framed(b"\xfe" + b"\xff" * 8 + b"\x01abc"), "s: string of 9223372036854775807 bytes, 3 left"),
        (TEXT, framed(b"\x02ab"), "1 bytes behind the record"),
        (TEXT, framed(b"\x02\xff"), "s: not valid UTF-8"),
        (TEXT, framed(b"\xff" * 11), "s: a number of more than 64 bits"),
        (LONGS, framed(b"\x02"), "n: 1 items, 0 left"),
        (LONGS, framed(b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00"), "n: 9223372036854775807 items, 1 bytes left"),
        (LONGS, framed(b"\x02" + b"\xff" * 9), "n[]: the record ends within it"),
        (LONGS, framed(b"\x02\x80"), "n[]: the record ends within it"),
        (LONGS, framed(b"\x01\x02\x02"), "n: the record ends within it"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, framed(b"\x02"), "value: symbol 1 of 1"),
        (["null", "int"], framed(b"\x04\x02"), "value: branch 2 of 2"),
        ("boolean", framed(b"\x02"), "value: a boolean that is neither 0 nor 1"),
        ("int", framed(b"\x80\x80\x80\x80\x10"), "value: 2147483648 is no int"),
    ],
)  # fmt: skip
def test_the_reason(schema: Any, raw: bytes, message: str) -> None:
    ((value, error),) = read(schema, {1: schema}, [raw])
    assert value is None
    assert error in (message, message.replace(" left", " bytes left"))


MOST = b"\xfe" + b"\xff" * 8 + b"\x01"  # 2 ** 63 - 1, to which nothing can be added


@pytest.mark.parametrize(
    "kind", ["string", "bytes", {"type": "array", "items": "string"}, {"type": "map", "values": "int"}]
)
@pytest.mark.parametrize("declared", [True, False])
def test_a_size_that_no_sum_holds_harms_no_other_record(kind: Any, declared: bool) -> None:
    schema = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "f", "type": kind}, {"name": "z", "type": "int", "default": 0}],
    }
    reader = schema if declared else {**schema, "fields": schema["fields"][1:]}
    value = {"string": "a", "bytes": b"a"}[kind] if isinstance(kind, str) else ["a"] if "items" in kind else {"a": 1}
    good = framed(written(schema, {"f": value, "z": 7}))
    blocks = b"" if isinstance(kind, str) else b"\x02"
    bad = framed(blocks + MOST + b"abc")
    found = read(reader, {1: schema}, [good, bad, good])
    assert [error is None for _, error in found] == [True, False, True]
    assert found[0] == found[2] == ({"f": value, "z": 7} if declared else {"z": 7}, None)
    assert str(found[1][1]).endswith("of 9223372036854775807 bytes, 3 left")


@pytest.mark.parametrize("behind", [b"", b"\xff" * 20, b"\x01" * 20, b"\x80" * 20])
def test_a_number_that_a_record_ends_within_says_nothing_of_the_next_record(behind: bytes) -> None:
    kind = parse('"long"')
    for size in range(10):
        raw = pa.array([b"\xff" * size, behind, b"\x0a"], pa.binary())
        found = Decoder(kind, "id", {None: kind}).decode(raw)
        assert found.errors.to_pylist()[::2] == ["value: the record ends within it", None]
        assert found.values.to_pylist()[::2] == [None, {"id": 5}]


def test_blocks_with_their_size_as_java_writes_them_at_times() -> None:
    raw = b"\x03\x04\x02\x04" + b"\x02\x06" + b"\x00"  # two items of two bytes, one item, the end
    assert read(LONGS, {1: LONGS}, [framed(raw)]) == [({"n": [1, 2, 3]}, None)]


def test_long_arrays_and_a_bomb_of_nothing() -> None:
    numbers = list(range(-500, 500))
    raw = framed(written(LONGS, {"n": numbers}))
    assert read(LONGS, {1: LONGS}, [raw, framed(b"\x00")]) == [({"n": numbers}, None), ({"n": []}, None)]
    less = {**NULLS, "fields": [{"name": "z", "type": "int", "default": 1}]}
    ((_, error),) = read(less, {1: NULLS}, [framed(b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00")])
    assert error is not None
    assert error.startswith("n: 9223372036854775807 items")


def nesting(levels: int) -> dict[str, Any]:
    """A record with a field of lists in lists, which nobody reads."""
    kind: Any = "int"
    for _ in range(levels):
        kind = {"type": "array", "items": kind}
    return {"type": "record", "name": "R", "fields": [{"name": "f", "type": kind}, {"name": "z", "type": "int"}]}


Z = {"type": "record", "name": "R", "fields": [{"name": "z", "type": "int"}]}
TREE = {"type": "record", "name": "T", "fields": [{"name": "kids", "type": {"type": "array", "items": "T"}}]}


def test_what_nests_deeply_is_passed_over_or_refused() -> None:
    def reads(writer: Any, body: bytes) -> tuple[Any, str | None]:
        texts = tuple(map(json.dumps, writer)) if isinstance(writer, list) else (json.dumps(writer),)
        how = with_known_schemas(RegistryAvro(json.dumps(Z)), {1: Written(AVRO, texts)}, strict=True)
        (found,) = told(how, [framed(body)])
        return found

    tree = {**Z, "fields": [{"name": "f", "type": TREE}, *Z["fields"]]}
    for levels, writer in ((90, nesting(90)), (63, tree)):
        assert reads(writer, b"\2" * levels + (b"" if writer is tree else b"\2") + b"\0" * (levels + (writer is tree)) + b"\2") == ({"z": 1}, None)  # fmt: skip
    for levels in (65, 1_000, 100_000):
        body = b"\2" * levels + b"\0" * (levels + 1) + b"\2"
        assert reads(tree, body) == (None, "f: nests deeper than 128 levels")
    for levels in (101, 300):
        said = "schema 1 cannot be used: the Avro schema cannot be used: it nests deeper than 100 levels"
        assert reads(nesting(levels), b"\2") == (None, said)
    chain = [{"type": "record", "name": "N0", "fields": [{"name": "a", "type": "int"}]}]
    chain += [{"type": "record", "name": f"N{one}", "fields": [{"name": "a", "type": f"N{one - 1}"}]} for one in range(1, 1_000)]  # fmt: skip
    chain.append({**Z, "fields": [{"name": "f", "type": "N999"}, *Z["fields"]]})  # types of other subjects
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(1_000)  # as in a worker; some library raises it
    try:
        assert reads(chain, b"\2\2") == (None, "schema 1 cannot be used: its types nest too deeply")
    finally:
        sys.setrecursionlimit(limit)


def test_values_that_are_no_records() -> None:
    assert read("long", {1: "int"}, [framed(b"\x0a"), None]) == [({"value": 5}, None), (None, None)]
    assert read(["null", "string"], {1: ["null", "string"]}, [framed(b"\x02\x02a"), framed(b"\x00")]) == [
        ({"value": "a"}, None),
        (None, None),
    ]
    assert read(["null", TEXT], {1: ["null", TEXT]}, [framed(b"\x02\x02a"), framed(b"\x00")]) == [
        ({"s": "a"}, None),
        (None, None),
    ]


def test_uuids_and_durations() -> None:
    uuid = {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}
    raw = framed(bytes(range(16)))
    assert read(uuid, {1: uuid}, [raw]) == [({"value": "00010203-0405-0607-0809-0a0b0c0d0e0f"}, None)]
    out = bytearray()
    encode.writer_of(parse(json.dumps(uuid)))("00010203-0405-0607-0809-0a0b0c0d0e0f", out)
    assert framed(bytes(out)) == raw


def test_without_a_prefix_and_ids_that_nobody_knows() -> None:
    kind = parse('"long"')
    bare = Decoder(kind, "id", {None: kind}).decode(pa.array([b"\x0a", b"\x0a\x0a", None], pa.binary()))
    assert bare.values.to_pylist() == [{"id": 5}, None, None]
    assert bare.errors.to_pylist() == [None, "1 bytes behind the record", None]
    with pytest.raises(UnknownIds) as told:
        Decoder(kind, "id", {1: kind}).decode(pa.array([framed(b"\x0a", one) for one in (9, 1, 7, 9)]))
    assert told.value.ids == [7, 9]
    sliced = pa.array([b"", framed(b"\x0a"), framed(b"\x0c"), b""]).slice(1, 2)
    assert Decoder(kind, "id", {1: kind}).decode(sliced).values.to_pylist() == [{"id": 5}, {"id": 6}]
    empty = Decoder(kind, "id", {1: kind}).decode(pa.array([], pa.binary()))
    assert len(empty.values) == len(empty.errors) == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "no JSON"),
        ('"strin"', "'strin' is not defined"),
        ('{"type": "record", "name": "R"}', "has no fields"),
        ('{"type": "record", "name": "1R", "fields": []}', "is no name"),
        ('{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}, {"name": "a", "type": "int"}]}', "'a' twice"),
        ('["int", "int"]', "int twice"),
        ('["int", ["null"]]', "union directly inside"),
        ("[]", "union of nothing"),
        ('{"type": "enum", "name": "E", "symbols": ["A", "A"]}', "symbols"),
        ('{"type": "enum", "name": "E", "symbols": ["A"], "default": "B"}', "its default"),
        ('{"type": "fixed", "name": "F", "size": "4"}', "size"),
        ("5", "is no type"),
        ('{"type": "record", "name": "R", "fields": 5}', "5 is no list of fields"),
    ],
)  # fmt: skip
def test_a_text_that_is_no_schema(text: str, message: str) -> None:
    with pytest.raises(InvalidFormat, match=message):
        parse(text)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"type": "record", "name": "R", "fields": [{"name": "n", "type": "null"}]}, "null alone"),
        ({"type": "record", "name": "R", "fields": [{"name": "r", "type": ["null", "R"]}]}, "inside of itself"),
        ({"type": "record", "name": "R", "fields": []}, "without fields"),
        ({"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}, {"name": "A", "type": "int"}]}, "a twice"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 39, "scale": 2}, "decimal"),
    ],
)  # fmt: skip
def test_a_schema_that_is_no_columns(schema: Any, message: str) -> None:
    with pytest.raises(InvalidFormat, match=message):
        Decoder(parse(json.dumps(schema)), "value", {})


def test_ids_that_no_registry_gives_are_not_asked_for() -> None:
    raw = pa.array([framed(b"\x0a", one) for one in (0, 2**31, 2**32 - 1)])
    found = Decoder(parse('"long"'), "id", {1: parse('"long"')}).decode(raw)
    assert found.errors.to_pylist() == [
        f"schema {one}: the registry has no Avro schema of this id" for one in (0, 2**31, 2**32 - 1)
    ]


def test_a_name_comes_before_another_ones_alias() -> None:
    def record(*fields: dict[str, Any]) -> dict[str, Any]:
        return {"type": "record", "name": "R", "fields": list(fields)}

    writer = record({"name": "a", "type": "int"}, {"name": "b", "type": "int"})
    reader = record({"name": "a", "type": "int"}, {"name": "c", "type": "int", "aliases": ["a"], "default": 9})
    assert read(reader, {1: writer}, [framed(b"\x02\x04")]) == [({"a": 1, "c": 9}, None)]


def test_references_and_names() -> None:
    address = (
        '{"type": "record", "name": "Address", "namespace": "shop", "fields": [{"name": "city", "type": "string"}]}'
    )
    order = '{"type": "record", "name": "shop.Order", "fields": [{"name": "to", "type": "Address"}, {"name": "by", "type": "shop.Address"}]}'
    kind = parse(order, [address])
    found = Decoder(kind, "value", {None: kind}).decode(pa.array([b"\x02a\x02b"]))
    assert found.values.to_pylist() == [{"to": {"city": "a"}, "by": {"city": "b"}}]
