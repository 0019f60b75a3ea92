"""Several pipelines in one run of the job `pipeline`, on the real broker: each is its own, and fails alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.engine.harness import ZERO, fresh_topics

from lakestreams.engine.runtime.lake import Lake
from lakestreams.jobs import pipeline
from lakestreams.testing.small import small

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.local.broker import Broker

pytestmark = [pytest.mark.broker]

CONF = Path(__file__).parents[2] / "conf"
SOURCES = """\
kafka: {{bootstrap_servers: "{servers}"}}
topics:
  PageViews: {{kind: stream, topic: {views}, key: {{text: user}}, value: {{text: page}}}}
  UserProfiles: {{kind: table, topic: {users}, key: {{text: user}}, value: {{text: region}}}}
  PlacedOrders:
    {{kind: stream, topic: {orders}, key: {{text: order_id}}, value: {{json: "amount decimal(10, 2)"}}}}
  Payments: {{kind: stream, topic: {payments}, key: {{text: order_id}}, value: {{json: reference string}}}}
  Nowhere: {{kind: stream, topic: NoSuchTopic, key: {{text: user}}, value: {{text: page}}}}
"""
BROKEN = "pipeline: broken\noutputs: {silver.broken: {from: Nowhere}}\n"
BOTH = CONF / "enrichment.yml", CONF / "correlation.yml"


class Job:
    """The job, on topics and in a folder of its own."""

    def __init__(self, spark: SparkSession, broker: Broker, folder: Path) -> None:
        self.spark, self.broker, self.lake = spark, broker, folder / "lake"
        self.views, self.users = fresh_topics(broker, 1)
        self.orders, self.payments = fresh_topics(broker, 1, ("Orders", "Payments"))
        self.sources, self.broken = folder / "sources.yml", folder / "broken.yml"
        names = {"views": self.views, "users": self.users, "orders": self.orders, "payments": self.payments}
        self.sources.write_text(SOURCES.format(servers=broker.bootstrap_servers, **names), encoding="utf-8")
        self.broken.write_text(BROKEN, encoding="utf-8")

    def produce_views(self) -> None:
        self.broker.produce(self.users, [("alice", "us-east", ZERO)])
        self.broker.produce(self.views, [("alice", "/home", ZERO + 1), ("dave", "/home", ZERO + 2)])

    def run(self, *pipelines: Path) -> None:
        given = [f"--pipeline={file}" for file in pipelines]
        with small(self.spark):
            pipeline.main([*given, f"--sources={self.sources}", f"--root={self.lake}"])

    def rows(self, output: str, *columns: str) -> list[tuple[Any, ...]]:
        found = Lake(str(self.lake)).output(output).read(self.spark).select(*columns).orderBy(*columns)
        return [tuple(row) for row in found.collect()]

    def assert_views_came_out(self, capsys: pytest.CaptureFixture[str]) -> str:
        """The broken pipeline has said why it failed, beside the one of the views; what else was printed."""
        told = capsys.readouterr()
        assert "LS302" in told.err
        assert "NoSuchTopic" in told.err
        assert "page_views: 1 cycles, 3 records" in told.out
        found = self.rows("silver.enriched_page_views", "user", "region")
        assert found == [("alice", "us-east"), ("dave", "<unknown>")]
        return told.out


@pytest.fixture
def job(spark: SparkSession, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    monkeypatch.setenv("LAKESTREAMS_LOG_DIR", str(tmp_path / "logs"))
    return Job(spark, broker, tmp_path)


def test_a_pipeline_that_fails_stops_no_other(job: Job, capsys: pytest.CaptureFixture[str]) -> None:
    job.produce_views()
    with pytest.raises(SystemExit) as ended:
        job.run(job.broken, BOTH[0])
    assert ended.value.code == 1
    job.assert_views_came_out(capsys)


@pytest.mark.soak  # the one above shows two of a run, cli/test_jobs what a job does with more of them
def test_pipelines_of_one_job_run_together_and_one_that_fails_stops_no_other(
    job: Job, capsys: pytest.CaptureFixture[str]
) -> None:
    broker = job.broker
    job.produce_views()
    broker.produce(job.orders, [("o1", '{"amount": 10}', ZERO)])
    broker.produce(job.payments, [("o1", '{"reference": "p1"}', ZERO + 5)])
    with pytest.raises(SystemExit) as ended:
        job.run(BOTH[0], job.broken, BOTH[1])
    assert ended.value.code == 1
    assert "order_payments: 1 cycles, 2 records" in job.assert_views_came_out(capsys)
    assert job.rows("silver.paid_orders", "order_id", "reference") == [("o1", "p1")]

    broker.produce(job.views, [("erin", "/home", ZERO + 3)])
    broker.produce(job.orders, [("o2", '{"amount": 20}', ZERO + 6)])
    broker.produce(job.payments, [("o2", '{"reference": "p2"}', ZERO + 7)])
    job.run(*BOTH)  # ends without an exit code: all went well
    assert job.rows("silver.enriched_page_views", "user") == [("alice",), ("dave",), ("erin",)]
    assert job.rows("silver.paid_orders", "order_id", "reference") == [("o1", "p1"), ("o2", "p2")]
