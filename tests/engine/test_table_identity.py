"""Each table of a lake deleted, emptied, restored, replaced or written to by others: refused, or made anew and equal.

One lake is laid down from Delta tables, and copied a case; no broker. A fixed sample of the cases runs by default, all in
`make soak`. Only there the lake has the second pipeline, whose states the sample does not touch.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.engine.harness import assert_sound, page_views
from tests.engine.test_delta_sources import TableBench

from lakestreams.config.compile import load_pipeline
from lakestreams.engine.ingest import bronze_rows
from lakestreams.engine.ledger.ledger import Ledger
from lakestreams.engine.runtime.failpoints import VARIABLE, FailpointReached
from lakestreams.engine.runtime.lake import Lake
from lakestreams.engine.state import snapshots
from lakestreams.engine.state import store as state
from lakestreams.engine.takeover import table_identity
from lakestreams.errors import LakestreamsError, LedgerLost, TableChanged, TableDeleted, TableOwned
from lakestreams.maintenance.maintain import Options, maintain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams import Topology
    from lakestreams.engine.runtime.table import Table

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("small_input")]

SOURCES = """
topics:
  orders: {kind: stream, delta: shop.orders, key: id bigint, value: "customer bigint, amount int"}
  customers: {kind: table, delta: shop.customers, changes: snapshot, key: id bigint, value: "name string"}
"""
NAMED = """
pipeline: named
steps:
  keyed: {select_key: {from: orders, select: {id: customer}}}
  named: {left_join: {left: keyed, right: customers}, select: {amount: amount, name: name}}
outputs:
  silver.named: {from: named}
  silver.customers: {from: customers}
"""
COUNTED = """
pipeline: counted
steps:
  counted: {count: {from: orders}}
outputs:
  silver.counted: {from: counted}
