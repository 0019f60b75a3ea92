"""Every verb of a file declares what the same call declares in Python, and each wrong one is a fault with its line."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import get_args

import pytest
from pyspark.sql import functions as F  # noqa: N812
from tests.docs.blocks import blocks, topology_of

from lakestreams import Json, Long, StreamsBuilder, Text, agg
from lakestreams.api.joining import _OPTIONS
from lakestreams.config import load_pipeline
from lakestreams.config.steps import VERBS
from lakestreams.config.verbs import AGGREGATORS
from lakestreams.errors import (
    ConfigInvalid,
    ExpressionRefused,
    FormatUnfit,
    InvalidDuration,
    InvalidFormat,
    InvalidOption,
    OwnTopic,
    TopologyInvalid,
    UnknownKey,
    UnknownReference,
    WrongKind,
)
from lakestreams.topology.aggregators import AggregatorKind
from lakestreams.topology.endpoints import KafkaSink, Source
from lakestreams.topology.mappers import ByName

ROOT = Path(__file__).parents[2]
SOURCES = """\
kafka: {bootstrap_servers: "a:1"}
topics:
  Orders: {kind: stream, key: {text: order}, value: {json: "customer string, product string, amount int, lines array<struct<item: string>>"}}
  Payments: {kind: stream, key: {text: order}, value: {json: reference string}}
  Customers: {kind: table, key: {text: customer}, value: {json: "name string, region string"}}
  Prices: {kind: table, key: {text: product}, value: {json: price int}, history: 1 day}
  Status: {kind: table, key: {text: order}, value: {json: "status string, customer string"}}
  Lines: {kind: table, key: {text: line}, value: {json: "order string, item string, cost int"}}
  Products: {kind: global_table, key: {text: product}, value: {json: title string}}
"""
S, P = "conf/sources.yml", "conf/p.yml"


class Handles:
    """The sources of SOURCES in Python, each declared when it is first used, as in a file."""

    def __init__(self):
        self.builder = StreamsBuilder("p")

    def __getattr__(self, name):
        made = {
            "Orders": ("stream", "order", "customer string, product string, amount int, lines array<struct<item: string>>"),
            "Payments": ("stream", "order", "reference string"),
            "Customers": ("table", "customer", "name string, region string"),
            "Prices": ("table", "product", "price int"),
            "Status": ("table", "order", "status string, customer string"),
            "Lines": ("table", "line", "order string, item string, cost int"),
            "Products": ("global_table", "product", "title string"),
        }  # fmt: skip
        kind, key, value = made[name]
        versioned = {"as_of": True, "history": "1 day"} if name == "Prices" else {}
        handle = getattr(self.builder, kind)(name, key=Text(key), value=Json(value), **versioned)
        setattr(self, name, handle)
        return handle


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Loads a pipeline of steps and outputs; without outputs each step that nothing reads is one."""
    monkeypatch.chdir(tmp_path)

    def run(steps, outputs="", sources=SOURCES):
        (tmp_path / "conf").mkdir(exist_ok=True)
        (tmp_path / "conf/sources.yml").write_text(sources, encoding="utf-8")
        text = f"pipeline: p\nsteps:\n{steps}\noutputs:\n{outputs or '  out: {from: x}'}\n"
        (tmp_path / "conf/p.yml").write_text(text, encoding="utf-8")
        return load_pipeline("conf/p.yml").topology

    return run


def shape(topology, rename=None, values=True):
    """Everything of the nodes that is no function; of functions whether there is one, and the names of columns."""
    rename = rename or {}
    found = {}
    for node in topology.nodes:
        said = {}
        for one in fields(node):
            value = getattr(node, one.name)
            if one.name in ("parent", "left", "right"):
                value = rename.get(value.name, value.name)
            elif callable(value) and not isinstance(value, ByName):
                value = "function"
            elif one.name == "value" and not values:
                continue
            said[one.name] = rename.get(value, value) if one.name == "name" else value
        found[said["name"]] = (type(node).__name__, said)
    return found


# --- the same as in Python -------------------------------------------------------------------------------------------

