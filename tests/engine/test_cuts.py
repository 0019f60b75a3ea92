"""Cut independence, below Kafka: one fixed log, however it is cut into batches, gives the same tables, and those of the
specification. Bronze, ledger, settling, cycles, snapshots and sinks are the real ones; batches are made by hand."""

from __future__ import annotations

import datetime as dt
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.engine.harness import SILVER, Bench, assert_ledger_sound, assert_sound, facts, page_views
from tests.reference.stream_table import STREAM, TABLE, Record, in_order, join

from lakestreams import StreamsBuilder, Text, Topology
from lakestreams.engine.driver import Driver
from lakestreams.engine.ingest import batches as ingest
from lakestreams.engine.runtime.settings import RunSettings
from lakestreams.kafka.cluster_view import ClusterView
from lakestreams.kafka.noted import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

VIEWS, USERS = "PageViews", "UserProfiles"
KAFKA = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int, "
    "headers array<struct<key: string, value: binary>>"
)
FAR_FUTURE = 7_258_118_400_000  # the year 2200
BROKEN = "\udcff"  # the byte 0xff: no UTF-8


@dataclass(frozen=True)
class Log:
    """What lies in Kafka: records by arrival, and the ends of every partition, idle and marker-ended ones too."""

    records: tuple[Record, ...]
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)

    @property
    def readable(self) -> list[Record]:
        """What the specification sees: unreadable and far-future records are as if they were not there."""
        return [one for one in self.records if one.ts < FAR_FUTURE and BROKEN not in (one.key, one.value)]


def make_log(size: int, seed: int) -> Log:
    """Two topics of three partitions: times out of order and tied, updates, tombstones, null keys and values, records
    that cannot be read; PageViews-2 is idle, UserProfiles-2 ends in transaction markers."""
    rng = random.Random(seed)
    places = [(VIEWS, 0), (VIEWS, 1), (USERS, 0), (USERS, 1), (USERS, 2)]
    clocks, offsets = dict.fromkeys(places, 0), dict.fromkeys(places, 0)
    records = []
    for number in range(size):
        at = rng.choice(places)
        clocks[at] += rng.randint(0, 3)
        ts = max(0, clocks[at] - rng.choice([0, 0, 0, 2, 6]))
        key = rng.choice(["alice", "bob", "carol", "dora", None] if rng.random() < 0.3 else ["alice", "bob"])
        value: str | None = f"{at[0][0]}{number}"
        if rng.random() < (0.25 if at[0] == USERS else 0.08):
            value = None
        if rng.random() < 0.05:
            key = BROKEN
        if rng.random() < 0.05:
            ts = FAR_FUTURE
        side = STREAM if at[0] == VIEWS else TABLE
        records.append(Record(*at, offsets[at], ts, key, value, side))
        offsets[at] += 1 if at != (USERS, 1) else rng.choice([1, 3])  # compaction leaves gaps
    ends = {at: offsets[at] for at in places} | {(VIEWS, 2): 0}
    ends[USERS, 2] += 2
    return Log(tuple(records), ends)


