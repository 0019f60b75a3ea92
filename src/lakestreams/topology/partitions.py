"""Partition counts, once they are known: which joins' sides lie in equally many, and how many tasks a join has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakestreams.errors import CoPartitioningRequired, LakestreamsError
from lakestreams.errors.places import NodePlace
from lakestreams.topology.graph import is_derived, is_multi_row, key_source, sources_of
from lakestreams.topology.joins import Join
from lakestreams.topology.node import Node

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def co_partitioning(nodes: Sequence[Node], partitions: Mapping[str, int]) -> tuple[list[LakestreamsError], list[str]]:
    """Joins by key whose sides have different partition counts.

    A re-keyed side has no partitions of its own (its task is the hash of its key), so it fits any other side, as a
    repartition topic of Kafka Streams would take the other side's count. So does a Delta table, which nobody has
    partitioned by key. `repartition(n)` has n. A count that is not known is not judged.

    Args:
        nodes: the topology's nodes.
        partitions: topic to partition count, as read from the cluster.

    Returns:
        Faults of joins that require equal counts, and warnings of those that say `warn`.
        Source: Kafka Streams' CopartitionedTopicsEnforcer; semantics section 9; DESIGN section 4.
    """
    faults: list[LakestreamsError] = []
    warnings: list[str] = []
    for node in nodes:
        if not isinstance(node, Join) or node.co_partitioning in (None, "off"):
            continue
        left, right = _counts(node.left, partitions), _counts(node.right, partitions)
        if len({*left.values(), *right.values()}) < 2:
            continue
        text = f"CoPartitioningRequired {{ left = {_shown(left)}, right = {_shown(right)} }}"
        if node.co_partitioning == "warn":
            warnings.append(f'step "{node.name}": {text}')
            continue
        names = next(iter(left), ""), next(iter(right), "")
        faults.append(CoPartitioningRequired(text, where=NodePlace("step", node.name), left=names[0], right=names[1]))
    return faults, warnings


def task_count(node: Node, partitions: Mapping[str, int]) -> int | None:
    """In how many tasks a step by key runs: the count of what is not re-keyed, else the largest of all that feeds it.

    Args:
        node: the join, aggregation or buffer.
        partitions: topic to partition count.

    Returns:
        The count, or None where it is not known.
        Source: as for `co_partitioning`.
    """
    counts = [count for parent in node.task_inputs for count in _counts(parent, partitions).values()]
    if counts:
        return counts[0]
    fed = (source.topic for parent in node.task_inputs for source in sources_of(parent))
    return max((partitions[topic] for topic in fed if topic in partitions), default=None)


def lies_as_sources_do(node: Node) -> bool:
    """Whether the rows of a join that looks at times, under `strict`, lie where its sources' records do: a row a record, under its key.

    Then equal keys of its sides share a task if those of its sources do.
    """
    if not isinstance(node, Join) or not node.looks_at_times or not node.follows_strictly:
        return False
    moved = (key_source(one) is None or is_derived(one) or is_multi_row(one) for one in node.parents)
    return not any(moved)


def topics_that_group(nodes: Sequence[Node]) -> frozenset[str]:
    """Topics of which it matters to a join whether equal keys share a partition."""
    return frozenset(source.topic for node in nodes if lies_as_sources_do(node) for source in sources_of(node))


def most_tasks(nodes: Sequence[Node], partitions: Mapping[str, int]) -> int:
    """The most tasks in which a step behind a new key runs, whose keys may lie in any of them; 0: there is no such step."""
    rekeyed = (node for node in nodes if any(key_source(parent) is None for parent in node.task_inputs))
    return max([most_partitions(nodes), *(task_count(node, partitions) or 0 for node in rekeyed)])


def most_partitions(nodes: Sequence[Node]) -> int:
    """The largest partition count that a step gives its records; 0: none gives one."""
    return max((node.partition_count({}) or 0 for node in nodes), default=0)


def _counts(node: Node, partitions: Mapping[str, int]) -> dict[str, int]:
    """Name to count, of what pins a node and is known."""
    counts = {pin.name: pin.partition_count(partitions) for pin in node.pins() or ()}
    return {name: count for name, count in counts.items() if count is not None}


def _shown(counts: Mapping[str, int]) -> str:
    """The first of each count; what is re-keyed or unknown has none."""
    first: dict[int, str] = {}
    for name, count in counts.items():
        first.setdefault(count, name)
    return ", ".join(f'"{name}" ({count})' for count, name in first.items()) or "re-keyed"
