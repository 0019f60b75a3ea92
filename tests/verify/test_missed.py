"""`why` says of a record that met no row of a table which row of its key came too late; without Spark."""

from __future__ import annotations

from typing import Any

import pytest

from lakestreams import Json, StreamsBuilder, Text
from lakestreams.engine.ledger.plans import History, Plan
from lakestreams.topology.topology import Topology
from lakestreams.verify import why
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


def test_no_row_is_named_that_the_record_came_behind_or_did_meet() -> None:
    def sentences(reading: Trace, *rows: Trace, cut: tuple[str, ...] = ()) -> list[str]:
        missed(topology(), [reading, *rows], cut)
        return reading.sentences

    late = fate("readings", JUNE, kind="unmatched")
    late.stream_time_ms = NOVEMBER + 9  # its row was there before it, and was deleted
    there, deleted = fate("devices", NOVEMBER), fate("devices", NOVEMBER + 1, 1)
    there.stream_time_ms, deleted.stream_time_ms = NOVEMBER, NOVEMBER + 1
    assert sentences(late, there, deleted) == []

    made_of = [{"source": "readings"}, {"source": "devices"}]  # unmatched in a later join
    met = fate("readings", JUNE)
    met.results = [{"output": "silver.located", "_lineage": {"kind": "unmatched", "contributors": made_of}}]
    assert sentences(met, fate("devices", NOVEMBER)) == []

    assert sentences(fate("readings", JUNE, kind="unmatched"), fate("devices", NOVEMBER), cut=("devices",)) == []

    refused = fate("devices", JUNE + 1)
    refused.sentences = ["is in quarantine by devices: MALFORMED_VALUE, no JSON"]
    told = sentences(fate("readings", JUNE, kind="unmatched"), refused, fate("devices", NOVEMBER, 1))
    assert told == [
        f"met no row of devices: devices-0@1 is the first of its key, at {NOVEMBER}, later than this record"
    ]


def test_the_first_record_of_a_key_is_not_known_behind_a_trim_nor_of_a_key_with_very_many() -> None:
    few = [fate("devices", NOVEMBER, place) for place in range(3)]
    many = [fate("readings", NOVEMBER, place) for place in range(why._MOST)]
    assert why._cut(topology(), History(), few) == []
    assert why._cut(topology(), History(), [*few, *many]) == ["readings"]
    trimmed = History(trim=Plan(1, "f", (), {}, 1, 1))
    assert why._cut(topology(), trimmed, few) == ["readings", "devices"]
