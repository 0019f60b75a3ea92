"""Formats over raw bytes: what each record becomes, a struct or an error."""

from __future__ import annotations

import datetime as dt
import struct
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812
from tests.formats.cases import BAD, differences, read

from lakestreams import ConnectJson, DebeziumJson, EventTime, Json, Long, MaxwellJson, RegistryJson, Text
from lakestreams.errors import InvalidFormat
from lakestreams.formats import Field, Format
from lakestreams.formats.base import struct_type
from lakestreams.formats.schema import parse_ddl

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

UTC = dt.timezone.utc  # noqa: UP017 - `dt.UTC` reads worse beside datetime

# --- text and long ---------------------------------------------------------------------------------------------------


def test_text() -> None:
    cases: dict[str, tuple[bytes | None, Any]] = {
        "null": (None, None),
        "empty": (b"", {"page": ""}),
        "ascii": (b"/home", {"page": "/home"}),
        "two bytes": ("ä".encode(), {"page": "ä"}),
        "four bytes": ("\U0001f600".encode(), {"page": "\U0001f600"}),
        "nul": (b"a\x00b", {"page": "a\x00b"}),
        "byte order mark": (b"\xef\xbb\xbfx", {"page": "\ufeffx"}),
        "lone byte": (b"\xff", BAD),
        "cut off": (b"ab\xe2\x82", BAD),
        "overlong": (b"\xc0\xaf", BAD),
        "surrogate": (b"\xed\xa0\x80", BAD),
        "beyond unicode": (b"\xf5\x80\x80\x80", BAD),
        "latin-1": ("ä".encode("latin-1"), BAD),
    }
    found = read(Text("page"), {name: raw for name, (raw, _) in cases.items()})
    assert differences(found, {name: want for name, (_, want) in cases.items()}) == {}
    assert found["lone byte"][1] == "not valid UTF-8"


def test_long() -> None:
    numbers = [0, 1, -1, 255, 256, -256, 2**31, -(2**31) - 1, 2**63 - 1, -(2**63), 2**62 + 12345, -(2**62) - 12345]
    cases: dict[str, bytes | None] = {str(number): struct.pack(">q", number) for number in numbers}
    broken = {"empty": b"", "seven": b"\x00" * 7, "nine": b"\x00" * 9, "nine, high": b"\xff" * 9, "four": b"\x00\x00\x00\x01",
              "text": b"12", "sixteen": b"\xff" * 16}  # fmt: skip
    found = read(Long("n"), cases | broken | {"null": None})
    assert {name: found[name] for name in cases} == {str(number): ({"n": number}, None) for number in numbers}
    assert differences(found, dict.fromkeys(broken, BAD)) == {}
    assert found["nine"][1] == "a long has 8 bytes, not 9"
    assert found["null"] == (None, None)


# --- JSON ------------------------------------------------------------------------------------------------------------

SCHEMA = (
    "a int, big bigint, s string, f double, ok boolean, d decimal(5,2), day date, at timestamp, "
    "n struct<x: bigint, y: array<string>>, l array<int>, m map<string, int>"
)


def deep(levels: int) -> bytes:
    return b"[" * levels + b"]" * levels


