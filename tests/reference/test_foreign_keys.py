"""Both foreign-key joins by hand: the tables of semantics 10.2, and what KIP-955 leaves to analogy."""

from __future__ import annotations

from typing import Any

import pytest
from tests.reference.fk_stream_table import ForeignKeyStreamJoin
from tests.reference.fk_table_table import ForeignKeyJoin
from tests.reference.making import Event, after_bar, play, rows, slash, values
from tests.reference.tables import LatestTable, VersionedTable

RIGHT: list[Event] = [("right", "f", "F", 50)]
NOTHING: list[Any] = []


def joined(how: str, *, cached: bool = False, result_cached: bool = False) -> ForeignKeyJoin:
    left, right = LatestTable(cached=cached), LatestTable(cached=cached)
    return ForeignKeyJoin(how, left, right, after_bar, slash, result_cached=result_cached)


@pytest.mark.parametrize(
    ("before", "event", "inner", "left"),
    [
        (None, "v", NOTHING, ["v/."]),
        (None, "v|f", ["v|f/F"], ["v|f/F"]),
        (None, "v|g", NOTHING, ["v|g/."]),
        ("v|f", "v|f", ["v|f/F"], ["v|f/F"]),
        ("v|g", "w|g", NOTHING, ["w|g/."]),
        ("v|f", "v|g", [None], ["v|g/."]),
        ("v|g", "v|h", [None], ["v|h/."]),
        ("v|g", "v|f", ["v|f/F"], ["v|f/F"]),
        ("v", "v|f", ["v|f/F"], ["v|f/F"]),
        ("v|g", "v", [None], ["v/."]),
        ("v", "w", NOTHING, ["w/."]),
        ("v|f", None, [None], [None]),
        ("v|g", None, [None], [None]),
        ("v", None, NOTHING, [None]),
        (None, None, NOTHING, NOTHING),
    ],
)
def test_a_left_event(before: str | None, event: str | None, inner: list[Any], left: list[Any]) -> None:
    for how, wanted in (("inner", inner), ("left", left)):
        join = joined(how)
        play(join, RIGHT + ([] if before is None else [("left", "k", before, 1)]))
        assert values(join, ("left", "k", event, 2)) == wanted


@pytest.mark.parametrize(("how", "gone"), [("inner", None), ("left", "v|f/.")])
def test_a_right_event_answers_every_subscriber_by_key_bytes_with_its_own_time(how: str, gone: str | None) -> None:
    join = joined(how)
    play(join, [("left", key, "v|f", 99) for key in ("é", "b", "a")] + [("left", "x", "v|g", 99)])
    for value, wanted in (("F", "v|f/F"), ("F", "v|f/F"), (None, gone), (None, gone)):
        assert rows(play(join, [("right", "f", value, 7)])) == [(key, wanted, 7, 1) for key in ("a", "b", "é")]
    play(join, [("left", key, "v", 99) for key in ("a", "b", "é")])
    assert values(join, ("right", "f", "F", 7)) == NOTHING


def test_times_of_left_events() -> None:
    join = joined("inner")
    results = play(join, [*RIGHT, ("left", "k", "v|f", 10), ("left", "k", None, 20), ("left", "k", "v|f", 60)])
    assert [(row.value, row.ts) for row in results] == [("v|f/F", 50), (None, 50), ("v|f/F", 60)]
    left = joined("left")
    assert [row.ts for row in play(left, [*RIGHT, ("left", "k", "v|f", 10), ("left", "k", None, 20)])] == [50, 20]


def test_caches_swallow_what_was_never_there() -> None:
    never: list[Event] = [("left", "k", "v|f", 0), ("left", "k", None, 1)]
    assert values(joined("inner"), *never) == [None]
    assert values(joined("inner", result_cached=True), *never) == NOTHING
    assert values(joined("inner", result_cached=True), *RIGHT, *never, *never) == ["v|f/F", None, "v|f/F", None]
    twice: list[Event] = [
        ("left", "k", "v|f", 0),
        ("right", "f", "F", 1),
        ("right", "f", None, 2),
        ("right", "f", None, 3),
    ]
    assert values(joined("left"), *twice) == ["v|f/.", "v|f/F", "v|f/.", "v|f/."]
    assert values(joined("left", cached=True), *twice) == ["v|f/.", "v|f/F", "v|f/."]


def test_versioned_sides_ignore_what_is_not_the_latest() -> None:
    join = ForeignKeyJoin("inner", VersionedTable(100), VersionedTable(100), after_bar, slash)
    events: list[Event] = [
        ("left", "k", "v|f", 5),
        ("right", "f", "F", 5),
        ("left", "k", "w|f", 4),
        ("right", "f", "E", 4),
    ]
    assert values(join, *events) == ["v|f/F"]


def test_one_stream_record_meets_every_row_that_names_it() -> None:
    details: list[Event] = [("right", key, value, 9) for key, value in (("d2", "x|o"), ("d10", "y|o"), ("d3", "z"))]
    join = ForeignKeyStreamJoin("left", after_bar, slash)
    assert rows(play(join, [*details, ("left", "o", "done", 3)])) == [("o", "done/y|o", 3, 4), ("o", "done/x|o", 3, 4)]
    moved: list[Event] = [("right", "d2", "x|p", 1), ("right", "d10", None, 1), ("left", "o", "again", 4)]
    assert values(join, *moved) == ["again/."]


def test_null_keys_and_values_of_a_stream_with_foreign_keys() -> None:
    events: list[Event] = [
        ("right", None, "x|o", 1),
        ("left", "o", None, 2),
        ("left", None, "v", 3),
        ("left", "o", "w", 4),
    ]
    assert values(ForeignKeyStreamJoin("left", after_bar, slash), *events) == ["v/.", "w/."]
    assert values(ForeignKeyStreamJoin("inner", after_bar, slash), *events) == NOTHING
