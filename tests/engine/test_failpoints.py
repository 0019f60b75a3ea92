"""Failpoints without an engine: each run counts its own passages, and travels with its counts."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from lakestreams.engine.runtime.failpoints import VARIABLE, FailpointReached, Failpoints

Arm = Callable[[str], Failpoints]


@pytest.fixture
def armed(monkeypatch: pytest.MonkeyPatch) -> Arm:
    def arm(text: str) -> Failpoints:
        monkeypatch.setenv(VARIABLE, text)
        return Failpoints()

    return arm


def reached(passes: Failpoints, *names: str) -> list[int]:
    """Which of these passages fail."""
    found = []
    for place, name in enumerate(names):
        try:
            passes(*name.split("/"))
        except FailpointReached:
            found.append(place)
    return found


def test_unarmed_nothing_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert reached(Failpoints(), "plan.before", "publish.after/silver.a") == []


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("plan.before", [0]),
        ("plan.before:2", [3]),
        ("publish.after:2:raise", [2]),
        ("publish.after/silver.b", [2]),
        ("publish.after/silver.c", []),
        ("plan.before:2:raise, publish.after/silver.a", [1, 3]),
        ("plan.before:3", []),
    ],
)
def test_the_nth_passage_fails_and_no_other(text: str, places: list[int], armed: Arm) -> None:
    passages = ("plan.before", "publish.after/silver.a", "publish.after/silver.b", "plan.before")
    assert reached(armed(text), *passages) == places


def test_each_run_counts_from_the_start(armed: Arm) -> None:
    first, second = armed("plan.before:2"), Failpoints()
    assert reached(first, "plan.before") == reached(second, "plan.before") == []
    assert reached(pickle.loads(pickle.dumps(first)), "plan.before") == [0], "as in Spark Connect's worker"
    assert reached(second, "plan.before", "plan.before") == [0]


def test_of_passages_side_by_side_one_fails(armed: Arm) -> None:
    passes = armed("bronze.before:50")
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: reached(passes, "bronze.before/topic"), range(200)))
    assert sum(map(len, found)) == 1