class FixedCluster:
    """A cluster that shows one log for ever."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def view(self, topics: object, written: object = ()) -> ClusterView:
        del topics, written
        return ClusterView(dict(self._log.ends))

    def topic_ids(self, topics: object) -> dict[str, str]:
        del topics
        return {}


class Rig:
    """A pipeline whose ingest is fed by hand."""

    def __init__(self, spark: SparkSession, root: Path, topology: Topology, log: Log, snapshot_every: int = 16) -> None:
        self.bench = Bench(spark, None, root, topology)  # type: ignore[arg-type] - there is no broker
        self.log = log
        self.settings = RunSettings(kafka={}, snapshot_every=snapshot_every)
        self.batches = 0
        self.driver = self.take_over()

    def take_over(self) -> Driver:
        bench = self.bench
        self.driver = Driver(bench.spark, bench.topology, bench.lake, self.settings, bench.events.append)
        self.driver.setup.endpoints.cluster = FixedCluster(self.log)
        self.driver.start()
        return self.driver

    def feed(self, records: Sequence[Record], ends: Mapping[TopicPartition, int] | None) -> None:
        """One batch into bronze, then whatever is settled by it; without ends the checkpoint cannot be read."""
        checkpoint = self.bench.root / "checkpoint"
        if ends is not None:
            shown: dict[str, dict[str, int]] = {}
            for (topic, partition), end in sorted(ends.items()):
                shown.setdefault(topic, {})[str(partition)] = end
            (checkpoint / "offsets").mkdir(parents=True, exist_ok=True)
            (checkpoint / "offsets" / str(self.batches)).write_text(f"v1\n{{}}\n{json.dumps(shown)}\n")
        driver = self.driver
        ingesting = driver._round.ingesting
        writer = ingest.BatchWriter(
            ingesting.ledger, self.bench.topology.sources, str(checkpoint), ingesting.bronze.state,
            handed=ingesting.handed,
        )  # fmt: skip
        writer(self._frame(records), self.batches)
        self.batches += 1
        driver._round.cycles.process(self.log.ends, ClusterView(self.log.ends))

    def finish(self) -> None:
        """What a round does when its ingest has ended."""
        self.driver._round.cycles.process({}, ClusterView(self.log.ends))
        self.driver._round.cycles.finish()

    def run(self, batches: Sequence[Sequence[Record]], *, checkpoint: bool = True, restarts: bool = False) -> None:
        """Feeds all batches; with `restarts` a new driver takes over after each, before the cycle is closed."""
        read: dict[TopicPartition, int] = dict.fromkeys(self.log.ends, 0)
        newest = {(one.source, one.partition): one.at for one in self.log.records}
        for index, batch in enumerate(batches):
            if restarts and index:
                self.take_over()
            for one in batch:
                read[one.source, one.partition] = one.offset + 1
                if one.at == newest[one.source, one.partition]:  # what lies behind it leaves no row, yet it is read
                    read[one.source, one.partition] = self.log.ends[one.source, one.partition]
            self.feed(batch, dict(read) if checkpoint else None)
        self.finish()

    def _frame(self, records: Sequence[Record]):
        rows = [
            (
                *(
                    None if text is None else bytearray(text.encode(errors="surrogateescape"))
                    for text in (one.key, one.value)
                ),
                *(one.source, one.partition, one.offset),
                dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(milliseconds=one.ts),  # noqa: UP017
                *(0, None),
            )
            for one in records
        ]
        return self.bench.spark.createDataFrame(rows, KAFKA).coalesce(1)  # no reader of Kafka splits a partition


# --- cuts ------------------------------------------------------------------------------------------------------------


def chunks(records: Sequence[Record], size: int) -> Iterator[Sequence[Record]]:
    for start in range(0, len(records), size):
        yield records[start : start + size]


def shuffled(records: Sequence[Record], seed: int) -> list[Record]:
    """Another arrival of the same log: partitions interleave otherwise, none of them is reordered."""
    queues: dict[TopicPartition, list[Record]] = {}
    for one in records:
        queues.setdefault((one.source, one.partition), []).append(one)
    rng, found = random.Random(seed), []
    while queues:
        at = rng.choice(sorted(queues))
        found.append(queues[at].pop(0))
        if not queues[at]:
            del queues[at]
    return found


def by_time(records: Sequence[Record]) -> list[Record]:
    """The arrival that settles most: each partition's first record, then all others by stream time."""
    first = {(one.source, one.partition): one for one in reversed(records)}
    return [*first.values(), *(one for _, one in in_order(records) if one not in first.values())]


