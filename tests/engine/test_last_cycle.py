"""How far the last cycle has come, as plain Python: what leads on from where, and what is told when it is closed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lakestreams.engine.ledger.last_cycle import LastCycle, State
from lakestreams.engine.ledger.plans import History, Plan
from lakestreams.expectations.cycle_metrics import CycleMetrics, NodeCounts

METRICS = CycleMetrics({"views": NodeCounts(rows_in=2)})


def plan(number: int) -> Plan:
    return Plan(number, "f", (), {}, number, number)


def planned() -> LastCycle:
    one = LastCycle("p")
    one.planned(plan(1), {"ingest": 2.0, "settle": 1.0}, 1_000)
    return one


def executed() -> LastCycle:
    one = planned()
    one.executed(METRICS)
    return one


def left() -> LastCycle:
    one = executed()
    one.left_open(one.summary("run", {"ingest": 2.0, "join": 3.0}, 2_000))
    return one


def closed() -> LastCycle:
    one = executed()
    assert one.closed() == plan(1)
    return one


STATES: dict[State, Callable[[], LastCycle]] = {
    "none": lambda: LastCycle("p"),
    "planned": planned,
    "executed": executed,
    "left": left,
    "closed": closed,
}


@pytest.mark.parametrize("state", STATES)
def test_it_knows_how_far_it_is(state: State) -> None:
    one = STATES[state]()
    assert one.state == state
    assert (one.number, one.plan) == ((0, None) if state == "none" else (1, plan(1)))
    assert (one.open_plan is not None) == (state in ("planned", "executed", "left"))


STEPS: dict[str, tuple[Callable[[LastCycle], object], set[State], State]] = {
    "planned": (lambda one: one.planned(plan(2), {}, 9), {"none", "closed"}, "planned"),
    "revised": (lambda one: one.revised(plan(1)), {"planned"}, "planned"),
    "executed": (lambda one: one.executed(METRICS), {"planned"}, "executed"),
    "left": (lambda one: one.left_open(executed().summary("run", {}, 9)), {"executed"}, "left"),
    "closed": (lambda one: one.closed(), {"executed", "left"}, "closed"),
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("state", STATES)
def test_a_step_leads_on_from_where_it_may_and_changes_nothing_elsewhere(state: State, step: str) -> None:
    one = STATES[state]()
    go, allowed, after = STEPS[step]
    if state in allowed:
        go(one)
        assert one.state == after
        return
    with pytest.raises(RuntimeError, match=r"^cycle [01] of p "):
        go(one)
    assert one == STATES[state]()


@pytest.mark.parametrize("state", ["none", "planned", "closed"])
def test_nothing_is_told_of_a_cycle_that_may_not_be_closed(state: State) -> None:
    with pytest.raises(RuntimeError, match="of p has not been executed"):
        STATES[state]().summary("run", {}, 9)


def test_what_is_told_is_what_was_counted_and_the_time_since_it_was_planned() -> None:
    told = executed().summary("run", {"ingest": 2.0, "settle": 1.5, "join": 3.0}, 2_000)
    assert (told.cycle, told.cycle_metrics, told.run_id) == (1, METRICS, "run")
    assert told.seconds == {"settle": 0.5, "join": 3.0}, "a stage in which nothing was spent is left out"
    assert (told.planned_at_ms, told.closed_at_ms) == (1_000, 2_000)


def test_the_seconds_of_the_run_may_go_on() -> None:
    seconds = {"join": 1.0}
    one = LastCycle("p")
    one.planned(plan(1), seconds, 1_000)
    seconds["join"] = 4.0
    one.executed(METRICS)
    assert one.summary("run", seconds, 2_000).seconds == {"join": 3.0}


def test_one_that_was_left_is_told_as_it_was_when_its_round_ended() -> None:
    told = left().summary("run", {"ingest": 50.0, "join": 60.0}, 9_000)
    assert (told.seconds, told.closed_at_ms) == ({"join": 3.0}, 2_000)


def test_the_next_one_begins_anew() -> None:
    one = left()
    one.closed()
    one.planned(plan(2), {"join": 5.0}, 3_000)
    assert (one.state, one.number) == ("planned", 2)
    one.executed(CycleMetrics())
    told = one.summary("run", {"join": 6.0}, 4_000)
    assert (told.cycle, told.cycle_metrics, told.seconds, told.planned_at_ms) == (
        2,
        CycleMetrics(),
        {"join": 1.0},
        3_000,
    )


def test_an_earlier_drivers_cycle_is_open_unless_the_ledger_says_that_it_is_done() -> None:
    assert LastCycle.of("p", History(), {}).state == "none"
    assert LastCycle.of("p", History(plan=plan(3), done_cycle=3), {}).state == "closed"
    one = LastCycle.of("p", History(plan=plan(3), done_cycle=2), {})
    assert one.state == "planned", "however far it came, it is executed again"
    one.revised(plan(3))
    one.executed(METRICS)
    told = one.summary("run", {"join": 1.0}, 5_000)
    assert (told.seconds, told.planned_at_ms, told.closed_at_ms) == ({"join": 1.0}, 5_000, 5_000)


def test_of_a_cycle_that_is_repeated_the_time_since_is_told_not_that_of_the_rounds_before() -> None:
    one = LastCycle.of("p", History(plan=plan(3), done_cycle=2), {"ingest": 900.0, "join": 40.0})
    one.executed(METRICS)
    assert one.summary("run", {"ingest": 900.0, "join": 43.0}, 9).seconds == {"join": 3.0}
