"""What one schema wrote, read by another: a table by the specification's section on schema resolution.

Each case is a change of one field, in both directions where it has two. The outcome is the value, the reason for which a
record is refused (`record`), or for which the whole schema is (`schema`).
"""

from __future__ import annotations

import datetime as dt
import json
import time
from decimal import Decimal
from typing import Any

import pytest
from tests.formats.avro.judge import framed, judged, read, written
from tests.formats.cases import told

from lakestreams import RegistryAvro
from lakestreams.formats.writers import AVRO, Written, with_known_schemas

UTC = dt.timezone.utc  # noqa: UP017 - `dt.UTC` reads worse beside datetime
COLORS = {"type": "enum", "name": "Color", "symbols": ["RED", "GREEN"]}
MORE = {**COLORS, "symbols": ["RED", "GREEN", "BLUE"]}
KNOWING = {**COLORS, "default": "RED"}
INNER = {"type": "record", "name": "In", "fields": [{"name": "x", "type": "int"}]}
INNER_Y = {"type": "record", "name": "In", "fields": [{"name": "x", "type": "int"}, {"name": "y", "type": "string", "default": "?"}]}  # fmt: skip
F4 = {"type": "fixed", "name": "F", "size": 4}


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


def decimal(precision: int, scale: int) -> dict[str, Any]:
    return logical("bytes", "decimal", precision=precision, scale=scale)


TREE = {"type": "record", "name": "Tree", "fields": [{"name": "n", "type": "int"}, {"name": "kids", "type": {"type": "array", "items": "Tree"}}]}  # fmt: skip
LIST = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}, {"name": "v", "type": "string"}]}  # fmt: skip

# name: (the writer's type, the reader's type, value, what is read)
SAME: dict[str, tuple[Any, Any, Any, Any]] = {
    "int to long": ("int", "long", 5, 5),
    "int to float": ("int", "float", 5, 5.0),
    "int to double": ("int", "double", -5, -5.0),
    "long to float": ("long", "float", 2**24, 2.0**24),
    "long to double": ("long", "double", 2**53, 2.0**53),
    "float to double": ("float", "double", 0.5, 0.5),
    "string to bytes": ("string", "bytes", "ä", "ä".encode()),
    "bytes to string": ("bytes", "string", "ä".encode(), "ä"),
    "made nullable": ("int", ["null", "int"], 5, 5),
    "made nullable, null last": ("int", ["int", "null"], 5, 5),
    "made nullable and wider": ("int", ["null", "long"], 5, 5),
    "not null any more, with a value": (["null", "int"], "int", 5, 5),
    "union with one more branch": (["null", "int"], ["null", "int", "string"], 5, {"int": 5, "string": None}),
    "union with one branch less, not used": (["null", "int", "string"], ["null", "int"], 5, 5),
    "union reordered": (["null", "int"], ["int", "null"], None, None),
    "union of numbers": (["int", "long"], ["int", "long"], 2**40, 2**40),
    "union of numbers from int": ("int", ["int", "long"], 5, 5),
    "union of texts": (["string", "int"], ["string", "int"], "a", {"string": "a", "int": None}),
    "type into a union that has it": ("string", ["int", "string"], "a", {"int": None, "string": "a"}),
    "type into a union by promotion": ("int", ["string", "double"], 5, {"string": None, "double": 5.0}),
    "the same type before the promoted one": ("int", ["long", "int"], 5, 5),
    "enum the same": (COLORS, COLORS, "GREEN", "GREEN"),
    "enum with more symbols": (COLORS, MORE, "GREEN", "GREEN"),
    "enum with fewer, not used": (MORE, COLORS, "GREEN", "GREEN"),
    "enum with fewer and a default": (MORE, KNOWING, "BLUE", "RED"),
    "enum reordered": (COLORS, {**COLORS, "symbols": ["GREEN", "RED"]}, "GREEN", "GREEN"),
    "enum of another namespace": ({**COLORS, "namespace": "a"}, {**COLORS, "namespace": "b"}, "RED", "RED"),
    "enum under its alias": ({**COLORS, "name": "Colour"}, {**COLORS, "aliases": ["Colour"]}, "RED", "RED"),
    "array with wider items": ({"type": "array", "items": "int"}, {"type": "array", "items": "long"}, [1, 2], [1, 2]),
    "map with wider values": ({"type": "map", "values": "int"}, {"type": "map", "values": "double"}, {"a": 1}, {"a": 1.0}),
    "record with a field more": (INNER, INNER_Y, {"x": 1}, {"x": 1, "y": "?"}),
    "record with a field less": (INNER_Y, INNER, {"x": 1, "y": "b"}, {"x": 1}),
    "record reordered": (INNER_Y, {**INNER_Y, "fields": INNER_Y["fields"][::-1]}, {"x": 1, "y": "b"}, {"y": "b", "x": 1}),
    "record of another namespace": ({**INNER, "namespace": "a"}, {**INNER, "namespace": "b"}, {"x": 1}, {"x": 1}),
    "record under its alias": ({**INNER, "name": "Old"}, {**INNER, "aliases": ["Old"]}, {"x": 1}, {"x": 1}),
    "field under its alias": (INNER, {**INNER, "fields": [{"name": "z", "type": "int", "aliases": ["x"]}]}, {"x": 1}, {"z": 1}),
    "nullable record": (INNER, ["null", INNER_Y], {"x": 1}, {"x": 1, "y": "?"}),
    "fixed the same": (F4, F4, b"abcd", b"abcd"),
    "a number becomes a date": ("int", logical("int", "date"), 19000, dt.date(2022, 1, 8)),
    "a date becomes a number": (logical("int", "date"), "int", dt.date(2022, 1, 8), 19000),
    "a number becomes a time": ("long", logical("long", "timestamp-millis"), 1500, dt.datetime(1970, 1, 1, 0, 0, 1, 500000, UTC)),
    "int becomes a time": ("int", logical("long", "timestamp-millis"), 1500, dt.datetime(1970, 1, 1, 0, 0, 1, 500000, UTC)),
    "decimal the same": (decimal(5, 2), decimal(5, 2), Decimal("1.50"), Decimal("1.50")),
    "an unknown logical type": (logical("string", "mood"), "string", "good", "good"),
}  # fmt: skip

