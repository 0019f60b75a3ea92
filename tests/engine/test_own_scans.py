"""Topics of a batch that are read by scans of their own: the rows are those of the batch, and errors are those of the query."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewPartitions,
    ResourcePatternType,
    ResourceType,
)
from pyspark.serializers import CloudPickleSerializer
from tests.engine.harness import SILVER, Bench, assert_ledger_sound, at, fresh_topics, page_views
from tests.engine.secured import PLAIN, quoted, secured_broker

from lakestreams import StreamsBuilder, Text, Topology
from lakestreams.engine.ingest import batches, own_scans
from lakestreams.engine.ingest.own_scans import OwnScans
from lakestreams.engine.ledger.ledger import Ledger
from lakestreams.engine.ledger.plans import BronzeState
from lakestreams.engine.runtime.lake import Lake
from lakestreams.errors import LakestreamsError, OffsetsExpired, RightsMissing, SignInFailed
from lakestreams.testing.small import small

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakestreams.local.broker import Broker

PASSWORD = "canary-3Kd of scans"
PARTITIONS = 3
ABORTED = "/aborted"


@dataclass
class Watched:
    """What was read by scans of their own.

    Attributes:
        topics: in their order, one entry a scan.
        before: called before each.
        options: of them, instead of the query's.
    """

    topics: list[str] = field(default_factory=list)
    before: Callable[[], None] = lambda: None
    options: Mapping[str, str] = field(default_factory=dict)


@pytest.fixture(autouse=True, scope="module")
def _small(spark: SparkSession) -> Iterator[None]:
    """The data is little."""
    with small(spark):
        yield


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    """No batch is a small one; what is read by scans of their own is noted."""
    seen, scan = Watched(), own_scans._scan

    def noting(spark: SparkSession, options: Mapping[str, str], *more: Any) -> DataFrame:
        seen.topics.append(more[-1])
        seen.before()
        return scan(spark, {**options, **seen.options}, *more)

    monkeypatch.setattr(batches, "SMALL_INPUT", 0)
    monkeypatch.setattr(own_scans, "_scan", noting)
    return seen


def merged(*topics: str) -> Topology:
    """A pipeline that copies streams into one table."""
    builder = StreamsBuilder("merged")
    first, *others = (builder.stream(topic, key=Text("user"), value=Text("page")) for topic in topics)
    for other in others:
        first = first.merge(other)
    first.to_delta(SILVER)
    return builder.build()


def order_of(bench: Bench) -> dict[str, list[tuple[Any, ...]]]:
    """Bronze's rows and their order, but for when they were ingested."""
    found = {}
    for source in bench.topology.sources:
        rows = bench.bronze(source.topic).drop("ingest_time_ms").orderBy("partition", "offset")
        found[source.topic] = [tuple(row) for row in rows.collect()]
    return found


def with_gaps(broker: Broker, topics: tuple[str, ...], first: int) -> None:
    """Records in all partitions, among them such as were aborted, and the ends of transactions."""
    for place, topic in enumerate(topics):
        for ms, page in ((first, "/one"), (first + 100, ABORTED), (first + 200, "/two")):
            records = at(*((f"user{n % 11}", page, ms - n % 7 + place) for n in range(60)))
            broker.produce_transaction(topic, records, abort=page == ABORTED)


