"""Suppression in a Python worker: Arrow columns to the kernel's arrays, its waits to columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakestreams.operators import arrays
from lakestreams.operators.records import CONTRIBUTORS, KEY, KIND, ORDER, PLACE, TASK, TICK, TIME, VALUE
from lakestreams.operators.suppress import kernel
from lakestreams.operators.suppress.kernel import Hold, Rows

if TYPE_CHECKING:
    from lakestreams.operators.workers import Columns

# Of an update that waits: the time of the first one of its wait.
SINCE: Final = "since_ms"
STEP, STOOD = "step", "stood"  # whether a row moves the clock; where its task's clock stood before
FIRST, TRIGGER = "first_at", "trigger"  # places (`o, n`) of a wait's first update and of what lets it out
LAST = (KEY, VALUE, TIME, ORDER, PLACE, KIND, CONTRIBUTORS, TASK)


def waits(hold: Hold, columns: Columns) -> Iterator[Any]:
    """The waits of rows that share tasks: a wait's last update with `since_ms`, `first_at` and `trigger`."""
    place = arrays.ints(columns[PLACE])
    order = arrays.total_order(columns[ORDER], place)
    rows = _rows(columns, order, ranked=hold.max_records is not None)
    found = kernel.waits(rows, hold)
    at = pa.StructArray.from_arrays([columns[ORDER], pa.array(place, pa.int32())], [ORDER, PLACE])
    numbers = np.append(order, kernel.STAYS)
    first, last, trigger = (numbers[one] for one in found)
    sizes = arrays.sizes(columns[KEY]) + arrays.sizes(columns[VALUE])
    for here in arrays.batches(sizes[last]):
        made = {name: arrays.take(columns[name], last[here]) for name in LAST}
        made[SINCE] = pa.array(rows.since[found.first[here]])
        made |= {FIRST: arrays.take(at, first[here]), TRIGGER: arrays.take(at, trigger[here])}
        yield pa.RecordBatch.from_pydict(made)


def _rows(columns: Columns, order: Any, *, ranked: bool) -> Rows:
    ints = {name: arrays.ints(columns[name])[order] for name in (TASK, TIME, SINCE, STEP)}
    return Rows(
        task=ints[TASK],
        key=arrays.key_numbers(columns[KEY])[order],
        rank=arrays.key_ranks(columns[KEY])[order] if ranked else np.zeros_like(order),
        time=ints[TIME],
        since=ints[SINCE],
        stood=arrays.ints(columns[STOOD], null=np.iinfo(np.int64).min)[order],
        step=ints[STEP] > 0,
        tick=arrays.ints(pc.equal(columns[KIND], TICK))[order] > 0,
    )
