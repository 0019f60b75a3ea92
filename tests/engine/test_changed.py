"""A pipeline that was changed over existing results: refused before anything is written, or gone on with on purpose."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.engine.harness import ZERO, Bench, assert_ledger_sound, fresh_topics

from lakestreams import StreamsBuilder, Text, Topology
from lakestreams.errors import TopologyChanged
from lakestreams.testing.small import small
from lakestreams.verify.verify import verify

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.local.broker import Broker

pytestmark = [pytest.mark.broker]

MATCHED = "silver.matched"


@pytest.fixture(autouse=True, scope="module")
def _small(spark: SparkSession) -> Iterator[None]:
    with small(spark):
        yield


def matching(topics: tuple[str, str], within: str, more: str = "") -> Topology:
    builder = StreamsBuilder("changing")
    views = builder.stream(topics[0], key=Text("user"), value=Text("page"))
    clicks = builder.stream(topics[1], key=Text("user"), value=Text("button"))
    matched = views.join(clicks, within=within, name="matched")
    matched.to_delta(MATCHED)
    if more:
        views.to_delta(more)
    return builder.build()


@pytest.fixture(scope="module")
def begun(spark: SparkSession, broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """A pipeline that has matched within 5 minutes; then more has come."""
    topics = fresh_topics(broker, 1, ("Views", "Clicks"))
    made = Bench(spark, broker, tmp_path_factory.mktemp("begun"), matching(topics, "5 minutes"))
    minute = 60_000
    broker.produce(topics[0], [("ann", "/a", ZERO)])
    broker.produce(topics[1], [("ann", "ok", ZERO + 2 * minute)])
    made.run()
    broker.produce(topics[0], [("ann", "/b", ZERO + 3 * minute)])
    broker.produce(topics[1], [("ann", "no", ZERO + 9 * minute)])
    return made


@pytest.fixture
def bench(begun: Bench, tmp_path: Path) -> Bench:
    """The same, in a folder of its own."""
    root = shutil.copytree(begun.root, tmp_path / "lake")
    return replace(begun, root=root, events=[])


@pytest.fixture
def topics(bench: Bench) -> tuple[str, str]:
    views, clicks = (source.topic for source in bench.topology.sources)
    return views, clicks


def files(root: Path) -> dict[str, int]:
    return {str(path.relative_to(root)): path.stat().st_mtime_ns for path in root.rglob("*") if path.is_file()}


def pages(bench: Bench) -> list[tuple[str, str]]:
    rows = bench.silver(MATCHED).select("page", "button").collect()
    return sorted((row["page"], row["button"]) for row in rows)


def test_a_refused_change_writes_nothing(bench: Bench, topics: tuple[str, str]) -> None:
    before = files(bench.root)
    changed = replace(bench, topology=matching(topics, "10 minutes", more="silver.views"))
    with pytest.raises(TopologyChanged) as refused:
        changed.run()
    assert files(bench.root) == before
    assert "matched: before 5 minutes -> 10 minutes, after 5 minutes -> 10 minutes" in refused.value.message
    assert "silver.views: added" in refused.value.message
    assert "--accept-change" in refused.value.hint


def test_an_accepted_change_goes_on_and_is_written_down(bench: Bench, topics: tuple[str, str]) -> None:
    changed = replace(bench, topology=matching(topics, "10 minutes"))
    summary = changed.run(accept_change=True)
    assert any("matched: before 5 minutes -> 10 minutes" in text for text in summary.warnings)
    assert pages(changed) == [("/a", "no"), ("/a", "ok"), ("/b", "no"), ("/b", "ok")]
    (row,) = bench.ledger().where("kind = 'accepted'").collect()
    assert row["cycle"] == 1
    assert json.loads(row["details"])["changes"] == [
        "matched: before 5 minutes -> 10 minutes, after 5 minutes -> 10 minutes"
    ]
    former, now = (
        bench.ledger().where(f"kind = 'plan' and cycle = {cycle}").collect()[0]["fingerprint"] for cycle in (1, 2)
    )
    assert (row["options"]["former"], row["fingerprint"]) == (former, now)
    with pytest.raises(TopologyChanged, match="10 minutes -> 5 minutes"):
        bench.run()
    found = verify(bench.spark, bench.lake, changed.topology)
    assert found.equal
    told = [note for note in found.notes if "before 5 minutes -> 10 minutes" in note]
    assert told, found.notes
    assert "after cycle 1" in told[0]


def test_an_accepted_change_holds_before_its_first_cycle_and_may_be_taken_back(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    topics = fresh_topics(broker, 1, ("Views", "Clicks"))
    bench = Bench(spark, broker, tmp_path, matching(topics, "5 minutes"))
    broker.produce(topics[0], [("ann", "/a", ZERO)])
    bench.run()
    changed = replace(bench, topology=matching(topics, "10 minutes"))
    changed.run(accept_change=True)
    bench.run()
    changed.run()  # it needs no second word
    assert bench.ledger().where("kind = 'accepted'").count() == 1


def test_a_change_that_changes_no_row_passes(bench: Bench, topics: tuple[str, str]) -> None:
    counted = matching(topics, "300 s")
    builder = StreamsBuilder("changing")
    views = builder.stream(topics[0], key=Text("user"), value=Text("page")).expect("paged", "page is not null")
    clicks = builder.stream(topics[1], key=Text("user"), value=Text("button"))
    views.join(clicks, within="5 minutes", name="matched", co_partitioning="warn").to_delta(MATCHED)
    for topology, more in ((counted, {"snapshot_every": 3, "config_text": "other"}), (builder.build(), {})):
        replace(bench, topology=topology).run(**more)
    assert bench.ledger().where("kind = 'accepted'").count() == 0
    assert_ledger_sound(bench)
