"""The cost of a cycle: coefficients that are fitted, the file that holds them, what a load is predicted to cost."""

from __future__ import annotations

import io
import json
import math
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from lakestreams import Json, StreamsBuilder, Text, Topology
from lakestreams.cli import cost as shown
from lakestreams.cli.screen import Screen
from lakestreams.costs import commits, cost
from lakestreams.costs.cost import Coefficients, Load, Point, Reference, Work
from lakestreams.engine import pace
from lakestreams.engine.lake import Lake
from lakestreams.jobs import runner

ROOT = Path(__file__).parents[2]
LAKE = Lake("lake")
TRUE = Coefficients(30.0, 4.0, 0.4, 2.0)


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


def points(true: Coefficients, noise: float, seed: int, sizes: tuple[int, ...]) -> list[Point]:
    """Rounds of these sizes beside states of three sizes, each with some chance in its seconds."""
    chance = random.Random(seed)
    found = []
    for new in sizes:
        for retained in (10_000, 300_000, 5_000_000):
            for made in (6, 7, 10):
                work = Work(new, retained, made, float(new + retained > 20_000))
                found.append(Point("lookups", work, true.seconds(work) * (1 + noise * chance.uniform(-1, 1))))
    return found


# --- fitting ---------------------------------------------------------------------------------------------------------


def test_a_fit_recovers_what_made_the_points() -> None:
    found = cost.fit(points(TRUE, 0.0, 1, (1_000, 100_000, 3_000_000)))
    for name in ("per_million_new", "per_million_retained", "per_commit", "per_compiled"):
        assert getattr(found, name) == pytest.approx(getattr(TRUE, name), rel=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_noise_moves_it_a_little_and_other_sizes_are_predicted(seed: int) -> None:
    found = cost.fit(points(TRUE, 0.15, seed, (1_000, 100_000, 3_000_000)))
    held_out = points(TRUE, 0.0, seed, (10_000, 600_000, 10_000_000))
    errors = [abs(found.seconds(one.work) / one.seconds - 1) for one in held_out]
    assert max(errors) < 0.2


def test_no_coefficient_is_negative() -> None:
    """Where more of a kind of work took less time, it costs nothing, not less than that."""
    odd = [Point("lookups", Work(n, r, 7, 0), 5 + n / 1e6 - r / 1e7) for n in (10, 1e6, 2e6) for r in (0, 1e6, 1e7)]
    found = cost.fit(odd)
    assert found.per_million_retained == 0
    assert min(found.per_million_new, found.per_commit, found.per_compiled) >= 0
    assert found.per_million_new > 0


def test_small_and_large_rounds_count_alike() -> None:
    """By their relative errors: of two rounds that disagree, the larger does not have its way."""
    found = cost.fit(
        [Point("lookups", Work(0, 0, 1, 0), 1.0), Point("lookups", Work(0, 0, 100, 0), 200.0)],
    )
    assert found.per_commit == pytest.approx((1 + 1 / 2) / (1 + 1 / 4))


def test_what_no_point_has_costs_nothing() -> None:
    found = cost.fit([Point("lookups", Work(0, 0, n, 0), 0.5 * n) for n in (5, 6, 7)])
    assert found == Coefficients(0.0, 0.0, pytest.approx(0.5), 0.0)


def test_nothing_is_fitted_on_nothing() -> None:
    with pytest.raises(ValueError, match="fit nothing"):
        cost.fit([])
    with pytest.raises(ValueError, match="1 without time"):
        cost.fit([Point("lookups", Work(1, 1, 1, 0), 1.0), Point("lookups", Work(1, 1, 1, 0), 0.0)])


# --- the file --------------------------------------------------------------------------------------------------------

MEASURED = Reference(
    "2 cores", "2026-01-02", "abc1234",
    {"lookups": TRUE, "windows": replace(TRUE, per_million_new=60.0), "tables": TRUE}, 60, 30, 0.08, 0.21,
)  # fmt: skip


def test_the_file_tells_the_same_again() -> None:
    assert cost.from_json(MEASURED.as_json()) == MEASURED


@pytest.mark.parametrize(
    "change", [{"coefficients": {"all": {}}}, {"machine": None, "more": 1}, {"coefficients": None}]
)
def test_a_file_of_another_form_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="coefficients"):
        cost.from_json(json.dumps({**json.loads(MEASURED.as_json()), **change}))


