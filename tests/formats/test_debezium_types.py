"""The types that Debezium writes in JSON, each by the declaration that docs/formats.md gives it."""

from __future__ import annotations

import base64
import datetime as dt
import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.formats.cases import told

from lakestreams import DebeziumJson, Json

PAGE = Path(__file__).parents[2] / "docs" / "formats.md"
NOON = dt.datetime(2024, 3, 1, 12, 0, 0, 123456, tzinfo=dt.UTC)
MILLIS, MICROS, DAY = 1_709_294_400_123, 1_709_294_400_123_456, 19_783
SECOND = NOON.replace(microsecond=123_000)


def unscaled(number: int) -> str:
    return base64.b64encode(number.to_bytes(3, "big", signed=True)).decode()


# What is written; the declaration; what the value is as JSON; what is in the column.
TYPES: list[tuple[str, str, Any, Any]] = [
    ("io.debezium.time.Date", "date_days", DAY, NOON.date()),
    ("io.debezium.time.Date", "date_days", -1, dt.date(1969, 12, 31)),
    ("io.debezium.time.Timestamp", "timestamp_ms", MILLIS, SECOND),
    ("io.debezium.time.MicroTimestamp", "timestamp_us", MICROS, NOON),
    ("io.debezium.time.NanoTimestamp", "bigint", MICROS * 1000 + 789, MICROS * 1000 + 789),
    ("io.debezium.time.ZonedTimestamp", "timestamp", "2024-03-01T12:00:00.123456Z", NOON),
    ("io.debezium.time.ZonedTimestamp", "timestamp", "2024-03-01T14:00:00.123456+02:00", NOON),
    ("io.debezium.time.Time", "int", 43_200_123, 43_200_123),
    ("io.debezium.time.Time", "bigint", 43_200_123_456, 43_200_123_456),
    ("io.debezium.time.Time", "bigint", 43_200_123_456_789, 43_200_123_456_789),
    ("Decimal", "decimal_base64(10, 2)", unscaled(-1250), Decimal("-12.50")),
    ("a text", "decimal(10, 2)", "-12.50", Decimal("-12.50")),
    ("a number", "double", -12.5, -12.5),
    ("io.debezium.data.VariableScaleDecimal", "struct<scale: int, value: string>", {"scale": 3, "value": "BNI="}, {"scale": 3, "value": "BNI="}),
    ("io.debezium.data.Json", "string", '{"a": 1}', '{"a": 1}'),
]  # fmt: skip


@pytest.mark.parametrize(("written", "declared", "given", "read"), TYPES)
@pytest.mark.parametrize("many", [1, 200])
def test_a_type_as_it_is_declared(written: str, declared: str, given: Any, read: Any, many: int) -> None:
    ddl = f"id int, x {declared}, maybe {declared}"
    row = {"id": 1, "x": given, "maybe": None}
    want = ({"id": 1, "x": read, "maybe": None}, None)
    event = json.dumps({"before": None, "after": row, "op": "c", "ts_ms": 1})
    wrapped = json.dumps({"schema": {"type": "struct"}, "payload": {"after": row, "op": "u"}})
    for one in (event, wrapped):
        assert told(DebeziumJson(ddl), [one.encode()] * many) == [want] * many, written
    assert told(Json(ddl), [json.dumps({**row, "__op": "c", "__deleted": "false"}).encode()] * many) == [want] * many


def test_the_page_declares_them_so() -> None:
    text = PAGE.read_text(encoding="utf-8")
    rows = re.findall(r"^  \| (.*?) \| .*? \| (.*?) \|$", text, re.MULTILINE)
    page = {written: declared for written, declared in rows if "---" not in written}
    for written, declared, *_ in TYPES:
        own = next(own for name, own in page.items() if f"`{written}`" in name or name == written)
        assert f"`{declared}`" in own, written


def test_transaction_metadata_is_a_stream_of_its_own() -> None:
    how = Json("status string, id string, event_count bigint, data_collections array<struct<data_collection: string, event_count: bigint>>, ts_ms timestamp_ms")  # fmt: skip
    begin = {"status": "BEGIN", "id": "571:53195829", "event_count": None, "data_collections": None, "ts_ms": MILLIS}
    end = {**begin, "status": "END", "event_count": 2, "data_collections": [{"data_collection": "s1.a", "event_count": 2}]}  # fmt: skip
    found = told(how, [json.dumps(one).encode() for one in (begin, end)])
    assert found == [({**one, "ts_ms": SECOND}, None) for one in (begin, end)]
