"""What stops a cycle before its first row is mended by another configuration, topics or not: nothing is lost or twice."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812
from tests.engine.harness import ZERO, Bench, assert_sound, fresh_topics
from tests.engine.test_kafka_sink import consumed

from lakestreams import Avro, StreamsBuilder, Text, Topology
from lakestreams.engine.runtime import failpoints
from lakestreams.errors import BufferFull, ExpectationFailed, PlanUnderOtherConfig, TooManyBadRecords, UnwritableResult
from lakestreams.testing.small import small

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.local.broker import Broker

pytestmark = [pytest.mark.broker]

ROWS = "silver.rows"
NUMBERS = '{"type": "record", "name": "Made", "fields": [{"name": "number", "type": "int"}]}'
PAGES = [("ann", "1", ZERO), ("ben", "x", ZERO + 1), ("cem", "3", ZERO + 2)]


@pytest.fixture(autouse=True, scope="module")
def _small(spark: SparkSession) -> Iterator[None]:
    with small(spark):
        yield


def whole(value: Any) -> Any:
    return {"page": value.page, "number": value.page.cast("int")}


def tolerant(value: Any) -> Any:
    return {"page": value.page, "number": value.page.try_cast("int")}


def topology(
    views: str, *, source: str = "", step: str = "", mapper: Callable[..., Any] = tolerant, table: bool = True,
    avro: bool = False,
) -> Topology:  # fmt: skip
    """Views in a table and a topic; `source`, `step`: what becomes of pages that are no number, and where.

    With `avro` a further topic takes numbers only.
    """
    builder = StreamsBuilder("stopped")
    stream = builder.stream(views, key=Text("user"), value=Text("page"), name="views")
    made = stream.map_values(mapper, name="made")
    for where, action in ((stream, source), (made, step)):
        if action:
            getattr(where, action)("number", lambda row: row.page.rlike("^[0-9]+$"))
    if table:
        made.to_delta(ROWS)
    made.to_kafka(f"{views}-made")
    if avro:
        made.to_kafka(f"{views}-numbers", value=Avro(NUMBERS))
    return builder.build()


@dataclass(frozen=True)
class Stop:
    """What stops a run, what mends it, and the pages that come out then."""

    stops: dict[str, Any]
    error: type[Exception]
    mended: dict[str, Any]
    pages: str


STOPS = {
    "source-drop": Stop({"source": "expect_or_fail"}, ExpectationFailed, {"source": "expect_or_drop"}, "13"),
    "step-warn": Stop({"step": "expect_or_fail"}, ExpectationFailed, {"step": "expect"}, "13x"),
    "step-drop": Stop({"step": "expect_or_fail"}, ExpectationFailed, {"step": "expect_or_drop"}, "13"),
    "format": Stop({"avro": True}, UnwritableResult, {"avro": True, "step": "expect_or_drop"}, "13"),
    "expression": Stop({"mapper": whole}, Exception, {"mapper": tolerant}, "13x"),
}


def out(bench: Bench, views: str) -> tuple[str, str]:
    topic = "".join(sorted(json.loads(one.value or b"{}")["page"] for one in consumed(bench.broker, f"{views}-made")))
    return "".join(sorted(row["page"] for row in bench.silver(ROWS).select("page").collect())), topic


# What a rule stops without a topic beside it is in `test_expectations`, with one in the next test.
@pytest.mark.parametrize(
    "name", [one if one == "expression" else pytest.param(one, marks=pytest.mark.soak) for one in STOPS]
)
def test_what_stopped_a_cycle_is_mended_by_another_configuration(
    spark: SparkSession, broker: Broker, tmp_path: Path, name: str
) -> None:
    stop = STOPS[name]
    views, _ = fresh_topics(broker)
    for topic in ("made", "numbers"):
        broker.create_topic(f"{views}-{topic}")
    broker.produce(views, PAGES)
    bench = Bench(spark, broker, tmp_path, topology(views, **stop.stops))
    for _ in range(2):  # whoever repeats it is stopped, too, and knows no less
        with pytest.raises(stop.error):
            bench.run()
    mended = replace(bench, topology=topology(views, **stop.mended))
    mended.run()
    assert out(mended, views) == (stop.pages, stop.pages)
    assert_sound(mended)


@pytest.mark.soak  # the last test is stopped so, the one above is mended without doubt
def test_too_many_unreadable_records_are_let_through_by_another_configuration(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    views, _ = fresh_topics(broker)
    broker.create_topic(f"{views}-made")
    broker.produce(views, PAGES)
    bench = Bench(spark, broker, tmp_path, topology(views))
    driver = bench.driver()
    driver.start()
    driver._round.cycles.counts.require_share = _refuses
    with pytest.raises(TooManyBadRecords):
        driver.round()
    dropping = replace(bench, topology=topology(views, step="expect_or_drop"))
    dropping.run()
    assert out(bench, views) == ("13", "13")
    assert_sound(dropping)


@pytest.mark.soak
def test_a_full_buffer_stops_a_cycle_before_its_first_row(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    views, _ = fresh_topics(broker)
    broker.produce(views, PAGES)

    def held(**options: Any) -> Topology:
        builder = StreamsBuilder("stopped")
        table = builder.table(views, key=Text("user"), value=Text("page"), name="views")
        table.suppress("1 h", max_records=1, name="held", **options).to_delta(ROWS)
        return builder.build()

    bench = Bench(spark, broker, tmp_path, held(when_full="shutdown"))
    for _ in range(2):
        with pytest.raises(BufferFull, match="2 keys wait in task"):
            bench.run()
    emitting = replace(bench, topology=held())
    emitting.run()
    assert sorted(row["page"] for row in emitting.silver(ROWS).collect()) == ["1", "x"]


def _refuses(_: float) -> None:
    message = "views: 1003 of 1003 records"
    raise TooManyBadRecords(message)


def test_a_cycle_whose_topic_was_begun_is_in_doubt_until_somebody_accepts_that(
    spark: SparkSession, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped first, so that the ledger knows of no record; then whoever repeats it falls behind its first topic."""
    views, _ = fresh_topics(broker)
    broker.create_topic(f"{views}-made")
    broker.produce(views, [PAGES[0], PAGES[2]])
    failing = Bench(spark, broker, tmp_path, topology(views, step="expect_or_fail", table=False))
    monkeypatch.setenv(failpoints.VARIABLE, "kafka.before:1:raise")
    refusing = failing.driver()
    refusing.start()
    refusing._round.cycles.counts.require_share = _refuses
    with pytest.raises(TooManyBadRecords):
        refusing.round()
    with pytest.raises(failpoints.FailpointReached):
        failing.run()
    monkeypatch.delenv(failpoints.VARIABLE)
    kinds = [row["kind"] for row in failing.ledger().where(F.col("cycle") == 1).orderBy("epoch").collect()]
    assert kinds == ["plan", "stopped", "publishing"]
    dropping = replace(failing, topology=topology(views, step="expect_or_drop", table=False))
    with pytest.raises(PlanUnderOtherConfig, match="may be partly written") as doubt:
        dropping.run()
    assert "--accept-change" in doubt.value.hint
    dropping.run(accept_change=True)
    assert [one.key for one in consumed(broker, f"{views}-made")] == [b'{"user":"ann"}', b'{"user":"cem"}']
    (accepted,) = dropping.ledger().where("kind = 'accepted'").collect()
    assert f"topic {views}-made may hold records of cycle 1" in accepted["details"]
    assert_sound(dropping)
