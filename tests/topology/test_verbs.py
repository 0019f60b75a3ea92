"""Every verb and the node it stands for: kinds of the sides and options decide the shape."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import timedelta

import pytest
from tests.topology.pipelines import Declared, declared

from lakestreams import GlobalKTable, KStream, KTable
from lakestreams.topology.endpoints import DeltaSink, Source
from lakestreams.topology.joins import ForeignKeyJoin, TableTableJoin, WindowedJoin
from lakestreams.topology.kinds import DAY_MS, GLOBAL
from lakestreams.topology.lookups import ForeignKeyStreamJoin, StreamGlobalJoin, StreamTableJoin
from lakestreams.topology.mappers import ByName, ForeignKey
from lakestreams.topology.steps import Filter, FlatMap, FlatMapValues, Map, MapValues, Merge, Repartition, SelectKey


def function(*_):
    return {}


def settings(node) -> dict[str, object]:
    """The fields of a node beside its name, its inputs and how it joins."""
    return {
        field.name: getattr(node, field.name)
        for field in fields(node)
        if field.name not in ("name", "left", "right", "parent", "how")
    }


# --- joins -----------------------------------------------------------------------------------------------------------

WINDOW = {
    "before_ms": 300_000, "after_ms": 300_000, "grace_ms": 0, "emit_unmatched": "on_window_close", "rules": "strict",
    "joiner": None, "co_partitioning": "require", "store": "persistent",
}  # fmt: skip
BY_KEY = {"joiner": None, "co_partitioning": "require"}
STREAM, TABLE = ("join", "left_join"), ("join", "left_join", "outer_join")

LOOKUP = {"grace_ms": None, "wait_ms": None, "amend_ms": None}
# left, right, verbs, options, class of the node, its settings
JOINS = {
    "window": ("views", "clicks", TABLE, {"within": "5 minutes"}, WindowedJoin, WINDOW),
    "window, timedelta": ("views", "clicks", TABLE, {"within": timedelta(minutes=5)}, WindowedJoin, WINDOW),
    "before alone": ("views", "clicks", TABLE, {"before": "5 s"}, WindowedJoin,
                     WINDOW | {"before_ms": 5_000, "after_ms": 0}),
    "after alone": ("views", "clicks", TABLE, {"after": "5 s"}, WindowedJoin,
                    WINDOW | {"before_ms": 0, "after_ms": 5_000}),
    "both bounds": ("views", "clicks", TABLE, {"before": "1 s", "after": "5 s"}, WindowedJoin,
                    WINDOW | {"before_ms": 1_000, "after_ms": 5_000}),
    "negative before": ("views", "clicks", TABLE, {"before": "-3 s", "after": "10 s"}, WindowedJoin,
                        WINDOW | {"before_ms": -3_000, "after_ms": 10_000}),
    "negative after": ("views", "clicks", TABLE, {"before": "3 s", "after": timedelta(seconds=-3)}, WindowedJoin,
                       WINDOW | {"before_ms": 3_000, "after_ms": -3_000}),
    "grace and rules": ("views", "clicks", TABLE, {"within": "0 s", "grace": "1 s", "rules": "kafka"}, WindowedJoin,
                        WINDOW | {"before_ms": 0, "after_ms": 0, "grace_ms": 1_000, "rules": "kafka"}),
    "eager": ("views", "clicks", ("left_join", "outer_join"), {"within": "5 min", "emit_unmatched": "eager"},
              WindowedJoin, WINDOW | {"emit_unmatched": "eager"}),
    "window, counts": ("views", "clicks", TABLE, {"within": "5 min", "co_partitioning": "off"}, WindowedJoin,
                       WINDOW | {"co_partitioning": "off"}),
    "with itself": ("views", "views", TABLE, {"within": "5 min"}, WindowedJoin, WINDOW),
    "table": ("views", "users", STREAM, {}, StreamTableJoin, LOOKUP | BY_KEY),
    "table, counts": ("views", "users", STREAM, {"co_partitioning": "warn"}, StreamTableJoin,
                      LOOKUP | {"joiner": None, "co_partitioning": "warn"}),
    "table, waits": ("views", "users", STREAM, {"wait": "10 s"}, StreamTableJoin, LOOKUP | BY_KEY | {"wait_ms": 10_000}),
    "table, waits and amends": ("views", "users", ("left_join",), {"wait": "10 s", "amend": "1 min"}, StreamTableJoin,
                                LOOKUP | BY_KEY | {"wait_ms": 10_000, "amend_ms": 60_000}),
    "versioned": ("views", "versioned", STREAM, {}, StreamTableJoin, LOOKUP | BY_KEY),
    "versioned, grace": ("views", "versioned", STREAM, {"grace": "1 hour"}, StreamTableJoin,
                         LOOKUP | BY_KEY | {"grace_ms": 3_600_000}),
    "versioned, no grace": ("views", "versioned", STREAM, {"grace": "0 s"}, StreamTableJoin, LOOKUP | BY_KEY | {"grace_ms": 0}),
    "foreign key of the table": ("views", "users", STREAM, {"right_on": "plan"}, ForeignKeyStreamJoin,
                                 {"joiner": None, "right_on": ByName(("plan",))}),
    "global": ("views", "regions", STREAM, {"left_on": "region"}, StreamGlobalJoin,
               {"joiner": None, "left_on": ByName(("region",))}),
    "global, function": ("views", "regions", STREAM, {"left_on": function}, StreamGlobalJoin,
                         {"joiner": None, "left_on": ForeignKey(function)}),
    "two tables": ("users", "versioned", TABLE, {}, TableTableJoin, BY_KEY),
    "two tables, counts": ("users", "versioned", TABLE, {"co_partitioning": "off"}, TableTableJoin,
                           BY_KEY | {"co_partitioning": "off"}),
    "a table with itself": ("users", "users", TABLE, {}, TableTableJoin, BY_KEY),
    "foreign key": ("users", "plans", STREAM, {"left_on": "plan"}, ForeignKeyJoin,
                    {"joiner": None, "left_on": ByName(("plan",))}),
    "foreign key of two": ("users", "plans", STREAM, {"left_on": ["plan", "region"]}, ForeignKeyJoin,
                           {"joiner": None, "left_on": ByName(("plan", "region"))}),
    "foreign key, function": ("users", "plans", STREAM, {"left_on": function}, ForeignKeyJoin,
                              {"joiner": None, "left_on": ForeignKey(function)}),
}  # fmt: skip
CASES = [(case, verb) for case, row in JOINS.items() for verb in row[2]]


@pytest.mark.parametrize(("case", "verb"), CASES, ids=[f"{case}: {verb}" for case, verb in CASES])
def test_a_join_is_the_node_of_its_sides_and_options(case: str, verb: str) -> None:
    left_name, right_name, _, options, cls, expected = JOINS[case]
    sources = declared()
    left, right = getattr(sources, left_name), getattr(sources, right_name)
    joined = getattr(left, verb)(right, **options)
    assert type(joined.node) is cls
    assert (joined.node.left, joined.node.right) == (left.node, right.node)
    assert joined.node.how == {"join": "inner", "left_join": "left", "outer_join": "outer"}[verb]
    assert joined.name == f"{left.name}_{verb}_{right.name}"
    assert settings(joined.node) == expected
    assert type(joined) is type(left)
    assert joined.node.is_table is isinstance(left, KTable)
    joined.to_delta("out")
    assert sources.builder.build().joins == (joined.node,)
    # options that are not given may as well be None, as programs pass them
    named = getattr(left, verb)(
        right, function, name="mine", **options, **dict.fromkeys({"wait", "within"} - {*options})
    )
    assert named.node == replace(joined.node, name="mine", joiner=function)


def test_the_six_shapes_have_names() -> None:
    shapes = {row[4]: row[4].shape for row in JOINS.values()}
    assert sorted(shapes.values()) == [
        "foreign-key stream-table", "foreign-key table-table", "stream-global", "stream-stream", "stream-table",
        "table-table",
    ]  # fmt: skip


def test_names_stand_for_the_fields_of_these_names_in_order() -> None:
    row = {"region": 1, "plan": 2, "price": 3}
    assert list(ByName(("plan", "region"))(row).items()) == [("plan", 2), ("region", 1)]  # type: ignore[arg-type]
    assert ByName(("plan",)) == ByName(("plan",)), "equal names are equal values, so that equal topologies are"


# --- steps -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verb", "arguments", "cls", "expected", "name"),
    [
        ("map_values", (function,), MapValues, {"mapper": function}, "Views_map_values"),
        ("filter", (function,), Filter, {"predicate": function}, "Views_filter"),
        ("select_key", (function,), SelectKey, {"mapper": function}, "Views_select_key"),
        ("map", (function,), Map, {"mapper": function}, "Views_map"),
        ("flat_map", (function,), FlatMap, {"mapper": function}, "Views_flat_map"),
        ("flat_map_values", (function,), FlatMapValues, {"mapper": function}, "Views_flat_map_values"),
        ("repartition", (12,), Repartition, {"partitions": 12}, "Views_repartition"),
    ],
)
def test_a_step_is_its_node(verb: str, arguments, cls: type, expected, name: str) -> None:
    views = declared().views
    step = getattr(views, verb)(*arguments)
    assert type(step) is KStream
    assert type(step.node) is cls
    assert (step.name, step.node.parents, settings(step.node)) == (name, (views.node,), expected)
    assert getattr(views, verb)(*arguments, name="mine").name == "mine"


def test_two_streams_merge() -> None:
    sources = declared()
    merged = sources.views.merge(sources.clicks)
    assert merged.node == Merge("Views_merge_Clicks", sources.views.node, sources.clicks.node)
    assert sources.views.merge(sources.clicks, name="mine").name == "mine"


def test_steps_of_tables_stay_tables_of_their_kind() -> None:
    sources = declared()
    for table in (sources.users, sources.versioned, sources.regions):
        step = table.map_values(function).filter(function)
        assert type(step) is type(table)
        assert step.node.is_table
        assert (step.node.makes == GLOBAL) is isinstance(table, GlobalKTable)
        assert step.node.history_ms == table.node.history_ms
    assert sources.versioned.join(sources.users).node.history_ms is None, "a join's result is not versioned"


# --- sources and outputs ---------------------------------------------------------------------------------------------


def test_a_versioned_table_keeps_its_history() -> None:
    builder = declared().builder
    one = builder.table("A", key=declared().users.node.key, value=declared().users.node.value)  # type: ignore[union-attr]
    source = one.node
    assert isinstance(source, Source)
    formats = {"key": source.key, "value": source.value}
    assert source.history_ms is None
    assert builder.table("B", **formats, as_of=True).node.history_ms == DAY_MS  # type: ignore[union-attr]
    assert builder.table("C", **formats, as_of=True, history="0 s").node.history_ms == 0  # type: ignore[union-attr]
    assert declared().versioned.node.history_ms == 3_600_000


def test_a_global_table_is_a_source_of_its_kind() -> None:
    regions = declared().regions
    assert repr(regions) == "GlobalKTable('Regions')"
    assert isinstance(regions.node, Source)
    assert (regions.node.kind, regions.node.history_ms) == ("global_table", None)
    assert regions.node.keys_not_null == declared().users.node.keys_not_null  # type: ignore[union-attr]


def test_outputs_say_how_they_write_and_there_may_be_several() -> None:
    sources: Declared = declared()
    sources.views.to_delta("appended")
    sources.users.to_delta("merged", cluster_by=["user"])
    sources.users.to_delta("changed", mode="changes", partition_by=["plan"])
    assert sources.builder.build().sinks == (
        DeltaSink("appended", sources.views.node, mode="append"),
        DeltaSink("merged", sources.users.node, ("user",), mode="merge"),
        DeltaSink("changed", sources.users.node, (), ("plan",), mode="changes"),
    )
