"""The wheel's entry points without Spark: Databricks' way of giving arguments, the shape, errors, exit codes."""

from __future__ import annotations

import contextlib
import json
import pickle
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from lakestreams.cli import demo, entry_points
from lakestreams.cli.app import app
from lakestreams.config.compile import load_pipeline
from lakestreams.engine.runtime.progress import Summary
from lakestreams.errors import (
    BrokerUnreachable,
    ConfigUnreadable,
    CoPartitioningRequired,
    Fenced,
    InvalidOption,
    LakestreamsError,
    LocalPartsMissing,
    NothingToMaintain,
    NothingToVerify,
    TopologyInvalid,
)
from lakestreams.errors.places import NodePlace
from lakestreams.jobs import enrichment
from lakestreams.maintenance.maintain import Maintained
from lakestreams.run import entry, runner
from lakestreams.run.arguments import run_options
from lakestreams.run.failure import Secrets
from lakestreams.run.locating import locate
from lakestreams.run.options import (
    Accepted,
    FileOptions,
    LakeOptions,
    MaintainOptions,
    PipelineOptions,
    RunOptions,
    Timing,
)
from lakestreams.run.runner import Job, Outcome
from lakestreams.verify.comparison import Comparison
from lakestreams.verify.verify import Verdict


@pytest.fixture(autouse=True)
def logs(tmp_path, monkeypatch):
    folder = tmp_path / "logs"
    monkeypatch.setenv("LAKESTREAMS_LOG_DIR", str(folder))
    monkeypatch.delenv("DATABRICKS_RUNTIME_VERSION", raising=False)
    return folder


@pytest.fixture
def conf(tmp_path):
    text = demo.SOURCES.format(servers="127.0.0.1:9", views="PageViews", users="UserProfiles")
    (tmp_path / "sources.yml").write_text(text)
    (tmp_path / "enrichment.yml").write_text(demo.PIPELINE)
    return tmp_path


def options(*tokens, job="enrichment"):
    return run_options(job, tokens)


def outcomes(monkeypatch, *errors):
    """Runs end like this, without Spark."""
    made = [Outcome(f"p{number}", Summary(), error) for number, error in enumerate(errors)]
    monkeypatch.setattr(entry, "open_session", lambda **_: None)
    monkeypatch.setattr(Job, "run", lambda *_: made)


# --- arguments -------------------------------------------------------------------------------------------------------


def test_nothing_given_is_the_default_pipeline_once():
    assert options() == RunOptions(FileOptions((Path("conf/enrichment.yml"),)))


def test_named_parameters_as_databricks_sends_them():
    given = options(
        "--pipeline=/w/conf/a.yml,/w/conf/b.yml",
        "--sources=/w/conf/sources.yml",
        "--catalog=main",
        "--schemas=bronze=raw,control=_streams",
        "--checkpoint-root=/Volumes/main/ops/checkpoints",
        "--interval=30 seconds",
        "--max-bad-share=0.2",
        "--accept-data-loss=true",
        "--accept-change=true",
        "--bootstrap-servers=b1:9092,b2:9092",
    )
    assert given == RunOptions(
        FileOptions(
            (Path("/w/conf/a.yml"), Path("/w/conf/b.yml")),
            sources=Path("/w/conf/sources.yml"),
            bootstrap_servers="b1:9092,b2:9092",
        ),
        LakeOptions(root="/Volumes/main/ops/checkpoints", catalog="main", schemas="bronze=raw,control=_streams"),
        Timing(interval_ms=30_000),
        Accepted(max_bad_share=0.2, data_loss=True, change=True),
    )


def test_empty_values_count_as_not_given():
    given = options("--catalog=", "--schemas=", "--interval=", "--max-bad-share=", "--accept-data-loss=", "--pipeline=")
    assert given == options()


@pytest.mark.parametrize("text", ["none", "once"])
def test_an_interval_can_be_none(text):
    assert options(f"--interval={text}").timing.interval_ms is None


