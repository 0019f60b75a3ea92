"""JSON objects without inner braces are read as they stand, all others wrapped: both ways find the same, whatever comes."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F  # noqa: N812

from lakestreams import Json
from lakestreams.formats.base import struct_type
from lakestreams.formats.json import object_error, read_object, the_object

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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


def test_both_ways_find_the_same(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "lakestreams.formats.json.as_written", lambda _raw, _found, parsed, *_: parsed
    )  # of both the same
    chance = random.Random(SEED)
    rows = [(place, bytearray(text(chance))) for place in range(12_000)]
    rows += [(-1, None), (-2, bytearray()), (-3, bytearray(b"{}")), (-4, bytearray(b"{")), (-5, bytearray(b"}"))]
    given = spark.createDataFrame(rows, "place int, raw binary").coalesce(2)
    own = Json(SCHEMA)
    parsed = own.parse(F.col("raw"), F.col("read"))
    error = object_error(F.col("raw"), F.col("wrapped"), f"does not fit {SCHEMA}")
    value = F.when(F.col("raw").isNotNull() & error.isNull(), the_object(F.col("wrapped")))
    both = given.select(
        "*", own.read(F.col("raw")).alias("read"), read_object(F.col("raw"), struct_type(own.fields)).alias("wrapped")
    ).select(
        "raw", F.col("read._ls_plain").isNotNull().alias("plain"), parsed.error.alias("error"), error.alias("error_then"),
        F.to_json(parsed.value).alias("value"), F.to_json(value).alias("value_then"),
    )  # fmt: skip
    same = F.col("error").eqNullSafe(F.col("error_then")) & F.col("value").eqNullSafe(F.col("value_then"))
    found = both.select("raw", "plain", "error", same.alias("same")).collect()
    differing = [(bytes(one["raw"]), one["error"]) for one in found if not one["same"]]
    assert not differing, f"seed {SEED}: {differing[:5]}"
    counts = [sum(one["plain"] is plain and (one["error"] is None) is good for one in found)
              for plain in (True, False) for good in (True, False)]  # fmt: skip
    assert min(counts) > 100, "good and bad ones were read in both ways"


def test_a_schema_that_nests_is_read_wrapped_alone(spark: SparkSession) -> None:
    nested = Json("x int, s struct<a: int>")
    rows = spark.createDataFrame([(bytearray(b'{"x":1,"s":{"a":2}}'),), (bytearray(b'{"x":1}'),)], "raw binary")
    parsed = nested.parse(F.col("raw"))
    assert (
        "_ls_plain" not in rows.select(nested.read(F.col("raw")).alias("read")).schema["read"].dataType.simpleString()
    )
    found = [row["v"].asDict(recursive=True) for row in rows.select(parsed.value.alias("v")).collect()]
    assert found == [{"x": 1, "s": {"a": 2}}, {"x": 1, "s": None}]
