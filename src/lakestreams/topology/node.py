"""What all nodes have: traits, each a property or class variable with a default, and the nodes that others are derived of.

A node knows its parents, never its children. Functions (mappers, joiners, predicates) are kept as given and are
evaluated over Spark Columns when the topology is bound to a session. Code elsewhere asks for a trait, not for a class,
so that a new operator is a new class.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from lakestreams.topology.kinds import (
    GLOBAL,
    STREAM,
    TABLE,
    AnyJoiner,
    CoPartitioning,
    JoinKind,
    OuterJoinKind,
    Role,
    SendsOld,
    Sort,
    TimeWindows,
)
from lakestreams.topology.mappers import shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lakestreams.topology.endpoints import Source
    from lakestreams.topology.steps import Repartition


@dataclass(frozen=True)
class Node:
    """Something of a topology that has a name and makes records. Its traits are what others need to know of its kind.

    Attributes:
        name: the user's name.
        takes: what each input must make; None: anything.
        role: as what the node is drawn.
        gathers: whether rows wait or are gathered here, so that they no longer come as their partitions do.
        stateful: whether rows are made of rows of the past.
        makes_key: whether the user's function makes a new key, which may be null.
        multiplies: whether a row can become any number of rows.
        passes_nulls: whether a stream's null values go through as they are.
        null_deletes: whether a null value of the input is a deletion, as a stream becomes a table.
        tells_deletions: whether a table's deletions come out as a stream's null values.
        begins_changes: whether a table's changes are made here, and not passed on.
        keeps_rows: whether a table's rows go through one by one, under their keys.
        passes_lookups: whether a lookup of a table's row is one in its input's store.
        hears_deletions: whether a table's deletions matter here.
        passes_deletions: whether they matter if they matter behind.
        filters: whether rows are left out, so that old values say which deletions are told.
        condenses: whether rows name only the records that brought them about, not all that they are made of.
        one_of_one: whether each row of the input becomes one row, no less and no more.
        sends_old: when a table sends old values to a child that asks for them (decision 0028).
        reads_old: whether a table's changes are read with the row before.
    """

    name: str

    takes: ClassVar[Sort | None] = None
    role: ClassVar[Role] = "step"
    gathers: ClassVar[bool] = False
    stateful: ClassVar[bool] = False
    makes_key: ClassVar[bool] = False
    multiplies: ClassVar[bool] = False
    passes_nulls: ClassVar[bool] = False
    null_deletes: ClassVar[bool] = False
    tells_deletions: ClassVar[bool] = False
    begins_changes: ClassVar[bool] = False
    keeps_rows: ClassVar[bool] = False
    passes_lookups: ClassVar[bool] = False
    hears_deletions: ClassVar[bool] = False
    passes_deletions: ClassVar[bool] = False
    filters: ClassVar[bool] = False
    sends_old: ClassVar[SendsOld] = "always"
    reads_old: ClassVar[bool] = False
    condenses: ClassVar[bool] = False
    one_of_one: ClassVar[bool] = False
    _word: ClassVar[str] = ""

    @property
    def parents(self) -> tuple[Node, ...]:
        """The inputs, left before right."""
        return ()

    @property
    def word(self) -> str:
        """The word for the node's kind, as drawings and messages show it."""
        return self._word

    @property
    def makes(self) -> Sort:
        """What the node's records are."""
        return STREAM

    @property
    def is_table(self) -> bool:
        """Whether records are versions of their key rather than points."""
        return self.makes != STREAM

    @property
    def history_ms(self) -> int | None:
        """The history retention of a versioned table; None if it is not versioned.

        It passes through stateless steps and ends at a stateful one (semantics section 7).
        """
        return None

    @property
    def key_windows(self) -> TimeWindows | None:
        """The windows that a table's keys have, if a windowed aggregation made them and no later step changed the keys."""
        return None

    @property
    def rekeys(self) -> bool:
        """Whether rows get other tasks than their source's partitions: Kafka Streams would need a repartition topic."""
        return self.makes_key

    @property
    def placed_by(self) -> tuple[Node, ...]:
        """The inputs in whose partitions the rows lie; none if they lie in others."""
        return () if self.rekeys else self.parents

    @property
    def triggers(self) -> tuple[Node, ...]:
        """The inputs whose records can cause rows; a table that is only looked up causes none."""
        return self.parents

    @property
    def is_plural(self) -> bool:
        """Whether one row of an input can cause several rows here."""
        return self.multiplies

    @property
    def remembers(self) -> bool:
        """Whether more must be remembered than the rows of tables as their topics have them."""
        return False

    @property
    def waits(self) -> bool:
        """Whether a row may come out by a record that it is not made of, or by none."""
        return False

    @property
    def longest_wait_ms(self) -> int:
        """How far a clock must pass a record's time, at most, until the node holds nothing of it any more."""
        return 0

    @property
    def span(self) -> tuple[str, int] | None:
        """What holds records for a time, and for how long they matter, ms; None: nothing does."""
        return None

    @property
    def least_slack_ms(self) -> int:
        """How far a record may lie behind the clock without being late, at least, ms."""
        return 0

    @property
    def asks_old(self) -> tuple[Node, ...]:
        """The inputs that must send old values."""
        return ()

    @property
    def looks_into(self) -> tuple[Node, ...]:
        """The inputs in whose stores rows are looked up."""
        return ()

    @property
    def tells_old_rows(self) -> bool:
        """Whether a table's changes say by themselves what the row before was."""
        return False

    @property
    def forgets_rows(self) -> bool:
        """Whether rows that were told are too many to keep."""
        return False

    @property
    def headline(self) -> str:
        """The node's first line in a description."""
        return f"Processor: {shown(self.name)} ({self.word})"

    @property
    def details(self) -> list[str]:
        """What the options say, a line per group."""
        return []

    @property
    def state_names(self) -> tuple[str, ...]:
        """The names under which the node's kernel keeps what it needs of the past."""
        return ()

    def refuses_null_keys(self, *, raw: bool) -> bool:
        """Whether records without a key are refused here; `raw`: null keys of the sources come so far."""
        del raw
        return False

    def refuses_null_values(self, *, raw: bool) -> bool:
        """Whether a stream's records without a value are refused here; `raw`: those of the sources come so far."""
        del raw
        return False

    @property
    def refuses_late(self) -> bool:
        """Whether records are refused that come too late for their windows."""
        return False

    def pins(self) -> tuple[Pin, ...] | None:
        """What fixes the partitions of the node's records: sources and repartition steps, each once.

        None after a re-key: Kafka Streams would put a repartition topic there before the next join; and None of a Delta
        table. A join's result lies where both of its sides lie; where unequal counts are accepted, the left side's.
        """
        return None if self.makes_key else self.parents[0].pins()

    @property
    def task_inputs(self) -> tuple[Node, ...]:
        """The inputs whose partitions say in how many tasks the node runs."""
        return self.parents

    def partition_count(self, partitions: Mapping[str, int]) -> int | None:
        """The node's own partition count: a topic's, or one that the user gave; None: it has none, or it is not known."""
        del partitions
        return None

    def wrong_inputs(self) -> Iterator[str]:
        """What there is to say of inputs that make something else than the node takes."""
        for parent in self.parents:
            if self.takes is not None and parent.makes != self.takes:
                yield f"{parent.name} is a {parent.makes}; {self.word} takes a {self.takes}"


