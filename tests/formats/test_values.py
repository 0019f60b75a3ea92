"""A value is what its producer wrote, or the record is refused with the field's name and the value: all types, all formats.

The right outcome of every text comes from `oracle`, which is plain Python and knows nothing of the product.
"""

from __future__ import annotations

import datetime as dt
import json
import random
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from tests.formats import oracle
from tests.formats.cases import told

from lakestreams import ConnectJson, DebeziumJson, Json, Long, RegistryJson, Text

if TYPE_CHECKING:
    from lakestreams.formats import Format

REFUSED = "refused"

TYPES: dict[str, tuple[Any, ...]] = {
    "ok": ("boolean",), "tiny": ("tinyint",), "small": ("smallint",), "whole": ("int",), "big": ("bigint",),
    "near": ("double",), "nearer": ("float",), "word": ("string",),
}  # fmt: skip
GUESSED: dict[str, tuple[Any, ...]] = {
    "price": ("decimal", 10, 2), "count": ("decimal", 5, 0), "share": ("decimal", 3, 3), "large": ("decimal", 20, 6),
    "day": ("date",), "at": ("timestamp",), "wall": ("timestamp_ntz",),
    "in_s": ("timestamp_s",), "in_ms": ("timestamp_ms",), "in_us": ("timestamp_us",), "in_days": ("date_days",),
    "bytes": ("decimal_base64", 10, 2),
}  # fmt: skip
BARE = """0 -0 1 -1 5 127 128 255 256 -128 -129 32767 32768 -32769 2147483647 2147483648 -2147483648 9007199254740993
    1709294400 1709294400123 1709294400123456 9223372036854775807 9223372036854775808 20240301 99999 100000 719528
    2932896 2932897 12345678901234567890123456789012345678 1.0 1.10 12.5 12.50 12.500 12.505 99999999.99 100000000.00
    -99999999.995 0.5 -0.0 0.1 0.123 0.1234 1.5e3 1e3 1E-7 1.25e1 125e-1 1e5 1e-5 1e2147483648 1e308 1e309 -1e400 1e39
    3.4e38 5e-324 1e-400 12345678901234567.89 1709294400.5
    1709294400.123456 1709294400.1234567 1709294400123.456 1709294400123.4567 253402300799 253402300800 -62135596800
    -62135596801 true false null""".split()  # fmt: skip  # noqa: SIM905 - a list of words reads better as text
