"""Rows of both sides as a Python worker gets them, in their total order, and results of them as columns.

Places of rows that are elsewhere may come along as columns, such as that of the row that lets a record out. Each then stands
among the rows, in front of the row that has the same place. So places are compared by numbers, whether the row is here or not,
and a result can have the order of a row that is not here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lakestreams.operators import arrays
from lakestreams.operators.arrays import MISSING, Matches
from lakestreams.operators.records import CONTRIBUTORS, KEY, KIND, MATCHED, ORDER, PLACE, TIME, UNMATCHED
from lakestreams.operators.windows import ARM, LEFT_VALUE, RECORD_AT, RIGHT_VALUE, TURN

if TYPE_CHECKING:
    from lakestreams.operators.segments import Flags, Ints
    from lakestreams.operators.workers import Columns


class Placed:
    """Rows in their order.

    Attributes:
        columns: as they came; a row's number is its place there.
        count: how many rows have come.
        order: the rows' numbers, by their places in the order; from `count` on those of places that came along.
        orders: the orders of all these.
    """

    def __init__(
        self, columns: Columns, *, along: Sequence[str] = (), right_first: bool = False, interleaved: bool = False
    ) -> None:
        """Sorts rows.

        Args:
            columns: columns of arms (see `windows`).
            along: those that are places like `at`; null: there is none.
            right_first, interleaved: the order of rows that one source record has on both sides (see `windows.Windowed`).
        """
        self.columns, self.count, self._interleaved = columns, len(columns[ORDER]), interleaved
        self._numbers = {name: np.flatnonzero(arrays.valid(columns[name])) for name in along}
        places = [columns[name].take(pa.array(numbers)) for name, numbers in self._numbers.items()]
        arm = arrays.ints(columns[ARM])
        rank = [1 - arm if right_first else arm, *(arrays.ints(one.field("rank")) for one in places)]
        place = [arrays.ints(one) for one in (columns[PLACE], *(one.field(PLACE) for one in places))]
        self._rank, self._place = np.concatenate(rank), arrays.as_one(np.concatenate(place))
        self.orders = columns[ORDER]
        if places:
            self.orders = pa.concat_arrays([self.orders, *(one.field(ORDER).cast(self.orders.type) for one in places)])
        is_row = (np.arange(len(self._rank)) < self.count).astype(np.int64)
        turns = (self._place, self._rank) if interleaved else (self._rank, self._place)
        self._order = np.append(arrays.total_order(self.orders, *turns, is_row), MISSING)  # the last one of none
        self.order: Ints = self._order[:-1]
        self._sizes = np.append(sum(arrays.sizes(columns[name]) for name in (KEY, LEFT_VALUE, RIGHT_VALUE)), 0)

    def keep_for_results(self) -> None:
        """Lets go of the columns that no result needs whose time is given."""
        self.columns = {name: self.columns[name] for name in (KEY, LEFT_VALUE, RIGHT_VALUE, ORDER, CONTRIBUTORS)}

    def ints(self, name: str, null: int = 0) -> Ints:
        """A column of whole numbers or flags by places; if it is missing, as if it held nulls."""
        given = np.full(self.count, null) if name not in self.columns else arrays.ints(self.columns[name], null)
        found: Ints = arrays.as_one(self._in_order(given, null))
        return found

    def keys(self) -> Ints:
        """Equal numbers for equal keys, by places; `MISSING` for null ones."""
        found: Ints = self._in_order(arrays.key_numbers(self.columns[KEY]), MISSING)
        return found

    def not_null(self, name: str) -> Flags:
        """Whether a row's value in a column is not null, by places."""
        found: Flags = self._in_order(arrays.valid(self.columns[name]), otherwise=False)
        return found

    def cycles(self) -> Ints:
        """The cycle of each place."""
        return arrays.ints(self.orders.field("cycle"))[self.order]

    def along(self) -> dict[str, Ints]:
        """Where the places are that came along with each; the number of all where none did.

        Of a row that is meant itself it is the row's own place, and not that in front of it.
        """
        total, first = len(self.order), self.count
        place = np.empty(total, np.int64)
        place[self.order] = np.arange(total)
        found = {}
        for name, numbers in self._numbers.items():
            found[name] = np.full(total, total)
            others = place[first : first + len(numbers)]
            found[name][place[numbers]] = np.maximum(others, place[numbers])
            first += len(numbers)
        return found

    def ranks(self, places: Ints) -> Ints:
        """Numbers in the order of the keys' bytes."""
        return arrays.key_ranks(arrays.take(self.columns[KEY], self.order[places]))

    def pieces(self, left: Ints, right: Ints) -> Iterator[slice]:
        """Slices of results of these places, none of them too large to be handed over at once."""
        return arrays.batches(self._sizes[self._order[left]] + self._sizes[self._order[right]])

    def results(self, matches: Matches, kinds: Any = None, time: Any = None, *, with_records: bool = False) -> Any:
        """A batch of results: records columns with `lv`, `rv` and `turn`, and `record_at` if it is wanted.

        Args:
            matches: the key is the left record's, else the right one's.
            kinds, time: arrays; without kinds results are matched or not, without a time they have the left record's.
            with_records: whether the places of the left records are wanted.
        """
        columns = self.columns
        left, right, trigger = self._order[matches.left], self._order[matches.right], self.order[matches.trigger]
        if kinds is None:
            both = (left >= 0) & (right >= 0)
            kinds = pa.array([UNMATCHED, MATCHED]).take(pa.array(both.astype(np.int8)))
        made = {
            KEY: arrays.take(columns[KEY], np.where(left < 0, right, left)),
            LEFT_VALUE: arrays.take(columns[LEFT_VALUE], left),
            RIGHT_VALUE: arrays.take(columns[RIGHT_VALUE], right),
            TIME: arrays.take(columns[TIME], left) if time is None else time,
            ORDER: arrays.take(self.orders, trigger),
            CONTRIBUTORS: arrays.contributors(columns[CONTRIBUTORS], columns[ORDER], left, right),
            PLACE: pa.array(matches.place, pa.int32()),
            KIND: kinds,
            TURN: pa.array(self._turns(trigger)),
        }
        if with_records:
            at = [arrays.take(columns[ORDER], left), pa.array(self._turns(left))]
            made[RECORD_AT] = pa.StructArray.from_arrays(at, [ORDER, TURN])
        return pa.RecordBatch.from_pydict(made)

    def _in_order(self, values: Any, otherwise: Any) -> Any:
        """Values of the rows by their places; another one where none came."""
        more = np.full(len(self.order) - self.count, otherwise, values.dtype)
        return (np.append(values, more) if len(more) else values)[self.order]

    def _turns(self, numbers: Ints) -> Ints:
        """The turns of rows among those of their source records."""
        rank, place = self._rank[numbers], self._place[numbers]
        found: Ints = place * 2 + rank if self._interleaved else (rank << 32) + place
        return found


def taken(columns: Columns, numbers: Ints, names: Sequence[str]) -> dict[str, Any]:
    """Columns of rows by their numbers, with their contributors; these are behind the others if they are not named."""
    made = {name: arrays.take(columns[name], numbers) for name in names}
    alone = np.full_like(numbers, MISSING)
    made[CONTRIBUTORS] = arrays.contributors(columns[CONTRIBUTORS], columns[ORDER], numbers, alone)
    return made
