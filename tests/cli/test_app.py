"""The command line without Spark: arguments, errors in their form, exit codes, and what --help may cost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from lakestreams.cli import demo
from lakestreams.cli.app import app
from lakestreams.config.load import read
from lakestreams.errors import Fenced, IngestFailed, LakestreamsError, LocalPartsMissing
from lakestreams.run import failure

ROOT = Path(__file__).parents[2]
COMMANDS = [
    "demo", "check", "run", "test", "status", "init", "dbx", "maintain", "report", "schema", "version", "local up", "local down",
    "quarantine list", "quarantine show", "quarantine replay", "quarantine discard",
]  # fmt: skip

runner = CliRunner()


@pytest.fixture(autouse=True)
def logs(tmp_path, monkeypatch):
    """Logs of failures go to the test's own folder."""
    folder = tmp_path / "logs"
    monkeypatch.setenv("LAKESTREAMS_LOG_DIR", str(folder))
    return folder


@pytest.fixture
def conf(tmp_path):
    """A pipeline's folder with the demo's files."""
    folder = tmp_path / "conf"
    folder.mkdir()
    text = demo.SOURCES.format(servers="127.0.0.1:9", views="PageViews", users="UserProfiles")
    (folder / "sources.yml").write_text(text)
    (folder / "enrichment.yml").write_text(demo.PIPELINE)
    return folder


def in_a_process(code):
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


# --- help ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_documents_its_exit_codes_and_takes_json(command):
    result = runner.invoke(app, [*command.split(), "--help"], env={"COLUMNS": "160"})
    assert result.exit_code == 0, result.output
    assert "Exit codes: 0" in result.output
    assert "--json" in result.output


@pytest.mark.parametrize(
    "arguments", ["['--help']", "['run', '--help']", "['local', '--help']", "['quarantine', 'list', '--help']"]
)
def test_help_imports_nothing_heavy(arguments):
    """Beyond what `import lakestreams` itself imports."""
    code = f"""
import sys, lakestreams
before = set(sys.modules)
from typer.testing import CliRunner
from lakestreams.cli.app import app
assert CliRunner().invoke(app, {arguments}).exit_code == 0
rooms = ("audit", "config", "costs", "engine", "flow", "jobs", "local", "upkeep")
heavy = ("pyspark", "confluent_kafka", *(f"lakestreams.{{room}}" for room in rooms))
print([name for name in sys.modules if name not in before and name.startswith(heavy)])
"""
    assert in_a_process(code).strip() == "[]"


def test_no_command_is_help_and_a_usage_error():
    result = runner.invoke(app, [])
    assert result.exit_code == 2
    assert "check" in result.output


# --- arguments and errors --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ["check"],
        ["check", "--target", "dev", "--var", "catalog"],
        ["init"],
        ["status", "conf/enrichment.yml", "--target", "dev"],
        ["run"],
        ["nothing"],
        ["run", "x.yml", "--max-bad-share", "2"],
        ["run", "x.yml", "--once", "--interval", "5s"],
        ["schema", "tables"],
        ["quarantine", "list"],
        ["quarantine", "list", "x.yml", "--offset", "1", "--from", "1"],
        ["quarantine", "show", "x.yml", "--at", "t-0@1", "--topic", "t"],
        ["quarantine", "replay", "x.yml", "--repair", "r.jsonl", "--set-value", "x"],
        ["report"],
        ["report", "x.yml", "--cycles", "0"],
    ],
)
def test_what_cannot_be_read_is_a_usage_error(arguments):
    result = runner.invoke(app, arguments)
    assert result.exit_code == 2, result.output
    assert "LS000" not in result.stderr


@pytest.mark.parametrize("command", ["check", "run", "status", "report"])
def test_a_missing_file_is_told_in_the_error_form(command):
    result = runner.invoke(app, [command, "nowhere.yml"])
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith("LS201 CONFIG_UNREADABLE\n  there is no file nowhere.yml\n  Fix: ")
    assert result.stderr.rstrip().endswith("docs/errors/LS201.md")


