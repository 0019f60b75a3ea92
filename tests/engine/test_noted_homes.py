"""Where keys lie is noted while topics are read, and joins of many records go by it: on a real broker."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.engine.harness import ZERO, Bench, fresh_topics

from lakestreams import StreamsBuilder, Text
from lakestreams.engine.ledger.plans import REPLAYED, Plan, Range
from lakestreams.engine.state import inputs
from lakestreams.evaluate import placement, sides
from lakestreams.operators import homes
from lakestreams.operators.noted_homes import NotedHomes
from lakestreams.testing.small import small
from lakestreams.verify.verify import verify

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakestreams.local.broker import Broker


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bool]]:
    """What joins look at, and whether equal keys share a task; eleven rows are many."""
    found: list[tuple[str, bool]] = []

    def spied(rows: DataFrame, tasks: int, noted: NotedHomes | None = None, rest: DataFrame | None = None) -> bool:
        looks_at = "all" if noted is None else "nothing" if rest is None else "the past"
        found.append((looks_at, homes.share_tasks(rows, tasks, noted, rest)))
        return found[-1][1]

    monkeypatch.setattr(placement, "share_tasks", spied)
    for where in (sides, inputs):  # records of a window are read from bronze then
        monkeypatch.setattr(where, "ROWS_OF_A_WORKER", 10)
    return found


@pytest.mark.broker
@pytest.mark.slow
def test_a_join_goes_by_what_ingest_has_noted(
    spark: SparkSession, broker: Broker, tmp_path: Path, asked: list[tuple[str, bool]]
) -> None:
    """Of what is new nothing is looked at, of what is retained everything."""
    orders, payments = fresh_topics(broker, 3, ("Orders", "Payments"))
    builder = StreamsBuilder("paid")
    left, right = (
        builder.stream(topic, key=Text("id"), value=Text(name)) for topic, name in ((orders, "o"), (payments, "p"))
    )
    left.expect("short", "length(o) < 9")
    left.outer_join(right, within="50 ms", name="paid").to_delta("silver.paid")
    bench = Bench(spark, broker, tmp_path, builder.build())

    def produce(first: int) -> None:
        broker.produce(orders, [(f"o{one}", "a", ZERO + one) for one in range(first, first + 40)])
        broker.produce(payments, [(f"o{one}", "b", ZERO + one + 1) for one in range(first, first + 40) if one % 4])

    in_two_rounds(spark, bench, produce, asked)
    pairs = bench.silver("silver.paid").where("o is not null and p is not null")
    assert {row[0] for row in pairs.select("id").collect()} >= {f"o{one}" for one in range(70) if one % 4}


@pytest.mark.broker
@pytest.mark.soak
def test_so_does_a_join_whose_records_wait_for_rows(
    spark: SparkSession, broker: Broker, tmp_path: Path, asked: list[tuple[str, bool]]
) -> None:
    """Some rows are there already, some come later, in the same round or the next one; what came is counted."""
    views, users = fresh_topics(broker, 3, ("Views", "Users"))
    builder = StreamsBuilder("waiting")
    stream = builder.stream(views, key=Text("user"), value=Text("page"), name="views")
    table = builder.table(users, key=Text("user"), value=Text("region"), name="users")
    stream.left_join(table, wait="5 s", amend="1 hour", name="seen").to_delta("silver.seen")
    bench = Bench(spark, broker, tmp_path, builder.build())

    def produce(first: int) -> None:
        rows = [(f"u{one}", f"region {one}", ZERO + one + (one % 3) * 90) for one in range(first - 20, first + 20)]
        broker.produce(users, rows)
        broker.produce(views, [(f"u{one}", "/", ZERO + one) for one in range(first, first + 40)])

    in_two_rounds(spark, bench, produce, asked)
    rows = {(row["user"], row["region"]) for row in bench.silver("silver.seen").collect()}
    assert {row for row in rows if row[1] is not None} == {(f"u{one}", f"region {one}") for one in range(50)}
    assert not bench.quarantine().count()
    differing = [one.what for one in verify(spark, bench.lake, bench.topology).findings if one.differs]
    assert differing == []


def in_two_rounds(
    spark: SparkSession, bench: Bench, produce: Callable[[int], None], asked: list[tuple[str, bool]]
) -> None:
    with small(spark):
        produce(0)
        driver = bench.driver(snapshot_every=1)
        driver.start()
        driver.round()
        assert asked == [("nothing", True)]
        produce(30)
        driver.round()
        driver.end()
        assert asked[1:] == [("the past", True)]


def test_what_several_plans_take_is_known_if_it_is_known_of_each() -> None:
    """Plans since what is stored are evaluated together; what replays bring is not known."""

    def plan(cycle: int, *ranges: Range) -> Plan:
        return Plan(cycle, "f", ranges, {}, cycle, cycle)

    home, other = {("murmur2", 2): frozenset({"beat"})}, {("murmur2", 2): frozenset({"b"}), ("crc32", 2): frozenset()}
    first = plan(1, Range("t", 0, 0, 9, records=9, homes=home), Range("t", 1, 0, 3, records=3, homes=other))
    nothing = plan(2, Range("t", 0, 9, 10), Range("t", 1, 3, 3))
    assert inputs._homes("t", [first, nothing]) == ({("murmur2", 2): {"beat", "b"}}, 9)
    assert inputs._homes("t", [plan(0, Range("t", 1, 0, 7, records=7)), first]) == ({}, 10)
    assert inputs._homes("t", [first, plan(2, Range("t", REPLAYED, 2, 3, records=1))]) == ({}, 9)
    assert inputs._homes("t", [nothing]) is None
