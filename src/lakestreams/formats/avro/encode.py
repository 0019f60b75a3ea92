"""Values as bytes by Avro's binary encoding: of columns (what `decode` has made of bytes comes back), and of defaults."""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Callable, Mapping
from decimal import Context, Decimal
from typing import Any, Final, TypeAlias
from uuid import UUID

from lakestreams.formats.avro import columns
from lakestreams.formats.avro.schema import (
    ZONED,
    Array,
    Enum,
    Fixed,
    Logical,
    Map,
    Primitive,
    Record,
    Type,
    Union,
    word,
)

Write: TypeAlias = Callable[[Any, bytearray], None]
"""Appends a value's bytes; ValueError, TypeError or KeyError where it is no value of the type."""

_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_WIDE: Final = Context(prec=80)  # whatever the caller has set
_RANGES: Final = {"int": 31, "long": 63}


def number(value: int, out: bytearray) -> None:
    """A number of variable length."""
    left = (value << 1) ^ (value >> 63)
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)


def writer_of(one: Type) -> Write:
    """What writes the values of a column of this type, as Python has them: `datetime`, `Decimal`, `dict` and so on."""
    return _writer(one, {})


def _writer(one: Type, writers: dict[int, Write]) -> Write:
    if isinstance(one, Primitive | Fixed):
        return _plain(one)
    if isinstance(one, Enum):
        return _symbol(one)
    if isinstance(one, Array):
        return _items(_writer(one.items, writers))
    if isinstance(one, Map):
        return _entries(_writer(one.values, writers))
    return _union(one, writers) if isinstance(one, Union) else _record(one, writers)


def _record(one: Record, writers: dict[int, Write]) -> Write:
    steps: list[tuple[str, Write]] = []

    def write(value: Any, out: bytearray) -> None:
        for name, each in steps:
            try:
                each(value[name], out)
            except (TypeError, ValueError, KeyError) as error:
                raise ValueError(f"{name}: {error}") from None

    writers[id(one)] = write
    steps.extend((member.name, writers.get(id(member.type)) or _writer(member.type, writers)) for member in one.members)
    return write


def _union(one: Union, written_by: dict[int, Write]) -> Write:
    null = next((place for place, branch in enumerate(one.branches) if branch == Primitive("null")), None)
    others = [(place, branch) for place, branch in enumerate(one.branches) if place != null]
    wider = columns.wider(one)
    if wider is not None:
        others = [(place, branch) for place, branch in others if branch == wider]
    writers = [(place, columns.member_name(branch), _writer(branch, written_by)) for place, branch in others]

    def write(value: Any, out: bytearray) -> None:
        chosen = [(place, each, value) for place, _, each in writers] if len(writers) == 1 else [
            (place, each, value[name]) for place, name, each in writers if value is not None and value[name] is not None
        ]  # fmt: skip
        if value is None or not chosen:
            if null is None:
                raise ValueError(f"null is none of {word(one)}")
            number(null, out)
            return
        if len(chosen) > 1:
            raise ValueError(f"several values for one of {word(one)}")
        place, each, own = chosen[0]
        number(place, out)
        each(own, out)

    return write


def _items(each: Write) -> Write:
    def write(value: Any, out: bytearray) -> None:
        if len(value):
            number(len(value), out)
            for one in value:
                each(one, out)
        out.append(0)

    return write


def _entries(each: Write) -> Write:
    def write(value: Any, out: bytearray) -> None:
        pairs = list(value.items() if isinstance(value, Mapping) else value)
        if pairs:
            number(len(pairs), out)
            for key, one in pairs:
                _bytes(key.encode(), out)
                each(one, out)
        out.append(0)

    return write


def _symbol(one: Enum) -> Write:
    places = {symbol: place for place, symbol in enumerate(one.symbols)}

    def write(value: Any, out: bytearray) -> None:
        if value not in places:
            raise ValueError(f"{value!r} is no symbol of {one.short}")
        number(places[value], out)

    return write


def _plain(one: Primitive | Fixed) -> Write:
    if isinstance(one, Fixed):
        return _fixed(one)
    as_number = _as_number(one.logical)
    writers: dict[str, Write] = {
        "null": lambda value, _out: _require(value is None, value, "null"),
        "boolean": lambda value, out: out.append(int(_is(value, bool))),
        "int": lambda value, out: number(_whole(as_number(value), "int"), out),
        "long": lambda value, out: number(_whole(as_number(value), "long"), out),
        "float": lambda value, out: out.extend(struct.pack("<f", value)),
        "double": lambda value, out: out.extend(struct.pack("<d", value)),
        "string": lambda value, out: _bytes(_spelled(value, one.logical).encode(), out),
        "bytes": lambda value, out: _bytes(_raw(value, one.logical), out),
    }
    return writers[one.kind]


