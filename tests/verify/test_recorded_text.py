"""`verify` of cycles that ran under other configurations than the given one: evaluated from their recorded text."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest
from tests.engine.harness import ZERO, Bench, fresh_topics
from typer.testing import CliRunner

from lakestreams import StreamsBuilder, Text
from lakestreams.cli.app import app
from lakestreams.config import load_pipeline
from lakestreams.engine.ledger import fingerprint
from lakestreams.testing.small import small
from lakestreams.verify.verify import Verdict, verify

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.config.compile import Pipeline
    from lakestreams.local.broker import Broker

pytestmark = [pytest.mark.broker]

SOURCES = """\
kafka: {{bootstrap_servers: "nowhere:1"}}
topics:
  Views: {{kind: stream, topic: {views}, key: {{text: user}}, value: {{text: page}}}}
  Users: {{kind: table, topic: {users}, key: {{text: user}}, value: {{text: region}}}}
"""
BEFORE = """\
pipeline: changing
steps:
  seen: {filter: {from: Views, where: "page <> '/hidden'"}}
  located: {left_join: {left: seen, right: Users}, select: {page: seen.page, region: Users.region}}
  counts: {aggregate: {from: seen, columns: {views: count}}}
  rows: {map_values: {from: Users, select: {region: upper(region)}}}
outputs:
  silver.views: {from: located}
  silver.counts: {from: counts}
  silver.rows: {from: rows}
"""
AFTER = """\
pipeline: changing
steps:
  named: {map_values: {from: Users, select: {region: lower(region), letters: length(region)}}}
  located: {left_join: {left: Views, right: named}, select: {page: Views.page, region: named.region, letters: named.letters}}
  counts: {aggregate: {from: Views, columns: {views: count}}}
outputs:
  silver.rows: {from: named}
  silver.counts: {from: counts}
  silver.views: {from: located}
"""
NEVER = AFTER.replace("lower(region)", "reverse(region)")


@pytest.fixture(autouse=True, scope="module")
def _small(spark: SparkSession) -> Iterator[None]:
    with small(spark):
        yield


def ran(bench: Bench, pipeline: Pipeline) -> None:
    replace(bench, topology=pipeline.topology).run(
        config_text=pipeline.text, semantics=pipeline.semantics, max_offsets_per_trigger=6, accept_change=True
    )


@pytest.fixture(scope="module")
def changed(
    spark: SparkSession, broker: Broker, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Bench, dict[str, Pipeline]]:
    """A pipeline that ran, was changed, and ran on; and its configurations, of which one has never run."""
    root = tmp_path_factory.mktemp("changed")
    views, users = fresh_topics(broker)
    (root / "sources.yml").write_text(SOURCES.format(views=views, users=users))
    loaded = {}
    for name, text in {"before": BEFORE, "after": AFTER, "never": NEVER}.items():
        (root / f"{name}.yml").write_text(text)
        loaded[name] = load_pipeline(root / f"{name}.yml")
    bench = Bench(spark, broker, root / "lake", loaded["after"].topology)
    for number, name in enumerate(("before", "after")):
        at = ZERO + 100 * number
        broker.produce(users, [("alice", "Boston", at), (f"user{number}", "Cork", at)])
        pages = ("/1", "/hidden", "/2", "/3")
        broker.produce(views, [(user, page, at + 1) for user in ("alice", f"user{number}", "nobody") for page in pages])
        ran(bench, loaded[name])
    return bench, loaded


def under(bench: Bench, given: Pipeline) -> Verdict:
    configuration = fingerprint.of(given.topology, given.text, given.semantics)
    return verify(bench.spark, bench.lake, given.topology, configuration=configuration)


def differing(found: Verdict) -> dict[str, int]:
    return {one.what: one.differs for one in found.findings if one.differs}


@pytest.mark.parametrize(
    "given", ["after", *(pytest.param(one, marks=pytest.mark.soak) for one in ("before", "never"))]
)
def test_every_cycle_is_compared_whichever_files_are_given(
    changed: tuple[Bench, dict[str, Pipeline]], given: str
) -> None:
    bench, pipelines = changed
    found = under(bench, pipelines[given])
    assert {one.what: one.examples for one in found.findings if one.differs} == {}
    assert found.cycles > 2, "one cycle a configuration shows nothing about its cuts"
    assert (found.left_out, [one.what for one in found.findings if one.left_out]) == (0, [])
    compared = {one.what: one.compared for one in found.findings}
    for sink in bench.topology.sinks:
        assert compared[sink.name] == bench.silver(sink.name).count(), sink.name
    other = f"{found.cycles} of {found.cycles}" if given == "never" else "cycles are of other configurations"
    assert any(other in note and "recomputed from their recorded text" in note for note in found.notes)
    assert any("another configuration than these cycles" in note for note in found.notes) == (given == "never")


CHANGED = {"silver.views": 3, "silver.rows": 1, "silver.counts": 1}


def change_rows(bench: Bench) -> None:
    """Those of user0, who has come in the first configuration's cycles only. A repetition changes nothing more."""
    for output, column in (("silver.views", "page"), ("silver.rows", "region"), ("silver.counts", "views")):
        value = "17" if column == "views" else "'changed'"
        bench.spark.sql(f"update {bench.lake.output(output).reference} set {column} = {value} where user = 'user0'")