SAME = {
    "stream-stream, within": (
        "{join: {left: Orders, right: Payments, within: 5 minutes, grace: 1 minute, co_partitioning: off}}",
        lambda h: h.Orders.join(h.Payments, within="5 minutes", grace="1 minute", co_partitioning="off", name="x"),
    ),
    "stream-stream, before and after": (
        "{left_join: {left: Orders, right: Payments, before: -1 s, after: 1.5 h, emit_unmatched: eager, rules: kafka}}",
        lambda h: h.Orders.left_join(
            h.Payments, before="-1 s", after="1.5 h", emit_unmatched="eager", rules="kafka", name="x"
        ),
    ),
    "stream-stream, outer": (
        "{outer_join: {left: Orders, right: Payments, after: 5 m}, select: {a: amount, r: Payments.reference}}",
        lambda h: h.Orders.outer_join(h.Payments, lambda a, b: {"a": a.amount, "r": b.reference}, after="5 m", name="x"),
    ),
    "stream-stream, with itself": (
        "{join: {left: Orders, right: Orders, within: 5 m}}",
        lambda h: h.Orders.join(h.Orders, within="5 m", name="x"),
    ),
    "stream-table": (
        "{left_join: {left: Orders, right: Status, co_partitioning: warn}, select: {s: status}}",
        lambda h: h.Orders.left_join(h.Status, lambda _, s: {"s": s.status}, co_partitioning="warn", name="x"),
    ),
    "stream-table, versioned": (
        "{join: {left: Orders, right: Prices, grace: 10 minutes}}",
        lambda h: h.Orders.join(h.Prices, grace="10 minutes", name="x"),
    ),
    "stream-global": (
        "{join: {left: Orders, right: Products, left_on: product}}",
        lambda h: h.Orders.join(h.Products, left_on="product", name="x"),
    ),
    "stream-global, computed": (
        "{left_join: {left: Orders, right: Products, left_on: {product: upper(Orders.product)}}}",
        lambda h: h.Orders.left_join(h.Products, left_on=lambda one: {"product": one.product}, name="x"),
    ),
    "foreign key, stream-table": (
        "{left_join: {left: Orders, right: Lines, right_on: [order]}}",
        lambda h: h.Orders.left_join(h.Lines, right_on=["order"], name="x"),
    ),
    "table-table": (
        "{outer_join: {left: Status, right: Customers, co_partitioning: off}}",
        lambda h: h.Status.outer_join(h.Customers, co_partitioning="off", name="x"),
    ),
    "foreign key, table-table": (
        "{left_join: {left: Status, right: Customers, left_on: customer}, select: {name: name}}",
        lambda h: h.Status.left_join(h.Customers, lambda _, c: {"name": c.name}, left_on="customer", name="x"),
    ),
    "filter": ("{filter: {from: Orders, where: amount > 1}}", lambda h: h.Orders.filter(lambda o: o.amount > 1, name="x")),
    "map_values of a table": (
        "{map_values: {from: Status, select: {s: status}}}",
        lambda h: h.Status.map_values(lambda s: {"s": s.status}, name="x"),
    ),
    "select_key": (
        "{select_key: {from: Orders, select: {customer: customer}}}",
        lambda h: h.Orders.select_key(lambda o: {"customer": o.customer}, name="x"),
    ),
    "map": (
        "{map: {from: Orders, key: {customer: customer}, value: {n: amount}}}",
        lambda h: h.Orders.map(lambda o: ({"customer": o.customer}, {"n": o.amount}), name="x"),
    ),
    "flat_map_values": (
        "{flat_map_values: {from: Orders, each: lines}}",
        lambda h: h.Orders.flat_map_values(lambda o: o.lines, name="x"),
    ),
    "flat_map_values with columns of the record": (
        "{flat_map_values: {from: Orders, each: lines, keep: {n: amount}}}",
        lambda h: h.Orders.flat_map_values(
            lambda o: F.transform(o.lines, lambda line: line.withField("n", o.amount)), name="x"
        ),
    ),
    "merge": ("{merge: {left: Orders, right: Payments}}", lambda h: h.Orders.merge(h.Payments, name="x")),
    "repartition": ("{repartition: {from: Orders, partitions: 4}}", lambda h: h.Orders.repartition(4, name="x")),
    "to_table": ("{to_table: {from: Orders}}", lambda h: h.Orders.to_table(name="x")),
    "to_stream": ("{to_stream: {from: Status}}", lambda h: h.Status.to_stream(name="x")),
    "drop_absent_deletes": (
        "{drop_absent_deletes: {from: Status}}",
        lambda h: h.Status.drop_absent_deletes(name="x"),
    ),
    "count by key": ("{count: {from: Orders}}", lambda h: h.Orders.group_by_key().count(name="x")),
    "count by columns, windows": (
        "{count: {from: Orders, group_by: [customer, product], windows: {size: 5 m, advance: 1 m, grace: 10 s}, emit: latest}}",
        lambda h: h.Orders.group_by(["customer", "product"], name="x_group_by")
        .windowed_by("5 m", advance="1 m", grace="10 s")
        .count(name="x", emit="latest"),
    ),
    "count, tumbling windows": (
        "{count: {from: Orders, windows: {size: 5 m}}}",
        lambda h: h.Orders.group_by_key().windowed_by("5 m").count(name="x"),
    ),
    "count of a table": (
        "{count: {from: Status, group_by: customer, empty: delete}}",
        lambda h: h.Status.group_by("customer").count(name="x", empty="delete"),
    ),
    "aggregate": (
        "{aggregate: {from: Orders, group_by: {c: lower(customer)}, columns: {n: count, total: {sum: amount * 2}}}}",
        lambda h: h.Orders.group_by(lambda o: {"c": o.customer}, name="x_group_by").aggregate(
            lambda o: {"n": agg.count(), "total": agg.sum(o.amount)}, name="x"
        ),
    ),
    "aggregate of a table": (
        "{aggregate: {from: Lines, group_by: order, value: {line: line, cost: cost}, columns: {all: {collect: line}}, emit: latest, empty: delete}}",
        lambda h: h.Lines.group_by(lambda o: ({"order": o.order}, {"line": o.line})).aggregate(
            lambda o: {"all": agg.collect(o.line)}, name="x", emit="latest", empty="delete"
        ),
    ),
    "suppress": (
        "{suppress: {from: Status, until: 1 s, max_records: 10, when_full: shutdown}}",
        lambda h: h.Status.suppress("1 s", max_records=10, when_full="shutdown", name="x"),
    ),
    "suppress until windows close": (
        "{suppress: {from: counts, until: window_closes}}\n  counts: {count: {from: Orders, windows: {size: 5 m}}}",
        lambda h: h.Orders.group_by_key().windowed_by("5 m").count(name="counts").suppress("window_closes", name="x"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SAME)
def test_a_step_is_what_python_declares(load, name):
    yaml, python = SAME[name]
    handles = Handles()
    python(handles).to_delta("out")
    made, declared = load(f"  x: {yaml}"), handles.builder.build()
    assert shape(made) == shape(declared)
    # but for the columns of a key that is computed, which the drawing shows as a function
    assert made.describe() == declared.describe()
    assert load(f"  x: {yaml}") == made


def test_every_verb_is_compared():
    assert {yaml.partition(":")[0][1:] for yaml, _ in SAME.values()} == set(VERBS)


def test_the_choices_are_those_of_python():
    assert set(AGGREGATORS) == set(get_args(AggregatorKind)) - {"fold"}
    options = {option for shape in _OPTIONS.values() for option in shape.__annotations__} - {"name"}
    from lakestreams.config.verbs import JoinSpec

    assert set(JoinSpec.model_fields) - {"left", "right"} == options


def test_outputs_are_what_python_declares(load):
    handles = Handles()
    status, orders = handles.Status, handles.Orders
    status.to_delta("a")
    status.to_delta("b", mode="changes", change_feed=True, partition_by=["status"])
    status.to_delta("c", mode="merge", cluster_by=["order"])
    orders.to_delta("d", cluster_by=["order"])
    made = load(
        "",
        "  a: {from: Status}\n  b: {from: Status, mode: changes, change_feed: true, partition_by: [status]}\n"
        "  c: {from: Status, mode: merge, cluster_by: [order]}\n  d: {from: Orders, mode: append, cluster_by: [order]}",
    )
    assert shape(made) == shape(handles.builder.build())


def test_topics_are_what_python_declares(load):
    handles = Handles()
    handles.Status.to_kafka("a")
    handles.Orders.to_kafka("b-1", key=Text("order"), value=Json("amount decimal(10, 2), event_time_ms bigint"))
    made = load(
        "",
        "  a: {from: Status, to: kafka}\n"
        "  b-1: {from: Orders, to: kafka, key: {text: order}, value: {json: 'amount decimal(10, 2), event_time_ms bigint'}}",
    )
    assert shape(made) == shape(handles.builder.build())
    assert [sink.name for sink in made.kafka_sinks] == ["a", "b-1"]


TOPIC_FAULTS = [
    ("a: {from: Orders, to: topic}", ConfigInvalid, "to is 'topic'; it is one of delta, kafka"),
    ("a: {from: Orders, to: kafka, mode: append}", ConfigInvalid, "mode: a topic has key and value"),
    ("a: {from: Orders, key: {text: order}}", ConfigInvalid, "key: only a topic has it: to: kafka"),
    ("a: {from: Orders, to: kafka, key: {text: an order}}", InvalidFormat, "column name 'an order'"),
    (
        "a: {from: Orders, to: kafka, value: {registry_json: a int}}",
        FormatUnfit,
        "registry_json(a int) can be read only",
    ),
    ("Orders: {from: Status, to: kafka}", OwnTopic, "topic Orders is written, and read by Orders"),
]


@pytest.mark.parametrize(("output", "kind", "message"), TOPIC_FAULTS)
def test_a_fault_of_a_topic_has_its_line(load, output, kind, message):
    with pytest.raises(TopologyInvalid) as caught:
        load("", f"  b: {{from: Orders}}\n  {output}")
    fault = next(one for one in caught.value.faults if isinstance(one, kind))
    assert message in fault.message
    assert fault.where.partition("  ")[0].endswith("p.yml:6")


def test_an_aggregate_asks_for_what_its_columns_say(spark, load):
    """The words become the aggregators of these names over the expressions; a wrong column is found when it is bound."""
    from lakestreams.topology.fields import Fields

    columns = ", ".join(f"{kind}_: {{{kind}: amount}}" for kind in AGGREGATORS)
    node = load(
        f"  x: {{aggregate: {{from: Orders, columns: {{{columns}, all: count, star: {{count: '*'}}}}}}}}"
    ).nodes[1]
    faults = []
    made = node.aggregators(Fields("Orders", {"amount": "v.amount"}, faults, "here"))
    assert [one.kind for one in made.values()] == [*AGGREGATORS, "count", "count"]
    assert [one.of is None for one in made.values()] == [False] * len(AGGREGATORS) + [True, True]
    assert faults == []
    node.aggregators(Fields("Orders", {"other": "v.other"}, faults, "here"))
    assert {fault.message for fault in faults} == {"Orders has no column 'amount'"}


# --- faults ----------------------------------------------------------------------------------------------------------

WINDOW = "within: 5 minutes"
FAULTS = [
    # which join it is follows from its sides
    ("{join: {left: Orders, right: Payments}}", InvalidOption, 3, "needs a window", "within: 5 minutes, or before"),
    (f"{{join: {{left: Orders, right: Payments, {WINDOW},\n    before: 1 s}}}}", InvalidOption, 3, "contradicts", "within, or before"),
    ("{join: {left: Orders, right: Payments,\n    within: soon}}", InvalidDuration, 4, "within 'soon'", "minutes"),
    ("{join: {left: Orders, right: Payments,\n    before: 0, after: 1 s}}", ConfigInvalid, 4, "0 has no unit", ""),
    ("{join: {left: Orders, right: Payments,\n    before: -2 s, after: 1 s}}", InvalidOption, 3, "before it begins", "negative"),
    (
        f"{{join: {{left: Orders, right: Payments, {WINDOW},\n    emit_unmatched: eager}}}}",
        InvalidOption, 4, "emit_unmatched is no option of this join, which is an inner stream-stream join", "it takes",
    ),
    (
        "{left_join: {left: Orders, right: Status,\n    within: 5 minutes}}",
        InvalidOption, 4, "within is no option of this join, which is a stream-table join", "within is of stream-stream joins",
    ),
    ("{left_join: {left: Orders, right: Status,\n    left_on: customer}}", InvalidOption, 4, "left_on is no option", "right_on makes it"),
    ("{left_join: {left: Orders, right: Status,\n    left_on: {a: customer}}}", InvalidOption, 4, "left_on is no option of this", "takes"),
    ("{left_join: {left: Orders, right: Status,\n    grace: 1 s}}", InvalidOption, 4, "not versioned", "kind: table and a history"),
    ("{left_join: {left: Orders, right: Prices,\n    grace: 2 days}}", InvalidOption, 4, "longer", "history of at least the grace"),
    ("{join: {left: Orders, right: Products}}", InvalidOption, 3, "needs left_on", "left_on: a column of Orders"),
    ("{join: {left: Orders, right: Products, left_on: product,\n    grace: 1 s}}", InvalidOption, 4, "stream-global", "left_on"),
    ("{outer_join: {left: Orders, right: Status}}", WrongKind, 3, "no outer stream-table join", "join, left_join"),
    ("{outer_join: {left: Status, right: Customers, left_on: customer}}", WrongKind, 3, "no outer foreign-key", "left_join"),
    ("{join: {left: Status, right: Orders}}", WrongKind, 3, "a table joins tables only", "start from the stream"),
    ("{join: {left: Status, right: Products}}", WrongKind, 3, "joins streams only", "as kind: table, and name its key with left_on"),
    ("{join: {\n    left: Products, right: Orders}}", WrongKind, 4, "left is 'Products', a global table", "kind: table"),
    ("{join: {left: Status,\n    right: Customers, left_on: []}}", ConfigInvalid, 4, "left_on: it is a column's name", ""),
    ("{join: {left: Status,\n    right: Customers, left_on: [5]}}", ConfigInvalid, 4, "left_on: it is a column's name", ""),
    ("{join: {left: Status,\n    right: Customers, left_on: {a: now()}}}", ExpressionRefused, 4, "now", ""),
    ("{join: {left: Status,\n    right: Customers, lefton: customer}}", UnknownKey, 4, "lefton", "'left_on'"),
    ("{join: {left: Orders, right: Status, rules: kafak}}", ConfigInvalid, 3, "'kafak'", ""),
    (
        f"{{join: {{left: Orders, right: Orders, {WINDOW}}},\n    select: {{a: amount}}}}",
        ConfigInvalid, 3, "cannot tell their columns apart", "map_values",
    ),
    # steps of one kind
    ("{select_key: {from: Status, select: {a: status}}}", WrongKind, 3, "select_key takes a stream", "to_stream"),
    ("{map: {from: Status, key: {a: status}, value: {a: status}}}", WrongKind, 3, "map takes a stream", "to_stream"),
    ("{map: {from: Orders,\n    key: {a: now()}, value: {a: amount}}}", ExpressionRefused, 4, "now", ""),
    ("{flat_map_values: {from: Status, each: status}}", WrongKind, 3, "flat_map_values takes a stream", "to_stream"),
    ("{merge: {left: Orders,\n    right: Status}}", WrongKind, 4, "right is 'Status', a table", "to_stream"),
    ("{repartition: {from: Orders,\n    partitions: 0}}", InvalidOption, 4, "partitions: 0 is not a count", "whole number"),
    ("{repartition: {from: Orders,\n    partitions: many}}", ConfigInvalid, 4, "a whole number", ""),
    ("{to_table: {from: Status}}", WrongKind, 3, "to_table takes a stream", "to_stream"),
    ("{to_stream: {from: Orders}}", WrongKind, 3, "to_stream takes a table", "to_table"),
    ("{drop_absent_deletes: {from: Products}}", WrongKind, 3, "a global table", "kind: table"),
    ("{to_stream: {from: Statuss}}", UnknownReference, 3, "'Statuss'", "did you mean 'Status'"),
    # groups
    ("{count: {from: Status}}", InvalidOption, 3, "need a group_by", "group_by: a column"),
    ("{count: {from: Products, group_by: title}}", WrongKind, 3, "count takes a stream or a table", "kind: table"),
    ("{count: {from: Orders,\n    empty: delete}}", InvalidOption, 4, "empty does not fit Orders, a stream", "leave it out"),
    ("{count: {from: Status, group_by: status,\n    windows: {size: 5 m}}}", InvalidOption, 4, "windows does not fit", "to_stream"),
    ("{count: {from: Orders, windows: {\n    size: soon}}}", InvalidDuration, 4, "size 'soon'", ""),
    ("{count: {from: Orders,\n    windows: {size: 5 m, advance: 6 m}}}", InvalidOption, 4, "apart", "an advance from 1 ms"),
    ("{count: {from: Orders,\n    group_by: {a: nothing(b)}}}", ExpressionRefused, 4, "nothing", ""),
    ("{count: {from: Orders, group_by: 5}}", ConfigInvalid, 3, "group_by: it is a column's name", ""),
    ("{count: {from: Orders, emit: always}}", ConfigInvalid, 3, "every_change, latest", ""),
    ("{aggregate: {from: Orders}}", ConfigInvalid, 3, "'aggregate.columns' is missing", ""),
    ("{aggregate: {from: Orders, columns: {\n    a: sum}}}", ConfigInvalid, 4, "'sum' is no aggregate", ""),
    ("{aggregate: {from: Orders, columns: {\n    a: {summ: amount}}}}", UnknownKey, 4, "a.summ", "'sum'"),
    ("{aggregate: {from: Orders, columns: {\n    a: {sum: amount, max: amount}}}}", ConfigInvalid, 4, "sum and max together", ""),
    ("{aggregate: {from: Orders, columns: {\n    a: {sum: now()}}}}", ExpressionRefused, 4, "now", ""),
    (
        "{aggregate: {from: Orders, columns: {a: count},\n    value: {b: amount}}}",
        InvalidOption, 4, "value does not fit Orders, a stream", "columns",
    ),
    # suppress
    ("{suppress: {from: Orders, until: 1 s}}", WrongKind, 3, "suppress takes a table", "to_table"),
    ("{suppress: {from: Status,\n    until: soon}}", InvalidDuration, 4, "'soon'", ""),
    ("{suppress: {from: Status, until: window_closes}}", InvalidOption, 3, "no windows that could close", "windowed"),
    ("{suppress: {from: Status, until: 1 s,\n    max_records: 0}}", InvalidOption, 4, "max_records: 0", "none"),
    ("{suppress: {from: Status, until: 1 s,\n    when_full: shutdown}}", InvalidOption, 4, "when_full: shutdown without", "max_records: 10000"),
    ("{suppress: {from: Prices, until: 1 s}}", InvalidOption, 3, "is versioned", "leave history out"),
]  # fmt: skip


@pytest.mark.parametrize(("step", "kind", "line", "words", "hint"), FAULTS, ids=[one[0][:60] for one in FAULTS])
def test_a_fault_of_a_step_has_its_line_and_a_hint(load, step, kind, line, words, hint):
    with pytest.raises(TopologyInvalid) as caught:
        load(f"  x: {step}")
    (fault,) = caught.value.faults
    assert (type(fault), fault.where.split("  ")[:2]) == (kind, [f"{P}:{line}", 'step "x"'])
    assert words in fault.message
    assert hint in fault.hint
    # no Python in the words of a file
    assert not any(sign in f"{fault.message} {fault.hint}" for sign in ('="', "=None", "as_of", "(...)", "lambda", "<"))


OUTPUTS = [
    ("{from: Orders,\n    mode: changes}", InvalidOption, 6, "mode changes does not fit Orders, a stream", "it takes append, merge"),
    ("{from: Orders,\n    mode: merge}", InvalidOption, 6, "mode merge: no later result replaces a row of Orders", "append every"),
    ("{from: Status,\n    mode: append}", InvalidOption, 6, "mode append does not fit Status, a table", "it takes merge, changes"),
    ("{from: Orders,\n    change_feed: true}", InvalidOption, 6, "change_feed does not fit Orders", "leave it out"),
    ("{from: Status, change_feed: maybe}", ConfigInvalid, 5, "true or false", ""),
    ("{from: Products}", WrongKind, 5, "an output takes a stream or a table", "kind: table"),
    ("{from: Status,\n    cluster_by: [a], partition_by: [b]}", InvalidOption, 6, "exclude each other", ""),
]  # fmt: skip


@pytest.mark.parametrize(("output", "kind", "line", "words", "hint"), OUTPUTS, ids=[one[0][:60] for one in OUTPUTS])
def test_a_fault_of_an_output_has_its_line_and_a_hint(load, output, kind, line, words, hint):
    with pytest.raises(TopologyInvalid) as caught:
        load("", f"  out: {output}")
    (fault,) = caught.value.faults
    assert (type(fault), fault.where.split("  ")[:2]) == (kind, [f"{P}:{line}", 'output "out"'])
    assert words in fault.message
    assert hint in fault.hint


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        (("history: 1 day", "history: soon"), InvalidDuration, "history 'soon'"),
        (("history: 1 day", "history: 86400000"), ConfigInvalid, "86400000 has no unit"),
        (("kind: table, key: {text: product}", "kind: stream, key: {text: product}"), ConfigInvalid, "only kind: table"),
        (("kind: table, key: {text: product}", "kind: global_table, key: {text: product}"), ConfigInvalid, "a global table"),
        (("history: 1 day", "null_values: ignore"), ConfigInvalid, "a table has none"),
    ],
)  # fmt: skip
def test_a_fault_of_a_versioned_table_has_its_line(load, change, kind, words):
    with pytest.raises(TopologyInvalid) as caught:
        load("  x: {filter: {from: Prices, where: price > 1}}", sources=SOURCES.replace(*change))
    (fault,) = caught.value.faults
    assert (type(fault), fault.where) == (kind, f'{S}:6  source "Prices"')
    assert words in fault.message


