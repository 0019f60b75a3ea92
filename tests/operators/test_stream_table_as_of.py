"""The join as of event time, against Kafka Streams' recorded cases and the specification, in one batch and in pieces."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from tests.conformance.functions import joiner
from tests.operators import plans
from tests.operators.histories import NO_GRACE, Frames, History, per_task, pieces, recorded, wild
from tests.operators.rows import frame, results
from tests.reference.stream_table import StreamTableJoin
from tests.reference.tables import VersionedTable

from lakestreams.operators.stream_table_as_of import frames as stream_versioned_table
from lakestreams.operators.stream_table_as_of.frames import AsOf
from lakestreams.operators.stream_table_as_of.grace import retain
from lakestreams.operators.versioned_table import frames as versioned
from lakestreams.operators.versioned_table.frames import Versioned

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

SEED, PIECES = 20260822, 4
SLASH = "{left}/{right}"
LONGEST = 2**63 - 1
WAYS: dict[str, dict[str, Any]] = {
    "few": {}, "by task": {"shares": 2, "together": True}, "by key": {"shares": 2}
}  # fmt: skip
Found = dict[int, list[tuple[Any, Any, int, int]]]  # by history: key, value, ts, offset of the trigger


def expected(histories: Iterable[History]) -> Found:
    found: Found = {}
    for one in histories:
        if one.case is not None:
            rows = [(row.key, row.value, row.ts, row.after_input) for row in one.case.expected]
        else:
            grace = None if one.grace_ms == NO_GRACE else one.grace_ms
            join = StreamTableJoin(one.how, VersionedTable(one.history_ms), joiner(SLASH), grace_ms=grace)
            results = [row for record in one.records for row in getattr(join, record.source)(record)]
            rows = [(row.key, row.value, row.ts, row.cause.offset) for row in results]
        if rows:
            found[one.number] = rows
    return found


def groups(histories: Iterable[History]) -> dict[tuple[str, bool], list[History]]:
    """What can share a call."""
    found: dict[tuple[str, bool], list[History]] = {}
    for one in histories:
        found.setdefault((one.how, one.grace_ms != NO_GRACE), []).append(one)
    return found


def execute(
    how: Any, waits: bool, points: DataFrame, versions: DataFrame, since: int, some: list[History], way: str = "few"
) -> DataFrame:
    history, grace = per_task(some, lambda one: one.history_ms), per_task(some, lambda one: one.grace_ms)
    join = AsOf(how, history, grace if waits else None, realm=4, **WAYS[way])
    return stream_versioned_table.execute(points, versions, join, since)


def gather(frames: Iterable[DataFrame], histories: Iterable[History]) -> Found:
    by_number = {one.number: one for one in histories}
    rows = [row for frame in frames for row in frame.collect()]
    found: Found = {}
    for row in sorted(rows, key=lambda row: (row["o"]["offset"], row["n"])):
        one = by_number[row["o"]["partition"]]
        key = None if row["k"] is None else row["k"]["text"] if row["k"]["number"] is None else row["k"]["number"]
        right = None if row["rv"] is None else row["rv"]["text"]
        assert row["kind"] == ("unmatched" if right is None else "matched")
        assert len(row["contributors"]) == (1 if right is None else 2)
        assert (row["rk"] is None) == (right is None)
        value = joiner(one.case.joiner if one.case else SLASH)(key, row["v"]["text"], right)
        found.setdefault(one.number, []).append((key, value, row["ts"], row["o"]["offset"]))
    places = [(row["o"], row["n"]) for row in rows]
    assert len(set(places)) == len(places)
    return found


def compare(found: Found, histories: list[History]) -> None:
    wanted = expected(histories)
    wrong = [one for one in histories if found.get(one.number) != wanted.get(one.number)]
    if not wrong:
        return
    one = min(wrong, key=lambda one: len(one.events))
    lines = [f"{len(wrong)} of {len(histories)} differ; {one.case.id if one.case else one.number}:"]
    lines += [f"{one.how}, history {one.history_ms}, grace {one.grace_ms}"]
    lines += [f"  {place} {event}" for place, event in enumerate(one.events, start=1)]
    lines += ["found:", *(f"  {row}" for row in found.get(one.number, []))]
    lines += ["wanted:", *(f"  {row}" for row in wanted.get(one.number, []))]
    pytest.fail("\n".join(lines))


@pytest.fixture(scope="module")
def frames(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Frames:
    return Frames(spark, tmp_path_factory.mktemp("versioned"))


@pytest.fixture(scope="module")
def histories() -> dict[str, list[History]]:
    found = {
        "recorded": recorded("stream-table", lambda case: case.params.versioned),
        "wild": wild(400, SEED),
    }
    assert len(found["recorded"]) == 58
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "way"),
    [
        *(
            pytest.param("recorded", way, marks=pytest.mark.soak) for way in ("few", "by key")
        ),  # without Spark in `_arrays`
        *(("wild", way) for way in WAYS),
    ],
)
def test_one_batch(frames: Frames, histories: dict[str, list[History]], kind: str, way: str) -> None:
    results = [
        execute(how, waits, frames.read(some, "left"), frames.read(some, "right"), 0, some, way)
        for (how, waits), some in groups(histories[kind]).items()
    ]
    compare(gather(results, histories[kind]), histories[kind])


@pytest.mark.soak  # in two pieces it is in test_properties
@pytest.mark.parametrize("kind", ["recorded", "wild"])
def test_in_pieces(frames: Frames, histories: dict[str, list[History]], kind: str) -> None:
    """Each piece sees what `grace.retain` and the table's store left of the pieces before."""
    cycles = pieces(histories[kind], SEED, PIECES)
    results = []
    for (how, waits), some in groups(histories[kind]).items():
        history, grace = per_task(some, lambda one: one.history_ms), per_task(some, lambda one: one.grace_ms)
        points, versions = frames.read([], "left"), frames.read([], "right")
        for piece in range(1, PIECES + 1):
            points = points.union(frames.read(some, "left", cycles, piece))
            versions = versions.union(frames.read(some, "right", cycles, piece))
            results.append(frames.keep(execute(how, waits, points, versions, piece, some)))
            versions = frames.keep(versioned.retain(versions, Versioned(history)))
            kept = retain(points, grace) if waits else points.limit(0)
            points = frames.keep(kept)
    compare(gather(results, histories[kind]), histories[kind])


