"""Columns as records of Protobuf: fields by their numbers, entries of maps by their keys, so equal rows are equal bytes."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final, TypeAlias

from lakestreams.formats.protobuf.schema import DATE, LENGTH, TIMESTAMP, WIRE, WRAPPED, Enum, Member, Message, Type
from lakestreams.formats.protobuf.wire import FIXED

Write: TypeAlias = "Callable[[Any], bytes]"

_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_RANGES: Final = {
    "int32": (-(2**31), 2**31 - 1),
    "sint32": (-(2**31), 2**31 - 1),
    "sfixed32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "fixed32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "sint64": (-(2**63), 2**63 - 1),
    "sfixed64": (-(2**63), 2**63 - 1),
    "uint64": (0, 2**64 - 1),
    "fixed64": (0, 2**64 - 1),
}


def writer_of(message: Message) -> Write:
    """What writes rows of a message's columns; a field that a row does not name has its default.

    Raises:
        ValueError, TypeError, KeyError: the function, if a value is none of its type, with the field's name.
    """
    writers = [(one.name, _field(one)) for one in sorted(message.members, key=lambda one: one.number)]
    groups = _groups(message)
    required = [one.name for one in message.members if one.required]

    def write(row: Mapping[str, Any]) -> bytes:
        for group in groups:
            if sum(row.get(name) is not None for name in group) > 1:
                raise ValueError(f"{', '.join(group)}: one of them at most has a value")
        for name in required:
            if name not in row:
                raise ValueError(f"{name}: required, but missing")
        return b"".join(_named(name, one, row[name]) for name, one in writers if name in row)

    return write


def _named(name: str, write: Write, value: Any) -> bytes:
    try:
        return write(value)
    except (ValueError, TypeError, OverflowError) as error:
        raise ValueError(f"{name}: {error}") from None


def _groups(message: Message) -> list[list[str]]:
    found: dict[int, list[str]] = {}
    for one in message.members:
        if one.oneof is not None:
            found.setdefault(one.oneof, []).append(one.name)
    return list(found.values())


def varint(number: int) -> bytes:
    """A number of varying length; a negative one has ten bytes."""
    number &= (1 << 64) - 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _field(member: Member) -> Write:
    if member.key is not None:
        return _map(member)
    one = _value(member.type)
    head = _tag(member)
    if member.repeated:
        if member.packed:
            packed = varint(member.number << 3 | LENGTH)
            return lambda values: _framed(packed, b"".join(map(one, _list(values)))) if _list(values) else b""
        return lambda values: b"".join(head + one(value) for value in _list(values))
    zero = None if member.has_presence or isinstance(member.type, Message) else _zero(member.type, one)

    def write(value: Any) -> bytes:
        if value is None:
            if not member.nullable:
                raise ValueError("null, but the field has no presence" if zero is not None else "null, but required")
            return b""
        body = one(value)
        return b"" if body == zero else head + body

    return write


def _map(member: Member) -> Write:
    assert member.key is not None  # noqa: S101 - the caller looks
    kind = member.key
    key, value = (
        _field(Member(1, "key", kind, has_presence=True)),
        _field(Member(2, "value", member.type, has_presence=True)),
    )
    head = _tag(member)

    def write(entries: Any) -> bytes:
        if entries is None:
            raise ValueError("null, but a map is never null")
        pairs = entries.items() if isinstance(entries, Mapping) else entries
        found = sorted(((_key(text, kind), text, one) for text, one in pairs), key=lambda entry: entry[0])
        for _, text, one in found:
            if one is None:
                raise ValueError(f"null under {text!r}, but values of a map are never null")
        return b"".join(_framed(head, key(own) + value(one)) for own, _, one in found)

    return write


def _key(text: str, kind: str) -> Any:
    if kind == "string":
        return text
    if kind == "bool":
        return {"true": True, "false": False}[text]
    return int(text)


def _list(values: Any) -> Any:
    if values is None or any(one is None for one in values):
        raise ValueError("null, but a list and its items are never null")
    return values


def _framed(head: bytes, body: bytes) -> bytes:
    return head + varint(len(body)) + body


def _tag(member: Member) -> bytes:
    return varint(member.number << 3 | member.wire)


def _zero(kind: Type, one: Write) -> bytes:
    """The bytes of the value that is not written, where there is no presence."""
    if isinstance(kind, Enum):
        return varint(0)
    zeros: dict[str, Any] = {"string": "", "bytes": b"", "bool": False, "double": 0.0, "float": 0.0}
    return one(zeros.get(str(kind), 0))


def _value(kind: Type) -> Write:
    """What writes one value that is not null, without its tag."""
    if isinstance(kind, Enum):
        return _enum(kind)
    if isinstance(kind, Message):
        inner = _message(kind)
        return lambda value: _framed(b"", inner(value))
    if kind == "string":
        return lambda value: _framed(b"", _plain(value, str).encode())
    if kind == "bytes":
        return lambda value: _framed(b"", _plain(value, bytes))
    if kind == "bool":
        return lambda value: b"\x01" if _plain(value, bool) else b"\x00"
    if kind in ("double", "float"):
        return lambda value: FIXED[kind].pack(float(value))
    return _number(kind)


def _plain(value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"{value!r} is no {kind.__name__}")
    return value


def _number(kind: str) -> Write:
    low, high = _RANGES[kind]
    is_fixed, is_zigzag = kind in FIXED, kind.startswith("sint")
    bits = 31 if WIRE[kind] != WIRE["fixed64"] and kind.endswith("32") else 63

    def write(value: Any) -> bytes:
        number = int(value) if isinstance(value, Decimal) and value == value.to_integral_value() else value
        if type(number) is not int or not low <= number <= high:
            raise ValueError(f"{value!r} is no {kind}")
        if is_fixed:
            return FIXED[kind].pack(number)
        return varint(number << 1 ^ number >> bits if is_zigzag else number)

    return write


def _enum(kind: Enum) -> Write:
    numbers = {name: number for number, name in kind.names}

    def write(value: Any) -> bytes:
        if value in numbers:
            return varint(numbers[value])
        number = int(value) if isinstance(value, str) and value.lstrip("-").isdecimal() else None
        if number is None or not -(2**31) <= number < 2**31:
            raise ValueError(f"{value!r} is none of {', '.join(numbers)}")
        return varint(number)

    return write


def _message(kind: Message) -> Write:
    if kind.name in WRAPPED:
        return _field(kind.members[0])
    write = writer_of(kind)
    if kind.name == TIMESTAMP:
        return lambda value: write(_seconds(value))
    if kind.name == DATE:
        return lambda value: write({"year": value.year, "month": value.month, "day": value.day})
    return write


def _seconds(value: dt.datetime) -> dict[str, int]:
    since = value - _EPOCH
    return {"seconds": since.days * 86_400 + since.seconds, "nanos": since.microseconds * 1000}


__all__ = ["varint", "writer_of"]
