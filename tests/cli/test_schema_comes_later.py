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


@pytest.fixture(autouse=True)
def _small(spark: SparkSession) -> Iterator[None]:
    with small(spark):
        yield


class Story:
    """A pipeline of three topics, one a format, and what users type."""

    def __init__(self, folder: Path, servers: str, url: str, tag: str) -> None:
        self.topics = {name: f"later-{name}-{tag}" for name in WORDS}
        self.folder, self.client = folder, Registry(RegistryOptions(url))
        values = {"avro": {"registry_avro": AVRO}, "protobuf": {"registry_protobuf": PROTOBUF},
                  "json": {"json_schema": "id bigint"}}  # fmt: skip
        topics = {name: {"kind": "stream", "topic": self.topics[name], "key": {"text": "k"}, "value": how}
                  for name, how in values.items()}  # fmt: skip
        kafka = {"bootstrap_servers": servers}
        registry = {"url": url, "options": {"max.retries": 0}}
        outputs = {f"silver.later_{name}": {"from": name} for name in topics}
        for file, said in (
            ("sources.yml", {"kafka": kafka, "registry": registry, "topics": topics}),
            ("later.yml", {"pipeline": "later", "outputs": outputs}),
        ):
            (folder / file).write_text(yaml.safe_dump(said, sort_keys=False), encoding="utf-8")

    def register(self, avro: Any, protobuf: str, json_schema: Any) -> list[int]:
        texts = ((json.dumps(avro), "AVRO"), (protobuf, "PROTOBUF"), (json.dumps(json_schema), "JSON"))
        return [self.client.register(f"later-{kind}", Schema(text, kind)) for text, kind in texts]

    def told(self, command: str, *more: str) -> dict[str, Any]:
        words = [*command.split(), str(self.folder / "later.yml"), "--root", str(self.folder / "lake"), "--json", *more]
        found = CliRunner().invoke(app, words)
        assert found.exit_code == 0, found.output + found.stderr
        said: dict[str, Any] = json.loads(found.stdout)
        return said

    def rows(self, spark: SparkSession) -> set[tuple[str, int, int]]:
        """Output, id, and which attempt it is of."""
        found = set()
        for name in WORDS:
            rows = Lake(str(self.folder / "lake")).output(f"silver.later_{name}").read(spark)
            found |= {(name, *row) for row in rows.select("id", "_lineage.trigger.attempt").collect()}
        return found


@pytest.mark.parametrize("is_early", [False, pytest.param(True, marks=pytest.mark.soak)])
def test_they_are_replayed_when_the_registry_has_their_schema(
    spark: SparkSession, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_early: bool
) -> None:
    monkeypatch.setenv("LAKESTREAMS_LOG_DIR", str(tmp_path / "logs"))
    with LocalRegistry() as registry:
        story = Story(tmp_path, broker.bootstrap_servers, registry.url, "early" if is_early else "late")
        known = story.register(AVRO, PROTOBUF, JSON)
        first = known[-1] + 1  # ids ascend by one: producers have schemas that the registry is yet to get
        newer = [first, first + 1, first + 2]
        old = [avro(AVRO, {"id": 1}), b"\0" + protobuf(PROTOBUF, "Order", id=1), b'{"id": 1}']
        new = [avro(NEWER_AVRO, {"id": 2, "note": "a"}), b"\0" + protobuf(NEWER_PROTOBUF, "Order", id=2, note="a"),
               b'{"id": 2, "note": "a"}']  # fmt: skip
        for place, topic in enumerate(story.topics.values()):
            broker.create_topic(topic, 1)
            records = [
                ("k", framed(old[place], known[place]), ZERO_MS),
                ("k", framed(new[place], newer[place]), ZERO_MS),
            ]
            broker.produce(topic, records)
        assert story.told("run", "--max-bad-share", "1")["ok"]
        good = {(name, 1, 0) for name in WORDS}
        assert story.rows(spark) == good
        wrong = {(row["topic"], row["code"], row["message"]) for row in story.told("quarantine list")["newest"]}
        assert wrong == {
            (story.topics[name], "MALFORMED_VALUE", f"schema {number}: the registry has no {word} schema of this id")
            for (name, word), number in zip(WORDS.items(), newer, strict=True)
        }

        if is_early:  # said by a dry run, and by the run that takes the request
            would = story.told("quarantine replay", "--dry-run")
            refused = {row["topic"]: row["refused"] for row in would["topics"]}
            assert refused == {topic: {"MALFORMED_VALUE": 1} for topic in story.topics.values()}
            story.told("quarantine replay", "--topic", story.topics["avro"], "--yes")
            story.told("run", "--max-bad-share", "1")
            assert story.rows(spark) == good

        assert story.register(NEWER_AVRO, NEWER_PROTOBUF, NEWER_JSON) == newer
        made = story.told("quarantine replay", "--yes", "--reason", "the schema is there")
        would = {row["topic"]: (row["records"], row["refused"]) for row in made["topics"]}
        assert would == {topic: (1, {}) for topic in story.topics.values()}
        assert sum(one["records"] for one in made["requests"]) == len(WORDS)
        story.told("run")
        assert story.rows(spark) == good | {("avro", 2, 2 if is_early else 1), ("protobuf", 2, 1), ("json", 2, 1)}
    assert {row["open"] for row in story.told("quarantine list")["groups"]} == {0}
    assert story.told("verify")["ok"], "verify needs no registry"
