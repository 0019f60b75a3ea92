"""Which column a construct of JSON Schema becomes, and the JSON Schema of columns; docs/formats.md has the table."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from lakestreams.errors import InvalidFormat
from lakestreams.formats.base import Field
from lakestreams.formats.kinds import Array, Kind, Leaf, Map, Member, Struct
from lakestreams.formats.places import RESERVED_PREFIX

Said: TypeAlias = "Mapping[str, Any]"

_PLAIN: Final = {"integer": "bigint", "number": "double", "boolean": "boolean", "string": "string"}
_FORMATS: Final = {"date-time": "timestamp", "date": "date"}
# They say what else a value may be, which a column cannot.
_REFUSED: Final = ("patternProperties", "if", "not", "dependentSchemas", "prefixItems", "$dynamicRef", "$recursiveRef")
_HINT: Final = "declare the columns instead, such as JsonSchema('id bigint, note string')"
_DRAFT: Final = "http://json-schema.org/draft-07/schema#"
_MOST_LEVELS: Final = 50


@dataclass(frozen=True)
class Described:
    """What a schema says of a value.

    Attributes:
        kind: its type; None for one that is always null.
        nullable: whether it may be null.
    """

    kind: Kind | None
    nullable: bool = False


def is_schema(text: str) -> bool:
    """Whether a text is JSON Schema; else it is a list of columns."""
    return text.lstrip().startswith("{")


def fields_of(text: str, names: Mapping[str, str]) -> tuple[Field, ...]:
    """The columns of a schema: the properties of its object.

    Args:
        text: the schema.
        names: property to the name of its column, where that is another one.

    Raises:
        InvalidFormat: if it is no JSON, no object, or a table has no column for something of it.
    """
    root = parsed(text)
    kind = _Reader(root, names).value(root, "the schema", ()).kind
    if not isinstance(kind, Struct):
        raise _no_column("the schema", "no object with properties")
    return tuple(Field(one.name, one.kind.spark, one.kind, required=one.required) for one in kind.members)


def nulls_of(text: str) -> bool | None:
    """Whether nulls are written, so that an object is one of the schema; None where neither way makes one.

    A property that must be there is written as null, one that may be missing is left out.
    """
    root = parsed(text)
    reader = _Reader(root, {})
    reader.value(root, "the schema", ())
    if not reader.kept:
        return False
    return None if reader.left_out else True


def parsed(text: str) -> dict[str, Any]:
    """A schema's text as JSON.

    Raises:
        InvalidFormat: if it is no JSON object.
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidFormat(f"the JSON Schema is no JSON: {error}", hint=_HINT) from None
    if not isinstance(found, dict):
        raise InvalidFormat("the JSON Schema is no JSON object", hint=_HINT)
    return found


