"""Sources that name their bronze table: two topics that would share one do not, and everybody finds each."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest
from tests.engine.harness import ZERO, Bench

from lakestreams import StreamsBuilder, Text, Topology
from lakestreams.engine.runtime.lake import Lake
from lakestreams.engine.takeover.tables import require_distinct_tables
from lakestreams.errors import InvalidName, OwnTopic, TableNameCollision, TopologyInvalid
from lakestreams.testing.small import small
from lakestreams.verify.verify import verify
from lakestreams.verify.why import why

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.local.broker import Broker

DOT, DASH = "shop.orders", "shop-orders"
NO_SPARK = cast("SparkSession", None)


def orders(bronze: str | None, of_table: str | None = None) -> Topology:
    builder = StreamsBuilder("shop")
    stream = builder.stream(DOT, key=Text("id"), value=Text("item"), bronze=bronze)
    stream.left_join(builder.table(DASH, key=Text("id"), value=Text("buyer"), bronze=of_table)).to_delta("out")
    return builder.build()


def test_topics_whose_names_differ_in_signs_collide_unless_one_names_its_table() -> None:
    with pytest.raises(TableNameCollision) as refused:
        require_distinct_tables(NO_SPARK, Lake("/lake"), orders(None))
    assert 'bronze="' in str(refused.value.hint)
    for topology in (orders("dotted"), orders(None, "plain"), orders("a", "b")):
        require_distinct_tables(NO_SPARK, Lake("/lake").naming(topology), topology)
    for topology in (orders("same", "same"), orders("same", "SAME"), orders("shop_orders")):
        with pytest.raises(TableNameCollision):
            require_distinct_tables(NO_SPARK, Lake("/lake").naming(topology), topology)


@pytest.mark.parametrize(
    ("read", "fits"),
    [("shop.orders", True), ("silver.out", False), ("/lake/silver/OUT", True), ("/lake/silver/out", False)],
)
def test_a_pipeline_reads_no_table_that_it_writes(read: str, *, fits: bool) -> None:
    """Each run would read what the one before has written, and write it once more."""
    builder = StreamsBuilder("shop")
    builder.stream("rows", delta=read, key="id bigint", value="name string").to_delta("silver.out")
    topology = builder.build()
    if fits:
        require_distinct_tables(NO_SPARK, Lake("/lake"), topology)
        return
    with pytest.raises(OwnTopic, match=r"is written as output silver\.out, and read by rows"):
        require_distinct_tables(NO_SPARK, Lake("/lake"), topology)


def test_a_lake_knows_the_tables_of_the_pipelines_that_it_was_told() -> None:
    lake = Lake("/lake").naming(orders("dotted"))
    assert lake.bronze("shop", DOT).name == "bronze.shop__dotted"
    assert lake.bronze("shop", DASH).name == "bronze.shop__shop_orders"
    assert lake.bronze("other", DOT).name == "bronze.other__shop_orders"
    assert Lake("/lake").naming(orders(None, "rows")).snapshot("shop", DASH).name == "_lakestreams.snapshot_shop__rows"
    assert lake.naming(orders("dotted")) == lake


@pytest.mark.parametrize("name", ["", "a b", "a-b", "a.b", "a`b", "1a", "a/b", "größe", "x" * 200])
def test_a_table_is_named_as_other_tables_are(name: str) -> None:
    with pytest.raises(TopologyInvalid) as refused:
        orders(name)
    assert [type(fault) for fault in refused.value.faults] == [InvalidName]


def test_the_name_of_a_table_is_part_of_what_a_pipeline_is() -> None:
    assert f"(stream, topic: {DOT}, bronze: dotted)" in orders("dotted").describe()
    assert len({orders(None).semantics(), orders("dotted").semantics(), orders("a").semantics()}) == 3


@pytest.mark.broker
def test_a_pipeline_with_named_tables_runs_and_is_explained(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    bench = Bench(spark, broker, tmp_path, orders("dotted"))
    for topic in (DOT, DASH):
        broker.create_topic(topic, 1)
    with small(spark):
        for number in range(2):
            broker.produce(DASH, [("o1", f"ada{number}", ZERO + 10 * number)])
            broker.produce(DOT, [("o1", f"book{number}", ZERO + 10 * number + 1)])
            bench.run()
        assert [tuple(row) for row in bench.silver("out").select("item", "buyer").orderBy("item").collect()] == [
            ("book0", "ada0"), ("book1", "ada1"),
        ]  # fmt: skip
        named = bench.lake.naming(bench.topology)
        assert [named.bronze("shop", topic).read(spark).count() for topic in (DOT, DASH)] == [2, 2]
        assert sorted(path.name for path in (tmp_path / "bronze").iterdir()) == ["shop__dotted", "shop__shop_orders"]
        assert verify(spark, bench.lake, bench.topology).equal
        assert {trace.topic for trace in why(spark, bench.lake, bench.topology, key="o1")} == {DOT, DASH}
