"""The joins, one class for each pair of kinds of inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from lakestreams.topology.kinds import (
    GLOBAL,
    STREAM,
    TABLE,
    AnyJoiner,
    CoPartitioning,
    Emission,
    JoinKind,
    Mapper,
    OuterJoinKind,
    Rules,
    SendsOld,
    Sort,
    WindowStore,
)
from lakestreams.topology.mappers import columns
from lakestreams.topology.node import Join, Node


@dataclass(frozen=True)
class WindowedJoin(Join):
    """Two streams' records of one key whose times lie in a window around each other (Kafka's KStream-KStream join).

    Attributes:
        before_ms, after_ms: they join iff `left.ts - before <= right.ts <= left.ts + after`; one may be negative.
        grace_ms: how long a window stays open for records that come late.
        emit_unmatched: when unmatched rows of an outer side come out.
        rules: `strict` (one fate a record) or `kafka` (parity); semantics 3.7.
        store: what Kafka Streams would keep the window in; of the rules `kafka` only: in an in-memory store a null
            value moves the store's clock.
    """

    sides: ClassVar[tuple[Sort, Sort]] = (STREAM, STREAM)
    shape: ClassVar[str] = "stream-stream"
    how_choices: ClassVar[Any] = OuterJoinKind  # joins between equals: both can keep unmatched rows
    multiplies: ClassVar[bool] = True

    how: OuterJoinKind
    before_ms: int
    after_ms: int
    grace_ms: int = 0
    emit_unmatched: Emission = "on_window_close"
    rules: Rules = "strict"
    joiner: AnyJoiner | None = None
    co_partitioning: CoPartitioning = "require"
    store: WindowStore = "persistent"

    @property
    def remembers(self) -> bool:
        """The records of open windows."""
        return True

    @property
    def waits(self) -> bool:
        """Unmatched rows come out when their windows close."""
        return self.how != "inner"

    @property
    def longest_wait_ms(self) -> int:
        """Until its window is closed."""
        return max(self.before_ms, self.after_ms, 0) + self.grace_ms

    @property
    def span(self) -> tuple[str, int] | None:
        """A window and its grace."""
        return "windows and grace", self.before_ms + self.after_ms + self.grace_ms

    @property
    def least_slack_ms(self) -> int:
        """The shorter side of the window, and grace."""
        return min(self.before_ms, self.after_ms) + self.grace_ms

    @property
    def state_names(self) -> tuple[str, ...]:
        """Rows of both sides."""
        return ("left", "right")

    def refuses_null_keys(self, *, raw: bool) -> bool:
        """Unless an outer join gives them as unmatched ones."""
        del raw
        return self.how != "outer"

    @property
    def refuses_late(self) -> bool:
        """Under strict rules each record has one fate."""
        return self.rules == "strict"

    @property
    def reach_ms(self) -> int:
        """The whole window."""
        return self.before_ms + self.after_ms

    @property
    def follows_strictly(self) -> bool:
        """Kafka Streams' rules have a clock of their own."""
        return self.rules == "strict"

    @property
    def bounds(self) -> list[str]:
        """The window and its rules."""
        unmatched = [] if self.how == "inner" else [f"unmatched {self.emit_unmatched}"]
        store = [f"store {self.store}"] if self.rules == "kafka" else []
        return [
            f"before {self.before_ms} ms, after {self.after_ms} ms, grace {self.grace_ms} ms",
            ", ".join((f"rules {self.rules}", *unmatched, *store)),
        ]