@pytest.mark.parametrize(("grace", "exchanges"), [(None, 2), (10, 4)])
def test_what_a_plan_costs(spark: SparkSession, tmp_path: Path, grace: int | None, exchanges: int) -> None:
    """Few rows are not exchanged at all, and those of tasks once. By key: by task, by key; under grace twice more."""
    sides = {"l": 1, "r": 0}
    given = (frame(spark, topic, [("a", "1", 10, 2), ("b", "2", 20, 3)], side=side) for topic, side in sides.items())
    stored = [plans.stored(one.withColumn("task", F.lit(0)), tmp_path / str(place)) for place, one in enumerate(given)]
    told = {}
    with plans.settings(spark, plans.SETTINGS):
        for way, options in WAYS.items():
            found = stream_versioned_table.execute(*stored, AsOf("left", 50, grace, realm=2, **options), 2)
            told[way] = plans.cost(found, python=True).get("Exchange", 0)
    assert told == {"few": 0, "by task": 1, "by key": exchanges}


def test_a_task_that_is_behind_still_meets_what_another_one_has_passed(spark: SparkSession) -> None:
    """Versions of one key in two tasks: task 1 has left `old` behind, the record of task 0 has not, whole or cut."""
    versions = frame(spark, "r", [("z", "y", 5, 1), ("a", "old", 6, 2), ("a", "new", 7, 3)])
    versions = versions.withColumn("task", F.when(F.col("k.k") == "z", 0).otherwise(1))
    points = frame(spark, "l", [("a", "asks", 6, 4)], side=1).withColumn("task", F.lit(0))
    for options in ({}, WAYS["by key"]):
        join = AsOf("left", 0, realm=2, **options)
        kept = versioned.retain(versions, Versioned(0, realm=2, **options))
        for known in (versions, spark.createDataFrame(kept.collect(), kept.schema)):
            (found,) = results(stream_versioned_table.execute(points, known, join, 4))
            assert found[3:5] == ("asks", "old")


def test_bounds_may_be_as_long_as_numbers_are(spark: SparkSession) -> None:
    """A record meets the version of its time, and in a task that has taken none the latest one; nothing overflows."""
    versions = frame(spark, "r", [("a", "x", 1, 1), ("z", "z", 2, 2), ("a", "y", 9, 3)])
    versions = versions.withColumn("task", F.when(F.col("k.k") == "z", 0).otherwise(1))
    points = frame(spark, "l", [("a", "asks", 5, 4), ("a", "later", 9, 5), ("a", "far", 5, 6)], side=1)
    points = points.withColumn("task", F.when(F.col("o.cycle") == 6, 2).otherwise(0))
    for options in ({}, WAYS["by key"]):
        found = results(stream_versioned_table.execute(points, versions, AsOf("left", LONGEST, realm=3, **options), 4))
        assert [row[3:5] for row in found] == [("asks", "x"), ("later", "y"), ("far", None)]
