"""Avro behind AWS Glue's header: each record by the version that it names, resolved; what is broken, and what is refused.

The bytes are put together as Glue's own serializer does (`GlueSchemaRegistrySerializationFacade` of its Java library).
"""

from __future__ import annotations

import json
import pickle
import random
import uuid
import zlib
from typing import Any

import pyarrow as pa
import pytest
from tests.formats.avro.judge import written
from tests.formats.cases import told as decoded

from lakestreams import GlueAvro, Text
from lakestreams.errors import InvalidFormat
from lakestreams.formats import Format, WritableFormat, decoding
from lakestreams.formats.avro import glue
from lakestreams.testing.encode import encode

ONE, TWO, OTHER = (f"b7b4a7f0-9c96-4e4a-a687-fb5de9ef0c6{place}" for place in range(3))
FIRST = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}]}
SECOND = {"type": "record", "name": "Order", "fields": [*FIRST["fields"], {"name": "note", "type": "string"}]}
READ = {"type": "record", "name": "Order", "fields": [
    {"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"], "default": None}]}  # fmt: skip
VERSIONS = {ONE: json.dumps(FIRST), TWO: json.dumps(SECOND)}
HOW = GlueAvro(json.dumps(READ), versions=VERSIONS)  # type: ignore[arg-type]


def behind(body: bytes, version: str = TWO, compression: int = 0) -> bytes:
    return bytes((3, compression)) + uuid.UUID(version).bytes + (zlib.compress(body) if compression == 5 else body)


OLD, NEW = written(FIRST, {"id": 5}), written(SECOND, {"id": 5, "note": "ä" * 50})
GOOD: dict[str, tuple[bytes | None, Any]] = {
    "null": (None, None),
    "plain": (behind(NEW), {"id": 5, "note": "ä" * 50}),
    "compressed": (behind(NEW, compression=5), {"id": 5, "note": "ä" * 50}),
    "an older version": (behind(OLD, ONE), {"id": 5, "note": None}),
    "an older version, compressed": (behind(OLD, ONE, 5), {"id": 5, "note": None}),
}
NO_HEADER = "no header of AWS Glue (0x03, compression, sixteen bytes) before the record"
BROKEN: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", NO_HEADER),
    "a shorter header": (behind(b"")[:17], NO_HEADER),
    "Confluent's prefix": (b"\0\0\0\0\7" + NEW, NO_HEADER),
    "JSON": (b'{"id": 5, "note": "as text"}', NO_HEADER),
    "another compression": (behind(NEW, compression=4), "compression 4 of AWS Glue's header is not known"),
    "not compressed": (
        behind(NEW)[:1] + b"\5" + behind(NEW)[2:],
        "not compressed as its header says: Error -3 while decompressing data: incorrect header check",
    ),
    "torn while compressed": (behind(NEW, compression=5)[:-2], "compressed, and it ends within it"),
    "more behind it": (behind(NEW, compression=5) + b"!", "compressed, and bytes behind it"),
    "a version that is not declared": (
        behind(NEW, OTHER),
        f"schema version {OTHER}: it is not among the declared versions",
    ),
    "truncated": (behind(NEW[:-1]), "note: string of 100 bytes, 99 left"),
    "bytes behind the record": (behind(NEW + b"!", compression=5), "1 bytes behind the record"),
    "of another version": (behind(OLD, TWO), "note: the record ends within it"),
}


def told(raw: list[bytes | None], how: GlueAvro = HOW) -> list[tuple[Any, str | None]]:
    return decoded(how, raw)


def test_each_record_by_its_own_version_broken_ones_alone() -> None:
    cases = [(raw, value, None) for raw, value in GOOD.values()] + [(raw, None, said) for raw, said in BROKEN.values()]
    assert [told([raw])[0] for raw, _, _ in cases] == [(value, said) for _, value, said in cases]
    cases = cases * 3
    random.Random(7).shuffle(cases)
    assert told([raw for raw, _, _ in cases]) == [(value, said) for _, value, said in cases]
    assert told([]) == []


