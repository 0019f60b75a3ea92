"""Records that are broken: refused with a reason, each by itself, or read as the library reads them."""

from __future__ import annotations

import pickle
import random
from typing import Any

import pyarrow as pa
import pytest
from tests.formats.protobuf.judge import framed, is_same, judged, kind, read, written
from tests.formats.protobuf.schemas import ALL
from tests.formats.protobuf.test_types import some

from lakestreams.errors import InvalidOption
from lakestreams.formats import Format, Protobuf, RegistryProtobuf, WritableFormat
from lakestreams.formats.writers import PROTOBUF, RegistryFormat, UnknownIds, Written, with_known_schemas
from lakestreams.testing.encode import encode

MORE = b"\xff" * 10
ENDS = "the record ends within it"
LONG = "a number of more than 64 bits"
# Hexadecimal bytes of a record of `All`, and what is wrong with it.
WAYS = [
    ("08", "a_double: a number of varying length where the declared schema has 8 bytes"),
    ("09", f"a_double: {ENDS}"), ("0900000000000000", f"a_double: {ENDS}"), ("0d00000000", "a_double: 4 bytes where the declared schema has 8 bytes"),
    ("15", f"a_float: {ENDS}"), ("15000000", f"a_float: {ENDS}"), ("10", "a_float: a number of varying length where the declared schema has 4 bytes"),
    ("18", f"an_int32: {ENDS}"), ("1880", f"an_int32: {ENDS}"), ("188080808008", "an_int32: 2147483648 is no int32"),
    ("18ffffffff0f", "an_int32: 4294967295 is no int32"), ("18fffffffff7ffffffff01", "an_int32: -2147483649 is no int32"),
    ("18" + "ff" * 9 + "02", f"an_int32: {LONG}"), ("18" + "80" * 10 + "00", f"an_int32: {LONG}"), ("1a00", "an_int32: bytes with a length where the declared schema has a number of varying length"),
    ("1d00000000", "an_int32: 4 bytes where the declared schema has a number of varying length"), ("1900", "an_int32: 8 bytes where the declared schema has a number of varying length"),
    ("20", f"an_int64: {ENDS}"), ("20" + "ff" * 10, f"an_int64: {LONG}"), ("20" + "ff" * 9 + "7f", f"an_int64: {LONG}"), ("22", "an_int64: bytes with a length where the declared schema has a number of varying length"),
    ("288080808010", "a_uint32: 4294967296 is no uint32"), ("28" + "ff" * 9 + "01", "a_uint32: 18446744073709551615 is no uint32"),
    ("30" + "ff" * 9 + "03", f"a_uint64: {LONG}"), ("388080808010", "a_sint32: 2147483648 is no sint32"), ("388180808010", "a_sint32: -2147483649 is no sint32"),
    ("40" + "ff" * 9 + "7f", f"a_sint64: {LONG}"), ("4d0000", f"a_fixed32: {ENDS}"), ("48", "a_fixed32: a number of varying length where the declared schema has 4 bytes"),
    ("5100000000", f"a_fixed64: {ENDS}"), ("5d00", f"a_sfixed32: {ENDS}"), ("61", f"a_sfixed64: {ENDS}"),
    ("6802", "a_bool: a boolean that is neither 0 nor 1"), ("68" + "ff" * 9 + "01", "a_bool: a boolean that is neither 0 nor 1"), ("68", f"a_bool: {ENDS}"),
    ("72", f"a_string: {ENDS}"), ("7201", "a_string: 1 bytes, 0 left"), ("7205616263", "a_string: 5 bytes, 3 left"), ("7201ff", "a_string: not valid UTF-8"),
    ("7203eda080", "a_string: not valid UTF-8"), ("7202c080", "a_string: not valid UTF-8"), ("7205ffffff", "a_string: 5 bytes, 3 left"), ("72ffffffff07", "a_string: 2147483647 bytes, 0 left"),
    ("72" + "ff" * 9 + "01", "a_string: 18446744073709551615 bytes, 0 left"), ("7005", "a_string: a number of varying length where the declared schema has bytes with a length"),
    ("7a02ff", "a_bytes: 2 bytes, 1 left"), ("800180", f"state: {ENDS}"), ("80018080808010", "state: 4294967296 is no int32"), ("820100", "state: bytes with a length where the declared schema has a number of varying length"),
    ("a0018080808008", "maybe_int: 2147483648 is no int32"), ("aa0101ff", "maybe_text: not valid UTF-8"),
    ("f20101", "ints[]: 1 bytes, 0 left"), ("f2010180", f"ints[]: {ENDS}"), ("f201058080808008", "ints[]: 2147483648 is no int32"), ("f501", "ints[]: 4 bytes where the declared schema has a number of varying length"),
    ("820201ff", "texts[]: not valid UTF-8"), ("8a02018f", f"states[]: {ENDS}"), ("9202030a01ff", "items[].sku: not valid UTF-8"), ("9202020a05", "items[].sku: 5 bytes, 0 left"),
    ("92020422020802", "items[].deep.ok: a boolean that is neither 0 nor 1"), ("92020110", f"items[].n: {ENDS}"), ("9a0203000000", f"doubles[]: {ENDS}"), ("a20207" + "00" * 7, f"fixed[]: {ENDS}"),
    ("c202030a01ff", "counts{}.key: not valid UTF-8"), ("c202021080", f"counts{{}}.value: {ENDS}"), ("ca02060880808080 08".replace(" ", ""), "names{}.key: 2147483648 is no int32"), ("d202020802", "by_bool{}.key: a boolean that is neither 0 nor 1"),
    ("920301ff", "text: not valid UTF-8"), ("980380", f"number: {ENDS}"), ("a203020a05", "item.sku: 5 bytes, 0 left"), ("e203020a05", "one.sku: 5 bytes, 0 left"), ("e003", "one: a number of varying length where the declared schema has bytes with a length"),
    ("b204021001", "at: 1 ns are no whole microseconds"), ("b2040310e807", None), ("b204061080 94ebdc03".replace(" ", ""), "at: 0 s and 1000000000 ns are no time of a year 1 to 9999"),
    ("b2040b08" + "ff" * 9 + "01" , None), ("b2040708ffffffff7f10", f"at.nanos: {ENDS}"), ("b2040708" + "8080808080 40".replace(" ", ""), "at: 2199023255552 s and 0 ns are no time of a year 1 to 9999"),
    ("c20400", "day: 0-0-0 is no day of a year 1 to 9999"), ("c2040708e80f1002181e", "day: 2024-2-30 is no day of a year 1 to 9999"), ("8205020880", f"wrapped_int.value: {ENDS}"),
    ("8a05030a01ff", "wrapped_text.value: not valid UTF-8"), ("d205021001", "times[]: 1 ns are no whole microseconds"), ("e205060a0012021001", "at_of{}.value: 1 ns are no whole microseconds"),
    ("00", "no field: number 0, wire type 0"), ("0e", "no field: number 1, wire type 6"), ("0f", "no field: number 1, wire type 7"), ("80", ENDS), ("ff" * 10, LONG),
    ("8080808010" + "00", "no field: number 536870912, wire type 0"), ("c03e", ENDS), ("c23e05", "5 bytes, 0 left"), ("c13e00", ENDS), ("c33e", ENDS), ("c43e", "the end of group 1000, which is not open"),
    ("c33ecc3e", "the end of group 1001, which is not open"), ("c33e" * 101, "more than 100 groups inside of each other"), ("c33e0800c43e", None), ("c23e0161", None),
]  # fmt: skip


