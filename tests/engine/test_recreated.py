"""A topic that is made anew is refused at every moment, through an admin client that signs in as Spark does.

The broker of this module has a second listener, at which clients sign in; pipelines read from it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812
from tests.engine.harness import SILVER, Bench, assert_ledger_sound, at, fresh_topics, page_views
from tests.engine.secured import PLAIN, quoted, secured_broker

from lakestreams.config.compile import load_pipeline
from lakestreams.engine.ingest.kafka import KafkaIngest
from lakestreams.engine.ledger.ledger import Ledger
from lakestreams.errors import OffsetsExpired, TopicRecreated
from lakestreams.kafka import admin_options
from lakestreams.run.options import LakeOptions, RunOptions, Timing
from lakestreams.run.runner import prepare

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.engine.runtime.settings import RunSettings
    from lakestreams.local.broker import Broker

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("small_input")]

PASSWORD = 'canary-8Xq of "signing" in\\'


@dataclass
class Secured(Bench):
    """A pipeline that signs in.

    Attributes:
        servers: the listener for it.
        more: further options of Kafka's.
    """

    servers: str = ""
    more: tuple[tuple[str, str], ...] = ()

    def settings(self, **more: Any) -> RunSettings:
        kafka = {
            "kafka.bootstrap.servers": self.servers,
            "kafka.isolation.level": "read_committed",
            "kafka.security.protocol": "SASL_PLAINTEXT",
            "kafka.sasl.mechanism": "PLAIN",
            "kafka.sasl.jaas.config": f"{PLAIN} required username=lakestreams password={quoted(PASSWORD)};",
            **dict(self.more),
        }
        return replace(super().settings(**more), kafka=kafka)

    @property
    def views(self) -> str:
        return self.topology.sources[0].topic

    def make_anew(self, topic: str, records: int = 3) -> None:
        """Deletes a topic and creates it again, with more records than it had."""
        self.broker.delete_topic(topic)
        self.broker.create_topic(topic, 1)
        self.broker.produce(topic, at(*(("alice", f"/new{number}", 10 + number) for number in range(records))))

    def losses(self) -> list[tuple[int, int]]:
        rows = self.ledger().where("kind = 'loss'").select(F.explode("ranges").alias("r")).orderBy("r.from_offset")
        return [(row["r"]["from_offset"], row["r"]["to_offset"]) for row in rows.collect()]

    def delete_before(self, offset: int) -> None:
        from confluent_kafka import TopicPartition
        from confluent_kafka.admin import AdminClient

        admin = AdminClient(self.broker.client_config())
        for done in admin.delete_records([TopicPartition(self.views, 0, offset)]).values():
            done.result()


@pytest.fixture(scope="module")
def secured() -> Iterator[tuple[Broker, str]]:
    with secured_broker({"lakestreams": PASSWORD}) as both:
        yield both


@pytest.fixture
def bench(spark: SparkSession, secured: tuple[Broker, str], tmp_path: Path) -> Secured:
    broker, servers = secured
    one = Secured(spark, broker, tmp_path, page_views(*fresh_topics(broker)), servers=servers)
    broker.produce(one.views, at(("alice", "/old", 1)))
    return one


SOURCES = f"""\
kafka:
  bootstrap_servers: {{servers}}
  options:
    security.protocol: SASL_PLAINTEXT
    sasl.mechanism: PLAIN
    sasl.jaas.config: {PLAIN} required username="lakestreams" password="secret://kafka/password";
topics:
  Views: {{{{kind: stream, topic: "{{views}}", key: {{{{text: user}}}}, value: {{{{text: page}}}}}}}}
  Users: {{{{kind: table, topic: "{{users}}", key: {{{{text: user}}}}, value: {{{{text: region}}}}}}}}
"""
PIPELINE = f"""\
pipeline: page_views
steps:
  enriched:
    left_join: {{left: Views, right: Users}}
    select: {{page: Views.page, region: "coalesce(Users.region, '<unknown>')"}}
outputs:
  {SILVER}: {{from: enriched}}
