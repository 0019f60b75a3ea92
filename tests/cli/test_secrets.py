"""No command and no job shows a secret of what it has loaded, whenever an error comes up; each knows its own alone."""

from __future__ import annotations

import pytest
import typer
from typer.testing import CliRunner

from lakestreams.cli import demo, entry_points, status
from lakestreams.cli.app import app
from lakestreams.engine.runtime.lake import Lake
from lakestreams.engine.runtime.progress import Summary
from lakestreams.errors import IngestFailed
from lakestreams.jobs import correlation, enrichment, fk_join, pipeline
from lakestreams.run import runner
from lakestreams.run.failure import Secrets
from lakestreams.run.options import FileOptions
from lakestreams.run.runner import Job, Outcome

SECRETS = {
    "LAKESTREAMS_SECRET_KAFKA_KEY": "hunter2-of-kafka",
    "REGISTRY_TOKEN": "hunter2-of-the-registry",
    "PEPPER": "hunter2-in-sql",
}
KAFKA, REGISTRY, SQL = SECRETS.values()
SOURCES = """\
kafka:
  bootstrap_servers: 127.0.0.1:9
  options: {ssl.key.password: 'secret://kafka/key'}

registry:
  url: https://registry:8081
  options: {bearer.auth.token: '${REGISTRY_TOKEN}'}
""" + demo.SOURCES.format(servers="", views="PageViews", users="UserProfiles").partition("\n\n")[2]
JOINED = demo.PIPELINE.replace("coalesce(", "concat('${PEPPER}', ")
CASES = """\
pipeline: ../conf/joined.yml
cases:
  - name: one
    given: [{to: PageViews, key: alice, value: /home, at: 0}]
    expect: {silver.enriched_page_views: []}
"""
PYTHON = """\
import os

def made(builder):
    raise ValueError("refused with " + os.environ["LAKESTREAMS_SECRET_KAFKA_KEY"] + os.environ["REGISTRY_TOKEN"])
"""

FILES = ["conf/joined.yml"]
# Every command that loads options, with the arguments that it needs.
LOADING = {
    "check": FILES,
    "run": FILES,
    "verify": FILES,
    "maintain": FILES,
    "status": FILES,
    "why": [*FILES, "--key", "alice"],
    "report": FILES,
    "quarantine list": FILES,
    "quarantine show": FILES,
    "quarantine replay": FILES,
    "quarantine discard": FILES,
    "test": [],
    "watch": [],
}
OF_SOURCES = {"infer": ["PageViews"], "registry pull": ["orders-value"]}
OTHERS = {
    *("demo", "dbx", "explain", "init", "schema", "show", "version"),
    *("local up", "local down", "local topic", "local produce", "local consume"),
}
JOBS = {
    "enrichment": enrichment.main,
    "correlation": correlation.main,
    "fk_join": fk_join.main,
    "lakestreams-pipeline": pipeline.main,
    "lakestreams-verify": entry_points.verify,
    "lakestreams-maintain": entry_points.maintain,
}
SEVERAL = ("check", "run", "verify", "maintain", "status")