class _Reader:
    """Reads one schema.

    Attributes:
        kept: properties that must be there and may be null.
        left_out: properties that may be missing and must not be null.
    """

    def __init__(self, root: Said, names: Mapping[str, str]) -> None:
        self._root, self._names = root, names
        self.kept: list[str] = []
        self.left_out: list[str] = []

    def value(self, said: object, where: str, inside: tuple[int, ...]) -> Described:
        """What a schema says of a value.

        Args:
            where: its path, for messages.
            inside: the schemas that this one stands in, by identity: one inside of itself has no end.
        """
        if not isinstance(said, Mapping):
            raise _no_column(where, f"{_shown(said)} is no schema of a type")
        if id(said) in inside or len(inside) > _MOST_LEVELS:
            raise _no_column(where, "a schema inside of itself")
        inside = (*inside, id(said))
        if "$ref" in said:
            return self.value(self._referred(said["$ref"], where), where, inside)
        for word in _REFUSED:
            if word in said:
                raise _no_column(where, word)
        for word in ("oneOf", "anyOf", "allOf"):
            if word in said:
                return self._of_several(said, word, where, inside)
        return self._typed(said, where, inside)

    def _typed(self, said: Said, where: str, inside: tuple[int, ...]) -> Described:
        types = _types(said, where)
        others = [one for one in types if one != "null"]
        if set(others) == {"integer", "number"}:
            others = ["number"]
        nullable = len(others) < len(types) and "null" in types
        if not others:
            return Described(None, nullable=True)
        if len(others) > 1:
            raise _no_column(where, f"one of several types: {', '.join(others)}")
        (one,) = others
        if one == "object":
            return Described(self._object(said, where, inside), nullable)
        if one == "array":
            return Described(self._array(said, where, inside), nullable)
        if one not in _PLAIN:
            raise _no_column(where, f"the type {_shown(one)}")
        plain = _PLAIN[one]
        if one == "string":
            plain = "binary" if said.get("contentEncoding") == "base64" else _format(said.get("format"))
        return Described(Leaf(plain, plain), nullable)

    def _of_several(self, said: Said, word: str, where: str, inside: tuple[int, ...]) -> Described:
        """`oneOf` and `anyOf` of null and one other schema; `allOf` of one."""
        branches = said[word]
        if not isinstance(branches, Sequence) or isinstance(branches, str) or not branches:
            raise _no_column(where, f"{word} without a list of schemas")
        if any(other in said for other in ("properties", "items", *({"oneOf", "anyOf", "allOf"} - {word}))):
            raise _no_column(where, f"{word} next to other words")
        found = [self.value(one, where, inside) for one in branches]
        others = [one for one in found if one.kind is not None]
        if len(others) != 1 or (word == "allOf" and len(found) > 1):
            raise _no_column(where, f"{word} of {len(others)} types")
        return Described(others[0].kind, nullable=len(found) > 1 or others[0].nullable)

    def _array(self, said: Said, where: str, inside: tuple[int, ...]) -> Kind:
        if "items" not in said:
            raise _no_column(where, "an array without items")
        items = self.value(said["items"], f"{where}[]", inside).kind
        if items is None:
            raise _no_column(f"{where}[]", "null alone")
        return Array(items)

    def _object(self, said: Said, where: str, inside: tuple[int, ...]) -> Kind:
        properties, more = said.get("properties"), said.get("additionalProperties")
        if not properties:
            if not isinstance(more, Mapping):
                raise _no_column(where, "an object without properties")
            value = self.value(more, f"{where}{{}}", inside).kind
            if value is None:
                raise _no_column(f"{where}{{}}", "null alone")
            return Map(value)
        if not isinstance(properties, Mapping) or isinstance(more, Mapping):
            raise _no_column(where, "properties, and others of a type of their own")
        required = said.get("required", [])
        if not isinstance(required, list):
            raise _no_column(where, "required that is no list")
        is_root = len(inside) == 1
        made = tuple(
            self._member(name, one, where if not is_root else "", (name in required, is_root), inside)
            for name, one in properties.items()
        )
        _require_distinct(made, where)
        return Struct(made)

    def _member(self, name: str, said: object, where: str, how: tuple[bool, bool], inside: tuple[int, ...]) -> Member:
        is_there, is_column = how
        path = f"{where}.{name}" if where else name
        found = self.value(said, path, inside)
        if found.kind is None:
            raise _no_column(path, "null alone")
        if is_there and found.nullable:
            self.kept.append(path)
        if not is_there and not found.nullable:
            self.left_out.append(path)
        column = self._names.get(name, name) if is_column else name
        try:
            Field(column, found.kind.spark)
        except InvalidFormat as error:
            hint = f"fields={{'column': {name!r}}} names its column" if is_column else _HINT
            raise InvalidFormat(f"property {path}: {error.message}", hint=hint) from None
        if column.lower().startswith(RESERVED_PREFIX):
            raise _no_column(path, f"names that begin with {RESERVED_PREFIX} are taken")
        return Member(name, column, found.kind, required=is_there and not found.nullable)

    def _referred(self, value: object, where: str) -> object:
        """The schema that a reference within the same text names."""
        if not isinstance(value, str) or not value.startswith("#"):
            raise _no_column(where, f"the reference {_shown(value)}, which leads out of the schema")
        found: object = self._root
        for part in value[1:].split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, Mapping) or name not in found:
                raise _no_column(where, f"the reference {_shown(value)}, which leads nowhere")
            found = found[name]
        return found