JSON_CASES: dict[str, tuple[bytes | None, Any]] = {
    # objects
    "null bytes": (None, None),
    "empty object": (b"{}", {}),
    "blank object": (b" { } ", {}),
    "one field": (b'{"a": 1}', {"a": 1}),
    "unread field": (b'{"a": 1, "zz": {"q": [1, {}]}}', {"a": 1}),
    "nulls": (b'{"a": null, "s": null, "n": null, "l": null}', {}),
    "numbers": (b'{"a": -2147483648, "big": 9223372036854775807, "f": -1.5e3}',
                {"a": -(2**31), "big": 2**63 - 1, "f": -1500.0}),
    "text": ('{"s": "ä\\u00e4\\n\\"\U0001f600"}'.encode(), {"s": 'ää\n"\U0001f600'}),
    "nul in a text": (b'{"s": "\\u0000"}', {"s": "\x00"}),
    "boolean": (b'{"ok": false}', {"ok": False}),
    "decimal": (b'{"d": -999.99}', {"d": Decimal("-999.99")}),
    "date": (b'{"day": "2024-02-29"}', {"day": dt.date(2024, 2, 29)}),
    "timestamp": (b'{"at": "2024-02-29T12:00:00.5+02:00"}', {"at": dt.datetime(2024, 2, 29, 10, 0, 0, 500_000, UTC)}),
    "struct": (b'{"n": {"x": 5, "y": ["p", null]}}', {"n": {"x": 5, "y": ["p", None]}}),
    "empty struct": (b'{"n": {}}', {"n": {"x": None, "y": None}}),
    "arrays": (b'{"l": [1, null, 3]}', {"l": [1, None, 3]}),
    "empty array": (b'{"l": []}', {"l": []}),
    "map": (b'{"m": {"z": 1, "": 2}}', {"m": {"z": 1, "": 2}}),
    "a text takes any JSON": (b'{"s": {"q": [1, 2]}}', {"s": '{"q":[1,2]}'}),
    "names are case-sensitive": (b'{"A": 1}', {}),
    "the last of two": (b'{"a": 1, "a": 2}', {"a": 2}),
    "the last of two, null": (b'{"a": 1, "a": null}', {}),
    "a field like our own": (b'{"a": 1, "_ls_corrupt": "x"}', {"a": 1}),
    "nothing but a field like our own": (b'{"_ls_corrupt": "x"}', {}),
    "deep but allowed": (b'{"a": 1, "zz": ' + deep(900) + b"}", {"a": 1}),
    "huge exponent unread": (b'{"a": 1, "zz": 1e1000000000}', {"a": 1}),
    "half of a surrogate pair": (b'{"s": "\\ud800"}', BAD),
    # no complete object
    "empty": (b"", BAD),
    "blank": (b"  ", BAD),
    "cut in a text": (b'{"a": 1, "s": "x', BAD),
    "cut in an object": (b'{"a": 1', BAD),
    "cut in a struct": (b'{"n": {"x": 1}', BAD),
    "array root": (b'[{"a": 1}]', BAD),
    "null root": (b"null", BAD),
    "number root": (b"1", BAD),
    "text root": (b'"{}"', BAD),
    "words after": (b'{"a": 1} x', BAD),
    "nul after": (b'{"a": 1}\x00', BAD),
    "words before": (b'x {"a": 1}', BAD),
    "single quotes": (b"{'a': 1}", BAD),
    "single quotes inside": (b"{\"s\": 'x'}", BAD),
    "bare name": (b"{a: 1}", BAD),
    "trailing comma": (b'{"a": 1,}', BAD),
    "comment": (b'{"a": 1 /* x */}', BAD),
    "leading zero": (b'{"a": 01}', BAD),
    "leading plus": (b'{"a": +1}', BAD),
    "bare newline in a text": (b'{"s": "a\nb"}', BAD),
    "wrong escape": (b'{"s": "\\q"}', BAD),
    "byte order mark": (b'\xef\xbb\xbf{"a": 1}', BAD),
    "no-break space": (b'\xc2\xa0{"a": 1}', BAD),
    "UTF-16": ('{"a": 1}'.encode("utf-16-be"), BAD),
    "invalid UTF-8": (b'{"s": "\xff"}', BAD),
    "invalid UTF-8 in an unread field": (b'{"a": 1, "zz": "\xff"}', BAD),
    # other types
    "text for int": (b'{"a": "1"}', BAD),
    "empty text for int": (b'{"a": ""}', BAD),
    "fraction for int": (b'{"a": 1.5}', BAD),
    "zero fraction for int": (b'{"a": 1.0}', BAD),
    "int overflow": (b'{"a": 2147483648}', BAD),
    "bigint overflow": (b'{"big": 9223372036854775808}', BAD),
    "NaN for int": (b'{"a": NaN}', BAD),
    "text for double": (b'{"f": "1.5"}', BAD),
    "text for boolean": (b'{"ok": "true"}', BAD),
    "decimal overflow": (b'{"d": 1000.00}', BAD),
    "huge decimal": (b'{"d": 1e1000000000}', BAD),
    "no such day": (b'{"day": "2024-02-30"}', BAD),
    "number for date": (b'{"day": 5}', BAD),
    "words for timestamp": (b'{"at": "yesterday"}', BAD),
    "wrong inside a struct": (b'{"a": 1, "n": {"x": "5"}}', BAD),
    "array for struct": (b'{"a": 1, "n": [1]}', BAD),
    "text for array": (b'{"a": 1, "n": {"y": "s"}}', BAD),
    "wrong inside an array": (b'{"l": [1, "x"]}', BAD),
    "wrong inside a map": (b'{"m": {"z": "s"}}', BAD),
    "a number beyond a double": (b'{"f": -1e400}', BAD),
    # limits
    "too deep after": (b'{"a": 1, "zz": ' + deep(2_000) + b"}", BAD),
    "too deep before": (b'{"zz": ' + deep(2_000) + b', "a": 1}', BAD),
    "too deep in a text": (b'{"a": 1, "s": ' + deep(2_000) + b"}", BAD),
    "too many digits": (b'{"a": 1, "zz": 1' + b"0" * 2_000 + b"}", BAD),
    "too long a name": (b'{"a": 1, "' + b"k" * 60_000 + b'": 1}', BAD),
}  # fmt: skip

