"""Counts of a range up to a cut, from counts of its pieces: only what lies at the cut is counted again. Plain Python.

Records of a partition are counted in pieces when they are appended (`ingest/row_counts.py`). Stream time never falls within a
partition. So the pieces below a cut are known, all but one of them, and the pieces above it do not matter. The piece that
the frontier lies in is counted in bronze, and the piece that an earlier plan has cut.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from lakestreams.engine.ledger.plans import LATENESS_MS, Range

_MOST_READ = 16  # each is a condition of the query


@dataclass(frozen=True)
class Piece:
    """Records of a topic-partition that were counted together.

    Attributes:
        counts: of these records.
        to_its_end: whether its last offset is that of a record. Transaction markers and compacted tails leave none.
    """

    counts: Range
    to_its_end: bool


@dataclass(frozen=True)
class Division:
    """A range, as its counts up to a cut are found.

    Attributes:
        whole: parts below the cut, whose counts are known; ascending.
        read: parts that are to be counted; ascending.
        above: whether there are records behind these parts. All of them lie above the cut.
    """

    whole: tuple[Range, ...]
    read: tuple[Range, ...]
    above: bool


def divided(part: Range, pieces: Sequence[Piece], below: int | None, judged: Collection[str]) -> Division:
    """Which pieces of a range lie below a stream time, and which have to be counted.

    Args:
        part: the range.
        pieces: all records of the topic-partition that are not planned, and perhaps earlier ones; ascending.
        below: the stream time; None: all of the range is wanted.
        judged: what has to be counted of records, by id.
    """
    own = [one for one in pieces if one.counts.to_offset > part.from_offset]
    whole: list[Range] = []
    read: list[Range] = []
    continues = False
    for place, piece in enumerate(own):
        counts = piece.counts
        inside = counts.from_offset >= part.from_offset
        reaches = below is not None and counts.stream_time_ms >= below
        if inside and not reaches and piece.to_its_end and _is_counted(counts, judged):
            whole.append(counts)
            continues = False
            continue
        start = read.pop().from_offset if continues else max(counts.from_offset, part.from_offset)
        read.append(Range(*part.at, start, counts.to_offset))
        continues = True
        if reaches and (inside or piece.to_its_end):  # its last record is here, and lies above
            return _bounded_division(whole, read, above=place + 1 < len(own))
    return _bounded_division(whole, read, above=False)


def _bounded_division(whole: Sequence[Range], read: Sequence[Range], *, above: bool) -> Division:
    """A division that asks for no more than a few parts: of many, all between the first and the last is counted."""
    if len(read) > _MOST_READ:
        first, last = read[0], read[-1]
        read = [Range(*first.at, first.from_offset, last.to_offset)]
        whole = [one for one in whole if one.to_offset <= first.from_offset or one.from_offset >= last.to_offset]
    return Division(tuple(whole), tuple(read), above)


def joined(part: Range, division: Division, counted: Range | None, judged: Collection[str]) -> Range:
    """A range up to the cut.

    Args:
        part: the range.
        division: how it was divided.
        counted: of `division.read`, what lies below the cut; None: nothing was to be counted.
        judged: what is counted of records, by id.
    """
    parts = [*division.whole, *([counted] if counted is not None and counted.records else [])]
    is_cut = division.above or (counted is not None and counted.to_offset < division.read[-1].to_offset)
    end = max((one.to_offset for one in parts), default=part.from_offset) if is_cut else part.to_offset
    if not parts:
        return Range(*part.at, part.from_offset, end, stream_time_ms=part.stream_time_ms)
    merged = reduce(lambda before, one: one.merged_with(before), parts)
    return replace(
        merged,
        from_offset=part.from_offset,
        to_offset=end,
        stream_time_ms=max(one.stream_time_ms for one in parts),
        failed={name: count for name, count in merged.failed.items() if name in judged},
        end_offset=None,
    )


def _is_counted(counts: Range, judged: Collection[str]) -> bool:
    """Whether all is counted of them that a plan says; an earlier version or configuration may have counted less."""
    return len(counts.lateness) == len(LATENESS_MS) + 1 and counts.failed.keys() >= set(judged)


__all__ = ["Division", "Piece", "divided", "joined"]
