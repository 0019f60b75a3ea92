"""Numbers as Java writes them, floats that are nearest, and the bounds of what is read: each was compared with Java's own."""

from __future__ import annotations

import datetime as dt
import struct

import pytest
from tests.formats.cases import told

from lakestreams import Json
from lakestreams.formats.numbers import java_float_text, java_text, nearest_float

DOUBLES = {
    1.0: "1.0", 1.5: "1.5", 1e7: "1.0E7", 9999999.5: "9999999.5", 0.001: "0.001", 9.99e-4: "9.99E-4", 5e-324: "4.9E-324", -0.0: "-0.0",
    123456789.5: "1.234567895E8", 1e308: "1.0E308", 120.0: "120.0", float("inf"): '"Infinity"', -float("inf"): '"-Infinity"',
}  # fmt: skip
FLOATS = {
    "1.00000017881393432617187499": "1.0000001", "1.00000017881393432617187501": "1.0000002", "16777217": "1.6777216E7",
    "3.4028235677973362e38": "3.4028235E38", "3.4028235677973366e38": "3.4028235E38", "3.4028235677973367e38": '"Infinity"', "-1e39": '"-Infinity"', "0.1": "0.1", "1e-50": "0.0",
}  # fmt: skip
UTC = dt.timezone.utc  # noqa: UP017 - `dt.UTC` reads worse beside datetime


def test_doubles_are_written_as_java_writes_them() -> None:
    assert {value: java_text(value) for value in DOUBLES} == DOUBLES


def test_a_float_is_the_nearest_one_and_rounded_once() -> None:
    assert {text: java_float_text(nearest_float(text)) for text in FLOATS} == FLOATS
    for bits in (0x00000001, 0x007FFFFF, 0x3F800001, 0x7F7FFFFF):
        (value,) = struct.unpack(">f", struct.pack(">I", bits))
        assert nearest_float(repr(value)) == value


@pytest.mark.parametrize(("inner", "read"), [(999, True), (1_000, False)])
def test_depth_is_counted(inner: int, read: bool) -> None:
    for opened, closed in ((b"[", b"]"), (b'{"a":', b"}")):
        record = b'{"zz":' + opened * inner + b"1" + closed * inner + b"}"
        assert (told(Json("a int, s string"), [record])[0][1] is None) == read


def test_a_year_zero_may_be_the_year_one_in_utc() -> None:
    given = Json("at timestamp")
    first = dt.datetime(1, 1, 1, tzinfo=UTC)
    assert told(given, [b'{"at": "0000-12-31T23:59:00-00:01"}']) == [({"at": first}, None)]
    ((_, error),) = told(given, [b'{"at": "0000-12-31T23:59:00Z"}'])
    assert str(error).startswith('at: "0000-12-31T23:59:00Z" is no timestamp')
