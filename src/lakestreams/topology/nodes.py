"""The nodes of a topology: frozen values, one class per kind, each with the user's name for it.

A node knows its parents, never its children. Functions (mappers, joiners, predicates) are kept as given and are
evaluated over Spark Columns when the topology is bound to a session.

What depends on a node's kind is a trait: a property or class variable with a default on `Node`. Code elsewhere asks for the
trait, not for the class, so that a new operator is a new class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, TypeAlias

from lakestreams.formats.time import EventTime
from lakestreams.topology.mappers import columns, listed, shown

if TYPE_CHECKING:
    from pyspark.sql import Column

    from lakestreams.formats.base import Format
    from lakestreams.topology.aggregators import Aggregator
    from lakestreams.topology.fields import Fields, MaybeFields

SourceKind = Literal["stream", "table", "global_table"]
JoinKind = Literal["inner", "left"]
OuterJoinKind = Literal["inner", "left", "outer"]
Emission = Literal["on_window_close", "eager"]
Rules = Literal["strict", "kafka"]
WindowStore = Literal["persistent", "in_memory"]
# Whose rows of one source record come first at a join or merge; `none` where no record reaches both inputs.
Overlap = Literal["none", "left_first", "right_first"]
NullValues = Literal["quarantine", "ignore"]
CoPartitioning = Literal["require", "warn", "off"]
# How the changes of a Delta table are found: its change data feed, or what differs from what was read before.
TableChanges = Literal["cdf", "snapshot"]
ExpectationAction = Literal["off", "warn", "drop", "fail"]
StreamMode = Literal["append", "merge"]
TableMode = Literal["merge", "changes"]
SinkMode = Literal["append", "merge", "changes"]
SinkKind = Literal["delta", "kafka"]
AggregateVerb = Literal["count", "reduce", "aggregate"]
# Of an aggregation: a row for each change, or one a key and cycle, as a record cache that is flushed once a cycle.
Changes = Literal["every_change", "latest"]
# Of a table's groups: what a group without rows is, a row of zeros and nulls (Kafka Streams' count) or no row (SQL's).
EmptyGroup = Literal["keep", "delete"]
WhenFull = Literal["emit", "shutdown"]
Settling = Literal["caught_up", "event_time"]
# What a node's records are: points in time, versions of their key, or versions that every task holds whole.
Sort = Literal["stream", "table", "global table"]
# As what a node is drawn.
Role = Literal["source", "step", "join", "aggregate", "buffer", "sink"]
# When a table sends old values: always; if its inputs are asked to as well; if a child insists or rows are stored here;
# if its input does.
SendsOld = Literal["always", "with_inputs", "if_stored", "as_input"]

Projection: TypeAlias = "Mapping[str, Column]"
Mapper: TypeAlias = "Callable[[Fields], Projection]"
PairMapper: TypeAlias = "Callable[[Fields], tuple[Projection, Projection]]"
ManyMapper: TypeAlias = "Callable[[Fields], Column | Sequence[Projection]]"
ManyPairMapper: TypeAlias = "Callable[[Fields], Sequence[tuple[Projection, Projection]]]"
Joiner: TypeAlias = "Callable[[Fields, Fields], Projection]"
LeftJoiner: TypeAlias = "Callable[[Fields, MaybeFields], Projection]"
OuterJoiner: TypeAlias = "Callable[[MaybeFields, MaybeFields], Projection]"
AnyJoiner: TypeAlias = "Joiner | LeftJoiner | OuterJoiner"
Predicate: TypeAlias = "Callable[[Fields], Column]"
Aggregators: TypeAlias = "Callable[[Fields], Mapping[str, Aggregator]]"
# A group's key, and the value to aggregate if it is another one than the row's.
GroupMapper: TypeAlias = "Callable[[Fields], Projection | tuple[Projection, Projection]]"
Reducer: TypeAlias = "Callable[[Fields, Fields], Projection]"

DAY_MS = 86_400_000
# Before the name of a Delta source, where other sources have their topic. No topic of Kafka can have a slash.
DELTA_TOPIC = "delta/"
STREAM: Final = "stream"
TABLE: Final = "table"
GLOBAL: Final = "global table"


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
class Source(Node):
    """A topic read as a stream (records are points), as a table or as a global table (records are versions).

    A Delta table may take the topic's place: it has one partition, whose offsets come from the table's versions
    (docs/decisions/0014-delta-sources.md).

    Attributes:
        name: the user's name, by default the topic's.
        topic: the Kafka topic; of a Delta table `DELTA_TOPIC` and a name.
        kind: `stream`, `table` or `global_table`.
        key, value: how the bytes are read.
        event_time: where the event time comes from.
        max_future_ms: records dated further than this past their ingest time are quarantined.
        null_values: what happens to a null value of a stream (a table's null value is a tombstone).
        keys_not_null: the expectation on null keys of a stream; a table's null key is always quarantined.
        history_ms: of a table, how much of its history is kept: then it is versioned, and looked up as of event time.
        delta: the Delta table that is read, by name or path; None: a topic is.
        changes: of a Delta table read as a table, how its changes are found.
        ignore_changes: of a Delta table read as a stream, whether its updates and deletes are passed over.
        bronze: what its bronze table is called behind the pipeline's name; None: as the topic.
    """

    begins_changes: ClassVar[bool] = True
    sends_old: ClassVar[SendsOld] = "if_stored"
    role: ClassVar[Role] = "source"

    topic: str
    kind: SourceKind
    key: Format
    value: Format
    event_time: EventTime = field(default_factory=EventTime)
    max_future_ms: int = DAY_MS
    null_values: NullValues = "quarantine"
    keys_not_null: ExpectationAction = "off"
    history_ms: int | None = None
    delta: str | None = None
    changes: TableChanges = "cdf"
    ignore_changes: bool = False
    bronze: str | None = None

    @property
    def word(self) -> str:
        """What it is read as."""
        return self.kind

    @property
    def makes(self) -> Sort:
        """As it is declared."""
        return GLOBAL if self.kind == "global_table" else self.kind

    def pins(self) -> tuple[Pin, ...] | None:
        """Itself, unless it is a Delta table, which nobody has partitioned by key."""
        return None if self.delta is not None else (self,)

    def partition_count(self, partitions: Mapping[str, int]) -> int | None:
        """The topic's."""
        return partitions.get(self.topic)

    @property
    def headline(self) -> str:
        """Where its records come from."""
        return f"Source: {shown(self.name)} ({self.kind}, {self._origin()})"

    def _origin(self) -> str:
        named = "" if self.bronze is None else f", bronze: {self.bronze}"
        if self.delta is None:
            return f"topic: {self.topic}{named}"
        how = self.changes if self.kind != "stream" else "inserts" if self.ignore_changes else "appends"
        return f"delta: {shown(self.delta)} as {self.topic}, {how}{named}"

    @property
    def details(self) -> list[str]:
        """Formats, event time, what happens to nulls, history."""
        lines = [
            f"key {self.key.describe()}, value {self.value.describe()}",
            f"event time {self.event_time.describe()}, at most {self.max_future_ms} ms ahead of ingest",
        ]
        if self.kind == "stream":
            lines.append(f"null values: {self.null_values}, keys_not_null: {self.keys_not_null}")
        if self.history_ms is not None:
            lines.append(f"versioned, history {self.history_ms} ms")
        return lines


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


@dataclass(frozen=True)
class MapValues(PerRow):
    """Every record's value becomes the projection's columns; key, time and order stay."""

    _word: ClassVar[str] = "map_values"
    passes_nulls: ClassVar[bool] = True
    sends_old: ClassVar[SendsOld] = "as_input"
    one_of_one: ClassVar[bool] = True

    mapper: Mapper


@dataclass(frozen=True)
class Filter(PerRow):
    """Records whose predicate is true stay; of a table, the others become tombstones."""

    _word: ClassVar[str] = "filter"
    passes_nulls: ClassVar[bool] = True
    filters: ClassVar[bool] = True

    predicate: Predicate

    @property
    def state_names(self) -> tuple[str, ...]:
        """The rows before, where it compares with them (`old_values`)."""
        return ("table",)


@dataclass(frozen=True)
class SelectKey(OneInput):
    """A stream gets another key; value, time and order stay (coordinates are the source's)."""

    takes: ClassVar[Sort | None] = STREAM
    _word: ClassVar[str] = "select_key"
    makes_key: ClassVar[bool] = True
    passes_nulls: ClassVar[bool] = True
    one_of_one: ClassVar[bool] = True

    mapper: Mapper


@dataclass(frozen=True)
class DropAbsentDeletes(OneInput):
    """A table without the deletions of keys that have no row.

    Kafka Streams swallows them where a record cache lies before the table's store and tells them to joins where none
    does (semantics section 8.1), where they can cause tombstones that nobody needs.
    """

    _word: ClassVar[str] = "drop_absent_deletes"
    keeps_rows: ClassVar[bool] = True
    passes_lookups: ClassVar[bool] = True
    reads_old: ClassVar[bool] = True

    @property
    def makes(self) -> Sort:
        """A table, which each task has its part of."""
        return TABLE if self.parent.is_table else STREAM

    @property
    def key_windows(self) -> TimeWindows | None:
        """As its input."""
        return self.parent.key_windows if self.is_table else None

    @property
    def remembers(self) -> bool:
        """Which keys have a row."""
        return True

    @property
    def asks_old(self) -> tuple[Node, ...]:
        """Its inputs."""
        return self.parents

    @property
    def state_names(self) -> tuple[str, ...]:
        """The table's rows."""
        return ("table",)


@dataclass(frozen=True)
class Map(OneInput):
    """A stream gets another key and another value at once; time and order stay."""

    takes: ClassVar[Sort | None] = STREAM
    _word: ClassVar[str] = "map"
    makes_key: ClassVar[bool] = True

    mapper: PairMapper


@dataclass(frozen=True)
class FlatMapValues(OneInput):
    """Each record becomes none, one or several, all with its key, time and order, in the mapper's order."""

    takes: ClassVar[Sort | None] = STREAM
    _word: ClassVar[str] = "flat_map_values"
    multiplies: ClassVar[bool] = True

    mapper: ManyMapper


@dataclass(frozen=True)
class FlatMap(OneInput):
    """Each record becomes none, one or several, each with a key and a value of its own, in the mapper's order."""

    takes: ClassVar[Sort | None] = STREAM
    _word: ClassVar[str] = "flat_map"
    makes_key: ClassVar[bool] = True
    multiplies: ClassVar[bool] = True

    mapper: ManyPairMapper


@dataclass(frozen=True)
class Merge(TwoInputs):
    """The records of two streams of equal columns as one stream."""

    takes: ClassVar[Sort | None] = STREAM
    _word: ClassVar[str] = "merge"
    passes_nulls: ClassVar[bool] = True

    def pins(self) -> tuple[Pin, ...] | None:
        """Those of both inputs, if both have some."""
        left, right = self.left.pins(), self.right.pins()
        return None if left is None or right is None else _once(left, right)


@dataclass(frozen=True)
class Repartition(OneInput):
    """A stream whose tasks are the hash of its key over a count of partitions. Logical: no topic is made."""

    takes: ClassVar[Sort | None] = STREAM
    _word: ClassVar[str] = "repartition"
    passes_nulls: ClassVar[bool] = True
    one_of_one: ClassVar[bool] = True

    partitions: int

    @property
    def rekeys(self) -> bool:
        """Its tasks are its own."""
        return True

    def pins(self) -> tuple[Pin, ...] | None:
        """Itself."""
        return (self,)

    def partition_count(self, partitions: Mapping[str, int]) -> int | None:
        """As it is declared."""
        del partitions
        return self.partitions

    @property
    def details(self) -> list[str]:
        """How many partitions."""
        return [f"partitions {self.partitions}"]


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
class TimeWindows:
    """Windows of equal length that start at multiples of `advance_ms`: tumbling if that is the size, else hopping.

    A window holds its start and not its end, and takes records until the clock reaches its end and grace.
    """

    size_ms: int
    advance_ms: int
    grace_ms: int = 0


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


@dataclass(frozen=True)
class DeltaSink(Sink):
    """A stream or a table written to a Delta table, one commit a cycle.

    Attributes:
        name: the table's name, such as `silver.enriched_page_views`.
        cluster_by, partition_by: how the table is laid out; at most one of the two.
        mode: of a stream `append`, or `merge` (one row a record: the last of its results); of a table `merge` (its rows,
            kept up to date by key) or `changes` (its change log).
        change_feed: whether Delta's change data feed is on.
    """

    _word: ClassVar[str] = "to_delta"

    cluster_by: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()
    mode: SinkMode = "append"
    change_feed: bool = False

    @property
    def headline(self) -> str:
        """How it is written."""
        return f"Sink: {shown(self.name)} (delta, {self.mode})"

    @property
    def details(self) -> list[str]:
        """The table's layout."""
        layouts = {"cluster by": self.cluster_by, "partition by": self.partition_by}
        return [f"{layout} {listed(names)}" for layout, names in layouts.items() if names]


@dataclass(frozen=True)
class KafkaSink(Sink):
    """A stream's records, or a table's changes, written to a Kafka topic at least once.

    Attributes:
        name: the topic.
        key, value: how the bytes are written; None: a JSON object of all columns.
    """

    _word: ClassVar[str] = "to_kafka"

    key: Format | None = None
    value: Format | None = None

    def partition_count(self, partitions: Mapping[str, int]) -> int | None:
        """The topic's."""
        return partitions.get(self.name)

    @property
    def content(self) -> str:
        """What the topic gets of its input: `records` of a stream, `changes` of a table."""
        return "changes" if self.is_table else "records"

    @property
    def headline(self) -> str:
        """What it gets."""
        return f"Sink: {shown(self.name)} (kafka, {self.content}, at least once)"

    @property
    def details(self) -> list[str]:
        """Its formats."""
        key, value = ("json(all columns)" if how is None else how.describe() for how in (self.key, self.value))
        return [f"key {key}, value {value}"]


Pin: TypeAlias = Source | Repartition
Step: TypeAlias = (
    MapValues | Filter | DropAbsentDeletes | SelectKey | Map | FlatMapValues | FlatMap | Merge | Repartition
    | ToTable | ToStream
)  # fmt: skip

# What a windowed aggregate's key has behind the group's columns: the window's first ms, and the first one after it.
WINDOW_COLUMNS = ("window_start_ms", "window_end_ms")


def _once(left: Sequence[Pin], right: Sequence[Pin]) -> tuple[Pin, ...]:
    return tuple({pin.name: pin for pin in (*left, *right)}.values())
