"""Which tests a lane runs: of many like cases a sample by a seed, of what runs in two sessions the one. Others are in the next
longer lane.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable
from functools import reduce
from typing import Any, Final

import pytest


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


IN_CONNECT: Final[list[pytest.MarkDecorator]] = [
    pytest.mark.connect,
    pytest.mark.lts,
    *([] if os.environ.get("LAKESTREAMS_TEST_MODE") == "connect" else [pytest.mark.soak]),
]
"""Of what `make test` runs behind Spark Connect and `make test-lts` on a classic session; with today's Spark on one it is soak."""


def in_connect(test: Callable[..., Any]) -> Callable[..., Any]:
    """The same test with these marks."""
    return reduce(lambda marked, mark: mark(marked), IN_CONNECT, test)
