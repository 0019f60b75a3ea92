"""`lakestreams test`: what it shows of cases that pass, fail and cannot be run; its exit codes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lakestreams.cli import watch
from lakestreams.cli.app import app
from lakestreams.cli.screen import Screen

ROOT = Path(__file__).parents[2]
runner = CliRunner()

# A name of its own: imported modules stay for the whole run of the tests.
MODULE = "lakestreams_cli_cases"
TOPOLOGY = """\
from lakestreams import Json, Long, StreamsBuilder, Text

def build(builder):
    orders = builder.table("Orders", key=Long("id"), value=Json("total decimal(10, 2), at timestamp, tags array<string>"))
    shipping = builder.table("Shipping", key=Long("id"), value=Text("carrier"))
    orders.left_join(shipping).to_delta("shipped", mode="merge")
    views = builder.stream("Views", key=Text("user"), value=Text("page"))
    views.map_values(lambda view: {"page": view.page.cast("int")}, name="number").to_delta("numbers")
"""
CASES = f"""\
topology: {MODULE}:build
cases:
  - name: a row of a table, as JSON says it
    given:
      - {{to: Orders, key: 7, value: {{total: 12.5, at: '2026-03-01T12:00:00Z', tags: [a]}}, at: 1}}
      - {{to: Shipping, key: 7, value: ups, at: 1 s}}
    expect:
      shipped:
        - {{key: 7, value: {{total: 12.50, at: '2026-03-01T12:00:00.000Z', tags: [a], carrier: null}}, at: 1, kind: unmatched}}
        - {{key: 7, value: {{total: 12.5, at: '2026-03-01T12:00:00.000Z', tags: [a], carrier: ups}}, at: 1 s, after: 2}}
      numbers: []
    table:
      shipped: [{{key: 7, value: {{total: 12.5, at: '2026-03-01T12:00:00.000Z', tags: [a], carrier: ups}}}}]
  - name: a deletion leaves nothing
    given:
      - {{to: Orders, key: 7, value: {{total: 1}}, at: 0}}
      - {{to: Orders, key: 7, value: null, at: 1}}
    expect:
      shipped:
        - {{key: 7, value: {{total: 1, at: null, tags: null, carrier: null}}, at: 0}}
        - {{key: 7, value: null, at: 1, kind: tombstone}}
    table: {{shipped: []}}
  - name: nothing goes in
    given: []
    expect: {{shipped: [], numbers: []}}
    refused: []
"""
WRONG = """\
  - name: wrong in everything
    given:
      - {to: Views, key: alice, value: '1', at: 0}
      - {to: Views, key: alice, value: null, at: 1}
      - {to: Orders, key: 7, value: {total: 1, at: '2026-03-01T12:00:00.000007Z'}, at: 0}
    expect:
      numbers: [{key: alice, value: {page: 2}, at: 0}]
      shipped: [{key: 7, value: {total: 1, at: '2026-03-01T12:00:00.000Z', tags: null, carrier: null}, at: 0}]
    refused: [{record: 1, code: NULL_VALUE}]
    table: {shipped: []}
"""
STOPS = """\
  - name: stops the job
    given:
      - {to: Views, key: alice, value: '1', at: 0}
      - {to: Views, key: alice, value: no number, at: 1}
    expect: {numbers: []}
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LAKESTREAMS_LOG_DIR", str(tmp_path / "logs"))
    (tmp_path / f"{MODULE}.py").write_text(TOPOLOGY)
    (tmp_path / "tests").mkdir()
    return tmp_path


# --- with Spark ------------------------------------------------------------------------------------------------------


def test_each_ready_pipeline_has_cases():
    pipelines = {path.stem for path in (ROOT / "conf").glob("*.yml")} - {"sources", "deployment"}
    assert {path.stem for path in (ROOT / "tests/cases").glob("*.yml")} == pipelines


@pytest.mark.parametrize(
    ("places", "count"),
    [
        pytest.param([f"tests/cases/{job}.yml" for job in ("enrichment", "correlation", "fk_join")], 7, id="jobs",
                     marks=pytest.mark.slow),
        pytest.param(["tests/cases"], 11, id="all", marks=pytest.mark.soak),
    ],
)  # fmt: skip
def test_the_ready_pipelines_do_what_their_cases_say(spark, monkeypatch, places, count):
    monkeypatch.chdir(ROOT)
    result = runner.invoke(app, ["test", *places])
    assert result.exit_code == 0, result.output
    assert f"{count} passed, 0 failed in " in result.output


