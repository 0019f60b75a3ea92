"""Which type becomes which column, and that values are what the library writes and reads."""

from __future__ import annotations

import datetime as dt
import math
import random
from decimal import Decimal
from typing import Any

import pytest
from tests.formats.protobuf.judge import judged, kind, read, written
from tests.formats.protobuf.schemas import ALL, TWO

from lakestreams.errors import InvalidFormat
from lakestreams.formats import Protobuf
from lakestreams.formats.protobuf.compiling import File, files_of

ITEM = (
    "struct<sku: string not null, n: bigint not null, tags: array<string> not null, deep: struct<ok: boolean not null>>"
)
COLUMNS = {
    "a_double": "double not null", "a_float": "float not null", "an_int32": "int not null", "an_int64": "bigint not null",
    "a_uint32": "bigint not null", "a_uint64": "decimal(20,0) not null", "a_sint32": "int not null", "a_sint64": "bigint not null",
    "a_fixed32": "bigint not null", "a_fixed64": "decimal(20,0) not null", "a_sfixed32": "int not null",
    "a_sfixed64": "bigint not null", "a_bool": "boolean not null", "a_string": "string not null", "a_bytes": "binary not null",
    "state": "string not null", "maybe_int": "int", "maybe_text": "string", "maybe_state": "string", "maybe_bool": "boolean",
    "ints": "array<int> not null", "wide": "array<bigint> not null", "texts": "array<string> not null",
    "states": "array<string> not null", "items": f"array<{ITEM}> not null", "doubles": "array<double> not null",
    "fixed": "array<decimal(20,0)> not null", "counts": "map<string, bigint> not null", "names": "map<string, string> not null",
    "by_bool": f"map<string, {ITEM}> not null", "by_state": "map<string, string> not null", "text": "string", "number": "bigint",
    "item": ITEM, "one": ITEM, "at": "timestamp", "took": "struct<seconds: bigint not null, nanos: int not null>", "day": "date",
    "wrapped_int": "int", "wrapped_text": "string", "wrapped_bool": "boolean", "wrapped_wide": "decimal(20,0)",
    "wrapped_double": "double", "wrapped_bytes": "binary", "times": "array<timestamp> not null", "wraps": "array<bigint> not null",
    "at_of": "map<string, timestamp> not null",
}  # fmt: skip


def test_a_type_and_its_column() -> None:
    assert {one.name: one.member.declared for one in Protobuf(ALL, "All").fields} == COLUMNS
    assert {one.name: one.member.declared for one in Protobuf(TWO).fields} == {
        "id": "bigint not null",
        "note": "string",
        "n": "int not null",
        "state": "string",
        "known": "string not null",
        "loose": "array<int> not null",
        "tight": "array<int> not null",
        "ok": "boolean not null",
        "text": "string not null",
        "raw": "binary not null",
        "x": "double not null",
        "wide": "decimal(20,0) not null",
        "in": "struct<a: int, b: int>",
        "of": "map<string, struct<a: int, b: int>> not null",
    }


def item(by: random.Random) -> dict[str, Any]:
    found: dict[str, Any] = {"sku": by.choice(["", "a"]), "n": by.choice([0, -5]), "tags": by.choice([[], ["x", ""]])}
    return found | ({"deep": {"ok": by.random() < 0.5}} if by.random() < 0.5 else {})


def some(by: random.Random) -> dict[str, Any]:
    """Values of `All` as the library takes them, some of them left out."""
    at = kind(ALL, "google.protobuf.Timestamp")(
        seconds=by.randrange(-(10**10), 10**11), nanos=by.randrange(10**6) * 1000
    )
    day = kind(ALL, "google.type.Date")(year=by.randrange(1, 9999), month=by.randrange(1, 13), day=by.randrange(1, 29))
    items, one = kind(ALL, "shop.Item"), by.choice
    wide, wide64, plain = (
        [0, 1, -1, 2**31 - 1, -(2**31)],
        [0, 1, -1, 2**63 - 1, -(2**63)],
        ["", "a", "Grüße", "\U0001f600"],
    )

    def wrapped(name: str, value: Any) -> Any:
        return kind(ALL, f"google.protobuf.{name}Value")(value=value)

    values = {
        "a_double": one([0.0, 0.1, -1e300, math.inf]), "a_float": one([0.0, 0.5, -1.25]), "an_int32": one(wide), "an_int64": one(wide64),
        "a_uint32": one([0, 2**32 - 1]), "a_uint64": one([0, 2**64 - 1]), "a_sint32": one(wide), "a_sint64": one(wide64),
        "a_fixed32": one([0, 2**32 - 1]), "a_fixed64": one([0, 2**64 - 1]), "a_sfixed32": one(wide), "a_sfixed64": one(wide64),
        "a_bool": one([True, False]), "a_string": one(plain), "a_bytes": by.randbytes(one([0, 3])), "state": one([0, 1, -1, 77]),
        "maybe_int": one(wide), "maybe_text": one(plain), "maybe_state": one([0, 1]), "maybe_bool": one([True, False]),
        "ints": one([[], wide]), "wide": one([[], wide64]), "texts": one([[], plain]), "states": one([[], [0, 1, -1]]),
        "items": [items(**item(by)) for _ in range(one([0, 2]))], "doubles": one([[], [0.5, 0.0]]), "fixed": one([[], [2**64 - 1, 0]]),
        "counts": one([{}, {"b": 1, "a": 0, "": -1}]), "names": one([{}, {-1: "x", 300: "", 2: "y"}]),
        "by_bool": one([{}, {True: items(**item(by)), False: items()}]), "by_state": one([{}, {"a": 1, "b": 0}]),
        **dict([one([("text", one(plain)), ("number", one(wide64)), ("item", items(**item(by)))])]),
        "one": items(**item(by)), "at": at, "took": kind(ALL, "google.protobuf.Duration")(seconds=-5, nanos=-1), "day": day,
        "wrapped_int": wrapped("Int32", one(wide)), "wrapped_text": wrapped("String", one(plain)), "wrapped_bool": wrapped("Bool", True),
        "wrapped_wide": wrapped("UInt64", 2**64 - 1), "wrapped_double": wrapped("Double", 0.0), "wrapped_bytes": wrapped("Bytes", b"\0"),
        "times": one([[], [at]]), "wraps": one([[], [wrapped("Int64", 0), wrapped("Int64", -5)]]), "at_of": one([{}, {"x": at}]),
    }  # fmt: skip
    return {name: value for name, value in values.items() if by.random() < 0.7}


