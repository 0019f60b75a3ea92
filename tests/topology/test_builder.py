"""The builder: topologies are values, names are derived, and every fault is reported at once."""

from __future__ import annotations

import dataclasses
from datetime import timedelta

import pytest

from lakestreams import EventTime, Json, Long, StreamsBuilder, Text
from lakestreams.errors import (
    DuplicateName,
    InvalidDuration,
    InvalidFormat,
    InvalidName,
    InvalidOption,
    MixedBuilders,
    NoOutput,
    TopologyInvalid,
    UnknownColumn,
    UnnamedNode,
    WrongKind,
    unfold,
)
from lakestreams.topology.durations import retention_ms, to_ms
from lakestreams.topology.endpoints import Source
from lakestreams.topology.graph import key_source, sources_of

KEY, VIEW, USER = Text("user"), Text("page"), Text("region")


def scenario(builder: StreamsBuilder | None = None, co_partitioning: str = "require", *, rekeyed: bool = False):
    builder = builder or StreamsBuilder("page_views")
    views = builder.stream("PageViews", key=KEY, value=VIEW)
    users = builder.table("UserProfiles", key=KEY, value=USER)
    if rekeyed:
        views = views.select_key(lambda view: {"user": view.page})
    views.left_join(users, name="enriched", co_partitioning=co_partitioning).to_delta("silver.enriched")
    return builder


def faults_of(builder: StreamsBuilder):
    with pytest.raises(TopologyInvalid) as caught:
        builder.build()
    return unfold(caught.value)


# --- values ----------------------------------------------------------------------------------------------------------


def test_a_topology_is_an_immutable_value() -> None:
    builder = scenario()
    topology = builder.build()
    with pytest.raises(dataclasses.FrozenInstanceError):
        topology.name = "other"  # type: ignore[misc]
    for node in topology.nodes:
        with pytest.raises(dataclasses.FrozenInstanceError):
            node.name = "other"
        with pytest.raises((dataclasses.FrozenInstanceError, AttributeError, TypeError)):
            del node.name
    before = topology.nodes
    builder.stream("Later", key=KEY, value=VIEW)
    assert topology.nodes is before, "what is declared after build() belongs to the next build()"
    assert len(topology.nodes) == 4
    assert len(builder.build().nodes) == 5


def test_handles_are_immutable_and_show_their_name() -> None:
    builder = StreamsBuilder("p")
    views = builder.stream("PageViews", key=KEY, value=VIEW)
    with pytest.raises(AttributeError):
        views.anything = 1  # type: ignore[attr-defined]
    assert repr(views) == "KStream('PageViews')"
    assert repr(builder.table("Users", key=KEY, value=USER)) == "KTable('Users')"


def test_equal_sources_are_equal_values() -> None:
    one, other = (scenario().build().sources for _ in range(2))
    assert one == other
    assert one[0] != dataclasses.replace(one[0], value=Text("other"))
    assert hash(one[0]) == hash(other[0])


def test_names_are_derived_from_verbs_and_inputs() -> None:
    builder = StreamsBuilder("p")
    views = builder.stream("PageViews", key=KEY, value=VIEW)
    users = builder.table("UserProfiles", key=KEY, value=USER)
    mapped = views.map_values(lambda view: {"page": view.page})
    kept = mapped.filter(lambda view: view.page.isNotNull())
    keyed = kept.select_key(lambda view: {"page": view.page})
    european = users.filter(lambda user: user.region == "eu").map_values(lambda user: {"r": user.region})
    names = [
        (mapped, "PageViews_map_values"),
        (kept, "PageViews_map_values_filter"),
        (keyed, "PageViews_map_values_filter_select_key"),
        (european, "UserProfiles_filter_map_values"),
        (views.join(users), "PageViews_join_UserProfiles"),
        (views.left_join(users), "PageViews_left_join_UserProfiles"),
        (views.left_join(users, name="enriched"), "enriched"),
        (builder.stream("topic", key=KEY, value=VIEW, name="mine"), "mine"),
    ]
    assert [handle.name for handle, _ in names] == [name for _, name in names]
    assert builder.name == "p"


def test_nodes_know_their_sources() -> None:
    topology = scenario(rekeyed=True).build()
    join = topology.joins[0]
    assert [source.name for source in sources_of(join)] == ["PageViews", "UserProfiles"]
    assert key_source(join) is None, "a re-keyed record lies in no source's partition"
    assert key_source(scenario().build().joins[0]) == topology.sources[0]
    assert [sink.name for sink in topology.sinks] == ["silver.enriched"]