@pytest.mark.slow
def test_cases_that_fail_say_how(spark, place):
    (place / "tests" / "made.yml").write_text(CASES + WRONG)
    result = runner.invoke(app, ["test", "--json"])
    assert result.exit_code == 1
    told = json.loads(result.stdout)
    assert (told["ok"], told["passed"], told["failed"]) == (False, 3, 1)
    assert [case["ok"] for case in told["cases"]] == [True, True, True, False], told
    wrong = told["cases"][-1]
    assert wrong["where"] == "tests/made.yml:27"
    assert wrong["refused"] == [{"record": 2, "step": "Views", "code": "NULL_VALUE"}]
    firsts = {what: text.splitlines()[0] for what, text in wrong["differences"].items()}
    assert firsts == {
        "numbers": "expected 1 | got 1: first in row 1: value.page expected 2, got 1",
        "refused": "expected 1 | got 1: first in row 1: record expected 1, got 2",
        "shipped": "expected 1 | got 1: first in row 1: value.at expected "
        '"2026-03-01T12:00:00.000Z", got "2026-03-01T12:00:00.000007Z"',
        "table shipped": "expected 0 | got 1: row 1 is only in got",
    }
    text = runner.invoke(app, ["test", "-k", "WRONG", "tests/made.yml"])
    assert text.exit_code == 1
    assert "FAIL  wrong in everything   tests/made.yml:27" in text.output
    assert '  > "alice"  {"page": 2}  0  | "alice"  {"page": 1}  0' in text.output
    assert "0 passed, 1 failed in " in text.output


@pytest.mark.slow
def test_a_case_that_stops_the_job_fails_alone(spark, place):
    (place / "tests" / "made.yml").write_text(CASES.partition("  - name: a deletion")[0] + STOPS)
    result = runner.invoke(app, ["test", "--json"])
    assert result.exit_code == 1
    one, other = json.loads(result.stdout)["cases"]
    assert (one["ok"], other["ok"]) == (True, False)
    assert "CAST_INVALID_INPUT" in other["error"]
    assert "CAST_INVALID_INPUT" in result.stderr


def test_a_topology_with_faults_is_a_bad_file(spark, place):
    (place / f"{MODULE}_broken.py").write_text(TOPOLOGY.replace("view.page", "view.pag"))
    (place / "tests" / "made.yml").write_text(CASES.replace(MODULE, f"{MODULE}_broken"))
    result = runner.invoke(app, ["test"])
    assert result.exit_code == 2
    assert "LS105 UNKNOWN_COLUMN" in result.stderr


# --- without ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["nowhere"], "LS201 CONFIG_UNREADABLE"),
        ([], "no YAML file in tests has a key `cases`"),
        (["bad.yml"], "LS202 UNKNOWN_KEY   bad.yml:2"),
        (["good.yml", "-k", "no such name"], "there are: a row of a table"),
    ],
)
def test_bad_files_are_told_before_spark_is_started(place, monkeypatch, arguments, told):
    monkeypatch.setattr("lakestreams.cli.test.open_session", None)
    (place / "good.yml").write_text(CASES)
    (place / "bad.yml").write_text(CASES.replace("cases:", "case:"))
    result = runner.invoke(app, ["test", *arguments])
    assert result.exit_code == 2
    assert told in result.stderr
    as_json = runner.invoke(app, ["test", *arguments, "--json"])
    assert as_json.exit_code == 2
    assert json.loads(as_json.stdout)["ok"] is False


@pytest.mark.slow
def test_the_cases_of_further_pipelines_pass_and_watch_runs_them(spark, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LAKESTREAMS_LOG_DIR", str(tmp_path / "logs"))
    assert runner.invoke(app, ["init", "mine", "--job", "enrichment", "--job", "correlation"]).exit_code == 0
    monkeypatch.chdir(tmp_path / "mine")
    assert runner.invoke(app, ["init", "pipeline", "in_yaml"]).exit_code == 0
    assert runner.invoke(app, ["init", "pipeline", "in_python", "--python"]).exit_code == 0
    code = tmp_path / "mine" / "conf" / "in_python.py"

    steps = [lambda: code.write_text(code.read_text().replace(".isNotNull()", ".isNull()"))]

    def wait(_seconds):
        if not steps:
            raise KeyboardInterrupt
        steps.pop()()

    files = [Path("conf"), *(Path("tests", "cases", f"{name}.yml") for name in ("in_yaml", "in_python"))]
    assert watch.run(Screen(), files, None, wait) == 0
    told = capsys.readouterr().out
    assert re.findall(r"\d passed, \d failed", told) == ["2 passed, 0 failed", "1 passed, 1 failed"]
    assert "conf/in_python.py\n" in told
