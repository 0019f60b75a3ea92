"""Delta tables as sources, as far as a topology knows them: declared in Python and in YAML, refused, drawn, partitioned."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakestreams import Json, StreamsBuilder, Text, Topology
from lakestreams.config import load_pipeline
from lakestreams.errors import ConfigInvalid, InvalidFormat, InvalidName, InvalidOption, TopologyInvalid, unfold
from lakestreams.formats import TableColumns
from lakestreams.topology.graph import key_source
from lakestreams.topology.partitions import co_partitioning, task_count

SOURCES = """
topics:
  Orders:
    {kind: stream, delta: sales.orders, ignore_changes: true, key: id bigint, value: "customer bigint, at timestamp",
     event_time: at}
  Customers: {kind: table, delta: main.crm.customers, changes: snapshot, key: id bigint, value: {columns: name string}}
  Countries: {kind: global_table, delta: /mnt/countries, key: {columns: code string}, value: title string}
"""
PIPELINE = """
pipeline: shop
steps:
  by_customer: {select_key: {from: Orders, select: {id: customer}}}
  named: {left_join: {left: by_customer, right: Customers}}
  titled: {left_join: {left: named, right: Countries, left_on: name}}
outputs:
  silver.orders: {from: titled}
"""


def shop() -> Topology:
    """The same in Python."""
    builder = StreamsBuilder("shop")
    orders = builder.stream(
        "Orders", delta="sales.orders", ignore_changes=True, key="id bigint", value="customer bigint, at timestamp",
        event_time="at",
    )  # fmt: skip
    customers = builder.table(
        "Customers", delta="main.crm.customers", changes="snapshot", key="id bigint", value=TableColumns("name string")
    )
    countries = builder.global_table("Countries", delta="/mnt/countries", key="code string", value="title string")
    by_customer = orders.select_key(lambda order: {"id": order.customer}, name="by_customer")
    named = by_customer.left_join(customers, name="named")
    named.left_join(countries, left_on="name", name="titled").to_delta("silver.orders")
    return builder.build()


def loaded(folder: Path, sources: str = SOURCES) -> Topology:
    (folder / "sources.yml").write_text(sources, encoding="utf-8")
    (folder / "shop.yml").write_text(PIPELINE, encoding="utf-8")
    pipeline = load_pipeline(folder / "shop.yml")
    assert pipeline.kafka.spark_options() == {}
    return pipeline.topology


def test_a_file_says_what_python_does(tmp_path: Path) -> None:
    from_file, from_python = loaded(tmp_path), shop()
    assert from_file.sources == from_python.sources
    assert {source.topic for source in from_file.sources} == {"delta/Orders", "delta/Customers", "delta/Countries"}
    text = from_python.describe()
    assert "Source: Orders (stream, delta: sales.orders as delta/Orders, inserts)" in text
    assert "Source: Customers (table, delta: main.crm.customers as delta/Customers, snapshot)" in text
    assert "key columns(id bigint), value columns(name string)" in text
    drawing = from_python.svg()
    assert "delta main.crm.customers" in drawing
    assert "changes snapshot" in drawing


@pytest.mark.parametrize(
    ("given", "instead", "where", "words"),
    [
        ("delta: sales.orders", "delta: sales.orders, topic: orders", "", "topic and delta exclude each other"),
        ("delta: sales.orders, ignore_changes: true", "ignore_changes: true", ":4", "should be a mapping"),
        ("key: id bigint", "key: {json: id bigint}", ":4", "a Delta table has columns, such as 'id bigint'"),
        ("delta: /mnt/countries, key: {col", "key: {col", ":7", "columns are those of a Delta table"),
        ("ignore_changes: true", "changes: snapshot", "", "changes: a stream takes the rows that are appended"),
        ("delta: /mnt/countries", "delta: countries.`x`", "", "Delta table 'countries.`x`'"),
        ('delta: sales.orders, ignore_changes: true, key: id bigint, value: "customer bigint, at timestamp"',
         'key: {json: id bigint}, value: {json: "customer bigint, at timestamp"}', "", "the key 'kafka' is missing"),
    ],
)  # fmt: skip
def test_a_fault_of_a_file(given: str, instead: str, where: str, words: str, tmp_path: Path) -> None:
    assert given in SOURCES
    with pytest.raises(TopologyInvalid) as refused:
        loaded(tmp_path, SOURCES.replace(given, instead, 1))
    faults = unfold(refused.value)
    assert any(words in fault.message and where in (fault.where or "") for fault in faults), faults


def test_what_python_refuses() -> None:
    builder = StreamsBuilder("p")
    with pytest.raises(InvalidFormat, match=r"key=Text\(column='id'\) is not a list of columns"):
        builder.table("t", delta="a.b", key=Text("id"), value="name string")
    with pytest.raises(InvalidFormat, match="'id bigint' is not a format"):
        builder.table("t", key="id bigint", value=Json("name string"))
    with pytest.raises(InvalidFormat, match="the schema 'id strin' cannot be read"):
        builder.stream("t", delta="a.b", key="id strin", value="name string")
    builder.table("t1", delta="a.b.c.d", key="id bigint", value="n string").to_delta("silver.t1")
    builder.table("t2", changes="snapshot", key=Text("id"), value=Text("n")).to_delta("silver.t2")
    builder.stream("t3", ignore_changes=True, key=Text("id"), value=Text("n")).to_delta("silver.t3")
    builder.table("t4", delta="a.b", changes="feed", key="id bigint", value="n string").to_delta("silver.t4")  # type: ignore[arg-type]
    with pytest.raises(TopologyInvalid) as refused:
        builder.build()
    assert [type(fault) for fault in unfold(refused.value)] == [InvalidName, *[InvalidOption] * 3]


def test_a_table_has_no_partitions_to_compare() -> None:
    """It fits any topic; its records' task is the hash of their key, in as many tasks as the topic has partitions."""
    builder = StreamsBuilder("p")
    views = builder.stream("Views", key=Text("user"), value=Text("page"))
    users = builder.table("Users", delta="crm.users", key="user string", value="region string")
    clicks = builder.stream("Clicks", delta="crm.clicks", key="user string", value="target string")
    views.left_join(users, name="a").to_delta("silver.a")
    views.left_join(clicks, within="1 minute", name="b").to_delta("silver.b")
    topology = builder.build()
    partitions = {"Views": 12, "delta/Users": 1, "delta/Clicks": 1}
    assert co_partitioning(topology.nodes, partitions) == ([], [])
    assert [task_count(join, partitions) for join in topology.joins] == [12, 12]
    assert [key_source(source) is not None for source in topology.sources] == [True, False, False]


def test_kafka_is_needed_where_a_topic_is_read(tmp_path: Path) -> None:
    topic = SOURCES.replace("delta: /mnt/countries, key: {columns: code string}, value: title string",
                            "key: {text: code}, value: {text: title}")  # fmt: skip
    with pytest.raises(TopologyInvalid) as refused:
        loaded(tmp_path, topic)
    (fault,) = unfold(refused.value)
    assert isinstance(fault, ConfigInvalid)
    assert "the key 'kafka' is missing: Countries is a topic" in fault.message