@dataclass(frozen=True)
class OneInput(Node):
    """What every step, aggregation, buffer and output has: a name, and the node that it reads."""

    parent: Node

    @property
    def parents(self) -> tuple[Node, ...]:
        """The one input."""
        return (self.parent,)


@dataclass(frozen=True)
class TwoInputs(Node):
    """What every join and merge has: a name, and the nodes on its left and on its right."""

    left: Node
    right: Node

    @property
    def parents(self) -> tuple[Node, ...]:
        """Left input, right input."""
        return (self.left, self.right)


@dataclass(frozen=True)
class PerRow(OneInput):
    """A step on one row at a time, of a stream or a table: what comes out is what came in, under its key."""

    keeps_rows: ClassVar[bool] = True
    passes_lookups: ClassVar[bool] = True
    passes_deletions: ClassVar[bool] = True

    @property
    def makes(self) -> Sort:
        """As its input."""
        return self.parent.makes

    @property
    def history_ms(self) -> int | None:
        """As its input."""
        return self.parent.history_ms

    @property
    def key_windows(self) -> TimeWindows | None:
        """As its input."""
        return self.parent.key_windows if self.is_table else None


@dataclass(frozen=True)
class Join(TwoInputs):
    """A join of any shape.

    Attributes:
        how: which rows come out though they have met none.
        sides: what the left input must make, and what the right one.
        shape: what the sides are, such as `stream-table`; with how they find each other, if not by key.
        how_choices: the values that `how` can have, as a Literal.
    """

    role: ClassVar[Role] = "join"

    how: OuterJoinKind

    sides: ClassVar[tuple[Sort, Sort]]
    shape: ClassVar[str]
    how_choices: ClassVar[Any] = JoinKind
    gathers: ClassVar[bool] = True
    stateful: ClassVar[bool] = True

    @property
    def word(self) -> str:
        """The verb with which it is declared."""
        return "join" if self.how == "inner" else f"{self.how}_join"

    @property
    def reach_ms(self) -> int:
        """How far apart in time two records that meet can be, at most; 0 where times do not decide it."""
        return 0

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
        return _once(self.left.pins() or (), right or ())

    @property
    def lookup(self) -> list[str]:
        """How the right side's row is found, where it is a row."""
        return []

    @property
    def bounds(self) -> list[str]:
        """The window and its rules, a line each."""
        return []

    @property
    def details(self) -> list[str]:
        """Shape, lookup, window, columns."""
        columns_of = "all columns of both sides" if self.joiner is None else "columns of the joiner"
        required = [f"co_partitioning {self.co_partitioning}"] if self.co_partitioning is not None else []
        return [", ".join((self.shape, self.how, *self.lookup)), *self.bounds, ", ".join((columns_of, *required))]


@dataclass(frozen=True)
class Sink(OneInput):
    """An output."""

    hears_deletions: ClassVar[bool] = True
    role: ClassVar[Role] = "sink"

    @property
    def makes(self) -> Sort:
        """A stream's records, or a table's rows."""
        return TABLE if self.parent.is_table else STREAM

    def wrong_inputs(self) -> Iterator[str]:
        """A stream or a table."""
        if self.parent.makes == GLOBAL:
            yield f"{self.parent.name} is a global table, which every task holds whole; it is no output"


Pin: TypeAlias = "Source | Repartition"


def _once(left: Sequence[Pin], right: Sequence[Pin]) -> tuple[Pin, ...]:
    return tuple({pin.name: pin for pin in (*left, *right)}.values())
