"""Expected beside got: what is equal, and what a reader sees first where it is not."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal

import pytest

from lakestreams.testing import Result, assert_results
from lakestreams.testing.difference import difference, text_of


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        ("null", '"null"'),
        (True, "true"),
        (1, "1"),
        (1.0, "1"),
        (Decimal("1.50"), "1.5"),
        (1.5, "1.5"),
        (1e21, "1000000000000000000000"),
        (float("nan"), "nan"),
        ("größe", '"größe"'),
        (b"\xff", '{"base64": "/w=="}'),
        ({"b": [1, None], "a": {}}, '{"a": {}, "b": [1, null]}'),
        (date(2026, 3, 1), '"2026-03-01"'),
        (
            datetime(2026, 3, 1, 12),  # noqa: DTZ001 - as Spark gives it
            '"2026-03-01T12:00:00"',
        ),
    ],
)
def test_a_value_is_told_by_its_text(value, text):
    assert text_of(value) == text


def test_equal_rows_have_no_difference():
    assert difference(("key", "value"), [("a", {"x": 1, "y": 2})], [("a", {"y": 2.0, "x": 1})]) is None
    assert difference(("key",), [], []) is None


def test_the_first_difference_is_marked_and_told():
    wanted = [("alice", {"page": "/home", "region": "us"}, 1), ("bob", None, 2), ("日本", {"page": "/x"}, 3)]
    got = [("alice", {"page": "/home", "region": "us"}, 1), ("bob", {"page": "/y"}, 2), ("日本", {"pages": "/x"}, 3)]
    found = difference(("key", "value", "at"), wanted, got)
    first = (found or "").splitlines()[0]
    assert first == 'expected 3 | got 3: first in row 2: value expected null, got {"page": "/y"}'
    marks = [line[:2] for line in (found or "").splitlines()[1:]]
    assert marks == ["  ", "  ", "> ", "! "]
    bars = {line.index("|") for line in (found or "").splitlines()[1:4]}
    assert len(bars) == 1, "aligned"


def test_the_innermost_part_that_differs_is_told():
    found = difference(("value",), [({"a": {"b": 1, "c": 2}, "d": 3},)], [({"a": {"b": 1, "c": 5}},)])
    assert (found or "").startswith(
        "expected 1 | got 1: first in row 1: value.a.c expected 2, got 5; value.d expected 3, got nothing"
    )


@pytest.mark.parametrize(
    ("wanted", "got", "told"), [(2, 1, "row 2 is only in expected"), (1, 2, "row 2 is only in got")]
)
def test_a_row_too_many(wanted, got, told):
    rows = [("a",), ("b",)]
    assert told in (difference(("key",), rows[:wanted], rows[:got]) or "")


def test_of_many_rows_those_around_the_difference_are_shown():
    rows = [(number,) for number in range(50)]
    found = difference(("key",), rows, [*rows[:20], ("x",), *rows[21:]]) or ""
    assert "  ... 17 equal before" in found
    assert "  ... 21 more" in found
    assert len(found.splitlines()) == 16


def test_results_are_compared_by_what_is_given():
    got = [Result("a", {"x": 1}, 5, "matched", 0, (("T", 0, 0),))]
    assert_results(got, [("a", {"x": 1}, 5)])
    assert_results(got, got)
    with pytest.raises(AssertionError, match="timestamp expected 6, got 5"):
        assert_results(got, [("a", {"x": 1}, 6)])
    with pytest.raises(AssertionError, match="cause expected 1, got 0"):
        assert_results(got, [Result("a", {"x": 1}, 5, "matched", 1, (("T", 0, 0),))])
    with pytest.raises(AssertionError, match="row 1 is only in got"):
        assert_results(got, [])
    for wrong in ([("a", {"x": 1})], [("a", {"x": 1}, 5), *got]):
        with pytest.raises(TypeError, match="not a tuple"):
            assert_results(got, wrong)


def test_decimals_are_compared_to_their_last_digit():
    one, other = (Decimal(f"1234567890123456789012345678.123456789{digit}") for digit in "12")
    assert difference(("value",), [[one]], [[other]]) is not None
    assert difference(("value",), [[one]], [[Decimal(f"{one}00")]]) is None
