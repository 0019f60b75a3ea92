"""The second opinion on joins of what a join, an aggregation or a buffer made: each is judged on its parents' rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812
from tests.docs.test_scenario_pages import ALL, Story, piped
from tests.scenarios.test_ad_views_and_clicks import CONTENTS, TABLE, topology_of
from tests.scenarios.test_fraud import fraud
from tests.scenarios.test_page_views import enriched
from tests.verify.test_second_opinion import evaluated, joins, part_of, tampered

from lakestreams import StreamsBuilder, Text, Topology
from lakestreams.config.compile import load_pipeline
from lakestreams.evaluate import sides
from lakestreams.operators import records, versions
from lakestreams.operators.stream_table import kernel as stream_table
from lakestreams.operators.table_table import kernel as table_table
from lakestreams.operators.versions import TableSide
from lakestreams.testing.small import small
from lakestreams.topology.graph import is_derived, upstream
from lakestreams.verify import sql_check

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    Mutate = Callable[[pytest.MonkeyPatch], None]

CONF = Path(__file__).parents[2] / "conf"


def behind_streams() -> Topology:
    """Lookups, races and windows whose records a join of each shape made, several of one trigger among them."""
    builder = StreamsBuilder("behind_streams")
    text = {"key": Text("id")}
    a, b, c = (builder.stream(name, value=Text(name.lower()), **text) for name in "ABC")
    t, u = (builder.table(name, value=Text(name.lower()), **text) for name in "TU")
    g = builder.global_table("G", value=Text("z"), **text)
    h = builder.table("H", value=Text("q"), as_of=True, history="60 ms", **text)
    found = a.left_join(t, name="found")
    owned = a.left_join(t, right_on=lambda row: {"id": row.t}, name="owned")
    pairs = a.outer_join(b, within="30 ms", grace="20 ms", name="pairs")
    raced = b.left_join(t, wait="20 ms", name="raced")
    found.left_join(u, name="latest_behind_lookup")
    owned.left_join(u, right_on=lambda row: {"id": row.u}, name="owners_behind_owners")
    pairs.left_join(u, name="latest_behind_window")
    pairs.left_join(g, left_on=lambda one: {"id": one.b}, name="global_behind_window")
    pairs.join(u, right_on=lambda row: {"id": row.u}, name="owners_behind_window")
    pairs.outer_join(c, within="30 ms", grace="10 ms", name="window_behind_window")
    pairs.outer_join(c, within="30 ms", grace="10 ms", rules="kafka", name="kafka_behind_window")
    c.left_join(raced, within="30 ms", grace="10 ms", emit_unmatched="eager", name="window_of_raced")
    pairs.left_join(h, grace="30 ms", name="as_of_behind_window")
    pairs.left_join(u, wait="30 ms", amend="60 ms", name="race_behind_window").to_delta("silver.out")
    return builder.build()


def behind_tables() -> Topology:
    """Joins with tables that joins, aggregations and buffers made, their deletions and times among it."""
    builder = StreamsBuilder("behind_tables")
    text = {"key": Text("id")}
    a, b = (builder.stream(name, value=Text(name.lower()), **text) for name in "AB")
    t, u, w, x = (builder.table(name, value=Text(name.lower()), **text) for name in "TUWX")
    counts = b.group_by_key().count(name="counts")
    both = t.outer_join(u, name="both")
    some = both.filter(lambda one: one.t.isNull() | (one.t != "k1"), name="some")
    named = t.left_join(u, left_on=lambda row: {"id": row.t}, name="named")
    grouped = x.group_by("x").count(name="grouped", empty="delete")
    held = counts.suppress("20 ms", name="held")
    a.left_join(counts, name="latest_of_counts")
    a.left_join(some, name="latest_of_joined")
    a.join(named, right_on=lambda row: {"id": row.u}, name="owners_of_joined")
    a.left_join(held, wait="30 ms", name="race_of_held")
    both.to_stream(name="changes").left_join(w, name="latest_of_changes")
    some.outer_join(w, name="outer_of_joined")
    w.left_join(both, name="left_of_joined").join(counts, name="of_joined_twice")
    w.left_join(some, left_on=lambda row: {"id": row.w}, name="named_of_joined")
    named.join(w, left_on=lambda row: {"id": row.u}, name="named_twice")
    named.left_join(grouped, left_on=lambda row: {"x": row.t}, name="named_of_grouped").to_delta("silver.out")
    return builder.build()


@pytest.fixture(autouse=True)
def _small(spark: SparkSession) -> Iterator[None]:
    with small(spark):
        yield


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "every"), [(5, 3), *(pytest.param(seed, 1, marks=pytest.mark.soak) for seed in (5, 6, 7))]
)
@pytest.mark.parametrize(
    "make", [pytest.param(behind_streams, marks=pytest.mark.soak), behind_tables], ids=lambda make: make.__name__
)
def test_chains_agree(spark: SparkSession, make: Callable[[], Topology], seed: int, every: int) -> None:
    topology = part_of(make(), every)
    findings, notes = sql_check.judge(spark, topology, evaluated(spark, topology, seed))
    assert {one.what: one.examples for one in findings if one.differs} == {}
    assert {one.what for one in findings} == {f"second opinion on {name}" for name in joins(topology)}
    assert all(one.compared > 10 for one in findings), {one.what: one.compared for one in findings}
    keys = ("several partitions; no second opinion on their rows", "time of their row; no second opinion on their rows")
    assert all(note.endswith(keys) for note in notes), notes


# --- stories ---------------------------------------------------------------------------------------------------------


def told(spark: SparkSession, story: Story) -> sql_check.Evaluation:
    """What the test driver makes of a story's records."""
    driver = piped(story, spark)
    results, _ = driver._histories.step(driver._pending, keeps=False)
    frames = {name: rows.all() if isinstance(rows, TableSide) else rows for name, rows in results.nodes.items()}
    return sql_check.Evaluation({name: rows.localCheckpoint() for name, rows in frames.items()}, {})


