"""One Delta table: created, appended to, merged, overwritten; with fences and without."""

from __future__ import annotations

import json
import os
import re
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F  # noqa: N812
from tests.engine.harness import claimed
from tests.engine.late import PATIENCE_S

from lakestreams import Json, StreamsBuilder, Text
from lakestreams.engine.ledger.fence import fence_rows
from lakestreams.engine.ledger.fingerprint import Configuration
from lakestreams.engine.ledger.ledger import Ledger
from lakestreams.engine.ledger.plans import Plan, Range
from lakestreams.engine.ledger.rows import frame_of
from lakestreams.engine.publish import sinks
from lakestreams.engine.runtime import commits
from lakestreams.engine.runtime.lake import Lake
from lakestreams.engine.state.overwriting import overwrite_counted
from lakestreams.errors import Fenced, LocationNotWritable, TableSchemaMismatch
from lakestreams.operators.records import LINEAGE_TYPE
from lakestreams.testing.small import small

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

SOME = Configuration("f", "text", "f")


def schema(spark: SparkSession, columns: str) -> StructType:
    return spark.createDataFrame([], columns).schema


def test_a_table_is_created_once_and_compared_afterwards(spark: SparkSession, tmp_path: Path) -> None:
    table = Lake(str(tmp_path)).output("silver.out")
    columns = "id bigint, n struct<x: int, y: array<string>>"
    assert not table.exists(spark)
    table.create(spark, schema(spark, columns), properties={"delta.appendOnly": "true"})
    assert table.exists(spark)
    table.create(spark, schema(spark, columns))
    assert table.read(spark).schema.simpleString() == "struct<id:bigint,n:struct<x:int,y:array<string>>>"
    details = spark.sql(f"describe detail {table.reference}").first()
    assert details["properties"]["delta.appendOnly"] == "true"
    with pytest.raises(TableSchemaMismatch) as caught:
        table.create(spark, schema(spark, "id int, other string"))
    assert caught.value.message.splitlines() == [
        "table silver.out has other columns than the pipeline writes",
        "  - n: (('x', 'int'), ('y', ('array', 'string'))) (the pipeline does not write it)",
        "  + other: string (the table lacks it)",
        "  ~ id: bigint in the table, int in the pipeline",
    ]
    with pytest.raises(TableSchemaMismatch, match="the order of the columns differs"):
        table.create(spark, schema(spark, "n struct<x: int, y: array<string>>, id bigint"))


def test_names_inside_a_struct_keep_their_capitals_in_a_table(spark: SparkSession, tmp_path: Path) -> None:
    table = Lake(str(tmp_path)).output("silver.out")
    wanted = schema(spark, "n struct<userId: int>")
    table.create(spark, wanted)
    table.create(spark, wanted)
    assert table.read(spark).select("n.*").columns == ["userId"]


