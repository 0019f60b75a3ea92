"""A topic that is given more partitions: what its cycles gave stays, whoever evaluates them again."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions
from tests.engine import laid
from tests.engine.harness import Bench, assert_sound, fresh_topics
from tests.engine.test_table_state import finished
from tests.operators.wild import home

from lakestreams import StreamsBuilder, Text, Topology
from lakestreams.engine.ledger.plans import Plan, Range
from lakestreams.engine.state.inputs import grown, over, partitions_of
from lakestreams.evaluate import walk
from lakestreams.evaluate.inputs import Results
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
    assert [warning for warning in driver.summary.warnings if "has grown" in warning] == [
        "a topic has grown: what windows keep is made once more from bronze"
    ]
    rows = bench.silver(OUTPUT).select("user", "window_start_ms", "count").collect()
    assert sorted(tuple(row) for row in rows) == [("k", 0, 2), ("x", 100, 2)]
    assert_sound(bench)


def test_counts_are_told_where_they_change() -> None:
    def plan(cycle: int, *counts: int) -> Plan:
        ranges = [Range(topic, n, 0, 1) for topic, count in zip("ab", counts, strict=False) for n in range(count)]
        return Plan(cycle, "", (*ranges, Range("a", -1, 0, 1)), {}, 0, 1)

    assert grown([plan(4, 2, 2)]) == []
    plans = [plan(2, 1), plan(3, 1, 2), plan(7, 1, 2), plan(8, 3, 2), plan(9, 3, 4)]
    assert grown(plans) == [(3, {"a": 1}), (8, {"a": 1, "b": 2}), (9, {"a": 3, "b": 2})]
