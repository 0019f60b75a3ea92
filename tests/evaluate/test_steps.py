"""The steps before, between and after joins, on histories small enough to check by hand, from the test driver.

A result is written `key value/value @time`: a dot is a null column, a dash a null key, `gone` a tombstone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams import Json, KStream, KTable, StreamsBuilder, Text
from lakestreams.evaluate.inputs import DETAIL
from lakestreams.testing import Refused, Result, TopologyTestDriver
from lakestreams.testing.histories import Histories, Piped
from lakestreams.testing.small import small

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

    from lakestreams import Fields

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def _small(spark: SparkSession) -> Iterator[None]:
    with small(spark):
        yield


def stream(builder: StreamsBuilder, name: str) -> KStream:
    """A stream of texts; its value's column has its name."""
    return builder.stream(name, key=Text("k"), value=Text(name))


def table(builder: StreamsBuilder, name: str, **options: Any) -> KTable:
    return builder.table(name, key=Text("k"), value=Text(name), **options)


def both(left: Any, right: Any) -> dict[str, Column]:
    """A joiner that takes every column of both values, the left ones first; `k` is the key."""
    columns: dict[str, Column] = {}
    for side in (left, right):
        for name in side:
            if name != "k":
                columns[name if name not in columns else f"{name}_{len(columns)}"] = side[name]
    return columns


def rows(driver: TopologyTestDriver, output: str | None = None) -> list[str]:
    return [row_of(one) for one in driver.read(output and f"out.{output}")]


def row_of(one: Result) -> str:
    value = "gone" if one.value is None else "/".join(text(column, ".") for column in one.value.values())
    return f"{text(one.key, '-')} {value} @{one.timestamp}"


def by_cause(driver: TopologyTestDriver, output: str | None = None) -> dict[int, list[str]]:
    """The rows that each piped record, by number, causes."""
    found: dict[int, list[str]] = {}
    for one in driver.read(output and f"out.{output}"):
        found.setdefault(one.cause, []).append(row_of(one))
    return found


def text(value: Any, missing: str) -> str:
    return missing if value is None else str(value)


# --- steps on one record ---------------------------------------------------------------------------------------------


def test_steps_on_one_record(spark: SparkSession) -> None:
    builder = StreamsBuilder("steps")
    orders = builder.stream("orders", key=Text("id"), value=Json("who string, items string, n int"))
    orders.map(lambda one: ({"who": one.who}, {"id": one.id, "n": one.n})).to_delta("out.map")
    orders.select_key(lambda one: {"who": one.who}).to_delta("out.select_key")
    orders.flat_map(
        lambda one: [({"k": one.who}, {"what": F.lit("who")}), ({"k": one.id}, {"what": F.lit("id")})]
    ).to_delta("out.flat_map")
    orders.flat_map_values(lambda one: [{"x": one.n}, {"x": one.n * 10}]).to_delta("out.flat_map_values")
    orders.flat_map_values(lambda one: _items(one.items), name="items").to_delta("out.by_count")
    orders.map_values(lambda one: {"twice": one.n * 2}).to_delta("out.map_values")
    orders.filter(lambda one: one.n > 1).to_delta("out.filter")
    orders.repartition(3).to_delta("out.repartition")
    driver = TopologyTestDriver(builder.build(), spark)
    driver.pipe("orders", "o1", {"who": "ann", "items": "a b", "n": 2}, 10)
    driver.pipe("orders", "o2", {"who": None, "items": "", "n": None}, 20)
    driver.pipe("orders", "o3", None, 30)
    driver.pipe("orders", "o4", {"who": "bob", "items": "c", "n": 1}, 5)
    driver.pipe("orders", None, {"who": "eve", "items": "d", "n": 7}, 40)

    assert rows(driver, "map") == ["ann o1/2 @10", "- o2/. @20", "bob o4/1 @5", "eve ./7 @40"]
    assert rows(driver, "select_key") == [
        "ann ann/a b/2 @10",
        "- .//. @20",
        "bob bob/c/1 @5",
        "eve eve/d/7 @40",
    ]
    assert rows(driver, "flat_map") == [
        *("ann who @10", "o1 id @10"),
        *("- who @20", "o2 id @20"),
        *("bob who @5", "o4 id @5"),
        *("eve who @40", "- id @40"),
    ]
    assert rows(driver, "flat_map_values") == [
        *("o1 2 @10", "o1 20 @10"),
        *("o2 . @20", "o2 . @20"),
        *("o4 1 @5", "o4 10 @5"),
        *("- 7 @40", "- 70 @40"),
    ]
    assert rows(driver, "by_count") == ["o1 a @10", "o1 b @10", "o4 c @5", "- d @40"]  # two, none, one, one
    assert rows(driver, "map_values") == ["o1 4 @10", "o2 . @20", "o4 2 @5", "- 14 @40"]
    assert rows(driver, "filter") == ["o1 ann/a b/2 @10", "- eve/d/7 @40"]  # null is not more than 1
    assert rows(driver, "repartition") == ["o1 ann/a b/2 @10", "o2 .//. @20", "o4 bob/c/1 @5"]
    assert driver.refused() == [Refused(2, "orders", "NULL_VALUE"), Refused(4, "orders_repartition", "NULL_KEY")]


