"""Which of many like cases a lane runs: a sample by a seed. The others are in the next longer lane.

Of the longest lane `make soak-sample` runs a sample of tests, each week another one, and CI does so, too: a long test that no
longer holds is found within some weeks. Within one it is the same sample, so what CI has found can be mended and shown.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable, Sequence
from typing import Any, Final

import pytest

LONGEST_S: Final = 900  # `timeout` of pyproject.toml


def chosen(cases: Iterable[Any], most: int, seed: int = 28) -> list[Any]:
    """So many of the cases, in their order."""
    every = list(cases)
    kept = set(random.Random(seed).sample(range(len(every)), min(most, len(every))))
    return [one for place, one in enumerate(every) if place in kept]


def sampled(
    cases: Iterable[Any], most: int, seed: int = 28, others: pytest.MarkDecorator = pytest.mark.slow
) -> list[Any]:
    """Cases as parameters, in their order: all but so many are marked.

    Args:
        cases: each of them shows the same of another thing.
        most: how many are not marked.
        seed: of the choice.
        others: `slow`, so that `make check` runs the sample and `make test` all; or `soak`, for `make test` and `make soak`.
    """
    every = list(cases)
    kept = chosen(range(len(every)), most, seed)
    return [pytest.param(one, marks=[] if place in kept else others) for place, one in enumerate(every)]


def of_soak(items: Sequence[pytest.Item], most: int, seed: str) -> list[pytest.Item]:
    """So many long tests, one case of each, in their order. Those that may take longer than any test of `make test` are left out.

    A test that is added or removed changes the sample by one at most.
    """

    def drawn(name: str) -> str:
        return hashlib.sha256(f"{seed} {name}".encode()).hexdigest()

    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        limit = item.get_closest_marker("timeout")
        if item.get_closest_marker("soak") and (limit is None or limit.args[0] <= LONGEST_S):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    kept = {min(cases[test], key=lambda case: drawn(case.nodeid)) for test in sorted(cases, key=drawn)[:most]}
    return [item for item in items if item in kept]
