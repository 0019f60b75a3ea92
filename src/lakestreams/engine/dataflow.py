"""Evaluates a topology over frames: the same walk checks it on empty frames and runs it on a cycle's records.

Pure: frames in, frames out; no Kafka, no tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.errors import InvalidExpression, InvalidName, KeyTypeMismatch, LakestreamsError, TopologyInvalid
from lakestreams.formats.base import struct_type
from lakestreams.joins import stream_table
from lakestreams.joins.order import (
    CONTRIBUTOR_TYPE,
    CONTRIBUTORS,
    COORDINATES,
    KEY,
    ORDER,
    ORDER_TYPE,
    RECORD_COLUMNS,
    RIGHT_KEY,
    RIGHT_VALUE,
    TIME,
    VALUE,
    lineage,
)
from lakestreams.joins.stream_table import TableSide
from lakestreams.topology.fields import Fields
from lakestreams.topology.nodes import (
    DeltaSink,
    Filter,
    Mapper,
    MapValues,
    Node,
    SelectKey,
    Source,
    StreamTableJoin,
    is_table,
    kind_of,
    sources_of,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakestreams.topology.builder import Topology

EVENT_TIME, LINEAGE = "event_time_ms", "_lineage"
RESERVED = (EVENT_TIME, LINEAGE)

# Below this ratio of points to table rows the table is filtered by the points' keys before the join (see
# docs/decisions/0004-state-filter.md; the ratio itself is a guess that part 7 must measure).
_FILTER_RATIO = 0.5


@dataclass(frozen=True)
class Inputs:
    """What one cycle brings in.

    Attributes:
        streams: source name to its points frame.
        tables: source name to its table side.
        cycle: the cycle's number.
        counts: source name to how many rows it brings (points of a stream, rows of a table); may be incomplete.
    """

    streams: Mapping[str, DataFrame]
    tables: Mapping[str, TableSide]
    cycle: int
    counts: Mapping[str, int] = field(default_factory=dict)


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
class Results:
    """What comes out: a frame an output, and what was rejected on the way."""

    outputs: dict[str, DataFrame] = field(default_factory=dict)
    rejected: list[Rejected] = field(default_factory=list)


def run(topology: Topology, inputs: Inputs) -> Results:
    """Evaluates a bound topology over one cycle's inputs; outputs have the silver columns."""
    walk = _Walk(topology, inputs, checking=False)
    return walk.results()


def check(topology: Topology, spark: SparkSession) -> tuple[dict[str, DataFrame], list[LakestreamsError]]:
    """Evaluates a topology over empty frames.

    Returns:
        Output name to an empty frame with its columns, and every fault found: unknown columns, key types that do not
        agree, expressions that Spark cannot analyse, reserved names.
    """
    streams = {source.name: _empty(spark, source) for source in topology.sources if source.kind == "stream"}
    tables = {
        source.name: TableSide(state=None, changes=_empty(spark, source))
        for source in topology.sources
        if source.kind == "table"
    }
    walk = _Walk(topology, Inputs(streams, tables, cycle=1), checking=True)
    results = walk.results()
    return results.outputs, walk.faults


def require_valid(topology: Topology, spark: SparkSession) -> dict[str, DataFrame]:
    """As `check`, raising what was found.

    Raises:
        TopologyInvalid: with every fault.
    """
    outputs, faults = check(topology, spark)
    if faults:
        raise TopologyInvalid(faults, topology.name)
    return outputs


def _empty(spark: SparkSession, source: Source) -> DataFrame:
    types = {
        KEY: struct_type(source.key.fields),
        VALUE: struct_type(source.value.fields),
        TIME: "bigint",
        ORDER: ORDER_TYPE,
        "n": "int",
        "kind": "string",
        CONTRIBUTORS: f"array<{CONTRIBUTOR_TYPE}>",
    }
    return spark.createDataFrame([], ", ".join(f"`{name}` {types[name]}" for name in RECORD_COLUMNS))


