"""What all joins have, and those whose sides are equals: of two streams, and of two tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from lakestreams.errors import InvalidOption
from lakestreams.topology.durations import in_units
from lakestreams.topology.kinds import (
    STREAM,
    TABLE,
    AnyJoiner,
    CoPartitioning,
    Emission,
    JoinKind,
    Mapper,
    OuterJoinKind,
    Role,
    Rules,
    SendsOld,
    Sort,
    WindowStore,
)
from lakestreams.topology.mappers import ByName, columns
from lakestreams.topology.node import Node, Pin, TwoInputs, once

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lakestreams.errors import LakestreamsError


@dataclass(frozen=True)
class Join(TwoInputs):
    """A join of any shape.

    Attributes:
        how: which rows come out though they have met none.
        sides: what the left input must make, and what the right one.
        shape: what the sides are, such as `stream-table`; with how they find each other, if not by key.
    """

    role: ClassVar[Role] = "join"

    how: OuterJoinKind

    sides: ClassVar[tuple[Sort, Sort]]
    shape: ClassVar[str]
    choices: ClassVar[Mapping[str, Any]] = {"how": JoinKind, "co_partitioning": CoPartitioning}
    gathers: ClassVar[bool] = True
    stateful: ClassVar[bool] = True

    @property
    def word(self) -> str:
        """The verb with which it is declared."""
        return "join" if self.how == "inner" else f"{self.how}_join"

    @property
    def keeps_unmatched(self) -> bool:
        """All but inner joins do."""
        return self.how != "inner"

    @property
    def reach_ms(self) -> int:
        """How far apart in time two records that meet can be, at most; 0 where times do not decide it."""
        return 0

    @property
    def looks_at_times(self) -> bool:
        """Whether the clocks of its tasks matter to what comes out."""
        return self.joins_streams

    @property
    def follows_strictly(self) -> bool:
        """Whether a side's clock is its partition's stream time where no join made its rows."""
        return True

    @property
    def joiner(self) -> AnyJoiner | None:
        """Makes a result's value of both sides; None: it has all their columns."""
        return None

    @property
    def co_partitioning(self) -> CoPartitioning | None:
        """What to do if the sides have different partition counts; None: the join does not need equal ones."""
        return None

    @property
    def makes(self) -> Sort:
        """As its left side: looking up in a table leaves a stream a stream."""
        return self.sides[0]

    def wrong_inputs(self) -> Iterator[str]:
        """Each side has what it takes."""
        for side, parent, wanted in zip(("left", "right"), self.parents, self.sides, strict=True):
            if parent.makes != wanted:
                found = f"the {side} side of a {self.shape} join is {parent.name}, a {parent.makes}"
                yield f"{found}; it takes a {wanted}"

    def pins(self) -> tuple[Pin, ...] | None:
        """The left side's; those of both where both must lie alike."""
        if self.co_partitioning is None:
            return self.left.pins()
        right = self.right.pins() if self.co_partitioning == "require" else None
        return once(self.left.pins() or (), right or ())

    @property
    def lookup(self) -> list[str]:
        """How the right side's row is found, where it is a row."""
        return []

    @property
    def bounds(self) -> list[str]:
        """The window and its rules, a line each."""
        return []

    @property
    def qualities(self) -> tuple[str, ...]:
        """What the sides are."""
        return (self.shape,)

    def plan(self, kernel: str | None) -> str:
        """Both sides, and what the kernel exchanges and sorts."""
        return f"{self.left.name} with {self.right.name}: {kernel or self.does}"

    @property
    def details(self) -> list[str]:
        """Shape, lookup, window, columns."""
        columns_of = "all columns of both sides" if self.joiner is None else "columns of the joiner"
        required = [f"co_partitioning {self.co_partitioning}"] if self.co_partitioning is not None else []
        return [", ".join((self.shape, self.how, *self.lookup)), *self.bounds, ", ".join((columns_of, *required))]


# Joins between equals: both sides can keep unmatched rows.
OF_EQUALS: Final[dict[str, Any]] = {**Join.choices, "how": OuterJoinKind}


@dataclass(frozen=True)
class WindowedJoin(Join):
    """Two streams' records of one key whose times lie in a window around each other (Kafka's KStream-KStream join).

    Attributes:
        before_ms, after_ms: they join iff `left.ts - before <= right.ts <= left.ts + after`; one may be negative.
        grace_ms: how long a window stays open for records that come late.
        emit_unmatched: when unmatched rows of an outer side come out.
        rules: `strict` (one outcome per record) or `kafka` (parity); semantics 3.7.
        store: what Kafka Streams would keep the window in; of the rules `kafka` only: in an in-memory store a null
            value moves the store's clock.
    """

    sides: ClassVar[tuple[Sort, Sort]] = (STREAM, STREAM)
    shape: ClassVar[str] = "stream-stream"
    joins_streams: ClassVar[bool] = True
    choices: ClassVar[Mapping[str, Any]] = OF_EQUALS | {
        "emit_unmatched": Emission,
        "rules": Rules,
        "store": WindowStore,
    }
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
    def longest_delay_ms(self) -> int:
        """Unmatched rows wait for their windows, unless they are eager."""
        return self.longest_wait_ms if self.waits and self.emit_unmatched == "on_window_close" else 0

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
        """Under strict rules each record has one outcome."""
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

    @property
    def box(self) -> list[str]:
        """The window, and rules that are not the default."""
        before, after, grace = map(in_units, (self.before_ms, self.after_ms, self.grace_ms))
        window = [f"before {before}, after {after}", f"grace {grace}"]
        if self.before_ms == self.after_ms:
            window = [f"within {before}, grace {grace}"]
        unmatched = [f"unmatched {self.emit_unmatched}"] if self.how != "inner" else []
        return [*window, *unmatched, *([f"rules {self.rules}"] if self.rules != "strict" else [])]

    def faults(self) -> Iterator[LakestreamsError]:
        """A window that ends before it begins."""
        yield from super().faults()
        before_ms, after_ms = self.before_ms, self.after_ms
        if before_ms + after_ms < 0:
            text = f"the window ends before it begins: before {before_ms} ms + after {after_ms} ms is negative"
            yield InvalidOption(text, hint="one of the two may be negative, their sum may not", where=self.where)
        if self.grace_ms < 0:
            yield InvalidOption.negative("grace", self.grace_ms, self.where)


@dataclass(frozen=True)
class TableTableJoin(Join):
    """Two tables' rows of one key, kept up to date (Kafka's KTable-KTable join)."""

    sides: ClassVar[tuple[Sort, Sort]] = (TABLE, TABLE)
    shape: ClassVar[str] = "table-table"
    choices: ClassVar[Mapping[str, Any]] = OF_EQUALS
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
    def has_old_rows(self) -> bool:
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
    def knows_orphans(self) -> bool:
        """Those that come out unmatched."""
        return self.how == "left"

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
    def has_old_rows(self) -> bool:
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

    @property
    def box(self) -> list[str]:
        """The columns that it is made of, if they have names."""
        return [f"left_on {', '.join(self.left_on.names)}"] if isinstance(self.left_on, ByName) else []
