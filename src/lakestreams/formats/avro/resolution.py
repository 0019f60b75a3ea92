"""How what one schema wrote is read by another: the specification's resolution, worked out once for a pair of schemas.

`reader_of` gives a tree of readers, or refuses the pair. What depends on the record, such as a branch of a union that
the reader lacks, is judged when it is read, and fails that record alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import pyarrow as pa

from lakestreams.formats.avro import columns, encode
from lakestreams.formats.avro.blocks import Entries, Items
from lakestreams.formats.avro.cursor import Cursor, Numbers
from lakestreams.formats.avro.reader import Reader, branches, by_branch, least_of
from lakestreams.formats.avro.schema import (
    Array,
    Enum,
    Fixed,
    Map,
    Member,
    Named,
    Primitive,
    Record,
    Type,
    Union,
    takes_nothing,
    word,
)
from lakestreams.formats.avro.skipping import Skipped
from lakestreams.formats.avro.values import Value
from lakestreams.formats.decoding import arrow_type

_PROMOTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}


class Unresolvable(Exception):
    """One schema cannot read what the other wrote; its argument says where and why."""


def reader_of(written: Type, read: Type, path: str = "") -> Reader:
    """How values of one type are read as those of another.

    Args:
        written, read: the writer's type and the reader's.
        path: where they stand.

    Raises:
        Unresolvable: if none of the writer's values can be read.
    """
    if isinstance(written, Union):
        return _Choice(written, read, path)
    if isinstance(read, Union):
        return _Branch(written, read, path)
    if isinstance(written, Record) and isinstance(read, Record) and _same_name(written, read):
        return _Fields(written, read, path)
    if isinstance(written, Enum) and isinstance(read, Enum) and _same_name(written, read):
        return _Symbols(written, read, path)
    if isinstance(written, Array) and isinstance(read, Array):
        item = reader_of(written.items, read.items, f"{path}[]")
        return Items(item, path, empty=takes_nothing(written.items))
    if isinstance(written, Map) and isinstance(read, Map):
        return Entries(reader_of(written.values, read.values, f"{path}{{}}"), path)
    if isinstance(written, Primitive | Fixed) and isinstance(read, Primitive | Fixed) and _promotes(written, read):
        return Value(written, read, path or "value")
    raise Unresolvable(f"{path or 'value'}: written as {word(written)}, declared {word(read)}")


def _promotes(written: Primitive | Fixed, read: Primitive | Fixed) -> bool:
    """Whether values of one type may be read as the other's.

    A logical type that differs changes what a number means, which the specification says of decimals alone: refused.
    A reader without one, or that alone has one, reads the bare value.
    """
    if written.logical and read.logical and written.logical != read.logical:
        return False
    if isinstance(written, Fixed) or isinstance(read, Fixed):
        same = isinstance(written, Fixed) and isinstance(read, Fixed) and written.size == read.size
        return same and _same_name(written, read)  # type: ignore[arg-type] # both are, see above
    return written.kind == read.kind or read.kind in _PROMOTIONS.get(written.kind, ())


def _same_name(written: Named, read: Named) -> bool:
    names = {name.rpartition(".")[2] for name in (read.name, *read.aliases)}
    return written.short in names


class _Fields:
    """The fields of a record by their names, those that the writer lacks by their defaults."""

    def __init__(self, written: Record, read: Record, path: str) -> None:
        self._kind = arrow_type(columns.kind_of(read))
        names = _names(written, read, path)
        self._steps: list[tuple[int | None, Reader]] = []
        for member in written.members:
            place, at = names.get(member.name), f"{path}.{member.name}" if path else member.name
            read_by = (
                Skipped.of(member.type, {}, at)
                if place is None
                else reader_of(member.type, read.members[place].type, at)
            )
            self._steps.append((place, read_by))
        there = {place for place, _ in self._steps}
        missing = [(place, member) for place, member in enumerate(read.members) if place not in there]
        self._defaults = {
            place: _default(member, f"{path}.{member.name}" if path else member.name) for place, member in missing
        }
        self.least = least_of(reader for _, reader in self._steps)

    def read(self, cursor: Cursor, rows: Numbers) -> pa.Array:
        found: dict[int, pa.Array] = {}
        for place, reader in self._steps:
            if place is None:
                reader.skip(cursor, rows)
            else:
                found[place] = reader.read(cursor, rows)
        for place, one in self._defaults.items():
            found[place] = one.take(pa.array(np.zeros(len(rows), np.int64)))
        arrays = [found[place] for place in range(self._kind.num_fields)]
        return pa.StructArray.from_arrays(arrays, fields=list(self._kind))

    def skip(self, cursor: Cursor, rows: Numbers) -> None:
        for _, reader in self._steps:
            reader.skip(cursor, rows)


def _names(written: Record, read: Record, path: str) -> dict[str, int]:
    """Which of the reader's fields each of the writer's is read as; a field has its own name before another's alias.

    Raises:
        Unresolvable: if aliases leave open which field is meant.
    """
    there = {member.name for member in written.members}
    names = {member.name: place for place, member in enumerate(read.members) if member.name in there}
    own = set(names)
    for place, member in enumerate(read.members):
        if member.name in own:  # of a field that both have, older names say nothing
            continue
        meant = [name for name in dict.fromkeys(member.aliases) if name in there - own]
        wrong = f"its aliases {' and '.join(meant)} are both written" if len(meant) > 1 else ""
        wrong = wrong or next((f"its alias {name} is another field's, too" for name in meant if name in names), "")
        if wrong:
            raise Unresolvable(f"{path}.{member.name}: {wrong}".removeprefix("."))
        names |= dict.fromkeys(meant, place)
    return names


def _default(member: Member, path: str) -> pa.Array:
    """A field's default as a column of one row."""
    if not member.has_default:
        raise Unresolvable(f"{path}: not written, and declared without a default")
    try:
        raw = encode.default(member.type, member.default)
    except (TypeError, ValueError, KeyError) as error:
        raise Unresolvable(f"{path}: its default is none of {word(member.type)}: {error}") from None
    only = np.zeros(1, np.int64)
    cursor = Cursor(np.frombuffer(raw, np.uint8), only, only + len(raw))
    found = reader_of(member.type, member.type, path).read(cursor, only)
    if cursor.faults:
        raise Unresolvable(f"the default of {cursor.faults[0]}")
    return found