CHAINS = [story for story in ALL if any(is_derived(parent) for join in story.topology.joins for parent in join.parents)]


@pytest.mark.slow
@pytest.mark.parametrize("story", CHAINS, ids=lambda story: story.topology.name)
def test_stories_agree_and_a_row_too_few_is_noticed(spark: SparkSession, story: Story) -> None:
    topology, evaluation = story.topology, told(spark, story)
    findings, notes = sql_check.judge(spark, topology, evaluation)
    assert {one.what: one.examples for one in findings if one.differs} == {}
    assert {one.what for one in findings} == {f"second opinion on {name}" for name in joins(topology)}
    assert notes == []
    for node in topology.joins:
        rows = evaluation.frames[node.name]
        fewer = rows.orderBy("o", "n").limit(rows.count() - 1).localCheckpoint()
        found = sql_check._SqlCheck(spark, topology, replace(evaluation, unfiltered={node.name: fewer})).on(node)
        assert found.differs == 1, (node.name, found.examples)


def test_every_join_of_the_ready_pipelines_and_of_the_stories_is_judged() -> None:
    ready = [
        load_pipeline(file).topology
        for file in sorted(CONF.glob("*.yml"))
        if file.name not in {"deployment.yml", "sources.yml"}
    ]
    assert len(ready) == 7
    told_of = [*ready, *(story.topology for story in ALL), fraud(), enriched()]
    told_of += [topology_of(row.written) for row in (*TABLE, *CONTENTS)]
    nothing = sql_check.Evaluation({}, {})
    silent = {
        (topology.name, node.name): reason
        for topology in told_of
        for node in topology.joins
        if (reason := sql_check._SqlCheck(None, topology, nothing).why_not(node)) is not None  # type: ignore[arg-type]
    }
    assert silent == {}


# --- faults ----------------------------------------------------------------------------------------------------------


@pytest.mark.soak
@pytest.mark.parametrize("make", [behind_streams, behind_tables], ids=lambda make: make.__name__)
def test_tampering_is_noticed(spark: SparkSession, make: Callable[[], Topology]) -> None:
    topology = make()
    evaluation = evaluated(spark, topology, seed=5)
    for node in topology.joins:
        found = sql_check._SqlCheck(spark, topology, tampered(evaluation, node.name)).on(node)
        # what lookups see of a row is wrong with it
        assert found.differs == (8 if "seen_ts" in evaluation.frames[node.name].columns else 4), (
            node.name,
            found.examples,
        )


def _moves_as_sources_do(patch: pytest.MonkeyPatch) -> None:
    """Rows that a join made move clocks to the stream time of their trigger's partition."""
    patch.setattr(sides, "follows_partitions", lambda _: True)


def _ticks_hold_nothing_back(patch: pytest.MonkeyPatch) -> None:
    """Time goes on as if nothing waited before a join."""
    patch.setattr(sides, "held_before_ms", lambda _: 0)


def _clocks_before_what_they_let_out(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(records, "_AFTER_ALL", -(1 << 30))


def _details_stay(patch: pytest.MonkeyPatch) -> None:
    """A table's row that is gone is found all the same."""
    real = versions.bounded
    patch.setattr(versions, "bounded", lambda rows, since, *by: real(rows.where("v is not null"), since, *by))


def _rows_without_places(patch: pytest.MonkeyPatch) -> None:
    """All rows that one record causes stand in one place."""
    real = stream_table._results
    patch.setattr(stream_table, "_results", lambda *given: real(*given).withColumn("n", F.lit(0)))


def _lookups_see_the_update(patch: pytest.MonkeyPatch) -> None:
    """A deletion leaves its time to the row that it leaves behind."""
    real = table_table.execute

    def late(*given: Any, **more: Any) -> DataFrame:
        rows = real(*given, **more)
        return rows.withColumn("seen_ts", F.col("ts")) if "seen_ts" in rows.columns else rows

    patch.setattr(table_table, "execute", late)


@pytest.mark.soak  # test_mutants puts one into a kernel, and of each story's chains a row too few is noticed
@pytest.mark.parametrize(
    ("make", "name", "mutate"),
    [
        (behind_streams, "window_behind_window", _moves_as_sources_do),
        (behind_streams, "race_behind_window", _moves_as_sources_do),
        (behind_streams, "window_behind_window", _ticks_hold_nothing_back),
        (behind_streams, "as_of_behind_window", _ticks_hold_nothing_back),
        (behind_streams, "window_behind_window", _clocks_before_what_they_let_out),
        (behind_streams, "latest_behind_window", _rows_without_places),
        (behind_streams, "owners_behind_owners", _details_stay),
        (behind_tables, "latest_of_joined", _details_stay),
        (behind_tables, "both", _lookups_see_the_update),
    ],
    ids=lambda value: value if isinstance(value, str) else value.__name__.strip("_"),
)
def test_a_fault_of_a_kernel_is_noticed(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, make: Callable[[], Topology], name: str, mutate: Mutate
) -> None:
    """The whole evaluation has the fault; the join's parents are taken as they are."""
    topology = make()
    (node,) = (one for one in topology.joins if one.name == name)
    mutate(monkeypatch)
    names = {one.name for one in upstream(node)} | {child.name for child in topology.joins if node in child.parents}
    part = replace(topology, nodes=tuple(one for one in topology.nodes if one.name in names))
    found = sql_check._SqlCheck(spark, part, evaluated(spark, part, seed=5)).on(node)
    assert found.differs, found.compared
