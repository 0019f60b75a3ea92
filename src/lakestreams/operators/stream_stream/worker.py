"""Windowed stream-stream join in a Python worker: Arrow columns to the kernel's arrays, its results to columns.

No session and no frame is known here; functions take the join's options, the first new cycle (`since`) and the columns of
`frames`, and give batches.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from lakestreams.operators import arrays
from lakestreams.operators.placed import MISSING, Placed
from lakestreams.operators.records import KEY, MATCHED, TASK, TIME, UNMATCHED
from lakestreams.operators.stream_stream import kernel
from lakestreams.operators.stream_stream.rows import NOTHING, Matches, Rows, Window
from lakestreams.operators.windows import (
    ARM,
    HORIZON,
    LEFT,
    LEFT_TIME,
    LEFT_VALUE,
    MOVES,
    RIGHT,
    RIGHT_TIME,
    RIGHT_VALUE,
    TIMES,
    Windowed,
)

if TYPE_CHECKING:
    from lakestreams.operators.workers import Columns

TICK: Final = "tick"  # whether a row only moves clocks


def joined(join: Windowed, since: int, columns: Columns) -> Iterator[Any]:
    """All results of rows that share tasks."""
    share, rows, window = _placed(join, since, columns)
    del columns  # what no result needs is free from here on
    yield from _results(share, rows, kernel.match(rows, window, share.ranks))


def met(join: Windowed, since: int, columns: Columns) -> Iterator[Any]:
    """Of rows that share keys and bring their clocks: the results that wait for nothing."""
    share, rows, window = _placed(join, since, columns)
    del columns
    judged = kernel.judge(rows, window)
    yield from _results(share, rows, kernel.pairs(rows, judged, window))
    hurries, _ = kernel.unpaired(rows, judged, window)
    yield from _results(share, rows, [kernel.alone(rows, hurries, hurries, np.zeros_like(hurries))])


def waiting(join: Windowed, since: int, columns: Columns) -> Iterator[Any]:
    """Of rows that share keys and bring their clocks: those that wait for time to let them out, as they came."""
    share, rows, window = _placed(join, since, columns)
    judged = kernel.judge(rows, window)
    deque(kernel.pairs(rows, judged, window), maxlen=0)
    _, waits = kernel.unpaired(rows, judged, window)
    waits = waits[judged.first[waits] == len(rows)]
    for here in share.pieces(waits, np.full_like(waits, MISSING)):
        numbers = share.order[waits[here]]
        yield pa.RecordBatch.from_pydict({name: arrays.take(column, numbers) for name, column in columns.items()})


def let_out(join: Windowed, since: int, columns: Columns) -> Iterator[Any]:
    """Of rows that share tasks: the results of those that wait; all others have lost key and value."""
    share, rows, window = _placed(join, since, columns)
    del columns
    judged = kernel.judge(rows, window)
    yield from _results(share, rows, [kernel.closed(rows, judged, window, np.flatnonzero(judged.taking), share.ranks)])


def _placed(join: Windowed, since: int, columns: Columns) -> tuple[Placed, Rows, Window]:
    """Rows in their order, and what the kernel takes of them."""
    share = Placed(columns, right_first=join.overlap == "right_first", interleaved=join.interleaved)
    rows, window = _rows(join, since, share), _window(join, share)
    share.keep_for_results()
    return share, rows, window


def _window(join: Windowed, share: Placed) -> Window:
    before, after, grace = (share.ints(name) if join.varies else getattr(join, name) for name in TIMES)
    return Window(
        before,
        after,
        grace,
        outer=(LEFT in join.outer_sides, RIGHT in join.outer_sides),
        kafka=join.rules == "kafka",
        eager=join.emit == "eager",
        in_memory=join.store == "in_memory",
    )


def _rows(join: Windowed, since: int, share: Placed) -> Rows:
    arm, task = share.ints(ARM).astype(np.int8), share.ints(TASK)
    values = (arrays.valid(share.columns[name])[share.order] for name in (LEFT_VALUE, RIGHT_VALUE))
    return Rows(
        arm=arm,
        key=arrays.key_numbers(share.columns[KEY])[share.order],
        valued=np.where(arm == LEFT, *values),
        time=share.ints(TIME),
        moves=share.ints(MOVES),
        task=task,
        history=arrays.as_one(task // join.realm),
        tick=share.ints(TICK) > 0,
        new=share.cycles() >= since,
        left_time=share.ints(LEFT_TIME, NOTHING),
        right_time=share.ints(RIGHT_TIME, NOTHING),
        horizon=share.ints(HORIZON, NOTHING),
    )


def _results(share: Placed, rows: Rows, matches: Iterable[Matches]) -> Iterator[Any]:
    """Matches as batches of columns; their time is the later one of both sides."""
    kinds = pa.array([UNMATCHED, MATCHED])
    for found in matches:
        for here in share.pieces(found.left, found.right):
            left, right, trigger, place = (one[here] for one in found)
            has_left, has_right = left >= 0, right >= 0
            time = np.maximum(rows.time[np.where(has_left, left, right)], rows.time[np.where(has_right, right, left)])
            kind = kinds.take(pa.array((has_left & has_right).astype(np.int8)))
            yield share.results(left, right, trigger, place, kind, pa.array(time))
