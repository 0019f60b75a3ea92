"""What follows from how the nodes of a topology hang together: sources, keys' partitions, several rows a record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakestreams.topology.endpoints import Source
from lakestreams.topology.joins import Join
from lakestreams.topology.old_values import quiet_filters

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lakestreams.topology.kinds import Overlap
    from lakestreams.topology.node import Node
    from lakestreams.topology.steps import Merge


def sources_of(node: Node) -> tuple[Source, ...]:
    """The sources that feed a node, first the left ones, each once."""
    if isinstance(node, Source):
        return (node,)
    found: dict[str, Source] = {}
    for parent in node.parents:
        for source in sources_of(parent):
            found.setdefault(source.name, source)
    return tuple(found.values())


def upstream(node: Node, beyond: str | None = None) -> list[Node]:
    """A node and what feeds it, parents first; not beyond a node of this name, nor that one itself."""
    if node.name == beyond:
        return []
    return [*(found for parent in node.parents for found in upstream(parent, beyond)), node]


def key_source(node: Node) -> Source | None:
    """The source whose partitions a node's records lie in, or None after a re-key (then the task is by key hash).

    None of a Delta table, too: its one partition says nothing of its keys.
    """
    if isinstance(node, Source):
        return None if node.delta is not None else node
    found = [key_source(parent) for parent in node.placed_by]
    return None if not found or None in found else found[0]


def is_multi_row(node: Node) -> bool:
    """Whether one record of a source can cause several rows of a node."""
    if node.is_multi_row or any(map(is_multi_row, node.triggers)):
        return True
    reached = [source.name for parent in node.triggers for source in sources_of(parent)]
    return len(reached) > len(set(reached))  # by more than one way


def is_derived(node: Node) -> bool:
    """Whether something that waits or gathers lies between the sources and a node: a join, an aggregation, a buffer."""
    return node.gathers or any(is_derived(parent) for parent in node.parents)


def follows_partitions(node: Node) -> bool:
    """Whether a node's rows come as their partitions do, so that the clocks they bring ascend with the order."""
    return not is_derived(node)


def multiplies(node: Node) -> bool:
    """Whether one record of a source can become any number of rows on its way to a node."""
    return node.multiplies or any(map(multiplies, node.parents))


def takes_null_values(source: Source, nodes: Sequence[Node]) -> bool:
    """Whether a stream's null values have a use: they are deletions where the stream becomes a table."""

    def reaches(node: Node) -> bool:
        return node == source or (node.passes_nulls and any(map(reaches, node.parents)))

    return any(node.null_deletes and any(map(reaches, node.parents)) for node in nodes)


def refuses_null_values(source: Source, nodes: Sequence[Node]) -> bool:
    """Whether a stream's null values are refused by the source: nothing behind it has a use for them."""
    return source.kind == "stream" and source.null_values == "quarantine" and not takes_null_values(source, nodes)


def passes_null_values(source: Source, nodes: Sequence[Node]) -> bool:
    """Whether a stream's null values are those of its steps, which may refuse them: it neither refuses nor ignores them."""
    return source.kind == "stream" and source.null_values == "quarantine" and takes_null_values(source, nodes)


def overlap_of(node: Join | Merge, nodes: Sequence[Node]) -> Overlap:
    """Whether both inputs hold rows of the same source record, and whose Kafka Streams would process first.

    Kafka Streams forwards a record to the processors behind it in the order in which they were attached, each to the
    end; so the side wins whose path leaves the common source first. What passes a repartition topic on its way comes
    as a record of its own, later.

    Args:
        node: the join or merge.
        nodes: all nodes of the topology, in the order of declaration.
    """
    shared = {source.name for source in sources_of(node.left)} & {source.name for source in sources_of(node.right)}
    if not shared:
        return "none"
    left_moves, right_moves = _moves(node.left, node.right), _moves(node.right, node.left)
    if left_moves != right_moves:
        return "right_first" if left_moves else "left_first"
    declared = {other.name: place for place, other in enumerate(nodes)}
    source = min(shared, key=declared.__getitem__)
    left, right = (min(_paths(side, source, declared)) for side in (node.left, node.right))
    mine = [declared[node.name]]
    return "left_first" if [*left, *mine, 0] <= [*right, *mine, 1] else "right_first"


def sequential_sides(node: Join) -> bool:
    """Whether what one record causes on both sides comes to a join one after the other, not at once.

    So it is where a repartition topic lies on one of the ways behind the fork: the first side finds the other one as it
    was before the record.
    """
    return _moves(node.left, node.right) or _moves(node.right, node.left)


def _moves(side: Node, other: Node) -> bool:
    """Whether a side's records pass a repartition topic on a way that the other side's do not take."""
    shared = {node.name for node in upstream(other)}
    return any(node.name not in shared and node.rekeys for node in upstream(side))


