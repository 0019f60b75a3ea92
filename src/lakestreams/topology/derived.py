"""Tables that are made of streams and of tables, and back: conversions, aggregations, suppression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from lakestreams.topology.kinds import (
    STREAM,
    TABLE,
    AggregateVerb,
    Aggregators,
    Changes,
    EmptyGroup,
    GroupMapper,
    Reducer,
    Role,
    SendsOld,
    Sort,
    TimeWindows,
    WhenFull,
)
from lakestreams.topology.mappers import columns
from lakestreams.topology.node import Node, OneInput, Pin
from lakestreams.topology.steps import (
    DropAbsentDeletes,
    Filter,
    FlatMap,
    FlatMapValues,
    Map,
    MapValues,
    Merge,
    Repartition,
    SelectKey,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class ToTable(OneInput):
    """A stream read as a table: each record is its key's new row, a null value deletes it (Kafka's `toTable`)."""

    takes: ClassVar[Sort | None] = STREAM
    stateful: ClassVar[bool] = True
    _word: ClassVar[str] = "to_table"
    null_deletes: ClassVar[bool] = True
    begins_changes: ClassVar[bool] = True
    sends_old: ClassVar[SendsOld] = "if_stored"

    @property
    def makes(self) -> Sort:
        """A table."""
        return TABLE

    @property
    def remembers(self) -> bool:
        """Rows of a table that is no topic's."""
        return True

    def refuses_null_keys(self, *, raw: bool) -> bool:
        """A table has none."""
        del raw
        return True


@dataclass(frozen=True)
class ToStream(OneInput):
    """A table's changes as a stream: each new row is a record, each deletion one with a null value."""

    takes: ClassVar[Sort | None] = TABLE
    _word: ClassVar[str] = "to_stream"
    tells_deletions: ClassVar[bool] = True
    hears_deletions: ClassVar[bool] = True

    @property
    def remembers(self) -> bool:
        """Rows of a table that is no topic's."""
        return True


@dataclass(frozen=True)
class Aggregate(OneInput):
    """A table of one row a group: counts, sums and other aggregates of a stream's records or a table's rows.

    Attributes:
        verb: `count`, `reduce` or `aggregate`, as the user called it.
        group: of a table, from a row's fields to the group's key, or to key and value; a stream has its key.
        windows: of a stream, what each record is counted in; the key then has the columns of `WINDOW_COLUMNS` too.
        aggregators: of `aggregate`, from the fields to what is made of them, by column name.
        add, subtract: of `reduce`, from the aggregate's fields and a value's fields to the new aggregate.
        emit: `every_change` or `latest`.
        empty: of a table, what a group without rows is: `keep` or `delete`.
    """

    gathers: ClassVar[bool] = True
    stateful: ClassVar[bool] = True
    begins_changes: ClassVar[bool] = True
    reads_old: ClassVar[bool] = True
    condenses: ClassVar[bool] = True
    role: ClassVar[Role] = "aggregate"

    verb: AggregateVerb
    group: GroupMapper | None = None
    windows: TimeWindows | None = None
    aggregators: Aggregators | None = None
    add: Reducer | None = None
    subtract: Reducer | None = None
    emit: Changes = "every_change"
    empty: EmptyGroup = "keep"

    @property
    def makes(self) -> Sort:
        """A table."""
        return TABLE

    @property
    def word(self) -> str:
        """The verb with which it is declared."""
        return self.verb

    @property
    def key_windows(self) -> TimeWindows | None:
        """What each record is counted in."""
        return self.windows

    def wrong_inputs(self) -> Iterator[str]:
        """A table's rows are grouped by something, a stream's records by their key."""
        wanted = TABLE if self.group is not None else STREAM
        if self.parent.makes != wanted:
            yield f"{self.parent.name} is a {self.parent.makes}; this {self.word} takes a {wanted}"

    @property
    def rekeys(self) -> bool:
        """A table's rows get their group's key."""
        return self.group is not None

    @property
    def remembers(self) -> bool:
        """Its groups."""
        return True

    @property
    def is_plural(self) -> bool:
        """The old group and the new one; each window."""
        return self.group is not None or self.windows is not None

    @property
    def span(self) -> tuple[str, int] | None:
        """A window and its grace."""
        return ("windows and grace", self.windows.size_ms + self.windows.grace_ms) if self.windows is not None else None

    @property
    def least_slack_ms(self) -> int:
        """The grace of its windows."""
        return self.windows.grace_ms if self.windows is not None else 0

    @property
    def asks_old(self) -> tuple[Node, ...]:
        """A table, whose old rows leave their groups."""
        return self.parents if self.group is not None else ()

    @property
    def tells_old_rows(self) -> bool:
        """It has the result before."""
        return True

    def pins(self) -> tuple[Pin, ...] | None:
        """A stream's; a table's rows get another key."""
        return None if self.group is not None else self.parent.pins()

    @property
    def state_names(self) -> tuple[str, ...]:
        """Groups, a table's rows, and the clocks that windows close by."""
        of_table, of_windows = self.parent.is_table, self.windows is not None
        return ("groups", *(("table",) if of_table else ()), *(("clocks",) if of_windows else ()))

    def refuses_null_keys(self, *, raw: bool) -> bool:
        """A table has none."""
        del raw
        return True

    def refuses_null_values(self, *, raw: bool) -> bool:
        """A stream's: there is nothing to aggregate."""
        del raw
        return not self.parent.is_table

    @property
    def refuses_late(self) -> bool:
        """Where it has windows."""
        return self.windows is not None

    @property
    def details(self) -> list[str]:
        """What is grouped by, windows, what comes out."""
        lines = ["grouped by key" if self.group is None else f"grouped by {columns(self.group)}, re-keyed"]
        if self.windows is not None:
            size_ms, advance_ms, grace_ms = self.windows.size_ms, self.windows.advance_ms, self.windows.grace_ms
            lines.append(f"windows {size_ms} ms, advance {advance_ms} ms, grace {grace_ms} ms")
        # a stream's records never leave their group, so that it cannot become empty
        empty = [] if self.group is None else [f"empty {self.empty}"]
        return [*lines, ", ".join((f"emit {self.emit}", *empty))]


