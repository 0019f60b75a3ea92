"""What a versioned table tells its readers, against the specification, in one batch and in pieces."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from tests.operators import plans
from tests.operators.histories import Frames, History, per_task, pieces, recorded, wild
from tests.operators.rows import frame
from tests.reference.tables import VersionedTable

from lakestreams.operators.stream_table_as_of import store as versioned

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

COSTS = {"put": (4, 4), "latest_only": (4, 4), "retain": (7, 6), "retain_latest": (5, 6)}  # exchanges, sorts
SEED, PIECES = 20260823, 4
Retain = Callable[["DataFrame", "Column"], "DataFrame"]


def odd(count: int, seed: int) -> list[History]:
    """One key, four times, half of the puts tombstones: what vanishes, vanishes here."""
    found = []
    for one in wild(count, seed):
        events = tuple((topic, "a", value, ts % 4) for topic, _, value, ts in one.events if topic == "right")
        found.append(History(one.number, events, history_ms=one.history_ms))
    return found


def told(histories: list[History]) -> dict[int, list[int]]:
    """The offsets of the updates that readers are told, by the specification."""
    found = {}
    for one in histories:
        table = VersionedTable(one.history_ms)
        offsets = [record.offset for record in one.records if record.source == "right" and table.put(record)]
        if offsets:
            found[one.number] = offsets
    return found


def found_in(frames: list[DataFrame]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for row in [row for one in frames for row in one.select("task", "o.offset").collect()]:
        found.setdefault(row["task"], []).append(row["offset"])
    return {number: sorted(offsets) for number, offsets in found.items()}


def compare(found: dict[int, list[int]], histories: list[History]) -> None:
    wanted = told(histories)
    wrong = [one for one in histories if found.get(one.number) != wanted.get(one.number)]
    if not wrong:
        return
    one = min(wrong, key=lambda one: len(one.events))
    lines = [f"{len(wrong)} of {len(histories)} differ; {one.number}, history {one.history_ms}"]
    lines += [f"  {place} {event}" for place, event in enumerate(one.events, start=1)]
    pytest.fail("\n".join([*lines, f"found {found.get(one.number)}", f"wanted {wanted.get(one.number)}"]))


def sides(join: str, first: int) -> list[History]:
    """Each versioned side of the recorded cases, as the right topic of a history."""
    found = []
    for side in ("left", "right"):
        for one in recorded(join, lambda case, side=side: getattr(case.params, f"{side}_versioned")):
            events = tuple(
                ("right" if topic == side else "left", key, value, ts) for topic, key, value, ts in one.events
            )
            found.append(History(first + len(found), events, history_ms=one.history_ms))
    return found


@pytest.fixture(scope="module")
def frames(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Frames:
    return Frames(spark, tmp_path_factory.mktemp("versioned"))


@pytest.fixture(scope="module")
def histories() -> list[History]:
    found = odd(300, SEED)
    for join in ("table-table", "fk-table-table"):
        found += sides(join, len(found))
    assert len(found) > 390
    return found


@pytest.mark.slow
def test_one_batch(frames: Frames, histories: list[History]) -> None:
    history = per_task(histories, lambda one: one.history_ms)
    compare(found_in([versioned.latest_only(frames.read(histories, "right"), history)]), histories)


@pytest.mark.slow
@pytest.mark.parametrize("retain", [pytest.param(versioned.retain, marks=pytest.mark.soak), versioned.retain_latest])
def test_in_pieces(frames: Frames, histories: list[History], retain: Retain) -> None:
    cycles = pieces(histories, SEED, PIECES)
    history = per_task(histories, lambda one: one.history_ms)
    past, results = frames.read([], "right"), []
    for piece in range(1, PIECES + 1):
        rows = past.union(frames.read(histories, "right", cycles, piece))
        results.append(frames.keep(versioned.latest_only(rows, history).where(f"o.cycle = {piece}")))
        past = frames.keep(retain(rows, history))
    compare(found_in(results), histories)


@pytest.mark.slow
@pytest.mark.parametrize("what", COSTS)
def test_what_it_costs(spark: SparkSession, tmp_path: Path, what: str) -> None:
    """Rows of a key, once brought together, stay where they lie."""
    rows = plans.stored(frame(spark, "t", [("a", "1", 1, 1), ("a", None, 1, 2), ("b", "2", 3, 3)]), tmp_path / "rows")
    with plans.settings(spark, plans.SETTINGS):
        cost = plans.cost(getattr(versioned, what)(rows.withColumn("task", F.col("ts").cast("int")), 5))
    assert (cost["Exchange"], cost["Sort"]) == COSTS[what]
