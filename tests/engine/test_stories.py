"""The stories of docs/scenarios on a real broker into Delta: what comes out is what the test driver gives."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.docs.test_scenario_pages import ALL, Story, bytes_of, ms_of
from tests.engine.harness import assert_ledger_sound
from tests.engine.streaming import Piped, Stream, pieces

from lakestreams.formats import Long
from lakestreams.testing import TopologyTestDriver
from lakestreams.testing.small import small
from lakestreams.topology.nodes import DeltaSink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.local.broker import Broker

pytestmark = [pytest.mark.broker]

HOUR_MS = 3_600_000  # the pages begin at 0:00, which a producer cannot write


def records_of(story: Story) -> list[Piped]:
    sources = {source.topic: source for source in story.topology.sources}

    def raw(cell: str, how: Any) -> bytes | None:
        found = bytes_of(cell, how)
        return found.to_bytes(8, "big", signed=True) if isinstance(how, Long) and found is not None else found

    return [
        Piped(topic, raw(key, sources[topic].key), raw(value, sources[topic].value), HOUR_MS + ms_of(time))
        for _, topic, key, value, time in story.records
    ]


def driven(story: Story, spark: SparkSession) -> TopologyTestDriver:
    driver = TopologyTestDriver(story.topology, spark)
    names = {source.topic: source.name for source in story.topology.sources}
    for one in records_of(story):
        driver.pipe(names[one.topic], one.key, one.value, one.ts)
    return driver


def expected(driver: TopologyTestDriver, sink: DeltaSink) -> list[tuple[Any, ...]]:
    """(value by name, time, kind) of each result; of a merged table its rows."""
    if sink.mode == "merge":
        rows = driver.table(sink.name).items()
        return sorted((repr(dict(key) if isinstance(key, tuple) else key), repr(value)) for key, value in rows)
    return [(one.value, one.timestamp, one.kind) for one in driver.read(sink.name)]


def found(stream: Stream, sink: DeltaSink, keys: list[str]) -> list[tuple[Any, ...]]:
    rows = stream.bench.silver(sink.name).orderBy("_lineage.cycle", "_lineage.trigger", "_lineage.n").collect()
    plain = [row.asDict(recursive=True) for row in rows]
    if sink.mode == "merge":
        return sorted((repr(_key(row, keys)), repr(_value(row, keys))) for row in plain)
    return [
        (None if kind == "tombstone" else _value(row, []), row["event_time_ms"], kind)
        for row in plain
        if (kind := row["_lineage"]["kind"])
    ]


def _key(row: dict[str, Any], keys: list[str]) -> Any:
    return row[keys[0]] if len(keys) == 1 else {name: row[name] for name in sorted(keys)}


def _value(row: dict[str, Any], without: list[str]) -> dict[str, Any]:
    return {name: cell for name, cell in row.items() if name not in (*without, "event_time_ms", "_lineage")}


@pytest.mark.parametrize(
    "story",
    # the first one each time (a join, and sums by region), the others in the soak: each shape runs on a real broker in
    # other tests, too
    [pytest.param(one, marks=[] if place == 0 else [pytest.mark.soak]) for place, one in enumerate(ALL)],
    ids=lambda story: f"{story.page}-{story.topology.name}",
)
def test_a_story_on_a_real_broker_gives_what_the_test_driver_gives(
    story: Story, spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    with small(spark):
        driver = driven(story, spark)
        stream = Stream(spark, broker, tmp_path, story.topology)
        for piece in pieces(story.topology, records_of(story)):
            stream.run(piece)
        for sink in stream.bench.topology.sinks:
            got, wanted = found(stream, sink, _key_columns(stream, driver, sink)), expected(driver, sink)
            if sink.mode != "merge":
                # the driver's values do not hold the key's columns, the table's rows do
                names = [set(value) for value, _, _ in wanted if value is not None]
                kept = set.union(*names) if names else set()
                got = [(value and {n: c for n, c in value.items() if n in kept}, *rest) for value, *rest in got]
            assert got == wanted, sink.name
        refused = sorted((names[0], 0, names[1], one.node, one.code) for one, names in _placed(story, driver))
        assert stream.quarantined() == refused
        assert_ledger_sound(stream.bench)


def _key_columns(stream: Stream, driver: TopologyTestDriver, sink: DeltaSink) -> list[str]:
    """The first columns of a merged table; the driver tells a key of several columns as pairs."""
    if sink.mode != "merge":
        return []
    key = next(iter(driver.table(sink.name)), None)  # a table may end empty
    return stream.bench.silver(sink.name).columns[: len(key) if isinstance(key, tuple) else 1]


def _placed(story: Story, driver: TopologyTestDriver) -> list[tuple[Any, tuple[str, int]]]:
    """What was refused, each with the topic and offset of its record."""
    records = records_of(story)
    offsets: dict[str, int] = {}
    places = []
    for one in records:
        offsets[one.topic] = offsets.get(one.topic, -1) + 1
        places.append((one.topic, offsets[one.topic]))
    return [(one, places[one.cause]) for one in driver.refused()]