class _Walk:
    """One pass over the nodes, parents first. When checking, each fault is noted and its dependents are left out."""

    def __init__(self, topology: Topology, inputs: Inputs, *, checking: bool) -> None:
        self._topology = topology
        self._inputs = inputs
        self._checking = checking
        self._frames: dict[str, DataFrame | TableSide] = {}
        self._results = Results()
        self.faults: list[LakestreamsError] = []

    def results(self) -> Results:
        for node in self._topology.nodes:
            if any(parent.name not in self._frames for parent in node.parents):
                continue  # a parent has a fault, which is reported already
            noted = len(self.faults)
            try:
                frame = self._evaluate(node)
                if self._checking:
                    _analyse(frame)
            except LakestreamsError as error:
                self.faults.append(error)
                continue
            except Exception as error:
                if not self._checking:
                    raise
                if len(self.faults) == noted:  # else the cause is noted already: an unknown column
                    self.faults.append(InvalidExpression(_first_line(error), where=_where(node)))
                continue
            if len(self.faults) == noted:
                self._frames[node.name] = frame
        return self._results

    def _evaluate(self, node: Node) -> DataFrame | TableSide:
        if isinstance(node, Source):
            return self._inputs.streams[node.name] if node.kind == "stream" else self._inputs.tables[node.name]
        if isinstance(node, StreamTableJoin):
            return self._join(node)
        parent = self._frames[node.parents[0].name]
        if isinstance(node, DeltaSink):
            frame = self._sink(node, _stream(parent))
            self._results.outputs[node.name] = frame
            return frame
        if isinstance(node, SelectKey):
            return self._select_key(node, _stream(parent))
        if isinstance(parent, TableSide):
            return parent.each(lambda frame: self._per_record(node, frame))
        return self._per_record(node, parent)

    def _per_record(self, node: MapValues | Filter, frame: DataFrame) -> DataFrame:
        fields = self._fields(node.parent.name, frame, node)
        if isinstance(node, MapValues):
            value = F.when(F.col(VALUE).isNotNull(), self._struct(node, node.mapper(fields)))
            return frame.withColumn(VALUE, value)
        keep = node.predicate(fields)
        if is_table(node):  # of a table: what does not fulfil it is deleted, which needs a version of its own
            return frame.withColumn(VALUE, F.when(keep, F.col(VALUE)))
        return frame.where(keep)

    def _select_key(self, node: SelectKey, frame: DataFrame) -> DataFrame:
        projection = node.mapper(self._fields(node.parent.name, frame, node))
        key = self._struct(node, projection)
        columns = [_column(value) for value in projection.values()]
        there = (
            F.coalesce(*columns).isNotNull()
            if len(columns) == 1
            else F.greatest(*(column.isNotNull() for column in columns))
        )
        return frame.withColumn(KEY, F.when(there, key))

    def _join(self, node: StreamTableJoin) -> DataFrame:
        points, table = _stream(self._frames[node.left.name]), self._frames[node.right.name]
        if not isinstance(table, TableSide):
            msg = f"the right side of {node.name} is not a table"
            raise TypeError(msg)
        if self._checking:
            wrong = stream_table.validate(_types(points, KEY), _types(_any(table), KEY))
            if wrong is not None:
                message = f'KeyTypeMismatch {{ left = "{node.left.name}", right = "{node.right.name}" }}: {wrong}'
                raise KeyTypeMismatch(message, where=_where(node))
        if node.how == "inner":
            # an inner join has no use for a null key (semantics section 4)
            nobody = points.where(F.col(KEY).isNull()).select(*(F.col(ORDER)[name].alias(name) for name in COORDINATES))
            self._results.rejected.append(Rejected(node.name, "NULL_KEY", nobody))
        if self._few_points(node):
            table = stream_table.retain(table, points)
        joined = stream_table.execute(points, table, node.how, self._inputs.cycle)
        left = self._fields(node.left.name, joined, node)
        right = self._fields(node.right.name, joined, node, key=RIGHT_KEY, value=RIGHT_VALUE)
        projection = node.joiner(left, right) if node.joiner else _all_columns(node, joined)
        return joined.withColumn(VALUE, self._struct(node, projection)).select(*RECORD_COLUMNS)

    def _few_points(self, node: StreamTableJoin) -> bool:
        """Whether filtering the table by the points' keys first is worth a pass over the points' keys."""
        counts = self._inputs.counts
        points = sum(counts.get(source.name, 0) for source in sources_of(node.left) if source.kind == "stream")
        rows = sum(counts.get(source.name, 0) for source in sources_of(node.right))
        return rows > 0 and points < rows * _FILTER_RATIO

    def _sink(self, node: DeltaSink, frame: DataFrame) -> DataFrame:
        value = _names(frame, VALUE)
        taken = [name for name in (*value, *_names(frame, KEY)) if name.lower() in RESERVED]
        if taken:
            message = f"column {', '.join(taken)} is reserved for the result's time and lineage"
            raise InvalidName(message, hint="rename it in a map_values or joiner", where=_where(node))
        lowered = {name.lower() for name in value}
        key = [F.col(KEY)[name].alias(name) for name in _names(frame, KEY) if name.lower() not in lowered]
        selected = frame.select(
            *key,
            *(F.col(VALUE)[name].alias(name) for name in value),
            F.col(TIME).alias(EVENT_TIME),
            lineage().alias(LINEAGE),
        )
        missing = [name for name in (*node.cluster_by, *node.partition_by) if name not in selected.columns]
        if missing:
            message = f"cluster_by or partition_by names {', '.join(missing)}, which the output lacks"
            raise InvalidName(message, hint=f"it has: {', '.join(selected.columns)}", where=_where(node))
        return selected

    def _fields(self, owner: str, frame: DataFrame, node: Node, key: str = KEY, value: str = VALUE) -> Fields:
        columns = {name: f"`{key}`.`{name}`" for name in _names(frame, key)}
        columns |= {name: f"`{value}`.`{name}`" for name in _names(frame, value)}
        return Fields(owner, columns, self.faults, _where(node))

    def _struct(self, node: Node, projection: Mapping[str, Column]) -> Column:
        given: object = projection  # a user's function may return anything
        if not isinstance(given, Mapping) or not given:
            message = f"the function returned {projection!r}, not a dict of name to Column"
            raise InvalidExpression(message, hint='return {"name": column, ...}', where=_where(node))
        lowered = [name.lower() for name in projection]
        if len(set(lowered)) < len(lowered):
            message = f"two columns differ only in capitals: {', '.join(projection)}"
            raise InvalidName(message, hint="Spark does not tell them apart; rename one", where=_where(node))
        return F.struct(*(_column(value).alias(name) for name, value in projection.items()))