def test_there_are_seventy_ways() -> None:
    assert sum(message is not None for _, message in WAYS) >= 70


GOOD = written(ALL, "shop.All", an_int32=5, a_string="a")


@pytest.mark.parametrize(("raw", "message"), WAYS, ids=[f"{raw[:20]}-{place}" for place, (raw, _) in enumerate(WAYS)])
def test_a_way_to_break_a_record(raw: str, message: str | None) -> None:
    how = Protobuf(ALL, "All")
    found = read(how, [GOOD, bytes.fromhex(raw), None, GOOD + bytes.fromhex(raw)])
    assert found[0] == (judged(ALL, "shop.All", GOOD), None)
    assert found[2] == (None, None)
    if message is None:
        assert found[1] == (judged(ALL, "shop.All", bytes.fromhex(raw)), None)
    else:
        assert found[1] == found[3] == (None, message)


def broken(by: random.Random, raw: bytes) -> bytes:
    at = by.randrange(len(raw) + 1)
    return by.choice(
        [
            raw[:at],
            raw[:at] + by.randbytes(by.choice([1, 2, 9])) + raw[at:],
            raw[:at] + raw[at + by.choice([1, 3]) :],
            raw[:at] + bytes([raw[at] ^ 1 << by.randrange(8)]) + raw[at + 1 :] if at < len(raw) else raw + b"\0",
            raw[:at] + by.choice([MORE, b"\x80" * 9 + b"\x01", b"\xfe\xff\xff\xff\x0f"]) + raw[at:],
            by.randbytes(by.randrange(40)),
            raw + raw,
        ]
    )