"""
ALONE = (("kafka.ssl.cipher.suites", "TLS_AES_256_GCM_SHA384"),)  # which only Spark's client understands
OLD = [("alice", "/old", "<unknown>")]


# --- between rounds --------------------------------------------------------------------------------------------------


def test_a_running_interval_job_stops_at_a_topic_that_is_made_anew(
    bench: Secured, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Grown past the old end: offsets alone would not tell, and two records would be skipped and one taken for new."""
    waits: list[int] = []

    def stop() -> bool:
        waits.append(1)
        if len(waits) == 1:
            bench.make_anew(bench.views)
        return len(waits) > 30

    monkeypatch.setenv("LAKESTREAMS_SECRET_KAFKA_PASSWORD", PASSWORD)
    views, users = (source.topic for source in bench.topology.sources)
    texts = {"sources.yml": SOURCES.format(servers=bench.servers, views=views, users=users), "views.yml": PIPELINE}
    for name, text in texts.items():
        (bench.root / name).write_text(text, encoding="utf-8")
    options = RunOptions(lake=LakeOptions(str(bench.root)), timing=Timing(interval_ms=1))
    (outcome,) = prepare([load_pipeline(bench.root / "views.yml")], options).run(spark, stop)
    assert isinstance(outcome.error, TopicRecreated), outcome.error
    assert f"topic {bench.views} was deleted and created again (id " in outcome.error.message
    assert bench.enriched() == OLD
    assert bench.bronze(bench.views).count() == 1
    with pytest.raises(TopicRecreated):
        bench.run(accept_change=True)  # the file has other names for its steps


@pytest.mark.soak
def test_a_topic_of_which_nothing_was_read_may_be_made_anew(bench: Secured) -> None:
    users = bench.topology.sources[1].topic
    driver = bench.driver()
    driver.run(ends=False)
    bench.broker.delete_topic(users)
    bench.broker.create_topic(users, 1)
    bench.broker.produce(users, at(("alice", "eu", 5)))
    bench.broker.produce(bench.views, at(("alice", "/next", 6)))
    driver.round()
    assert bench.enriched() == [*OLD, ("alice", "/next", "eu")]
    assert_ledger_sound(bench)
    bench.run()
    bench.make_anew(users)
    with pytest.raises(TopicRecreated, match=users):
        bench.run()