# What Spark's reader lets pass or Json refuses, against Json's own documentation.
WRONG_NOW: dict[str, tuple[bytes, Any]] = {
    "an object after": (b'{"a": 1}{"a": 2}', BAD),
    "an object after a blank": (b'{"a": 1} {"a": 2}', BAD),
    "an object after a comma": (b'{"a": 1},{"a": 2}', BAD),
    "words and a brace after": (b'{"a": 1} x}', BAD),
    "a brace after": (b'{"a": 1}}', BAD),
    "a list closed and another opened": (b'{"a": 1}], "x": [{"a": 2}', BAD),
    "a list closed twice": (b'{"a": 1}], "x": [1], "x": [{"a": 2}', BAD),
    "all closed": (b'{"a": 1}]}} {"a": 2}', BAD),
    "all closed and as much opened": (b'{"a": 1}]}, "x": {"y": [{"a": 2}', BAD),
    "a name like our own": (b'{"a": 1, "_ls_end": 5, "_ls_record": [], "_ls_all": {}}', {"a": 1}),
    "newline after": (b'{"a": 1}\n', {"a": 1}),
    "newlines around": (b'\r\n{"a": 1}\r\n', {"a": 1}),
    "tabs around": (b'\t{"a": 1}\t', {"a": 1}),
    "NaN": (b'{"f": NaN}', BAD),
    "infinity": (b'{"f": -Infinity}', BAD),
    "NaN in quotes": (b'{"f": "NaN"}', BAD),
}


@pytest.fixture(scope="module")
def json_found() -> dict[str, tuple[Any, str | None]]:
    both = JSON_CASES | WRONG_NOW
    return read(Json(SCHEMA), {name: raw for name, (raw, _) in both.items()})


def test_json(json_found: dict[str, tuple[Any, str | None]]) -> None:
    assert differences(json_found, {name: want for name, (_, want) in JSON_CASES.items()}) == {}


@pytest.mark.parametrize("name", WRONG_NOW)
def test_json_is_one_complete_object(json_found: dict[str, tuple[Any, str | None]], name: str) -> None:
    assert differences(json_found, {name: WRONG_NOW[name][1]}) == {}


