"""Bytes of many values in parallel, as numbers: of each the same is read at once, and whether it is there."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from lakestreams.formats.decoding import bytes_of, gathered
from lakestreams.formats.protobuf.schema import FIXED64, LENGTH, VARINT

Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

MARGIN: Final = 16
"""Zeros behind all bytes, so that whoever reads a little too far meets nothing."""
DONE, DEAD = -1, -2
"""In the place of a tag: the message has ended; it is not surely read here."""
_LOW: Final = np.uint8(0x7F)
_MORE: Final = np.uint8(0x80)


class Spans(NamedTuple):
    """What was read of some values.

    Attributes:
        value: a number each, as its bits; of bytes how many there are.
        start: where bytes begin.
        behind: where what follows begins.
        fits: whether the bytes are there, and a number has 64 bits at most.
    """

    value: npt.NDArray[np.uint64]
    start: Numbers
    behind: Numbers
    fits: Mask


def numbers(data: npt.NDArray[np.uint8], at: Numbers, end: Numbers) -> Spans:
    """Numbers of varying length."""
    byte = data[at]
    value = (byte & _LOW).astype(np.uint64)
    behind = at + 1
    fits = np.ones(len(at), bool)
    more = np.flatnonzero(byte & _MORE)
    for shift in range(7, 64, 7):
        if not more.size:
            break
        byte = data[np.minimum(behind[more], len(data) - 1)]
        value[more] |= (byte & _LOW).astype(np.uint64) << np.uint64(shift)
        behind[more] += 1
        if shift == 63:  # of the tenth byte one bit is part of the number
            fits[more[byte > 1]] = False
        more = more[(byte & _MORE) > 0]
    return Spans(value, at, behind, fits & (behind <= end))


def value(data: npt.NDArray[np.uint8], at: Numbers, end: Numbers, wire: int) -> Spans:
    """Values of a wire type; groups are not read."""
    if wire == VARINT:
        return numbers(data, at, end)
    if wire == LENGTH:
        size = numbers(data, at, end)
        left = end - size.behind
        fits = size.fits & (size.value <= np.maximum(left, 0).astype(np.uint64)) & (left >= 0)
        length = np.where(fits, size.value, 0).astype(np.int64)
        return Spans(length.astype(np.uint64), size.behind, size.behind + length, fits)
    width = 8 if wire == FIXED64 else 4
    fits = at + width <= end
    matrix = data[np.where(fits, at, 0)[:, None] + np.arange(width)]
    bits = np.ascontiguousarray(matrix).view(f"<u{width}")[:, 0].astype(np.uint64)
    return Spans(bits, at, at + width, fits)


def tags(data: npt.NDArray[np.uint8], at: Numbers, end: Numbers) -> tuple[Numbers, Numbers]:
    """The tags at these places, and where their values begin: of fields up to number 2047, else `DEAD`."""
    there = at < end
    place = np.where(there, at, 0)
    first = data[place].astype(np.int64)
    second = data[place + 1].astype(np.int64)
    wide = first >= _MORE
    tag = np.where(wide, (first & 0x7F) | (second << 7), first)
    tag = np.where(wide & (second >= _MORE) | (tag < 8), DEAD, tag)  # there is no field 0
    behind = place + 1 + wide
    return np.where(there, np.where(behind > end, DEAD, tag), DONE), behind


def packed(data: npt.NDArray[np.uint8], start: Numbers, size: Numbers, wire: int) -> tuple[Numbers, Spans, Mask]:
    """The values inside lists of numbers: of each which list it is in; and of each list whether it is one of whole values.

    Of a list that is not, none is read.
    """
    if wire != VARINT:
        width = 8 if wire == FIXED64 else 4
        whole = size % width == 0
        count = np.where(whole, size // width, 0)
        owner = np.repeat(np.arange(len(size)), count)
        at = start[owner] + width * (np.arange(len(owner)) - np.repeat(np.cumsum(count) - count, count))
        return owner, value(data, at, (start + size)[owner], wire), whole
    whole = (size == 0) | (data[np.maximum(start + size - 1, 0)] < _MORE)
    offsets, body = gathered(data, start, np.where(whole, size, 0))
    last = np.flatnonzero(body < _MORE)  # the last byte of each value, and so of each list
    begins = np.concatenate([np.zeros(1, np.int64), last + 1])[:-1]
    owner = np.repeat(np.arange(len(size)), np.diff(offsets))[last]
    return owner, numbers(np.concatenate([body, np.zeros(MARGIN, np.uint8)]), begins, last + 1), whole


def contiguous(raw: Any) -> tuple[npt.NDArray[np.uint8], Numbers, Numbers]:
    """The bytes of an array with zeros behind them, and where each record begins and ends."""
    places, data = bytes_of(raw)
    return np.concatenate([data, np.zeros(MARGIN, np.uint8)]), places[:-1], places[1:]
