"""Samples of the long tests: as many as asked for, one case of each, the same for the same seed, and all in time."""

from __future__ import annotations

import pytest
from tests.sampling import of_soak

LONG = """
import pytest

@pytest.mark.soak
@pytest.mark.parametrize("case", range(3))
def test_{0}(case): ...

@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_campaign_{0}(): ...

def test_short_{0}(): ...
"""
INI = "[pytest]\nmarkers =\n  soak: long\n"


@pytest.fixture
def items(pytester: pytest.Pytester) -> list[pytest.Item]:
    pytester.makeini(INI)
    pytester.makepyfile(**{f"test_{name}": LONG.format(name) for name in "abcdef"})
    found, _ = pytester.inline_genitems("-p", "no:cacheprovider")
    return found


pytest_plugins = ["pytester"]


def test_a_sample_has_one_case_of_each_test_and_no_campaign(items: list[pytest.Item]) -> None:
    kept = of_soak(items, 4, "a seed")
    assert len({item.nodeid.partition("[")[0] for item in kept}) == len(kept) == 4
    assert all("[" in item.nodeid for item in kept)
    assert kept == sorted(kept, key=items.index)
    assert len(of_soak(items, 100, "a seed")) == 6


def test_each_case_gets_its_turn_by_the_seed(items: list[pytest.Item]) -> None:
    assert of_soak(items, 4, "a seed") == of_soak(items, 4, "a seed")
    fewer = [item for item in items if not item.nodeid.startswith("test_a.py")]
    left = [item for item in of_soak(items, 4, "a seed") if item in fewer]
    assert set(left) <= set(of_soak(fewer, 4, "a seed")), "what is removed changes nothing else"
    seen = {item.nodeid for seed in range(60) for item in of_soak(items, 4, str(seed))}
    assert len(seen) == 6 * 3