def quotes(*_given, **_more):
    """Spark, Kafka or the registry, which quote what they were given."""
    raise IngestFailed(f"refused with {', '.join(SECRETS.values())}") from ValueError(f"because of {SQL}")


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("LAKESTREAMS_LOG_DIR", str(tmp_path / "logs"))
    monkeypatch.delenv("DATABRICKS_RUNTIME_VERSION", raising=False)
    monkeypatch.chdir(tmp_path)
    for name, text in {
        "conf/sources.yml": SOURCES,
        "conf/joined.yml": JOINED,
        "conf/broken.yml": "pipeline: broken\ntopology: broken_topology:made\n",
        "conf/broken_topology.py": PYTHON,
        "tests/joined.yml": CASES,
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def said(project, words):
    """What a command says, with its logs."""
    result = CliRunner().invoke(app, [*words, "--json"])
    assert result.exit_code == 1, result.output
    return result.output + result.stderr + logged(project)


def logged(project):
    return "".join(log.read_text() for log in (project / "logs").glob("error-*.log"))


def test_no_command_is_left_out():
    words = set()
    for name, command in typer.main.get_command(app).commands.items():
        words |= {f"{name} {part}" for part in getattr(command, "commands", {})} or {name}
    assert words == {*LOADING, *OF_SOURCES, *OTHERS}


@pytest.mark.parametrize("command", LOADING)
def test_what_a_session_quotes_is_hidden(project, monkeypatch, command):
    module = "test" if command == "watch" else command.partition(" ")[0]
    monkeypatch.setattr(f"lakestreams.cli.{module}.open_session", quotes)
    if command == "watch":
        (project / "conf" / "broken.yml").unlink()
    told = said(project, [*command.split(), *LOADING[command]])
    assert "refused with ***, ***, ${PEPPER}" in told
    assert "because of ${PEPPER}" in told
    assert "hunter2" not in told


@pytest.mark.parametrize(("command", "at"), [("infer", "newest"), ("registry pull", "Registry")])
def test_what_kafka_or_the_registry_quotes_is_hidden(project, monkeypatch, command, at):
    monkeypatch.setattr(f"lakestreams.cli.{command.partition(' ')[0]}.{at}", quotes)
    told = said(project, [*command.split(), *OF_SOURCES[command]])
    assert "refused with" in told
    assert (KAFKA if command == "infer" else REGISTRY) not in told


def test_kafkas_secrets_are_hidden_when_the_registrys_options_are_loaded(project, monkeypatch):
    monkeypatch.setattr("lakestreams.cli.infer.newest", lambda *_: ([b""], 1))
    monkeypatch.setattr("lakestreams.cli.infer.load_registry", quotes)
    told = said(project, ["infer", "PageViews"])
    assert "refused with ***, " in told
    assert KAFKA not in told


@pytest.mark.parametrize("job", JOBS)
def test_what_a_session_quotes_to_a_job_is_hidden(project, monkeypatch, capsys, job):
    for module in ("run.entry", "cli.verify", "cli.maintain"):
        monkeypatch.setattr(f"lakestreams.{module}.open_session", quotes)
    for module in (correlation, fk_join):
        monkeypatch.setattr(module, "lacks_shape", lambda _: None)
    with pytest.raises(SystemExit) as ended:
        JOBS[job](["--pipeline=conf/joined.yml"])
    assert ended.value.code == 1
    told = "".join(capsys.readouterr()) + logged(project)
    assert "refused with ***, ***, ${PEPPER}" in told
    assert "hunter2" not in told


@pytest.mark.parametrize("command", SEVERAL)
@pytest.mark.parametrize("files", [["conf/joined.yml", "conf/broken.yml"], ["conf/broken.yml"]], ids=" ".join)
def test_what_is_raised_while_files_are_loaded_is_hidden(project, command, files):
    told = said(project, [command, *files])
    assert "broken_topology:made raised ValueError: refused with ******" in told
    assert "hunter2" not in told


@pytest.mark.parametrize("job", ["lakestreams-pipeline", "lakestreams-verify", "lakestreams-maintain"])
def test_what_is_raised_while_a_jobs_files_are_loaded_is_hidden(project, capsys, job):
    with pytest.raises(SystemExit):
        JOBS[job](["--pipeline=conf/joined.yml,conf/broken.yml"])
    told = "".join(capsys.readouterr()) + logged(project)
    assert "refused with ******" in told
    assert "hunter2" not in told


def warns(monkeypatch):
    """Runs that end with a warning, without Spark."""
    warned = [Outcome("page_views", Summary(warnings=[f"read back with {', '.join(SECRETS.values())}"]))]
    for module in ("run.entry", "cli.run"):
        monkeypatch.setattr(f"lakestreams.{module}.open_session", lambda **_: None)
    monkeypatch.setattr(Job, "run", lambda *_: warned)


def test_warnings_of_runs_show_none(monkeypatch, capsys):
    warns(monkeypatch)
    told = CliRunner().invoke(app, ["run", *FILES]).output
    enrichment.main(["--pipeline=conf/joined.yml"])
    told += capsys.readouterr().out
    assert told.count("read back with ***, ***, ${PEPPER}") == 2


def test_what_a_broker_says_of_its_ends_shows_none(project, monkeypatch):
    (loaded,) = runner.load(FileOptions((project / "conf" / "joined.yml",)), Secrets())
    monkeypatch.setattr("lakestreams.kafka.cluster.connect", quotes)
    _, (note,) = status._view(None, Lake(str(project)), loaded)
    assert note.startswith(f"{IngestFailed.code}: ends are unknown, refused with ***, ")


def test_each_command_knows_its_own_secrets_alone(project, monkeypatch):
    monkeypatch.setattr("lakestreams.cli.verify.open_session", quotes)
    monkeypatch.setattr("lakestreams.cli.show.open_session", quotes)
    assert SQL not in said(project, ["verify", *FILES])
    for log in (project / "logs").iterdir():
        log.unlink()
    assert SQL in said(project, ["show", "--catalog", "main", "--root", "/Volumes/x"]), "it has loaded nothing"
