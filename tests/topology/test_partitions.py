"""Partition counts: Kafka Streams' own cases of co-partitioning, and what repartition, merge and joins make of counts."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lakestreams import Json, StreamsBuilder, Text
from lakestreams.topology.graph import keeps_null_keys, sources_of
from lakestreams.topology.joins import Join
from lakestreams.topology.partitions import co_partitioning, lies_as_sources_do, task_count, topics_that_group
from lakestreams.topology.steps import Repartition

CASES = json.loads((Path(__file__).parent / "copartition.json").read_text(encoding="utf-8"))
KEY, VIEW, USER = Text("user"), Text("page"), Text("region")


# --- Kafka Streams' own cases ----------------------------------------------------------------------------------------


def join_of(case) -> tuple[list, Join, dict[str, int]]:
    """A chain of joins with one input for each topic of a case, and the counts of the topics."""
    builder = StreamsBuilder("p")
    counts = {name: count for name, count in case["external"].items() if count is not None}
    inputs = [builder.stream(topic, key=KEY, value=VIEW) for topic in case["external"]]
    for name, repartition in case["repartition"].items():
        stream = builder.stream(f"before-{name}", key=KEY, value=VIEW).select_key(lambda view: {"user": view.page})
        counts[f"before-{name}"] = repartition["partitions"]  # a repartition topic takes its count from upstream ...
        if repartition["enforced"]:  # ... unless repartition() gives one
            counts[f"before-{name}"] = 77
            stream = stream.repartition(repartition["partitions"], name=name)
        inputs.append(stream)
    last = reduce(lambda left, right: left.join(right, within="1 s"), inputs)
    last.to_delta("out")
    nodes = builder.build().nodes
    return list(nodes), builder.build().joins[-1], counts


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_kafka_streams_cases(case) -> None:
    if len(case["external"]) + len(case["repartition"]) < 2:  # a single topic: a stream that is joined with itself
        case = case | {"external": case["external"] | {"other": 3}}
    nodes, join, counts = join_of(case)
    faults, _ = co_partitioning(nodes, counts)
    if case["id"] == "missing-topic":  # that a topic is missing is said where topics are looked up: LS302
        assert faults == []
    elif "error" in case:
        assert [fault.code for fault in faults] == ["LS104"]
        for count in {*case["external"].values(), *(one["partitions"] for one in case["repartition"].values())}:
            assert f"({count})" in faults[0].message
    else:
        assert faults == []
        assert {task_count(join, counts)} == set(case["result"].values())


# --- ours ------------------------------------------------------------------------------------------------------------


def scenario(co_partitioning: str = "require", *, rekeyed: bool = False):
    builder = StreamsBuilder("page_views")
    views = builder.stream("PageViews", key=KEY, value=VIEW)
    users = builder.table("UserProfiles", key=KEY, value=USER)
    if rekeyed:
        views = views.select_key(lambda view: {"user": view.page})
    views.left_join(users, name="enriched", co_partitioning=co_partitioning).to_delta("silver.enriched")
    return builder


UNEQUAL = 'CoPartitioningRequired { left = "PageViews" (12), right = "UserProfiles" (6) }'


def test_equal_partition_counts_are_fine() -> None:
    nodes = scenario().build().nodes
    assert co_partitioning(nodes, {"PageViews": 6, "UserProfiles": 6}) == ([], [])


def test_unequal_partition_counts_are_refused_with_three_cures() -> None:
    faults, warnings = co_partitioning(scenario().build().nodes, {"PageViews": 12, "UserProfiles": 6})
    assert warnings == []
    (fault,) = faults
    assert (fault.code, fault.message, fault.where) == ("LS104", UNEQUAL, 'step "enriched"')
    assert (fault.left, fault.right) == ("PageViews", "UserProfiles")  # type: ignore[attr-defined]
    assert fault.hint.split(" | ") == ["equal counts", "repartition one side", "kind: global_table"]


def test_unequal_counts_can_be_accepted_aloud_or_silently() -> None:
    counts = {"PageViews": 12, "UserProfiles": 6}
    assert co_partitioning(scenario(co_partitioning="warn").build().nodes, counts) == (
        [],
        [f'step "enriched": {UNEQUAL}'],
    )
    assert co_partitioning(scenario(co_partitioning="off").build().nodes, counts) == ([], [])


def test_a_rekeyed_side_fits_any_table() -> None:
    nodes = scenario(rekeyed=True).build().nodes
    assert co_partitioning(nodes, {"PageViews": 12, "UserProfiles": 6}) == ([], [])


def test_counts_that_are_not_known_are_not_judged() -> None:
    assert co_partitioning(scenario().build().nodes, {"PageViews": 12}) == ([], [])


def test_a_joined_stream_keeps_its_partitions_for_the_next_join() -> None:
    builder = StreamsBuilder("p")
    views = builder.stream("PageViews", key=KEY, value=VIEW).filter(lambda view: view.page.isNotNull())
    users, plans = (builder.table(name, key=KEY, value=Text(name)) for name in ("Users", "Plans"))
    views.join(users, name="one").join(plans.map_values(lambda plan: {"p": plan.Plans}), name="two").to_delta("out")
    faults, _ = co_partitioning(builder.build().nodes, {"PageViews": 4, "Users": 4, "Plans": 3})
    assert [(fault.where, fault.message) for fault in faults] == [
        ('step "two"', 'CoPartitioningRequired { left = "PageViews" (4), right = "Plans" (3) }')
    ]


def function(*_):
    return {}


class Five:
    """Streams and tables of 4 and 6 partitions, a stream of 4 whose key was changed, a global table of 1."""

    def __init__(self) -> None:
        self.counts = {"A4": 4, "B4": 4, "C6": 6, "T4": 4, "U6": 6, "G1": 1}
        self.builder = StreamsBuilder("p")
        value = Json("user string, x string")
        self.a, self.b, self.c = (self.builder.stream(topic, key=KEY, value=value) for topic in ("A4", "B4", "C6"))
        self.t, self.u = (self.builder.table(topic, key=KEY, value=value) for topic in ("T4", "U6"))
        self.g = self.builder.global_table("G1", key=KEY, value=value)
        self.rekeyed = self.a.select_key(function)


# how to join, what is unequal (else None), the tasks of the last join
TOPOLOGIES = {
    "streams": (lambda s: s.a.join(s.b, within="1 s"), None, 4),
    "unequal streams": (lambda s: s.a.join(s.c, within="1 s"), ['"A4" (4)', '"C6" (6)'], None),
    "unequal streams, outer": (lambda s: s.a.outer_join(s.c, within="1 s"), ['"A4" (4)', '"C6" (6)'], None),
    "a stream with itself": (lambda s: s.a.join(s.a, within="1 s"), None, 4),
    "a stream with itself under another key": (lambda s: s.a.join(s.rekeyed, within="1 s"), None, 4),
    "unequal tables": (lambda s: s.t.outer_join(s.u), ['"T4" (4)', '"U6" (6)'], None),
    "by foreign key": (lambda s: s.t.join(s.u, left_on="x"), None, None),
    "a row for each stream record": (lambda s: s.a.join(s.u, right_on="x"), None, None),
    "a global table": (lambda s: s.c.join(s.g, left_on="x"), None, None),
    "steps keep the partitions": (lambda s: s.a.filter(function).map_values(function).flat_map_values(function)
                                  .join(s.u.filter(function)), ['"A4" (4)', '"U6" (6)'], None),
    "map": (lambda s: s.a.map(function).join(s.u), None, 6),
    "flat_map": (lambda s: s.a.flat_map(function).join(s.u), None, 6),
    "both re-keyed": (lambda s: s.rekeyed.join(s.c.map(function), within="1 s"), None, 6),
    "repartition": (lambda s: s.a.repartition(6).join(s.u), None, 6),
    "repartition to another count": (lambda s: s.a.repartition(5, name="r").join(s.u), ['"r" (5)', '"U6" (6)'], None),
    "repartition after a re-key": (lambda s: s.rekeyed.repartition(6).join(s.u), None, 6),
    "a re-key after a repartition": (lambda s: s.a.repartition(5).select_key(function).join(s.u), None, 6),
    "repartition on both sides": (lambda s: s.a.repartition(5).join(s.c.repartition(5), within="1 s"), None, 5),
    "repartition against a re-key": (lambda s: s.c.map(function).join(s.a.repartition(5), within="1 s"), None, 5),
    "merge": (lambda s: s.a.merge(s.b).join(s.t), None, 4),
    "merge of unequal ones": (lambda s: s.a.merge(s.c).join(s.t), ['"A4" (4), "C6" (6)', '"T4" (4)'], None),
    "merge of unequal ones against a re-key": (lambda s: s.a.merge(s.c).join(s.b.map(function), within="1 s"),
                                               ['"A4" (4), "C6" (6)', "re-keyed"], None),
    "merge with a re-keyed one": (lambda s: s.c.merge(s.rekeyed).join(s.t), None, 4),
    "merge that is not joined": (lambda s: s.a.merge(s.c), None, None),
    "a join's result": (lambda s: s.a.join(s.b, within="1 s").join(s.u), ['"A4" (4)', '"U6" (6)'], None),
    "a re-keyed join lies where its table lies": (lambda s: s.rekeyed.join(s.t).join(s.u), ['"T4" (4)', '"U6" (6)'], None),
    "a foreign-key join lies where its left side lies": (lambda s: s.t.join(s.u, left_on="x").join(s.u),
                                                         ['"T4" (4)', '"U6" (6)'], None),
    "a join that accepts unequal counts lies where its left side lies": (
        lambda s: s.a.join(s.u, co_partitioning="off").join(s.t), None, 4),
}  # fmt: skip


@pytest.mark.parametrize("case", TOPOLOGIES)
def test_counts_through_a_topology(case: str) -> None:
    sources = Five()
    declare, unequal, tasks = TOPOLOGIES[case]
    declare(sources).to_delta("out")
    topology = sources.builder.build()
    faults, warnings = co_partitioning(topology.nodes, sources.counts)
    expected = [] if unequal is None else [f"CoPartitioningRequired {{ left = {unequal[0]}, right = {unequal[1]} }}"]
    assert ([fault.message for fault in faults], warnings) == (expected, [])
    if tasks is not None:
        assert task_count(topology.joins[-1], sources.counts) == tasks
        assert task_count(topology.joins[-1], {}) in (None, tasks)  # a repartition is known without a broker


# Joins behind a repartition, with whether they have a use for null keys (KIP-962).
BEHIND: dict[str, tuple[Callable[[Any], Any], bool]] = {
    "nothing": (lambda s: s.spread, False),
    "inner windowed join": (lambda s: s.spread.join(s.other, within="1 s"), False),
    "left windowed join": (lambda s: s.spread.left_join(s.other, within="1 s"), True),
    "right side of a left windowed join": (lambda s: s.other.left_join(s.spread, within="1 s"), True),
    "outer windowed join": (lambda s: s.other.outer_join(s.spread, within="1 s"), True),
    "inner table join": (lambda s: s.spread.join(s.table), False),
    "left table join": (lambda s: s.spread.left_join(s.table), True),
    "left global join": (lambda s: s.spread.left_join(s.everywhere, left_on=function), True),
    "left join behind steps and another repartition": (
        lambda s: s.spread.map_values(function).repartition(4, name="again").left_join(s.table),
        True,
    ),
    "left join beside it": (lambda s: (s.spread, s.other.left_join(s.table))[0], False),
    "count": (lambda s: s.spread.group_by_key().count(), False),
    "left join of the table that it becomes": (lambda s: s.spread.to_table().left_join(s.table), False),
}


@pytest.mark.parametrize("name", BEHIND)
def test_which_joins_behind_a_repartition_take_null_keys(name: str) -> None:
    make, kept = BEHIND[name]
    builder = StreamsBuilder("behind")
    key, value = Text("k"), Text("v")
    sides = SimpleNamespace(
        spread=builder.stream("left", key=key, value=value).repartition(4, name="spread"),
        other=builder.stream("other", key=key, value=value),
        table=builder.table("table", key=key, value=value),
        everywhere=builder.global_table("everywhere", key=key, value=value),
    )
    make(sides).to_delta("out")
    nodes = tuple(builder._nodes)
    (spread,) = (node for node in nodes if node.name == "spread")
    assert isinstance(spread, Repartition)
    assert keeps_null_keys(spread, nodes) is kept


# --- whether a join's rows lie as its sources' do ----------------------------------------------------------------------


LIE_AS_SOURCES_DO: dict[str, tuple[Callable[[StreamsBuilder, Any], Any], bool]] = {
    "as it is": (lambda _, stream: stream, True),
    "filtered, with other values": (lambda _, stream: stream.filter(lambda row: row.page > "a").map_values(lambda row: {"page": row.page}), True),
    "merged": (lambda builder, stream: stream.merge(builder.stream("c", key=KEY, value=VIEW)), True),
    "merged with itself": (lambda _, stream: stream.merge(stream.filter(lambda row: row.page > "a")), False),
    "by a new key": (lambda _, stream: stream.select_key(lambda row: {"user": row.page}), False),
    "repartitioned": (lambda _, stream: stream.repartition(4), False),
    "several values": (lambda _, stream: stream.flat_map_values(lambda row: [{"page": row.page}]), False),
    "joined with a table": (
        lambda builder, stream: stream.left_join(builder.table("u", key=KEY, value=USER), name="first"), False),
    "joined with a stream": (
        lambda builder, stream: stream.join(builder.stream("d", key=KEY, value=USER), within="1 s", name="first"), False),
    "counted": (lambda _, stream: stream.group_by_key().count(name="counted").to_stream(), False),
}  # fmt: skip


@pytest.mark.parametrize(("make", "so"), LIE_AS_SOURCES_DO.values(), ids=LIE_AS_SOURCES_DO)
@pytest.mark.parametrize("rules", ["strict", "kafka"])
def test_rows_lie_as_sources_records_do_if_each_is_one_under_its_key(
    make: Callable[[StreamsBuilder, Any], Any], so: bool, rules: Any
) -> None:
    for turned in (False, True):
        builder = StreamsBuilder("p")
        one = make(builder, builder.stream("a", key=KEY, value=VIEW))
        other = builder.stream("b", key=KEY, value=Text("paid"))
        left, right = (other, one) if turned else (one, other)
        left.join(right, within="1 s", rules=rules, name="last").to_delta("out")
        nodes = builder.build().nodes
        (join,) = (node for node in nodes if node.name == "last")
        so = so and rules == "strict"
        assert lies_as_sources_do(join) == so
        topics = {source.topic for source in sources_of(join)}
        assert topics_that_group([join]) == (topics if so else set())
    assert not any(map(lies_as_sources_do, (node for node in nodes if not isinstance(node, Join))))


LOOKUPS: dict[str, tuple[dict[str, Any], dict[str, Any], bool]] = {
    "waits": ({}, {"wait": "1 s"}, True),
    "amends": ({}, {"amend": "1 s"}, True),
    "as of event time": ({"as_of": True, "history": "1 hour"}, {}, True),
    "of the latest row": ({}, {}, False),
}


@pytest.mark.parametrize(("table", "options", "so"), LOOKUPS.values(), ids=LOOKUPS)
def test_a_lookup_goes_by_where_keys_lie_if_it_looks_at_times(table: Any, options: Any, so: bool) -> None:
    for make, lies in LIE_AS_SOURCES_DO.values():
        builder = StreamsBuilder("p")
        stream = make(builder, builder.stream("a", key=KEY, value=VIEW))
        stream.left_join(builder.table("b", key=KEY, value=Text("paid"), **table), name="last", **options).to_delta(
            "out"
        )
        (join,) = (node for node in builder.build().nodes if node.name == "last")
        assert lies_as_sources_do(join) == (so and lies)
