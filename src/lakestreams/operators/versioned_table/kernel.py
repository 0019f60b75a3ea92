"""What a versioned table (`history_ms`) takes in, keeps, and tells its readers, over arrays.

The law: a version, which may be a deletion, is taken iff its ts is not below the store time (its task's greatest ts so far) less
the history. Lookups as of a time see all that is taken; joins with tables and aggregations get a version only if none of its
key is newer as it comes. The newest version of a key stays, and each that is valid at a time which the history still reaches.

A version replaces the one of its key with the same ts.
The store's oddity: it has the latest live row apart from the closed versions, and of a deletion only the end that it gives them.
So a deletion with the very ts of the latest row vanishes, together with that row, unless a closed version ends at that ts. None
ends there if the row came to an absent or deleted key and nothing was put between that end and its ts since. An older version
may then be the latest again.

Where nothing can vanish, arrays tell who was the newest; the other keys' versions are put one after the other, which costs some
microseconds each.

Source: Kafka Streams' RocksDBVersionedStore (KIP-889, KIP-914); semantics 7.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from lakestreams.operators.arrays import MISSING
from lakestreams.operators.segments import Flags, Ints, groups, running

NEVER, ALWAYS = -(1 << 62), 1 << 62  # times before and behind all others


@dataclass(frozen=True)
class Versions:
    """A table's rows in the total order, perhaps among others; a place in it names one."""

    version: Flags  # with a key
    clock: Flags  # no version: only moves the store's time
    deletion: Flags
    key: Ints  # equal numbers for equal keys, not above the number of rows; -1: null
    time: Ints
    task: Ints

    def __len__(self) -> int:
        return len(self.time)


class Judged(NamedTuple):
    """Of each version that is taken."""

    newest: Flags  # no version of its key was newer as it came
    vanished: Flags  # with a deletion, or as one


def bounds(rows: Versions, history: Ints) -> Ints:
    """Below which time the store takes no version, and tells only the latest one: at each row, by its task.

    A task that has taken no version yet can meet one only of a key that lies in another task as well: the latest one.
    """
    store_time = running(np.where(rows.version | rows.clock, rows.time, NEVER), rows.task)
    return np.where(store_time == NEVER, ALWAYS, store_time - history)