# What we refuse and the library reads; docs/formats.md says why.
STRICTER = (
    "where the declared schema has", "is no int32", "is no uint32", "is no sint32", "neither 0 nor 1", "of a year 1 to 9999",
    "whole microseconds", "not valid UTF-8", "of more than 64 bits", "groups inside of each other", "no field: number",
)  # fmt: skip


@pytest.mark.parametrize("seed", range(40))
def test_broken_records_are_refused_or_read_as_the_library_reads_them(seed: int) -> None:
    by, how = random.Random(seed), Protobuf(ALL, "All")
    good = [written(ALL, "shop.All", **some(by)) for _ in range(12)]
    bad = [broken(by, by.choice(good)) for _ in good]
    found = read(how, [one for pair in zip(good, bad, strict=True) for one in pair])
    assert found[::2] == read(how, list(good))
    for raw, (value, error) in zip(bad, found[1::2], strict=True):
        assert (value is None) == (error is not None)
        try:
            want = judged(ALL, "shop.All", raw)
        except Exception:  # noqa: BLE001 - whatever it raises, it refuses the record
            assert error is not None, raw
            continue
        if error is None:
            assert is_same(value, want), (value, want)
        else:
            assert any(one in error for one in STRICTER), (error, raw)


def test_fields_twice_merged_packed_and_a_oneof() -> None:
    how = Protobuf(ALL, "All")
    items = kind(ALL, "shop.Item")
    raws = [
        written(ALL, "shop.All", an_int32=1) + written(ALL, "shop.All", an_int32=2),
        written(ALL, "shop.All", one=items(sku="a", tags=["x"])) + written(ALL, "shop.All", one=items(n=5, tags=["y"])),
        written(ALL, "shop.All", text="a") + written(ALL, "shop.All", number=5),
        written(ALL, "shop.All", item=items(sku="a")) + written(ALL, "shop.All", text="t") + written(ALL, "shop.All", item=items(n=1)),
        written(ALL, "shop.All", ints=[1, 2]) + b"\xf0\x01\x03" + b"\xf2\x01\x02\x04\x05",
        b"\xfa\x01\x02\x04\x05",  # `wide`, packed although declared unpacked
        written(ALL, "shop.All", counts={"a": 1}) + written(ALL, "shop.All", counts={"a": 2}),
        b"\xc2\x02\x00" + b"\xd2\x02\x00" + b"\xe2\x05\x00",  # entries without key and value
        b"\xa2\x06\x03abc" + GOOD,
    ]  # fmt: skip
    assert read(how, list(raws)) == [(judged(ALL, "shop.All", raw), None) for raw in raws]


ONE = 'syntax = "proto3"; package p; message Other { int32 a = 1; } message Order { message In { int32 b = 1; } int32 a = 1; }'
TWO_OF = ("b.proto", 'syntax = "proto3"; message B { int32 b = 1; }', 'syntax = "proto3"; import "b.proto"; message Order { int32 a = 1; B b = 2; }')  # fmt: skip
UNFRAMED = "no registry prefix (0x00 and four bytes) before the record"
UNKNOWN = "schema {}: the registry has no Protobuf schema of this id"
NO_PLACE = "no place of a message behind the registry's prefix: "


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", UNFRAMED),
        (b"\0\0\0\0", UNFRAMED),
        (b"\x01\0\0\0\x01\x00", UNFRAMED),
        (framed(b""), NO_PLACE + ENDS),
        (framed(b"\x80"), NO_PLACE + ENDS),
        (framed(b"\x04\x02"), NO_PLACE + ENDS),
        (framed(b"\x01\x02"), NO_PLACE + "-1 numbers"),
        (framed(b"\xfe\xff\x01"), NO_PLACE + "16383 numbers"),
        (framed(b"\x02\x04"), "schema 1 has no message in the place [2]"),
        (framed(b"\x02\x01"), "schema 1 has no message in the place [-1]"),
        (framed(b"\x00\x08\x05"), "schema 1 cannot be read as declared: written as message p.Other, declared message p.Order"),
        (framed(b"\x04\x02\x00"), "schema 1 cannot be read as declared: written as message p.Order.In, declared message p.Order"),
        (framed(b"\x02\x02\x08\x05", 9), UNKNOWN.format(9)),
        (framed(b"\x02\x02\x08"), "a: the record ends within it"),
    ],
)  # fmt: skip
def test_a_prefix_that_is_wrong(raw: bytes, message: str) -> None:
    how = RegistryProtobuf(ONE, "Order")
    assert read(how, [raw, framed(b"\x02\x02\x08\x05")]) == [(None, message), ({"a": 5}, None)]


