"""Which operator evaluates which node: the one place where a node's class meets its kernel, a line each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakestreams.evaluate.joins import Shapes, explain_stream_table, explain_windowed, stream_side, table_side
from lakestreams.evaluate.tables import explain_aggregate, explain_suppress
from lakestreams.operators.foreign_key import stream_table as foreign_key_stream
from lakestreams.operators.foreign_key import table_table as foreign_key
from lakestreams.operators.stream_table import kernel as stream_table
from lakestreams.operators.table_table import kernel as table_table
from lakestreams.operators.versioned_table import frames as versioned
from lakestreams.operators.versions import TableSide
from lakestreams.topology.derived import Aggregate, Suppress, ToStream, ToTable
from lakestreams.topology.joins import ForeignKeyJoin, TableTableJoin, WindowedJoin
from lakestreams.topology.lookups import ForeignKeyStreamJoin, StreamGlobalJoin, StreamTableJoin
from lakestreams.topology.steps import (
    DropAbsentDeletes,
    Filter,
    FlatMap,
    FlatMapValues,
    Map,
    MapValues,
    Merge,
    Repartition,
    SelectKey,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakestreams.evaluate.joins import Joins
    from lakestreams.evaluate.stateless import Steps
    from lakestreams.evaluate.tables import Derived
    from lakestreams.topology.node import Node


@dataclass(frozen=True)
class Calls:
    """What an operator has next to its node and the rows of its inputs.

    Attributes:
        steps: what functions of users see and make, and steps on one record at a time.
        shapes, derived: the calls of kernels, with what is known of the past.
        quiet: filters of tables that say nothing of rows which did not pass before, by name.
        old: whether somebody reads what a table's rows were before.
    """

    steps: Steps
    shapes: Shapes
    derived: Derived
    quiet: frozenset[str]
    old: bool

    def per_row(
        self, node: Node, rows: DataFrame | TableSide, step: Callable[[DataFrame, bool], DataFrame]
    ) -> DataFrame | TableSide:
        """The rows of a step on one row at a time, which streams and tables take.

        Args:
            step: from a frame, and whether it is a table's, to the frame that comes out.
        """
        if not isinstance(rows, TableSide):
            return step(rows, False)
        table = rows.each(lambda frame: step(frame, True))
        return self.shapes.quiet(node, table) if node.name in self.quiet else table


@dataclass(frozen=True)
class Operator:
    """How a kind of node is evaluated.

    Attributes:
        run: from `Calls`, the node and the rows of each input to the node's rows.
        explain: the plan in words, of kernels that exchange and sort; None: the node says by itself what it does.
    """

    run: Callable[..., DataFrame | TableSide]
    explain: Callable[[Any], str] | None = None


def explain(node: Node) -> str | None:
    """What a node's kernel says of its plan; None if it has none that does."""
    operator = OPERATORS.get(type(node))
    if operator is None or operator.explain is None:
        return None
    readers_of_the_latest = (TableTableJoin, ForeignKeyJoin, Aggregate)
    stores = [
        one.name for one in node.parents if isinstance(node, readers_of_the_latest) and one.history_ms is not None
    ]
    return "; ".join([operator.explain(node), *map(versioned.explain, stores)])


def _join(call: Joins, explain: Callable[[Any], str]) -> Operator:
    """A join: its kernel's rows, of which the walk makes results."""
    return Operator(lambda on, node, left, right: on.shapes.joined(call, node, left, right, old=on.old), explain)


OPERATORS: dict[type[Node], Operator] = {
    MapValues: Operator(lambda on, node, rows: on.per_row(node, rows, lambda one, _: on.steps.map_values(node, one))),
    Filter: Operator(
        lambda on, node, rows: on.per_row(
            node, rows, lambda one, table: on.steps.kept(node, one, node.predicate, table=table)
        )
    ),
    SelectKey: Operator(lambda on, node, rows: on.steps.select_key(node, rows)),
    Map: Operator(lambda on, node, rows: on.steps.map(node, rows)),
    FlatMapValues: Operator(lambda on, node, rows: on.steps.flat_map_values(node, rows)),
    FlatMap: Operator(lambda on, node, rows: on.steps.flat_map(node, rows)),
    Merge: Operator(lambda on, node, left, right: on.steps.merge(node, left, stream_side(right))),
    # logical: its tasks are counted where they matter
    Repartition: Operator(lambda on, node, rows: on.shapes.repartition(node, rows)),
    DropAbsentDeletes: Operator(lambda on, node, rows: on.shapes.quiet(node, table_side(rows))),
    ToTable: Operator(lambda on, node, rows: on.derived.to_table(node, stream_side(rows))),
    ToStream: Operator(lambda on, _, rows: on.derived.to_stream(table_side(rows))),
    Aggregate: Operator(lambda on, node, rows: on.derived.aggregate(node, rows, old=on.old), explain_aggregate),
    Suppress: Operator(lambda on, node, rows: on.derived.suppress(node, table_side(rows)), explain_suppress),
    WindowedJoin: _join(Shapes.windowed, explain_windowed),
    StreamTableJoin: _join(Shapes.stream_table, explain_stream_table),
    StreamGlobalJoin: _join(Shapes.stream_global, lambda node: stream_table.explain(node.how, stream_table.MAPPED)),
    TableTableJoin: _join(Shapes.table_table, lambda node: table_table.explain(node.how)),
    ForeignKeyJoin: _join(Shapes.foreign_key, lambda node: foreign_key.explain(node.how)),
    ForeignKeyStreamJoin: _join(Shapes.foreign_key_stream, lambda node: foreign_key_stream.explain(node.how)),
}
