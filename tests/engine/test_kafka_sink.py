"""Outputs to Kafka on the real broker: records, order, partitions and ids; what a crash repeats; what is refused."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql import functions as F  # noqa: N812
from tests.engine.harness import SILVER, ZERO, Bench, assert_ledger_sound, fresh_topics
from tests.partitioning.test_kafka_default import partition as by_murmur2

from lakestreams import Json, Long, StreamsBuilder, Text, Topology
from lakestreams.engine.driver import Driver
from lakestreams.engine.ledger.ledger import Ledger
from lakestreams.engine.publish import event_log, kafka_sink
from lakestreams.engine.runtime import failpoints
from lakestreams.errors import FormatUnfit, PlanUnderOtherConfig, TopicMissing, TopicWriteFailed, UnknownReference
from lakestreams.evaluate import walk
from lakestreams.run.pipeline_tables import PipelineTables
from lakestreams.testing.small import small
from lakestreams.verify.verify import verify
from lakestreams.verify.why import why

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.local.broker import Broker

VALUE = Json("page string, region string, event_time_ms bigint")


@dataclass(frozen=True)
class Sent:
    """A record of a topic."""

    partition: int
    key: bytes | None
    value: bytes | None
    headers: Mapping[str, str]

    @property
    def id(self) -> str:
        """The result's id."""
        return self.headers["lakestreams-id"]


def consumed(broker: Broker, topic: str) -> list[Sent]:
    """Everything in a topic, partition by partition."""
    ends = broker.end_offsets(topic)
    consumer = Consumer(broker.client_config(**{"group.id": "tests", "enable.auto.commit": False}))
    found: list[Sent] = []
    try:
        for partition, end in ends.items():
            consumer.assign([TopicPartition(topic, partition, 0)])
            while end and len(found) < sum(count for other, count in ends.items() if other <= partition):
                (message,) = consumer.consume(1, timeout=30)
                assert message.error() is None
                headers = {name: data.decode() for name, data in message.headers() or ()}
                found.append(Sent(partition, message.key(), message.value(), headers))
    finally:
        consumer.close()
    return found


def distinct(records: list[Sent]) -> list[Sent]:
    """What a reader keeps that drops ids it has seen."""
    found: dict[str, Sent] = {}
    for one in records:
        found.setdefault(one.id, one)
    return list(found.values())


def enrichment(views: str, users: str) -> Topology:
    """Views with their user's region, and the profiles' changes, each into a table and a topic."""
    builder = StreamsBuilder("page_views")
    stream = builder.stream(views, key=Text("user"), value=Text("page"))
    table = builder.table(users, key=Text("user"), value=Text("region"))
    joined = stream.left_join(table, lambda view, user: {"page": view.page, "region": user.region})
    joined.to_delta(SILVER)
    joined.to_kafka(f"{views}-enriched", key=Text("user"), value=VALUE)
    table.to_kafka(f"{users}-changes")
    table.to_delta("silver.changes", mode="changes")
    return builder.build()


def results(bench: Bench, output: str, *columns: str) -> list[tuple[Any, ...]]:
    """A table's rows in their order: id without pipeline and output, key, and some columns."""
    lineage = F.col("_lineage")
    trigger = lineage["trigger"]
    place = F.format_string(
        "%s-%s@%s#%s/%s/%s",
        *(trigger[one] for one in ("source", "partition", "offset", "attempt", "stream_time_ms")),
        lineage["n"],
    )
    rows = bench.silver(output).orderBy("_lineage.cycle", "_lineage.trigger", "_lineage.n")
    return [tuple(row) for row in rows.select(place, *columns).collect()]


def produce(bench: Bench, start: int) -> None:
    """Views and profiles of ten users over three partitions, updates and tombstones among them, and views of nobody."""
    chance = random.Random(start)
    views, users = (source.topic for source in bench.topology.sources)
    names = [f"user-{number}" for number in range(10)]
    bench.broker.produce(
        users,
        [
            (chance.choice(names), None if number % 5 == 4 else f"r{start + number}", ZERO + start + 3 * number)
            for number in range(15)
        ],
    )
    viewed = [(chance.choice(names), f"/{start + number}", ZERO + start + number) for number in range(40)]
    bench.broker.produce(views, [*viewed, (None, f"/nobody{start}", ZERO + start + 41, 1)])


