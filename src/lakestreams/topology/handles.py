"""What the handles KStream, KTable and GlobalKTable have in common: a node and the builder that collects it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakestreams.errors import MixedBuilders

if TYPE_CHECKING:
    from lakestreams.topology.builder import StreamsBuilder
    from lakestreams.topology.nodes import Node


class Handle:
    """A node together with the builder that collects it."""

    __slots__ = ("_builder", "_node")

    def __init__(self, builder: StreamsBuilder, node: Node) -> None:
        self._builder = builder
        self._node = node

    @property
    def name(self) -> str:
        """The node's name."""
        return self._node.name

    @property
    def node(self) -> Node:
        """The node itself."""
        return self._node

    def __repr__(self) -> str:
        """Kind and name."""
        return f"{type(self).__name__}({self._node.name!r})"

    def _other(self, given: object, verb: str, takes: str) -> Node:
        """The node of the other handle that a step is given.

        Raises:
            TypeError: if it is no handle at all.
            MixedBuilders: if another builder collects it.
        """
        if not isinstance(given, Handle):
            msg = f"{self.name}.{verb}() takes {takes}, not {type(given).__name__}"
            raise TypeError(msg)
        if given._builder is not self._builder:  # noqa: SLF001 - the same class family
            msg = f"{self.name} and {given.name} belong to different builders"
            raise MixedBuilders(msg)
        return given.node

    def _named(self, name: str | None, verb: str) -> str:
        return f"{self.name}_{verb}" if name is None else name
