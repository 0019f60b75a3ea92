"""The command line without Spark: arguments, errors in their form, exit codes, and what --help may cost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import yaml
from typer.testing import CliRunner

import lakestreams
from lakestreams.cli import demo, show, status, watch
from lakestreams.cli.app import app
from lakestreams.cli.screen import Screen, table
from lakestreams.config.load import read
from lakestreams.errors import Fenced, IngestFailed, LakestreamsError, LocalPartsMissing, catalogue, meaning
from lakestreams.run import failure
from lakestreams.testing.case_files import load as load_cases
from lakestreams.times import readable

ROOT = Path(__file__).parents[2]
COMMANDS = [
    "demo", "check", "run", "test", "status", "init", "dbx", "maintain", "report", "schema", "version", "show", "watch", "explain",
    "local up", "local down", "local topic", "local produce", "local consume",
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
rooms = ("config", "costs", "engine", "evaluate", "jobs", "local", "maintenance", "verify")
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
        ["show", "x", "--limit", "0"],
        ["explain"],
        ["local", "produce"],
        ["local", "up", "--port", "70000"],
        ["run", "x.yml", "--once", "--interval", "5s"],
        ["schema", "tables"],
        ["quarantine", "list"],
        ["quarantine", "list", "x.yml", "--offset", "1", "--from", "1"],
        ["quarantine", "show", "x.yml", "--at", "t-0@1", "--topic", "t"],
        ["quarantine", "discard", "x.yml", "--at", "t-0@1", "--from", "0", "--to", "40"],
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
    assert result.stderr.rstrip().endswith("lakestreams explain LS201")


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
    assert "timedelta" not in result.stderr, "an option is not written in Python"


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
    for name in [name for name in sys.modules if name.startswith("lakestreams.local.") and "broker" in name]:
        monkeypatch.delitem(sys.modules, name)
    for name in ("broker", "user_broker"):
        monkeypatch.delattr(f"lakestreams.local.{name}", raising=False)
    result = runner.invoke(app, ["local", "down"])
    assert result.exit_code == 1
    assert "LS606 LOCAL_PARTS_MISSING" in result.stderr
    assert "pip install 'lakestreams[local]'" in result.stderr


# --- secrets ---------------------------------------------------------------------------------------------------------


def test_no_secret_in_an_error_or_its_log(conf, logs, monkeypatch):
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
    assert "'kafka-prod' exists on Databricks only" in asked.stderr
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

    seen = []
    monkeypatch.setattr(check, "run", lambda _screen, _options, wanted, **_: seen.append(wanted) or 0)
    file = str(conf / "enrichment.yml")
    assert runner.invoke(app, ["check", file, "--explain"]).exit_code == 0
    assert (seen[-1].explain, seen[-1].records_per_second, seen[-1].table_rows) == (True, 1_000.0, 100_000)
    given = ["--records-per-second", "20.5", "--table-rows", "7"]
    assert runner.invoke(app, ["check", file, "--explain", *given]).exit_code == 0
    assert (seen[-1].records_per_second, seen[-1].table_rows) == (20.5, 7)
    assert runner.invoke(app, ["check", file, "--records-per-second", "-1"]).exit_code == 2


# --- version, completion, errors' pages ------------------------------------------------------------------------------


def test_the_version_is_an_option_too():
    result = runner.invoke(app, ["--version"])
    assert (result.exit_code, result.stdout) == (0, f"lakestreams {lakestreams.__version__}\n")


def test_a_shell_completes_commands():
    environment = {"_LAKESTREAMS_COMPLETE": "complete_bash", "COMP_WORDS": "lakestreams sh", "COMP_CWORD": "1"}
    result = runner.invoke(app, [], prog_name="lakestreams", env=environment)
    assert set(result.stdout.split()) == {"show"}


def test_each_code_is_explained_without_a_clone():
    for cls in catalogue():
        result = runner.invoke(app, ["explain", cls.code.lower()])
        assert result.exit_code == 0
        assert result.stdout.startswith(f"{cls.code} {cls.name}\n\n{meaning(cls)}\n\nFix: {cls.hint}\n")
    told = json.loads(runner.invoke(app, ["explain", "LS203", "--json"]).stdout)
    assert (told["code"], told["name"]) == ("LS203", "CONFIG_INVALID")
    pages = {
        "cases": "`refused`",
        "expressions": "coalesce",
        "kafka-options": "sasl.jaas.config",
        "pipelines": "left_join",
    }
    for page, part in pages.items():
        assert part in runner.invoke(app, ["explain", page]).stdout
    unknown = runner.invoke(app, ["explain", "LS999"])
    assert (unknown.exit_code, "there is no error LS999" in unknown.stderr) == (1, True)


# --- times -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sentence", "shown"),
    [
        (
            "waits until the clock, now at 1700000540000, passes 1700000840000",
            "waits until the clock, now at 2023-11-14T22:22:20.000Z (1700000540000), passes 2023-11-14T22:27:20.000Z (1700000840000)",
        ),
        ("within 3600000 ms", "within 1 h (3600000 ms)"),
        ("within 1500 ms, grace 90001 ms", "within 1500 ms, grace 90001 ms"),
        ("the key '1700000540000' of Orders-0@2", "the key '1700000540000' of Orders-0@2"),
        ("offset 17000005400001", "offset 17000005400001"),
    ],
)
def test_times_and_durations_are_readable_with_their_milliseconds(sentence, shown):
    assert readable(sentence) == shown


# --- init pipeline ---------------------------------------------------------------------------------------------------


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project as `init` writes it, as working directory."""
    monkeypatch.chdir(tmp_path)
    assert runner.invoke(app, ["init", "mine", "--job", "enrichment", "--job", "correlation"]).exit_code == 0
    monkeypatch.chdir(tmp_path / "mine")
    return tmp_path / "mine"


