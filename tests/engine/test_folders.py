"""A partition column's value comes back from the table as it was written, or the run is refused with its name."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812
from tests.sampling import sampled

from lakestreams import Json, StreamsBuilder, Text
from lakestreams.engine.runtime import folders
from lakestreams.engine.runtime.lake import Lake
from lakestreams.errors import InvalidOption, TopologyInvalid, UnwritablePartition, unfold
from lakestreams.evaluate import walk
from lakestreams.testing.small import small

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakestreams.topology.endpoints import DeltaSink

LONG = "x" * 300
WIDE = "é" * 130  # 260 bytes
# of each type the values that a table gives back, and those that it does not
VALUES: dict[str, tuple[list[Any], list[Any]]] = {
    "string": (
        [None, " ", "a ", " a", "a=b", "a/b", "%", "%20", "..", ".", "null", "NULL", "a'b", 'a"b', "a\nb", "a#b?c", "{x}",
         "é", "e\u0301", "日本", "🙂", "x" * 200, "_x", "__HIVE_DEFAULT_PARTITION", "0", "1e3", "-0.0"],
        ["", "__HIVE_DEFAULT_PARTITION__", LONG, WIDE],
    ),
    "int": ([None, 0, -1, 2**31 - 1, -(2**31)], []),
    "bigint": ([None, 0, 2**63 - 1, -(2**63)], []),
    "boolean": ([None, True, False], []),
    "date": ([None, date(1970, 1, 1), date(1, 1, 1), date(9999, 12, 31)], []),
    "decimal(20,3)": ([None, Decimal("0.000"), Decimal("-12.500"), Decimal("12345678901234567.891")], []),
    "timestamp": (
        [None, datetime(1970, 1, 1, tzinfo=UTC), datetime(2024, 3, 31, 1, 30, 0, 123456, tzinfo=UTC),
         datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)],
        [],
    ),
    "double": ([None, 0.0, -0.0, 0.1, 1e300, 5e-324, float("inf"), float("nan")], []),
}  # fmt: skip
LINEAGE = "struct(1L as cycle, '{kind}' as kind)"


def sink_of(mode: str, **layout: Any) -> DeltaSink:
    builder = StreamsBuilder("p")
    table = builder.table("t", key=Text("id"), value=Json("p string"))
    table.to_delta("silver.t", mode=mode, **(layout or {"partition_by": ["p"]}))
    (sink,) = builder.build().sinks
    return sink


def rows(spark: SparkSession, kind: str, values: list[Any], told: str = "upserted") -> DataFrame:
    frame = spark.createDataFrame(list(enumerate(values)), f"id int, p {kind}")
    return frame.withColumn("_lineage", F.expr(LINEAGE.format(kind=told))).coalesce(1)


HARD = ("string", "double")


# Texts, of which a table loses some; numbers with signs of zero and NaN; and one of the types of which it loses none.
@pytest.mark.parametrize(
    "kind", [*HARD, *sampled([kind for kind in VALUES if kind not in HARD], 1, others=pytest.mark.soak)]
)
def test_a_value_is_read_as_it_was_written_or_refused(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    sink, table = sink_of("changes"), Lake(str(tmp_path)).output("silver.t")
    kept, lost = VALUES[kind]
    with small(spark):
        good = rows(spark, kind, kept)
        folders.require_exact(sink, good, table)
        table.create(spark, good.schema, partition_by=["p"])
        table.append(good, "test", 1)
        key = F.col("p").cast("string")  # NaN is equal to no NaN in Python
        assert sorted(table.read(spark).select("id", key).collect()) == sorted(good.select("id", key).collect())
        for value in lost:
            with pytest.raises(UnwritablePartition, match=r"silver\.t: p = '"):
                folders.require_exact(sink, rows(spark, kind, [*kept, value]), table)


@pytest.mark.parametrize("kind", ["string", pytest.param("double", marks=pytest.mark.slow)])
def test_a_merge_by_a_partition_column_keeps_one_row_a_key(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    """Or else an update of '' would leave two rows, of which neither has the key."""
    table = Lake(str(tmp_path)).output("silver.t")
    values = [value for value in VALUES[kind][0] if str(value) != "-0.0" or kind == "string"]  # equal to 0.0 as a key
    with small(spark):
        first = rows(spark, kind, values)
        table.create(spark, first.schema, partition_by=["p"])
        for cycle in (1, 2):
            lineage = F.struct(F.lit(cycle).cast("bigint").alias("cycle"), F.lit("upserted").alias("kind"))
            changed = first.withColumn("_lineage", lineage)
            table.merge(spark, changed, ["`p`"], newer="_lineage.cycle", gone="_lineage.kind = 'tombstone'")
        found = table.read(spark).select(F.col("p").cast("string"), "_lineage.cycle").collect()
        assert len(found) == len(values)
        assert {row["cycle"] for row in found} == {2}


def test_an_empty_text_is_lost_by_the_table_itself(spark: SparkSession, tmp_path: Path) -> None:
    """The reason for all this; once Delta keeps it, nothing has to be refused."""
    table = Lake(str(tmp_path)).output("silver.t")
    with small(spark):
        lost = rows(spark, "string", ["", folders.NULL_WORD])
        table.create(spark, lost.schema, partition_by=["p"])
        table.append(lost, "test", 1)
        assert [row["p"] for row in table.read(spark).collect()] == [None, None]


def test_clustered_tables_keep_every_value(spark: SparkSession, tmp_path: Path) -> None:
    table = Lake(str(tmp_path)).output("silver.t")
    kept, lost = VALUES["string"]
    with small(spark):
        all_of_them = rows(spark, "string", [*kept, *lost])
        folders.require_exact(sink_of("changes", cluster_by=["p"]), all_of_them, table)
        table.create(spark, all_of_them.schema, cluster_by=["p"])
        table.append(all_of_them, "test", 1)
        assert sorted(map(repr, table.read(spark).select("id", "p").collect())) == sorted(
            map(repr, all_of_them.select("id", "p").collect())
        )


def test_what_is_not_written_is_not_refused(spark: SparkSession, tmp_path: Path) -> None:
    """A merge writes no deletion; a catalog's tables have no folders that a disk would limit."""
    table = Lake(str(tmp_path)).output("silver.t")
    with small(spark):
        gone = rows(spark, "string", [""], "tombstone")
        folders.require_exact(sink_of("merge"), gone, table)
        with pytest.raises(UnwritablePartition):
            folders.require_exact(sink_of("changes"), gone, table)
        folders.require_exact(sink_of("changes"), rows(spark, "string", [LONG, WIDE]), replace(table, path=None))


@pytest.mark.parametrize("kind", ["binary", "array<int>", "struct<a: int>", "map<string, int>"])
def test_types_without_an_exact_text_are_refused_by_check(spark: SparkSession, kind: str) -> None:
    builder = StreamsBuilder("p")
    made = builder.stream("t", key=Text("id"), value=Json("p string"))
    made = made.map_values(lambda value: {"p": F.lit(None).cast(kind), "q": value.p})
    made.to_delta("silver.t", partition_by=["p"])
    _, faults = walk.check(builder.build(), spark)
    found = [fault for one in faults for fault in (unfold(one) if isinstance(one, TopologyInvalid) else [one])]
    assert [type(fault) for fault in found] == [InvalidOption]
    assert "partition_by names p" in found[0].message