def _items(items: Column) -> Column:
    words = F.filter(F.split(items, " "), lambda word: word != "")
    return F.transform(words, lambda word: F.struct(word.alias("item")))


# --- merge -----------------------------------------------------------------------------------------------------------


def test_merge(spark: SparkSession) -> None:
    """Rows of one record come in the order in which Kafka Streams' processors were attached to its source."""
    builder = StreamsBuilder("merge")
    one = builder.stream("one", key=Text("k"), value=Text("v"))
    two = builder.stream("two", key=Text("k"), value=Text("v"))
    one.merge(two).to_delta("out.disjoint")
    loud = one.map_values(lambda row: {"v": F.upper(row.v)}, name="loud")
    quiet = one.filter(lambda row: row.v != "x", name="quiet")
    loud.merge(quiet).to_delta("out.diamond")
    quiet.merge(loud).to_delta("out.mirrored")
    one.merge(loud).to_delta("out.with_itself")
    loud.merge(two).merge(quiet).to_delta("out.three")
    driver = TopologyTestDriver(builder.build(), spark)
    driver.pipe("one", "A", "a", 5)
    driver.pipe("two", "B", "b", 3)
    driver.pipe("one", "C", "x", 4)

    assert rows(driver, "disjoint") == ["A a @5", "B b @3", "C x @4"]
    diamond = ["A A @5", "A a @5", "C X @4"]
    assert rows(driver, "diamond") == diamond
    assert rows(driver, "mirrored") == diamond  # `loud` was attached first all the same
    assert rows(driver, "with_itself") == ["A A @5", "A a @5", "C X @4", "C x @4"]
    assert rows(driver, "three") == ["A A @5", "A a @5", "B b @3", "C X @4"]


def test_merged_and_many_records_join_one_after_the_other(spark: SparkSession) -> None:
    builder = StreamsBuilder("merged")
    words, more = stream(builder, "words"), builder.stream("more", key=Text("k"), value=Text("words"))
    prices = table(builder, "prices")
    all_words = words.merge(more).flat_map_values(lambda one: _named(_items(one.words), "word"))
    all_words.left_join(prices, both).to_delta("out.priced")
    tags = stream(builder, "tags")
    all_words.left_join(tags, both, within="2 ms", name="tagged").to_delta("out.tagged")
    driver = TopologyTestDriver(builder.build(), spark)
    driver.pipe("prices", "A", "1", 0)
    driver.pipe("words", "A", "x y", 1)
    driver.pipe("tags", "A", "t1", 2)
    driver.pipe("more", "A", "z", 3)
    driver.pipe("more", "B", "p q", 3)
    driver.pipe("words", "A", "", 9)  # no word: nothing of it reaches the joins
    driver.pipe("tags", "A", "t2", 9)
    assert rows(driver, "priced") == ["A x/1 @1", "A y/1 @1", "A z/1 @3", "B p/. @3", "B q/. @3"]
    assert rows(driver, "tagged") == ["A x/t1 @2", "A y/t1 @2", "A z/t1 @3", "B p/. @3", "B q/. @3"]


