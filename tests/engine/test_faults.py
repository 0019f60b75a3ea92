"""What can be wrong around a run: one error each, with its code and what to do, and nothing written."""

from __future__ import annotations

import shutil
import socket
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812
from tests.engine.harness import SILVER, ZERO, Bench, assert_ledger_sound, assert_sound, at, fresh_topics, page_views

from lakestreams import Json, StreamsBuilder, Text
from lakestreams.engine.driver import Driver
from lakestreams.engine.runtime import failpoints
from lakestreams.engine.takeover import tables as starting
from lakestreams.errors import (
    BrokerUnreachable,
    CoPartitioningRequired,
    LocationNotWritable,
    OffsetsExpired,
    PlanUnderOtherConfig,
    TableNameCollision,
    TableSchemaMismatch,
    TopicMissing,
    TopicRecreated,
    TopologyChanged,
    TopologyInvalid,
    unfold,
)
from lakestreams.kafka import cluster
from lakestreams.kafka.cluster import connect
from lakestreams.kafka.probe_cluster import ProbeCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.local.broker import Broker

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("small_input")]


def make(spark: SparkSession, broker: Broker, root: Path, partitions: Any = 1) -> Bench:
    return Bench(spark, broker, root, page_views(*fresh_topics(broker, partitions)))


