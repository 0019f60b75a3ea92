"""What is new is few beside what is retained: then joins leave the past where it is, and give the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.operators import plans
from tests.operators.rows import frame

from lakestreams import StreamsBuilder, Text, Topology
from lakestreams.evaluate import walk
from lakestreams.evaluate.inputs import Inputs
from lakestreams.operators.versions import TableSide
from lakestreams.testing.small import small

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.slow

PAST = [("a", "x", 10, 1), ("b", "y", 11, 1), ("c", "x", 12, 1), ("x", "z", 13, 1)]
NEW = [("a", "y", 20, 2), ("d", "x", 21, 2), ("x", "w", 22, 2)]
MANY = 1_000_000


def windowed(how: str) -> Topology:
    builder = StreamsBuilder("p")
    left, right = (builder.stream(name, key=Text("k"), value=Text(name)) for name in "lr")
    options: dict[str, Any] = {"within": "9 ms", "grace": "0 ms"}
    joined = left.join(right, **options) if how == "inner" else left.outer_join(right, **options)
    joined.to_delta("silver.out")
    return builder.build()


def foreign() -> Topology:
    builder = StreamsBuilder("p")
    left, right = (builder.table(name, key=Text("k"), value=Text(name)) for name in "lr")
    left.left_join(right, left_on="l").to_delta("silver.out", mode="changes")
    return builder.build()


def cycle(topology: Topology, rows: dict[str, DataFrame], number: int, **more: Any) -> Inputs:
    streams = {one.name: rows[one.name] for one in topology.sources if one.kind == "stream"}
    tables = {one.name: TableSide(None, rows[one.name]) for one in topology.sources if one.kind != "stream"}
    counts = dict.fromkeys(rows, len(NEW))
    return Inputs(streams, tables, number, counts, counts, **more)


def second_cycle(folder: Path, topology: Topology, given: dict[str, DataFrame]) -> Inputs:
    """The second cycle of these rows, with what the first one has kept."""
    stored = {name: plans.stored(rows, folder / name) for name, rows in given.items()}
    past, new = ({name: rows.where(f"o.cycle = {n}") for name, rows in stored.items()} for n in (1, 2))
    kept = walk.run(topology, cycle(topology, past, 1, keeps=True)).kept
    held = {
        node: {side: plans.stored(rows, folder / f"{node}-{side}") for side, rows in own.items()}
        for node, own in kept.items()
    }
    return cycle(topology, new, 2, retained=held, retained_rows=len(PAST) * 2)


@pytest.mark.parametrize(
    "topology", [windowed("inner"), windowed("outer"), foreign()], ids=["windowed inner", "windowed outer", "foreign"]
)
def test_a_large_past_is_filtered_by_the_keys_that_come_up(
    spark: SparkSession, tmp_path: Path, topology: Topology
) -> None:
    with small(spark):
        given = {name: frame(spark, name, [*PAST, *NEW], side=0 if name == "l" else 1) for name in "lr"}
        little = second_cycle(tmp_path, topology, given)
        ways = [little, replace(little, retained_rows=MANY), replace(little, retained_rows=MANY, counts={}, changes={})]
        whole, filtered, unknown = (walk.run(topology, one).outputs["silver.out"] for one in ways)
        found = sorted(map(str, whole.collect()))
        assert len(found) > 2
        assert sorted(map(str, filtered.collect())) == found
    with plans.settings(spark, plans.SETTINGS):
        shown = [plans.plan_of(rows, python=True) for rows in (whole, filtered, unknown)]
    joins = [text.count("wanted") + text.count("key_hash") for text in shown]
    assert joins[0] == joins[2] == 0, "a small past is not worth the jobs, and what is not known is not few"
    assert joins[1] > 0


def test_a_large_table_is_filtered_by_the_keys_that_look_for_rows(spark: SparkSession, tmp_path: Path) -> None:
    """What waits is counted, and what is left of the table: few rows go to one worker, without an exchange."""
    builder = StreamsBuilder("p")
    stream, table = (
        getattr(builder, kind)(name, key=Text("k"), value=Text(name))
        for kind, name in (("stream", "l"), ("table", "r"))
    )
    stream.left_join(table, wait="9 ms").to_delta("silver.out")
    topology = builder.build()
    extracted: list[int] = []

    def extract(*rows: DataFrame) -> list[tuple[DataFrame, int | None]]:
        extracted.extend(one.count() for one in rows)
        return list(zip(rows, extracted[-len(rows) :], strict=True))

    came = {
        "l": [*PAST, *NEW, ("a", "again", 23, 2)],
        "r": [("a", "A", 9, 1), ("z", "Z", 9, 1), ("d", "D", 22, 2), ("y", "Y", 9, 1)],
    }
    with small(spark):
        given = {name: frame(spark, name, rows, side=int(name == "l")) for name, rows in came.items()}
        little = replace(second_cycle(tmp_path, topology, given), extract=extract)
        counts = {"l": len(NEW) + 1, "r": MANY + 1}
        much = replace(little, retained_rows=MANY, counts=counts, changes={"r": 1})
        whole, filtered = (walk.run(topology, one).outputs["silver.out"] for one in (little, much))
        assert extracted == [1], "of the table only the row of `a` is wanted"
        found = sorted(map(str, whole.collect()))
        assert sorted(map(str, filtered.collect())) == found
        assert len(found) == 6, "three of the past are given up, three new ones meet a row, and one waits"
    with plans.settings(spark, plans.SETTINGS):
        assert plans.cost(filtered, python=True).get("Exchange", 0) == plans.cost(filtered, python=True).get(
            "BroadcastExchange", 0
        )