def test_a_topic_made_anew_while_a_round_reads_it_gives_no_result(
    bench: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look at the topics and the ingest: what bronze then holds is named, and nothing derived of it."""
    driver = bench.driver()
    driver.run(ends=False)
    assert_topics_are_noted(bench, 2)
    go_on = KafkaIngest._go_on

    def late(self: KafkaIngest, *given: Any) -> None:
        bench.make_anew(bench.views, 4)
        go_on(self, *given)

    bench.broker.produce(bench.views, at(("alice", "/next", 2)))
    monkeypatch.setattr(KafkaIngest, "_go_on", late)
    with pytest.raises(
        TopicRecreated, match=rf"while it was read .* no cycle has taken {bench.views}-0: offsets 1 to 3"
    ):
        driver.round()
    monkeypatch.undo()
    assert bench.enriched() == OLD
    with pytest.raises(TopicRecreated, match=rf"no cycle has taken {bench.views}-0: offsets 1 to 3"):
        bench.run()
    assert bench.enriched() == OLD


# --- after a crash ---------------------------------------------------------------------------------------------------


@pytest.mark.crash
@pytest.mark.parametrize(
    "failpoint",
    [
        "bronze.after",
        pytest.param("plan.before", marks=pytest.mark.soak),
        pytest.param("ingest.before", marks=pytest.mark.soak),  # by then the batch may be planned: decision 0024
        pytest.param("ingest.after", marks=pytest.mark.soak),
    ],
)
def test_a_topic_made_anew_after_a_crash_before_the_first_plan_is_refused(
    bench: Secured, monkeypatch: pytest.MonkeyPatch, failpoint: str
) -> None:
    monkeypatch.setenv("LAKESTREAMS_FAILPOINT", f"{failpoint}:1:raise")
    with pytest.raises(Exception, match="failpoint"):
        bench.run()
    monkeypatch.delenv("LAKESTREAMS_FAILPOINT")
    assert bench.bronze(bench.views).count() == 1
    published, planned = bench.enriched(), bench.ledger().where("kind = 'plan'").count()
    bench.make_anew(bench.views)
    for _ in range(2):
        with pytest.raises(TopicRecreated, match=rf"topic {bench.views} was deleted and created again") as refused:
            bench.run()
        named = f"no cycle has taken {bench.views}-0: offsets 0 to 0" in str(refused.value)
        assert named == (planned == 0)
    assert bench.enriched() == published
    assert bench.bronze(bench.views).count() == 1


@pytest.mark.soak  # of the first epoch and its first batch it is looked at where a topic is made anew while a round reads it
def test_each_ingest_row_tells_which_topic_was_read(bench: Secured) -> None:
    bench.run()
    bench.broker.produce(bench.views, at(("alice", "/next", 2)))
    bench.run()
    assert_topics_are_noted(bench, 4)


def assert_topics_are_noted(bench: Secured, count: int) -> None:
    """In so many rows of epochs and of batches, and the same in each."""
    rows = bench.ledger().where("kind in ('ingest', 'epoch')").collect()
    assert len(rows) == count
    topics = {source.topic for source in bench.topology.sources}
    for row in rows:
        assert row["topic_ids"].keys() == topics
        told = json.loads(row["details"])["topics"]
        zeros = {topic: [0] for topic in topics}
        assert told == {"starts": zeros, "leader_epochs": zeros}
    assert len({tuple(sorted(row["topic_ids"].items())) for row in rows}) == 1
    noted = Ledger(bench.lake, bench.topology.name).history(bench.spark).noted
    assert noted.ids == rows[0]["topic_ids"]


# --- where the admin client does not get through ---------------------------------------------------------------------


@pytest.mark.soak
def test_a_sign_in_that_fails_is_a_warning_where_sparks_client_gets_through(
    bench: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admin_options, "_signed_in", lambda _: {"sasl.username": "x", "sasl.password": PASSWORD})
    driver = bench.driver()
    summary = driver.run(ends=False)
    bench.broker.produce(bench.views, at(("alice", "/next", 2)))
    driver.round()
    assert len(bench.enriched()) == 2
    (warning,) = summary.warnings
    assert "topic ids are not compared" in warning
    assert "refuses the sign-in" in warning
    assert PASSWORD not in warning
    bench.make_anew(bench.views, 1)
    with pytest.raises(TopicRecreated, match="ends at offset 1, but 2 were already read"):
        driver.round()


@pytest.mark.soak
def test_sparks_source_tells_first_offsets_too(bench: Secured) -> None:
    alone = replace(bench, more=ALONE)
    driver = alone.driver(accept_data_loss=True)
    summary = driver.run(ends=False)
    assert "only Spark's client understands ssl.cipher.suites" in summary.warnings[0]
    bench.broker.produce(bench.views, at(*(("alice", f"/{number}", number) for number in range(1, 6))))
    bench.delete_before(4)
    driver.round()
    assert bench.losses() == [(1, 4)]
    assert [row[1] for row in bench.enriched()] == ["/old", "/4", "/5"]


# --- records that expire between rounds ------------------------------------------------------------------------------


@pytest.mark.soak  # at a start it is in test_faults
def test_records_that_expire_between_rounds_are_an_error_or_written_down_once(bench: Secured) -> None:
    for accepted in (False, True):
        driver = bench.driver(accept_data_loss=accepted)
        summary = driver.run(ends=False)
        if not accepted:
            bench.broker.produce(bench.views, at(*(("alice", f"/{number}", number) for number in range(1, 4))))
            bench.delete_before(4)
            with pytest.raises(OffsetsExpired, match="offsets 1 to 3"):
                driver.round()
            assert bench.losses() == []
    assert bench.losses() == [(1, 4)]
    for nth in (1, 2):  # nothing is left of them, so no batch moves on
        driver.round()
        assert bench.losses() == [(1, 4)], nth
    bench.broker.produce(bench.views, at(("alice", "/4", 4)))
    bench.run()  # what was accepted once is no error without the flag
    driver = bench.driver(accept_data_loss=True)
    summary = driver.run(ends=False)
    bench.broker.produce(bench.views, at(*(("alice", f"/{number}", number) for number in range(5, 9))))
    bench.delete_before(7)
    driver.round()
    assert bench.losses() == [(1, 4), (5, 7)]
    assert [text for text in summary.warnings if "offsets 5 to 6" in text]
    assert [row[1] for row in bench.enriched()] == ["/old", "/4", "/7", "/8"]
    assert_ledger_sound(bench)