def _named(items: Column, name: str) -> Column:
    return F.transform(items, lambda item: F.struct(item["item"].alias(name)))


# --- other keys ------------------------------------------------------------------------------------------------------


def test_a_new_key_meets_the_tables_of_that_key(spark: SparkSession) -> None:
    builder = StreamsBuilder("rekeyed")
    orders = builder.stream("orders", key=Text("id"), value=Json("customer string, product string"))
    customers = table(builder, "customers")
    products = builder.global_table("products", key=Text("product"), value=Text("title"))
    lines = builder.table("lines", key=Text("line"), value=Json("of string, what string"))
    mine = orders.map(lambda one: ({"customer": one.customer}, {"id": one.id}), name="by_customer")
    mine.left_join(
        customers, lambda order, customer: {"id": order.id, "name": customer.customers}, name="named"
    ).to_delta("out.left")
    mine.join(customers, lambda order, customer: {"id": order.id, "name": customer.customers}, name="inner").to_delta(
        "out.inner"
    )
    orders.left_join(products, lambda _, product: {"title": product.title}, left_on="product").to_delta("out.global")
    orders.select_key(lambda one: {"id": one.id}).left_join(
        lines, lambda order, line: {"customer": order.customer, "what": line.what}, right_on="of", name="lined"
    ).to_delta("out.lines")
    driver = TopologyTestDriver(builder.build(), spark, partitions={"orders": 3, "customers": 2, "lines": 4})
    driver.pipe("customers", "ann", "Ann", 0, partition=1)
    driver.pipe("products", "p1", "Pen", 0)
    driver.pipe("lines", "l2", {"of": "o1", "what": "two"}, 0, partition=1)
    driver.pipe("lines", "l1", {"of": "o1", "what": "one"}, 0, partition=3)
    driver.pipe("lines", "l3", {"of": None, "what": "nobody's"}, 0)
    driver.pipe("orders", "o1", {"customer": "ann", "product": "p1"}, 1, partition=2)
    driver.pipe("orders", "o2", {"customer": None, "product": None}, 2, partition=0)
    driver.pipe("lines", "l2", {"of": "o2", "what": "two"}, 2, partition=1)
    driver.pipe("orders", "o2", {"customer": "bob", "product": "p2"}, 3, partition=0)
    assert rows(driver, "left") == ["ann o1/Ann @1", "- o2/. @2", "bob o2/. @3"]
    assert rows(driver, "inner") == ["ann o1/Ann @1"]
    assert rows(driver, "global") == ["o1 Pen @1", "o2 . @2", "o2 . @3"]
    assert rows(driver, "lines") == ["o1 ann/one @1", "o1 ann/two @1", "o2 ./. @2", "o2 bob/two @3"]
    assert driver.refused() == [Refused(6, "inner", "NULL_KEY")]


def test_a_repartitioned_stream_is_judged_by_the_clock_of_its_tasks(spark: SparkSession) -> None:
    """Three partitions have three clocks; repartitioned into one there is one, and what lags behind is late."""
    builder = StreamsBuilder("repartitioned")
    left, right, one_right = stream(builder, "left"), stream(builder, "right"), stream(builder, "one_right")
    left.left_join(right, both, within="2 ms", name="kept").to_delta("out.kept")
    left.repartition(1).left_join(one_right, both, within="2 ms", name="moved").to_delta("out.moved")
    driver = TopologyTestDriver(builder.build(), spark, partitions={"left": 3, "right": 3})
    driver.pipe("left", "A", "a1", 10, partition=0)
    driver.pipe("left", "B", "b1", 5, partition=1)  # 5 ms behind the first partition
    driver.pipe("right", "B", "b2", 6, partition=1)
    driver.pipe("one_right", "B", "b2", 6)
    driver.pipe("left", "A", "a2", 20, partition=0)
    assert rows(driver, "kept") == ["B b1/b2 @6", "A a1/. @10"]
    assert rows(driver, "moved") == ["A a1/. @10"]
    assert driver.refused() == [Refused(1, "moved", "LATE"), Refused(3, "moved", "LATE")]


