"""A chain cut at its change tables: written and read between the steps, it gives what it gives uncut."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.joins.rows import frame

from lakestreams import StreamsBuilder, Text, agg
from lakestreams.flow import dataflow
from lakestreams.flow.dataflow import Inputs
from lakestreams.joins import table_table
from lakestreams.joins.order import OLD
from lakestreams.joins.validity import TableSide
from lakestreams.tables import change_table
from lakestreams.testing.small import small

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakestreams import Topology

pytestmark = pytest.mark.slow

LINES = [
    ("l1", "a", 1, 1),
    ("l2", "a", 2, 1 + 1),
    ("l3", "b", 3, 3),
    ("l1", "b", 9, 4),
    ("l3", None, 5, 5),
    ("l2", "c", 6, 6),
]
NAMES = [("a", "Ada", 2, 1), ("b", "Bea", 3, 3), ("c", "Cleo", 1, 5), ("a", None, 7, 6)]
CUT = 4  # the first cycle of the second piece


@pytest.fixture(scope="module", autouse=True)
def _small(spark: SparkSession) -> Iterator[None]:
    with small(spark):
        yield


def counts() -> Topology:
    """Lines by what they name, counted; the table that the next step reads."""
    builder = StreamsBuilder("counts")
    lines = builder.table("lines", key=Text("k"), value=Text("lines"))
    lines.group_by("lines").aggregate(lambda _: {"many": agg.count()}, empty="delete", name="counts").to_delta("out")
    return builder.build()


def sides(spark: SparkSession, rows: list[tuple[Any, ...]], topic: str, first: int, last: int) -> TableSide:
    return TableSide(None, frame(spark, topic, [row for row in rows if first <= row[3] <= last]))


def told(rows: DataFrame) -> list[tuple[Any, ...]]:
    found = sorted(rows.collect(), key=lambda one: (one.o, one.n))
    return [(one.o, one.n, tuple(one.k), one.v and tuple(one.v), one.ts, one.kind, one.contributors) for one in found]


def joined(left: TableSide, right: TableSide, since: int) -> DataFrame:
    return table_table.execute(left, right, "left", since, with_old=True)


def test_a_chain_goes_on_from_its_change_table(spark: SparkSession, tmp_path: Path) -> None:
    kept: dict[str, dict[str, DataFrame]] = {}
    path = str(tmp_path / "internal_counts")
    for first, last in ((1, CUT - 1), (CUT, 9)):
        given = Inputs(
            {}, {"lines": sides(spark, LINES, "lines", first, last)}, first, retained=kept, keeps=True, olds=True
        )
        results = dataflow.run(counts(), given)
        change_table.written(results.records["out"]).write.mode("append").parquet(path)
        kept = results.kept
    changes = spark.read.parquet(path)
    assert tuple(changes.columns) == change_table.CHANGE_COLUMNS

    whole = dataflow.run(counts(), Inputs({}, {"lines": sides(spark, LINES, "lines", 1, 9)}, 1, olds=True)).records[
        "out"
    ]
    again = change_table.read(changes)
    assert told(again) == told(whole)
    olds = {(one.o, one.n): one[OLD] for one in whole.collect()}
    assert {(one.o, one.n): one[OLD] for one in again.collect()} == olds

    names = sides(spark, NAMES, "names", 1, 9)
    uncut = joined(TableSide(None, whole), names, 1)
    new = change_table.read(changes.where(f"_lineage.cycle >= {CUT}"))
    second = joined(
        TableSide(change_table.rows_before(changes, CUT), new),
        TableSide(sides(spark, NAMES, "names", 1, CUT - 1).all(), sides(spark, NAMES, "names", CUT, 9).changes),
        CUT,
    )
    assert told(second) == [row for row in told(uncut) if row[0].cycle >= CUT]
    assert len(told(second)) > 4


def test_what_a_table_held_before_a_cycle(spark: SparkSession) -> None:
    whole = dataflow.run(counts(), Inputs({}, {"lines": sides(spark, LINES, "lines", 1, 9)}, 1, olds=True)).records[
        "out"
    ]
    changes = change_table.written(whole)
    held = {
        cycle: {one.k[0]: one.v.many for one in change_table.rows_before(changes, cycle).collect()}
        for cycle in (1, 3, 5, 9)
    }
    assert held == {1: {}, 3: {"a": 2}, 5: {"a": 1, "b": 2}, 9: {"b": 1, "c": 1}}
