"""Drawings of a topology: golden texts."""

from __future__ import annotations

from tests.topology.pipelines import declared

from lakestreams import EventTime, Json, Long, RegistryJson, StreamsBuilder, Text
from lakestreams.cli.check import in_words
from lakestreams.topology import validate
from lakestreams.topology.topology import Topology


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


# --- every shape -----------------------------------------------------------------------------------------------------


def function(*_):
    return {}


def every_shape() -> Topology:
    sources = declared("shapes")
    views, clicks = sources.views.map(function, name="mapped").repartition(6, name="spread"), sources.clicks
    merged = (
        clicks.merge(views, name="merged").flat_map_values(function, name="several").flat_map(function, name="many")
    )
    merged.outer_join(
        clicks, within="5 min", grace="1 s", rules="kafka", emit_unmatched="eager", name="window"
    ).to_delta("a")
    clicks.join(clicks, function, before="-3 s", after="10 s", name="itself").to_delta("b")
    clicks.left_join(sources.versioned, grace="1 min", name="as_of", co_partitioning="warn").to_delta("c")
    clicks.join(sources.users, right_on="plan", name="foreign").to_delta("d")
    views.left_join(sources.regions, left_on=function, name="mapped_key").to_delta("e")
    sources.users.outer_join(sources.versioned, name="tables").to_delta("f")
    sources.users.join(sources.plans, left_on=("plan", "the$region"), name="named").to_delta(
        "g", mode="changes", partition_by=["plan", "the$region"]
    )
    return sources.builder.build()


SHAPES = """\
Topology: shapes
  Sub-topology: 0
    Source: Views (stream, topic: Views)
      key text(user), value json(page string, region string)
      event time record, at most 86400000 ms ahead of ingest
      null values: quarantine, keys_not_null: off
      --> mapped
    Source: Clicks (stream, topic: Clicks)
      key text(user), value text(target)
      event time record, at most 86400000 ms ahead of ingest
      null values: quarantine, keys_not_null: off
      --> merged, window, itself, as_of, foreign
    Source: Users (table, topic: Users)
      key text(user), value json(region string, plan string)
      event time record, at most 86400000 ms ahead of ingest
      --> foreign, tables, named
    Source: Plans (table, topic: Plans)
      key text(plan), value text(price)
      event time record, at most 86400000 ms ahead of ingest
      --> named
    Source: Prices (table, topic: Prices)
      key text(user), value text(price)
      event time record, at most 86400000 ms ahead of ingest
      versioned, history 3600000 ms
      --> as_of, tables
    Source: Regions (global_table, topic: Regions)
      key text(region), value text(country)
      event time record, at most 86400000 ms ahead of ingest
      --> mapped_key
    Processor: mapped (map)
      <-- Views
      --> spread
    Processor: spread (repartition)
      partitions 6
      <-- mapped
      --> merged, mapped_key
    Processor: merged (merge)
      <-- Clicks, spread
      --> several
    Processor: several (flat_map_values)
      <-- merged
      --> many
    Processor: many (flat_map)
      <-- several
      --> window
    Processor: window (outer_join)
      stream-stream, outer
      before 300000 ms, after 300000 ms, grace 1000 ms
      rules kafka, unmatched eager, store persistent
      all columns of both sides, co_partitioning require
      <-- many, Clicks
      --> a
    Sink: a (delta, append)
      <-- window
    Processor: itself (join)
      stream-stream, inner
      before -3000 ms, after 10000 ms, grace 0 ms
      rules strict
      columns of the joiner, co_partitioning require
      <-- Clicks, Clicks
      --> b
    Sink: b (delta, append)
      <-- itself
    Processor: as_of (left_join)
      stream-table, left, lookup as_of, history 3600000 ms, grace 60000 ms
      all columns of both sides, co_partitioning warn
      <-- Clicks, Prices
      --> c
    Sink: c (delta, append)
      <-- as_of
    Processor: foreign (join)
      foreign-key stream-table, inner, right_on plan
      all columns of both sides
      <-- Clicks, Users
      --> d
    Sink: d (delta, append)
      <-- foreign
    Processor: mapped_key (left_join)
      stream-global, left, left_on (function)
      all columns of both sides
      <-- spread, Regions
      --> e
    Sink: e (delta, append)
      <-- mapped_key
    Processor: tables (outer_join)
      table-table, outer
      all columns of both sides, co_partitioning require
      <-- Users, Prices
      --> f
    Sink: f (delta, merge)
      <-- tables
    Processor: named (join)
      foreign-key table-table, inner, left_on plan, "the$region"
      all columns of both sides
      <-- Users, Plans
      --> g
    Sink: g (delta, changes)
      partition by plan, "the$region"
      <-- named"""


def test_every_shape_shows_its_options() -> None:
    assert every_shape().describe() == SHAPES