@pytest.mark.slow
def test_tables_are_laid_out_as_declared(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    columns = schema(spark, "id bigint, day string")
    lake.output("parts").create(spark, columns, partition_by=["day"])
    lake.output("clusters").create(spark, columns, cluster_by=["id"])
    details = [spark.sql(f"describe detail {lake.output(name).reference}").first() for name in ("parts", "clusters")]
    assert details[0]["partitionColumns"] == ["day"]
    assert details[1]["clusteringColumns"] == ["id"]


def test_a_place_that_cannot_be_written_to(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    table = Lake(str(tmp_path / "file")).output("silver.out")
    with pytest.raises(LocationNotWritable, match="cannot write to"):
        table.create(spark, schema(spark, "id bigint"))
    if os.geteuid() != 0:
        locked = tmp_path / "locked"
        locked.mkdir(mode=0o500)
        with pytest.raises(LocationNotWritable, match="Permission denied"):
            Lake(str(locked)).output("silver.out").create(spark, schema(spark, "id bigint"))


@pytest.mark.slow
def test_an_append_counts_once_for_each_application_and_version(spark: SparkSession, tmp_path: Path) -> None:
    table = Lake(str(tmp_path)).output("silver.out")
    table.create(spark, schema(spark, "id bigint"))
    rows = spark.range(2)
    table.append(rows, "p/out", 1)
    table.append(rows, "p/out", 1)
    table.append(rows, "q/out", 1)
    table.append(rows, "p/out", 2)
    table.append(rows, "p/out", 1)
    assert table.read(spark).count() == 6


@pytest.mark.slow
def test_a_fence_that_holds_lets_the_rows_through(spark: SparkSession, tmp_path: Path) -> None:
    table = Lake(str(tmp_path)).output("silver.out")
    table.create(spark, schema(spark, "id bigint, n struct<x: int>"))
    rows = spark.sql("select id, named_struct('x', cast(id as int)) n from range(3)")
    fenced = fence_rows(spark, rows, "select assert_true(max(id) = 4, 'FENCE') from range(5)")
    assert fenced.schema.simpleString() == rows.schema.simpleString()
    table.append(fenced, "p/out", 1)
    assert sorted(row["id"] for row in table.read(spark).collect()) == [0, 1, 2]


@pytest.mark.slow
@pytest.mark.parametrize("empty", [pytest.param(False, id="rows"), pytest.param(True, id="known to be empty")])
def test_a_fence_that_fails_records_no_transaction(spark: SparkSession, tmp_path: Path, empty: bool) -> None:
    """An append without rows must fail too: recorded, its transaction would make the rightful one a repetition."""
    table = Lake(str(tmp_path)).output("silver.out")
    table.create(spark, schema(spark, "id bigint"))
    rows = spark.range(3).where(F.lit(not empty))
    with pytest.raises(Exception, match="FENCE"):
        table.append(fence_rows(spark, rows, "select assert_true(max(id) = 9, 'FENCE') from range(5)"), "p/out", 1)
    assert table.read(spark).count() == 0
    table.append(spark.range(3), "p/out", 1)
    assert table.read(spark).count() == 3, "the rightful append is no repetition"


def test_a_fence_over_no_row_at_all_fails(spark: SparkSession) -> None:
    """max(epoch) of nothing is null, and null is not true."""
    fenced = fence_rows(spark, spark.range(3), "select assert_true(max(id) = 9, 'FENCE') from range(0)")
    with pytest.raises(Exception, match="FENCE"):
        fenced.collect()


@pytest.mark.slow
def test_two_drivers_at_once_go_no_further_than_one(spark: SparkSession, tmp_path: Path) -> None:
    """Of two equal epochs, and of two plans of a cycle, Delta takes one and skips the other: its driver must stop there."""
    plan = Plan(1, "f", (Range("t", 0, 0, 1),), {}, 1, 1)
    ledger = Ledger(Lake(str(tmp_path)), "p")
    with small(spark):
        ledger.create(spark)
        older = claimed(spark, ledger, "older")
        with pytest.raises(Fenced, match="at the same moment"):
            claimed(spark, ledger, "late")
        newer = claimed(spark, ledger, "newer", ledger.history(spark))
        with pytest.raises(Fenced):
            older.record(spark, older.plan_row(plan))
        # the older driver's plan lands behind the newer one's epoch: its fence has looked before
        older.table.append(frame_of(spark, [older._row("plan", cycle=1)]), "p/plan", 1)
        with pytest.raises(Fenced, match="another driver planned cycle 1"):
            newer.record(spark, newer.plan_row(plan))


@pytest.mark.slow
def test_overwriting_replaces_content_and_columns(spark: SparkSession, tmp_path: Path) -> None:
    table = Lake(str(tmp_path)).snapshot("p", "users")
    table.overwrite(spark.range(3))
    table.overwrite(spark.sql("select 'x' name"))
    assert [tuple(row) for row in table.read(spark).collect()] == [("x",)]
    assert re.fullmatch(r"struct<name:string>", table.read(spark).schema.simpleString())


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["folder", "catalog"])
@pytest.mark.parametrize("there", [True, False], ids=["", "nobody has made it yet"])
def test_a_cache_that_another_driver_replaces_meanwhile_is_replaced_again(
    spark: SparkSession, tmp_path: Path, kind: str, *, there: bool
) -> None:
    """An older driver's statement may pass its fence, and commit while a newer one's is under way."""
    begun, go_on = tmp_path / "begun", tmp_path / "go-on"
    lake = Lake(str(tmp_path / "lake"), "spark_catalog" if kind == "catalog" else None, control_schema="overwritten")
    if kind == "catalog":
        spark.sql(f"CREATE SCHEMA IF NOT EXISTS {lake.control_schema}")
    table, ledger = lake.snapshot("p", f"users{there}"), Ledger(lake, f"p{there}")

    @F.udf("bigint")
    def held(value: int) -> int:
        begun.touch()
        until = time.monotonic() + PATIENCE_S
        while not go_on.exists() and time.monotonic() < until:
            time.sleep(0.05)
        return value

    with small(spark), ThreadPoolExecutor(1) as pool:
        ledger.create(spark)
        newer = claimed(spark, ledger, "newer")
        if there:
            table.overwrite(spark.range(1))
        rows = spark.range(5, 7, 1, 1).select(held("id").alias("id"))
        counted = pool.submit(overwrite_counted, spark, newer, table, rows, "users", "newer's")
        while not begun.exists() and not counted.done():
            time.sleep(0.05)
        assert table.overwrite(spark.range(3)), "nobody came in between"
        go_on.touch()
        assert counted.result(PATIENCE_S) == 2
    assert sorted(row[0] for row in table.read(spark).collect()) == [5, 6]
    assert (
        [one.mark for one in commits.read(spark, table)] == [None, "newer's"] if not there else [None, None, "newer's"]
    )
    assert commits.holds(spark, table, "newer's")
    if kind == "catalog" and there:  # to write to a table of equal columns one need not own it
        assert [one.operation for one in commits.read(spark, table)][1:] == ["WRITE", "WRITE"]
        table.overwrite(spark.sql("select 'x' name"))
        assert table.read(spark).columns == ["name"]
    if kind == "catalog" and not there:
        spark.sql(f"DROP SCHEMA {lake.control_schema} CASCADE")


@pytest.mark.slow
def test_an_output_takes_new_columns_and_refuses_any_other_change(spark: SparkSession, tmp_path: Path) -> None:
    table = Lake(str(tmp_path)).output("silver.out")
    table.create(spark, schema(spark, "id bigint, name string"), grows=True)
    spark.sql("select 1L as id, 'a' as name").write.format("delta").mode("append").save(str(table.path))
    table.create(spark, schema(spark, "id bigint, city string, name string"), grows=True)
    assert [tuple(row) for row in table.read(spark).select("id", "name", "city").collect()] == [(1, "a", None)]
    for columns in ("id bigint, name string", "id string, name string, city string, more int"):
        with pytest.raises(TableSchemaMismatch):
            table.create(spark, schema(spark, columns), grows=True)


@pytest.mark.slow
def test_statistics_are_kept_of_what_files_are_skipped_by(spark: SparkSession, tmp_path: Path) -> None:
    builder = StreamsBuilder("p")
    builder.stream("s", key=Text("user"), value=Json("a int, b struct<c: int, d: string>")).to_delta("rows")
    (sink,) = builder.build().sinks
    lake = Lake(str(tmp_path / "lake"))
    columns = f"user string, a int, b struct<c: int, d: string>, event_time_ms bigint, _lineage {LINEAGE_TYPE}"
    sinks.create(spark, lake, sink, schema(spark, columns), "p")
    trigger = "named_struct('stream_time_ms', 1L, 'side', 1, 'source', 's', 'partition', 0, 'offset', 0L, 'attempt', 0)"
    lineage = f"named_struct('cycle', 7L, 'trigger', {trigger}, 'n', 0, 'kind', 'record', 'contributors', array())"
    row = f"select 'u' user, 1 a, named_struct('c', 2, 'd', 'x') b, 3L event_time_ms, {lineage} _lineage"
    there = lake.output("rows")
    there.append(
        spark.sql(row).select(*(F.col(one.name).cast(one.dataType) for one in there.read(spark).schema)), "p", 1
    )
    newest = max((tmp_path / "lake" / "silver" / "rows" / "_delta_log").glob("*.json")).read_text().splitlines()
    (stats,) = [json.loads(json.loads(line)["add"]["stats"]) for line in newest if "add" in json.loads(line)]
    assert stats["minValues"] == {
        "user": "u", "a": 1, "b": {"c": 2, "d": "x"}, "event_time_ms": 3, "_lineage": {"cycle": 7},
    }  # fmt: skip


@pytest.mark.slow
def test_merging_keeps_one_row_a_key_and_repeated_changes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    table = Lake(str(tmp_path)).output("silver.out")
    table.create(spark, schema(spark, "id string, name string, _lineage struct<cycle: bigint>"))

    def merged(cycle: int, *rows: tuple[str | None, str | None]) -> list[tuple[str | None, str | None]]:
        changes = spark.createDataFrame([(*row, (cycle,)) for row in rows], table.read(spark).schema)
        table.merge(spark, changes, ["id"], newer="_lineage.cycle", gone="name is null")
        return sorted((tuple(row) for row in table.read(spark).select("id", "name").collect()), key=repr)

    assert merged(1, ("a", "1"), (None, "2"), ("gone", None)) == [("a", "1"), (None, "2")]
    assert merged(1, ("a", "other")) == [("a", "1"), (None, "2")], "of the same cycle: a repetition"
    assert merged(2, ("a", "3"), (None, None)) == [("a", "3")]
    assert merged(1, ("a", None)) == [("a", "3")], "an older change"

    keys = spark.createDataFrame([("a",)], "id string")
    with pytest.raises(Exception, match="UNRESOLVED"):
        table.delete_these(spark, keys, ["id"], "t.nothing = 1")
    assert table.delete_these(spark, keys, ["id"], "t.name = '3'") == 1
    with pytest.raises(Exception, match="UNRESOLVED"):
        table.merge(spark, keys, ["id"], newer="nothing", gone="false")
    assert [one.name for one in spark.catalog.listTables() if "silver_out" in one.name] == [], "names that stay"
