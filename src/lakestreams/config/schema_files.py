"""Schemas in files of their own: `value: {registry_avro: schemas/order.avsc}`.

A file's content stands in the document as if it were written there. So the ledger keeps it, and a file that changes is a
pipeline that changes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from lakestreams.config.load import Document, KeyPath
from lakestreams.errors import ConfigInvalid, ConfigUnreadable, LakestreamsError
from lakestreams.formats.writers import AVRO, ENDINGS, JSON, PROTOBUF

_KINDS: Final = {
    "avro": AVRO,
    "registry_avro": AVRO,
    "glue_avro": AVRO,
    "debezium_avro": AVRO,
    "json_schema": JSON,
    "protobuf": PROTOBUF,
    "registry_protobuf": PROTOBUF,
}
# In the place of a file that cannot be read, so that nothing else is said of it.
_NOTHING: Final = {
    AVRO: '{"type": "record", "name": "Value", "fields": [{"name": "value", "type": "string"}]}',
    JSON: "value string",
    PROTOBUF: 'syntax = "proto3"; message Value { string value = 1; }',
}
_INSIDE: Final = {"imports": PROTOBUF, "versions": AVRO}
"""Keys with several schemas by their names."""
_MOST_BYTES: Final = 1_000_000


def put_in(document: Document) -> None:
    """Puts the schemas of files where the document names them; faults are noted in it."""
    for path, name in list(_named(document.data)):
        if len(path) == 5 and path[3] not in _at(document.data, path[:3]):
            continue  # of a side in which another file could not be read
        try:
            document.data = _with(document.data, path, _content(document, name, path))
        except LakestreamsError as fault:
            document.faults.append(fault)
            side, how = path[:3], str(path[3])
            if _kind(how) == PROTOBUF:  # without its message and its imports
                whole = _at(document.data, side)
                how = next(one for one in whole if one in _KINDS)
                document.data = _with(document.data, side, {how: _NOTHING[PROTOBUF]})
                continue
            document.data = _with(document.data, path, _NOTHING[_kind(how)])


def _named(data: dict[str, Any]) -> Iterator[tuple[KeyPath, str]]:
    """Where the document names files of schemas."""
    for part in ("topics", "outputs"):
        for name, thing in _mapping(data.get(part)).items():
            for side in ("key", "value"):
                for how, value in _mapping(_mapping(thing).get(side)).items():
                    if how in _KINDS and isinstance(value, str) and value.endswith(ENDINGS[_KINDS[how]]):
                        yield (part, name, side, how), value
                    for inner, one in _mapping(value).items() if how in _INSIDE else ():
                        if isinstance(one, str) and one.endswith(ENDINGS[_INSIDE[how]]):
                            yield (part, name, side, how, inner), one


def _content(document: Document, name: str, path: KeyPath) -> Any:
    """A file's schema. JSON is read here, so that spaces and line breaks mean nothing."""
    file, where = document.path.parent / name, document.where(path)
    try:
        if file.stat().st_size > _MOST_BYTES:
            raise ConfigUnreadable(f"the schema {name} has more than {_MOST_BYTES} bytes", where=where)
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        hint = f"paths are relative to {document.path.name}"
        raise ConfigUnreadable(f"the schema {name} cannot be read: {error.strerror}", hint=hint, where=where) from None
    except UnicodeDecodeError:
        raise ConfigUnreadable(f"the schema {name} is not UTF-8", where=where) from None
    if _kind(str(path[3])) == PROTOBUF:
        return text
    hint = "a schema is written in JSON, as registries have it"
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigInvalid(f"the schema {name} is no JSON: {error}", hint=hint, where=where) from None
    if not isinstance(schema, str | dict | list):
        raise ConfigInvalid(f"the schema {name} is neither a text nor an object nor a list", hint=hint, where=where)
    return schema


def _kind(how: str) -> str:
    return _INSIDE[how] if how in _INSIDE else _KINDS[how]


def _at(data: Any, path: KeyPath) -> Any:
    for key in path:
        data = data[key]
    return data


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _with(data: dict[Any, Any], path: KeyPath, value: Any) -> dict[Any, Any]:
    """The data with another value at a path."""
    head, *rest = path
    return {**data, head: _with(data[head], tuple(rest), value) if rest else value}


__all__ = ["put_in"]
