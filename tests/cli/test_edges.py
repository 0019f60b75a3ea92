"""What surrounds a command: pipes that close, streams and alphabets that lack, full disks, files that change or are others'."""

from __future__ import annotations

import errno
import io
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

import pytest
from typer.testing import CliRunner

from lakestreams.cli import demo, quarantine, start, watch
from lakestreams.cli.app import app
from lakestreams.cli.screen import Screen, table
from lakestreams.errors import InvalidExpression, LocalPartsMissing, LocationNotWritable
from lakestreams.errors.places import NodePlace
from lakestreams.run.failure import Secrets
from lakestreams.run.locating import locate
from lakestreams.run.options import FileOptions
from lakestreams.run.runner import load

ROOT = Path(__file__).parents[2]
runner = CliRunner()


@pytest.fixture(autouse=True)
def _logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKESTREAMS_LOG_DIR", str(tmp_path / "logs"))


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """The demo's pipeline."""
    text = demo.SOURCES.format(servers="127.0.0.1:9", views="PageViews", users="UserProfiles")
    (tmp_path / "sources.yml").write_text(text)
    (tmp_path / "enrichment.yml").write_text(demo.PIPELINE)
    return tmp_path / "enrichment.yml"


def started(command: str, **how: Any) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHON": sys.executable}
    return subprocess.Popen(["sh", "-c", command], stderr=subprocess.PIPE, text=True, env=environment, **how)


# --- streams ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", ["schema pipeline", "explain pipelines", "explain LS203 --json"])
def test_a_reader_that_has_enough_ends_a_command_quietly(arguments: str) -> None:
    """As `| head -1`."""
    process = started(f'exec "$PYTHON" -m lakestreams {arguments}', stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.close()
    _, told = process.communicate(timeout=60)
    assert (process.returncode, told) == (0, "")


def test_streams_that_the_caller_has_closed_end_no_command() -> None:
    process = started('exec "$PYTHON" -m lakestreams version <&- >&-')
    _, told = process.communicate(timeout=60)
    assert (process.returncode, told) == (0, "")


def test_an_alphabet_that_lacks_characters_gets_them_as_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii"))
    start._prepare_streams()
    Screen().say("no table in lakeü yet")
    Screen(as_json=True).result({"root": "lakeü"})
    sys.stdout.flush()
    text, _, value = written.getvalue().decode("ascii").partition("\n")
    assert text == r"no table in lake\xfc yet"
    assert json.loads(value) == {"root": "lakeü"}


def test_ctrl_c_while_the_command_line_is_imported_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted:
        @property
        def main(self) -> NoReturn:
            raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "lakestreams.cli.app", Interrupted())
    with pytest.raises(SystemExit) as ended:
        start.main()
    assert ended.value.code == 130


def test_a_text_is_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    """Brackets are no styles, and no picture stands for `:x:`."""
    screen = Screen()
    screen.say("urn:x:1 [bold]")
    screen.show(table("[red]", title="urn:x:2, longer than the table", rows=[("[/b]",)]))
    said = capsys.readouterr().out
    for text in ("urn:x:1 [bold]", "[red]", "urn:x:2, longer than the table\n", "[/b]"):
        assert text in said


def test_json_has_no_number_that_json_lacks(capsys: pytest.CaptureFixture[str]) -> None:
    Screen(as_json=True).result({"a": [math.nan, (math.inf, -math.inf)], "b": {"c": 0.5}})

    def refused(constant: str) -> NoReturn:
        raise ValueError(constant)

    value = json.loads(capsys.readouterr().out, parse_constant=refused)
    assert value == {"a": ["NaN", ["Infinity", "-Infinity"]], "b": {"c": 0.5}}


