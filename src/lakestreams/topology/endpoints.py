"""Where records come from and go to: sources, and outputs that are Delta tables or Kafka topics."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from lakestreams.formats.time import EventTime
from lakestreams.topology.kinds import (
    DAY_MS,
    GLOBAL,
    ExpectationAction,
    NullValues,
    Role,
    SendsOld,
    SinkMode,
    Sort,
    SourceKind,
    TableChanges,
)
from lakestreams.topology.mappers import listed, shown
from lakestreams.topology.node import Node, Pin, Sink

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakestreams.formats.base import Format


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