"""


@dataclass(frozen=True)
class Laid:
    """A folder with pipelines that have run in it."""

    spark: SparkSession
    root: Path
    topologies: dict[str, Topology]

    def bench(self, pipeline: str) -> TableBench:
        return TableBench(self.spark, self.root, self.topologies[pipeline])

    def copied(self, root: Path) -> Laid:
        shutil.copytree(self.root, root)
        return Laid(self.spark, root, self.topologies)

    def insert(self, *orders: tuple[int, int, int]) -> None:
        rows = ", ".join(map(str, orders))
        self.bench("named").sql(f"INSERT INTO {{orders}} VALUES {rows}")

    def run(self, pipeline: str, **more: Any) -> list[str]:
        return self.bench(pipeline).run(snapshot_every=1, **more).warnings

    def known(self, pipeline: str, *, accept: bool = False) -> list[str]:
        """What a start accepts, of what it finds before it writes anything."""
        bench = self.bench(pipeline)
        ledger = Ledger(bench.lake, pipeline)
        return table_identity.known(self.spark, ledger, bench.topology, accept=accept).accepted

    @cached_property
    def expected(self) -> dict[str, list[list[tuple[Any, ...]]]]:
        """What the next runs give where nobody has touched anything."""
        lake = self.copied(self.root.with_name("untouched"))
        return {name: next_run(lake, name) for name in lake.topologies}

    def results(self, pipeline: str) -> list[list[tuple[Any, ...]]]:
        """The outputs, without which cycle gave what."""
        bench = self.bench(pipeline)
        columns = {"silver.named": ("id", "amount", "name"), "silver.customers": ("id", "name"),
                   "silver.counted": ("id", "count")}  # fmt: skip
        return [bench.rows(sink.name, *columns[sink.name]) for sink in bench.topology.sinks]


def table(lake: Laid, name: str) -> Table:
    """A table by the name that the cases give it."""
    place = lake.bench("named").lake
    if name.startswith("state"):
        ledger = Ledger(place, "counted")
        stored = getattr(ledger.history(lake.spark), "base" if name.endswith("base") else "state")
        return state.table(ledger, *stored.frames[0], stored.slot)
    named = {
        "bronze": place.bronze("named", "delta/orders"),
        "bronze of the table": place.bronze("named", "delta/customers"),
        "append": place.output("silver.named"),
        "merge": place.output("silver.customers"),
        "snapshot": place.snapshot("named", "delta/customers"),
    }
    return named.get(name) or place.control(name)


# --- what is done to a table -----------------------------------------------------------------------------------------


def deleted(spark: SparkSession, one: Table) -> None:
    shutil.rmtree(str(one.path))


def emptied(spark: SparkSession, one: Table) -> None:
    spark.sql(f"DELETE FROM {one.reference}")


def restored(spark: SparkSession, one: Table) -> None:
    history = spark.sql(f"DESCRIBE HISTORY {one.reference}").orderBy("version").collect()
    writing = [row["version"] for row in history if row["operation"] in ("WRITE", "MERGE")]
    spark.sql(f"RESTORE TABLE {one.reference} TO VERSION AS OF {writing[-1] - 1}")


def replaced(spark: SparkSession, one: Table) -> None:
    rows = spark.read.format("delta").load(one.path)
    rows.limit(1).write.format("delta").save(f"{one.path}_other")
    shutil.rmtree(str(one.path))
    shutil.move(f"{one.path}_other", str(one.path))


def appended(spark: SparkSession, one: Table) -> None:
    rows = spark.read.format("delta").load(one.path)
    rows.limit(1).write.format("delta").mode("append").save(one.path)


WAYS: dict[str, Callable[[SparkSession, Table], None]] = {
    one.__name__: one for one in (deleted, emptied, restored, replaced, appended)
}
REFUSED = {"deleted": (TableDeleted,)}
LEDGER = {"deleted": (LedgerLost,), "emptied": (LedgerLost,)}
CELLS = {
    **{
        (name, way): REFUSED.get(way, (TableChanged,))
        for name in ("bronze", "bronze of the table", "append", "merge", "quarantine", "events")
        for way in WAYS
    },
    **{("ledger", way): LEDGER.get(way, (TableChanged, LedgerLost)) for way in WAYS},
    **{(name, way): None for name in ("epochs", "snapshot", "state") for way in WAYS},
}
SAMPLE = [("append", "appended"), ("bronze", "emptied"), ("ledger", "appended"), ("snapshot", "replaced")]


def lay(spark: SparkSession, folder: Path, pipelines: Mapping[str, str]) -> Laid:
    """Each pipeline runs as often as it takes until each table has an older version with rows: states have two slots."""
    (folder / "sources.yml").write_text(SOURCES)
    topologies = {}
    for name, text in pipelines.items():
        (folder / f"{name}.yml").write_text(text)
        topologies[name] = load_pipeline(folder / f"{name}.yml").topology
    lake = Laid(spark, folder / "lake", topologies)

    def run(*names: str) -> None:
        for name in names:
            if name in topologies:
                lake.run(name)

    bench = lake.bench("named")
    bench.create("orders", "id bigint, customer bigint, amount int")
    bench.create("customers", "id bigint, name string")
    bench.sql("INSERT INTO {customers} VALUES (0, 'ann')")
    lake.insert((1, 0, 10))
    run("named", "counted")
    bench.sql("INSERT INTO {customers} VALUES (1, 'bob'), (null, 'nobody')")
    lake.insert((2, 1, 20))
    run("counted")
    lake.insert((3, 5, 10))
    run("named", "counted")
    return lake


@pytest.fixture(scope="module")
def laid(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Laid:
    """The first pipeline alone."""
    return lay(spark, tmp_path_factory.mktemp("identity"), {"named": NAMED})


@pytest.fixture(scope="module")
def both(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Laid:
    """Both pipelines, for the states that the second one keeps."""
    return lay(spark, tmp_path_factory.mktemp("both"), {"named": NAMED, "counted": COUNTED})


def next_run(lake: Laid, pipeline: str) -> list[list[tuple[Any, ...]]]:
    if pipeline == "named":
        lake.insert((30, 2, 30), (31, 0, 30))
    lake.run(pipeline)
    return lake.results(pipeline)


def cells(chosen: list[tuple[str, str]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(("name", "way"), chosen, ids=[f"{name}, {way}" for name, way in chosen])


def judged(laid: Laid, tmp_path: Path, name: str, way: str) -> None:
    changed = laid.copied(tmp_path / "changed")
    WAYS[way](laid.spark, table(changed, name))
    lake = changed.copied(tmp_path / "lake")  # where the session has seen no table yet
    pipeline = "counted" if name == "state" else "named"
    refused = CELLS[name, way]
    if refused is None:
        assert next_run(lake, "named") == laid.expected["named"]
        if pipeline == "counted":
            assert next_run(lake, "counted") == laid.expected["counted"]
        assert_sound(lake.bench(pipeline))
        return
    before = sorted(lake.root.rglob("*.json"))
    with pytest.raises(refused):
        lake.known(pipeline)
    assert sorted(lake.root.rglob("*.json")) == before, "nothing was made or written"


@cells(SAMPLE)
def test_a_table_that_others_have_changed_is_refused_or_made_anew(
    laid: Laid, tmp_path: Path, name: str, way: str
) -> None:
    judged(laid, tmp_path, name, way)


@pytest.mark.soak
@cells([one for one in sorted(CELLS) if one not in SAMPLE])
def test_every_table_that_others_have_changed_is_refused_or_made_anew(
    both: Laid, tmp_path: Path, name: str, way: str
) -> None:
    judged(both, tmp_path, name, way)


def test_maintenance_is_let_pass_a_restore_takes_a_change_back_and_one_that_is_meant_is_accepted(
    laid: Laid, tmp_path: Path
) -> None:
    lake = laid.copied(tmp_path / "lake")
    spark = laid.spark
    maintain(spark, lake.bench("named").lake, laid.topologies["named"], Options(retention_ms=0, outputs=True))
    assert lake.known("named") == [], "bronze was trimmed, files joined, and nobody is told of it"
    silver = table(lake, "append")
    spark.sql(f"ALTER TABLE {silver.reference} SET TBLPROPERTIES ('team' = 'shop')")
    spark.sql(f"DELETE FROM {silver.reference} WHERE amount = 20")
    with pytest.raises(TableChanged) as found:
        lake.known("named")
    assert found.value.hint is not None
    statement = found.value.hint.partition(" undoes it")[0]
    assert statement.startswith("RESTORE TABLE")
    spark.sql(statement)
    assert lake.known("named") == []

    spark.sql(f"DELETE FROM {silver.reference} WHERE amount = 20")
    told = lake.run("named", accept_change=True)
    assert any("silver.named was changed by others: DELETE" in one for one in told)
    assert lake.known("named") == [], "it is said once"
    shutil.rmtree(str(table(lake, "merge").path))
    shutil.rmtree(str(table(lake, "bronze").path))
    with pytest.raises(TableDeleted) as missing:
        lake.known("named", accept=True)
    assert "bronze.named__delta_orders" in str(missing.value)
    assert "silver.customers" not in str(missing.value), "an output can be meant to be gone, bronze cannot"


def sealed(lake: Laid) -> int:
    """How often a table's properties were changed: Databricks stops whoever reads it as a stream."""
    return sum('"operation":"SET TBLPROPERTIES"' in file.read_text() for file in lake.root.rglob("_delta_log/*.json"))


