"""`docs/pipelines.md`: every example loads and binds, every key is in one; and the ready pipelines do what stories show."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
import yaml
from tests.docs import test_scenario_pages as scenarios
from tests.docs.blocks import blocks
from tests.topology.checked import outputs_of

from lakestreams.config import load_pipeline
from lakestreams.config.load import read
from lakestreams.config.models import PipelineFile, SourcesFile
from lakestreams.config.reference import _TABLES
from lakestreams.config.schema import json_schema
from lakestreams.config.validate import keys_at
from lakestreams.topology.endpoints import Sink

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pyspark.sql import SparkSession

    from lakestreams import StreamsBuilder

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "pipelines.md"
SOURCES, *PIPELINES = [block.text for block in blocks(PAGE) if block.language == "yaml"]
NAMES = [yaml.safe_load(text)["pipeline"] for text in PIPELINES]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The page's files, and the Python module that one of them names."""
    module = ModuleType("my_module")

    def my_function(builder: StreamsBuilder) -> None:
        from lakestreams import Text

        builder.stream("Views", key=Text("user"), value=Text("page")).to_delta("silver.views")

    module.__dict__["my_function"] = my_function
    monkeypatch.setitem(sys.modules, "my_module", module)
    (tmp_path / "sources.yml").write_text(SOURCES, encoding="utf-8")
    for name, text in zip(NAMES, PIPELINES, strict=True):
        (tmp_path / f"{name}.yml").write_text(text, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("name", NAMES)
def test_an_example_loads_and_leaves_no_step_without_use(name: str, folder: Path) -> None:
    nodes = load_pipeline(folder / f"{name}.yml").topology.nodes
    used = {parent.name for node in nodes for parent in node.parents}
    sinks = {node.name for node in nodes if isinstance(node, Sink)}
    assert sinks
    assert {node.name for node in nodes} - used == sinks


@pytest.mark.parametrize("name", ["sources", *NAMES])
def test_an_editor_that_knows_the_schema_agrees(name: str, folder: Path) -> None:
    known = json_schema("sources" if name == "sources" else "pipeline")
    jsonschema.Draft202012Validator(known).validate(read(folder / f"{name}.yml").written)


def used_keys(model: type[BaseModel], data: Any, path: tuple[str, ...] = ()) -> Iterator[str]:
    """Every key of the models in the data; names that a user chose are none."""
    if path[-1:] == ("event_time",):
        yield from data if isinstance(data, dict) else ()  # its short form is none of a model
    for key, value in data.items() if isinstance(data, dict) else ():
        if key in keys_at(model, path):
            yield key
        yield from used_keys(model, value, (*path, key))


def test_every_key_is_in_an_example() -> None:
    kafkas, formats, changes = (
        [block.text for block in blocks(ROOT / "docs" / page) if block.language == "yaml"]
        for page in ("kafka-options.md", "formats.md", "cdc.md")
    )
    shown = {
        key for text in (SOURCES, *kafkas, *formats, *changes) for key in used_keys(SourcesFile, yaml.safe_load(text))
    }
    for text in (*PIPELINES, *formats, *changes):
        shown |= set(used_keys(PipelineFile, yaml.safe_load(text)))
    known = {info.alias or name for _, model in _TABLES for name, info in model.model_fields.items()}
    assert known - shown == set()


def test_every_ready_pipeline_is_listed() -> None:
    text = PAGE.read_text(encoding="utf-8")
    ready = {path.name for path in (ROOT / "conf").glob("*.yml")} - {"sources.yml", "deployment.yml"}
    assert all(f"| `{name}` |" in text for name in ready)


@pytest.mark.soak
def test_every_expression_of_examples_and_ready_pipelines_binds(folder: Path, spark: SparkSession) -> None:
    ready = [path for path in (ROOT / "conf").glob("*.yml") if path.name not in ("sources.yml", "deployment.yml")]
    for path in [*(folder / f"{name}.yml" for name in NAMES), *ready]:
        topology = load_pipeline(path).topology
        outputs = outputs_of(topology, spark)
        assert outputs.keys() == {sink.name for sink in topology.outputs}


# What a ready pipeline says in a file, its story says in Python: the same records give the same results.
READY = {"orders_by_customer": "fk_join", "order_totals": "order_totals", "order_completion": "order_completion",
         "clicks_per_region": "clicks_per_region"}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [name if name in ("orders_by_customer", "clicks_per_region") else pytest.param(name, marks=pytest.mark.soak)
     for name in READY],
)  # fmt: skip
def test_a_ready_pipeline_gives_what_its_story_shows(name: str, spark: SparkSession) -> None:
    topology = load_pipeline(ROOT / "conf" / f"{READY[name]}.yml").topology
    told = [story for story in scenarios.ALL if story.topology.name == name]
    assert told
    for story in told:
        scenarios.test_what_goes_in_gives_what_is_shown(replace(story, topology=topology), spark)