def test_what_this_release_came_with_was_measured_and_says_so() -> None:
    """Absent until `bench.cost` has written it; then of every way of remembering, and held out as well as fitted."""
    found = cost.reference()
    if found is None:
        assert not (ROOT / "src" / "lakestreams" / "costs" / cost.FILE).exists()
        return
    assert found.coefficients.keys() == {"lookups", "windows", "tables"}
    assert found.machine
    assert found.commit
    assert found.fitted > 0
    assert found.held_out > 0
    assert 0 <= found.median_error <= found.worst_error


# --- prediction ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("topology", "kind"), [(lookup(), "lookups"), (windowed(), "windows"), (of_tables(), "tables")], ids=str
)
def test_how_a_pipeline_remembers(topology: Topology, kind: str) -> None:
    assert cost.remembers(topology) == kind


def test_a_run_takes_what_has_come_since_the_last() -> None:
    found = cost.predict(lookup(), LAKE, Load(records_per_second=10, every_ms=60_000), TRUE)
    assert found.new == pytest.approx(600)
    assert found.rounds_per_day == pytest.approx(1_440)
    assert found.retained == pytest.approx(100_000 + 300 * 7.5), "the table, and on average half of 16 cycles' changes"
    work = Work(found.new, found.retained, found.commits_per_round, 1.0)
    assert found.cycle_seconds == pytest.approx(TRUE.seconds(work))
    assert found.keeps_up
    assert found.commits_per_day == pytest.approx(found.commits_per_round * 1_440)
    assert found.commits["_lakestreams.snapshot_p__Users"] == pytest.approx(1 / 16)


def test_a_window_holds_its_span_and_grace_of_both_sides() -> None:
    load = Load(records_per_second=100, every_ms=1_000)
    least = cost.predict(windowed("5 minutes", "0 s"), LAKE, load)
    most = cost.predict(windowed("5 minutes", "1 minute"), LAKE, load)
    assert most.retained - least.retained == pytest.approx(100 * 60)
    tail = 100 * (pace.nodes_stored_every(100, 60_000, 16) - 1) / 2
    assert least.retained == pytest.approx(100 * 600 + tail)


def test_tables_of_tables_hold_a_row_a_key() -> None:
    load = Load(records_per_second=1, every_ms=1_000, table_rows=1_000, rows={"Customers": 50})
    found = cost.predict(of_tables(), LAKE, load)
    assert found.retained == pytest.approx(1_050 + 7.5)


def test_rounds_that_wait_for_each_other_take_what_came_in_between() -> None:
    found = cost.predict(lookup(), LAKE, Load(records_per_second=1_000, every_ms=5_000, scheduled=False), TRUE)
    assert found.cycle_seconds is not None
    period = 5 + found.cycle_seconds
    assert found.new == pytest.approx(1_000 * period, rel=1e-3)
    assert found.rounds_per_day == pytest.approx(86_400 / period, rel=1e-3)
    assert found.keeps_up
    assert found.commits["_lakestreams.events"] == pytest.approx(1 / math.ceil(30 / period)), "every half minute"
    assert found.commits["_lakestreams.ledger"] == 3, "no epoch"


def test_what_never_catches_up_is_told() -> None:
    slow = cost.predict(lookup(), LAKE, Load(records_per_second=50_000, every_ms=5_000, scheduled=False), TRUE)
    assert (slow.keeps_up, slow.cycle_seconds) == (False, None)
    late = cost.predict(lookup(), LAKE, Load(records_per_second=50_000, every_ms=60_000), TRUE)
    assert late.keeps_up is False
    assert late.cycle_seconds is not None