# What stands behind a repartition, with the rows of a record without a key and of one with.
BEHIND_REPARTITION: dict[str, tuple[Callable[[Any, Any], Any], list[str], bool]] = {
    "table, inner": (lambda spread, table: spread.join(table, both), ["a 1/t @2"], True),
    "a step, table, left": (
        lambda spread, table: spread.map_values(lambda one: {"left": one.left}).left_join(table, both),
        ["- 1/. @1", "a 1/t @2"],
        False,
    ),
    "count": (lambda spread, _: spread.group_by_key().count(), ["a 1 @2"], True),
    "another key": (lambda spread, _: spread.select_key(lambda one: {"k": one.left}), ["1 1 @2"], True),
}


@pytest.mark.parametrize(
    "name",
    [one if place == 0 else pytest.param(one, marks=pytest.mark.soak) for place, one in enumerate(BEHIND_REPARTITION)],
)
def test_null_keys_pass_a_repartition_only_where_a_join_behind_uses_them(spark: SparkSession, name: str) -> None:
    """As Kafka Streams' repartition topics (KIP-962); a record that is left out is told as refused."""
    make, expected, refused = BEHIND_REPARTITION[name]
    builder = StreamsBuilder("null_keys")
    left, side = stream(builder, "left"), table(builder, "side")
    make(left.repartition(1, name="spread"), side).to_delta("out")
    side.to_delta("unused.side")
    driver = TopologyTestDriver(builder.build(), spark)
    driver.pipe("side", "a", "t", 0)
    driver.pipe("left", None, "1", 1)
    driver.pipe("left", "a", "1", 2)
    assert [row_of(one) for one in driver.read("out")] == expected
    assert driver.refused() == ([Refused(1, "spread", "NULL_KEY")] if refused else [])


def test_a_late_record_is_told_by_how_much_and_which_window_it_missed(spark: SparkSession) -> None:
    """An order of 20 ms could be paid until 30, and 5 ms longer by grace: it comes when the clock stands at 100."""
    builder = StreamsBuilder("late")
    window = {"before": "3 ms", "after": "10 ms", "grace": "5 ms"}
    stream(builder, "orders").left_join(stream(builder, "payments"), both, name="paid", **window).to_delta("out")
    orders = [("a", 100), ("late", 20), ("in_time", 85), ("just_late", 84)]
    payments = [("late", 91), ("in_time", 92)]
    pieces = [Piped("orders", key.encode(), b"1", time) for key, time in orders]
    pieces += [Piped("payments", key.encode(), b"1", time) for key, time in payments]
    results, _ = Histories(builder.build(), spark).step(pieces, keeps=False)
    found = [
        (one.node, *row)
        for one in results.rejected
        if one.code == "LATE"
        for row in one.records.select("source", "offset", DETAIL).orderBy("source", "offset").collect()
    ]
    stood = "the clock stood at 100"
    assert found == [
        ("paid", "orders", 1, f"late by 65 ms: its window closed at 35, {stood}"),
        ("paid", "orders", 3, f"late by 1 ms: its window closed at 99, {stood}"),
        ("paid", "payments", 0, f"late by 1 ms: its window closed at 99, {stood}"),
    ]


# --- steps on tables before joins ------------------------------------------------------------------------------------


