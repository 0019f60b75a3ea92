"""Batches are bounded by the bytes of their records, and what a task holds by bytes, not by rows (decision 0033)."""

from __future__ import annotations

import itertools
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812
from tests.engine.harness import Bench, assert_ledger_sound
from tests.engine.heavy import OUTPUT, letters

from lakestreams.engine.ingest import record_sizes
from lakestreams.engine.ingest.batch_metrics import AppendMetrics
from lakestreams.engine.ledger.ledger import Ledger

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.local.broker import Broker

pytestmark = [pytest.mark.broker]

MIB = 1 << 20
SMALL, LARGE = 100, 100_000
BOUND = 22 * LARGE + LARGE // 2  # of ten large records, beside twelve times the one that is worked on
ROOT = Path(__file__).parents[2]
_numbers = itertools.count(1)


def fresh_topic(broker: Broker, largest: int = MIB) -> str:
    topic = f"Letters{next(_numbers)}"
    broker.create_topic(topic, 1, {"max.message.bytes": str(largest)})
    return topic


def records(count: int, size: int, first: int = 0) -> Iterator[tuple[str, str, int]]:
    """Text that no compression makes small."""
    chance = random.Random(f"{count} {size} {first}")
    return ((f"u{n}", chance.randbytes(size // 2).hex(), 1_000 + n) for n in range(first, first + count))


def batches(bench: Bench) -> list[int]:
    """How many records each batch had."""
    ingests = Ledger(bench.lake, bench.topology.name).ingests(bench.spark, 1)
    return [records for one in ingests if (records := sum(part.records for part in one.ranges))]


def assert_everything_is_there_once(bench: Bench, topic: str, count: int) -> None:
    for table in (bench.bronze(topic), bench.silver(OUTPUT)):
        column = "k.who" if "k" in table.columns else "who"
        assert table.agg(F.count("*"), F.count_distinct(column)).first() == (count, count)
    assert_ledger_sound(bench)


@pytest.mark.soak
def test_batches_of_large_records_hold_about_the_bound(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """The first batch too: nothing is known of the topic yet, so some records are looked at."""
    topic = fresh_topic(broker)
    broker.produce(topic, records(25, LARGE))
    bench = Bench(spark, broker, tmp_path, letters(topic))
    bench.run(max_bytes_per_batch=BOUND)
    assert batches(bench) == [10, 10, 5]
    assert_everything_is_there_once(bench, topic, 25)
    broker.produce(topic, records(12, LARGE, 25))
    bench.run(max_bytes_per_batch=BOUND)
    assert batches(bench)[3:] == [10, 2], "the ledger has what they weigh"


@pytest.mark.soak  # so are the first ones of the next test
def test_small_records_are_bounded_by_their_number_alone(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    topic = fresh_topic(broker)
    broker.produce(topic, records(500, SMALL))
    bench = Bench(spark, broker, tmp_path, letters(topic))
    bench.run(max_bytes_per_batch=BOUND, max_offsets_per_trigger=400)
    assert batches(bench) == [400, 100]
    (last,) = Ledger(bench.lake, bench.topology.name).ingests(spark, 2)
    assert SMALL < last.mean_bytes[topic] < SMALL + 10, "value and key"


def test_records_that_grow_and_shrink_on_the_way_change_the_batches_and_come_once(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    topic = fresh_topic(broker)
    broker.produce(topic, records(100, SMALL))
    broker.produce(topic, records(120, LARGE, 100))
    broker.produce(topic, records(110, SMALL, 220))
    bench = Bench(spark, broker, tmp_path, letters(topic))
    bench.run(max_bytes_per_batch=BOUND, max_offsets_per_trigger=100)
    # light ones; heavy ones, of which nobody could know; ten of them a batch; then more again
    assert batches(bench) == [100, 100, 10, 10, 10, 80, 20]
    assert [event.facts["offsets"] for event in bench.events if event.kind == "resized"] == [10, 80]
    *_, last = Ledger(bench.lake, bench.topology.name).ingests(spark, 1)
    assert SMALL < last.mean_bytes[topic] < SMALL + 10, "value and key"
    assert_everything_is_there_once(bench, topic, 330)


def test_a_topic_is_looked_at_once_also_where_no_append_is_weighed(
    spark: SparkSession, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on compute that tells no observations: a look in each round would be a second read of Kafka."""
    looks: list[dict[str, int]] = []
    sample = record_sizes.sample

    def looked(*given: Any) -> dict[str, int]:
        looks.append(sample(*given))
        return looks[-1]

    monkeypatch.setattr(AppendMetrics, "weight", lambda _: None)
    monkeypatch.setattr(record_sizes, "sample", looked)
    topic = fresh_topic(broker)
    bench = Bench(spark, broker, tmp_path, letters(topic))
    for first in (0, 20):
        broker.produce(topic, records(20, LARGE, first))
        bench.run(
            max_bytes_per_batch=28 * MIB
        )  # in doubt if they may have 1 MiB, and not at eight times what they have
    assert [list(one) for one in looks] == [[topic]]
    assert_everything_is_there_once(bench, topic, 40)


@pytest.mark.crash
@pytest.mark.parametrize(
    ("count", "size", "heap"),
    [
        pytest.param(8, 16 * MIB, "1g", id="sixteen MiB"),
        pytest.param(6, 40 * MIB, "2g", id="forty MiB", marks=pytest.mark.soak),
        pytest.param(3_000, 200_000, "2g", id="many", marks=pytest.mark.soak),
    ],
)
def test_large_records_fit_a_small_heap(broker: Broker, tmp_path: Path, count: int, size: int, heap: str) -> None:
    """In a process of its own: what does not fit ends the JVM."""
    topic = fresh_topic(broker, 2 * size)
    for first in range(0, count, chunk := max(1, 64 * MIB // size)):
        broker.produce(topic, records(min(chunk, count - first), size, first), {"message.max.bytes": 2 * size})
    command = [sys.executable, "-m", "tests.engine.heavy", str(tmp_path), broker.bootstrap_servers, topic, heap]
    paths = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    ended = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr[-2_000:]
    assert ended.stdout.splitlines() == [f"{count} {count}"] * 2, "bronze, and the output"
