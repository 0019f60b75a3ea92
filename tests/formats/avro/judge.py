"""fastavro, a library of others, as judge: what it writes and what it reads."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pyarrow as pa

from lakestreams.formats.avro.decode import Decoder
from lakestreams.formats.avro.schema import parse


def written(schema: Any, value: Any) -> bytes:
    """A value as fastavro writes it."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(json.dumps(schema))), value)
    return out.getvalue()


def judged(raw: bytes, schema: Any, reader: Any = None) -> Any:
    """A value as fastavro reads it; raises whatever it raises, also if bytes are left."""
    at = io.BytesIO(raw)
    own = fastavro.parse_schema(json.loads(json.dumps(schema)))
    other = None if reader is None else fastavro.parse_schema(json.loads(json.dumps(reader)))
    found = fastavro.schemaless_reader(at, own, other)
    if at.tell() != len(raw):
        raise ValueError(f"{len(raw) - at.tell()} bytes left")
    return found


def framed(raw: bytes, number: int = 1) -> bytes:
    """Behind a registry's prefix."""
    return b"\0" + number.to_bytes(4, "big") + raw


def read(reader: Any, writers: dict[int, Any], raw: list[bytes | None]) -> list[tuple[Any, str | None]]:
    """Value and error of each record, by our decoder."""
    known: dict[int | None, Any] = {
        number: None if one is None else parse(json.dumps(one)) for number, one in writers.items()
    }
    found = Decoder(parse(json.dumps(reader)), "value", known).decode(pa.array(raw, pa.binary()))
    return list(zip(found.values.to_pylist(maps_as_pydicts="strict"), found.errors.to_pylist(), strict=True))
