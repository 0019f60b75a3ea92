"""`maintain`: bronze trimmed, files joined and removed, caches lost, and the results are those of a run that saw none of it."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pytest
from pyspark.sql import functions as F  # noqa: N812
from tests.engine.harness import ZERO, Bench, assert_ledger_sound, claimed, facts, fresh_topics, page_views
from tests.engine.jobs import JOBS, Job, Record

from lakestreams import StreamsBuilder, Text, Topology
from lakestreams.costs import spans
from lakestreams.engine.ingest import bronze_rows
from lakestreams.engine.ledger import fingerprint
from lakestreams.engine.ledger.ledger import Ledger
from lakestreams.engine.ledger.plans import History, Plan, Range
from lakestreams.engine.runtime import failpoints
from lakestreams.engine.runtime.failpoints import FailpointReached
from lakestreams.engine.runtime.lake import Lake
from lakestreams.engine.state import snapshots, store
from lakestreams.engine.state.reach import reach
from lakestreams.engine.state.snapshots import Snapshot
from lakestreams.engine.state.table_state import TableState
from lakestreams.errors import BronzeTrimmed, InvalidOption, NoSuchRecord, NothingToMaintain, NothingToVerify
from lakestreams.expectations.rules import kept
from lakestreams.maintenance.maintain import Options, maintain
from lakestreams.maintenance.needed import may_refuse_later
from lakestreams.maintenance.trimming import Trimming, up_to
from lakestreams.testing.small import small
from lakestreams.topology.endpoints import Source
from lakestreams.verify.verify import verify
from lakestreams.verify.why import why

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.local.broker import Broker

ANY_TIME = 2**53  # of ingest: all of it lies before
LONGEST_S = 90  # no statement takes so long, even beside other work, so none needs files that are older and of no version any more
CHECK = "spark.databricks.delta.retentionDurationCheck.enabled"


@pytest.fixture(autouse=True, scope="module")
def _small(spark: SparkSession) -> Iterator[None]:
    with small(spark):
        yield


@pytest.fixture
def _any_vacuum(spark: SparkSession) -> Iterator[None]:
    spark.conf.set(CHECK, "false")
    yield
    spark.conf.unset(CHECK)


def ran(spark: SparkSession, broker: Broker, root: Path, job: Job) -> Bench:
    """A job that has run over its old data in several cycles, its past stored after each."""
    topics = fresh_topics(broker, 2, job.topics)
    bench = Bench(spark, broker, root, job.build(*topics))
    produce(bench, job.old(), job)
    bench.run(max_offsets_per_trigger=80, snapshot_every=1)
    return bench


def produce(bench: Bench, records: Any, job: Job) -> None:
    for source, name in zip(bench.topology.sources, job.topics, strict=True):
        bench.broker.produce(source.topic, records[name])


def trimming(bench: Bench) -> Trimming:
    """What `maintain` does first, alone."""
    own = fingerprint.of_state(bench.topology, "")
    return Trimming(bench.spark, Ledger(bench.lake, bench.topology.name), bench.topology, own)


def later(records: Mapping[str, Sequence[Record]]) -> dict[str, list[Record]]:
    """The same once more, dated after all others."""
    return {topic: [(key, value, time + 5_000) for key, value, time in own] for topic, own in records.items()}


def lose_caches(bench: Bench, *, bases: bool = False) -> int:
    """What somebody who knows that these are caches does; how many there were."""
    control = bench.root / "_lakestreams"
    kinds = ("snapshot_*", "state_*__a", "state_*__b", *(("state_*__base_a", "state_*__base_b") if bases else ()))
    lost = [folder for kind in kinds for folder in control.glob(kind)]
    for folder in lost:
        shutil.rmtree(folder)
    return len(lost)


def places(bench: Bench, topic: str) -> set[tuple[int, int]]:
    return {(row[0], row[1]) for row in bench.bronze(topic).select("partition", "offset").collect()}


def live_places(bench: Bench, source: Source) -> set[tuple[int, int]]:
    """Of each key in bronze the last record, if it is none that deletes: in plain Python, from what is there now."""
    found: dict[Any, tuple[int, int, bool]] = {}
    readable = bench.bronze(source.topic).where("error is null and k is not null")
    rows = kept(readable, source, bench.topology.expectations).orderBy("offset").collect()
    for row in rows:  # a key lies in one partition
        found[row["k"]] = (row["partition"], row["offset"], row["v"] is not None)
    return {(partition, offset) for partition, offset, there in found.values() if there}


def needed_places(bench: Bench, source: Source) -> set[tuple[int, int]]:
    """What trimming may not delete: rows of tables that are there, and records whose bytes quarantine may still want."""
    if source.kind == "table":
        return live_places(bench, source)
    ledger = Ledger(bench.lake, bench.topology.name)
    stored = ledger.history(bench.spark).state
    if stored is None or not may_refuse_later(bench.topology):
        return set()
    frames = [one for own in store.load(bench.spark, ledger, stored).values() for one in own.values()]
    remembered = [row["contributors"] for one in frames if "contributors" in one.columns for row in one.collect()]
    return {(one["partition"], one["offset"]) for many in remembered for one in many if one["source"] == source.topic}


class Busy:
    """Maintains again and again while a run works, as `lakestreams maintain --outputs` does: joins files, removes old ones.

    Args:
        most: so often at most, where the test looks at no file that gets old.

    Attributes:
        times: how often it is through.
        removed: data files that were there when it began and are not any more.
        error: what it has failed of.
    """

    def __init__(self, bench: Bench, vacuum_hours: float | None = None, most: int = 1_000) -> None:
        self._bench = bench
        self._most = most
        self._options = Options(outputs=True, vacuum_hours=vacuum_hours)
        self._before = [path for path in bench.root.rglob("*.parquet") if path.parent.name != "_delta_log"]
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work)
        self.times = 0
        self.error: Exception | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    @property
    def removed(self) -> list[Path]:
        return [path for path in self._before if not path.exists()]

    def _work(self) -> None:
        try:
            while not self._ended.is_set() and self.times < self._most:
                maintain(self._bench.spark, self._bench.lake, self._bench.topology, self._options)
                self.times += 1
        except Exception as error:  # noqa: BLE001 - told by the test
            self.error = error


@pytest.mark.broker
@pytest.mark.slow
@pytest.mark.usefixtures("_any_vacuum")
@pytest.mark.parametrize(
    ("name", "again"),
    [("enrichment", False), *(pytest.param(name, True, marks=pytest.mark.soak) for name in JOBS)],
)
def test_trimmed_compacted_and_robbed_of_its_caches_a_job_gives_the_same(
    spark: SparkSession, broker: Broker, tmp_path: Path, name: str, again: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = JOBS[name]
    bench = ran(spark, broker, tmp_path / "tended", job)
    cycles = bench.ledger().where("kind = 'plan'").count()
    assert cycles > 1
    needed = {one.topic: needed_places(bench, one) for one in bench.topology.sources}
    whole = {one.topic: places(bench, one.topic) for one in bench.topology.sources}
    files = sorted(path for path in (tmp_path / "tended").rglob("*.json"))

    # a dry run tells what would go, and changes nothing
    told = trimming(bench).planned(ANY_TIME)
    assert (told.cycle, told.notes) == (cycles, [])
    assert sorted(path for path in (tmp_path / "tended").rglob("*.json")) == files

    def fails(point: str) -> None:
        monkeypatch.setenv(failpoints.VARIABLE, f"{point}:1:raise")
        with pytest.raises(FailpointReached):
            trimming(bench).run(ANY_TIME)
        monkeypatch.delenv(failpoints.VARIABLE)

    # a crash at each step up to where it is said what is to be deleted: nothing is, yet
    *before, last = (one for one in failpoints.MAINTENANCE if name != "enrichment" or not one.startswith("base."))
    for point in before:
        fails(point)
        assert {one.topic: places(bench, one.topic) for one in bench.topology.sources} == whole, point
    if again:
        assert trimming(bench).run(ANY_TIME) == told
    else:
        fails(last)  # it is deleted, and not yet said
        assert trimming(bench).run(ANY_TIME).cycle == told.cycle
    for source in bench.topology.sources:
        assert places(bench, source.topic) == needed[source.topic]
    streams = {one.topic for one in bench.topology.sources if one.kind == "stream"}
    assert Ledger(bench.lake, bench.topology.name).history(spark).trimmed_streams == streams
    with pytest.raises(NothingToVerify, match="up to where bronze is trimmed"):
        verify(spark, bench.lake, bench.topology)
    with pytest.raises(NoSuchRecord, match="it is trimmed"):
        why(spark, bench.lake, bench.topology, place=(bench.topology.sources[0].topic, 1, 0))

    # small files are joined and old ones removed, caches are lost, and the next run goes on, maintained beside it (in soak all the while)
    assert lose_caches(bench)
    tended = maintain(spark, bench.lake, bench.topology, Options(outputs=True, vacuum_hours=0))
    assert all(one.files_after <= 2 for one in tended.tables)
    produce(bench, job.new(), job)
    with Busy(bench, most=1_000 if again else 1) as busy:
        bench.run(max_offsets_per_trigger=10 if again else 1_000, snapshot_every=1)
    assert busy.error is None, str(busy.error)[:500]
    assert busy.times > 0
    assert not busy.removed, "a run may still need them for seven days"
    verdict = verify(spark, bench.lake, bench.topology)
    assert {one.what: one.examples for one in verdict.findings if one.differs} == {}
    assert verdict.from_cycle == cycles + 1
    with pytest.raises(
        BronzeTrimmed, match=f"up to cycle {cycles}; the earliest cycle that can be verified is {cycles + 1}"
    ):
        verify(spark, bench.lake, bench.topology, from_cycle=cycles)

    if again:  # from there on: the base moves, the rows of tables that have changed are replaced
        needed = {one.topic: needed_places(bench, one) for one in bench.topology.sources}
        fails(last)
        assert trimming(bench).run(ANY_TIME).cycle > cycles
        for source in bench.topology.sources:
            assert places(bench, source.topic) == needed[source.topic]
        assert lose_caches(bench)
        produce(bench, later(job.new()), job)
        with Busy(bench, vacuum_hours=LONGEST_S / 3_600) as busy:
            bench.run(max_offsets_per_trigger=10, snapshot_every=16)
            while busy.error is None and not busy.removed:  # the files that runs have left so far grow old
                bench.run(snapshot_every=16)
        assert busy.error is None, str(busy.error)[:500]

    undisturbed = Bench(spark, broker, tmp_path / "undisturbed", bench.topology)
    undisturbed.run()
    expected = facts(undisturbed)
    for what, rows in facts(bench).items():
        if what not in whole:
            assert rows == expected[what], what
    assert_ledger_sound(bench)
    if again:  # else nothing was written since the last look
        verdict = verify(spark, bench.lake, bench.topology)
        assert {one.what: one.examples for one in verdict.findings if one.differs} == {}

    if name == "correlation":  # what it remembers is of its configuration; how fast it runs is not part of that
        bench.run(config_text="another pace", semantics="")
        with pytest.raises(BronzeTrimmed, match="is of another configuration"):
            bench.run(semantics="another window")
        assert lose_caches(bench, bases=True)
        with pytest.raises(BronzeTrimmed, match="is missing"):
            bench.run()


@pytest.mark.broker
@pytest.mark.soak  # what a state keeps is looked at below, and of a windowed join's rows in test_remembered
def test_a_record_that_waits_is_trimmed_only_when_it_cannot_be_refused_any_more(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    """However far other topics of the pipeline are, that the join does not read."""
    views, users = fresh_topics(broker, 1)
    others = f"Other{views}"
    broker.create_topic(others)
    builder = StreamsBuilder("waiting")
    stream = builder.stream(views, key=Text("user"), value=Text("page"))
    stream.join(builder.table(users, key=Text("user"), value=Text("region")), wait="100 ms").to_delta("silver.waited")
    builder.stream(others, key=Text("user"), value=Text("page")).to_delta("silver.others")
    bench = Bench(spark, broker, tmp_path, builder.build())
    broker.produce(users, [("known", "EU", ZERO)])
    broker.produce(views, [("known", "/1", ZERO + 10), ("never", "/2", ZERO + 60), ("known", "/3", ZERO + 130)])
    broker.produce(others, [("x", "/", ZERO + 3_600_000)])
    bench.run(snapshot_every=1)
    assert trimming(bench).run(ANY_TIME).rows == {views: 1, users: 0, others: 1}
    assert places(bench, views) == {(0, 1), (0, 2)}, "the one that waits, and the last one, which has the clock"
    broker.produce(views, [("known", "/4", ZERO + 3_600_000)])
    bench.run(snapshot_every=1)
    (refused,) = bench.quarantine().select("code", F.col("value").cast("string"), "offset").collect()
    assert tuple(refused) == ("NO_PARTNER", "/2", 1)
    assert trimming(bench).run(ANY_TIME).rows[views] == 2
    assert places(bench, views) == {(0, 3)}


@pytest.mark.broker
@pytest.mark.soak
def test_what_a_running_driver_builds_on_is_not_trimmed(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    job = JOBS["correlation"]
    bench = ran(spark, broker, tmp_path, job)
    assert lose_caches(bench)
    driver = bench.driver(snapshot_every=100)
    driver.start()  # it has to evaluate all cycles again, and will until it stores
    done = trimming(bench).run(ANY_TIME)
    assert done.cycle == 0
    assert any("is stored as of cycle 0, that is not yet" in note for note in done.notes)
    produce(bench, job.new(), job)
    driver.round()
    assert verify(spark, bench.lake, bench.topology).equal

    took = bench.ledger().where("kind = 'plan'").selectExpr("cycle", "array_max(clocks.clock_ms) as clock")
    first, last = took.orderBy("cycle").first(), took.orderBy(F.desc("cycle")).first()
    assert first is not None
    assert last is not None
    measured = spans.cycle_ms(spark, Ledger(bench.lake, bench.topology.name))
    assert measured == (last["clock"] - first["clock"]) / (last["cycle"] - first["cycle"])


@pytest.mark.broker
@pytest.mark.slow
def test_a_row_that_was_deleted_stays_deleted_where_bronze_is_trimmed(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    """A snapshot has it, and only bronze knows of its deletion."""
    views, users = fresh_topics(broker)
    bench = Bench(spark, broker, tmp_path, page_views(views, users))
    broker.produce(users, [("kept", "EU", ZERO), ("gone", "EU", ZERO)])
    bench.run(snapshot_every=1)
    broker.produce(users, [("gone", None, ZERO + 10), ("came", "US", ZERO + 10)])
    broker.produce(views, [("gone", "/1", ZERO + 20)])
    bench.run(snapshot_every=100)
    assert trimming(bench).run(ANY_TIME).cycle == 2
    assert places(bench, users) == {(0, 0), (0, 2), (0, 3)}
    for number in (2, 3):  # then it is in the snapshot, too
        produced = [(name, f"/{number}", ZERO + number * 20) for name in ("gone", "kept", "came")]
        broker.produce(views, produced)
        broker.produce(users, [("other", "EU", ZERO + number * 20)])
        bench.run(snapshot_every=1)
    found = {(user, page): region for user, page, region in bench.enriched()}
    assert {region for (user, _), region in found.items() if user == "gone"} == {"<unknown>"}
    assert [found[user, "/3"] for user in ("kept", "came")] == ["EU", "US"]
    assert trimming(bench).run(ANY_TIME).rows[users] > 0
    assert (0, 2) not in places(bench, users), "the snapshot knows"


# --- without a broker ------------------------------------------------------------------------------------------------


def versioned() -> Topology:
    builder = StreamsBuilder("prices")
    orders = builder.stream("Orders", key=Text("item"), value=Text("amount"))
    prices = builder.table("Prices", key=Text("item"), value=Text("price"), as_of=True, history="1 s")
    orders.join(prices).to_delta("silver.priced")
    return builder.build()


def compared() -> Topology:
    builder = StreamsBuilder("prices")
    orders = builder.stream("Orders", key=Text("item"), value=Text("amount"))
    prices = builder.table("Prices", delta="shop.prices", key="item string", value="price string", changes="snapshot")
    orders.join(prices).to_delta("silver.priced")
    return builder.build()


# key, value, event time, cycle, whether it can be read; in this order the offsets of one partition
PRICES = [
    ("a", "1", ZERO, 1, True),
    ("a", "2", ZERO + 100, 1, True),
    ("b", "1", ZERO + 200, 1, True),
    ("b", None, ZERO + 300, 1, True),
    (None, "1", ZERO + 310, 1, True),
    ("c", "1", ZERO + 320, 1, False),
    ("a", "3", ZERO + 2_000, 2, True),
    ("d", "1", ZERO + 2_010, 2, True),
    ("d", None, ZERO + 2_020, 2, True),
    ("a", "4", ZERO + 50, 2, True),
    ("e", "1", ZERO + 2_030, 3, True),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("topology", "as_of", "kept"),
    [
        # the last of each key up to cycle 2, and what a later cycle has
        (page_views("Orders", "Prices"), 0, {9, 10}),
        # beside that, the deletion that a snapshot lacks
        (page_views("Orders", "Prices"), 1, {8, 9, 10}),
        (page_views("Orders", "Prices"), 2, {9, 10}),
        # beside that, what lies in the last second, and of each key what was valid when it began
        (versioned(), 0, {1, 6, 7, 8, 9, 10}),
        # beside that, what a Delta table said last of a key and nobody could read: else it would be read once more
        (compared(), 0, {4, 5, 9, 10}),
    ],
    ids=["table", "a snapshot lacks a cycle", "a snapshot", "versioned", "compared"],
)
def test_of_a_table_what_is_still_looked_at_stays(
    spark: SparkSession, tmp_path: Path, topology: Topology, as_of: int, kept: set[int]
) -> None:
    ledger, plans = laid(spark, tmp_path, topology, [(0, *one) for one in PRICES])
    source = topology.sources[1]
    if as_of:
        snapshots.refresh(spark, ledger, source, Snapshot(), plans[:as_of], topology.expectations)
    assert outdated(spark, ledger, topology, plans[1]) == {(0, offset) for offset in set(range(len(PRICES))) - kept}


def test_a_global_table_is_stored_and_trimmed_in_the_order_in_which_it_is_looked_up(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Its rows come before anything else of their cycle, so in it partitions and offsets are their order, and no time."""
    builder = StreamsBuilder("prices")
    orders = builder.stream("Orders", key=Text("item"), value=Text("amount"))
    prices = builder.global_table("Prices", key=Text("item"), value=Text("price"))
    orders.join(prices, left_on=lambda order: order.item).to_delta("silver.priced")
    topology = builder.build()
    ledger, plans = laid(
        spark, tmp_path, topology, [(0, "a", "earlier partition", ZERO + 200, 1, True), (1, "a", "last", ZERO, 1, True)]
    )
    source = topology.sources[1]
    snapshots.refresh(spark, ledger, source, Snapshot(), plans, topology.expectations)
    table = ledger.lake.snapshot(topology.name, "Prices").read(spark)
    assert [row[0] for row in table.where("k is not null").select("v.price").collect()] == ["last"]
    assert outdated(spark, ledger, topology, plans[0]) == {(0, 0)}


