"""An older driver whose statement lands while a newer one takes over: where it is held, and when it goes on.

A statement is held in one of two ways. `paused`: it has not begun, as in a Python process that was stopped. `in flight`: it has
passed its fence and its rows are still being computed, as in a JVM that goes on while Python is gone.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F  # noqa: N812
from tests.engine.harness import Bench, assert_sound, facts

from lakestreams.config.compile import load_pipeline
from lakestreams.engine.driver import Driver
from lakestreams.engine.runtime import failpoints
from lakestreams.engine.runtime.settings import RunSettings
from lakestreams.engine.runtime.table import Table
from lakestreams.errors import Fenced

if TYPE_CHECKING:
    import pytest
    from pyspark.sql import DataFrame, SparkSession

PATIENCE_S: Final = 300
PACE: Final = {"snapshot_every": 1}

SOURCES: Final = """
topics:
  orders:
    kind: stream
    delta: shop.orders
    key: id bigint
    value: "customer_id bigint, placed timestamp"
    event_time: placed
  customers: {kind: table, delta: shop.customers, key: id bigint, value: "name string"}
"""
PIPELINE: Final = """
pipeline: shop
steps:
  by_customer: {select_key: {from: orders, select: {id: customer_id}}}
  named:
    left_join: {left: by_customer, right: customers}
    select: {placed: placed, name: name}
outputs:
  silver.named: {from: named}
  silver.customers: {from: customers, mode: merge}