def test_all_faults_of_the_files_at_once_each_with_file_and_line(conf):
    broken = demo.PIPELINE.replace("right: UserProfiles", "right: UserProfile").replace("coalesce(", "reflect(")
    (conf / "enrichment.yml").write_text(broken)
    result = runner.invoke(app, ["check", str(conf / "enrichment.yml")])
    assert result.exit_code == 1
    assert "2 faults" in result.stderr
    assert "LS207 UNKNOWN_REFERENCE" in result.stderr
    assert "LS204 EXPRESSION_REFUSED" in result.stderr
    assert 'enrichment.yml:5  step "enriched"' in result.stderr


def test_faults_as_json(conf):
    (conf / "enrichment.yml").write_text(demo.PIPELINE.replace("left_join", "left_joint"))
    result = runner.invoke(app, ["check", str(conf / "enrichment.yml"), "--json"])
    told = json.loads(result.stdout)
    assert result.exit_code == 1
    assert told["ok"] is False
    assert {fault["code"] for fault in told["faults"]} >= {"LS202"}
    assert set(told["faults"][0]) == {"code", "name", "message", "hint", "where"}


def test_an_interval_that_is_no_duration(conf):
    result = runner.invoke(app, ["run", str(conf / "enrichment.yml"), "--interval", "fast"])
    assert result.exit_code == 1
    assert "LS107" in result.stderr


def test_the_same_pipeline_twice_is_refused(conf):
    file = str(conf / "enrichment.yml")
    result = runner.invoke(app, ["run", file, file])
    assert result.exit_code == 1
    assert "LS102 DUPLICATE_NAME" in result.stderr


def test_a_catalog_needs_a_folder_for_checkpoints(conf):
    result = runner.invoke(app, ["run", str(conf / "enrichment.yml"), "--catalog", "main"])
    assert result.exit_code == 1
    assert "LS112" in result.stderr
    assert "/Volumes/" in result.stderr


@pytest.mark.parametrize(
    ("schemas", "told"),
    [("control=my-streams", "LS108 INVALID_NAME\n  the schema of control is 'my-streams'"), ("gold=a", "LS112")],
)
def test_a_schema_that_cannot_be_is_refused_before_a_session_is_started(conf, schemas, told):
    result = runner.invoke(app, ["run", str(conf / "enrichment.yml"), "--schemas", schemas])
    assert result.exit_code == 1
    assert told in result.stderr


def test_the_unexpected_is_one_line_and_a_log_with_the_whole_trace(conf, logs, monkeypatch):
    def broken(*_, **__):
        raise ZeroDivisionError("by nought")

    monkeypatch.setattr("lakestreams.cli.run.load", broken)
    result = runner.invoke(app, ["run", str(conf / "enrichment.yml"), "--json"])
    assert result.exit_code == 1
    log = next(logs.glob("error-*.log"))
    assert result.stderr.startswith("LS000 LAKESTREAMS\n  unexpected ZeroDivisionError: by nought\n")
    assert str(log) in result.stderr
    assert json.loads(result.stdout)["log"] == str(log)
    assert "Traceback" in log.read_text()
    assert "in broken" in log.read_text()
    assert "Traceback" not in result.stderr


def test_an_error_of_ours_with_a_cause_keeps_the_cause_in_a_log(conf, logs, monkeypatch):
    def broken(*_, **__):
        raise IngestFailed("the query stopped") from ValueError("the real reason")

    monkeypatch.setattr("lakestreams.cli.run.load", broken)
    result = runner.invoke(app, ["run", str(conf / "enrichment.yml")])
    assert "LS505" in result.stderr
    assert "the real reason" in next(logs.glob("error-*.log")).read_text()


def test_ctrl_c_and_fenced_have_their_own_exit_codes(conf, monkeypatch):
    for error, code in ((KeyboardInterrupt(), 130), (Fenced("a newer driver runs it"), 3)):

        def broken(*_, error=error, **__):
            raise error

        monkeypatch.setattr("lakestreams.cli.run.load", broken)
        assert runner.invoke(app, ["run", str(conf / "enrichment.yml")]).exit_code == code