@pytest.mark.parametrize("seed", range(30))
def test_what_the_library_writes_and_reads(seed: int) -> None:
    by, how = random.Random(seed), Protobuf(ALL, "All")
    raw = [written(ALL, "shop.All", **some(by)) for _ in range(4)]
    rows = [judged(ALL, "shop.All", one) for one in raw]
    assert read(how, list(raw)) == [(one, None) for one in rows]
    for one, bytes_of_library in zip(rows, raw, strict=True):
        ours = how.encoded(one)
        assert judged(ALL, "shop.All", ours) == one
        assert how.encoded(dict(reversed(one.items()))) == ours
        if all(
            len(one[name]) < 2 for name in ("counts", "names", "by_bool", "by_state")
        ):  # entries have no order there
            assert ours == bytes_of_library


def test_proto2_has_defaults_and_what_must_be_there() -> None:
    how = Protobuf(TWO, "Two")
    raw = [written(TWO, "shop.Two", id=5), written(TWO, "shop.Two", id=0, n=0, loose=[1, -1], tight=[1, -1], of={"a": kind(TWO, "shop.Two.In")(b=1)})]  # fmt: skip
    first, second = read(how, list(raw))
    assert first == (judged(TWO, "shop.Two", raw[0]), None)
    told = [first[0][name] for name in ("n", "known", "ok", "text", "raw", "x", "wide", "note", "state", "in")]
    assert told == [-7, "PAID", True, 'a"b', b"\x01a", 1.5, Decimal(2**64 - 1), None, None, None]
    assert second == (judged(TWO, "shop.Two", raw[1]), None)
    assert read(how, [b""]) == [(None, "id: required, but missing")]
    assert read(how, [b"\x08\x05\xa0\x06\x01"]) == [first]  # an extension is passed over


def test_null_is_told_from_a_default() -> None:
    row, error = read(Protobuf(ALL, "All"), [b""])[0]
    assert (error, row) == (None, judged(ALL, "shop.All", b""))
    zeros = written(ALL, "shop.All", maybe_int=0, maybe_text="", maybe_bool=False, maybe_state=0, text="", wrapped_int=kind(ALL, "google.protobuf.Int32Value")())  # fmt: skip
    row, _ = read(Protobuf(ALL, "All"), [zeros])[0]
    assert [row[name] for name in ("maybe_int", "maybe_text", "maybe_bool", "maybe_state", "text", "wrapped_int")] == [
        0,
        "",
        False,
        "NEW",
        "",
        0,
    ]


HEAD = 'syntax = "proto3"; import "google/protobuf/struct.proto"; import "google/protobuf/empty.proto"; import "google/protobuf/any.proto"; '


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("message M { int66 id = 1; }", '"int66" is not defined'),
        ("message M { int32 id = 0; }", "Field numbers must be positive"),
        ("message M { int32 a = 1; int32 b = 1; }", "already been used"),
        ("message M { int32 a = 1 }", "Expected"),
        ("", "the schema has no message"),
        ("message M { int32 a = 1; } message N { int32 a = 1; }", "the schema has 2 messages: M, N"),
        ("message M {}", "message M without fields"),
        ("message M { M next = 1; }", "message M inside of itself"),
        ("message M { repeated N of = 1; message N { map<string, M> back = 1; } }", "message M inside of itself"),
        ("message M { google.protobuf.Struct any = 1; }", "message Struct inside of itself"),
        ("message M { google.protobuf.Empty none = 1; }", "message Empty without fields"),
        ("message M { int32 a = 1; int32 A = 2; }", "names a twice"),
        ("message M { int32 _ls_a = 1; }", "_ls_"),
        ('import "other.proto"; message M { int32 a = 1; }', "other.proto"),
    ],
)
def test_a_schema_that_is_no_columns(text: str, message: str) -> None:
    with pytest.raises(InvalidFormat) as told:
        Protobuf(HEAD + text)
    assert message in told.value.message
    assert "/tmp" not in told.value.message


