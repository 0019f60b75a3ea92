"""What Kafka Streams made of aggregations, `toTable` and `suppress`: the recorded extra cases, and laws by hand."""

from __future__ import annotations

from tests.conformance.derived import texts
from tests.reference.aggregates import Aggregator, TableAggregate
from tests.reference.making import record
from tests.reference.suppress import Suppress, results
from tests.reference.tables import LatestTable


def test_a_half_without_a_group_is_left_out() -> None:
    """A row that names no group is in none; it enters one later, and leaves it without entering another."""
    page = TableAggregate(LatestTable(), lambda _, value: (value.get("group"), value.get("item")), texts("0"))
    values = [{"item": "a"}, {"group": "g", "item": "b"}, {"group": "h"}, None]
    found = [page.put(record("left", "k", value, ts)) for ts, value in enumerate(values)]
    assert [[(row.key, row.value, row.ts) for row in rows] for rows in found] == [
        [],
        [("g", "0+b", 1)],
        [("g", "0+b-b", 2)],
        [],
    ]


def test_an_aggregate_of_none_is_a_tombstone_and_starts_anew() -> None:
    empty = Aggregator(lambda one, value: [*one, value], lambda one, value: [x for x in one if x != value] or None, [])
    page = TableAggregate(LatestTable(), lambda _, value: ("g", value), empty)
    found = [row for ts, value in enumerate(["a", None, "b"]) for row in page.put(record("left", "k", value, 9 - ts))]
    assert [(row.value, row.old, row.ts) for row in found] == [(["a"], None, 9), (None, ["a"], 9), (["b"], None, 7)]


def test_suppress_of_no_time_lets_everything_through_and_a_late_update_keeps_its_place() -> None:
    (through,) = results(Suppress(0), record("left", "k", "a", 5))
    assert (through.key, through.value, through.ts) == ("k", "a", 5)
    page = Suppress(10)
    updates = [("a", "1", 20), ("b", "1", 15), ("a", "2", 3), ("t", "x", 25), ("t", "x", 30)]
    found = [page.put(record("left", key, value, ts)) for key, value, ts in updates]
    assert [[(one.key, one.value, one.ts) for one in out] for out in found] == [
        [], [], [], [("b", "1", 15)], [("a", "2", 3)],
    ]  # fmt: skip