def test_a_value_may_end_as_an_empty_argument_does():
    assert options("--secret-scope=c2NvcGU=").files.secret_scope == "c2NvcGU="


def test_pipelines_by_repetition():
    assert options("--pipeline=a.yml", "--pipeline=b.yml").files.pipelines == (Path("a.yml"), Path("b.yml"))


def test_unknown_parameters_are_named_in_a_warning_without_their_values(capsys):
    given = options("--team=growth", "--api-token=hunter2", "--root=/lake", "--roo=/elsewhere")
    assert given.lake.root == "/lake"
    told = capsys.readouterr().err
    assert "--team, --api-token, --roo" in told
    assert "hunter2" not in told


@pytest.mark.parametrize(
    "token",
    ["--max-bad-share=much", "--accept-data-loss=perhaps", "--schemas=bronze=a-b", "--schemas=silver=a,control="],
)
def test_values_that_cannot_be_read_end_with_2(token):
    with pytest.raises(SystemExit) as ended:
        options(token)
    assert ended.value.code == 2


@pytest.mark.parametrize("others", [["--root=/a"], ["--catalog="], []])
def test_checkpoints_of_no_catalog_make_no_lake_of_folders(monkeypatch, capsys, others):
    arguments = ["--pipeline=a.yml", "--checkpoint-root=/Volumes/main/ops/checkpoints", *others]
    with pytest.raises(InvalidOption, match="--catalog is missing or empty") as refused:
        options(*arguments)
    assert "--root alone" in refused.value.hint
    seen = options_of(monkeypatch, "verify")
    with pytest.raises(SystemExit) as ended:
        entry_points.verify(arguments)
    assert ended.value.code == 1
    assert "LS112 INVALID_OPTION" in capsys.readouterr().err
    assert seen == []


@pytest.mark.parametrize("named", [[], ["--pipeline="], ["--pipeline=,"]])
def test_a_job_for_any_pipeline_has_none_by_default(named, capsys):
    with pytest.raises(SystemExit) as ended:
        options("--root=lake", *named, job="lakestreams-pipeline")
    assert ended.value.code == 2
    assert "are required: --pipeline" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("job", "arguments", "said"),
    [
        ("lakestreams-pipeline", ["conf/my.yml"], "are required: --pipeline"),
        ("lakestreams-pipeline", ["--pipeline=a.yml", "conf/my.yml"], "conf/my.yml belongs to no argument"),
        ("enrichment", ["conf/my.yml"], "a pipeline's file is given as --pipeline=FILE"),
    ],
)
def test_a_file_without_its_parameter_is_no_other_pipeline(capsys, job, arguments, said):
    with pytest.raises(SystemExit) as ended:
        options(*arguments, "--root=lake", job=job)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_the_value_of_an_unknown_parameter_is_ignored_with_it(capsys):
    assert options("--team", "growth", "", "--root=/lake").lake.root == "/lake"
    assert "ignores parameters it does not know: --team" in capsys.readouterr().err


# --- files -----------------------------------------------------------------------------------------------------------


def test_the_default_pipeline_is_found_from_anywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert runner.find_file(Path("conf/enrichment.yml")).is_file()


def test_only_pipelines_that_come_with_the_package_are_found_elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigUnreadable):
        runner.find_file(Path("pyproject.toml"))
    given = FileOptions((Path("conf/enrichment.yml"),), sources=Path("conf/sources.yml"))
    with pytest.raises(TopologyInvalid, match=r"conf/sources\.yml"):
        runner.load(given, Secrets())


def test_a_file_that_is_nowhere():
    with pytest.raises(ConfigUnreadable, match=r"nowhere\.yml"):
        runner.find_file(Path("nowhere.yml"))


def test_faults_that_name_a_step_get_file_and_line(conf):
    pipeline = load_pipeline(conf / "enrichment.yml")
    error = CoPartitioningRequired("unequal", where=NodePlace("left_join", "enriched"))
    assert locate(error, pipeline) is error
    assert error.where.endswith('enrichment.yml:4  step "enriched"')


