"""Values of a table's rows as people and programs read them: what JSON can say, times in UTC, bytes as text."""

from __future__ import annotations

import base64
from datetime import UTC
from typing import Any

from lakestreams.visible import visible_number


def readable_value(value: Any, kind: Any) -> Any:
    """A value of a type of Spark as one of JSON.

    Args:
        value: as a collected row has it: a timestamp is in the time of this machine, without a zone.
        kind: its type.

    Returns:
        Structs and maps as mappings, timestamps as ISO 8601 in UTC. Bytes are text, or `{"$base64": ...}` if they are none.
        Numbers that JSON lacks are `NaN`, `Infinity` and `-Infinity`. Anything else that it lacks is text.
    """
    if value is None:
        return None
    match kind.typeName():
        case "struct":
            return {
                one.name: readable_value(inner, one.dataType) for one, inner in zip(kind.fields, value, strict=True)
            }
        case "array":
            return [readable_value(one, kind.elementType) for one in value]
        case "map":
            pairs = ((readable_value(key, kind.keyType), one) for key, one in value.items())
            return {str(key): readable_value(one, kind.valueType) for key, one in pairs}
        case "timestamp":
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case "timestamp_ntz":
            return value.isoformat()
        case "binary":
            return _text(bytes(value))
    if isinstance(value, float):
        return visible_number(value)
    return value if isinstance(value, str | int) else str(value)


def _text(raw: bytes) -> Any:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return {"$base64": base64.b64encode(raw).decode("ascii")}


__all__ = ["readable_value"]