@pytest.mark.parametrize("flags", [[], ["--python"]])
def test_a_further_pipeline_has_no_fault_and_a_case(project, flags):
    result = runner.invoke(app, ["init", "pipeline", "big_views", *flags, "--json"])
    assert result.exit_code == 0, result.stderr
    files = [f"conf/big_views.{ending}" for ending in (["py", "yml"] if flags else ["yml"])]
    job = "resources/big_views.job.yml"
    assert json.loads(result.stdout)["files"] == [*files, job, "tests/cases/big_views.yml"]
    (suite,) = load_cases([project / "tests" / "cases" / "big_views.yml"])
    assert [sink.name for sink in suite.topology.sinks] == ["silver.big_views"]
    assert len(suite.cases) == 1
    again = runner.invoke(app, ["init", "pipeline", "big_views"])
    assert (again.exit_code, "LS704" in again.stderr) == (1, True)
    sys.modules.pop("big_views", None)


def test_every_file_of_a_project_names_the_schema_that_lies_in_it(project):
    assert runner.invoke(app, ["init", "pipeline", "more"]).exit_code == 0
    files = [*project.glob("conf/*.yml"), *project.glob("tests/cases/*.yml")]
    assert len(files) == 7
    for file in files:
        line = file.read_text().partition("\n")[0]
        schema = (file.parent / line.removeprefix("# yaml-language-server: $schema=")).resolve()
        jsonschema.validate(yaml.safe_load(file.read_text()), json.loads(schema.read_text()))


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["init", "pipeline"], 2, "needs a name"),
        (["init", "mine", "more"], 2, "no further name"),
        (["init", "mine", "--python"], 2, "no --python"),
        (["init", "pipeline", "a-b"], 1, "LS108"),
        (["init", "pipeline", "a"], 1, "there is no file conf/sources.yml"),
    ],
)
def test_a_further_pipeline_needs_a_name_and_a_project(tmp_path, monkeypatch, arguments, code, told):
    monkeypatch.chdir(tmp_path)
    result = runner.invoke(app, arguments, env={"COLUMNS": "200"})
    assert (result.exit_code, told in result.stderr) == (code, True), result.stderr
    assert list(tmp_path.iterdir()) == []


# --- watch -----------------------------------------------------------------------------------------------------------


