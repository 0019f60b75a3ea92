"""Where a record that gave no result was lost: the node is named behind which nothing of it is left, and why."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.engine.ledger.plans import Plan
from lakestreams.evaluate.inputs import Results
from lakestreams.evaluate.outputs import LINEAGE
from lakestreams.operators.records import CONTRIBUTORS, COORDINATES, UNMATCHED, VALUE
from lakestreams.operators.versions import TableSide
from lakestreams.topology.graph import key_source, sources_of, upstream
from lakestreams.topology.joins import ForeignKeyJoin, Join, WindowedJoin
from lakestreams.topology.lookups import StreamGlobalJoin, StreamTableJoin
from lakestreams.verify.identity import any_of, places
from lakestreams.verify.origins import gathers
from lakestreams.verify.trace import IN_QUARANTINE, OUTPUT, Trace, named

if TYPE_CHECKING:
    from lakestreams.topology.endpoints import Sink
    from lakestreams.topology.node import Node
    from lakestreams.topology.topology import Topology


_HAS_VALUE = "has_value"
Reached = Mapping["Node", bool]
"""The nodes that a record has come up to; to whether any row that is made of it there has a value."""


def lacking(topology: Topology, trace: Trace) -> list[Sink]:
    """The outputs that its topic can cause rows of, and that have none of it; of aggregates' rows that cannot be said."""
    reached = {row[OUTPUT] for row in trace.results}
    return [
        sink
        for sink in topology.outputs
        if sink.name not in reached and trace.topic in _topics(sink) and not gathers(sink)
    ]


def followed(topology: Topology, results: Results, done: Sequence[Plan], traces: Sequence[Trace]) -> None:
    """Names the node behind which nothing is left; of a record that other outputs have, with the output that lacks it."""
    outputs = {sink.name for sink in topology.outputs}
    steps = [node for node in topology.nodes if node.name not in outputs]
    parts = [_left_of(name, rows, traces) for name, rows in results.nodes.items() if name not in outputs]
    contributed = reduce(DataFrame.unionByName, parts).collect()
    seen = {(row["node"], tuple(row[name] for name in COORDINATES)): row[_HAS_VALUE] for row in contributed}
    for trace in traces:
        reached = {node: seen[node.name, trace.identity] for node in steps if (node.name, trace.identity) in seen}
        lost = [node for node in steps if node not in reached and any(parent in reached for parent in node.parents)]
        if not trace.is_joined:
            trace.sentences += list(dict.fromkeys(_lost(node, trace, done, reached) for node in lost))
        else:
            for sink in lacking(topology, trace):
                stopped = [node for parent in sink.parents for node in _stopped_at(parent, reached)]
                why_not = dict.fromkeys(_lost(node, trace, done, reached) for node in stopped)
                trace.sentences += [f"not in {sink.name}: {text}" for text in why_not]
        if not trace.results:
            trace.sentences += _unwritten(topology, trace, reached)
        if not trace.sentences and not trace.results:
            trace.sentences.append("gave nothing, and no node says why: a later record of its key has taken its place")


def _unwritten(topology: Topology, trace: Trace, reached: Reached) -> list[str]:
    """Of a record of which nothing but nulls came up to outputs: what these make of it."""
    empty = [sink for sink in topology.outputs if not reached.get(sink.parents[0], True)]
    return [_emptied(sink, trace) for sink in empty if trace.topic in _topics(sink)]


def _emptied(sink: Sink, trace: Trace) -> str:
    if not sink.parents[0].is_table:
        return f"is not in {sink.name}: its value is null there"
    its_key = _has_its_key(sink, trace.topic) and not gathers(sink)
    return f"deleted the row of its key in {sink.name}" if its_key else f"took rows out of {sink.name}"


def _has_its_key(node: Node, topic: str) -> bool:
    """Whether rows of a node have the key of a topic's records, and not that of rows which name these."""
    parents = (node.left,) if isinstance(node, ForeignKeyJoin) else node.parents
    return any(_has_its_key(parent, topic) for parent in parents) if parents else topic in _topics(node)


def missed(topology: Topology, traces: Sequence[Trace], cut: Collection[str] = ()) -> None:
    """Says of a record that met no row of a table which row of its key comes later, where its key is known.

    That happens to old events that are joined with a table loaded today.

    Args:
        cut: the topics of which there are more records of the key than traces: their first one is not known.
    """
    joins = [node for node in topology.nodes if isinstance(node, StreamTableJoin)]
    for trace in traces:
        without = {row[OUTPUT] for row in trace.results if row[LINEAGE]["kind"] == UNMATCHED}
        reached = [node for sink in topology.outputs if sink.name in without for node in upstream(sink)]
        for node in joins:
            left, right = key_source(node.left), key_source(node.right)
            if node not in reached or left is None or right is None or left.topic != trace.topic or right.topic in cut:
                continue
            if _topics(node.right) & _contributing(trace):
                continue  # it met one there, and none in another join
            placed = _dated if node.right.history_ms is not None else _ordered
            rows = [one for one in traces if one.topic == right.topic and one.key == trace.key and _is_usable(one)]
            rows.sort(key=lambda one: (placed(one), one.identity))
            if rows and placed(rows[0]) > placed(trace):
                first = f"{named(*rows[0].identity)} is the first of its key, at {placed(rows[0])}"
                trace.sentences.append(f"met no row of {node.right.name}: {first}, later than this record")


def _dated(one: Trace) -> int:
    """When a record happened: what lookups as of event time go by."""
    return one.event_time_ms or 0


