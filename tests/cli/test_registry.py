"""`lakestreams registry pull`: one version of a subject as a file that pipelines name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.registry.fake import Fake, fake
from typer.testing import CliRunner

from lakestreams.cli.app import app
from lakestreams.config import load_pipeline
from lakestreams.formats import RegistryAvro

ORDER = {"type": "record", "name": "Order", "doc": "ü", "fields": [{"name": "id", "type": "long"}]}
SOURCES = """\
kafka: {{bootstrap_servers: "h:1"}}
registry: {{url: "{url}"}}
topics:
  orders:
    kind: stream
    key: {{avro: string, column: k}}
    value: {{registry_avro: schemas/orders-value.v3.avsc}}
"""
PIPELINE = "pipeline: p\noutputs: {out: {from: orders}}\n"


@pytest.fixture
def server() -> Iterator[Fake]:
    with fake() as server:
        answer = {"subject": "orders-value", "version": 3, "id": 7, "schema": json.dumps(ORDER)}
        server.says("GET /subjects/orders-value/versions/3", (200, answer))
        server.says("GET /subjects/orders-value/versions/latest", (200, answer))
        yield server


@pytest.fixture
def conf(server: Fake, tmp_path: Path) -> Path:
    (tmp_path / "sources.yml").write_text(SOURCES.format(url=server.url), encoding="utf-8")
    (tmp_path / "p.yml").write_text(PIPELINE, encoding="utf-8")
    return tmp_path


def pulled(conf: Path, *arguments: str) -> tuple[int, str]:
    found = CliRunner().invoke(app, ["registry", "pull", *arguments, "--sources", str(conf / "sources.yml")])
    return found.exit_code, found.output


@pytest.mark.parametrize("version", [("--version", "3"), ()])
def test_a_version_becomes_the_file_that_the_pipeline_names(conf: Path, version: tuple[str, ...]) -> None:
    code, said = pulled(conf, "orders-value", *version)
    assert (code, "{registry_avro: schemas/orders-value.v3.avsc}" in said) == (0, True), said
    (source,) = load_pipeline(conf / "p.yml").topology.sources
    assert source.value == RegistryAvro(json.dumps(ORDER))
    file = conf / "schemas" / "orders-value.v3.avsc"
    assert "ü" in file.read_text(encoding="utf-8")
    before = file.stat().st_mtime_ns
    code, said = pulled(conf, "orders-value", *version, "--json")
    assert json.loads(said) == {"ok": True, "written": False, "subject": "orders-value", "version": 3, "id": 7,
                                "file": str(file)}  # fmt: skip
    assert (code, file.stat().st_mtime_ns) == (0, before)
    file.write_text('"long"', encoding="utf-8")
    code, said = pulled(conf, "orders-value", *version)
    assert (code, "has another schema" in said) == (1, True)
    assert file.read_text(encoding="utf-8") == '"long"'


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (None, "the registry has no version 3 of subject a/b"),
        ({"schemaType": "XML", "schema": "<a/>"}, "version 3 of subject a/b is XML, not AVRO or JSON or PROTOBUF"),
        ({"schemaType": "PROTOBUF", "schema": "syntax"}, "the schema of Protobuf cannot be used"),
        ({"schema": "{"}, "the Avro schema is no JSON"),
        (
            {"schema": '"O"', "references": [{"name": "O", "subject": "o", "version": 1}]},
            "version 3 of subject a/b refers to other schemas",
        ),
    ],
)
def test_what_cannot_be_declared_is_not_written(
    server: Fake, conf: Path, answer: dict[str, object] | None, said: str
) -> None:
    server.says("GET /subjects/o/versions/1", (200, {"schema": '{"type": "fixed", "name": "O", "size": 1}'}))
    if answer is not None:
        server.says("GET /subjects/a%2Fb/versions/3", (200, {"version": 3, "id": 1, **answer}))
    code, output = pulled(conf, "a/b", "--version", "3")
    assert (code, said in output) == (1, True), output
    assert not (conf / "schemas").exists()


def test_a_json_schema_becomes_a_json_file(server: Fake, conf: Path) -> None:
    said = {"type": "object", "properties": {"id": {"type": "integer"}}}
    answer = {"version": 3, "id": 7, "schemaType": "JSON", "schema": json.dumps(said)}
    server.says("GET /subjects/notes/versions/3", (200, answer))
    code, output = pulled(conf, "notes", "--version", "3")
    assert (code, "{json_schema: schemas/notes.v3.json}" in output) == (0, True), output
    assert json.loads((conf / "schemas" / "notes.v3.json").read_text(encoding="utf-8")) == said
    server.says("GET /subjects/notes/versions/3", (200, {**answer, "schema": '{"type": "string"}'}))
    assert pulled(conf, "notes", "--version", "3", "--out", str(conf / "other.json"))[0] == 1


def test_a_schema_of_protobuf_becomes_a_proto_file(server: Fake, conf: Path) -> None:
    text = 'syntax = "proto3";\nmessage Note { string text = 1; }\n'
    server.says(
        "GET /subjects/notes/versions/3", (200, {"version": 3, "id": 7, "schemaType": "PROTOBUF", "schema": text})
    )
    for said in ("written", "there already"):
        code, output = pulled(conf, "notes", "--version", "3")
        assert (code, said in output, "{registry_protobuf: schemas/notes.v3.proto}" in output) == (0, True, True), (
            output
        )
    assert (conf / "schemas" / "notes.v3.proto").read_text(encoding="utf-8") == text


def test_where_it_is_written(server: Fake, conf: Path) -> None:
    server.says("GET /subjects/..%2Fx/versions/latest", (200, {"version": 2, "id": 1, "schema": '"long"'}))
    assert pulled(conf, "../x")[0] == 0
    assert [file.name for file in (conf / "schemas").iterdir()] == ["_x.v2.avsc"]
    assert pulled(conf, "../x", "--out", str(conf / "x.avsc"))[0] == 0
    assert (conf / "x.avsc").read_text(encoding="utf-8") == '"long"\n'
    code, said = pulled(conf, "../x", "--out", str(conf / "x.json"))
    assert (code, "does not end with .avsc" in said) == (1, True)


@pytest.mark.parametrize(
    ("registry", "said"),
    [("", "the key 'registry' is missing"), ("registry: {url: h}\n", "http"), ("registry: {uri: h}\n", "url")],
)
def test_a_registry_that_is_not_named(tmp_path: Path, registry: str, said: str) -> None:
    (tmp_path / "sources.yml").write_text(f"{registry}topics: {{}}\n", encoding="utf-8")
    code, output = pulled(tmp_path, "orders-value")
    assert (code, said in output) == (1, True), output