@pytest.fixture
def bench(spark: SparkSession, broker: Broker, tmp_path: Path) -> Iterator[Bench]:
    """The pipeline on three partitions, nothing produced yet; its topics have five and two.

    The data is little, but several tasks write a topic, and adaptive execution merges them as it likes.
    """
    topology = enrichment(*fresh_topics(broker, 3))
    for sink, count in zip(topology.kafka_sinks, (5, 2), strict=True):
        broker.create_topic(sink.name, count)
    with small(spark):
        spark.conf.set("spark.sql.adaptive.enabled", "true")
        spark.conf.set("spark.sql.shuffle.partitions", "3")
        yield Bench(spark, broker, tmp_path, topology)


@pytest.mark.connect
@pytest.mark.slow  # behind Connect it is in `make soak`
@pytest.mark.broker
def test_results_are_written_in_order_with_their_ids_and_repeated_after_a_crash(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    enriched, changes = (sink.name for sink in bench.topology.kafka_sinks)
    produce(bench, 0)
    summary = bench.run()
    assert [enriched in note and "at least once" in note for note in summary.notes] == [True]
    assert summary.warnings == []
    first = consumed(bench.broker, enriched)
    for sent in (first, consumed(bench.broker, changes)):
        assert len(sent) == len(distinct(sent)) > 0, "repeated without a crash"
    headers = first[0].headers
    assert set(headers) == {"lakestreams-id", "lakestreams-cycle", "lakestreams-kind", "lakestreams-event-time-ms"}
    assert {one.headers["lakestreams-kind"] for one in first} == {"matched", "unmatched"}
    assert headers["lakestreams-event-time-ms"] == str(json.loads(first[0].value or b"")["event_time_ms"])
    assert {one.headers["lakestreams-cycle"] for one in first} == {"1"}

    produce(bench, 1_000)
    monkeypatch.setenv(failpoints.VARIABLE, f"kafka.after/{changes}:1:raise")
    with pytest.raises(failpoints.FailpointReached):
        bench.run()
    monkeypatch.delenv(failpoints.VARIABLE)
    summary = bench.run()
    unfinished, warning = summary.warnings
    assert "has not finished cycle 2" in unfinished
    assert "cycle 2 was begun before" in warning
    assert enriched in warning
    _assert_equal_to_tables(bench)  # of both cycles
    assert_ledger_sound(bench)
    twice = [one.id for one in consumed(bench.broker, enriched)]
    assert len(twice) == len(set(twice)) + len(results(bench, SILVER)) - len(first), "not the whole cycle, once more"

    verdict = verify(bench.spark, bench.lake, bench.topology, ask_second=False)
    assert verdict.equal
    assert [note.partition(":")[0] for note in verdict.notes] == [f"topic {enriched}", f"topic {changes}"]
    fates = why(bench.spark, bench.lake, bench.topology, place=(bench.topology.sources[1].topic, *_some_change(bench)))
    (told,) = (sentence for sentence in fates[0].sentences if sentence.startswith("gave "))
    assert f"{changes}: " in told
    for table, topic in ((SILVER, enriched), ("silver.changes", changes)):
        assert (f" {table}: " in told) == (f" {topic}: " in told)
    with pytest.raises(UnknownReference, match="is a topic, not a table"):
        PipelineTables(bench.spark, bench.lake, bench.topology).silver(enriched)


def _some_change(bench: Bench) -> tuple[int, int]:
    row = bench.silver("silver.changes").select("_lineage.trigger.partition", "_lineage.trigger.offset").first()
    assert row is not None
    return row[0], row[1]


def _assert_equal_to_tables(bench: Bench) -> None:
    """Each topic holds its table's results, some twice, in order by key, where Kafka's partitioner puts the key."""
    enriched, changes = (sink.name for sink in bench.topology.kafka_sinks)
    views = {
        f"page_views/{enriched}/{place}": (
            user and user.encode(),
            {"page": page, "region": region, "event_time_ms": ts},
        )
        for place, user, page, region, ts in results(bench, SILVER, "user", "page", "region", "event_time_ms")
    }
    rows = {
        f"page_views/{changes}/{place}": (json.dumps({"user": user}, separators=(",", ":")).encode(), region and {"region": region})
        for place, user, region in results(bench, "silver.changes", "user", "region")
    }  # fmt: skip
    assert any(key is None for key, _ in views.values()), "no null key"
    assert any(value is None for _, value in rows.values()), "no deletion"
    told = event_log.totals(bench.spark, Ledger(bench.lake, bench.topology.name))
    counted = {one.node: one.rows for one in told}
    for topic, expected, count in ((enriched, views, 5), (changes, rows, 2)):
        assert counted[topic] == len(expected), "each cycle is told once, whatever it has repeated"
        found = consumed(bench.broker, topic)
        once = distinct(found)
        assert {one.id: (one.key, one.value and json.loads(one.value)) for one in once} == expected
        for one in found:
            own = int(one.id.rpartition("@")[0].rpartition("-")[2]) % count  # of a null key
            assert one.partition == (own if one.key is None else by_murmur2(one.key, count))
        for key in {one.key for one in once}:
            assert [one.id for one in once if one.key == key] == [
                name for name, row in expected.items() if row[0] == key
            ]
        assert len(found) > len(once)
        assert len({(one.id, one.partition, one.key, one.value) for one in found}) == len(once), "unequal repetitions"


@pytest.mark.broker
def test_a_topic_alone_is_an_output_that_must_exist_and_take_the_records(
    spark: SparkSession, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    views, _ = fresh_topics(broker)
    builder = StreamsBuilder("sizes")
    stream = builder.stream(views, key=Text("user"), value=Text("page"))
    stream.map_values(lambda view: {"size": F.length(view.page).cast("bigint")}).to_kafka(
        f"{views}-sizes", value=Long("size")
    )
    narrow = stream.filter(lambda view: F.length(view.page) < 3_000)
    narrow.to_kafka(f"{views}-narrow", key=Text("user"), value=Text("page"))
    stream.to_kafka(f"{views}-small", key=Text("user"), value=Text("page"))
    bench = Bench(spark, broker, tmp_path, builder.build())
    # each of the first fits into 5,000 bytes, and all of them into one batch of the producer's usual size
    pages = [("alice", "/home"), *(("carol", f"/{number}" * 1_000) for number in range(6)), ("bob", "/" * 6_000)]
    broker.produce(views, [(user, page, ZERO + number) for number, (user, page) in enumerate(pages)])
    broker.create_topic(f"{views}-sizes")
    broker.create_topic(f"{views}-narrow", config={"max.message.bytes": "5000"})
    with pytest.raises(TopicMissing, match=f"{views}-small does not exist") as missing:
        bench.driver().check()
    assert "a pipeline never does" in missing.value.hint
    assert not (tmp_path / "_lakestreams" / "ledger").exists()

    broker.create_topic(f"{views}-small", config={"max.message.bytes": "5000"})
    monkeypatch.setenv(failpoints.VARIABLE, f"kafka.before/{views}-sizes:1:raise")
    with pytest.raises(failpoints.FailpointReached):
        bench.run()
    monkeypatch.delenv(failpoints.VARIABLE)
    assert consumed(broker, f"{views}-sizes") == []
    with pytest.raises(PlanUnderOtherConfig, match="cycle 1 may be partly written") as changed:
        bench.run(config_text="another")
    assert changed.value.where == f"{views}-sizes"
    with pytest.raises(
        TopicWriteFailed, match=f"topic {views}-small of pipeline sizes: errors.RecordTooLarge"
    ) as refused:
        bench.run()
    assert "raise the topic's max.message.bytes" in refused.value.hint
    assert [(one.key, one.value) for one in consumed(broker, f"{views}-sizes")] == [
        (json.dumps({"user": user}, separators=(",", ":")).encode(), len(page).to_bytes(8, "big"))
        for user, page in pages
    ]
    assert [one.value for one in consumed(broker, f"{views}-narrow")] == [page.encode() for _, page in pages[:-1]]


@pytest.mark.broker
def test_a_topic_that_takes_much_gets_records_beyond_the_producers_own_limit(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    takes = {"max.message.bytes": "5000000"}
    views, _ = fresh_topics(broker, config=takes)
    builder = StreamsBuilder("much")
    builder.stream(views, key=Text("user"), value=Text("page")).to_kafka(
        f"{views}-much", key=Text("user"), value=Text("page")
    )
    broker.create_topic(f"{views}-much", config=takes)
    pages = ["/" * 2_000_000, "/home"]
    client = Producer(broker.client_config(**{"message.max.bytes": 5_000_000}))
    for page in pages:
        client.produce(views, key=b"alice", value=page.encode(), timestamp=ZERO)
    client.flush()
    Bench(spark, broker, tmp_path, builder.build()).run()
    assert [one.value for one in consumed(broker, f"{views}-much")] == [page.encode() for page in pages]


@pytest.mark.broker
@pytest.mark.soak
def test_a_topic_that_takes_little_ends_the_write_where_nobody_can_say_so(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    """As where clients sign in: Spark's source looks at the topics, and does not see max.message.bytes."""
    views, _ = fresh_topics(broker)
    builder = StreamsBuilder("little")
    builder.stream(views, key=Text("user"), value=Text("page")).to_kafka(
        f"{views}-little", key=Text("user"), value=Text("page")
    )
    broker.create_topic(f"{views}-little", config={"max.message.bytes": "5000"})
    pages = ["/" * 1_000 + str(number) for number in range(40)]
    broker.produce(views, [("alice", page, ZERO + number) for number, page in enumerate(pages)])
    bench = Bench(spark, broker, tmp_path, builder.build())
    options = {**bench.settings().kafka, "kafka.security.protocol": "PLAINTEXT", "kafka.request.timeout.ms": "5000",
               "kafka.linger.ms": "1000"}  # fmt: skip  # long enough for some records to share a batch

    def run(kafka: Mapping[str, str]) -> None:
        Driver(spark, bench.topology, bench.lake, replace(bench.settings(), kafka=kafka)).run()

    late = r"TimeoutException: Expiring \d+ record\(s\) for \S+:10\d{3} ms has passed since batch creation"
    with small(spark), pytest.raises(TopicWriteFailed, match=late) as overdue:
        run(options)
    assert "max.message.bytes is at least 16384" in overdue.value.hint

    with small(spark):
        run(options | {"kafka.batch.size": "4000"})
    assert [one.value for one in distinct(consumed(broker, f"{views}-little"))] == [page.encode() for page in pages]


@pytest.mark.slow
def test_formats_that_do_not_fit_the_results_are_refused(spark: SparkSession) -> None:
    builder = StreamsBuilder("p")
    views = builder.stream("Views", key=Json("user string, shop int"), value=Json("page string, n int"))
    views.to_kafka("fits", key=Json("shop int, user string"), value=Json("n int, event_time_ms bigint"))
    views.to_kafka("lacks", value=Json("pages string"))
    views.to_kafka("one-key-of-two", key=Text("user"))
    views.to_kafka("other-type", value=Long("n"))
    outputs, faults = walk.check(builder.build(), spark)
    assert [(type(fault), fault.message, fault.where) for fault in faults] == [
        (FormatUnfit, "value: json(pages string) names pages, which the value lacks", 'to_kafka "lacks"'),
        (FormatUnfit, "key: text(user) leaves shop out", 'to_kafka "one-key-of-two"'),
        (FormatUnfit, "n is int, value: long(n) writes it as bigint", 'to_kafka "other-type"'),
    ]
    assert faults[0].hint == "the value has: event_time_ms, page, n"
    assert outputs["fits"].columns == ["key", "value", "event_time_ms", "_lineage"]


def test_a_producer_gets_the_options_that_it_knows() -> None:
    given = {"kafka.bootstrap.servers": "a:1", "kafka.isolation.level": "read_committed", "kafka.ssl.protocol": "TLSv1.3",
             "kafka.max.poll.records": "5"}  # fmt: skip
    target = kafka_sink.Target(given, most_bytes={"small": 5_000, "usual": 1_048_576, "large": 5_000_000})
    usual = {
        "kafka.bootstrap.servers": "a:1",
        "kafka.ssl.protocol": "TLSv1.3",
        "kafka.acks": "all",
        "kafka.enable.idempotence": "true",
    }
    assert target.producer("usual") == usual
    assert target.producer("small") == usual | {"kafka.batch.size": "5000"}, "else it tries one batch without end"
    assert target.producer("large") == usual | {"kafka.max.request.size": "5000000"}, (
        "else it refuses what the topic takes"
    )
    own = kafka_sink.Target({**given, "kafka.max.request.size": "2000000"}, most_bytes=target.most_bytes)
    assert own.producer("large")["kafka.max.request.size"] == "2000000"


def test_a_topic_of_which_nothing_is_known_has_less_time() -> None:
    """The client refuses a delivery timeout that is less than linger.ms (in Kafka 4: 5) and request.timeout.ms."""
    given = {"kafka.bootstrap.servers": "a:1", "kafka.request.timeout.ms": "2000"}
    assert kafka_sink.Target({}).producer("any")["kafka.delivery.timeout.ms"] == "35000"
    assert kafka_sink.Target(given).producer("any")["kafka.delivery.timeout.ms"] == "7000"
    own = given | {"kafka.delivery.timeout.ms": "90000", "kafka.batch.size": "4000"}
    assert own.items() <= kafka_sink.Target(own).producer("any").items()
    known = kafka_sink.Target(own, most_bytes={"small": 3_000, "usual": 5_000})
    assert [known.producer(topic)["kafka.batch.size"] for topic in ("small", "usual")] == ["3000", "4000"]


def test_sparks_sink_gets_the_service_credential() -> None:
    given = {"kafka.bootstrap.servers": "a:1", "databricks.serviceCredential": "kafka-prod",
             "databricks.serviceCredential.scope": "https://a/.default"}  # fmt: skip
    written = kafka_sink.Target(given).producer("any")
    assert written.items() >= given.items()
    assert written["kafka.acks"] == "all"
