"""Stream-table joins as of a time and with grace, and the global table, by hand."""

from __future__ import annotations

import pytest
from tests.reference.making import Event, play, record, rows, slash, values
from tests.reference.stream_global import StreamGlobalJoin
from tests.reference.stream_table import StreamTableJoin
from tests.reference.tables import LatestTable, VersionedTable

VERSIONS: list[Event] = [("right", "k", "a", 10), ("right", "k", None, 20), ("right", "k", "late", 15)]


def test_as_of_shows_the_version_that_was_valid() -> None:
    join = StreamTableJoin("left", VersionedTable(1000), slash)
    looks: list[Event] = [("left", "k", ts, ts) for ts in (9, 10, 14, 15, 19, 20, 30)]
    assert values(join, *VERSIONS, *looks) == ["9/.", "10/a", "14/a", "15/late", "19/late", "20/.", "30/."]


def test_grace_holds_stream_records_until_their_own_side_has_moved_on() -> None:
    join = StreamTableJoin("inner", VersionedTable(1000), slash, grace_ms=5)
    events: list[Event] = [
        ("right", "k", "a", 0),
        ("left", "k", "waits", 10),
        ("right", "k", "b", 9),
        ("right", "k", "c", 100),  # a table record releases nothing
        ("left", "k", "goes", 15),
        ("left", "k", "late", 3),  # too late to wait
        ("left", "k", "edge", 10),  # waits no time
    ]
    assert rows(play(join, events)) == [
        ("k", "waits/b", 10, 5),
        ("k", "late/a", 3, 6),
        ("k", "edge/b", 10, 7),
    ]


def test_released_records_come_by_time_key_and_arrival() -> None:
    join = StreamTableJoin("left", VersionedTable(1000), slash, grace_ms=50)
    events: list[Event] = [
        ("left", key, f"{key}{n}", ts) for n, (key, ts) in enumerate([("b", 2), ("a", 2), ("b", 1), ("a", 2)])
    ]
    assert values(join, *events, ("left", "x", "x", 100)) == ["b2/.", "a1/.", "a3/.", "b0/."]


def test_grace_goes_by_the_clock_of_the_task() -> None:
    join = StreamTableJoin("left", VersionedTable(1000), slash, grace_ms=5)
    assert join.left(record("left", "k", "waits", 10, task=0)) == []
    assert join.left(record("left", "x", "x", 100, task=1)) == []
    assert [row.value for row in join.left(record("left", "y", "y", 15, task=0))] == ["waits/."]


def test_a_null_key_has_nothing_to_wait_for() -> None:
    for how, wanted in (("left", ["v/."]), ("inner", [])):
        join = StreamTableJoin(how, VersionedTable(1000), slash, grace_ms=5)
        assert values(join, ("left", None, "v", 1)) == wanted


def test_grace_needs_versions() -> None:
    with pytest.raises(ValueError, match="must be versioned"):
        StreamTableJoin("left", LatestTable(), slash, grace_ms=5)


def test_a_global_table_is_looked_up_by_the_mapped_key() -> None:
    events: list[Event] = [
        ("right", "p", "P", 0),
        ("left", "k", "p", 3),
        ("left", None, "p", 4),
        ("left", "k", "q", 5),
        ("left", "p", "", 6),  # maps to no key
        ("left", "k", None, 7),
    ]

    def joined(how: str) -> StreamGlobalJoin:
        return StreamGlobalJoin(
            how,
            lambda _, value: value or None,
            lambda key, left, right, mapped: f"{key}|{mapped}|{slash(key, left, right)}",
        )

    matched = [("k", "k|p|p/P", 3, 2), (None, "None|p|p/P", 4, 3)]
    assert rows(play(joined("inner"), events)) == matched
    assert rows(play(joined("left"), events)) == [*matched, ("k", "k|q|q/.", 5, 4), ("p", "p|None|/.", 6, 5)]
