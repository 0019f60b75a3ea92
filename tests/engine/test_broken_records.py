"""Seventy broken records and more of each registry's format through a run: each is refused with its reason, or read right.

The run never fails, and what it makes of each record is what the format makes of it alone: so its good rows are those of a run
without the broken ones, which `make soak` compares. The tests of the formats judge that by other libraries.
"""

from __future__ import annotations

import json
import random
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pyarrow as pa
import pytest
from tests.engine.harness import ZERO
from tests.engine.test_avro import WithRegistry, assert_sound
from tests.formats.avro import events
from tests.formats.avro.judge import framed
from tests.formats.avro.judge import written as avro
from tests.formats.protobuf.judge import written as protobuf
from tests.formats.protobuf.schemas import ALL
from tests.formats.protobuf.test_records import WAYS, broken
from tests.formats.protobuf.test_types import some
from tests.formats.test_headers import of_guid

from lakestreams import DebeziumAvro, GlueAvro, JsonSchema, RegistryAvro, RegistryProtobuf, StreamsBuilder, Text
from lakestreams.formats.decoding import Decoded
from lakestreams.formats.headers import heads_of
from lakestreams.formats.writers import RegistryFormat, Written, with_known_schemas
from lakestreams.local.registry import LocalRegistry
from lakestreams.registry import Registry, RegistryOptions, Schema
from lakestreams.testing.small import small

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.local.broker import Broker

pytestmark = pytest.mark.broker

