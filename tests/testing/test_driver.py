"""TopologyTestDriver: results in order, readings that change nothing, what is refused and why, partitions."""

from __future__ import annotations

import json

import pytest
from tests.partitioning.test_kafka_default import partition as murmur2_partition

from lakestreams import ConnectJson, DebeziumJson, EventTime, Json, Long, StreamsBuilder, Text
from lakestreams.errors import (
    BufferFull,
    CoPartitioningRequired,
    InvalidOption,
    TopologyInvalid,
    UnknownColumn,
    WrongKind,
)
from lakestreams.expressions.parse import compile_expression
from lakestreams.testing import Refused, Result, assert_results

VIEWS, USERS, OUT = "PageViews", "UserProfiles", "silver.enriched"
JSON_VIEWS = {"value": Json("ms bigint, page string")}


def enrichment(how="left_join", views=None, **options):
    builder = StreamsBuilder("page_views")
    left = builder.stream(VIEWS, **{"key": Text("user"), "value": Text("page")} | (views or {}))
    users = builder.table(USERS, key=Text("user"), value=Text("region"))
    getattr(left, how)(users, **options).to_delta(OUT)
    return builder.build()


def clicks(**options):
    """Views and their clicks within ten seconds; those without come out when the window closes."""
    builder = StreamsBuilder("clicks")
    views = builder.stream("Views", key=Text("ad"), value=Text("view"))
    clicked = builder.stream("Clicks", key=Text("ad"), value=Text("click"))
    views.left_join(clicked, within="10 s", **options).to_delta("clicked")
    return builder.build()


def test_results_come_in_the_order_of_the_records_that_caused_them(topology_test_driver):
    driver = topology_test_driver(enrichment())
    driver.pipe(VIEWS, "alice", "/early", 9)
    driver.pipe(USERS, "alice", "us-east", 5)
    driver.pipe(VIEWS, "alice", "/home", 3)
    driver.pipe(VIEWS, None, "/nobody", 4)
    early, home, nobody = driver.read()
    assert early == Result("alice", {"page": "/early", "region": None}, 9, "unmatched", 0, ((VIEWS, 0, 0),))
    assert home == Result(
        "alice", {"page": "/home", "region": "us-east"}, 3, "matched", 2, ((VIEWS, 0, 1), (USERS, 0, 0))
    )
    assert (nobody.key, nobody.cause) == (None, 3)
    assert driver.read() == []
    assert driver.refused() == []


def test_results_do_not_depend_on_the_time_zone_of_the_session(topology_test_driver, lakestreams_spark):
    """Texts of times, and times without a zone, are made and read in UTC, whatever the session is set to."""
    builder = StreamsBuilder("zones")
    views = builder.stream(VIEWS, key=Text("user"), value=Json("at timestamp, wall timestamp_ntz, text string"))
    made = {"hour": "hour(at)", "shown": "cast(at as string)", "moment": "unix_millis(cast(wall as timestamp))",
            "read": "unix_millis(cast(text as timestamp))", "day": "cast(at as date)"}  # fmt: skip
    expressions = {name: compile_expression(text) for name, text in made.items()}
    views.map_values(lambda view: {name: one.column({VIEWS: view}) for name, one in expressions.items()}).to_delta(OUT)
    topology, before = builder.build(), lakestreams_spark.conf.get("spark.sql.session.timeZone")
    found = []
    try:
        for zone in ("UTC", "America/New_York"):
            lakestreams_spark.conf.set("spark.sql.session.timeZone", zone)
            driver = topology_test_driver(topology)
            row = {"at": "2024-03-01T02:30:00Z", "wall": "2024-03-01T02:30:00", "text": "2024-03-01 02:30:00"}
            driver.pipe(VIEWS, "alice", json.dumps(row).encode(), 1)
            found.append(driver.read()[0].value)
            assert lakestreams_spark.conf.get("spark.sql.session.timeZone") == zone
    finally:
        lakestreams_spark.conf.set("spark.sql.session.timeZone", before)
    moment = 1_709_260_200_000
    assert found[0] | {"day": None} == {
        "hour": 2, "shown": "2024-03-01 02:30:00", "moment": moment, "read": moment, "day": None
    }  # fmt: skip
    assert found[1] == found[0]