def test_bootstrap_servers_override_the_file(conf):
    given = FileOptions((conf / "enrichment.yml",), bootstrap_servers="other:1")
    assert runner.load(given, Secrets())[0].kafka.spark_options()["kafka.bootstrap.servers"] == "other:1"


def test_settings_come_from_the_file_and_options_override_them(conf):
    text = demo.PIPELINE + "settings: {max_bad_share: 0.5, snapshot_every: 3}\n"
    (conf / "enrichment.yml").write_text(text)
    given = RunOptions(FileOptions((conf / "enrichment.yml",)), accepted=Accepted(data_loss=True, change=True))
    pipeline = runner.load(given.files, Secrets())[0]
    settings = runner.settings_of(pipeline, given)
    assert (settings.max_bad_share, settings.snapshot_every, settings.accept_data_loss) == (0.5, 3, True)
    assert settings.accept_change
    assert settings.config_text == pipeline.text
    assert runner.settings_of(pipeline, RunOptions(accepted=Accepted(max_bad_share=1.0))).max_bad_share == 1.0


def test_a_runtime_needs_to_be_told_where_the_tables_are(monkeypatch):
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "17.3")
    with pytest.raises(InvalidOption, match="neither a folder nor a catalog"):
        runner.open_lake(LakeOptions())


def test_a_runtime_brings_its_own_session(monkeypatch):
    import pyspark.sql

    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "17.3")
    builder = SimpleNamespace(getOrCreate=lambda: "the runtime's")
    monkeypatch.setattr(pyspark.sql, "SparkSession", SimpleNamespace(builder=builder))
    assert runner.open_session() == "the runtime's"


def test_a_session_for_a_small_lake_is_set_for_few_rows(monkeypatch, tmp_path):
    from pyspark.sql import SparkSession

    from lakestreams.engine.runtime.lake import Lake
    from lakestreams.engine.runtime.tuning import SETTINGS
    from lakestreams.local import session

    given = []
    monkeypatch.setattr(session, "spark_session", lambda **how: given.append((how["quick"], how["extra_conf"])))
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    runner.open_session(quick=True)
    runner.open_session(lake=Lake(str(tmp_path / "nothing")))
    runner.open_session(lake=Lake(str(tmp_path)))
    assert given == [(True, None), (False, None), (True, SETTINGS)]


def test_a_session_that_is_started_ends_with_the_job_or_command(monkeypatch):
    from pyspark.sql import SparkSession

    from lakestreams.local import session

    ended = []
    monkeypatch.setattr(session, "spark_session", lambda **_: SimpleNamespace(stop=lambda: ended.append("session")))
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setattr(runner.logging, "disable", ended.append)
    monkeypatch.setattr(runner.signal, "signal", lambda *_: None)
    with contextlib.ExitStack() as ends:
        runner.open_session(ends=ends)
        runner.open_session()  # in a notebook, say
        assert ended == []
    assert ended == ["session", runner.logging.CRITICAL]


@pytest.mark.parametrize(
    "words",
    [["why", "--key", "k"], ["verify"], ["status"], ["report"], ["quarantine", "list"]],
    ids=lambda words: words[0],
)
def test_commands_that_look_at_a_lake_open_a_session_for_it(monkeypatch, tmp_path, words):
    from importlib import import_module

    asked = []

    def opened(**how):
        asked.append(how["lake"].root)
        raise LocalPartsMissing("no session here")

    monkeypatch.setattr(import_module(f"lakestreams.cli.{words[0]}"), "open_session", opened)
    monkeypatch.setenv("KAFKA_BOOTSTRAP", "localhost:9092")
    monkeypatch.chdir(tmp_path)
    found = CliRunner().invoke(app, [*words, "conf/enrichment.yml", "--root", str(tmp_path)])
    assert "no session here" in found.stderr
    assert asked == [str(tmp_path)]


