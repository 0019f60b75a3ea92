"""Avro's schemas as values: JSON text in, types out, by the names and rules of its specification (1.12)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from lakestreams.errors import InvalidFormat

PRIMITIVES: Final = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_HINT: Final = 'declare it like {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'
# Which type a logical type stands on; of any other type, or with sizes that cannot be, it is ignored, as the specification says.
ZONED: Final = "zoned-timestamp"  # ours: a text that says a moment, as Debezium writes times with a zone
_LOGICAL: Final[Mapping[str, tuple[str, ...]]] = {
    ZONED: ("string",),
    "decimal": ("bytes", "fixed"),
    "uuid": ("string", "fixed"),
    "date": ("int",),
    "time-millis": ("int",),
    **dict.fromkeys(
        ("time-micros", "timestamp-millis", "timestamp-micros", "timestamp-nanos", "local-timestamp-millis",
         "local-timestamp-micros", "local-timestamp-nanos"),
        ("long",),
    ),
}  # fmt: skip
# What Kafka Connect's AvroConverter writes next to a type, and the logical type that says the same.
_CONNECT: Final[Mapping[str, str]] = {
    "io.debezium.time.Date": "date",
    "io.debezium.time.Time": "time-millis",
    "io.debezium.time.MicroTime": "time-micros",
    "io.debezium.time.Timestamp": "timestamp-millis",
    "io.debezium.time.MicroTimestamp": "timestamp-micros",
    "io.debezium.time.NanoTimestamp": "timestamp-nanos",
    "io.debezium.time.ZonedTimestamp": ZONED,
    "org.apache.kafka.connect.data.Date": "date",
    "org.apache.kafka.connect.data.Time": "time-millis",
    "org.apache.kafka.connect.data.Timestamp": "timestamp-millis",
}
_DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
_DEEPEST: Final = 100  # levels of a schema; each takes some of Python's own stack
_MOST_DIGITS: Final = 38  # of a decimal column; the converter says 64 where the database says nothing
_MOST_BYTES: Final = 2**31 - 1  # of a fixed type, as of Java's arrays
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_NOTHING: Final = object()


@dataclass(frozen=True)
class Logical:
    """What a value of a type means; precision and scale of a decimal."""

    name: str
    precision: int = 0
    scale: int = 0

    def __str__(self) -> str:
        """As messages say it."""
        return f"{self.name}({self.precision}, {self.scale})" if self.name == "decimal" else self.name


@dataclass(frozen=True)
class Primitive:
    """A type without parts and without a name of its own."""

    kind: str
    logical: Logical | None = None


@dataclass(frozen=True)
class Named:
    """What types with a name have in common: the full name, and the full names that it had before."""

    name: str
    aliases: tuple[str, ...]

    @property
    def short(self) -> str:
        """The name without its namespace."""
        return self.name.rpartition(".")[2]


@dataclass(frozen=True)
class Fixed(Named):
    """So many bytes."""

    size: int
    logical: Logical | None = None


@dataclass(frozen=True)
class Enum(Named):
    """One of some symbols; a reader takes its default for those that it does not know."""

    symbols: tuple[str, ...]
    default: str | None = None


@dataclass(frozen=True)
class Member:
    """A field of a record; `default` is JSON, and only there if `has_default`."""

    name: str
    type: Type
    aliases: tuple[str, ...] = ()
    default: Any = None
    has_default: bool = False


@dataclass(frozen=True, eq=False)
class Record(Named):
    """Fields in their order. A record may hold itself, so two are equal only if they are the same."""

    members: list[Member] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class Array:
    """Items of one type."""

    items: Type


@dataclass(frozen=True, eq=False)
class Map:
    """Values of one type under names that are data."""

    values: Type


@dataclass(frozen=True, eq=False)
class Union:
    """One of several types."""

    branches: tuple[Type, ...]


Type: TypeAlias = Primitive | Fixed | Enum | Record | Array | Map | Union


def parse(text: str, references: Sequence[str] = ()) -> Type:
    """The type that a schema's text says.

    Args:
        text: JSON, or the bare name of a primitive type.
        references: the texts of schemas whose named types it uses, each behind those that it uses itself.

    Raises:
        InvalidFormat: if it is no schema.
    """
    names: dict[str, Type] = {}
    for one in references:
        _Parser(names).type(_json(one), "")
    return _Parser(names).type(_json(text), "")


def word(one: Type) -> str:
    """A type in a message."""
    if isinstance(one, Primitive):
        return f"{one.kind} ({one.logical})" if one.logical else one.kind
    if isinstance(one, Named):
        kind = type(one).__name__.lower()
        size = f"({one.size})" if isinstance(one, Fixed) else ""
        return f"{kind}{size} {one.short}"
    if isinstance(one, Union):
        return f"[{', '.join(word(branch) for branch in one.branches)}]"
    return f"array of {word(one.items)}" if isinstance(one, Array) else f"map of {word(one.values)}"


def takes_nothing(one: Type, known: dict[int, bool] | None = None) -> bool:
    """Whether no value of a type has bytes: null, fixed types of size 0, and records of nothing else.

    Args:
        known: what is known of other records by their identity; each is looked at once, as one may hold another many times.
    """
    if not isinstance(one, Record):
        return one == Primitive("null") or (isinstance(one, Fixed) and one.size == 0)
    known = {} if known is None else known
    if id(one) not in known:
        known[id(one)] = False  # a record that holds itself without a choice has no values at all
        known[id(one)] = all(takes_nothing(member.type, known) for member in one.members)
    return known[id(one)]


def _json(text: str) -> Any:
    if text.strip() in PRIMITIVES:
        return text.strip()
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidFormat(f"the Avro schema is no JSON: {error}", hint=_HINT) from None


class _Parser:
    """Reads one schema; `names` gets the named types that it defines."""

    def __init__(self, names: dict[str, Type]) -> None:
        self._names = names
        self._depth = 0

    def type(self, schema: Any, namespace: str) -> Type:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise _wrong(f"it nests deeper than {_DEEPEST} levels")
        found = self._type(schema, namespace)
        self._depth -= 1
        return found

    def _type(self, schema: Any, namespace: str) -> Type:
        if isinstance(schema, str):
            return self._named(schema, namespace)
        if isinstance(schema, list):
            return self._union(schema, namespace)
        if not isinstance(schema, dict) or "type" not in schema:
            raise _wrong(f"{_shown(schema)} is no type")
        kind = schema["type"]
        if not isinstance(kind, str):  # {"type": {...}}: a type in brackets
            return self.type(kind, namespace)
        if kind in PRIMITIVES:
            return Primitive(kind, _logical(schema, kind))
        if kind in ("record", "error", "enum", "fixed"):
            return self._define(schema, kind, namespace)
        if kind == "array":
            return Array(self.type(_need(schema, "items"), namespace))
        if kind == "map":
            return Map(self.type(_need(schema, "values"), namespace))
        return self._named(kind, namespace)

    def _named(self, name: str, namespace: str) -> Type:
        if name in PRIMITIVES:
            return Primitive(name)
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        found = self._names.get(full, self._names.get(name))
        if found is None:
            raise _wrong(f"the type {name!r} is not defined")
        return found

    def _union(self, schema: list[Any], namespace: str) -> Union:
        branches = tuple(self.type(one, namespace) for one in schema)
        if any(isinstance(one, Union) for one in branches):
            raise _wrong("a union directly inside a union")
        seen = [one.name if isinstance(one, Named) else _kind(one) for one in branches]
        twice = next((one for one in seen if seen.count(one) > 1), None)
        if twice is not None or not branches:
            raise _wrong(f"a union with {twice} twice" if branches else "a union of nothing")
        return Union(branches)

    def _define(self, schema: Mapping[str, Any], kind: str, namespace: str) -> Type:
        own_name = _text(_need(schema, "name"))
        own = schema.get("namespace")
        space = namespace if own is None else _text(own)
        full = own_name if "." in own_name or not space else f"{space}.{own_name}"
        space = full.rpartition(".")[0]
        if not all(_NAME.match(part) for part in full.split(".")):
            raise _wrong(f"{full!r} is no name")
        if full in self._names:
            raise _wrong(f"the type {full!r} is defined twice")
        aliases = tuple(
            one if "." in one or not space else f"{space}.{one}" for one in _texts(schema.get("aliases", ()))
        )
        if kind == "fixed":
            size = schema.get("size")
            if type(size) is not int or not 0 <= size <= _MOST_BYTES:
                raise _wrong(f"fixed {full}: size {_shown(size)}")
            made: Type = Fixed(full, aliases, size, _logical(schema, "fixed", size))
        elif kind == "enum":
            made = _enum(schema, full, aliases)
        else:
            made = record = Record(full, aliases)
            self._names[full] = record
            record.members.extend(self._members(schema, full, space))
        self._names[full] = made
        return made

    def _members(self, schema: Mapping[str, Any], record: str, namespace: str) -> list[Member]:
        found: list[Member] = []
        fields = _need(schema, "fields")
        if not isinstance(fields, list):
            raise _wrong(f"record {record}: {_shown(fields)} is no list of fields")
        for one in fields:
            if not isinstance(one, dict):
                raise _wrong(f"record {record}: {_shown(one)} is no field")
            name = _text(_need(one, "name"))
            if not _NAME.match(name) or name in (member.name for member in found):
                raise _wrong(f"record {record}: field {name!r} " + ("twice" if _NAME.match(name) else "is no name"))
            kind = self.type({"type": one["type"]} if isinstance(one.get("type"), str) else one.get("type"), namespace)
            default = one.get("default", _NOTHING)
            has = default is not _NOTHING
            found.append(Member(name, kind, _texts(one.get("aliases", ())), default if has else None, has))
        return found


def _enum(schema: Mapping[str, Any], name: str, aliases: tuple[str, ...]) -> Enum:
    symbols, default = _texts(_need(schema, "symbols")), schema.get("default")
    if not symbols or len(set(symbols)) < len(symbols) or not all(_NAME.match(one) for one in symbols):
        raise _wrong(f"enum {name}: symbols {_shown(symbols)}")
    if default is not None and default not in symbols:
        raise _wrong(f"enum {name}: its default {_shown(default)} is none of its symbols")
    return Enum(name, aliases, symbols, default)


def _logical(schema: Mapping[str, Any], kind: str, size: int | None = None) -> Logical | None:
    name, connect = schema.get("logicalType"), schema.get("connect.name")
    if name is None and isinstance(connect, str):
        name = _CONNECT.get(connect)
    if not isinstance(name, str) or kind not in _LOGICAL.get(name, ()):
        return None
    if name == "uuid" and kind == "fixed" and size != 16:
        return None
    if name != "decimal":
        return Logical(name)
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if type(precision) is not int or type(scale) is not int or not 0 <= scale <= precision or precision < 1:
        return None
    if connect == _DECIMAL and scale <= _MOST_DIGITS:
        precision = min(precision, _MOST_DIGITS)
    return Logical(name, precision, scale)


def _kind(one: Type) -> str:
    return one.kind if isinstance(one, Primitive) else type(one).__name__.lower()


def _need(schema: Mapping[str, Any], key: str) -> Any:
    if key not in schema:
        raise _wrong(f"{_shown(dict(schema))} has no {key}")
    return schema[key]


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise _wrong(f"{_shown(value)} is no name")
    return value


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise _wrong(f"{_shown(value)} is no list of names")
    return tuple(_text(one) for one in value)


def _shown(value: object) -> str:
    return json.dumps(value, default=str)[:80]


def _wrong(what: str) -> InvalidFormat:
    return InvalidFormat(f"the Avro schema cannot be used: {what}", hint=_HINT)


__all__ = [
    "ZONED",
    "Array",
    "Enum",
    "Fixed",
    "Logical",
    "Map",
    "Member",
    "Named",
    "Primitive",
    "Record",
    "Type",
    "Union",
    "parse",
    "takes_nothing",
    "word",
]
