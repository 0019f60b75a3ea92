"""Records that are alike but for their texts, numbers and words: read by columns, without parsing each of them.

A skeleton is a record without what stands in its quotes and without its numbers, `true`, `false` and `null`. It has the names, the
braces, the commas and the blanks. A record with the same skeleton as one that is JSON is JSON too, with the same names in the
same places, if no backslash and no control character is in it and its numbers are numbers. Its values are cut out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakestreams.formats.decoding import is_utf8
from lakestreams.formats.jsontext import Repeated, parsed
from lakestreams.formats.lists import BRACES, Lists, ListSlot, cut, hollowed

_QUOTE, _BACKSLASH, _BLANK, _ASCII = 34, 92, 32, 128
_BARE: Final = re.compile(r"[^\[\]{},: ]+")
_SCALAR: Final = r"^(?:-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?|true|false|null)$"
_LONGEST: Final = 300  # characters of a number: what is longer may be beyond a bound
_SKELETONS: Final = 12  # that are tried for an array of records
ONE_BY_ONE: Final = 64
"""Records: so many are read exactly as quickly."""
_T = TypeVar("_T")


class Lines:
    """Records as one buffer with the places of their quotes.

    Args:
        raw: an array of bytes.

    Attributes:
        usable: which records have neither backslashes nor control characters, and are UTF-8.
        quotes: how many quotes each record has.
        lists: the lists that were cut out; None: none was.
    """

    def __init__(self, raw: Any, lists: Lists | None = None) -> None:
        self.lists = lists
        _, offsets, self.buffer = raw.buffers()
        ends = np.frombuffer(offsets, np.int32)[raw.offset : raw.offset + len(raw) + 1].astype(np.int64)
        self.data = np.frombuffer(self.buffer, np.uint8) if self.buffer is not None else np.empty(0, np.uint8)
        self.starts, self.ends = ends[:-1], ends[1:]
        own = self.data[ends[0] : ends[-1]]
        self._places = np.flatnonzero(own == _QUOTE) + ends[0]
        self._first = np.searchsorted(self._places, self.starts)
        self.quotes = np.searchsorted(self._places, self.ends) - self._first
        self.usable = raw.is_valid().to_numpy(zero_copy_only=False) & (self.quotes > 0)
        odd = np.flatnonzero((own == _BACKSLASH) | (own < _BLANK)) + ends[0]
        self.usable[np.searchsorted(self.ends, odd, side="right")] = False
        if (own >= _ASCII).any():
            self.usable &= _are_utf8(raw)

    @classmethod
    def of(cls, raw: Any) -> Lines:
        """The records, without what stands in their lists."""
        whole = cls(raw)
        hollow = hollowed(whole) if len(raw) else None
        if hollow is None:
            return whole
        found = cls(hollow.raw, hollow.lists)
        found.usable &= whole.usable & hollow.sound
        return found

    def quotes_before(self, places: Any, rows: Any) -> Any:
        """How many quotes stand before each of these places in its record."""
        return np.searchsorted(self._places, places) - self._first[rows]

    def text(self, row: int) -> bytes:
        """The record."""
        return self.data[self.starts[row] : self.ends[row]].tobytes()

    def quotes_of(self, rows: Any, count: int) -> Any:
        """A row of places for each of the records, which all have so many quotes."""
        return self._places[self._first[rows][:, None] + np.arange(count)]

    def cut(self, begins: Any, ends: Any) -> Any:
        """The texts between these places, which ascend."""
        return cut(begins, ends, self.buffer)

    def are(self, begins: Any, text: bytes) -> Any:
        """Whether this text stands at these places, behind which there are as many bytes."""
        found = np.ones(len(begins), bool)
        for place, sign in enumerate(text):
            found &= self.data[begins + place] == sign
        return found


@dataclass(frozen=True)
class Slot:
    """Where a value stands: in quotes, or bare.

    Attributes:
        number: of the text or of the gap between texts.
        quoted: whether it stands in quotes.
    """

    number: int
    quoted: bool


@dataclass(frozen=True)
class _Gap:
    """What stands between two texts: as it is, or around a bare value."""

    before: bytes
    behind: bytes
    bare: bool

    @property
    def least(self) -> int:
        return len(self.before) + len(self.behind) + self.bare


class Skeleton:
    """What records have in common.

    Attributes:
        slots: the object with a `Slot` for each value, and a `ListSlot` for each list.
        lists: how many lists there are.
    """

    def __init__(self, slots: dict[str, Any], names: dict[int, bytes], gaps: list[_Gap], lists: int) -> None:
        self.slots, self._names, self._gaps, self.lists = slots, names, gaps, lists

    @classmethod
    def of(cls, record: bytes) -> Skeleton | None:
        """The skeleton of a usable record; None if it has none that is worth it."""
        pieces = record.decode().split('"')
        if len(pieces) % 2 == 0:
            return None
        gaps = []
        names: dict[int, bytes] = {}
        slots: list[Slot] = []
        numbered: list[str] = []
        for place, piece in enumerate(pieces):
            number = place // 2
            if place % 2 == 0:
                bare = _BARE.findall(piece)
                if len(bare) > 1:
                    return None
                before, _, behind = piece.partition(bare[0]) if bare else (piece, "", "")
                gaps.append(_Gap(before.encode(), behind.encode(), bool(bare)))
                numbered.append(f"{before}{len(slots)}{behind}" if bare else piece)
                slots += [Slot(number, quoted=False)] if bare else []
            elif pieces[place + 1].lstrip(" ").startswith(":"):
                names[number] = piece.encode()
                numbered.append(f'"{piece}"')
            else:
                numbered.append(f'"{len(slots)}"')
                slots.append(Slot(number, quoted=True))
        text = "".join(numbered)
        lists: list[ListSlot] = []
        try:
            found = _with_slots(parsed(text), slots, lists)
        except ValueError:
            return None
        if not isinstance(found, dict) or (lists and text.count("{") > BRACES):
            return None
        return cls(found, names, gaps, len(lists))

    def matching(self, lines: Lines, rows: Any) -> tuple[Any, Values]:
        """Which of these records, which have as many quotes, have this skeleton, and their values."""
        count = 2 * (len(self._gaps) - 1)
        quotes = lines.quotes_of(rows, count)
        begins = np.column_stack([lines.starts[rows], quotes[:, 1::2] + 1])
        ends = np.column_stack([quotes[:, 0::2], lines.ends[rows]])
        same = np.ones(len(rows), bool)
        for number, gap in enumerate(self._gaps):
            length = ends[:, number] - begins[:, number]
            same &= length >= gap.least if gap.bare else length == gap.least
        for number, name in self._names.items():
            same &= begins[:, number + 1] - ends[:, number] - 2 == len(name)
        kept = np.flatnonzero(same)
        begins, ends = begins[kept], ends[kept]
        fits = np.ones(len(kept), bool)
        texts = {}
        for number, gap in enumerate(self._gaps):
            inner, outer = begins[:, number] + len(gap.before), ends[:, number] - len(gap.behind)
            fits &= lines.are(begins[:, number], gap.before) & lines.are(outer, gap.behind)
            if gap.bare:
                texts[number] = lines.cut(inner, outer)
        for number, name in self._names.items():
            fits &= lines.are(ends[:, number] + 1, name)
        for one in texts.values():
            scalar = pc.and_(pc.match_substring_regex(one, _SCALAR), pc.less_equal(pc.binary_length(one), _LONGEST))
            fits &= scalar.to_numpy(zero_copy_only=False)
        chosen = np.flatnonzero(fits)
        bare = {number: one.take(pa.array(chosen)) for number, one in texts.items()}
        return kept[chosen], Values(lines, rows[kept[chosen]], begins[chosen], ends[chosen], bare)


class Values:
    """The values of records with one skeleton, by slot."""

    def __init__(self, lines: Lines, rows: Any, begins: Any, ends: Any, bare: dict[int, Any]) -> None:
        self._lines, self._rows, self._begins, self._ends, self._bare = lines, rows, begins, ends, bare

    def __len__(self) -> int:
        return len(self._begins)

    def of(self, slot: Slot) -> Any:
        """The texts in a slot: what is in quotes, or a number or a word of JSON."""
        if not slot.quoted:
            return self._bare[slot.number]
        return self._lines.cut(self._ends[:, slot.number] + 1, self._begins[:, slot.number + 1] - 1)

    def list_of(self, number: int) -> Any:
        """The texts of a list."""
        assert self._lines.lists is not None  # noqa: S101 - else there is no such slot
        return self._lines.lists.of(self._rows, number)


def alike(lines: Lines, read: Callable[[Skeleton, Values], tuple[_T, Any] | None]) -> Iterator[tuple[Any, _T]]:
    """Records that share skeletons, with what is read of them.

    Args:
        read: from a skeleton and the values of its records to what they say, and the places among them for which that is
            sure; None: it is for none.
    """
    usable = np.flatnonzero(lines.usable)
    counts = lines.quotes[usable]
    waiting = [usable[counts == count] for count in np.unique(counts)]  # those together that have as many quotes
    for _ in range(_SKELETONS):
        if not waiting:
            return
        rows = waiting.pop(max(range(len(waiting)), key=lambda place: len(waiting[place])))
        if len(rows) <= ONE_BY_ONE:
            return
        skeleton = Skeleton.of(lines.text(rows[0]))
        if skeleton is None:
            waiting.append(rows[1:])
            continue
        matching, values = skeleton.matching(lines, rows)
        found = read(skeleton, values) if len(values) else None
        if found is not None:
            said, sure = found
            yield rows[matching[sure]], said
        waiting.append(np.delete(rows, np.append(matching, 0)))


def _with_slots(value: Any, slots: list[Slot], lists: list[ListSlot]) -> Any:
    """The object with slots in the places of their numbers and of lists, which are empty; all are noted in `lists`.

    Raises:
        ValueError: if a name comes twice.
    """
    if isinstance(value, Repeated):
        raise ValueError  # noqa: TRY004 - a text that cannot be read so, as what is no JSON
    if isinstance(value, dict):
        return {name: _with_slots(one, slots, lists) for name, one in value.items()}
    if isinstance(value, list):
        lists.append(ListSlot(len(lists)))
        return lists[-1]
    return slots[int(value)]


def _are_utf8(raw: Any) -> Any:
    try:
        raw.cast(pa.string())
    except pa.ArrowInvalid:
        return np.fromiter((one is not None and is_utf8(one) for one in raw.to_pylist()), bool, len(raw))
    return np.ones(len(raw), bool)


__all__ = ["ONE_BY_ONE", "Lines", "Skeleton", "Slot", "Values", "alike"]
