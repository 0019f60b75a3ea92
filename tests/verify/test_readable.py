"""A row's values as JSON can say them, whatever the zone of the machine; without a session."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal

import pytest
from pyspark.sql import Row
from pyspark.sql import types as T  # noqa: N812

from lakestreams.verify.readable import readable_value


@pytest.fixture(params=["UTC", "America/St_Johns", "Asia/Tokyo"])
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The machine is somewhere."""
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield request.param
    monkeypatch.undo()
    time.tzset()


def test_values_are_what_json_can_say_in_utc(zone: str) -> None:
    # as Spark collects it: in the zone of the machine, which it does not name; in St. John's in an hour that comes twice
    moment = T.TimestampType().fromInternal(1_762_059_600_000_001)
    at = "2025-11-02T05:00:00.000001Z"
    columns: list[tuple[str, T.DataType, object, object]] = [
        ("at", T.TimestampType(), moment, at),
        ("local", T.TimestampNTZType(), datetime.fromisoformat("2026-01-02T03:00"), "2026-01-02T03:00:00"),
        ("day", T.DateType(), date(2026, 1, 2), "2026-01-02"),
        ("raw", T.BinaryType(), bytearray("ü".encode()), "ü"),
        ("broken", T.BinaryType(), b"\xff", {"$base64": "/w=="}),
        ("price", T.DecimalType(4, 2), Decimal("1.50"), "1.50"),
        ("share", T.DoubleType(), math.nan, "NaN"),
        ("most", T.FloatType(), math.inf, "Infinity"),
        ("tags", T.ArrayType(T.TimestampType()), [moment], [at]),
        ("counts", T.MapType(T.IntegerType(), T.BinaryType()), {5: b"x"}, {"5": "x"}),
        ("inner", T.StructType([T.StructField("a", T.DoubleType())]), Row(0.5), {"a": 0.5}),
        ("none", T.TimestampType(), None, None),
    ]
    kind = T.StructType([T.StructField(name, of) for name, of, _, _ in columns])
    value = readable_value(Row(*(given for _, _, given, _ in columns)), kind)
    assert value == {name: wanted for name, _, _, wanted in columns}, zone
    assert json.loads(json.dumps(value, allow_nan=False)) == value
