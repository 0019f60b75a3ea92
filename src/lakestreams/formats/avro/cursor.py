"""Many records of Avro's binary encoding read in parallel: a place in each, and what is wrong with it.

Every function takes the numbers of the records that it reads of, moves their places on, and gives an array with an
element for each. A record that cannot be read is failed: it keeps its first message and goes on in zeros behind all
records, so that nobody has to ask whether it still counts.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from lakestreams.formats.decoding import gathered

Numbers = npt.NDArray[np.int64]
_MARGIN: Final = 32
_BITS: Final = 64


class Cursor:
    """The records of a batch.

    Args:
        data: their bytes, one behind the other.
        starts, ends: where each begins and ends.

    Attributes:
        depth: how deep the value lies that is passed over.
        empty: how many items without bytes each record has so far.
    """

    def __init__(self, data: npt.NDArray[np.uint8], starts: Numbers, ends: Numbers) -> None:
        self.data = np.concatenate([data, np.zeros(_MARGIN, np.uint8)])
        self._zeros = len(data)
        self.places = starts.astype(np.int64)
        self.ends = ends.astype(np.int64)
        self.faults: dict[int, str] = {}
        self.failed = np.zeros(len(starts), bool)
        self.depth = 0
        self.empty = np.zeros(len(starts), np.int64)

    def fail(self, rows: Numbers, messages: str | list[str]) -> None:
        """Gives records up, with a message for all or one for each."""
        if not rows.size:
            return
        for place, row in enumerate(rows.tolist()):
            self.faults.setdefault(row, messages if isinstance(messages, str) else messages[place])
        self.failed[rows] = True
        self.places[rows] = self._zeros
        self.ends[rows] = len(self.data)

    def left(self, rows: Numbers) -> Numbers:
        """How many bytes of each record are still to be read."""
        return self.ends[rows] - self.places[rows]

    def skip(self, rows: Numbers, size: Numbers | int, path: str, what: str) -> Numbers:
        """Moves on by so many bytes: where they begin. Where they are not all there, the record fails."""
        places = self.places[rows]
        short = (np.asarray(size) < 0) | (size > self.ends[rows] - places)  # a sum might be more than an int64 holds
        self.places[rows] = places + np.where(short, 0, size)
        if short.any():
            sizes = np.broadcast_to(np.asarray(size), places.shape)[short].tolist()
            left = self.left(rows[short]).tolist()
            said = [f"{path}: {what} of {size} bytes, {there} left" for size, there in zip(sizes, left, strict=True)]
            self.fail(rows[short], said)
            places = np.where(short, self._zeros, places)
        return places

    def number(self, rows: Numbers, path: str) -> Numbers:
        """A number of variable length; 0 for records that have failed, so that nobody acts on half of one."""
        places, ends = np.minimum(self.places[rows], self._zeros), self.ends[rows]
        short = places >= ends
        byte = self.data[places]
        value = (byte & 0x7F).astype(np.uint64)
        size = np.ones(len(rows), np.int64)
        more = np.flatnonzero((byte & 0x80).astype(bool) & ~short)
        shift = 7
        while more.size and shift < _BITS:
            at = places[more] + shift // 7
            ended = at >= ends[more]  # what stands there is the next record's
            short[more[ended]] = True
            more, at = more[~ended], at[~ended]
            byte = self.data[at]
            value[more] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
            size[more] += 1
            if shift == 63:  # of the tenth byte one bit is part of the number
                self.fail(rows[more[byte > 1]], f"{path}: a number of more than 64 bits")
                break
            more = more[(byte & 0x80) > 0]
            shift += 7
        self.fail(rows[short], f"{path}: the record ends within it")
        failed = self.failed[rows]
        self.places[rows] = np.where(failed, self._zeros, places + size)
        found: Numbers = (value >> np.uint64(1)).astype(np.int64) ^ -(value & np.uint64(1)).astype(np.int64)
        return np.where(failed, 0, found)

    def fixed(self, rows: Numbers, size: int, path: str, what: str) -> npt.NDArray[np.uint8]:
        """So many bytes of each: a matrix with a row for each record."""
        places = self.skip(rows, size, path, what)
        found: npt.NDArray[np.uint8] = self.data[np.minimum(places[:, None] + np.arange(size), len(self.data) - 1)]
        return found

    def texts(self, rows: Numbers, path: str, what: str) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8]]:
        """Bytes behind their count: offsets, and all bytes, as Arrow has them."""
        return self.pieces(rows, self.number(rows, path), path, what)

    def pieces(
        self, rows: Numbers, size: Numbers | int, path: str, what: str
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8]]:
        """So many bytes of each, as Arrow has them; none of a record that fails, whatever its size would take."""
        places = self.skip(rows, size, path, what)
        return self.gathered(places, np.where(self.failed[rows], 0, size))

    def gathered(self, places: Numbers, size: Numbers) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8]]:
        """The bytes at these places, one behind the other, and where each begins among them."""
        return gathered(self.data, places, size)


__all__ = ["Cursor", "Numbers"]