def _fixed(one: Fixed) -> Write:
    def write(value: Any, out: bytearray) -> None:
        if one.logical and one.logical.name == "decimal":
            raw = _unscaled(value, one.logical).to_bytes(one.size, "big", signed=True)
        else:
            raw = UUID(value).bytes if one.logical and isinstance(value, str) else bytes(value)
        _require(len(raw) == one.size, raw, word(one))
        out.extend(raw)

    return write


def _spelled(value: Any, logical: Logical | None) -> str:
    """A text; a moment as one in UTC."""
    if logical != Logical(ZONED):
        return str(_is(value, str))
    moment = _is(value, dt.datetime)
    return f"{(moment.astimezone(dt.UTC) if moment.tzinfo else moment).replace(tzinfo=None).isoformat()}Z"


def _raw(value: Any, logical: Logical | None) -> bytes:
    if logical is None or logical.name != "decimal":
        return bytes(_is(value, bytes | bytearray))
    unscaled = _unscaled(value, logical)
    return unscaled.to_bytes(((unscaled if unscaled >= 0 else ~unscaled).bit_length() + 8) // 8, "big", signed=True)


def _unscaled(value: Decimal, logical: Logical) -> int:
    scaled = _is(value, Decimal).scaleb(logical.scale, _WIDE)
    _require(scaled == scaled.to_integral_value() and abs(scaled) < 10**logical.precision, value, str(logical))
    return int(scaled)


def _as_number(logical: Logical | None) -> Callable[[Any], int]:
    name = logical.name if logical else ""
    if name == "date":
        return lambda value: (value - _EPOCH.date()).days
    unit = name.rpartition("-")[2]
    if "timestamp" in name and unit != "nanos":
        size = 1000 if unit == "millis" else 1
        return lambda value: _micros(value, size)
    return lambda value: value


def _micros(value: dt.datetime, size: int) -> int:
    since = (value if value.tzinfo else value.replace(tzinfo=dt.UTC)) - _EPOCH
    micros = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    _require(micros % size == 0, value, "time of whole milliseconds")
    return micros // size


def _whole(value: Any, kind: str) -> int:
    top = 1 << _RANGES[kind]
    _require(type(value) is int and -top <= value < top, value, kind)
    return int(value)


def _is(value: Any, kind: Any) -> Any:
    _require(isinstance(value, kind), value, getattr(kind, "__name__", "value of the type"))
    return value


def _require(fits: bool, value: Any, what: str) -> None:
    if not fits:
        raise ValueError(f"{'null' if value is None else str(value)[:40]} is no {what}")


def _bytes(raw: bytes, out: bytearray) -> None:
    number(len(raw), out)
    out.extend(raw)


def default(one: Type, value: Any) -> bytes:
    """A field's default, which is JSON, as bytes; of a union it is a value of the first branch that it fits.

    Raises:
        ValueError, TypeError, KeyError: if it is no value of the type.
    """
    out = bytearray()
    _default(one, value, out)
    return bytes(out)


def _default(one: Type, value: Any, out: bytearray) -> None:
    if isinstance(one, Union):
        for place, branch in enumerate(one.branches):
            try:
                own = default(branch, value)
            except (TypeError, ValueError, KeyError):
                continue
            number(place, out)
            out.extend(own)
            return
        raise ValueError(f"{value!r} fits no branch")
    if isinstance(one, Record):
        for member in one.members:
            has_own = isinstance(value, Mapping) and member.name in value
            if not has_own and not member.has_default:
                raise KeyError(member.name)
            _default(member.type, _is(value, Mapping)[member.name] if has_own else member.default, out)
    elif isinstance(one, Array):
        _items(lambda each, into: _default(one.items, each, into))(_is(value, list), out)
    elif isinstance(one, Map):
        _entries(lambda each, into: _default(one.values, each, into))(_is(value, dict), out)
    elif isinstance(one, Enum):
        _symbol(one)(value, out)
    else:
        _plain_default(one, value, out)


def _plain_default(one: Primitive | Fixed, value: Any, out: bytearray) -> None:
    if isinstance(one, Fixed):
        raw = _is(value, str).encode("latin-1")
        _require(len(raw) == one.size, value, word(one))
        out.extend(raw)
    elif one.kind == "bytes":
        _bytes(_is(value, str).encode("latin-1"), out)
    elif one.kind in ("float", "double"):
        _require(isinstance(value, int | float) and not isinstance(value, bool), value, one.kind)
        _plain(Primitive(one.kind))(value, out)
    else:
        _plain(Primitive(one.kind))(value, out)


__all__ = ["default", "number", "writer_of"]
