"""How each join of a topology calls its kernel: sides prepared, the past put beside them, results named.

One method a shape. What a kernel needs and records frames lack is made here: tasks, foreign and mapped keys, the part
of the past that the kernel kept last time, versioned tables told apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.engine.steps import Steps, names, where
from lakestreams.errors import InvalidExpression, KeyTypeMismatch
from lakestreams.joins import (
    fk_stream_table,
    fk_table_table,
    stream_global,
    stream_stream,
    stream_table,
    stream_versioned_table,
    table_table,
    validity,
    versioned,
)
from lakestreams.joins.order import COORDINATES, KEY, OLD, ORDER, RIGHT_KEY, RIGHT_VALUE, TASK, TIME, VALUE
from lakestreams.joins.stream_table import TableSide
from lakestreams.joins.windows import MOVES, PerTask, Windowed
from lakestreams.topology.nodes import (
    DropAbsentDeletes,
    ForeignKeyJoin,
    ForeignKeyStreamJoin,
    Join,
    Node,
    StreamGlobalJoin,
    StreamTableJoin,
    TableTableJoin,
    WindowedJoin,
    history_of,
    is_join,
    is_plural,
    key_source,
    overlap_of,
    sources_of,
)
from lakestreams.topology.partitions import task_count

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from lakestreams.topology.builder import Topology
    from lakestreams.topology.nodes import Mapper

# Below this ratio of points to table rows the table is filtered by the points' keys before the join (see
# docs/decisions/0004-state-filter.md; the ratio itself is a guess that part 7 must measure).
_FILTER_RATIO = 0.5
_SCOPE = "_scope"
FOREIGN_KEY, MAPPED = "fk", "mapped"


@dataclass(frozen=True)
class Scopes:
    """Many small histories of one topology in one job; their records never meet.

    Attributes:
        stride: how many partitions a history has; its number is the partition divided by it.
        times: windowed join to history to (before, after, grace) in ms, where they differ from the node's.
        retention: history to the ms that its versioned tables keep, where they differ from the sources'.
    """

    stride: int
    times: Mapping[str, Mapping[int, tuple[int, int, int]]] = field(default_factory=dict)
    retention: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Rejected:
    """Records a step has no use for.

    Attributes:
        node: the step's name.
        code: the reason, such as NULL_KEY.
        records: columns `source, partition, offset, attempt`.
    """

    node: str
    code: str
    records: DataFrame


@dataclass
class Shapes:
    """Calls the kernels.

    Attributes:
        topology: whose joins they are.
        steps: evaluates the users' functions.
        since: the first new cycle.
        counts: source name to how many rows it brings; may be incomplete.
        partitions: topic to partition count, for re-keyed sides.
        retained: join to what its kernel kept of the past, by side.
        scopes: set where many histories share the job.
        keeps: whether to note what each kernel needs of the past next time.
        raw: whether tables may hold null keys and streams null values, which ingest has not sorted out.
    """

    topology: Topology
    steps: Steps
    since: int
    counts: Mapping[str, int] = field(default_factory=dict)
    partitions: Mapping[str, int] = field(default_factory=dict)
    retained: Mapping[str, Mapping[str, DataFrame]] = field(default_factory=dict)
    scopes: Scopes | None = None
    keeps: bool = False
    raw: bool = False
    kept: dict[str, dict[str, DataFrame]] = field(default_factory=dict)
    rejected: list[Rejected] = field(default_factory=list)

    def require_equal_keys(self, node: Join, left: list[str], right: list[str]) -> None:
        """Refuses keys whose types can never be equal.

        Raises:
            KeyTypeMismatch: naming both sides and their types.
        """
        wrong = stream_table.validate(left, right)
        if wrong is not None:
            message = f'KeyTypeMismatch {{ left = "{node.left.name}", right = "{node.right.name}" }}: {wrong}'
            raise KeyTypeMismatch(message, where=where(node))

    def joined(self, node: Join, left: DataFrame | TableSide, right: DataFrame | TableSide, *, old: bool) -> DataFrame:
        """The kernel's rows: records columns, `rk`, `rv`; with `old` what a table's result was before.

        Args:
            node: the join.
            left, right: its sides, new rows only except for tables that bring their state.
            old: whether a table's readers need the value before.
        """
        if isinstance(node, WindowedJoin):
            rows = self._windowed(node, _stream(left), _stream(right))
        elif isinstance(node, StreamTableJoin):
            rows = self._stream_table(node, _stream(left), _table(right))
        elif isinstance(node, StreamGlobalJoin):
            rows = self._stream_global(node, _stream(left), _table(right))
        elif isinstance(node, TableTableJoin):
            rows = self._table_table(node, _table(left), _table(right), old=old)
        elif isinstance(node, ForeignKeyJoin):
            rows = self._foreign_key(node, _table(left), _table(right), old=old)
        else:
            rows = self._foreign_key_stream(node, _stream(left), _table(right))
        return self._unscoped(rows)

    def without_absent_deletes(self, node: DropAbsentDeletes, table: TableSide) -> TableSide:
        """A table without deletions of keys that have no row; the rows that it has are remembered as a join's are."""
        table = self._remembered(node, "table", self._scoped_table(table))
        return self.steps.drop_absent_deletes(table, self.since).each(self._unscoped)

    # --- one method a shape ------------------------------------------------------------------------------------------

    def _windowed(self, node: WindowedJoin, left: DataFrame, right: DataFrame) -> DataFrame:
        self.require_equal_keys(node, _types(left, KEY), _types(right, KEY))
        outer = {"inner": (), "left": (node.left,), "outer": (node.left, node.right)}[node.how]
        for side, rows in {node.left.name: left, node.right.name: right}.items():
            if not any(side == one.name for one in outer):
                self._reject(node, "NULL_KEY", rows.where(F.col(KEY).isNull() & F.col(VALUE).isNotNull()))
        mine = self._with_past(node, "left", self._clocked(node, node.left, left))
        other = self._with_past(node, "right", self._clocked(node, node.right, right))
        join = Windowed(
            node.how,
            *self._times(node),
            emit=node.emit_unmatched,
            rules=node.rules,
            store=node.store,
            overlap=overlap_of(node, self.topology.nodes),
            plural=is_plural(node.left) or is_plural(node.right),
            realm=self._tasks(node) if self.scopes is None else self.scopes.stride,
        )
        if node.rules == "strict":
            self._reject(node, "LATE", stream_stream.late(mine, other, join, self.since))
        if self.keeps:
            self.kept[node.name] = dict(zip(("left", "right"), stream_stream.retain(mine, other, join), strict=True))
        return stream_stream.execute(mine, other, join, self.since)

    def _stream_table(self, node: StreamTableJoin, points: DataFrame, table: TableSide) -> DataFrame:
        self.require_equal_keys(node, _types(points, KEY), _types(table.all(), KEY))
        points = self._with_values(node, points)
        if node.how == "inner":  # it has no use for a null key (semantics section 4)
            self._reject(node, "NULL_KEY", points.where(F.col(KEY).isNull()))
        overlap, history = overlap_of(node, self.topology.nodes), self._history(node.right)
        if history is not None:
            mine = self._with_past(node, "points", self._tasked(node, node.left, points))
            versions = self._tasked(node, node.right, self._with_keys(node, table).all())
            versions = self._with_past(node, "versions", versions)
            if self.keeps:
                self.kept[node.name] = {"versions": stream_versioned_table.retain_versions(versions, history)}
                if node.grace_ms is not None:
                    self.kept[node.name]["points"] = stream_versioned_table.retain_points(mine, node.grace_ms)
            return stream_versioned_table.execute(
                mine, versions, node.how, self.since, history, grace_ms=node.grace_ms, overlap=overlap
            )
        table = self._remembered(node, "table", self._scoped_table(self._with_keys(node, table)))
        mine = self._scoped(points)
        if self._few_points(node):
            table = stream_table.retain(table, mine)
        return stream_table.execute(mine, table, node.how, self.since, overlap)

    def _stream_global(self, node: StreamGlobalJoin, points: DataFrame, table: TableSide) -> DataFrame:
        points = self._with_values(node, points)
        points = self._with_key_of(node, points, node.left.name, node.left_on, _key_names(table), MAPPED)
        self.require_equal_keys(node, _types(points, MAPPED), _types(table.all(), KEY))
        table = self._remembered(node, "table", self._scoped_table(self._with_keys(node, table)))
        return stream_global.execute(self._scoped(points, MAPPED), table, node.how, self.since)

    def _table_table(self, node: TableTableJoin, left: TableSide, right: TableSide, *, old: bool) -> DataFrame:
        self.require_equal_keys(node, _types(left.all(), KEY), _types(right.all(), KEY))
        return table_table.execute(
            self._changes(node, "left", node.left, left),
            self._changes(node, "right", node.right, right),
            node.how,
            self.since,
            overlap=overlap_of(node, self.topology.nodes),
            plural=is_plural(node.left) or is_plural(node.right),
            with_old=old,
        )

    def _foreign_key(self, node: ForeignKeyJoin, left: TableSide, right: TableSide, *, old: bool) -> DataFrame:
        key = _key_names(right)
        left = self._changes(node, "left", node.left, left)
        left = left.each(lambda rows: self._with_key_of(node, rows, node.left.name, node.left_on, key, FOREIGN_KEY))
        right = self._changes(node, "right", node.right, right)
        self.require_equal_keys(node, _types(left.all(), FOREIGN_KEY), _types(right.all(), KEY))
        return fk_table_table.execute(
            left,
            right,
            node.how,
            self.since,
            overlap=overlap_of(node, self.topology.nodes),
            plural=is_plural(node.left) or is_plural(node.right),
            with_old=old,
        )

    def _foreign_key_stream(self, node: ForeignKeyStreamJoin, points: DataFrame, table: TableSide) -> DataFrame:
        points = self._with_values(node, points)
        if node.how == "inner":
            self._reject(node, "NULL_KEY", points.where(F.col(KEY).isNull()))
        key = names(points, KEY)
        table = self._remembered(node, "table", self._scoped_table(self._with_keys(node, table)))
        table = table.each(lambda rows: self._with_key_of(node, rows, node.right.name, node.right_on, key, FOREIGN_KEY))
        points = self._scoped(points)
        self.require_equal_keys(node, _types(points, KEY), _types(table.all(), FOREIGN_KEY))
        return fk_stream_table.execute(
            points,
            table,
            node.how,
            self.since,
            overlap=overlap_of(node, self.topology.nodes),
            plural=is_plural(node.left),
        )

    # --- sides -------------------------------------------------------------------------------------------------------

    def _with_values(self, node: Join, points: DataFrame) -> DataFrame:
        """A stream without null values, which no join with a table has a use for."""
        if not self.raw:
            return points
        self._reject(node, "NULL_VALUE", points.where(F.col(VALUE).isNull()))
        return points.where(F.col(VALUE).isNotNull())

    def _with_keys(self, node: Join, table: TableSide) -> TableSide:
        """A table without null keys."""
        if not self.raw:
            return table
        if table.changes is not None:
            self._reject(node, "NULL_KEY", table.changes.where(F.col(KEY).isNull()))
        return table.each(lambda rows: rows.where(F.col(KEY).isNotNull()))

    def _changes(self, node: Join, side: str, parent: Node, table: TableSide) -> TableSide:
        """A table as another table's join reads it: a versioned one tells only what is the latest of its key."""
        table, history = self._with_keys(node, table), self._history(parent)
        if history is None:
            return self._remembered(node, side, self._scoped_table(table))
        rows = self._with_past(node, side, self._tasked(node, parent, table.all()))
        if self.keeps:
            self.kept.setdefault(node.name, {})[side] = versioned.retain_latest(rows, history)
        return TableSide(None, versioned.latest_only(rows, history).drop(TASK))

    def _remembered(self, node: Node, side: str, table: TableSide) -> TableSide:
        """A table with the rows that were kept of it; notes which to keep now."""
        past = self.retained.get(node.name, {}).get(side)
        if past is not None:
            table = TableSide(past if table.state is None else table.state.unionByName(past), table.changes)
        if self.keeps:
            self.kept.setdefault(node.name, {})[side] = validity.live(table).drop(OLD, FOREIGN_KEY)
        return table

    def _with_past(self, node: Node, side: str, rows: DataFrame) -> DataFrame:
        past = self.retained.get(node.name, {}).get(side)
        return rows if past is None else rows.unionByName(past, allowMissingColumns=True)

    def _with_key_of(
        self, node: Join, rows: DataFrame, owner: str, on: Mapper, key: list[str], column: str
    ) -> DataFrame:
        """Rows with a key made from them, named as the other side's key; null where the value is."""
        given: object = on(self.steps.fields(owner, rows, node))  # a user's function may return anything
        made = dict(given) if isinstance(given, Mapping) else {}
        wanted = [name for name in key if name != _SCOPE]
        if len(made) != len(wanted):
            message = f"the key made of {owner} has {len(made)} columns, the other side's has: {', '.join(wanted)}"
            raise InvalidExpression(message, hint="one column for each, in that order", where=where(node))
        named = dict(zip(wanted, made.values(), strict=True))
        there = self.steps.key(node, named)
        rows = rows.withColumn(column, F.when(F.col(VALUE).isNotNull(), there))
        return self._scope_column(rows, column) if _SCOPE in names(rows, KEY) or column == MAPPED else rows

    def _tasked(self, node: Join, parent: Node, rows: DataFrame) -> DataFrame:
        """Rows with their task: the partition, or after a re-key the hash of the key."""
        partition = F.col(ORDER)["partition"]
        source = key_source(parent)
        count = self._tasks(node)
        if source is not None and (self.scopes is None or self.scopes.stride >= count):
            return self._scoped(rows.withColumn(TASK, partition))
        if count == 1 and self.scopes is not None:
            return self._scoped(rows.withColumn(TASK, partition - F.pmod(partition, F.lit(self.scopes.stride))))
        return self._scoped(rows.withColumn(TASK, self._hashed(rows, count)))

    def _clocked(self, node: WindowedJoin, parent: Node, rows: DataFrame) -> DataFrame:
        """Rows with their task and what they move its clock to.

        A source's record brings the stream time of its own partition along (DESIGN section 2), except under the rules
        `kafka`; a row that a join made has its own time only.
        """
        own = node.rules == "kafka" or _is_made(parent)
        moves = F.col(TIME) if own else F.greatest(F.col(TIME), F.col(ORDER)["stream_time_ms"])
        return self._tasked(node, parent, rows).withColumn(MOVES, moves)

    def _hashed(self, rows: DataFrame, count: int) -> Column:
        from lakestreams.joins.partitioner import partition_of  # noqa: PLC0415 - only re-keyed sides need it

        partition = F.col(ORDER)["partition"]
        stride = 0 if self.scopes is None else self.scopes.stride
        own = partition if not stride else F.pmod(partition, F.lit(stride))
        task = F.when(F.col(KEY).isNotNull(), partition_of(rows, KEY, count)).otherwise(F.pmod(own, F.lit(count)))
        return task if not stride else task + (partition - own)

    def _tasks(self, node: Join) -> int:
        return task_count(node, {topic: self.partitions.get(topic, 1) for topic in self._topics(node)}) or 1

    def _topics(self, node: Join) -> list[str]:
        return [source.topic for source in sources_of(node)]

    def _times(self, node: WindowedJoin) -> tuple[int | PerTask, int | PerTask, int | PerTask]:
        own = self.scopes.times.get(node.name) if self.scopes is not None else None
        if own is None or self.scopes is None:
            return node.before_ms, node.after_ms, node.grace_ms
        before, after, grace = (
            PerTask({history: times[place] for history, times in own.items()}, self.scopes.stride) for place in range(3)
        )
        return before, after, grace

    def _history(self, node: Node) -> int | Column | None:
        own = history_of(node)
        if own is None or self.scopes is None or not self.scopes.retention:
            return own
        return PerTask(self.scopes.retention, self.scopes.stride).column(F.col(TASK))

    def _few_points(self, node: StreamTableJoin) -> bool:
        """Whether filtering the table by the points' keys first is worth a pass over the points' keys."""
        points = sum(self.counts.get(source.name, 0) for source in sources_of(node.left) if source.kind == "stream")
        rows = sum(self.counts.get(source.name, 0) for source in sources_of(node.right))
        return rows > 0 and points < rows * _FILTER_RATIO

    def _reject(self, node: Join, code: str, rows: DataFrame) -> None:
        coordinates = rows.select(*(F.col(ORDER)[name].alias(name) for name in COORDINATES))
        self.rejected.append(Rejected(node.name, code, coordinates))

    # --- scopes: histories that share a job are told apart by a column in front of every key -------------------------

    def _scoped(self, rows: DataFrame, *further: str) -> DataFrame:
        if self.scopes is None:
            return rows
        for column in (KEY, *further):
            rows = self._scope_column(rows, column)
        return rows

    def _scoped_table(self, table: TableSide) -> TableSide:
        return table.each(self._scoped)

    def _scope_column(self, rows: DataFrame, column: str) -> DataFrame:
        if self.scopes is None or _SCOPE in names(rows, column):
            return rows
        scope = F.floor(F.col(ORDER)["partition"] / self.scopes.stride).cast("int").alias(_SCOPE)
        inner = F.struct(scope, *(F.col(column)[name].alias(name) for name in names(rows, column)))
        return rows.withColumn(column, F.when(F.col(column).isNotNull(), inner))

    def _unscoped(self, rows: DataFrame) -> DataFrame:
        if self.scopes is None:
            return rows
        for column in (KEY, RIGHT_KEY):
            if column in rows.columns and _SCOPE in names(rows, column):
                inner = F.struct(*(F.col(column)[name].alias(name) for name in names(rows, column) if name != _SCOPE))
                rows = rows.withColumn(column, F.when(F.col(column).isNotNull(), inner))
        return rows


def _is_made(node: Node) -> bool:
    """Whether a join lies between the sources and a node."""
    return is_join(node) or any(_is_made(parent) for parent in node.parents)


def _stream(side: DataFrame | TableSide) -> DataFrame:
    if isinstance(side, TableSide):
        msg = "a stream is expected here, not a table"
        raise TypeError(msg)
    return side


def _table(side: DataFrame | TableSide) -> TableSide:
    if not isinstance(side, TableSide):
        msg = "a table is expected here, not a stream"
        raise TypeError(msg)
    return side


def _types(rows: DataFrame, column: str) -> list[str]:
    fields = rows.schema[column].dataType.fields  # type: ignore[attr-defined]
    return [one.dataType.simpleString() for one in fields if one.name != _SCOPE]


def _key_names(table: TableSide) -> list[str]:
    return names(table.all(), KEY)


__all__ = ["RIGHT_VALUE", "Rejected", "Scopes", "Shapes"]
