"""Many records at once or one after the other: both ways find the same, values and messages, whatever comes."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

from lakestreams import ConnectJson, DebeziumJson, Json, MaxwellJson, RegistryJson
from lakestreams.formats.blocks import Blocks
from lakestreams.formats.decoding import Decoded
from lakestreams.formats.json import Declared

SCHEMA = "ms bigint, page string, d double, b boolean, t string, dec string, a array<int>, bin binary, x int"
SEED = 7
PIECES = (
    '"ms":1', '"ms":"1"', '"ms":1.0', '"ms":1e3', '"MS":3', '"ms":1,"ms":2', '"page":"x"', '"page":"}"', '"page":5',
    '"page":"\\u007d"', '"page":{"a":1}', '"page":[1]', '"page":"\x01"', '"page":"a\\q"', '"page":"\\ud800"',
    '"page":"' + "y" * 50 + '"', '"d":"NaN"', '"d":NaN', '"d":"Infinity"', '"d":1', '"b":true', '"b":"true"',
    '"t":"2020-01-01T00:00:00Z"', '"t":"x"', '"t":5', '"dec":1.5', '"dec":"1.5"', '"dec":123456789012', '"a":[1,2]',
    '"a":[1,"x"]', '"a":1', '"a":[', '"a":]', '"bin":"AQ=="', '"bin":"?"', '"x":99999999999', '"x":null', "'x':1",
    '"x":01', '"x":+1', '"x":.5', '"x":1_0', '"x":', '/*c*/"x":1', "null", '"x"', "x", '"page":NULL',
    '"zz":' + "[" * 2000, '"big":' + "9" * 1100,
)  # fmt: skip
BEHIND = ("x", "}", " ", "{", "{}", ' {"ms":1}', "\n", "\x00", "]", ",", ',{"x":1}', '],"o":[{"x":1}')
BEFORE = (" ", "\n", "[", "\ufeff", "x", "{")


def text(chance: random.Random) -> bytes:
    """An object, or something that is nearly one."""
    between = chance.choice((",", ",", ",", ",", " , ", ",,", " ", ";"))
    made = "{" + between.join(chance.choice(PIECES) for _ in range(chance.randrange(5))) + "}"
    fault = chance.randrange(12)
    place = chance.randrange(len(made) + 1)
    if fault == 0:
        made += chance.choice(BEHIND)
    elif fault == 1:
        made = chance.choice(BEFORE) + made
    elif fault == 2:
        made = made[:place]
    elif fault == 3:
        made = made[:place] + chance.choice('{}[]",:\\ \x00e') + made[place:]
    raw = made.encode("utf-8", "surrogatepass")
    if fault == 4:
        place = chance.randrange(len(raw) + 1)
        raw = raw[:place] + bytes([chance.choice((0xFF, 0xC3, 0xE2, 0x80))]) + raw[place:]
    return raw


# Records as producers write them, by the million: each part is one of several, so that many have one skeleton.
LAYOUTS = (
    ('{"ms":', "NUMBER", ',"page":"', "TEXT", '","d":', "NUMBER", ',"b":', "WORD", "}"),
    ('{"page": "', "TEXT", '", "t": "', "TIME", '", "dec": ', "NUMBER", ', "ms": ', "WHOLE", "}"),
    ('{"zz":{"a":', "NUMBER", ',"b":"', "TEXT", '"},"x":', "WHOLE", ',"dec":"', "DECIMAL", '","s":{"p":"', "TEXT", '","q":', "NUMBER", "}}"),
    ('{"schema":null,"payload":{"ms":', "WHOLE", ',"page":', "WORD", ',"t":"', "TIME", '"}}'),
    ('{"op":"', "OP", '","after":{"ms":', "WHOLE", ',"page":"', "TEXT", '"}}'),
    ('{"schema":null,"payload":{"before":null,"after":{"ms":', "WHOLE", ',"page":"', "TEXT", '"},"op":"', "OP", '"}}'),
    ('{"payload":{"after":{"ms":1,"page":"', "TEXT", '"},"op":"c"},"op":"', "OP", '"}'),
    ('{"a":[', "NUMBER", ',1],"page":"', "TEXT", '","ms":', "WHOLE", "}"),
    ('{"ms":', "WHOLE", ',"ms":', "WHOLE", ',"page":"', "TEXT", '"}'),
    ('{"dec":"', "TEXT", '"', "BETWEEN", '"x":', "WHOLE", "BETWEEN", '"ms":', "NUMBER", ',"page":"b"}'),
    ('{"at":', "WHOLE", ',"day":"', "TIME", '","x":', "WHOLE", ',"page":', "WORD", "}"),
    ('{"ms":', "WHOLE", ',"a":', "LIST", ',"page":"', "TEXT", '","lines":', "LINES", "}"),
    ('{"lines":', "LINES", ',"unread":{"more":', "LINES", ',"a":', "LIST", '},"f":', "NUMBER", ',"bin":"', "BYTES", '","dec":', "NUMBER", "}"),
    ('{"schema":{"fields":', "LINES", '},"payload":{"ms":', "WHOLE", ',"page":"', "TEXT", '","t":"', "TIME", '"}}'),
)  # fmt: skip
PARTS: dict[str, tuple[str, ...]] = {
    "WHOLE": ("1", "-5", "0", "12", "2147483647", "9223372036854775807", "1709294400123", "-0", "007", "null", "1.0", "1e3", "128", "true", "-", "32768", "2932897", "9223372036854775808"),
    "NUMBER": ("1.5", "0.1", "-2", "1e5", "1E-7", "1e400", "-0.0", "-0", "12345678901234567.89", "null", "5.", ".5", "+1", "NaN", "9" * 310, "true", "1.10", "[1]", "{}", "2 3"),
    "TEXT": ("a", "", "/home", "x y", "größe", "\u2028", "😀", "}", "{", ",", ":", "a\\n", "\\u00e4", "\\ud800", '\\"', "\x01", "\n", "null", "5", "[", "'", '","page":"z', '"', "1.1", "\x7f"),
    "WORD": ("true", "false", "null", "True", "nul", "5", '"x"', "1.10", "truefalse", ""),
    "TIME": ("2024-03-01T12:00:00Z", "2024-03-01 12:00:00.5Z", "2024-03-01T12:00Z", "2024-02-30T12:00:00Z", "2024-03-01", "0000-12-31T23:59:59Z", "2024-03-01T12:00:00+02:00", "x", "9999-12-31T23:59:59.999999Z", "2024-03-01T24:00:00Z"),
    "DECIMAL": ("1", "1.5", "-0.25", "12,50", "1.500", "123456789012", "1e1", "-0", "00.5", ""),
    "BETWEEN": (",", ", ", " ,", "", "5,", ":", ",,", "}", "1", "[,"),
    "OP": ("c", "u", "d", "x"),
    "LIST": ("[]", "[1]", "[1, 2,3]", "[null]", "[]]", "[1", '["x"]', "[1.5]", "[1,]", "[[1]]", "null", "5", "[" * 40 + "]" * 40, "[" * 120 + "]" * 120, "[2147483648]", "[ ]", '["]"]', "[-0]"),
    "LINES": (
        "[]", '[{"sku":"a","n":1}]', '[{"sku":"b","n":2,"price":1.50},{"n":3,"sku":"[x]"}]', '[{"sku":"größe"}, {}]', '[{"sku":1.10}]', '[{"sku":5}]',
        '[{"n":"x"}]', '[{"n":1,"n":2}]', "[null]", "[{}]", '[{"sku":"a"]}', '[{"price":123456789012345678}]', '[{"sku":"a\\u0062"}]', "{}", '[{"tags":["x",[]]}]',
    ),
    "BYTES": ("", "AQ==", "QUJD", "?", "AQ", "A", "====", "AQ==="),
}  # fmt: skip
FORMATS: tuple[Declared, ...] = (
    Json(SCHEMA),
    Json("ms bigint not null, page string, t timestamp, d double, b boolean"),
    Json(
        "ms int, dec decimal(10, 2), x tinyint, s struct<p: string, q: double>, zz struct<a: decimal(5, 1), b: string>"
    ),
    Json("p string, q double, x smallint", {"p": ["s", "p"], "q": ["s", "q"]}),
    Json("at timestamp_ms, day date, x date_days, page string"),
    ConnectJson("ms bigint, page string, t timestamp_ntz"),
    DebeziumJson("ms bigint, page string"),
    MaxwellJson("ms bigint, page string"),
    RegistryJson("ms timestamp_s, page string, x float"),
    Json("ms bigint, a array<int>, page string, lines array<struct<sku: string, n: int, price: decimal(10, 2)>>"),
    Json("a array<string>, lines array<map<string, string>>, f float, bin binary, dec decimal(12, 3)"),
    Json("page string, f double", {"page": "page", "f": "f"}),
)


def records(chance: random.Random, count: int) -> list[bytes | None]:
    """Records of a few layouts, some of them broken; and some that are broken in any way."""
    layouts = [*chance.sample(LAYOUTS, 3), chance.choice(LAYOUTS)]
    faulty = chance.choice((0.0, 0.002, 0.02, 0.2))
    found: list[bytes | None] = []
    for _ in range(count):
        fault = chance.random()
        if fault < 0.01:
            found.append(text(chance) if fault < 0.009 else None)
            continue
        parts = [
            part if part not in PARTS else chance.choice(PARTS[part] if chance.random() < faulty else PARTS[part][:3])
            for part in chance.choice(layouts)
        ]
        made = "".join(parts).encode()
        if chance.random() < faulty / 4:
            place = chance.randrange(len(made))
            made = made[:place] + bytes([chance.choice(b'{}[]",: \\\x00\xff0e')]) + made[place + chance.randrange(2) :]
        found.append(made)
    return found


def compare(chance: random.Random, count: int) -> Counter[str]:
    """Some records by a format in both ways: how many there were of which kind."""
    how = chance.choice(FORMATS)
    blocks = Blocks(how.objects())
    raw = pa.array([None, *records(chance, count)], pa.binary())[chance.randrange(2) :]
    exact = blocks.exactly(raw)
    slowly: list[int] = []

    def exactly(some: Any) -> Decoded:
        slowly.append(len(some))
        return Blocks.exactly(blocks, some)

    blocks.exactly = exactly  # type: ignore[method-assign]
    quick = blocks.decode(raw)
    quick.values.validate(full=True)
    assert quick.values.type == exact.values.type
    if not (same(quick.values, exact.values) and quick.errors.equals(exact.errors)):
        rows = zip(raw.to_pylist(), *(part.to_pylist() for part in (*quick, *exact)), strict=True)
        wrong = [row for row in rows if repr(row[1:3]) != repr(row[3:5])]
        raise AssertionError(f"{how.describe()}: {wrong[:3]}")
    by_themselves = [raw[place].as_py() for place, one in enumerate(quick.one_by_one.to_pylist()) if one]
    assert len(by_themselves) == sum(slowly) - raw.null_count
    assert None not in by_themselves
    good = len(raw) - exact.values.null_count
    return Counter(read=good, refused=len(raw) - exact.errors.null_count, quickly=len(raw) - sum(slowly))


def same(one: Any, other: Any) -> bool:
    """Whether both say the same, to the sign of a zero."""
    return bool(one.equals(other)) and repr(one.to_pylist()) == repr(other.to_pylist())


def test_both_ways_find_the_same() -> None:
    chance = random.Random(SEED)
    found = sum((compare(chance, 500) for _ in range(16)), Counter[str]())
    assert min(found[one] for one in ("read", "refused", "quickly")) > 500, f"seed {SEED}: {found}"


def test_lists_are_read_by_columns_beside_broken_ones() -> None:
    """Of objects, texts and numbers, declared or not, however long; what is broken is refused, and slows nothing else down."""
    chance = random.Random(SEED)

    def line() -> dict[str, Any]:
        sku = chance.choice(["a", "größe", "[x]", "}"])
        return {
            "sku": sku,
            "n": chance.randrange(9),
            "price": chance.randrange(999) / 100,
            "sizes": [1, 2][: chance.randrange(3)],
        }

    rows = [
        {
            "id": n,
            "lines": [line() for _ in range(chance.randrange(4))],
            "tags": ["x", "y"][: n % 3],
            "more": [[n], {"a": []}],
        }
        for n in range(600)
    ]
    good = [json.dumps(row, ensure_ascii=False).encode() for row in rows]
    columns = (
        "id int, tags array<string>, lines array<struct<sku: string, n: int, price: decimal(6, 2), sizes: array<int>>>"
    )
    blocks = Blocks(Json(columns).objects())
    slowly: list[int] = []

    def exactly(some: Any) -> Decoded:
        slowly.append(len(some))
        return Blocks.exactly(blocks, some)

    broken = [
        b'{"id":1,"lines":[{"sku":"a"]}',
        b'{"id":1,"lines":[],"tags":["x"}',
        b'{"id":1,"lines":[1],"tags":[]}',
        b'{"id":1,"more":[1,]}',
    ]
    mixed = [*good, *broken * 3]
    chance.shuffle(mixed)
    exact = blocks.exactly(pa.array(mixed, pa.binary()))
    blocks.exactly = exactly  # type: ignore[method-assign]
    quick = blocks.decode(pa.array(mixed, pa.binary()))
    assert same(quick.values, exact.values)
    assert quick.errors.equals(exact.errors)
    assert sum(slowly) <= len(broken) * 3
    assert quick.values.null_count == len(broken) * 3


@pytest.mark.soak
def test_both_ways_find_the_same_of_a_million_records() -> None:
    seed = time.time_ns() % 2**32
    print(f"seed {seed}")  # noqa: T201 - soak tests print their seeds
    chance, found = random.Random(seed), Counter[str]()
    while found["read"] + found["refused"] < 1_000_000:
        found += compare(chance, chance.choice((70, 300, 3_000)))
    assert min(found[one] for one in ("read", "refused", "quickly")) > 10_000, f"seed {seed}: {found}"
