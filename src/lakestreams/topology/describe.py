"""Drawings of a topology: text in Kafka Streams' manner, and Mermaid.

The text is part of a pipeline's fingerprint: equal texts are equal topologies, all but the functions in them. So it
shows every option that has a meaning, and names with other signs than letters, digits, dot, _ and - are quoted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakestreams.topology.mappers import listed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lakestreams.topology.kinds import Role
    from lakestreams.topology.node import Node


def as_text(pipeline: str, nodes: Sequence[Node], expected: Callable[[str], Sequence[str]] = lambda _: ()) -> str:
    """Each node with what feeds it and what it feeds, one sub-topology a connected part.

    Args:
        pipeline: its name.
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
            lines.append(f"    {node.headline}")
            lines.extend(f"      {detail}" for detail in (*node.details, *expected(node.name)))
            if node.parents:
                lines.append(f"      <-- {listed(parent.name for parent in node.parents)}")
            if children[node.name]:
                lines.append(f"      --> {listed(children[node.name])}")
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


def _drawn(node: Node) -> str:
    label = "<br/>".join(_mermaid_text(line) for line in (node.name, node.word, *_mermaid_details(node)))
    left, right = _ENDS[node.role]
    return f'{left}"{label}"{right}'


_ENDS: dict[Role, tuple[str, str]] = {
    "source": ("[(", ")]"),
    "step": ("[", "]"),
    "join": ("{", "}"),
    "aggregate": ("[[", "]]"),
    "buffer": ("([", "])"),
    "sink": ("[(", ")]"),
}


def _mermaid_details(node: Node) -> list[str]:
    """Sources and outputs have their options in the text alone: they would make the cylinders wider than the rest."""
    return [] if node.role in ("source", "sink") else node.details


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
