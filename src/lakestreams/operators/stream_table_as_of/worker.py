"""Stream-table join against a versioned table, in a Python worker: Arrow columns to the kernel's arrays, its results to columns.

No session and no frame is known here; functions take the columns of `frames` and give batches.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lakestreams.operators.arrays import MISSING
from lakestreams.operators.placed import Placed
from lakestreams.operators.records import PLACE, TASK, TIME
from lakestreams.operators.stream_table_as_of import kernel
from lakestreams.operators.stream_table_as_of.kernel import Asked, Rows
from lakestreams.operators.versioned_table.kernel import bounds
from lakestreams.operators.versioned_table.worker import HISTORY
from lakestreams.operators.windows import ARM, LEFT, RIGHT_VALUE

if TYPE_CHECKING:
    from lakestreams.operators.workers import Columns

GRACE: Final = "grace"  # ms
MOVES_TIME: Final = "moves_time"  # whether a row without a key only moves a clock
BOUND, COMES_AT = "bound", "comes_at"  # of a record: the history's bound at its trigger, and the place of that


@dataclass(frozen=True)
class Options:
    """What a worker gets.

    Attributes:
        is_left: whether a record that meets no version comes out without one.
        waits: whether there is a grace.
        right_first: the order of rows that one source record has on both sides.
        with_records: whether results bring the places of their records.
    """

    is_left: bool
    waits: bool
    since: int
    right_first: bool
    with_records: bool = False


def joined(options: Options, columns: Columns) -> Iterator[Any]:
    """The results of rows that share tasks, or that share keys: then records bring their bounds and triggers."""
    share = Placed(columns, along=[COMES_AT] if COMES_AT in columns else [], right_first=options.right_first)
    rows = _rows(options, share)
    taken, asked = _asked(options, share, rows)
    placed = options.waits and not options.with_records  # else Spark does it, over all keys
    found = kernel.results(rows, taken, asked, share.ranks if placed else None)
    if not options.is_left:
        found = found.at(found.right >= 0)
    for here in share.pieces(found.left, found.right):
        yield share.results(found.at(here), with_records=options.with_records)


def _asked(options: Options, share: Placed, rows: Rows) -> tuple[Any, Asked]:
    """The versions that the store takes, and what is looked up in it."""
    record = np.flatnonzero(rows.looks)
    if BOUND in share.columns:  # of versions come only those that are taken
        trigger = share.along().get(COMES_AT, np.arange(len(rows)))[record]
        return rows.version, Asked(record, trigger, share.ints(BOUND)[record])
    bound = bounds(rows, share.ints(HISTORY))
    trigger = kernel.triggers(rows, share.ints(GRACE))[record] if options.waits else record
    return rows.version & (rows.time >= bound), Asked(record, trigger, np.append(bound, 0)[trigger])


def _rows(options: Options, share: Placed) -> Rows:
    key = share.keys()
    is_left, is_row, moves_time = share.ints(ARM) == LEFT, share.order < share.count, share.ints(MOVES_TIME) > 0
    of_stream, of_table = is_row & is_left, is_row & ~is_left
    # of a place that came along all numbers are 0, so it would be one of the left side
    return Rows(
        looks=of_stream & ~moves_time & (options.is_left | (key >= 0)),
        keeps_time=of_stream & ((key >= 0) | moves_time),
        version=of_table & (key >= 0),
        clock=of_table & moves_time,
        deletion=of_table & ~share.not_null(RIGHT_VALUE),
        key=key,
        time=share.ints(TIME),
        task=share.ints(TASK, MISSING),
        number=share.ints(PLACE),
        new=share.cycles() >= options.since,
    )
