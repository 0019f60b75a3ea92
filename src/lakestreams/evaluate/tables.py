"""How the steps that make tables of streams and of tables call their kernels: one method a step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import StructType

from lakestreams.errors import InvalidExpression
from lakestreams.evaluate.scopes import own_key_names
from lakestreams.evaluate.sides import Sides, late_by
from lakestreams.evaluate.stateless import column, names, require_distinct_names, require_names
from lakestreams.operators import versions
from lakestreams.operators.aggregate import changes, windowed
from lakestreams.operators.aggregate import group_rows as group_members
from lakestreams.operators.aggregate import kernel as aggregations
from lakestreams.operators.aggregate.columns import validate
from lakestreams.operators.aggregate.grouping import Grouping, Part
from lakestreams.operators.nullability import nullable
from lakestreams.operators.records import KEY, OLD, ORDER, RECORD_COLUMNS, TASK, TIME, VALUE, is_new, is_tick
from lakestreams.operators.suppress import frames as suppress
from lakestreams.operators.suppress.kernel import Hold
from lakestreams.operators.table_table.results import SEEN_TIME
from lakestreams.operators.versions import TableSide
from lakestreams.operators.windows import MOVES
from lakestreams.partitioning.kafka_default import partition_of
from lakestreams.topology import aggregators as agg
from lakestreams.topology.aggregators import Aggregator
from lakestreams.topology.derived import Aggregate, Suppress, ToTable
from lakestreams.topology.fields import Fields, StructFields
from lakestreams.topology.graph import (
    follows_partitions,
    is_multi_row,
    key_source,
    reports_each_change_once,
)
from lakestreams.topology.kinds import WINDOW_COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from lakestreams.topology.kinds import TimeWindows

_GROUPED, _COUNT, _PRESENT = "given", "count", "_there"
# Up to so many new records in one call the past is best filtered by their keys first: these fit a broadcast, whatever they are.
_SMALL_INPUT = 100_000


def explain_suppress(node: Suppress) -> str:
    """A buffer's plan in words: what its kernel exchanges and sorts."""
    return suppress.explain(_hold(node))


def explain_aggregate(node: Aggregate) -> str:
    """An aggregation's plan in words: what its kernel exchanges and sorts."""
    parts = (Part("value", "fold"),) if node.verb == "reduce" else ()
    told = aggregations.explain(Grouping(parts, of_table=node.group is not None))
    if node.windows is None:
        return told
    windows = node.windows
    return f"{told}; windows of {windows.size_ms} ms every {windows.advance_ms} ms, grace {windows.grace_ms} ms"