def test_a_snapshot_of_other_rules_is_not_used_behind_a_trim(spark: SparkSession, tmp_path: Path) -> None:
    """Bronze has what the rules of its trim leave; rows and deletions that others would want are gone."""

    def ruled(condition: str | None) -> Topology:
        builder = StreamsBuilder("prices")
        prices = builder.table("Prices", key=Text("item"), value=Text("price"))
        if condition is not None:
            prices.expect_or_drop("fits", condition)
        builder.stream("Orders", key=Text("item"), value=Text("amount")).join(prices).to_delta("silver.priced")
        return builder.build()

    before, now = ruled("price != '3'"), ruled(None)
    ledger, plans = laid(spark, tmp_path, before, [(0, *one) for one in PRICES])
    source = before.sources[0]
    snapshots.refresh(spark, ledger, source, Snapshot(), plans[:1], before.expectations)
    assert snapshots.find(spark, ledger, source, before.expectations).cycle == 1
    snapshots.forget(spark, ledger, source, before.expectations)
    assert snapshots.find(spark, ledger, source, before.expectations).cycle == 1
    snapshots.forget(spark, ledger, now.sources[0], now.expectations)
    assert snapshots.find(spark, ledger, source, before.expectations) == Snapshot()
    snapshots.refresh(spark, ledger, source, Snapshot(), plans[:1], before.expectations)
    snapshots.forget(spark, ledger, source, None)
    assert snapshots.find(spark, ledger, source, before.expectations) == Snapshot()


