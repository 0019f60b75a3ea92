"""Where records come from and go to: sources, and outputs that are Delta tables or Kafka topics."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, get_args

from lakestreams.errors import FormatUnfit, InvalidFormat, InvalidName, InvalidOption, UnknownColumn
from lakestreams.errors.phrases import OptionValue, Phrase
from lakestreams.formats.base import Format, WritableFormat
from lakestreams.formats.time import NUMBER_TYPES, TIME_TYPES, EventTime
from lakestreams.sql import NAME_HINT, name_fault
from lakestreams.topology.durations import in_units
from lakestreams.topology.kinds import (
    DAY_MS,
    DELTA_TOPIC,
    GLOBAL,
    STREAM,
    TABLE,
    ExpectationAction,
    NullValues,
    Role,
    SendsOld,
    SinkMode,
    Sort,
    SourceKind,
    StreamMode,
    TableChanges,
    TableMode,
)
from lakestreams.topology.mappers import listed, shown
from lakestreams.topology.merging import merge_fault
from lakestreams.topology.names import PATH, PIPELINE, TOPIC, TOPIC_HINT
from lakestreams.topology.names import TABLE as TABLE_NAME
from lakestreams.topology.node import Node, OneInput, Pin

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lakestreams.errors import LakestreamsError

_CHANGES_WORDS: dict[TableChanges, str] = {
    "cdf": "by its change data feed",
    "snapshot": "by comparing it with what was read before",
}
_SINK_WORDS: dict[SinkMode, str] = {
    "append": "appended",
    "merge": "merged by key",
    "changes": "appended change by change",
}


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
    choices: ClassVar[Mapping[str, Any]] = {
        "kind": SourceKind,
        "null_values": NullValues,
        "keys_not_null": ExpectationAction,
        "changes": TableChanges,
    }

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

    @property
    def has_partitions(self) -> bool:
        """A topic has some; a Delta table has one."""
        return not self.delta

    def pins(self) -> tuple[Pin, ...] | None:
        """Itself, unless it is a Delta table, which nobody has partitioned by key."""
        return None if self.delta is not None else (self,)

    def partition_count(self, partitions: Mapping[str, int]) -> int | None:
        """The topic's; a Delta table has none."""
        return partitions.get(self.topic) if self.delta is None else None

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

    @property
    def caption(self) -> str:
        """What it is read as."""
        return self.kind.replace("_", " ")

    @property
    def box(self) -> list[str]:
        """Where records come from, if its name does not say it; history."""
        lines = []
        if self.delta is not None:
            lines.append(f"delta {self.delta}")
            lines.extend([f"changes {self.changes}"] if self.kind != "stream" else [])
        elif self.topic != self.name:
            lines.append(f"topic {self.topic}")
        return [*lines, *([f"versioned, history {in_units(self.history_ms)}"] if self.history_ms is not None else [])]

    def plan(self, kernel: str | None) -> str:
        """What is read into bronze."""
        del kernel
        if self.delta is None:
            return f"topic {self.topic} read as a {self.kind} into bronze; parsed once: {self.value.describe()}"
        how = "its appends" if self.kind == "stream" else _CHANGES_WORDS[self.changes]
        return f"delta {self.delta} read as a {self.kind} into bronze, {how}: {self.value.describe()}"

    def faults(self) -> Iterator[LakestreamsError]:
        """History, names and options of a topic or a Delta table, the column of the event time."""
        yield from self.name_faults()
        yield from self._history_faults()
        if self.name and not TOPIC.match(self.topic if self.delta is None else self.topic[len(DELTA_TOPIC) :]):
            text = f"topic name {self.topic!r}"
            yield InvalidName(text, hint=TOPIC_HINT, where=self.where, option="topic", given=self.topic)
        yield from self._delta_faults()
        if self.bronze is not None and not PIPELINE.match(self.bronze):
            text = f"bronze table {self.bronze!r}"
            yield InvalidName(text, where=self.where, option="bronze", given=self.bronze)
        yield from self._time_faults()
        yield from self.choice_faults()

    def _history_faults(self) -> Iterator[LakestreamsError]:
        if self.history_ms is not None and self.kind != "table":
            text = f"a {self.kind.replace('_', ' ')} cannot be versioned, only a table"
            yield InvalidOption(text, hint="leave history_ms out", where=self.where)
        elif self.history_ms is not None and self.history_ms < 0:
            yield InvalidOption.negative("history", self.history_ms, self.where)

    def _delta_faults(self) -> Iterator[LakestreamsError]:
        if self.delta is not None and not (TABLE_NAME.match(self.delta) or PATH.match(self.delta)):
            hint = "catalog.schema.table, schema.table, or a path with a slash in it"
            yield InvalidName(f"Delta table {self.delta!r}", hint=hint, where=self.where)
        if self.delta is None and (self.changes != "cdf" or self.ignore_changes):
            given: str | OptionValue = "ignore_changes" if self.ignore_changes else OptionValue("changes", self.changes)
            option = "ignore_changes" if self.ignore_changes else "changes"
            text = Phrase(given, " is for Delta tables; this reads a topic")
            yield InvalidOption(text, hint="give delta=...", where=self.where, option=option)
        elif self.kind == "stream" and self.changes != "cdf":
            reason = " compares the rows of keys, and a stream's records have none of their own"
            text = Phrase(OptionValue("changes", self.changes), reason)
            yield InvalidOption(text, hint="read it as a table, or leave changes out", where=self.where)
        elif self.kind != "stream" and self.ignore_changes:
            wrong = "ignore_changes is for streams; a table is made of updates and deletes"
            yield InvalidOption(wrong, hint="leave it out", where=self.where, option="ignore_changes", given=True)

    def _time_faults(self) -> Iterator[LakestreamsError]:
        column = self.event_time.field
        types = {one.name: one.type for one in self.value.fields}
        if column is not None and column not in types:
            hint = f"the value has: {', '.join(types)}"
            text = f"event_time names {column!r}, which the value lacks"
            yield UnknownColumn(text, hint=hint, where=self.where, option="event_time", given=column)
        elif column is not None and types[column] not in (*NUMBER_TYPES, *TIME_TYPES):
            hint = f"one of {', '.join((*NUMBER_TYPES, *TIME_TYPES))}; numbers are ms since the epoch"
            text = f"event_time column {column!r} is a {types[column]}"
            yield InvalidOption(text, hint=hint, where=self.where, option="event_time", given=column)


