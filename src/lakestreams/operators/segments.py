"""What kernels share: steps over arrays that are made of segments, such as a task's records or a trigger's results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]
Ranks: TypeAlias = Callable[[Ints], Ints]  # from places of records to numbers in the order of their keys' bytes


def groups(group: Ints) -> Iterator[tuple[int, Ints]]:
    """Each group and the places of its elements, ascending."""
    if not len(group):
        return
    if (group == group[0]).all():
        yield int(group[0]), np.arange(len(group))
        return
    order = np.argsort(group, kind="stable")
    starts = _starts(group[order])
    for start, end in pairwise([*starts.tolist(), len(group)]):
        yield int(group[order[start]]), order[start:end]


def running(values: Ints, group: Ints) -> Ints:
    """The greatest value of each group so far."""
    found = np.empty_like(values)
    for _, places in groups(group):
        found[places] = np.maximum.accumulate(values[places])
    return found


def first_above(levels: Ints, group: Ints, of: Ints, start: Ints, bounds: Ints, among: Ints | None = None) -> Ints:
    """The first place of a group, a start or behind it, whose level is above a bound; the number of all where there is none.

    Args:
        levels: among the places that count they ascend in each group.
        group: of each level.
        of, start, bounds: what is asked for: the group, the place and the bound of each.
        among: the places that count, ascending; None: all.
    """
    among = np.arange(len(levels)) if among is None else among
    found = np.full(len(of), len(levels))
    of_group = dict(groups(group[among]))
    for number, mine in groups(of):
        own = among[of_group.get(number, among[:0])]
        above = np.searchsorted(levels[own], bounds[mine], "right")
        found[mine] = np.append(own, len(levels))[np.maximum(above, np.searchsorted(own, start[mine]))]
    return found


def ranges(starts: Ints, counts: Ints) -> Ints:
    """`start, start + 1, ...` of each start, as many as its count, one after the other."""
    before = np.cumsum(counts) - counts
    return np.repeat(starts - before, counts) + np.arange(counts.sum())


def pieces(counts: Ints, size: int) -> Iterator[slice]:
    """Consecutive slices whose counts add up to about a size."""
    ends = np.cumsum(counts)
    start = 0
    while start < len(counts):
        reached = ends[start - 1] if start else 0
        end = max(start + 1, int(np.searchsorted(ends, reached + size, "right")))
        yield slice(start, end)
        start = end


def places(group: Ints) -> Ints:
    """The place of each element in its run of equal numbers, from 0 on."""
    at = np.arange(len(group))
    starts = _starts(group)
    return at - np.repeat(starts, np.diff([*starts, len(group)])) if len(group) else at


def sorted_by(columns: Sequence[Ints | Flags], ties: Callable[[Ints], Ints]) -> Ints:
    """The places of rows sorted by columns, the first one first; then by what `ties` gives for those that are equal."""
    by = columns[::-1]
    order: Ints = np.lexsort(by)
    same = np.logical_and.reduce([one[order][1:] == one[order][:-1] for one in by])
    if same.any():
        tied, last = order[np.append(same, False) | np.append(False, same)], np.zeros_like(order)
        last[tied] = ties(tied)
        order = np.lexsort((last, *by))
    return order


def _starts(group: Ints) -> Ints:
    """Where runs of equal numbers begin."""
    return np.flatnonzero(np.diff(group, prepend=group[:1] - 1))