def test_watch_checks_changed_files_and_runs_their_cases(project, capsys):
    ran = []

    def cases(_screen, files, name):
        ran.append(([file.name for file in files], name))
        return 0

    pipeline = project / "conf" / "enrichment.yml"
    text = pipeline.read_text()
    steps = [
        lambda: None,  # nothing changes
        lambda: pipeline.write_text(text.replace("coalesce(", "coalesc(")),
        lambda: pipeline.write_text(text + "\n"),
    ]

    def wait(_seconds):
        if not steps:
            raise KeyboardInterrupt
        steps.pop(0)()

    assert watch.run(Screen(), [], "profile", wait, cases) == 0
    told = capsys.readouterr()
    assert ran == [(["correlation.yml", "enrichment.yml"], "profile")] * 2, "not while a file has a fault"
    assert "LS204 EXPRESSION_REFUSED   conf/enrichment.yml" in told.err
    assert told.out.count("ok  conf/enrichment.yml") == 2
    assert "conf/enrichment.yml\n" in told.out


def test_watch_needs_something_to_watch(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for arguments in ([], ["nowhere"]):
        result = runner.invoke(app, ["watch", *arguments])
        assert (result.exit_code, "LS201" in result.stderr) == (1, True)


# --- show ------------------------------------------------------------------------------------------------------------


def lake_with(folder, *names):
    for name in names:
        log = folder.joinpath(*name.split("."), "_delta_log")
        log.mkdir(parents=True)
        (log / "00000000000000000000.json").write_text("{}")
    return folder


def test_show_lists_the_tables_of_a_folder_without_spark(tmp_path):
    lake_with(tmp_path, "silver.page_views", "_lakestreams.ledger", "bronze.page_views__PageViews")
    result = runner.invoke(app, ["show", "--root", str(tmp_path), "--json"])
    assert json.loads(result.stdout)["tables"] == [
        "_lakestreams.ledger", "bronze.page_views__PageViews", "silver.page_views",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["page_view"], "did you mean silver.page_views? there are: silver.page_views"),
        (["page_views", "--where", "reflect(page)"], "LS204 EXPRESSION_REFUSED   --where"),
        (["page_views", "--as-of", "yesterday"], "--as-of 'yesterday' is no version and no time"),
        (["page_views", "--as-of", "1; DROP"], "is no version and no time"),
    ],
)
def test_show_says_what_cannot_be_shown_before_spark_starts(tmp_path, arguments, told):
    lake_with(tmp_path, "silver.page_views")
    result = runner.invoke(app, ["show", *arguments, "--root", str(tmp_path)])
    assert (result.exit_code, told in result.stderr) == (1, True), result.stderr


@pytest.mark.parametrize(
    ("page", "moment", "noted"),
    [("/a", "2023-11-14T22:22:20.000Z (1700000540000)", False), ("/a" * 30, "2023-11-14T22:22:20.000Z", True)],
)
def test_show_fits_80_columns_with_times_in_words_and_nothing_that_a_terminal_obeys(monkeypatch, page, moment, noted):
    monkeypatch.setenv("COLUMNS", "80")
    screen = Screen()
    with screen.console.capture() as shown:
        row = {"user": "al\x1b[2Jice", "page": page, "seen": None, "event_time_ms": 1_700_000_540_000, "_lineage": {}}
        show._show(screen, "silver.page_views", [row], more=True)
    text = shown.get()
    assert "\x1b[2J" not in text
    assert "al\\x1b[2Jice" in text
    assert moment in text, "a time stays in one line"
    assert ("(1700000540000)" in text, "times are without milliseconds" in text) == (not noted, noted)
    assert "_lineage is left out" in text
    assert max(map(len, text.splitlines())) <= 80


# --- tables ----------------------------------------------------------------------------------------------------------