def test_json_errors_say_what_is_wrong(json_found: dict[str, tuple[Any, str | None]]) -> None:
    assert json_found["invalid UTF-8"][1] == "not valid UTF-8"
    assert json_found["array root"][1] == "not a JSON object"
    assert json_found["text for int"][1] == 'a: "1" is no int'


def test_names_inside_a_struct_keep_their_capitals() -> None:
    found = read(Json("n struct<userId: int>"), {"one": b'{"n": {"userId": 5}}'})
    assert found == {"one": ({"n": {"userId": 5}}, None)}


def test_registry_json() -> None:
    prefix = b"\x00\x00\x00\x01\x02"
    cases: dict[str, tuple[bytes | None, Any]] = {
        "null": (None, None),
        "framed": (prefix + b'{"a": 1}', {"a": 1}),
        "an id that looks like JSON": (b'\x00\xff\xfe{"{}', {}),
        "any id": (b'\x00\xff\xff\xff\xff{"a": 1}', {"a": 1}),
        "empty object": (prefix + b"{}", {}),
        "not utf-8 in the prefix alone": (b'\x00\x80\x81\x82\x83{"a": 3}', {"a": 3}),
        "bare": (b'{"a": 1}', BAD),
        "other magic": (b'\x01\x00\x00\x00\x01{"a": 1}', BAD),
        "empty": (b"", BAD),
        "short": (b"\x00\x00\x00", BAD),
        "prefix only": (prefix, BAD),
        "broken behind": (prefix + b'{"a": ', BAD),
        "wrong type behind": (prefix + b'{"a": "x"}', BAD),
        "invalid UTF-8 behind": (prefix + b'{"a": "\xff"}', BAD),
    }
    found = read(RegistryJson("a int"), {name: raw for name, (raw, _) in cases.items()})
    assert differences(found, {name: want for name, (_, want) in cases.items()}) == {}
    assert "no registry prefix" in str(found["bare"][1])
    assert found["wrong type behind"][1] == 'a: "x" is no int'
    assert found["broken behind"][1] == "does not fit a int"


# --- schemas ---------------------------------------------------------------------------------------------------------


def test_a_schema_is_read_without_a_session() -> None:
    ddl = "ms bigint, n struct<x: int, y: array<string>>, d decimal(5,2), m map<string, long>, r real, t timestamp_ntz"
    assert parse_ddl(ddl) == (
        Field("ms", "bigint"),
        Field("n", "struct<x: int, y: array<string>>"),
        Field("d", "decimal(5, 2)"),
        Field("m", "map<string, bigint>"),
        Field("r", "float"),
        Field("t", "timestamp_ntz"),
    )
    assert struct_type(parse_ddl("a int, b string")) == "struct<`a`: int, `b`: string>"


@pytest.mark.parametrize(
    "ddl",
    ["", "a", "a foo", "a int b string", "a-b int", "1a int", "`a b` int", "a array<foo>", "a struct<>", "a varchar(3)",
     "a variant", "a void", "a interval", "PRIMARY KEY (a)", "a int, A string", "a int, a int", "ä int", "(a int)",
     None, 5],
    ids=repr,
)  # fmt: skip
def test_schemas_that_are_refused_where_they_are_written(ddl) -> None:
    for form in (Json, RegistryJson, ConnectJson, DebeziumJson, MaxwellJson):
        with pytest.raises(InvalidFormat):
            form(ddl)


@pytest.mark.parametrize(
    "ddl",
    ["a int); drop table x; (", "_ls_corrupt string", "a array", "a map<string>", "a decimal(50, 2)",
     "a decimal(2, 5)", "a struct<x: int, X: int>", "a int default 5", "`a\n` int"],
    ids=repr,
)  # fmt: skip
def test_schemas_that_should_be_refused_where_they_are_written(ddl: str) -> None:
    with pytest.raises(InvalidFormat):
        Json(ddl)