def test_faults_of_several_steps_are_found_at_once(load):
    """Also those that only the whole topology shows, beside those of a step that cannot be declared at all."""
    with pytest.raises(TopologyInvalid) as caught:
        load(
            "  x: {join: {left: Orders, right: Status, within: 1 s}, select: {a: now()}}\n"
            "  y: {left_join: {left: x, right: Customers}}\n"
            "  z: {left_join: {left: Orders, right: Status, grace: 1 s}}\n"
            "  w: {select_key: {from: Status, select: {a: now()}}}"
        )
    found = [(type(fault).__name__, fault.where.split("  ")[0]) for fault in caught.value.faults]
    assert found == [
        ("ExpressionRefused", f"{P}:3"),
        ("InvalidOption", f"{P}:5"),
        ("WrongKind", f"{P}:6"),
        ("ExpressionRefused", f"{P}:6"),
    ]


@pytest.mark.parametrize(
    ("step", "said", "fix", "line"),
    [
        (
            "join: {left: Orders, right: Payments, within: 1 s, before: 1 s}",
            "within sets both bounds, and before contradicts it",
            "give within, or before and after",
            7,
        ),
        (
            "join: {left: Orders, right: Payments}",
            "a join of two streams needs a window",
            "within: 5 minutes, or before and after (either alone leaves the other 0)",
            4,
        ),
        (
            "join: {left: Orders, right: Customers, wait: 1 s, within: 1 s}",
            "within is no option of this join, which is a stream-table join",
            "it takes co_partitioning, grace, wait; right_on makes it a foreign-key one; within is of stream-stream joins",
            8,
        ),
        (
            "join: {left: Orders, right: Customers, grace: 1 s}",
            "grace waits for earlier rows, but Customers is not versioned: it keeps only the newest row",
            "declare it with kind: table and a history, or leave grace out",
            7,
        ),
        ("repartition: {from: Orders, partitions: 0}", "partitions: 0 is not a count", "a whole number, 1 or more", 6),
        (
            "suppress: {from: Status, until: 1 s, when_full: shutdown}",
            "when_full: shutdown without max_records: nothing is ever full",
            "max_records: 10000, or leave when_full out",
            7,
        ),
        ("suppress: {from: Prices, until: 1 s}", "Prices is versioned: its rows cannot be held back",
         "leave history out, or join it first", 3),
        ("join: {left: Customers, right: Products}",
         "Customers is a table, Products a global table; a global table joins streams only",
         "declare Products as kind: table, and name its key with left_on where it is not Customers's own", 4),
    ],
)  # fmt: skip
def test_faults_name_options_as_a_file_has_them(load, step, said, fix, line):
    """Each at the line of its key, where it is about one; else at the step's."""
    verb, _, options = step.partition(": {")
    keys = options.rstrip("}").split(", ")
    lines = [f"  x:\n    {verb}:", *(f"      {key}" for key in keys)]
    with pytest.raises(TopologyInvalid) as caught:
        load("\n".join(lines))
    (fault,) = caught.value.faults
    assert (fault.message, fault.hint, fault.where) == (said, fix, f'{P}:{line}  step "x"')


