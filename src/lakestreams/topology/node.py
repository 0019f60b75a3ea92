"""What all nodes have: traits, each a property or class variable with a default, and the nodes that others are derived of.

A node knows its parents, never its children. Functions (mappers, joiners, predicates) are kept as given and are
evaluated over Spark Columns when the topology is bound to a session. Code elsewhere asks for a trait, not for a class,
so that a new operator is a new class.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, get_args

from lakestreams.errors import InvalidOption, UnnamedNode, WrongKind
from lakestreams.errors.phrases import Either, Phrase
from lakestreams.errors.places import NodePlace
from lakestreams.topology.kinds import STREAM, Role, SendsOld, Sort, TimeWindows
from lakestreams.topology.mappers import shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lakestreams.errors import LakestreamsError
    from lakestreams.topology.endpoints import Source
    from lakestreams.topology.steps import Repartition

_A_NAME = Phrase(Either(python="pass a name that is not empty", file="give it a name"))


@dataclass(frozen=True)
class Node:
    """Something of a topology that has a name and makes records. Its traits are what others need to know of its kind.

    Attributes:
        name: the user's name.
        takes: what each input must make; None: anything.
        choices: options that are a Literal, by name, with it.
        role: what the node is among sources, steps and outputs; so it is drawn.
        gathers: whether rows wait or are gathered here, so that they no longer come as their partitions do.
        stateful: whether rows are made of rows of the past.
        makes_key: whether the user's function makes a new key, which may be null.
        multiplies: whether a row can become any number of rows.
        passes_nulls: whether a stream's null values go through as they are.
        null_deletes: whether a null value of the input is a deletion, as a stream becomes a table.
        reports_deletions: whether a table's deletions come out as a stream's null values.
        begins_changes: whether a table's changes are made here, and not passed on.
        keeps_rows: whether a table's rows go through one by one, under their keys.
        passes_lookups: whether a lookup of a table's row is one in its input's store.
        hears_deletions: whether a table's deletions matter here.
        passes_deletions: whether they matter if they matter behind.
        filters: whether rows are left out, so that old values say which deletions are reported.
        condenses: whether rows name only the records that brought them about, not all that they are made of.
        one_of_one: whether each row of the input becomes one row, no less and no more.
        at_most_one: whether each row of the (left) input becomes one row at most, besides those that replace it.
        sends_old: when a table sends old values to a child that asks for them (decision 0028).
        reads_old: whether a table's changes are read with the row before.
        joins_streams: whether two streams meet here, each with clocks of its own.
        refuses_unused_null_keys: whether records without a key are refused unless something behind has a use for them.
        has_layout: whether rows are written to a Delta table, which has a layout.
    """

    name: str

    takes: ClassVar[Sort | None] = None
    choices: ClassVar[Mapping[str, Any]] = {}
    role: ClassVar[Role] = "step"
    gathers: ClassVar[bool] = False
    stateful: ClassVar[bool] = False
    makes_key: ClassVar[bool] = False
    multiplies: ClassVar[bool] = False
    passes_nulls: ClassVar[bool] = False
    null_deletes: ClassVar[bool] = False
    reports_deletions: ClassVar[bool] = False
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
    at_most_one: ClassVar[bool] = False
    joins_streams: ClassVar[bool] = False
    refuses_unused_null_keys: ClassVar[bool] = False
    has_layout: ClassVar[bool] = False
    _word: ClassVar[str] = ""
    _does: ClassVar[str] = ""

    @property
    def parents(self) -> tuple[Node, ...]:
        """The inputs, left before right."""
        return ()

    @property
    def word(self) -> str:
        """The word for the node's kind, as drawings and messages show it."""
        return self._word

    @property
    def where(self) -> NodePlace:
        """The node's place, for messages."""
        return NodePlace(self.word, self.name)

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
    def is_multi_row(self) -> bool:
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
    def has_partitions(self) -> bool:
        """Whether rows come from the partitions of a topic."""
        return True

    @property
    def keeps_unmatched(self) -> bool:
        """Whether rows that have met none come out as well."""
        return False

    @property
    def knows_orphans(self) -> bool:
        """Whether it is known which rows name another one that is not there."""
        return False

    @property
    def appends(self) -> bool:
        """Whether rows are only ever added to a Delta table."""
        return False

    @property
    def upserts(self) -> bool:
        """Whether rows replace those that a Delta table has."""
        return False

    @property
    def gives_up(self) -> bool:
        """Whether a record is given up that has waited too long."""
        return False

    @property
    def wait_bounds(self) -> Mapping[str, int | None]:
        """Of a node that counts what becomes of each record: the options that bound it, ms; else empty."""
        return {}

    @property
    def amends(self) -> bool:
        """Whether a later row may replace one that came out."""
        return False

    @property
    def longest_wait_ms(self) -> int:
        """How far a clock must pass a record's time, at most, until the node holds nothing of it any more."""
        return 0

    @property
    def longest_delay_ms(self) -> int:
        """How far a row's time may lie behind the clock at which it comes out, at most, because it has waited here, ms."""
        return self.longest_wait_ms if self.waits else 0

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
    def has_old_rows(self) -> bool:
        """Whether a table's changes say by themselves what the row before was."""
        return False

    @property
    def forgets_rows(self) -> bool:
        """Whether rows that were reported are too many to keep."""
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
    def qualities(self) -> tuple[str, ...]:
        """What stands behind the node's word in a drawing."""
        return ()

    @property
    def caption(self) -> str:
        """The line below the node's name in a drawing."""
        return ", ".join((self.word, *self.qualities, *(("new key",) if self.makes_key else ())))

    @property
    def box(self) -> list[str]:
        """The options one looks for in a drawing, a short line each."""
        return []

    @property
    def does(self) -> str:
        """What happens to rows here, in words, where no kernel says it."""
        return self._does or self.word

    def plan(self, kernel: str | None) -> str:
        """The node's line in a plan; `kernel`: what its kernel says of itself, if it has one that does."""
        inputs = " and ".join(parent.name for parent in self.parents)
        return f"{inputs}, {self.does}" if kernel is None else f"{inputs}, {self.word}: {kernel}"

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

    def faults(self) -> Iterator[LakestreamsError]:
        """What is wrong with the node and seen without Spark or Kafka: its name, options and inputs."""
        yield from self.name_faults()
        yield from self.choice_faults()
        for text in self.wrong_inputs():
            yield WrongKind(text, where=self.where)

    def name_faults(self) -> Iterator[LakestreamsError]:
        """A node has a name."""
        if not self.name:
            yield UnnamedNode(f"a {self.word} has no name", hint=_A_NAME)

    def choice_faults(self) -> Iterator[LakestreamsError]:
        """Options that are none of their Literal's choices."""
        for option in fields(self):
            if option.name in self.choices:
                chosen, words = getattr(self, option.name), get_args(self.choices[option.name])
                if chosen not in words:
                    yield InvalidOption.none_of(option.name, chosen, words, self.where)


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
    at_most_one: ClassVar[bool] = True

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


Pin: TypeAlias = "Source | Repartition"


def once(left: Sequence[Pin], right: Sequence[Pin]) -> tuple[Pin, ...]:
    """What fixes two inputs' partitions, each once."""
    return tuple({pin.name: pin for pin in (*left, *right)}.values())
