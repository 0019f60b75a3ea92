"""Lists inside many records: cut out, so that records are alike however long their lists are, and cut into their elements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_OPEN, _CLOSE, _QUOTE, _COMMA = 91, 93, 34, 44
_DEEPER: Final = np.zeros(256, np.int8)
_DEEPER[[_OPEN, 123]], _DEEPER[[_CLOSE, 125]] = 1, -1
_MARKS: Final = _DEEPER != 0
_MARKS[_COMMA] = True
BRACES: Final = 100
"""Brackets of a record, or levels of a list, up to which both together are surely not nested too deep."""


@dataclass(frozen=True)
class ListSlot:
    """Where a list stands.

    Attributes:
        number: how many lists stand before it in the record, those inside of lists not counted.
    """

    number: int


class Hollow(NamedTuple):
    """Records without what stands in their lists.

    Attributes:
        raw: the records, with `[]` for each list.
        sound: which of them have as many brackets as they need.
        lists: the lists.
    """

    raw: Any
    sound: Any
    lists: Lists


class Lists:
    """The outermost lists of records, in their order.

    Args:
        cut: gives the texts between ascending places.
        begins, ends: where each list begins and ends.
        first: of each record how many lists stand before its own.
    """

    def __init__(self, cut: Any, begins: Any, ends: Any, first: Any) -> None:
        self._cut, self._begins, self._ends, self._first = cut, begins, ends, first

    def of(self, rows: Any, number: int) -> Any:
        """The texts of the list of this number in each of the records, which ascend."""
        places = self._first[rows] + number
        return self._cut(self._begins[places], self._ends[places])


def hollowed(lines: Any) -> Hollow | None:
    """The records of `Lines` without what stands in their lists; None if none has a list."""
    first, last = int(lines.starts[0]), int(lines.ends[-1])
    own = lines.data[first:last]
    places = np.flatnonzero((own == _OPEN) | (own == _CLOSE)) + first
    if not len(places):
        return None
    row = np.searchsorted(lines.ends, places, side="right")
    outside = lines.quotes_before(places, row) % 2 == 0
    places, row = places[outside], row[outside]
    opens = lines.data[places] == _OPEN
    count = len(lines.starts)
    behind = np.cumsum(np.where(opens, 1, -1))
    before = np.concatenate([[0], behind])[np.searchsorted(row, np.arange(count))]
    depth = behind - before[row]
    sound = np.bincount(row, np.where(opens, 1, -1), minlength=count) == 0
    sound[row[depth < 0]] = False
    kept = sound[row]
    begins, ends = places[kept & opens & (depth == 1)], places[kept & ~opens & (depth == 0)]
    owner = row[kept & opens & (depth == 1)]
    change = np.zeros(last - first + 1, np.int8)
    change[begins + 1 - first] += 1
    change[ends - first] -= 1
    data = own[np.cumsum(change[:-1], dtype=np.int8) == 0]
    sizes = lines.ends - lines.starts - np.bincount(owner, ends - begins - 1, minlength=count).astype(np.int64)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    raw = pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data.tobytes())])
    lists = Lists(lines.cut, begins, ends + 1, np.searchsorted(owner, np.arange(count)))
    return Hollow(raw, sound, lists)


class Elements(NamedTuple):
    """The elements of lists.

    Attributes:
        texts: of all lists, one behind the other, without blanks around them.
        owner: which list each is in.
        sound: which lists have as many brackets as they need, and are not nested deep.
    """

    texts: Any
    owner: Any
    sound: Any


def elements(texts: Any) -> Elements:
    """The elements of lists, each of which begins and ends with its bracket."""
    if not len(texts):
        return Elements(texts, np.zeros(0, np.int64), np.zeros(0, bool))
    _, offsets, data = texts.buffers()
    places = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)
    signs = np.frombuffer(data, np.uint8)
    starts, ends = places[:-1], places[1:]
    quotes = np.flatnonzero(signs[: places[-1]] == _QUOTE)
    marks = np.flatnonzero(_MARKS[signs[places[0] : places[-1]]]) + places[0]
    row = np.searchsorted(ends, marks, side="right")
    outside = (np.searchsorted(quotes, marks) - np.searchsorted(quotes, starts)[row]) % 2 == 0
    marks, row = marks[outside], row[outside]
    behind = np.cumsum(_DEEPER[signs[marks]], dtype=np.int64)
    before = np.concatenate([[0], behind])[np.searchsorted(row, np.arange(len(texts)))]
    depth = behind - before[row]
    sound = np.ones(len(texts), bool)
    sound[row[(depth > BRACES) | ((depth < 1) & (marks != ends[row] - 1))]] = False
    sound &= np.bincount(row, _DEEPER[signs[marks]], minlength=len(texts)) == 0
    between = marks[(signs[marks] == _COMMA) & (depth == 1)]
    begins, behinds = np.sort(np.concatenate([starts, between])) + 1, np.sort(np.concatenate([between, ends - 1]))
    owner = np.searchsorted(ends, begins, side="right")
    found = pc.utf8_trim(cut(begins, behinds, data), " ")
    alone = np.bincount(owner, minlength=len(texts))[owner] == 1
    kept = np.flatnonzero(~(alone & pc.equal(found, "").to_numpy(zero_copy_only=False)))
    return Elements(found.take(pa.array(kept)), owner[kept], sound)


def cut(begins: Any, ends: Any, data: Any) -> Any:
    """The texts between these places of a buffer, which ascend."""
    if not len(begins):
        return pa.array([], pa.string())
    between = np.empty(2 * len(begins), np.int32)
    between[0::2], between[1::2] = begins, ends
    found = pa.Array.from_buffers(pa.string(), len(between) - 1, [None, pa.py_buffer(between), data])
    return found.take(pa.array(np.arange(0, len(between), 2)))


__all__ = ["BRACES", "Elements", "Hollow", "ListSlot", "Lists", "cut", "elements", "hollowed"]
