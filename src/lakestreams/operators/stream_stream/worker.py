"""Windowed stream-stream join in a Python worker: Arrow columns to the kernel's arrays, its results to columns.

No session and no frame is known here; functions take the join's options, the first new cycle (`since`) and the columns of
`frames`, and give batches.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from lakestreams.operators import arrays
from lakestreams.operators.records import CONTRIBUTORS, KEY, KIND, MATCHED, ORDER, PLACE, TASK, TIME, UNMATCHED
from lakestreams.operators.stream_stream import kernel
from lakestreams.operators.stream_stream.rows import MISSING, NOTHING, Matches, Rows, Window
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
    TURN,
    Windowed,
)

if TYPE_CHECKING:
    from lakestreams.operators.segments import Ints
    from lakestreams.operators.workers import Columns

TICK: Final = "tick"  # whether a row only moves clocks


class _Share:
    """Rows, in their order and as they came.

    Attributes:
        rows, window: what the kernel takes.
        order: the rows' numbers in the columns, by their places in the order.
        sizes: about how many bytes each row has, by its number.
    """

    def __init__(self, join: Windowed, since: int, columns: Columns) -> None:
        self._join = join
        rank, place = self._rank(columns[ARM]), arrays.ints(columns[PLACE])
        turns = (place, rank) if join.interleaved else (rank, place)
        self._numbers = np.append(arrays.total_order(columns[ORDER], *turns), MISSING)  # the last one of none
        self.order = self._numbers[:-1]
        self.window = self._window(columns)
        self.rows = self._rows(since, columns)
        self._columns = {
            name: columns[name] for name in (KEY, LEFT_VALUE, RIGHT_VALUE, ORDER, CONTRIBUTORS, ARM, PLACE)
        }
        values = (columns[name] for name in (KEY, LEFT_VALUE, RIGHT_VALUE))
        self.sizes = np.append(sum(map(arrays.sizes, values)), 0)  # the last one of none

    def ranks(self, among: Ints) -> Ints:
        """Numbers in the order of the keys' bytes."""
        return arrays.key_ranks(arrays.take(self._columns[KEY], self.order[among]))

    def results(self, matches: Iterator[Matches]) -> Iterator[Any]:
        """Matches as batches of columns."""
        for found in matches:
            sizes = self.sizes[self._numbers[found.left]] + self.sizes[self._numbers[found.right]]
            for here in arrays.batches(sizes):
                yield self._batch(*(one[here] for one in found))

    def _ints(self, column: Any, null: int = 0) -> Ints:
        if column is None:
            return np.broadcast_to(np.int64(null), len(self.order))
        return arrays.as_one(arrays.ints(column, null)[self.order])

    def _window(self, columns: Columns) -> Window:
        join = self._join
        before, after, grace = (self._ints(columns[name]) if join.varies else getattr(join, name) for name in TIMES)
        return Window(
            before,
            after,
            grace,
            outer=(LEFT in join.outer_sides, RIGHT in join.outer_sides),
            kafka=join.rules == "kafka",
            eager=join.emit == "eager",
            in_memory=join.store == "in_memory",
        )

    def _rows(self, since: int, columns: Columns) -> Rows:
        arm, task = self._ints(columns[ARM]).astype(np.int8), self._ints(columns[TASK])
        values = (arrays.valid(columns[name])[self.order] for name in (LEFT_VALUE, RIGHT_VALUE))
        return Rows(
            arm=arm,
            key=arrays.key_numbers(columns[KEY])[self.order],
            valued=np.where(arm == LEFT, *values),
            time=self._ints(columns[TIME]),
            moves=self._ints(columns[MOVES]),
            task=task,
            history=arrays.as_one(task // self._join.realm),
            tick=self._ints(columns[TICK]) > 0,
            new=arrays.ints(columns[ORDER].field("cycle"))[self.order] >= since,
            left_time=self._ints(columns.get(LEFT_TIME), NOTHING),
            right_time=self._ints(columns.get(RIGHT_TIME), NOTHING),
            horizon=self._ints(columns.get(HORIZON), NOTHING),
        )

    def _rank(self, arm: Any) -> Ints:
        """Which of its sides comes first where a source record is on both."""
        return 1 - arrays.ints(arm) if self._join.overlap == "right_first" else arrays.ints(arm)

    def _turns(self, numbers: Ints) -> Ints:
        """The turns of rows among those of their source records."""
        arm, place = (self._columns[name].take(pa.array(numbers)) for name in (ARM, PLACE))
        rank, place = self._rank(arm), arrays.ints(place)
        return place * 2 + rank if self._join.interleaved else (rank << 32) + place

    def _batch(self, left: Ints, right: Ints, trigger: Ints, place: Ints) -> Any:
        """Results of records at these places."""
        columns = self._columns
        has_left, has_right, time = left >= 0, right >= 0, self.rows.time
        latest = np.maximum(time[np.where(has_left, left, right)], time[np.where(has_right, right, left)])
        left, right, trigger = self._numbers[left], self._numbers[right], self._numbers[trigger]
        made = {
            KEY: arrays.take(columns[KEY], np.where(has_left, left, right)),
            LEFT_VALUE: arrays.take(columns[LEFT_VALUE], left),
            RIGHT_VALUE: arrays.take(columns[RIGHT_VALUE], right),
            TIME: pa.array(latest),
            ORDER: arrays.take(columns[ORDER], trigger),
            CONTRIBUTORS: arrays.contributors(columns[CONTRIBUTORS], columns[ORDER], left, right),
            PLACE: pa.array(place, pa.int32()),
            KIND: pa.array([UNMATCHED, MATCHED]).take(pa.array((has_left & has_right).astype(np.int8))),
            TURN: pa.array(self._turns(trigger)),
        }
        return pa.RecordBatch.from_pydict(made)


def joined(join: Windowed, since: int, columns: Columns) -> Iterator[Any]:
    """All results of rows that share tasks."""
    share = _Share(join, since, columns)
    del columns  # what no result needs is free from here on
    yield from share.results(kernel.match(share.rows, share.window, share.ranks))


def met(join: Windowed, since: int, columns: Columns) -> Iterator[Any]:
    """Of rows that share keys and bring their clocks: the results that wait for nothing."""
    share = _Share(join, since, columns)
    del columns
    rows, window, judged = share.rows, share.window, kernel.judge(share.rows, share.window)
    yield from share.results(kernel.pairs(rows, judged, window))
    hurries, _ = kernel.unpaired(rows, judged, window)
    yield from share.results(iter([kernel.alone(rows, hurries, hurries, np.zeros_like(hurries))]))


def waiting(join: Windowed, since: int, columns: Columns) -> Iterator[Any]:
    """Of rows that share keys and bring their clocks: those that wait for time to let them out, as they came."""
    share = _Share(join, since, columns)
    rows, window, judged = share.rows, share.window, kernel.judge(share.rows, share.window)
    deque(kernel.pairs(rows, judged, window), maxlen=0)
    _, waits = kernel.unpaired(rows, judged, window)
    numbers = share.order[waits[judged.first[waits] == len(rows)]]
    for here in arrays.batches(share.sizes[numbers]):
        made = {name: arrays.take(column, numbers[here]) for name, column in columns.items()}
        yield pa.RecordBatch.from_pydict(made)


def let_out(join: Windowed, since: int, columns: Columns) -> Iterator[Any]:
    """Of rows that share tasks: the results of those that wait; all others have lost key and value."""
    share = _Share(join, since, columns)
    del columns
    rows, window, judged = share.rows, share.window, kernel.judge(share.rows, share.window)
    yield from share.results(iter([kernel.closed(rows, judged, window, np.flatnonzero(judged.taking), share.ranks)]))