QUOTED = [
    "", " ", "a", "true", "1", "0", "-0", "1.10", "1.1", "12.50", "12,50", "1,234.50", "1.234,50", "1_000", "+1", "01", ".5", "5.",
    "0x10", "1e3", "1E-7", "1e400", "NaN", "nan", "Infinity", "-Infinity", "+Infinity", "INF", "null", "1d", "1.5f", " 1", "1 ",
    "1\n", "\u0661", "12345678901234567.89", "9999999999.99", "0.1234", "0.125", "100000", "-99999",
    "2024-03-01", "2024-3-1", "20240301", "2024-02-30", "2024-02-29", "2023-02-29", "2024-03", "2024", "0000-01-01",
    "0001-01-01", "9999-12-31", "10000-01-01", "+10000-01-01", "-0001-01-01", "2024-03-01 ", "2024-03-01T", "2024-061",
    "12:30", "12:30:00", "T12:30", "now", "today", "tomorrow", "yesterday", "epoch", "2024-03-01T12:00Z",
    "2024-03-01T12:00", "2024-03-01T12:00:00Z", "2024-03-01T12:00:00", "2024-03-01 12:00:00", "2024-03-01 12:00:00+00",
    "2024-03-01T12:00:00+02:00", "2024-03-01T12:00:00-0330", "2024-03-01T12:00:00+18:00", "2024-03-01T12:00:00+18:01",
    "2024-03-01T12:00:00+01:60", "2024-03-01T12:00:00 UTC", "2024-03-01T12:00:00Europe/Rome", "2024-03-01T12:00:00CET",
    "2024-03-01T12:00:00z", "2024-03-01t12:00:00Z", "2024-03-01T24:00:00Z", "2024-03-01T23:59:60Z", "2024-03-01T12Z",
    "2024-03-01T1:00:00Z", "2024-03-01T12:00:00.1Z", "2024-03-01T12:00:00.123456Z", "2024-03-01T12:00:00.1234560Z",
    "2024-03-01T12:00:00.123456000Z", "2024-03-01T12:00:00.1234567Z", "2024-03-01T12:00:00.Z", "2024-03-01T12:00:00,5Z",
    "2024-03-01T12:00:00.5", "2024-03-01T12:00:00.123456789", "0001-01-01T00:00:00Z", "0001-01-01T00:00:00+00:01",
    "9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59-00:01", "1969-12-31T23:59:59.9Z", "2024-03-01T12:00:00Z\n",
    "Fri, 01 Mar 2024 12:00:00 GMT", "1709294400", "1709294400123", "AQ==", "AQ", "AQ=", "AR==", "AQE=", "AQI", "AQID",
    "AQ==\n", "A-_=", "====", "true", "1234", "MDkw", "/////w==", "f////////////////////w==", "EjRWeA==", "+/8=", "AAAA",
    "AAAAAAAAAAAAAAAAAAAAAAAA", "-1.5", "{}", "[1]", '{"a": 1.10}', '"', "\\", "'", "`", "\u20ac", "\U0001f600",
    "2024-03-01T12:00:00.000000Z", "x" * 200, "s", "n1", "\u202e", "\x7f",
]  # fmt: skip
NESTED = ['{}', '[]', '{"q": [1.10, "a\\"b\\\\", true, null, {"n1": "s", "\\u00e4": -0}]}', '[1e400, "x" , []]', '{"a": 1, "a": 2}']  # noqa: Q000 # fmt: skip

SURROGATES = [
    r'"\ud800"',
    r'"a\uDE00b"',
    r'"\ud83d\ude00"',
    r'"\ude00\ud83d"',
    r'"\\ud800"',
    r'"\\\ud800"',
    r'"\u00e4"',
]


@dataclass(frozen=True)
class Given:
    """Records of one format, and what each must become; where it cannot always be told it may also be `refused`."""

    name: str
    how: Format
    records: tuple[bytes, ...]
    wanted: tuple[Any, ...]
    refused: bool = False


def tokens(kind: tuple[Any, ...]) -> list[str]:
    """The texts of JSON values; of objects and lists in a string it is from_json that says how they are written."""
    if kind[0] == "string":
        return [*BARE, *map(_quoted, QUOTED), *SURROGATES]
    return [*BARE, *map(_quoted, QUOTED), *NESTED]


def _quoted(text: str) -> str:
    signs = {'"': '\\"', "\\": "\\\\", "\n": "\\n"}
    return '"' + "".join(signs.get(sign, sign) for sign in text) + '"'


def wanted_of(raw: bytes, members: dict[str, Any]) -> Any:
    try:
        return plain(oracle.read(raw, members))
    except oracle.Unfit as unfit:
        return REFUSED, str(unfit)


def plain(value: Any) -> Any:
    """A value as what can be compared: -0.0 is not 0.0, NaN is NaN, 1.50 is 1.5, a moment has no zone."""
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, Decimal):
        return f"decimal {value.normalize() + 0}"
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return (value - oracle.EPOCH) // dt.timedelta(microseconds=1)
    return value


def found_of(given: list[Given]) -> dict[str, list[tuple[Any, str | None]]]:
    """What each record became, with its error."""
    return {one.name: [(plain(value), error) for value, error in told(one.how, one.records)] for one in given}


