"""Where a record that gave no result was lost: the node is named behind which nothing of it is left, and why."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.engine.ledger.plans import Plan
from lakestreams.evaluate.inputs import Results
from lakestreams.evaluate.outputs import LINEAGE
from lakestreams.operators.records import CONTRIBUTORS, COORDINATES, UNMATCHED
from lakestreams.operators.versions import TableSide
from lakestreams.topology.graph import key_source, sources_of, upstream
from lakestreams.topology.joins import Join, WindowedJoin
from lakestreams.topology.lookups import StreamGlobalJoin, StreamTableJoin
from lakestreams.verify.identity import any_of, places
from lakestreams.verify.origins import gathers
from lakestreams.verify.trace import Trace, named

if TYPE_CHECKING:
    from lakestreams.topology.endpoints import Sink
    from lakestreams.topology.node import Node
    from lakestreams.topology.topology import Topology


def lacking(topology: Topology, trace: Trace) -> list[Sink]:
    """The outputs that its topic can cause rows of, and that have none of it; of aggregates' rows that cannot be said."""
    reached = {row["output"] for row in trace.results}
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
    seen = {(row["node"], tuple(row[name] for name in COORDINATES)) for row in contributed}
    for trace in traces:
        reached = [node for node in steps if (node.name, trace.identity) in seen]
        lost = [node for node in steps if node not in reached and any(parent in reached for parent in node.parents)]
        if not trace.is_joined:
            trace.sentences += list(dict.fromkeys(_lost(node, trace, done) for node in lost))
        else:
            for sink in lacking(topology, trace):
                why_not = [_lost(node, trace, done) for parent in sink.parents for node in _stopped_at(parent, reached)]
                trace.sentences += [f"not in {sink.name}: {text}" for text in dict.fromkeys(why_not)]
        if not trace.sentences and not trace.results:
            trace.sentences.append("gave nothing, and no node says why: a later record of its key has taken its place")


def missed(topology: Topology, traces: Sequence[Trace]) -> None:
    """Says of a record that met no row of a table which row of its key is dated later, where its key is known.

    That happens to old events that are joined with a table loaded today.
    """
    joins = [node for node in topology.nodes if isinstance(node, StreamTableJoin)]
    for trace in traces:
        without = {row["output"] for row in trace.results if row[LINEAGE]["kind"] == UNMATCHED}
        reached = [node for sink in topology.outputs if sink.name in without for node in upstream(sink)]
        for node in joins:
            left, right = key_source(node.left), key_source(node.right)
            if node not in reached or left is None or right is None or left.topic != trace.topic:
                continue
            rows = [one for one in traces if one.topic == right.topic and one.key == trace.key and one.event_time_ms]
            rows.sort(key=lambda one: (one.event_time_ms, one.identity))
            if rows and (rows[0].event_time_ms or 0) > (trace.event_time_ms or 0):
                first = f"{named(*rows[0].identity)} is the first of its key, at {rows[0].event_time_ms}"
                trace.sentences.append(f"met no row of {node.right.name}: {first}, later than this record")


def _stopped_at(node: Node, reached: Sequence[Node]) -> list[Node]:
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
        frame.select(one)
        .where(any_of([trace.identity for trace in traces], F.col("place.source"), "place."))
        .distinct()
    )
    return left.select(F.lit(name).alias("node"), "place.*")


def _lost(node: Node, trace: Trace, done: Sequence[Plan]) -> str:
    if node.filters:
        return f"was filtered out by {node.name}"
    if isinstance(node, WindowedJoin):
        return _unpaired(node, trace, done)
    if isinstance(node, StreamTableJoin | StreamGlobalJoin):
        if trace.topic in _topics(node.right) and trace.topic not in _topics(node.left):
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


def _unpaired(node: WindowedJoin, trace: Trace, done: Sequence[Plan]) -> str:
    """Of a record that has met none in its window: whether it waits to come out, or may still meet one."""
    left = trace.topic in _topics(node.left)
    side = node.left if left else node.right
    if node.how == "outer" or (node.how == "left" and left):
        waits = _waiting(_closes_after(node, left=left), node, side, trace, done)
        if waits is not None:
            return waits
    until = _until(_meets_for(node, left=left), side, trace, done)
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