@dataclass(frozen=True)
class Sink(OneInput):
    """An output."""

    hears_deletions: ClassVar[bool] = True
    one_of_one: ClassVar[bool] = True
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
    has_layout: ClassVar[bool] = True
    choices: ClassVar[Mapping[str, Any]] = {"mode": SinkMode}

    cluster_by: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()
    mode: SinkMode = "append"
    change_feed: bool = False

    @property
    def appends(self) -> bool:
        """As it is declared."""
        return self.mode == "append"

    @property
    def upserts(self) -> bool:
        """As it is declared."""
        return self.mode == "merge"

    @property
    def headline(self) -> str:
        """How it is written."""
        return f"Sink: {shown(self.name)} (delta, {self.mode})"

    @property
    def details(self) -> list[str]:
        """The table's layout."""
        layouts = {"cluster by": self.cluster_by, "partition by": self.partition_by}
        return [f"{layout} {listed(names)}" for layout, names in layouts.items() if names]

    @property
    def qualities(self) -> tuple[str, ...]:
        """How it is written."""
        return (self.mode,)

    @property
    def box(self) -> list[str]:
        """The table's layout."""
        layouts = {"cluster by": self.cluster_by, "partition by": self.partition_by}
        return [f"{layout} {', '.join(names)}" for layout, names in layouts.items() if names]

    def plan(self, kernel: str | None) -> str:
        """How it is written."""
        del kernel
        words = _SINK_WORDS[self.mode] if self.is_table or self.mode != "merge" else "merged by record"
        return f"{self.parent.name} {words}, one commit a cycle"

    def faults(self) -> Iterator[LakestreamsError]:
        """Names that tables cannot carry, a mode that does not fit."""
        yield from super().faults()
        if self.name and not TABLE_NAME.match(self.name):
            yield InvalidName(f"table name {self.name!r}", where=self.where)
        for name in (*self.cluster_by, *self.partition_by):
            fault = name_fault(name)
            if fault is not None:
                text = f"cluster_by or partition_by: {fault}"
                yield InvalidName(text, hint=NAME_HINT, where=self.where, option="cluster_by", given=name)
        if self.cluster_by and self.partition_by:
            text = "cluster_by and partition_by exclude each other"
            yield InvalidOption(text, where=self.where, option="cluster_by")
        yield from self._mode_faults()

    def _mode_faults(self) -> Iterator[LakestreamsError]:
        fitting = get_args(TableMode if self.parent.is_table else StreamMode)
        if self.mode in get_args(SinkMode) and self.mode not in fitting:
            text = Phrase(OptionValue("mode", self.mode), f" does not fit {self.parent.name}, a {self.parent.makes}")
            yield InvalidOption(text, hint=f"it takes {', '.join(fitting)}", where=self.where, takes=fitting)
        elif self.mode == "merge" and not self.parent.is_table:
            fault = merge_fault(self.parent)
            if fault is not None:
                hint = "append every result; the record that one is of is _lineage.contributors[0]"
                wrong = f"mode merge: {fault}"
                yield InvalidOption(wrong, hint=hint, where=self.where, option="mode", given="merge")


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

    @property
    def qualities(self) -> tuple[str, ...]:
        """What it gets."""
        return (self.content,)

    @property
    def box(self) -> list[str]:
        """What can be relied on."""
        return ["at least once"]

    def plan(self, kernel: str | None) -> str:
        """What is written, and what a run that fails does to it."""
        del kernel
        each = "change by change" if self.is_table else "record by record"
        again = "a run that fails repeats its cycle, with equal ids"
        return f"{self.parent.name} written to the topic {each}, at least once: {again}"

    def faults(self) -> Iterator[LakestreamsError]:
        """A name that no topic has, formats that cannot be written."""
        yield from super().faults()
        if self.name and not TOPIC.match(self.name):
            text = f"topic name {self.name!r}"
            yield InvalidName(text, hint=TOPIC_HINT, where=self.where, option="topic", given=self.name)
        # users without a type checker pass anything
        formats: dict[str, object] = {"key": self.key, "value": self.value}
        for side, given in formats.items():
            if given is not None and (not isinstance(given, Format) or isinstance(given, type)):
                wrong = Phrase(OptionValue(side, given), " is not a format")
                hint = 'such as Text("user") or Json("ms int, page string")'
                yield InvalidFormat(wrong, hint=hint, where=self.where)
            elif isinstance(given, Format) and not isinstance(given, WritableFormat):
                hint = "write it as Text, Long or Json; without a format it is a JSON object of all columns"
                unfit = f"{side}: {given.describe()} can be read only"
                yield FormatUnfit(unfit, hint=hint, where=self.where, option=side, given=given)
