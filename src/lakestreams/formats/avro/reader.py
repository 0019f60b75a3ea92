"""What reads values of a type from many records at once, and how those of a union are read: branch by branch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from lakestreams.formats.avro.cursor import Cursor, Numbers

_MOST: Final = 2**31  # no record has so many


class Skips(Protocol):
    """Passes over a value of each record."""

    least: int
    """How many bytes a value takes at least."""

    def skip(self, cursor: Cursor, rows: Numbers) -> None:
        """Passes over the values."""
        ...


class Reader(Skips, Protocol):
    """Reads a value of each record as a column."""

    def read(self, cursor: Cursor, rows: Numbers) -> pa.Array:
        """The values."""
        ...


_S = TypeVar("_S", bound=Skips)


def least_of(readers: Iterable[Skips]) -> int:
    """How many bytes a value of each takes at least, together; bounded, since it doubles where records hold records twice."""
    return min(sum(reader.least for reader in readers), _MOST)


def branches(cursor: Cursor, rows: Numbers, readers: Sequence[_S | str], path: str) -> list[tuple[_S, Numbers]]:
    """Each reader with the places of the records whose branch it reads; the others fail."""
    chosen = cursor.number(rows, path)
    outside = (chosen < 0) | (chosen >= len(readers))
    if outside.any():
        cursor.fail(rows[outside], [f"{path}: branch {one} of {len(readers)}" for one in chosen[outside].tolist()])
    found: list[tuple[_S, Numbers]] = []
    for branch, reader in enumerate(readers):
        own = np.flatnonzero((chosen == branch) & ~cursor.failed[rows])
        if own.size and isinstance(reader, str):
            cursor.fail(rows[own], reader)
        elif own.size and not isinstance(reader, str):
            found.append((reader, own))
    return found


def by_branch(cursor: Cursor, rows: Numbers, readers: Sequence[Reader | str], kind: pa.DataType, path: str) -> pa.Array:
    """The values of a union, each by the reader of its branch."""
    order, parts, before = np.full(len(rows), -1, np.int64), [], 0
    for reader, own in branches(cursor, rows, readers, path):
        order[own] = before + np.arange(own.size)
        before += own.size
        parts.append(reader.read(cursor, rows[own]))
    if not parts:
        return pa.nulls(len(rows), kind)
    if len(parts) == 1 and before == len(rows):
        return parts[0]
    return pa.concat_arrays(parts).take(pa.array(order, mask=order < 0))


__all__ = ["Reader", "Skips", "branches", "by_branch", "least_of"]
