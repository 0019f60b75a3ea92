"""CPU per record of each format, of the same records, without Spark: `python -m bench.formats --help`.

Records are decoded in batches of as many as Spark gives its Python workers. The formats take turns, and of each the best
pass counts, so that what else a machine does falls out. What is measured is the CPU of this process.
"""

from __future__ import annotations

import json
import random
import time
import uuid
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

import pyarrow as pa
import typer
from rich.console import Console
from rich.table import Table

from lakestreams.formats import (
    Avro,
    Format,
    GlueAvro,
    Json,
    JsonSchema,
    Protobuf,
    RegistryAvro,
    RegistryJson,
    RegistryProtobuf,
)

DDL: Final = (
    "id bigint not null, customer string not null, city string, amount bigint not null, share double not null, "
    "paid boolean not null, quantity int not null, note string, tags array<string> not null, visits bigint not null"
)
_TEXT, _NULLABLE = "string", ["null", "string"]
AVRO: Final = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": name, "type": kind}
            for name, kind in (
                ("id", "long"), ("customer", _TEXT), ("city", _NULLABLE), ("amount", "long"), ("share", "double"),
                ("paid", "boolean"), ("quantity", "int"), ("note", _NULLABLE),
                ("tags", {"type": "array", "items": _TEXT}), ("visits", "long"),
            )
        ],
    }
)  # fmt: skip
PROTOBUF: Final = """
syntax = "proto3";
message Order {
  int64 id = 1; string customer = 2; optional string city = 3; int64 amount = 4; double share = 5;
  bool paid = 6; int32 quantity = 7; optional string note = 8; repeated string tags = 9; int64 visits = 10;
}
"""
VERSION: Final = "b7b4a7f0-9c96-4e4a-a687-fb5de9ef0c61"
BATCH: Final = 10_000
"""Records of an Arrow batch, as Spark makes them by default."""
_PREFIX: Final = b"\0\0\0\0\1"


@dataclass(frozen=True)
class Contender:
    """A format, and how one of its records is made of a row.

    Attributes:
        name: as the table shows it.
        how: the format.
        written: a row as its bytes.
        beside: with which format it is compared.
    """

    name: str
    how: Format
    written: Callable[[Mapping[str, Any]], bytes]
    beside: str = "json"


def contenders(*, flat: bool) -> list[Contender]:
    """Every format that can say these records; those behind a prefix are compared with JSON behind one."""
    ddl, schema, proto = DDL, json.loads(AVRO), PROTOBUF
    if flat:
        ddl = ddl.replace("tags array<string> not null, ", "")
        schema["fields"] = [one for one in schema["fields"] if one["name"] != "tags"]
        proto = proto.replace(" repeated string tags = 9;", "")
    text = json.dumps(schema)

    def as_json(row: Mapping[str, Any]) -> bytes:
        return json.dumps(row, separators=(",", ":"), ensure_ascii=False).encode()

    def glue(compression: int) -> Callable[[Mapping[str, Any]], bytes]:
        head = bytes((3, compression)) + uuid.UUID(VERSION).bytes
        return lambda row: head + (zlib.compress(avro.encoded(row)) if compression else avro.encoded(row))

    avro, framed_avro = Avro(text), RegistryAvro(text)
    protobuf, framed_protobuf = Protobuf(proto), RegistryProtobuf(proto)
    by_glue = GlueAvro(text, versions=((VERSION, text),))
    behind = "registry_json"
    return [
        Contender("json", Json(ddl), as_json),
        Contender("avro", avro, avro.encoded),
        Contender("protobuf", protobuf, lambda row: protobuf.encoded(_present(row))),
        Contender(behind, RegistryJson(ddl), lambda row: _PREFIX + as_json(row), behind),
        Contender("json_schema", JsonSchema(ddl), lambda row: _PREFIX + as_json(row), behind),
        Contender("registry_avro", framed_avro, framed_avro.encoded, behind),
        Contender("registry_protobuf", framed_protobuf, lambda row: framed_protobuf.encoded(_present(row)), behind),
        Contender("glue_avro", by_glue, glue(0), behind),
        Contender("glue_avro, zlib", by_glue, glue(5), behind),
    ]


def _present(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None}


def rows(count: int, *, flat: bool, seed: int = 7) -> list[dict[str, Any]]:
    """Orders by chance: a null in every fifth note, and unless they are flat none to three tags."""
    chance = random.Random(seed)
    cities = ("Rome", "Oslo", "Zürich", None)
    return [
        {
            "id": place,
            "customer": f"customer-{chance.randrange(100_000)}",
            "city": chance.choice(cities),
            "amount": chance.randrange(1, 10_000_000),
            "share": chance.random(),
            "paid": chance.random() < 0.5,
            "quantity": chance.randrange(1, 100),
            "note": None if place % 5 == 0 else f"note {place} of a customer",
            **({} if flat else {"tags": [f"tag{chance.randrange(20)}" for _ in range(chance.randrange(4))]}),
            "visits": 1_700_000_000_000 + place,
        }
        for place in range(count)
    ]


def measured(
    all_of: Sequence[Contender], some: Sequence[Mapping[str, Any]], passes: int
) -> dict[str, tuple[float, float]]:
    """Of each contender the bytes of a record, and microseconds of CPU."""
    records = len(some)
    batches = {
        one.name: [
            pa.array([one.written(row) for row in some[at : at + BATCH]], pa.binary())
            for at in range(0, records, BATCH)
        ]
        for one in all_of
    }
    best: dict[str, float] = {}
    for _ in range(passes):
        for one in all_of:
            began = time.process_time()
            decoded = [one.how.decode(batch) for batch in batches[one.name]]
            took = (time.process_time() - began) / records * 1e6
            best[one.name] = min(took, best.get(one.name, took))
            _require_read(one, decoded, some)
    sizes = {name: sum(one.nbytes for one in own) / records - 4 for name, own in batches.items()}  # without offsets
    return {name: (sizes[name], took) for name, took in best.items()}


def _require_read(one: Contender, decoded: Sequence[Any], some: Sequence[Mapping[str, Any]]) -> None:
    """Refuses figures of a format that did not read the same."""
    first = decoded[0].values.slice(0, 100).to_pylist()
    if any(batch.errors.null_count < len(batch.errors) for batch in decoded) or first != list(some[:100]):
        raise SystemExit(f"{one.name} has not read what was written")


def main(
    records: Annotated[int, typer.Option(help="How many records each format reads in a pass.")] = 200_000,
    passes: Annotated[int, typer.Option(help="Passes; the best one counts.")] = 3,
    flat: Annotated[bool, typer.Option(help="Records without a list, which JSON reads fastest.")] = False,
    markdown: Annotated[bool, typer.Option(help="Print the rows of docs/performance-notes.md.")] = False,
) -> None:
    """Prints what a record of each format costs."""
    all_of = contenders(flat=flat)
    found = measured(all_of, rows(records, flat=flat), passes)
    lines = [
        (one.name, f"{found[one.name][0]:.0f}", f"{found[one.name][1]:.2f}",
         f"{found[one.name][1] / found[one.beside][1]:.2f} of {one.beside}")
        for one in all_of
    ]  # fmt: skip
    if markdown:
        for line in lines:
            print(f"| {' | '.join(line)} |")
        return
    table = Table("format", "bytes", "µs of CPU", "beside")
    for line in lines:
        table.add_row(*line)
    Console().print(table)


if __name__ == "__main__":
    typer.run(main)