def test_a_package_that_is_not_installed_is_named_with_its_cure(monkeypatch):
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    for name in [name for name in sys.modules if name.startswith("lakestreams.local.broker")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr("lakestreams.local.broker", raising=False)
    result = runner.invoke(app, ["local", "down"])
    assert result.exit_code == 1
    assert "LS606 LOCAL_PARTS_MISSING" in result.stderr
    assert "pip install 'lakestreams[local]'" in result.stderr


# --- secrets ---------------------------------------------------------------------------------------------------------


def test_no_secret_in_an_error_or_its_log(conf, logs, monkeypatch):
    monkeypatch.setattr(failure, "_secretive", [])
    monkeypatch.setenv("LAKESTREAMS_SECRET_KAFKA_KEY", "hunter2hunter2")
    servers = "  bootstrap_servers: ${KAFKA_BOOTSTRAP:-127.0.0.1:9}\n"
    options = "  options: {ssl.key.password: 'secret://kafka/key'}\n"
    text = (conf / "sources.yml").read_text()
    assert servers in text
    (conf / "sources.yml").write_text(text.replace(servers, servers + options))

    def broken(pipelines, *_, **__):
        password = pipelines[0].kafka.spark_options()["kafka.ssl.key.password"]
        raise IngestFailed(f"refused with password {password}") from ValueError(f"cause {password}")

    monkeypatch.setattr("lakestreams.cli.run.prepare", broken)
    result = runner.invoke(app, ["run", str(conf / "enrichment.yml"), "--json"])
    log = next(logs.glob("error-*.log")).read_text()
    assert "refused with password ***" in result.stderr
    assert "cause ***" in log
    assert "hunter2" not in result.output + result.stderr + log


def test_without_the_broker_a_check_needs_no_service_credential(conf, logs, monkeypatch):
    monkeypatch.delenv("DATABRICKS_RUNTIME_VERSION", raising=False)
    file = conf / "sources.yml"
    file.write_text(file.read_text().replace("topics:", "  service_credential: kafka-prod\n\ntopics:", 1))

    def no_session(**_):
        raise LocalPartsMissing("here Spark would be started")

    monkeypatch.setattr("lakestreams.cli.check.open_session", no_session)
    asked = runner.invoke(app, ["check", str(conf / "enrichment.yml")])
    alone = runner.invoke(app, ["check", str(conf / "enrichment.yml"), "--no-broker"])
    assert "'kafka-prod' is known on Databricks only" in asked.stderr
    assert "here Spark would be started" in alone.stderr, "nothing is in its way"


# --- small commands --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", ["pipeline", "sources", "cases"])
def test_schema_prints_what_lies_in_conf(file):
    result = runner.invoke(app, ["schema", file])
    assert result.exit_code == 0
    assert json.loads(result.stdout) == json.loads((ROOT / "conf" / "schema" / f"{file}.json").read_text())


def test_version():
    told = json.loads(runner.invoke(app, ["version", "--json"]).stdout)
    assert told["lakestreams"] in runner.invoke(app, ["version"]).stdout
    assert {"python", "pyspark", "delta-spark", "confluent-kafka"} < set(told)


def test_the_demo_declares_what_the_project_s_own_conf_declares(conf):
    own = yaml.safe_load((ROOT / "conf" / "enrichment.yml").read_text())
    assert yaml.safe_load(demo.PIPELINE) == own
    sources = read(conf / "sources.yml").data
    topics = yaml.safe_load((ROOT / "conf" / "sources.yml").read_text())["topics"]
    for name, topic in sources["topics"].items():
        assert {key: value for key, value in topic.items() if key != "topic"} == topics[name]


def test_exit_codes_of_errors():
    assert failure.exit_code(None) == 0
    assert failure.exit_code(LakestreamsError("x")) == 1
    assert failure.exit_code(Fenced("x")) == 3


# --- check -----------------------------------------------------------------------------------------------------------


def test_check_passes_on_what_its_cost_is_told_for(conf, monkeypatch):
    from lakestreams.cli import check

    seen = {}
    monkeypatch.setattr(check, "run", lambda *_, **given: seen.update(given) or 0)
    file = str(conf / "enrichment.yml")
    assert runner.invoke(app, ["check", file, "--explain"]).exit_code == 0
    assert (seen["explain"], seen["records_per_second"], seen["table_rows"]) == (True, 1_000.0, 100_000)
    given = ["--records-per-second", "20.5", "--table-rows", "7"]
    assert runner.invoke(app, ["check", file, "--explain", *given]).exit_code == 0
    assert (seen["records_per_second"], seen["table_rows"]) == (20.5, 7)
    assert runner.invoke(app, ["check", file, "--records-per-second", "-1"]).exit_code == 2