RECORD: dict[str, tuple[Any, Any, Any, str]] = {
    "null where the reader has none": (["null", "int"], "int", None, "f: written as null, declared int"),
    "a branch that is gone": (["null", "int", "string"], ["null", "int"], "a", "f: written as string, declared [null, int]"),
    "a symbol that is gone": (MORE, COLORS, "BLUE", "f: BLUE is no declared symbol"),
    "a branch that is too wide": (["int", "long"], "int", 2**40, "f: written as long, declared int"),
    "bytes that are no text": ("bytes", "string", b"\xff", "f: not valid UTF-8"),
    "inside of a list": ({"type": "array", "items": MORE}, {"type": "array", "items": COLORS}, ["RED", "BLUE"], "f[]: BLUE is no declared symbol"),
    "inside of a map": ({"type": "map", "values": ["null", "int"]}, {"type": "map", "values": "int"}, {"a": None}, "f{}: written as null, declared int"),
    "more digits than declared": ("bytes", decimal(3, 1), (12345).to_bytes(2, "big"), "f: 12345 (unscaled) is no decimal(3, 1)"),
    "a date beyond 9999": ("int", logical("int", "date"), 3_000_000, "f: 3000000 is no date of a year 1 to 9999"),
    "a time before year 1": ("long", logical("long", "timestamp-micros"), -(2**62), "f: -4611686018427387904 is no timestamp-micros of a year 1 to 9999"),
}  # fmt: skip

SCHEMA: dict[str, tuple[Any, Any, str]] = {
    "long to int": ("long", "int", "f: written as long, declared int"),
    "double to float": ("double", "float", "f: written as double, declared float"),
    "float to long": ("float", "long", "f: written as float, declared long"),
    "string to int": ("string", "int", "f: written as string, declared int"),
    "int to string": ("int", "string", "f: written as int, declared string"),
    "boolean to int": ("boolean", "int", "f: written as boolean, declared int"),
    "array to map": ({"type": "array", "items": "int"}, {"type": "map", "values": "int"}, "f: written as array of int, declared map of int"),
    "items": ({"type": "array", "items": "string"}, {"type": "array", "items": "int"}, "f[]: written as string, declared int"),
    "a new field without a default": (INNER, {**INNER_Y, "fields": [{"name": "x", "type": "int"}, {"name": "y", "type": "int"}]}, "f.y: not written, and declared without a default"),
    "a record of another name": (INNER, {**INNER, "name": "Other"}, "f: written as record In, declared record Other"),
    "an enum of another name": (COLORS, {**COLORS, "name": "Other"}, "f: written as enum Color, declared enum Other"),
    "a fixed of another size": (F4, {**F4, "size": 5}, "f: written as fixed(4) F, declared fixed(5) F"),
    "no branch that fits": ("int", ["null", "string"], "f: written as int, declared [null, string]"),
    "no branch that is left": (["string", "boolean"], "int", "f: written as [string, boolean], declared int"),
    "another scale": (decimal(5, 2), decimal(5, 1), "f: written as bytes (decimal(5, 2)), declared bytes (decimal(5, 1))"),
    "another unit": (logical("long", "timestamp-millis"), logical("long", "timestamp-micros"), "f: written as long (timestamp-millis), declared long (timestamp-micros)"),
    "a default that is none": (INNER, {**INNER_Y, "fields": [{"name": "x", "type": "int"}, {"name": "y", "type": "int", "default": "?"}]}, "f.y: its default is none of int: ? is no int"),
}  # fmt: skip


