"""Many rows of a windowed join: by task where every key lies at home, by key where one does not, and the same rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812
from tests.evaluate.test_few import MANY, cycle, windowed
from tests.operators import plans
from tests.operators.rows import frame

from lakestreams.evaluate import walk
from lakestreams.operators import homes
from lakestreams.operators.records import COORDINATES
from lakestreams.partitioning.kafka_default import partition_of
from lakestreams.testing.small import small

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTITIONS = {"l": 3, "r": 3}
LETTERS = "abcdefgh"


def placed(rows: DataFrame, moved: str) -> DataFrame:
    """Rows whose partitions are their keys' homes, but for one key that lies in the next one, on one side."""
    home = F.coalesce(partition_of(rows, "k", 3), F.lit(0)) + F.when(F.col("k")["k"] == moved, 1).otherwise(0)
    order = F.col("o").withField("partition", (home % 3).cast("int")).withField("offset", F.col("ts"))
    rows = rows.withColumn("o", order.withField("stream_time_ms", F.col("ts")))
    return rows.withColumn("contributors", F.array(F.struct(*(F.col("o")[name].alias(name) for name in COORDINATES))))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "moved", "many"),
    [
        *(("outer", "", MANY), ("outer", "c", MANY), ("inner", "", MANY), ("inner", "c", MANY)),
        pytest.param("inner", "c", 1_000, id="of a mebibyte each"),
    ],
)
def test_keys_at_home_are_joined_by_task(spark: SparkSession, tmp_path: Path, how: str, moved: str, many: int) -> None:
    left = [(key, "x", 10 + place, 1) for place, key in enumerate(LETTERS)]
    right = [(key, "y", 12 + place, 1) for place, key in enumerate(LETTERS[1:])] + [(None, "z", 90, 1)]
    with small(spark):
        given = {
            "l": placed(frame(spark, "l", left, side=1), ""),
            "r": placed(frame(spark, "r", right, side=1), moved),
        }
        stored = {name: plans.stored(rows, tmp_path / name) for name, rows in given.items()}
        topology = windowed(how)
        few = replace(cycle(topology, stored, 1), partitions=PARTITIONS)
        bytes_ = 0 if many == MANY else 1 << 20
        more = replace(few, counts=dict.fromkeys(given, many), record_bytes=bytes_)
        wanted, found = (walk.run(topology, one).outputs["silver.out"] for one in (few, more))
        rows = sorted(map(str, wanted.collect()))
        assert len(rows) >= 6
        assert sorted(map(str, found.collect())) == rows
    workers = plans.plan_of(found, python=True).count("MapInArrow")
    by_key = "xxhash64" in plans.plan_of(found, python=True)
    assert by_key == bool(moved)
    assert (workers > 1) == (by_key and how == "outer"), "what waits goes by task, in a second step"


HOME = {("murmur2", 3): frozenset[str]()}
BEATS = {("murmur2", 3): frozenset({"c", "beat"})}


@pytest.mark.slow
def test_what_was_noted_of_new_keys_is_not_asked_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The past is, since nothing is noted of it; and all rows where that does not help. The results are the same."""
    asked: list[int] = []
    real = homes._asked

    def spied(rows: DataFrame, tasks: int) -> Any:
        asked.append(rows.where("k is not null").count())
        return real(rows, tasks)

    monkeypatch.setattr(homes, "_asked", spied)
    topology = windowed("outer")
    with small(spark):
        left = frame(spark, "l", [("c", "x", 10, 1), ("c", "x", 20, 2)], side=1)
        right = frame(spark, "r", [("b", "y", 11, 1), ("b", "y", 21, 2), ("c", "z", 22, 2)], side=1)
        rows = {"l": placed(left, ""), "r": placed(right, "")}
        past, new = ({name: one.where(f"o.cycle = {n}") for name, one in rows.items()} for n in (1, 2))
        kept = walk.run(topology, replace(cycle(topology, past, 1, keeps=True), partitions=PARTITIONS)).kept
        held = {
            node: {side: plans.stored(one, tmp_path / f"{node}-{side}") for side, one in own.items()}
            for node, own in kept.items()
        }
        elsewhere = {
            node: {
                side: one.withColumn("task", (F.col("task") + int(side == "right")) % 3) for side, one in own.items()
            }
            for node, own in held.items()
        }
        few = replace(cycle(topology, new, 2, retained=held), partitions=PARTITIONS)
        many = replace(few, counts=dict.fromkeys(rows, MANY))
        wanted = walk.run(topology, few).outputs["silver.out"]
        noted = replace(many, homes={"l": (HOME, 2), "r": (HOME | {("crc32", 3): frozenset()}, 2)})
        found = walk.run(topology, noted).outputs["silver.out"]
        assert asked == [2]
        assert "xxhash64" not in plans.plan_of(found, python=True)
        assert sorted(map(str, found.collect())) == sorted(map(str, wanted.collect()))
        apart = {"l": rows["l"], "r": placed(right, "c").where("o.cycle = 2")}
        for known, given, past_of, looks, by_task in (
            ({"l": (BEATS, 2), "r": (BEATS, 2)}, new, held, [2], True),  # they lie in one task, wherever that is
            ({"l": (BEATS, 2), "r": (BEATS, 2)}, apart, held, [2], False),
            (noted.homes, new, elsewhere, [2], False),  # a key of the past lies in another task
            ({"l": (HOME, 2), "r": ({("murmur2", 4): frozenset()}, 2)}, new, held, [5], True),
            ({"l": (HOME, 2), "r": ({("crc32", 3): frozenset()}, 2)}, new, held, [5], True),
            ({"l": (HOME, 2)}, new, held, [5], True),
            ({"l": (HOME, 2), "r": (HOME, homes.ROWS_OF_A_TASK + 1)}, new, held, [5], True),
            ({"l": (HOME, homes.ROWS_OF_A_TASK // 2), "r": (HOME, homes.ROWS_OF_A_TASK // 2)}, new, held, [2, 5], True),
        ):
            asked.clear()
            one = replace(many, streams={**given}, homes=known, retained=past_of)
            planned = plans.plan_of(walk.run(topology, one).outputs["silver.out"], python=True)
            assert asked == looks, known
            assert ("xxhash64" not in planned) == by_task, known
        asked.clear()
        too_many = replace(noted, retained_rows=3 * homes.ROWS_OF_A_TASK)
        assert "xxhash64" in plans.plan_of(walk.run(topology, too_many).outputs["silver.out"], python=True)
        assert asked == [], "no task could hold its part"