def reached(rows: Versions, history: Ints, realm: int) -> Ints:
    """What the history still reaches behind all rows: of each row's realm by the task that is furthest behind.

    For a key may lie in two tasks. Tasks that have taken no version do not count. One that takes its first version later, far behind
    the others, may miss older ones of such a key.

    Args:
        realm: how many tasks may share a key: 0 to realm - 1, realm to 2 realm - 1, and so on.
    """
    behind = np.full(len(rows), ALWAYS)
    moves = np.flatnonzero(rows.version | rows.clock)
    of_realm: dict[int, int] = {}
    for task, mine in groups(rows.task[moves]):
        store_time = int(rows.time[moves[mine]].max())
        of_realm[task // realm] = min(store_time, of_realm.get(task // realm, ALWAYS))
    for number, mine in groups(rows.task // realm):
        behind[mine] = of_realm.get(number, ALWAYS)
    return behind - history


def clocks(rows: Versions) -> Ints:
    """A row of each task that has its store time: the first one with the greatest ts."""
    moves = np.flatnonzero(rows.version | rows.clock)
    ordered = moves[np.lexsort((-rows.time[moves], rows.task[moves]))]
    found: Ints = ordered[np.diff(rows.task[ordered], prepend=rows.task[ordered][:1] - 1) != 0]
    return found


def judge(rows: Versions, taken: Ints) -> Judged:
    """What becomes of the versions that are taken; flags of all rows."""
    newest, vanished = np.zeros(len(rows), bool), np.zeros(len(rows), bool)
    level = np.zeros(len(rows), np.int64)  # ascends by key and time
    level[taken] = rows.key[taken] * (len(rows) + 1) + np.unique(rows.time[taken], return_inverse=True)[1]
    came = taken[np.argsort(rows.key[taken], kind="stable")]
    newest[came] = level[came] >= np.maximum.accumulate(level[came])
    by_time = taken[np.argsort(level[taken], kind="stable")]
    at_once = np.diff(level[by_time]) == 0
    at_once &= rows.deletion[by_time[1:]] & ~rows.deletion[by_time[:-1]]
    is_odd = np.zeros(len(rows) + 1, bool)  # by key
    is_odd[rows.key[by_time[1:][at_once]]] = True
    odd = came[is_odd[rows.key[came]]]
    for _, mine in groups(rows.key[odd]):
        store = Store()
        for place, time, deletion in puts(rows, odd[mine]):
            newest[place] = store.reaches(time)
            vanished[store.put(place, time, deletion)] = True
    return Judged(newest, vanished)


def retained(rows: Versions, remaining: Ints, bound: Ints | None) -> Ints:
    """Which versions still matter, of those that are taken and have not vanished.

    Puts with the same ts replace each other, but what was put between the first and the last of them decides whether a deletion there
    would vanish. So of the latest row, if it is live, the first one of its ts stays as well.

    Args:
        bound: what lookups still reach, of each row; None: readers get the latest only. Then the newest version stays, and the
            one before it: they tell whether a deletion would vanish.
    """
    if not len(remaining):
        return remaining
    by_time = remaining[np.lexsort((rows.time[remaining], rows.key[remaining]))]
    key, time = rows.key[by_time], rows.time[by_time]
    goes_on = key[1:] == key[:-1]  # with the same key
    is_last, again = np.append(~goes_on, True), goes_on & (time[1:] == time[:-1])
    last = np.flatnonzero(is_last)[np.cumsum(is_last) - is_last]  # of each one's key
    first_of_ts = np.append(True, ~again)
    opens = (time == time[last]) & ~rows.deletion[by_time[last]] & first_of_ts
    ends = np.append(time[1:], NEVER)  # when the next one begins
    is_of_use = ends == time[last] if bound is None else ends > bound[by_time]
    matters = is_last | opens | (~np.append(again, False) & ~is_last & is_of_use)
    return np.sort(by_time[matters])


def puts(rows: Versions, version: Ints) -> Iterator[tuple[int, int, bool]]:
    """What `Store.put` gets of each version."""
    return zip(version.tolist(), rows.time[version].tolist(), rows.deletion[version].tolist(), strict=True)


@dataclass
class Store:
    """A key's versions, as Kafka's store has them.

    A version that comes late is put between others in a list: a hot key with a million of them at random times takes half a minute.
    """

    times: list[int] = field(default_factory=list)
    of_time: dict[int, tuple[int, bool]] = field(default_factory=dict)  # the place, and whether it is a deletion
    replaced: dict[int, list[int]] = field(default_factory=dict)  # places of earlier ones of a time
    ended: int = NEVER  # the newest end of a closed version

    def reaches(self, time: int) -> bool:
        """Whether no version is newer than a time."""
        return not self.times or time >= self.times[-1]

    def put(self, place: int, time: int, deletion: bool) -> list[int]:
        """Takes a version, and tells the places of those that vanish: itself and the rows of its time, or none."""
        live = self.times[-1] if self.times and not self.of_time[self.times[-1]][1] else None
        if time >= (self.ended if live is None else live):
            closes = deletion if live is None else time > live
            self.ended = time if closes else self.ended
            vanishes = deletion and self.ended < time
        else:
            self.ended = live if live is not None and time >= self.ended else self.ended
            vanishes = False
        if vanishes:
            self.times.pop()
            return [*self.replaced.pop(time, []), self.of_time.pop(time)[0], place]
        if time in self.of_time:
            self.replaced.setdefault(time, []).append(self.of_time[time][0])
        else:
            insort(self.times, time)
        self.of_time[time] = place, deletion
        return []

    def as_of(self, time: int, bound: int) -> int:
        """The place of the newest version that is not newer than a time; below the bound the latest one alone."""
        at = bisect_right(self.times, time)
        if at == 0 or (time < bound and at < len(self.times)):
            return MISSING
        return self.of_time[self.times[at - 1]][0]
