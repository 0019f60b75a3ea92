"""Where tables live: names, folders, creation, appends at most once, and the fence that fails a statement."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F  # noqa: N812
from tests.engine.harness import claimed

from lakestreams import Json, StreamsBuilder, Text
from lakestreams.engine.ledger.fence import fence_rows
from lakestreams.engine.ledger.fingerprint import Configuration
from lakestreams.engine.ledger.ledger import Ledger
from lakestreams.engine.ledger.plans import Plan, Range
from lakestreams.engine.publish import sinks
from lakestreams.engine.runtime.lake import Lake, Table, plain, require_distinct
from lakestreams.errors import Fenced, InvalidName, LocationNotWritable, TableNameCollision, TableSchemaMismatch
from lakestreams.operators.records import LINEAGE_TYPE
from lakestreams.testing.small import small

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType


SOME = Configuration("f", "text", "f")


def schema(spark: SparkSession, columns: str) -> StructType:
    return spark.createDataFrame([], columns).schema


# --- names -----------------------------------------------------------------------------------------------------------


def test_tables_in_folders() -> None:
    lake = Lake("/lake")
    assert lake.control("ledger").path == "/lake/_lakestreams/ledger"
    assert lake.bronze("p", "Page.Views-1").path == "/lake/bronze/p__Page_Views_1"
    assert lake.snapshot("p", "users").path == "/lake/_lakestreams/snapshot_p__users"
    assert [lake.output(name).path for name in ("a", "gold.a", "main.gold.a")] == [
        "/lake/silver/a", "/lake/gold/a", "/lake/main/gold/a",
    ]  # fmt: skip
    assert lake.output("gold.a").reference == "delta.`/lake/gold/a`"
    assert lake.output("gold.a").name == "gold.a"
    assert lake.checkpoints("p") == Path("/lake/_lakestreams/checkpoints/p")


def test_a_table_that_was_moved_and_linked_is_where_the_link_leads(tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere" / "rows"
    moved.mkdir(parents=True)
    (tmp_path / "lake" / "silver").mkdir(parents=True)
    (tmp_path / "lake" / "silver" / "rows").symlink_to(moved)
    assert Lake(str(tmp_path / "lake")).output("silver.rows").path == str(moved)


def test_a_small_lake_is_a_folder_of_few_bytes(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path / "lake"))
    assert not lake.is_small(), "nothing is known of it: it may be a place that is no folder, such as s3://lake"
    folder = tmp_path / "lake" / "bronze" / "p__views"
    folder.mkdir(parents=True)
    (folder / "part-0").write_bytes(b"rows")
    assert lake.is_small()
    assert not Lake(lake.root, "main").is_small()
    (tmp_path / "lake" / "silver").symlink_to(tmp_path)
    assert not lake.is_small(), "what is linked is not looked at"
    (tmp_path / "lake" / "silver").unlink()
    (folder / "part-1").symlink_to(folder / "part-1")
    assert not lake.is_small(), "nor what cannot be"
    (folder / "part-1").unlink()
    for number in (1, 2):
        with (folder / f"part-{number}").open("wb") as file:
            file.truncate(4 << 20)
    assert not lake.is_small()


def test_tables_in_a_catalog() -> None:
    lake = Lake("/Volumes/main/x/y", catalog="main", bronze_schema="raw")
    assert lake.bronze("p", "users") == Table("raw.p__users", "`main`.`raw`.`p__users`", None)
    assert [lake.output(name).reference for name in ("a", "gold.a", "dev.gold.a")] == [
        "`main`.`silver`.`a`", "`main`.`gold`.`a`", "`dev`.`gold`.`a`",
    ]  # fmt: skip
    assert lake.checkpoints("p") == Path("/Volumes/main/x/y/p")


def test_schemas_are_called_as_the_lake_says() -> None:
    """A pipeline says silver, whatever it is called; a name of three parts is somebody else's to give."""
    names = {"bronze_schema": "raw", "silver_schema": "results", "control_schema": "_streams"}
    lake = Lake("/Volumes/main/x/y", "main", **names)
    assert [lake.output(name).reference for name in ("a", "silver.a", "gold.a", "main.silver.a")] == [
        "`main`.`results`.`a`", "`main`.`results`.`a`", "`main`.`gold`.`a`", "`main`.`silver`.`a`",
    ]  # fmt: skip
    own = (lake.control("ledger"), lake.snapshot("p", "users"), lake.state("p", "rows"), lake.bronze("p", "users"))
    assert [table.reference for table in own] == [
        "`main`.`_streams`.`ledger`", "`main`.`_streams`.`snapshot_p__users`", "`main`.`_streams`.`state_p__rows`",
        "`main`.`raw`.`p__users`",
    ]  # fmt: skip
    folders = Lake("/lake", **names)
    assert folders.output("silver.a").path == "/lake/results/a"
    assert folders.checkpoints("p") == Path("/lake/_streams/checkpoints/p")