@dataclass(frozen=True)
class StreamTableJoin(Join):
    """Each stream record with the table row of its key that is valid at the record (Kafka's KStream-KTable join).

    A versioned table (`history_ms` of its source) is looked up as of the record's event time, any other one as of the
    record's place in the order.

    Attributes:
        grace_ms: with a versioned table, how long records wait for table records that come late (KIP-923).
        wait_ms: how long a record that meets no row waits for one, before it comes out without, or is refused.
        amend_ms: how long a record that came out without a row is put right by one that comes.
    """

    sides: ClassVar[tuple[Sort, Sort]] = (STREAM, TABLE)
    shape: ClassVar[str] = "stream-table"

    how: JoinKind
    joiner: AnyJoiner | None = None
    co_partitioning: CoPartitioning = "require"
    grace_ms: int | None = None
    wait_ms: int | None = None
    amend_ms: int | None = None

    @property
    def races(self) -> bool:
        """Whether records look out for rows that come after them."""
        return self.wait_ms is not None or self.amend_ms is not None

    @property
    def waits(self) -> bool:
        """Whether a record's result may come out at another record."""
        return self.grace_ms is not None or self.races

    @property
    def placed_by(self) -> tuple[Node, ...]:
        """A row that is waited for brings records out where it lies itself."""
        return self.parents if self.races else (self.left,)

    @property
    def triggers(self) -> tuple[Node, ...]:
        """The table only where records wait for it."""
        return self.parents if self.waits else (self.left,)

    @property
    def is_plural(self) -> bool:
        """A record that waits comes out with others that waited."""
        return self.waits

    @property
    def remembers(self) -> bool:
        """A history, or records that wait."""
        return self.right.history_ms is not None or self.waits

    @property
    def longest_wait_ms(self) -> int:
        """The longest of its waits."""
        return max(self.grace_ms or 0, self.wait_ms or 0, self.amend_ms or 0)

    @property
    def looks_into(self) -> tuple[Node, ...]:
        """The table."""
        return (self.right,)

    @property
    def state_names(self) -> tuple[str, ...]:
        """The table's rows or versions, and records that wait."""
        if self.right.history_ms is not None:
            return ("versions", "points") if self.grace_ms is not None else ("versions",)
        return ("table", "points") if self.races else ("table",)

    def refuses_null_keys(self, *, raw: bool) -> bool:
        """Unless a left join gives them as unmatched ones."""
        return raw or self.how == "inner"

    def refuses_null_values(self, *, raw: bool) -> bool:
        """Of those that come from a source."""
        return raw

    @property
    def lookup(self) -> list[str]:
        """By order or by event time, and how long records wait."""
        history_ms = self.right.history_ms
        lookup = ["lookup latest"] if history_ms is None else ["lookup as_of", f"history {history_ms} ms"]
        times = (("grace", self.grace_ms), ("wait", self.wait_ms), ("amend", self.amend_ms))
        return [*lookup, *(f"{word} {ms} ms" for word, ms in times if ms is not None)]


@dataclass(frozen=True)
class StreamGlobalJoin(Join):
    """Each stream record with the global table's row of a key made from it (Kafka's KStream-GlobalKTable join).

    Attributes:
        left_on: from the record's fields to the table's key columns, in the table's order.
    """

    sides: ClassVar[tuple[Sort, Sort]] = (STREAM, GLOBAL)
    shape: ClassVar[str] = "stream-global"

    how: JoinKind
    left_on: Mapper
    joiner: AnyJoiner | None = None

    @property
    def placed_by(self) -> tuple[Node, ...]:
        """The table is looked up."""
        return (self.left,)

    @property
    def triggers(self) -> tuple[Node, ...]:
        """The table is looked up."""
        return (self.left,)

    @property
    def remembers(self) -> bool:
        """A history."""
        return self.right.history_ms is not None

    @property
    def task_inputs(self) -> tuple[Node, ...]:
        """The stream: every task has the table whole."""
        return (self.left,)

    @property
    def state_names(self) -> tuple[str, ...]:
        """The table's rows."""
        return ("table",)

    def refuses_null_keys(self, *, raw: bool) -> bool:
        """Of those that come from a source."""
        return raw

    def refuses_null_values(self, *, raw: bool) -> bool:
        """Of those that come from a source."""
        return raw

    @property
    def lookup(self) -> list[str]:
        """By the key that is made."""
        return [f"left_on {columns(self.left_on)}"]


