"""`why` says of a record that met no row of a table which row of its key came too late; without Spark."""

from __future__ import annotations

from typing import Any

import pytest

from lakestreams import Json, StreamsBuilder, Text
from lakestreams.topology.topology import Topology
from lakestreams.verify.following import missed
from lakestreams.verify.trace import Trace

JUNE, NOVEMBER = 1_780_000_000_000, 1_795_000_000_000


def topology(*, is_keyed_anew: bool = False) -> Topology:
    builder = StreamsBuilder("telemetry")
    readings = builder.stream("readings", key=Text("device"), value=Json("owner string, value double"))
    if is_keyed_anew:
        readings = readings.select_key(lambda row: {"device": row.owner})
    devices = builder.table("devices", key=Text("device"), value=Json("site string"))
    readings.left_join(devices).to_delta("silver.located")
    return builder.build()


def fate(topic: str, at: int, offset: int = 0, *, key: str = "d1", kind: str | None = None) -> Trace:
    rows: list[dict[str, Any]] = [] if kind is None else [{"output": "silver.located", "_lineage": {"kind": kind}}]
    return Trace(topic, 0, offset, 0, 1, key, "{}", at, 1, results=rows)


@pytest.mark.parametrize(
    ("rows", "kind", "is_keyed_anew", "told"),
    [
        ([fate("devices", NOVEMBER)], "unmatched", False, "devices-0@0 is the first of its key"),
        (
            [fate("devices", NOVEMBER, 4), fate("devices", NOVEMBER + 1, 3)],
            "unmatched",
            False,
            "devices-0@4 is the first",
        ),
        ([fate("devices", JUNE - 1), fate("devices", NOVEMBER, 1)], "unmatched", False, ""),  # it was deleted, say
        ([fate("devices", NOVEMBER)], "matched", False, ""),
        ([fate("devices", NOVEMBER, key="d2")], "unmatched", False, ""),
        ([fate("devices", NOVEMBER)], "unmatched", True, ""),  # it was looked up by another key
        ([], "unmatched", False, ""),
    ],
)
def test_the_row_that_came_too_late_is_named(rows: list[Trace], kind: str, is_keyed_anew: bool, told: str) -> None:
    reading = fate("readings", JUNE, kind=kind)
    missed(topology(is_keyed_anew=is_keyed_anew), [reading, *rows])
    sentences = (
        [f"met no row of devices: {told}, at {NOVEMBER}, later than this record"] if told.endswith("key") else []
    )
    if told.endswith("first"):
        assert told in reading.sentences[0]
    else:
        assert reading.sentences == sentences
    assert not [one for row in rows for one in row.sentences]