def test_steps_on_a_table_before_joins(spark: SparkSession) -> None:
    """A row that ceases to fulfil a filter is deleted, and says so to every join behind it."""
    builder = StreamsBuilder("tables")
    users = builder.table("users", key=Text("k"), value=Json("region string, n int"))
    big = users.filter(lambda user: user.n > 10).map_values(lambda user: {"region": F.upper(user.region)}, name="big")
    marks, clicks = table(builder, "marks"), stream(builder, "clicks")
    big.join(marks, both, name="inner").to_delta("out.inner")
    marks.left_join(big, both, name="left").to_delta("out.left")
    clicks.left_join(big, both, name="seen").to_delta("out.seen")
    orders = builder.table("orders", key=Text("id"), value=Text("k"))
    orders.join(big, lambda order, user: {"of": order.k, "region": user.region}, left_on="k", name="of").to_delta(
        "out.of"
    )
    driver = TopologyTestDriver(builder.build(), spark)
    driver.pipe("marks", "A", "m", 0)
    driver.pipe("orders", "o1", "A", 1)
    driver.pipe("users", "A", {"region": "eu", "n": 20}, 2)
    driver.pipe("clicks", "A", "c1", 3)
    driver.pipe("users", "A", {"region": "us", "n": 5}, 4)  # no longer big
    driver.pipe("clicks", "A", "c2", 5)
    driver.pipe("users", "A", {"region": "us", "n": 11}, 6)
    driver.pipe("clicks", "A", "c3", 7)
    assert rows(driver, "inner") == ["A EU/m @2", "A gone @4", "A US/m @6"]
    assert rows(driver, "left") == ["A m/. @0", "A m/EU @2", "A m/. @4", "A m/US @6"]
    assert rows(driver, "seen") == ["A c1/EU @3", "A c2/. @5", "A c3/US @7"]
    assert rows(driver, "of") == ["o1 A/EU @2", "o1 gone @4", "o1 A/US @6"]


def test_steps_behind_a_table_join(spark: SparkSession) -> None:
    builder = StreamsBuilder("behind")
    joined = table(builder, "left").left_join(table(builder, "right"), both)
    joined.filter(lambda row: row.right.isNotNull(), name="whole").to_delta("out.whole")
    joined.map_values(lambda row: {"text": F.concat_ws("+", row.left, row.right)}).to_delta("out.mapped")
    late = joined.filter(lambda row: row.left != "l0", name="late")
    stream(builder, "asked").left_join(late, both, name="told").to_delta("out.told")
    driver = TopologyTestDriver(builder.build(), spark)
    driver.pipe("left", "A", "l0", 1)
    driver.pipe("asked", "A", "q1", 2)
    driver.pipe("right", "A", "r1", 3)
    driver.pipe("left", "A", "l1", 4)
    driver.pipe("asked", "A", "q2", 5)
    assert driver.table("out.whole") == {"A": {"left": "l1", "right": "r1"}}
    driver.pipe("left", "A", None, 6)
    driver.pipe("asked", "A", "q3", 7)
    assert rows(driver, "mapped") == ["A l0 @1", "A l0+r1 @3", "A l1+r1 @4", "A gone @6"]
    assert rows(driver, "told") == ["A q1/./. @2", "A q2/l1/r1 @5", "A q3/./. @7"]
    assert driver.table("out.whole") == {}


# --- self-joins ------------------------------------------------------------------------------------------------------


def test_self_joins_of_a_stream(spark: SparkSession) -> None:
    """A record goes to the left side and then to the right one; so it meets itself, in its place by time."""
    builder = StreamsBuilder("self")
    events = stream(builder, "events")
    events.join(events, _sides, within="5 ms", name="pairs").to_delta("out.pairs")
    events.left_join(events, _sides, before="-1 ms", after="5 ms", rules="kafka", name="next").to_delta("out.next")
    ends = events.filter(lambda one: one.events.startswith("end"), name="ends")
    events.join(ends, _sides, before="0 ms", after="5 ms", name="ended").to_delta("out.ended")
    driver = TopologyTestDriver(builder.build(), spark)
    driver.pipe("events", "A", "a1", 1)
    driver.pipe("events", "A", "a2", 3)
    driver.pipe("events", "A", "end", 4)
    driver.pipe("events", "A", "a3", 20)
    assert rows(driver, "pairs") == [
        "A a1/a1 @1",
        *("A a2/a1 @3", "A a1/a2 @3", "A a2/a2 @3"),
        *("A end/a1 @4", "A end/a2 @4", "A a1/end @4", "A a2/end @4", "A end/end @4"),
        "A a3/a3 @20",
    ]
    assert rows(driver, "next") == ["A a1/a2 @3", "A a1/end @4", "A a2/end @4", "A end/. @4"]
    assert rows(driver, "ended") == ["A a1/end @4", "A a2/end @4", "A end/end @4"]


