"""Records whose schema nobody knew wait in quarantine; when the registry has it, a replay reads them. In each format."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from tests.formats.avro.judge import framed
from tests.formats.avro.judge import written as avro
from tests.formats.protobuf.judge import written as protobuf
from typer.testing import CliRunner

from lakestreams.cli.app import app
from lakestreams.engine.runtime.lake import Lake
from lakestreams.local.registry import LocalRegistry
from lakestreams.registry import Registry, RegistryOptions, Schema
from lakestreams.testing.small import small

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.local.broker import Broker

pytestmark = pytest.mark.broker

ZERO_MS = 1_700_000_000_000
AVRO = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
NEWER_AVRO = {**AVRO, "fields": [*AVRO["fields"], {"name": "note", "type": "string"}]}
PROTOBUF = 'syntax = "proto3"; message Order { int64 id = 1; }'
NEWER_PROTOBUF = 'syntax = "proto3"; message Order { int64 id = 1; string note = 2; }'
JSON = {"type": "object", "properties": {"id": {"type": "integer"}}}
NEWER_JSON = {"type": "object", "properties": {"id": {"type": "integer"}, "note": {"type": "string"}}}
WORDS = {"avro": "Avro", "protobuf": "Protobuf", "json": "JSON"}
OLD = {"avro": avro(AVRO, {"id": 1}), "protobuf": b"\0" + protobuf(PROTOBUF, "Order", id=1), "json": b'{"id": 1}'}
NEW = {
    "avro": avro(NEWER_AVRO, {"id": 2, "note": "a"}),
    "protobuf": b"\0" + protobuf(NEWER_PROTOBUF, "Order", id=2, note="a"),
    "json": b'{"id": 2, "note": "a"}',
}


@pytest.fixture(autouse=True)
def _small(spark: SparkSession) -> Iterator[None]:
    with small(spark):
        yield


class Story:
    """A pipeline of one topic a format, and what users type."""

    def __init__(self, folder: Path, servers: str, url: str, topics: dict[str, str]) -> None:
        self.topics = topics
        self.folder, self.client = folder, Registry(RegistryOptions(url))
        values = {"avro": {"registry_avro": AVRO}, "protobuf": {"registry_protobuf": PROTOBUF},
                  "json": {"json_schema": "id bigint"}}  # fmt: skip
        declared = {name: {"kind": "stream", "topic": topic, "key": {"text": "k"}, "value": values[name]}
                    for name, topic in topics.items()}  # fmt: skip
        kafka = {"bootstrap_servers": servers}
        registry = {"url": url, "options": {"max.retries": 0}}
        outputs = {f"silver.later_{name}": {"from": name} for name in topics}
        for file, said in (
            ("sources.yml", {"kafka": kafka, "registry": registry, "topics": declared}),
            ("later.yml", {"pipeline": "later", "outputs": outputs}),
        ):
            (folder / file).write_text(yaml.safe_dump(said, sort_keys=False), encoding="utf-8")

    def register(self, avro: Any, protobuf: str, json_schema: Any) -> dict[str, int]:
        """Their ids by format, in the order in which the registry gets them."""
        texts = {"avro": json.dumps(avro), "protobuf": protobuf, "json": json.dumps(json_schema)}
        return {name: self.client.register(f"later-{name}", Schema(text, name.upper())) for name, text in texts.items()}

    def told(self, command: str, *more: str) -> dict[str, Any]:
        words = [*command.split(), str(self.folder / "later.yml"), "--root", str(self.folder / "lake"), "--json", *more]
        found = CliRunner().invoke(app, words)
        assert found.exit_code == 0, found.output + found.stderr
        said: dict[str, Any] = json.loads(found.stdout)
        return said

    def rows(self, spark: SparkSession) -> set[tuple[str, int, int]]:
        """Output, id, and which attempt it is of."""
        found = set()
        for name in self.topics:
            rows = Lake(str(self.folder / "lake")).output(f"silver.later_{name}").read(spark)
            found |= {(name, *row) for row in rows.select("id", "_lineage.trigger.attempt").collect()}
        return found


# What asks a registry is one for all formats: in `make test` one of them.
@pytest.mark.parametrize(
    ("names", "is_early"),
    [
        (("avro",), False),
        *(pytest.param(tuple(WORDS), is_early, marks=pytest.mark.soak) for is_early in (False, True)),
    ],
    ids=["avro", "all", "all, early"],
)
def test_they_are_replayed_when_the_registry_has_their_schema(
    spark: SparkSession,
    broker: Broker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    names: tuple[str, ...],
    is_early: bool,
) -> None:
    tag = f"{len(names)}-{'early' if is_early else 'late'}"
    monkeypatch.setenv("LAKESTREAMS_LOG_DIR", str(tmp_path / "logs"))
    with LocalRegistry() as registry:
        topics = {name: f"later-{name}-{tag}" for name in names}
        story = Story(tmp_path, broker.bootstrap_servers, registry.url, topics)
        known = story.register(AVRO, PROTOBUF, JSON)
        # ids ascend by one: producers have schemas that the registry is yet to get
        newer = {name: max(known.values()) + 1 + place for place, name in enumerate(known)}
        for name, topic in topics.items():
            broker.create_topic(topic, 1)
            records = [
                ("k", framed(OLD[name], known[name]), ZERO_MS),
                ("k", framed(NEW[name], newer[name]), ZERO_MS),
            ]
            broker.produce(topic, records)
        assert story.told("run", "--max-bad-share", "1")["ok"]
        good = {(name, 1, 0) for name in names}
        assert story.rows(spark) == good
        wrong = {(row["topic"], row["code"], row["message"]) for row in story.told("quarantine list")["newest"]}
        assert wrong == {
            (topic, "MALFORMED_VALUE", f"schema {newer[name]}: the registry has no {WORDS[name]} schema of this id")
            for name, topic in topics.items()
        }

        if is_early:  # said by a dry run, and by the run that takes the request
            would = story.told("quarantine replay", "--dry-run")
            refused = {row["topic"]: row["refused"] for row in would["topics"]}
            assert refused == {topic: {"MALFORMED_VALUE": 1} for topic in topics.values()}
            story.told("quarantine replay", "--topic", topics["avro"], "--yes")
            story.told("run", "--max-bad-share", "1")
            assert story.rows(spark) == good

        assert story.register(NEWER_AVRO, NEWER_PROTOBUF, NEWER_JSON) == newer
        made = story.told("quarantine replay", "--yes", "--reason", "the schema is there")
        would = {row["topic"]: (row["records"], row["refused"]) for row in made["topics"]}
        assert would == {topic: (1, {}) for topic in topics.values()}
        assert sum(one["records"] for one in made["requests"]) == len(names)
        story.told("run")
        assert story.rows(spark) == good | {(name, 2, 2 if is_early and name == "avro" else 1) for name in names}
    assert {row["open"] for row in story.told("quarantine list")["groups"]} == {0}
    assert story.told("verify")["ok"], "verify needs no registry"
