"""Which partitions hold others back under `settling: event_time`; no Spark."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from lakestreams import StreamsBuilder, Text
from lakestreams.engine import settling
from lakestreams.engine.ingest.position import BronzePosition
from lakestreams.engine.ledger.plans import Ingest, Range
from lakestreams.engine.runtime.settings import RunSettings
from lakestreams.kafka.cluster_view import ClusterView
from lakestreams.kafka.noted import Noted

if TYPE_CHECKING:
    from lakestreams.engine.ledger.last_cycle import LastCycle
    from lakestreams.engine.run import Run


def test_a_partition_without_any_readable_record_holds_nothing_back() -> None:
    """It has an end, as a transaction that was given up leaves it, or a compacted topic, an empty Delta table, or bad records."""
    builder = StreamsBuilder("p")
    for topic in ("views", "other"):
        builder.stream(topic, key=Text("user"), value=Text("page")).to_delta(f"silver.{topic}")
    settings = RunSettings(kafka={}, settling="event_time", idle_timeout_ms=60_000)
    run = cast("Run", SimpleNamespace(settings=settings, topology=builder.build(), now_ms=lambda: 100_000))
    views, other = ("views", 0), ("other", 0)
    view = ClusterView({views: 1, other: 2}, {views: 0, other: 0})
    bronze = BronzePosition(cast("LastCycle", SimpleNamespace(plan=None)), Noted())

    def held() -> frozenset[tuple[str, int]]:
        frontier = settling.frontier_of(run, bronze, view)
        assert frontier is not None
        return frontier.partitions

    assert held() == {views, other}, "nobody has read them yet"
    bronze.add(Ingest(1, 1, (Range(*views, 0, 1, records=1, stream_time_ms=5), Range(*other, 0, 2))), 90_000)
    assert held() == {views}
    unreadable = Range(*other, 2, 2, records=1, bad=1)
    bronze.add(Ingest(2, 2, (Range(*views, 1, 1, stream_time_ms=5), unreadable)), 90_000)
    assert held() == {views}, "it would hold back all others, and itself, so that quarantine never had it"
    bronze.add(Ingest(3, 3, (Range(*views, 1, 1, stream_time_ms=5), replace(unreadable, stream_time_ms=6))), 90_000)
    assert held() == {views, other}