def test_a_group_has_no_column_and_editions_are_not_read() -> None:
    with pytest.raises(InvalidFormat, match="group"):
        Protobuf('syntax = "proto2"; message M { optional group G = 1 { optional int32 a = 1; } }', "M")
    with pytest.raises(InvalidFormat, match="editions"):
        Protobuf('edition = "2023"; message M { int32 a = 1; }')


def test_which_message() -> None:
    text = 'syntax = "proto3"; package p; message M { message In { int32 b = 1; } int32 a = 1; } message N { M.In in = 1; }'
    assert [one.name for one in Protobuf(text, "In").fields] == ["b"]
    assert Protobuf(text, "p.M.In").type == Protobuf(text, "M.In").type
    with pytest.raises(InvalidFormat, match="no message 'O'"):
        Protobuf(text, "O")
    anything = Protobuf(HEAD + "message M { google.protobuf.Any any = 1; }")
    assert anything.fields[0].type == "struct<type_url: string, value: binary>"


def test_imports() -> None:
    base = 'syntax = "proto3"; package b; message Base { int32 a = 1; }'
    text = 'syntax = "proto3"; import "b/base.proto"; message M { b.Base base = 1; }'
    how = Protobuf(text, imports=(("b/base.proto", base),))
    assert how == Protobuf(text, imports={"b/base.proto": base})  # type: ignore[arg-type]
    assert read(how, [b"\x0a\x02\x08\x05"]) == [({"base": {"a": 5}}, None)]
    with pytest.raises(InvalidFormat, match="leads out"):
        Protobuf(text, imports=(("../base.proto", base),))
    for name in ("", "a\0.proto", "b", "x" * 300):
        with pytest.raises(InvalidFormat, match="no file's name"):
            Protobuf(text, imports=(("b/base.proto", base), (name, base)))


def test_the_files_of_a_schema_are_those_that_it_imports_each_behind_its_own() -> None:
    head = 'syntax = "proto3"; '
    money = head + 'import "google/type/date.proto"; message Money { int64 cents = 1; google.type.Date day = 2; }'
    item = head + 'import "shop/money.proto"; message Item { Money price = 1; }'
    order = head + 'import "shop/item.proto"; import "shop/money.proto"; import "google/protobuf/timestamp.proto"; message Order { Item item = 1; Money sum = 2; google.protobuf.Timestamp at = 3; }'  # fmt: skip
    other = head + "message Other { int32 a = 1; }"
    texts = ("shop/item.proto", item, "other.proto", other, "shop/money.proto", money, order)
    assert files_of(texts) == (
        File("shop/money.proto", money, ()),
        File("shop/item.proto", item, ("shop/money.proto",)),
        File("", order, ("shop/item.proto", "shop/money.proto")),
    )
    assert files_of((other,)) == (File("", other, ()),)


def test_what_a_row_does_not_name_has_its_default() -> None:
    how = Protobuf(ALL, "All")
    assert how.encoded({"an_int32": 5, "one": {"n": 1}}) == written(ALL, "shop.All", an_int32=5, one=kind(ALL, "shop.Item")(n=1))  # fmt: skip
    with pytest.raises(ValueError, match="id: required, but missing"):
        Protobuf(TWO, "Two").encoded({"note": "a"})


AT = dt.datetime(2024, 3, 1, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"an_int32": 2**31}, "an_int32: 2147483648 is no int32"),
        ({"a_uint64": Decimal(-1)}, "a_uint64: Decimal('-1') is no uint64"),
        ({"a_uint64": Decimal("1.5")}, "is no uint64"),
        ({"an_int64": "5"}, "an_int64: '5' is no int64"),
        ({"a_bool": 1}, "a_bool: 1 is no bool"),
        ({"a_string": 5}, "a_string: 5 is no str"),
        ({"a_bytes": 5}, "a_bytes: 5 is no bytes"),
        ({"a_double": "x"}, "a_double"),
        ({"state": "GONE"}, "state: 'GONE' is none of NEW, PAID, LOST"),
        ({"an_int32": None}, "an_int32: null, but the field has no presence"),
        ({"ints": [1, None]}, "ints: null, but a list and its items"),
        ({"ints": None}, "ints: null, but a list"),
        ({"counts": None}, "counts: null, but a map"),
        ({"counts": {"a": None}}, "counts: null under 'a'"),
        ({"text": "a", "number": 1}, "text, number, item: one of them at most"),
        ({"one": {"sku": "a", "n": 1, "tags": [], "deep": {"ok": None}}}, "one: deep: ok: null"),
    ],
)  # fmt: skip
def test_a_value_that_cannot_be_written(values: dict[str, Any], message: str) -> None:
    how = Protobuf(ALL, "All")
    row = judged(ALL, "shop.All", b"")
    with pytest.raises(ValueError) as told:
        how.encoded({**row, **values})
    assert message in str(told.value)
