"""What can be wrong with a topology and seen without Spark or Kafka."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import fields
from typing import TYPE_CHECKING, Any, get_args

from lakestreams.errors import (
    DuplicateName,
    FormatUnfit,
    InvalidFormat,
    InvalidName,
    InvalidOption,
    LakestreamsError,
    NoOutput,
    OwnTopic,
    UnknownColumn,
    UnnamedNode,
    WrongKind,
)
from lakestreams.formats.base import Format, WritableFormat
from lakestreams.formats.time import NUMBER_TYPES, TIME_TYPES
from lakestreams.sql import NAME_HINT, name_fault
from lakestreams.topology.derived import Aggregate, Suppress
from lakestreams.topology.endpoints import DeltaSink, KafkaSink, Source
from lakestreams.topology.expectations import (
    OF_JOINS,
    OF_OUTPUTS,
    OF_SOURCES,
    Expectations,
    FanOut,
    ForeignKeyExists,
    Invariant,
    KeyOnHomePartition,
    Layout,
    MatchRate,
    NoDuplicateResult,
    OneKeyOnePartition,
    OneOutcomePerLeft,
    Skew,
    TimeSkew,
    UniqueKey,
)
from lakestreams.topology.joins import ForeignKeyJoin, StreamGlobalJoin, StreamTableJoin, WindowedJoin
from lakestreams.topology.kinds import (
    DELTA_TOPIC,
    AggregateVerb,
    Changes,
    CoPartitioning,
    Emission,
    EmptyGroup,
    ExpectationAction,
    NullValues,
    Rules,
    SinkMode,
    SourceKind,
    StreamMode,
    TableChanges,
    TableMode,
    WhenFull,
    WindowStore,
)
from lakestreams.topology.node import Join, Node, Sink
from lakestreams.topology.partitions import co_partitioning
from lakestreams.topology.steps import Filter, Map, MapValues, Repartition, SelectKey

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# Steps and joins of a stream that make at most one row of one row of their (left) input.
_ONE_OF_ONE = (MapValues, Filter, SelectKey, Map, Repartition, StreamTableJoin, StreamGlobalJoin)
_PIPELINE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}\Z")
_TABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}(\.[A-Za-z_][A-Za-z0-9_]{0,127}){0,2}\Z")
_TOPIC = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9._-]{1,249}\Z")
# What a table's path has and its name has not: a slash. Quotes would end the name inside a statement.
_PATH = re.compile(r"[^`\"'\x00-\x1f\x7f]*/[^`\"'\x00-\x1f\x7f]*\Z")
_TOPIC_HINT = "Kafka allows letters, digits, dot, _ and -, up to 249 of them"

_CHOICES: dict[str, Any] = {
    "kind": SourceKind,
    "null_values": NullValues,
    "keys_not_null": ExpectationAction,
    "co_partitioning": CoPartitioning,
    "emit_unmatched": Emission,
    "rules": Rules,
    "store": WindowStore,
    "mode": SinkMode,
    "verb": AggregateVerb,
    "emit": Changes,
    "empty": EmptyGroup,
    "when_full": WhenFull,
    "changes": TableChanges,
}

__all__ = ["co_partitioning", "structure"]


def structure(pipeline: str, nodes: Sequence[Node]) -> list[LakestreamsError]:
    """Every fault in names, options and outputs, in the order of declaration."""
    faults: list[LakestreamsError] = []
    if not pipeline:
        faults.append(UnnamedNode("the pipeline has no name", hint='StreamsBuilder("page_views")'))
    elif not _PIPELINE.match(pipeline):
        faults.append(InvalidName(f"pipeline name {pipeline!r}"))
    for node in nodes:
        faults.extend(_node_faults(node))
    faults.extend(_doubled(nodes))
    faults.extend(_own_topics(nodes))
    if not any(isinstance(node, Sink) for node in nodes):
        faults.append(NoOutput(f"pipeline {pipeline!r} has no output"))
    return faults


def expected(nodes: Sequence[Node], expectations: Expectations) -> list[LakestreamsError]:
    """Every fault in rules and invariants that can be seen without a session."""
    faults: list[LakestreamsError] = []
    known = {node.name: node for node in nodes}
    for (dataset, name), count in Counter((rule.dataset, rule.name) for rule in expectations.rules).items():
        if count > 1:
            faults.append(DuplicateName(f"expectation {name!r} stands {count} times", where=_where(known[dataset])))
    for rule in expectations.rules:
        node = known[rule.dataset]
        if rule.action == "drop" and node.is_table and not isinstance(node, Source | Sink):
            message = f"{rule.name} would drop rows of {node.name}, a table that steps make"
            hint = "drop them at a source or an output; a filter deletes rows"
            faults.append(InvalidOption(message, hint=hint, where=_where(node)))
    for dataset, invariant in expectations.invariants:
        unfit = _unfit(known[dataset], invariant)
        if unfit is not None:
            message = f"invariant {invariant.name} does not fit {dataset}: {unfit}"
            faults.append(
                InvalidOption(message, hint="docs/expectations.md says which fits what", where=_where(known[dataset]))
            )
    return faults


def _unfit(node: Node, invariant: Invariant) -> str | None:
    """Why an invariant says nothing of a node's rows; None if it fits."""
    kind = type(invariant)
    if isinstance(invariant, OF_SOURCES) and not isinstance(node, Source):
        return "it is one of sources"
    if (
        isinstance(invariant, KeyOnHomePartition | OneKeyOnePartition | Skew)
        and isinstance(node, Source)
        and node.delta
    ):
        return "a Delta table has one partition"
    if isinstance(invariant, OF_JOINS) and not isinstance(node, Join):
        return "it is one of joins"
    if isinstance(invariant, OF_OUTPUTS) and not (isinstance(node, DeltaSink) and node.mode == "append"):
        return "it is one of outputs that are appended to"
    if isinstance(invariant, NoDuplicateResult) and isinstance(node, Source):
        return "it is one of steps and outputs"
    if kind is Layout and not isinstance(node, DeltaSink):
        return "it is one of outputs that are Delta tables"
    if kind is MatchRate and getattr(node, "how", "") == "inner":
        return "an inner join does not tell what met nothing; a left_join does"
    if kind is ForeignKeyExists and not (isinstance(node, ForeignKeyJoin) and node.how == "left"):
        return "it is one of foreign-key left joins of tables"
    if kind is TimeSkew and not isinstance(node, WindowedJoin):
        return "it is one of joins of two streams"
    if kind in (FanOut, OneOutcomePerLeft) and node.is_table:
        return "a table has one row a key"
    if isinstance(invariant, UniqueKey) and not invariant.columns:
        return "it names no columns"
    return None