# --- the job ---------------------------------------------------------------------------------------------------------


def test_a_pipeline_without_a_join_is_not_for_this_job(conf, capsys):
    text = "pipeline: copies\noutputs:\n  silver.views: {from: PageViews}\n"
    (conf / "enrichment.yml").write_text(text)
    with pytest.raises(SystemExit) as ended:
        enrichment.main([f"--pipeline={conf / 'enrichment.yml'}"])
    assert ended.value.code == 1
    assert "LS112" in (told := capsys.readouterr().err)
    assert "pipeline copies has no stream-table join" in told


@pytest.mark.parametrize(
    ("errors", "code"),
    [
        ([None], None),
        ([BrokerUnreachable("no broker")], 1),
        ([Fenced("newer driver")], 3),
        ([Fenced("newer driver"), BrokerUnreachable("no broker")], 1),
        ([None, Fenced("newer driver")], 3),
        ([RuntimeError("what")], 1),
    ],
)
def test_exit_codes(conf, monkeypatch, capsys, logs, errors, code):
    outcomes(monkeypatch, *errors)
    arguments = [f"--pipeline={conf / 'enrichment.yml'}", f"--root={conf / 'lake'}"]
    if code is None:
        enrichment.main(arguments)
        return
    with pytest.raises(SystemExit) as ended:
        enrichment.main(arguments)
    assert ended.value.code == code
    told = capsys.readouterr().err
    for error in filter(None, errors):
        assert getattr(error, "code", "LS000") in told
    assert str(logs) in told
    assert "Traceback" not in told
    assert next(logs.glob("*.log")).read_text()


def test_a_runtime_gets_the_error_itself(conf, monkeypatch):
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "17.3")
    outcomes(monkeypatch, BrokerUnreachable("no broker"))
    with pytest.raises(BrokerUnreachable):
        enrichment.main([f"--pipeline={conf / 'enrichment.yml'}", f"--root={conf / 'lake'}"])


# --- several pipelines and intervals ---------------------------------------------------------------------------------


class FakeDriver:
    """Fails at the given rounds."""

    def __init__(self, *failing):
        self.rounds = 0
        self.ended = False
        self._failing = failing
        self._summary = Summary()

    def run(self, *, ends=True):
        self.round()
        self.ended = ends
        return self._summary

    def round(self, again_in_s=None):  # noqa: ARG002 - as a driver's
        self.rounds += 1
        self._summary.cycles += 1
        if self.rounds in self._failing:
            raise BrokerUnreachable("no broker")

    def end(self):
        self.ended = True


def job(conf, monkeypatch, drivers, interval_ms=None):
    pipeline = load_pipeline(conf / "enrichment.yml")
    monkeypatch.setattr(Job, "driver", lambda _self, _spark, index: drivers[index])
    count = len(drivers)
    return Job((pipeline,) * count, (None,) * count, None, interval_ms)


def test_once_a_failing_pipeline_does_not_keep_the_others_from_their_run(conf, monkeypatch):
    drivers = [FakeDriver(1), FakeDriver()]
    found = job(conf, monkeypatch, drivers).run(None)
    assert [type(outcome.error) for outcome in found] == [BrokerUnreachable, type(None)]
    assert found[1].summary.cycles == 1


def test_at_an_interval_the_rounds_take_turns_until_told_to_stop(conf, monkeypatch):
    drivers = [FakeDriver(), FakeDriver()]
    found = job(conf, monkeypatch, drivers, interval_ms=1).run(None, stop=lambda: drivers[1].rounds >= 4)
    assert [driver.rounds for driver in drivers] == [4, 4]
    assert [outcome.summary.cycles for outcome in found] == [4, 4]
    assert [outcome.error for outcome in found] == [None, None]
    assert [driver.ended for driver in drivers] == [True, True]