@dataclass(frozen=True)
class TableTableJoin(Join):
    """Two tables' rows of one key, kept up to date (Kafka's KTable-KTable join)."""

    sides: ClassVar[tuple[Sort, Sort]] = (TABLE, TABLE)
    shape: ClassVar[str] = "table-table"
    how_choices: ClassVar[Any] = OuterJoinKind  # joins between equals: both can keep unmatched rows
    hears_deletions: ClassVar[bool] = True
    sends_old: ClassVar[SendsOld] = "with_inputs"
    reads_old: ClassVar[bool] = True

    how: OuterJoinKind
    joiner: AnyJoiner | None = None
    co_partitioning: CoPartitioning = "require"

    @property
    def remembers(self) -> bool:
        """The rows of both sides."""
        return True

    @property
    def asks_old(self) -> tuple[Node, ...]:
        """The sides whose unmatched rows come out."""
        return {"inner": (), "left": (self.left,), "outer": self.parents}[self.how]

    @property
    def looks_into(self) -> tuple[Node, ...]:
        """Each side looks into the other one."""
        return self.parents

    @property
    def tells_old_rows(self) -> bool:
        """It has the result before."""
        return True

    @property
    def state_names(self) -> tuple[str, ...]:
        """Rows of both sides."""
        return ("left", "right")

    def refuses_null_keys(self, *, raw: bool) -> bool:
        """A table has none."""
        del raw
        return True


@dataclass(frozen=True)
class ForeignKeyJoin(Join):
    """Each row of the left table with the right table's row that it names (Kafka's foreign-key join, KIP-213).

    Attributes:
        left_on: from the left row's fields (key and value) to the right table's key columns, in their order.
    """

    sides: ClassVar[tuple[Sort, Sort]] = (TABLE, TABLE)
    shape: ClassVar[str] = "foreign-key table-table"
    multiplies: ClassVar[bool] = True
    hears_deletions: ClassVar[bool] = True
    sends_old: ClassVar[SendsOld] = "if_stored"
    reads_old: ClassVar[bool] = True

    how: JoinKind
    left_on: Mapper
    joiner: AnyJoiner | None = None

    @property
    def rekeys(self) -> bool:
        """Rows come by the right side's records as well, which lie elsewhere."""
        return True

    @property
    def remembers(self) -> bool:
        """The rows of both sides."""
        return True

    @property
    def asks_old(self) -> tuple[Node, ...]:
        """Its inputs."""
        return self.parents

    @property
    def tells_old_rows(self) -> bool:
        """It has the result before."""
        return True

    @property
    def state_names(self) -> tuple[str, ...]:
        """Rows of both sides."""
        return ("left", "right")

    def refuses_null_keys(self, *, raw: bool) -> bool:
        """A table has none."""
        del raw
        return True

    @property
    def lookup(self) -> list[str]:
        """By the key that is made."""
        return [f"left_on {columns(self.left_on)}"]


@dataclass(frozen=True)
class ForeignKeyStreamJoin(Join):
    """Each stream record with every table row that names its key (KIP-955).

    Attributes:
        right_on: from the table row's fields (key and value) to the stream's key columns, in their order.
    """

    sides: ClassVar[tuple[Sort, Sort]] = (STREAM, TABLE)
    shape: ClassVar[str] = "foreign-key stream-table"
    multiplies: ClassVar[bool] = True

    how: JoinKind
    right_on: Mapper
    joiner: AnyJoiner | None = None

    @property
    def placed_by(self) -> tuple[Node, ...]:
        """The table is looked up."""
        return (self.left,)

    @property
    def triggers(self) -> tuple[Node, ...]:
        """The table is looked up."""
        return (self.left,)

    @property
    def remembers(self) -> bool:
        """A history."""
        return self.right.history_ms is not None

    @property
    def looks_into(self) -> tuple[Node, ...]:
        """The table."""
        return (self.right,)

    @property
    def state_names(self) -> tuple[str, ...]:
        """The table's rows."""
        return ("table",)

    def refuses_null_keys(self, *, raw: bool) -> bool:
        """Unless a left join gives them as unmatched ones."""
        return raw or self.how == "inner"

    def refuses_null_values(self, *, raw: bool) -> bool:
        """Of those that come from a source."""
        return raw

    @property
    def lookup(self) -> list[str]:
        """By the key that is made."""
        return [f"right_on {columns(self.right_on)}"]