def _sides(left: Fields, right: Fields) -> dict[str, Column]:
    return {"left": left.events, "right": right.events}


@pytest.mark.soak  # chains of joins are in tests/operators/aggregate/test_chains and tests/verify
def test_a_self_join_of_many_takes_one_row_on_both_sides_before_the_next(spark: SparkSession) -> None:
    """So b meets a on the right and is not alone; only a is, since its own right side comes after its left one."""
    builder = StreamsBuilder("self")
    events = stream(builder, "events").flat_map_values(
        lambda one: [{"event": F.concat(one.events, F.lit(letter))} for letter in "ab"], name="many"
    )
    events.left_join(
        events,
        lambda left, right: {"left": left.event, "right": right.event},
        within="10 ms",
        emit_unmatched="eager",
        name="pairs",
    ).to_delta("out")
    driver = TopologyTestDriver(builder.build(), spark)
    driver.pipe("events", "A", "1", 1)
    assert rows(driver) == ["A 1a/. @1", "A 1a/1a @1", "A 1b/1a @1", "A 1a/1b @1", "A 1b/1b @1"]


def test_clocks_of_unequal_partition_counts_see_each_other(spark: SparkSession) -> None:
    """The key lies in a partition that the other topic has no task for; its window has closed when it comes."""
    builder = StreamsBuilder("unequal")
    left, right = stream(builder, "left"), stream(builder, "right")
    left.left_join(right, both, within="10 ms", co_partitioning="off").to_delta("out")
    topology = builder.build()
    found = []
    for at_once in (True, False):
        driver = TopologyTestDriver(topology, spark, partitions={"left": 2, "right": 3})
        got = []
        for record in (("left", "K", "l", 0, 0), ("left", "x", "x", 21, 0), ("right", "K", "r", 5, 2)):
            driver.pipe(*record[:4], partition=record[4])
            got += [] if at_once else rows(driver)
        found.append(got + rows(driver))
    assert found == [["K l/. @0"], ["K l/. @0"]]


@pytest.mark.soak  # chains of joins are in tests/operators/aggregate/test_chains and tests/verify
def test_self_joins_of_a_table(spark: SparkSession) -> None:
    """Each side hears of the change by itself, and both see it: every row comes twice."""
    builder = StreamsBuilder("self")
    staff = builder.table("staff", key=Text("k"), value=Json("name string, boss string"))
    staff.join(staff, lambda one, other: {"a": one.name, "b": other.name}, name="twice").to_delta("out.twice")
    staff.left_join(staff, lambda one, other: {"a": one.name, "b": other.name}, left_on="boss", name="led").to_delta(
        "out.led"
    )
    driver = TopologyTestDriver(builder.build(), spark)
    driver.pipe("staff", "1", {"name": "ann", "boss": None}, 1)
    driver.pipe("staff", "2", {"name": "bob", "boss": "1"}, 2)
    driver.pipe("staff", "1", {"name": "Ann", "boss": None}, 3)
    assert rows(driver, "twice") == [*["1 ann/ann @1"] * 2, *["2 bob/bob @2"] * 2, *["1 Ann/Ann @3"] * 2]
    assert rows(driver, "led") == ["1 ann/. @1", "2 bob/ann @2", "1 Ann/. @3", "2 bob/Ann @3"]
    driver.pipe("staff", "1", None, 4)
    assert rows(driver, "led") == ["1 gone @4", "2 bob/. @4"]
    assert driver.table("out.led") == {"2": {"a": "bob", "b": None}}


