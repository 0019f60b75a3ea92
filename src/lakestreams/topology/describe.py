"""Drawings of a topology: text in Kafka Streams' manner, and Mermaid.

The text is part of a pipeline's fingerprint: equal texts are equal topologies, all but the functions in them. So it
shows every option that has a meaning, and names with other signs than letters, digits, dot, _ and - are quoted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from lakestreams.topology.mappers import ByName
from lakestreams.topology.nodes import (
    Aggregate,
    DeltaSink,
    ForeignKeyJoin,
    ForeignKeyStreamJoin,
    Join,
    KafkaSink,
    Node,
    Repartition,
    Sink,
    Source,
    StreamGlobalJoin,
    StreamTableJoin,
    Suppress,
    WindowedJoin,
)

if TYPE_CHECKING:
    from lakestreams.formats.base import Format

_PLAIN = re.compile(r"[\w.-]+\Z")


def as_text(pipeline: str, nodes: Sequence[Node], expected: Callable[[str], Sequence[str]] = lambda _: ()) -> str:
    """Each node with what feeds it and what it feeds, one sub-topology a connected part.

    Args:
        nodes: parents before children.
        expected: of a node's name, what is expected of its rows, a line each.
    """
    children: dict[str, list[str]] = {node.name: [] for node in nodes}
    for node in nodes:
        for parent in dict.fromkeys(parent.name for parent in node.parents):  # once, for a self-join too
            children[parent].append(node.name)
    lines = [f"Topology: {pipeline}"]
    for number, part in enumerate(sub_topologies(nodes)):
        lines.append(f"  Sub-topology: {number}")
        for node in part:
            lines.append(f"    {_headline(node)}")
            lines.extend(f"      {detail}" for detail in (*details(node), *expected(node.name)))
            if node.parents:
                lines.append(f"      <-- {_listed(parent.name for parent in node.parents)}")
            if children[node.name]:
                lines.append(f"      --> {_listed(children[node.name])}")
    return "\n".join(lines)


def as_mermaid(nodes: Sequence[Node]) -> str:
    """A flowchart: topics and outputs as cylinders, edges of tables dashed, joins as diamonds with their options.

    Aggregates have a double frame, as tables that are made here, and buffers have round ends.
    """
    ids = {node.name: f"n{index}" for index, node in enumerate(nodes)}
    lines = ["flowchart LR"]
    for node in nodes:
        lines.append(f"    {ids[node.name]}{_drawn(node)}")
        for parent in node.parents:
            arrow = "-.->" if parent.is_table else "-->"
            lines.append(f"    {ids[parent.name]} {arrow} {ids[node.name]}")
    return "\n".join(lines)


def details(node: Node) -> list[str]:
    """What a node's options say, a line a group."""
    if isinstance(node, Source):
        return _source_details(node)
    if isinstance(node, Join):
        return _join_details(node)
    if isinstance(node, Aggregate):
        return _aggregate_details(node)
    if isinstance(node, Suppress):
        return _buffer_details(node)
    if isinstance(node, Repartition):
        return [f"partitions {node.partitions}"]
    if isinstance(node, DeltaSink):
        layouts = {"cluster by": node.cluster_by, "partition by": node.partition_by}
        return [f"{layout} {_listed(names)}" for layout, names in layouts.items() if names]
    if isinstance(node, KafkaSink):
        return [f"key {_format(node.key)}, value {_format(node.value)}"]
    return []


def _format(how: Format | None) -> str:
    """A format of a Kafka output in words."""
    return "json(all columns)" if how is None else how.describe()


def _headline(node: Node) -> str:
    name = _shown(node.name)
    if isinstance(node, Source):
        return f"Source: {name} ({node.kind}, {_origin(node)})"
    if isinstance(node, DeltaSink):
        return f"Sink: {name} (delta, {node.mode})"
    if isinstance(node, KafkaSink):
        return f"Sink: {name} (kafka, {content_of(node)}, at least once)"
    return f"Processor: {name} ({node.word})"


def _origin(source: Source) -> str:
    named = "" if source.bronze is None else f", bronze: {source.bronze}"
    if source.delta is None:
        return f"topic: {source.topic}{named}"
    how = source.changes if source.kind != "stream" else "inserts" if source.ignore_changes else "appends"
    return f"delta: {_shown(source.delta)} as {source.topic}, {how}{named}"


def content_of(sink: KafkaSink) -> str:
    """What a topic gets of its input: `records` of a stream, `changes` of a table."""
    return "changes" if sink.is_table else "records"


