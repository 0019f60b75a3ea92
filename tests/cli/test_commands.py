"""check, run, status and the demo on the real broker, with the session of all tests; and demos that are processes of their own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

import psutil
import pytest
from typer.testing import CliRunner

import lakestreams
from lakestreams.cli import demo
from lakestreams.cli.app import app
from lakestreams.run import runner as jobs_runner
from lakestreams.testing.small import small

pytestmark = pytest.mark.broker

ROOT = Path(__file__).parents[2]
ZERO_MS = 1_700_000_000_000
NAMES = ("--schemas", "bronze=raw,silver=results,control=_streams")
runner = CliRunner()


@pytest.fixture
def place(tmp_path, broker, monkeypatch):
    """Scenario 1 produced to topics of its own, its files, and an empty lake."""
    monkeypatch.setenv("LAKESTREAMS_LOG_DIR", str(tmp_path / "logs"))
    tag = uuid.uuid4().hex[:8]
    views, users = f"PageViews-{tag}", f"UserProfiles-{tag}"
    for topic in (views, users):
        broker.create_topic(topic, 2)
    broker.produce(users, [(user, region, ZERO_MS) for user, region in demo.PROFILES])
    broker.produce(views, [(user, page, ZERO_MS + 1 + n) for n, (user, page) in enumerate(demo.VIEWS)])
    broker.produce(views, [("erin", b"\xff", ZERO_MS + 9)])
    text = demo.SOURCES.format(servers=broker.bootstrap_servers, views=views, users=users)
    (tmp_path / "sources.yml").write_text(text)
    (tmp_path / "enrichment.yml").write_text(demo.PIPELINE)
    monkeypatch.setenv("KAFKA_BOOTSTRAP", broker.bootstrap_servers)
    return tmp_path


def invoke(place, command, *arguments):
    return runner.invoke(app, [command, str(place / "enrichment.yml"), "--root", str(place / "lake"), *arguments])


def told(result):
    assert result.exit_code == 0, result.output + result.stderr
    return json.loads(result.stdout)


def test_check_run_status(spark, broker, place):
    """In a lake whose schemas have other names; in one of the default names the tutorial does the same."""
    # check
    found = told(invoke(place, "check", "--json", "--explain"))
    (one,) = found["pipelines"]
    assert (found["ok"], sorted(one["partitions"].values()), one["unchecked"]) == (True, [2, 2], [])
    output = next(table for table in one["tables"] if table["name"] == "silver.enriched_page_views")
    assert output["layout"] == "cluster by user"
    assert [column["name"] for column in output["columns"]] == ["user", "page", "region", "event_time_ms", "_lineage"]
    assert one["mermaid"].startswith("flowchart")
    assert one["cost"]["commits_by_table"]["silver.enriched_page_views"] == 1, "a cycle"
    assert (one["cost"]["records_per_second"], one["cost"]["new_records"]) == (1_000.0, 300_000)
    text = invoke(place, "check", "--explain").output
    assert "ok  page_views: 2 sources, 1 join, 1 output" in text
    assert "stream-table left join, lookup latest" in text
    assert "Cost: Delta commits" in text
    assert "runs every 5 minutes: 288 a day" in text
    assert not (place / "lake").exists(), "check writes nothing"

    # status before the first run
    (one,) = told(invoke(place, "status", "--json", *NAMES))["pipelines"]
    assert (one["epoch"], one["partitions"]) == (0, [])

    # run
    (one,) = told(invoke(place, "run", "--json", *NAMES))["pipelines"]
    assert (one["epoch"], one["cycles"], one["records"], one["bad"], one["faults"]) == (1, 1, 8, 1, [])
    assert_found_by_the_names_of_its_schemas(place)
    text = invoke(place, "run", "--once", *NAMES).output
    assert "page_views: claimed  epoch 2" in text
    assert "done" in text

    # status, with a record that no run has seen
    views = [line.split()[1] for line in (place / "sources.yml").read_text().splitlines() if "topic: PageViews" in line]
    broker.produce(views[0], [("alice", "/late", ZERO_MS + 20)])
    (one,) = told(invoke(place, "status", "--json", *NAMES))["pipelines"]
    assert (one["epoch"], one["last_finished_cycle"], one["open_plan"]) == (2, 1, None)
    assert one["last_finished_at"].endswith("+00:00")
    assert one["bronze_rows"][views[0]] == 5
    assert one["unreadable"] == {views[0]: 1}
    assert sum(one["quarantine"].values()) == 1
    assert sum(part["lag"] for part in one["partitions"]) == 1
    assert all(part["held"] == 0 and part["why"] is None for part in one["partitions"])
    (everything,) = told(runner.invoke(app, ["status", "--root", str(place / "lake"), "--json", *NAMES]))["pipelines"]
    assert everything["pipeline"] == "page_views"
    text = invoke(place, "status", *NAMES).output
    assert "page_views  epoch 2, cycle 1 finished" in text
    assert "quarantine: MALFORMED_VALUE 1" in text


def assert_found_by_the_names_of_its_schemas(place):
    """Whatever a command looks at, it finds it there, and nothing lies where the default names would put it."""
    assert {folder.name for folder in (place / "lake").iterdir()} == {"raw", "results", "_streams"}
    assert (place / "lake" / "results" / "enriched_page_views" / "_delta_log").is_dir()
    (one,) = told(invoke(place, "verify", "--json", *NAMES))["pipelines"]
    assert one["equal"]
    opened = lakestreams.open(place / "enrichment.yml", root=str(place / "lake"), schemas=NAMES[1])
    assert (opened.silver().count(), opened.quarantine().count()) == (4, 1)
    (one,) = told(invoke(place, "status", "--json"))["pipelines"]
    assert one["epoch"] == 0, "the lake of the default names is another one, and empty"


def test_check_finds_unequal_partitions_and_wrong_columns_at_once(spark, broker, place):
    tag = uuid.uuid4().hex[:8]
    broker.create_topic(f"wide-{tag}", 3)
    text = (place / "sources.yml").read_text()
    old = next(line for line in text.splitlines() if "topic: PageViews" in line)
    (place / "sources.yml").write_text(text.replace(old, f"    topic: wide-{tag}"))
    (place / "enrichment.yml").write_text(demo.PIPELINE.replace("cluster_by: [user]", "cluster_by: [country]"))
    result = invoke(place, "check", "--json")
    assert result.exit_code == 1
    faults = {fault["code"]: fault for fault in json.loads(result.stdout)["pipelines"][0]["faults"]}
    assert set(faults) == {"LS104", "LS108"}
    assert faults["LS104"]["where"].endswith('enrichment.yml:4  step "enriched"')
    assert faults["LS108"]["where"].endswith('enrichment.yml:11  output "silver.enriched_page_views"')
    assert "LS104 CO_PARTITIONING_REQUIRED" in result.stderr
    alone = invoke(place, "check", "--json", "--no-broker")
    assert [fault["code"] for fault in json.loads(alone.stdout)["pipelines"][0]["faults"]] == ["LS108"]


def test_status_after_a_failure_tells_the_open_plan(spark, place, monkeypatch):
    monkeypatch.setenv("LAKESTREAMS_FAILPOINT", "publish.before:1:raise")
    failed = invoke(place, "run", "--json")
    monkeypatch.delenv("LAKESTREAMS_FAILPOINT")
    assert failed.exit_code == 1
    (one,) = json.loads(failed.stdout)["pipelines"]
    assert one["faults"][0]["code"] == "LS000"
    assert Path(one["log"]).is_file()
    (one,) = told(invoke(place, "status", "--json"))["pipelines"]
    assert (one["epoch"], one["last_finished_cycle"], one["open_plan"]) == (1, 0, {"cycle": 1, "records": 8})
    assert "cycle 1 open (8 records)" in invoke(place, "status").output


@pytest.mark.soak
def test_maintain_tells_what_it_would_do_and_does_it(spark, broker, place):
    told(invoke(place, "run", "--json"))
    (would,) = told(invoke(place, "maintain", "--retention", "0 ms", "--dry-run", "--json"))["pipelines"]
    assert (would["dry_run"], would["trimmed_to_cycle"]) == (True, 1)
    text = invoke(place, "maintain").output
    assert "bronze whole" in text
    assert "bronze is not trimmed: no retention is given" in text
    (place / "enrichment.yml").write_text(demo.PIPELINE.replace("left_join", "join"))
    other = invoke(place, "maintain", "--retention", "0 ms").output
    assert "the configuration is not that of the last run: run the pipeline once before trimming" in other
    (place / "enrichment.yml").write_text(f'{demo.PIPELINE}\nsettings: {{bronze_retention: "0 ms"}}\n')
    (done,) = told(invoke(place, "maintain", "--json"))["pipelines"]
    assert [table["deleted"] for table in done["tables"]] == [table["deleted"] for table in would["tables"]]
    assert sum(table["deleted"] for table in done["tables"]) > 0
    assert done["notes"] == []
    refused = invoke(place, "maintain", "--vacuum-retention", "1h")
    assert refused.exit_code == 1
    assert "LS112" in refused.stderr


def test_check_warns_of_windows_of_too_many_cycles(spark, tmp_path):
    arguments = ["check", "conf/correlation.yml", "--no-broker", "--json", "--root", str(tmp_path)]
    (one,) = told(runner.invoke(app, [*arguments, "--interval", "5s"]))["pipelines"]
    assert len(one["warnings"]) == 3
    assert "windows and grace hold 11 minutes, which is about 132 cycles' worth of input" in one["warnings"][0]
    (one,) = told(runner.invoke(app, [*arguments, "--interval", "1 minute"]))["pipelines"]
    assert one["warnings"] == []


# --- the demo --------------------------------------------------------------------------------------------------------


def start_demo(tmp_path, *arguments):
    """The demo as users start it: a process group of its own, its temporary files where they can be counted."""
    (tmp_path / "tmp").mkdir()
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "TMPDIR": str(tmp_path / "tmp")}
    return subprocess.Popen(
        [sys.executable, "-m", "lakestreams", "demo", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=environment,
        start_new_session=True,
    )


def descendants(place):
    """Processes, of whatever parent, that have the demo's folder in their command line or environment.

    Returns:
        Process to its command line, as it was when it was found: the process may have ended since.
    """
    found = {}
    for process in psutil.process_iter():
        try:
            line = process.cmdline()
            words = [*line, *process.environ().values()]
        except psutil.Error:
            continue
        if process.pid != os.getpid() and any(str(place) in word for word in words):
            found[process] = " ".join(line)
    return found


def nothing_left(tmp_path):
    until = time.monotonic() + 30
    while descendants(tmp_path / "tmp"):
        assert time.monotonic() < until, descendants(tmp_path / "tmp")
        time.sleep(0.1)
    assert list((tmp_path / "tmp").glob("lakestreams-*")) == []


def assert_told(out):
    """What the demo shows of each act whose outcome users look for."""
    for user, page, region in demo.ENRICHED:
        assert any(line.split()[:3] == [user, page, region] for line in out.splitlines()), out
    assert "epoch 1 was killed after its plan of cycle 1; epoch 2 executed the same plan; 4 rows, no duplicate" in out
    assert "LS104 CO_PARTITIONING_REQUIRED" in out
    assert 'CoPartitioningRequired { left = "PageViews" (12), right = "UserProfiles" (6) }' in out
    assert "Fix: equal counts | repartition one side | kind: global_table" in out


def test_the_demo_tells_its_whole_story(spark, tmp_path, monkeypatch):
    """With the session of all tests; the job that it kills is a process of its own. As users start it: in `make soak`."""
    monkeypatch.setattr(demo, "_end_on_sigterm", lambda: None)  # the signals of this process are pytest's
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("LAKESTREAMS_LOG_DIR", str(tmp_path / "logs"))
    monkeypatch.setenv("COLUMNS", "80")
    with small(spark):
        done = runner.invoke(app, ["demo"])
    assert done.exit_code == 0, done.output + done.stderr
    assert_told(done.stdout)
    assert done.stderr == ""
    assert descendants(tmp_path) == {}
    assert list(tmp_path.glob("lakestreams-*")) == []


@pytest.mark.soak  # the story is told above, and a demo that is a process of its own is interrupted below
def test_the_demo_as_users_start_it_leaves_nothing(tmp_path):
    process = start_demo(tmp_path)
    out, err = process.communicate(timeout=540)
    assert process.returncode == 0, out + err
    assert_told(out)
    assert err == ""
    nothing_left(tmp_path)


@pytest.mark.timeout(200)
@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.soak)])
def test_a_demo_that_is_interrupted_leaves_nothing(tmp_path, number):
    """Interrupted while the job that it started is at work."""
    process = start_demo(tmp_path)
    until = time.monotonic() + 90
    while not any("lakestreams.jobs.enrichment" in line for line in descendants(tmp_path / "tmp").values()):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until, "the job has not come up"
        time.sleep(0.1)
    time.sleep(3)
    if number == signal.SIGINT:
        os.killpg(process.pid, number)  # a terminal's Ctrl-C goes to everybody in the foreground
    else:
        process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == 128 + number
    nothing_left(tmp_path)


# --- sessions --------------------------------------------------------------------------------------------------------


def test_a_session_of_somebody_else_is_used_and_not_stopped(spark):
    with contextlib.ExitStack() as ends:
        assert jobs_runner.open_session(ends=ends) is spark
    assert spark.range(1).count() == 1
