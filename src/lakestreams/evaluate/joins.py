"""How each join of a topology calls its kernel: one method a shape."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import TypeAlias

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.evaluate.lookups import Lookups
from lakestreams.evaluate.scopes import types
from lakestreams.evaluate.sides import ascends, late_by
from lakestreams.evaluate.stateless import names
from lakestreams.operators import versions
from lakestreams.operators.clocks import tops_of, with_clocks
from lakestreams.operators.foreign_key import pruning as fk_pruning
from lakestreams.operators.foreign_key import stream_table as fk_stream_table
from lakestreams.operators.foreign_key import table_table as fk_table_table
from lakestreams.operators.foreign_key.subscribers import FOREIGN_KEY
from lakestreams.operators.records import KEY, VALUE, is_new
from lakestreams.operators.stream_stream import frames as stream_stream
from lakestreams.operators.stream_stream import pruning
from lakestreams.operators.stream_table import kernel as stream_table
from lakestreams.operators.stream_table.kernel import MAPPED
from lakestreams.operators.stream_table_as_of import frames as stream_versioned_table
from lakestreams.operators.stream_table_wait import frames as waiting
from lakestreams.operators.table_table import kernel as table_table
from lakestreams.operators.versions import TableSide
from lakestreams.operators.windows import CLOSED, PerTask, Windowed, both_sides
from lakestreams.topology.graph import (
    is_interleaved,
    is_multi_row,
    keeps_null_keys,
    overlap_of,
    sequential_sides,
    windows_before,
)
from lakestreams.topology.joins import ForeignKeyJoin, Join, TableTableJoin, WindowedJoin
from lakestreams.topology.kinds import STREAM
from lakestreams.topology.lookups import ForeignKeyStreamJoin, StreamGlobalJoin, StreamTableJoin
from lakestreams.topology.node import Node
from lakestreams.topology.old_values import remembers_rows
from lakestreams.topology.steps import DropAbsentDeletes, Repartition

Joins: TypeAlias = Callable[..., "DataFrame"]


def explain_windowed(node: WindowedJoin) -> str:
    """A join's plan in words: what its kernel exchanges and sorts."""
    times = (node.before_ms, node.after_ms, node.grace_ms)
    return stream_stream.explain(Windowed(node.how, *times, emit=node.emit_unmatched, rules=node.rules))


def explain_stream_table(node: StreamTableJoin) -> str:
    """A join's plan in words, by which of three kernels it has."""
    if node.waits_for_row:
        return waiting.explain(node.how, node.wait_ms, node.amend_ms)
    if node.right.history_ms is None:
        return stream_table.explain(node.how)
    return stream_versioned_table.explain(node.how, node.right.history_ms, node.grace_ms)


