"""A topic that is given more partitions: what its cycles gave stays, whoever evaluates them again."""

from __future__ import annotations

import shutil
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions
from tests.engine import laid
from tests.engine.harness import Bench, assert_sound, fresh_topics
from tests.engine.test_cuts import STREAM, Log, Record, Rig
from tests.engine.test_table_state import finished
from tests.maintenance.test_maintain import ANY_TIME, lose_caches, trimming
from tests.operators.wild import home

from lakestreams import StreamsBuilder, Text, Topology
from lakestreams.engine.ledger.ledger import Ledger
from lakestreams.engine.ledger.plans import Plan, Range
from lakestreams.engine.runtime.progress import wall_clock_ms
from lakestreams.engine.state.inputs import grown, over, partitions_of, reopens
from lakestreams.engine.state.operator_state import Outgrown
from lakestreams.errors import Fenced
from lakestreams.evaluate import walk
from lakestreams.evaluate.inputs import Results
from lakestreams.maintenance.trimming import _portions
from lakestreams.testing.small import small

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.local.broker import Broker

pytestmark = [pytest.mark.slow]

OUTPUT, PARTITIONS = "silver.counts", 3


@pytest.fixture(autouse=True, scope="module")
def _small(spark: SparkSession) -> Iterator[None]:
    with small(spark):
        yield


def counted() -> Topology:
    builder = StreamsBuilder("grows")
    stream = builder.stream("views", key=Text("user"), value=Text("page"))
    by_page = stream.select_key(lambda view: {"page": view.page})
    by_page.group_by_key().windowed_by("10 ms").count(name="counts").to_delta(OUTPUT, mode="changes")
    return builder.build()


def in_partition(number: int) -> str:
    """A key that `Laid` puts there."""
    return next(name for name in map(str, range(100)) if zlib.crc32(name.encode()) % PARTITIONS == number)


def told(results: Results) -> list[tuple[Any, ...]]:
    rows = results.outputs[OUTPUT].select("page", "window_start_ms", "count", "_lineage.cycle").collect()
    return sorted((tuple(row) for row in rows), key=lambda row: row[-1])