def test_a_topic_that_was_trimmed_as_a_stream_is_no_table_any_more(spark: SparkSession, tmp_path: Path) -> None:
    """Nothing of it is left, so its rows would be missing without a word."""
    builder = StreamsBuilder("prices")
    builder.stream("Prices", key=Text("item"), value=Text("price")).to_delta("silver.prices")
    ledger, plans = laid(spark, tmp_path, builder.build(), [(0, *one) for one in PRICES])
    streams = Trimming(spark, ledger, builder.build(), "").streams(
        History(trimmed_streams=frozenset({"Former"})), plans[0]
    )
    assert streams == {"Prices", "Former"}
    ledger.record_trim(spark, up_to(plans[0]), streams, done=False)
    history = ledger.history(spark)
    topology = page_views("Orders", "Prices", pipeline="prices")
    assert history.trimmed_streams == streams
    for refused in (
        lambda: reach(spark, ledger, topology, history),
        lambda: TableState(spark, ledger, topology, 16).resume(history),
    ):
        with pytest.raises(BronzeTrimmed, match="Prices was read as a stream up to cycle 1"):
            refused()
    assert reach(spark, ledger, page_views("Prices", "Others", pipeline="prices"), history) == 1


def laid(
    spark: SparkSession,
    root: Path,
    topology: Topology,
    given: Sequence[tuple[int, str | None, str | None, int, int, bool]],
) -> tuple[Ledger, list[Plan]]:
    """Bronze of `Prices`, and a plan for each cycle: partition, key, value, event time, cycle, whether it can be read."""
    lake = Lake(str(root))
    (source,) = (one for one in topology.sources if one.topic.endswith(("Prices", "prices")))
    ledger = Ledger(lake, topology.name)
    ledger.create(spark)
    ledger = claimed(spark, ledger, "run", configuration=fingerprint.Configuration("", "", ""))
    (value,) = (one.name for one in source.value.fields)
    (key,) = (one.name for one in source.key.fields)
    ends: dict[int, int] = {}
    rows, plans = [], []
    for cycle in sorted({one[4] for one in given}):
        begins = dict(ends)
        for partition, name, text, time, of, readable in given:
            if of != cycle:
                continue
            offset = ends.get(partition, 0)
            ends[partition] = offset + 1
            earlier = [row["event_time_ms"] for row in rows if row["partition"] == partition and row["error"] is None]
            rows.append(
                {"topic": source.topic, "partition": partition, "offset": offset, "attempt": 0, "event_time_ms": time,
                 "seq": cycle, "stream_time_ms": max([*earlier, *([time] if readable else [])]),
                 "key": None if name is None else name.encode(), "value": None if text is None else text.encode(),
                 "error": None if readable else {"code": "MALFORMED_VALUE", "message": ""},
                 "k": None if name is None else {key: name}, "v": None if text is None else {value: text}}
            )  # fmt: skip
        parts = [
            Range(source.topic, one, begins.get(one, 0), end, end - begins.get(one, 0)) for one, end in ends.items()
        ]
        plans.append(Plan(cycle, "", tuple(parts), {}, cycle, cycle))
        ledger.record(spark, ledger.plan_row(plans[-1]))
    bronze_rows.create_bronze(spark, lake, topology.name, source)
    frame = spark.createDataFrame(rows, bronze_rows.bronze_schema(spark, source))  # type: ignore[type-var]
    lake.bronze(topology.name, source.topic).append(frame, "test", 1)
    return ledger, plans


def outdated(spark: SparkSession, ledger: Ledger, topology: Topology, last: Plan) -> set[tuple[int, int]]:
    """Partition and offset of what a trim up to a plan would delete of `Prices`."""
    (source,) = (one for one in topology.sources if one.topic.endswith(("Prices", "prices")))
    found = Trimming(spark, ledger, topology, "")._outdated(source, History(), up_to(last))
    return {(row["partition"], row["offset"]) for row in found.collect()}


def test_what_cannot_be_maintained_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(NothingToMaintain, match="page_views has never run"):
        maintain(spark, Lake(str(tmp_path)), page_views(), Options())
    with pytest.raises(InvalidOption, match="after 24 hours"):
        maintain(spark, Lake(str(tmp_path)), page_views(), Options(vacuum_hours=24))


def test_a_state_is_of_its_topology_and_of_what_results_follow_from() -> None:
    one, other = page_views(), page_views(how="inner")
    assert fingerprint.is_of(fingerprint.of_state(one, "x"), one)
    assert not fingerprint.is_of(fingerprint.of_state(other, "x"), one)
    assert fingerprint.of_state(one, "x") != fingerprint.of_state(one, "y")
