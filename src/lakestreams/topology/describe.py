"""Drawings of a topology: text in Kafka Streams' manner, and Mermaid."""

from __future__ import annotations

from collections.abc import Sequence

from lakestreams.topology.nodes import DeltaSink, Node, Source, StreamTableJoin, is_table, kind_of


def as_text(pipeline: str, nodes: Sequence[Node]) -> str:
    """Each node with what feeds it and what it feeds, one sub-topology a connected part."""
    children: dict[str, list[str]] = {node.name: [] for node in nodes}
    for node in nodes:
        for parent in node.parents:
            children[parent.name].append(node.name)
    lines = [f"Topology: {pipeline}"]
    for number, part in enumerate(_connected(nodes)):
        lines.append(f"  Sub-topology: {number}")
        for node in part:
            lines.append(f"    {_headline(node)}")
            lines.extend(f"      {detail}" for detail in _details(node))
            if node.parents:
                lines.append(f"      <-- {', '.join(parent.name for parent in node.parents)}")
            if children[node.name]:
                lines.append(f"      --> {', '.join(children[node.name])}")
    return "\n".join(lines)


def as_mermaid(nodes: Sequence[Node]) -> str:
    """A flowchart: topics and outputs as cylinders, tables dashed, joins as diamonds."""
    ids = {node.name: f"n{index}" for index, node in enumerate(nodes)}
    lines = ["flowchart LR"]
    for node in nodes:
        lines.append(f"    {ids[node.name]}{_shape(node)}")
        for parent in node.parents:
            arrow = "-.->" if is_table(parent) else "-->"
            lines.append(f"    {ids[parent.name]} {arrow} {ids[node.name]}")
    return "\n".join(lines)


def _headline(node: Node) -> str:
    if isinstance(node, Source):
        return f"Source: {node.name} ({node.kind}, topic: {node.topic})"
    if isinstance(node, DeltaSink):
        return f"Sink: {node.name} (delta, append)"
    return f"Processor: {node.name} ({kind_of(node)})"


def _details(node: Node) -> list[str]:
    if isinstance(node, Source):
        details = [
            f"key {node.key.describe()}, value {node.value.describe()}",
            f"event time {node.event_time.describe()}, at most {node.max_future_ms} ms ahead of ingest",
        ]
        if node.kind == "stream":
            details.append(f"null values: {node.null_values}, keys_not_null: {node.keys_not_null}")
        return details
    if isinstance(node, StreamTableJoin):
        return [f"{node.how}, lookup latest, co_partitioning {node.co_partitioning}"]
    if isinstance(node, DeltaSink) and (node.cluster_by or node.partition_by):
        layout = "cluster by" if node.cluster_by else "partition by"
        return [f"{layout} {', '.join(node.cluster_by or node.partition_by)}"]
    return []


def _shape(node: Node) -> str:
    label = f"{node.name}<br/>{kind_of(node)}"
    if isinstance(node, Source | DeltaSink):
        return f'[("{label}")]'
    if isinstance(node, StreamTableJoin):
        return f'{{"{label}"}}'
    return f'["{label}"]'


def _connected(nodes: Sequence[Node]) -> list[list[Node]]:
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