def test_deletions_of_unwrapped_events_of_debezium_leave_the_table(topology_test_driver):
    builder = StreamsBuilder("customers")
    customers = builder.table(
        "Customers", key=Json("id bigint"), value=Json("name string, __deleted string, __op string")
    )
    customers.filter(lambda row: row["__deleted"] != "true").to_delta(OUT)
    driver = topology_test_driver(builder.build())
    for ident, name in ((1, "Ada"), (2, "Bo")):
        driver.pipe("Customers", {"id": ident}, {"name": name, "__deleted": "false", "__op": "c"}, 1)
    driver.pipe("Customers", {"id": 1}, {"name": "Ada", "__deleted": "true", "__op": "d"}, 2)
    assert [row["name"] for row in driver.table().values()] == ["Bo"]


def test_a_topic_is_read_as_any_other_output(topology_test_driver):
    builder = StreamsBuilder("p")
    users = builder.table(USERS, key=Text("user"), value=Text("region"))
    users.to_kafka("users-again")
    driver = topology_test_driver(builder.build())
    driver.pipe(USERS, "alice", "us-east", 1)
    driver.pipe(USERS, "alice", None, 2)
    assert [(one.key, one.value) for one in driver.read("users-again")] == [
        ("alice", {"region": "us-east"}),
        ("alice", None),
    ]
    assert driver.table() == {}


@pytest.mark.slow
def test_several_readings_are_one_reading(topology_test_driver):
    records = [
        ("Views", "a", "v1", 0), ("Clicks", "a", "c1", 1_000), ("Views", "b", "v2", 2_000), ("Clicks", "c", "c2", 3_000),
        ("Views", "c", "v3", 4_000), ("Views", "b", "v4", 13_000), ("Clicks", "z", "c3", 60_000), ("Views", "a", "v5", 1),
    ]  # fmt: skip
    whole, cut = topology_test_driver(clicks()), topology_test_driver(clicks())
    results = []
    for number, record in enumerate(records):
        whole.pipe(*record)
        cut.pipe(*record)
        if number in (1, 4, 5):
            results += cut.read()
    results += cut.read()
    expected = whole.read()
    assert_results(results, expected)
    assert_results(
        expected,
        [
            ("a", {"view": "v1", "click": "c1"}, 1_000),
            ("c", {"view": "v3", "click": "c2"}, 4_000),
            ("b", {"view": "v2", "click": None}, 2_000),
            ("b", {"view": "v4", "click": None}, 13_000),
        ],
    )
    assert cut.refused() == whole.refused() == [Refused(7, "Views_left_join_Clicks", "LATE")]


@pytest.mark.slow
def test_a_table_follows_what_debezium_tells_of_a_row(topology_test_driver):
    """The snapshot's read, an update, the delete and its tombstone, with orders between them."""
    builder = StreamsBuilder("named_orders")
    orders = builder.stream("Orders", key=Json("id bigint"), value=Text("item"))
    customers = builder.table(
        "shop.customers", name="Customers", key=ConnectJson("id bigint"), value=DebeziumJson("name string, city string")
    )
    orders.left_join(customers).to_delta("silver.named_orders")
    customers.to_delta("silver.customers")
    driver = topology_test_driver(builder.build())
    in_rome, in_oslo = ({"id": 1, "name": "Ada", "city": city} for city in ("Rome", "Oslo"))

    def changed(at, **event):
        driver.pipe(
            "Customers", b'{"schema": {"type": "struct"}, "payload": {"id": 1}}', json.dumps(event).encode(), at
        )

    def ordered(item, at):
        driver.pipe("Orders", {"id": 1}, item, at)

    ordered("before it is read", 1)
    changed(2, before=None, after=in_rome, source={"snapshot": "first"}, op="r")
    ordered("read", 3)
    changed(4, before=in_rome, after=in_oslo, op="u")
    ordered("updated", 5)
    assert driver.table("silver.customers") == {1: {"name": "Ada", "city": "Oslo"}}
    changed(6, before=in_oslo, after=None, op="d")
    ordered("deleted", 7)
    driver.pipe("Customers", b'{"schema": {"type": "struct"}, "payload": {"id": 1}}', None, 8)
    ordered("with its tombstone", 9)
    assert_results(
        driver.read("silver.named_orders"),
        [
            (1, {"item": "before it is read", "name": None, "city": None}, 1),
            (1, {"item": "read", "name": "Ada", "city": "Rome"}, 3),
            (1, {"item": "updated", "name": "Ada", "city": "Oslo"}, 5),
            (1, {"item": "deleted", "name": None, "city": None}, 7),
            (1, {"item": "with its tombstone", "name": None, "city": None}, 9),
        ],
    )
    assert driver.table("silver.customers") == {}
    assert driver.refused() == []


