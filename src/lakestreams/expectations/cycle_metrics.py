"""What is counted of a cycle, by node: plain numbers, written into the ledger when the cycle is closed.

Events are made of it alone (see `events`), so that a crash between a cycle and its events loses none of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

from lakestreams.expectations.judging import KINDS, ROWS
from lakestreams.topology.endpoints import Sink, Source

if TYPE_CHECKING:
    from lakestreams.topology.node import Node
    from lakestreams.topology.topology import Topology

_EXPECTATION: Final = "EXPECTATION"


@dataclass(frozen=True)
class Expected:
    """How often something that is expected was fulfilled.

    Attributes:
        name: of the rule or invariant.
        action: what happens where it is violated.
        passed, failed: rows (of an invariant: what it counts).
    """

    name: str
    action: str
    passed: int
    failed: int


@dataclass
class NodeCounts:
    """What is counted of one node; what was not counted is None.

    Attributes:
        rows_in: of a source, records read.
        rows: what it passed on.
        kinds: results by kind, such as `matched`.
        fates: of a join that waits or amends, how many records came (`came`), and what became of them.
        quarantined: reason code to rows.
        expected: rules and invariants.
    """

    rows_in: int | None = None
    rows: int | None = None
    kinds: dict[str, int] = field(default_factory=dict)
    fates: dict[str, int] = field(default_factory=dict)
    quarantined: dict[str, int] = field(default_factory=dict)
    expected: list[Expected] = field(default_factory=list)


@dataclass
class CycleMetrics:
    """What is counted of a cycle."""

    nodes: dict[str, NodeCounts] = field(default_factory=dict)

    def of(self, node: str) -> NodeCounts:
        """A node's counts."""
        return self.nodes.setdefault(node, NodeCounts())

    def rows(self, node: str, counts: Mapping[str, int]) -> None:
        """Notes rows and their kinds: names `rows`, and `rows_<kind>` or `rows.<kind>`."""
        if ROWS not in counts:
            return
        own = self.of(node)
        own.rows = counts[ROWS]
        counted = {kind: counts.get(f"{ROWS}_{kind}", counts.get(f"{ROWS}.{kind}", 0)) for kind in KINDS}
        own.kinds = {kind: count for kind, count in counted.items() if count}

    def wait_outcomes(self, node: str, counts: Mapping[str, int]) -> None:
        """Notes what became of the records of a join that waits or amends; the results among them are its rows."""
        own = self.of(node)
        own.fates = {name: count for name, count in counts.items() if count}
        own.kinds = {kind: own.fates[kind] for kind in KINDS if kind in own.fates}
        own.rows = sum(own.kinds.values())

    def quarantined(self, node: str, code: str, count: int) -> None:
        """Notes rows that went to quarantine."""
        if count:
            codes = self.of(node).quarantined
            codes[code] = codes.get(code, 0) + count

    def complete(self, topology: Topology) -> None:
        """Fills in what follows: what sources and rules let pass, and steps that make one row of one, from what they feed."""
        for source in topology.sources:
            own = self.of(source.name)
            if own.rows_in is not None:
                own.rows = own.rows_in - sum(own.quarantined.values())
        for node in topology.nodes:
            own = self.of(node.name)
            if not isinstance(node, Source | Sink) and own.rows is not None:  # an output was counted as it is written
                own.rows -= own.quarantined.get(_EXPECTATION, 0)
        children: dict[str, list[Node]] = {}
        for node in topology.nodes:
            for parent in node.parents:
                children.setdefault(parent.name, []).append(node)
        for node in reversed(topology.nodes):
            if isinstance(node, Source | Sink) or self.of(node.name).rows is not None:
                continue
            for child in children.get(node.name, ()):
                self._carry(node, child)

    def _carry(self, node: Node, child: Node) -> None:
        """What a node passed on is what the next one got, if that is reported."""
        below = self.nodes.get(child.name)
        one_of_one = child.one_of_one and not child.upserts
        if below is None or below.rows is None or not one_of_one or self.of(node.name).rows is not None:
            return
        dropped = below.quarantined.get(_EXPECTATION, 0)
        own = self.of(node.name)
        own.rows = below.rows + dropped
        own.kinds = {} if dropped else dict(below.kinds)

    def as_dict(self) -> dict[str, Any]:
        """For the ledger's JSON: what was not counted is left out."""
        return {
            name: {key: value for key, value in asdict(one).items() if value not in (None, {}, [])}
            for name, one in self.nodes.items()
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> CycleMetrics:
        """What `as_dict` gave."""
        nodes = {}
        for name, one in data.items():
            expected = [Expected(**each) for each in one.get("expected", ())]
            nodes[name] = NodeCounts(**{**one, "expected": expected})
        return cls(nodes)