GOOD, BAD = 25, 120
UNKNOWN = 2_000_000_000
HEADER = "__value_schema_id"
VERSION = UUID(int=7)
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
ITEM = {"type": "record", "name": "Item", "fields": [{"name": "sku", "type": "string"}, {"name": "n", "type": "long"}]}
MONEY = {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}
STATE = {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}
ORDER = {"type": "record", "name": "Order", "fields": [
    {"name": "id", "type": "int"}, {"name": "amount", "type": MONEY}, {"name": "state", "type": STATE}, {"name": "paid", "type": "boolean"},
    {"name": "note", "type": ["null", "string"]}, {"name": "items", "type": {"type": "array", "items": ITEM}},
    {"name": "counts", "type": {"type": "map", "values": "long"}}, {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
]}  # fmt: skip
ROW = events.envelope(("id", "int"), ("name", ["null", "string"]), ("credit", ["null", events.decimal(2, 10)]))
JSON = {"type": "object", "properties": {"id": {"type": "integer"}, "note": {"type": "string"}, "tags": {"type": "array", "items": {"type": "string"}}}, "required": ["id"]}  # fmt: skip
Headers = list[tuple[str, bytes | None]]
Record = tuple[bytes, Headers]


@dataclass(frozen=True)
class Case:
    """A format with records.

    Attributes:
        how: the format.
        schema: by which records are written, with its kind.
        bodies: good records, without what names the schema.
        more: broken ones that are known.
    """

    how: Any
    schema: tuple[str, str]
    bodies: Sequence[bytes]
    more: Sequence[bytes] = field(default=())


def order(by: random.Random) -> bytes:
    from tests.engine.test_avro import values

    items = [{"sku": "ä" * by.randrange(4), "n": by.choice([0, -1, 2**40])} for _ in range(by.randrange(4))]
    counts = {one: by.randrange(300) for one in "abc"[: by.randrange(4)]}
    note = by.choice([None, "", "Grüße"])
    more = {"state": by.choice(["NEW", "PAID"]), "paid": by.random() < 0.5, "note": note, "items": items, "counts": counts}  # fmt: skip
    return avro(ORDER, values(by.randrange(1000)) | more)


def change(by: random.Random) -> bytes:
    row = {"id": by.randrange(5), "name": by.choice([None, "Ada", "Bob"]), "credit": None}
    op = by.choice("curd")
    return events.event(ROW, op, None if op == "d" else row)


def cases(by: random.Random) -> dict[str, Case]:
    """One of each format; those of the same kind of schema read the same records."""
    orders = [order(by) for _ in range(GOOD)]
    objects = [json.dumps({"id": place, "note": "ä", "tags": ["a"] * by.randrange(3)}).encode() for place in range(GOOD)]  # fmt: skip
    messages = [b"\4\2" + protobuf(ALL, "shop.All", **some(by)) for _ in range(GOOD)]
    head = b"\3\0" + VERSION.bytes
    packed = [b"\3\5" + VERSION.bytes + zlib.compress(one) for one in orders[::2]]
    text = json.dumps(ORDER)
    place = _place_of_all()
    return {
        "avro": Case(RegistryAvro(text), (text, "AVRO"), orders),
        "protobuf": Case(
            RegistryProtobuf(ALL, "All"),
            (ALL, "PROTOBUF"),
            [place + one[2:] for one in messages],
            [place + bytes.fromhex(raw) for raw, _ in WAYS],
        ),
        "json": Case(JsonSchema("id bigint not null, note string, tags array<string>"), (json.dumps(JSON), "JSON"), objects),
        "debezium": Case(DebeziumAvro(json.dumps(ROW)), (json.dumps(ROW), "AVRO"), [change(by) for _ in range(GOOD)]),
        "glue": Case(
            GlueAvro(text, versions=((str(VERSION), text),)),
            ("", ""),
            [*packed, *(head + one for one in orders[1::2])],
            [b"\3\5" + VERSION.bytes + zlib.compress(bytes(70 << 20)), b"\3\1" + VERSION.bytes, b"\3\0" + bytes(16)],
        ),
    }  # fmt: skip


def _place_of_all() -> bytes:
    from lakestreams.formats.protobuf.compiling import compile_texts

    (place,) = (where for where, name in compile_texts((ALL,)).names if name == "shop.All")
    assert len(place) == 1
    return b"\0" if place == (0,) else bytes((2, 2 * place[0]))


def named_wrongly(body: bytes, number: int, other: int) -> list[Record]:
    """Ways to name a schema that are wrong, or say the same twice."""
    good, own = framed(body, number), number.to_bytes(4, "big")
    prefixes = [good[:size] for size in range(6)]
    prefixes += [framed(body, one) for one in (UNKNOWN, 0, 2**31, 2**32 - 1, other)]
    prefixes += [body, b"\1" + good[1:], b"\0" + good, good[:5], b"{}", b'{"id": 1}', b"\3\0" + bytes(16) + body]
    heads: list[bytes | None] = [
        None, b"", b"\0", b"\0" + own[:3], b"\0" + own + b"\x7f\x7f", b"\1" + bytes(15), b"\1" + bytes(17), b"\2" + own,
        b"\0" + UNKNOWN.to_bytes(4, "big"), of_guid(UUID(int=9)), b"\0" + other.to_bytes(4, "big"), b"\0" * 5, b"\0\xff\xff\xff\xff",
    ]  # fmt: skip
    records: list[Record] = [(raw, []) for raw in prefixes]
    records += [(body, [(HEADER, head)]) for head in heads]
    records += [(good, [(HEADER, b"\0" + own)]), (body, [(HEADER, b"\0" + own), (HEADER, b"\0" + other.to_bytes(4, "big"))])]  # fmt: skip
    return [*records, (b"", [(HEADER, b"\0" + own)])]


def bad_of(by: random.Random, case: Case, number: int, other: int) -> list[Record]:
    def whole(body: bytes) -> bytes:
        return framed(body, number) if number else body

    found: list[Record] = [(whole(one), []) for one in case.more]
    if number:
        found += named_wrongly(case.bodies[0], number, other)
    while len(found) < BAD + len(case.more):
        body = broken(by, by.choice(case.bodies))
        found.append((body, [(HEADER, b"\0" + number.to_bytes(4, "big"))]) if number and by.random() < 0.3 else (whole(body), []))  # fmt: skip
    return found


def said_of(case: Case, records: Sequence[Record], known: dict[Any, Written | None]) -> Decoded:
    """What the format alone makes of records."""
    raw = pa.array([one for one, _ in records], pa.binary())
    if not isinstance(case.how, RegistryFormat):
        return case.how.decode(raw)  # type: ignore[no-any-return]
    headers = pa.array([[{"key": name, "value": value} for name, value in more] for _, more in records], HEADERS)
    found: Decoded = with_known_schemas(case.how, known, strict=False).decode(raw, heads_of(headers, "value"))  # type: ignore[attr-defined]
    return found


@pytest.fixture(scope="module")
def registry() -> Iterator[LocalRegistry]:
    with LocalRegistry() as found:
        yield found


@pytest.fixture(autouse=True, scope="module")
def _small(spark: SparkSession) -> Iterator[None]:
    with small(spark):
        yield


# What comes of each record is compared with its format alone; that a run without the broken ones gives the same, in `make soak`.
@pytest.mark.parametrize(
    ("seed", "ways"),
    [(5, ("mixed",)), *(pytest.param(seed, ("mixed", "good"), marks=pytest.mark.soak) for seed in range(6, 9))],
)
def test_each_is_refused_or_read_right_and_good_rows_stay(
    spark: SparkSession, broker: Broker, registry: LocalRegistry, tmp_path: Path, seed: int, ways: tuple[str, ...]
) -> None:
    by = random.Random(seed)
    options = RegistryOptions(registry.url, {"max.retries": "0"})
    client, all_of = Registry(options), cases(by)
    ids = {name: client.register(f"broken-{name}", Schema(*case.schema)) if case.schema[0] else 0 for name, case in all_of.items()}  # fmt: skip
    known: dict[Any, Written | None] = {ids[name]: Written(case.schema[1], (case.schema[0],)) for name, case in all_of.items()}  # fmt: skip
    no_guid = "this registry does not look schemas up by GUID"
    benches, records = {}, {name: ([], []) for name in all_of}  # type: dict[str, WithRegistry], dict[str, tuple[list[Record], list[Record]]]
    for way in ways:
        builder = StreamsBuilder(f"broken_{way}")
        topics = {name: f"broken-{way}-{name}-{seed}" for name in all_of}
        for topic in topics.values():
            broker.create_topic(topic, 1)
        for name, case in all_of.items():
            read = builder.table if name == "debezium" else builder.stream
            read(topics[name], name=name, key=Text("k"), value=case.how).to_delta(f"silver.{way}_{name}")  # type: ignore[operator]
            good: list[Record] = [(framed(one, ids[name]) if ids[name] else one, []) for one in case.bodies]
            if way == "mixed":
                other = ids["json" if name == "avro" else "avro"]
                bad = bad_of(by, case, ids[name], other)
                mixed = [(place % GOOD, one) for place, one in enumerate([*good, *bad])]
                records[name] = (good, [one for _, one in sorted(mixed, key=lambda one: one[0])])
            written = records[name][way == "mixed"]
            keys = {id(one): f"k{place}" for place, one in enumerate(written)}
            own = [
                (f"g{good.index(one)}" if one in good else keys[id(one)], one[0], ZERO, 0, one[1]) for one in written
            ]
            broker.produce(topics[name], own)
        bench = WithRegistry(spark, broker, tmp_path / way, builder.build())
        bench.registry = options
        bench.run(max_bad_share=1.0)
        benches[way] = bench
        for name, case in all_of.items():
            written = records[name][way == "mixed"]
            want = said_of(case, written, known)
            rows = bench.bronze(topics[name]).orderBy("offset").select("v", "error.message").toArrow()
            found = rows["message"].to_pylist()
            for place, (one, other_one) in enumerate(zip(found, want.errors.to_pylist(), strict=True)):
                if one is None or no_guid not in one:
                    assert one == other_one, (name, written[place])
            values = rows["v"].combine_chunks().cast(want.values.type)
            assert repr(values.to_pylist()) == repr(want.values.to_pylist()), name
            if way == "mixed":
                refused = {
                    (raw, str(more)) for (raw, more), said in zip(written, found, strict=True) if said is not None
                }
                assert len(refused) >= 70, (name, len(refused))
    for name in all_of:
        rows = [
            {repr(row) for row in bench.silver(f"silver.{way}_{name}").where("k like 'g%'").drop("_lineage").collect()}
            for way, bench in benches.items()
        ]
        assert rows[0], name
        assert all(one == rows[0] for one in rows), name
    assert_sound(benches["mixed"])