def test_at_an_interval_a_failure_ends_the_job(conf, monkeypatch):
    drivers = [FakeDriver(3), FakeDriver()]
    found = job(conf, monkeypatch, drivers, interval_ms=1).run(None)
    assert [driver.rounds for driver in drivers] == [3, 3]
    assert [driver.ended for driver in drivers] == [False, True]
    assert isinstance(found[0].error, BrokerUnreachable)


# --- secrets of a target ---------------------------------------------------------------------------------------------


def test_a_targets_scope_is_where_every_secret_is_looked_up(conf, monkeypatch):
    text = (conf / "sources.yml").read_text(encoding="utf-8")
    text = text.replace("\ntopics:", "\n  options: {ssl.truststore.password: 'secret://kafka/store'}\n\ntopics:", 1)
    (conf / "sources.yml").write_text(text, encoding="utf-8")
    monkeypatch.setenv("LAKESTREAMS_SECRET_KAFKA_STORE", "of the file")
    monkeypatch.setenv("LAKESTREAMS_SECRET_MY_STREAMS_PROD_STORE", "of prod")
    found = []
    for more in ((), ("--secret-scope=my-streams-prod",)):
        (pipeline,) = runner.load(options(f"--pipeline={conf / 'enrichment.yml'}", *more).files, Secrets())
        found.append(pipeline.kafka.spark_options()["kafka.ssl.truststore.password"])
        assert pipeline.kafka.secrets() == [("kafka", "store")]
        assert pickle.loads(pickle.dumps(pipeline.kafka)) == pipeline.kafka
    assert found == ["of the file", "of prod"]


# --- commands as jobs ------------------------------------------------------------------------------------------------


def options_of(monkeypatch, command, code=0):
    """What a command is called with, and what it ends with."""
    seen = []
    monkeypatch.setattr(f"lakestreams.cli.{command}.run", lambda _screen, *given: seen.append(given) or code)
    return seen


def test_a_command_as_a_job_gets_the_options_of_the_command_line(monkeypatch, capsys):
    seen = options_of(monkeypatch, "verify")
    entry_points.verify(
        [
            "--pipeline=a.yml,b.yml",
            "--sources=s.yml",
            "--catalog=prod",
            "--schemas=silver=results",
            "--checkpoint-root=/Volumes/x",
            "--token=canary",
            "--root=",
        ]
    )
    told = capsys.readouterr().err
    assert "verify ignores parameters it does not know: --token" in told
    assert "canary" not in told
    words = ["a.yml", "b.yml", "--sources", "s.yml", "--catalog", "prod", "--root", "/Volumes/x"]
    assert CliRunner().invoke(app, ["verify", *words, "--schemas", "silver=results"]).exit_code == 0
    assert seen[0] == seen[1]
    assert seen[0][0] == PipelineOptions(
        FileOptions((Path("a.yml"), Path("b.yml")), Path("s.yml")), LakeOptions("/Volumes/x", "prod", "silver=results")
    )


def test_maintain_as_a_job_keeps_what_it_is_told_to(monkeypatch):
    seen = options_of(monkeypatch, "maintain")
    entry_points.maintain(["--pipeline=a.yml", "--retention=30d", "--vacuum-retention=10d"])
    words = ["maintain", "a.yml", "--retention", "30d", "--vacuum-retention", "10d"]
    assert CliRunner().invoke(app, words).exit_code == 0
    assert seen[0] == seen[1]
    assert seen[0][1] == MaintainOptions(retention="30d", vacuum_retention="10d")