def by_topic(records: Sequence[Record], first: str) -> list[list[Record]]:
    """One topic entirely before the other, each in two batches."""
    ahead = [one for one in records if one.source == first]
    behind = [one for one in records if one.source != first]
    return [list(part) for topic in (ahead, behind) for part in chunks(topic, len(topic) // 2 + 1)]


def results(bench: Bench) -> list[tuple[Any, ...]]:
    """Silver in the order of its results, as the specification has them."""
    rows = bench.silver().orderBy("_lineage.cycle", "_lineage.trigger", "_lineage.n").collect()
    return [
        (row["user"], row["page"], row["region"], row["event_time_ms"], row["_lineage"]["kind"],
         tuple(row["_lineage"]["trigger"]), tuple(map(tuple, row["_lineage"]["contributors"])))
        for row in rows
    ]  # fmt: skip


def specified(log: Log, how: str) -> list[tuple[Any, ...]]:
    unknown = "<unknown>" if how == "left" else None
    return [
        (row.key, row.left, row.right or unknown, row.ts, row.kind, row.trigger, row.contributors)
        for row in join(log.readable, how)
    ]


def cycles(bench: Bench) -> int:
    return bench.ledger().where("kind = 'plan'").count()


LONG, SHORT = make_log(60, seed=11), make_log(14, seed=1918)


def test_the_logs_are_worth_their_while() -> None:
    for log in (LONG, SHORT):
        rows = join(log.readable, "left")
        assert {row.kind for row in rows} == {"matched", "unmatched"}
        assert any(one.value is None for one in log.records if one.side == TABLE)
        assert any(later.ts < one.ts for one, later in zip(log.readable, log.readable[1:], strict=False)
                   if (one.source, one.partition) == (later.source, later.partition))  # fmt: skip
        assert any(one.ts == FAR_FUTURE for one in log.records)
        assert any(one.key == BROKEN for one in log.records)
        assert any(one.key is None for one in log.records)


@pytest.fixture(scope="module")
def whole(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The long log in a single batch."""
    rig = Rig(spark, tmp_path_factory.mktemp("whole"), page_views(), LONG)
    rig.run([LONG.records])
    assert cycles(rig.bench) == 1
    assert results(rig.bench) == specified(LONG, "left")
    return facts(rig.bench)


@pytest.mark.parametrize(
    "cut", ["views first", *(pytest.param(one, marks=pytest.mark.soak) for one in ("17, restarted", "users first"))]
)
def test_the_tables_do_not_depend_on_the_cut(
    spark: SparkSession, tmp_path: Path, whole: dict[str, Any], cut: str
) -> None:
    rig = Rig(spark, tmp_path, page_views(), LONG, snapshot_every=2)
    batches: list[Sequence[Record]]
    if cut == "17, restarted":
        batches = list(chunks(shuffled(LONG.records, seed=3), 17))
    else:
        batches = list(by_topic(LONG.records, VIEWS if cut == "views first" else USERS))
    # restarted ones find an unreadable checkpoint too: positions come from bronze alone, any batch may hold any topic
    rig.run(batches, checkpoint=cut != "17, restarted", restarts=cut == "17, restarted")
    assert results(rig.bench) == specified(LONG, "left"), "in this order, whatever the cycles"
    found = facts(rig.bench)
    for table, rows in whole.items():
        assert found[table] == rows, table
    assert cycles(rig.bench) > 1
    assert_sound(rig.bench)


@pytest.mark.soak
def test_one_record_at_a_time(spark: SparkSession, tmp_path: Path) -> None:
    rig = Rig(spark, tmp_path, page_views(), SHORT, snapshot_every=2)
    rig.run([[one] for one in by_time(SHORT.records)])
    assert results(rig.bench) == specified(SHORT, "left")
    assert cycles(rig.bench) >= 5
    assert any(event.kind == "snapshot" for event in rig.bench.events)
    assert_ledger_sound(rig.bench)


@pytest.mark.soak
def test_an_inner_join_in_three_batches(spark: SparkSession, tmp_path: Path) -> None:
    rig = Rig(spark, tmp_path, page_views(how="inner"), SHORT, snapshot_every=1)
    rig.run(list(chunks(SHORT.records, 5)))
    assert results(rig.bench) == specified(SHORT, "inner")
    assert_ledger_sound(rig.bench)


@pytest.mark.slow
def test_a_window_stays_open_as_long_as_a_task_of_any_stream_may_bring_a_record(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Merged streams of one and of two partitions: the second task has no clock when what is counted is stored."""
    builder = StreamsBuilder("merged")
    views, users = (builder.stream(topic, key=Text("user"), value=Text("page")) for topic in (VIEWS, USERS))
    views.merge(users).group_by_key().windowed_by("10 ms").count().to_delta(SILVER, mode="merge")
    topology = builder.build()
    records = (
        Record(VIEWS, 0, 0, 5, "k", "v", STREAM),
        Record(VIEWS, 0, 1, 20, "x", "v", STREAM),
        Record(USERS, 1, 0, 7, "k", "u", STREAM),
    )
    log = Log(records, {(VIEWS, 0): 2, (USERS, 0): 0, (USERS, 1): 1})
    counts = []
    for name, batches in {"whole": [records], "cut": [records[:2], records[2:]]}.items():
        rig = Rig(spark, tmp_path / name, topology, log, snapshot_every=1)
        rig.run(batches)
        rig.driver.end()
        rows = rig.bench.silver().select("user", "count").collect()
        counts.append(sorted(tuple(row) for row in rows))
    assert counts[0] == counts[1] == [("k", 2), ("x", 1)]