def test_every_shape_is_drawn_with_its_options() -> None:
    drawn = every_shape().mermaid().splitlines()
    for line in (
        'n7["spread<br/>repartition<br/>partitions 6"]',
        (
            'n11{"window<br/>outer_join<br/>stream-stream, outer<br/>before 300000 ms, after 300000 ms, grace 1000 ms<br/>'
            'rules kafka, unmatched eager, store persistent<br/>all columns of both sides, co_partitioning require"}'
        ),
        "n10 --> n11",
        (
            'n15{"as_of<br/>left_join<br/>stream-table, left, lookup as_of, history 3600000 ms, grace 60000 ms<br/>'
            'all columns of both sides, co_partitioning warn"}'
        ),
        "n4 -.-> n15",
        'n5[("Regions<br/>global_table")]',
        "n5 -.-> n19",
        (
            'n23{"named<br/>join<br/>foreign-key table-table, inner, left_on plan, #quot;the$region#quot;<br/>'
            'all columns of both sides"}'
        ),
        "n23 -.-> n24",
    ):
        assert f"    {line}" in drawn
    assert drawn.count("    n1 --> n13") == 2, "a stream that is joined with itself feeds both sides"


# --- groups and buffers ----------------------------------------------------------------------------------------------


def every_group() -> Topology:
    sources = declared("groups")
    regions = sources.views.group_by(function, name="by_region")
    counted = regions.windowed_by("5 min", advance="1 min", grace="10 s").count(name="per_region", emit="latest")
    counted.suppress("window_closes", max_records=1000, when_full="shutdown", name="final").to_delta("a")
    sources.clicks.group_by_key().reduce(function, name="newest").to_stream(name="changes").to_delta("b")
    users = sources.views.to_table(name="seen").suppress("5 s", name="calm")
    users.group_by(function).aggregate(function, name="per_plan", empty="delete").to_delta("c")
    return sources.builder.build()


GROUPS = """\
    Processor: by_region (select_key)
      <-- Views
      --> per_region
    Processor: per_region (count)
      grouped by key
      windows 300000 ms, advance 60000 ms, grace 10000 ms
      emit latest
      <-- by_region
      --> final
    Processor: final (suppress)
      until window closes, max_records 1000, when_full shutdown
      <-- per_region
      --> a
    Sink: a (delta, merge)
      <-- final
    Processor: seen (to_table)
      <-- Views
      --> calm
    Processor: calm (suppress)
      until 5000 ms
      <-- seen
      --> per_plan
    Processor: per_plan (aggregate)
      grouped by (function), re-keyed
      emit every_change, empty delete
      <-- calm
      --> c
    Sink: c (delta, merge)
      <-- per_plan
  Sub-topology: 1
    Source: Clicks (stream, topic: Clicks)
      key text(user), value text(target)
      event time record, at most 86400000 ms ahead of ingest
      null values: quarantine, keys_not_null: off
      --> newest
    Processor: newest (reduce)
      grouped by key
      emit every_change
      <-- Clicks
      --> changes
    Processor: changes (to_stream)
      <-- newest
      --> b
    Sink: b (delta, append)
      <-- changes"""


def test_groups_and_buffers_show_their_options() -> None:
    assert GROUPS in every_group().describe()


def test_groups_and_buffers_have_shapes_of_their_own() -> None:
    drawn = every_group().mermaid()
    for line in (
        '[["per_region<br/>count<br/>grouped by key<br/>windows 300000 ms, advance 60000 ms, grace 10000 ms<br/>emit latest"]]',
        '(["final<br/>suppress<br/>until window closes, max_records 1000, when_full shutdown"])',
        '[["per_plan<br/>aggregate<br/>grouped by (function), re-keyed<br/>emit every_change, empty delete"]]',
        '["changes<br/>to_stream"]',
    ):
        assert line in drawn


def test_the_text_says_where_records_get_another_key() -> None:
    """Where Kafka Streams cuts sub-topologies, the text names the step that re-keys."""
    sources = declared()
    views = sources.views.select_key(function, name="a").map(function, name="b").flat_map(function, name="c")
    views.repartition(3, name="d").to_delta("streams")
    sources.users.group_by(function).count(name="e").to_delta("tables")
    text = sources.builder.build().describe()
    for line in ("a (select_key)", "b (map)", "c (flat_map)", "d (repartition)", "grouped by (function), re-keyed"):
        assert line in text


def test_names_are_no_tags_of_mermaid() -> None:
    sources = declared()
    sources.views.filter(function, name='<img src="x">').to_delta("out")
    assert '["#lt;img src=#quot;x#quot;#gt;<br/>filter"]' in sources.builder.build().mermaid()


# --- the fingerprint -------------------------------------------------------------------------------------------------

