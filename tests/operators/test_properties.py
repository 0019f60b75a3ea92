"""What hypothesis draws, through every shape with every setting: no cut matters, and the reference says the same.

Examples are drawn one by one, which is cheap, and then go through the kernels together, each whole in one batch and cut
in two ways. Tombstones, null keys, keys and values with a null inside, equal times, out of order, one to four
partitions. A failure is told with the smallest history that shows it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import hypothesis
import pytest
from hypothesis import HealthCheck, Phase
from hypothesis import strategies as st
from tests.operators.settings import Settings
from tests.operators.wild import Event, History, Wild, closing, home, require_no_faults, run

from lakestreams.testing.small import small

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

SEED, EXAMPLES = 20261121, 24
PARTS = 8
KEYS = ("a", "ab", "b", "é")


@pytest.fixture(scope="module", autouse=True)
def _small(spark: SparkSession) -> Iterator[None]:
    with small(spark):
        yield


@st.composite
def histories(draw: st.DrawFn) -> History:
    """A history of one to four partitions; a partition may lag behind by a fixed time."""
    count = draw(st.integers(1, 4))
    skews = draw(st.tuples(*[st.sampled_from([0, 4, 30])] * count))
    steps = draw(
        st.lists(
            st.tuples(
                st.sampled_from(["left", "right"]),
                st.sampled_from([*KEYS, None]),
                st.sampled_from(["value", "value", "value", "null inside", "null"]),
                st.sampled_from([*KEYS, None, "x"]),
                st.integers(0, 6),  # how far time goes on
                st.sampled_from([0, 0, 0, 1, 2, 7]),  # how far a record is behind
            ),
            min_size=1,
            max_size=16,
        )
    )
    now, events = 0, []
    for place, (source, key, kind, to, on, behind) in enumerate(steps):
        now += on
        partition = home(key, count)
        value = None if kind == "null" else {"a": f"{source[0]}{place}" if kind == "value" else None, "to": to}
        events.append(Event(source, partition, max(0, now + skews[partition] - behind), key, value))
    counts = {"left": count, "right": count}
    return History((*events, *closing(counts)), counts)


def drawn(count: int, seed: object) -> Sequence[History]:
    found: list[History] = []

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=count,
        phases=[Phase.generate],
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @hypothesis.given(histories())
    def collect(history: History) -> None:
        found.append(history)

    collect()
    return found


@pytest.mark.timeout(900)
@pytest.mark.parametrize("place", [0, *(pytest.param(one, marks=pytest.mark.soak) for one in range(1, PARTS))])
@pytest.mark.parametrize("shape", ["of_windows", "of_lookups", "of_races", "of_tables"])
def test_every_setting(spark: SparkSession, shape: str, place: int) -> None:
    """An eighth of the settings each time; its cost is the plans, not the histories."""
    settings = getattr(Settings(SEED, composite=True), shape)()[place::PARTS]
    examples = drawn(EXAMPLES, SEED)
    runs = run(spark, [(one, examples) for one in settings], steps=2, seed=SEED)
    require_no_faults(spark, runs, steps=2, seed=SEED)


@pytest.mark.timeout(900)
def test_time_that_goes_on_by_itself(spark: SparkSession) -> None:
    settings = Settings(SEED)
    lots = [
        settings.windowed("outer", "strict"),
        settings.windowed("left", "strict"),
        settings.race("left", amends=True),
    ]
    examples = Wild(counts={"left": 1, "right": 1}, ticks=True).histories(EXAMPLES, SEED)
    runs = run(spark, [(one, examples) for one in lots], steps=2, seed=SEED)
    require_no_faults(spark, runs, steps=2, seed=SEED)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("shape", ["of_windows", "of_lookups", "of_races", "of_tables"])
def test_every_setting_for_long(spark: SparkSession, shape: str, number: int) -> None:
    seed = SEED + 1 + number
    print(f"seed {seed}")  # noqa: T201  # shown by pytest -s
    settings = getattr(Settings(seed, composite=bool(number % 2)), shape)()
    runs = run(spark, [(one, drawn(200, f"{seed}/{one.name}")) for one in settings], steps=4, seed=seed)
    require_no_faults(spark, runs, steps=4, seed=seed)
