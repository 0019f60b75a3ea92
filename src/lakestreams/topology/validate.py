"""What can be wrong with a topology and seen without Spark or Kafka.

A node knows what is wrong with itself (`Node.faults`), an invariant what it fits (`Invariant.unfit`); here is what is wrong
between nodes: names that two of them have, outputs that are missing or read again.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from lakestreams.errors import (
    DuplicateName,
    InvalidName,
    InvalidOption,
    LakestreamsError,
    NoOutput,
    OwnTopic,
    UnnamedNode,
)
from lakestreams.errors.phrases import Either, Phrase
from lakestreams.topology.endpoints import KafkaSink, Sink, Source
from lakestreams.topology.names import PIPELINE
from lakestreams.topology.results import KEYS_NOT_NULL

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lakestreams.topology.expectations import Expectations
    from lakestreams.topology.node import Node

_A_PIPELINE = Phrase(Either(python='StreamsBuilder("page_views")', file="pipeline: page_views"))
_OTHER_NAMES = Phrase(Either(python="pass name=... on all but one", file="rename all but one of them"))
_ONE_COUNT = "the event log counts by dataset and name: leave all but one out, or give a rule another name"


def structure(pipeline: str, nodes: Sequence[Node]) -> list[LakestreamsError]:
    """Every fault in names, options and outputs, in the order of declaration."""
    faults: list[LakestreamsError] = []
    if not pipeline:
        faults.append(UnnamedNode("the pipeline has no name", hint=_A_PIPELINE, option="pipeline"))
    elif not PIPELINE.match(pipeline):
        faults.append(InvalidName(f"pipeline name {pipeline!r}", option="pipeline", given=pipeline))
    for node in nodes:
        faults.extend(node.faults())
    faults.extend(_doubled(nodes))
    faults.extend(_own_topics(nodes))
    if not any(isinstance(node, Sink) for node in nodes):
        faults.append(NoOutput(f"pipeline {pipeline!r} has no output", option="pipeline"))
    return faults


def expected(nodes: Sequence[Node], expectations: Expectations) -> list[LakestreamsError]:
    """Every fault in rules and invariants that can be seen without a session."""
    known = {node.name: node for node in nodes}
    counted = [(rule.dataset, rule.name) for rule in expectations.rules]
    counted += [(dataset, invariant.name) for dataset, invariant in expectations.invariants]
    counted += [
        (node.name, KEYS_NOT_NULL) for node in nodes if isinstance(node, Source) and node.keys_not_null != "off"
    ]
    doubled = [
        DuplicateName(f"expectation {name!r} stands {count} times", hint=_ONE_COUNT, where=known[dataset].where)
        for (dataset, name), count in Counter(counted).items()
        if count > 1
    ]
    return [*doubled, *_rule_faults(known, expectations), *_invariant_faults(known, expectations)]


def _rule_faults(known: Mapping[str, Node], expectations: Expectations) -> Iterator[LakestreamsError]:
    for rule in expectations.rules:
        if rule.name.split(".")[0] == "rows" and known[rule.dataset].role != "source":
            message = f"expectation {rule.name!r} is called as the counts of rows are"
            yield InvalidName(message, hint="give it another name", where=known[rule.dataset].where)
    for rule in expectations.rules:
        node = known[rule.dataset]
        if rule.action == "drop" and node.is_table and node.role not in ("source", "sink"):
            message = f"{rule.name} would drop rows of {node.name}, a table that steps make"
            hint = "drop them at a source or an output; a filter deletes rows"
            yield InvalidOption(message, hint=hint, where=node.where, option=rule.name)


def _invariant_faults(known: Mapping[str, Node], expectations: Expectations) -> Iterator[LakestreamsError]:
    for dataset, invariant in expectations.invariants:
        unfit = invariant.unfit(known[dataset])
        if unfit is not None:
            message = f"invariant {invariant.name} does not fit {dataset}: {unfit}"
            yield InvalidOption(message, hint="docs/expectations.md says which fits what", where=known[dataset].where)


def _doubled(nodes: Sequence[Node]) -> list[LakestreamsError]:
    faults: list[LakestreamsError] = []
    names = Counter(node.name for node in nodes if node.name)
    for name, count in names.items():
        if count > 1:
            kinds = ", ".join(node.word for node in nodes if node.name == name)
            text = f"{count} nodes are named {name!r}: {kinds}"
            last = [node for node in nodes if node.name == name][-1]
            faults.append(DuplicateName(text, hint=_OTHER_NAMES, where=last.where))
    keeping: dict[str, list[Node]] = {}
    for node in nodes:
        if node.stateful and names[node.name] == 1:
            keeping.setdefault(node.name.lower(), []).append(node)
    for alike in keeping.values():
        if len(alike) > 1:  # what they remember lies in tables of their names, and catalogs do not tell capitals apart
            text = f"steps that differ in capitals alone: {', '.join(node.name for node in alike)}"
            faults.append(DuplicateName(text, hint=_OTHER_NAMES, where=alike[-1].where))
    topics: dict[str, list[Source]] = {}
    for node in nodes:
        if isinstance(node, Source):
            topics.setdefault(node.topic, []).append(node)
    for topic, users in topics.items():
        readers = [node.name for node in users]
        if len(readers) > 1 and len(set(readers)) == len(readers):
            hint = "declare the topic once and use that source twice"
            text = f"topic {topic!r} is read by {', '.join(readers)}"
            faults.append(DuplicateName(text, hint=hint, where=users[-1].where))
    return faults


def _own_topics(nodes: Sequence[Node]) -> Iterator[LakestreamsError]:
    readers = {node.topic: node.name for node in nodes if isinstance(node, Source)}
    for node in nodes:
        if isinstance(node, KafkaSink) and node.name in readers:
            yield OwnTopic(f"topic {node.name} is written, and read by {readers[node.name]}", where=node.where)