def test_unequal_partition_counts_are_refused_before_anything_is_there(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    bench = make(spark, broker, tmp_path / "lake", (12, 6))
    views, users = (source.topic for source in bench.topology.sources)
    with pytest.raises(TopologyInvalid) as refused:
        bench.run()
    (fault,) = unfold(refused.value)
    assert isinstance(fault, CoPartitioningRequired)
    assert f'CoPartitioningRequired {{ left = "{views}" (12), right = "{users}" (6) }}' in str(fault)
    assert "equal counts | repartition one side | kind: global_table" in str(fault)
    assert not (tmp_path / "lake").exists()


def test_all_faults_come_at_once(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    views, users = fresh_topics(broker, (3, 2))
    builder = StreamsBuilder("faulty")
    stream = builder.stream(views, key=Text("user"), value=Text("page"))
    table = builder.table(users, key=Text("user"), value=Text("region"))
    stream.left_join(table, lambda view, user: {"p": view.pgae, "r": user.regoin}).to_delta(SILVER)
    with pytest.raises(TopologyInvalid) as refused:
        Bench(spark, broker, tmp_path, builder.build()).run()
    assert [fault.code for fault in unfold(refused.value)] == ["LS105", "LS105", "LS104"]
    assert "did you mean 'page'" in str(refused.value)


def test_a_missing_topic_and_a_broker_that_is_down(
    spark: SparkSession, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(spark, broker, tmp_path, page_views("NoSuchTopic", fresh_topics(broker)[1]))
    with pytest.raises(TopicMissing, match="NoSuchTopic"):
        bench.run()
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    settings = replace(bench.settings(), kafka={"kafka.bootstrap.servers": f"127.0.0.1:{port}"})
    monkeypatch.setattr(cluster, "TIMEOUT_S", 1.0)
    with pytest.raises(BrokerUnreachable, match=str(port)):
        Driver(spark, bench.topology, bench.lake, settings).run()


@pytest.mark.soak  # test_recreated looks at a start, too
def test_a_recreated_topic_is_not_new_data(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """With more records than before, offsets alone would not tell; the topic's id does."""
    bench = make(spark, broker, tmp_path)
    views, _ = (source.topic for source in bench.topology.sources)
    broker.produce(views, at(("alice", "/old", 1)))
    bench.run()
    broker.delete_topic(views)
    broker.create_topic(views, 1)
    broker.produce(views, at(("alice", "/new1", 2), ("alice", "/new2", 3)))
    with pytest.raises(TopicRecreated, match=views):
        bench.run()
    assert bench.bronze(views).count() == 1


def test_expired_offsets_are_an_error_or_written_down(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    bench = make(spark, broker, tmp_path)
    views, users = (source.topic for source in bench.topology.sources)
    broker.produce(users, at(("alice", "eu", 0)))
    broker.produce(views, at(("alice", "/0", 1)))
    bench.run()
    broker.produce(views, at(*(("alice", f"/{number}", number + 1) for number in range(1, 6))))
    _delete_before(broker, views, 4)
    with pytest.raises(OffsetsExpired) as refused:
        bench.run()
    assert f"{views}-0: offsets 1 to 3" in str(refused.value)
    assert "--accept-data-loss" in str(refused.value)
    summary = bench.run(accept_data_loss=True)
    assert any("offsets 1 to 3" in warning for warning in summary.warnings)
    assert [row[1] for row in bench.enriched()] == ["/0", "/4", "/5"]
    lost = bench.ledger().where("kind = 'loss'").select(F.explode("ranges").alias("r")).select("r.*").collect()
    assert [(row["topic"], row["from_offset"], row["to_offset"]) for row in lost] == [(views, 1, 4)]
    assert_ledger_sound(bench)


@pytest.mark.soak  # the next test has markers, too
def test_transactions_aborts_and_a_marker_at_the_end(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    bench = make(spark, broker, tmp_path)
    views, users = (source.topic for source in bench.topology.sources)
    broker.produce_transaction(users, at(("alice", "eu", 0)))
    broker.produce_transaction(views, at(("alice", "/kept", 1)))
    broker.produce_transaction(views, at(("alice", "/aborted", 2)), abort=True)
    bench.run()
    assert [row[1] for row in bench.enriched()] == ["/kept"]
    rows = bench.ledger().count()
    bench.run()
    assert bench.ledger().count() == rows + 1, "markers are no news"
    broker.produce_transaction(views, at(("alice", "/next", 3)))
    bench.run()
    assert [row[1] for row in bench.enriched()] == ["/kept", "/next"]
    assert_ledger_sound(bench)


def test_a_batch_of_markers_alone_takes_no_number_from_the_next_one(
    spark: SparkSession, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its append has no row and a transaction; the driver falls before the batch is closed, and the checkpoint is lost."""
    bench = make(spark, broker, tmp_path)
    views = bench.topology.sources[0].topic
    broker.produce_transaction(views, at(("alice", "/void", 1)), abort=True)
    monkeypatch.setenv(failpoints.VARIABLE, "ingest.before:1:raise")
    with pytest.raises(Exception, match=r"failpoint|LS505"):
        bench.run()
    monkeypatch.delenv(failpoints.VARIABLE)
    shutil.rmtree(bench.lake.checkpoints(bench.topology.name))
    broker.produce_transaction(views, at(("alice", "/next", 2)))
    bench.run()
    assert [row[1] for row in bench.enriched()] == ["/next"]
    assert_sound(bench)


def test_a_table_with_other_columns_is_left_alone(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    bench = make(spark, broker, tmp_path)
    table = bench.lake.output(SILVER)
    spark.sql(f"create table {table.reference} (user string, something int) using delta")
    with pytest.raises(TableSchemaMismatch) as refused:
        bench.run()
    assert "something" in str(refused.value)
    assert "page" in str(refused.value)
    assert table.read(spark).columns == ["user", "something"]


def test_a_place_that_cannot_be_written_to(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    bench = make(spark, broker, tmp_path / "file" / "lake")
    with pytest.raises(LocationNotWritable, match="file"):
        bench.run()


def test_two_topics_that_become_one_table(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    views, _ = fresh_topics(broker)
    dotted, underscored = f"{views}.x", f"{views}_x"
    builder = StreamsBuilder("colliding")
    builder.stream(dotted, key=Text("a"), value=Text("b")).to_delta("silver.one")
    builder.stream(underscored, key=Text("a"), value=Text("b")).to_delta("silver.two")
    broker.create_topic(dotted, 1)
    topology = builder.build()
    bench = Bench(spark, broker, tmp_path, topology)
    # Kafka itself refuses such a pair on one cluster, so the second topic is only declared
    with pytest.raises(TableNameCollision, match="bronze"):
        starting.require_distinct_tables(bench.spark, bench.lake, topology)


@pytest.mark.soak  # test_taken_over has more of it
def test_a_half_published_cycle_is_not_finished_under_another_configuration(
    spark: SparkSession, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = make(spark, broker, tmp_path)
    views, _ = (source.topic for source in bench.topology.sources)
    broker.produce(views, at(("alice", "/0", 1)))
    monkeypatch.setenv("LAKESTREAMS_FAILPOINT", "publish.after:1:raise")
    with pytest.raises(Exception, match="failpoint"):
        bench.run()
    monkeypatch.delenv("LAKESTREAMS_FAILPOINT")
    changed = Bench(spark, broker, tmp_path, bench.topology)
    with pytest.raises(PlanUnderOtherConfig, match="cycle 1"):
        changed.run(config_text="something else")
    bench.run()
    assert_sound(bench)
    changed.run(config_text="something else")


@pytest.mark.connect  # and so in the lane of the long-term runtime, whose Spark tells progress in another way
def test_sparks_own_source_tells_the_ends_where_no_admin_client_can(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    views, _ = fresh_topics(broker, 3)
    broker.produce(views, [("k", "v", ZERO, partition) for partition in (0, 0, 2)])
    options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "kafka.isolation.level": "read_committed"}
    probe = ProbeCluster(spark, options, tmp_path)
    assert probe.view([views]).ends == {(views, 0): 2, (views, 1): 0, (views, 2): 1}
    _delete_before(broker, views, 1)
    seen, probed = connect(spark, options, tmp_path).view([views]), probe.view([views])
    assert (seen.ends, seen.starts) == (probed.ends, probed.starts)
    assert probed.starts == {(views, 0): 1, (views, 1): 0, (views, 2): 0}
    assert isinstance(connect(spark, options | {"kafka.ssl.cipher.suites": "x"}, tmp_path), ProbeCluster)
    for asked, told in (
        (["NoSuchTopic"], "topic NoSuchTopic does not"),
        ([views, "No.Such", "NoOther"], "topics No.Such, NoOther do not"),
    ):
        with pytest.raises(TopicMissing, match=told):
            probe.view(asked)


@pytest.mark.soak  # as in test_changed
def test_a_change_between_finished_cycles_goes_on_where_it_is_accepted(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    views, users = fresh_topics(broker)
    broker.produce(views, [("alice", '{"page": "/0"}', ZERO)])

    def pipeline(column: str) -> Bench:
        builder = StreamsBuilder("changing")
        stream = builder.stream(views, key=Text("user"), value=Json("page string"))
        table = builder.table(users, key=Text("user"), value=Text("region"))
        stream.left_join(table, lambda view, _user: {column: view.page}).to_delta(f"silver.{column}")
        return Bench(spark, broker, tmp_path, builder.build())

    pipeline("first").run()
    broker.produce(views, [("alice", '{"page": "/1"}', ZERO)])
    second = pipeline("second")
    with pytest.raises(TopologyChanged):
        second.run()
    second.run(accept_change=True)
    assert [row["second"] for row in second.silver("silver.second").collect()] == ["/1"]
    assert second.ledger().where("kind = 'config'").count() == 2


def _delete_before(broker: Broker, topic: str, offset: int) -> None:
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

    admin = AdminClient(broker.client_config())
    for done in admin.delete_records([TopicPartition(topic, 0, offset)]).values():
        done.result()