def test_rows_that_a_re_keyed_right_side_can_cause_lie_in_no_sources_partition() -> None:
    builder = StreamsBuilder("sides")
    left, right = (builder.stream(name, key=KEY, value=VIEW) for name in "AB")
    table = builder.table("T", key=KEY, value=VIEW)
    moved = right.select_key(lambda one: {"page": one.page}, name="moved")
    rows = moved.to_table(name="rows")
    caused = [
        left.join(moved, within="1 s", name="window"),
        left.join(rows, wait="1 s", name="race"),
        table.join(rows, name="tables"),
    ]
    assert [key_source(one.node) for one in caused] == [None, None, None]
    looked_up = left.join(rows, name="lookup")
    assert key_source(looked_up.node) == left.node
    assert key_source(left.join(right, within="1 s", name="plain").node) == left.node


# --- faults at the call ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", [{"null_values": "drop"}, {"keys_not_null": "maybe"}])
def test_an_option_outside_its_choices_is_refused_where_it_is_written(option) -> None:
    with pytest.raises(InvalidOption, match="is none of") as caught:
        StreamsBuilder("p").stream("PageViews", key=KEY, value=VIEW, **option)
    assert caught.value.where == 'source "PageViews"'


def test_a_format_is_a_format() -> None:
    for side in ("key", "value"):
        given = {"key": KEY, "value": VIEW, side: "text"}
        with pytest.raises(InvalidFormat, match=f"{side}='text' is not a format"):
            StreamsBuilder("p").stream("PageViews", **given)


def test_streams_of_two_builders_do_not_join() -> None:
    views = StreamsBuilder("p").stream("PageViews", key=KEY, value=VIEW)
    users = StreamsBuilder("q").table("UserProfiles", key=KEY, value=USER)
    with pytest.raises(MixedBuilders, match="PageViews and UserProfiles"):
        views.join(users)


@pytest.mark.parametrize("verb", ["join", "left_join", "outer_join", "merge"])
def test_the_other_side_is_a_handle(verb: str) -> None:
    builder = StreamsBuilder("p")
    views = builder.stream("PageViews", key=KEY, value=VIEW)
    with pytest.raises(WrongKind, match=rf"PageViews.{verb}\(\) takes a KStream.*, not str"):
        getattr(views, verb)("UserProfiles")
    users = builder.table("UserProfiles", key=KEY, value=USER)
    if verb != "merge":
        with pytest.raises(WrongKind, match=rf"UserProfiles.{verb}\(\) takes a KTable, not NoneType"):
            getattr(users, verb)(None)


# --- faults at build() -----------------------------------------------------------------------------------------------


def test_every_fault_is_reported_at_once() -> None:
    builder = StreamsBuilder("page-views")
    views = builder.stream("Page Views", key=KEY, value=VIEW, event_time="ms")
    builder.stream("Clicks", key=KEY, value=Json("at string"), event_time="at")
    builder.table("UserProfiles", key=KEY, value=USER, name="")
    users = builder.table("Users", key=KEY, value=USER, name="users")
    views.map_values(lambda view: {"page": view.page}, name="users")
    builder.stream("Twice", key=KEY, value=VIEW, name="first")
    builder.stream("Twice", key=KEY, value=VIEW, name="second")
    joined = views.join(users, co_partitioning="sometimes")  # type: ignore[arg-type]
    joined.to_delta("silver.a b")
    joined.to_delta("a.b.c.d")
    joined.to_delta("silver.out", cluster_by=["user"], partition_by=["user"])
    joined.to_delta("silver.out")
    found = [(type(fault), fault.message) for fault in faults_of(builder)]
    assert found == [
        (InvalidName, "pipeline name 'page-views'"),
        (InvalidName, "topic name 'Page Views'"),
        (UnknownColumn, "event_time names 'ms', which the value lacks"),
        (InvalidOption, "event_time column 'at' is a string"),
        (UnnamedNode, "a table has no name"),
        (InvalidOption, "co_partitioning='sometimes' is none of require, warn, off"),
        (InvalidName, "table name 'silver.a b'"),
        (InvalidName, "table name 'a.b.c.d'"),
        (InvalidOption, "cluster_by and partition_by exclude each other"),
        (DuplicateName, "2 nodes are named 'users': table, map_values"),
        (DuplicateName, "2 nodes are named 'silver.out': to_delta, to_delta"),
        (DuplicateName, "topic 'Twice' is read by first, second"),
    ]


