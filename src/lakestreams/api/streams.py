"""KStream: the handle of a stream. It is immutable; each call adds a node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Never, Unpack, overload

from lakestreams.api.grouped import KGroupedStream
from lakestreams.api.handles import Handle, Output, columns_of, require_function
from lakestreams.api.joining import (
    ByForeignKeyOfTable,
    ByKey,
    ByKeyOrNone,
    ByMappedKey,
    InnerWindow,
    On,
    OuterWindow,
    declare,
    key_mapper,
    refuse_unnamed,
)
from lakestreams.api.tables import GlobalKTable, KTable
from lakestreams.errors import WrongKind
from lakestreams.errors.places import NodePlace
from lakestreams.topology.derived import ToTable
from lakestreams.topology.endpoints import DeltaSink, KafkaSink
from lakestreams.topology.steps import Filter, FlatMap, FlatMapValues, Map, MapValues, Merge, Repartition, SelectKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lakestreams.formats.base import Format
    from lakestreams.topology.kinds import (
        AnyJoiner,
        Joiner,
        LeftJoiner,
        ManyMapper,
        ManyPairMapper,
        Mapper,
        OuterJoiner,
        OuterJoinKind,
        PairMapper,
        Predicate,
        StreamMode,
    )
    from lakestreams.topology.node import Node


class KStream(Handle):
    """A stream: each record is an independent event."""

    __slots__ = ()

    _has_rows = True

    # --- one input ---------------------------------------------------------------------------------------------------

    def map_values(self, mapper: Mapper, *, name: str | None = None) -> KStream:
        """A stream whose values are the mapper's columns; key, time and order stay.

        Args:
            mapper: from the record's fields to a dict of name to Column.
            name: of the step; by default `<input>_map_values`.
        """
        step = self._named(name, "map_values")
        require_function(mapper, NodePlace("map_values", step))
        return self._add(MapValues(step, self._node, mapper))

    def filter(self, predicate: Predicate, *, name: str | None = None) -> KStream:
        """A stream of the records whose predicate is true (null counts as false).

        Args:
            predicate: from the record's fields to a boolean Column.
            name: of the step; by default `<input>_filter`.
        """
        step = self._named(name, "filter")
        require_function(predicate, NodePlace("filter", step))
        return self._add(Filter(step, self._node, predicate))

    def select_key(self, mapper: On, *, name: str | None = None) -> KStream:
        """A stream with another key; a key whose columns are all null is a null key.

        The stream is re-keyed logically: no topic is made, coordinates and stream time stay the source's.

        Args:
            mapper: from the record's fields to a dict of key column name to Column; or a column's name, or several.
            name: of the step; by default `<input>_select_key`.
        """
        step = self._named(name, "select_key")
        return self._add(SelectKey(step, self._node, key_mapper(mapper, NodePlace("select_key", step))))

    def map(self, mapper: PairMapper, *, name: str | None = None) -> KStream:
        """A stream with another key and another value; re-keyed as by `select_key`.

        Args:
            mapper: from the record's fields to a pair of dicts of name to Column: the key's and the value's columns.
            name: of the step; by default `<input>_map`.
        """
        step = self._named(name, "map")
        require_function(mapper, NodePlace("map", step))
        return self._add(Map(step, self._node, mapper))

    def flat_map_values(self, mapper: ManyMapper, *, name: str | None = None) -> KStream:
        """A stream of none, one or several records for each; key, time and order stay.

        Args:
            mapper: from the record's fields to a list of dicts of name to Column: one per record, all with the same
                names. If the data decides how many, one Column of type `array<struct<...>>`: each element is a record,
                a null element one with a null value.
            name: of the step; by default `<input>_flat_map_values`.
        """
        step = self._named(name, "flat_map_values")
        require_function(mapper, NodePlace("flat_map_values", step))
        return self._add(FlatMapValues(step, self._node, mapper))

    def flat_map(self, mapper: ManyPairMapper, *, name: str | None = None) -> KStream:
        """A stream of several records for each, every one with its own key; re-keyed as by `select_key`.

        Args:
            mapper: from the record's fields to a list of pairs of dicts of name to Column, key and value; all of the
                same names.
            name: of the step; by default `<input>_flat_map`.
        """
        step = self._named(name, "flat_map")
        require_function(mapper, NodePlace("flat_map", step))
        return self._add(FlatMap(step, self._node, mapper))

    def repartition(self, partitions: int, *, name: str | None = None) -> KStream:
        """A stream whose tasks follow from the hash of its key: `murmur2(key) mod partitions`.

        Logical: no topic is made. A join that requires equal partition counts sees this one. A record with a null key is
        refused, as in Kafka, unless a left or outer join of a stream stands somewhere behind.

        Args:
            partitions: the count, 1 or more.
            name: of the step; by default `<input>_repartition`.
        """
        return self._add(Repartition(self._named(name, "repartition"), self._node, partitions))

    # --- groups and tables -------------------------------------------------------------------------------------------

    def group_by_key(self) -> KGroupedStream:
        """The records in groups of one key each, to be counted, reduced or aggregated. A null key is in no group."""
        return KGroupedStream(self._builder, self._node)

    def group_by(self, mapper: On, *, name: str | None = None) -> KGroupedStream:
        """The records in groups of a key made from them: `select_key` and `group_by_key`.

        Args:
            mapper: as for `select_key`.
            name: of the step that sets the key; by default `<input>_group_by`.
        """
        step = self._named(name, "group_by")
        keyed = self._add(SelectKey(step, self._node, key_mapper(mapper, NodePlace("group_by", step))))
        return keyed.group_by_key()

    def to_table(self, *, name: str | None = None) -> KTable:
        """The stream read as a table: each record is its key's new row, a null value deletes it.

        By arrival, whatever the times: a record that is older than its key's row replaces it all the same. A null key
        is no row; it is refused. A `filter` before it drops null values unless its predicate lets them through
        (`row.page.isNull() | ...`), and what is dropped deletes nothing.

        Args:
            name: of the step; by default `<input>_to_table`.
        """
        return KTable(self._builder, self._builder.add(ToTable(self._named(name, "to_table"), self._node)))

    # --- two inputs --------------------------------------------------------------------------------------------------

    def merge(self, other: KStream, *, name: str | None = None) -> KStream:
        """The records of both streams as one; their key and value columns must be the same.

        Args:
            other: the other stream.
            name: of the step; by default `<left>_merge_<right>`.

        Raises:
            WrongKind: if the other side is a table.
        """
        right = self._other(other, "merge", "a KStream")
        node = Merge(self._named(name, f"merge_{other.name}"), self._node, right)
        if right.is_table:
            msg = f"{other.name} is a table; streams merge with streams"
            raise WrongKind(msg, where=NodePlace("merge", node.name))
        return self._add(node)

    @overload
    def join(self, right: KStream, joiner: Joiner | None = None, **options: Unpack[InnerWindow]) -> KStream: ...
    @overload
    def join(self, right: KTable, joiner: Joiner | None = None, **options: Unpack[ByKey]) -> KStream: ...
    @overload
    def join(self, right: KTable, joiner: Joiner | None = None, **options: Unpack[ByForeignKeyOfTable]) -> KStream: ...
    @overload
    def join(self, right: GlobalKTable, joiner: Joiner | None = None, **options: Unpack[ByMappedKey]) -> KStream: ...
    def join(
        self,
        right: KStream | KTable | GlobalKTable,
        joiner: AnyJoiner | None = None,
        *unnamed: object,
        **options: object,
    ) -> KStream:
        """Joins each record with its partners on the right; records without a partner give no result.

        - A KStream: the records of its key whose times lie in a window, `left - before <= right <= left + after`
          (Kafka's KStream-KStream join). One result a pair, with the later time of both.
        - A KTable: the row of its key that is valid at the record (KStream-KTable); of a versioned table the row
          valid at the record's time. With `right_on` every row that names the record's key, in the order of their
          keys' bytes (KIP-955).
        - A GlobalKTable: the row of the key that `left_on` makes of the record (KStream-GlobalKTable).

        With a table a result has the record's key and time.

        Args:
            right: the right side; its kind decides which join it is.
            joiner: from the fields of both sides to a dict of name to Column. Without one all columns of both values
                come out, prefixed with the side's name where they clash.
            **options: `name` of the step, by default `<left>_join_<right>`; and

                - with a KStream: `within`, or `before` and `after`. These are durations; one alone leaves the other 0.
                  Either may be negative, but not their sum. `grace` is for late records (default 0). `rules` is
                  `strict` (one outcome per record, the default) or `kafka` (parity). And `co_partitioning`.
                - with a KTable: `wait`, how long a record without a row waits for one. Then it is refused, or comes
                  out without. A versioned table takes `grace` instead: how long records wait for rows that come late
                  (KIP-923), at most its history. And `co_partitioning`.
                - with a KTable by foreign key: `right_on`, the row's columns that hold the record's key.
                - with a GlobalKTable: `left_on`, the record's columns that hold the table's key.

                `left_on` and `right_on` are one name or several, or a function from the fields. It returns a Column or a
                dict of name to Column, matched in order. `co_partitioning` is what unequal partition counts mean: `require`
                (refused, the default), `warn` or `off`.

        Raises:
            InvalidOption: of an option that this join does not take, or a window or `left_on` that is missing. (Whether
                options fit the sides, such as a grace and a versioned table, is `build()`'s to say.)
            InvalidDuration: of a bound or grace that is no duration ("10 minutes", "250 ms", a timedelta).
            MixedBuilders: if the right side belongs to another builder.
        """
        refuse_unnamed(unnamed, NodePlace("join", self.name))
        return self._join("inner", right, joiner, options)

    @overload
    def left_join(
        self, right: KStream, joiner: LeftJoiner | None = None, **options: Unpack[OuterWindow]
    ) -> KStream: ...
    @overload
    def left_join(self, right: KTable, joiner: LeftJoiner | None = None, **options: Unpack[ByKeyOrNone]) -> KStream: ...
    @overload
    def left_join(
        self, right: KTable, joiner: LeftJoiner | None = None, **options: Unpack[ByForeignKeyOfTable]
    ) -> KStream: ...
    @overload
    def left_join(
        self, right: GlobalKTable, joiner: LeftJoiner | None = None, **options: Unpack[ByMappedKey]
    ) -> KStream: ...
    def left_join(
        self,
        right: KStream | KTable | GlobalKTable,
        joiner: AnyJoiner | None = None,
        *unnamed: object,
        **options: object,
    ) -> KStream:
        """As `join`, with nulls for a record without a partner on the right.

        Args:
            right: as for `join`.
            joiner: as for `join`; the right side may be missing.
            **options: as for `join`. With a KStream also `emit_unmatched`: when a record without a partner comes out,
                `on_window_close` (the default) or `eager`. With a KTable also `amend`: how long after a record's time
                a row may still come and correct its result. The correction is a second result, of the kind `amended`.
                The name is by default `<left>_left_join_<right>`.

        Raises:
            InvalidOption, InvalidDuration: as for `join`.
        """
        refuse_unnamed(unnamed, NodePlace("left_join", self.name))
        return self._join("left", right, joiner, options)

    def outer_join(
        self, right: KStream, joiner: OuterJoiner | None = None, *unnamed: Never, **options: Unpack[OuterWindow]
    ) -> KStream:
        """As `join` with a KStream, with nulls for a record of either side without a partner.

        Args:
            right: the other stream.
            joiner: as for `join`; either side may be missing.
            **options: as for `left_join` with a KStream; the name is by default `<left>_outer_join_<right>`.

        Raises:
            WrongKind: if the right side is a table: a row that meets no record has no time to come out.
            InvalidOption, InvalidDuration: as for `join`.
        """
        refuse_unnamed(unnamed, NodePlace("outer_join", self.name))
        return self._join("outer", right, joiner, options)

    # --- output ------------------------------------------------------------------------------------------------------

    def to_delta(
        self,
        table: str,
        *,
        mode: StreamMode = "append",
        cluster_by: Iterable[str] = (),
        partition_by: Iterable[str] = (),
    ) -> Output:
        """Writes the stream to a Delta table exactly once, with one commit per cycle.

        The table has the columns of the key and the value, `event_time_ms` (the result's time by Kafka's rules) and the
        struct `_lineage`. If both key and value have a column of one name, the value's is taken.

        Args:
            table: such as `silver.enriched_page_views`; one to three parts.
            mode: `append` adds every result. `merge`, behind a join with `amend`, keeps one row per record of the stream:
                the amended result replaces the one without a row. The record's coordinates identify the row.
            cluster_by: columns for liquid clustering.
            partition_by: columns for Hive-style partitions; not together with `cluster_by`.
        """
        layout = columns_of("cluster_by", cluster_by, table), columns_of("partition_by", partition_by, table)
        return Output(self._builder, self._builder.add(DeltaSink(table, self._node, layout[0], layout[1], mode)))

    def to_kafka(self, topic: str, *, key: Format | None = None, value: Format | None = None) -> Output:
        """Writes the stream to a Kafka topic, at least once.

        If a run fails after writing and before the end of its cycle, the next run writes equal records again. They have
        equal ids in the header `lakestreams-id`, by which a reader drops those it has seen. Each record lies in the
        partition that Kafka's own partitioner gives its key, the records of one key in the order of the results. Their
        timestamp is the time of writing; the event time (ms) is in the header `lakestreams-event-time-ms`.

        Args:
            topic: one that exists and that the pipeline does not read.
            key: the format of the key's bytes, of all columns that the key has; by default a JSON object of them.
            value: the format of the value's bytes; by default a JSON object of all the value's columns. It names
                columns of the value, and may name `event_time_ms`. docs/formats.md says which formats can be written.
        """
        return Output(self._builder, self._builder.add(KafkaSink(topic, self._node, key, value)))

    def _add(self, node: Node) -> KStream:
        return KStream(self._builder, self._builder.add(node))

    def _join(
        self, how: OuterJoinKind, right: object, joiner: AnyJoiner | None, options: Mapping[str, object]
    ) -> KStream:
        verb = "join" if how == "inner" else f"{how}_join"
        other = self._other(right, verb, "a KStream, KTable or GlobalKTable")
        return self._add(declare(how, self._node, other, joiner, options))
