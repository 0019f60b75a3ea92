"""The stories on a real broker into Delta and Kafka: what comes out is what the test driver gives and the story tells.

Those of docs/scenarios, the ads of docs/joins.md through every join, the logins and the page views of the acceptance
scenarios.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.docs.test_scenario_pages import ALL, Story, bytes_of, ms_of
from tests.engine.harness import assert_ledger_sound
from tests.engine.streaming import Piped, Stream, pieces, together
from tests.engine.test_kafka_sink import consumed
from tests.scenarios.test_ad_views_and_clicks import CONTENTS, EVENTS, TABLE, TOMBSTONE_AT, pair, topology_of
from tests.scenarios.test_fraud import LOGINS, SUSPICIOUS, fraud
from tests.scenarios.test_page_views import ENRICHED, OUTPUTS, RECORDS, enriched

from lakestreams import Topology
from lakestreams.formats import Long, Text
from lakestreams.testing import TopologyTestDriver
from lakestreams.testing.small import small
from lakestreams.topology.endpoints import DeltaSink, KafkaSink, Source

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


def driven(topology: Topology, records: list[Piped], spark: SparkSession) -> TopologyTestDriver:
    driver = TopologyTestDriver(topology, spark)
    names = {source.topic: source.name for source in topology.sources}
    for one in records:
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
        topology = with_topic(story)
        for sink in topology.kafka_sinks:
            broker.create_topic(sink.name, 1)
        driver = driven(topology, records_of(story), spark)
        stream = Stream(spark, broker, tmp_path, topology)
        for piece in pieces(topology, records_of(story)):
            stream.run(piece)
        assert_as_driven(stream, driver)
        for sink in topology.kafka_sinks:
            assert_topic_as_driven(story, broker, driver, sink.name)
        refused = sorted((names[0], 0, names[1], one.node, one.code) for one, names in _placed(story, driver))
        assert stream.quarantined() == refused
        assert_ledger_sound(stream.bench)


def with_topic(story: Story) -> Topology:
    """The story's topology; the clicks per region go to a topic as well, as the page says that they can."""
    topology = story.topology
    if story.page != "clicks-per-region":
        return topology
    (table,) = topology.sinks
    topic = KafkaSink(f"clicks-per-region-{ALL.index(story)}", table.parent, key=Text("region"), value=Long("clicks"))
    return replace(topology, nodes=(*topology.nodes, topic))


def assert_topic_as_driven(story: Story, broker: Broker, driver: TopologyTestDriver, topic: str) -> None:
    """The topic has each change that the driver gives, in order; the last ones are what the page shows in the end."""
    sent = [((one.key or b"").decode(), int.from_bytes(one.value or b"", "big")) for one in consumed(broker, topic)]
    assert sent == [(one.key, one.value and one.value["clicks"]) for one in driver.read(topic)]
    assert len(sent) == sum(record[1] == "UserClicks" for record in story.records)  # each click is a change
    *_, shown = story.shown
    in_the_end = (
        dict(zip(shown.head[2:], shown.rows[-1][2:], strict=True)) if shown.head[0] == "after" else dict(shown.rows)
    )
    assert dict(sent) == {region: int(clicks) for region, clicks in in_the_end.items()}


def assert_as_driven(stream: Stream, driver: TopologyTestDriver) -> None:
    """Every table holds what the driver gives."""
    for sink in stream.bench.topology.sinks:
        got, wanted = found(stream, sink, _key_columns(stream, driver, sink)), expected(driver, sink)
        if sink.mode != "merge":
            # the driver's values do not hold the key's columns, the table's rows do
            names = [set(value) for value, _, _ in wanted if value is not None]
            kept = set.union(*names) if names else set()
            got = [(value and {n: c for n, c in value.items() if n in kept}, *rest) for value, *rest in got]
        assert got == wanted, sink.name


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


# --- ads, logins and page views --------------------------------------------------------------------------------------


def ads_logins_and_page_views() -> Topology:
    """The table of docs/joins.md, of table joins changes and rows, and the others: one pipeline, since a run costs alike."""
    topologies = {f"ads{place}": topology_of(row.written) for place, row in enumerate(TABLE)}
    topologies |= {"logins": fraud(), "pages": enriched()}
    for prefix, topology in topologies.items():
        *others, sink = topology.nodes
        assert isinstance(sink, DeltaSink)
        if sink.is_table:
            both = replace(sink, mode="changes"), replace(sink, name="held", mode="merge")
            topologies[prefix] = replace(topology, nodes=(*others, *both))
    return together("stories", topologies, lambda _, source: f"{source.topic}-{source.kind}")


def events_of(topology: Topology) -> list[Piped]:
    """What happens on each topic that holds it, in the engine's order: all clicks of a global table first."""
    found = []
    for source in topology.sources:
        name = source.topic.removesuffix(f"-{source.kind}")
        events = [(one[0], one, int(at * 1000)) for one, at in EVENTS.get(name, ())]
        events += [(user, value, at) for topic, user, value, at in (*LOGINS, *RECORDS) if topic == name]
        found += [
            (source, Piped(source.topic, key.encode(), value.encode(), HOUR_MS + at)) for key, value, at in events
        ]

    def order(one: tuple[Source, Piped]) -> tuple[Any, ...]:
        source, piped = one
        return source.kind != "global_table", piped.ts, source.kind == "stream", source.topic

    return [piped for _, piped in sorted(found, key=order)]


# that the driver gives what the stories tell is shown join by join in tests/scenarios; fourteen joins at once take long
@pytest.mark.soak
@pytest.mark.parametrize("drives", [False, True], ids=["as told", "as driven"])
def test_ads_logins_and_page_views_on_a_real_broker(
    drives: bool, spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    topology = ads_logins_and_page_views()
    events = events_of(topology)
    assert len(pieces(topology, events)) == 1
    tombstone = Piped("AdClicks-table", b"A", None, HOUR_MS + TOMBSTONE_AT * 1000)
    places = {row.written: place for place, row in enumerate(TABLE)}
    with small(spark):
        stream = Stream(spark, broker, tmp_path, topology)
        stream.run(events)
        for content in CONTENTS:
            assert held(stream, f"ads{places[content.written]}_held") == sorted(content.content.split())
        stream.run([tombstone])
        for content in CONTENTS:
            assert held(stream, f"ads{places[content.written]}_held") == sorted(content.without_click_a.split())
        for place, row in enumerate(TABLE):
            told = stream.rows(f"ads{place}_out", "view", "click", "event_time_ms")
            shown = [
                pair({"view": view, "click": click})
                for view, click, at in told
                if (view or click) and at < tombstone.ts
            ]
            assert sorted(one for one in shown if "Z" not in one) == sorted(row.result.split()), row.join
        logins = stream.rows("logins_silver.fraud", "user", "failure", "success", "event_time_ms")
        assert logins == [(user, *value.values(), HOUR_MS + at) for user, value, at in SUSPICIOUS]
        for output in OUTPUTS:
            views = stream.rows(f"pages_{output}", "user", "page", "region", "event_time_ms")
            assert views == [(user, *value.values(), HOUR_MS + at) for user, value, at in ENRICHED]
        assert stream.quarantined() == []
        assert_ledger_sound(stream.bench)
        if drives:
            driver = driven(topology, [*events, tombstone], spark)
            assert_as_driven(stream, driver)
            assert driver.refused() == []


def held(stream: Stream, table: str) -> list[str]:
    rows = stream.bench.silver(table).select("view", "click").collect()
    return sorted(one for row in rows if "Z" not in (one := pair(row.asDict())))
