"""What a load costs: commits and files, counted; and what `check --explain` says of them."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from lakestreams import Json, StreamsBuilder, Text, Topology
from lakestreams.cli import cost as shown
from lakestreams.cli.screen import Screen
from lakestreams.costs import commits, cost
from lakestreams.costs.cost import Load
from lakestreams.engine.runtime.lake import Lake
from lakestreams.engine.state import policy as pace
from lakestreams.run import runner
from lakestreams.run.failure import Secrets
from lakestreams.run.options import FileOptions, LakeOptions, RunOptions, Timing

ROOT = Path(__file__).parents[2]
LAKE = Lake("lake")


def lookup() -> Topology:
    builder = StreamsBuilder("p")
    views = builder.stream("Views", key=Text("user"), value=Text("page"))
    views.left_join(builder.table("Users", key=Text("user"), value=Text("region"))).to_delta("silver.out")
    return builder.build()


def windowed(within: str = "5 minutes", grace: str = "0 s") -> Topology:
    builder = StreamsBuilder("p")
    orders = builder.stream("Orders", key=Text("id"), value=Text("amount"))
    payments = builder.stream("Payments", key=Text("id"), value=Text("reference"))
    orders.left_join(payments, within=within, grace=grace, name="both").to_delta("silver.out")
    return builder.build()


def of_tables() -> Topology:
    builder = StreamsBuilder("p")
    orders = builder.table("Orders", key=Text("id"), value=Json("customer string"))
    customers = builder.table("Customers", key=Text("customer"), value=Text("name"))
    orders.left_join(customers, left_on="customer").to_delta("silver.out")
    return builder.build()


# --- counting --------------------------------------------------------------------------------------------------------


def test_a_run_takes_what_has_come_since_the_last() -> None:
    found = cost.count(lookup(), LAKE, Load(records_per_second=10, every_ms=60_000))
    assert found.new == pytest.approx(600)
    assert found.rounds_per_day == pytest.approx(1_440)
    assert found.retained == pytest.approx(100_000 + 300 * 7.5), "the table, and on average half of 16 cycles' changes"
    assert found.commits_per_day == pytest.approx(found.commits_per_round * 1_440)
    assert found.files_per_day == pytest.approx(found.commits_per_day), "a file each, at least"
    assert found.commits["_lakestreams.snapshot_p__Users"] == pytest.approx(1 / 16)


def test_a_window_holds_its_span_and_grace_of_both_sides() -> None:
    load = Load(records_per_second=100, every_ms=1_000)
    least = cost.count(windowed("5 minutes", "0 s"), LAKE, load)
    most = cost.count(windowed("5 minutes", "1 minute"), LAKE, load)
    assert most.retained - least.retained == pytest.approx(100 * 60)
    tail = 100 * (pace.nodes_stored_every(100, 60_000, 16) - 1) / 2
    assert least.retained == pytest.approx(100 * 600 + tail)


def test_tables_of_tables_hold_a_row_a_key() -> None:
    load = Load(records_per_second=1, every_ms=1_000, table_rows=1_000, rows={"Customers": 50})
    found = cost.count(of_tables(), LAKE, load)
    assert found.retained == pytest.approx(1_050 + 7.5)


def test_rounds_of_a_driver_that_stays_claim_nothing_and_tell_the_event_log_now_and_then() -> None:
    found = cost.count(lookup(), LAKE, Load(records_per_second=1_000, every_ms=5_000, scheduled=False))
    assert found.new == pytest.approx(5_000)
    assert found.rounds_per_day == pytest.approx(86_400 / 5)
    assert found.commits["_lakestreams.events"] == pytest.approx(1 / 6), "every half minute"
    assert found.commits["_lakestreams.ledger"] == 2, "no epoch"


def test_more_than_a_batch_is_several_cycles() -> None:
    load = Load(records_per_second=1_000, every_ms=300_000, batch=100_000)
    assert cost.count(lookup(), LAKE, load).commits["silver.out"] == 3
    assert cost.count(lookup(), LAKE, replace(load, batch=1_000_000)).commits["silver.out"] == 1


def test_a_run_without_news_costs_its_claim_and_its_end() -> None:
    found = cost.count(lookup(), LAKE, Load(records_per_second=0))
    assert found.commits == {"_lakestreams.ledger": 2, "_lakestreams.epochs": 1}
    assert found.files_per_day == 3 * found.rounds_per_day, "the epoch is in two tables"


def test_a_topic_without_news_is_written_nowhere() -> None:
    found = cost.count(lookup(), LAKE, Load(shares={"Views": 1.0}))
    assert "bronze.p__Users" not in found.commits
    assert found.retained == 100_000


# --- when what is remembered is stored -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("records", "stored", "every", "expected"),
    [
        (1, 0, 16, 16),
        (200_000, 0, 16, 1),
        (100_000, 0, 16, 2),  # the second evaluates the first again
        (50_000, 0, 16, 3),  # 50,000 new ones, and 50,000 + 100,000 evaluated again
        (50_000, 1_000_000, 100, 7),
        (10, 0, 1, 1),
    ],
)
def test_what_nodes_keep_is_stored(records: int, stored: int, every: int, expected: int) -> None:
    assert pace.nodes_stored_every(records, stored, every) == expected


@pytest.mark.parametrize(
    ("changes", "rows", "expected"), [(1, 0, 16), (10_001, 0, 1), (5_000, 0, 3), (5_000, 80_000, 5)]
)
def test_what_a_table_changed_is_folded_in(changes: int, rows: int, expected: int) -> None:
    assert pace.source_stored_every(changes, rows, 16) == expected


# --- check --explain -------------------------------------------------------------------------------------------------


def job(interval_ms: int | None = None) -> runner.Job:
    files = FileOptions((ROOT / "conf" / "enrichment.yml",))
    options = RunOptions(files, LakeOptions("lake"), Timing(interval_ms=interval_ms))
    return runner.prepare(runner.load(files, Secrets()), options)


def said(one: shown.Cost) -> str:
    screen = Screen()
    screen.console = Console(file=io.StringIO(), width=200)
    shown.show(screen, one)
    return screen.console.file.getvalue()  # type: ignore[attr-defined]


def test_the_text_tells_commits_and_files() -> None:
    text = said(shown.of(job(), 0, 1_000.0, 100_000))
    for what in (
        "a run",
        "a day",
        "_lakestreams.ledger",
        "1,152",
        "runs every 5 minutes: 288 a day",
        "1,000 records/s",
        "data files",
    ):
        assert what in text
    assert "cycle time" not in text


def test_the_json_tells_the_same() -> None:
    one = shown.of(job(), 0, 500.0, 1_000)
    found = json.loads(json.dumps(one.as_dict()))
    assert (found["records_per_second"], found["table_rows"], found["every_seconds"]) == (500.0, 1_000, 300.0)
    assert found["new_records"] == 150_000
    assert found["commits_per_day"] == round(sum(found["commits_by_table"].values()) * 288)
    assert found["files_per_day_at_least"] == found["commits_per_day"]


def test_an_interval_is_a_driver_that_stays() -> None:
    one = shown.of(job(30_000), 0, 100.0, 1_000)
    text = said(one)
    assert "a round" in text
    assert one.counts.commits["_lakestreams.ledger"] == 2
    assert one.as_dict()["runs"] == "interval"
    assert "at most 2,880 a day" in text


def test_what_nodes_keep_is_one_line() -> None:
    one = shown.Cost(Load(), cost.count(windowed(), LAKE, Load()))
    assert f"_lakestreams.state_p__{commits.ANY} (what nodes keep)" in said(one)