def test_records_keep_the_task_of_their_cycle(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two pages in one task, the later clock of one makes the other's record late; under three tasks it would not be."""
    monkeypatch.setattr(laid, "PARTITIONS", PARTITIONS)
    first = "a"
    late = next(
        name for name in "bcdefghijklmnop"
        if home(name, 2) == home(first, 2) and home(name, 3) != home(first, 3)
    )  # fmt: skip
    records = [
        (in_partition(0), first, 100), (in_partition(1), first, 1),
        (in_partition(1), late, 5), (in_partition(1), first, 101),
        (in_partition(2), late, 6), (in_partition(0), first, 102),
    ]  # fmt: skip
    made = finished(spark, tmp_path, counted(), {"views": records}, batches=3)
    plans = made.ledger.plans(spark, 1, ["views"])
    assert grown(plans) == [(3, {"views": 2})]
    assert partitions_of(plans) == {"views": 3}

    at_once = told(walk.run(made.topology, over(spark, made.ledger, made.topology, plans, {})))
    one_by_one, kept = [], {}
    for plan in plans:
        inputs = over(spark, made.ledger, made.topology, [plan], kept, keeps=True)
        results = walk.run(made.topology, inputs)
        one_by_one += told(results)
        kept = results.kept
    assert sorted(at_once) == sorted(one_by_one)
    assert (late, 0, 1, 2) not in at_once, "its task's clock stood at 100"
    assert (late, 0, 1, 3) in at_once, "it runs in another task now, whose clock begins with it"


@pytest.mark.broker
@pytest.mark.parametrize("moment", ["between runs", pytest.param("between rounds", marks=pytest.mark.soak)])
def test_a_window_that_had_closed_takes_a_record_of_a_partition_that_is_new(
    spark: SparkSession, broker: Broker, tmp_path: Path, moment: str
) -> None:
    """Whenever state was stored: what is stored of windows goes by the clocks of the tasks that there were."""
    views, _ = fresh_topics(broker)
    builder = StreamsBuilder("grown")
    counts = builder.stream(views, key=Text("user"), value=Text("page")).group_by_key().windowed_by("10 ms")
    counts.count(name="counts").to_delta(OUTPUT, mode="merge")
    bench = Bench(spark, broker, tmp_path, builder.build())
    driver = bench.driver(snapshot_every=1)
    broker.produce(views, [("k", "/1", 5, 0), ("x", "/2", 100, 0)])
    driver.run(ends=moment == "between runs")
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for done in admin.create_partitions([NewPartitions(views, 2)]).values():
        done.result(10)
    broker.produce(views, [("k", "/3", 7, 1)])
    if moment == "between runs":
        driver = bench.driver(snapshot_every=1)
        driver.start()
    driver.round()
    broker.produce(views, [("x", "/4", 101, 0)])
    driver.round()
    driver.end()
    assert driver.summary.warnings == ["a topic has grown: what windows keep is made once more from bronze"]
    rows = bench.silver(OUTPUT).select("user", "window_start_ms", "count").collect()
    assert sorted(tuple(row) for row in rows) == [("k", 0, 2), ("x", 100, 2)]
    assert_sound(bench)


# --- below Kafka -----------------------------------------------------------------------------------------------------

VIEWS = "Views"


def windowed() -> Topology:
    builder = StreamsBuilder("grown")
    counts = builder.stream(VIEWS, key=Text("user"), value=Text("page")).group_by_key().windowed_by("10 ms")
    counts.count(name="counts").to_delta(OUTPUT, mode="merge")
    return builder.build()


def view(partition: int, offset: int, key: str, ts: int) -> Record:
    return Record(VIEWS, partition, offset, ts, key, "/", STREAM)


def fed(rig: Rig, *records: Record) -> None:
    """One batch, with as many partitions as there are then; a driver that its state does not suffice is followed by another."""
    ends = dict(rig.log.ends) | {(one.source, one.partition): one.offset + 1 for one in records}
    rig.log = Log((), ends)
    try:
        rig.feed(records, ends)
    except Outgrown:
        rig.take_over()
    rig.finish()


def counts_of(rig: Rig) -> list[tuple[Any, ...]]:
    rows = rig.bench.silver(OUTPUT).select("user", "window_start_ms", "count").collect()
    return sorted(tuple(row) for row in rows)


def grown_rig(spark: SparkSession, root: Path) -> tuple[Rig, int]:
    """A rig whose topic has grown, so that a window is open again that had closed; and when it had not yet."""
    rig = Rig(spark, root, windowed(), Log((), {(VIEWS, 0): 0}), snapshot_every=1)
    fed(rig, view(0, 0, "k", 5), view(0, 1, "x", 100))
    before_ms = wall_clock_ms()
    fed(rig, view(1, 0, "k", 7))
    assert counts_of(rig) == [("k", 0, 2), ("x", 100, 1)]
    return rig, before_ms


def test_what_had_closed_before_a_topic_grew_is_not_trimmed_away(spark: SparkSession, tmp_path: Path) -> None:
    """A base as of a cycle before would lack the windows that are open again, which the driver has."""
    rig, before_ms = grown_rig(spark, tmp_path)
    trimmed = trimming(rig.bench).run(before_ms)
    assert_sound(rig.bench)
    assert trimmed.cycle == 0
    assert [note for note in trimmed.notes if "has grown" in note] != []

    assert trimming(rig.bench).run(ANY_TIME).cycle == 2
    lose_caches(rig.bench)
    rig.take_over()
    fed(rig, view(1, 1, "k", 8))
    assert counts_of(rig) == [("k", 0, 3), ("x", 100, 1)]


def test_what_cannot_be_made_again_is_built_on_though_a_topic_has_grown(spark: SparkSession, tmp_path: Path) -> None:
    """Bronze is trimmed and the base is lost, which a run survives as long as its state is there."""
    rig = Rig(spark, tmp_path, windowed(), Log((), {(VIEWS, 0): 0}), snapshot_every=1)
    fed(rig, view(0, 0, "k", 95), view(0, 1, "x", 100))
    assert trimming(rig.bench).run(ANY_TIME).cycle == 1
    for folder in (rig.bench.root / "_lakestreams").glob("state_*__base_?"):
        shutil.rmtree(folder)
    fed(rig, view(1, 0, "x", 101))
    fed(rig, view(1, 1, "x", 102))
    assert counts_of(rig) == [("k", 90, 1), ("x", 100, 3)]


def test_a_driver_that_goes_on_behind_itself_takes_the_pipeline_from_nobody_else(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A newer driver came while it saw that a topic has grown: that one goes on, as it would behind any other fault."""
    rig = Rig(spark, tmp_path, windowed(), Log((), {(VIEWS, 0): 0}))
    older, newer = rig.driver, rig.take_over()
    kept = older._round

    class Grown:
        cycles, run = kept.cycles, kept.run

        def __call__(self, _again_in_s: float | None) -> None:
            raise Outgrown

    older._round = Grown()
    with pytest.raises(Fenced, match="took it over"):
        older.round()
    with pytest.raises(RuntimeError, match="start a new one"):
        older.round()
    assert Ledger(rig.bench.lake, "grown").claimed(spark).epoch == newer.summary.epoch


# --- plain Python ----------------------------------------------------------------------------------------------------


def plan(cycle: int, *counts: int) -> Plan:
    ranges = [Range(topic, n, 0, 1) for topic, count in zip("ab", counts, strict=False) for n in range(count)]
    return Plan(cycle, "", (*ranges, Range("a", -1, 0, 1)), {}, 0, 1)


def test_counts_are_told_where_they_change() -> None:
    assert grown([plan(4, 2, 2)]) == []
    plans = [plan(2, 1), plan(3, 1, 2), plan(7, 1, 2), plan(8, 3, 2), plan(9, 3, 4)]
    assert grown(plans) == [(3, {"a": 1}), (8, {"a": 1, "b": 2}), (9, {"a": 3, "b": 2})]


def test_windows_are_open_again_where_a_topic_has_grown_or_was_not_known() -> None:
    """A Delta table is read before topics of which nothing was known then, and they had one task."""
    builder = StreamsBuilder("both")
    a, b = (builder.stream(topic, key=Text("user"), value=Text("page")) for topic in "ab")
    counts = a.merge(b).group_by_key().windowed_by("10 ms").count(name="counts")
    counts.to_delta(OUTPUT, mode="merge")
    both = builder.build()
    assert not reopens(both, plan(1, 2, 2), plan(2, 2, 2))
    assert reopens(both, plan(1, 2, 2), plan(2, 2, 3))
    assert reopens(both, plan(1, 2), plan(2, 2, 3))
    assert not reopens(both, plan(1, 2), plan(2, 2, 1))
    assert not reopens(plain(), plan(1, 2), plan(2, 3))


def plain() -> Topology:
    builder = StreamsBuilder("plain")
    builder.stream("a", key=Text("user"), value=Text("page")).to_delta(OUTPUT)
    return builder.build()


def test_a_base_does_not_end_before_a_topic_has_grown() -> None:
    """It is made in parts where records are many, and a part that ends before would lack windows that are open again."""
    many = [replace(plan(cycle, count), ranges=(replace(one, records=4_000_000), *rest))
            for cycle, count in enumerate([1, 1, 2, 2], 1) for one, *rest in [plan(cycle, count).ranges]]  # fmt: skip
    assert _portions(many, lambda _: True) == [1, 2, 3, 4]
    assert _portions(many, lambda one: not grown([one, many[-1]])) == [3, 4]
