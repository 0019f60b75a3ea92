"""Joins of a stream with a table: which of three kernels, and what it is given."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.evaluate.placement import Placement, keys_of
from lakestreams.evaluate.scopes import types
from lakestreams.evaluate.sides import ascends
from lakestreams.operators.records import KEY, ORDER, TASK
from lakestreams.operators.stream_table import kernel as stream_table
from lakestreams.operators.stream_table_as_of import frames as stream_versioned_table
from lakestreams.operators.stream_table_as_of import grace
from lakestreams.operators.stream_table_as_of.frames import AsOf
from lakestreams.operators.stream_table_wait import frames as waiting
from lakestreams.operators.stream_table_wait.worker import WaitOptions
from lakestreams.operators.versioned_table import frames as versioned
from lakestreams.operators.versioned_table.frames import Versioned
from lakestreams.operators.versions import TableSide, of_keys
from lakestreams.operators.windows import CLOSED
from lakestreams.topology.graph import is_multi_row, key_source, overlap_of, sources_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from lakestreams.topology.joins import Join
    from lakestreams.topology.lookups import StreamTableJoin
    from lakestreams.topology.node import Node

# Below this ratio of points to table rows the table is filtered by the points' keys before the join (see
# docs/decisions/0004-state-filter.md; the ratio itself is a guess that part 7 must measure).
FILTER_RATIO = 0.5
# Below so many retained rows filtering them by keys costs a cycle more than it spares: a job more for each set of keys.
MANY_RETAINED = 200_000
# Changes of a table in one call. Below this many a point is compared with each of its key at worst, which costs it about
# as much as being sorted would.
_MANY_CHANGES = 100


@dataclass
class Lookups(Placement):
    """Calls the kernels of lookups."""

    def stream_table(self, node: StreamTableJoin, points: DataFrame, table: TableSide) -> DataFrame:
        """A stream with a table, by one of three kernels."""
        self.require_equal_keys(node, types(points, KEY), types(table.all(), KEY))
        points = self._with_values(node, points)
        if node.how == "inner":  # it has no use for a null key (semantics section 4)
            self._reject(node, "NULL_KEY", points.where(F.col(KEY).isNull()))
        history = self._history(node.right)
        if history is not None:
            return self._as_of_join(node, points, table, history)
        table = self._remembered(node, "table", self.scope_keys.table(self._with_keys(node, table)))
        if node.waits_for_row:
            return self._waiting_join(node, points, table)
        mine = self.scope_keys.rows(points)
        if self._small_stream(node):
            table = table.each(lambda rows: of_keys(rows, mine))
        overlap, many = overlap_of(node, self.topology.nodes), self._many_changes(node.right)
        return stream_table.execute(mine, table, node.how, self.since, overlap, many_changes=many)

    def _as_of_join(
        self, node: StreamTableJoin, points: DataFrame, table: TableSide, history: int | Column
    ) -> DataFrame:
        """A stream with a versioned table."""
        if node.grace_ms is not None:
            points = self._with_ticks(node, node.left, points)
        mine = self._with_past(node, "points", self.tasks.of_rows(node, node.left, points))
        changes = self.tasks.of_rows(node, node.right, self._with_keys(node, table).all())
        every = versions = self._with_past(node, "versions", changes)
        # its shares are for all versions
        store = Versioned(history, realm=self.tasks.realm(node), shares=self._shares(node))
        stored = self._past(node, "versions")
        if stored is not None and self._small_input(node):
            waits = self._waiting(node)
            if waits < self.inputs.retained_rows * FILTER_RATIO:  # their keys are broadcast
                stored = self._extracted(node, versioned.prune(stored, mine), waits)
                versions = changes.unionByName(stored, allowMissingColumns=True)
        join = AsOf(
            node.how,
            history,
            node.grace_ms,
            overlap=overlap_of(node, self.topology.nodes),
            multi_row=is_multi_row(node.left),
            realm=store.realm,
            shares=self._shares(node),  # of the versions that the join reads
        )
        if join.shares > 1:
            known = [one for one in (self._past(node, "points"), stored) if one is not None]
            together = self._share_tasks(node, keys_of([mine, versions]), join.realm, known)
            join = replace(join, together=together)
        if self.inputs.keeps:
            # whether keys of versions that the join does not read share tasks was not looked at
            store = replace(store, together=join.together and versions is every)
            self._keep(node, versions=versioned.retain(every, store))
            if node.grace_ms is not None:
                self._keep(node, points=grace.retain(mine, node.grace_ms))
        return stream_versioned_table.execute(mine, versions, join, self.since)

    def _waiting_join(self, node: StreamTableJoin, points: DataFrame, table: TableSide) -> DataFrame:
        """A stream-table join whose records wait for rows, or are put right by them."""
        past, sides = self._waiting_sides(node, points, table)
        join = WaitOptions(
            node.how,
            node.wait_ms,
            node.amend_ms,
            overlap=overlap_of(node, self.topology.nodes),
            multi_row=is_multi_row(node.left) or is_multi_row(node.right),
            realm=self.tasks.realm(node),
            shares=self._shares(node),
            ascending=ascends(node),
        )
        if join.shares > 1 and key_source(node.right) is not None:  # else the task of the table's old rows is not known
            every = keys_of([sides.points, sides.changes, *past])
            join = replace(join, together=self._share_tasks(node, every, join.realm, past))
        if self.inputs.keeps:
            self._keep(node, points=waiting.retain(sides, join, self.since))
        if node.how == "inner":
            said = F.format_string("waited %d ms for a row of its key, until %d", F.lit(node.wait_ms), F.col(CLOSED))
            self._reject(node, "NO_PARTNER", waiting.expired(sides, join, self.since), said, earlier=True)
        counted = partial(self.inputs.counted, node.name)
        return waiting.execute(sides, join, self.since, wanted=self.inputs.wanted, counted=counted)

    def _waiting_sides(
        self, node: StreamTableJoin, points: DataFrame, table: TableSide
    ) -> tuple[list[DataFrame], waiting.StreamAndTable]:
        """What is retained, and what the join reads. Notes how many rows are retained, if it has them counted."""
        new, past, state = self._clocked(node, node.left, points), self._past(node, "points"), table.state
        if state is not None and self._small_stream(node):
            state = of_keys(state, new)  # what is retained has met no row of it
            if self.inputs.retained_rows >= MANY_RETAINED:
                state = self._extracted(node, state, self._waiting(node))
        state = None if state is None else state.withColumn(TASK, F.col(ORDER)["partition"])
        changes = table.all().where(F.lit(False)) if table.changes is None else table.changes
        mine = new if past is None else new.unionByName(past, allowMissingColumns=True)
        sides = waiting.StreamAndTable(mine, self._clocked(node, node.right, changes), state)
        return [one for one in (past, state) if one is not None], sides

    def _extracted(self, node: Join, rows: DataFrame, waits: int) -> DataFrame:
        """What few points ask for of a table's past, computed now. Notes how many rows of the past are read.

        Args:
            waits: how many points are retained, which are read, too.
        """
        ((found, count),) = self.inputs.extract(rows)
        if count is not None:
            self.results.pruned[node.name] = count + waits
        return found

    def _waiting(self, node: Join) -> int:
        """How many points are retained."""
        past = self._past(node, "points")
        if past is None:
            return 0
        return int(self.inputs.keep_past(f"{node.name} waits", partial(_counted, past)).collect()[0][0])

    def _many_changes(self, table: Node) -> bool:
        """Whether a table's changes are so many that a key may have more versions than are cheap to try one by one."""
        return sum(self._brings(source) or 0 for source in sources_of(table)) > _MANY_CHANGES

    def _small_stream(self, node: StreamTableJoin) -> bool:
        """Whether filtering the table by the points' keys first is worth a pass over the points' keys."""
        counts = self.inputs.counts
        points = sum(counts.get(source.name, 0) for source in sources_of(node.left) if source.kind == "stream")
        rows = sum(counts.get(source.name, 0) for source in sources_of(node.right))
        return rows > 0 and points < rows * FILTER_RATIO

    def _small_input(self, node: Join) -> bool:
        """Whether what is new is known to be few next to much that is retained, so that this is best filtered by its keys."""
        retained = self.inputs.retained_rows
        return retained >= MANY_RETAINED and self._new_rows(node) < retained * FILTER_RATIO


def _counted(rows: DataFrame) -> DataFrame:
    return rows.agg(F.count(F.lit(1)))
