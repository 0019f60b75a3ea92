"""Samples that are hard to declare: what is proposed is read by lakestreams' own YAML, and reads the sample, or is not proposed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakestreams.config.load import read as read_file
from lakestreams.config.models import TopicSpec
from lakestreams.errors import SchemaMissing
from lakestreams.infer.proposal import Proposal, propose
from lakestreams.kafka.sample import Record
from lakestreams.registry import Registered, Schema


def of(values: Sequence[Any], keys: Sequence[bytes] = (), topic: str = "shop.orders", **more: Any) -> Proposal:
    raw = [one if isinstance(one, bytes) else json.dumps(one).encode() for one in values]
    return propose(topic, [Record(key, one) for key, one in zip(keys or [b"k"] * len(raw), raw, strict=True)], **more)


def reread(found: Proposal, values: Sequence[Any], folder: Path) -> dict[str, str]:
    """Column to type, as lakestreams reads the proposed lines; the sample is read without an error."""
    path = folder / "sources.yml"
    path.write_text("topics:\n" + "\n".join(found.lines) + "\n", encoding="utf-8")
    document = read_file(path)
    ((name, parts),) = document.data["topics"].items()
    assert not document.faults
    assert {name: parts} == json.loads(json.dumps(found.declared))
    how = TopicSpec.model_validate(parts).value.build()
    raw = [one if isinstance(one, bytes) else json.dumps(one).encode() for one in values]
    assert how.decode(pa.array(raw, pa.binary())).errors.to_pylist() == [None] * len(raw)
    return {one.name: one.type for one in found.value.columns}


SAMPLES: dict[str, tuple[Sequence[Any], dict[str, str]]] = {
    "names like numbers": ([{"08": 1, "1e5": 2, "+9": 3}], {"field_08": "bigint", "field_1e5": "bigint", "field_9": "bigint"}),
    "inner names in capitals": ([{"o": {"a": 1, "A": 2}}], {"o": "map<string, bigint>"}),
    "inner names in capitals, of several kinds": ([{"o": {"a": 1, "A": "x"}}], {"o": "map<string, string>"}),
    "51 digits": ([{"n": 10**50}], {"n": "string"}),
    "beyond a double": ([b'{"n": 1e400}', b'{"n": 1}'], {"n": "string"}),
    "whole numbers that a double rounds": ([b'{"n": 1152921504606846977}', b'{"n": 1.25}'], {"n": "decimal(38,2)"}),
    "more digits than both have": ([b'{"n": 1152921504606846977}', b'{"n": 1.25e3}'], {"n": "double"}),
    "another one's op": ([{"op": "upsert", "after": {"id": 1}}], {"op": "string", "after": "struct<id: bigint>"}),
    "names that are taken": ([{"_ls_a": 1, "_LS_b": 2, "c": {"_ls_d": 3, "e": 4}}], {"c": "struct<e: bigint>"}),
    "a long name": ([{"x" * 300: 1, "x" * 301: 2}], {"x" * 100: "bigint", f"{'x' * 100}_2": "bigint"}),
}  # fmt: skip


@pytest.mark.parametrize("name", SAMPLES)
def test_what_is_proposed_reads_the_sample(name: str, tmp_path: Path) -> None:
    values, wanted = SAMPLES[name]
    assert reread(of(values), values, tmp_path) == wanted


@pytest.mark.parametrize("topic", ["08", "1e5", "x" * 249, "s", "-1"])
def test_any_name_of_a_topic_can_be_declared(topic: str, tmp_path: Path) -> None:
    reread(of([{"a": 1}], topic=topic), [{"a": 1}], tmp_path)


@pytest.mark.parametrize("depth", [100, 900])
def test_what_lies_deep_is_read_as_text(depth: int, tmp_path: Path) -> None:
    for begin, end in (('{"a":', "}"), ("[", "]")):
        value = ('{"o":' + begin * depth + "1" + end * depth + "}").encode()
        (kind,) = reread(of([value]), [value], tmp_path).values()
        assert "string" in kind


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"schema": None, "payload": {}},
        {"op": "c", "after": {}},
        {"op": "c", "after": "text"},
        {"type": "insert", "table": "t", "data": {}},
    ],
)
def test_without_a_column_nothing_is_proposed(value: Any) -> None:
    found = of([value] * 3)
    assert not found.is_whole
    assert "  # value: which format?" in "\n".join(found.lines)
    assert any("its columns are not known" in one for one in found.notes)


def test_deletions_of_debezium_have_the_columns_of_the_rows_before() -> None:
    found = of([{"op": "d", "before": {"id": 1}, "after": None}] * 3)
    assert found.value.declared == {"debezium_json": "id bigint"}


LONGS = [(20_000_000 + number).to_bytes(8, "big") for number in range(3)]


class Registry:
    """One that has schemas under some ids; an exception is raised."""

    def __init__(self, **schemas: Schema | SchemaMissing) -> None:
        self.schemas = {int(name.strip("_")): one for name, one in schemas.items()}

    def by_name(self, name: int | str) -> Schema | None:
        found = self.schemas.get(int(name))
        if isinstance(found, SchemaMissing):
            raise found
        return found

    def newest(self, subject: str) -> Registered | None:  # noqa: ARG002
        return None


def test_longs_that_begin_as_a_registrys_prefix_does() -> None:
    values = [{"a": 1}] * 3
    alone = of(values, LONGS)
    assert alone.key.format == ""
    assert any("eight bytes each: long, or something behind" in one for one in alone.notes)
    assert of(values, LONGS, schemas=Registry()).key.format == "long"
    by_chance = Registry(_1=Schema('{"type": "record", "name": "A", "fields": [{"name": "s", "type": "string"}]}'))
    assert of(values, LONGS, schemas=by_chance).key.format == "long"
    texts = [b"\0\0\0\0\1\4" + text for text in (b"ab", b"cd", b"ef")]
    assert of(values, texts, schemas=Registry(_1=Schema('"string"'))).key.format == "registry_avro"


def test_shorts_are_known_by_their_size() -> None:
    keys = [number.to_bytes(2, "big") for number in (300, 301, 9000)]
    assert of([{"a": 1}] * 3, keys).key.format == "short"


AVRO = '{"type": "record", "name": "A", "fields": [{"name": "s", "type": "string"}]}'


def test_a_broken_schema_of_the_registry_harms_its_own_records_alone() -> None:
    registry = Registry(
        _5=Schema(AVRO), _6=SchemaMissing("a schema refers to version 1 of subject x, which the registry lacks")
    )
    values = [b"\0\0\0\0\5\2a", b"\0\0\0\0\5\2b", b"\0\0\0\0\6\2c"]
    found = of(values, schemas=registry)
    assert found.value.format == "registry_avro"
    assert [one.name for one in found.value.columns] == ["s"]
    assert any("records of schema 6 are not read: a schema refers to version 1" in one for one in found.notes)


def test_broken_schemas_alone_are_told() -> None:
    values = [b"\0\0\0\0\6\2c"] * 3
    found = of(values, schemas=Registry(_6=SchemaMissing("what the registry answers is no schema: KeyError")))
    assert not found.is_whole
    assert any("records of schema 6 are not read: what the registry answers" in one for one in found.notes)
    unread = of(values, schemas=Registry(_6=Schema("{not JSON")))
    assert any("its columns are not known" in one for one in unread.notes)