def differences(given: list[Given], found: dict[str, list[tuple[Any, str | None]]]) -> list[Any]:
    """Records that came out otherwise; the error of one that is refused begins with the path."""
    wrong = []
    for one in given:
        for raw, want, (value, error) in zip(one.records, one.wanted, found[one.name], strict=True):
            refused = isinstance(want, tuple)
            if refused and (error is None or value is not None):
                wrong.append((one.name, raw, want, value, error))
            may_be = one.refused and error is not None and value is None
            if not refused and not may_be and (error is not None or value != want):
                wrong.append((one.name, raw, want, value, error))
    return wrong


def flat(name: str, types: dict[str, tuple[Any, ...]], how: type[Json] = Json) -> Given:
    """Every text as a value of every type."""
    records = [f'{{"{column}": {token}}}'.encode() for column, kind in types.items() for token in tokens(kind)]
    records += [
        f' {{"zz": {{}}, "{column}" : {token} }} '.encode()
        for column, kind in types.items()
        for token in tokens(kind)[::7]
    ]
    return Given(name, how(oracle.columns(types)), tuple(records), tuple(wanted_of(raw, types) for raw in records))


def nested(name: str, types: dict[str, tuple[Any, ...]]) -> Given:
    """Texts inside arrays, maps and objects, between ones that fit."""
    members: dict[str, Any] = {}
    records = []
    for column, kind in types.items():
        members |= {
            f"{column}_l": ("array", kind),
            f"{column}_m": ("map", kind),
            f"{column}_s": ("struct", {"y": kind}),
        }
        for token in tokens(kind)[::3]:
            records += [f'{{"{column}_l": [null, {token}]}}', f'{{"{column}_m": {{"k": {token}, "n": null}}}}',
                        f'{{"{column}_s": {{"y": {token}}}}}']  # fmt: skip
        records += [
            f'{{"{column}_{part}": {wrong}}}'
            for part in "lms"
            for wrong in ("5", '"x"', "[]", "{}", "[{}]", '{"y": []}')
            if kind[0] != "string"  # which takes any JSON
        ]
    raws = tuple(record.encode() for record in records)
    strings = ("string",) in types.values()
    return Given(name, Json(oracle.columns(members)), raws, tuple(wanted_of(raw, members) for raw in raws), strings)


def wrapped() -> Iterator[Given]:
    """The formats that wrap an object: the same values inside."""
    members = {"id!": ("bigint",), **{name: TYPES[name] for name in ("tiny", "word", "near")}, **{name: GUESSED[name] for name in ("price", "at", "in_ms", "bytes")}}  # fmt: skip
    inner = [
        f'{{"id": 1, "{name.rstrip("!")}": {token}}}'.encode()
        for name, kind in members.items()
        for token in tokens(kind)[::4]
    ]
    wanted = tuple(wanted_of(raw, members) for raw in inner)
    text = oracle.columns(members)
    yield Given("registry", RegistryJson(text), tuple(b"\x00\x00\x00\x00\xff" + raw for raw in inner), wanted)
    yield Given(
        "connect", ConnectJson(text), tuple(b'{"schema": {}, "payload": ' + raw + b"}" for raw in inner), wanted
    )
    events = (b'{"op": "u", "after": ' + raw + b"}" for raw in inner)
    both = tuple(raw if place % 2 else b'{"payload": ' + raw + b"}" for place, raw in enumerate(events))
    yield Given("debezium", DebeziumJson(text), both, wanted)


def binaries() -> Iterator[Given]:
    """The formats of one column."""
    texts = [text.encode() for text in QUOTED] + [b"\xff", b"a\x00b", b"\xed\xa0\x80", b"\xc0\xaf"]
    yield Given("text", Text("v"), tuple(texts), tuple(_decoded(raw) for raw in texts))
    longs = [struct.pack(">q", number) for number in (0, -1, 2**63 - 1, -(2**63), 5, 1 << 40)] + [
        b"5",
        b"\x00" * 4,
        b"\x00" * 9,
    ]
    yield Given("long", Long("v"), tuple(longs), tuple({"v": struct.unpack(">q", raw)[0]} if len(raw) == 8 else (REFUSED, "long") for raw in longs))  # fmt: skip


