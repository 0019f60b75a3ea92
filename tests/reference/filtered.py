"""Tables that push their changes on: sources, filters, counts and joins by key, and who sends old values (Kafka Streams).

Each node is a processor of `KTableImpl`: it pushes (new, old) to its children, answers lookups, and may be asked to send
old values (`enableSendingOldValues(forceMaterialization)`). The graph is declared in the order in which nodes are made.
`KTableSource`, `KTableFilter`, `KTableMapValues`, `KStreamAggregate`, `KTableKTable*Join`, `KTableKTableJoinMerger`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.reference.aggregates import Row
from tests.reference.records import Record, Result


@dataclass(frozen=True)
class Made:
    """A value, its time and the records that it is made of, None where a side is missing."""

    value: Any
    ts: int
    parts: tuple[Record | None, ...]


Push = Callable[[Any, Made | None, Made | None, int, Record], None]  # key, new, old, time, cause


class Node:
    """What all have: children in the order of declaration."""

    def __init__(self) -> None:
        self._children: list[Push] = []
        self.sends = False

    def then(self, child: Push) -> None:
        self._children.append(child)

    def forward(self, key: Any, new: Made | None, old: Made | None, ts: int, cause: Record) -> None:
        for child in self._children:
            child(key, new, old if self.sends else None, ts, cause)

    def ask(self, insists: bool) -> bool:
        raise NotImplementedError

    def look_into(self) -> None:
        """A reader needs lookups."""

    def get(self, key: Any) -> Made | None:
        raise NotImplementedError


class Source(Node):
    """A topic as a table; it has a store if somebody needs one, and only then knows what was there before."""

    def __init__(self) -> None:
        super().__init__()
        self._rows: dict[Any, Made] = {}
        self._stored = False

    def ask(self, insists: bool) -> bool:
        if self.sends or insists or self._stored:
            self.sends = self._stored = True
        return self.sends

    def look_into(self) -> None:
        self._stored = True

    def get(self, key: Any) -> Made | None:
        return self._rows.get(key)

    def put(self, record: Record) -> None:
        if record.key is None:
            return
        old = self._rows.pop(record.key, None)
        new = None if record.value is None else Made(record.value, record.ts, (record,))
        if new is not None:
            self._rows[record.key] = new
        self.forward(record.key, new, old, record.ts, record)


class Counted(Node):
    """A stream's records counted by their key."""

    def __init__(self) -> None:
        super().__init__()
        self._rows: dict[Any, Made] = {}

    def ask(self, insists: bool) -> bool:
        del insists
        self.sends = True
        return True

    def get(self, key: Any) -> Made | None:
        return self._rows.get(key)

    def put(self, record: Record) -> None:
        if record.key is None or record.value is None:
            return
        old = self._rows.get(record.key)
        count, ts = (1, record.ts) if old is None else (old.value + 1, max(old.ts, record.ts))
        self._rows[record.key] = Made(count, ts, (record,))
        self.forward(record.key, self._rows[record.key], old, ts, record)


class Mapped(Node):
    """`mapValues`."""

    def __init__(self, parent: Node, mapper: Callable[[Any], Any]) -> None:
        super().__init__()
        self._parent, self._mapper = parent, mapper
        parent.then(lambda key, new, old, ts, cause: self.forward(key, self._of(new), self._of(old), ts, cause))

    def ask(self, insists: bool) -> bool:
        self.sends = self._parent.ask(insists) or self.sends
        return self.sends

    def look_into(self) -> None:
        self._parent.look_into()

    def get(self, key: Any) -> Made | None:
        return self._of(self._parent.get(key))

    def _of(self, row: Made | None) -> Made | None:
        return None if row is None else Made(self._mapper(row.value), row.ts, row.parts)


class Filtered(Mapped):
    """`filter`: asks when it is declared; swallows what neither was there nor is, once it knows."""

    def __init__(self, parent: Node, passes: Callable[[Any], bool]) -> None:
        self._passes = passes
        super().__init__(parent, lambda value: value)
        self.sends = parent.ask(False)

    def forward(self, key: Any, new: Made | None, old: Made | None, ts: int, cause: Record) -> None:
        if new is not None or old is not None or not self.sends:
            super().forward(key, new, old, ts, cause)

    def _of(self, row: Made | None) -> Made | None:
        return row if row is not None and self._passes(row.value) else None


class Joined(Node):
    """A join by key: inner, left or outer; both sides asked for old values where they may stand alone."""

    def __init__(self, how: str, left: Node, right: Node) -> None:
        super().__init__()
        self._how, self._left, self._right = how, left, right
        if how != "inner":
            left.ask(True)
        if how == "outer":
            right.ask(True)
        left.look_into()
        right.look_into()
        left.then(self._from_left)
        right.then(self._from_right)

    def ask(self, insists: bool) -> bool:
        del insists
        self._left.ask(True)
        self._right.ask(True)
        self.sends = True
        return True

    def get(self, key: Any) -> Made | None:
        return self._both(self._left.get(key), self._right.get(key))

    def _from_left(self, key: Any, new: Made | None, old: Made | None, ts: int, cause: Record) -> None:
        other = self._right.get(key)
        if other is None and (self._how == "inner" or new is old is None):
            return
        time = ts if other is None else max(ts, other.ts)
        self.forward(key, self._both(new, other), self._both(old, other), time, cause)

    def _from_right(self, key: Any, new: Made | None, old: Made | None, ts: int, cause: Record) -> None:
        other = self._left.get(key)
        if other is None and (self._how != "outer" or new is old is None):
            return
        time = ts if other is None else max(ts, other.ts)
        self.forward(key, self._both(other, new), self._both(other, old), time, cause)

    def _both(self, left: Made | None, right: Made | None) -> Made | None:
        missing = {"inner": left is None or right is None, "left": left is None, "outer": left is right is None}
        if missing[self._how]:
            return None
        ts = max(one.ts for one in (left, right) if one is not None)
        parts = tuple(None if one is None else one.parts[0] for one in (left, right))
        return Made(tuple(None if one is None else one.value for one in (left, right)), ts, parts)


class Told:
    """The changes that a reader of a table hears, as results; `joined` where rows are a join's."""

    def __init__(self, table: Node, *, joined: bool) -> None:
        self._kind = Result if joined else Row
        self._found: list[Result] = []
        table.then(self._hear)

    def since_last(self) -> list[Result]:
        found, self._found = self._found, []
        return found

    def _hear(self, key: Any, new: Made | None, old: Made | None, ts: int, cause: Record) -> None:
        del old
        value, parts = (None, (cause,)) if new is None else (new.value, new.parts)
        self._found.append(self._kind(key, value, ts, cause, parts))


__all__ = ["Counted", "Filtered", "Joined", "Made", "Mapped", "Node", "Source", "Told"]
