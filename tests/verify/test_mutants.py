"""Faults put into kernels, settling, ingest and publish: a verification finds every one.

Those of a kernel are there while the outputs are written and while they are verified, so that recomputing agrees with the
tables: the second opinion alone can find them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812
from tests.engine.laid import Laid, Record

from lakestreams import StreamsBuilder, Text, Topology
from lakestreams.engine.ledger import settle
from lakestreams.engine.ledger.backlog import Backlog
from lakestreams.engine.ledger.plans import BronzeState, Ingest, Position
from lakestreams.engine.publish import sinks
from lakestreams.engine.runtime.table import Table
from lakestreams.engine.state import inputs
from lakestreams.evaluate import joins as shapes
from lakestreams.evaluate import tasks as flow_tasks
from lakestreams.operators import versions
from lakestreams.operators.foreign_key import table_table
from lakestreams.operators.stream_stream import frames as stream_stream
from lakestreams.operators.stream_table_as_of import frames as as_of
from lakestreams.operators.stream_table_wait import frames as race
from lakestreams.testing.small import small

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    Mutate = Callable[[pytest.MonkeyPatch], None]

pytestmark = [pytest.mark.slow]

ZERO = 1_000
BATCHES = 3


@pytest.fixture(autouse=True, scope="module")
def _small(spark: SparkSession) -> Iterator[None]:
    with small(spark):
        yield


# --- one pipeline a shape --------------------------------------------------------------------------------------------


def lookups() -> tuple[Topology, Mapping[str, Sequence[Record]]]:
    """Views with their user's row. Several of both have one time, so that they tie, also where a batch ends."""
    builder = StreamsBuilder("lookups")
    views = builder.stream("Views", key=Text("user"), value=Text("page"))
    users = builder.table("Users", key=Text("user"), value=Text("region"))
    views.left_join(users, name="joined").to_delta("silver.out")
    chance = random.Random(1)
    seen = [(f"u{chance.randrange(8)}", f"/{number}", ZERO + 10 * (number // 6)) for number in range(120)]
    known = [
        (f"u{chance.randrange(8)}", None if number % 4 == 3 else f"r{number}", ZERO + 10 * (number // 3))
        for number in range(60)
    ]
    return builder.build(), {"Views": seen, "Users": known}


def windows() -> tuple[Topology, Mapping[str, Sequence[Record]]]:
    """Orders, some placed twice, with their payments: several of some, some late or missing; times at the very bounds."""
    builder = StreamsBuilder("windows")
    orders = builder.stream("Orders", key=Text("order_id"), value=Text("amount"))
    payments = builder.stream("Payments", key=Text("order_id"), value=Text("reference"))
    orders.outer_join(payments, within="100 ms", grace="50 ms", name="joined").to_delta("silver.out")
    chance = random.Random(2)
    placed = [
        (f"o{number}", f"{number}-{turn}", max(0, ZERO + 20 * number + 10 * turn - chance.choice([0, 0, 0, 110, 400])))
        for number in range(70)
        for turn in range(2 if number % 5 == 1 else 1)
    ]
    paid = [
        (f"o{number}", f"p{number}-{turn}", ZERO + 20 * number + chance.choice([0, 40, 100, 100, 110, 300]))
        for number in range(70)
        for turn in range(number % 4)
    ]
    paid.sort(key=lambda one: one[2] + chance.randrange(120))
    return builder.build(), {"Orders": placed, "Payments": paid}


def tables() -> tuple[Topology, Mapping[str, Sequence[Record]]]:
    """Orders with their customer, both coming, changing and going."""
    builder = StreamsBuilder("tables")
    orders = builder.table("OrderRows", key=Text("order_id"), value=Text("customer"))
    customers = builder.table("Customers", key=Text("customer_id"), value=Text("name"))
    joined = orders.left_join(customers, left_on=lambda order: {"customer_id": order.customer}, name="joined")
    joined.to_delta("silver.out")
    chance = random.Random(3)
    rows = [
        (f"o{chance.randrange(20)}", None if number % 7 == 6 else f"c{chance.randrange(5)}", ZERO + 10 * number)
        for number in range(90)
    ]
    named = [
        (f"c{chance.randrange(5)}", None if number % 3 == 2 else f"n{number}", ZERO + 20 * number)
        for number in range(45)
    ]
    return builder.build(), {"OrderRows": rows, "Customers": named}


def clocks() -> tuple[Topology, Mapping[str, Sequence[Record]]]:
    """Joins that follow clocks: windows of re-partitioned streams by Kafka's rules, prices as of a time, late customers."""
    builder = StreamsBuilder("clocks")
    text = {"key": Text("order_id")}
    orders, payments = (builder.stream(name, value=Text(name.lower()), **text) for name in ("Orders", "Payments"))
    prices = builder.table("Prices", value=Text("price"), as_of=True, history="300 ms", **text)
    customers = builder.table("Customers", value=Text("name"), **text)
    placed, paid = orders.repartition(3, name="placed"), payments.repartition(3, name="paid")
    placed.outer_join(paid, within="40 ms", grace="20 ms", rules="kafka", name="spread").to_delta("silver.spread")
    orders.left_join(prices, grace="60 ms", name="priced").to_delta("silver.priced")
    orders.left_join(customers, wait="50 ms", amend="200 ms", name="raced").to_delta("silver.raced", mode="merge")
    chance = random.Random(4)

    def told(count: int, apart: int, *, deletes: bool) -> list[Record]:
        """Times run on, and now and then back; keys come again and again."""
        return [
            (
                f"o{chance.randrange(12)}",
                None if deletes and number % 6 == 5 else f"v{number}",
                max(0, ZERO + apart * number - chance.choice([0, 0, 0, 30, 90, 400])),
            )
            for number in range(count)
        ]

    given = {
        "Orders": told(90, 10, deletes=False), "Payments": told(90, 10, deletes=False),
        "Prices": told(60, 15, deletes=True), "Customers": told(45, 20, deletes=True),
    }  # fmt: skip
    return builder.build(), given


SHAPES = {"lookups": lookups, "windows": windows, "tables": tables, "clocks": clocks}


@dataclass
class Shelf:
    """What was laid down once: a pipeline with bronze only, and with its plans."""

    spark: SparkSession
    root: Path

    def __post_init__(self) -> None:
        self.read: dict[str, Laid] = {}
        self.run: dict[str, Laid] = {}

    def ingested(self, shape: str) -> Laid:
        if shape not in self.read:
            topology, topics = SHAPES[shape]()
            laid = Laid(self.spark, self.root / f"{shape}-read", topology)
            self.read[shape] = laid.ingested(topics, BATCHES)
        return self.read[shape]

    def planned(self, shape: str) -> Laid:
        if shape not in self.run:
            self.run[shape] = self.ingested(shape).copied(self.root / f"{shape}-run").planned()
        return self.run[shape]


@pytest.fixture(scope="module")
def shelf(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    return Shelf(spark, tmp_path_factory.mktemp("mutants"))


@pytest.mark.parametrize(
    "shape", [shape if shape == "lookups" else pytest.param(shape, marks=pytest.mark.soak) for shape in SHAPES]
)
def test_without_a_fault_nothing_is_found(shelf: Shelf, tmp_path: Path, shape: str) -> None:
    assert shelf.planned(shape).copied(tmp_path / "sound").published().differing() == {}


# --- kernels ---------------------------------------------------------------------------------------------------------


def _a_version_late(patch: pytest.MonkeyPatch) -> None:
    """A lookup sees the version before the one that is valid."""
    real = versions.bounded

    def late(rows: DataFrame, since: int, *by: str) -> DataFrame:
        following = Window.partitionBy(*by).orderBy("o", "n")
        found = real(rows, since, *by)
        return found.withColumns({versions.FROM: F.col(versions.TO), versions.TO: F.lead(versions.TO).over(following)})

    patch.setattr(versions, "bounded", late)


def _streams_before_tables(patch: pytest.MonkeyPatch) -> None:
    """On ties the other way round."""
    patch.setattr(inputs, "TABLE_SIDE", 2)


def _tombstones_end_nothing(patch: pytest.MonkeyPatch) -> None:
    """A deleted row lives on."""
    real = versions.bounded
    patch.setattr(versions, "bounded", lambda rows, since, *by: real(rows.where("v is not null"), since, *by))


def _times(patch: pytest.MonkeyPatch, change: Callable[[int, int, int], tuple[int, int, int]]) -> None:
    patch.setattr(shapes.Shapes, "_times", lambda _, node: change(node.before_ms, node.after_ms, node.grace_ms))


def _bound_exclusive(patch: pytest.MonkeyPatch) -> None:
    """A window's end is off by one ms."""
    _times(patch, lambda before, after, grace: (before, after - 1, grace + 1))


def _no_grace(patch: pytest.MonkeyPatch) -> None:
    _times(patch, lambda before, after, _: (before, after, 0))


def _drops_unmatched(patch: pytest.MonkeyPatch) -> None:
    """Some rows without a partner never come out."""
    real = stream_stream.execute
    kept = "kind <> 'unmatched' or xxhash64(k) % 5 <> 0"
    patch.setattr(stream_stream, "execute", lambda *args, **options: real(*args, **options).where(kept))


def _pairs_in_one_place(patch: pytest.MonkeyPatch) -> None:
    """All pairs of a record have the same `n`."""
    real = stream_stream.execute
    place = F.when(F.col("kind") == "matched", F.lit(0)).otherwise(F.col("n"))
    patch.setattr(stream_stream, "execute", lambda *args, **options: real(*args, **options).withColumn("n", place))


def _clock_that_lags(patch: pytest.MonkeyPatch) -> None:
    """Records move the clock not as far as their partition's stream time."""
    real = shapes.Shapes._clocked
    patch.setattr(shapes.Shapes, "_clocked", lambda *args: real(*args).withColumn("moves", F.col("moves") - 30))


def _right_deletions_unheard(patch: pytest.MonkeyPatch) -> None:
    real = table_table._answers
    patch.setattr(
        table_table, "_answers",
        lambda right, since, **more: real(replace(right, changes=right.changes.where("v is not null")), since, **more),
    )  # fmt: skip


def _subscribers_never_leave(patch: pytest.MonkeyPatch) -> None:
    """Right rows answer left rows that were replaced long ago."""
    real = table_table._left_rows

    def endless(*args: Any, **more: Any) -> DataFrame:
        rows = real(*args, **more)
        return rows.withColumn(versions.TO, F.lit(None).cast(rows.schema[versions.TO].dataType))

    patch.setattr(table_table, "_left_rows", endless)


def _all_in_one_task(patch: pytest.MonkeyPatch) -> None:
    """Re-keyed records share one clock."""
    patch.setattr(flow_tasks, "partition_of", lambda *_: F.lit(0))


def _grace_too_short(patch: pytest.MonkeyPatch) -> None:
    """Records come out before late rows of the past do."""
    real = as_of.execute
    shorter = lambda join: join if join.grace is None else replace(join, grace=join.grace - 20)  # noqa: E731
    patch.setattr(as_of, "execute", lambda points, versions, join, since: real(points, versions, shorter(join), since))


def _bounds_too_long(patch: pytest.MonkeyPatch) -> None:
    """Records look out for longer than they were told."""
    real = race._through_workers

    def longer(both: Any, state: Any, step: Any, *rest: Any) -> Any:
        join, *given = step.args
        join = replace(join, wait=join.wait + 20, amend=join.amend + 20)
        return real(both, state, partial(step.func, join, *given, **step.keywords), *rest)

    patch.setattr(race, "_through_workers", longer)


@pytest.mark.parametrize(
    ("shape", "mutate", "name"),
    [
        ("clocks", _all_in_one_task, "spread"),
        ("clocks", _grace_too_short, "priced"),
        ("clocks", _bounds_too_long, "raced"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.__name__.strip("_"),
)
@pytest.mark.soak
def test_a_fault_of_one_of_several_joins_is_found_there_alone(
    shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shape: str, mutate: Mutate, name: str
) -> None:
    laid = shelf.planned(shape).copied(tmp_path / "mutant")
    mutate(monkeypatch)
    assert set(laid.published().differing()) == {f"second opinion on {name}"}


@pytest.mark.parametrize(
    ("shape", "mutate"),
    [
        ("lookups", _a_version_late),
        pytest.param("lookups", _streams_before_tables, marks=pytest.mark.soak),
        pytest.param("lookups", _tombstones_end_nothing, marks=pytest.mark.soak),
        pytest.param("windows", _bound_exclusive, marks=pytest.mark.soak),
        pytest.param("windows", _no_grace, marks=pytest.mark.soak),
        pytest.param("windows", _drops_unmatched, marks=pytest.mark.soak),
        pytest.param("windows", _pairs_in_one_place, marks=pytest.mark.soak),
        pytest.param("windows", _clock_that_lags, marks=pytest.mark.soak),
        pytest.param("tables", _right_deletions_unheard, marks=pytest.mark.soak),
        pytest.param("tables", _subscribers_never_leave, marks=pytest.mark.soak),
    ],
    ids=lambda value: value if isinstance(value, str) else value.__name__.strip("_"),
)
def test_a_fault_of_a_kernel_is_found_by_the_second_opinion_alone(
    shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shape: str, mutate: Mutate
) -> None:
    laid = shelf.planned(shape).copied(tmp_path / "mutant")
    mutate(monkeypatch)
    assert set(laid.published().differing()) == {"second opinion on joined"}


# --- publish ---------------------------------------------------------------------------------------------------------


def _publishes(patch: pytest.MonkeyPatch, condition: str) -> None:
    def publishes_some(real: Callable[..., None]) -> Callable[..., None]:
        return lambda spark, ledger, sink, rows, *more: real(spark, ledger, sink, rows.where(condition), *more)

    for name in ("append", "merge"):
        patch.setattr(sinks, name, publishes_some(getattr(sinks, name)))


def _drops_a_partition(patch: pytest.MonkeyPatch) -> None:
    _publishes(patch, "_lineage.trigger.partition = 0")


def _publishes_twice(patch: pytest.MonkeyPatch) -> None:
    """A repeated append is not skipped."""
    real = Table.append

    def twice(table: Table, rows: DataFrame, application: str, version: int) -> None:
        real(table, rows, application, version)
        real(table, rows, f"{application}/again", version)

    patch.setattr(Table, "append", twice)


def _publishes_first(patch: pytest.MonkeyPatch) -> None:
    """Of a cycle's rows of a key the first instead of the last."""

    def first(rows: DataFrame, key: Sequence[str]) -> DataFrame:
        order = F.struct(*(F.col("_lineage")[name] for name in ("cycle", "trigger", "n")))
        found = rows.groupBy(*key).agg(F.min_by(F.struct(*rows.columns), order).alias("first"))
        return found.select(*(F.col("first")[name].alias(name) for name in rows.columns))

    patch.setattr(sinks, "latest", first)


@pytest.mark.parametrize(
    ("shape", "mutate"),
    [
        pytest.param("windows", _drops_a_partition, marks=pytest.mark.soak),
        ("lookups", _publishes_twice),
        pytest.param("tables", _publishes_first, marks=pytest.mark.soak),
    ],
    ids=lambda value: value if isinstance(value, str) else value.__name__.strip("_"),
)
def test_a_fault_of_publish_is_found_in_the_table(shelf: Shelf, tmp_path: Path, shape: str, mutate: Mutate) -> None:
    laid = shelf.planned(shape).copied(tmp_path / "mutant")
    with pytest.MonkeyPatch.context() as patch:
        mutate(patch)
        laid.published()
    assert set(laid.differing(ask_second=False)) == {"silver.out"}


# --- settle and ingest -----------------------------------------------------------------------------------------------


def _frontier_not_strict(patch: pytest.MonkeyPatch) -> None:
    """A cycle takes records at the frontier's own stream time, of which more may come."""
    real = settle.holding
    patch.setattr(settle, "holding", lambda *args: {at: time + 1 for at, time in real(*args).items()})


def _skips_a_record(patch: pytest.MonkeyPatch) -> None:
    """Each plan begins one record past the end of the one before."""
    real = Backlog.open_ranges

    def short(backlog: Backlog) -> Any:
        found, cut = real(backlog)
        planned = backlog.plan.positions if backlog.plan else {}
        moved = {
            at: replace(part, from_offset=min(part.from_offset + 1, part.to_offset)) if at in planned else part
            for at, part in found.items()
        }
        return moved, cut

    patch.setattr(Backlog, "open_ranges", short)


def _pieces_above_are_taken(patch: pytest.MonkeyPatch) -> None:
    """What was counted together is planned together, whether the frontier lies in it or below it."""
    real = settle.divided
    patch.setattr(settle, "divided", lambda part, pieces, _, judged: real(part, pieces, None, judged))


@pytest.mark.parametrize(
    ("mutate", "found"),
    [
        (_frontier_not_strict, {"plans, what was settled"}),
        (_skips_a_record, {"plans"}),
        # test_pieces compares such plans with those of counting every row
        pytest.param(_pieces_above_are_taken, {"plans, what was settled"}, marks=pytest.mark.soak),
    ],
    ids=lambda value: value.__name__.strip("_") if callable(value) else "",
)
def test_a_fault_of_settling_is_found_in_the_plans(
    shelf: Shelf, tmp_path: Path, mutate: Mutate, found: set[str]
) -> None:
    laid = shelf.ingested("lookups").copied(tmp_path / "mutant")
    with pytest.MonkeyPatch.context() as patch:
        mutate(patch)
        laid.planned()
    assert found <= set(laid.published().differing(ask_second=False))


@pytest.mark.soak
def test_a_stream_time_that_is_not_carried_on_is_found_in_bronze(spark: SparkSession, tmp_path: Path) -> None:
    """A batch begins with no stream time instead of the one that its partition has reached."""
    topology, topics = windows()
    real = BronzeState.after

    def forgets(ingests: Sequence[Ingest]) -> BronzeState:
        bronze_state = real(ingests)
        positions = {at: Position(place.offset, -1) for at, place in bronze_state.positions.items()}
        return BronzeState(bronze_state.seq, positions)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BronzeState, "after", forgets)
        laid = Laid(spark, tmp_path, topology).ingested(topics, BATCHES)
    found = set(laid.planned().published().differing(ask_second=False))
    assert found & {"bronze of Orders, stream time", "bronze of Payments, stream time"}