def record(kind: Any, *, name: str = "R", **more: Any) -> dict[str, Any]:
    """A record with the type in a field between two others, so that a place that is wrong is seen."""
    fields = [{"name": "a", "type": "string"}, {"name": "f", "type": kind, **more}, {"name": "z", "type": "long"}]
    return {"type": "record", "name": name, "fields": fields}


def test_there_are_forty_changes() -> None:
    assert len(SAME) >= 40


@pytest.mark.parametrize("case", SAME)
def test_what_resolves(case: str) -> None:
    writer, reader, value, want = SAME[case]
    raw = written(record(writer), {"a": "before", "f": value, "z": -77})
    ((found, error),) = read(record(reader), {1: record(writer)}, [framed(raw)])
    assert error is None
    assert found == {"a": "before", "f": want, "z": -77}


@pytest.mark.parametrize("case", SAME)
def test_the_judge_reads_the_same(case: str) -> None:
    if "alias" in case or "becomes a" in case:
        pytest.skip("fastavro: aliases of types, and logical types that only the reader has, otherwise")
    writer, reader, value, want = SAME[case]
    raw = written(record(writer), {"a": "before", "f": value, "z": -77})
    assert judged(raw, record(writer), record(reader))["f"] == branch(reader, want)


# The other way round, where that is no value: records of the reader's type by the writer's. And values that then differ.
BACK_SCHEMA: dict[str, str] = {
    "int to long": "f: written as long, declared int",
    "int to float": "f: written as float, declared int",
    "int to double": "f: written as double, declared int",
    "long to float": "f: written as float, declared long",
    "long to double": "f: written as double, declared long",
    "float to double": "f: written as double, declared float",
    "made nullable and wider": "f: written as [null, long], declared int",
    "type into a union by promotion": "f: written as [string, double], declared int",
    "enum under its alias": "f: written as enum Color, declared enum Colour",
    "array with wider items": "f[]: written as long, declared int",
    "map with wider values": "f{}: written as double, declared int",
    "record under its alias": "f: written as record In, declared record Old",
    "field under its alias": "f.x: not written, and declared without a default",
    "int becomes a time": "f: written as long (timestamp-millis), declared int",
}
BACK_RECORD = {"the same type before the promoted one": "f: written as long, declared int"}
BACK_VALUE: dict[str, Any] = {
    "string to bytes": "ä",
    "bytes to string": "ä".encode(),
    "union with one more branch": 5,
    "union with one branch less, not used": {"int": 5, "string": None},
    "type into a union that has it": "a",
    "enum with fewer and a default": "RED",
    "record with a field more": {"x": 1},
    "record with a field less": {"x": 1, "y": "?"},
    "a number becomes a date": 19000,
    "a date becomes a number": dt.date(2022, 1, 8),
    "a number becomes a time": 1500,
}  # fmt: skip


def branch(reader: Any, want: Any) -> Any:
    """A value of the reader's type, as it is written: of a union of several types the branch alone."""
    of_branches = isinstance(reader, list) and isinstance(want, dict) and "x" not in want
    return next((one for one in want.values() if one is not None), None) if of_branches else want