def test_every_refused_record_is_told_once_with_step_and_reason(topology_test_driver):
    driver = topology_test_driver(enrichment("join", {"event_time": EventTime("ms", fallback=False)} | JSON_VIEWS))
    driver.pipe(VIEWS, "alice", b"\xff", 0)
    driver.pipe(VIEWS, b"\xff", {"ms": 1}, 1)
    driver.pipe(VIEWS, "alice", {"ms": "soon"}, 2)
    driver.pipe(VIEWS, "alice", {"page": "/home"}, 3)
    driver.pipe(VIEWS, None, {"ms": 4}, 4)
    driver.pipe(USERS, "alice", "us-east", -1)
    driver.pipe(USERS, None, "us-east", 6)
    driver.pipe(VIEWS, "nobody", {"ms": 7}, 7)
    assert driver.read() == []
    step = f"{VIEWS}_join_{USERS}"
    assert driver.refused() == [
        Refused(0, VIEWS, "MALFORMED_VALUE"),
        Refused(1, VIEWS, "MALFORMED_KEY"),
        Refused(2, VIEWS, "MALFORMED_VALUE"),
        Refused(3, VIEWS, "NO_TIMESTAMP"),
        Refused(4, step, "NULL_KEY"),
        Refused(5, USERS, "NO_TIMESTAMP"),
        Refused(6, USERS, "NULL_KEY"),
    ]


@pytest.mark.parametrize(
    ("options", "refused"),
    [
        ({}, [Refused(1, VIEWS, "NULL_VALUE")]),
        ({"null_values": "ignore"}, []),
        ({"keys_not_null": "drop"}, [Refused(0, VIEWS, "EXPECTATION"), Refused(1, VIEWS, "NULL_VALUE")]),
    ],
)
def test_nulls_of_a_stream(topology_test_driver, options, refused):
    """Two steps and two outputs see the null value; it gives no result, and its source refuses it once."""
    builder = StreamsBuilder("p")
    views = builder.stream(VIEWS, key=Text("user"), value=Text("page"), **options)
    users = builder.table(USERS, key=Text("user"), value=Text("region"))
    views.left_join(users).to_delta(OUT)
    views.to_delta("plain")
    driver = topology_test_driver(builder.build())
    driver.pipe(VIEWS, None, "/home", 0)
    driver.pipe(VIEWS, "alice", None, 1)
    keys = [] if "keys_not_null" in options else [None]
    assert [one.key for one in driver.read(OUT)] == keys
    assert [one.key for one in driver.read("plain")] == keys
    assert driver.refused() == refused


def test_time_comes_from_a_field(topology_test_driver):
    views = {"event_time": "ms"} | JSON_VIEWS
    driver = topology_test_driver(enrichment(views=views))
    driver.pipe(VIEWS, "alice", {"ms": 5, "page": "/home"}, 90)
    driver.pipe(VIEWS, "alice", {"page": "/home"}, 91)
    assert [one.timestamp for one in driver.read()] == [5, 91]