def _decoded(raw: bytes) -> Any:
    try:
        return {"v": raw.decode()}
    except UnicodeDecodeError:
        return REFUSED, "UTF-8"


def test_every_value_is_what_was_written_or_refused_with_its_name() -> None:
    given = [flat("plain", TYPES), flat("guessed", GUESSED), *wrapped(), *binaries()]
    assert sum(len(one.records) for one in given) > 300
    found = found_of(given)
    wrong = differences(given, found)
    assert not wrong, wrong[:40]
    for one in given:
        kinds = [isinstance(want, tuple) for want in one.wanted]
        assert any(kinds), f"{one.name}: some are refused"
        assert not all(kinds), f"{one.name}: some are read"


def test_a_value_that_is_not_exact_is_named() -> None:
    schema = "id bigint not null, price decimal(10, 2), at timestamp, tiny tinyint, tags map<string, int>, n struct<x: int not null, days: array<date>, inner: struct<day: date>>"
    told = {
        b'{"id": 1, "price": "12,50"}': 'price: "12,50" is no decimal(10, 2)',
        b'{"id": 1, "price": 12.505}': 'price: "12.505" is no decimal(10, 2)',
        b'{"id": 1, "tiny": 200}': "tiny: 200 is no tinyint",
        b'{"id": 1, "at": "12:30"}': 'at: "12:30" is no timestamp',
        b'{"price": 1}': "id: null or missing, but declared not null",
        b'{"id": 1, "n": {}}': "n.x: null or missing, but declared not null",
        b'{"id": 1, "n": {"x": 1, "inner": {"day": "1.3."}}}': 'n.inner.day: "1.3." is no date',
        b'{"id": 1, "n": {"x": 1, "days": ["1.3."]}}': 'n.days: ["1.3."] is no array<date>',
        b'{"id": 1, "tags": {"a": 1, "a": 2}}': "tags: ",
        b'\xef\xbb\xbf{"id": 1}': "begins with a byte-order mark",
        b'\x00\x00\x00\x00\x07 {"id": 1}': "begins with a schema registry's prefix (Confluent's wire format: 0x00 and a 4-byte id); RegistryJson",
        b'\x00\x00\x00\x00\xff{"id": 1}': "begins with a schema registry's prefix (Confluent's wire format: 0x00 and a 4-byte id); RegistryJson",
        b"\x00\x00\x00\x00\x07\x02\x06abc": "begins with a schema registry's prefix (Confluent's wire format: 0x00 and a 4-byte id), and what",
    }
    given = Given("named", Json(schema), tuple(told), tuple((REFUSED, "") for _ in told))
    found = [error for _, error in found_of([given])["named"]]
    assert [str(error)[: len(said)] for error, said in zip(found, told.values(), strict=True)] == list(told.values())


HALVES = "word string, tags array<string>, n struct<word: string>, m map<string, string>"
# Escapes, half ones and whole ones, behind none, one, two and more backslashes, and the letters of one that is no escape.
PIECES = ("\\\\", '\\"', "\\u005c", r"\ud83d", r"\uDE00", "u", "ud83d", "ude00", "a", "\U0001f600", "\\n")


