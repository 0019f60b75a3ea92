"""What Kafka Streams made of aggregations, `toTable` and `suppress`: the recorded extra cases, and laws by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.conformance.functions import joiner
from tests.reference.aggregates import COUNT, Aggregator, StreamAggregate, TableAggregate, ToTable
from tests.reference.making import record
from tests.reference.records import TABLE, Record, Result
from tests.reference.suppress import BufferFull, Suppress, results
from tests.reference.table_table import TableTableJoin
from tests.reference.tables import LatestTable, make_table

FILE = json.loads((Path(__file__).parents[1] / "conformance" / "cases" / "kafka_streams.json").read_text())
EXTRA = {case["id"]: case for case in FILE["extra_cases"] if case["join"] != "stream-stream"}
SUPPRESSED = {case["id"]: case for case in FILE["cases"] if case["params"].get("suppress_side")}


def texts(initial: str | None) -> Aggregator:
    """The probes' adder and subtractor, which write down what they were given."""
    return Aggregator(lambda one, value: f"{one}+{value}", lambda one, value: f"{one}-{value}", initial)


def by_prefix(_: Any, value: str) -> tuple[str, str]:
    group, item = value.split(":")
    return group, item


def page_of(case: dict[str, Any]) -> Any:
    params = case["params"]
    if case["join"] == "to-table":
        return ToTable()
    source, kind = params["kind"].split("-")
    aggregator = {"count": COUNT, "reduce": texts(None), "aggregate": texts("0")}[kind]
    if source == "kstream":
        return StreamAggregate(aggregator)
    table = make_table(versioned=params["versioned"], retention_ms=params.get("history_retention_ms"))
    return TableAggregate(table, by_prefix, aggregator)


def records_of(case: dict[str, Any]) -> list[Record]:
    return [
        Record(one["topic"], 0, one["offset_order"], one["ts"], one["key"], one["value"], TABLE)
        for one in case["inputs"]
    ]


def told(found: list[Result]) -> list[tuple[Any, Any, int, int]]:
    return [(one.key, None if one.value is None else str(one.value), one.ts, one.cause.offset) for one in found]


def wanted(case: dict[str, Any]) -> list[tuple[Any, Any, int, int]]:
    return [(row["key"], row["value"], row["ts"], row["after_input"]) for row in case["expected"]]


@pytest.mark.parametrize("name", [name for name, case in EXTRA.items() if case["join"] != "suppress"])
def test_aggregations_as_kafka_streams_ran_them(name: str) -> None:
    page = page_of(EXTRA[name])
    assert told([row for one in records_of(EXTRA[name]) for row in page.put(one)]) == wanted(EXTRA[name])


@pytest.mark.parametrize("name", [name for name, case in EXTRA.items() if case["join"] == "suppress"])
def test_suppress_as_kafka_streams_ran_it(name: str) -> None:
    params = EXTRA[name]["params"]
    page = Suppress(params["until_ms"], most=params.get("max_records"), full=params.get("full", "emit"))
    found: list[Result] = []

    def play() -> None:
        for one in records_of(EXTRA[name]):
            found.extend(results(page, one))

    if "expected_error" in EXTRA[name]:
        with pytest.raises(BufferFull, match="2 keys wait, 1 fit"):
            play()
    else:
        play()
    assert told(found) == wanted(EXTRA[name])


@pytest.mark.parametrize("name", SUPPRESSED)
def test_a_join_sees_of_a_suppressed_table_what_has_come_out(name: str) -> None:
    case = SUPPRESSED[name]
    params = case["params"]
    page = TableTableJoin((case["how"],), LatestTable(), LatestTable(), joiner(case["joiner"]))
    buffer = Suppress(params["suppress_until_time_limit_ms"])
    found: list[Result] = []
    for one in records_of(case):
        for update in buffer.put(one) if one.source == params["suppress_side"] else [one]:
            found += [replace(row, cause=one) for row in getattr(page, one.source)(update)]
    assert told(found) == wanted(case)


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
    assert told(results(Suppress(0), record("left", "k", "a", 5)))[0][:3] == ("k", "a", 5)
    page = Suppress(10)
    updates = [("a", "1", 20), ("b", "1", 15), ("a", "2", 3), ("t", "x", 25), ("t", "x", 30)]
    found = [page.put(record("left", key, value, ts)) for key, value, ts in updates]
    assert [[(one.key, one.value, one.ts) for one in out] for out in found] == [
        [], [], [], [("b", "1", 15)], [("a", "2", 3)],
    ]  # fmt: skip
