"""JSON Schemas and generated parts of the docs say what the models say."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import jsonschema
import pytest
import yaml
from tests.config.pipeline_files import FULL_PIPELINE, FULL_SOURCES

from lakestreams.config import load_pipeline, schema
from lakestreams.config.load import read

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", schema.SCHEMAS)
def test_the_schemas_are_up_to_date(name):
    assert (ROOT / f"conf/schema/{name}.json").read_text(encoding="utf-8") == schema.schema_text(name)
    jsonschema.Draft202012Validator.check_schema(schema.json_schema(name))


# deployment.yml is dbx's own; tests/bundle looks at it
OURS = sorted(path for path in (ROOT / "conf").glob("*.yml") if path.name != "deployment.yml")


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.name)
def test_conf_files_validate_against_the_schema_they_name(path):
    first = path.read_text(encoding="utf-8").splitlines()[0]
    assert first.startswith("# yaml-language-server: $schema=schema/")
    named = json.loads((path.parent / first.partition("$schema=")[2]).read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(named).validate(read(path).written)
    if path.name != "sources.yml":
        load_pipeline(path)


def test_the_schemas_say_the_same_as_the_models(load):
    sources = jsonschema.Draft202012Validator(schema.json_schema("sources"))
    pipeline = jsonschema.Draft202012Validator(schema.json_schema("pipeline"))
    # YAML 1.1 of the plain loader would read `off` as false
    full = yaml.safe_load(FULL_PIPELINE.replace(": off", ": 'off'"))
    sources.validate(yaml.safe_load(FULL_SOURCES))
    pipeline.validate(full)
    short = yaml.safe_load(FULL_SOURCES)
    short["topics"]["PageViews"]["event_time"] = "ms"
    sources.validate(short)
    for change in (
        lambda data: data.pop("pipeline"),
        lambda data: data.update(topology="a:b"),
        lambda data: data["steps"]["mapped"].update(filter={"from": "a", "where": "b"}),
        lambda data: data["steps"]["mapped"].update(select={"a": "b"}),
        lambda data: data["steps"]["plain"]["join"].update(co_partitioning="no"),
        lambda data: data["outputs"]["silver.all"].update(mode="upsert"),
    ):
        changed = copy.deepcopy(full)
        change(changed)
        assert not pipeline.is_valid(changed)


@pytest.mark.parametrize(
    ("change", "is_valid"),
    [
        ({"refused": []}, True),
        ({"table": {"out": []}}, True),
        ({"expect": {"out": []}, "table": {}}, True),
        ({}, False),
        ({"expect": {}}, False),
        ({"expect": {}, "table": {}}, False),
    ],
)
def test_a_case_compares_something(change, is_valid):
    cases = jsonschema.Draft202012Validator(schema.json_schema("cases"))
    case = {"name": "one", "given": []} | change
    assert cases.is_valid({"pipeline": "p.yml", "cases": [case]}) == is_valid


@pytest.mark.parametrize(
    "head", [{}, {"pipeline": "p.yml", "topology": "a:b"}, {"topology": "a:b", "sources": "s.yml"}]
)
def test_a_file_of_cases_is_of_one_topology(head):
    cases = jsonschema.Draft202012Validator(schema.json_schema("cases"))
    assert not cases.is_valid({**head, "cases": [{"name": "one", "given": [], "refused": []}]})


@pytest.mark.parametrize("name", schema.PAGES)
def test_the_lists_in_the_docs_are_up_to_date(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    assert schema.page(text, schema.PAGES[name]()) == text


def test_the_generator_writes_them(tmp_path):
    (tmp_path / "docs").mkdir()
    for name in schema.PAGES:
        (tmp_path / name).write_text(f"# Title\n\n{schema.BEGIN}\n")
    schema.main(tmp_path)
    schema.main(tmp_path)
    for name, part in schema.PAGES.items():
        assert part() in (tmp_path / name).read_text()
    assert (tmp_path / "conf/schema/sources.json").read_text() == schema.schema_text("sources")