def _has_half(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False


def _halves() -> Iterator[bytes]:
    by = random.Random(5)
    texts = [
        r"\\ud83d\ude00",
        r"\\\ud83d",
        r"\\\\ud83d",
        r"\ud83d\\ude00",
        r"\ud83d\ude00\ude00",
        r"\ud83d\ud83d\ude00",
    ]
    texts += ["".join(by.choices(PIECES, k=by.randint(1, 6))) for _ in range(3_000)]
    for one in texts:
        yield f'{{"word": "{one}"}}'.encode()
        yield by.choice((f'{{"tags": ["{one}"]}}', f'{{"n": {{"word": "{one}"}}}}', f'{{"m": {{"{one}": "x"}}}}', f'{{"m": {{"x": "{one}"}}}}')).encode()  # fmt: skip


def test_half_of_a_pair_is_refused_wherever_it_stands_and_whatever_stands_before_it() -> None:
    records = list(_halves())
    wanted = [_has_half(json.loads(one)) for one in records]
    assert 500 < sum(wanted) < len(wanted) - 500
    for given, around in (
        (Json(HALVES), b"%s"),
        (ConnectJson(HALVES), b'{"schema": null, "payload": %s}'),
        (DebeziumJson(HALVES), b'{"op": "c", "after": %s}'),
    ):
        found = told(given, [around % one for one in records])
        wrong = [
            (one, error)
            for one, want, (_, error) in zip(records, wanted, found, strict=True)
            if want != (error is not None)
        ]
        assert not wrong, wrong[:5]
        assert {error for _, error in found} == {None, "half of a surrogate pair, which is no character"}
        assert not [
            one
            for one, want, (row, _) in zip(records, wanted, found, strict=True)
            if not want and {name: value for name, value in (row or {}).items() if value is not None} != json.loads(one)
        ]
    # MongoDB's row is a text in which the same stands once more in escapes, or as it is
    for escapes in (True, False):
        events = [
            json.dumps({"op": "c", "after": json.dumps(json.loads(one), ensure_ascii=escapes)}).encode()
            for one in records
        ]
        found = told(DebeziumJson(HALVES), events)
        assert [error is not None for _, error in found] == wanted


def test_a_text_that_nobody_closes_is_judged_as_quickly_as_it_is_long() -> None:
    started = time.monotonic()
    for ends in ("", "\\"):
        raw = ('{"a":' + "[" * 101 + '"' + '\\"' * 300_000 + ends).encode()
        for given in (Json("a string"), ConnectJson("a string"), DebeziumJson("a string")):
            ((row, error),) = told(given, [raw])
            assert (row, error is None) == (None, False)
    assert time.monotonic() - started < 20  # before, each of them took more than an hour


def test_values_inside_of_arrays_maps_and_objects() -> None:
    given = [
        nested("plain", {name: kind for name, kind in TYPES.items() if kind != ("string",)}),
        nested("words", {"word": ("string",)}),
        nested("guessed", {name: GUESSED[name] for name in ("price", "at", "in_s", "bytes")}),
    ]
    wrong = differences(given, found_of(given))
    assert not wrong, wrong[:40]


def test_a_number_in_a_column_of_strings_is_as_it_was_written_or_refused() -> None:
    schema = "word string, other double, tags array<string>, n struct<word: string>, m map<string, string>"
    said = "is a number that was written otherwise"
    cases: dict[bytes, Any] = {
        b'{"word": 1.10}': "1.10",
        b'{"word" :\n1.10, "other": 1.10}': "1.10",
        b'{"word": 12345678901234567.89}': "12345678901234567.89",
        b'{"word": 1e400}': "1e400",
        b'{"word": "1.1", "other": 1.10}': "1.1",
        b'{"word": "1.10", "other": 1.10}': "1.10",
        b'{"word": 1.1, "other": 2.50, "tags": ["x", "3.5"]}': "1.1",
        b'{"word": {"q": 1.5}, "other": 2.50}': '{"q":1.5}',
        b'{"word": "a 1.10", "tags": ["b 1.10"], "n": {"word": "c"}}': "a 1.10",
        b'{"word": {"q": 1.10}}': f'word: {{"q":1.1}} {said}',
        b'{"word": 1.10, "n": {"word": 1.1}}': f"word: 1.1 {said}",
        b'{"tags": ["a", 1.10]}': f'tags: ["a","1.1"] {said}',
        b'{"n": {"word": 1e400}}': "n: ",
        b'{"m": {"k": -0}}': f'm: {{"k":"0"}} {said}',
    }
    found = found_of([Given("words", Json(schema), tuple(cases), ())])["words"]
    wrong = [
        (raw, want, value, error)
        for (raw, want), (value, error) in zip(cases.items(), found, strict=True)
        if (value["word"] != want if value else not str(error).startswith(want))
    ]
    assert not wrong
