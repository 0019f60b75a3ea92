"""Commits that are predicted from the topology: compared with the Delta logs of real rounds, table by table."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.engine.harness import Bench, fresh_topics
from tests.engine.jobs import JOBS, Job

from lakestreams import Json, StreamsBuilder, Text, Topology, agg, invariants
from lakestreams.config.compile import load_pipeline
from lakestreams.costs import commits
from lakestreams.engine.ledger.ledger import Ledger
from lakestreams.engine.ledger.plans import Plan, Range
from lakestreams.engine.publish import event_log, quarantine
from lakestreams.engine.runtime.lake import Lake
from lakestreams.evaluate import walk
from lakestreams.evaluate.inputs import EXPECTATION, Inputs
from lakestreams.operators.versions import TableSide
from lakestreams.topology.joins import Join

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.engine.driver import Driver
    from lakestreams.local.broker import Broker

ROOT = Path(__file__).parents[2]
READY = [file for file in sorted((ROOT / "conf").glob("*.yml")) if "\npipeline:" in file.read_text(encoding="utf-8")]
LAKE = Lake("lake")


# --- counted, without Spark ------------------------------------------------------------------------------------------


def lookup(table: str = "table") -> Topology:
    builder = StreamsBuilder("p")
    views = builder.stream("Views", key=Text("user"), value=Text("page"))
    users = getattr(builder, table)("Users", key=Text("user"), value=Text("region"))
    how = {} if table == "table" else {"left_on": lambda view: view.user}
    views.left_join(users, **how).to_delta("silver.out")
    return builder.build()


def test_a_round_of_a_lookup() -> None:
    found = commits.of_round(lookup(), LAKE, commits.Round())
    assert found == {
        "bronze.p__Views": 1,
        "bronze.p__Users": 1,
        "_lakestreams.ledger": 2,
        "silver.out": 1,
        "_lakestreams.events": 1,
    }


def test_a_run_takes_over_and_more_batches_are_more_cycles() -> None:
    found = commits.of_round(lookup(), LAKE, commits.Round(starts=True, batches=3, logged=0))
    assert (found["bronze.p__Views"], found["silver.out"]) == (3, 3)
    assert found["_lakestreams.ledger"] == 2 + 2 + 3 + 1  # claim and end, ingests, plans, done
    assert "_lakestreams.events" not in found


def test_where_rounds_follow_the_next_plan_closes_the_cycle() -> None:
    found = commits.of_round(lookup(), LAKE, commits.Round(follows=True))
    assert found["_lakestreams.ledger"] == 1
    builder = StreamsBuilder("p")
    builder.stream("Views", key=Text("user"), value=Text("page")).to_kafka("out")
    found = commits.of_round(builder.build(), LAKE, commits.Round(follows=True))
    assert found["_lakestreams.ledger"] == 2, "a topic's records would come twice"


def test_a_table_that_is_only_looked_up_causes_no_output() -> None:
    found = commits.of_round(lookup(), LAKE, commits.Round(touched={"Users"}, stored=0.25))
    assert "silver.out" not in found
    assert "bronze.p__Views" not in found
    assert found["_lakestreams.snapshot_p__Users"] == 0.25


def test_a_round_without_news_writes_nothing_and_a_run_its_epoch() -> None:
    assert commits.of_round(lookup(), LAKE, commits.Round(touched=())) == {}
    assert commits.of_round(lookup(), LAKE, commits.Round(touched=(), starts=True)) == {
        "_lakestreams.ledger": 2,
        "_lakestreams.epochs": 1,
    }


def test_delta_tables_come_in_a_batch_of_their_own_and_in_the_same_cycle() -> None:
    builder = StreamsBuilder("p")
    views = builder.stream("Views", key=Text("user"), value=Text("page"))
    users = builder.table("users", key="user string", value="region string", delta="main.crm.users")
    views.left_join(users).to_delta("silver.out")
    topology = builder.build()
    found = commits.of_round(topology, LAKE, commits.Round())
    assert (found["_lakestreams.ledger"], found["silver.out"]) == (3, 1)
    topics = [one.topic for one in topology.sources if one.delta]
    assert commits.of_round(topology, LAKE, commits.Round(touched=topics))["_lakestreams.ledger"] == 3


def test_what_nodes_keep_is_a_table_a_frame_and_a_row_of_the_ledger() -> None:
    topology = JOBS["correlation"].build("Orders", "Payments")
    assert commits.frames(topology) == [("both", "left"), ("both", "right"), ("results", "groups")]
    found = commits.of_round(topology, LAKE, commits.Round(stored=1))
    assert found["_lakestreams.state_order_payments__*"] == 3
    assert found["_lakestreams.ledger"] == 3
    assert commits.frames(lookup()) == []


@pytest.mark.parametrize("how", ["join", "left_join"])
def test_a_key_that_is_made_may_be_null_so_every_cycle_asks(how: str) -> None:
    builder = StreamsBuilder("p")
    views = builder.stream("Views", key=Text("id"), value=Json("user string, page string"))
    users = builder.table("Users", key=Text("user"), value=Text("region"))
    rekeyed = views.select_key(lambda view: {"user": view.user})
    getattr(rekeyed, how)(users).to_delta("silver.out")
    found = commits.of_round(builder.build(), LAKE, commits.Round())
    assert ("_lakestreams.quarantine" in found) == (how == "join"), "a left join has a use for a null key"


# --- beside what the engine's steps keep and refuse ------------------------------------------------------------------


def every_way_of_keeping() -> Topology:
    """Races, a versioned table with grace, buffers, windows, groups of a table, deletions as a stream."""
    builder = StreamsBuilder("keeping")
    views = builder.stream("Views", key=Text("user"), value=Json("page string, n int"))
    clicks = builder.stream("Clicks", key=Text("user"), value=Text("target"))
    users = builder.table("Users", key=Text("user"), value=Json("region string, n int"))
    prices = builder.table("Prices", key=Text("user"), value=Text("price"), as_of=True, history="1 hour")
    views.left_join(users, wait="1 min", name="waits").to_delta("a")
    views.left_join(prices, grace="1 min", name="as_of").to_delta("b")
    pairs = views.left_join(clicks, within="1 min", name="pairs")
    pairs.holds(invariants.OneOutcomePerLeft())
    pairs.to_delta("c")
    users.group_by(lambda row: {"region": row.region}).aggregate(
        lambda row: {"n": agg.sum(row.n)}, name="per_region"
    ).suppress("1 min", name="later").to_delta("d")
    users.outer_join(prices, name="tables").to_stream(name="told").select_key(
        lambda row: {"region": row.region}, name="by_region"
    ).group_by_key().count(name="per_key").to_delta("e")
    return builder.build()


def ready() -> list[Topology]:
    jobs = [job.build(*job.topics) for job in JOBS.values()]
    return [*(load_pipeline(file).topology for file in READY), *jobs, every_way_of_keeping(), lookup("global_table")]


@pytest.mark.soak
def test_nodes_keep_the_frames_that_are_predicted_and_refuse_what_is_predicted(spark: SparkSession) -> None:
    asked = set()
    for topology in ready():
        streams = {one.name: walk._empty(spark, one) for one in topology.sources if one.kind == "stream"}
        tables = {
            one.name: TableSide(None, walk._empty(spark, one)) for one in topology.sources if one.kind != "stream"
        }
        raw = bool(commits.frames(topology))
        results = walk.run(topology, Inputs(streams, tables, 1, keeps=raw, raw=raw))
        kept = {(node, name) for node, frames in results.kept.items() for name in frames}
        assert kept == set(commits.frames(topology)), topology.name
        ranges = tuple(Range(one.topic, 0, 0, 1, records=1) for one in topology.sources)
        plan = Plan(1, "f", ranges, {}, 1, 1)
        nodes = {node.name: node for node in topology.nodes}
        possible = any(
            quarantine._possible(one.code, nodes[one.node], quarantine.sources_of(nodes[one.node]), plan, topology)
            for one in results.rejected
            if not one.earlier and one.code != EXPECTATION
        )
        asked.add(possible)
        every = {one.name for one in topology.sources}
        assert commits.quarantines_always(topology, every) == possible, topology.name
        assert any(isinstance(node, Join) for node in topology.nodes) or kept
    assert asked == {True, False}


# --- beside the logs of real rounds ----------------------------------------------------------------------------------


@pytest.mark.broker
@pytest.mark.soak
@pytest.mark.parametrize("job", JOBS.values(), ids=JOBS.keys())
def test_rounds_make_the_commits_that_are_predicted(
    spark: SparkSession, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, job: Job
) -> None:
    topics = fresh_topics(broker, 1, (job.topics[0], job.topics[1]))
    bench = Bench(spark, broker, tmp_path, job.build(*topics))
    refused = job.name == "correlation"  # one of its new payments is dropped by a rule
    records = job.old()
    for topic, name in zip(topics, job.topics, strict=True):
        broker.produce(topic, records[name])
    driver = bench.driver()
    driver.start()
    driver.round()

    monkeypatch.setattr(event_log, "EVENTS_EVERY_S", 3_600.0)
    made = news(bench, driver, job, topics, 1)
    agrees(bench, made, commits.Round(logged=0, refused=refused))

    news(bench, driver, job, topics, 2, again_in_s=0)
    made = news(bench, driver, job, topics, 3, again_in_s=0)
    agrees(bench, made, commits.Round(logged=0, refused=refused, follows=True))
    driver.end()

    monkeypatch.setattr(event_log, "EVENTS_EVERY_S", 0.0)
    agrees(bench, news(bench, driver, job, topics, 4), commits.Round(refused=refused))

    # only the left topic has news; correlation's orders are not in order, so that some of them might be late
    made = news(bench, driver, job, topics, 5, only=job.topics[0])
    agrees(bench, made, commits.Round(touched={topics[0]}, refused=refused))

    agrees(bench, news(bench, driver, job, topics, 6, only=""), commits.Round(touched=()))

    # each cycle stores what is remembered; a driver that is new has the cycles before it to store as well
    storing = bench.driver(snapshot_every=1)
    storing.start()
    news(bench, storing, job, topics, 7)
    made = news(bench, storing, job, topics, 8)
    agrees(bench, made, commits.Round(stored=1, refused=refused))
    frames = commits.frames(bench.topology)
    stored = Ledger(bench.lake, bench.topology.name).history(spark).state
    assert set(frames) == (set(stored.frames) if stored is not None else set())

    before = logs(bench.root)
    broker_news(bench, job, topics, 9)
    bench.run(snapshot_every=100)
    agrees(bench, since(before, logs(bench.root)), commits.Round(starts=True, refused=refused))


def broker_news(bench: Bench, job: Job, topics: Sequence[str], number: int, only: str | None = None) -> None:
    records = job.new()
    for topic, name in zip(topics, job.topics, strict=True):
        if only is None or name == only:
            bench.broker.produce(topic, [(key, value, time + 1_000 * number) for key, value, time in records[name]])


def news(
    bench: Bench,
    driver: Driver,
    job: Job,
    topics: Sequence[str],
    number: int,
    only: str | None = None,
    again_in_s: float | None = None,
) -> dict[str, Counter[str]]:
    """Runs a round over news that are later than all before: table to what its commits since then did."""
    before = logs(bench.root)
    broker_news(bench, job, topics, number, only)
    driver.round(again_in_s)
    return since(before, logs(bench.root))


def agrees(bench: Bench, made: Mapping[str, Counter[str]], what: commits.Round) -> None:
    predicted = commits.of_round(bench.topology, bench.lake, what)
    orphans = made.get("_lakestreams.orphans", Counter())["commits"]
    assert orphans <= 1, "merged once a cycle, and only if one comes or goes"
    found = {table: counted["commits"] for table, counted in made.items() if table != "_lakestreams.orphans"}
    assert found == predicted
    for table, counted in made.items():
        if not table.endswith((commits.ANY, ".quarantine", ".orphans")):
            assert counted["files"] >= counted["commits"], f"{table}: a commit without a data file"


def logs(root: Path) -> dict[str, set[Path]]:
    """Table to the commits of its log."""
    found: dict[str, set[Path]] = {}
    for folder in root.rglob("_delta_log"):
        name = f"{folder.parents[1].name}.{folder.parent.name}"
        table = re.sub(r"^(_lakestreams\.state_\w+?__).*", rf"\1{commits.ANY}", name)
        of_table = {file for file in folder.iterdir() if re.fullmatch(r"\d{20}\.json", file.name)}
        found[table] = found.get(table, set()) | of_table
    return found


def since(before: Mapping[str, set[Path]], after: Mapping[str, set[Path]]) -> dict[str, Counter[str]]:
    made: dict[str, Counter[str]] = {}
    for table, all_ in after.items():
        for file in all_ - before.get(table, set()):
            actions = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line]
            counted = made.setdefault(table, Counter())
            counted["commits"] += 1
            counted["files"] += sum("add" in action for action in actions)
    return made