@pytest.mark.broker
def test_both_ways_give_equal_bronze_tables(
    spark: SparkSession, broker: Broker, tmp_path: Path, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches that begin and end in the middle of transactions, and partitions that are new behind a checkpoint."""
    topics = fresh_topics(broker, PARTITIONS)
    own, held = (Bench(spark, broker, tmp_path / name, merged(*topics)) for name in ("own", "held"))

    def run_both(offsets: int) -> list[str]:
        watched.topics.clear()
        own.run(max_offsets_per_trigger=offsets)
        scanned = list(watched.topics)
        with monkeypatch.context() as patch:
            patch.setattr(OwnScans, "of_batch", lambda *_: None)
            held.run(max_offsets_per_trigger=offsets)
        assert watched.topics == scanned, "the other way has none"
        return scanned

    with_gaps(broker, topics, 1_000)
    scanned = run_both(200)
    assert set(scanned) == set(topics)
    assert len(scanned) > len(topics), "several batches"
    admin = AdminClient(broker.client_config())
    for done in admin.create_partitions([NewPartitions(topic, PARTITIONS + 2) for topic in topics]).values():
        done.result()
    with_gaps(broker, topics, 5_000)
    assert set(run_both(10_000)) == set(topics)
    found = order_of(own)
    assert found == order_of(held)
    assert all(len({row[1] for row in rows}) > PARTITIONS for rows in found.values()), "rows of new partitions, too"
    assert all(
        len(rows) == 240 and not any(bytes(row[5]) == ABORTED.encode() for row in rows) for rows in found.values()
    )
    assert_ledger_sound(own)


@pytest.mark.broker
def test_expired_records_are_an_error_or_left_out(
    spark: SparkSession, broker: Broker, tmp_path: Path, watched: Watched
) -> None:
    """They expire behind the planning of a batch, and before its scans."""
    bench = Bench(spark, broker, tmp_path, page_views(*fresh_topics(broker)))
    views, users = (source.topic for source in bench.topology.sources)
    admin = AdminClient(broker.client_config())

    def expire() -> None:
        for done in admin.delete_records([TopicPartition(views, 0, 4)]).values():
            done.result()

    broker.produce(users, at(("alice", "eu", 0)))
    broker.produce(views, at(*(("alice", f"/{number}", number) for number in range(6))))
    watched.before = expire
    with pytest.raises(OffsetsExpired, match="offsets missing"):
        bench.run()
    bench.run(accept_data_loss=True)
    assert set(watched.topics) == {views, users}
    assert [row[1] for row in bench.enriched()] == ["/4", "/5"]


# --- a broker where clients sign in ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def secured() -> Iterator[tuple[Broker, str]]:
    authorizer = (
        "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n"
        "super.users=User:ANONYMOUS\nallow.everyone.if.no.acl.found=true\n"
    )
    with secured_broker({"lakestreams": PASSWORD}, authorizer) as both:
        yield both


def signing_in(servers: str, password: str = PASSWORD) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": servers,
        "kafka.isolation.level": "read_committed",
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": f"{PLAIN} required username=lakestreams password={quoted(password)};",
    }


def deny_reading(broker: Broker, topic: str) -> None:
    """Whoever signs in may see the topic and not read it."""
    what = ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, "User:lakestreams", "*"
    rules = [
        AclBinding(*what, AclOperation.ALL, AclPermissionType.ALLOW),
        AclBinding(*what, AclOperation.READ, AclPermissionType.DENY),
    ]
    admin = AdminClient(broker.client_config())
    for done in admin.create_acls(rules).values():
        done.result(10)


@dataclass
class Secured(Bench):
    """A pipeline that signs in."""

    servers: str = ""

    def settings(self, **more: Any) -> Any:
        return replace(super().settings(**more), kafka=signing_in(self.servers))


@pytest.mark.broker
@pytest.mark.parametrize("fault", [SignInFailed, RightsMissing])
def test_what_keeps_a_scan_out_is_told_as_of_the_query(
    spark: SparkSession, secured: tuple[Broker, str], tmp_path: Path, watched: Watched, fault: type[LakestreamsError]
) -> None:
    broker, servers = secured
    bench = Secured(spark, broker, tmp_path, page_views(*fresh_topics(broker)), servers=servers)
    views, users = (source.topic for source in bench.topology.sources)
    for topic in (views, users):
        broker.produce(topic, at(("alice", "x", 1)))
    if fault is SignInFailed:  # the query has signed in; the password is changed behind that
        watched.options = signing_in(servers, "canary-3Kd of somebody else")
    else:
        deny_reading(broker, views)
    with pytest.raises(fault) as told:
        bench.run()
    assert watched.topics
    assert "canary" not in str(told.value)


@pytest.mark.broker
def test_a_scan_shows_no_secret(spark: SparkSession, secured: tuple[Broker, str], tmp_path: Path) -> None:
    broker, servers = secured
    topic, _ = fresh_topics(broker)
    broker.produce(topic, at(("alice", "x", 1)))
    _lay_start(tmp_path, {topic: {"0": 0}})
    part = OwnScans(signing_in(servers)).of_batch(spark, str(tmp_path), 0, BronzeState(0, {}), {(topic, 0): 1})
    assert part is not None
    rows = part(topic)
    assert rows.count() == 1
    assert "canary" not in str(rows._jdf.queryExecution().toString()) + repr(rows)


# --- where a batch is held ----------------------------------------------------------------------------------------------


def _lay_start(checkpoint: Path, offsets: Mapping[str, Mapping[str, int]]) -> None:
    """Where a source began, as Spark writes it."""
    folder = checkpoint / "sources" / "0"
    folder.mkdir(parents=True)
    (folder / "0").write_bytes(b"\0v1\n" + json.dumps(offsets).encode())


def test_options_do_not_travel_to_another_process(tmp_path: Path) -> None:
    ledger = Ledger(Lake(str(tmp_path)), "p", 1, "run")
    scans = OwnScans({"kafka.sasl.jaas.config": PASSWORD})
    writer = batches.BatchWriter(ledger, (), str(tmp_path), BronzeState(0, {}), scans=scans)
    _lay_start(tmp_path, {"T": {"0": 0}})
    batch = (None, str(tmp_path), 0, BronzeState(0, {}), {("T", 0): 5})
    assert scans.of_batch(*batch) is not None
    sent = CloudPickleSerializer().dumps(writer)
    assert PASSWORD.encode() not in sent
    assert PASSWORD not in repr(writer)
    there = CloudPickleSerializer().loads(sent)
    assert there.scans.of_batch(*batch) is None


@pytest.mark.parametrize(
    ("batch_id", "ends"),
    [(0, {("T", 0): 5}), (3, {("T", 0): 5}), (1, {})],
    ids=["no start", "no batch before", "no end"],
)
def test_a_batch_that_is_not_known_exactly_has_no_scans(
    tmp_path: Path, batch_id: int, ends: dict[tuple[str, int], int]
) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").write_text('v1\n{}\n{"T":{"0":2}}\n')
    scans = OwnScans({"kafka.bootstrap.servers": "nowhere:9"})
    assert scans.of_batch(None, str(tmp_path), batch_id, BronzeState(0, {}), ends) is None  # type: ignore[arg-type]
