"""KStream and KTable: the handles through which a topology is declared. They are immutable; each call adds a node."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from lakestreams.errors import MixedBuilders
from lakestreams.topology.nodes import (
    CoPartitioning,
    DeltaSink,
    Filter,
    Joiner,
    JoinKind,
    Mapper,
    MapValues,
    Node,
    Predicate,
    SelectKey,
    StreamTableJoin,
)

if TYPE_CHECKING:
    from lakestreams.topology.builder import StreamsBuilder


class _Handle:
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


class KTable(_Handle):
    """A changelog read as a table: the newest record of each key; a null value deletes the key's row."""

    __slots__ = ()

    def map_values(self, mapper: Mapper, *, name: str | None = None) -> KTable:
        """A table whose rows' values are the mapper's columns.

        Args:
            mapper: from the row's fields to a dict of name to Column.
            name: of the step; by default `<input>_map_values`.
        """
        return KTable(
            self._builder, self._builder.add(MapValues(_named(name, self.name, "map_values"), self._node, mapper))
        )

    def filter(self, predicate: Predicate, *, name: str | None = None) -> KTable:
        """A table of the rows whose predicate is true; a row that ceases to fulfil it is deleted.

        Args:
            predicate: from the row's fields to a boolean Column.
            name: of the step; by default `<input>_filter`.
        """
        return KTable(
            self._builder, self._builder.add(Filter(_named(name, self.name, "filter"), self._node, predicate))
        )


class KStream(_Handle):
    """A stream: each record is a point in time of its own."""

    __slots__ = ()

    def map_values(self, mapper: Mapper, *, name: str | None = None) -> KStream:
        """A stream whose values are the mapper's columns; key, time and order stay.

        Args:
            mapper: from the record's fields to a dict of name to Column.
            name: of the step; by default `<input>_map_values`.
        """
        return self._add(MapValues(_named(name, self.name, "map_values"), self._node, mapper))

    def filter(self, predicate: Predicate, *, name: str | None = None) -> KStream:
        """A stream of the records whose predicate is true (null counts as false).

        Args:
            predicate: from the record's fields to a boolean Column.
            name: of the step; by default `<input>_filter`.
        """
        return self._add(Filter(_named(name, self.name, "filter"), self._node, predicate))

    def select_key(self, mapper: Mapper, *, name: str | None = None) -> KStream:
        """A stream with another key; a key of nothing but nulls is a null key.

        The stream is re-keyed logically: no topic is made, coordinates and stream time stay the source's.

        Args:
            mapper: from the record's fields to a dict of key column name to Column.
            name: of the step; by default `<input>_select_key`.
        """
        return self._add(SelectKey(_named(name, self.name, "select_key"), self._node, mapper))

    def join(
        self,
        table: KTable,
        joiner: Joiner | None = None,
        *,
        name: str | None = None,
        co_partitioning: CoPartitioning = "require",
    ) -> KStream:
        """Each record with the table's row of its key, valid at the record; records without one give no result.

        Args:
            table: the table side.
            joiner: from the record's and the row's fields to a dict of name to Column; without one all columns of
                both values come out, prefixed with the side's name where they clash.
            name: of the step; by default `<left>_join_<right>`.
            co_partitioning: what unequal partition counts mean: `require` (refused), `warn` or `off`.
        """
        return self._stream_table("inner", table, joiner, name, co_partitioning)

    def left_join(
        self,
        table: KTable,
        joiner: Joiner | None = None,
        *,
        name: str | None = None,
        co_partitioning: CoPartitioning = "require",
    ) -> KStream:
        """Each record with the table's row of its key, valid at the record, or with nulls where there is none.

        Args:
            table: the table side.
            joiner: from the record's and the row's fields to a dict of name to Column; the row's may all be null.
            name: of the step; by default `<left>_left_join_<right>`.
            co_partitioning: what unequal partition counts mean: `require` (refused), `warn` or `off`.
        """
        return self._stream_table("left", table, joiner, name, co_partitioning)

    def to_delta(self, table: str, *, cluster_by: Iterable[str] = (), partition_by: Iterable[str] = ()) -> None:
        """Writes the stream to a Delta table, appended once a cycle, exactly once.

        The table's columns: the key's (unless the value has a column of that name), the value's, `event_time_ms`
        (the result's time by Kafka's rules) and the struct `_lineage`.

        Args:
            table: such as `silver.enriched_page_views`; one to three parts.
            cluster_by: columns for liquid clustering.
            partition_by: columns for Hive-style partitions; not together with `cluster_by`.
        """
        self._builder.add(DeltaSink(table, self._node, tuple(cluster_by), tuple(partition_by)))

    def _add(self, node: Node) -> KStream:
        return KStream(self._builder, self._builder.add(node))

    def _stream_table(
        self, how: JoinKind, table: KTable, joiner: Joiner | None, name: str | None, co_partitioning: CoPartitioning
    ) -> KStream:
        given: object = table  # users without a type checker pass anything
        if not isinstance(given, KTable):
            msg = (
                f"{self.name}.{'join' if how == 'inner' else 'left_join'}() takes a KTable, not {type(table).__name__}"
            )
            raise TypeError(msg)
        if table._builder is not self._builder:  # noqa: SLF001 - the same class family
            msg = f"{self.name} and {table.name} belong to different builders"
            raise MixedBuilders(msg)
        verb = "join" if how == "inner" else "left_join"
        default = f"{self.name}_{verb}_{table.name}"
        node = StreamTableJoin(default if name is None else name, self._node, table.node, how, joiner, co_partitioning)
        return self._add(node)


def _named(name: str | None, parent: str, verb: str) -> str:
    return f"{parent}_{verb}" if name is None else name
