"""The nodes of a topology: frozen values, one class a kind, each with the user's name for it.

A node knows its parents, never its children. Functions (mappers, joiners, predicates) are kept as given and are
evaluated over Spark Columns when the topology is bound to a session.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeGuard

from lakestreams.formats.time import EventTime

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


@dataclass(frozen=True)
class Source:
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

    name: str
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
    def parents(self) -> tuple[Node, ...]:
        """None: a source is where records come in."""
        return ()


@dataclass(frozen=True)
class _OneInput:
    """What every step, aggregation, buffer and output has: a name, and the node that it reads."""

    name: str
    parent: Node

    @property
    def parents(self) -> tuple[Node, ...]:
        """The one input."""
        return (self.parent,)


@dataclass(frozen=True)
class _TwoInputs:
    """What every join and merge has: a name, and the nodes on its left and on its right."""

    name: str
    left: Node
    right: Node

    @property
    def parents(self) -> tuple[Node, ...]:
        """Left input, right input."""
        return (self.left, self.right)


@dataclass(frozen=True)
class MapValues(_OneInput):
    """Every record's value becomes the projection's columns; key, time and order stay."""

    mapper: Mapper


@dataclass(frozen=True)
class Filter(_OneInput):
    """Records whose predicate is true stay; of a table, the others become tombstones."""

    predicate: Predicate


@dataclass(frozen=True)
class SelectKey(_OneInput):
    """A stream gets another key; value, time and order stay (coordinates are the source's)."""

    mapper: Mapper


@dataclass(frozen=True)
class DropAbsentDeletes(_OneInput):
    """A table without the deletions of keys that have no row.

    Kafka Streams swallows them where a record cache lies before the table's store and tells them to joins where none
    does (semantics section 8.1), where they can cause tombstones that nobody needs.
    """


@dataclass(frozen=True)
class Map(_OneInput):
    """A stream gets another key and another value at once; time and order stay."""

    mapper: PairMapper


@dataclass(frozen=True)
class FlatMapValues(_OneInput):
    """Each record becomes none, one or several, all with its key, time and order, in the mapper's order."""

    mapper: ManyMapper


@dataclass(frozen=True)
class FlatMap(_OneInput):
    """Each record becomes none, one or several, each with a key and a value of its own, in the mapper's order."""

    mapper: ManyPairMapper


@dataclass(frozen=True)
class Merge(_TwoInputs):
    """The records of two streams of equal columns as one stream."""


@dataclass(frozen=True)
class Repartition(_OneInput):
    """A stream whose tasks are the hash of its key over a count of partitions. Logical: no topic is made."""

    partitions: int


@dataclass(frozen=True)
class WindowedJoin(_TwoInputs):
    """Two streams' records of one key whose times lie in a window around each other (Kafka's KStream-KStream join).

    Attributes:
        before_ms, after_ms: they join iff `left.ts - before <= right.ts <= left.ts + after`; one may be negative.
        grace_ms: how long a window stays open for records that come late.
        emit_unmatched: when unmatched rows of an outer side come out.
        rules: `strict` (one fate a record) or `kafka` (parity); semantics 3.7.
        store: what Kafka Streams would keep the window in; of the rules `kafka` only: in an in-memory store a null
            value moves the store's clock.
    """

    how: OuterJoinKind
    before_ms: int
    after_ms: int
    grace_ms: int = 0
    emit_unmatched: Emission = "on_window_close"
    rules: Rules = "strict"
    joiner: AnyJoiner | None = None
    co_partitioning: CoPartitioning = "require"
    store: WindowStore = "persistent"


@dataclass(frozen=True)
class StreamTableJoin(_TwoInputs):
    """Each stream record with the table row of its key that is valid at the record (Kafka's KStream-KTable join).

    A versioned table (`history_ms` of its source) is looked up as of the record's event time, any other one as of the
    record's place in the order.

    Attributes:
        grace_ms: with a versioned table, how long records wait for table records that come late (KIP-923).
        wait_ms: how long a record that meets no row waits for one, before it comes out without, or is refused.
        amend_ms: how long a record that came out without a row is put right by one that comes.
    """

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


@dataclass(frozen=True)
class StreamGlobalJoin(_TwoInputs):
    """Each stream record with the global table's row of a key made from it (Kafka's KStream-GlobalKTable join).

    Attributes:
        left_on: from the record's fields to the table's key columns, in the table's order.
    """

    how: JoinKind
    left_on: Mapper
    joiner: AnyJoiner | None = None


@dataclass(frozen=True)
class TableTableJoin(_TwoInputs):
    """Two tables' rows of one key, kept up to date (Kafka's KTable-KTable join)."""

    how: OuterJoinKind
    joiner: AnyJoiner | None = None
    co_partitioning: CoPartitioning = "require"


@dataclass(frozen=True)
class ForeignKeyJoin(_TwoInputs):
    """Each row of the left table with the right table's row that it names (Kafka's foreign-key join, KIP-213).

    Attributes:
        left_on: from the left row's fields (key and value) to the right table's key columns, in their order.
    """

    how: JoinKind
    left_on: Mapper
    joiner: AnyJoiner | None = None


@dataclass(frozen=True)
class ForeignKeyStreamJoin(_TwoInputs):
    """Each stream record with every table row that names its key (KIP-955).

    Attributes:
        right_on: from the table row's fields (key and value) to the stream's key columns, in their order.
    """

    how: JoinKind
    right_on: Mapper
    joiner: AnyJoiner | None = None


@dataclass(frozen=True)
class ToTable(_OneInput):
    """A stream read as a table: each record is its key's new row, a null value deletes it (Kafka's `toTable`)."""


@dataclass(frozen=True)
class ToStream(_OneInput):
    """A table's changes as a stream: each new row is a record, each deletion one with a null value."""


@dataclass(frozen=True)
class TimeWindows:
    """Windows of equal length that start at multiples of `advance_ms`: tumbling if that is the size, else hopping.

    A window holds its start and not its end, and takes records until the clock reaches its end and grace.
    """

    size_ms: int
    advance_ms: int
    grace_ms: int = 0


@dataclass(frozen=True)
class Aggregate(_OneInput):
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

    verb: AggregateVerb
    group: GroupMapper | None = None
    windows: TimeWindows | None = None
    aggregators: Aggregators | None = None
    add: Reducer | None = None
    subtract: Reducer | None = None
    emit: Changes = "every_change"
    empty: EmptyGroup = "keep"


@dataclass(frozen=True)
class Suppress(_OneInput):
    """A table whose updates wait in a buffer, so that only the last one of a while is told (Kafka's `suppress`).

    Attributes:
        until_ms: how long an update waits, by the clock of the updates; None: until its window closes.
        max_records: how many keys a task's buffer holds; None: any number.
        when_full: what happens then: the oldest ones come out early, or the run stops.
    """

    until_ms: int | None = None
    max_records: int | None = None
    when_full: WhenFull = "emit"


@dataclass(frozen=True)
class DeltaSink(_OneInput):
    """A stream or a table written to a Delta table, one commit a cycle.

    Attributes:
        name: the table's name, such as `silver.enriched_page_views`.
        cluster_by, partition_by: how the table is laid out; at most one of the two.
        mode: of a stream `append`, or `merge` (one row a record: the last of its results); of a table `merge` (its rows,
            kept up to date by key) or `changes` (its change log).
        change_feed: whether Delta's change data feed is on.
    """

    cluster_by: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()
    mode: SinkMode = "append"
    change_feed: bool = False


@dataclass(frozen=True)
class KafkaSink(_OneInput):
    """A stream's records, or a table's changes, written to a Kafka topic at least once.

    Attributes:
        name: the topic.
        key, value: how the bytes are written; None: a JSON object of all columns.
    """

    key: Format | None = None
    value: Format | None = None


Join: TypeAlias = (
    WindowedJoin | StreamTableJoin | StreamGlobalJoin | TableTableJoin | ForeignKeyJoin | ForeignKeyStreamJoin
)
Step: TypeAlias = (
    MapValues | Filter | DropAbsentDeletes | SelectKey | Map | FlatMapValues | FlatMap | Merge | Repartition
    | ToTable | ToStream
)  # fmt: skip
Sink: TypeAlias = DeltaSink | KafkaSink
Node: TypeAlias = Source | Step | Join | Aggregate | Suppress | Sink

# What a windowed aggregate's key has behind the group's columns: the window's first ms, and the first one after it.
WINDOW_COLUMNS = ("window_start_ms", "window_end_ms")

# Joins by the key both sides already have: their tasks must fit (semantics section 9).
CO_PARTITIONED = (WindowedJoin, StreamTableJoin, TableTableJoin)
# Joins between equals: only they can keep the unmatched rows of both sides.
WITH_OUTER = (WindowedJoin, TableTableJoin)
_WORDS: dict[type[Any], str] = {
    MapValues: "map_values",
    Filter: "filter",
    DropAbsentDeletes: "drop_absent_deletes",
    SelectKey: "select_key",
    Map: "map",
    FlatMapValues: "flat_map_values",
    FlatMap: "flat_map",
    Merge: "merge",
    Repartition: "repartition",
    ToTable: "to_table",
    ToStream: "to_stream",
    Suppress: "suppress",
    DeltaSink: "to_delta",
    KafkaSink: "to_kafka",
}
_SHAPES: dict[type[Any], str] = {
    WindowedJoin: "stream-stream",
    StreamTableJoin: "stream-table",
    StreamGlobalJoin: "stream-global",
    TableTableJoin: "table-table",
    ForeignKeyJoin: "foreign-key table-table",
    ForeignKeyStreamJoin: "foreign-key stream-table",
}


def is_join(node: Node) -> TypeGuard[Join]:
    """Whether a node is a join of any shape."""
    return type(node) in _SHAPES


def shape_of(join: Join | type[Join]) -> str:
    """The name of a join's shape, or of a class of joins, such as `stream-table`."""
    return _SHAPES[join if isinstance(join, type) else type(join)]


def is_table(node: Node) -> bool:
    """Whether a node's records are versions of their key rather than points."""
    if isinstance(node, Source):
        return node.kind != "stream"
    if isinstance(node, TableTableJoin | ForeignKeyJoin | ToTable | Aggregate | Suppress):
        return True
    return isinstance(node, MapValues | Filter | DropAbsentDeletes | DeltaSink | KafkaSink) and is_table(node.parent)


def windows_of(node: Node) -> TimeWindows | None:
    """The windows that a table's keys have, if a windowed aggregation made them and no later step changed the keys."""
    if isinstance(node, Aggregate):
        return node.windows
    passes = isinstance(node, MapValues | Filter | DropAbsentDeletes | Suppress) and is_table(node)
    return windows_of(node.parents[0]) if passes else None


def is_made(node: Node) -> bool:
    """Whether something that waits or gathers lies between the sources and a node: a join, an aggregation, a buffer."""
    return is_join(node) or isinstance(node, Aggregate | Suppress) or any(is_made(parent) for parent in node.parents)


def is_global(node: Node) -> bool:
    """Whether a node is a global table, or a step on one."""
    if isinstance(node, Source):
        return node.kind == "global_table"
    return isinstance(node, MapValues | Filter) and is_global(node.parent)


def history_of(node: Node) -> int | None:
    """The history retention of a versioned table in ms; None if it is not versioned.

    Versioned-ness passes through stateless steps and ends at a stateful one (semantics section 7).
    """
    if isinstance(node, Source):
        return node.history_ms
    return history_of(node.parent) if isinstance(node, MapValues | Filter) else None


def kind_of(node: Node) -> str:
    """The word for a node's kind, as drawings and messages show it."""
    if isinstance(node, Source):
        return node.kind
    if is_join(node):
        return "join" if node.how == "inner" else f"{node.how}_join"
    if isinstance(node, Aggregate):
        return node.verb
    return _WORDS[type(node)]
