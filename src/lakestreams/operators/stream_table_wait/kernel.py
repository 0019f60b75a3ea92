"""Stream-table join whose records look out for rows that come after them, over arrays: `wait` and `amend`, inner and left.

The law: a record that meets no row of its key at its place in the order (see `stream_table`) looks out for the first row
of its key, deletions aside, that comes before the task's clock passes its time and a bound. `wait`: it has one outcome,
either that row at the row's place, or none at the record that moved the clock past the bound: then it comes out without a
row (left) or has expired (inner). `amend` (left): a record that has come out without a row is put right by that row, in a
second result of the kind `amended`, at the row's place.

Source: DESIGN section 1; Kafka Streams has no such choice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lakestreams.operators.arrays import MISSING, Matches
from lakestreams.operators.segments import Flags, Ints, first_above, places, running

MET, ALONE, PUT_RIGHT = 0, 1, 2  # kinds of results: with a row, without one, amended


@dataclass(frozen=True)
class Rows:
    """Records of the stream and rows of the table, as they were before and as they change, in the total order.

    A place in it names one; the number of all is no place. Places where bounds end can stand among them without being one:
    without a key, and nothing of what the flags say.
    """

    looks: Flags  # a record of the stream, with a value
    row: Flags  # a row of the table, with a key
    deletion: Flags  # of a row, with a key
    key: Ints  # equal numbers for equal keys; -1: null
    time: Ints
    moves: Ints  # what it moves its task's clock to
    task: Ints
    number: Ints  # among the rows of its source record
    new: Flags

    def __len__(self) -> int:
        return len(self.time)


class Ends(NamedTuple):
    """Where the clock has passed the bounds of each, at the earliest at its own place."""

    waited: Ints  # it waits no longer; without a wait its own place
    until: Ints  # it is put right no longer; without amendments its own place


class Judged(NamedTuple):
    """What becomes of the records that look."""

    record: Ints
    before: Ints  # the row of its key that it meets at its own place; MISSING: none
    behind: Ints  # the first row of its key behind it
    waited: Ints
    until: Ints
    unmet: Flags  # whether it met no row at its place
    met: Flags  # whether a row came while it waited
    expired: Flags  # whether it has waited for nothing
    put_right: Flags  # whether a row came after that, in time


def ends(rows: Rows, wait: int | None, amend: int | None) -> Ends:
    """The ends of bounds, in ms; None: there is no such bound."""
    clock, looking = running(rows.moves, rows.task), np.flatnonzero(rows.looks)
    found = np.arange(len(rows)), np.arange(len(rows))
    for bound, at in zip((wait, amend), found, strict=True):
        if bound is not None:
            at[looking] = first_above(clock, rows.task, rows.task[looking], looking, rows.time[looking] + bound)
    return Ends(*found)


def judge(rows: Rows, ends: Ends) -> Judged:
    """What becomes of each record that looks; what has no key can meet nothing, and is given up at once."""
    record = np.flatnonzero(rows.looks)
    before, _ = _around(rows, np.flatnonzero(rows.row | rows.deletion), record)
    before = np.where(np.append(rows.row, False)[before], before, MISSING)
    _, behind = _around(rows, np.flatnonzero(rows.row), record)
    waited, until = np.where(rows.key[record] < 0, record, ends.waited[record]), ends.until[record]
    unmet = ~rows.new[record] | (before < 0)
    met = unmet & (behind < waited)
    expired = unmet & ~met & (waited < len(rows))
    put_right = expired & (behind >= waited) & (behind < until)
    return Judged(record, before, behind, waited, until, unmet, met, expired, put_right)


def outcomes(rows: Rows, judged: Judged) -> tuple[Matches, Ints]:
    """The results of new triggers, records with their rows; and the kind of each.

    Places among a trigger's results: its own has the number that it came with. What its time closes stands below 0, the last
    one at -1, or at -2 where the trigger itself is closed at once; what meets it ascends from 0.
    """
    none = np.full(len(judged.record), MISSING)
    possible = [
        (~judged.unmet, judged.record, judged.before, MET),
        (judged.met, judged.behind, judged.behind, MET),
        (judged.expired, judged.waited, none, ALONE),
        (judged.put_right, judged.behind, judged.behind, PUT_RIGHT),
    ]
    record, trigger, row = (
        np.concatenate(parts)
        for parts in zip(*((judged.record[when], at[when], met[when]) for when, at, met, _ in possible), strict=True)
    )
    kind = np.repeat([one for *_, one in possible], [np.count_nonzero(when) for when, *_ in possible])
    wanted = rows.new[trigger]
    record, trigger, row, kind = (one[wanted] for one in (record, trigger, row, kind))
    closed = kind == ALONE
    order = np.lexsort((np.where(closed, -record, record), closed, trigger))
    record, trigger, row, kind, closed = (one[order] for one in (record, trigger, row, kind, closed))
    turn = places(trigger * 2 + closed)
    place = np.where(trigger == record, rows.number[record], np.where(closed, -1 - turn, turn))
    return Matches(record, row, trigger, place), kind


def looking_out(rows: Rows, judged: Judged) -> Ints:
    """The records that may still meet a row, or come out without one."""
    open_ = (judged.waited == len(rows)) | ((judged.until == len(rows)) & ~judged.put_right)
    looking: Ints = judged.record[(rows.key[judged.record] >= 0) & judged.unmet & ~judged.met & open_]
    return looking


def _around(rows: Rows, among: Ints, record: Ints) -> tuple[Ints, Ints]:
    """Of those among some that have its key: the last one before each record, or MISSING; the first one behind it."""
    size = len(rows) + 1
    by_key = among[np.argsort(rows.key[among], kind="stable")]
    behind = np.searchsorted(rows.key[by_key] * size + by_key, rows.key[record] * size + record)
    found = np.concatenate([[MISSING], by_key, [len(rows)]])
    keys = np.concatenate([[MISSING - 1], rows.key[by_key], [MISSING - 1]])
    has_before, has_behind = (keys[at] == rows.key[record] for at in (behind, behind + 1))
    return np.where(has_before, found[behind], MISSING), np.where(has_behind, found[behind + 1], len(rows))