@pytest.mark.parametrize("case", SAME)
def test_both_schemas_in_one_batch_by_both(case: str) -> None:
    """As topics are while producers and consumers change one after the other."""
    writer, reader, value, want = SAME[case]
    known = {1: record(writer), 2: record(reader)}
    old = framed(written(known[1], {"a": "old", "f": value, "z": 1}), 1)
    new = framed(written(known[2], {"a": "new", "f": branch(reader, want), "z": 2}), 2)
    batch = [new, old, None, old, new]

    def by(declared: Any, old_one: Any, new_one: Any) -> None:
        assert read(declared, known, batch) == [new_one, old_one, (None, None), old_one, new_one]

    by(known[2], ({"a": "old", "f": want, "z": 1}, None), ({"a": "new", "f": want, "z": 2}, None))
    (as_it_was,) = read(known[1], known, [old])
    said = BACK_RECORD.get(case)
    if case in BACK_SCHEMA:
        said = f"schema 2 cannot be read as declared: {BACK_SCHEMA[case]}"
    back = BACK_VALUE.get(case, as_it_was[0] and as_it_was[0]["f"])
    by(known[1], as_it_was, (None, said) if said else ({"a": "new", "f": back, "z": 2}, None))


@pytest.mark.parametrize("case", RECORD)
def test_what_does_not_fit_is_refused_alone(case: str) -> None:
    writer, reader, value, message = RECORD[case]
    good = {"a": "good", "f": SAME_VALUES.get(case, _fitting(reader)), "z": 1}
    raw = [framed(written(record(writer), one)) for one in (good, {"a": "bad", "f": value, "z": 2}, good)]
    (first, no_error), (nothing, error), last = read(record(reader), {1: record(writer)}, raw)
    assert (nothing, error) == (None, message)
    assert first is not None and first["a"] == "good" and no_error is None and last == (first, None)  # noqa: PT018 - one thing


SAME_VALUES: dict[str, Any] = {"bytes that are no text": b"ok", "more digits than declared": b"\x05"}


def _fitting(reader: Any) -> Any:
    """A value that the writer of the case has and the reader takes."""
    if isinstance(reader, dict) and reader["type"] in ("array", "map"):
        return [] if reader["type"] == "array" else {}
    return "RED" if reader == COLORS else 5


@pytest.mark.parametrize("case", SCHEMA)
def test_what_never_fits_is_refused_with_the_schema(case: str) -> None:
    writer, reader, message = SCHEMA[case]
    found = read(record(reader), {7: record(writer)}, [framed(b"any bytes at all", 7), None])
    assert found == [(None, f"schema 7 cannot be read as declared: {message}"), (None, None)]


DEFAULTS: dict[str, tuple[Any, Any, Any]] = {
    "null": (["null", "int"], None, None),
    "a branch behind null": (["null", "int"], 5, 5),
    "a number": ("long", 5, 5),
    "a whole number for a double": ("double", 5, 5.0),
    "bytes": ("bytes", "\u00ff", b"\xff"),
    "fixed": (F4, "abcd", b"abcd"),
    "an enum": (COLORS, "GREEN", "GREEN"),
    "an array": ({"type": "array", "items": "int"}, [1, 2], [1, 2]),
    "a map": ({"type": "map", "values": "string"}, {"a": "b"}, {"a": "b"}),
    "a record": (INNER_Y, {"x": 3}, {"x": 3, "y": "?"}),
    "a date": (logical("int", "date"), 0, dt.date(1970, 1, 1)),
    "a time": (logical("long", "timestamp-millis"), 1500, dt.datetime(1970, 1, 1, 0, 0, 1, 500000, UTC)),
    "a decimal": (decimal(5, 2), "\u0096", Decimal("-1.06")),
}  # fmt: skip


@pytest.mark.parametrize("case", DEFAULTS)
def test_a_field_that_was_not_written_has_its_default(case: str) -> None:
    kind, default, want = DEFAULTS[case]
    old = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "string"}]}
    new = {**old, "fields": [{"name": "f", "type": kind, "default": default}, *old["fields"]]}
    raw = [framed(written(old, {"a": "x"})), framed(written(old, {"a": "y"}))]
    assert read(new, {1: old}, raw) == [({"f": want, "a": "x"}, None), ({"f": want, "a": "y"}, None)]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (INNER_Y, {"x": 1, "y": "b"}),
        (TREE, {"n": 1, "kids": [{"n": 2, "kids": []}, {"n": 3, "kids": [{"n": 4, "kids": []}]}]}),
        (LIST, {"next": {"next": None, "v": "inner"}, "v": "outer"}),
        ({"type": "map", "values": ["null", COLORS, F4, "double"]}, {"a": None, "b": "RED", "c": b"abcd", "d": 0.5}),
        (["boolean", "float", INNER], {"x": 1}),
    ],
)
def test_a_field_that_nobody_reads_is_passed_over(kind: Any, value: Any) -> None:
    less = {"type": "record", "name": "R", "fields": [{"name": "z", "type": "long"}]}
    raw = framed(written(record(kind), {"a": "x", "f": value, "z": 9}))
    assert read(less, {1: record(kind)}, [raw, raw]) == [({"z": 9}, None)] * 2


