"""protobuf, Google's own library, as judge: what it writes and what it reads of messages that a text declares."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from functools import cache
from typing import Any

import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from tests.formats.avro.judge import framed

from lakestreams.formats import Protobuf
from lakestreams.formats.protobuf.compiling import compile_texts
from lakestreams.formats.protobuf.schema import WRAPPED

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@cache
def pool(text: str | tuple[str, ...]) -> descriptor_pool.DescriptorPool:
    """The library's messages of a text, or of one behind what it imports."""
    found = descriptor_pool.DescriptorPool()
    texts = text if isinstance(text, tuple) else (text,)
    for file in descriptor_pb2.FileDescriptorSet.FromString(compile_texts(texts).raw).file:
        found.Add(file)
    return found


def kind(text: str | tuple[str, ...], name: str) -> Any:
    """The library's class of a message."""
    return message_factory.GetMessageClass(pool(text).FindMessageTypeByName(name))


def written(schema: str, message: str, /, **values: Any) -> bytes:
    """A message as the library writes it."""
    return kind(schema, message)(**values).SerializeToString(deterministic=True)


def judged(text: str, name: str, raw: bytes) -> dict[str, Any]:
    """A message as the library reads it, as columns have it; raises whatever it raises."""
    return row(kind(text, name).FromString(raw))


def row(message: Any) -> dict[str, Any]:
    return {field.name: _field(message, field) for field in message.DESCRIPTOR.fields}


def _field(message: Any, field: Any) -> Any:
    is_map = field.message_type is not None and field.message_type.GetOptions().map_entry
    value = getattr(message, field.name)
    if is_map:
        inner = field.message_type.fields_by_name["value"]
        return {str(key).lower() if isinstance(key, bool) else str(key): _value(value[key], inner) for key in value}
    if field.is_repeated:
        return [_value(one, field) for one in value]
    if field.has_presence and not message.HasField(field.name) and not field.has_default_value:
        return None
    return _value(value, field)


def _value(value: Any, field: Any) -> Any:
    if field.enum_type is not None:
        found = field.enum_type.values_by_number.get(value)
        return str(value) if found is None else found.name
    if field.type in (field.TYPE_UINT64, field.TYPE_FIXED64):
        return Decimal(value)
    if field.message_type is None:
        return value
    name = field.message_type.full_name
    if name == "google.protobuf.Timestamp":
        return EPOCH + dt.timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)
    if name == "google.type.Date":
        return dt.date(value.year, value.month, value.day)
    if name in WRAPPED:
        return _value(value.value, field.message_type.fields_by_name["value"])
    return row(value)


def read(how: Any, raw: list[bytes | None]) -> list[tuple[Any, str | None]]:
    """Value and error of each record, by our decoder."""
    found = how.decode(pa.array(raw, pa.binary()))
    return list(zip(found.values.to_pylist(maps_as_pydicts="strict"), found.errors.to_pylist(), strict=True))


def is_same(one: Any, other: Any) -> bool:
    """Whether two values are the same, NaN included."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(is_same(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(is_same, one, other))
    return type(one) is type(other) and (one == other or (one != one and other != other))  # noqa: PLR0124 - NaN


__all__ = ["Protobuf", "framed", "is_same", "judged", "kind", "read", "row", "written"]
