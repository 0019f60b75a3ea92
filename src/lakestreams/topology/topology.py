"""A pipeline as a value: what `StreamsBuilder.build()` makes, and everything after it reads."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakestreams.topology import describe, svg
from lakestreams.topology.endpoints import DeltaSink, KafkaSink, Sink, Source
from lakestreams.topology.expectations import Expectations
from lakestreams.topology.joins import Join
from lakestreams.topology.node import Node

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Topology:
    """A whole pipeline as a value: its name and its nodes, parents before children.

    Building it starts nothing. It is checked for names, options and outputs when it is built; columns, types and
    partition counts are checked before a run, when a session and a broker are there (`check`, `run`).
    """

    name: str
    nodes: tuple[Node, ...]
    expectations: Expectations = field(default_factory=Expectations)

    @property
    def sources(self) -> tuple[Source, ...]:
        """Every source, in the order of declaration."""
        return tuple(node for node in self.nodes if isinstance(node, Source))

    @property
    def sinks(self) -> tuple[DeltaSink, ...]:
        """Every output that is a Delta table, in the order of declaration."""
        return tuple(node for node in self.nodes if isinstance(node, DeltaSink))

    @property
    def kafka_sinks(self) -> tuple[KafkaSink, ...]:
        """Every output that is a Kafka topic, in the order of declaration."""
        return tuple(node for node in self.nodes if isinstance(node, KafkaSink))

    @property
    def outputs(self) -> tuple[Sink, ...]:
        """Every output, in the order of declaration."""
        return tuple(node for node in self.nodes if isinstance(node, Sink))

    @property
    def joins(self) -> tuple[Join, ...]:
        """Every join, in the order of declaration."""
        return tuple(node for node in self.nodes if isinstance(node, Join))

    def describe(self) -> str:
        """The topology as text, in Kafka Streams' manner."""
        return describe.as_text(self.name, self.nodes, self.expectations.describe)

    def semantics(self) -> str:
        """The part of the description that results follow from: expectations that only count are not in it."""

        def drops(dataset: str) -> list[str]:
            return [rule.describe() for rule in self.expectations.rules_of(dataset) if rule.action == "drop"]

        return describe.as_text(self.name, self.nodes, drops)

    def mermaid(self) -> str:
        """The topology as a Mermaid flowchart."""
        return describe.as_mermaid(self.nodes)

    def svg(self, partitions: Mapping[str, int] | None = None, counts: Mapping[str, int] | None = None) -> str:
        """The topology as an SVG document that needs nothing else, for docs and notebooks; light and dark.

        Args:
            partitions: topic to partition count; then sources show theirs, and joins in how many tasks they run.
            counts: node to rows that it has passed on; then the edges from it say so.
        """
        return svg.as_svg(self.name, self.nodes, partitions, counts)

    def _repr_svg_(self) -> str:
        """What a notebook draws."""
        return self.svg()

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:  # noqa: ARG002 - Jupyter's
        """What a notebook keeps: the drawing, and the text for places that draw nothing."""
        return {"image/svg+xml": self._repr_svg_(), "text/plain": self.describe()}
