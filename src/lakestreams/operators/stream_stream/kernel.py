"""Windowed stream-stream join over arrays: inner, left and outer.

The law: a record pairs with the earlier records of the other side that have its key, lie inside its window and are
open, oldest first. A record of an outer side that found none comes out unmatched at the first record of its task that
moves the clock past its close, unless a pair came before. Clocks are running maxima over all records, null ones too.

Options. `strict`: what arrives after its close is late and takes no part. `kafka`: tasks never see each other, windows are
clipped at 0, what a record sees is bounded by the other side's own time, what comes out of order and finds nothing comes
out at once, and only records in order let others out. `eager`: whatever finds nothing comes out at once, as records
of outer sides without a key always do.

Source: Kafka Streams' KStreamKStreamJoin; semantics 3.1 to 3.7.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal

import numpy as np

from lakestreams.operators.arrays import MISSING, Matches
from lakestreams.operators.segments import Flags, Ints, Ranks, first_above, pieces, places, ranges, running, sorted_by
from lakestreams.operators.stream_stream.rows import LEFT, NOTHING, Judged, Rows, Window

AT_ONCE: Final = 400_000  # records whose partners are looked for at once, if their keys differ
PIECE: Final = 1 << 19  # pairs that are tried at once


def judge(rows: Rows, window: Window) -> Judged:
    """Clocks, and who takes part."""
    clock = running(rows.moves, rows.task)
    horizon = running(np.maximum(rows.horizon, rows.moves), rows.history)
    horizon = clock if (horizon == clock).all() else horizon  # in the memory of one
    is_left, part = rows.arm == LEFT, (rows.key >= 0) & rows.valued
    met = np.zeros_like(part), np.full(len(rows), len(rows))
    end = rows.time + np.where(is_left, window.after, window.before)
    close = end + window.grace
    if not window.kafka:
        late = part & (close < clock)
        return Judged(clock, horizon, clock, end, close, late, part & ~late, *met)
    stored = rows.key >= 0 if window.in_memory else part  # in memory a null value moves the side's time
    of_left = np.maximum(rows.left_time, np.where(stored & is_left, rows.time, NOTHING))
    of_right = np.maximum(rows.right_time, np.where(stored & ~is_left, rows.time, NOTHING))
    seen = np.where(is_left, running(of_right, rows.task), running(of_left, rows.task))
    return Judged(clock, horizon, seen, end, close, np.zeros_like(part), part, *met)


def match(rows: Rows, window: Window, ranks: Ranks) -> Iterator[Matches]:
    """The results of new records, in pieces.

    Of one trigger: those that it lets out, by (time, right before left, bytes of the key, order), in places up to -1; then
    its own from 0 on, by the partner's (time, order).
    """
    judged = judge(rows, window)
    yield from pairs(rows, judged, window)
    if any(window.outer):
        hurries, waits = unpaired(rows, judged, window)
        yield alone(rows, hurries, hurries, np.zeros_like(hurries))
        yield closed(rows, judged, window, waits, ranks)


def pairs(rows: Rows, judged: Judged, window: Window) -> Iterator[Matches]:
    """The pairs of new triggers, by trigger and the partner's (time, order); notes who meets whom."""
    for taking in _by_keys(rows, judged.taking):
        triggers, start, counts, partners = _candidates(rows, judged, window, taking)
        for here in pieces(counts, PIECE):
            trigger, partner = np.repeat(triggers[here], counts[here]), partners[ranges(start[here], counts[here])]
            meets = (partner < trigger) & _is_open(rows, judged, window, trigger, partner)
            trigger, partner = trigger[meets], partner[meets]
            judged.matched[trigger] = True
            earlier = trigger < judged.first[partner]  # triggers ascend, so backwards the first one is what stays
            judged.first[partner[earlier][::-1]] = trigger[earlier][::-1]
            wanted, is_left = rows.new[trigger], rows.arm[trigger] == LEFT
            left, right = np.where(is_left, trigger, partner), np.where(is_left, partner, trigger)
            yield Matches(left, right, trigger, places(trigger)).at(wanted)


