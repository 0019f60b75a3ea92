"""Tables that are made of streams and of tables, and back: conversions, aggregations, suppression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from lakestreams.errors import InvalidOption
from lakestreams.errors.phrases import Either, Option, OptionValue, Phrase
from lakestreams.topology.durations import in_units
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

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lakestreams.errors import LakestreamsError

_SHUTDOWN = Option("when_full", "shutdown")


@dataclass(frozen=True)
class ToTable(OneInput):
    """A stream read as a table: each record is its key's new row, a null value deletes it (Kafka's `toTable`)."""

    takes: ClassVar[Sort | None] = STREAM
    stateful: ClassVar[bool] = True
    _word: ClassVar[str] = "to_table"
    _does: ClassVar[str] = "each record its key's new row"
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
    _does: ClassVar[str] = "each change a record"
    reports_deletions: ClassVar[bool] = True
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
    choices: ClassVar[Mapping[str, Any]] = {"verb": AggregateVerb, "emit": Changes, "empty": EmptyGroup}

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
    def is_multi_row(self) -> bool:
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
    def has_old_rows(self) -> bool:
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

    @property
    def box(self) -> list[str]:
        """Groups, windows, what comes out."""
        lines = ["grouped by key" if self.group is None else "grouped by a new key"]
        if self.windows is not None:
            size, advance, grace = map(in_units, (self.windows.size_ms, self.windows.advance_ms, self.windows.grace_ms))
            if self.windows.advance_ms == self.windows.size_ms:
                lines.append(f"windows of {size}, grace {grace}")
            else:
                lines += [f"windows of {size} every {advance}", f"grace {grace}"]
        return [*lines, *([f"emit {self.emit}"] if self.emit != "every_change" else [])]

    def faults(self) -> Iterator[LakestreamsError]:
        """A verb without its function, windows that are none."""
        yield from super().faults()
        needed = {"reduce": self.add, "aggregate": self.aggregators}
        if self.verb in needed and not callable(needed[self.verb]):
            text = f"{self.verb}() takes a function, not {needed[self.verb]!r}"
            yield InvalidOption(text, hint='such as lambda row: {"total": agg.sum(row.amount)}', where=self.where)
        if self.group is not None and self.windows is not None:
            yield InvalidOption("a table's rows have no windows, only a stream's records do", where=self.where)
        windows = self.windows
        if windows is None:
            return
        if windows.size_ms < 1 or not 1 <= windows.advance_ms <= windows.size_ms:
            text = f"windows of {windows.size_ms} ms, {windows.advance_ms} ms apart"
            hint = "a size above zero, and an advance from 1 ms to the size"
            yield InvalidOption(text, hint=hint, where=self.where, option="windows", given=windows)
        if windows.grace_ms < 0:
            yield InvalidOption.negative("grace", windows.grace_ms, self.where)


@dataclass(frozen=True)
class Suppress(OneInput):
    """A table whose updates wait in a buffer, so that only the last one of a while is reported (Kafka's `suppress`).

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
    choices: ClassVar[Mapping[str, Any]] = {"when_full": WhenFull}

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
    def is_multi_row(self) -> bool:
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

    @property
    def box(self) -> list[str]:
        """How long updates wait, and how many."""
        until = "until window closes" if self.until_ms is None else f"until {in_units(self.until_ms)}"
        return [
            until,
            *([] if self.max_records is None else [f"max_records {self.max_records}, then {self.when_full}"]),
        ]

    def faults(self) -> Iterator[LakestreamsError]:
        """Source: Kafka Streams' SuppressedInternal, GraphGraceSearchUtil; semantics section 8.2."""
        yield from super().faults()
        if self.until_ms is None and self.parent.is_table and self.parent.key_windows is None:
            text = f"the rows of {self.parent.name} have no windows that could close"
            yield InvalidOption(text, hint="suppress a windowed aggregate, or give a time", where=self.where)
        if self.until_ms is not None and self.until_ms < 0:
            yield InvalidOption.negative("until", self.until_ms, self.where)
        yield from self._bound_faults()
        if self.parent.history_ms is not None:
            text = f"{self.parent.name} is versioned: its rows cannot be held back"
            way = Either(python="leave as_of out", file="leave history out")
            yield InvalidOption(text, hint=Phrase(way, ", or join it first"), where=self.where)

    def _bound_faults(self) -> Iterator[LakestreamsError]:
        if self.max_records is not None and (type(self.max_records) is not int or self.max_records < 1):
            hint = "a whole number, 1 or more; or none, for any number"
            text = Phrase(OptionValue("max_records", self.max_records), " is not a count")
            yield InvalidOption(text, hint=hint, where=self.where)
        if self.max_records is None and self.when_full == "shutdown":
            yield InvalidOption(
                Phrase(_SHUTDOWN, " without max_records: nothing is ever full"),
                hint=Phrase(Option("max_records", 10_000), ", or leave when_full out"),
                where=self.where,
                option="when_full",
                given="shutdown",
            )
        if self.until_ms is None and self.max_records is not None and self.when_full == "emit":
            early = "a window's final row cannot come out early"
            yield InvalidOption(early, hint=Phrase(_SHUTDOWN, ", or no max_records"), where=self.where)
