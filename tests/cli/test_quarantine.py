"""`lakestreams quarantine` on the real broker: looked at, mended, replayed, discarded, each as users do it.

In `make test` the page of the guide is walked, with a replay that a run takes (`tests/docs/test_guides_walked.py`).
"""

from __future__ import annotations

import json
import re
import uuid

import pytest
from typer.testing import CliRunner

from lakestreams.cli import demo
from lakestreams.cli.app import app
from lakestreams.engine.runtime.lake import Lake
from lakestreams.testing.small import small

pytestmark = pytest.mark.broker

ZERO_MS = 1_700_000_000_000
runner = CliRunner()


@pytest.fixture(autouse=True)
def _small(spark):
    with small(spark):
        yield


@pytest.fixture
def place(tmp_path, broker, monkeypatch):
    """A pipeline's files, two topics, and four records that cannot be read."""
    monkeypatch.setenv("LAKESTREAMS_LOG_DIR", str(tmp_path / "logs"))
    tag = uuid.uuid4().hex[:8]
    views, users = f"PageViews-{tag}", f"UserProfiles-{tag}"
    for topic in (views, users):
        broker.create_topic(topic, 1)
    broker.produce(users, [("ann", "EU", ZERO_MS), ("bob", b"\xff", ZERO_MS + 1), ("bob", "US", ZERO_MS + 2)])
    pages = [b"\xff/1", b"\xff/2", b"\xff/3"]
    broker.produce(views, [("ann", page, ZERO_MS + 10 + n) for n, page in enumerate(pages)])
    (tmp_path / "sources.yml").write_text(
        demo.SOURCES.format(servers=broker.bootstrap_servers, views=views, users=users)
    )
    (tmp_path / "enrichment.yml").write_text(demo.PIPELINE)
    monkeypatch.setenv("KAFKA_BOOTSTRAP", broker.bootstrap_servers)
    return tmp_path


def invoke(place, command, *arguments):
    words = [*command.split(), str(place / "enrichment.yml"), "--root", str(place / "lake"), *arguments]
    return runner.invoke(app, words)


def told(result):
    assert result.exit_code == 0, result.output + result.stderr
    return json.loads(result.stdout)


def failed(result, code):
    assert result.exit_code == 1, result.output
    assert result.stderr.startswith(code), result.stderr
    return result.stderr


def test_looked_at_and_tried_without_a_trace(spark, place):
    assert "has never run in" in failed(invoke(place, "quarantine list"), "LS411 NOT_IN_QUARANTINE")
    told(invoke(place, "run", "--json", "--max-bad-share", "1"))
    # list
    found = told(invoke(place, "quarantine list", "--json", "--limit", "2"))
    groups = {(row["node"], row["code"], row["records"], row["open"]) for row in found["groups"]}
    assert groups == {("PageViews", "MALFORMED_VALUE", 3, 3), ("UserProfiles", "MALFORMED_VALUE", 1, 1)}
    assert len(found["newest"]) == 2
    text = invoke(place, "quarantine list").output
    assert "MALFORMED_VALUE" in text
    assert "open" in text
    few = told(invoke(place, "quarantine list", "--json", "--topic", "PageViews", "--from", "1", "--since", "1h"))
    views = few["newest"][0]["topic"]
    assert [(row["topic"], row["offset"]) for row in few["newest"]] == [(views, 2), (views, 1)]
    for nothing in (("--state", "replayed"), ("--rule", "none"), ("--cycle", "9"), ("--since", "2999-01-01")):
        assert told(invoke(place, "quarantine list", "--json", *nothing))["groups"] == []
    assert "no such record" in invoke(place, "quarantine list", "--code", "LATE").output
    # show
    one = f"{views}-0@1"
    (record,) = told(invoke(place, "quarantine show", "--at", one, "--json"))["records"]
    assert (record["key"], record["value_base64"], record["state"], record["headers"]) == ("ann", "/y8y", "open", [])
    assert len(told(invoke(place, "quarantine show", "--at", f"{one}#0", "--json"))["records"]) == 1
    failed(invoke(place, "quarantine show", "--at", f"{one}#1"), "LS411")
    assert [row["attempt"] for row in told(invoke(place, "why", "--at", f"{one}#0", "--json"))["records"]] == [0]
    assert f"no record {one}#1" in failed(invoke(place, "why", "--at", f"{one}#1"), "LS509")
    text = invoke(place, "quarantine show", "--at", one).output
    assert "hex ff2f32" in text
    assert "refused by" in text
    failed(invoke(place, "quarantine show", "--at", f"{views}-0@99"), "LS411")
    assert "--since" in failed(invoke(place, "quarantine list", "--since", "soon"), "LS112 INVALID_OPTION")
    assert "there is no state" in failed(invoke(place, "quarantine list", "--state", "shut"), "LS112 INVALID_OPTION")
    # replay: a dry run writes nothing
    would = told(invoke(place, "quarantine replay", "--json", "--dry-run"))
    assert would["requests"] == []
    shown = {(row["records"], sum(row["refused"].values()), row["superseded"]) for row in would["topics"]}
    assert shown == {(3, 3, 0), (1, 0, 1)}, "a profile that a later one has replaced is not even read"
    assert not Lake(str(place / "lake")).control("replays").exists(spark)
    assert "takes exactly one record" in failed(invoke(place, "quarantine replay", "--set-value", "/x"), "LS112")