@pytest.mark.slow
def test_each_partition_has_a_clock_of_its_own(topology_test_driver):
    driver = topology_test_driver(clicks(), partitions={"Views": 2, "Clicks": 2})
    driver.pipe("Views", "a", "v1", 0, partition=0)
    driver.pipe("Views", "b", "v2", 60_000, partition=1)
    assert driver.read() == [], "the other partition's clock closes no window"
    driver.pipe("Views", "c", "v3", 60_000, partition=0)
    assert_results(driver.read(), [("a", {"view": "v1", "click": None}, 0)])
    driver.pipe("Clicks", "b", "c1", 61_000, partition=1)
    (pair,) = driver.read()
    assert (pair.cause, pair.contributors) == (3, (("Views", 1, 0), ("Clicks", 1, 0)))


@pytest.mark.slow
@pytest.mark.parametrize("partitions", [pytest.param(1, marks=pytest.mark.soak), 2])
def test_a_pair_by_a_re_keyed_record_is_in_the_task_of_its_key(topology_test_driver, partitions):
    """Not in the partition that this record came from: the pair would follow another task's clock."""
    builder = StreamsBuilder("moved")
    left, right, last = (builder.stream(name, key=Text("id"), value=Text(name.lower())) for name in "ABC")
    moved = right.select_key(lambda one: {"id": one.b}, name="moved")
    pairs = left.join(moved, within="30 ms", name="pairs")
    pairs.left_join(last, within="10 ms", name="joined").to_delta("silver.out")
    driver = topology_test_driver(builder.build(), partitions=dict.fromkeys("ABC", partitions))
    home = murmur2_partition(b"k1", partitions)
    driver.pipe("A", "k1", "a1", 100, partition=home)
    driver.pipe("B", "elsewhere", "k1", 100, partition=partitions - 1 - home)
    driver.pipe("C", "k1", "c1", 200, partition=home)
    assert [(one.kind, one.timestamp, one.cause) for one in driver.read()] == [("unmatched", 100, 2)]


def test_a_table_has_the_rows_of_its_changes(topology_test_driver):
    builder = StreamsBuilder("p")
    orders = builder.table("Orders", key=Long("id"), value=Json("customer string, total int"))
    shipping = builder.table("Shipping", key=Long("id"), value=Text("carrier"))
    orders.left_join(shipping).to_delta("shipped", mode="merge")
    driver = topology_test_driver(builder.build())
    driver.pipe("Orders", 1, {"customer": "alice", "total": 5}, 0)
    driver.pipe("Orders", 2, {"customer": "bob", "total": 7}, 1)
    driver.pipe("Shipping", 1, "ups", 2)
    driver.pipe("Orders", 2, None, 3)
    row = {"customer": "alice", "total": 5, "carrier": "ups"}
    assert driver.table() == {1: row}
    assert [(one.key, one.value is None) for one in driver.read()] == [(1, False), (2, False), (1, False), (2, True)]


def test_what_is_not_there_is_named_with_what_is(topology_test_driver, lakestreams_spark):
    driver = topology_test_driver(enrichment())
    calls = {
        "'PageViews'": lambda: driver.pipe("PageView", "alice", "/home", 0),
        "there are: silver.enriched": lambda: driver.read("bronze"),
        "partitions={topic: count}": lambda: driver.pipe(VIEWS, "alice", "/home", 0, partition=1),
        "pass bytes": lambda: driver.pipe(VIEWS, "alice", 5, 0),
        "did you mean 'UserProfiles'?": lambda: topology_test_driver(enrichment(), partitions={"UserProfile": 4}),
    }
    for hint, call in calls.items():
        with pytest.raises(InvalidOption) as caught:
            call()
        assert hint in caught.value.hint
    with pytest.raises(WrongKind, match="is a stream"):
        driver.table()
    builder = StreamsBuilder("p")
    views = builder.stream(VIEWS, key=Text("user"), value=Text("page"))
    views.to_delta("one")
    views.to_delta("two")
    with pytest.raises(InvalidOption, match="several outputs"):
        topology_test_driver(builder.build()).read()


def test_a_topology_is_checked_first(topology_test_driver):
    broken = enrichment(joiner=lambda view, user: {"page": view.pag, "region": user.region})
    with pytest.raises(TopologyInvalid) as caught:
        topology_test_driver(broken, partitions={VIEWS: 4, USERS: 2})
    assert {type(fault) for fault in caught.value.faults} == {UnknownColumn, CoPartitioningRequired}


