"""A versioned table's store through Spark: the three ways, what they cost, and that rows come as they were."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from tests.operators import plans
from tests.operators.histories import Frames, History, per_task, pieces
from tests.operators.rows import frame
from tests.operators.test_versioned_table_arrays import odd, sides, told

from lakestreams.operators.versioned_table import frames as versioned
from lakestreams.operators.versioned_table.frames import Versioned

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SEED, PIECES = 20260823, 3
WAYS: dict[str, dict[str, Any]] = {
    "few": {}, "by task": {"shares": 2, "together": True}, "by key": {"shares": 2}
}  # fmt: skip
# exchanges and sorts of each way
COSTS = {
    "latest_only": [(0, 0), (1, 0), (2, 1)],
    "retain_latest": [(0, 0), (1, 0), (2, 1)],
    "retain": [(0, 0), (3, 0), (4, 1)],
}
Retain = Callable[["DataFrame", Versioned], "DataFrame"]


def found_in(frames: list[DataFrame]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for row in [row for one in frames for row in one.select("task", "o.offset").collect()]:
        found.setdefault(row["task"], []).append(row["offset"])
    return {number: sorted(offsets) for number, offsets in found.items()}


@pytest.fixture(scope="module")
def frames(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Frames:
    return Frames(spark, tmp_path_factory.mktemp("versioned"))


@pytest.fixture(scope="module")
def histories() -> list[History]:
    found = odd(60, SEED)
    for join in ("table-table", "fk-table-table"):
        found += sides(join, len(found))
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("way", "retain"),
    [
        ("few", versioned.retain_latest),
        ("by task", versioned.retain),
        *(("by key", one) for one in (versioned.retain, versioned.retain_latest)),
    ],
)
def test_in_pieces(frames: Frames, histories: list[History], way: str, retain: Retain) -> None:
    cycles = pieces(histories, SEED, PIECES)
    table = Versioned(per_task(histories, lambda one: one.history_ms), realm=1, **WAYS[way])
    past, results = frames.read([], "right"), []
    for piece in range(1, PIECES + 1):
        rows = past.union(frames.read(histories, "right", cycles, piece).where("k IS NOT NULL"))
        results.append(frames.keep(versioned.latest_only(rows, table).where(f"o.cycle = {piece}")))
        past = frames.keep(retain(rows, table))
    assert found_in(results) == told(histories)


@pytest.mark.parametrize("what", COSTS)
def test_what_it_costs(spark: SparkSession, tmp_path: Path, what: str) -> None:
    """Few rows are not exchanged at all; many once, or by task and by key. What lookups reach takes a count of the tasks."""
    rows = plans.stored(frame(spark, "t", [("a", "1", 1, 1), ("a", None, 1, 2), ("b", "2", 3, 3)]), tmp_path / "rows")
    rows, found = rows.withColumn("task", F.col("ts").cast("int")), []
    with plans.settings(spark, plans.SETTINGS):
        for options in WAYS.values():
            cost = plans.cost(getattr(versioned, what)(rows, Versioned(5, realm=4, **options)), python=True)
            found.append((cost.get("Exchange", 0), cost.get("Sort", 0)))
    assert found == COSTS[what]
