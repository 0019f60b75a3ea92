"""Skips values that nobody reads: fields that the writer has and the reader has not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from lakestreams.formats.avro.blocks import Entries, Items
from lakestreams.formats.avro.cursor import Cursor, Numbers
from lakestreams.formats.avro.reader import Reader, Skips, branches, least_of
from lakestreams.formats.avro.schema import Array, Enum, Fixed, Primitive, Record, Type, Union, takes_nothing
from lakestreams.formats.avro.values import Value

_DEEPEST: Final = 128  # levels of any kind; each takes some of Python's own stack


class Skipped:
    """Passes over a value that nobody reads, whatever its type, also one that holds itself."""

    def __init__(self, path: str) -> None:
        self.least = 0
        self._path = path
        self._reader: Skips | None = None

    @classmethod
    def of(cls, written: Type, seen: dict[int, Skipped], path: str) -> Reader:
        """A reader that only skips."""
        if isinstance(written, Primitive | Fixed):
            return Value(written, written, path)
        if isinstance(written, Enum):
            return Value(Primitive("int"), Primitive("int"), path)
        if id(written) in seen:
            return seen[id(written)]
        own = seen[id(written)] = cls(path)
        if isinstance(written, Record):
            taking = [member.type for member in written.members if not takes_nothing(member.type)]
            own._reader = _Each([cls.of(one, seen, path) for one in taking])
        elif isinstance(written, Union):
            own._reader = _Any([cls.of(branch, seen, path) for branch in written.branches], path)
        elif isinstance(written, Array):
            own._reader = Items(cls.of(written.items, seen, path), path, empty=takes_nothing(written.items))
        else:
            own._reader = Entries(cls.of(written.values, seen, path), path)
        own.least = own._reader.least
        return own

    def read(self, cursor: Cursor, rows: Numbers) -> pa.Array:
        """Nulls, since nobody reads the values."""
        self.skip(cursor, rows)
        return pa.nulls(len(rows))

    def skip(self, cursor: Cursor, rows: Numbers) -> None:
        """Passes over the values."""
        assert self._reader is not None  # noqa: S101 - `of` has set it
        cursor.depth += 1
        if cursor.depth > _DEEPEST:
            cursor.fail(rows, f"{self._path}: nests deeper than {_DEEPEST} levels")
        else:
            self._reader.skip(cursor, rows)
        cursor.depth -= 1


class _Each:
    """All fields of a record that nobody reads, but those that take no bytes."""

    def __init__(self, readers: Sequence[Skips]) -> None:
        self._readers = readers
        self.least = least_of(readers)

    def skip(self, cursor: Cursor, rows: Numbers) -> None:
        for reader in self._readers:
            if cursor.failed[
                rows
            ].all():  # else records in records would be gone through without end, and without bytes
                return
            reader.skip(cursor, rows)


class _Any:
    """The branch of a union that nobody reads."""

    def __init__(self, readers: Sequence[Skips], path: str) -> None:
        self._readers, self._path = readers, path
        self.least = 1

    def skip(self, cursor: Cursor, rows: Numbers) -> None:
        for reader, own in branches(cursor, rows, self._readers, self._path):
            reader.skip(cursor, rows[own])


__all__ = ["Skipped"]