def test_tables_fit_80_columns_with_numbers_in_one_line_and_nothing_cut_off(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    screen = Screen()
    partition = status.Partition("OrderEvents", 11, 12_345_678, 12_344_788, 12_345_687, 9, 890, "order not settled")
    with screen.console.capture() as shown:
        status.show(screen, status.Status("order_completion", epoch=12, partitions=[partition]))
        screen.show(table("key", "n", rows=[("k" * 200, 1_000_000)], right=("n",)))
    text = shown.get()
    assert max(map(len, text.splitlines())) <= 80
    for number in ("12,345,678", "12,345,687", "1,000,000"):
        assert number in text
    assert text.replace("key", "").count("k") == 200
    assert "held of OrderEvents-11: order not settled" in text


def shown_at(columns, *arguments, **more):
    screen = Screen()
    with screen.console.capture() as shown:
        screen.show(table(*arguments, **more))
    lines = [line.rstrip() for line in shown.get().splitlines()]
    assert max(map(len, lines)) <= columns
    return lines


def test_a_narrow_screen_breaks_no_word(monkeypatch):
    """Columns wrap between words, headings too; if that is not enough, each row is lines of its own."""
    rows = [("PageViews", "bronze of PageViews", 1_234), ("UserProfiles", "bronze of UserProfiles", 5)]
    headings, numbers = ("table", "what", "rows deleted"), ("rows deleted",)
    monkeypatch.setenv("COLUMNS", "40")
    lines = shown_at(40, *headings, title="page_views", rows=rows, right=numbers)
    assert [line.split() for line in lines if line and "─" not in line] == [
        ["page_views"], ["rows"], ["table", "what", "deleted"],
        ["PageViews", "bronze", "of", "1,234"], ["PageViews"], ["UserProfiles", "bronze", "of", "5"], ["UserProfiles"],
    ]  # fmt: skip
    monkeypatch.setenv("COLUMNS", "28")
    lines = shown_at(28, *headings, title="page_views", rows=rows, right=numbers)
    assert [line.split() for line in lines if line] == [
        ["page_views"],
        ["table", "PageViews"], ["what", "bronze", "of"], ["PageViews"], ["rows", "deleted", "1,234"],
        ["table", "UserProfiles"], ["what", "bronze", "of"], ["UserProfiles"], ["rows", "deleted", "5"],
    ]  # fmt: skip


TIME = "2026-01-31T12:00:04.000Z"


@pytest.mark.parametrize(
    ("headings", "row", "right"),
    [
        (("pipeline", "now", "cycle", "ingested", "published", "unreadable", "lag", "records/s"),
         ("order_payments", "published", 12, 1_234_567, 1_234_567, 0, 12, "12,345"), slice(2, None)),
        (("pipeline", "", "epoch", "cycles", "records", "unreadable", "seconds"),
         ("order_payments", "LS401", 12, 100, 1_234_567, 0, "123.4"), slice(2, None)),
        (("code", "node", "rule", "records", "open", "first seen", "last seen"),
         ("MALFORMED_VALUE", "with_reference", "not_negative", 12, 11, TIME, TIME), slice(3, 5)),
        (("record", "code", "node", "cycle", "state", "message"),
         ("PageViews-0@17", "MALFORMED_VALUE", "PageViews", 1, "open", "value: text(page): byte 0xff is no UTF-8"), slice(3, 4)),
        (("job", "id", "starts", "last run", "began", "took"),
         ("[dev ada] my-streams enrichment", "1234567890123456", "0 0/15 * * * ? (paused)", "SUCCESS", "2026-01-31T12:00:04Z", "43 s"),
         slice(0)),
        (("topic", "even share", "heaviest partition", "its share", "heaviest key", "share of the key"),
         ("UserProfiles", "25 %", 3, "26 %", "user-12345678", "3 %"), slice(1, 4)),
        (("table", "what", "deleted", "files", "size"),
         ("bronze.page_views__PageViews", "bronze of PageViews", "1,234 rows", "120 to 12", "12.3 MB to 11 MB"), slice(2, None)),
    ],
    ids=lambda one: one[0] if isinstance(one, tuple) else "",
)  # fmt: skip
def test_what_commands_show_keeps_names_times_and_numbers_whole_at_80_columns(monkeypatch, headings, row, right):
    monkeypatch.setenv("COLUMNS", "80")
    words = " ".join(shown_at(80, *headings, rows=[row], right=headings[right])).split()
    for cell in row:
        for word in (f"{cell:,}" if isinstance(cell, int) else cell).split():
            assert word in words
