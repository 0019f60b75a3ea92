"""What can be wrong with a topology and seen without Spark or Kafka; and the partition counts, once they are known."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import get_args

from lakestreams.errors import (
    CoPartitioningRequired,
    DuplicateName,
    InvalidName,
    InvalidOption,
    LakestreamsError,
    NoOutput,
    UnknownColumn,
    UnnamedNode,
)
from lakestreams.formats.time import NUMBER_TYPES, TIME_TYPES
from lakestreams.topology.nodes import (
    CoPartitioning,
    DeltaSink,
    Node,
    Source,
    StreamTableJoin,
    key_source,
    kind_of,
)

_PIPELINE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}\Z")
_TABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}(\.[A-Za-z_][A-Za-z0-9_]{0,127}){0,2}\Z")
_TOPIC = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9._-]{1,249}\Z")


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
    if not any(isinstance(node, DeltaSink) for node in nodes):
        faults.append(NoOutput(f"pipeline {pipeline!r} has no output"))
    return faults


def co_partitioning(nodes: Sequence[Node], partitions: Mapping[str, int]) -> tuple[list[LakestreamsError], list[str]]:
    """Joins whose sides have different partition counts.

    A re-keyed side has no partitions of its own (its task is the hash of its key), so it fits any table, as a
    repartition topic of Kafka Streams would take the table's count.

    Args:
        nodes: the topology's nodes.
        partitions: topic to partition count, as read from the cluster.

    Returns:
        Faults of joins that require equal counts, and warnings of those that say `warn`.
        Source: Kafka Streams' CopartitionedTopicsEnforcer; DESIGN section 4.
    """
    faults: list[LakestreamsError] = []
    warnings: list[str] = []
    for node in nodes:
        if not isinstance(node, StreamTableJoin) or node.co_partitioning == "off":
            continue
        left, right = key_source(node.left), key_source(node.right)
        if left is None or right is None or not {left.topic, right.topic} <= partitions.keys():
            continue
        counts = partitions[left.topic], partitions[right.topic]
        if counts[0] == counts[1]:
            continue
        text = f'CoPartitioningRequired {{ left = "{left.name}" ({counts[0]}), right = "{right.name}" ({counts[1]}) }}'
        if node.co_partitioning == "warn":
            warnings.append(f'step "{node.name}": {text}')
        else:
            faults.append(CoPartitioningRequired(text, where=f'step "{node.name}"', left=left.name, right=right.name))
    return faults, warnings


def _node_faults(node: Node) -> list[LakestreamsError]:
    where = f'{kind_of(node)} "{node.name}"'
    faults: list[LakestreamsError] = []
    if not node.name:
        faults.append(UnnamedNode(f"a {kind_of(node)} has no name", hint="pass a name that is not empty"))
    if isinstance(node, Source):
        faults.extend(_source_faults(node, where))
    if isinstance(node, StreamTableJoin) and node.co_partitioning not in get_args(CoPartitioning):
        choices = ", ".join(get_args(CoPartitioning))
        faults.append(InvalidOption(f"co_partitioning={node.co_partitioning!r} is none of {choices}", where=where))
    if isinstance(node, DeltaSink):
        if node.name and not _TABLE.match(node.name):
            faults.append(InvalidName(f"table name {node.name!r}", where=where))
        if node.cluster_by and node.partition_by:
            faults.append(InvalidOption("cluster_by and partition_by exclude each other", where=where))
    return faults


def _source_faults(source: Source, where: str) -> list[LakestreamsError]:
    faults: list[LakestreamsError] = []
    if source.name and not _TOPIC.match(source.topic):
        hint = "Kafka allows letters, digits, dot, _ and -, up to 249 of them"
        faults.append(InvalidName(f"topic name {source.topic!r}", hint=hint, where=where))
    field = source.event_time.field
    types = {column.name: column.type for column in source.value.fields}
    if field is not None and field not in types:
        hint = f"the value has: {', '.join(types)}"
        faults.append(UnknownColumn(f"event_time names {field!r}, which the value lacks", hint=hint, where=where))
    elif field is not None and types[field] not in (*NUMBER_TYPES, *TIME_TYPES):
        hint = f"one of {', '.join((*NUMBER_TYPES, *TIME_TYPES))}; numbers are ms since the epoch"
        faults.append(InvalidOption(f"event_time column {field!r} is a {types[field]}", hint=hint, where=where))
    return faults


def _doubled(nodes: Sequence[Node]) -> list[LakestreamsError]:
    faults: list[LakestreamsError] = []
    names = Counter(node.name for node in nodes if node.name)
    for name, count in names.items():
        if count > 1:
            kinds = ", ".join(kind_of(node) for node in nodes if node.name == name)
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
