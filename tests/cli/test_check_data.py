"""`check --data` after a run over topics whose writers do not agree, on the real broker."""

from __future__ import annotations

import json
import zlib

import pytest
from confluent_kafka import Producer
from tests.partitioning.test_kafka_default import partition as murmur2_partition
from typer.testing import CliRunner

from lakestreams.cli import demo
from lakestreams.cli.app import app

USERS, PARTITIONS = 60, 6
NEWEST = 25
runner = CliRunner()


@pytest.fixture
def files(tmp_path, broker, monkeypatch):
    """The enrichment of the demo over topics of its own: profiles by a librdkafka as it comes, views as Java writes."""
    monkeypatch.setenv("LAKESTREAMS_LOG_DIR", str(tmp_path / "logs"))
    monkeypatch.setenv("KAFKA_BOOTSTRAP", broker.bootstrap_servers)
    for topic in ("DataViews", "DataUsers"):
        broker.create_topic(topic, PARTITIONS)
    producer = Producer(broker.client_config())  # no partitioner is set: librdkafka's default
    for number in range(USERS):
        producer.produce("DataUsers", f"r{number}", f"user-{number}", timestamp=demo.ZERO_MS)
    assert producer.flush(60) == 0
    views = [(f"user-{n % USERS}", f"/{n}", demo.ZERO_MS + 1 + n) for n in range(2 * USERS)]
    broker.produce("DataViews", views)
    text = demo.SOURCES.format(servers=broker.bootstrap_servers, views="DataViews", users="DataUsers")
    (tmp_path / "sources.yml").write_text(text)
    (tmp_path / "enrichment.yml").write_text(demo.PIPELINE)
    return tmp_path


@pytest.mark.broker
@pytest.mark.soak
def test_crc32_beside_murmur2_is_told_and_the_results_are_right(spark, files):
    arguments = [str(files / "enrichment.yml"), "--root", str(files / "lake")]

    def told(*more: str) -> dict:
        result = runner.invoke(app, [more[0], *arguments, *more[1:], "--json"])
        assert result.exit_code == 0, result.output + result.stderr
        return json.loads(result.stdout)["pipelines"][0]

    before = told("check", "--data", "--no-broker")["data"]
    assert before["notes"] == ["nothing has been ingested yet: run the pipeline first"]
    assert before["topics"] == []
    told("run")

    # every view has met its user, wherever both lie
    rows = spark.read.format("delta").load(str(files / "lake" / "silver" / "enriched_page_views"))
    found = {(row["user"], row["page"], row["region"]) for row in rows.select("user", "page", "region").collect()}
    assert found == {(f"user-{n % USERS}", f"/{n}", f"r{n % USERS}") for n in range(2 * USERS)}

    data = told("check", "--data")["data"]
    views, users = data["topics"]
    assert [(one["topic"], one["partitioner"]["verdict"]) for one in data["topics"]] == [
        ("DataViews", "murmur2"),
        ("DataUsers", "crc32"),
    ]
    assert users["message"] == 'topic "DataUsers" was written with crc32 (librdkafka\'s default)'
    assert (users["partitioner"]["keys"], users["partitioner"]["partitions"]) == (USERS, PARTITIONS)
    at_home = {one for one in range(USERS) if _crc32(one) == _murmur2(one)}
    assert 0 < len(at_home) < USERS
    assert users["partitioner"]["shares"]["murmur2"] == pytest.approx(len(at_home) / USERS)
    assert (views["skew"]["records"], users["skew"]["records"]) == (2 * USERS, USERS)
    assert (users["warnings"], users["split_keys"]["keys"], data["notes"]) == ([], 0, [])
    (pair,) = data["pairs"]
    assert (pair["left"], pair["right"], pair["agree"]) == ("DataViews", "DataUsers", False)
    assert "murmur2 (Java clients)" in pair["message"]
    assert "crc32 (librdkafka's default): equal counts" in pair["message"]
    assert "Results here are right, because joins are by key whatever the partition" in pair["message"]
    first = next(n for n in sorted(range(USERS), key=lambda n: f"user-{n}") if _murmur2(n) != _crc32(n))
    assert (
        f'lies in different partitions (e.g. "user-{first}": {_murmur2(first)} and {_crc32(first)})' in pair["message"]
    )

    # fewer records: the ends of all partitions, as uneven as they are; and for people
    fewer = told("check", "--data", "--no-broker", "--newest", str(NEWEST))["data"]["topics"]
    assert all(0 < one["skew"]["records"] <= NEWEST for one in fewer)
    text = runner.invoke(app, ["check", *arguments, "--data", "--no-broker"]).output
    assert "Keys on their home partition" in text
    assert pair["message"] in text


def test_data_are_those_of_pipelines():
    result = runner.invoke(app, ["check", "--data", "--target", "dev"], env={"COLUMNS": "160"})
    assert result.exit_code == 2
    assert "name their files" in result.output + result.stderr


def _murmur2(number: int) -> int:
    return murmur2_partition(f"user-{number}".encode(), PARTITIONS)


def _crc32(number: int) -> int:
    return zlib.crc32(f"user-{number}".encode()) % PARTITIONS
