"""Round after round: what Spark and py4j keep of each round's query does not pile up."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
from tests.engine.harness import ZERO, Bench, fresh_topics

from lakestreams import StreamsBuilder, Text
from lakestreams.testing.small import small

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.local.broker import Broker

pytestmark = [pytest.mark.broker]

ROUNDS, PATIENCE_S = 4, 20


def connections() -> tuple[int, int]:
    """Threads of this process, one of which waits on each connection, and its sockets."""
    return threading.active_count(), len(psutil.Process().net_connections(kind="tcp"))


def test_no_connection_is_left_of_a_round(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    views, _ = fresh_topics(broker)
    builder = StreamsBuilder("rounds")
    builder.stream(views, key=Text("user"), value=Text("page")).to_delta("silver.views")
    bench = Bench(spark, broker, tmp_path, builder.build())
    driver = bench.driver()
    with small(spark):
        driver.start()
        found = []
        for number in range(ROUNDS):
            broker.produce(views, [(f"u{number}", "/", ZERO + number)])
            driver.round()
            found.append(connections())
        driver.end()
        assert bench.silver("silver.views").count() == ROUNDS
    until = time.monotonic() + PATIENCE_S  # threads end by themselves, once they see that theirs is closed
    while time.monotonic() < until and any(now > then for now, then in zip(connections(), found[0], strict=True)):
        time.sleep(0.2)
    assert [now - then for now, then in zip(connections(), found[0], strict=True) if now > then] == [], found
