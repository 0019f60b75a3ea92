"""Stream-table join whose records look out, in a Python worker: Arrow columns to the kernel's arrays, its results to columns.

No session and no frame is known here; functions take the columns of `frames` and give batches.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from lakestreams.operators.arrays import MISSING
from lakestreams.operators.placed import Placed, taken
from lakestreams.operators.records import AMENDED, CONTRIBUTORS, KEY, KIND, MATCHED, ORDER, PLACE, TASK, TIME, UNMATCHED
from lakestreams.operators.segments import running
from lakestreams.operators.stream_table_wait import kernel
from lakestreams.operators.stream_table_wait.kernel import Ends, Judged, Rows
from lakestreams.operators.windows import ARM, CLOCK, LEFT, LEFT_VALUE, MOVES, RIGHT_VALUE, Windowed
from lakestreams.operators.workers import Shares

if TYPE_CHECKING:
    from lakestreams.operators.workers import Columns
    from lakestreams.topology.kinds import JoinKind, Overlap

WAITED, UNTIL = "waited", "until"  # places where bounds end
CAME: Final = "came"  # of a row that counts records
EXPIRED: Final = "expired"  # of a record of an inner join that has waited for nothing
KEPT: Final = (KEY, LEFT_VALUE, TIME, ORDER, PLACE, KIND, CONTRIBUTORS, TASK, CLOCK)  # of a record that still looks out
_BEFORE_ALL: Final = -(1 << 62)  # a time


@dataclass(frozen=True)
class WaitOptions(Shares):
    """The options of the join. Times are in ms.

    Attributes:
        wait: how long a record waits for a row, or None.
        amend: how long a result without a row can be put right, or None; of a left join.
        overlap: whether both sides hold rows of one source record, and whose come first.
        multi_row: whether a side holds several rows of one source record.
        ascending: of the clocks (see `windows.Windowed`).
    """

    how: JoinKind
    wait: int | None
    amend: int | None
    overlap: Overlap = "none"
    multi_row: bool = False
    ascending: bool = False

    @property
    def clocks(self) -> Windowed:
        """The sides as a windowed join has them: for their places, and their tasks' clocks over the records of both."""
        return Windowed("left", 0, 0, overlap=self.overlap, realm=self.realm, ascending=self.ascending)


def joined(
    join: WaitOptions, since: int, columns: Columns, *, wanted: int, with_records: bool = False
) -> Iterator[Any]:
    """The results of rows that share tasks, or that share keys and bring the ends of their bounds; and a row that counts them.

    Args:
        wanted: the first cycle whose records are counted.
        with_records: whether results bring the places of their records.
    """
    share, rows, judged = _judged(join, since, columns)
    kinds = pa.array([MATCHED, UNMATCHED if join.how == "left" else EXPIRED, AMENDED])
    found, kind = kernel.outcomes(rows, judged)
    for here in share.pieces(found.left, found.right):
        yield share.results(found.at(here), kinds.take(pa.array(kind[here])), with_records=with_records)
    # how many records have come, as a row of the kind `came`: its place is their number, all else is null
    count = np.count_nonzero(rows.looks & (share.cycles() >= wanted))
    like = share.results(found.at(slice(0)), pa.array([], pa.string()), with_records=with_records).schema
    made = {one.name: pa.nulls(1, one.type) for one in like}
    yield pa.RecordBatch.from_pydict({**made, KIND: pa.array([CAME]), PLACE: pa.array([count], pa.int32())})


def looking_out(join: WaitOptions, since: int, columns: Columns) -> Iterator[Any]:
    """Of the same rows the records that still look out: `KEPT`."""
    share, rows, judged = _judged(join, since, columns)
    found = kernel.looking_out(rows, judged)
    clock = running(rows.moves, rows.task)
    for here in share.pieces(found, np.full_like(found, MISSING)):
        kept = taken(columns, share.order[found[here]], [name for name in KEPT if name != CLOCK])
        yield pa.RecordBatch.from_pydict({**kept, CLOCK: pa.array(clock[found[here]])})


def _judged(join: WaitOptions, since: int, columns: Columns) -> tuple[Placed, Rows, Judged]:
    """Rows in their order, what the kernel takes of them, and what becomes of the records that look."""
    along = [name for name in (WAITED, UNTIL) if name in columns]
    share = Placed(columns, along=along, right_first=join.overlap == "right_first")
    rows = _rows(join, since, share)
    if along:
        known, own = share.along(), np.arange(len(rows))
        ends = Ends(known.get(WAITED, own), known.get(UNTIL, own))
    else:
        ends = kernel.ends(rows, join.wait, join.amend)
    return share, rows, kernel.judge(rows, ends)


def _rows(join: WaitOptions, since: int, share: Placed) -> Rows:
    key, is_left, is_row = share.keys(), share.ints(ARM) == LEFT, share.order < share.count
    left, right = share.not_null(LEFT_VALUE), share.not_null(RIGHT_VALUE)
    of_table = is_row & ~is_left & (key >= 0)
    return Rows(
        looks=is_row & is_left & left & ((join.how == "left") | (key >= 0)),
        row=of_table & right,
        deletion=of_table & ~right,
        key=key,
        time=share.ints(TIME),
        moves=share.ints(MOVES, _BEFORE_ALL),
        task=share.ints(TASK, MISSING),
        number=share.ints(PLACE),
        new=share.cycles() >= since,
    )
