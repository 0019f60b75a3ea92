"""When the event log is written: at a run's end, and of rounds that follow each other once in a while."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F  # noqa: N812
from tests.engine.harness import Bench, assert_sound, fresh_topics, page_views

from lakestreams import Json, StreamsBuilder, Text
from lakestreams.engine.ledger.ledger import Ledger
from lakestreams.engine.publish import event_log
from lakestreams.engine.runtime.failpoints import VARIABLE, FailpointReached

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.local.broker import Broker


pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("small_input")]


def told(bench: Bench) -> list[int]:
    """The cycles that the log tells of."""
    rows = event_log.table(Ledger(bench.lake, bench.topology.name)).read(bench.spark)
    return [row["cycle"] for row in rows.where(F.col("event_type") == "cycle_progress").orderBy("cycle").collect()]


def test_what_a_driver_has_left_out_is_told_although_nothing_new_comes(
    spark: SparkSession, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    views, _ = fresh_topics(broker, 1)
    builder = StreamsBuilder("page_views")
    builder.stream(views, key=Text("user"), value=Json("page string")).to_delta("silver.views")
    bench = Bench(spark, broker, tmp_path, builder.build())
    broker.produce(views, [("u", '{"page": "/1"}', 1_000)])
    monkeypatch.setenv(VARIABLE, "events.before:1")
    with pytest.raises(FailpointReached):
        bench.run()
    monkeypatch.delenv(VARIABLE)
    assert told(bench) == []
    assert bench.run().cycles == 0
    assert told(bench) == [1]
    assert_sound(bench)
    odd = ['{"page": "/\\u0031"}', '{"page": "a", "page": "b"}', '{"page": "/", "n": %s}' % ("9" * 400)]
    broker.produce(views, [("u", one, 2_000) for one in [*odd, *['{"page": "/"}'] * 100]])
    bench.run()
    rows = event_log.table(Ledger(bench.lake, bench.topology.name)).read(spark).where("event_type = 'cycle_progress'")
    details = [json.loads(row["details"])["cycle_progress"] for row in rows.orderBy("cycle").collect()]
    assert [one["read_one_by_one"] for one in details] == [{}, {views: 3}], "what another driver has read is not known"


@pytest.mark.soak
def test_rounds_write_now_and_then_and_the_last_of_them_all(
    spark: SparkSession, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_log, "EVENTS_EVERY_S", 3_600.0)  # however slow the machine is
    views, users = fresh_topics(broker, 1)
    bench = Bench(spark, broker, tmp_path, page_views(views, users))

    driver = bench.driver()
    driver.start()
    for number in range(3):
        broker.produce(views, [("u", f"/{number}", 1_000 + number)])
        driver.round()
        assert told(bench) == [1], "the first at once, those that follow within that time not yet"
    driver._round.cycles.events._wrote_s -= 7_200
    driver.round()
    assert told(bench) == [1, 2, 3], "in a round that finds nothing new as well"
    broker.produce(views, [("u", "/4", 1_004)])
    driver.round()
    driver.end()
    assert told(bench) == [1, 2, 3, 4]
    broker.produce(views, [("u", "/5", 1_005)])
    driver.round()  # and falls
    broker.produce(views, [("u", "/6", 1_006)])
    bench.run()
    assert told(bench) == [1, 2, 3, 4, 5, 6]
