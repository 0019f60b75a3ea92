"""Random histories through aggregations, windows and buffers: no cut matters, and the reference says the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from tests.operators.aggregate.settings import TASKS, settings
from tests.operators.wild import Wild, require_no_faults, run

from lakestreams.testing.small import small

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

SEED, COUNT = 20261121, 40


@pytest.fixture(scope="module", autouse=True)
def _small(spark: SparkSession) -> Iterator[None]:
    with small(spark):
        yield


def check(spark: SparkSession, count: int, steps: int, seed: object, some: slice = slice(None)) -> None:
    lots = []
    for one in list(settings())[some]:
        strays = one.name.startswith("held")  # a key in two partitions waits in both of their tasks
        wild = Wild(counts={"left": TASKS, "right": TASKS}) if one.rekeyed else Wild(strays=strays)
        lots.append((one, wild.histories(count, f"{seed}/{one.name}")))
    require_no_faults(spark, run(spark, lots, steps=steps, seed=seed), steps=steps, seed=seed)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("place", [0, *(pytest.param(one, marks=pytest.mark.soak) for one in (1, 2))])
def test_every_setting(spark: SparkSession, place: int) -> None:
    check(spark, COUNT, 2, SEED, slice(place, None, 3))


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("number", range(3))
def test_every_setting_for_long(spark: SparkSession, number: int) -> None:
    seed = SEED + 1 + number
    print(f"seed {seed}")  # noqa: T201  # shown by pytest -s
    check(spark, 300, 4, seed)