def test_the_report_names_pipeline_count_codes_and_pages() -> None:
    builder = StreamsBuilder("p")
    builder.stream("PageViews", key=KEY, value=VIEW, event_time="ms")
    with pytest.raises(TopologyInvalid) as caught:
        builder.build()
    text = str(caught.value)
    assert text.splitlines()[0] == "LS100 TOPOLOGY_INVALID   pipeline 'p': 2 faults"
    for part in ('LS105 UNKNOWN_COLUMN   stream "PageViews"', "LS109 NO_OUTPUT", "lakestreams explain LS105", "page"):
        assert part in text
    assert all(fault.hint for fault in caught.value.faults)


def test_a_single_fault_prints_as_itself() -> None:
    with pytest.raises(TopologyInvalid) as caught:
        StreamsBuilder("p").build()
    assert str(caught.value).startswith("LS109 NO_OUTPUT")
    assert [type(fault) for fault in unfold(caught.value)] == [NoOutput]


@pytest.mark.parametrize("name", ["", None])
def test_a_pipeline_has_a_name(name) -> None:
    faults = faults_of(scenario(StreamsBuilder(name)))
    assert [type(fault) for fault in faults] == [UnnamedNode]


def test_an_unnamed_join_or_output_is_reported() -> None:
    builder = StreamsBuilder("p")
    views = builder.stream("PageViews", key=KEY, value=VIEW)
    users = builder.table("UserProfiles", key=KEY, value=USER)
    views.join(users, name="").to_delta("")
    assert [(type(fault), fault.message) for fault in faults_of(builder)] == [
        (UnnamedNode, "a join has no name"),
        (UnnamedNode, "a to_delta has no name"),
    ]


@pytest.mark.parametrize(
    "name",
    ["9lives", "a b", "a-b", "a.b", "ä", "a;drop", "a'", "a`b", "a/b", "../a", "a\n",
     "x" * 129],
    ids=repr,
)  # fmt: skip
def test_pipeline_names_that_tables_cannot_carry(name: str) -> None:
    assert [type(fault) for fault in faults_of(scenario(StreamsBuilder(name)))] == [InvalidName]


@pytest.mark.parametrize(
    "name",
    ["a..b", ".a", "a.", "a b", "a/b", "../x", "a;b", "1a", "a.b\n"],
    ids=repr,
)
def test_output_names_that_tables_cannot_carry(name: str) -> None:
    builder = StreamsBuilder("p")
    builder.stream("PageViews", key=KEY, value=VIEW).to_delta(name)
    assert [type(fault) for fault in faults_of(builder)] == [InvalidName]


@pytest.mark.parametrize("name", ["a", "silver.a", "main.silver.a", "_x.Y_1"])
def test_output_names_of_one_to_three_parts(name: str) -> None:
    builder = StreamsBuilder("p")
    builder.stream("Page.Views-1_x", key=KEY, value=VIEW).to_delta(name)
    assert builder.build().sinks[0].name == name


@pytest.mark.parametrize(
    "topic",
    [
        "",
        ".",
        "a\n",
        *("a b", "a/b", "x" * 250, "ä"),
    ],
    ids=lambda name: repr(name[:5]),
)
def test_topic_names_that_kafka_refuses(topic: str) -> None:
    builder = StreamsBuilder("p")
    builder.stream(topic, key=KEY, value=VIEW, name="views").to_delta("out")
    assert [type(fault) for fault in faults_of(builder)] == [InvalidName]


@pytest.mark.parametrize(
    ("column", "fits"),
    [("bigint", True), ("long", True), ("int", True), ("timestamp", True),
     ("string", False), ("date", False), ("double", False), ("timestamp_ntz", False), ("struct<x: bigint>", False)],
)  # fmt: skip
def test_event_time_is_a_number_or_a_timestamp(column: str, fits: bool) -> None:
    builder = StreamsBuilder("p")
    builder.stream("PageViews", key=KEY, value=Json(f"at {column}"), event_time=EventTime("at")).to_delta("out")
    if fits:
        assert builder.build().sources[0].event_time == EventTime("at")
    else:
        assert [type(fault) for fault in faults_of(builder)] == [InvalidOption]


def test_one_topic_twice_is_one_fault_under_one_name_and_under_two() -> None:
    for names in (("PageViews", "PageViews"), ("a", "b")):
        builder = StreamsBuilder("p")
        for name in names:
            builder.stream("PageViews", key=KEY, value=VIEW, name=name).to_delta(f"out_{len(builder._nodes)}")
        assert [type(fault) for fault in faults_of(builder)] == [DuplicateName]


