"""A versioned table's store in a Python worker: Arrow columns of records to the kernel's arrays, and records back.

No session and no frame is known here; functions take the columns of `frames` and give batches of those of the records.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakestreams.operators import arrays
from lakestreams.operators.arrays import MISSING
from lakestreams.operators.placed import taken
from lakestreams.operators.records import CONTRIBUTORS, KEY, KIND, ORDER, PLACE, TASK, TIME, VALUE
from lakestreams.operators.versioned_table import kernel
from lakestreams.operators.versioned_table.kernel import Versions

if TYPE_CHECKING:
    from lakestreams.operators.segments import Ints
    from lakestreams.operators.workers import Columns

HISTORY: Final = "history"  # ms; where it is missing, only versions come that are taken
REACHED: Final = "reached"  # what the history still reaches
CLOCK_KIND: Final = "clock"  # of a row that stands for a task's store time only, by its ts; key and value are null
_OF_CLOCKS: Final = (TIME, ORDER, PLACE, CONTRIBUTORS, TASK)


def latest_only(columns: Columns) -> Iterator[Any]:
    """The versions that readers of the latest get."""
    table = _Table(columns)
    yield from table.batches(np.flatnonzero(kernel.judge(table.rows, table.taken).newest))


def kept(realm: int | None, columns: Columns) -> Iterator[Any]:
    """What still matters, and `clock` rows.

    Args:
        realm: for lookups as of a time: see `kernel.reached`. None: readers get the latest only.
    """
    table, bound = _Table(columns), None
    if realm is not None:
        bound = table.ints(REACHED) if REACHED in columns else kernel.reached(table.rows, table.ints(HISTORY), realm)
    remaining = table.taken[~kernel.judge(table.rows, table.taken).vanished[table.taken]]
    yield from table.batches(kernel.retained(table.rows, remaining, bound))
    yield table.clocks()


class _Table:
    """A table's rows in their order."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self.names = [name for name in columns if name not in (HISTORY, REACHED)]
        self.order = arrays.total_order(columns[ORDER], arrays.ints(columns[PLACE]))
        key = arrays.key_numbers(columns[KEY])[self.order]
        is_clock = pc.equal(columns[KIND], CLOCK_KIND)
        self.rows = Versions(
            version=key >= 0,
            clock=arrays.ints(is_clock)[self.order] > 0,
            deletion=~arrays.valid(columns[VALUE])[self.order],
            key=key,
            time=self.ints(TIME),
            task=self.ints(TASK),
        )
        is_taken = self.rows.version
        if HISTORY in columns:
            is_taken = is_taken & (self.rows.time >= kernel.bounds(self.rows, self.ints(HISTORY)))
        self.taken = np.flatnonzero(is_taken)

    def ints(self, name: str) -> Ints:
        return arrays.ints(self.columns[name])[self.order]

    def batches(self, places: Ints) -> Iterator[Any]:
        """Rows as they came."""
        numbers = self.order[places]
        for here in arrays.batches((arrays.sizes(self.columns[KEY]) + arrays.sizes(self.columns[VALUE]))[numbers]):
            yield pa.RecordBatch.from_pydict(taken(self.columns, numbers[here], self.names))

    def clocks(self) -> Any:
        """A row a task that stands for its store time."""
        numbers = self.order[kernel.clocks(self.rows)]
        none = np.full_like(numbers, MISSING)
        made = {name: arrays.take(self.columns[name], none) for name in self.names}
        known = taken(self.columns, numbers, _OF_CLOCKS)
        return pa.RecordBatch.from_pydict({**made, **known, KIND: pa.array([CLOCK_KIND] * len(numbers), pa.string())})
