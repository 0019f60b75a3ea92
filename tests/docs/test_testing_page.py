"""The page about testing, and what `docs/cli.md` shows of `lakestreams test`: every block is run."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.docs.blocks import blocks
from typer.main import get_command
from typer.testing import CliRunner

from lakestreams.cli.app import app
from lakestreams.testing.difference import HEAD, difference
from lakestreams.testing.small import small

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "testing.md"


def texts(page: Path, language: str) -> list[str]:
    return [block.text for block in blocks(page) if block.language == language]


def names_of(code: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(code, str(PAGE), "exec"), names)
    return names


@pytest.mark.slow
def test_the_python_runs(spark: SparkSession) -> None:
    from lakestreams.testing import TopologyTestDriver

    alone, as_a_test = texts(PAGE, "python")
    with small(spark):
        assert names_of(alone)["driver"].read() == []
        (test,) = [made for name, made in names_of(as_a_test).items() if name.startswith("test_")]
        test(lambda topology: TopologyTestDriver(topology, spark))


def test_the_difference_looks_as_it_is_shown() -> None:
    (shown,) = texts(PAGE, "text")
    home = ("alice", {"page": "/home", "region": "us-east"}, 1)
    wanted, got = ([home, ("bob", {"page": "/products", "region": region}, 2)] for region in ("eu-west", "<unknown>"))
    assert difference(HEAD, wanted, got) == shown.rstrip("\n")


@pytest.mark.slow
def test_the_cases_run_and_fail_as_it_is_shown(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (cases,) = texts(PAGE, "yaml")
    (name,) = re.findall(r"\A# (\S+)$", cases, re.MULTILINE)
    shutil.copytree(ROOT / "conf", tmp_path / "conf")
    (tmp_path / "tests").mkdir()
    (tmp_path / name).write_text(cases, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    passed = CliRunner().invoke(app, ["test"])
    assert passed.exit_code == 0, passed.output
    assert "2 passed, 0 failed" in passed.output

    (shown,) = [text for text in texts(ROOT / "docs" / "cli.md", "text") if "passed" in text]
    (tmp_path / name).write_text(cases.replace("MALFORMED_VALUE", "NULL_VALUE"), encoding="utf-8")
    failed = CliRunner().invoke(app, ["test"])
    assert failed.exit_code == 1
    assert lines(failed.output) == lines(shown)


def lines(text: str) -> list[str]:
    """Without blank lines, the widths of columns, and the time it took."""
    told = [re.sub(r" +", " ", re.sub(r"─+", "─", line)).strip() for line in text.splitlines()]
    return [re.sub(r"in [\d.]+ s$", "in ... s", line) for line in told if line]


def test_the_commands_exist() -> None:
    command = get_command(app).commands["test"]  # type: ignore[attr-defined]
    options = {option for parameter in command.params for option in parameter.opts}
    for page in (PAGE, ROOT / "docs" / "cli.md"):
        used = re.findall(r"^lakestreams test(.*?)(?:#.*)?$", "".join(texts(page, "sh")), re.MULTILINE)
        assert used
        assert {option for line in used for option in re.findall(r"(?<= )--?\w+", line)} <= options