def schema_of(members: Sequence[tuple[tuple[str, ...], Member]]) -> str:
    """The JSON Schema of columns, for a subject: what may be null may be missing, too.

    Args:
        members: each column with the names that lead to it.
    """
    root: dict[str, Any] = {"$schema": _DRAFT, "type": "object", "properties": {}}
    for path, member in members:
        inner = root
        for name in path[:-1]:
            inner = inner["properties"].setdefault(name, {"type": ["object", "null"], "properties": {}})
        inner["properties"][path[-1]] = _said(member.kind, nullable=not member.required)
        if member.required and len(path) == 1:
            root.setdefault("required", []).append(path[0])
    return json.dumps(root, ensure_ascii=False)


def _said(kind: Kind, *, nullable: bool) -> dict[str, Any]:
    said = _said_of(kind)
    return {**said, "type": [said["type"], "null"]} if nullable else said


def _said_of(kind: Kind) -> dict[str, Any]:
    if isinstance(kind, Struct):
        members = {one.field: _said(one.kind, nullable=not one.required) for one in kind.members}
        required = [one.field for one in kind.members if one.required]
        return {"type": "object", "properties": members, **({"required": required} if required else {})}
    if isinstance(kind, Array):
        return {"type": "array", "items": _said(kind.element, nullable=True)}
    if isinstance(kind, Map):
        return {"type": "object", "additionalProperties": _said(kind.value, nullable=True)}
    return dict(_LEAVES.get(kind.spark, {"type": "number"}))


_LEAVES: Final = {
    "tinyint": {"type": "integer"},
    "smallint": {"type": "integer"},
    "int": {"type": "integer"},
    "bigint": {"type": "integer"},
    "boolean": {"type": "boolean"},
    "string": {"type": "string"},
    "binary": {"type": "string", "contentEncoding": "base64"},
    "date": {"type": "string", "format": "date"},
    "timestamp": {"type": "string", "format": "date-time"},
    "timestamp_ntz": {"type": "string"},
}


def _types(said: Said, where: str) -> list[str]:
    given = said.get("type")
    if isinstance(given, str):
        return [given]
    if isinstance(given, list) and given and all(isinstance(one, str) for one in given):
        return given
    if given is None and "properties" in said:
        return ["object"]
    values = [said["const"]] if "const" in said else said.get("enum")
    if given is None and isinstance(values, list) and values:
        return list(dict.fromkeys(_type_of(one, where) for one in values))
    raise _no_column(where, "no type")


def _type_of(value: object, where: str) -> str:
    """The type of a value that is listed."""
    if isinstance(value, bool):
        return "boolean"
    for kind, name in ((str, "string"), (int, "integer"), (float, "number"), (type(None), "null")):
        if isinstance(value, kind):
            return name
    raise _no_column(where, f"the constant {_shown(value)}")


def _format(value: object) -> str:
    return _FORMATS.get(value, "string") if isinstance(value, str) else "string"


def _require_distinct(members: Sequence[Member], where: str) -> None:
    names = [member.name.lower() for member in members]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise _no_column(where, f"{', '.join(twice)} twice; Spark does not tell capitals apart")


def _shown(value: object) -> str:
    return json.dumps(value, default=str)[:80]


def _no_column(where: str, what: str) -> InvalidFormat:
    return InvalidFormat(f"a table has no column for this part of the JSON Schema: {where}: {what}", hint=_HINT)


__all__ = ["fields_of", "is_schema", "nulls_of", "parsed", "schema_of"]