@dataclass
class Derived(Sides):
    """Calls the kernels of `operators.aggregate` and `operators.suppress`."""

    def to_table(self, node: ToTable, rows: DataFrame) -> TableSide:
        """A stream's records as versions; null keys are refused."""
        return TableSide(None, self._without_nulls(node, rows, KEY))

    def to_stream(self, table: TableSide) -> DataFrame:
        """A table's new versions as records."""
        return table.all().where(is_new(self.since)).select(*RECORD_COLUMNS)

    def aggregate(self, node: Aggregate, parent: DataFrame | TableSide, *, old: bool) -> TableSide:
        """The groups' new rows, with `old` if their readers need it."""
        given = self._of_table(node, parent) if isinstance(parent, TableSide) else self._of_stream(node, parent)
        adds_and_subtracts, grouping, members = given
        groups = self._past(node, "groups")
        if self.inputs.keeps:
            kept = aggregations.retain(adds_and_subtracts, groups, grouping, members=members)
            self._keep(node, groups=self._open(node, kept))
        if groups is not None and self._new_rows(node) <= _SMALL_INPUT:
            groups = versions.of_keys(groups, adds_and_subtracts)  # untouched groups stay as they were
        rows = aggregations.execute(adds_and_subtracts, groups, grouping, self.since, members=members, with_old=old)
        return TableSide(None, self.scope_keys.undone(rows))

    def suppress(self, node: Suppress, table: TableSide) -> TableSide:
        """The updates that come out now."""
        hold, table = _hold(node), self._with_keys(node, table)
        if hold.until_ms == 0 and hold.max_records is None:
            return TableSide(None, self.to_stream(table))
        new = table.all().where(is_new(self.since)).drop(OLD, SEEN_TIME)
        rows = self.scope_keys.rows(self._with_ticks(node, node.parent, new))
        but = (
            () if node.parent.key_windows is None else WINDOW_COLUMNS
        )  # a window is no part of what decides on the task
        updates = self.tasks.of_rows(node, node.parent, rows, but=but)
        clocks = self._past(node, "clocks")
        waits = suppress.waits_of(updates, self._past(node, "buffer"), clocks, hold, shares=self._shares(node))
        if self.inputs.keeps:
            self._keep(node, buffer=suppress.retain(waits), clocks=suppress.last_clocks(updates, clocks))
        return TableSide(None, self.scope_keys.undone(suppress.execute(waits, hold, self.since)))

    # --- aggregations ------------------------------------------------------------------------------------------------

    def _of_stream(self, node: Aggregate, rows: DataFrame) -> tuple[DataFrame, Grouping, None]:
        rows = self._without_nulls(node, self._without_nulls(node, rows, KEY), VALUE)
        grouping, rows = self._parts(node, rows, self.steps.fields(node.parent.name, rows, node), VALUE)
        if node.windows is not None:
            rows = self._in_windows(node, node.windows, rows)
        nothing = F.lit(None).cast(rows.schema[changes.INTO].dataType)
        return self.scope_keys.rows(rows.withColumn(changes.OUT, nothing)), grouping, None

    def _in_windows(self, node: Aggregate, windows: TimeWindows, rows: DataFrame) -> DataFrame:
        if set(WINDOW_COLUMNS) & set(names(rows, KEY)):
            message = f"the key of {node.parent.name} has windows already: {', '.join(names(rows, KEY))}"
            raise InvalidExpression(message, hint="give it another key before: select_key, group_by", where=node.where)
        follows = follows_partitions(node.parent)
        moves = F.greatest(F.col(TIME), F.col(ORDER)["stream_time_ms"]) if follows else F.col(TIME)
        clocks = self._past(node, "clocks")
        names_before = rows.columns
        timed = self._with_ticks(node, node.parent, rows)
        tasked = self.tasks.of_rows(node, node.parent, timed).withColumn(MOVES, moves)
        clocked = windowed.with_clock(self.scope_keys.undone(tasked), clocks, self.since, ascending=follows)
        if self.inputs.keeps:
            self._keep(node, clocks=windowed.last_clocks(clocked, clocks))
        if timed is not rows:
            clocked = clocked.where(~is_tick())
        found = windowed.assigned(clocked, windows, multi_row=is_multi_row(node.parent))
        taken = windowed.is_open(windows)
        closed = F.col(KEY)[WINDOW_COLUMNS[1]] + windows.grace_ms
        self._reject(node, "LATE", found.where(~taken), late_by(closed))
        return found.where(taken).select(*names_before)

    def _open(self, node: Aggregate, groups: DataFrame) -> DataFrame:
        """The groups that can still change; histories that share a job keep all of theirs."""
        if node.windows is None or self.inputs.scopes is not None:
            return groups
        if key_source(node.parent) is None:  # then a key has one task
            own = F.struct(*(F.col(KEY)[name].alias(name) for name in names(groups, KEY) if name not in WINDOW_COLUMNS))
            hashed = groups.withColumn("own_key", own)
            groups = hashed.withColumn(TASK, partition_of(hashed, "own_key", self.tasks.count(node))).drop("own_key")
        return windowed.open_groups(
            groups, self.results.kept[node.name]["clocks"], node.windows, self.tasks.realm(node)
        )

    def _of_table(self, node: Aggregate, table: TableSide) -> tuple[DataFrame, Grouping, DataFrame | None]:
        side, small_input = self._changes(node, "table", node.parent, table), self._new_rows(node) <= _SMALL_INPUT
        rows = TableSide(
            None if side.state is None else side.state.withColumn(group_members.SETTLED, F.lit(True)),
            None if side.changes is None else side.changes.withColumn(group_members.SETTLED, F.lit(False)),
        ).all()
        grouping, grouped = self._grouped(node, rows, VALUE, changes.INTO_KEY, changes.INTO)
        new = grouped.where(is_new(self.since))
        told = OLD in rows.columns and reports_each_change_once(node.parent, self.topology.nodes)
        if told and not grouping.looks_at_members:
            _, known = self._grouped(node, new, OLD, changes.OUT_KEY, changes.OUT)
        else:
            known = changes.with_before(versions.of_keys(grouped, new) if small_input else grouped)
        adds_and_subtracts, members = changes.adds_and_subtracts(known, self.since), None
        if grouping.looks_at_members:
            had = group_members.of_touched_groups(grouped, adds_and_subtracts, self.since) if small_input else grouped
            members = group_members.members(had, self.since)
        return adds_and_subtracts, grouping, members

    def _grouped(
        self, node: Aggregate, rows: DataFrame, value: str, key_as: str, as_name: str
    ) -> tuple[Grouping, DataFrame]:
        """Rows with the group's key and what is aggregated of each, both null where the value is."""
        assert node.group is not None  # noqa: S101 - of a stream nobody asks
        given: Any = node.group(self.steps.fields(node.parent.name, rows, node, value=value))
        there = F.col(value).isNotNull()
        key, of = given if isinstance(given, tuple) and len(given) == 2 else (given, None)
        new_value = self._row(node, rows, value) if of is None else self.steps.struct(node, of)
        made = {key_as: F.when(there, self.steps.key(node, key)), _GROUPED: F.when(there, new_value)}
        rows = nullable(rows.withColumns(made), *made)
        grouping, rows = self._parts(
            node, rows, self.steps.fields(node.parent.name, rows, node, key_as, _GROUPED), _GROUPED, as_name
        )
        if self.inputs.scopes is not None:
            rows = self.scope_keys.column(rows, key_as)
        return grouping, rows.drop(_GROUPED)

    def _row(self, node: Aggregate, rows: DataFrame, value: str) -> Column:
        """What is aggregated of a row where the group's function does not say: its value, and by name its key too."""
        if node.verb != "aggregate":
            return F.col(value)
        own = names(rows, value)
        key = [F.col(KEY)[name].alias(name) for name in own_key_names(rows) if name not in own]
        return F.struct(*key, *(F.col(value)[name].alias(name) for name in own))

    def _parts(
        self, node: Aggregate, rows: DataFrame, fields: Fields, value: str, as_name: str = changes.INTO
    ) -> tuple[Grouping, DataFrame]:
        """What is made of the values, and rows with the values that it is made of."""
        of_table = node.group is not None
        if node.verb == "reduce":
            made = {VALUE: self._reduction(node, rows, value)}
        elif node.verb == _COUNT:
            made = {_COUNT: agg.count()}
        else:
            assert node.aggregators is not None  # noqa: S101 - build() asks for them
            given: object = node.aggregators(fields)  # a user's function may return anything
            made = self._checked(node, given)
        parts = tuple(
            Part(name, one.kind, None if one.initial is None else column(one.initial), one.add, one.subtract)
            for name, one in made.items()
        )
        of = {name: column(one.of) for name, one in made.items() if one.of is not None}
        # of nothing but counts a row still says that it is there
        into = self.steps.struct(node, of or {_PRESENT: F.lit(1)})
        rows = nullable(rows.withColumn(as_name, F.when(F.col(value).isNotNull(), into)), as_name)
        grouping = Grouping(parts, of_table, node.empty, node.emit, alone=node.verb == "reduce")
        types = rows.schema[as_name].dataType
        assert isinstance(types, StructType)  # noqa: S101 - made above
        wrong = validate(types, grouping)
        if wrong is not None:
            raise InvalidExpression(wrong, hint="see lakestreams.agg for what each takes", where=node.where)
        return grouping, rows

    def _reduction(self, node: Aggregate, rows: DataFrame, value: str) -> Aggregator:
        columns = names(rows, value)

        def put(reducer: Any) -> Any:
            def put_together(so_far: Column, one: Column) -> Column:
                sides = (StructFields(node.parent.name, columns, side, node.where) for side in (so_far, one))
                projection = reducer(*sides)
                given = list(projection) if isinstance(projection, Mapping) else projection
                if given != columns:
                    message = f"reduce gave {given!r}, not the value's columns"
                    raise InvalidExpression(message, hint=f"it has: {', '.join(columns)}", where=node.where)
                return self.steps.key(node, projection)

            return None if reducer is None else put_together

        return Aggregator("fold", F.col(value), None, put(node.add), put(node.subtract))

    def _checked(self, node: Aggregate, aggregators: object) -> dict[str, Aggregator]:
        made = dict(aggregators) if isinstance(aggregators, Mapping) else {}
        for name, one in made.items():
            if isinstance(one, Aggregator) and isinstance(one.of, str):
                message = f"{name}: agg.{one.kind}({one.of!r}) takes a column, not a text"
                raise InvalidExpression(message, hint=f"agg.{one.kind}(row.{one.of})", where=node.where)
        if not made or not all(isinstance(one, Aggregator) for one in made.values()):
            message = f"the function returned {aggregators!r}, not a dict of name to aggregator"
            raise InvalidExpression(message, hint='return {"total": agg.sum(row.amount), ...}', where=node.where)
        require_names(made, node)
        require_distinct_names(made, node)
        return made


def _hold(node: Suppress) -> Hold:
    windows = node.parent.key_windows
    grace_ms = 0 if windows is None else windows.grace_ms
    return Hold(node.until_ms, grace_ms, node.max_records, node.when_full, node.name)