# --- chains of joins -------------------------------------------------------------------------------------------------


def test_rows_of_a_windowed_join_meet_a_table(spark: SparkSession) -> None:
    """An unmatched row comes out when its window closes and meets the table as it is then, with its own time."""
    builder = StreamsBuilder("chain")
    orders, payments, customers = stream(builder, "orders"), stream(builder, "payments"), table(builder, "customers")
    paid = orders.left_join(payments, both, within="10 ms", name="paid")
    paid.left_join(customers, both, name="known").to_delta("out")
    driver = TopologyTestDriver(builder.build(), spark)
    driver.pipe("customers", "A", "c1", 0)
    driver.pipe("orders", "A", "o1", 0)
    driver.pipe("payments", "B", "p1", 5)
    driver.pipe("customers", "A", "c2", 6)
    driver.pipe("orders", "B", "o2", 11)  # closes the window of o1
    driver.pipe("payments", "B", "p2", 12)
    assert by_cause(driver) == {4: ["A o1/./c2 @0", "B o2/p1/. @11"], 5: ["B o2/p2/. @12"]}
    driver.pipe("customers", "B", "c3", 12)
    driver.pipe("payments", "B", "p3", 13)
    (last,) = driver.read()
    assert (row_of(last), last.cause) == ("B o2/p3/c3 @13", 7)
    assert last.contributors == (("orders", 0, 1), ("payments", 0, 2), ("customers", 0, 2))


@pytest.mark.soak  # chains of joins are in tests/operators/aggregate/test_chains and tests/verify
def test_unmatched_rows_of_one_window_go_on_into_the_next(spark: SparkSession) -> None:
    """The second window has a grace that the wait in the first one fits into."""
    builder = StreamsBuilder("chain")
    asked, answered, rated = stream(builder, "asked"), stream(builder, "answered"), stream(builder, "rated")
    first = asked.left_join(answered, both, within="10 ms", name="first")
    first.left_join(rated, both, within="10 ms", grace="30 ms", name="second").to_delta("out")
    driver = TopologyTestDriver(builder.build(), spark)
    driver.pipe("asked", "A", "q1", 0)
    driver.pipe("rated", "A", "r1", 8)  # waits for a row of the first join
    driver.pipe("asked", "B", "q2", 9)
    driver.pipe("answered", "B", "a2", 11)  # closes the window of q1, which is out now and meets r1
    driver.pipe("answered", "A", "a1", 12)  # too late for q1
    driver.pipe("rated", "B", "r2", 21)
    driver.pipe("asked", "C", "q3", 30)
    driver.pipe("asked", "C", "q4", 41)  # lets q3 out without an answer, which has no rating yet
    driver.pipe("rated", "D", "r4", 71)  # 30 + 10 + 30 is 70
    assert by_cause(driver) == {3: ["A q1/./r1 @8"], 5: ["B q2/a2/r2 @21"], 8: ["C q3/./. @30"]}
    assert driver.refused() == []


def test_results_of_table_joins_are_tables_to_the_next_join(spark: SparkSession) -> None:
    builder = StreamsBuilder("chain")
    orders = builder.table("orders", key=Text("k"), value=Text("customer"))
    shipped, customers = table(builder, "shipped"), table(builder, "customers")
    sent = orders.join(shipped, lambda order, ship: {"customer": order.customer, "by": ship.shipped}, name="sent")
    sent.left_join(
        customers, lambda order, one: {"by": order.by, "name": one.customers}, left_on="customer", name="named"
    ).to_delta("out.named")
    stream(builder, "asked").left_join(
        sent, lambda ask, order: {"ask": ask.asked, "by": order.by}, name="told"
    ).to_delta("out.told")
    driver = TopologyTestDriver(builder.build(), spark)
    driver.pipe("orders", "o1", "ann", 0)
    driver.pipe("customers", "ann", "Ann", 1)
    driver.pipe("asked", "o1", "q1", 2)
    driver.pipe("shipped", "o1", "ship", 3)
    driver.pipe("asked", "o1", "q2", 4)
    driver.pipe("customers", "ann", "Anna", 5)
    driver.pipe("orders", "o1", "bob", 6)
    driver.pipe("shipped", "o1", None, 7)
    driver.pipe("asked", "o1", "q3", 8)
    assert rows(driver, "named") == ["o1 ship/Ann @3", "o1 ship/Anna @5", "o1 ship/. @6", "o1 gone @7"]
    assert rows(driver, "told") == ["o1 q1/. @2", "o1 q2/ship @4", "o1 q3/. @8"]


