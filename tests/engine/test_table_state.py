"""What cycles that look tables up build on: which rows a snapshot holds, and which plans are held behind it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.engine.laid import Laid, Record

from lakestreams import StreamsBuilder, Text, Topology
from lakestreams.engine.ledger import settle
from lakestreams.engine.ledger.backlog import Backlog
from lakestreams.engine.ledger.plans import History, Plan
from lakestreams.engine.state import retained, snapshots
from lakestreams.engine.state.bronze import cut_below
from lakestreams.engine.state.retained import TableState
from lakestreams.expectations.rules import RecordRules
from lakestreams.maintenance.trimming import Trimming
from lakestreams.operators import versions
from lakestreams.testing.small import small

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow]

ANY_TIME = 2**53


@pytest.fixture(autouse=True, scope="module")
def _small(spark: SparkSession) -> Iterator[None]:
    with small(spark):
        yield


def looked_up(*tables: str, rule: str | None = None) -> Topology:
    """A stream that looks up tables, whose rows may have to fulfil a rule."""
    builder = StreamsBuilder("p")
    stream = builder.stream("views", key=Text("user"), value=Text("page"))
    for name in tables:
        table = builder.table(name, key=Text("user"), value=Text("region"))
        if rule is not None:
            table.expect_or_drop("rule", rule)
        stream.left_join(table).to_delta(f"silver.with_{name}")
    return builder.build()


def finished(
    spark: SparkSession, root: Path, topology: Topology, topics: Mapping[str, Sequence[Record]], batches: int
) -> Laid:
    """So many finished cycles."""
    made = Laid(spark, root, topology)
    made.ingested(topics, batches)
    plan: Plan | None = None
    for read in range(1, batches + 1):
        backlog = Backlog(plan, tuple(made.ledger.ingests(spark, 0)[:read]))
        plan = settle.next_plan(
            read, "laid", backlog, {}, {},
            lambda stretches, below, seq: cut_below(
                spark, made.ledger, stretches, below, seq, RecordRules(), topology.sources
            ),
        )  # fmt: skip
        assert plan is not None
        made.ledger.record(spark, made.ledger.plan_row(plan))
    made.ledger.record_done(spark, batches)
    return made


def resumed(made: Laid, every: int = 1) -> TableState:
    """As a driver that takes over."""
    found = retained.of(made.spark, made.ledger, made.topology, "", every)
    assert isinstance(found, TableState)
    found.resume(made.ledger.history(made.spark))
    return found


def live(made: Laid, one: TableState, name: str) -> dict[str, str]:
    """The rows of a table as the next cycle has them."""
    last = made.ledger.plans(made.spark, 1, [each.topic for each in made.topology.sources])[-1]
    side = one.inputs(replace(last, cycle=last.cycle + 1, ranges=())).tables[name]
    assert not isinstance(side, dict)
    return {row["k"]["user"]: row["v"]["region"] for row in versions.live(side).collect()}


# --- which rows a snapshot holds -------------------------------------------------------------------------------------

PROFILES = [("ann", "eu", 1), ("bob", "?", 2), ("ann", "us", 3), ("cat", "", 4), ("bob", "asia", 5), ("bob", "?", 6)]
NOT_UNKNOWN, NOT_US = "region <> '?'", "region <> 'us'"
KNOWN = {"ann": "us", "bob": "asia", "cat": ""}


@pytest.fixture(scope="module")
def known(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Laid:
    """Profiles with a snapshot from which a rule has kept some rows."""
    topology = looked_up("users", rule=NOT_UNKNOWN)
    made = finished(spark, tmp_path_factory.mktemp("known"), topology, {"views": [], "users": PROFILES}, batches=2)
    assert resumed(made).refresh() == [("users", 3)]
    same = resumed(made)
    assert same.uncovered == [], "the snapshot is built on"
    assert live(made, same, "users") == KNOWN
    return made


@pytest.mark.parametrize(
    ("rule", "rows"),
    [
        (NOT_US, {"ann": "eu", "bob": "?", "cat": ""}),
        pytest.param(None, {"ann": "us", "bob": "?", "cat": ""}, marks=pytest.mark.soak),  # the next test has none, too
    ],
    ids=["another", "none"],
)
def test_another_rule_holds_for_rows_that_are_in_a_snapshot(
    known: Laid, tmp_path: Path, rule: str | None, rows: dict[str, str]
) -> None:
    made = replace(known.copied(tmp_path / "lake"), topology=looked_up("users", rule=rule))
    now = resumed(made)
    assert live(made, now, "users") == rows
    assert now.refresh() == [("users", 3)]
    again = resumed(made)
    assert again.uncovered == [], "the new one is built on"
    assert live(made, again, "users") == rows


def test_another_rule_behind_a_trim(known: Laid, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot is made anew from what bronze keeps: the rows that were there by the rule under which it was trimmed."""
    made = known.copied(tmp_path / "lake")
    monkeypatch.setattr(Trimming, "_same_configuration", lambda *_: True)
    trimmed = Trimming(made.spark, made.ledger, made.topology, "").run(ANY_TIME)
    assert (trimmed.cycle, trimmed.rows) == (2, {"users": 3}), "nothing was read of the views"

    made = replace(made, topology=looked_up("users"))
    now = resumed(made)
    assert live(made, now, "users") == KNOWN
    assert now.refresh() == [("users", 3)]
    assert live(made, resumed(made), "users") == KNOWN


# --- which plans are held --------------------------------------------------------------------------------------------


@pytest.mark.soak
def test_a_quiet_table_does_not_hold_the_plans_of_a_busy_one(spark: SparkSession, tmp_path: Path) -> None:
    busy = [(f"user{n}", "eu", n) for n in range(5)]
    topics = {"views": [], "quiet": [("ann", "eu", 1)], "busy": busy}
    made = finished(spark, tmp_path, looked_up("quiet", "busy"), topics, batches=5)
    plans = made.ledger.plans(spark, 1, ["quiet", "busy"])
    running = TableState(spark, made.ledger, made.topology, every=2)
    running.resume(History())
    stored, longest = [], 0
    for plan in plans:
        running.finished(plan)
        stored += running.refresh()
        longest = max(longest, len(running.uncovered))
    assert stored == [("busy", 2), ("busy", 4)]
    assert [plan.cycle for plan in running.uncovered] == [1, 5], "what the quiet one has not folded in, and the newest"
    assert longest == 2

    restarted = resumed(made, every=2)
    assert restarted.uncovered == running.uncovered
    assert live(made, restarted, "quiet") == {"ann": "eu"}
    assert live(made, restarted, "busy") == {key: "eu" for key, _, _ in busy}


def test_a_snapshot_without_rows_says_what_it_is_as_of(spark: SparkSession, tmp_path: Path) -> None:
    deleted = [("ann", "eu", 1), ("ann", None, 2), ("bob", None, 3)]
    made = finished(spark, tmp_path, looked_up("users"), {"views": [], "users": deleted}, batches=2)
    running = resumed(made)
    assert running.refresh() == [("users", 0)]
    assert running.uncovered == []
    assert running.refresh() == [], "it is not due any more"

    (users,) = (one for one in made.topology.sources if one.name == "users")
    found = snapshots.find(spark, made.ledger, users, made.topology.expectations)
    assert (found.cycle, found.rows) == (2, 0)
    again = resumed(made)
    assert again.uncovered == []
    assert live(made, again, "users") == {}