def test_several_writers_in_one_batch() -> None:
    one, two, three = record("int"), record("long"), record(["null", "string"])
    reader = record(["null", "double", "string"], default=None)
    raw = [
        framed(written(three, {"a": "a", "f": "text", "z": 1}), 3),
        framed(written(one, {"a": "b", "f": 5, "z": 2}), 1),
        None,
        framed(written(two, {"a": "c", "f": 2**40, "z": 3}), 2),
        framed(b"", 9),
        framed(written(three, {"a": "d", "f": None, "z": 4}), 3),
    ]
    assert read(reader, {1: one, 2: two, 3: three, 9: None}, raw) == [
        ({"a": "a", "f": {"double": None, "string": "text"}, "z": 1}, None),
        ({"a": "b", "f": {"double": 5.0, "string": None}, "z": 2}, None),
        (None, None),
        ({"a": "c", "f": {"double": 2.0**40, "string": None}, "z": 3}, None),
        (None, "schema 9: the registry has no Avro schema of this id"),
        ({"a": "d", "f": None, "z": 4}, None),
    ]


def test_an_alias_counts_only_where_the_field_itself_is_not_written() -> None:
    def record(*names: str, **aliases: list[str]) -> dict[str, Any]:
        fields = [{"name": name, "type": "string", "aliases": aliases.get(name, [])} for name in names]
        return {"type": "record", "name": "R", "fields": fields}

    raw = framed(b"\x02N\x02O")
    for order in (("new", "old"), ("old", "new")):
        body = dict(zip(order, ("N", "O"), strict=True))
        assert read(record("new", new=["old"]), {1: record(*order)}, [raw]) == [({"new": body["new"]}, None)]
    assert read(record("new", new=["older", "old"]), {1: record("x", "old")}, [raw]) == [({"new": "O"}, None)]
    ((value, error),) = read(record("new", new=["a", "b"]), {1: record("a", "b")}, [raw])
    assert (value, error) == (None, "schema 1 cannot be read as declared: new: its aliases a and b are both written")
    ((value, error),) = read(record("c", "d", c=["a"], d=["a"]), {1: record("a", "b")}, [raw])
    assert (value, error) == (None, "schema 1 cannot be read as declared: d: its alias a is another field's, too")


Z = {"type": "record", "name": "R", "fields": [{"name": "z", "type": "int"}]}


def passed_over(kind: Any) -> dict[str, Any]:
    """A record with a field that `Z` has not, before the one that it has."""
    return {**Z, "fields": [{"name": "f", "type": kind}, *Z["fields"]]}


def doubled(leaf: Any, levels: int) -> Any:
    """A record that holds another one twice, and so on: each level doubles how many leaves there are."""
    kind: Any = {"type": "record", "name": "D0", "fields": [{"name": "x", "type": leaf}]}
    for level in range(1, levels):
        fields = [{"name": "a", "type": kind}, {"name": "b", "type": f"D{level - 1}"}]
        kind = {"type": "record", "name": f"D{level}", "fields": fields}
    return kind


def items_of(kind: Any) -> dict[str, Any]:
    return {"type": "array", "items": kind}


NOTHING = {"type": "fixed", "name": "Nothing", "size": 0}
MANY = b"\xa0\x9c\x01"  # 10,000
MOST = b"\xfe" + b"\xff" * 8 + b"\x01"  # 2 ** 63 - 1
BOUND = "items, which take no bytes; a record has 10000 of them at most"