# --- durations -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("10 minutes", 600_000), ("1 minute", 60_000), ("1m", 60_000), ("5min", 300_000), ("250 ms", 250),
        ("250ms", 250), ("1 millisecond", 1), ("2 milliseconds", 2), ("1.5 s", 1_500), ("3 sec", 3_000),
        ("2 secs", 2_000), ("1 second", 1_000), ("2 h", 7_200_000), ("1 hour", 3_600_000), ("1 day", 86_400_000),
        ("7 days", 604_800_000), ("1d", 86_400_000), ("0 s", 0), ("  5   Minutes ", 300_000), ("0.001 s", 1),
        (timedelta(minutes=10), 600_000), (timedelta(0), 0), (timedelta(microseconds=1000), 1),
        (timedelta(days=100_000), 8_640_000_000_000),
    ],
    ids=repr,
)  # fmt: skip
def test_durations(text, ms: int) -> None:
    assert to_ms(text) == ms


@pytest.mark.parametrize(
    "text",
    ["", "10", "minutes", "-1 s", "ten minutes", "1 month", "1 fortnight", "1 s 2 s", "1,5 s", "0.5 ms", "1e3 s",
     "1 µs", "inf s", "nan s", None, 10, 1.5, timedelta(microseconds=1), timedelta(seconds=-1)],
    ids=repr,
)  # fmt: skip
def test_what_is_no_duration(text) -> None:
    with pytest.raises(InvalidDuration, match="max_future"):
        to_ms(text, "max_future")


@pytest.mark.parametrize(
    "text",
    ["1000001 days", "-1000001 days", "99999999999999999999999 days", "9223372036854775808 ms",
     timedelta(days=1_000_001), timedelta(days=999_999_999)],
    ids=repr,
)  # fmt: skip
def test_a_duration_is_no_longer_than_times_can_be(text) -> None:
    with pytest.raises(InvalidDuration, match="1,000,000 days"):
        to_ms(text, "before", signed=True)


@pytest.mark.parametrize(
    ("text", "ms"),
    [("-3 s", -3_000), (" -250ms", -250), ("-1.5 minutes", -90_000), ("0 s", 0), ("3 s", 3_000),
     (timedelta(seconds=-3), -3_000), (timedelta(milliseconds=-1), -1)],
    ids=repr,
)  # fmt: skip
def test_signed_durations(text, ms: int) -> None:
    assert to_ms(text, "before", signed=True) == ms


@pytest.mark.parametrize("text", ["- 3 s", "--3 s", "+3 s", "-0.5 ms", "-", timedelta(microseconds=-1)], ids=repr)
def test_what_is_no_signed_duration(text) -> None:
    with pytest.raises(InvalidDuration, match="before"):
        to_ms(text, "before", signed=True)


@pytest.mark.parametrize("text", ["6M", "6 M", " 6Ms"])
def test_a_capital_m_may_mean_months(text) -> None:
    with pytest.raises(InvalidDuration, match="may mean months") as refused:
        to_ms(text, "bronze_retention")
    assert "minutes are m or min" in refused.value.hint


@pytest.mark.parametrize(("text", "ms"), [("2D", 172_800_000), ("2H", 7_200_000), ("2S", 2_000), ("2 MIN", 120_000)])
def test_other_capitals_can_mean_one_thing_only(text, ms: int) -> None:
    assert to_ms(text) == ms


def test_what_is_trimmed_does_not_come_back_so_a_short_retention_is_refused() -> None:
    assert [retention_ms(text, "--retention") for text in ("0 ms", "1h", "30d")] == [0, 3_600_000, 2_592_000_000]
    for text in ("6m", "59 minutes", "1 ms"):
        with pytest.raises(InvalidDuration, match=f"--retention '{text}' is shorter than an hour"):
            retention_ms(text, "--retention")


def test_decimal_fractions_of_a_unit_are_exact() -> None:
    assert [to_ms(f"{ms / 1000:.3f} s") for ms in range(1, 3000)] == list(range(1, 3000))


def test_max_future_is_a_duration() -> None:
    source = StreamsBuilder("p").stream("PageViews", key=KEY, value=VIEW, max_future="2 hours").node
    assert isinstance(source, Source)
    assert source.max_future_ms == 7_200_000
    with pytest.raises(InvalidDuration, match="max_future 'soon'"):
        StreamsBuilder("p").table("UserProfiles", key=Long("id"), value=USER, max_future="soon")


def test_one_column_alone_may_lay_a_table_out() -> None:
    builder = StreamsBuilder("p")
    views = builder.stream("PageViews", key=Text("user"), value=Text("page"))
    views.to_delta("one", cluster_by="user")
    views.to_table(name="t").to_delta("two", partition_by="user")
    one, two = builder.build().sinks
    assert (one.cluster_by, two.partition_by) == (("user",), ("user",))