def test_the_place_of_a_message_and_writers_schemas() -> None:
    how = RegistryProtobuf(ONE, "In")
    assert how.encoded({"b": 5}) == framed(b"\x04\x02\x00\x08\x05")
    assert read(how, [how.encoded({"b": 5}), None]) == [({"b": 5}, None), (None, None)]
    assert RegistryProtobuf(ONE, "Other").encoded({"a": 5}) == framed(b"\x00\x08\x05")
    order = RegistryProtobuf(ONE, "Order").knowing({7: TWO_OF, 8: ("message {",), 9: None}, strict=True)
    raw = [framed(b"\x00\x08\x05\x12\x00", 7), framed(b"\x00", 8), framed(b"\x00", 9)]
    (first, second, third) = read(pickle.loads(pickle.dumps(order)), list(raw))
    assert first == ({"a": 5}, None)  # the first message of schema 7, and a field that is not declared
    assert second[1] is not None
    assert second[1].startswith("schema 8 cannot be used: the schema of Protobuf cannot be used: ")
    assert third == (None, UNKNOWN.format(9))
    with pytest.raises(UnknownIds) as asked:
        order.decode(pa.array([framed(b"\x00", one) for one in (7, 12, 11, 0)]))
    assert asked.value.ids == [11, 12]
    assert isinstance(order, RegistryFormat)
    other = with_known_schemas(order, {7: Written("AVRO", ('"long"',)), 8: Written(PROTOBUF, TWO_OF)}, strict=False)
    assert read(other, [framed(b"\x00", 7), framed(b"\x00", 8)]) == [(None, UNKNOWN.format(7)), ({"a": 0}, None)]


def test_values_and_words() -> None:
    one, other = Protobuf(ONE, "Order"), RegistryProtobuf(ONE, "Order", subject="shop-value", register=True)
    assert one == Protobuf(ONE, "Order")
    assert one != Protobuf(ONE, "Other")
    assert other == other.knowing({7: TWO_OF}, strict=True)
    assert hash(other) == hash(other.knowing({}, strict=True))
    assert isinstance(one, Format) and isinstance(other, WritableFormat)  # noqa: PT018
    assert one.describe().startswith("protobuf(a int not null; message p.Order ")
    assert one.describe() == Protobuf(ONE.replace("; ", " ;\n"), "Order").describe()
    assert other.describe().startswith("registry_protobuf of shop-value(a int not null; message p.Order ")
    assert other.registered == Written(PROTOBUF, (ONE,))
    assert encode({"a": 5}, one) == b"\x08\x05"
    for wrong in ({"a": "5"}, {"b": 5}, 5):
        with pytest.raises(InvalidOption):
            encode(wrong, one)
    imported = RegistryProtobuf(TWO_OF[-1], "Order", imports=(TWO_OF[:2],))
    assert imported.registered == Written(PROTOBUF, TWO_OF)


def test_without_the_extra_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from lakestreams.errors import LocalPartsMissing
    from lakestreams.formats.protobuf import compiling

    monkeypatch.setattr(compiling, "_is_installed", lambda name: name != "grpc_tools")
    with pytest.raises(LocalPartsMissing) as told:
        Protobuf('syntax = "proto3"; message Absent { int32 a = 1; }')
    assert "grpc_tools cannot be imported" in told.value.message
    assert told.value.hint == "pip install 'lakestreams[protobuf]'"


def test_a_schema_that_the_compiler_refuses_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from lakestreams.formats.protobuf import compiling

    ran: list[Any] = []
    run = compiling._run
    monkeypatch.setattr(compiling, "_run", lambda files: ran.append(files) or run(files))
    refused = 'syntax = "proto3"; import "nobody/has/it.proto"; message Refused { int32 a = 1; }'
    how = RegistryProtobuf(ONE, "Order")
    fitted = [how.knowing({7: (refused,)}, strict=strict) for strict in (True, False) for _ in range(2)]
    assert len(ran) == 1
    for one in fitted:
        (said,) = one.decode(pa.array([framed(b"", 7)], pa.binary())).errors.to_pylist()
        assert said.startswith("schema 7 cannot be used: the schema of Protobuf cannot be used: ")


def test_workers_need_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    from lakestreams.formats.protobuf import compiling

    raw = pickle.dumps(RegistryProtobuf(ONE, "Order").knowing({7: (ONE,)}, strict=True))
    monkeypatch.setattr(compiling, "_run", lambda _: pytest.fail("the compiler is run"))
    monkeypatch.setattr(compiling, "_library", lambda: pytest.fail("the library is asked for"))
    how: Any = pickle.loads(raw)
    assert read(how, [framed(b"\x02\x02\x08\x05", 7)]) == [({"a": 5}, None)]
    assert how.encoded({"a": 5}) == framed(b"\x02\x02\x08\x05")