@dataclass
class Shapes(Lookups):
    """Calls the kernels."""

    def joined(
        self, call: Joins, node: Join, left: DataFrame | TableSide, right: DataFrame | TableSide, *, old: bool
    ) -> DataFrame:
        """The kernel's rows: records columns, `rk`, `rv`; with `old` what a table's result was before.

        Args:
            call: the method below that calls the node's kernel.
            left, right: its sides, new rows only except for tables that bring their state.
            old: whether a table's readers need the value before.
        """
        first, second = ((stream_side if one == STREAM else table_side) for one in node.sides)
        told = {"old": old} if node.is_table else {}
        return self.scope_keys.undone(call(self, node, first(left), second(right), **told))

    def quiet(self, node: Node, table: TableSide) -> TableSide:
        """A table without deletions of keys that have no row, such as those that a filter makes (Kafka's KTableFilter).

        The rows that it has are remembered as a join's are; of a filter only if its input does not say what was before.
        """
        if isinstance(node, DropAbsentDeletes) or remembers_rows(node):
            table = self._remembered(node, "table", self.scope_keys.table(table))
            self._forget_closed(node)
        return self.steps.drop_absent_deletes(table, self.since).each(self.scope_keys.undone)

    def _forget_closed(self, node: Node) -> None:
        """Keeps no row of a window that nothing before the step holds any more, so that it cannot come again.

        A final row may: its key lies in two tasks, each of which lets the window out when it closes there.
        """
        before = list(windows_before(node))
        if not self.inputs.keeps or not before:
            return
        frames = [self.results.kept.get(one.name, {}) for one in before]
        held = [kept[name].select(KEY) for kept in frames for name in ("groups", "buffer") if name in kept]
        rows = self.results.kept[node.name]["table"]
        self._keep(node, table=versions.with_keys_of(rows, reduce(DataFrame.unionByName, held)))

    def repartition(self, node: Repartition, rows: DataFrame) -> DataFrame:
        """The records that a repartition topic takes: null keys are refused unless a join behind has a use for them."""
        if keeps_null_keys(node, self.topology.nodes):
            return rows
        return self._without_nulls(node, rows, KEY)

    # --- one method a shape ------------------------------------------------------------------------------------------

    def windowed(self, node: WindowedJoin, left: DataFrame, right: DataFrame) -> DataFrame:
        """Two streams."""
        self.require_equal_keys(node, types(left, KEY), types(right, KEY))
        outer = {"inner": (), "left": (node.left,), "outer": (node.left, node.right)}[node.how]
        for side, rows in {node.left.name: left, node.right.name: right}.items():
            if not any(side == one.name for one in outer):
                self._reject(node, "NULL_KEY", rows.where(F.col(KEY).isNull() & F.col(VALUE).isNotNull()))
        new = self._clocked(node, node.left, left), self._clocked(node, node.right, right)
        join = Windowed(
            node.how,
            *self._times(node),
            emit=node.emit_unmatched,
            rules=node.rules,
            store=node.store,
            overlap=overlap_of(node, self.topology.nodes),
            multi_row=is_multi_row(node.left) or is_multi_row(node.right),
            interleaved=is_interleaved(node),
            realm=self.tasks.realm(node),
            together=node.rules == "kafka",
            ascending=ascends(node),
        )
        strict = node.rules == "strict"
        prunes = strict and join.ascending and self._small_input(node)
        mine, other = self._with_reached(node, join, *new) if prunes else self._with_pasts(node, *new)
        join = replace(join, shares=self._shares(node))
        both, keeps = both_sides(mine, other, join), self.inputs.keeps
        reached = self._tops(both, join) if join.ascending else None
        clocked = with_clocks(both, join, self.since, reached) if strict or keeps else None
        if keeps:
            if prunes:
                every = self._near_the_end(join, both_sides(*self._with_pasts(node, *new), join))
            else:
                every = self._near_the_end(join, both, reached, clocked)
            kept = stream_stream.retain(every, join, other.schema[KEY].dataType)
            self._keep(node, left=kept[0], right=kept[1])
        if strict and clocked is not None:
            self._reject(node, "LATE", stream_stream.late(clocked, join, self.since), late_by(F.col(CLOSED)))
            if join.shares > 1:
                past = list(self.inputs.retained.get(node.name, {}).values())
                if node.name in self.results.pruned:
                    past = [clocked.where(~is_new(self.since))]
                join = replace(join, together=self._share_tasks(node, clocked, join.realm, past))
        return stream_stream.execute(mine, other, join, self.since, both=clocked)

    def _near_the_end(
        self,
        join: Windowed,
        both: DataFrame,
        reached: DataFrame | None = None,
        clocked: DataFrame | None = None,
    ) -> DataFrame:
        """The arms, with clocks, that a window may keep; of many only those near the end.

        Args:
            both: both sides as arms (see `windows`).
            reached, clocked: what `tops_of` and `with_clocks` have made of them, if they are made already.
        """
        if join.shares > 1 and join.ascending and not join.varies:
            reached = self._tops(both, join) if reached is None else reached
            # each side's table reads them: about as many as are stored
            return self.inputs.hold(stream_stream.near_the_end(both, join, reached))
        return with_clocks(both, join) if clocked is None else clocked

    def _tops(self, both: DataFrame, join: Windowed) -> DataFrame:
        return self.inputs.hold(tops_of(both, join.realm, self.since))

    def _with_pasts(self, node: WindowedJoin, left: DataFrame, right: DataFrame) -> tuple[DataFrame, DataFrame]:
        return self._with_past(node, "left", left), self._with_past(node, "right", right)

    def _with_reached(
        self, node: WindowedJoin, join: Windowed, left: DataFrame, right: DataFrame
    ) -> tuple[DataFrame, DataFrame]:
        """New rows with what they reach of the past, which is computed now, and how far the clocks have come."""
        retained = self.inputs.retained.get(node.name, {})
        if not retained.keys() >= {"left", "right"}:
            return self._with_pasts(node, left, right)
        past = retained["left"], retained["right"]
        clocks = self.inputs.keep_past(f"{node.name} clocks", partial(pruning.last_clocks, past))
        *sides, rows = pruning.prune((left, right), past, join, self.since, clocks, self.inputs.extract)
        if rows is not None:
            self.results.pruned[node.name] = rows
        return sides[0], sides[1]

    def stream_global(self, node: StreamGlobalJoin, points: DataFrame, table: TableSide) -> DataFrame:
        """A stream with a global table."""
        points = self._with_values(node, points)
        points = self._with_key_of(node, points, node.left.name, node.left_on, names(table.all(), KEY), MAPPED)
        self.require_equal_keys(node, types(points, MAPPED), types(table.all(), KEY))
        table = self._remembered(node, "table", self.scope_keys.table(self._with_keys(node, table)))
        mine = self.scope_keys.rows(points, MAPPED)
        many = self._many_changes(node.right)
        return stream_table.execute(mine, table, node.how, self.since, by=MAPPED, many_changes=many)

    def table_table(self, node: TableTableJoin, left: TableSide, right: TableSide, *, old: bool) -> DataFrame:
        """Two tables."""
        self.require_equal_keys(node, types(left.all(), KEY), types(right.all(), KEY))
        return table_table.execute(
            self._changes(node, "left", node.left, left),
            self._changes(node, "right", node.right, right),
            node.how,
            self.since,
            overlap=overlap_of(node, self.topology.nodes),
            multi_row=is_multi_row(node.left) or is_multi_row(node.right),
            sequential_sides=sequential_sides(node),
            with_old=old,
        )

    def foreign_key(self, node: ForeignKeyJoin, left: TableSide, right: TableSide, *, old: bool) -> DataFrame:
        """Two tables, by a key that the left rows name."""
        key = names(right.all(), KEY)
        left = self._changes(node, "left", node.left, left)
        left = left.each(lambda rows: self._with_key_of(node, rows, node.left.name, node.left_on, key, FOREIGN_KEY))
        right = self._changes(node, "right", node.right, right)
        self.require_equal_keys(node, types(left.all(), FOREIGN_KEY), types(right.all(), KEY))
        if self._small_input(node):
            left, right, rows = fk_pruning.prune(left, right, self.since, self.inputs.extract)
            if rows is not None:
                self.results.pruned[node.name] = rows
        return fk_table_table.execute(
            left,
            right,
            node.how,
            self.since,
            overlap=overlap_of(node, self.topology.nodes),
            multi_row=is_multi_row(node.left) or is_multi_row(node.right),
            with_old=old,
        )

    def foreign_key_stream(self, node: ForeignKeyStreamJoin, points: DataFrame, table: TableSide) -> DataFrame:
        """A stream with the table rows that name its key."""
        points = self._with_values(node, points)
        if node.how == "inner":
            self._reject(node, "NULL_KEY", points.where(F.col(KEY).isNull()))
        key = names(points, KEY)
        table = self._remembered(node, "table", self.scope_keys.table(self._with_keys(node, table)))
        table = table.each(lambda rows: self._with_key_of(node, rows, node.right.name, node.right_on, key, FOREIGN_KEY))
        points = self.scope_keys.rows(points)
        self.require_equal_keys(node, types(points, KEY), types(table.all(), FOREIGN_KEY))
        return fk_stream_table.execute(
            points,
            table,
            node.how,
            self.since,
            overlap=overlap_of(node, self.topology.nodes),
            multi_row=is_multi_row(node.left),
        )

    def _times(self, node: WindowedJoin) -> tuple[int | PerTask, int | PerTask, int | PerTask]:
        scopes = self.inputs.scopes
        if scopes is None or node.name not in scopes.times:
            return node.before_ms, node.after_ms, node.grace_ms
        own = scopes.times[node.name]
        before, after, grace = (
            PerTask({history: times[place] for history, times in own.items()}, scopes.stride) for place in range(3)
        )
        return before, after, grace


def stream_side(side: DataFrame | TableSide) -> DataFrame:
    """A node's frame where only a stream can stand; build() lets nothing else pass."""
    if isinstance(side, TableSide):
        msg = "a stream is expected here, not a table"
        raise TypeError(msg)
    return side


def table_side(side: DataFrame | TableSide) -> TableSide:
    """A node's frame where only a table can stand."""
    if not isinstance(side, TableSide):
        msg = "a table is expected here, not a stream"
        raise TypeError(msg)
    return side