@dataclass(frozen=True)
class Suppress(OneInput):
    """A table whose updates wait in a buffer, so that only the last one of a while is told (Kafka's `suppress`).

    Attributes:
        until_ms: how long an update waits, by the clock of the updates; None: until its window closes.
        max_records: how many keys a task's buffer holds; None: any number.
        when_full: what happens then: the oldest ones come out early, or the run stops.
    """

    takes: ClassVar[Sort | None] = TABLE
    gathers: ClassVar[bool] = True
    stateful: ClassVar[bool] = True
    _word: ClassVar[str] = "suppress"
    passes_lookups: ClassVar[bool] = True
    hears_deletions: ClassVar[bool] = True
    sends_old: ClassVar[SendsOld] = "as_input"
    condenses: ClassVar[bool] = True
    role: ClassVar[Role] = "buffer"

    until_ms: int | None = None
    max_records: int | None = None
    when_full: WhenFull = "emit"

    @property
    def makes(self) -> Sort:
        """A table."""
        return TABLE

    @property
    def key_windows(self) -> TimeWindows | None:
        """As its input."""
        return self.parent.key_windows

    @property
    def remembers(self) -> bool:
        """Its buffer."""
        return True

    @property
    def is_plural(self) -> bool:
        """One record can let out many keys."""
        return True

    @property
    def waits(self) -> bool:
        """Everything in a buffer does."""
        return True

    @property
    def longest_wait_ms(self) -> int:
        """Until its time has come, or its window is closed."""
        if self.until_ms is not None:
            return self.until_ms
        windows = self.parent.key_windows
        return windows.size_ms + windows.grace_ms if windows else 0

    @property
    def span(self) -> tuple[str, int] | None:
        """A time; until windows close it is that of their aggregation."""
        return ("buffers", self.until_ms) if self.until_ms is not None else None

    @property
    def asks_old(self) -> tuple[Node, ...]:
        """Its inputs."""
        return self.parents

    @property
    def tells_old_rows(self) -> bool:
        """The final row of a window is its first one."""
        return self.until_ms is None

    @property
    def forgets_rows(self) -> bool:
        """Windows that come out before they close."""
        return self.until_ms is not None and self.key_windows is not None

    @property
    def state_names(self) -> tuple[str, ...]:
        """What waits, and the clocks; nothing waits for no time."""
        return ("buffer", "clocks") if self.until_ms != 0 or self.max_records is not None else ()

    def refuses_null_keys(self, *, raw: bool) -> bool:
        """A table has none."""
        del raw
        return True

    @property
    def details(self) -> list[str]:
        """How long updates wait, and how many."""
        until = "until window closes" if self.until_ms is None else f"until {self.until_ms} ms"
        # a buffer without bounds is never full
        bounds = [] if self.max_records is None else [f"max_records {self.max_records}", f"when_full {self.when_full}"]
        return [", ".join((until, *bounds))]


Step: TypeAlias = (
    MapValues | Filter | DropAbsentDeletes | SelectKey | Map | FlatMapValues | FlatMap | Merge | Repartition
    | ToTable | ToStream
)  # fmt: skip