@pytest.mark.soak  # the next one finds them with the files as they are now
def test_rows_of_former_cycles_are_found_with_files_that_never_ran(changed: tuple[Bench, dict[str, Pipeline]]) -> None:
    bench, pipelines = changed
    change_rows(bench)
    assert differing(under(bench, pipelines["never"])) == CHANGED


def test_rows_of_former_cycles_that_were_changed_are_found(changed: tuple[Bench, dict[str, Pipeline]]) -> None:
    """Through the command, with the files as they are now."""
    bench, pipelines = changed
    change_rows(bench)
    words = ["verify", str(pipelines["after"].path), "--root", str(bench.root), "--no-second-opinion", "--json"]
    result = CliRunner().invoke(app, words)
    (told,) = json.loads(result.stdout)["pipelines"]
    assert (result.exit_code, told["left_out"]) == (1, 0)
    assert {one["what"]: one["differs"] for one in told["findings"] if one["differs"]} == CHANGED


@pytest.mark.soak  # config/test_recorded has what is said of such a function, test_configurations leaves cycles out
def test_a_function_that_has_changed_leaves_its_cycles_out_and_says_so(
    spark: SparkSession, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    views, users = fresh_topics(broker)
    module = ModuleType("declared_for_verify")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    (tmp_path / "sources.yml").write_text(SOURCES.format(views=views, users=users))
    path = tmp_path / "declared.yml"
    path.write_text(f"pipeline: declared\ntopology: {module.__name__}:declared\n")

    def loaded(step: str) -> Pipeline:
        def declared(builder: StreamsBuilder) -> None:
            stream = builder.stream(views, key=Text("user"), value=Text("page"))
            stream.filter(lambda row: row.page != step, name=step.strip("/")).to_delta("silver.declared")

        module.declared = declared  # type: ignore[attr-defined]
        return load_pipeline(path)

    first = loaded("/1")
    bench = Bench(spark, broker, tmp_path / "lake", first.topology)
    broker.produce(views, [("u", "/1", ZERO), ("u", "/2", ZERO)])
    ran(bench, first)
    second = loaded("/2")
    broker.produce(views, [("u", "/1", ZERO + 5), ("u", "/2", ZERO + 5)])
    ran(bench, second)
    found = under(bench, second)
    assert found.equal
    assert (found.cycles, found.left_out) == (2, 1)
    assert [(one.compared, one.left_out) for one in found.findings if one.what == "silver.declared"] == [(1, 1)]
    name = fingerprint.of(first.topology, first.text).whole
    why = f"cycles 1 to 1 ({name}): declared_for_verify:declared declares another topology now"
    assert found.notes[0] == f"1 of 2 cycles are of other configurations and not compared: {why}"