def outputs(spark, place):
    rows = Lake(str(place / "lake")).output("silver.enriched_page_views").read(spark)
    return sorted(tuple(row) for row in rows.select("page", "region", "_lineage.trigger.attempt").collect())


@pytest.mark.soak  # the guide's commands do the same, and test_replay shows what a run makes of them
def test_mended_by_a_file_and_discarded(spark, place):
    told(invoke(place, "run", "--json", "--max-bad-share", "1"))
    views = told(invoke(place, "quarantine list", "--json", "--topic", "PageViews"))["newest"][0]["topic"]
    one = f"{views}-0@1"
    made = told(invoke(place, "quarantine replay", "--json", "--at", one, "--set-value", "/two", "--reason", "typo"))
    assert [(row["number"], row["records"]) for row in made["requests"]] == [(1, 1)]
    refused = failed(invoke(place, "quarantine replay", "--at", one, "--yes"), "LS411")
    assert "of the records that match: 1 requested" in refused
    lines = invoke(place, "quarantine show", "--lines", "--state", "open", "--limit", "9").output.splitlines()
    assert len(lines) == 3
    repairs = [json.loads(line) for line in lines]
    for repair in repairs:
        repair["value"] = f"/{repair['offset']}"
        del repair["value_base64"]
    file = place / "repairs.jsonl"
    file.write_text('{"topic": "x"}\n')
    assert "repairs.jsonl:1: has no 'partition'" in failed(
        invoke(place, "quarantine replay", "--repair", str(file)), "LS412 REPAIR_UNFIT"
    )
    file.write_text("\n".join(json.dumps(repair) for repair in repairs))
    text = invoke(place, "quarantine replay", "--repair", str(file))
    assert text.exit_code == 0, text.stderr
    assert "1 would be superseded" in text.output
    assert "request 2: replay 2 records" in text.output
    assert "request 3: replay 1 record" in text.output
    status = told(invoke(place, "status", "--json"))["pipelines"][0]
    assert status["replays"] == 3
    assert (sum(status["quarantine"].values()), sum(status["quarantine_open"].values())) == (4, 0)
    assert "3 requests wait for the next run" in invoke(place, "status").output
    # the next run takes them
    told(invoke(place, "run", "--json", "--max-bad-share", "1"))
    assert outputs(spark, place) == [("/0", "EU", 1), ("/2", "EU", 1), ("/two", "EU", 1)]
    found = told(invoke(place, "quarantine list", "--json"))["newest"]
    assert sorted(row["state"] for row in found) == ["replayed"] * 3 + ["superseded"]
    (record,) = told(invoke(place, "quarantine show", "--at", one, "--json"))["records"]
    assert (record["state"], record["reason"], record["request"]) == ("replayed", "typo", 1)
    status = told(invoke(place, "status", "--json"))["pipelines"][0]
    assert (status["replays"], {part["partition"] for part in status["partitions"]}) == (0, {0})
    assert re.search(r"quarantine: .*\(0 open\)", invoke(place, "status").output)
    # discard, and why
    assert "nothing to discard" in failed(invoke(place, "quarantine discard"), "LS411")
    made = told(invoke(place, "quarantine discard", "--again", "--json", "--state", "superseded"))
    assert [row["records"] for row in made["requests"]] == [1]
    records = told(invoke(place, "why", "--at", one, "--json"))["records"]
    assert [record["attempt"] for record in records] == [0, 1]
    assert told(invoke(place, "why", "--at", f"{one}#1", "--json"))["records"] == records[1:]
    assert "was replayed, as asked by request 1: typo" in records[0]["told"]
    assert told(invoke(place, "verify", "--json"))["ok"]