def _node_faults(node: Node) -> list[LakestreamsError]:
    faults: list[LakestreamsError] = []
    if not node.name:
        faults.append(UnnamedNode(f"a {node.word} has no name", hint="pass a name that is not empty"))
    if isinstance(node, Source):
        faults.extend(_source_faults(node, _where(node)))
    faults.extend(InvalidOption(text, where=_where(node)) for text in _outside_choices(node))
    wrong_kinds = [WrongKind(text, where=_where(node)) for text in node.wrong_inputs()]
    faults.extend(wrong_kinds)
    if isinstance(node, DeltaSink):
        faults.extend(_sink_faults(node, _where(node)))
    if isinstance(node, KafkaSink):
        faults.extend(_kafka_faults(node, _where(node)))
    if isinstance(node, Repartition) and (type(node.partitions) is not int or node.partitions < 1):
        text = f"partitions={node.partitions!r} is not a count"
        faults.append(InvalidOption(text, hint="a whole number, 1 or more", where=_where(node)))
    if isinstance(node, WindowedJoin):
        faults.extend(_window_faults(node, _where(node)))
    if isinstance(node, StreamTableJoin) and not wrong_kinds:
        faults.extend(_grace_faults(node, _where(node)))
        faults.extend(_race_faults(node, _where(node)))
    if isinstance(node, Aggregate):
        faults.extend(_aggregate_faults(node, _where(node)))
    if isinstance(node, Suppress):
        faults.extend(_suppress_faults(node, _where(node)))
    return faults


