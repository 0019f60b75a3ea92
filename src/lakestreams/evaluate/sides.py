"""The sides of a join as its kernel reads them: tasks, keys made from a record, the past put next to what is new.

What a kernel needs and records frames lack is made here, and what it keeps of the past is noted. Many small histories
can share the frames: then a column in front of every key keeps them apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import ceil, inf
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.errors import InvalidExpression, KeyTypeMismatch
from lakestreams.evaluate.inputs import DETAIL, Inputs, Rejected, Results
from lakestreams.evaluate.scopes import SCOPE, ScopeKeys
from lakestreams.evaluate.stateless import Steps, names
from lakestreams.evaluate.tasks import Tasks
from lakestreams.operators import records as order
from lakestreams.operators import versions
from lakestreams.operators.foreign_key.subscribers import FOREIGN_KEY
from lakestreams.operators.nullability import nullable
from lakestreams.operators.records import (
    CONTRIBUTORS,
    KEY,
    OLD,
    ORDER,
    TASK,
    TIME,
    VALUE,
    is_new,
)
from lakestreams.operators.stream_table.kernel import MAPPED
from lakestreams.operators.versioned_table import frames as versioned
from lakestreams.operators.versioned_table.frames import Versioned
from lakestreams.operators.versions import TableSide
from lakestreams.operators.windows import CLOCK, MOVES, PerTask
from lakestreams.operators.workers import BYTES_OF_A_ROW, ROWS_OF_A_WORKER
from lakestreams.topology.graph import (
    follows_partitions,
    held_before_ms,
    lets_out_before,
    multiplies,
    sources_of,
)
from lakestreams.topology.joins import Join
from lakestreams.topology.node import Node

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from lakestreams.topology.endpoints import Source
    from lakestreams.topology.kinds import Mapper
    from lakestreams.topology.topology import Topology

# How many rows a record is taken for whose steps may make any number of it.
_MULTIPLIED = 10


@dataclass
class Sides:
    """Prepares sides.

    Attributes:
        topology: whose joins they are.
        steps: evaluates the users' functions.
        inputs: what the cycles bring in.
        results: where what is kept, what is rejected and which nodes read few retained rows is noted.
    """

    topology: Topology
    steps: Steps
    inputs: Inputs
    results: Results

    @property
    def since(self) -> int:
        """The first new cycle."""
        return self.inputs.cycle

    @cached_property
    def scope_keys(self) -> ScopeKeys:
        """Tells histories apart that share the job."""
        return ScopeKeys(self.inputs.scopes)

    @cached_property
    def tasks(self) -> Tasks:
        """Puts rows into tasks."""
        return Tasks(self.scope_keys, self.inputs)

    def require_equal_keys(self, node: Join, left: list[str], right: list[str]) -> None:
        """Refuses keys whose types can never be equal.

        Args:
            left, right: the SQL types of the key's columns, in order.

        Raises:
            KeyTypeMismatch: naming both sides and their types.
        """
        if left != right:
            wrong = f"left key ({', '.join(left)}) against right key ({', '.join(right)})"
            message = f'KeyTypeMismatch {{ left = "{node.left.name}", right = "{node.right.name}" }}: {wrong}'
            raise KeyTypeMismatch(message, where=node.where)

    def _with_values(self, node: Node, points: DataFrame) -> DataFrame:
        """A stream without null values, which no join with a table has a use for."""
        return self._without_nulls(node, points, VALUE) if self.inputs.raw else points

    def _without_nulls(self, node: Node, rows: DataFrame, column: str) -> DataFrame:
        """Rows whose key, or whose value, is there; notes the others."""
        self._reject(node, "NULL_KEY" if column == KEY else "NULL_VALUE", rows.where(F.col(column).isNull()))
        return rows.where(F.col(column).isNotNull())

    def _with_keys(self, node: Node, table: TableSide) -> TableSide:
        """A table without null keys."""
        if not self.inputs.raw:
            return table
        if table.changes is not None:
            self._reject(node, "NULL_KEY", table.changes.where(F.col(KEY).isNull()))
        return table.each(lambda rows: rows.where(F.col(KEY).isNotNull()))

    def _changes(self, node: Node, side: str, parent: Node, table: TableSide) -> TableSide:
        """A table as another table is made of it: a versioned one tells only what is the latest of its key."""
        table, history = self._with_keys(node, table), self._history(parent)
        if history is None:
            return self._remembered(node, side, self.scope_keys.table(table))
        rows = self._with_past(node, side, self.tasks.of_rows(node, parent, table.all()))
        store = Versioned(history, realm=self.tasks.realm(node), shares=self._shares(node))
        if self.inputs.keeps:
            self._keep(node, **{side: versioned.retain_latest(rows, store)})
        return TableSide(None, versioned.latest_only(rows, store).drop(TASK))

    def _remembered(self, node: Node, side: str, table: TableSide) -> TableSide:
        """A table with the rows that were kept of it; notes which to keep now."""
        past = self._past(node, side)
        if past is not None:
            table = TableSide(past if table.state is None else table.state.unionByName(past), table.changes)
        if self.inputs.keeps:
            self._keep(node, **{side: versions.live(table).drop(OLD, FOREIGN_KEY)})
        return table

    def _keep(self, node: Node, **frames: DataFrame) -> None:
        """Notes what a node needs of the past next time."""
        self.results.kept.setdefault(node.name, {}).update(frames)

    def _past(self, node: Node, side: str) -> DataFrame | None:
        return self.inputs.retained.get(node.name, {}).get(side)

    def _with_past(self, node: Node, side: str, rows: DataFrame) -> DataFrame:
        past = self._past(node, side)
        return rows if past is None else rows.unionByName(past, allowMissingColumns=True)

    def _with_key_of(
        self, node: Join, rows: DataFrame, owner: str, on: Mapper, key: list[str], column: str
    ) -> DataFrame:
        """Rows with a key made from them, named as the other side's key; null where the value is."""
        given: object = on(self.steps.fields(owner, rows, node))  # a user's function may return anything
        made = dict(given) if isinstance(given, Mapping) else {}
        wanted = [name for name in key if name != SCOPE]
        if len(made) != len(wanted):
            message = f"the key made of {owner} has {len(made)} columns, the other side's has: {', '.join(wanted)}"
            raise InvalidExpression(message, hint="one column for each, in that order", where=node.where)
        named = dict(zip(wanted, made.values(), strict=True))
        there = self.steps.key(node, named)
        rows = nullable(rows.withColumn(column, F.when(F.col(VALUE).isNotNull(), there)), column)
        return self.scope_keys.column(rows, column) if SCOPE in names(rows, KEY) or column == MAPPED else rows

    def _clocked(self, node: Join, parent: Node, rows: DataFrame) -> DataFrame:
        """Rows with their task and what they move its clock to.

        A source's record brings the stream time of its own partition along (DESIGN section 2), except under the rules
        `kafka`; a row that a join made has its own time only.
        """
        own = not _follows_partitions(node, parent)
        moves = F.col(TIME) if own else F.greatest(F.col(TIME), F.col(ORDER)["stream_time_ms"])
        if not own and held_before_ms(node):  # the other side's
            moves = F.when(order.is_tick(), F.col(TIME)).otherwise(moves)
        return self.tasks.of_rows(node, parent, self._with_ticks(node, parent, rows)).withColumn(MOVES, moves)

    def _with_ticks(self, node: Node, parent: Node, rows: DataFrame) -> DataFrame:
        """Rows, and what moves the clocks of their tasks where time goes on although no record comes.

        A tick moves the node's clock only so far that nothing which is still to come out before it will be late: what waits
        on the way to any of its sides is taken off (decision 0016). Its place stays behind all that it lets out.
        """
        held = F.lit(held_before_ms(node)).cast("bigint")
        for source in sources_of(parent):
            if source.name in self.inputs.ticks:
                moves = self.inputs.ticks[source.name].withColumn(TIME, F.col(TIME) - held)
                rows = rows.unionByName(order.ticks(moves, rows))
        return rows

    def _shares(self, node: Node) -> int:
        """How many Python workers a kernel's rows need, as far as they are counted; a large one counts as many."""
        times = _MULTIPLIED if any(map(multiplies, node.parents)) else 1
        each = max(1.0, self.inputs.record_bytes / BYTES_OF_A_ROW)
        return max(1, ceil(self._records(node) * times * each / ROWS_OF_A_WORKER))

    def _records(self, node: Node) -> int:
        """About how many records a node reads, new and retained ones, as far as they are counted.

        Of a table whose changes are not reported, all that it brings.
        """
        brought = [(self._brings(source), source) for source in sources_of(node)]
        new = sum(self.inputs.counts.get(source.name, 0) if rows is None else rows for rows, source in brought)
        return new + self.results.pruned.get(node.name, self.inputs.retained_rows)

    def _new_rows(self, node: Node) -> float:
        """How many new rows a node reads; without end if that is not known, or one record may become any number of rows."""
        new = [self._brings(source) for source in sources_of(node)]
        return inf if None in new or any(map(multiplies, node.parents)) else sum(one or 0 for one in new)

    def _brings(self, source: Source) -> int | None:
        """How many new rows a source brings; None: not known."""
        return (self.inputs.counts if source.kind == "stream" else self.inputs.changes).get(source.name)

    def _history(self, node: Node) -> int | Column | None:
        own, scopes = node.history_ms, self.inputs.scopes
        if own is None or scopes is None or not scopes.retention:
            return own
        return PerTask(scopes.retention, scopes.stride).column()

    def _reject(
        self, node: Node, code: str, rows: DataFrame, detail: Column | None = None, *, earlier: bool = False
    ) -> None:
        """Notes rows that a step has no use for, each by the record that caused it.

        Behind what waits that may be another one's record, or none: then it is the first record that the row is made of.
        """
        said = [] if detail is None else [detail.alias(DETAIL)]
        waited = lets_out_before(node)
        at = order.coordinates()
        if waited:
            first = F.try_element_at(F.col(CONTRIBUTORS), F.lit(1))
            at = F.when(F.array_contains(CONTRIBUTORS, at), at).otherwise(F.coalesce(first, at))
        of_now = rows.where(is_new(self.inputs.wanted)).select(at.alias("at"), *said)
        records = of_now.select("at.*", *(DETAIL for _ in said))
        self.results.rejected.append(Rejected(node.name, code, records, earlier or waited))


def _follows_partitions(node: Join, parent: Node) -> bool:
    """Whether a side's rows move the clock to their partition's stream time: those that no join made, under `strict`."""
    return node.follows_strictly and follows_partitions(parent)


def ascends(node: Join) -> bool:
    """Whether the records of both sides bring clocks that ascend with the order."""
    return all(_follows_partitions(node, parent) for parent in node.parents)


def late_by(closed: Column) -> Column:
    """What there is to say of a late record: by how much it is, from when its window closed and its clock."""
    missed = F.col(CLOCK) - closed
    return F.format_string("late by %d ms: its window closed at %d, the clock stood at %d", missed, closed, CLOCK)
