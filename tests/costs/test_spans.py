"""Windows that hold many cycles of input are told; what a cycle brings is measured in `maintenance/test_maintain.py`."""

from __future__ import annotations

from tests.engine.jobs import JOBS

from lakestreams import Json, StreamsBuilder, Text
from lakestreams.costs import spans


def test_windows_that_hold_too_many_cycles_are_told() -> None:
    topology = JOBS["correlation"].build("Orders", "Payments")
    assert spans.warnings(topology, 2.2) == []
    (one,) = spans.warnings(topology, 2)
    assert one.startswith(
        "both: its windows and grace hold 220 ms, which is about 110 cycles' worth of input (a cycle "
    )
    builder = StreamsBuilder("clicks")
    counted = builder.stream("Clicks", key=Text("user"), value=Json("page string")).group_by_key()
    daily = counted.windowed_by("1 day", grace="1 hour").count(name="per_day")
    daily.suppress("12 hours", name="calm").to_delta("silver.clicks")
    found = spans.warnings(builder.build(), 60_000)
    assert [text.partition(",")[0] for text in found] == [
        "per_day: its windows and grace hold 25 hours",
        "calm: its buffers hold 12 hours",
    ]