def _column(value: object) -> Column:
    return value if isinstance(value, Column) else F.lit(value)


def _all_columns(node: StreamTableJoin, joined: DataFrame) -> dict[str, Column]:
    """All columns of both values, prefixed with the side's name where they clash."""
    left, right = _names(joined, VALUE), _names(joined, RIGHT_VALUE)
    clash = {name.lower() for name in left} & {name.lower() for name in right}
    columns: dict[str, Column] = {}
    for side, names, owner in ((VALUE, left, node.left.name), (RIGHT_VALUE, right, node.right.name)):
        for name in names:
            columns[f"{owner}_{name}" if name.lower() in clash else name] = F.col(side)[name]
    return columns


def _stream(frame: DataFrame | TableSide) -> DataFrame:
    if isinstance(frame, TableSide):
        msg = "a stream is expected here, not a table"
        raise TypeError(msg)
    return frame


def _any(table: TableSide) -> DataFrame:
    frame = table.state if table.state is not None else table.changes
    if frame is None:
        msg = "a table side has state, changes or both"
        raise ValueError(msg)
    return frame


def _names(frame: DataFrame, column: str) -> list[str]:
    names: list[str] = frame.schema[column].dataType.names  # type: ignore[attr-defined]
    return names


def _types(frame: DataFrame, column: str) -> list[str]:
    return [field.dataType.simpleString() for field in frame.schema[column].dataType.fields]  # type: ignore[attr-defined]


def _analyse(frame: DataFrame | TableSide) -> None:
    """Makes Spark resolve the frame, which raises on wrong names and types."""
    _ = (_any(frame) if isinstance(frame, TableSide) else frame).schema


def _where(node: Node) -> str:
    return f'{kind_of(node)} "{node.name}"'


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


__all__ = ["Inputs", "Mapper", "Rejected", "Results", "check", "require_valid", "run"]