def test_a_start_seals_only_behind_a_run_that_has_not_ended_or_had_another_configuration(
    laid: Laid, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = laid.copied(tmp_path / "lake")
    assert sealed(lake) == 0, "each run that laid it down ended well"
    lake.insert((40, 1, 1))
    with monkeypatch.context() as failing:
        failing.setenv(VARIABLE, "events.before")
        with pytest.raises(FailpointReached):
            lake.run("named")
    assert sealed(lake) == 0
    lake.run("named")
    tables = sealed(lake)
    assert tables >= 6, "ledger, quarantine, events, bronze and outputs: what a driver that crashed has begun may land"
    lake.run("named")
    assert sealed(lake) == tables
    lake.run("named", config_text="of other settings")
    assert sealed(lake) >= 2 * tables, "what it writes to need not be what the one before wrote to, and sealed"
    then = sealed(lake)
    lake.run("named", config_text="of other settings")
    assert sealed(lake) == then


def test_a_ledger_of_an_earlier_time_is_noticed_by_what_was_appended(laid: Laid, tmp_path: Path) -> None:
    """Where no start has sealed anything; with the epochs of that time, which would say so, too."""
    lake = laid.copied(tmp_path / "lake")
    control = [Path(str(table(lake, name).path)) for name in ("ledger", "epochs")]
    for folder in control:
        shutil.copytree(folder, tmp_path / folder.name)
    lake.insert((40, 1, 1))
    lake.run("named")
    for folder in control:
        shutil.rmtree(folder)
        shutil.copytree(tmp_path / folder.name, folder)
    assert sealed(lake) == 0
    with pytest.raises(LedgerLost, match="knows only"):
        lake.copied(tmp_path / "again").known("named")
    shutil.rmtree(lake.root / "bronze")
    shutil.copytree(laid.root / "bronze", lake.root / "bronze")  # so outputs alone show it
    with pytest.raises(LedgerLost, match=r"cycle \d+ of named has written to silver"):
        lake.copied(tmp_path / "with bronze").known("named")


def test_a_table_that_is_made_anew_under_a_running_driver_is_refused_at_the_next_start(
    laid: Laid, tmp_path: Path
) -> None:
    """Although the driver appends to it, and more often than to the one that the ledger knows."""
    lake = laid.copied(tmp_path / "lake")
    silver, bench = table(lake, "append"), lake.bench("named")
    known = Ledger(bench.lake, "named").history(laid.spark).tables["output silver.named"]
    columns = silver.read(laid.spark).schema
    shutil.rmtree(str(silver.path))
    laid.spark.createDataFrame([], columns).write.format("delta").save(silver.path)
    for number in range(known.version + 1):
        silver.append(laid.spark.createDataFrame([], columns), "named/silver.named", number + 1)
    with pytest.raises(TableChanged, match="was replaced"):
        lake.copied(tmp_path / "again").known("named")


def test_a_pipeline_does_not_write_to_the_table_of_another_one(laid: Laid, tmp_path: Path) -> None:
    lake = laid.copied(tmp_path / "lake")
    (tmp_path / "sources.yml").write_text(SOURCES)
    (tmp_path / "second.yml").write_text(NAMED.replace("pipeline: named", "pipeline: second"))
    second = load_pipeline(tmp_path / "second.yml").topology
    with pytest.raises(TableOwned) as found:
        table_identity.known(laid.spark, Ledger(lake.bench("named").lake, "second"), second, accept=False)
    assert "pipeline named, output silver.named" in str(found.value)
    assert "pipeline second, output silver.named" in str(found.value)


@pytest.mark.parametrize(
    ("first", "second"),
    [(("a", "b__c"), ("a__b", "c")), (("a__b", "c"), ("a", "b__c")), (("a", "shop.orders"), ("a", "shop_orders"))],
    ids="/".join,
)
def test_topics_that_meet_in_one_bronze_table_are_told_apart_by_its_owner(
    spark: SparkSession, tmp_path: Path, first: tuple[str, str], second: tuple[str, str]
) -> None:
    place = Lake(str(tmp_path))
    one, other = (page_views(topic, f"users_{topic}", pipeline=pipeline) for pipeline, topic in (first, second))
    for topology in (one, other):
        bronze_rows.create_bronze(spark, place, topology.name, topology.sources[0])
    table_identity.look(spark, Ledger(place, one.name), one).require_own()
    with pytest.raises(TableOwned) as found:
        table_identity.look(spark, Ledger(place, other.name), other).require_own()
    assert all(f"pipeline {pipeline}, topic {topic}" in str(found.value) for pipeline, topic in (first, second))


@pytest.mark.soak
def test_a_base_that_others_have_changed_is_refused_where_bronze_is_trimmed(both: Laid, tmp_path: Path) -> None:
    trimmed = both.copied(tmp_path / "trimmed")
    for number in range(50, 53):  # until one of the base's two slots is written a second time
        trimmed.insert((number, 1, 1))
        trimmed.run("counted")
        maintain(both.spark, trimmed.bench("counted").lake, both.topologies["counted"], Options(retention_ms=0))
    for way, done in WAYS.items():
        changed = trimmed.copied(tmp_path / f"changed_{way}")
        for name in ("state", "state base"):
            done(both.spark, table(changed, name))
        lake = changed.copied(tmp_path / way)
        with pytest.raises(LakestreamsError) as found:
            lake.run("counted")
        assert found.value.code == "LS510", way


def test_a_snapshot_is_used_as_long_as_it_is_what_was_written(laid: Laid, tmp_path: Path) -> None:
    lake = laid.copied(tmp_path / "lake")
    topology = laid.topologies["named"]
    ledger = Ledger(lake.bench("named").lake, "named")
    (source,) = (one for one in topology.sources if one.kind == "table")
    found = snapshots.find(laid.spark, ledger, source, topology.expectations)
    assert found.rows == 2
    appended(laid.spark, table(lake, "snapshot"))
    assert snapshots.find(laid.spark, ledger, source, topology.expectations).cycle == 0
