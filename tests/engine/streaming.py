"""Records through the real engine in the order in which a test pipes them: broker, bronze, cycles, outputs.

The engine has an order of its own (stream time, tables first, ...). So records are produced in pieces: as long as the
order in which they are piped is the engine's, they go into one piece, which is one run.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812
from tests.engine.harness import Bench

from lakestreams import Topology
from lakestreams.topology.endpoints import Source
from lakestreams.topology.node import Node

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.local.broker import Broker

_numbers = itertools.count(1)
_SIDES = {"global_table": -1, "table": 0, "stream": 1}


@dataclass(frozen=True)
class Piped:
    """One record: the topic's name in the topology, bytes, time, partition."""

    topic: str
    key: bytes | None
    value: bytes | None
    ts: int
    partition: int = 0


def pieces(topology: Topology, records: Iterable[Piped]) -> list[list[Piped]]:
    """The records cut wherever the order of arrival is not the engine's."""
    sides = {source.topic: _SIDES[source.kind] for source in topology.sources}
    times: dict[tuple[str, int], int] = {}
    offsets: dict[tuple[str, int], int] = {}
    found: list[list[Piped]] = []
    last: tuple[Any, ...] | None = None
    for one in records:
        at = one.topic, one.partition
        times[at] = max(times.get(at, -1), one.ts)
        offsets[at] = offsets.get(at, -1) + 1
        side = sides[one.topic]
        # a global table's records come before all others of their cycle
        place = (side >= 0, times[at] if side >= 0 else 0, side, one.topic.encode(), one.partition, offsets[at])
        if last is None or place < last:
            found.append([])
        found[-1].append(one)
        last = place
    return found


class Stream:
    """A topology on topics of its own.

    Args:
        spark, broker: the run's.
        root: where its tables lie.
        topology: its topics are renamed, so that no other test sees them.
        partitions: of every topic.
    """

    def __init__(
        self, spark: SparkSession, broker: Broker, root: Path, topology: Topology, partitions: int = 1
    ) -> None:
        self.number = next(_numbers)
        self.broker = broker
        self.topics = {source.topic: f"{source.topic}_{self.number}" for source in topology.sources}
        self.names = {ours: name for name, ours in self.topics.items()}
        self.bench = Bench(spark, broker, root, renamed(topology, self.topics))
        for topic in self.topics.values():
            broker.create_topic(topic, partitions)
        self.driver = self.bench.driver(max_bad_share=1.0)  # most records of some cases are bad
        self._started = False

    def run(self, records: Sequence[Piped]) -> None:
        """One run over these records; of the same driver, as an interval loop has it."""
        for topic, name in self.topics.items():
            own = [(one.key, one.value, one.ts, one.partition) for one in records if one.topic == topic]
            self.broker.produce(name, own)
        if not self._started:
            self.driver.start()
            self._started = True
        self.driver.round()

    def rows(self, output: str, *columns: str) -> list[tuple[Any, ...]]:
        """An output's rows in the order of results, the topics by their names in the topology."""
        frame = self.bench.silver(output).orderBy("_lineage.cycle", "_lineage.trigger", "_lineage.n")
        return [tuple(row) for row in frame.select(*columns).collect()]

    def quarantined(self) -> list[tuple[str, int, int, str, str]]:
        """(topic, partition, offset, step, code), sorted."""
        rows = self.bench.quarantine().where(F.col("pipeline") == self.bench.topology.name)
        found = rows.select("topic", "partition", "offset", "node", "code").collect()
        return sorted((self.names[row[0]], row[1], row[2], row[3], row[4]) for row in found)


def renamed(topology: Topology, topics: Mapping[str, str]) -> Topology:
    """The same topology on other topics; the sources keep their names."""
    return _changed(topology, lambda one: replace(one, topic=topics[one.topic]) if isinstance(one, Source) else one)


def together(name: str, topologies: Mapping[str, Topology], topic: Callable[[str, Source], str]) -> Topology:
    """Several topologies as one pipeline: a run of it costs little more than a run of one of them.

    Args:
        name: the pipeline's.
        topologies: by a prefix for the names of their nodes.
        topic: from a prefix and a source to the name of the source and of its topic. Sources of one name must be equal.
    """
    nodes: list[Node] = []
    known: dict[str, Source] = {}
    for prefix, topology in topologies.items():

        def change(node: Node, prefix: str = prefix) -> Node:
            if not isinstance(node, Source):
                return replace(node, name=f"{prefix}_{node.name}")
            own = topic(prefix, node)
            source = replace(node, name=own, topic=own)
            assert known.setdefault(own, source) == source, f"two sources are called {own}"
            return known[own]

        for node in _changed(topology, change).nodes:
            if not any(node is other for other in nodes):
                nodes.append(node)
    return Topology(name, tuple(nodes))


def _changed(topology: Topology, change: Callable[[Node], Node]) -> Topology:
    """The same topology with each of its nodes changed, whatever it reads apart."""
    made: dict[int, Node] = {}

    def copy(node: Node) -> Node:
        if id(node) not in made:
            ends = {name: copy(getattr(node, name)) for name in ("parent", "left", "right") if hasattr(node, name)}
            made[id(node)] = change(replace(node, **ends) if ends else node)
        return made[id(node)]

    return replace(topology, nodes=tuple(copy(node) for node in topology.nodes))


__all__ = ["Piped", "Stream", "pieces", "renamed", "together"]
