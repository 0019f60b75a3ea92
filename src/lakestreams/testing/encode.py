"""Python values as the bytes that a format reads."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from uuid import UUID

from lakestreams.errors import InvalidOption
from lakestreams.formats import (
    ConnectJson,
    DebeziumAvro,
    DebeziumJson,
    Int,
    JsonScalar,
    JsonSchema,
    Long,
    MaxwellJson,
    RegistryJson,
    Short,
    Text,
    Uuid,
)
from lakestreams.formats.avro.formats import AvroFormat
from lakestreams.formats.avro.glue import GlueAvro
from lakestreams.formats.json import Declared
from lakestreams.formats.protobuf.formats import ProtobufFormat

if TYPE_CHECKING:
    from lakestreams.formats.base import Format

_BYTES = {Long: 8, Int: 4, Short: 2}
_REGISTRY_PREFIX = b"\x00\x00\x00\x00\x01"


def encode(value: Any, how: Format) -> bytes | None:
    """The bytes of a value.

    Args:
        value: bytes as they are; None; text for `Text` and `Uuid`; an int for `Long`, `Int` and `Short`; either for `JsonScalar`; a dict for the formats of JSON, whose
            names and types are judged when it is read, as a topic's are; a column that is read from another field is
            written there; for `Avro`, `RegistryAvro` and `GlueAvro` a dict of all columns, or the value of a schema that is no record, written by the declared schema; for `Protobuf` and `RegistryProtobuf` a dict of the fields that are set. For `DebeziumJson`, `DebeziumAvro` and `MaxwellJson` it is the row; its update
            is written (pass bytes for any other event).

    Raises:
        InvalidOption: if the format cannot hold the value; give bytes to pipe what it cannot read.
    """
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(how, Text) and isinstance(value, str):
        return value.encode("utf-8")
    size = _BYTES.get(type(how))
    if size is not None and type(value) is int and -(1 << 8 * size - 1) <= value < 1 << 8 * size - 1:
        return value.to_bytes(size, "big", signed=True)
    if isinstance(how, Uuid) and isinstance(value, str):
        with contextlib.suppress(ValueError):
            return UUID(value).bytes
    if isinstance(how, JsonScalar) and type(value) in (int, str):
        return json.dumps(value, ensure_ascii=False).encode("utf-8")
    if isinstance(how, Declared) and isinstance(value, Mapping):
        text = json.dumps(_wrapped(how.places.put(value), how), ensure_ascii=False, default=str).encode("utf-8")
        return _REGISTRY_PREFIX + text if isinstance(how, RegistryJson | JsonSchema) else text
    if isinstance(how, AvroFormat | DebeziumAvro | GlueAvro):
        with contextlib.suppress(TypeError, ValueError, KeyError):
            return how.encoded(value)
    if isinstance(how, ProtobufFormat) and isinstance(value, Mapping):
        with contextlib.suppress(TypeError, ValueError, KeyError):
            return how.encoded(value)
    message = f"{value!r} cannot be written as {how.describe()}"
    raise InvalidOption(message, hint="pass bytes to pipe a record that the format cannot read")


def _wrapped(value: Mapping[str, Any], how: Format) -> Mapping[str, Any]:
    if isinstance(how, ConnectJson):
        return {"schema": None, "payload": value}
    if isinstance(how, DebeziumJson):
        return {"before": None, "after": value, "op": "u"}
    if isinstance(how, MaxwellJson):
        return {"type": "update", "data": value}
    return value
