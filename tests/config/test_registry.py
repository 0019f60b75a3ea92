"""Formats with a schema registry, and the registry itself, in files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakestreams import DebeziumAvro, GlueAvro, JsonSchema, RegistryAvro, RegistryProtobuf
from lakestreams.config import load_pipeline
from lakestreams.config.recorded import topology
from lakestreams.errors import TopologyInvalid
from lakestreams.run import runner
from lakestreams.run.failure import Secrets
from lakestreams.run.options import FileOptions

BASE = 'syntax = "proto3"; message B { int32 a = 1; }'
KAFKA = "kafka: {bootstrap_servers: 'h:1'}\n"
REGISTRY = "registry: {url: 'https://r', options: {bearer.auth.token: '${TOKEN}', max.retries: 5}}\n"
ORDER = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
PIPELINE = (
    "pipeline: p\noutputs: {out: {from: orders, to: kafka, value: {registry_avro: %s, subject: s, register: true}}}\n"
)


def load(folder: Path, value: str, head: str = KAFKA + REGISTRY):
    topic = f"topics: {{orders: {{kind: stream, key: {{avro: string, column: k}}, value: {{{value}}}}}}}\n"
    (folder / "sources.yml").write_text(head + topic, encoding="utf-8")
    (folder / "p.yml").write_text(PIPELINE % json.dumps(ORDER), encoding="utf-8")
    return load_pipeline(folder / "p.yml")


def test_a_schema_is_text_or_yaml(tmp_path: Path) -> None:
    as_yaml = load(tmp_path, f"registry_avro: {json.dumps(ORDER)}")
    as_text = load(tmp_path, f"registry_avro: '{json.dumps(ORDER)}'")
    (source,), (sink,) = as_yaml.topology.sources, as_yaml.topology.kafka_sinks
    assert source.value == RegistryAvro(json.dumps(ORDER)) == as_text.topology.sources[0].value
    assert sink.value == RegistryAvro(json.dumps(ORDER), subject="s", register=True)
    assert source.key.describe().startswith("avro(k string; schema ")
    assert as_yaml.registry is not None
    assert (as_yaml.registry.url, dict(as_yaml.registry.options)) == (
        "https://r",
        {"bearer.auth.token": "${TOKEN}", "max.retries": "5"},
    )
    assert '"${TOKEN}"' in as_yaml.text
    assert "TOKEN" not in as_yaml.semantics


def test_json_schema_is_columns_or_a_schema_in_yaml_or_in_a_file(tmp_path: Path) -> None:
    said = {"type": "object", "properties": {"user-id": {"type": "string"}}}
    how = "fields: {user: user-id}, subject: s, register: true"
    as_yaml = load(tmp_path, f"json_schema: {json.dumps(said)}, {how}")
    (source,) = as_yaml.topology.sources
    assert source.value == JsonSchema(json.dumps(said), {"user": "user-id"}, subject="s", register=True)
    (tmp_path / "order.json").write_text(json.dumps(said, indent=2), encoding="utf-8")
    as_file = load(tmp_path, f"json_schema: order.json, {how}")
    assert (as_file.text, as_file.semantics) == (as_yaml.text, as_yaml.semantics)
    (source,) = load(tmp_path, "json_schema: 'id bigint not null, note string'").topology.sources
    assert source.value == JsonSchema("id bigint not null, note string")


def test_change_events_in_avro_are_declared_by_a_file(tmp_path: Path) -> None:
    row = {"type": "record", "name": "Value", "fields": [{"name": "id", "type": "long"}]}
    fields = [{"name": "before", "type": ["null", row]}, {"name": "after", "type": ["null", "Value"]}, {"name": "op", "type": "string"}]  # fmt: skip
    event = {"type": "record", "name": "Envelope", "fields": fields}
    (tmp_path / "orders.avsc").write_text(json.dumps(event, indent=2), encoding="utf-8")
    (source,) = load(tmp_path, "debezium_avro: orders.avsc").topology.sources
    assert source.value == DebeziumAvro(json.dumps(event))
    assert [(one.name, one.type) for one in source.value.fields] == [("id", "bigint")]
    for wrong, message in (
        ("none.avsc", "the schema none.avsc cannot be read"),
        ("string", "write columns as name type"),
    ):
        with pytest.raises(TopologyInvalid) as told:
            load(tmp_path, f"debezium_avro: {wrong}")
        assert len(told.value.faults) == 1, told.value
        assert message in str(told.value)
    with pytest.raises(TopologyInvalid, match="the key 'registry' is missing: orders"):
        load(tmp_path, "debezium_avro: orders.avsc", KAFKA)


PROTO = 'syntax = "proto3"; import "b.proto"; message Other { int32 a = 1; } message Order { B b = 1; }'


def test_a_schema_of_protobuf_is_text_or_a_file(tmp_path: Path) -> None:
    text = load(tmp_path, f"registry_protobuf: '{PROTO}', message: Order, imports: {{b.proto: '{BASE}'}}")
    (source,) = text.topology.sources
    assert source.value == RegistryProtobuf(PROTO, "Order", imports=(("b.proto", BASE),))
    (tmp_path / "order.proto").write_text(PROTO, encoding="utf-8")
    (tmp_path / "base.proto").write_text(BASE, encoding="utf-8")
    as_file = load(tmp_path, "registry_protobuf: order.proto, message: Order, imports: {b.proto: base.proto}")
    assert (as_file.text, as_file.semantics) == (text.text, text.semantics)
    for wrong in ("registry_protobuf: none.proto, message: Order, imports: {b.proto: base.proto}",
                  "registry_protobuf: order.proto, message: Order, imports: {b.proto: none.proto}"):  # fmt: skip
        with pytest.raises(TopologyInvalid) as told:
            load(tmp_path, wrong)
        assert len(told.value.faults) == 1, told.value
        assert "the schema none.proto cannot be read" in str(told.value)


def test_secrets_are_looked_up_in_the_scope_of_the_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load(tmp_path, "avro: long", KAFKA + REGISTRY.replace("${TOKEN}", "secret://shop/token"))
    monkeypatch.setenv("LAKESTREAMS_SECRET_PROD_TOKEN", "abc")
    (found,) = runner.load(FileOptions((tmp_path / "p.yml",), secret_scope="prod"), Secrets())
    assert found.registry is not None
    assert found.registry.secrets() == [("shop", "token")]
    assert found.registry.headers()["Authorization"].reveal() == "Bearer abc"


@pytest.mark.parametrize(
    ("value", "head", "message"),
    [
        ("registry_avro: long", KAFKA, "the key 'registry' is missing: orders"),
        ("registry_avro: long", KAFKA + "registry: {url: r}\n", "http"),
        ("registry_avro: long", KAFKA + REGISTRY.replace("${TOKEN}", "abc"), "written out"),
        ("registry_avro: long", KAFKA + REGISTRY.replace("retries", "retires"), "did you mean max.retries"),
        ("json_schema: id bigint", KAFKA, "the key 'registry' is missing: orders"),
        ("json_schema: id bigin", KAFKA + REGISTRY, "id bigin"),
        ("json_schema: {type: string}", KAFKA + REGISTRY, "no object with properties"),
        ("json_schema: none.json", KAFKA + REGISTRY, "the schema none.json cannot be read"),
        ("protobuf: none", KAFKA, "the schema of Protobuf cannot be used"),
        (f"registry_protobuf: '{BASE}', message: X", KAFKA + REGISTRY, "has no message 'X'"),
        ("json: id int, message: X", KAFKA + REGISTRY, "message and imports: only protobuf"),
        ("registry_avro: strin", KAFKA + REGISTRY, "no JSON"),
        ("registry_avro: {type: record}", KAFKA + REGISTRY, "has no name"),
        (
            "avro: long, subject: s",
            KAFKA + REGISTRY,
            "subject and register: only registry_avro, json_schema, registry_protobuf have them",
        ),
        ("json: id int, column: c", KAFKA + REGISTRY, "column: only avro, registry_avro and glue_avro"),
        ("avro: long, column: a-b", KAFKA + REGISTRY, "a-b"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(tmp_path: Path, value: str, head: str, message: str) -> None:
    with pytest.raises(TopologyInvalid) as told:
        load(tmp_path, value, head)
    assert message in str(told.value)
    assert "sources.yml:" in str(told.value)


def test_a_schema_in_a_file_is_as_if_it_were_written_in_its_place(tmp_path: Path) -> None:
    (tmp_path / "schemas").mkdir()
    file = tmp_path / "schemas" / "order.avsc"
    file.write_text(json.dumps(ORDER, indent=4), encoding="utf-8")
    written, named = (load(tmp_path, f"registry_avro: {how}") for how in (json.dumps(ORDER), "schemas/order.avsc"))
    assert named.topology.sources[0].value == written.topology.sources[0].value == RegistryAvro(json.dumps(ORDER))
    assert (named.text, named.semantics) == (
        written.text,
        written.semantics,
    )  # what the ledger keeps, and verify compiles
    recorded = topology(named.text, named.topology.describe())
    file.write_text(json.dumps({**ORDER, "name": "Other"}), encoding="utf-8")
    assert recorded.describe() == written.topology.describe()
    assert load(tmp_path, "registry_avro: schemas/order.avsc").semantics != written.semantics


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "the schema order.avsc cannot be read: No such file or directory"),
        (b"\xff", "the schema order.avsc is not UTF-8"),
        (b"{", "the schema order.avsc is no JSON"),
        (b"[" * 100_000, "the schema order.avsc is no JSON"),
        (b'"' + b"x" * 1_000_000, "more than 1000000 bytes"),
        (b'{"type": "record"}', "has no name"),
        (b"null", "the schema order.avsc is neither a text nor an object nor a list"),
    ],
)
def test_a_schema_file_that_is_wrong_is_one_fault_at_its_line(
    tmp_path: Path, content: bytes | None, message: str
) -> None:
    if content is not None:
        (tmp_path / "order.avsc").write_bytes(content)
    with pytest.raises(TopologyInvalid) as told:
        load(tmp_path, "avro: order.avsc")
    assert len(told.value.faults) == 1
    assert message in str(told.value)
    assert "sources.yml:3" in str(told.value)


def test_versions_of_glue_are_texts_or_files(tmp_path: Path) -> None:
    one, two = "b7b4a7f0-9c96-4e4a-a687-fb5de9ef0c61", "b7b4a7f0-9c96-4e4a-a687-fb5de9ef0c62"
    (tmp_path / "order.avsc").write_text(json.dumps(ORDER, indent=2), encoding="utf-8")
    how = f"glue_avro: order.avsc, versions: {{{one}: order.avsc, {two}: {json.dumps(ORDER)}}}"
    loaded = load(tmp_path, how)
    (source,) = loaded.topology.sources
    text = json.dumps(ORDER)
    assert source.value == GlueAvro(text, versions=((one, text), (two, text)))
    assert topology(loaded.text, loaded.topology.describe()).sources == loaded.topology.sources
    for wrong, said in (
        ("glue_avro: order.avsc", "glue_avro and versions: neither is without the other"),
        (f"avro: order.avsc, versions: {{{one}: order.avsc}}", "glue_avro and versions: neither is without the other"),
        (f"glue_avro: order.avsc, versions: {{{one}: lost.avsc}}", "the schema lost.avsc cannot be read"),
        ("glue_avro: order.avsc, versions: {seven: order.avsc}", "'seven' is no UUID of a schema version"),
    ):
        with pytest.raises(TopologyInvalid) as told:
            load(tmp_path, wrong)
        assert said in str(told.value), told.value
        assert len(told.value.faults) == 1, told.value
