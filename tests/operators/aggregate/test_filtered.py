"""Filters of tables: which deletions they tell, for every kind of parent and of reader (decision 0028)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from tests.operators.wild import OUTPUT, Setting, Wild, require_no_faults, run
from tests.reference.aggregates import Row
from tests.reference.filtered import Counted, Filtered, Joined, Mapped, Node, Source, Told
from tests.reference.records import Record, Result
from tests.reference.suppress import Suppress
from tests.sampling import chosen

from lakestreams import Json, KTable, StreamsBuilder, Text
from lakestreams.testing import TopologyTestDriver
from lakestreams.testing.small import small
from lakestreams.topology.old_values import quiet_filters

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

    from lakestreams import Fields

VALUE = Json("a string, to string")
SEED = 20261125


class Both:
    """One topology said twice: in our words, and in the reference's, step by step in one order."""

    def __init__(self) -> None:
        self.builder = StreamsBuilder("filtered")
        self.topics: dict[str, Any] = {}
        self._count = 0

    def step(self) -> str:
        self._count += 1
        return f"step{self._count}"

    def source(self, topic: str) -> tuple[KTable, Node]:
        page = self.topics[topic] = Source()
        table = self.builder.table(topic, key=Text("k"), value=VALUE)
        return table, page

    def to_table(self, topic: str) -> tuple[KTable, Node]:
        page = self.topics[topic] = Source()
        return self._stream(topic).to_table(name=self.step()), page

    def counted(self, topic: str) -> tuple[KTable, Node]:
        page = self.topics[topic] = Counted()
        return self._stream(topic).group_by_key().count(name=self.step()), page

    def _stream(self, topic: str) -> Any:
        return self.builder.stream(topic, key=Text("k"), value=VALUE, null_values="ignore")

    def filtered(self, of: Any, condition: Callable[[Any], Column], passes: Callable[[Any], bool]) -> Any:
        return of[0].filter(condition, name=self.step()), Filtered(of[1], passes)

    def odd(self, of: Any) -> Any:
        """Rows whose text ends in an odd number."""
        return self.filtered(of, lambda one: F.coalesce(_number(one.a) % 2 == 1, F.lit(False)), _is_odd)

    def joined(self, how: str, left: Any, right: Any) -> Any:
        verb = "join" if how == "inner" else f"{how}_join"
        table = getattr(left[0], verb)(right[0], _sides, name=self.step())
        return table, Mapped(Joined(how, left[1], right[1]), _texts)

    def low(self, of: Any) -> Any:
        """Rows of a join whose texts are in order, a missing one as if it were empty."""
        return self.filtered(
            of,
            lambda one: F.coalesce(one.left, F.lit("")) <= F.coalesce(one.right, F.lit("")),
            lambda value: (value[0] or "") <= (value[1] or ""),
        )


def _number(text: Any) -> Column:
    return F.substr(text, F.lit(2)).try_cast("int")


def _is_odd(value: Any) -> bool:
    text = value["a"] or ""
    return text[1:].isdigit() and int(text[1:]) % 2 == 1


def _sides(left: Any, right: Any) -> dict[str, Column]:
    return {"left": left.a, "right": right.a}


def _texts(value: Any) -> tuple[Any, ...]:
    return tuple(None if one is None else one["a"] for one in value)


def _shown(of: Any) -> Any:
    """A source's rows as every setting shows them."""
    table = of[0].map_values(lambda one: {"left": one.a, "right": one.to})
    return table, Mapped(of[1], lambda value: (value["a"], value["to"]))


# --- topologies, each with whether its filters are quiet in the order of declaration ----------------------------------


def _plain(both: Both) -> Any:
    return _shown(both.odd(both.source("left")))


def _twice(both: Both) -> Any:
    return _shown(both.odd(both.odd(both.source("left"))))


def _of_stream(both: Both) -> Any:
    return _shown(both.odd(both.to_table("left")))


def _looked_into(both: Both) -> Any:
    """Another reader has given the source a store before the filter is declared."""
    left = both.source("left")
    both.joined("inner", left, both.source("right"))
    return _shown(both.odd(left))


def _looked_into_later(both: Both) -> Any:
    left = both.source("left")
    told = _shown(both.odd(left))
    both.joined("inner", left, both.source("right"))
    return told


def _of_count(both: Both) -> Any:
    counts = both.counted("left")
    some = both.filtered(counts, lambda one: one["count"] % 3 == 0, lambda value: value % 3 == 0)
    table = some[0].map_values(lambda one: {"left": one["count"].cast("string"), "right": F.lit(None).cast("string")})
    return table, Mapped(some[1], lambda value: (str(value), None))


def _of_join(how: str) -> Callable[[Both], Any]:
    return lambda both: both.low(both.joined(how, both.source("left"), both.source("right")))


def _before_join(how: str) -> Callable[[Both], Any]:
    return lambda both: both.joined(how, both.odd(both.source("left")), both.source("right"))


def _right_of_join(how: str) -> Callable[[Both], Any]:
    return lambda both: both.joined(how, both.source("left"), both.odd(both.source("right")))


