"""What nodes have for options, and the functions that users give them, as types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import Column

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
Partitioner = Literal["murmur2", "crc32", "fnv1a", "fnv1a_reference"]
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
class TimeWindows:
    """Windows of equal length that start at multiples of `advance_ms`: tumbling if that is the size, else hopping.

    A window holds its start and not its end, and takes records until the clock reaches its end and grace.
    """

    size_ms: int
    advance_ms: int
    grace_ms: int = 0


# What a windowed aggregate's key has behind the group's columns: the window's first ms, and the first one after it.
WINDOW_COLUMNS = ("window_start_ms", "window_end_ms")
