"""The table-table join on the primary key, and chains of it that share the right table (semantics section 6).

Each change of either side is joined with the other side's current row, if the rules of the join give it a result.
There is no change detection: what changes nothing is said again. `KTableKTableInnerJoin`, `...LeftJoin`,
`...RightJoin`, `...OuterJoin`, `KTableKTableJoinMerger`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.reference.records import Joiner, Record, Result
from tests.reference.tables import Table


@dataclass(frozen=True)
class View:
    """A row as a join sees it: a table's, or that of a join further up. Value None: there is none."""

    value: Any = None
    ts: int = -1
    contributors: tuple[Record | None, ...] = (None,)


def _view(record: Record | None) -> View:
    return View() if record is None else View(record.value, record.ts, (record,))


@dataclass(frozen=True)
class Update:
    """A change on its way: the new row and the old one (old values are always sent; who needs none ignores them)."""

    new: View
    old: View
    ts: int

    @property
    def is_nothing(self) -> bool:
        """The delete of a row that was not there."""
        return self.new.value is None and self.old.value is None


class _Node:
    """One join of a chain; `upstream` is the join on its left, or none where that is the left table itself."""

    def __init__(self, how: str, joiner: Joiner, left: Table, right: Table, upstream: _Node | None) -> None:
        self._how, self._joiner = how, joiner
        self._left, self._right, self._upstream = left, right, upstream

    def current(self, key: Any) -> View:
        """The join's row, computed when asked (`KTableKTableJoinMerger` keeps no state of its own)."""
        return self._join(key, self._left_row(key), _view(self._right.get(key)))

    def from_left(self, key: Any, update: Update) -> Update | None:
        other = _view(self._right.get(key))
        if other.value is None and (self._how == "inner" or update.is_nothing):
            return None
        return self._answer(key, update, (update.new, other), (update.old, other), other)

    def from_right(self, key: Any, update: Update) -> Update | None:
        other = self._left_row(key)
        if other.value is None and (self._how != "outer" or update.is_nothing):
            return None
        return self._answer(key, update, (other, update.new), (other, update.old), other)

    def _answer(self, key: Any, update: Update, new: tuple[View, View], old: tuple[View, View], other: View) -> Update:
        """The time is the greater of the update's and the other row's; a deleted row has none."""
        ts = update.ts if other.value is None else max(update.ts, other.ts)
        return Update(self._join(key, *new), self._join(key, *old), ts)

    def _left_row(self, key: Any) -> View:
        return _view(self._left.get(key)) if self._upstream is None else self._upstream.current(key)

    def _join(self, key: Any, left: View, right: View) -> View:
        sides = left.contributors + right.contributors
        if (
            (self._how != "outer" and left.value is None)
            or (self._how == "inner" and right.value is None)
            or (left.value is None and right.value is None)
        ):
            return View(contributors=sides)
        return View(self._joiner(key, left.value, right.value), max(left.ts, right.ts), sides)


class TableTableJoin:
    """`hows` is the chain: (left hows[0] right) hows[1] right ...; the results are those of its last join."""

    def __init__(self, hows: Sequence[str], left: Table, right: Table, joiner: Joiner) -> None:
        self._left, self._right = left, right
        self._nodes: list[_Node] = []
        for how in hows:
            self._nodes.append(_Node(how, joiner, left, right, self._nodes[-1] if self._nodes else None))

    def left(self, record: Record) -> list[Result]:
        change = self._left.put(record)
        if change is None:
            return []
        return self._down(0, record, Update(_view(change.new), _view(change.old), record.ts))

    def right(self, record: Record) -> list[Result]:
        """Every join of the chain hears the right table, the upper ones first: hence repeated results."""
        change = self._right.put(record)
        if change is None:
            return []
        results = []
        for place, node in enumerate(self._nodes):
            answer = node.from_right(record.key, Update(_view(change.new), _view(change.old), record.ts))
            if answer is not None:
                results += self._down(place + 1, record, answer)
        return results

    def _down(self, place: int, cause: Record, update: Update) -> list[Result]:
        for node in self._nodes[place:]:
            answer = node.from_left(cause.key, update)
            if answer is None:
                return []
            update = answer
        return [Result(cause.key, update.new.value, update.ts, cause, update.new.contributors, update.old.value)]