def _source_details(source: Source) -> list[str]:
    lines = [
        f"key {source.key.describe()}, value {source.value.describe()}",
        f"event time {source.event_time.describe()}, at most {source.max_future_ms} ms ahead of ingest",
    ]
    if source.kind == "stream":
        lines.append(f"null values: {source.null_values}, keys_not_null: {source.keys_not_null}")
    if source.history_ms is not None:
        lines.append(f"versioned, history {source.history_ms} ms")
    return lines


def _join_details(join: Join) -> list[str]:
    lines = [", ".join((join.shape, join.how, *_lookup(join)))]
    if isinstance(join, WindowedJoin):
        lines.append(f"before {join.before_ms} ms, after {join.after_ms} ms, grace {join.grace_ms} ms")
        unmatched = [] if join.how == "inner" else [f"unmatched {join.emit_unmatched}"]
        store = [f"store {join.store}"] if join.rules == "kafka" else []
        lines.append(", ".join((f"rules {join.rules}", *unmatched, *store)))
    columns = "all columns of both sides" if join.joiner is None else "columns of the joiner"
    required = [f"co_partitioning {join.co_partitioning}"] if join.co_partitioning is not None else []
    return [*lines, ", ".join((columns, *required))]


def _aggregate_details(node: Aggregate) -> list[str]:
    lines = ["grouped by key" if node.group is None else f"grouped by {_columns(node.group)}, re-keyed"]
    if node.windows is not None:
        size_ms, advance_ms, grace_ms = node.windows.size_ms, node.windows.advance_ms, node.windows.grace_ms
        lines.append(f"windows {size_ms} ms, advance {advance_ms} ms, grace {grace_ms} ms")
    # a stream's records never leave their group, so that it cannot become empty
    empty = [] if node.group is None else [f"empty {node.empty}"]
    return [*lines, ", ".join((f"emit {node.emit}", *empty))]


def _buffer_details(node: Suppress) -> list[str]:
    until = "until window closes" if node.until_ms is None else f"until {node.until_ms} ms"
    # a buffer without bounds is never full
    bounds = [] if node.max_records is None else [f"max_records {node.max_records}", f"when_full {node.when_full}"]
    return [", ".join((until, *bounds))]


def _lookup(join: Join) -> list[str]:
    """How the right side's row is found, where it is a row."""
    if isinstance(join, StreamTableJoin):
        history_ms = join.right.history_ms
        lookup = ["lookup latest"] if history_ms is None else ["lookup as_of", f"history {history_ms} ms"]
        times = (("grace", join.grace_ms), ("wait", join.wait_ms), ("amend", join.amend_ms))
        return [*lookup, *(f"{word} {ms} ms" for word, ms in times if ms is not None)]
    if isinstance(join, StreamGlobalJoin | ForeignKeyJoin):
        return [f"left_on {_columns(join.left_on)}"]
    if isinstance(join, ForeignKeyStreamJoin):
        return [f"right_on {_columns(join.right_on)}"]
    return []


def _columns(mapper: object) -> str:
    return _listed(mapper.names) if isinstance(mapper, ByName) else "(function)"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(_shown(name) for name in names)


def _shown(name: str) -> str:
    return name if _PLAIN.match(name) else json.dumps(name)


def _drawn(node: Node) -> str:
    label = "<br/>".join(_mermaid_text(line) for line in (node.name, node.word, *_mermaid_details(node)))
    if isinstance(node, Source | Sink):
        return f'[("{label}")]'
    if isinstance(node, Aggregate):
        return f'[["{label}"]]'
    if isinstance(node, Suppress):
        return f'(["{label}"])'
    return f'{{"{label}"}}' if isinstance(node, Join) else f'["{label}"]'


def _mermaid_details(node: Node) -> list[str]:
    """Sources and outputs have their options in the text alone: they would make the cylinders wider than the rest."""
    return [] if isinstance(node, Source | Sink) else details(node)


def _mermaid_text(line: str) -> str:
    """A label's text as Mermaid takes it: `<` and `>` too, which would be tags else."""
    return line.replace('"', "#quot;").replace("<", "#lt;").replace(">", "#gt;").replace("\n", " ")


def sub_topologies(nodes: Sequence[Node]) -> list[list[Node]]:
    """The parts of the graph that share no node, in the order of their first node."""
    part_of: dict[str, int] = {}
    for index, node in enumerate(nodes):
        joined = {part_of[parent.name] for parent in node.parents}
        part_of[node.name] = min(joined, default=index)
        for name, part in part_of.items():
            if part in joined:
                part_of[name] = part_of[node.name]
    parts: dict[int, list[Node]] = {}
    for node in nodes:
        parts.setdefault(part_of[node.name], []).append(node)
    return list(parts.values())
