"""Small pipelines that the tests of this room share."""

from __future__ import annotations

from dataclasses import dataclass

from lakestreams import GlobalKTable, Json, KStream, KTable, StreamsBuilder, Text


@dataclass(frozen=True)
class Declared:
    """One source of each kind, and a builder that holds them."""

    builder: StreamsBuilder
    views: KStream
    clicks: KStream
    users: KTable
    plans: KTable
    versioned: KTable
    regions: GlobalKTable


def declared(name: str = "p") -> Declared:
    builder = StreamsBuilder(name)
    key = Text("user")
    return Declared(
        builder,
        views=builder.stream("Views", key=key, value=Json("page string, region string")),
        clicks=builder.stream("Clicks", key=key, value=Text("target")),
        users=builder.table("Users", key=key, value=Json("region string, plan string")),
        plans=builder.table("Plans", key=Text("plan"), value=Text("price")),
        versioned=builder.table("Prices", key=key, value=Text("price"), as_of=True, history="1 hour"),
        regions=builder.global_table("Regions", key=Text("region"), value=Text("country")),
    )
