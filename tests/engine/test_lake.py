"""Where tables live: names, folders, and what no two things may share."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakestreams.engine.runtime.lake import Lake, plain, require_distinct
from lakestreams.engine.runtime.table import Table
from lakestreams.errors import InvalidName, InvalidOption, TableNameCollision


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


@pytest.mark.parametrize(
    "root", ["s3://bucket/lake", "abfss://a@b.dfs.core.windows.net/lake", "gs://b", "dbfs:/Volumes/a/b/c", "file:/lake"]
)
@pytest.mark.parametrize("catalog", [None, "prod"])
def test_an_address_of_cloud_storage_is_no_folder(root: str, catalog: str | None) -> None:
    """It would be one below the working directory, on a disk that ends with the cluster."""
    with pytest.raises(InvalidOption, match="is an address") as refused:
        Lake(root, catalog)
    assert "/Volumes/" in refused.value.hint


def test_a_folder_may_have_a_colon() -> None:
    assert Lake("/lake/a:b").control("ledger").path == "/lake/a:b/_lakestreams/ledger"


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


def test_a_relative_lake_lies_below_the_working_directory_of_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark's is the one that its JVM started in: with a relative folder it would continue from another checkpoint."""
    monkeypatch.chdir(tmp_path)
    lake = Lake("lake")
    assert lake.checkpoints("p") == tmp_path / "lake" / "_lakestreams" / "checkpoints" / "p"
    assert lake.output("a").path == str(tmp_path / "lake" / "silver" / "a")
