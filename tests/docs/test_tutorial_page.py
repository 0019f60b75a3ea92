"""`docs/tutorial.md`: its files are written, its commands run in order, and each shows what the page says."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.docs.blocks import blocks
from typer.testing import CliRunner

from lakestreams.cli.app import app

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "tutorial.md"
BLOCKS = blocks(PAGE)
SECONDS = re.compile(r"\b\d+\.\d+ s\b")


def plain(text: str) -> list[str]:
    """Lines without what differs between runs: seconds, the width of columns, empty lines."""
    lines = [re.sub(r"[ ─]+", " ", SECONDS.sub("... s", line)).strip() for line in text.splitlines()]
    return [line for line in lines if line]


def test_the_pipeline_is_the_one_that_init_writes() -> None:
    (shown,) = [block.text for block in BLOCKS if block.language == "yaml"]
    written = (ROOT / "conf" / "enrichment.yml").read_text(encoding="utf-8")
    without = "".join(line for line in written.splitlines(keepends=True) if not line.startswith("#"))
    assert shown.partition("\n")[2] == without


@pytest.mark.broker
def test_every_command_shows_what_the_page_says(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lakestreams.local.broker import Broker

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LAKESTREAMS_LOG_DIR", str(tmp_path / "logs"))
    output = ""
    with Broker() as broker:
        monkeypatch.setenv("KAFKA_BOOTSTRAP", broker.bootstrap_servers)
        for block in BLOCKS:
            if block.title:
                Path(block.title).write_text(block.text, encoding="utf-8")
            elif block.language == "sh":
                output = "".join(ran(line, broker.bootstrap_servers) for line in block.text.splitlines())
            elif block.language == "text" and output:
                shown, printed = plain(block.text), iter(plain(output))
                missing = [line for line in shown if line not in printed]
                assert not missing, f"{missing} not in, or not in this order:\n{output}"
                output = ""


def ran(line: str, servers: str) -> str:
    """What a command of the page prints; the test has a broker of its own instead of the user's."""
    program, *arguments = shlex.split(line)
    if program == "cd":
        os.chdir(arguments[0])
        return ""
    if arguments[0] == "local":
        if arguments[1] in ("up", "down"):
            return ""
        arguments += ["--bootstrap-servers", servers]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, f"{line}\n{result.output}"
    return result.output