def test_a_full_buffer_stops_with_its_own_error(topology_test_driver):
    builder = StreamsBuilder("held")
    users = builder.table(USERS, key=Text("user"), value=Text("region"))
    users.suppress("1 s", max_records=1, when_full="shutdown", name="held").to_delta(OUT)
    driver = topology_test_driver(builder.build())
    for user in ("ann", "ben"):
        driver.pipe(USERS, user, "north", 1)
    with pytest.raises(BufferFull, match='suppress "held": 2 keys wait in task 0, max_records is 1'):
        driver.read(OUT)


# --- time that goes on behind something that waits (decision 0016) ---------------------------------------------------

MINUTE = 60_000


def counted_per_minute():
    """Views with their clicks within six minutes, counted by the minute; a count is told when its minute has closed."""
    builder = StreamsBuilder("p")
    views = builder.stream("Views", key=Text("ad"), value=Text("view"))
    clicked = builder.stream("Clicks", key=Text("ad"), value=Text("click"))
    pairs = views.left_join(clicked, within="6 min", name="pairs")
    counts = pairs.group_by_key().windowed_by("1 min").count(name="counted")
    counts.suppress("window_closes", name="closed").to_delta("counts")
    return builder.build()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("minutes", "read_at"),
    [
        pytest.param([9], [9], id="at once", marks=pytest.mark.soak),
        pytest.param([2, 9], [2, 9], id="in two", marks=pytest.mark.soak),
        pytest.param([1, 3, 5, 7, 9], [5, 9], id="bit by bit"),
        pytest.param([1, 3, 5, 7, 9], [1, 5, 7, 9], id="bit by bit, read more often", marks=pytest.mark.soak),
    ],
)
def test_what_a_join_holds_is_not_late_behind_it_however_time_goes_on(topology_test_driver, minutes, read_at):
    driver = topology_test_driver(counted_per_minute())
    driver.pipe("Views", "a", "v1", 0)
    driver.pipe("Views", "b", "v2", MINUTE // 2)
    found = []
    for minute in minutes:
        driver.advance(minute * MINUTE)
        found += driver.read() if minute in read_at else []
    assert [(one.key["ad"], one.value["count"]) for one in found] == [("a", 1), ("b", 1)]
    assert driver.refused() == []


@pytest.mark.slow
@pytest.mark.parametrize("by", ["time", pytest.param("a record", marks=pytest.mark.soak)])
def test_what_comes_out_too_late_is_refused_by_the_record_that_it_is_made_of(topology_test_driver, by):
    driver = topology_test_driver(counted_per_minute())
    driver.pipe("Views", "a", "waits", 0)
    driver.pipe("Views", "b", "meets", 5 * MINUTE)
    driver.pipe("Clicks", "b", "at once", 5 * MINUTE)
    if by == "time":
        driver.advance(10 * MINUTE)
    else:
        driver.pipe("Clicks", "c", "later", 10 * MINUTE)
    assert driver.refused() == [Refused(0, "counted", "LATE")], "its pair has moved the clock of the windows to 5:00"


@pytest.mark.slow
def test_a_join_of_what_waits_with_what_does_not_goes_by_the_slower_side(topology_test_driver):
    builder = StreamsBuilder("p")
    views, clicks, sales = (
        builder.stream(name, key=Text("ad"), value=Text(name.lower())) for name in ("Views", "Clicks", "Sales")
    )
    pairs = views.left_join(clicks, within="6 min", name="pairs")
    pairs.left_join(sales, within="1 min", name="sold").to_delta("out")
    driver = topology_test_driver(builder.build())
    driver.pipe("Views", "a", "v1", 0)
    driver.pipe("Sales", "a", "s1", 0)
    driver.advance(3 * MINUTE)
    driver.advance(9 * MINUTE)
    assert [(one.key, one.kind) for one in driver.read()] == [("a", "matched")]
    assert driver.refused() == []
