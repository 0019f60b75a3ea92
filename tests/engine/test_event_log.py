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
from lakestreams.engine.ledger.plans import Plan, Range
from lakestreams.engine.ledger.rows import frame_of
from lakestreams.engine.publish import event_log, events
from lakestreams.engine.publish.events import CycleSummary
from lakestreams.engine.runtime.failpoints import VARIABLE, FailpointReached
from lakestreams.engine.runtime.lake import Lake
from lakestreams.expectations.cycle_metrics import CycleMetrics, Expected

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


def test_a_log_of_years_is_added_up_where_it_lies(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes to the driver has a row for each number, however many cycles there were."""
    builder = StreamsBuilder("page_views")
    stream = builder.stream("Views", key=Text("user"), value=Json("page string"))
    stream.expect("z_first", "page <> ''").expect("a_second", "page is not null").to_delta("silver.views")
    topology, ledger = builder.build(), Ledger(Lake(str(tmp_path)), "page_views")
    event_log.create(spark, ledger)

    def log(*cycles: int) -> None:
        for cycle in cycles:
            counts = CycleMetrics()
            counts.of("Views").rows_in = 10
            counts.of("Views").expected += [
                Expected("z_first", "warn", 7, 2),
                Expected("a_second", "warn", 9, cycle % 2),
            ]
            counts.quarantined("Views", "MALFORMED_VALUE", 1)
            counts.rows("silver.views", {"rows": 9, "rows_record": 8, "rows_matched": 1})
            counts.complete(topology)
            summary = CycleSummary(cycle, counts, {}, "run", 1_000, 2_000)
            made.extend(events.of_cycle(topology, Plan(cycle, "f", (), {}, 1, 2), summary))
        kinds = events.SCHEMA.replace("timestamp timestamp", "timestamp bigint")
        rows = spark.createDataFrame([tuple(one[name] for name in names) for one in made], kinds)
        event_log.table(ledger).append(
            rows.withColumn("timestamp", F.timestamp_millis("timestamp")), "test", max(cycles)
        )
        made.clear()

    names = [one.split()[0] for one in events.SCHEMA.split(", ")]
    made: list[dict[str, object]] = []
    collected: list[object] = []
    frame = type(spark.range(1))
    collect = frame.collect
    monkeypatch.setattr(frame, "collect", lambda self: collected.append(rows := collect(self)) or rows)
    sizes = []
    for cycles in ([1, 2], range(3, 201)):
        log(*cycles)
        collected.clear()
        found = {one.node: one for one in event_log.totals(spark, ledger)}
        sizes.append(len(repr(collected)))
    views, silver = found["Views"], found["silver.views"]
    assert list(found) == ["Views", "silver.views"]
    assert (views.kind, views.parents, views.rows_in, views.rows) == ("stream", (), 2_000, 1_800)
    assert (views.quarantined, views.fates, views.kinds) == ({"MALFORMED_VALUE": 200}, {}, {})
    assert list(views.expected.items()) == [("z_first", (1_400, 400)), ("a_second", (1_800, 100))]
    assert (silver.parents, silver.rows, silver.kinds) == (("Views",), 1_800, {"matched": 200, "record": 1_600})
    assert sizes[1] < 1.2 * sizes[0], sizes


def test_a_log_that_lacks_very_many_cycles_gets_them_all(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after the table was lost, of a pipeline that has a cycle every few seconds."""
    cycles = 10_200
    builder = StreamsBuilder("page_views")
    builder.stream("Views", key=Text("user"), value=Json("page string")).to_delta("silver.views")
    topology, ledger = builder.build(), Ledger(Lake(str(tmp_path)), "page_views")
    ledger.create(spark)
    event_log.create(spark, ledger)
    plan = Plan(1, "f", (Range("Views", 0, 0, 1, 1, 0, 0, 0, 900, 30),), {}, 1, 2)
    closes = CycleSummary(0, CycleMetrics(), {}, "run", 1_000, 2_000).as_dict()
    row = frame_of(spark, [ledger.plan_row(plan, closes).columns])
    before = (F.col("id") - 1).cast("string")
    many = row.drop("cycle").crossJoin(spark.range(1, cycles + 2)).withColumns(
        {"cycle": F.col("id"), "details": F.replace("details", F.lit('"cycle": 0'), F.concat(F.lit('"cycle": '), before))}
    )  # fmt: skip
    ledger.table.append(many.select(row.columns), "test", 1)
    told: list[int] = []
    monkeypatch.setattr(
        event_log.EventLog, "_append", lambda _self, rows, _cycle: told.extend(sorted({one["cycle"] for one in rows}))
    )
    event_log.EventLog(spark, ledger, topology, finished=cycles).write()
    assert told == [*range(1, cycles + 1)]


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
