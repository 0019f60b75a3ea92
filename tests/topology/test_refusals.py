"""What is refused: at the call where no node can be made of it, else at build(), all at once."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.topology.pipelines import declared

from lakestreams import ConnectJson, DebeziumJson, Json, Long, RegistryJson, StreamsBuilder, Text
from lakestreams.errors import (
    InvalidDuration,
    InvalidOption,
    MixedBuilders,
    OwnTopic,
    TopologyInvalid,
    WrongKind,
    unfold,
)
from lakestreams.topology import validate
from lakestreams.topology.endpoints import DeltaSink, KafkaSink
from lakestreams.topology.joins import ForeignKeyJoin, TableTableJoin, WindowedJoin
from lakestreams.topology.lookups import ForeignKeyStreamJoin, StreamGlobalJoin, StreamTableJoin
from lakestreams.topology.steps import Filter, FlatMap, FlatMapValues, Map, MapValues, Merge, Repartition, SelectKey


def function(*_):
    return {}


# --- at the call -----------------------------------------------------------------------------------------------------

WINDOWED = "after, before, co_partitioning, grace, rules, within"
OUTER_WINDOWED = "after, before, co_partitioning, emit_unmatched, grace, rules, within"

# the call, the error, its message, its hint
CALLS = [
    # a window is needed, once
    (lambda s: s.views.join(s.clicks), InvalidOption, "a join of two streams needs a window",
     'within="5 minutes", or before= and after= (either alone leaves the other 0)'),
    (lambda s: s.views.join(s.clicks, grace="1 s"), InvalidOption, "a join of two streams needs a window", None),
    (lambda s: s.views.join(s.clicks, within="1 s", before="1 s"), InvalidOption,
     "within= sets both bounds, and before= contradicts it", "give within=, or before= and after="),
    (lambda s: s.views.join(s.clicks, within="1 s", before="1 s", after="1 s"), InvalidOption,
     "within= sets both bounds, and before= and after= contradicts it", None),
    (lambda s: s.views.join(s.clicks, within="-1 s"), InvalidDuration,
     "within '-1 s' must be zero or more, in whole milliseconds", None),
    (lambda s: s.views.join(s.clicks, within=5), InvalidDuration, "within 5 is not a duration", None),
    (lambda s: s.views.join(s.clicks, before="soon"), InvalidDuration, "before 'soon' is not a duration", None),
    (lambda s: s.views.join(s.clicks, before="0.5 ms"), InvalidDuration,
     "before '0.5 ms' must be in whole milliseconds", None),
    (lambda s: s.views.join(s.clicks, within="1 s", grace="-1 s"), InvalidDuration,
     "grace '-1 s' must be zero or more, in whole milliseconds", None),
    (lambda s: s.views.join(s.versioned, grace="-1 s"), InvalidDuration,
     "grace '-1 s' must be zero or more, in whole milliseconds", None),
    # options of other joins
    (lambda s: s.views.join(s.clicks, within="1 s", left_on="page"), InvalidOption,
     "left_on='page' is no option of this join, which is a stream-stream join",
     f"it takes {WINDOWED}; left_on= is of stream-global and foreign-key table-table joins"),
    (lambda s: s.views.join(s.clicks, within="1 s", right_on="page"), InvalidOption,
     "right_on='page' is no option of this join, which is a stream-stream join",
     f"it takes {WINDOWED}; right_on= is of foreign-key stream-table joins"),
    (lambda s: s.views.join(s.clicks, within="1 s", emit_unmatched="eager"), InvalidOption,
     "emit_unmatched='eager' is no option of this join, which is an inner stream-stream join", f"it takes {WINDOWED}"),
    (lambda s: s.views.left_join(s.clicks, within="1 s", wait="1 s"), InvalidOption,
     "wait='1 s' is no option of this join, which is a stream-stream join",
     f"it takes {OUTER_WINDOWED}; wait= is of stream-table joins"),
    (lambda s: s.views.outer_join(s.clicks, withn="1 s"), InvalidOption,
     "withn='1 s' is no option of this join, which is a stream-stream join",
     f"did you mean within=? it takes {OUTER_WINDOWED}"),
    (lambda s: s.views.left_join(s.users, within="1 s"), InvalidOption,
     "within='1 s' is no option of this join, which is a stream-table join",
     "it takes amend, co_partitioning, grace, wait; right_on= makes it a foreign-key one; within= is of stream-stream joins"),
    (lambda s: s.views.join(s.users, left_on="region"), InvalidOption,
     "left_on='region' is no option of this join, which is a stream-table join",
     "it takes co_partitioning, grace, wait; right_on= makes it a foreign-key one; left_on= is of stream-global and foreign-key table-table joins; to look up by another column, give the stream that key first: select_key"),
    (lambda s: s.views.join(s.users, amend=True), InvalidOption,
     "amend=True is no option of this join, which is an inner stream-table join",
     "it takes co_partitioning, grace, wait; right_on= makes it a foreign-key one"),
    (lambda s: s.views.join(s.users, right_on="plan", grace="1 s"), InvalidOption,
     "grace='1 s' is no option of this join, which is a foreign-key stream-table join",
     "it takes right_on; grace= is of stream-stream and stream-table joins"),
    (lambda s: s.views.join(s.users, right_on="plan", co_partitioning="off"), InvalidOption,
     "co_partitioning='off' is no option of this join, which is a foreign-key stream-table join",
     "it takes right_on; co_partitioning= is of stream-stream and stream-table and table-table joins"),
    (lambda s: s.views.join(s.regions, left_on="region", grace="1 s"), InvalidOption,
     "grace='1 s' is no option of this join, which is a stream-global join", None),
    (lambda s: s.views.join(s.regions, left_on="region", co_partitioning="off"), InvalidOption,
     "co_partitioning='off' is no option of this join, which is a stream-global join", None),
    (lambda s: s.users.join(s.versioned, grace="1 s"), InvalidOption,
     "grace='1 s' is no option of this join, which is a table-table join",
     "it takes co_partitioning; left_on= makes it a foreign-key one; grace= is of stream-stream and stream-table joins"),
    (lambda s: s.users.join(s.versioned, right_on="price"), InvalidOption,
     "right_on='price' is no option of this join, which is a table-table join", None),
    (lambda s: s.users.join(s.plans, left_on="plan", within="1 s"), InvalidOption,
     "within='1 s' is no option of this join, which is a foreign-key table-table join",
     "it takes left_on; within= is of stream-stream joins"),
    # what the keys are
    (lambda s: s.views.join(s.regions), InvalidOption, "a stream-global join needs left_on=",
     'left_on="column", left_on=("one", "two") or a function from the fields to a Column or a dict of name to Column'),
    (lambda s: s.views.left_join(s.regions, left_on=()), InvalidOption,
     "left_on=() names no columns and is not a function", None),
    (lambda s: s.users.join(s.plans, left_on=""), InvalidOption, "left_on='' names no columns and is not a function",
     None),
    (lambda s: s.users.join(s.plans, left_on=["plan", 1]), InvalidOption,
     "left_on=['plan', 1] names no columns and is not a function", None),
    (lambda s: s.views.join(s.users, right_on=7), InvalidOption, "right_on=7 names no columns and is not a function",
     'right_on="column", right_on=("one", "two") or a function from the fields to a Column or a dict of name to Column'),
    (lambda s: s.views.join(s.clicks, dict.__or__, "5 minutes"), InvalidOption,
     "the third argument of a join has no name; by place it takes the other side and a joiner",
     'give options by name, such as within="5 minutes" or left_on="column"'),
    (lambda s: s.users.left_join(s.plans, lambda row: row.plan, dict.__or__), InvalidOption,
     "the third argument of a join has no name; by place it takes the other side and a joiner", None),
    (lambda s: s.views.outer_join(s.clicks, dict.__or__, "5 minutes"), InvalidOption,
     "the third argument of a join has no name; by place it takes the other side and a joiner", None),
    (lambda s: s.users.outer_join(s.plans, dict.__or__, "5 minutes"), InvalidOption,
     "the third argument of a join has no name; by place it takes the other side and a joiner", None),
    (lambda s: s.views.left_join(s.users, lambda key, left, right: {**key, **left, **right}), InvalidOption,
     "the joiner cannot be called with two arguments, the fields of both sides", "write lambda left, right: {...}; keys are fields, too"),
    (lambda s: s.views.map_values(lambda key, value: {**key, **value}), InvalidOption,
     "the function cannot be called with one argument, the record's fields", None),
    (lambda s: s.views.join(s.clicks, "5 minutes"), InvalidOption, "the joiner '5 minutes' is not a function", None),
    (lambda s: s.views.filter("page is not null"), InvalidOption, "'page is not null' is not a function",
     'give a function of the record\'s fields, such as lambda row: row.page != "/b"; in YAML files steps take SQL'),
    (lambda s: s.users.map_values("plan"), InvalidOption, "'plan' is not a function", None),
    (lambda s: s.views.flat_map_values(None), InvalidOption, "None is not a function", None),
    # joins that there are not
    (lambda s: s.views.outer_join(s.users), WrongKind, "there is no outer stream-table join",
     "use an inner or left join: join(...), left_join(...)"),
    (lambda s: s.views.outer_join(s.users, right_on="plan"), WrongKind,
     "there is no outer foreign-key stream-table join", None),
    (lambda s: s.views.outer_join(s.regions, left_on="region"), WrongKind, "there is no outer stream-global join", None),
    (lambda s: s.users.outer_join(s.plans, left_on="plan"), WrongKind,
     "there is no outer foreign-key table-table join", None),
    (lambda s: s.users.join(s.regions, left_on="region"), WrongKind,
     "Users is a table, Regions a global table; a global table joins streams only",
     "declare Regions with table(...), and name its key with left_on= where it is not Users's own"),
    (lambda s: s.users.left_join(s.views), WrongKind, "Users is a table, Views a stream; a table joins tables only",
     "start from the stream: Views joined with Users"),
    (lambda s: s.views.merge(s.users), WrongKind, "Users is a table; streams merge with streams", None),
    (lambda s: s.views.merge(s.regions), WrongKind, "Regions is a table; streams merge with streams", None),
    # sources
    (lambda s: s.builder.table("T", key=Text("k"), value=Text("v"), history="1 day"), InvalidOption,
     "history='1 day' without as_of=True: only a versioned table keeps one", "add as_of=True, or leave history out"),
    (lambda s: s.builder.table("T", key=Text("k"), value=Text("v"), as_of=True, history="-1 s"), InvalidDuration,
     "history '-1 s' must be zero or more, in whole milliseconds", None),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "message", "hint"), CALLS, ids=[row[2] for row in CALLS])
def test_a_call_that_makes_no_node(call, error: type, message: str, hint: str | None) -> None:
    sources = declared()
    before = len(sources.builder._nodes)
    with pytest.raises(error) as caught:
        call(sources)
    assert type(caught.value) is error
    assert caught.value.message == message
    assert caught.value.hint == hint or hint is None
    assert len(sources.builder._nodes) == before, "a refused call leaves no node behind"


def test_a_refused_join_is_named() -> None:
    sources = declared()
    with pytest.raises(InvalidOption) as caught:
        sources.views.left_join(sources.users, within="1 s")
    assert caught.value.where == 'left_join "Views_left_join_Users"'
    with pytest.raises(WrongKind) as wrong:
        sources.views.outer_join(sources.users, name="mine")
    assert wrong.value.where == 'outer_join "mine"'


@pytest.mark.parametrize("verb", ["join", "left_join", "outer_join", "merge"])
def test_both_sides_are_of_one_builder(verb: str) -> None:
    with pytest.raises(MixedBuilders, match="Views and Clicks"):
        getattr(declared().views, verb)(declared().clicks)
    if verb != "merge":
        with pytest.raises(MixedBuilders, match="Users and Plans"):
            getattr(declared().users, verb)(declared().plans)


def test_a_global_table_has_no_joins_and_no_output() -> None:
    regions = declared().regions
    for verb in ("join", "left_join", "outer_join", "to_delta", "select_key"):
        assert not hasattr(regions, verb)


# --- at build() ------------------------------------------------------------------------------------------------------

S = declared()
VIEWS, CLICKS, USERS, PLANS, REGIONS, VERSIONED = (
    handle.node for handle in (S.views, S.clicks, S.users, S.plans, S.regions, S.versioned)
)
WINDOW = WindowedJoin("j", VIEWS, CLICKS, "left", 0, 0)
LOOKUP = StreamTableJoin("j", VIEWS, USERS, "left")
AMENDED = replace(LOOKUP, name="lookup", amend_ms=9)
MAPPED = StreamGlobalJoin("j", VIEWS, REGIONS, "left", function)
TABLES = TableTableJoin("j", USERS, VERSIONED, "outer")
FOREIGN = ForeignKeyJoin("j", USERS, PLANS, "left", function)
FOREIGN_STREAM = ForeignKeyStreamJoin("j", VIEWS, USERS, "left", function)
SOUND = [WINDOW, LOOKUP, MAPPED, TABLES, FOREIGN, FOREIGN_STREAM]

# the node, its faults as code and message
NODES = [
    *((node, []) for node in SOUND),
    # windows
    (replace(WINDOW, before_ms=-3, after_ms=3), []),
    (replace(WINDOW, before_ms=-3, after_ms=2),
     ["LS112 the window ends before it begins: before -3 ms + after 2 ms is negative"]),
    (replace(WINDOW, before_ms=2, after_ms=-3, grace_ms=-1),
     ["LS112 the window ends before it begins: before 2 ms + after -3 ms is negative",
      "LS112 grace -1 ms is negative"]),
    # choices
    (replace(WINDOW, how="full"), ["LS112 how='full' is none of inner, left, outer"]),
    (replace(WINDOW, emit_unmatched="late", rules="lax", co_partitioning="no", store="disk"),
     ["LS112 emit_unmatched='late' is none of on_window_close, eager", "LS112 rules='lax' is none of strict, kafka",
      "LS112 co_partitioning='no' is none of require, warn, off", "LS112 store='disk' is none of persistent, in_memory"]),
    (replace(LOOKUP, how="outer", co_partitioning="no"),
     ["LS112 how='outer' is none of inner, left", "LS112 co_partitioning='no' is none of require, warn, off"]),
    (replace(TABLES, how="full", co_partitioning="no"),
     ["LS112 how='full' is none of inner, left, outer", "LS112 co_partitioning='no' is none of require, warn, off"]),
    *((replace(node, how="outer"), ["LS112 how='outer' is none of inner, left"])
      for node in (MAPPED, FOREIGN, FOREIGN_STREAM)),
    (replace(VIEWS, kind="topic", null_values="keep"),
     ["LS112 kind='topic' is none of stream, table, global_table",
      "LS112 null_values='keep' is none of quarantine, ignore"]),
    # grace and history
    (replace(LOOKUP, right=VERSIONED, grace_ms=3_600_000), []),
    (replace(LOOKUP, right=MapValues("m", Filter("f", VERSIONED, function), function), grace_ms=1), []),
    (replace(LOOKUP, right=VERSIONED, grace_ms=3_600_001),
     ["LS112 grace 3600001 ms is longer than the 3600000 ms that Prices keeps of its history"]),
    (replace(LOOKUP, right=VERSIONED, grace_ms=-1), ["LS112 grace -1 ms is negative"]),
    (replace(LOOKUP, wait_ms=5, how="left", amend_ms=9), []),
    (replace(LOOKUP, wait_ms=0), ["LS112 wait 0 ms is not above zero"]),
    (replace(LOOKUP, right=VERSIONED, wait_ms=5), ["LS112 wait waits for the next row, but Prices is versioned: rows are looked up by time"]),
    (replace(LOOKUP, how="inner", amend_ms=5), ["LS112 amend corrects results that came out without a row, but an inner join has no such results"]),
    (replace(LOOKUP, wait_ms=5, how="left", amend_ms=5),
     ["LS112 amend 5 ms does not end after wait 5 ms; both start at the record's time"]),
    (replace(LOOKUP, grace_ms=0),
     ["LS112 grace waits for earlier rows, but Users is not versioned: it keeps only the newest row"]),
    (replace(LOOKUP, right=replace(TABLES, name="t"), grace_ms=1),
     ["LS112 grace waits for earlier rows, but t is not versioned: it keeps only the newest row"]),
    (replace(REGIONS, history_ms=1), ["LS112 a global table cannot be versioned, only a table"]),
    (replace(VIEWS, history_ms=1), ["LS112 a stream cannot be versioned, only a table"]),
    (replace(USERS, history_ms=-1), ["LS112 history -1 ms is negative"]),
    # counts
    (Repartition("r", VIEWS, 1), []),
    *((Repartition("r", VIEWS, count), [f"LS112 partitions={count!r} is not a count"]) for count in (0, -1, "2", 1.5, True)),
    # kinds
    (replace(WINDOW, left=USERS, right=REGIONS),
     ["LS113 the left side of a stream-stream join is Users, a table; it takes a stream",
      "LS113 the right side of a stream-stream join is Regions, a global table; it takes a stream"]),
    (replace(LOOKUP, left=USERS, right=CLICKS, grace_ms=1),
     ["LS113 the left side of a stream-table join is Users, a table; it takes a stream",
      "LS113 the right side of a stream-table join is Clicks, a stream; it takes a table"]),
    (replace(LOOKUP, right=REGIONS),
     ["LS113 the right side of a stream-table join is Regions, a global table; it takes a table"]),
    (replace(MAPPED, right=USERS),
     ["LS113 the right side of a stream-global join is Users, a table; it takes a global table"]),
    (replace(MAPPED, right=Filter("f", REGIONS, function)), []),
    (replace(TABLES, left=VIEWS),
     ["LS113 the left side of a table-table join is Views, a stream; it takes a table"]),
    (replace(FOREIGN, right=REGIONS),
     ["LS113 the right side of a foreign-key table-table join is Regions, a global table; it takes a table"]),
    (replace(FOREIGN_STREAM, right=VIEWS),
     ["LS113 the right side of a foreign-key stream-table join is Views, a stream; it takes a table"]),
    (Merge("m", VIEWS, USERS), ["LS113 Users is a table; merge takes a stream"]),
    (Merge("m", REGIONS, USERS),
     ["LS113 Regions is a global table; merge takes a stream", "LS113 Users is a table; merge takes a stream"]),
    *((step, [f"LS113 Users is a table; {word} takes a stream"]) for step, word in (
        (SelectKey("s", USERS, function), "select_key"), (Map("s", USERS, function), "map"),
        (FlatMap("s", USERS, function), "flat_map"), (FlatMapValues("s", USERS, function), "flat_map_values"),
        (Repartition("s", USERS, 2), "repartition"))),
    # outputs
    (DeltaSink("o", VIEWS, mode="append"), []),
    *((DeltaSink("o", TABLES, mode=mode), []) for mode in ("merge", "changes")),
    (DeltaSink("o", VIEWS, mode="merge"),
     ["LS112 mode merge: no later result replaces a row of Views: no join before it amends"]),
    (DeltaSink("o", VIEWS, mode="changes"), ["LS112 mode='changes' does not fit Views, a stream"]),
    (DeltaSink("o", AMENDED, mode="merge"), []),
    (DeltaSink("o", StreamGlobalJoin("g", SelectKey("s", Filter("f", AMENDED, function), function), REGIONS, "left", function),
               mode="merge"), []),
    (DeltaSink("o", FlatMapValues("many", AMENDED, function), mode="merge"),
     ["LS112 mode merge: a record may have several rows in many, since many is a flat_map_values"]),
    (DeltaSink("o", replace(AMENDED, left=Merge("both", VIEWS, VIEWS)), mode="merge"),
     ["LS112 mode merge: a record may have several rows in lookup, since both is a merge"]),
    (DeltaSink("o", replace(AMENDED, name="twice", left=AMENDED), mode="merge"),
     ["LS112 mode merge: lookup and twice both amend: the last result of a record need not be the one that knows most"]),
    (DeltaSink("o", replace(LOOKUP, name="slow", left=AMENDED, wait_ms=5), mode="merge"),
     ["LS112 mode merge: slow waits behind lookup: a record's results may come out in another order"]),
    (DeltaSink("o", USERS, mode="append"), ["LS112 mode='append' does not fit Users, a table"]),
    (DeltaSink("o", USERS, mode="upsert"), ["LS112 mode='upsert' is none of append, merge, changes"]),
    (DeltaSink("o", REGIONS, mode="merge"),
     ["LS113 Regions is a global table, which every task holds whole; it is no output"]),
    *((KafkaSink("o", node, Text("user"), Json("n bigint")), []) for node in (VIEWS, TABLES)),
    (KafkaSink("o", REGIONS), ["LS113 Regions is a global table, which every task holds whole; it is no output"]),
    (KafkaSink("o p", VIEWS), ["LS108 topic name 'o p'"]),
    (KafkaSink("o", VIEWS, "user", Long("n")), ["LS106 key='user' is not a format"]),
    (KafkaSink("o", VIEWS, ConnectJson("user string"), RegistryJson("n bigint")),
     ["LS115 key: connect_json(user string) can be read only", "LS115 value: registry_json(n bigint) can be read only"]),
    (KafkaSink("o", USERS, value=DebeziumJson("n bigint")), ["LS115 value: debezium_json(n bigint) can be read only"]),
]  # fmt: skip


@pytest.mark.parametrize(("node", "faults"), NODES, ids=[f"{type(row[0]).__name__} {row[1]}" for row in NODES])
def test_a_node_and_its_faults(node, faults: list[str]) -> None:
    found = validate.structure("p", [node, DeltaSink("out", VIEWS)])
    assert [f"{fault.code} {fault.message}" for fault in found] == faults
    assert all(fault.hint and node.name in (fault.where or "") for fault in found)


def test_a_fault_carries_what_it_is_about() -> None:
    """Node, option, value and choices are there as such, so that nobody reads them out of the text."""
    (fault,) = DeltaSink("out", USERS, mode="append").faults()
    assert (fault.node.word, fault.node.name) == ("to_delta", "out")
    assert (fault.option, fault.given, fault.takes) == ("mode", "append", ("merge", "changes"))
    fault.speak_yaml()
    assert fault.message == "mode: append does not fit Users, a table"


def test_a_topic_that_the_pipeline_reads_is_no_output() -> None:
    builder = StreamsBuilder("p")
    views = builder.stream("page-views", name="Views", key=Text("user"), value=Text("page"))
    views.to_kafka("page-views")
    views.to_kafka("other-views")
    with pytest.raises(TopologyInvalid) as caught:
        builder.build()
    (fault,) = unfold(caught.value)
    assert isinstance(fault, OwnTopic)
    assert (fault.message, fault.where) == (
        "topic page-views is written, and read by Views",
        'to_kafka "page-views"',
    )


def test_a_topic_is_output_enough() -> None:
    builder = StreamsBuilder("p")
    builder.stream("Views", key=Text("user"), value=Text("page")).to_kafka("views-again", key=Text("user"))
    topology = builder.build()
    assert [sink.name for sink in topology.outputs] == ["views-again"]
    assert topology.sinks == ()
    assert topology.kafka_sinks == topology.outputs


def test_faults_of_every_kind_are_reported_at_once() -> None:
    sources = declared()
    joined = sources.views.outer_join(
        sources.clicks,
        before="1 s",
        after="-2 s",
        rules="lax",
        emit_unmatched="never",
        name="window",  # type: ignore[typeddict-item]
    )
    sources.views.join(sources.versioned, grace="2 hours", name="graceful")
    sources.views.join(sources.users, grace="0 s", name="graceless", co_partitioning="maybe")  # type: ignore[call-overload]
    joined.repartition(0, name="nowhere").to_delta("silver.out", mode="merge")  # type: ignore[arg-type]
    sources.users.to_delta("silver.users", mode="append")  # type: ignore[arg-type]
    sources.views.merge(sources.clicks, name="")
    with pytest.raises(TopologyInvalid) as caught:
        sources.builder.build()
    assert [(fault.code, fault.where) for fault in unfold(caught.value)] == [
        ("LS112", 'outer_join "window"'), ("LS112", 'outer_join "window"'), ("LS112", 'outer_join "window"'),
        ("LS112", 'join "graceful"'), ("LS112", 'join "graceless"'), ("LS112", 'join "graceless"'),
        ("LS112", 'repartition "nowhere"'), ("LS112", 'to_delta "silver.out"'), ("LS112", 'to_delta "silver.users"'),
        ("LS101", None),
    ]  # fmt: skip


# --- what no job runs yet --------------------------------------------------------------------------------------------


def test_what_steps_remember_has_names_that_differ_not_only_in_capitals() -> None:
    """It lies in tables of their names, which are one in a catalog."""

    def faults(first: str, second: str) -> list[str]:
        builder = StreamsBuilder("p")
        views = builder.stream("views", key=Text("user"), value=Text("page"))
        for name in (first, second):
            views.group_by_key().count(name=name).to_delta(f"silver.{name}_rows")
        try:
            builder.build()
        except TopologyInvalid as caught:
            return [str(fault.message) for fault in unfold(caught)]
        return []

    assert faults("counted", "Counted") == ["steps that differ in capitals alone: counted, Counted"]
    assert faults("counted", "other") == []
