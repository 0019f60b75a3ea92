"""`docs/tutorial.md`: its files are written, its commands run in order, and each shows what the page says."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.docs.blocks import blocks
from tests.docs.walking import walk

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "tutorial.md"
BLOCKS = blocks(PAGE)


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
    with Broker() as broker:
        monkeypatch.setenv("KAFKA_BOOTSTRAP", broker.bootstrap_servers)
        assert walk("tutorial.md", broker.bootstrap_servers)[-1] == "lakestreams local down"
