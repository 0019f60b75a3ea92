"""The test driver refuses the records that the jobs put into quarantine: same record, same step, same reason."""

from __future__ import annotations

import itertools
import random
import struct
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.engine.harness import ZERO
from tests.engine.streaming import Piped, Stream

from lakestreams import (
    ConnectJson,
    DebeziumJson,
    EventTime,
    Json,
    Long,
    RegistryJson,
    StreamsBuilder,
    Text,
    Topology,
)
from lakestreams.testing import TopologyTestDriver

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.formats import Format
    from lakestreams.local.broker import Broker

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("small_input")]

REGISTRY = b"\x00\x00\x00\x00\x07"
OBJECTS = (
    b'{"id": 1}', b'{"id": 2}', b"{}", b'{"id": null}', b'{"ID": 9}', b'{"id": "x"}', b"[1]", b'{"id": 1', b"", b"\xff",
    b'{"schema": null, "payload": {"id": 1}}', b'{"schema": null, "payload": null}', b'{"schema": null, "payload": {}}',
    b'{"op": "d", "after": null}', b'{"op": "c", "after": {"id": 1}}', b'{"op": "c", "after": {}}', b'{"op": "t"}',
    b'{"payload": {"op": "d", "after": null}}', b'{"op": "u"}', b"null",
)  # fmt: skip
RAW: tuple[bytes | None, ...] = (
    None, *OBJECTS, *(REGISTRY + one for one in OBJECTS[:7]), REGISTRY, struct.pack(">q", 1), b"\x00" * 7, b"/home",
)  # fmt: skip
FORMATS: dict[str, tuple[Format, Format]] = {
    "text": (Text("id"), Text("v")),
    "long": (Long("id"), Long("v")),
    "json": (Json("id bigint"), Json("id int")),
    "registry": (RegistryJson("id bigint"), RegistryJson("id int")),
    "connect": (ConnectJson("id bigint"), ConnectJson("id int")),
    "debezium": (ConnectJson("id bigint"), DebeziumJson("id int")),
}


def lookups(builder: StreamsBuilder, key: Format, value: Format) -> None:
    """Two streams that are joined with a table; nothing else is kept of the past."""
    column = value.fields[0].name
    table = builder.table("Table", key=key, value=value)
    inner = builder.stream("Inner", key=key, value=value)
    inner.join(table, lambda left, right: {"l": left[column], "r": right[column]}).to_delta("inner")
    ignoring = builder.stream("Left", key=key, value=value, null_values="ignore")
    ignoring.left_join(table, lambda left, right: {"l": left[column], "r": right[column]}).to_delta("left")


def steps(builder: StreamsBuilder, key: Format, value: Format) -> None:
    """Streams that are counted, made a table, and filtered; with nulls that are refused, ignored and used."""
    counted = builder.stream("Counted", key=key, value=value, keys_not_null="drop")
    counted.group_by_key().count().to_delta("counts")
    ignoring = builder.stream("Ignoring", key=key, value=value, null_values="ignore")
    ignoring.group_by_key().count().to_delta("ignoring_counts")
    rows = builder.stream("Rows", key=key, value=value)
    rows.to_table().to_delta("rows")
    rows.group_by_key().count().to_delta("rows_counts")
    if value.fields[0].type == "int":
        timed = builder.stream("Timed", key=key, value=value, event_time=EventTime("id", fallback=False))
        timed.filter(lambda one: one.id > 0).to_delta("timed")


Make = Callable[[StreamsBuilder, "Format", "Format"], None]


def topology_of(name: str, *makes: Make) -> Topology:
    """What these make of a format, in one pipeline: a run of it costs little more than a run of one of them."""
    builder = StreamsBuilder("_and_".join(make.__name__ for make in makes))
    for make in makes:
        make(builder, *FORMATS[name])
    return builder.build()


def records_of(topology: Topology, seed: int, each: int) -> Iterator[Piped]:
    """Every key with a good value, every value with a good key, and some of both at random."""
    rng = random.Random(seed)
    pairs = [(b'{"id": 1}', raw) for raw in RAW] + [(raw, b'{"id": 1}') for raw in RAW]
    pairs += [(struct.pack(">q", 1), raw) for raw in RAW[-6:]]
    pairs += [(b'{"schema": null, "payload": {"id": 1}}', raw) for raw in RAW]
    pairs += [(REGISTRY + b'{"id": 1}', raw) for raw in RAW]
    for source in topology.sources:
        for key, value in [*pairs, *((rng.choice(RAW), rng.choice(RAW)) for _ in range(each))]:
            yield Piped(source.topic, key, value, ZERO)


def both(
    spark: SparkSession, broker: Broker, root: Path, topology: Topology, records: Sequence[Piped]
) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """(topic, partition, offset, step, code) of the driver's refusals and of the jobs' quarantine."""
    driver = TopologyTestDriver(topology, spark)
    offsets = {topic: itertools.count() for topic in {one.topic for one in records}}
    places = []
    for one in records:
        driver.pipe(one.topic, one.key, one.value, one.ts)
        places.append((one.topic, 0, next(offsets[one.topic])))
    driven = sorted((*places[one.cause], one.node, one.code) for one in driver.refused())
    stream = Stream(spark, broker, root, topology)
    stream.run(records)
    return driven, stream.quarantined()


def test_the_driver_refuses_what_the_jobs_quarantine(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    topology = topology_of("connect", lookups, steps)
    driven, quarantined = both(spark, broker, tmp_path, topology, list(records_of(topology, 27, 40)))
    assert driven == quarantined
    assert {one[-1] for one in driven} >= {"MALFORMED_KEY", "MALFORMED_VALUE", "NULL_KEY", "NULL_VALUE"}


@pytest.mark.soak
@pytest.mark.parametrize("made", [lookups, steps])
@pytest.mark.parametrize("name", FORMATS)
def test_the_driver_refuses_what_the_jobs_quarantine_in_every_format(
    made: Make, name: str, spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    topology = topology_of(name, made)
    driven, quarantined = both(spark, broker, tmp_path, topology, list(records_of(topology, 28, 200)))
    assert driven == quarantined