def test_more_than_a_batch_is_several_cycles() -> None:
    load = Load(records_per_second=1_000, every_ms=300_000, batch=100_000)
    found = cost.predict(lookup(), LAKE, load, TRUE)
    assert found.commits["silver.out"] == 3
    whole = cost.predict(lookup(), LAKE, replace(load, batch=1_000_000), TRUE)
    assert found.cycle_seconds is not None
    assert whole.cycle_seconds is not None
    assert found.cycle_seconds < whole.cycle_seconds


def test_without_coefficients_only_what_is_counted_is_told() -> None:
    found = cost.predict(lookup(), LAKE, Load())
    assert (found.cycle_seconds, found.keeps_up) == (None, None)
    assert found.commits_per_day > 0
    assert found.files_per_day == found.commits_per_day


def test_a_run_without_news_costs_its_epoch() -> None:
    found = cost.predict(lookup(), LAKE, Load(records_per_second=0), TRUE)
    assert found.commits == {"_lakestreams.ledger": 1, "_lakestreams.epochs": 1}
    assert found.cycle_seconds == pytest.approx(2 * TRUE.per_commit)


def test_a_topic_without_news_is_written_nowhere() -> None:
    found = cost.predict(lookup(), LAKE, Load(shares={"Views": 1.0}), TRUE)
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
    options = runner.RunOptions((ROOT / "conf" / "enrichment.yml",), root="lake", interval_ms=interval_ms)
    return runner.prepare(runner.load(options), options)


@pytest.fixture(params=[None, MEASURED], ids=["counted", "measured"])
def known(request, monkeypatch) -> Reference | None:
    monkeypatch.setattr(shown, "reference", lambda: request.param)
    return request.param


def said(one: shown.Cost) -> str:
    screen = Screen()
    screen.console = Console(file=io.StringIO(), width=200)
    shown.show(screen, one)
    return screen.console.file.getvalue()  # type: ignore[attr-defined]


def test_the_text_tells_commits_and_where_seconds_were_measured(known: Reference | None) -> None:
    text = said(shown.of(job(), 0, 1_000.0, 100_000))
    for what in (
        "a run",
        "a day",
        "_lakestreams.ledger",
        "1,152",
        "runs every 5 minutes: 288 a day",
        "1,000 records/s",
    ):
        assert what in text
    if known is None:
        assert "cycle time: not known" in text
    else:
        assert "cycle time: about " in text
        assert "measured on: 2 cores, commit abc1234, 2026-01-02" in text
        assert "8% in the middle, 21% at worst" in text


def test_the_json_tells_the_same(known: Reference | None) -> None:
    one = shown.of(job(), 0, 500.0, 1_000)
    found = json.loads(json.dumps(one.as_dict()))
    assert (found["records_per_second"], found["table_rows"], found["every_seconds"]) == (500.0, 1_000, 300.0)
    assert found["new_records"] == 150_000
    assert found["commits_per_day"] == round(sum(found["commits_by_table"].values()) * 288)
    assert found["files_per_day_at_least"] == found["commits_per_day"]
    if known is None:
        assert (found["cycle_seconds"], found["keeps_up"], found["measured_on"]) == (None, None, None)
    else:
        assert found["cycle_seconds"] == pytest.approx(one.prediction.cycle_seconds, abs=0.01)
        assert found["measured_on"]["machine"] == "2 cores"


def test_an_interval_is_a_driver_that_stays(known: Reference | None) -> None:
    one = shown.of(job(30_000), 0, 100.0, 1_000)
    text = said(one)
    assert "a round" in text
    assert one.prediction.commits["_lakestreams.ledger"] == 3
    assert one.as_dict()["runs"] == "interval"
    assert ("at most 2,880 a day" in text) == (known is None)


def test_what_was_not_measured_is_not_predicted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shown, "reference", lambda: replace(MEASURED, coefficients={"windows": TRUE}))
    one = shown.of(job(), 0, 1_000.0, 100_000)
    assert one.measured is None
    assert "pipelines that remember lookups" in said(one)


def test_what_nodes_keep_is_one_line() -> None:
    topology = windowed()
    one = shown.Cost(Load(), cost.predict(topology, LAKE, Load()), None)
    assert f"_lakestreams.state_p__{commits.ANY} (what nodes keep)" in said(one)