# --- the ready pipelines ---------------------------------------------------------------------------------------------

DEFAULTS = {"Orders_join_Customers": "of_known_customers", "Orders_left_join_Customers": "with_names",
            "lines_of_orders_aggregate": "totals"}  # fmt: skip
STORIES = {
    "fk_join.yml": ("orders.md", "orders_by_customer"),
    "order_totals.yml": ("orders.md", "order_totals"),
    "order_completion.yml": ("order-completion.md", "order_completion"),
    "clicks_per_region.yml": ("clicks-per-region.md", "clicks_per_region"),
}


def as_told(topology, rename=None):
    """The shape, but for how wide a topic is read, how a table lies in the lake, and how columns are named or made."""
    told = shape(topology, rename, values=False)
    for _, said in told.values():
        said.pop("cluster_by", None)
        said.pop("joiner", None)
        if "group" in said:
            said["group"] = said["group"] is not None
    return told


@pytest.mark.parametrize("name", STORIES)
def test_a_ready_pipeline_is_the_topology_of_its_story(name):
    page, pipeline = STORIES[name]
    code = [one.text for one in blocks(ROOT / "docs" / "scenarios" / page) if one.language == "python"]
    (story,) = [topology for topology in map(topology_of, code) if topology.name == pipeline]
    made = load_pipeline(ROOT / "conf" / name).topology
    assert made.name == story.name
    assert as_told(made) == as_told(story, DEFAULTS)


