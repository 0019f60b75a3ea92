"""Values as the bytes that a format reads; what it cannot hold is refused, bytes pass as they are."""

from __future__ import annotations

import pytest

from lakestreams import Json, Long, RegistryJson, Text
from lakestreams.errors import InvalidOption
from lakestreams.testing.encode import encode

JSON = Json("page string")


@pytest.mark.parametrize(
    ("value", "how", "raw"),
    [
        (None, Text(), None),
        (b"\xff", JSON, b"\xff"),
        ("größe", Text(), "größe".encode()),
        ("", Text(), b""),
        (-2, Long(), b"\xff" * 7 + b"\xfe"),
        ({"page": "/größe"}, JSON, '{"page": "/größe"}'.encode()),
        ({"page": None}, RegistryJson("page string"), b'\x00\x00\x00\x00\x01{"page": null}'),
    ],
)
def test_a_value_becomes_the_bytes_that_its_format_reads(value, how, raw):
    assert encode(value, how) == raw


@pytest.mark.parametrize(
    ("value", "how"), [(5, Text()), ("5", Long()), (True, Long()), (2**63, Long()), (1.5, Long()), ([1], JSON)]
)
def test_what_a_format_cannot_hold_is_refused(value, how):
    with pytest.raises(InvalidOption, match="cannot be written as"):
        encode(value, how)
