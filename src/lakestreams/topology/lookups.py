"""Joins of a stream that looks rows up in a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from lakestreams.errors import InvalidOption
from lakestreams.errors.phrases import Either, Option, Phrase
from lakestreams.topology.durations import in_units
from lakestreams.topology.joins import Join
from lakestreams.topology.kinds import GLOBAL, STREAM, TABLE, AnyJoiner, CoPartitioning, JoinKind, Mapper, Sort
from lakestreams.topology.mappers import ByName, columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lakestreams.errors import LakestreamsError
    from lakestreams.topology.node import Node


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
    at_most_one: ClassVar[bool] = True

    how: JoinKind
    joiner: AnyJoiner | None = None
    co_partitioning: CoPartitioning = "require"
    grace_ms: int | None = None
    wait_ms: int | None = None
    amend_ms: int | None = None

    @property
    def waits_for_row(self) -> bool:
        """Whether records look out for rows that come after them."""
        return self.wait_ms is not None or self.amend_ms is not None

    @property
    def looks_at_times(self) -> bool:
        """Of a versioned table, or where records wait."""
        return self.waits_for_row or self.right.history_ms is not None

    @property
    def amends(self) -> bool:
        """Whether a record that came out without a row may come out once more."""
        return self.amend_ms is not None

    @property
    def gives_up(self) -> bool:
        """One whose row has not come while it waited."""
        return self.wait_ms is not None

    @property
    def wait_bounds(self) -> Mapping[str, int | None]:
        """Until when it waits, and is put right."""
        return {"wait_ms": self.wait_ms, "amend_ms": self.amend_ms} if self.waits_for_row else {}

    @property
    def waits(self) -> bool:
        """Whether a record's result may come out at another record."""
        return self.grace_ms is not None or self.waits_for_row

    @property
    def placed_by(self) -> tuple[Node, ...]:
        """A row that is waited for brings records out where it lies itself."""
        return self.parents if self.waits_for_row else (self.left,)

    @property
    def triggers(self) -> tuple[Node, ...]:
        """The table only where records wait for it."""
        return self.parents if self.waits else (self.left,)

    @property
    def is_multi_row(self) -> bool:
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
        return ("table", "points") if self.waits_for_row else ("table",)

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

    @property
    def box(self) -> list[str]:
        """How long records wait."""
        if self.right.history_ms is not None:
            grace = "" if self.grace_ms is None else f", grace {in_units(self.grace_ms)}"
            return [f"as of event time{grace}"]
        times = (("waits", self.wait_ms), ("amends within", self.amend_ms))
        return (
            [", ".join(f"{word} {in_units(ms)}" for word, ms in times if ms is not None)] if self.waits_for_row else []
        )

    def faults(self) -> Iterator[LakestreamsError]:
        """Waits that a table of this kind has no use for; they are judged only where the inputs fit."""
        yield from super().faults()
        if not any(self.wrong_inputs()):
            yield from self._grace_faults()
            yield from self._wait_faults()

    def _grace_faults(self) -> Iterator[LakestreamsError]:
        """Source: Kafka Streams' KStreamImpl and KIP-923; semantics section 4.1."""
        if self.grace_ms is None:
            return
        grace_ms, history_ms, table = self.grace_ms, self.right.history_ms, self.right.name
        if grace_ms < 0:
            yield InvalidOption.negative("grace", grace_ms, self.where)
        if history_ms is None:
            text = f"grace waits for earlier rows, but {table} is not versioned: it keeps only the newest row"
            way = Either(python="table(..., as_of=True, history=...)", file="kind: table and a history")
            hint = Phrase("declare it with ", way, ", or leave grace out")
            yield InvalidOption(text, hint=hint, where=self.where, option="grace", given=grace_ms)
        elif grace_ms > history_ms:
            text = f"grace {grace_ms} ms is longer than the {history_ms} ms that {table} keeps of its history"
            longer = "keep a history of at least the grace"
            yield InvalidOption(text, hint=longer, where=self.where, option="grace", given=grace_ms)

    def _wait_faults(self) -> Iterator[LakestreamsError]:
        """`wait` and `amend`: of joins with a table's newest row; what was given up can be put right in a left join only."""
        wait_ms, amend_ms, where = self.wait_ms, self.amend_ms, self.where
        for word, bound in (("wait", wait_ms), ("amend", amend_ms)):
            if bound is not None and bound <= 0:
                text = f"{word} {bound} ms is not above zero"
                yield InvalidOption(text, hint="leave it out, or give a time", where=where, option=word, given=bound)
            if bound is not None and self.right.history_ms is not None:
                text = f"{word} waits for the next row, but {self.right.name} is versioned: rows are looked up by time"
                hint = "use grace, which waits for earlier rows"
                yield InvalidOption(text, hint=hint, where=where, option=word, given=bound)
        if amend_ms is not None and self.how == "inner":
            text = "amend corrects results that came out without a row, but an inner join has no such results"
            ways = Phrase(Option("wait"), " waits for the row; left_join(..., ", Option("amend"), ") amends")
            yield InvalidOption(text, hint=ways, where=where, option="amend", given=amend_ms)
        if wait_ms is not None and amend_ms is not None and amend_ms <= wait_ms:
            text = f"amend {amend_ms} ms does not end after wait {wait_ms} ms; both start at the record's time"
            longer = "make amend longer than wait"
            yield InvalidOption(text, hint=longer, where=where, option="amend", given=amend_ms)


@dataclass(frozen=True)
class StreamGlobalJoin(Join):
    """Each stream record with the global table's row of a key made from it (Kafka's KStream-GlobalKTable join).

    Attributes:
        left_on: from the record's fields to the table's key columns, in the table's order.
    """

    sides: ClassVar[tuple[Sort, Sort]] = (STREAM, GLOBAL)
    shape: ClassVar[str] = "stream-global"
    at_most_one: ClassVar[bool] = True

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

    @property
    def box(self) -> list[str]:
        """The columns that it is made of, if they have names."""
        return [f"left_on {', '.join(self.left_on.names)}"] if isinstance(self.left_on, ByName) else []


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

    @property
    def box(self) -> list[str]:
        """The columns that it is made of, if they have names."""
        return [f"right_on {', '.join(self.right_on.names)}"] if isinstance(self.right_on, ByName) else []
