"""Protobuf's bytes: numbers, tags, and what is passed over. Every fault is a `Bad` with its reason."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

from lakestreams.formats.protobuf.schema import END, FIXED32, FIXED64, LENGTH, START, VARINT

_BITS: Final = 64
_MOST_BYTES: Final = 10  # of a number
_MOST_GROUPS: Final = 100  # inside of each other
_LARGEST_FIELD: Final = 2**29 - 1
ENDS: Final = "the record ends within it"
WORDS: Final = {
    VARINT: "a number of varying length",
    FIXED64: "8 bytes",
    LENGTH: "bytes with a length",
    START: "a group",
    END: "the end of a group",
    FIXED32: "4 bytes",
}


class Bad(Exception):
    """The bytes are no record of the schema.

    Attributes:
        path: the field, from the outermost message on.
        reason: what is wrong with it.
    """

    def __init__(self, reason: str, path: tuple[str, ...] = ()) -> None:
        super().__init__(reason)
        self.reason, self.path = reason, path

    def within(self, name: str) -> Bad:
        """The same, seen from the message around."""
        return Bad(self.reason, (name, *self.path))

    @property
    def said(self) -> str:
        """The message of the record."""
        return f"{'.'.join(self.path)}: {self.reason}" if self.path else self.reason


def varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """A number, and where the bytes go on."""
    if at < end and data[at] < 0x80:
        return data[at], at + 1
    found, shift = 0, 0
    for place in range(at, min(end, at + _MOST_BYTES)):
        byte = data[place]
        found |= (byte & 0x7F) << shift
        if byte < 0x80:
            if found >> _BITS:
                raise Bad("a number of more than 64 bits")
            return found, place + 1
        shift += 7
    raise Bad("a number of more than 64 bits" if end - at >= _MOST_BYTES else ENDS)


def tag(data: bytes, at: int, end: int) -> tuple[int, int, int]:
    """A field's number, its wire type, and where its value begins."""
    found, at = varint(data, at, end)
    number, wire = found >> 3, found & 7
    if not 0 < number <= _LARGEST_FIELD or wire > FIXED32:
        raise Bad(f"no field: number {number}, wire type {wire}")
    return number, wire, at


def skip(data: bytes, at: int, end: int, wire: int, number: int) -> int:
    """Where the bytes go on behind a value that is not read."""
    groups = [number] if wire == START else []
    if not groups:
        return _skip_one(data, at, end, wire, number)
    while groups:
        if len(groups) > _MOST_GROUPS:
            raise Bad(f"more than {_MOST_GROUPS} groups inside of each other")
        number, wire, at = tag(data, at, end)
        if wire == START:
            groups.append(number)
        elif wire == END:
            if groups.pop() != number:
                raise Bad(f"the end of group {number}, which is not open")
        else:
            at = _skip_one(data, at, end, wire, number)
    return at


def _skip_one(data: bytes, at: int, end: int, wire: int, number: int) -> int:
    if wire == VARINT:
        return varint(data, at, end)[1]
    if wire == LENGTH:
        return length(data, at, end)[1]
    if wire == END:
        raise Bad(f"the end of group {number}, which is not open")
    behind = at + (8 if wire == FIXED64 else 4)
    if behind > end:
        raise Bad(ENDS)
    return behind


def length(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Where the bytes of a value with a length begin, and where they end."""
    size, at = varint(data, at, end)
    if size > end - at:
        raise Bad(f"{size} bytes, {end - at} left")
    return at, at + size


def _in_range(kind: str, bits: int, *, signed: bool) -> Callable[[int], int]:
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)

    def judged(number: int) -> int:
        if signed and number >> _BITS - 1:
            number -= 1 << _BITS
        if not low <= number <= high:
            raise Bad(f"{number} is no {kind}")
        return number

    return judged


def _zigzag(kind: str, bits: int) -> Callable[[int], int]:
    def judged(number: int) -> int:
        if number >> bits:
            raise Bad(f"{(number >> 1) ^ -(number & 1)} is no {kind}")
        return (number >> 1) ^ -(number & 1)

    return judged


def _bool(number: int) -> bool:
    if number > 1:
        raise Bad("a boolean that is neither 0 nor 1")
    return number == 1


OF_NUMBER: Final[dict[str, Callable[[int], Any]]] = {
    "int32": _in_range("int32", 32, signed=True),
    "int64": _in_range("int64", 64, signed=True),
    "uint32": _in_range("uint32", 32, signed=False),
    "uint64": _in_range("uint64", 64, signed=False),
    "sint32": _zigzag("sint32", 32),
    "sint64": _zigzag("sint64", 64),
    "bool": _bool,
}
"""From a number of varying length to the value of a type."""

FIXED: Final = {
    name: struct.Struct(how)
    for name, how in (
        ("fixed32", "<I"),
        ("sfixed32", "<i"),
        ("float", "<f"),
        ("fixed64", "<Q"),
        ("sfixed64", "<q"),
        ("double", "<d"),
    )
}
"""The types of four and eight bytes."""

__all__ = ["ENDS", "FIXED", "OF_NUMBER", "WORDS", "Bad", "length", "skip", "tag", "varint"]