def test_lines_of_quarantine_are_alone_on_stdout(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def opened(screen: Screen, *_: object) -> NoReturn:
        screen.say("jars: resolving")
        raise LocalPartsMissing("here Spark would be started")

    monkeypatch.setattr(quarantine, "_open", opened)
    with pytest.raises(LocalPartsMissing):
        quarantine.show_records(Screen(), None, None, 1, lines=True)  # type: ignore[arg-type]
    told = capsys.readouterr()
    assert (told.out, told.err) == ("", "jars: resolving\n")


# --- places ----------------------------------------------------------------------------------------------------------


def test_a_place_that_cannot_be_written_is_no_unexpected_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = runner.invoke(app, ["init", str(tmp_path / "file" / "mine"), "--json"])
    assert (result.exit_code, json.loads(result.stdout)["faults"][0]["code"]) == (1, "LS502")
    assert "Not a directory" in result.stderr
    assert "Log: " in result.stderr


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "the disk is full: [Errno 28] No space left on device"),
        (RuntimeError("o.a.s.SparkException: x\nCaused by: java.io.IOException: No space left on device"),
         "the disk is full: Caused by: java.io.IOException: No space left on device"),
        (PermissionError(errno.EACCES, "Permission denied", "/lake"), "cannot use /lake: Permission denied"),
    ],
)  # fmt: skip
def test_a_full_disk_hides_no_error(error: Exception, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even where its log finds no place."""

    def full(*_: object, **__: object) -> NoReturn:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "open", full)
    shown, log = Secrets().noted(error)
    assert (type(shown), shown.message, log) == (LocationNotWritable, said, None)
    unexpected, log = Secrets().noted(ZeroDivisionError("by nought"))
    assert (unexpected.code, unexpected.message, log) == ("LS000", "unexpected ZeroDivisionError: by nought", None)


def test_a_table_that_cannot_be_read_and_an_error_of_java_are_told_by_their_cause() -> None:
    """Not by the number of the object that was called."""
    said = (
        "An error occurred while calling o93.load.\n: org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] Encountered "
        "error while reading file file:/lake/x.json.  SQLSTATE: KD001\n\tat org.apache.spark.Errors(Errors.scala:856)\n"
        "Caused by: org.apache.spark.SparkException: between\n\tat a.b\n"
        "Caused by: com.fasterxml.jackson.core.JsonParseException: Unrecognized token 'x'\n\tat a.c"
    )
    shown, _ = Secrets().noted(RuntimeError(said))
    assert (shown.code, shown.message) == (
        "LS517", "Encountered error while reading file file:/lake/x.json.\nJsonParseException: Unrecognized token 'x'"
    )  # fmt: skip
    shown, _ = Secrets().noted(RuntimeError(said.replace("[FAILED_READ_FILE.NO_HINT] ", "")))
    assert shown.code == "LS000"
    assert shown.message.startswith("unexpected RuntimeError: org.apache.spark.SparkException: Encountered error")
    assert shown.message.endswith("\nJsonParseException: Unrecognized token 'x'")


@pytest.mark.parametrize("change", [Path.unlink, lambda file: file.write_text("pipeline: [")])
def test_a_file_that_changes_while_it_runs_hides_no_fault(files: Path, change: Any) -> None:
    (pipeline,) = load(FileOptions((files,)), Secrets())
    fault = InvalidExpression("does not fit", where=NodePlace("left_join", "enriched"))
    change(files)
    assert locate(fault, pipeline).message == "does not fit"
    assert fault.where == 'left_join "enriched"'


def test_a_folder_is_watched_wherever_it_lies(tmp_path: Path) -> None:
    conf = tmp_path / ".work" / "conf"
    for name in ("p.yml", ".hidden/q.yml"):
        (conf / name).parent.mkdir(parents=True, exist_ok=True)
        (conf / name).write_text("pipeline: p")
    assert list(watch._times([conf])) == [conf / "p.yml"]


def test_a_place_without_a_file_is_watched_with_a_word(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(_seconds: float) -> NoReturn:
        raise KeyboardInterrupt

    assert watch.run(Screen(), [tmp_path], None, interrupted) == 0
    assert "waiting for changes; Ctrl-C ends" in capsys.readouterr().out


# --- arguments -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--json", "version"], "Options of a command follow it: lakestreams version --json"),
        (["--root", "lake", "show"], "Options of a command follow it: lakestreams show --root"),
        (["--jsn"], "No such option: --jsn"),
        (["list"], "Use: lakestreams show lists tables"),
        (["help"], "Use: lakestreams --help"),
        (["quarantine", "replai"], "Did you mean 'replay'?"),
        (["show", "--limt", "5"], "--limit"),
    ],
)
def test_a_misplaced_or_misspelt_word_is_answered(arguments: list[str], told: str) -> None:
    result = runner.invoke(app, arguments, env={"COLUMNS": "300"})
    assert (result.exit_code, told in result.stderr) == (2, True), result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["check", "p.yml", "--records-per-second", "nan"],
        ["check", "p.yml", "--records-per-second", "inf"],
        ["quarantine", "list", "p.yml", "--partition", str(2**31)],
        ["quarantine", "show", "p.yml", "--offset", str(2**63)],
        ["quarantine", "replay", "p.yml", "--to", str(2**63)],
        ["quarantine", "discard", "p.yml", "--cycle", str(2**63)],
        ["init", "pipeline", "more", "--job", "enrichment"],
        ["init", "pipeline", "more", "--host", "https://w"],
    ],
)
def test_what_would_fail_later_or_do_nothing_is_a_usage_error(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = runner.invoke(app, arguments)
    assert (result.exit_code, "LS000" in result.stderr) == (2, False), result.output


@pytest.mark.parametrize(
    ("command", "options", "code"),
    [
        ("why", ["--at", "PageViews"], "LS112"),
        ("why", ["--at", f"PageViews-0@{2**63}"], "LS112"),
        ("why", ["--at", f"PageViews-{2**31}@0"], "LS112"),
        ("why", ["--at", f"PageViews-0@{'9' * 5_000}"], "LS112"),
        ("quarantine list", ["--at", "PageViews"], "LS112"),
        ("quarantine list", ["--state", "gone"], "LS112"),
        ("quarantine list", ["--since", "yesterday"], "LS112"),
        ("quarantine replay", ["--repair", "nowhere.jsonl"], "LS201"),
        ("show silver.x", ["--as-of", str(2**63)], "LS112"),
    ],
)
def test_an_option_that_cannot_be_read_is_told_before_spark_starts(
    files: Path, monkeypatch: pytest.MonkeyPatch, command: str, options: list[str], code: str
) -> None:
    def no_session(**_: object) -> NoReturn:
        raise LocalPartsMissing("here Spark would be started")

    name = command.partition(" ")[0]
    monkeypatch.setattr(f"lakestreams.cli.{name}.open_session", no_session)
    given = [] if name == "show" else [str(files)]
    result = runner.invoke(app, [*command.split(), *given, *options, "--root", str(files.parent)])
    assert (result.exit_code, result.stderr[:5]) == (1, code), result.stderr


def test_the_sources_file_is_no_pipeline(files: Path) -> None:
    """A shell gives it with the others for `conf/*.yml`."""
    result = runner.invoke(app, ["check", str(files), str(files.with_name("sources.yml")), "--no-broker"])
    assert result.exit_code == 1
    assert "sources.yml is the file of Kafka and topics, no pipeline" in result.stderr


def test_a_job_that_is_named_twice_is_one(tmp_path: Path) -> None:
    folder = tmp_path / "my folder" / "mine"
    folder.parent.mkdir()
    result = runner.invoke(app, ["init", str(folder), "--job", "enrichment", "--job", "enrichment"])
    assert result.exit_code == 0, result.stderr
    assert f"cd '{folder}'" in result.stdout
    job = (folder / "resources" / "maintenance.job.yml").read_text()
    assert job.count("/conf/enrichment.yml") == 1
