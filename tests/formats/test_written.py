"""Formats that write: what is written reads as the same columns, and as the bytes that other clients expect."""

from __future__ import annotations

import datetime as dt
import struct
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812
from tests.formats.cases import told

from lakestreams import (
    Avro,
    ConnectJson,
    DebeziumJson,
    Json,
    JsonSchema,
    Long,
    MaxwellJson,
    Protobuf,
    RegistryJson,
    Text,
    Uuid,
)
from lakestreams.errors import UnwritableResult
from lakestreams.formats import WritableFormat
from lakestreams.formats.base import struct_type
from lakestreams.operators.workers import coded_errors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

UTC = dt.timezone.utc  # noqa: UP017 - `dt.UTC` reads worse beside datetime
LARGE = 2**63
DOCUMENT = Json(
    "a int, big bigint, s string, f double, ok boolean, d decimal(5,2), day date, at timestamp, plain timestamp_ntz, "
    "b binary, n struct<x: bigint, userId: array<string>>, l array<int>, m map<string, int>"
)
AT = dt.datetime(2024, 2, 29, 12, 0, 0, 123_456, tzinfo=UTC)
FULL: dict[str, Any] = {
    "a": -(2**31), "big": 2**63 - 1, "s": 'ä\n"\\\U0001f600\x00', "f": -1.5e300, "ok": False, "d": Decimal("-999.90"),
    "day": dt.date(1969, 2, 28), "at": AT, "plain": AT.replace(tzinfo=None), "b": bytearray(b"\x00\xff{"),
    "n": {"x": None, "userId": ["p", None, ""]}, "l": [1, None, 3], "m": {"": None},
}  # fmt: skip
FULL_TEXT = (
    '{"a":-2147483648,"big":9223372036854775807,"s":"ä\\n\\"\\\\\U0001f600\\u0000","f":-1.5E300,"ok":false,"d":-999.90,'
    '"day":"1969-02-28","at":"2024-02-29T12:00:00.123456Z","plain":"2024-02-29T12:00:00.123456","b":"AP97",'
    '"n":{"x":null,"userId":["p",null,""]},"l":[1,null,3],"m":{"":null}}'
)
EMPTY: dict[str, Any] = dict.fromkeys(FULL)
NUMBERS = (0, 1, -1, 255, -256, 2**31, LARGE - 1, -LARGE)

# A format with what it writes: columns (None: a null struct), the bytes, and what they read as where that is not the same.
WRITTEN: dict[str, tuple[WritableFormat, list[tuple[Any, ...]]]] = {
    "text": (
        Text("page"),
        [({"page": text}, text.encode()) for text in ("", "/home", "ä\x00\U0001f600")]
        + [(None, None), ({"page": None}, None, None)],
    ),
    "long": (
        Long("n"),
        [({"n": number}, struct.pack(">q", number)) for number in NUMBERS] + [(None, None), ({"n": None}, None, None)],
    ),
    "json": (
        DOCUMENT,
        [
            (FULL, FULL_TEXT.encode()),
            (EMPTY, ("{" + ",".join(f'"{name}":null' for name in EMPTY) + "}").encode()),
            ({**EMPTY, "l": [], "m": {}}, None),
            (None, None),
        ],
    ),
}


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata"])
def test_what_is_written_is_read_again(spark: SparkSession, zone: str) -> None:
    """Times are written in UTC whatever the session's time zone: a cycle that is repeated writes equal bytes."""
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        for name, (written, cases) in WRITTEN.items():
            kind = f"no int, value {struct_type(written.fields)}"
            frame = spark.createDataFrame([(no, case[0]) for no, case in enumerate(cases)], kind)
            rows = frame.withColumn("raw", written.write(F.col("value"))).orderBy("no").collect()
            again = told(written, [row["raw"] and bytes(row["raw"]) for row in rows])
            for row, (value, error), (given, data, *other) in zip(rows, again, cases, strict=True):
                where = f"{name} {row['no']} in {zone}"
                assert error is None, where
                assert value == (other[0] if other else given), where
                if data is not None or row["value"] is None:
                    assert row["raw"] == data, where
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


AVRO = '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}, {"name": "f", "type": "double"}]}'
PROTO = 'syntax = "proto3"; message M { int32 a = 1; }'
UNWRITABLE: list[tuple[Any, dict[str, Any], str]] = [
    (Uuid("id"), {"id": "no\nuuid"}, "uuid(id): not a UUID: no uuid"),
    (Avro(AVRO), {"a": None, "f": 1.0}, "Avro: a: null is no int"),
    (Avro(AVRO), {"a": 1, "f": None}, "Avro: "),
    (Protobuf(PROTO), {"a": None}, "Protobuf: a: null, but the field has no presence"),
    (JsonSchema("a int not null"), {"a": None}, "json_schema: a: null, but declared not null"),
]


@pytest.mark.parametrize("case", UNWRITABLE, ids=lambda case: case[2])
def test_what_a_format_cannot_write_ends_the_run_with_a_code(spark: SparkSession, case: Any) -> None:
    how, row, message = case
    frame = spark.createDataFrame([(row,)], f"value {struct_type(how.fields)}")
    with pytest.raises(UnwritableResult) as caught, coded_errors():
        frame.select(how.write(F.col("value"))).collect()
    assert caught.value.message.startswith(message)
    assert "expect_or_drop" in caught.value.hint


def test_which_formats_can_be_written() -> None:
    read_only = (RegistryJson("a int"), ConnectJson("a int"), DebeziumJson("a int"), MaxwellJson("a int"))
    every = (Text("a"), Long("a"), Json("a int"), *read_only)
    assert [isinstance(one, WritableFormat) for one in every] == [True] * 3 + [False] * 4