def _around_join(both: Both) -> Any:
    """The filter behind the join asks it, and it asks what is before it."""
    return both.low(both.joined("inner", both.odd(both.source("left")), both.source("right")))


TOPOLOGIES: dict[str, tuple[Callable[[Both], Any], tuple[bool, ...]]] = {
    "source": (_plain, (False,)),
    "source, two filters": (_twice, (False, False)),
    "to_table": (_of_stream, (False,)),
    "source with a store": (_looked_into, (True,)),
    "source that gets a store later": (_looked_into_later, (False,)),
    "count": (_of_count, (True,)),
    "inner join": (_of_join("inner"), (True,)),
    "left join": (_of_join("left"), (True,)),
    "outer join": (_of_join("outer"), (True,)),
    "before an inner join": (_before_join("inner"), (False,)),
    "before a left join": (_before_join("left"), (True,)),
    "before an outer join": (_before_join("outer"), (True,)),
    "right of an inner join": (_right_of_join("inner"), (False,)),
    "right of a left join": (_right_of_join("left"), (False,)),
    "right of an outer join": (_right_of_join("outer"), (True,)),
    "before and behind an inner join": (_around_join, (True, True)),
}
JOINED = {name for name in TOPOLOGIES if "join" in name}


class Page:
    """A graph of the reference as a page: what its last table tells."""

    def __init__(self, make: Callable[[Both], Any], *, joined: bool, held: int | None = None) -> None:
        both = Both()
        _, table = make(both)
        self._topics, self._told = both.topics, Told(table, joined=joined)
        self._held = held
        self._buffers: dict[int, Suppress] = {}

    def left(self, record: Record) -> list[Result]:
        return self._put("left", record)

    def right(self, record: Record) -> list[Result]:
        return self._put("right", record)

    def _put(self, topic: str, record: Record) -> list[Result]:
        if topic in self._topics:
            self._topics[topic].put(record)
        found = self._told.since_last()
        if self._held is None:
            return found
        buffer = self._buffers.setdefault(record.task, Suppress(self._held))
        out: list[Result] = []
        for one in found:
            update = Record(record.source, record.partition, record.offset, one.ts, one.key, one.value)
            out += [Row(done.key, done.value, done.ts, record, (done,)) for done in buffer.put(update)]
        return out


def _built(make: Callable[[Both], Any], suppress: str | None = None) -> Any:
    both = Both()
    table = make(both)[0]
    (table if suppress is None else table.suppress(suppress)).to_delta(OUTPUT, mode="changes")
    for topic in {"left", "right"} - set(both.topics):
        both.builder.table(topic, key=Text("k"), value=VALUE).to_delta(f"unused_{topic}")
    return both.builder.build()


def settings() -> Iterator[Setting]:
    for name, (make, _) in TOPOLOGIES.items():
        page = lambda make=make, name=name: Page(make, joined=name in JOINED)  # noqa: E731 - as the other pages
        streams = {"to_table", "count"}
        yield Setting(name, _built(make), page, ("right",) if name in streams else ("left", "right"))
    page = lambda: Page(_asked, joined=False, held=7)  # noqa: E731
    yield Setting("before a suppress", _built(_plain, "7 ms"), page, ("left", "right"))


def _asked(both: Both) -> Any:
    """As `_plain`, asked by a buffer behind it."""
    made = _plain(both)
    made[1].ask(True)
    return made


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_which_filters_know_old_values(name: str) -> None:
    make, quiet = TOPOLOGIES[name]
    topology = _built(make)
    filters = [node.name for node in topology.nodes if type(node).__name__ == "Filter"]
    assert tuple(one in quiet_filters(topology.nodes) for one in filters) == quiet


FURTHER: dict[str, tuple[Callable[[KTable, KTable], Any], bool]] = {
    "nothing": (lambda one, _: one, False),
    "to_stream": (lambda one, _: one.to_stream(), False),
    "suppress": (lambda one, _: one.suppress("5 ms"), True),
    "map_values, suppress": (lambda one, _: one.map_values(lambda row: {"a": row.a}).suppress("5 ms"), True),
    "foreign-key join, left": (lambda one, other: one.join(other, left_on=lambda row: {"k": row.a}), True),
    "foreign-key join, right": (lambda one, other: other.join(one, left_on=lambda row: {"k": row.a}), True),
    "filter of a join": (lambda one, other: one.join(other).filter(lambda row: row.left_a.isNull()), True),
}  # fmt: skip


@pytest.mark.parametrize("name", FURTHER)
def test_what_stands_behind_asks_for_old_values(name: str) -> None:
    then, quiet = FURTHER[name]
    builder = StreamsBuilder("asked")
    left, right = (builder.table(topic, key=Text("k"), value=Text("a")) for topic in ("left", "right"))
    then(left.filter(lambda one: one.a == "x", name="filtered"), right).to_delta("out")
    assert ("filtered" in quiet_filters(builder.build().nodes)) is quiet