def test_two_names_of_silver_are_one_table() -> None:
    lake = Lake("/lake", silver_schema="results")
    with pytest.raises(TableNameCollision, match=r"output silver\.a and output results\.a"):
        require_distinct([(f"output {name}", lake.output(name)) for name in ("silver.a", "results.a")])


@pytest.mark.parametrize("room", ["bronze", "silver", "control"])
def test_a_schema_that_a_statement_could_not_name_is_refused(room: str) -> None:
    with pytest.raises(InvalidName, match=f"the schema of {room} is 'a`; DROP'"):
        Lake("/lake", **{f"{room}_schema": "a`; DROP"})


def test_two_things_in_one_table_are_refused() -> None:
    lake = Lake("/lake")
    topics = [(f"topic {topic}", lake.bronze("p", topic)) for topic in ("a.b", "a-b")]
    with pytest.raises(TableNameCollision, match=r"topic a.b and topic a-b would both be written to bronze.p__a_b"):
        require_distinct(topics)
    outputs = [("output A", lake.output("A")), ("output silver.a", lake.output("silver.a"))]
    with pytest.raises(TableNameCollision):  # capitals are not told apart
        require_distinct(outputs)
    require_distinct([("a", lake.output("a")), ("b", lake.output("b")), ("topic a", lake.bronze("p", "a"))])
    assert plain("a.b-c_d") == "a_b_c_d"


# --- creating --------------------------------------------------------------------------------------------------------


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


# --- writing ---------------------------------------------------------------------------------------------------------


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


def test_a_fence_that_holds_lets_the_rows_through(spark: SparkSession, tmp_path: Path) -> None:
    table = Lake(str(tmp_path)).output("silver.out")
    table.create(spark, schema(spark, "id bigint, n struct<x: int>"))
    rows = spark.sql("select id, named_struct('x', cast(id as int)) n from range(3)")
    fenced = fence_rows(spark, rows, "select assert_true(max(id) = 4, 'FENCE') from range(5)")
    assert fenced.schema.simpleString() == rows.schema.simpleString()
    table.append(fenced, "p/out", 1)
    assert sorted(row["id"] for row in table.read(spark).collect()) == [0, 1, 2]


@pytest.mark.parametrize("empty", [False, True], ids=["rows", "known to be empty"])
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
            older.record_plan(spark, plan)
        # the older driver's plan lands behind the newer one's epoch: its fence has looked before
        older.table.append(Ledger._frame(spark, [older._row("plan", cycle=1)]), "p/plan", 1)
        with pytest.raises(Fenced, match="another driver planned cycle 1"):
            newer.record_plan(spark, plan)


def test_overwriting_replaces_content_and_columns(spark: SparkSession, tmp_path: Path) -> None:
    table = Lake(str(tmp_path)).snapshot("p", "users")
    table.overwrite(spark.range(3))
    table.overwrite(spark.sql("select 'x' name"))
    assert [tuple(row) for row in table.read(spark).collect()] == [("x",)]
    assert re.fullmatch(r"struct<name:string>", table.read(spark).schema.simpleString())


# --- what grows, what is merged ----------------------------------------------------------------------------------------


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