def test_what_is_large_when_it_is_no_longer_compressed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(glue, "_MOST_BYTES", 1_000)
    bomb = behind(b"\0" * 10_000_000, compression=5)
    assert len(bomb) < 20_000
    assert told([bomb]) == [(None, "more than 1000 bytes when it is no longer compressed")]


def test_many_of_them_are_read_in_parts_that_fit_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    how = GlueAvro('"string"', "s", versions={ONE: '"string"'})  # type: ignore[arg-type]
    long = "a" * 60_000
    raw = [behind(written("string", long), ONE, compression=5) for _ in range(9)]
    raw[3], raw[4], raw[5] = raw[3][:-5], b"\3\5", behind(written("string", "plain"), ONE)
    sizes = how.unpacked_bytes(pa.array([*raw, None], pa.binary())).tolist()
    assert sizes[:3] == [60_003] * 3
    assert sizes[3] <= 60_003
    assert sizes[4:6] == [2, len(raw[5])]
    assert sizes[9] == 0
    whole = told([*raw, None], how)
    assert [value and len(value["s"]) for value, _ in whole] == [60_000] * 3 + [None, None, 5] + [60_000] * 3 + [None]
    monkeypatch.setattr(decoding, "MOST_UNPACKED", 130_000)
    assert told([*raw, None], how) == whole
    batch = pa.record_batch({"key": pa.array([b"k"] * 10), "value": pa.array([*raw, None], pa.binary())})
    parts = list(decoding.read_batches(Text("k"), how, [batch, batch.slice(0, 0)]))
    assert [len(one) for one in parts] == [2, 4, 2, 2, 0]
    together = pa.Table.from_batches(parts)
    assert list(zip(together["v"].to_pylist(), together["value_error"].to_pylist(), strict=True)) == whole
    assert [len(one) for one in decoding.read_batches(Text("k"), Text("v"), [batch])] == [10]


def test_a_version_that_cannot_be_read_as_declared_harms_its_own_records() -> None:
    how = GlueAvro(json.dumps(READ), versions={ONE: '"string"', TWO: json.dumps(SECOND)})  # type: ignore[arg-type]
    (broken, said), good = told([behind(b"\2a", ONE), behind(NEW)], how)
    assert (broken, good) == (None, ({"id": 5, "note": "ä" * 50}, None))
    assert said == "value: written as string, declared record Order"


def test_as_a_value() -> None:
    assert isinstance(HOW, Format)
    assert not isinstance(HOW, WritableFormat), "ids are given by Glue, which is not asked"
    assert pickle.loads(pickle.dumps(HOW)) == HOW == GlueAvro(json.dumps(READ), versions=tuple(VERSIONS.items()))
    assert hash(HOW) == hash(pickle.loads(pickle.dumps(HOW)))
    assert HOW.describe().startswith("glue_avro(id bigint not null, note string; schema ")
    assert HOW.describe() == GlueAvro(json.dumps(READ, indent=1), versions=tuple(reversed(VERSIONS.items()))).describe()
    assert HOW.describe() != GlueAvro(json.dumps(READ), versions=((ONE, VERSIONS[ONE]),)).describe()
    row = {"id": 5, "note": "a"}
    assert told([encode(row, HOW)]) == [(row, None)]
    assert told([encode(5, GlueAvro('"long"', "id", ((ONE, '"long"'),)))], GlueAvro('"long"', "id", ((ONE, '"long"'),))) == [({"id": 5}, None)]  # fmt: skip


@pytest.mark.parametrize(
    ("versions", "said"),
    [
        ((), "versions: each schema version"),
        ((("7", '"long"'),), "'7' is no UUID of a schema version"),
        (((ONE, '"lon"'),), "lon"),
        (((ONE, '"long"'), (ONE.upper(), '"int"')), "once"),
        (((str(uuid.UUID(int=0)), '"long"'),), "once"),
    ],
)
def test_what_is_refused_where_it_is_declared(versions: tuple[tuple[str, str], ...], said: str) -> None:
    with pytest.raises(InvalidFormat, match=said):
        GlueAvro('"long"', versions=versions)
