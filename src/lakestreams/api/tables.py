"""KTable and GlobalKTable: the handles of tables. They are immutable; each call adds a node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Never, Self, Unpack, overload

from lakestreams.api.handles import Handle, Output, columns_of, require_function
from lakestreams.api.joining import ByKeyOfTables, ByMappedKey, declare, key_mapper, refuse_unnamed
from lakestreams.errors.places import NodePlace
from lakestreams.topology.derived import Suppress, ToStream
from lakestreams.topology.durations import Duration, to_ms
from lakestreams.topology.endpoints import DeltaSink, KafkaSink
from lakestreams.topology.steps import DropAbsentDeletes, Filter, MapValues

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lakestreams.api.grouped import KGroupedTable
    from lakestreams.api.streams import KStream
    from lakestreams.formats.base import Format
    from lakestreams.topology.kinds import (
        AnyJoiner,
        GroupMapper,
        Joiner,
        LeftJoiner,
        Mapper,
        OuterJoiner,
        OuterJoinKind,
        Predicate,
        TableMode,
        WhenFull,
    )
    from lakestreams.topology.node import Node

WINDOW_CLOSES = "window_closes"


class _Table(Handle):
    """The steps that tables of both kinds have."""

    __slots__ = ()

    _has_rows = True

    def map_values(self, mapper: Mapper, *, name: str | None = None) -> Self:
        """A table whose rows' values are the mapper's columns.

        Args:
            mapper: from the row's fields to a dict of name to Column.
            name: of the step; by default `<input>_map_values`.
        """
        step = self._named(name, "map_values")
        require_function(mapper, NodePlace("map_values", step))
        return self._add(MapValues(step, self._node, mapper))

    def filter(self, predicate: Predicate, *, name: str | None = None) -> Self:
        """A table of the rows whose predicate is true; a row that ceases to fulfil it is deleted.

        A row that does not pass and did not before may cause another deletion. As in Kafka's KTableFilter, that depends
        on whether the filter knows the old row (decision 0028).

        Args:
            predicate: from the row's fields to a boolean Column.
            name: of the step; by default `<input>_filter`.
        """
        step = self._named(name, "filter")
        require_function(predicate, NodePlace("filter", step))
        return self._add(Filter(step, self._node, predicate))

    def _add(self, node: Node) -> Self:
        return type(self)(self._builder, self._builder.add(node))


class GlobalKTable(_Table):
    """A table that every task holds whole, for streams to join by a key of their choice; not co-partitioned.

    It is the right side of `KStream.join` and `KStream.left_join`, and nothing else.
    """

    __slots__ = ()


class KTable(_Table):
    """A changelog read as a table: the newest record of each key; a null value deletes the key's row."""

    __slots__ = ()

    def drop_absent_deletes(self, *, name: str | None = None) -> KTable:
        """A table without the deletions of keys that have no row, which could cause needless tombstones.

        Kafka Streams drops them where a record cache lies before the table's store (its default), and tells joins of
        them where none does. A versioned table is an unversioned one from here on.

        Args:
            name: of the step; by default `<input>_drop_absent_deletes`.
        """
        return self._add(DropAbsentDeletes(self._named(name, "drop_absent_deletes"), self._node))

    def to_stream(self, *, name: str | None = None) -> KStream:
        """The table's changes as a stream: a new row is a record, a deletion one with a null value.

        What reads the stream skips null values; `to_delta` writes none. The table's own `to_delta(mode="changes")`
        keeps its deletions.

        Args:
            name: of the step; by default `<input>_to_stream`.
        """
        from lakestreams.api.streams import KStream  # noqa: PLC0415 - streams know tables, this one step goes back

        return KStream(self._builder, self._builder.add(ToStream(self._named(name, "to_stream"), self._node)))

    def group_by(self, mapper: GroupMapper | str | Sequence[str]) -> KGroupedTable:
        """The rows in groups of a key made from them; a row that changes leaves its group and enters its new one.

        Args:
            mapper: one column's name or several, or a function from the row's fields. The function returns the key's
                columns as a dict of name to Column, or a pair of dicts: the key's columns and the value's to aggregate.
                A row whose group key is null is in no group.
        """
        from lakestreams.api.grouped import KGroupedTable  # noqa: PLC0415 - aggregates of groups are tables again

        given: Any = mapper  # a function may give the value to aggregate, too
        made: Any = key_mapper(given, NodePlace("group_by", self.name))
        return KGroupedTable(self._builder, self._node, group=made)

    def suppress(
        self,
        until: Duration,
        *,
        max_records: int | None = None,
        when_full: WhenFull = "emit",
        name: str | None = None,
    ) -> KTable:
        """A table whose updates wait, so that only the last one within a time comes out.

        Args:
            until: how long a key's first update waits, in the event time of the updates. Then the last one comes out,
                deletions too. Or `"window_closes"`, of a windowed aggregate: each window gives one final row and no
                deletions, when the clock of the updates reaches its end and grace.
            max_records: how many keys may wait in each task; by default any number.
            when_full: `emit` lets the oldest ones out early; `shutdown` stops the run, which writes nothing.
            name: of the step; by default `<input>_suppress`.

        Raises:
            InvalidDuration: of a duration that is none.
        """
        until_ms = None if until == WINDOW_CLOSES else to_ms(until, "until", word=WINDOW_CLOSES)
        return self._add(Suppress(self._named(name, "suppress"), self._node, until_ms, max_records, when_full))

    @overload
    def join(self, right: KTable, joiner: Joiner | None = None, **options: Unpack[ByKeyOfTables]) -> KTable: ...
    @overload
    def join(self, right: KTable, joiner: Joiner | None = None, **options: Unpack[ByMappedKey]) -> KTable: ...
    def join(self, right: KTable, joiner: AnyJoiner | None = None, *unnamed: object, **options: object) -> KTable:
        """A table of each row with the right table's row of its key, updated from both sides.

        With `left_on` it joins by foreign key: each row with the right row that it names (KIP-213). The result has the
        left row's key, and at a change on the right the right row's time. Else its time is the later one of both.

        Args:
            right: the other table.
            joiner: from both rows' fields to a dict of name to Column. Without one all columns of both values come
                out, prefixed with the side's name where they clash.
            **options: `name` of the step, by default `<left>_join_<right>`. By key: `co_partitioning`, what unequal
                partition counts mean: `require` (refused, the default), `warn` or `off`. By foreign key: `left_on`,
                the columns that hold the right table's key, in its order. It is one name or several, or a function from
                the left row's fields to a Column or a dict of name to Column.

        Raises:
            WrongKind: if the right side is not a KTable.
            InvalidOption: of an option that this join does not take.
            MixedBuilders: if the right side belongs to another builder.
        """
        refuse_unnamed(unnamed, NodePlace("join", self.name))
        return self._join("inner", right, joiner, options)

    @overload
    def left_join(
        self, right: KTable, joiner: LeftJoiner | None = None, **options: Unpack[ByKeyOfTables]
    ) -> KTable: ...
    @overload
    def left_join(self, right: KTable, joiner: LeftJoiner | None = None, **options: Unpack[ByMappedKey]) -> KTable: ...
    def left_join(self, right: KTable, joiner: AnyJoiner | None = None, *unnamed: object, **options: object) -> KTable:
        """As `join`, with nulls if the right table has no row.

        Args:
            right: the other table.
            joiner: as for `join`; the right row may be missing.
            **options: as for `join`; the name is by default `<left>_left_join_<right>`.

        Raises:
            WrongKind, InvalidOption: as for `join`.
        """
        refuse_unnamed(unnamed, NodePlace("left_join", self.name))
        return self._join("left", right, joiner, options)

    def outer_join(
        self, right: KTable, joiner: OuterJoiner | None = None, *unnamed: Never, **options: Unpack[ByKeyOfTables]
    ) -> KTable:
        """As `join`, for the keys of either table, with nulls if the other one has no row.

        There is none by foreign key: a right row that no left row names would have no key.

        Args:
            right: the other table.
            joiner: as for `join`; either row may be missing.
            **options: as for `join` by key; the name is by default `<left>_outer_join_<right>`.

        Raises:
            WrongKind: as for `join`, and by foreign key.
            InvalidOption: as for `join`.
        """
        refuse_unnamed(unnamed, NodePlace("outer_join", self.name))
        return self._join("outer", right, joiner, options)

    def to_delta(
        self,
        table: str,
        *,
        mode: TableMode = "merge",
        cluster_by: Iterable[str] = (),
        partition_by: Iterable[str] = (),
        change_feed: bool = False,
    ) -> Output:
        """Writes the table to a Delta table exactly once, with one commit per cycle.

        The Delta table has the key's columns and the value's, `event_time_ms` (the row's time by Kafka's rules) and the
        struct `_lineage`. A column of both is the key's, whose columns identify a row.

        Args:
            table: such as `silver.customers`; one to three parts.
            mode: `merge` keeps one row per key and deletes what is deleted; `changes` appends every change.
            cluster_by: columns for liquid clustering.
            partition_by: columns for Hive-style partitions; not together with `cluster_by`.
            change_feed: whether Delta keeps a change data feed of the table.
        """
        layout = columns_of("cluster_by", cluster_by, table), columns_of("partition_by", partition_by, table)
        node = DeltaSink(table, self._node, layout[0], layout[1], mode, change_feed)
        return Output(self._builder, self._builder.add(node))

    def to_kafka(self, topic: str, *, key: Format | None = None, value: Format | None = None) -> Output:
        """Writes the table's changes to a Kafka topic, at least once. Each new row is a record, each deletion a null value.

        The topic can be read as a table again, and compacted. What a run that fails repeats, the partitions, the order
        and the headers are as for a stream's `to_kafka`.

        Args:
            topic: one that exists and that the pipeline does not read.
            key, value: as for a stream's `to_kafka`.
        """
        return Output(self._builder, self._builder.add(KafkaSink(topic, self._node, key, value)))

    def _join(
        self, how: OuterJoinKind, right: object, joiner: AnyJoiner | None, options: Mapping[str, object]
    ) -> KTable:
        verb = "join" if how == "inner" else f"{how}_join"
        return self._add(declare(how, self._node, self._other(right, verb, "a KTable"), joiner, options))
