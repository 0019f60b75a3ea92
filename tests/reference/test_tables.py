"""Tables, and the joins of tables, by hand."""

from __future__ import annotations

from typing import Any

import pytest
from tests.reference.making import Event, play, record, rows, slash, values
from tests.reference.table_table import TableTableJoin
from tests.reference.tables import LatestTable, Table, VersionedTable, make_table


def told(table: Table, *puts: tuple[Any, int]) -> list[Any]:
    """What readers hear of puts of one key: the new value, or `...` for nothing."""
    changes = [table.put(record("right", "k", value, ts)) for value, ts in puts]
    return [... if change is None else change.new and change.new.value for change in changes]


def test_a_latest_table_goes_by_arrival() -> None:
    assert told(LatestTable(), ("a", 5), ("b", 3), (None, 1), (None, 0)) == ["a", "b", None, None]
    assert told(LatestTable(cached=True), (None, 4), ("a", 5), (None, 6), (None, 7)) == [..., "a", None, ...]


def test_a_versioned_table_tells_only_of_the_latest_version() -> None:
    table = VersionedTable(10)
    assert told(table, ("a", 5), ("b", 3), ("c", 5), (None, 6), ("d", 5), ("e", 6)) == ["a", ..., "c", None, ..., "e"]
    assert told(table, ("f", 20), ("g", 10), ("h", 9)) == ["f", ..., ...]
    assert [one and one.value for one in (table.as_of("k", 10, 0), table.as_of("k", 9, 0))] == ["g", None]
    old = VersionedTable(10)
    told(old, ("only", 1))
    old.put(record("right", "x", "x", 100))
    assert [one and one.value for one in (old.as_of("k", 50, 0), old.as_of("k", 0, 0))] == ["only", None]


@pytest.mark.parametrize(
    ("puts", "is_latest"),
    [
        # The oddity: R@7 and null@7 leave no trace, so R'@6 is the latest.
        ([("R", 7), (None, 7)], True),
        ([(None, 5), ("R", 7), (None, 7)], True),
        # Not so where 7 is the end of a closed version: of a row before it, of a late record, of a tombstone.
        ([("Q", 5), ("R", 7), (None, 7)], False),
        ([("R", 7), (None, 5), (None, 7)], False),
        ([(None, 7), ("R", 7), (None, 7)], False),
    ],
)
def test_a_tombstone_at_the_time_of_the_row_may_vanish(puts: list[tuple[Any, int]], is_latest: bool) -> None:
    table = VersionedTable(100)
    told(table, *puts)
    assert told(table, ("R'", 6)) == (["R'"] if is_latest else [...])


def test_a_versioned_store_has_a_clock_a_task() -> None:
    table = VersionedTable(10)
    table.put(record("right", "x", "x", 100, task=1))
    assert told(table, ("a", 5)) == ["a"]
    assert table.put(record("right", "k", "b", 5, task=1)) is None


def test_a_versioned_table_needs_a_retention() -> None:
    with pytest.raises(ValueError, match="history retention"):
        make_table(versioned=True)


# --- on the primary key ----------------------------------------------------------------------------------------------

DELETES: list[Event] = [
    ("right", "k", "r", 5),
    ("left", "k", None, 6),  # nothing to delete
    ("left", "k", "l", 4),
    ("left", "k", None, 8),
    ("right", "k", None, 10),
    ("right", "k", None, 11),
]


def joined(how: str, *, cached: bool = False) -> TableTableJoin:
    return TableTableJoin([how], LatestTable(cached=cached), LatestTable(cached=cached), slash)


@pytest.mark.parametrize(
    ("how", "cached", "wanted"),
    [
        ("inner", False, [(None, 6, 2), ("l/r", 5, 3), (None, 8, 4)]),
        ("inner", True, [("l/r", 5, 3), (None, 8, 4)]),
        ("left", False, [(None, 6, 2), ("l/r", 5, 3), (None, 8, 4)]),
        ("outer", False, [("./r", 5, 1), ("./r", 6, 2), ("l/r", 5, 3), ("./r", 8, 4), (None, 10, 5)]),
        ("outer", True, [("./r", 5, 1), ("l/r", 5, 3), ("./r", 8, 4), (None, 10, 5)]),
    ],
)
def test_deletes(how: str, cached: bool, wanted: list[tuple[Any, int, int]]) -> None:
    assert [row[1:] for row in rows(play(joined(how, cached=cached), DELETES))] == wanted


def test_a_left_row_outlives_its_partner_and_old_values_are_told() -> None:
    results = play(joined("left"), [("left", "k", "l", 1), ("right", "k", "r", 2), ("right", "k", None, 3)])
    assert [(row.value, row.old, row.kind) for row in results] == [
        ("l/.", None, "unmatched"),
        ("l/r", "l/.", "matched"),
        ("l/.", "l/r", "unmatched"),
    ]


def test_a_chain_says_a_change_of_the_shared_table_twice() -> None:
    join = TableTableJoin(["inner", "left"], LatestTable(), LatestTable(), slash)
    assert values(join, ("left", "k", "l", 1), ("right", "k", "r", 2), ("left", "k", "m", 3)) == [
        "l/r/r",
        "l/r/r",
        "m/r/r",
    ]


def test_the_latest_version_alone_reaches_the_join() -> None:
    join = TableTableJoin(["inner"], VersionedTable(100), LatestTable(), slash)
    events: list[Event] = [
        ("right", "k", "r", 9),
        ("left", "k", "new", 5),
        ("left", "k", "old", 3),
        ("right", "k", "s", 1),
    ]
    assert values(join, *events) == ["new/r", "new/s"]