def reports_each_change_once(node: Node, nodes: Sequence[Node]) -> bool:
    """Whether what a table's changes say of the row before is what the change before has said.

    Kafka Streams' table joins look at both sides as they are after the whole record; where both sides come from one
    source, the record gives a result by either, and the second one's row before is not the first one's row.
    """
    if not node.is_table or node.begins_changes:
        return True
    if isinstance(node, Join):
        once = overlap_of(node, nodes) == "none" or (not node.rekeys and sequential_sides(node))
        return once and all(reports_each_change_once(parent, nodes) for parent in node.parents)
    return reports_each_change_once(node.parents[0], nodes)


def triggers_of(node: Node) -> tuple[Source, ...]:
    """The sources whose records can cause rows of a node; a table that is only looked up causes none."""
    if isinstance(node, Source):
        return (node,)
    return tuple({one.name: one for parent in node.triggers for one in triggers_of(parent)}.values())


def windows_before(node: Node) -> Iterator[Node]:
    """What a step's windows have come through, the nearest first: steps on rows, buffers, at last the aggregation; perhaps none."""
    (before,) = node.parents
    while before.key_windows is not None:
        yield before
        (before,) = before.parents


def only_looks_up(nodes: Sequence[Node]) -> bool:
    """Whether all that a topology remembers are the rows of tables as their topics have them, for streams to look up."""
    return not any(node.remembers for node in nodes) and not quiet_filters(nodes)


def spans_of(nodes: Sequence[Node]) -> Iterator[tuple[Node, str, int]]:
    """Nodes that hold records for a time: the node, what holds them, and for how long they matter, ms."""
    for node in nodes:
        if node.span is not None:
            yield node, *node.span


def may_delete(node: Node) -> bool:
    """Whether a table's deletions, which are null values, come to a step as a stream."""
    return node.reports_deletions or any(map(may_delete, node.parents))


def is_rekeyed(node: Node) -> bool:
    """Whether a new key, which may be null, is made on the way to a step."""
    return node.makes_key or any(map(is_rekeyed, node.parents))


def keeps_null_keys(node: Node, nodes: Sequence[Node]) -> bool:
    """Whether a repartition lets null keys pass, as Kafka Streams does where any join behind it has a use for them.

    Such joins give a record without a key as an unmatched one (KIP-962, `NodesWithRelaxedNullKeyJoinDownstream`).

    Args:
        node: the repartition.
        nodes: all nodes of the topology, parents first.
    """
    behind = {node.name}
    for other in nodes:
        if any(parent.name in behind for parent in other.parents):
            behind.add(other.name)
            if other.keeps_unmatched and not other.is_table:
                return True
    return False


def longest_wait_ms(nodes: Sequence[Node]) -> int:
    """How far a clock must pass a record's time, at most, until nothing of the record waits any more; 0: nothing waits.

    What waits behind something that waits adds up.
    """
    return sum(node.longest_wait_ms for node in nodes)


def held_before_ms(node: Node) -> int:
    """How far behind its sources' clocks a node's rows may be, at most, because something on their way waits, ms.

    A join that waits for `w` has let out, at a clock of `c`, all that is older than `c - w`; what it still holds is not.
    """
    return max((parent.longest_wait_ms + held_before_ms(parent) for parent in node.parents), default=0)


def delays_before_ms(node: Node) -> int:
    """How far a node's rows may lie behind its clock, at most, because they have waited on their way, ms."""
    return max((parent.longest_delay_ms + delays_before_ms(parent) for parent in node.parents), default=0)


def closes_too_soon(nodes: Sequence[Node]) -> Iterator[tuple[Node, int]]:
    """Nodes whose windows may close before rows that have waited come to them, and by how much too soon, ms."""
    for node in nodes:
        closes = node.span is not None and (node.joins_streams or not node.waits)  # a buffer refuses nothing
        missing_ms = delays_before_ms(node) - node.least_slack_ms
        if closes and missing_ms > 0:
            yield node, missing_ms


def lets_out_before(node: Node) -> bool:
    """Whether a row may come to a node by a record that it is not made of, or by no record: something before it waits."""
    return any(parent.waits or lets_out_before(parent) for parent in node.parents)


def is_interleaved(join: Join) -> bool:
    """Whether both sides take the same several rows of a record, one row going to both of them before the next.

    So it is where the paths part behind the step that makes several, as in the self-join of a `flat_map`.
    """
    right = {node.name for node in upstream(join.right)}
    shared = [node for node in upstream(join.left) if node.name in right]
    if not shared or not is_multi_row(shared[-1]):
        return False
    fork = shared[-1].name
    behind = [node for side in (join.left, join.right) for node in upstream(side, fork)]
    return not any(node.multiplies or len(node.parents) > 1 for node in behind)


def _paths(node: Node, source: str, declared: Mapping[str, int]) -> list[list[int]]:
    """Each way from a source to a node, as the places of its nodes after the source."""
    if isinstance(node, Source):
        return [[]] if node.name == source else []
    return [[*path, declared[node.name]] for parent in node.parents for path in _paths(parent, source, declared)]