WINDOW = {"within": "1 s", "name": "j"}
# what is declared over the sources of `declared()`; no two of them are the same topology
VARIANTS = {
    **{f"{verb} {options}": (verb, "views", "clicks", WINDOW | options) for verb, options in (
        ("join", {}), ("left_join", {}), ("outer_join", {}), ("join", {"within": "2 s"}), ("join", {"grace": "1 s"}),
        ("join", {"rules": "kafka"}), ("join", {"co_partitioning": "warn"}), ("left_join", {"emit_unmatched": "eager"}),
        ("outer_join", {"emit_unmatched": "eager"}), ("join", {"joiner": function}), ("join", {"name": "k"}),
    )},
    "before": ("join", "views", "clicks", {"before": "1 s", "name": "j"}),
    "after": ("join", "views", "clicks", {"after": "1 s", "name": "j"}),
    "turned round": ("join", "clicks", "views", WINDOW),
    "with itself": ("join", "views", "views", WINDOW),
    **{f"table {options}": ("join", "views", "users", {"name": "j"} | options) for options in (
        {}, {"co_partitioning": "off"}, {"right_on": "plan"}, {"right_on": "region"}, {"right_on": function},
        {"right_on": ("plan", "region")}, {"right_on": ("region", "plan")}, {"right_on": "plan, region"},
        {"right_on": "(function)"}, {"joiner": function},
    )},
    "table, left": ("left_join", "views", "users", {"name": "j"}),
    **{f"versioned {options}": ("join", "views", "versioned", {"name": "j"} | options)
       for options in ({}, {"grace": "0 s"}, {"grace": "1 s"})},
    **{f"global {options}": ("join", "views", "regions", {"name": "j"} | options)
       for options in ({"left_on": "page"}, {"left_on": "region"})},
    "tables": ("join", "users", "versioned", {"name": "j"}),
    "tables, outer": ("outer_join", "users", "versioned", {"name": "j"}),
    "foreign key": ("join", "users", "versioned", {"left_on": "plan", "name": "j"}),
    **{f"repartition {count}": ("repartition", "views", count, {"name": "j"}) for count in (1, 2)},
    **{f"{verb}": (verb, "views", function, {"name": "j"})
       for verb in ("map", "map_values", "flat_map", "flat_map_values", "select_key", "filter")},
    "merge": ("merge", "views", "clicks", {"name": "j"}),
    "merge turned round": ("merge", "clicks", "views", {"name": "j"}),
}  # fmt: skip


def described(case: str, **sink: object) -> str:
    sources = declared()
    verb, left, right, options = VARIANTS[case]
    other = getattr(sources, right) if isinstance(right, str) else right
    getattr(getattr(sources, left), verb)(other, **options).to_delta("out", **sink)
    return sources.builder.build().describe()


def test_unequal_topologies_have_unequal_descriptions() -> None:
    texts = {case: described(case) for case in VARIANTS}
    texts |= {f"sink {sink}": described("tables", **sink) for sink in (
        {"mode": "changes"}, {"cluster_by": ["a"]}, {"partition_by": ["a"]}, {"cluster_by": ["a", "b"]},
        {"cluster_by": ["a$b"]},
    )}  # fmt: skip
    first: dict[str, str] = {}
    for case, text in texts.items():
        assert first.setdefault(text, case) == case


def test_a_topic_says_what_it_gets_and_how_it_is_written() -> None:
    sources = declared()
    sources.views.to_kafka("views-again", key=Text("user"))
    sources.users.to_kafka("users-again", value=Json("plan string"))
    topology = sources.builder.build()
    lines = [line.strip() for line in topology.describe().splitlines()]
    for sink in (
        ["Sink: views-again (kafka, records, at least once)", "key text(user), value json(all columns)", "<-- Views"],
        [
            "Sink: users-again (kafka, changes, at least once)",
            "key json(all columns), value json(plan string)",
            "<-- Users",
        ],
    ):
        at = lines.index(sink[0])
        assert lines[at : at + 3] == sink
    assert '[("users-again<br/>to_kafka")]' in topology.mermaid()
    drawn = topology.svg({"users-again": 3})
    assert all(text in drawn for text in ("to_kafka, changes", "at least once", "3 partitions"))
    told = [line for line in in_words(topology.nodes) if line.endswith("with equal ids")]
    assert [line.partition(",")[0] for line in told] == [
        "views-again: Views written to the topic record by record",
        "users-again: Users written to the topic change by change",
    ]


