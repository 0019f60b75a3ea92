"""Stream-table join whose records look out, in a Python worker: Arrow columns to the kernel's arrays, its results to columns.

No session and no frame is known here; functions take the columns of `frames` and give batches.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from lakestreams.operators import arrays
from lakestreams.operators.placed import MISSING, Placed
from lakestreams.operators.records import AMENDED, CONTRIBUTORS, KEY, KIND, MATCHED, ORDER, PLACE, TASK, TIME, UNMATCHED
from lakestreams.operators.segments import running
from lakestreams.operators.stream_table_wait import kernel
from lakestreams.operators.stream_table_wait.kernel import Ends, Outcomes, Rows
from lakestreams.operators.windows import ARM, CLOCK, LEFT, LEFT_VALUE, MOVES, RIGHT_VALUE

if TYPE_CHECKING:
    from lakestreams.operators.stream_table_wait.options import WaitOptions
    from lakestreams.operators.workers import Columns

WAITED, UNTIL = "waited", "until"  # places where bounds end
CAME: Final = "came"  # of a row that counts records
EXPIRED: Final = "expired"  # of a record of an inner join that has waited for nothing
KEPT: Final = (KEY, LEFT_VALUE, TIME, ORDER, PLACE, KIND, CONTRIBUTORS, TASK, CLOCK)  # of a record that still looks out
_BEFORE_ALL: Final = -(1 << 62)  # a time


@dataclass(frozen=True)
class Options:
    """What a worker gets.

    Attributes:
        join: the join's.
        since: the first new cycle.
        wanted: the first cycle whose records are counted.
        with_records: whether results bring the places of their records.
    """

    join: WaitOptions
    since: int
    wanted: int
    with_records: bool = False


def joined(options: Options, columns: Columns) -> Iterator[Any]:
    """The results of rows that share tasks, or that share keys and bring the ends of their bounds; and a row that counts them."""
    share = _placed(options, columns)
    rows, kinds = (
        _rows(options, share),
        pa.array([MATCHED, UNMATCHED if options.join.how == "left" else EXPIRED, AMENDED]),
    )
    found = kernel.outcomes(rows, kernel.judge(rows, _ends(options, share, rows)))
    for here in share.pieces(found.record, found.row):
        one = Outcomes(*(each[here] for each in found))
        kind = kinds.take(pa.array(one.kind.astype(np.int8)))
        yield share.results(one.record, one.row, one.trigger, one.place, kind, with_records=options.with_records)
    yield _came(options, share, rows)


def looking_out(options: Options, columns: Columns) -> Iterator[Any]:
    """Of the same rows the records that still look out: `KEPT`."""
    share = _placed(options, columns)
    rows = _rows(options, share)
    found = kernel.looking_out(rows, kernel.judge(rows, _ends(options, share, rows)))
    clock = running(rows.moves, rows.task)
    for here in share.pieces(found, np.full_like(found, MISSING)):
        kept = share.rows(found[here], [name for name in KEPT if name != CLOCK])
        yield pa.RecordBatch.from_pydict({**kept, CLOCK: pa.array(clock[found[here]])})


def _placed(options: Options, columns: Columns) -> Placed:
    along = [name for name in (WAITED, UNTIL) if name in columns]
    return Placed(columns, along=along, right_first=options.join.overlap == "right_first")


def _ends(options: Options, share: Placed, rows: Rows) -> Ends:
    """Where bounds end: as it came along, else as all rows of the tasks tell."""
    known, own = share.along(), np.arange(len(rows))
    if not known:
        return kernel.ends(rows, options.join.wait, options.join.amend)
    return Ends(known.get(WAITED, own), known.get(UNTIL, own))


def _rows(options: Options, share: Placed) -> Rows:
    key = share.in_order(arrays.key_numbers(share.columns[KEY]), MISSING)
    is_left, is_row = share.ints(ARM) == LEFT, share.order < share.count
    left, right = (
        share.in_order(arrays.valid(share.columns[name]), otherwise=False) for name in (LEFT_VALUE, RIGHT_VALUE)
    )
    of_table = is_row & ~is_left & (key >= 0)
    return Rows(
        looks=is_row & is_left & left & ((options.join.how == "left") | (key >= 0)),
        row=of_table & right,
        deletion=of_table & ~right,
        key=key,
        time=share.ints(TIME),
        moves=share.ints(MOVES, _BEFORE_ALL),
        task=share.ints(TASK, MISSING),
        number=share.ints(PLACE),
        new=share.cycles() >= options.since,
    )


def _came(options: Options, share: Placed, rows: Rows) -> Any:
    """How many records have come, as a row of the kind `came`: its place is their number, all else is null."""
    count, none = np.count_nonzero(rows.looks & (share.cycles() >= options.wanted)), np.arange(0)
    like = share.results(none, none, none, none, pa.array([], pa.string()), with_records=options.with_records).schema
    made = {one.name: pa.nulls(1, one.type) for one in like}
    return pa.RecordBatch.from_pydict({**made, KIND: pa.array([CAME]), PLACE: pa.array([count], pa.int32())})
