"""Drawings of a topology: golden texts."""

from __future__ import annotations

from lakestreams import EventTime, Json, Long, RegistryJson, StreamsBuilder, Text
from lakestreams.topology import validate
from lakestreams.topology.builder import Topology


def two_parts() -> Topology:
    builder = StreamsBuilder("page_views")
    views = builder.stream(
        "PageViews", key=Text("user"), value=Json("ms bigint, page string"), event_time="ms", max_future="1 hour",
        null_values="ignore", keys_not_null="warn",
    )  # fmt: skip
    users = builder.table("UserProfiles", key=Text("user"), value=Text("region"))
    known = users.filter(lambda user: user.region.isNotNull(), name="known")
    enriched = views.left_join(known, name="enriched")
    enriched.to_delta("silver.enriched", cluster_by=["user", "page"])
    views.join(known, name="strict", co_partitioning="off").to_delta("silver.strict", partition_by=["user"])
    clicks = builder.stream(
        "Clicks", key=Long("id"), value=RegistryJson("at timestamp"), event_time=EventTime("at", fallback=False)
    )
    clicks.select_key(lambda click: {"at": click["at"]}).to_delta("silver.clicks")
    return builder.build()


TEXT = """\
Topology: page_views
  Sub-topology: 0
    Source: PageViews (stream, topic: PageViews)
      key text(user), value json(ms bigint, page string)
      event time field(ms, record), at most 3600000 ms ahead of ingest
      null values: ignore, keys_not_null: warn
      --> enriched, strict
    Source: UserProfiles (table, topic: UserProfiles)
      key text(user), value text(region)
      event time record, at most 86400000 ms ahead of ingest
      --> known
    Processor: known (filter)
      <-- UserProfiles
      --> enriched, strict
    Processor: enriched (left_join)
      stream-table, left, lookup latest
      all columns of both sides, co_partitioning require
      <-- PageViews, known
      --> silver.enriched
    Sink: silver.enriched (delta, append)
      cluster by user, page
      <-- enriched
    Processor: strict (join)
      stream-table, inner, lookup latest
      all columns of both sides, co_partitioning off
      <-- PageViews, known
      --> silver.strict
    Sink: silver.strict (delta, append)
      partition by user
      <-- strict
  Sub-topology: 1
    Source: Clicks (stream, topic: Clicks)
      key long(id), value registry_json(at timestamp)
      event time field(at), at most 86400000 ms ahead of ingest
      null values: quarantine, keys_not_null: off
      --> Clicks_select_key
    Processor: Clicks_select_key (select_key)
      <-- Clicks
      --> silver.clicks
    Sink: silver.clicks (delta, append)
      <-- Clicks_select_key"""

MERMAID = """\
flowchart LR
    n0[("PageViews<br/>stream")]
    n1[("UserProfiles<br/>table")]
    n2["known<br/>filter"]
    n1 -.-> n2
    n3{"enriched<br/>left_join<br/>stream-table, left, lookup latest<br/>all columns of both sides, co_partitioning require"}
    n0 --> n3
    n2 -.-> n3
    n4[("silver.enriched<br/>to_delta")]
    n3 --> n4
    n5{"strict<br/>join<br/>stream-table, inner, lookup latest<br/>all columns of both sides, co_partitioning off"}
    n0 --> n5
    n2 -.-> n5
    n6[("silver.strict<br/>to_delta")]
    n5 --> n6
    n7[("Clicks<br/>stream")]
    n8["Clicks_select_key<br/>select_key"]
    n7 --> n8
    n9[("silver.clicks<br/>to_delta")]
    n8 --> n9"""


def test_the_text_names_each_node_with_what_feeds_it() -> None:
    assert two_parts().describe() == TEXT


def test_the_flowchart() -> None:
    assert two_parts().mermaid() == MERMAID


def test_parts_that_a_later_join_connects_are_one_sub_topology() -> None:
    builder = StreamsBuilder("p")
    one = builder.stream("A", key=Text("k"), value=Text("a"))
    other = builder.stream("B", key=Text("k"), value=Text("b"))
    table = builder.table("T", key=Text("k"), value=Text("t"))
    other.map_values(lambda b: {"b": b.b}, name="b_mapped").to_delta("out_b")
    one.join(table).to_delta("out_a")
    other.join(table).to_delta("out_c")
    assert builder.build().describe().count("Sub-topology") == 1


def test_equal_topologies_have_equal_descriptions() -> None:
    assert two_parts().describe() == two_parts().describe()
    assert validate.structure("page_views", two_parts().nodes) == []