def _outside_choices(node: Node) -> Iterator[str]:
    """Options of a node that are none of their Literal's choices."""
    choices = _CHOICES | ({"how": node.how_choices} if isinstance(node, Join) else {})
    for option in fields(node):
        if option.name in choices:
            chosen, words = getattr(node, option.name), get_args(choices[option.name])
            if chosen not in words:
                yield f"{option.name}={chosen!r} is none of {', '.join(words)}"


def _sink_faults(sink: DeltaSink, where: str) -> Iterator[LakestreamsError]:
    if sink.name and not _TABLE.match(sink.name):
        yield InvalidName(f"table name {sink.name!r}", where=where)
    for name in (*sink.cluster_by, *sink.partition_by):
        fault = name_fault(name)
        if fault is not None:
            yield InvalidName(f"cluster_by or partition_by: {fault}", hint=NAME_HINT, where=where)
    if sink.cluster_by and sink.partition_by:
        yield InvalidOption("cluster_by and partition_by exclude each other", where=where)
    fitting = get_args(TableMode if sink.parent.is_table else StreamMode)
    if sink.mode in get_args(SinkMode) and sink.mode not in fitting:
        text = f"mode={sink.mode!r} does not fit {sink.parent.name}, a {sink.parent.makes}"
        yield InvalidOption(text, hint=f"it takes {', '.join(fitting)}", where=where)
    elif sink.mode == "merge" and not sink.parent.is_table:
        yield from _merged_stream_faults(sink, where)


def _merged_stream_faults(sink: DeltaSink, where: str) -> Iterator[LakestreamsError]:
    """A stream is merged by record, each row its last result: that takes a join that amends, and order behind it.

    Where a record has several rows, or its results can overtake each other, the last one is not the one that holds.
    """
    way: list[Node] = []
    node = sink.parent
    while isinstance(node, _ONE_OF_ONE):
        way.append(node)
        node = node.parents[0]
    amending = [one for one in way if isinstance(one, StreamTableJoin) and one.amend_ms is not None]
    fault = None
    if not isinstance(node, Source):
        fault = f"a record may have several rows in {sink.parent.name}, since {node.name} is a {node.word}"
    elif not amending:
        fault = f"no later result replaces a row of {sink.parent.name}: no join before it amends"
    elif len(amending) > 1:
        names = " and ".join(one.name for one in reversed(amending))
        fault = f"{names} both amend: the last result of a record need not be the one that knows most"
    else:
        behind = way[: way.index(amending[0])]
        waits = [one.name for one in behind if isinstance(one, StreamTableJoin) and one.waits]
        if waits:
            fault = f"{waits[0]} waits behind {amending[0].name}: a record's results may come out in another order"
    if fault is not None:
        hint = "append every result; the record that one is of is _lineage.contributors[0]"
        yield InvalidOption(f"mode merge: {fault}", hint=hint, where=where)


def _kafka_faults(sink: KafkaSink, where: str) -> Iterator[LakestreamsError]:
    if sink.name and not _TOPIC.match(sink.name):
        yield InvalidName(f"topic name {sink.name!r}", hint=_TOPIC_HINT, where=where)
    formats: dict[str, object] = {"key": sink.key, "value": sink.value}  # users without a type checker pass anything
    for side, given in formats.items():
        if given is not None and not isinstance(given, Format):
            text = f"{side}={given!r} is not a format"
            yield InvalidFormat(text, hint='such as Text("user") or Json("ms int, page string")', where=where)
        elif isinstance(given, Format) and not isinstance(given, WritableFormat):
            hint = "write it as Text, Long or Json; without a format it is a JSON object of all columns"
            yield FormatUnfit(f"{side}: {given.describe()} can be read only", hint=hint, where=where)


def _window_faults(join: WindowedJoin, where: str) -> Iterator[LakestreamsError]:
    if join.before_ms + join.after_ms < 0:
        text = f"the window ends before it begins: before {join.before_ms} ms + after {join.after_ms} ms is negative"
        yield InvalidOption(text, hint="one of the two may be negative, their sum may not", where=where)
    if join.grace_ms < 0:
        yield InvalidOption(f"grace {join.grace_ms} ms is negative", hint="zero or more", where=where)


