"""`lakestreams show`, and what Spark's analyser refuses of a file: with Spark, on a small table without a broker."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.cli.test_mistakes import PIPELINE, SOURCES
from typer.testing import CliRunner

from lakestreams.cli.app import app
from lakestreams.cli.show import _missing, _whole
from lakestreams.engine.runtime.lake import Lake

runner = CliRunner()


@pytest.fixture(scope="module")
def root(spark, tmp_path_factory):
    """A lake with one table, of two versions."""
    folder = tmp_path_factory.mktemp("lake")
    columns = "user string, page string, event_time_ms bigint"
    for rows in ([("alice", "/a", 1_700_000_000_001)], [("bo\x1b[2Jb", None, 1_700_000_000_003), ("carol", "/c", 2)]):
        frame = spark.createDataFrame(rows, columns)
        frame.write.format("delta").mode("append").save(str(folder / "silver" / "views"))
    odd = (
        "select binary('al') as key, unhex('ff') as value, double('NaN') as share, timestamp'2026-01-01 00:00:00' as at"
    )
    spark.sql(odd).write.format("delta").save(str(folder / "silver" / "odd"))
    return str(folder)


def show(root, *arguments):
    result = runner.invoke(app, ["show", "views", "--root", root, *arguments])
    assert result.exit_code == 0, result.stderr
    return result.stdout


def users(root, *arguments):
    found = json.loads(show(root, *arguments, "--json"))
    return [row["user"] for row in found["rows"]], found["more"]


def test_the_newest_rows_come_first_and_nothing_is_obeyed(root):
    text = show(root)
    assert "2023-11-14T22:13:20.003Z" in text
    assert "bo\\x1b[2Jb" in text
    assert "\x1b[2J" not in text
    assert text.index("bo\\x1b") < text.index("alice") < text.index("carol")


def test_rows_are_limited_chosen_and_of_a_version(root):
    assert users(root, "--limit", "1") == (["bo\x1b[2Jb"], True)
    assert users(root, "--where", "page is not null and event_time_ms > 10") == (["alice"], False)
    assert users(root, "--as-of", "0") == (["alice"], False)
    written = datetime.fromtimestamp(next(Path(root).glob("silver/views/_delta_log/*0.json")).stat().st_mtime, UTC)
    assert users(root, "--as-of", (written + timedelta(milliseconds=1)).isoformat()) == (["alice"], False)


def test_a_ledger_that_is_none_is_told(spark, tmp_path):
    """Somebody else's table of that name, or a damaged one."""
    spark.range(1).write.format("delta").save(str(tmp_path / "_lakestreams" / "ledger"))
    (tmp_path / "sources.yml").write_text(SOURCES)
    (tmp_path / "p.yml").write_text(PIPELINE)
    for arguments in (["status"], ["verify", str(tmp_path / "p.yml")]):
        result = runner.invoke(app, [*arguments, "--root", str(tmp_path)])
        assert (result.exit_code, result.stderr[:5]) == (1, "LS506"), result.stderr
        assert "_lakestreams.ledger is no ledger" in result.stderr


def test_bytes_times_and_numbers_that_json_lacks_are_readable(root):
    result = runner.invoke(app, ["show", "odd", "--root", root, "--json", "--limit", "99999999999"])
    assert json.loads(result.stdout)["rows"] == [
        {"key": "al", "value": {"$base64": "/w=="}, "share": "NaN", "at": "2026-01-01T00:00:00Z"}
    ]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--where", "pge = 'a'"], "LS105 UNKNOWN_COLUMN   --where\n  silver.views has no column 'pge'\n  Fix: did you mean 'page'?"),
        (["--where", "page"], "LS110 INVALID_EXPRESSION   --where"),
        (["--as-of", "7"], "LS112 INVALID_OPTION"),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_is_told_without_a_trace(root, capfd, arguments, told):
    result = runner.invoke(app, ["show", "views", "--root", root, *arguments])
    assert (result.exit_code, told in result.stderr) == (1, True), result.stderr
    assert "Traceback" not in result.stderr + "".join(capfd.readouterr())


@pytest.mark.parametrize(
    ("asked", "meant", "hint"),
    [
        ("views", "silver.views", ""),
        ("ledger", "_lakestreams.ledger", ""),
        ("quarantine", "_lakestreams.quarantine", ""),
        ("hours", "silver.hours", "did you mean gold.hours? there are: _lake"),  # it is in two schemas
        ("ledgr", "silver.ledgr", "did you mean _lakestreams.ledger? "),
        ("silver.ledger", "silver.ledger", "did you mean silver.views? "),
    ],
)
def test_a_bare_name_is_an_outputs_or_the_only_table_of_its_name(tmp_path, asked, meant, hint):
    lake = Lake(str(tmp_path))
    known = ["_lakestreams.ledger", "_lakestreams.quarantine", "bronze.hours", "gold.hours", "silver.views"]
    whole = _whole(lake, asked, known)
    assert lake.output(whole).name == meant if whole == asked else whole == meant
    assert whole in known or _missing(lake, whole, known).hint.startswith(hint)


def test_the_analyser_is_told_in_our_words_at_the_line_of_the_expression(spark, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sources.yml").write_text(SOURCES)
    text = PIPELINE.replace("page: PageViews.page", "page: PageViews.page + array(1)")
    text = text.replace(
        "outputs:",
        "  few: {filter: {from: PageViews, where: page}}\n  none: {filter: {from: PageViews, where: pag = 'a'}}\noutputs:",
    )
    (tmp_path / "p.yml").write_text(text)
    result = runner.invoke(app, ["check", "p.yml", "--no-broker"])
    assert result.exit_code == 1
    heads = [line for line in result.stderr.splitlines() if line.startswith("LS1")][1:]
    assert [(head[:5], head.partition("p.yml:")[2].split()[0]) for head in heads] == [
        ("LS110", "7"), ("LS110", "10"), ("LS105", "11"),
    ]  # fmt: skip
    noise = result.stderr + "".join(capfd.readouterr())
    for word in ("SQLSTATE", "DATATYPE_MISMATCH", "org.apache", "stacktrace", "Traceback"):
        assert word not in noise
