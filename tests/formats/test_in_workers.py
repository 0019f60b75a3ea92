"""Formats in Spark's Python workers: every type passes through, and so do nulls and errors."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F  # noqa: N812

from lakestreams import Json, Long, RegistryAvro
from lakestreams.engine.ingest.bronze_rows import typed_rows
from lakestreams.formats.avro.formats import UNKNOWN_IDS
from lakestreams.topology.endpoints import Source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVERY = Json(
    "tiny tinyint, small smallint, whole int, big bigint, near float, nearer double, word string, ok boolean, bytes binary, "
    "price decimal(38, 10), day date, at timestamp, wall timestamp_ntz, in_ms timestamp_ms, tags array<string>, "
    "m map<string, array<int>>, n struct<x: timestamp, y: array<struct<z: decimal(5, 2)>>>"
)
FULL = (
    b'{"tiny": -128, "small": 32767, "whole": 1, "big": 9223372036854775807, "near": 1.5, "nearer": 0.1, "word": "\xc3\xa4", '
    b'"ok": true, "bytes": "AP8=", "price": "1.5", "day": "2024-03-01", "at": "2024-03-01T12:00:00Z", '
    b'"wall": "2024-03-01T12:00", "in_ms": 5, "tags": ["a", null], "m": {"a": [1, null], "": null}, '
    b'"n": {"x": "2024-03-01T12:00Z", "y": [{"z": 1.25}, null]}}'
)
NOON = dt.datetime(2024, 3, 1, 12)  # noqa: DTZ001 - as Spark gives it in UTC
WANTED = {
    "tiny": -128, "small": 32767, "whole": 1, "big": 2**63 - 1, "near": 1.5, "nearer": 0.1, "word": "ä", "ok": True,
    "bytes": b"\x00\xff", "price": Decimal("1.5"), "day": NOON.date(), "wall": NOON, "tags": ["a", None],
    "m": {"a": [1, None], "": None},
}  # fmt: skip


@pytest.mark.connect
def test_every_type_passes_through_workers(spark: SparkSession) -> None:
    rows = [(0, bytearray(8), bytearray(FULL), 1), (1, None, None, 2), (2, bytearray(b"x"), bytearray(b"{"), 3)]
    raw = spark.createDataFrame(rows, "place int, key binary, value binary, timestamp_ms bigint")
    typed = typed_rows(raw, Source("s", "s", "stream", key=Long("id"), value=EVERY))
    moments = F.unix_micros("v.at"), F.unix_micros("v.in_ms"), F.unix_micros("v.n.x")
    full, null, bad = typed.select("*", F.array(*moments).alias("moments")).orderBy("place").collect()
    value = full["v"].asDict(recursive=True)
    assert {name: value[name] for name in WANTED} == WANTED
    assert [one and one["z"] for one in value["n"]["y"]] == [Decimal("1.25"), None]
    noon = 1_709_294_400_000_000
    assert (full["k"]["id"], full["moments"]) == (0, [noon, 5_000, noon])
    assert [null[name] for name in ("k", "key_error", "v", "value_error")] == [None] * 4
    assert [bad[name] for name in ("k", "key_error", "v")] == [None, "a long has 8 bytes, not 1", None]
    assert bad["value_error"] == f"does not fit {EVERY.schema}"


AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "int"},
        {"name": "ratio", "type": "float"},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "wall", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "tags", "type": {"type": "array", "items": ["null", "string"]}},
        {"name": "counts", "type": {"type": "map", "values": "long"}},
        {"name": "choice", "type": ["null", "string", "long"]},
        {
            "name": "parts",
            "type": {
                "type": "array",
                "items": {"type": "record", "name": "Part", "fields": [{"name": "x", "type": "int"}]},
            },
        },
    ],
}
ORDER = {
    "id": 7, "ratio": 1.5, "price": Decimal("1.25"), "at": dt.datetime(2024, 3, 1, 12, tzinfo=dt.UTC), "wall": NOON,
    "day": NOON.date(), "tags": ["a", None], "counts": {"a": 2}, "choice": {"string": None, "long": 5}, "parts": [{"x": 3}],
}  # fmt: skip


@pytest.mark.connect
def test_every_type_of_avro_passes_through_workers_by_the_schemas_that_are_known(spark: SparkSession) -> None:
    text = json.dumps(AVRO)
    how = RegistryAvro(text)
    told = how.knowing({1: (text,)}, strict=False)
    values = [how.encoded(ORDER), None, b"\0\0\0\0\x07\x0a", b"{"]
    rows = [(place, None, raw and bytearray(raw), 1) for place, raw in enumerate(values)]
    raw = spark.createDataFrame(rows, "place int, key binary, value binary, timestamp_ms bigint")
    source = Source("s", "s", "stream", key=RegistryAvro('"long"', "k"), value=told)
    full, null, unknown, bare = (
        typed_rows(raw, source).select("*", F.unix_millis("v.at").alias("ms")).orderBy("place").collect()
    )
    value = full["v"].asDict(recursive=True)
    assert {**value, "at": ORDER["at"]} == ORDER
    assert (full["ms"], full["value_error"]) == (1_709_294_400_000, None)
    assert [null["v"], null["value_error"]] == [None, None]
    assert unknown["value_error"] == "schema 7: the registry has no Avro schema of this id"
    assert bare["value_error"] == "no registry prefix (0x00 and four bytes) before the record"


def test_a_strict_format_ends_the_statement_and_names_the_ids(spark: SparkSession) -> None:
    strict = RegistryAvro('"long"', "n").knowing({1: ('"long"',)}, strict=True)
    raw = spark.createDataFrame(
        [(None, bytearray(b"\0\0\0\0\x07\x0a"), 1)], "key binary, value binary, timestamp_ms bigint"
    )
    typed = typed_rows(raw, Source("s", "s", "stream", key=Long("id"), value=strict))
    with pytest.raises(Exception, match=rf"{UNKNOWN_IDS} \[7\]"):
        typed.collect()
