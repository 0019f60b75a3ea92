"""The how-to guides that show files: the files load and fit each other, without Spark. `test_guides_walked.py` runs them."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from tests.docs.blocks import blocks

from lakestreams.config import load_pipeline
from lakestreams.formats.base import struct_type

ROOT = Path(__file__).parents[2]
BRING, BACKFILL = "bring-a-kafka-streams-app.md", "backfill.md"


def files(page: str) -> dict[str, str]:
    """The YAML files of a guide: the first line of each says its name."""
    texts = [block.text for block in blocks(ROOT / "docs" / page) if block.language == "yaml"]
    return {re.findall(r"\A# (\S+)$", text, re.MULTILINE)[0]: text for text in texts}


def test_the_translated_pipeline_has_the_steps_of_the_java_one(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    for name, text in files(BRING).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    topology = load_pipeline(tmp_path / "conf" / "page_views.yml").topology
    assert [node.name for node in topology.nodes] == [
        "PageViews",
        "UserProfiles",
        "enriched",
        "known",
        "silver.enriched_page_views",
    ]


def test_a_backfill_reads_the_topics_or_bronze_into_outputs_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    shutil.copy(ROOT / "conf" / "sources.yml", tmp_path / "conf")
    for name, text in files(BACKFILL).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    former = load_pipeline(ROOT / "conf" / "enrichment.yml").topology
    again = load_pipeline(tmp_path / "conf" / "page_views_2.yml").topology
    replay = load_pipeline(tmp_path / "conf" / "page_views_3.yml", tmp_path / "conf" / "from_bronze.yml").topology
    (shown,) = [block.text for block in blocks(ROOT / "docs" / BACKFILL) if block.text.startswith("Topology: ")]
    assert replay.describe().rstrip("\n") == shown.rstrip("\n")
    assert [node.name for node in again.sources] == [node.name for node in former.sources]
    assert {one.delta for one in replay.sources} == {f"bronze.{former.name}__{one.topic}" for one in former.sources}
    assert len({one.name for one in (former, again, replay)}) == 3
    outputs = [{sink.name for sink in one.sinks} for one in (former, again, replay)]
    assert len(set.union(*outputs)) == 3, "no output is shared"


def test_bronze_has_the_columns_that_a_replay_reads(tmp_path: Path) -> None:
    for name, text in files(BACKFILL).items():
        (tmp_path / Path(name).name).write_text(text, encoding="utf-8")
    former = load_pipeline(ROOT / "conf" / "enrichment.yml").topology
    replay = load_pipeline(tmp_path / "page_views_3.yml", tmp_path / "from_bronze.yml").topology
    for old, new in zip(former.sources, replay.sources, strict=True):
        read = {one.name: one.type for one in (*new.key.fields, *new.value.fields)}
        typed = {"k": struct_type(old.key.fields), "v": struct_type(old.value.fields)}
        assert read == {"partition": "int", "offset": "bigint", "event_time_ms": "bigint"} | {
            name: kind.replace("`", "") for name, kind in typed.items()
        }
