"""Which of many like cases `make check` runs: a sample by a seed. `make test` runs all."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import pytest


def sampled(cases: Iterable[Any], most: int, seed: int = 28) -> list[Any]:
    """Cases as parameters, in their order: all but so many are slow."""
    every = list(cases)
    kept = set(random.Random(seed).sample(range(len(every)), min(most, len(every))))
    return [pytest.param(one, marks=[] if place in kept else pytest.mark.slow) for place, one in enumerate(every)]
