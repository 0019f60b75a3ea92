"""The nodes of a topology: frozen values, one class a kind, each with the user's name for it.

A node knows its parents, never its children. Functions (mappers, joiners, predicates) are kept as given and are
evaluated over Spark Columns when the topology is bound to a session.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from lakestreams.formats.time import EventTime

if TYPE_CHECKING:
    from pyspark.sql import Column

    from lakestreams.formats.base import Format
    from lakestreams.topology.fields import Fields

SourceKind = Literal["stream", "table"]
JoinKind = Literal["inner", "left"]
NullValues = Literal["quarantine", "ignore"]
CoPartitioning = Literal["require", "warn", "off"]
ExpectationAction = Literal["off", "warn", "drop", "fail"]

Projection: TypeAlias = "Mapping[str, Column]"
Mapper: TypeAlias = "Callable[[Fields], Projection]"
Joiner: TypeAlias = "Callable[[Fields, Fields], Projection]"
Predicate: TypeAlias = "Callable[[Fields], Column]"

DAY_MS = 86_400_000


@dataclass(frozen=True)
class Source:
    """A topic read as a stream (records are points) or as a table (records are versions of their key).

    Attributes:
        name: the user's name, by default the topic's.
        topic: the Kafka topic.
        kind: `stream` or `table`.
        key, value: how the bytes are read.
        event_time: where the event time comes from.
        max_future_ms: records dated further than this past their ingest time are quarantined.
        null_values: what happens to a null value of a stream (a table's null value is a tombstone).
        keys_not_null: the expectation on null keys of a stream; a table's null key is always quarantined.
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

    @property
    def parents(self) -> tuple[Node, ...]:
        """None: a source is where records come in."""
        return ()


@dataclass(frozen=True)
class MapValues:
    """Every record's value becomes the projection's columns; key, time and order stay."""

    name: str
    parent: Node
    mapper: Mapper

    @property
    def parents(self) -> tuple[Node, ...]:
        """The one input."""
        return (self.parent,)


@dataclass(frozen=True)
class Filter:
    """Records whose predicate is true stay; of a table, the others become tombstones."""

    name: str
    parent: Node
    predicate: Predicate

    @property
    def parents(self) -> tuple[Node, ...]:
        """The one input."""
        return (self.parent,)


@dataclass(frozen=True)
class SelectKey:
    """A stream gets another key; value, time and order stay (coordinates are the source's)."""

    name: str
    parent: Node
    mapper: Mapper

    @property
    def parents(self) -> tuple[Node, ...]:
        """The one input."""
        return (self.parent,)


@dataclass(frozen=True)
class StreamTableJoin:
    """Each stream record with the table row of its key that is valid at the record (Kafka's KStream-KTable join)."""

    name: str
    left: Node
    right: Node
    how: JoinKind
    joiner: Joiner | None = None
    co_partitioning: CoPartitioning = "require"

    @property
    def parents(self) -> tuple[Node, ...]:
        """Stream side, table side."""
        return (self.left, self.right)


@dataclass(frozen=True)
class DeltaSink:
    """A stream written to a Delta table, one append a cycle.

    Attributes:
        name: the table's name, such as `silver.enriched_page_views`.
        cluster_by, partition_by: how the table is laid out; at most one of the two.
    """

    name: str
    parent: Node
    cluster_by: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()

    @property
    def parents(self) -> tuple[Node, ...]:
        """The one input."""
        return (self.parent,)


Node: TypeAlias = Source | MapValues | Filter | SelectKey | StreamTableJoin | DeltaSink


def is_table(node: Node) -> bool:
    """Whether a node's records are versions of their key rather than points."""
    if isinstance(node, Source):
        return node.kind == "table"
    return isinstance(node, MapValues | Filter) and is_table(node.parent)


def kind_of(node: Node) -> str:
    """The word for a node's kind, as drawings and messages show it."""
    words: dict[type[Any], str] = {
        MapValues: "map_values",
        Filter: "filter",
        SelectKey: "select_key",
        DeltaSink: "to_delta",
    }
    if isinstance(node, Source):
        return node.kind
    if isinstance(node, StreamTableJoin):
        return "join" if node.how == "inner" else "left_join"
    return words[type(node)]


def sources_of(node: Node) -> tuple[Source, ...]:
    """The sources that feed a node, first the left ones, each once."""
    if isinstance(node, Source):
        return (node,)
    found: dict[str, Source] = {}
    for parent in node.parents:
        for source in sources_of(parent):
            found.setdefault(source.name, source)
    return tuple(found.values())


def key_source(node: Node) -> Source | None:
    """The source whose partitions a node's records lie in, or None after a re-key (then the task is by key hash)."""
    if isinstance(node, Source):
        return node
    if isinstance(node, SelectKey):
        return None
    return key_source(node.parents[0])
