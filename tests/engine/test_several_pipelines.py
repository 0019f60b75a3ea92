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


def test_pipelines_of_one_job_run_together_and_one_that_fails_stops_no_other(
    spark: SparkSession, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    monkeypatch.setenv("LAKESTREAMS_LOG_DIR", str(tmp_path / "logs"))
    views, users = fresh_topics(broker, 1)
    orders, payments = fresh_topics(broker, 1, ("Orders", "Payments"))
    files = tmp_path / "sources.yml", tmp_path / "broken.yml"
    names = {"views": views, "users": users, "orders": orders, "payments": payments}
    files[0].write_text(SOURCES.format(servers=broker.bootstrap_servers, **names), encoding="utf-8")
    files[1].write_text(BROKEN, encoding="utf-8")

    def run(*pipelines: Path) -> None:
        given = [f"--pipeline={file}" for file in pipelines]
        with small(spark):
            pipeline.main([*given, f"--sources={files[0]}", f"--root={tmp_path / 'lake'}"])

    def rows(output: str, *columns: str) -> list[tuple[Any, ...]]:
        found = Lake(str(tmp_path / "lake")).output(output).read(spark).select(*columns).orderBy(*columns)
        return [tuple(row) for row in found.collect()]

    broker.produce(users, [("alice", "us-east", ZERO)])
    broker.produce(views, [("alice", "/home", ZERO + 1), ("dave", "/home", ZERO + 2)])
    broker.produce(orders, [("o1", '{"amount": 10}', ZERO)])
    broker.produce(payments, [("o1", '{"reference": "p1"}', ZERO + 5)])
    both = CONF / "enrichment.yml", CONF / "correlation.yml"
    with pytest.raises(SystemExit) as ended:
        run(both[0], files[1], both[1])
    assert ended.value.code == 1
    told = capsys.readouterr()
    assert "LS302" in told.err
    assert "NoSuchTopic" in told.err
    assert "page_views: 1 cycles, 3 records" in told.out
    assert "order_payments: 1 cycles, 2 records" in told.out
    assert rows("silver.enriched_page_views", "user", "region") == [("alice", "us-east"), ("dave", "<unknown>")]
    assert rows("silver.paid_orders", "order_id", "reference") == [("o1", "p1")]

    broker.produce(views, [("erin", "/home", ZERO + 3)])
    broker.produce(orders, [("o2", '{"amount": 20}', ZERO + 6)])
    broker.produce(payments, [("o2", '{"reference": "p2"}', ZERO + 7)])
    run(*both)  # ends without an exit code: all went well
    assert rows("silver.enriched_page_views", "user") == [("alice",), ("dave",), ("erin",)]
    assert rows("silver.paid_orders", "order_id", "reference") == [("o1", "p1"), ("o2", "p2")]
