"""Arrays and maps of many records at once: the first items of all of them, then the second ones, and so on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from lakestreams.formats.avro.cursor import Cursor, Numbers
from lakestreams.formats.avro.reader import Reader
from lakestreams.formats.avro.values import texts

_MOST_EMPTY: Final = 10_000  # items of a record that take no bytes: nothing else bounds their number


class _Blocks:
    """What arrays and maps have in common: blocks of items behind their count, up to a block of none.

    Args:
        item: what reads an item.
        path: where it stands, for messages.
        empty: whether items take no bytes.
    """

    least = 1

    def __init__(self, item: Reader, path: str, *, empty: bool = False) -> None:
        self._item, self._path, self._empty = item, path or "value", empty

    @property
    def _least(self) -> int:
        """How many bytes an item takes at least. Of a record that is still made nothing is known but that it takes some."""
        return 0 if self._empty else max(1, self._item.least)

    def skip(self, cursor: Cursor, rows: Numbers) -> None:
        """Passes over all items; where they take no bytes, over their counts alone."""
        if self._empty:
            for _ in _blocks(cursor, rows, 0, self._path):
                pass
            return
        for own in _steps(cursor, rows, self._least, self._path):
            self._skip_item(cursor, rows[own])

    def _skip_item(self, cursor: Cursor, rows: Numbers) -> None:
        self._item.skip(cursor, rows)


class Items(_Blocks):
    """An array."""

    def read(self, cursor: Cursor, rows: Numbers) -> pa.Array:
        """The items of each record as a list."""
        parts, owners = [], []
        for own in _steps(cursor, rows, self._least, self._path):
            parts.append(self._item.read(cursor, rows[own]))
            owners.append(own)
        if not parts:
            parts, owners = [self._item.read(cursor, rows[:0])], [rows[:0]]
        owner = np.concatenate(owners)
        offsets = _offsets(owner, len(rows))
        return pa.ListArray.from_arrays(offsets, _in_order(parts, owner))


class Entries(_Blocks):
    """A map."""

    def _skip_item(self, cursor: Cursor, rows: Numbers) -> None:
        cursor.skip(rows, cursor.number(rows, self._path), self._path, "a key")
        self._item.skip(cursor, rows)

    def read(self, cursor: Cursor, rows: Numbers) -> pa.Array:
        """The entries of each record as a map."""
        keys, parts, owners = [], [], []
        for own in _steps(cursor, rows, 1 + self._item.least, self._path):
            offsets, data = cursor.texts(rows[own], self._path, "a key")
            keys.append(texts(cursor, rows[own], offsets, data, self._path))
            parts.append(self._item.read(cursor, rows[own]))
            owners.append(own)
        if not parts:
            keys, parts, owners = [pa.array([], pa.string())], [self._item.read(cursor, rows[:0])], [rows[:0]]
        owner = np.concatenate(owners)
        key = _in_order(keys, owner)
        self._refuse_twice(cursor, rows, key, np.sort(owner))
        return pa.MapArray.from_arrays(_offsets(owner, len(rows)), key, _in_order(parts, owner))

    def _refuse_twice(self, cursor: Cursor, rows: Numbers, keys: pa.Array, owner: Numbers) -> None:
        codes = keys.dictionary_encode().indices.to_numpy(zero_copy_only=False).astype(np.int64)
        pairs, counts = np.unique(owner * (len(codes) + 1) + codes, return_counts=True)
        twice = np.unique(pairs[counts > 1] // (len(codes) + 1))
        cursor.fail(rows[twice], f"{self._path}: a key twice")


def _steps(cursor: Cursor, rows: Numbers, least: int, path: str) -> Iterator[Numbers]:
    """For each next item the places, among `rows`, of the records that have it. Read it before asking for more.

    Items without bytes are alike and end where they begin, so all of a block are read at once.
    """
    for there, count in _blocks(cursor, rows, least, path):
        if least == 0:
            yield np.repeat(there, count)
            continue
        for step in range(int(count.max(initial=0))):
            own = there[count > step]
            own = own[~cursor.failed[rows[own]]]
            if not own.size:
                break
            yield own


def _blocks(cursor: Cursor, rows: Numbers, least: int, path: str) -> Iterator[tuple[Numbers, Numbers]]:
    """Of each next block the places, among `rows`, of the records that have it, and how many items theirs has."""
    there = np.arange(len(rows))
    while True:
        there = there[~cursor.failed[rows[there]]]
        count = cursor.number(rows[there], path)
        sized = count < 0
        if sized.any():  # then the block's size follows, for those who skip it
            cursor.number(rows[there[sized]], path)
        count = np.abs(count)
        there, count = there[count != 0], count[count != 0]
        if not there.size:
            return
        own = rows[there]
        left = cursor.left(own)
        # the most negative count is none that can be made positive, and a sum of counts may be more than an int64 holds
        wrong = (count < 0) | (count > (left // least if least else _MOST_EMPTY - cursor.empty[own]))
        if wrong.any():
            pairs = zip(count[wrong].tolist(), left[wrong].tolist(), strict=True)
            cursor.fail(own[wrong], [_too_many(path, number, size, least) for number, size in pairs])
        there, count = there[~wrong], count[~wrong]
        if least == 0:
            cursor.empty[rows[there]] += count
        yield there, count


def _too_many(path: str, number: int, left: int, least: int) -> str:
    if least == 0:
        return f"{path}: {number} items, which take no bytes; a record has {_MOST_EMPTY} of them at most"
    return f"{path}: {number} items, {left} bytes left"


def _offsets(owner: Numbers, count: int) -> pa.Array:
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(np.bincount(owner, minlength=count), out=offsets[1:])
    return pa.array(offsets)


def _in_order(parts: Sequence[pa.Array], owner: Numbers) -> pa.Array:
    """Items of each record one behind the other; they were read step by step."""
    together = parts[0] if len(parts) == 1 else pa.concat_arrays(parts)
    return together if len(parts) == 1 else together.take(pa.array(np.argsort(owner, kind="stable")))


__all__ = ["Entries", "Items"]
