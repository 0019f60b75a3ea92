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
from lakestreams.operators.arrays import MISSING, Matches
from lakestreams.operators.placed import Placed
from lakestreams.operators.records import TASK, TIME
from lakestreams.operators.stream_stream import kernel
from lakestreams.operators.stream_stream.rows import NOTHING, Rows, Window
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
    PerTask,
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
    rows = _rows(join, since, share)
    window = _window(join, rows)
    share.keep_for_results()
    return share, rows, window


def _window(join: Windowed, rows: Rows) -> Window:
    given = (join.before, join.after, join.grace)
    before, after, grace = (ms.of_tasks(rows.task) if isinstance(ms, PerTask) else ms for ms in given)
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
    return Rows(
        arm=arm,
        key=share.keys(),
        valued=np.where(arm == LEFT, share.not_null(LEFT_VALUE), share.not_null(RIGHT_VALUE)),
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
    for found in matches:
        for here in share.pieces(found.left, found.right):
            some = found.at(here)
            left, right = some.left, some.right
            time = np.maximum(rows.time[np.where(left < 0, right, left)], rows.time[np.where(right < 0, left, right)])
            yield share.results(some, time=pa.array(time))
