"""The protocol holds in every order that is tried, and each of its guards is needed."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

import pytest
from tests.protocol import scenarios
from tests.protocol.mutants import MUTANTS
from tests.protocol.search import search, wander
from tests.protocol.state import Scenario

MOST: Final = {
    scenarios.TWO_DRIVERS.name: 400_000,
    **dict.fromkeys((one.name for one in scenarios.WHOLE), 600_000),
}
OTHERS: Final = 100_000
SOAK: Final = 2_500_000
SEED: Final = 20_261_126


def _named(one: Scenario) -> str:
    return one.name


def test_the_protocol_needs_no_spark() -> None:
    text = "import sys; import lakestreams.engine.protocol.machines; assert 'pyspark' not in sys.modules"
    subprocess.run([sys.executable, "-c", text], check=True)


# `make check` tries these, and every mutant; `make test` tries all.
SMALL: Final = (scenarios.ROUNDS, scenarios.FORGOTTEN)


@pytest.mark.parametrize(
    "scenario", [pytest.param(one, marks=[] if one in SMALL else pytest.mark.slow) for one in scenarios.ALL], ids=_named
)
def test_a_million_states_hold(scenario: Scenario) -> None:
    most = MOST.get(scenario.name, OTHERS)
    found = search(scenario, most=most)
    print(found)  # noqa: T201 - what was tried
    assert not found.broken, found
    assert found.whole == (scenario in scenarios.WHOLE)
    assert found.whole or found.states >= most


def test_the_scenarios_have_a_million_states() -> None:
    large = [one for one in scenarios.ALL if one not in scenarios.WHOLE]
    assert sum(MOST.get(one.name, OTHERS) for one in large) > 1_000_000


@pytest.mark.parametrize(
    "scenario", [scenarios.TWO_DRIVERS, scenarios.BESIDE, scenarios.MAINTENANCE, scenarios.REPLAYS], ids=_named
)
def test_deep_runs_hold(scenario: Scenario) -> None:
    found = wander(scenario, SEED, runs=200)
    print(f"seed {SEED}: {found}")  # noqa: T201 - what was tried
    assert not found.broken, found


@pytest.mark.soak
@pytest.mark.timeout(7_200)
def test_ten_million_states_hold() -> None:
    found = {one.name: search(one, most=SOAK) for one in scenarios.LONG}
    for name, one in found.items():
        print(f"{name}: {one}")  # noqa: T201 - what was tried
        assert not one.broken, one
    assert sum(one.states for one in found.values()) > 10_000_000


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "mutant",
    [pytest.param(name, marks=pytest.mark.soak if one.most > 200_000 else []) for name, one in MUTANTS.items()],
)
def test_a_protocol_without_one_guard_breaks_a_promise(mutant: str) -> None:
    found = MUTANTS[mutant].search()
    print(f"{mutant}: {found}")  # noqa: T201 - the shortest schedule
    assert found.broken