def test_a_job_and_the_command_say_the_same_of_a_run(monkeypatch):
    """Each option of `run` reaches its field, and the job's argument of that name reaches the same one."""
    seen = options_of(monkeypatch, "run")
    switches = ["--drain", "--accept-data-loss", "--accept-change", "--quick"]
    values = [
        "--sources=s.yml",
        "--root=/r",
        "--catalog=c",
        "--schemas=silver=s",
        "--interval=5s",
        "--max-bad-share=0.2",
        "--idle-timeout=1m",
        "--bootstrap-servers=b:1",
    ]
    assert CliRunner().invoke(app, ["run", "a.yml", "b.yml", *values, *switches]).exit_code == 0
    ((given,),) = seen
    assert given == options("--pipeline=a.yml,b.yml", *values, *switches)
    assert given == RunOptions(
        FileOptions((Path("a.yml"), Path("b.yml")), Path("s.yml"), "b:1"),
        LakeOptions("/r", "c", "silver=s"),
        Timing(5_000, 60_000, drain=True),
        Accepted(0.2, data_loss=True, change=True),
        quick=True,
    )


def test_a_command_that_finds_something_fails_the_job(monkeypatch):
    options_of(monkeypatch, "maintain", code=1)
    with pytest.raises(SystemExit) as ended:
        entry_points.maintain(["--pipeline=a.yml"])
    assert ended.value.code == 1
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "17.3")
    with pytest.raises(LakestreamsError, match="maintain ended with 1"):
        entry_points.maintain(["--pipeline=a.yml"])


@pytest.mark.parametrize("arguments", [[], ["--pipeline="], ["--pipeline=,"]])
def test_a_command_as_a_job_needs_a_pipeline(monkeypatch, arguments):
    seen = options_of(monkeypatch, "verify")
    with pytest.raises(SystemExit) as ended:
        entry_points.verify(arguments)
    assert ended.value.code == 2
    assert seen == []


def test_a_fault_of_the_command_is_told_in_its_own_form(tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        entry_points.verify([f"--pipeline={tmp_path / 'none.yml'}"])
    assert ended.value.code == 1
    assert "LS201 CONFIG_UNREADABLE" in capsys.readouterr().err


# --- several pipelines of a command ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "error", "done"),
    [
        ("verify", NothingToVerify("has never run"), Verdict("second", 1, 2)),
        ("maintain", NothingToMaintain("has never run"), Maintained("second", dry_run=False)),
    ],
)
def test_a_pipeline_that_fails_keeps_no_other_from_its_turn(conf, monkeypatch, command, error, done):
    (conf / "second.yml").write_text(demo.PIPELINE.replace("page_views", "second"))

    def judged(_spark, _lake, topology, *_more, **_options):
        if topology.name == "second":
            return done
        raise error

    monkeypatch.setattr(f"lakestreams.cli.{command}.open_session", lambda **_: None)
    module = "lakestreams.verify.verify" if command == "verify" else "lakestreams.maintenance.maintain"
    monkeypatch.setattr(f"{module}.{command}", judged)
    files = [str(conf / "enrichment.yml"), str(conf / "second.yml")]
    result = CliRunner().invoke(app, [command, *files, "--json"])
    told = json.loads(result.stdout)
    assert (result.exit_code, told["ok"]) == (1, False)
    first, second = told["pipelines"]
    assert (first["pipeline"], [fault["code"] for fault in first["faults"]]) == ("page_views", [error.code])
    assert (second["pipeline"], second["faults"]) == ("second", [])
    assert [one.get("equal") for one in (first, second)] == ([False, True] if command == "verify" else [None, None])
    with pytest.raises(SystemExit) as ended:
        getattr(entry_points, command)([f"--pipeline={','.join(files)}"])
    assert ended.value.code == 1
    assert CliRunner().invoke(app, [command, files[1]]).exit_code == 0


def test_a_verification_that_compared_nothing_fails(conf, monkeypatch):
    found = Verdict("page_views", 1, 2, findings=[Comparison("silver.rows", 0, left_out=3)], is_compared=False)
    monkeypatch.setattr("lakestreams.cli.verify.open_session", lambda **_: None)
    monkeypatch.setattr("lakestreams.verify.verify.verify", lambda *_, **__: found)
    result = CliRunner().invoke(app, ["verify", str(conf / "enrichment.yml")])
    assert (result.exit_code, "nothing was compared" in result.stdout) == (1, True)