def _ordered(one: Trace) -> int:
    """Where a record stands in the order, which other lookups go by: a late one comes behind what its time is behind."""
    return one.stream_time_ms if one.stream_time_ms is not None else _dated(one)


def _is_usable(one: Trace) -> bool:
    """Whether a record can have been a row: it has a time, and was not refused."""
    return bool(one.event_time_ms) and not any(text.startswith(IN_QUARANTINE) for text in one.sentences)


def _contributing(trace: Trace) -> set[str]:
    """The topics whose records its unmatched results are made of."""
    unmatched = [row[LINEAGE] for row in trace.results if row[LINEAGE]["kind"] == UNMATCHED]
    return {one["source"] for lineage in unmatched for one in lineage.get("contributors", ())}


def _stopped_at(node: Node, reached: Reached) -> list[Node]:
    """The nodes that a record has come up to, and not past, on its ways to a node; none if it has come there on one of them."""
    if node in reached:
        return []
    if any(parent in reached for parent in node.parents):
        return [node]
    return [stopped for parent in node.parents for stopped in _stopped_at(parent, reached)]


def _left_of(name: str, rows: DataFrame | TableSide, traces: Sequence[Trace]) -> DataFrame:
    frame = rows.all() if isinstance(rows, TableSide) else rows
    one = F.explode(F.array_distinct(places(F.col(CONTRIBUTORS)))).alias("place")
    left = (
        frame.select(one, F.col(VALUE).isNotNull().alias(_HAS_VALUE))
        .where(any_of([trace.identity for trace in traces], F.col("place.source"), "place."))
        .groupBy("place")
        .agg(F.max(_HAS_VALUE).alias(_HAS_VALUE))
    )
    return left.select(F.lit(name).alias("node"), _HAS_VALUE, "place.*")


def _lost(node: Node, trace: Trace, done: Sequence[Plan], reached: Reached) -> str:
    if node.filters:
        return f"was filtered out by {node.name}"
    sides = [parent for parent in node.parents if parent in reached]
    if sides and not any(reached[side] for side in sides) and isinstance(node, Join):
        if sides[0].is_table:
            return f"deletes the row of its key in {sides[0].name}; nothing of {node.name} is made of that"
        return f"has a null value, of which {node.name} makes nothing"
    if isinstance(node, WindowedJoin):
        return _unpaired(node, trace, done, sides)
    if isinstance(node, StreamTableJoin | StreamGlobalJoin):
        if node.left not in sides:
            return f"is a row of {node.right.name} that no later record of {node.left.name} has looked up"
        if isinstance(node, StreamTableJoin) and node.wait_ms is not None:
            waits = _waiting(node.wait_ms, node, node.left, trace, done)
            if waits is None and node.how == "left":  # which lets all out: its task's clock is behind the newest one
                closes = (trace.event_time_ms or 0) + node.wait_ms
                waits = f"waits in {node.name} until the clock of its key's task passes {closes}; others have passed it"
            return waits or f"has no partner in {node.name}: {node.right.name} had no row of its key while it waited"
        return f"has no partner in {node.name}: {node.right.name} had no row of its key when it came"
    if isinstance(node, Join):
        return f"has no partner in {node.name}, a {node.shape} join"
    return f"{node.name} ({node.word}) does not report it: its result was replaced before it came out, or waits"


def _unpaired(node: WindowedJoin, trace: Trace, done: Sequence[Plan], sides: Sequence[Node]) -> str:
    """Of a record that has met none in its window: whether it waits to come out, or may still meet one.

    Args:
        sides: those of the join that it has come to: a topic may feed both.
    """
    for side in sides:
        left = side is node.left
        if node.how == "outer" or (node.how == "left" and left):
            waits = _waiting(_closes_after(node, left=left), node, side, trace, done)
            if waits is not None:
                return waits
    for side in sides:
        until = _until(_meets_for(node, left=side is node.left), side, trace, done)
        if until is not None:
            return f"has no partner in {node.name} yet: one may come until {until}"
    return f"has no partner in {node.name}: none of its key lies within its window"


def _closes_after(node: WindowedJoin, *, left: bool) -> int:
    """How far the clock passes a record's time before its window is closed."""
    return (node.after_ms if left else node.before_ms) + node.grace_ms


def _meets_for(node: WindowedJoin, *, left: bool) -> int:
    """How far the clock passes a record's time before it can meet nothing any more: under `kafka` its store's retention."""
    if node.rules == "kafka":
        return node.before_ms + node.after_ms + node.grace_ms - 1
    return _closes_after(node, left=left)


def _waiting(bound: int, node: Node, side: Node, trace: Trace, done: Sequence[Plan]) -> str | None:
    """That a record waits in a node, if its task's clock has not passed its time and a bound."""
    until = _until(bound, side, trace, done)
    return None if until is None else f"waits in {node.name} until {until}"


def _until(bound: int, side: Node, trace: Trace, done: Sequence[Plan]) -> str | None:
    """When its task's clock passes a record's time and a bound, in words; None if it has."""
    clocks = done[-1].clocks
    clock = max(clocks.values(), default=0)
    if key_source(side) is not None:  # then its partition is its task
        clock = clocks.get(trace.partition, clock)
    closes = (trace.event_time_ms or 0) + bound
    return f"the clock, now at {clock}, passes {closes}" if clock <= closes else None


def _topics(node: Node) -> set[str]:
    return {source.topic for source in sources_of(node)}
