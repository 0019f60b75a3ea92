"""Grouped streams and tables: what `group_by_key` and `group_by` give, and the tables that are made of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakestreams.api.handles import Handle
from lakestreams.api.tables import KTable
from lakestreams.topology.derived import Aggregate
from lakestreams.topology.durations import Duration, to_ms
from lakestreams.topology.kinds import Aggregators, Changes, EmptyGroup, GroupMapper, Reducer, TimeWindows

if TYPE_CHECKING:
    from lakestreams.api.builder import StreamsBuilder
    from lakestreams.topology.kinds import AggregateVerb
    from lakestreams.topology.node import Node


class _Grouped(Handle):
    """What all groups can do; how they were made is added to each node."""

    __slots__ = ("_how",)

    def __init__(self, builder: StreamsBuilder, node: Node, **how: Any) -> None:
        super().__init__(builder, node)
        self._how = how

    def _table(self, verb: AggregateVerb, name: str | None, **options: Any) -> KTable:
        node = Aggregate(self._named(name, verb), self._node, verb, **self._how, **options)
        return KTable(self._builder, self._builder.add(node))


class _GroupedRecords(_Grouped):
    """Groups that records only enter."""

    __slots__ = ()

    def count(self, *, name: str | None = None, emit: Changes = "every_change") -> KTable:
        """A table of how many records each group has had: one column, `count`.

        Args:
            name: of the step; by default `<input>_count`.
            emit: `every_change` gives a row for each record, with the greatest event time that the group has seen.
                `latest` gives the last one of each cycle, as a record cache of Kafka Streams that is flushed once per
                cycle. The final table is the same.
        """
        return self._table("count", name, emit=emit)

    def reduce(self, add: Reducer, *, name: str | None = None, emit: Changes = "every_change") -> KTable:
        """A table of each group's values put together pairwise; the first one is the result as it is.

        Args:
            add: from the fields of the result so far and those of a value to a dict with the value's columns. If
                all of them are null, the row is deleted, and the next value is the result again.
            name: of the step; by default `<input>_reduce`.
            emit: as for `count`.

        It is a fold in memory (see `agg.fold`); sums, counts, extremes and last values are better an `aggregate`.
        """
        return self._table("reduce", name, add=add, emit=emit)

    def aggregate(self, aggregators: Aggregators, *, name: str | None = None, emit: Changes = "every_change") -> KTable:
        """A table of several aggregates of each group, by a function: `lambda row: {"total": agg.sum(row.amount)}`.

        Args:
            aggregators: from a record's fields to a dict of column name to aggregator, such as
                `lambda click: {"clicks": agg.sum(click.count), "last_page": agg.last(click.page)}`.
            name: of the step; by default `<input>_aggregate`.
            emit: as for `count`.
        """
        return self._table("aggregate", name, aggregators=aggregators, emit=emit)


class TimeWindowedKStream(_GroupedRecords):
    """A stream's records grouped by key and time window; what is made of it has the window in its key.

    The key has the group's columns and `window_start_ms` and `window_end_ms`. A record whose window has closed, the
    task's clock having reached its end and grace, is late for it and is not counted in it.
    """

    __slots__ = ()


class KGroupedStream(_GroupedRecords):
    """A stream's records grouped by key. A null key or value belongs to no group."""

    __slots__ = ()

    def windowed_by(
        self, size: Duration, *, advance: Duration | None = None, grace: Duration = "0 ms"
    ) -> TimeWindowedKStream:
        """The same records, grouped by time windows as well.

        Args:
            size: how long a window is; it holds its start and not its end. Windows start at multiples of `advance`.
            advance: how far apart windows start; by default the size (tumbling), less makes them overlap (hopping).
            grace: how long after its end a window takes records that come late.

        Raises:
            InvalidDuration: of a size, advance or grace that is no duration.
        """
        size_ms = to_ms(size, "size")
        advance_ms = size_ms if advance is None else to_ms(advance, "advance")
        windows = TimeWindows(size_ms, advance_ms, to_ms(grace, "grace"))
        return TimeWindowedKStream(self._builder, self._node, windows=windows)


class KGroupedTable(_Grouped):
    """A table's rows in groups: a row that changes leaves its old group and enters its new one."""

    __slots__ = ()

    def __init__(self, builder: StreamsBuilder, node: Node, *, group: GroupMapper) -> None:
        super().__init__(builder, node, group=group)

    def count(self, *, name: str | None = None, emit: Changes = "every_change", empty: EmptyGroup = "keep") -> KTable:
        """A table of how many rows each group has: one column, `count`.

        Args:
            name: of the step; by default `<input>_count`.
            emit: `every_change` gives a row for each change of a group, `latest` the last one of each cycle.
            empty: what a group is whose rows have all gone: `keep` a row with 0 (Kafka Streams' count), or `delete` it
                (SQL's `group by`).
        """
        return self._table("count", name, emit=emit, empty=empty)

    def reduce(
        self,
        add: Reducer,
        subtract: Reducer,
        *,
        name: str | None = None,
        emit: Changes = "every_change",
        empty: EmptyGroup = "keep",
    ) -> KTable:
        """A table of each group's values put together pairwise.

        Args:
            add: from the fields of the result so far and those of a value that enters, to a dict with the value's
                columns. The first value of a group is its result as it is.
            subtract: the same for a value that leaves.
            name: of the step; by default `<input>_reduce`.
            emit, empty: as for `count`.
        """
        return self._table("reduce", name, add=add, subtract=subtract, emit=emit, empty=empty)

    def aggregate(
        self,
        aggregators: Aggregators,
        *,
        name: str | None = None,
        emit: Changes = "every_change",
        empty: EmptyGroup = "keep",
    ) -> KTable:
        """A table of several aggregates of each group, by a function: `lambda row: {"total": agg.sum(row.amount)}`.

        Args:
            aggregators: from the fields of a row, as `group_by` made it, to a dict of column name to aggregator. What
                a row was is taken out when it changes; what that costs is said at each aggregator (`agg`).
            name: of the step; by default `<input>_aggregate`.
            emit, empty: as for `count`.
        """
        return self._table("aggregate", name, aggregators=aggregators, emit=emit, empty=empty)