"""
FEED: Final = "TBLPROPERTIES (delta.enableChangeDataFeed = true)"
BEFORE: Final = (
    f"CREATE TABLE {{orders}} (id bigint, customer_id bigint, placed timestamp) USING delta {FEED}",
    f"CREATE TABLE {{customers}} (id bigint, name string) USING delta {FEED}",
    "INSERT INTO {customers} VALUES (1, 'ann'), (2, 'ben')",
    "INSERT INTO {orders} VALUES (1, 1, timestamp'2024-01-01 00:00:00Z')",
)
AFTER: Final = (
    (
        "MERGE INTO {customers} t USING (SELECT * FROM VALUES (1, 'anna', false), (2, 'ben', true), (9, 'ida', false), "
        "(null, 'nobody', false) s (id, name, gone)) s ON t.id = s.id WHEN MATCHED AND s.gone THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET name = s.name WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, s.name)"
    ),
    "INSERT INTO {orders} VALUES (2, 1, timestamp'2024-01-01 00:00:01Z'), (3, 2, timestamp'2024-01-01 00:00:02Z')",
)


class LakeBench(Bench):
    """A pipeline over Delta tables: no broker, all that a driver writes."""

    def __init__(self, spark: SparkSession, root: Path, pipeline: Path) -> None:
        super().__init__(spark, None, root, load_pipeline(pipeline).topology)  # type: ignore[arg-type] - no broker

    def settings(self, **more: Any) -> RunSettings:
        return RunSettings(kafka={}, **{**PACE, **more})


@dataclass(frozen=True)
class Statement:
    """One kind of statement of a driver.

    Attributes:
        table: of the lake, by its name as users read it.
        kind: how the name of its transaction goes on behind the pipeline's; empty: any.
    """

    table: str
    kind: str = ""

    def __str__(self) -> str:
        return f"{self.table}{' ' if self.kind else ''}{self.kind}"


# What a round writes, in its order.
STATEMENTS: Final = (
    Statement("bronze.shop__delta_customers"),
    Statement("bronze.shop__delta_orders"),
    Statement("_lakestreams.ledger", "ingest"),
    Statement("_lakestreams.ledger", "plan"),
    Statement("silver.named"),
    Statement("silver.customers"),
    Statement("_lakestreams.quarantine"),
    Statement("_lakestreams.ledger", "done"),
    Statement("_lakestreams.events"),
)
# Where a newer driver stands when the statement goes on.
POINTS: Final = (
    "epoch.before",
    "epoch.after",
    "sealed.after",
    "bronze.before",
    "bronze.after",
    "ingest.after",
    "plan.before",
    "plan.after",
    "publish.before/silver.customers",
    "publish.after/silver.customers",
    "quarantine.after",
    "finish.before",
    "finish.after",
    "snapshot.after",
    "events.after",
    "end",
)


@dataclass
class Shop:
    """The tables that are read, a lake after a first run over them, and what a second run without trouble gives."""

    spark: SparkSession
    root: Path
    expected: Mapping[str, list[tuple[Any, ...]]] = field(default_factory=dict)

    @classmethod
    def opened(cls, spark: SparkSession, root: Path) -> Shop:
        root.mkdir(exist_ok=True)
        (root / "sources.yml").write_text(SOURCES.replace("shop.", f"{root}/tables/"))
        (root / "shop.yml").write_text(PIPELINE)
        made = cls(spark, root)
        made._all(BEFORE)
        LakeBench(spark, root / "begun", root / "shop.yml").run()
        made._all(AFTER)
        undisturbed = made.copy("undisturbed")
        undisturbed.run()
        made.expected = facts(undisturbed)
        return made

    def copy(self, name: str) -> LakeBench:
        """The lake after the first run, once more."""
        shutil.copytree(self.root / "begun", self.root / name)
        return LakeBench(self.spark, self.root / name, self.root / "shop.yml")

    def _all(self, statements: tuple[str, ...]) -> None:
        for one in statements:
            self.spark.sql(one.replace("{", f"delta.`{self.root}/tables/").replace("}", "`"))


@contextmanager
def held(monkeypatch: pytest.MonkeyPatch, statement: Statement, how: str, flags: Path) -> Iterator[Callable[[], bool]]:
    """Holds the first such statement that any driver makes from here on: whether it is held by now."""
    begun, go_on = flags / "begun", flags / "go-on"
    taking = threading.Lock()
    appends, merges = Table.append, Table.merge

    def wait() -> None:
        begun.touch()
        until = time.monotonic() + PATIENCE_S
        while not go_on.exists() and time.monotonic() < until:
            time.sleep(0.05)

    def due(table: Table, application: str) -> bool:
        if table.name != statement.table or f"/{statement.kind}" not in f"{application}/":
            return False
        return taking.acquire(blocking=False)

    def slow(rows: DataFrame) -> DataFrame:
        """The rows, one of whose columns is computed only when the statement may go on."""
        name, kind = next((one.name, one.dataType) for one in rows.schema.fields if one.dataType.simpleString() in
                          ("string", "bigint", "int"))  # fmt: skip

        @F.udf(kind)
        def same(value: Any) -> Any:
            wait()
            return value

        return rows.coalesce(1).withColumn(name, same(name)).select(*rows.columns)

    def holding(rows: DataFrame) -> DataFrame:
        if how == "in flight":
            return slow(rows)
        wait()
        return rows

    def append(self: Table, rows: DataFrame, application: str, version: int) -> bool:
        return appends(self, holding(rows) if due(self, application) else rows, application, version)

    def merge(self: Table, spark: SparkSession, rows: DataFrame, *given: Any, **more: Any) -> None:
        merges(self, spark, holding(rows) if due(self, "") else rows, *given, **more)

    with monkeypatch.context() as patched:
        patched.setattr(Table, "append", append)
        patched.setattr(Table, "merge", merge)
        yield begun.exists
        go_on.touch()


@contextmanager
def under_way(
    monkeypatch: pytest.MonkeyPatch, statement: Statement, how: str, flags: Path, work: Callable[[], object]
) -> Iterator[tuple[list[BaseException], Callable[[], None]]]:
    """Runs an older driver up to a statement, which is held.

    Yields:
        What the older driver has raised, and what lets the statement go on and waits for its driver; in the end it does by itself.
    """
    raised: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            raised.append(error)

    thread = threading.Thread(target=run)

    def go_on() -> None:
        (flags / "go-on").touch()
        thread.join(PATIENCE_S)

    with held(monkeypatch, statement, how, flags) as is_held:
        thread.start()
        while not is_held():
            assert thread.is_alive(), f"{statement} was not made: {raised}"
            time.sleep(0.05)
        try:
            yield raised, go_on
        finally:
            go_on()
    assert not thread.is_alive()


def land(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, name: str, statement: Statement, how: str, point: str
) -> tuple[dict[str, list[tuple[Any, ...]]], list[BaseException]]:
    """Lets an older driver's statement land when a newer one stands at a point.

    Returns:
        What the lake holds in the end, and what the older driver has raised.
    """
    bench, flags = shop.copy(name), shop.root / f"{name}.flags"
    flags.mkdir()
    older = Driver(shop.spark.newSession(), bench.topology, bench.lake, bench.settings())
    with under_way(monkeypatch, statement, how, flags, older.run) as (raised, go_on), monkeypatch.context() as patched:
        patched.setattr(failpoints, "_act", lambda *_: go_on())
        patched.setenv(failpoints.VARIABLE, f"{point}:1:land")
        bench.run()
    return facts(bench), raised


@contextmanager
def answers_lost(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Makes each append and merge twice, as whoever tries again after an answer was lost: the names of their tables."""
    appends, merges = Table.append, Table.merge
    made: list[str] = []

    def append(self: Table, rows: DataFrame, application: str, version: int) -> bool:
        made.append(self.name)
        once = appends(self, rows, application, version)
        appends(self, rows, application, version)
        return once

    def merge(self: Table, spark: SparkSession, rows: DataFrame, *given: Any, **more: Any) -> None:
        made.append(self.name)
        for _ in range(2):
            merges(self, spark, rows, *given, **more)

    with monkeypatch.context() as patched:
        patched.setattr(Table, "append", append)
        patched.setattr(Table, "merge", merge)
        yield made


def assert_told_once(bench: LakeBench) -> None:
    """Ledger and event log have each row once, and `verify` finds the outputs equal."""
    assert_sound(bench)
    told = bench.ledger().where("kind in ('epoch', 'ingest', 'plan', 'done')")
    events = bench.spark.read.format("delta").load(f"{bench.root}/_lakestreams/events")
    twice = told.groupBy("kind", F.coalesce("cycle", "seq", "epoch").alias("number")).count().where("count > 1")
    assert twice.collect() == [], "the ledger says something twice"
    assert events.count() == events.select("sequence").distinct().count(), "the event log tells something twice"


def stopped(raised: list[BaseException]) -> bool:
    """Whether the older driver was told that a newer one runs the pipeline."""
    return [type(one) for one in raised] == [Fenced]