class _Symbols:
    """The symbols of an enum as texts."""

    least = 1

    def __init__(self, written: Enum, read: Enum, path: str) -> None:
        self._path, self._written = path or "value", written.symbols
        known = [symbol if symbol in read.symbols else read.default for symbol in written.symbols]
        self._symbols = pa.array(known, pa.string())
        self._unknown = np.array([symbol is None for symbol in known])

    def read(self, cursor: Cursor, rows: Numbers) -> pa.Array:
        found = cursor.number(rows, self._path)
        outside = (found < 0) | (found >= len(self._written))
        if outside.any():
            said = [f"{self._path}: symbol {number} of {len(self._written)}" for number in found[outside].tolist()]
            cursor.fail(rows[outside], said)
            found = np.where(outside, 0, found)
        unknown = self._unknown[found] & ~outside
        if unknown.any():
            said = [
                f"{self._path}: {self._written[number]} is no declared symbol" for number in found[unknown].tolist()
            ]
            cursor.fail(rows[unknown], said)
        return self._symbols.take(pa.array(found))

    def skip(self, cursor: Cursor, rows: Numbers) -> None:
        cursor.number(rows, self._path)


class _Branch:
    """A type that the reader has as a branch of a union."""

    def __init__(self, written: Type, read: Union, path: str) -> None:
        place, self._reader = _first_match(written, read, path)
        self._member = read.branches[place]
        self._kind = arrow_type(columns.kind_of(read))
        self._is_struct = columns.wider(read) is None and columns.inner(read) is read
        self.least = self._reader.least

    def read(self, cursor: Cursor, rows: Numbers) -> pa.Array:
        found = self._reader.read(cursor, rows)
        if self._member == Primitive("null"):
            return pa.nulls(len(rows), self._kind)
        if not self._is_struct:
            return found if found.type == self._kind else found.cast(self._kind)
        name = columns.member_name(self._member)
        arrays = [found if one.name == name else pa.nulls(len(rows), one.type) for one in self._kind]
        return pa.StructArray.from_arrays(arrays, fields=list(self._kind))

    def skip(self, cursor: Cursor, rows: Numbers) -> None:
        self._reader.skip(cursor, rows)


def _first_match(written: Type, read: Union, path: str) -> tuple[int, Reader]:
    """The first branch of the same type and name, else the first that reads it."""
    order = sorted(range(len(read.branches)), key=lambda place: not _is_same(written, read.branches[place]))
    for place in order:
        try:
            return place, reader_of(written, read.branches[place], path)
        except Unresolvable:
            continue
    raise Unresolvable(f"{path or 'value'}: written as {word(written)}, declared {word(read)}")


def _is_same(written: Type, read: Type) -> bool:
    if isinstance(written, Named):
        return isinstance(read, Named) and written.name == read.name
    return written == read if isinstance(written, Primitive) else type(written) is type(read)


class _Choice:
    """A union: the number of a branch, then its value."""

    def __init__(self, written: Union, read: Type, path: str) -> None:
        self._path = path or "value"
        self._readers: list[Reader | str] = []
        for branch in written.branches:
            try:
                self._readers.append(reader_of(branch, read, path))
            except Unresolvable as error:
                self._readers.append(str(error))
        if all(isinstance(one, str) for one in self._readers):
            raise Unresolvable(f"{self._path}: written as {word(written)}, declared {word(read)}")
        self._kind = arrow_type(columns.kind_of(read))
        self.least = 1 + min(one.least for one in self._readers if not isinstance(one, str))

    def read(self, cursor: Cursor, rows: Numbers) -> pa.Array:
        return by_branch(cursor, rows, self._readers, self._kind, self._path)

    def skip(self, cursor: Cursor, rows: Numbers) -> None:
        for reader, own in branches(cursor, rows, self._readers, self._path):
            reader.skip(cursor, rows[own])


__all__ = ["Reader", "Unresolvable", "reader_of"]
