"""Which of many like cases a lane runs: a sample by a seed. The others are in the next longer lane."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

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