@pytest.mark.parametrize("name", ["", "a b", "1a", "a.b", "a`", "x" * 129], ids=repr)
def test_column_names_that_tables_cannot_carry(name: str) -> None:
    with pytest.raises(InvalidFormat, match="column name"):
        Field(name, "int")
    with pytest.raises(InvalidFormat, match="column name"):
        _ = Text(name).fields


def test_formats_are_values_with_a_description() -> None:
    assert Json("a int") == Json("a int")
    assert hash(RegistryJson("a int")) == hash(RegistryJson("a int"))
    assert Json("a int").describe() == Json("a  INT").describe() == "json(a int)"
    every = (Text("k"), Long("n"), RegistryJson("a int"), ConnectJson("a  INT"), DebeziumJson("a  INT"))
    assert [one.describe() for one in every] == [
        "text(k)", "long(n)", "registry_json(a int)", "connect_json(a int)", "debezium_json(a int)",
    ]  # fmt: skip
    assert len({Json("a int"), ConnectJson("a int"), DebeziumJson("a int"), DebeziumJson("a int")}) == 3
    assert all(isinstance(one, Format) for one in every)
    assert not isinstance("text", Format)


# --- event time ------------------------------------------------------------------------------------------------------


def test_event_time(spark: SparkSession) -> None:
    moment = dt.datetime(2024, 1, 1, tzinfo=UTC)
    millis = int(moment.timestamp() * 1_000)
    cases = {
        # name: (ms, small, at, record's own) -> record, field ms, field small, field at, each but the first with fallback
        "all there": ((5, 7, moment, 9), (9, 5, 7, millis)),
        "null field": ((None, None, None, 9), (9, 9, 9, 9)),
        "negative field": ((-5, -1, dt.datetime(1960, 1, 1, tzinfo=UTC), 9), (9, 9, 9, 9)),
        "zero": ((0, 0, dt.datetime(1970, 1, 1, tzinfo=UTC), 9), (9, 0, 0, 0)),
        "no time at all": ((None, None, None, -1), (None, None, None, None)),
        "no time of its own": ((5, 7, moment, -1), (None, 5, 7, millis)),
        "no record time": ((5, None, moment, None), (None, 5, None, millis)),
        "microseconds": ((5, 7, moment + dt.timedelta(microseconds=1_999), 9), (9, 5, 7, millis + 1)),
        "largest": ((2**63 - 1, 2**31 - 1, moment, 9), (9, 2**63 - 1, 2**31 - 1, millis)),
    }
    rows = [(name, *given) for name, (given, _) in cases.items()] + [("no value", None, None, None, 9)]
    frame = spark.createDataFrame(rows, "name string, ms bigint, small int, at timestamp, own bigint")
    value = F.when(F.col("name") != "no value", F.struct("ms", "small", "at"))
    types = {None: None, "ms": "bigint", "small": "int", "at": "timestamp"}
    with_fallback = [EventTime(name).extract(value, kind, F.col("own")) for name, kind in types.items()]
    alone = [EventTime(name, fallback=False).extract(value, kind, F.col("own")) for name, kind in types.items()]
    found = {
        row[0]: tuple(row[1:])
        for row in frame.select("name", *(c.alias(f"c{i}") for i, c in enumerate(with_fallback + alone))).collect()
    }
    assert {name: found[name][:4] for name in cases} == {name: wanted for name, (_, wanted) in cases.items()}
    assert found["no value"] == (9, 9, 9, 9, 9, None, None, None), "a tombstone has no field"
    assert found["negative field"][4:] == (9, None, None, None)
    assert found["all there"][4:] == (9, 5, 7, millis)


def test_event_time_describes_itself() -> None:
    assert [EventTime().describe(), EventTime("ms").describe(), EventTime("ms", fallback=False).describe()] == [
        "record", "field(ms, record)", "field(ms)",
    ]  # fmt: skip