# what is made of groups and told by buffers; no two of them are the same topology
GROUP_VARIANTS = {
    "count": lambda s: s.views.group_by_key().count(name="j"),
    "count, latest": lambda s: s.views.group_by_key().count(name="j", emit="latest"),
    "reduce": lambda s: s.views.group_by_key().reduce(function, name="j"),
    "aggregate": lambda s: s.views.group_by_key().aggregate(function, name="j"),
    "re-keyed": lambda s: s.views.group_by(function, name="k").count(name="j"),
    "of a table": lambda s: s.users.group_by(function).count(name="j"),
    "of a table, latest": lambda s: s.users.group_by(function).count(name="j", emit="latest"),
    "of a table, delete": lambda s: s.users.group_by(function).count(name="j", empty="delete"),
    "tumbling": lambda s: s.views.group_by_key().windowed_by("5 s").count(name="j"),
    "tumbling, 6 s": lambda s: s.views.group_by_key().windowed_by("6 s").count(name="j"),
    "tumbling, grace": lambda s: s.views.group_by_key().windowed_by("5 s", grace="1 s").count(name="j"),
    "hopping": lambda s: s.views.group_by_key().windowed_by("5 s", advance="1 s").count(name="j"),
    "to_table": lambda s: s.views.to_table(name="j"),
    "to_stream": lambda s: s.users.to_stream(name="j"),
    "suppress": lambda s: s.users.suppress("5 s", name="j"),
    "suppress, 6 s": lambda s: s.users.suppress("6 s", name="j"),
    "suppress, bounded": lambda s: s.users.suppress("5 s", max_records=10, name="j"),
    "suppress, less": lambda s: s.users.suppress("5 s", max_records=9, name="j"),
    "suppress, or stop": lambda s: s.users.suppress("5 s", max_records=10, when_full="shutdown", name="j"),
    **{f"final {options}": lambda s, options=options: (
        s.views.group_by_key().windowed_by("5 s").count(name="i").suppress(name="j", **options)
    ) for options in (
        {"until": "window_closes"}, {"until": "0 s"}, {"until": "window_closes", "max_records": 1, "when_full": "shutdown"},
    )},
}  # fmt: skip


def test_unequal_groups_and_buffers_have_unequal_descriptions() -> None:
    first: dict[str, str] = {}
    for case, made in GROUP_VARIANTS.items():
        sources = declared()
        made(sources).to_delta("out")
        assert first.setdefault(sources.builder.build().describe(), case) == case


def test_names_cannot_pass_for_other_nodes() -> None:
    """A join of `a, b` with c and one of a with `b, c` differ, and so do a name with a line break and two nodes."""
    texts = set()
    for left, right in (("a, b", "c"), ("a", "b, c")):
        sources = declared()
        sides = {name: sources.views.filter(function, name=name) for name in ("a, b", "c", "a", "b, c", 'x"\n    y')}
        sides[left].join(sides[right], within="1 s", name="j").to_delta("out")
        texts.add(sources.builder.build().describe())
    assert len(texts) == 2
    assert all(r'Processor: "x\"\n    y" (filter)' in text for text in texts)


# --- in words --------------------------------------------------------------------------------------------------------


def test_check_explains_every_node() -> None:
    from lakestreams.cli.check import in_words

    lines = dict(line.split(": ", 1) for line in in_words(every_shape().nodes))
    assert lines.keys() == {node.name for node in every_shape().nodes}
    assert lines["Regions"] == "topic Regions read as a global_table into bronze; parsed once: text(country)"
    assert lines["mapped"] == "Views, under a new key and with new values; time and order stay"
    assert lines["spread"] == "mapped, tasks by key hash over 6 partitions; no topic is made"
    assert lines["merged"] == "Clicks and spread, as one stream"
    assert lines["as_of"].startswith(
        "Clicks with Prices: stream-table left join, lookup as of event time within 3600000 ms"
    )
    assert "points wait 60000 ms" in lines["as_of"]
    assert lines["window"].startswith("many with Clicks: stream-stream outer join, 300000 ms before to 300000 ms after")
    assert lines["e"] == "mapped_key appended, one commit a cycle"
    assert lines["f"] == "tables merged by key, one commit a cycle"
    assert lines["g"] == "named appended change by change, one commit a cycle"


def test_check_tells_a_stream_that_is_merged_by_record() -> None:
    from lakestreams.cli.check import in_words

    sources = declared()
    sources.views.left_join(sources.users, amend="1 h", name="j").to_delta("out", mode="merge")
    assert in_words(sources.builder.build().nodes)[-1] == "out: j merged by record, one commit a cycle"


def test_check_tells_how_a_history_is_read_by_those_who_get_the_latest() -> None:
    from lakestreams.cli.check import in_words

    sources = declared()
    sources.versioned.left_join(sources.users, name="j").to_delta("out", mode="merge")
    joined = dict(line.split(": ", 1) for line in in_words(sources.builder.build().nodes))["j"]
    plain, _, of_history = joined.partition("; of ")
    assert "history" not in plain
    assert of_history.startswith(f"{sources.versioned.node.name}, a table with a history, versions that are the latest")
