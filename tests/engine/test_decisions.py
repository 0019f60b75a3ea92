"""What is decided on quarantined records, over tables that no run has made: states, numbers, repairs, two at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812
from tests.engine.harness import claimed

from lakestreams.engine.ledger.ledger import Ledger
from lakestreams.engine.ledger.plans import REPLAYED, Ingest, Plan, Range
from lakestreams.engine.publish import quarantine
from lakestreams.engine.replay import deciding, quarantined
from lakestreams.engine.replay import requests as replays
from lakestreams.engine.replay.deciding import Selection
from lakestreams.engine.replay.edits import Repair
from lakestreams.engine.replay.quarantined import Filters
from lakestreams.engine.replay.requests import Request
from lakestreams.engine.runtime.lake import Lake
from lakestreams.engine.state.bronze import row_cycle, within
from lakestreams.errors import NotInQuarantine
from lakestreams.testing.small import small

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow]

ALL = Selection()


@pytest.fixture(autouse=True, scope="module")
def _small(spark: SparkSession) -> Iterator[None]:
    with small(spark):
        yield


def refused(topic: str, offset: int, attempt: int = 0, **more: Any) -> dict[str, Any]:
    """A row in quarantine."""
    return {
        "pipeline": "p", "code": "MALFORMED_VALUE", "message": "m", "node": topic, "topic": topic, "partition": 0,
        "offset": offset, "attempt": attempt, "key": bytearray(b"k"), "value": bytearray(b"\xff"),
        "timestamp_ms": 5, "ingest_time_ms": 1_000 + offset, "cycle": 1 + attempt, **more,
    }  # fmt: skip


def put(spark: SparkSession, ledger: Ledger, rows: Sequence[dict[str, Any]]) -> None:
    """As cycles do, each time in a commit of its own."""
    schema = quarantine.schema(spark)
    table = quarantine.table(ledger)
    table.create(spark, schema)
    names = [field.name for field in schema.fields]
    frame = spark.createDataFrame([tuple(row.get(name) for name in names) for row in rows], schema)
    frame.write.format("delta").mode("append").save(table.path)


@pytest.fixture
def ledger(spark: SparkSession, tmp_path: Path) -> Ledger:
    """Of a pipeline with five records in quarantine, one of them refused by two nodes."""
    own = Ledger(Lake(str(tmp_path)), "p")
    own.create(spark)
    own = claimed(spark, own, "run")
    late = {"code": "LATE", "node": "joined", "ingest_time_ms": 9_000}
    rows = [refused("a", 1), refused("a", 2), refused("a", 3, **late), refused("b", 1), refused("b", 1, **late)]
    put(spark, own, [*rows, refused("b", 7, partition=1, cycle=3), refused("a", 1, pipeline="other")])
    return own


def states(spark: SparkSession, ledger: Ledger) -> dict[tuple[str, int, int], set[str]]:
    found: dict[tuple[str, int, int], set[str]] = {}
    for row in quarantined.with_decisions(spark, ledger).collect():
        found.setdefault((row["topic"], row["offset"], row["attempt"]), set()).add(row["state"])
    return found


def only(topic: str, offset: int) -> Selection:
    return Selection(Filters(topics=(topic,), from_offset=offset, to_offset=offset))


def decisions(spark: SparkSession, ledger: Ledger) -> list[tuple[Any, ...]]:
    columns = ("request", "action", "topic", "offset", "attempt", "of_attempt")
    return sorted(tuple(row) for row in replays.table(ledger).read(spark).select(*columns).collect())


def test_a_record_goes_from_open_to_replayed_and_comes_again_with_its_next_attempt(
    spark: SparkSession, ledger: Ledger
) -> None:
    assert set.union(*states(spark, ledger).values()) == {"open"}
    assert replays.oldest(spark, ledger, 0) is None
    made = deciding.request(spark, ledger, ALL, "fixed the reader")
    assert made == [Request(1, "a", 3), Request(2, "b", 2)]
    assert set.union(*states(spark, ledger).values()) == {"requested"}
    for selection in (ALL, replace(ALL, again=True)):
        with pytest.raises(NotInQuarantine, match="of the records that match: 5 requested"):
            deciding.request(spark, ledger, selection)
        with pytest.raises(NotInQuarantine, match="nothing to discard"):
            deciding.discard(spark, ledger, selection)
    assert replays.oldest(spark, ledger, 0) == Request(1, "a")
    assert replays.oldest(spark, ledger, 1) == Request(2, "b")
    assert replays.waiting(spark, ledger, 1) == 1
    ledger.record(spark, ledger.ingest_row(Ingest(1, 1, (Range("a", REPLAYED, 1, 2, records=3),), request=1)))
    assert {place[0]: state for place, state in states(spark, ledger).items()} == {
        "a": {"replayed"},
        "b": {"requested"},
    }
    put(spark, ledger, [refused("a", 1, attempt=1)])  # it has failed again
    found = states(spark, ledger)
    assert (found["a", 1, 0], found["a", 1, 1]) == ({"replayed"}, {"open"})
    assert deciding.request(spark, ledger, ALL) == [Request(3, "a", 1)]
    assert decisions(spark, ledger)[-1] == (3, "replay", "a", 1, 2, 1)
    assert deciding.request(spark, ledger, replace(only("a", 2), again=True)) == [Request(4, "a", 1)]
    assert decisions(spark, ledger)[-1] == (4, "replay", "a", 2, 2, 0)


def test_what_is_discarded_or_superseded_is_done_with_unless_it_is_asked_for_again(
    spark: SparkSession, ledger: Ledger
) -> None:
    assert deciding.discard(spark, ledger, only("a", 1), "a test's record") == [Request(1, "a", 1)]
    assert deciding.request(spark, ledger, only("a", 2)) == [Request(2, "a", 1)]
    assert replays.oldest(spark, ledger, 0) == Request(2, "a"), "a discard is nothing to ingest"
    gone = quarantined.with_decisions(spark, ledger).where("topic = 'a' and offset = 2")
    for _ in range(2):  # a repetition after a crash
        later = gone.select(*replays.RECORD, F.lit("later").alias("reason"))
        replays.supersede(spark, ledger, Request(2, "a"), later)
    assert replays.superseded(spark, ledger, Request(2, "a")).count() == 1
    assert states(spark, ledger)["a", 2, 0] == {"requested"}, "until its batch is closed"
    ledger.record(spark, ledger.ingest_row(Ingest(1, 1, (), request=2)))
    found = {row["offset"]: row for row in quarantined.with_decisions(spark, ledger).where("topic = 'a'").collect()}
    assert {offset: (row["state"], row["reason"]) for offset, row in found.items()} == {
        1: ("discarded", "a test's record"), 2: ("superseded", "later"), 3: ("open", None),
    }  # fmt: skip
    own = Selection(Filters(topics=("a",)))
    assert deciding.left_out(spark, ledger, own) == {"discarded": 1, "superseded": 1}
    assert deciding.request(spark, ledger, replace(own, again=True)) == [Request(3, "a", 3)]
    assert [one[4] for one in decisions(spark, ledger)[-3:]] == [1, 2, 1], "the superseded one was attempt 1"


def test_repairs_are_of_the_attempt_that_was_looked_at(spark: SparkSession, ledger: Ledger) -> None:
    mended = Repair("a", 0, 1, 0, {"value": b"good", "timestamp_ms": 77})
    absent = Repair("a", 0, 99, None, {"value": None})
    stale = Repair("a", 0, 2, 1, {"value": b"x"})
    with pytest.raises(NotInQuarantine, match=r"with this attempt: a-0@99, a-0@2"):
        deciding.request(spark, ledger, Selection(repairs=(mended, absent, stale)))
    as_it_is = Repair("b", 1, 7)
    nulled = Repair("b", 0, 1, None, {"key": None, "value": b"\xfe"})
    made = deciding.request(spark, ledger, Selection(repairs=(mended, as_it_is, nulled)))
    assert made == [Request(1, "a", 1), Request(2, "b", 2)]
    rows = replays.table(ledger).read(spark).orderBy("request", "offset").collect()
    assert [(row["key"], bytes(row["value"]), row["timestamp_ms"], row["repaired"]) for row in rows] == [
        (b"k", b"good", 77, True), (None, b"\xfe", 5, True), (b"k", b"\xff", 5, False),
    ]  # fmt: skip


def test_two_operators_at_once_decide_on_each_record_once(spark: SparkSession, ledger: Ledger) -> None:
    put(spark, ledger, [refused("c", offset) for offset in range(20)])
    deciding.discard(spark, ledger, only("a", 1))
    low = Selection(Filters(topics=("c",), to_offset=12))
    high = Selection(Filters(topics=("c",), from_offset=7))

    def decide(selection: Selection) -> int:
        return sum(one.records for one in deciding.request(spark, ledger, selection))

    with ThreadPoolExecutor(2) as pool:
        counts = list(pool.map(decide, (low, high)))
    assert sum(counts) == 20
    asked = decisions(spark, ledger)[1:]
    assert sorted(one[3] for one in asked) == list(range(20))
    assert {one[0] for one in asked} == {2, 3}


def test_filters_choose_what_they_say(spark: SparkSession, ledger: Ledger) -> None:
    rows = quarantined.with_decisions(spark, ledger)
    rules = F.when(F.col("offset") == 2, F.array(F.lit("r1"), F.lit("r2"))).otherwise(F.col("rules"))
    rows = rows.withColumn("rules", rules).localCheckpoint()

    def places(**filters: Any) -> list[tuple[str, int]]:
        found = rows.where(Filters(**filters).condition).select("topic", "offset").collect()
        return sorted((row[0], row[1]) for row in found)

    assert places() == [("a", 1), ("a", 2), ("a", 3), ("b", 1), ("b", 1), ("b", 7)]
    assert places(codes=("LATE",)) == [("a", 3), ("b", 1)]
    assert places(nodes=("joined",), topics=("b",)) == [("b", 1)]
    assert places(rules=("r2", "r9")) == [("a", 2)]
    assert places(partition=1) == places(cycle=3) == places(from_offset=7) == [("b", 7)]
    assert places(from_offset=2, to_offset=3) == [("a", 2), ("a", 3)]
    assert places(since_ms=9_000) == [("a", 3), ("b", 1)]
    assert places(states=("replayed", "discarded")) == []
    groups = [
        tuple(row) for row in quarantined.groups(rows).select("code", "node", "rule", "records", "open").collect()
    ]
    assert groups == [
        ("LATE", "joined", None, 2, 2), ("MALFORMED_VALUE", "b", None, 2, 2), ("MALFORMED_VALUE", "a", None, 1, 1),
        ("MALFORMED_VALUE", "a", "r1", 1, 1), ("MALFORMED_VALUE", "a", "r2", 1, 1),
    ]  # fmt: skip
    assert [row["offset"] for row in quarantined.newest(rows, 3).select("offset").collect()] == [3, 1, 7]


def test_attempts_lie_in_the_stretches_of_their_batches_and_in_no_other(spark: SparkSession) -> None:
    """Against the same in plain Python, over every row of a small bronze."""
    plans = [
        Plan(4, "f", (Range("t", 0, 0, 3, 3), Range("t", 1, 0, 1, 1), Range("t", REPLAYED, 5, 5)), {}, 1, 5),
        Plan(5, "f", (Range("t", 0, 3, 3), Range("t", 1, 1, 4, 3), Range("t", REPLAYED, 5, 7, 2)), {}, 1, 6),
        Plan(7, "f", (Range("t", 0, 3, 4, 1), Range("t", 1, 4, 4), Range("t", REPLAYED, 7, 9, 1)), {}, 1, 8),
    ]
    rows = [
        (partition, offset, attempt, seq)
        for partition in (0, 1) for offset in range(6) for attempt in (0, 1, 2) for seq in range(4, 10)
    ]  # fmt: skip
    frame = spark.createDataFrame(rows, "partition int, offset bigint, attempt int, seq bigint")

    def cycle_of(partition: int, offset: int, attempt: int, seq: int) -> int | None:
        at, number = (REPLAYED, seq) if attempt else (partition, offset)
        lies = [plan.cycle for plan in plans for part in plan.ranges
                if part.partition == at and part.from_offset <= number < part.to_offset]  # fmt: skip
        return lies[0] if lies else None

    stretches = {0: (0, 4), 1: (0, 4), REPLAYED: (5, 9)}
    judged = frame.select("*", within(stretches).alias("inside"), row_cycle("t", plans).alias("cycle"))
    for row in judged.collect():
        wanted = cycle_of(*row[:4])
        assert row["inside"] == (wanted is not None), row
        if row["inside"]:
            assert row["cycle"] == wanted, row
    of_one = frame.where(within({1: (2, 4)}))
    assert of_one.count() == frame.where("partition = 1 and offset in (2, 3) and attempt = 0").count()


def test_rows_of_many_cycles_are_told_apart(spark: SparkSession) -> None:
    """A continuous job plans more than these a day; some plans take nothing of a partition."""
    count = 1_200
    plans = [
        Plan(cycle, "f", tuple(Range("t", n, at(cycle - 1, n), at(cycle, n)) for n in (0, 1)), {}, cycle, cycle)
        for cycle in range(1, count + 1)
    ]
    rows = spark.range(2 * count).selectExpr("0 as partition", "id as offset", "id div 2 + 1 as wanted")
    rows = rows.unionByName(
        spark.range(count // 3).selectExpr("1 as partition", "id as offset", "3 * id + 3 as wanted")
    )
    assert rows.where(~row_cycle("t", plans).eqNullSafe(F.col("wanted"))).count() == 0


def at(cycle: int, partition: int) -> int:
    """The end of a cycle in a partition: two records a cycle, or one every three cycles."""
    return cycle // 3 if partition else 2 * cycle