def _race_faults(join: StreamTableJoin, where: str) -> Iterator[LakestreamsError]:
    """`wait` and `amend`: of joins with a table's newest row; what was given up can be put right in a left join only."""
    for word, bound in (("wait", join.wait_ms), ("amend", join.amend_ms)):
        if bound is not None and bound <= 0:
            yield InvalidOption(
                f"{word} {bound} ms is not above zero", hint="leave it out, or give a time", where=where
            )
        if bound is not None and join.right.history_ms is not None:
            text = f"{word} looks out for the next row, and {join.right.name} is versioned: it is looked up by time"
            yield InvalidOption(text, hint="grace waits for rows of the past", where=where)
    if join.amend_ms is not None and join.how == "inner":
        text = "amend puts right what came out without a row, and an inner join gives nothing without one"
        yield InvalidOption(text, hint="wait= waits for the row; left_join(..., amend=) amends", where=where)
    if join.wait_ms is not None and join.amend_ms is not None and join.amend_ms <= join.wait_ms:
        text = (
            f"amend {join.amend_ms} ms ends when or before wait {join.wait_ms} ms does; both are from the record's time"
        )
        yield InvalidOption(text, hint="an amend longer than the wait", where=where)


def _grace_faults(join: StreamTableJoin, where: str) -> Iterator[LakestreamsError]:
    """Source: Kafka Streams' KStreamImpl and KIP-923; semantics section 4.1."""
    if join.grace_ms is None:
        return
    history_ms = join.right.history_ms
    if join.grace_ms < 0:
        yield InvalidOption(f"grace {join.grace_ms} ms is negative", hint="zero or more", where=where)
    if history_ms is None:
        text = f"grace waits for rows of the past, and {join.right.name} is not versioned: it keeps the newest alone"
        hint = "declare it with table(..., as_of=True, history=...), or leave grace out"
        yield InvalidOption(text, hint=hint, where=where)
    elif join.grace_ms > history_ms:
        text = (
            f"grace {join.grace_ms} ms is longer than the {history_ms} ms that {join.right.name} keeps of its history"
        )
        yield InvalidOption(text, hint="a history of at least the grace", where=where)


def _aggregate_faults(node: Aggregate, where: str) -> Iterator[LakestreamsError]:
    needed = {"reduce": node.add, "aggregate": node.aggregators}
    if node.verb in needed and not callable(needed[node.verb]):
        text = f"{node.verb}() takes a function, not {needed[node.verb]!r}"
        yield InvalidOption(text, hint='such as lambda row: {"total": agg.sum(row.amount)}', where=where)
    if node.group is not None and node.windows is not None:
        yield InvalidOption("a table's rows have no windows, only a stream's records do", where=where)
    windows = node.windows
    if windows is None:
        return
    if windows.size_ms < 1 or not 1 <= windows.advance_ms <= windows.size_ms:
        text = f"windows of {windows.size_ms} ms, {windows.advance_ms} ms apart"
        yield InvalidOption(text, hint="a size above zero, and an advance from 1 ms to the size", where=where)
    if windows.grace_ms < 0:
        yield InvalidOption(f"grace {windows.grace_ms} ms is negative", hint="zero or more", where=where)


def _suppress_faults(node: Suppress, where: str) -> Iterator[LakestreamsError]:
    """Source: Kafka Streams' SuppressedInternal, GraphGraceSearchUtil; semantics section 8.2."""
    if node.until_ms is None and node.parent.is_table and node.parent.key_windows is None:
        text = f"the rows of {node.parent.name} have no windows that could close"
        yield InvalidOption(text, hint="suppress a windowed aggregate, or give a time", where=where)
    if node.until_ms is not None and node.until_ms < 0:
        yield InvalidOption(f"until {node.until_ms} ms is negative", hint="zero or more", where=where)
    if node.max_records is not None and (type(node.max_records) is not int or node.max_records < 1):
        hint = "a whole number, 1 or more; or none, for any number"
        yield InvalidOption(f"max_records={node.max_records!r} is not a count", hint=hint, where=where)
    if node.max_records is None and node.when_full == "shutdown":
        text = 'when_full="shutdown" without max_records: nothing is ever full'
        yield InvalidOption(text, hint="max_records=10_000, or leave when_full out", where=where)
    if node.until_ms is None and node.max_records is not None and node.when_full == "emit":
        text = "a window's final row cannot come out early"
        yield InvalidOption(text, hint='when_full="shutdown", or no max_records', where=where)
    if node.parent.history_ms is not None:
        text = f"{node.parent.name} is versioned: its rows cannot be held back"
        yield InvalidOption(text, hint="leave as_of out, or join it first", where=where)