def test_the_clicks_per_region_go_to_a_topic_once_its_line_is_no_comment(tmp_path):
    text = (ROOT / "conf" / "clicks_per_region.yml").read_text(encoding="utf-8")
    commented = "  # clicks-per-region: "
    assert text.count(commented) == 1
    (tmp_path / "clicks.yml").write_text(text.replace(commented, commented.replace("# ", "")), encoding="utf-8")
    topology = load_pipeline(tmp_path / "clicks.yml", ROOT / "conf" / "sources.yml").topology
    (table,) = topology.sinks
    (topic,) = topology.kafka_sinks
    assert topic == KafkaSink("clicks-per-region", table.parent, key=Text("region"), value=Long("clicks"))


def test_the_ready_correlations_join_as_their_stories_do():
    paid, reference, both = load_pipeline(ROOT / "conf/correlation.yml").topology.joins
    assert [(one.name, one.how) for one in (paid, reference, both)] == [
        ("paid", "inner"),
        ("with_reference", "left"),
        ("both", "outer"),
    ]
    assert {(one.before_ms, one.after_ms, one.grace_ms) for one in (paid, reference, both)} == {
        (300_000, 300_000, 60_000)
    }
    assert dict(reference.joiner.columns)["reference"].text == "coalesce(Payments.reference, 'PENDING')"
    (logins,) = load_pipeline(ROOT / "conf/failed_logins.yml").topology.joins
    assert (logins.name, logins.how, logins.before_ms, logins.after_ms) == ("suspicious", "inner", 0, 30_000)


def test_the_ready_pipelines_use_every_topic():
    files = [path for path in (ROOT / "conf").glob("*.yml") if path.name not in ("sources.yml", "deployment.yml")]
    used = {node.name for path in files for node in load_pipeline(path).topology.nodes if isinstance(node, Source)}
    import yaml

    assert used == set(yaml.safe_load((ROOT / "conf/sources.yml").read_text())["topics"])
