"""Which filters of tables know what was there before, as Kafka Streams decides it while a topology is declared.

A filter that knows a row's old value says nothing where neither the old value nor the new one passes. One that does not
know it says in each such case that the row is deleted. Kafka's filter asks its parent for old values when it is declared,
without insisting (`KTableFilter`), and what is declared behind it may ask again and insist (`enableSendingOldValues`).
Aggregations and joins by key grant it at once; a source, a `to_table` and a foreign-key join grant it if somebody insists
or has looked into their store before; other steps ask their parent (decision 0028).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakestreams.topology.node import Node


def quiet_filters(nodes: Sequence[Node]) -> frozenset[str]:
    """The filters of tables that say nothing where neither the old row nor the new one passes, by name.

    Args:
        nodes: all nodes of a topology, in the order of declaration.
    """
    asking = _Asking()
    for node in nodes:
        asking.declare(node)
    heard = _heard(nodes)
    return frozenset(
        node.name
        for node in nodes
        if node.name in asking.filters & heard and node.history_ms is None and not _origin(node).forgets_rows
    )


def remembers_rows(node: Node) -> bool:
    """Whether a quiet filter must keep rows to know what was before: what its parent tells does not say it."""
    return not _origin(node).has_old_rows


def _heard(nodes: Sequence[Node]) -> set[str]:
    """The nodes whose deletions somebody hears; lookups of a stream, groups and deletions left out do not."""
    found: set[str] = set()
    for node in reversed(nodes):  # children first
        if node.hears_deletions or (node.passes_deletions and node.name in found):
            found.update(parent.name for parent in node.parents)
    return found


def _origin(node: Node) -> Node:
    """The node that makes the rows which steps on one row at a time lead to this one."""
    while node.keeps_rows:
        (node,) = node.parents
    return node


class _Asking:
    """The questions for old values that declaring a topology causes, and what has been granted so far."""

    def __init__(self) -> None:
        self._stored: set[str] = set()
        self._sends: set[str] = set()
        self.filters: set[str] = set()

    def declare(self, node: Node) -> None:
        """What declaring one node asks of those before it."""
        if node.filters:
            if node.is_table and self._ask_input(node, insists=False):
                self.filters.add(node.name)
            return
        for parent in node.asks_old:
            self._ask(parent, insists=True)
        for parent in node.looks_into:
            self._look_into(parent)

    def _ask(self, node: Node, *, insists: bool) -> bool:
        """Whether a table sends old values, now that it is asked to."""
        if node.name in self._sends:
            return True
        if node.filters:
            if self._ask_input(node, insists=insists):
                self.filters.add(node.name)
            if node.name not in self.filters:
                return False
        elif node.sends_old == "with_inputs":
            for parent in node.parents:
                self._ask(parent, insists=True)
        elif node.sends_old == "if_stored":
            if not (insists or node.name in self._stored or node.history_ms is not None):
                return False
        elif node.sends_old == "as_input" and not self._ask_input(node, insists=insists):
            return False
        self._sends.add(node.name)
        return True

    def _ask_input(self, node: Node, *, insists: bool) -> bool:
        return self._ask(node.parents[0], insists=insists)

    def _look_into(self, node: Node) -> None:
        """Somebody looks rows up in a table: the nearest one that has a store of its own gets it."""
        if node.sends_old == "if_stored":
            self._stored.add(node.name)
        elif node.passes_lookups:
            self._look_into(node.parents[0])