def _by_keys(rows: Rows, taking: Flags) -> Iterator[Ints]:
    """The records that take part, some keys at a time, so that finding partners takes little memory unless one key is hot."""
    count = 1 + int(np.count_nonzero(taking)) // AT_ONCE
    part = (rows.key % count).astype(np.int16)
    for number in range(count):
        yield np.flatnonzero(taking & (part == number))


def _candidates(rows: Rows, judged: Judged, window: Window, taking: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """The triggers that may have partners, where these begin and how many they are; and those by (key, side, time)."""
    time, side = rows.time[taking], 2 * rows.key[taking] + rows.arm[taking]
    times = np.sort(time, kind="stable")
    size = len(times) + 1
    codes, other = side * size + np.searchsorted(times, time), (side ^ 1) * size
    by_key = np.argsort(codes, kind="stable")
    codes, partners = codes[by_key], taking[by_key]

    def reached(bound: Ints, edge: Literal["left", "right"]) -> Ints:
        found = np.empty_like(other)
        # neighbours are searched one after the other, which is several times faster than here and there
        found[by_key] = np.searchsorted(codes, (other + np.searchsorted(times, bound, edge))[by_key])
        return found

    before, after = (np.broadcast_to(one, len(rows))[taking] for one in (window.before, window.after))
    low = rows.time[taking] - np.where(rows.arm[taking] == LEFT, before, after)
    start = reached(np.maximum(low, 0) if window.kafka else low, "left")
    high = np.maximum(judged.end[taking], 0) if window.kafka else judged.end[taking]
    end = reached(np.minimum(high, judged.horizon[taking]), "right")  # nothing that came before is later than that
    triggers = np.flatnonzero((end > start) & (rows.new[taking] | any(window.outer)))
    return taking[triggers], start[triggers], (end - start)[triggers], partners


def _is_open(rows: Rows, judged: Judged, window: Window, trigger: Ints, partner: Ints) -> Flags:
    """Whether the window of both is still open to the trigger."""
    same: Flags = rows.task[trigger] == rows.task[partner]
    if window.kafka:
        kept = np.broadcast_to(np.asarray(window.before + window.after + window.grace), len(rows))
        same &= rows.time[partner] > judged.seen[trigger] - kept[trigger]
        return same
    # a key in two tasks is judged by the greatest clock, else a record could pair that its own task has let out
    now: Ints = np.where(same, judged.clock[trigger], judged.horizon[trigger])
    is_open: Flags = now <= np.minimum(judged.close[trigger], judged.close[partner])
    return is_open


def unpaired(rows: Rows, judged: Judged, window: Window) -> tuple[Ints, Ints]:
    """The new records of outer sides that come out at once, and all that wait."""
    outer = np.where(rows.arm == LEFT, *window.outer)
    keyless, waits = outer & (rows.key < 0) & rows.valued, judged.taking & outer & ~judged.matched
    hurries = np.zeros_like(waits)
    if window.eager:
        hurries = waits
    elif window.kafka:
        hurries = waits & (np.maximum(judged.end, 0) < judged.clock)
    return np.flatnonzero((keyless | hurries) & rows.new), np.flatnonzero(waits & ~hurries)


def closed(rows: Rows, judged: Judged, window: Window, waiting: Ints, ranks: Ranks) -> Matches:
    """The waiting records that new ones let out: the first one behind each that moves the clock past its close."""
    steps = np.flatnonzero((judged.taking | rows.tick) & (rows.time == judged.clock)) if window.kafka else None
    trigger = first_above(judged.clock, rows.task, rows.task[waiting], waiting + 1, judged.close[waiting], steps)
    comes = (trigger <= judged.first[waiting]) & np.append(rows.new, False)[trigger]
    waiting, trigger = waiting[comes], trigger[comes]
    # right before left, and the bytes of the key only where the rest is equal
    by = (trigger, rows.time[waiting], rows.arm[waiting] == LEFT)
    order = sorted_by(by, lambda tied: ranks(waiting[tied]))
    waiting, trigger = waiting[order], trigger[order]
    return alone(rows, waiting, trigger, -1 - places(trigger[::-1])[::-1])


def alone(rows: Rows, record: Ints, trigger: Ints, place: Ints) -> Matches:
    """Unmatched rows."""
    is_left = rows.arm[record] == LEFT
    return Matches(np.where(is_left, record, MISSING), np.where(is_left, MISSING, record), trigger, place)
