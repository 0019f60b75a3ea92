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
from lakestreams.engine.state import snapshots
from lakestreams.engine.state.snapshots import Snapshot
from lakestreams.errors import BronzeTrimmed, InvalidOption, NoSuchRecord, NothingToMaintain, NothingToVerify
from lakestreams.expectations.rules import kept
from lakestreams.maintenance.maintain import Options, maintain
from lakestreams.maintenance.trimming import Trimming
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


def lose_caches(bench: Bench, *, bases: bool = False) -> None:
    """What somebody who knows that these are caches does."""
    control = bench.root / "_lakestreams"
    kinds = ("snapshot_*", "state_*__a", "state_*__b", *(("state_*__base_a", "state_*__base_b") if bases else ()))
    lost = [folder for kind in kinds for folder in control.glob(kind)]
    assert lost
    for folder in lost:
        shutil.rmtree(folder)


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


REFUSED_UP_TO_MS = {"correlation": 120}  # how long behind a record's time a rule behind the join may drop what it gives


def needed_places(bench: Bench, source: Source, job: Job) -> set[tuple[int, int]]:
    """What trimming may not delete: rows of tables that are there, and records whose bytes quarantine may still want."""
    if source.kind == "table":
        return live_places(bench, source)
    if job.name not in REFUSED_UP_TO_MS:
        return set()
    last = bench.ledger().where("kind = 'plan'").orderBy(F.desc("cycle")).first()
    assert last is not None
    over = min(one["clock_ms"] for one in last["clocks"]) - REFUSED_UP_TO_MS[job.name]
    young = bench.bronze(source.topic).where(F.col("event_time_ms") >= over).select("partition", "offset").collect()
    return {(row[0], row[1]) for row in young}


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
    needed = {one.topic: needed_places(bench, one, job) for one in bench.topology.sources}
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
    with pytest.raises(NothingToVerify, match="up to where bronze is trimmed"):
        verify(spark, bench.lake, bench.topology)
    with pytest.raises(NoSuchRecord, match="it is trimmed"):
        why(spark, bench.lake, bench.topology, place=(bench.topology.sources[0].topic, 1, 0))

    # small files are joined and old ones removed, caches are lost, and the next run goes on, maintained beside it (in soak all the while)
    lose_caches(bench)
    tended = maintain(spark, bench.lake, bench.topology, Options(outputs=True, vacuum_hours=0))
    assert all(one.files_after <= 2 for one in tended.tables)
    produce(bench, job.new(), job)
    with Busy(bench, most=1_000 if again else 1) as busy:
        bench.run(max_offsets_per_trigger=10 if again else 1_000, snapshot_every=1)
    assert busy.error is None
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
        needed = {one.topic: needed_places(bench, one, job) for one in bench.topology.sources}
        fails(last)
        assert trimming(bench).run(ANY_TIME).cycle > cycles
        for source in bench.topology.sources:
            assert places(bench, source.topic) == needed[source.topic]
        lose_caches(bench)
        produce(bench, later(job.new()), job)
        with Busy(bench, vacuum_hours=LONGEST_S / 3_600) as busy:
            bench.run(max_offsets_per_trigger=10, snapshot_every=16)
            while busy.error is None and not busy.removed:  # the files that runs have left so far grow old
                bench.run(snapshot_every=16)
        assert busy.error is None

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
        lose_caches(bench, bases=True)
        with pytest.raises(BronzeTrimmed, match="is missing"):
            bench.run()


@pytest.mark.broker
@pytest.mark.soak
def test_a_record_that_waits_is_trimmed_only_when_it_cannot_be_refused_any_more(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    views, users = fresh_topics(broker, 1)
    builder = StreamsBuilder("waiting")
    stream = builder.stream(views, key=Text("user"), value=Text("page"))
    stream.join(builder.table(users, key=Text("user"), value=Text("region")), wait="100 ms").to_delta("silver.waited")
    bench = Bench(spark, broker, tmp_path, builder.build())
    broker.produce(users, [("known", "EU", ZERO)])
    broker.produce(views, [("known", "/1", ZERO + 10), ("never", "/2", ZERO + 60), ("known", "/3", ZERO + 130)])
    bench.run(snapshot_every=1)
    assert trimming(bench).run(ANY_TIME).rows[views] == 1
    assert places(bench, views) == {(0, 1), (0, 2)}
    bench.run(drain=True, snapshot_every=1)
    (refused,) = bench.quarantine().select("code", F.col("value").cast("string"), "offset").collect()
    assert tuple(refused) == ("NO_PARTNER", "/2", 1)
    assert trimming(bench).run(ANY_TIME).rows[views] == 2
    assert places(bench, views) == set()


@pytest.mark.broker
@pytest.mark.soak
def test_what_a_running_driver_builds_on_is_not_trimmed(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    job = JOBS["correlation"]
    bench = ran(spark, broker, tmp_path, job)
    lose_caches(bench)
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
    ],
    ids=["table", "a snapshot lacks a cycle", "a snapshot", "versioned"],
)
def test_of_a_table_what_is_still_looked_at_stays(
    spark: SparkSession, tmp_path: Path, topology: Topology, as_of: int, kept: set[int]
) -> None:
    lake = Lake(str(tmp_path))
    source = topology.sources[1]
    ledger = Ledger(lake, topology.name)
    ledger.create(spark)
    ledger = claimed(spark, ledger, "run", configuration=fingerprint.Configuration("", "", ""))
    (value,) = (one.name for one in source.value.fields)
    (key,) = (one.name for one in source.key.fields)
    rows = [
        {"topic": "Prices", "partition": 0, "offset": offset, "attempt": 0, "event_time_ms": time, "seq": cycle,
         "stream_time_ms": max(one[2] for one in PRICES[: offset + 1] if one[4]),
         "error": None if readable else {"code": "MALFORMED_VALUE", "message": ""},
         "k": None if name is None else {key: name}, "v": None if text is None else {value: text}}
        for offset, (name, text, time, cycle, readable) in enumerate(PRICES)
    ]  # fmt: skip
    bronze_rows.create_bronze(spark, lake, topology.name, source)
    lake.bronze(topology.name, "Prices").append(
        spark.createDataFrame(rows, bronze_rows.bronze_schema(spark, source)),
        "test",
        1,  # type: ignore[type-var]
    )
    plans = []
    for cycle, (begin, end) in {1: (0, 6), 2: (6, 10), 3: (10, 11)}.items():
        part = Range("Prices", 0, begin, end, records=end - begin)
        plans.append(Plan(cycle, "", (part,), {}, cycle, cycle))
        ledger.record(spark, ledger.plan_row(plans[-1]))
    if as_of:
        snapshots.refresh(spark, ledger, source, Snapshot(), plans[:as_of], topology.expectations)
    target = Plan(2, "", (Range("Prices", 0, 0, 10),), {}, 0, 2)
    outdated = Trimming(spark, ledger, topology, "")._outdated(source, History(), target).select("offset")
    assert {row["offset"] for row in outdated.collect()} == set(range(len(PRICES))) - kept


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