@pytest.mark.soak  # chains of joins are in tests/operators/aggregate/test_chains and tests/verify
def test_rows_of_lookups_and_foreign_keys_go_into_windows(spark: SparkSession) -> None:
    """One record gives many rows by a foreign key in the table's value; each of them is a point of its own."""
    builder = StreamsBuilder("chain")
    events, names = stream(builder, "events"), table(builder, "names")
    lines = builder.table("lines", key=Text("line"), value=Json("of string, what string"))
    named = events.join(names, both, name="named")
    lined = named.left_join(
        lines, lambda event, line: {"name": event.names, "what": line.what}, right_on="of", name="lined"
    )
    lined.left_join(stream(builder, "acks"), both, after="5 ms", name="acked").to_delta("out")
    driver = TopologyTestDriver(builder.build(), spark)
    driver.pipe("names", "A", "n", 0)
    driver.pipe("lines", "l1", {"of": "A", "what": "one"}, 0)
    driver.pipe("lines", "l2", {"of": "A", "what": "two"}, 0)
    driver.pipe("events", "A", "e1", 1)
    driver.pipe("events", "B", "e2", 1)  # has no name
    driver.pipe("acks", "A", "k1", 3)
    driver.pipe("lines", "l1", None, 3)
    driver.pipe("lines", "l2", None, 3)
    driver.pipe("events", "A", "e3", 10)
    driver.pipe("acks", "A", "k2", 16)
    assert rows(driver) == ["A n/one/k1 @3", "A n/two/k1 @3", "A n/./. @10"]


# --- deletions of what is not there ----------------------------------------------------------------------------------


def test_drop_absent_deletes(spark: SparkSession) -> None:
    """With it nobody hears of the deletion of a row that is not there; without it joins do, as Kafka's uncached ones."""
    builder = StreamsBuilder("absent")
    left, right = table(builder, "left"), table(builder, "right")
    left.outer_join(right, both, name="told").to_delta("out.told")
    left.drop_absent_deletes().outer_join(right, both, name="spared").to_delta("out.spared")
    left.join(right, both, name="inner").to_delta("out.needless")
    left.join(right, both, name="again").drop_absent_deletes().to_delta("out.needed")
    driver = TopologyTestDriver(builder.build(), spark)
    driver.pipe("right", "A", "r1", 0)
    driver.pipe("left", "A", None, 1)
    driver.pipe("left", "A", "l1", 2)
    driver.pipe("left", "A", None, 3)
    driver.pipe("left", "A", None, 4)
    driver.pipe("left", "B", None, 5)
    assert by_cause(driver, "told") == {
        n: [f"A {row} @{n}"] for n, row in enumerate(["./r1", "./r1", "l1/r1", "./r1", "./r1"])
    }
    assert rows(driver, "spared") == ["A ./r1 @0", "A l1/r1 @2", "A ./r1 @3"]
    assert rows(driver, "needless") == ["A gone @1", "A l1/r1 @2", "A gone @3", "A gone @4"]
    assert rows(driver, "needed") == ["A l1/r1 @2", "A gone @3"]
    driver.pipe("left", "A", None, 6)
    driver.pipe("left", "A", "l2", 7)
    assert rows(driver, "told") == ["A ./r1 @6", "A l2/r1 @7"]
    assert rows(driver, "spared") == ["A l2/r1 @7"]
    assert rows(driver, "needless") == ["A gone @6", "A l2/r1 @7"]
    assert rows(driver, "needed") == ["A l2/r1 @7"]
