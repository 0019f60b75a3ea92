"""Histories over several partitions that no longer lie where their keys are at home, or never did: re-keyed, spread
over other tasks, unequal counts, one key in two partitions.

Random by seed: idle partitions, skewed clocks, late records, null keys and values, tombstones, equal times. Each
history goes through the kernels whole in one batch and cut; the reference takes it record by record.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from tests.operators.settings import Settings
from tests.operators.wild import Setting, Wild, home, murmur2, require_no_faults, run

from lakestreams.testing.small import small

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEED, COUNT = 20261121, 6
# Re-keyed records go to three tasks: as many as the right topic has partitions, or the left one, or both.
REKEYED = (Wild(counts={"left": 2, "right": 3}), Wild(counts={"left": 3, "right": 3}))


@pytest.fixture(scope="module", autouse=True)
def _small(spark: SparkSession) -> Iterator[None]:
    with small(spark):
        yield


def test_keys_are_where_a_producer_puts_them() -> None:
    """The vectors of Kafka's own UtilsTest (semantics section 9)."""
    assert murmur2(b"21") == -973932308 % 2**32
    assert murmur2(b"a-little-bit-long-string") == -985981536 % 2**32
    assert [home("abc", count) for count in (3, 4, 6, 10, 12)] == [0, 3, 3, 7, 3]


def settings_of(kind: str, seed: object) -> tuple[list[Setting], Wild]:
    settings = Settings(seed)
    if kind == "moved":
        return settings.moved(3), REKEYED[0]
    if kind == "unequal counts":
        off = {"co_partitioning": "off"}
        windows = [settings.windowed(how, "strict", options=off) for how in ("left", "outer")]
        return [*windows, settings.windowed("outer", "kafka", options=off)], Wild(counts={"left": 2, "right": 3})
    windows = [settings.windowed(how, rules) for how, rules in (("left", "strict"), ("outer", "strict"))]
    others = [settings.stream_table("left"), settings.table_table("outer"), settings.foreign_key("left")]
    return [*windows, *others], Wild(strays=True)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "kind",
    ["unequal counts", *(pytest.param(kind, marks=pytest.mark.soak) for kind in ("moved", "key in two partitions"))],
)
def test_no_partition_matters_but_by_its_clock(spark: SparkSession, kind: str) -> None:
    settings, wild = settings_of(kind, SEED)
    lots = [(one, wild.histories(COUNT, f"{SEED}/{one.name}")) for one in settings]
    require_no_faults(spark, run(spark, lots, steps=2, seed=SEED), steps=2, seed=SEED)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("kind", ["moved", "unequal counts", "key in two partitions"])
def test_no_partition_matters_for_long(spark: SparkSession, kind: str, number: int) -> None:
    seed = SEED + 1 + number
    print(f"seed {seed}")  # noqa: T201  # shown by pytest -s
    settings, wild = settings_of(kind, seed)
    wild = REKEYED[number % 2] if kind == "moved" else wild
    lots = [(one, wild.histories(200, f"{seed}/{one.name}")) for one in settings]
    require_no_faults(spark, run(spark, lots, steps=4, seed=seed), steps=4, seed=seed)