@pytest.mark.parametrize(
    ("kind", "body", "message"),
    [
        (doubled("int", 40), b"\x02" * 50, "f: the record ends within it"),
        (doubled("null", 40), b"", None),
        (doubled(NOTHING, 40), b"", None),
        (items_of(doubled("int", 80)), b"\x02", "f: 1 items, 1 bytes left"),
        (items_of(doubled("null", 80)), b"\x02\x00", None),
        (items_of("null"), MANY + b"\x00", None),
        (items_of("null"), MANY + b"\x02\x00", f"f: 1 {BOUND}"),
        (items_of("null"), b"\x02" + MOST + b"\x00", f"f: 9223372036854775807 {BOUND}"),
        (items_of(items_of("null")), MANY + (b"\x02\x00") * 10_000 + b"\x00", None),
        (items_of(items_of("null")), MANY + (MANY + b"\x00") * 10_000 + b"\x00", f"f: 10000 {BOUND}"),
        (items_of(items_of(NOTHING)), MANY + (MANY + b"\x00") * 10_000 + b"\x00", f"f: 10000 {BOUND}"),
    ],
)
def test_what_is_passed_over_takes_no_longer_than_its_bytes(kind: Any, body: bytes, message: str | None) -> None:
    started = time.monotonic()
    found = read(Z, {1: passed_over(kind), 2: Z}, [framed(body + b"\x0a"), framed(b"\x0a", 2)] * 3)
    assert found == [({"z": 5} if message is None else None, message), ({"z": 5}, None)] * 3
    assert time.monotonic() - started < 20


def test_items_without_bytes_are_read_as_many_as_they_are() -> None:
    both = {"type": "record", "name": "R", "fields": [{"name": "f", "type": items_of(items_of(NOTHING))}]}
    raw = [b"\x06\x04\x00\x00\x02\x00\x00", b"\x00", b"\x02\x04\x02\x00\x00", b"\x04\x01\x01"]
    assert read(both, {1: both}, [framed(one) for one in raw]) == [
        ({"f": [[b"", b""], [], [b""]]}, None),
        ({"f": []}, None),
        ({"f": [[b""] * 3]}, None),
        (None, "f[]: the record ends within it"),
    ]
    started = time.monotonic()
    found = read(both, {1: both}, [framed(MANY + (MANY + b"\x00") * 10_000 + b"\x00")] * 3)
    assert found == [(None, f"f[]: 10000 {BOUND}")] * 3
    assert time.monotonic() - started < 20


def test_items_of_records_that_hold_each_other_are_no_items_without_bytes() -> None:
    pair = {"type": "record", "name": "A", "fields": [{"name": "kids", "type": items_of({"type": "record", "name": "B", "fields": [{"name": "a", "type": "A"}]})}]}  # fmt: skip
    body = written(pair, {"kids": [{"a": {"kids": []}}] * 20_000})
    assert read(Z, {1: passed_over(pair)}, [framed(body + b"\x0a")]) == [({"z": 5}, None)]


@pytest.mark.parametrize("size", [2**31, 2**63 - 1, 2**63, 10**30])
def test_a_fixed_type_that_no_record_holds_is_no_schema(size: int) -> None:
    kind = {"type": "fixed", "name": "F", "size": size}
    how = with_known_schemas(
        RegistryAvro(json.dumps(Z)),
        {1: Written(AVRO, (json.dumps(passed_over(kind)),)), 2: Written(AVRO, (json.dumps(Z),))},
        strict=True,
    )
    said = f"schema 1 cannot be used: the Avro schema cannot be used: fixed F: size {size}"
    assert told(how, [framed(b"\x0a"), framed(b"\x0a", 2)]) == [(None, said), ({"z": 5}, None)]


def test_a_large_fixed_type_takes_no_more_than_the_records() -> None:
    kind = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "f", "type": {"type": "fixed", "name": "F", "size": 2**31 - 1}}],
    }
    assert (
        read(kind, {1: kind}, [framed(b"abc")] * 100)
        == [(None, "f: fixed(2147483647) of 2147483647 bytes, 3 left")] * 100
    )


@pytest.mark.parametrize("kind", [decimal(5, 2), {**NOTHING, "logicalType": "decimal", "precision": 5, "scale": 2}])
def test_a_decimal_of_no_bytes_is_no_number(kind: Any) -> None:
    schema = {**Z, "fields": [{"name": "f", "type": ["null", kind]}, *Z["fields"]]}
    body = b"\x02" if kind["type"] == "fixed" else b"\x02\x00"
    found = read(schema, {1: schema}, [framed(b"\x00\x0a"), framed(body + b"\x0a"), framed(b"\x00\x0a")])
    assert found == [
        ({"f": None, "z": 5}, None),
        (None, "f: 0 bytes are no decimal(5, 2)"),
        ({"f": None, "z": 5}, None),
    ]