def test_filters_that_only_streams_look_into_or_groups_read_keep_nothing() -> None:
    builder = StreamsBuilder("lookup")
    table = builder.table("t", key=Text("k"), value=Text("a"))
    builder.stream("s", key=Text("k"), value=Text("b")).join(table, name="first").to_delta("out.first")
    some = table.filter(lambda one: one.a == "x")
    builder.stream("u", key=Text("k"), value=Text("b")).join(some, name="second").to_delta("out.second")
    some.group_by(lambda one: {"k": one.a}).count().to_delta("out.counts")
    assert quiet_filters(builder.build().nodes) == frozenset()


def test_filters_of_versioned_tables_tell_every_deletion() -> None:
    builder = StreamsBuilder("versioned")
    table = builder.table("t", key=Text("k"), value=Text("a"), as_of=True, history="1 s")
    other = builder.table("o", key=Text("k"), value=Text("b"))
    table.filter(lambda one: one.a == "x").left_join(other).to_delta("out")
    assert quiet_filters(builder.build().nodes) == frozenset()


@pytest.fixture(scope="module")
def _small(spark: SparkSession) -> Iterator[None]:
    with small(spark):
        yield


@pytest.mark.slow
@pytest.mark.usefixtures("_small")
def test_a_count_that_never_passed_is_not_deleted(spark: SparkSession) -> None:
    builder = StreamsBuilder("counts")
    counts = builder.stream("in", key=Text("k"), value=Text("v")).group_by_key().count()
    counts.filter(lambda one: one["count"] > 1).to_delta("out", mode="changes")
    driver = TopologyTestDriver(builder.build(), spark)
    driver.pipe("in", "a", "x", 0)
    driver.pipe("in", "a", "y", 1)
    assert [(one.key, one.value, one.timestamp) for one in driver.read()] == [("a", {"count": 2}, 1)]


@pytest.mark.slow
@pytest.mark.usefixtures("_small")
def test_a_joined_row_is_deleted_once_it_had_passed(spark: SparkSession) -> None:
    """And no sooner; read in two parts, too."""
    builder = StreamsBuilder("sums")
    left, right = (builder.table(name, key=Text("k"), value=Text(name)) for name in ("L", "R"))
    added: Callable[[Fields, Fields], dict[str, Column]] = lambda l, r: {"s": l.L.cast("int") + r.R.cast("int")}  # noqa: E731, E741
    left.join(right, added).filter(lambda one: one.s > 10).to_delta("out", mode="changes")
    driver = TopologyTestDriver(builder.build(), spark)
    driver.pipe("L", "a", "1", 0)
    found = []
    for value, time in (("1", 1), ("2", 2), ("20", 3), ("1", 4), ("2", 5)):
        driver.pipe("R", "a", value, time)
        if time == 3:
            found += driver.read()
    found += driver.read()
    assert [(one.value, one.timestamp) for one in found] == [({"s": 21}, 3), (None, 4)]


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("_small")
def test_random_histories_as_the_reference_says(spark: SparkSession) -> None:
    """Of a sample by a seed; which filters are quiet is looked at of each above, and all histories are in `make soak`."""
    lots = [(one, Wild().histories(6, f"{SEED}/{one.name}")) for one in chosen(settings(), 6)]
    require_no_faults(spark, run(spark, lots, steps=2, seed=SEED), steps=2, seed=SEED)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.usefixtures("_small")
def test_random_histories_for_long(spark: SparkSession) -> None:
    lots = [(one, Wild().histories(200, f"{SEED + 1}/{one.name}")) for one in settings()]
    require_no_faults(spark, run(spark, lots, steps=4, seed=SEED + 1), steps=4, seed=SEED + 1)


@pytest.mark.slow
@pytest.mark.usefixtures("_small")
def test_a_final_row_that_comes_again_is_compared_with_the_one_before(spark: SparkSession) -> None:
    """A key lies in two partitions, each of which lets its window out by its own clock; read at once, and in parts."""
    builder = StreamsBuilder("finals")
    counts = builder.stream("in", key=Text("k"), value=Text("v")).group_by_key().windowed_by("10 ms").count()
    once = counts.suppress("window_closes").filter(lambda one: one["count"] < 2, name="once")
    once.to_delta("out", mode="changes")
    topology = builder.build()
    pieces = [
        [("a", 5, 0), ("e", 5, 0), ("b", 20, 0)],
        [("a", 6, 1), ("b", 25, 1)],
    ]
    results = []
    for in_parts in (False, True):
        driver = TopologyTestDriver(topology, spark, partitions={"in": 2})
        results.append([])
        for piece in pieces:
            for key, time, partition in piece:
                driver.pipe("in", key, "x", time, partition=partition)
            results[-1] += driver.read() if in_parts else []
        results[-1] += driver.read()
    assert results[0] == results[1]
    rows = [(one.key["k"], None if one.value is None else one.value["count"], one.timestamp) for one in results[0]]
    assert rows == [("a", 1, 5), ("e", 1, 5), ("a", None, 6)]
    assert driver._histories._retained["once"]["table"].count() == 0, "the window of e is closed in both partitions"
