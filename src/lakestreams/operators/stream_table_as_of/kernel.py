"""Stream-table join against a versioned table, over arrays: each record with the version valid at its event time, inner and left.

The law: a record is looked up at its trigger, among the versions of its key that the store has taken by then: it meets the
newest with ts <= its own, and a tombstone there is a miss. A record below the history's bound (store time at the trigger -
history) meets its key's latest version alone, if that is not newer than the record.
With grace g its trigger is the first record of its task, from itself on, with which the stream's time reaches its ts + g; without
grace, or without a key, it is itself.

What the store takes is the law of `versioned_table`. Where a key's versions came in the order of their times, they are found by
two searches. Those of other keys are put one after the other, as Kafka does, which costs some microseconds each.

Source: Kafka Streams' KStreamKTableJoinProcessor, RocksDBVersionedStore (KIP-889, KIP-914), KIP-923; semantics 4, 4.1 and 7.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lakestreams.operators.arrays import MISSING, Matches
from lakestreams.operators.segments import Flags, Ints, Ranks, first_above, groups, places, running, sorted_by
from lakestreams.operators.versioned_table.kernel import NEVER, Store, Versions, puts


@dataclass(frozen=True)
class Rows(Versions):
    """Records of the stream and versions of the table in the total order.

    Places of triggers can stand among them without being one: without a key, and nothing of what the flags say.
    """

    looks: Flags  # a record of the stream
    keeps_time: Flags  # a record with a key, or a tick
    number: Ints  # among the rows of its source record
    new: Flags


class Asked(NamedTuple):
    """Places of records and of their triggers, and the time below which the table's history does not reach then."""

    record: Ints
    trigger: Ints
    bound: Ints


def triggers(rows: Rows, grace: Ints) -> Ints:
    """Where each row that looks comes out, under grace; the number of rows: not yet."""
    found, looking = np.arange(len(rows)), np.flatnonzero(rows.looks & (rows.key >= 0))
    stream_time = running(np.where(rows.keeps_time, rows.time, NEVER), rows.task)
    reaches = rows.time[looking] + grace[looking] - 1
    of_time = np.flatnonzero(rows.keeps_time)
    found[looking] = first_above(stream_time, rows.task, rows.task[looking], looking, reaches, of_time)
    return found


def results(rows: Rows, taken: Flags, asked: Asked, ranks: Ranks | None) -> Matches:
    """What new triggers give: records with the versions that they meet.

    Args:
        taken: the versions that the store takes.
        ranks: under grace: then results are placed by (time, bytes of the key, order) among those of their trigger. None: each
            has the place that it came with.
    """
    wanted = np.append(rows.new, False)[asked.trigger]
    record, trigger, bound = (one[wanted] for one in asked)
    row = _met(rows, np.flatnonzero(taken), Asked(record, trigger, bound))
    row = np.where(np.append(rows.deletion, False)[row], MISSING, row)
    if ranks is None:
        return Matches(record, row, trigger, rows.number[record])
    order = sorted_by((trigger, rows.time[record]), lambda tied: ranks(record[tied]))
    record, row, trigger = record[order], row[order], trigger[order]
    return Matches(record, row, trigger, places(trigger))


def _met(rows: Rows, version: Ints, asked: Asked) -> Ints:
    """The version that each record meets, deletions among them; MISSING: none."""
    version = version[np.argsort(rows.key[version], kind="stable")]  # by key and place
    key, time = rows.key[version], rows.time[version]
    same, dead = key[1:] == key[:-1], rows.deletion[version]
    late, vanishes = time[1:] < time[:-1], (time[1:] == time[:-1]) & dead[1:] & ~dead[:-1]
    is_odd = np.zeros(len(rows) + 2, bool)  # by key; the last one is that of no key
    is_odd[key[1:][same & (late | vanishes)]] = True
    plain, odd = version[~is_odd[key]], version[is_odd[key]]
    found = _searched(rows, plain, asked)
    asks = np.flatnonzero(is_odd[rows.key[asked.record]])
    found[asks] = _in_turn(rows, odd, Asked(*(one[asks] for one in asked)))
    return found


def _searched(rows: Rows, version: Ints, asked: Asked) -> Ints:
    """The same where the versions of a key, by place, ascend in their times too.

    So those that came before the trigger are the first ones of the key, and those that are not newer are, too: of the last ones of
    both the earlier one is in both. The last one that came is the latest.
    """
    record, trigger, bound = asked
    key, time = rows.key[record], rows.time[record]
    keys, times = rows.key[version], np.sort(rows.time[version])
    size, span = len(rows) + 1, len(times) + 1
    ranked = np.searchsorted(times, rows.time[version]) + 1
    came = np.searchsorted(keys * size + version, key * size + trigger) - 1
    in_time = np.searchsorted(keys * span + ranked, key * span + np.searchsorted(times, time, "right"), "right") - 1
    last = np.minimum(came, in_time)
    there = np.append(keys, MISSING - 1)[last] == key
    there &= (time >= bound) | (last == came)  # below the bound the latest one alone
    return np.where(there, np.append(version, MISSING)[last], MISSING)


def _in_turn(rows: Rows, version: Ints, asked: Asked) -> Ints:
    """The same, by putting versions one after the other."""
    record, trigger, bound = asked
    found = np.full(len(record), MISSING)
    asks = dict(groups(rows.key[record]))
    for key, mine in groups(rows.key[version]):
        store, coming = Store(), puts(rows, version[mine])
        due = asks.get(key, mine[:0])
        due = due[np.argsort(trigger[due], kind="stable")]
        ahead = next(coming, None)
        for number, at, least in zip(due.tolist(), trigger[due].tolist(), bound[due].tolist(), strict=True):
            while ahead is not None and ahead[0] < at:
                store.put(*ahead)
                ahead = next(coming, None)
            found[number] = store.as_of(int(rows.time[record[number]]), least)
    return found