def _source_faults(source: Source, where: str) -> list[LakestreamsError]:
    faults: list[LakestreamsError] = []
    if source.history_ms is not None and source.kind != "table":
        text = f"a {source.kind.replace('_', ' ')} cannot be versioned, only a table"
        faults.append(InvalidOption(text, hint="leave history_ms out", where=where))
    elif source.history_ms is not None and source.history_ms < 0:
        faults.append(InvalidOption(f"history {source.history_ms} ms is negative", hint="zero or more", where=where))
    if source.name and not _TOPIC.match(source.topic if source.delta is None else source.topic[len(DELTA_TOPIC) :]):
        faults.append(InvalidName(f"topic name {source.topic!r}", hint=_TOPIC_HINT, where=where))
    faults.extend(_delta_faults(source, where))
    if source.bronze is not None and not _PIPELINE.match(source.bronze):
        faults.append(InvalidName(f"bronze table {source.bronze!r}", where=where))
    field = source.event_time.field
    types = {column.name: column.type for column in source.value.fields}
    if field is not None and field not in types:
        hint = f"the value has: {', '.join(types)}"
        faults.append(UnknownColumn(f"event_time names {field!r}, which the value lacks", hint=hint, where=where))
    elif field is not None and types[field] not in (*NUMBER_TYPES, *TIME_TYPES):
        hint = f"one of {', '.join((*NUMBER_TYPES, *TIME_TYPES))}; numbers are ms since the epoch"
        faults.append(InvalidOption(f"event_time column {field!r} is a {types[field]}", hint=hint, where=where))
    return faults


def _delta_faults(source: Source, where: str) -> Iterator[LakestreamsError]:
    if source.delta is not None and not (_TABLE.match(source.delta) or _PATH.match(source.delta)):
        hint = "catalog.schema.table, schema.table, or a path with a slash in it"
        yield InvalidName(f"Delta table {source.delta!r}", hint=hint, where=where)
    if source.delta is None and (source.changes != "cdf" or source.ignore_changes):
        option = "ignore_changes" if source.ignore_changes else f"changes={source.changes!r}"
        yield InvalidOption(f"{option} is for Delta tables; this reads a topic", hint="give delta=...", where=where)
    elif source.kind == "stream" and source.changes != "cdf":
        text = f"changes={source.changes!r} compares the rows of keys, and a stream's records have none of their own"
        yield InvalidOption(text, hint="read it as a table, or leave changes out", where=where)
    elif source.kind != "stream" and source.ignore_changes:
        text = "ignore_changes is for streams; a table is made of updates and deletes"
        yield InvalidOption(text, hint="leave it out", where=where)


def _where(node: Node) -> str:
    return f'{node.word} "{node.name}"'


def _doubled(nodes: Sequence[Node]) -> list[LakestreamsError]:
    faults: list[LakestreamsError] = []
    names = Counter(node.name for node in nodes if node.name)
    for name, count in names.items():
        if count > 1:
            kinds = ", ".join(node.word for node in nodes if node.name == name)
            hint = "pass name=... on all but one"
            faults.append(DuplicateName(f"{count} nodes are named {name!r}: {kinds}", hint=hint))
    topics: dict[str, list[str]] = {}
    for node in nodes:
        if isinstance(node, Source):
            topics.setdefault(node.topic, []).append(node.name)
    for topic, users in topics.items():
        if len(users) > 1 and len(set(users)) == len(users):
            hint = "declare the topic once and use that source twice"
            faults.append(DuplicateName(f"topic {topic!r} is read by {', '.join(users)}", hint=hint))
    return faults


def _own_topics(nodes: Sequence[Node]) -> Iterator[LakestreamsError]:
    readers = {node.topic: node.name for node in nodes if isinstance(node, Source)}
    for node in nodes:
        if isinstance(node, KafkaSink) and node.name in readers:
            yield OwnTopic(f"topic {node.name} is written, and read by {readers[node.name]}", where=_where(node))
