"""Round after round: what Spark and py4j keep of each round's query does not pile up."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.engine.harness import ZERO, Bench, fresh_topics

from lakestreams import StreamsBuilder, Text
from lakestreams.testing.small import small

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.local.broker import Broker

pytestmark = [pytest.mark.broker]

ROUNDS, PATIENCE_S = 3, 20
OTHERS = 1  # the JVM's collector calls, too, over a connection of its own


def test_no_connection_is_left_of_a_round(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """On each connection a thread of this process waits."""
    views, _ = fresh_topics(broker)
    builder = StreamsBuilder("rounds")
    builder.stream(views, key=Text("user"), value=Text("page")).to_delta("silver.views")
    bench = Bench(spark, broker, tmp_path, builder.build())
    driver = bench.driver()
    with small(spark):
        driver.start()
        for number in range(ROUNDS):
            broker.produce(views, [(f"u{number}", "/", ZERO + number)])
            driver.round()
            if number == 0:
                before = threading.active_count()
        driver.end()
        assert bench.silver("silver.views").count() == ROUNDS
    until = time.monotonic() + PATIENCE_S  # a thread ends by itself, once it sees that its connection is closed
    while time.monotonic() < until and threading.active_count() > before + OTHERS:
        time.sleep(0.2)
    assert threading.active_count() <= before + OTHERS, [one.name for one in threading.enumerate()]
