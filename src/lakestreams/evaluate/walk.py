"""Evaluates a topology over frames: the same walk checks it on empty frames and runs it on a cycle's records.

Pure: frames in, frames out; no Kafka, no tables. Steps on one record at a time are in `stateless`, joins in `joins`, what tables get in `outputs`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import StructType

from lakestreams.errors import InvalidExpression, LakestreamsError
from lakestreams.evaluate import outputs
from lakestreams.evaluate.inputs import EXPECTATION, ROW, RULES, Inputs, Rejected, Results
from lakestreams.evaluate.joins import Shapes, stream_side
from lakestreams.evaluate.registry import OPERATORS, Calls
from lakestreams.evaluate.stateless import Steps, kinds, names, paths, require_columns
from lakestreams.evaluate.tables import Derived
from lakestreams.expectations import judging, outcomes
from lakestreams.expectations import rules as rules_module
from lakestreams.expectations.judging import ORPHAN, Dataset
from lakestreams.formats.base import struct_type
from lakestreams.operators.nullability import nullable
from lakestreams.operators.records import (
    CONTRIBUTOR_TYPE,
    CONTRIBUTORS,
    KEY,
    KIND,
    MATCHED,
    OLD,
    ORDER,
    ORDER_TYPE,
    PLACE,
    RECORD_COLUMNS,
    RIGHT_KEY,
    RIGHT_VALUE,
    TICK,
    TIME,
    TOMBSTONE,
    UNMATCHED,
    VALUE,
    is_new,
)
from lakestreams.operators.table_table.results import OLD_KIND, OLD_RIGHT_VALUE, OLD_VALUE, SEEN_TIME
from lakestreams.operators.versions import TableSide
from lakestreams.sql import quoted
from lakestreams.topology.endpoints import Sink, Source
from lakestreams.topology.expectations import FanOut, ForeignKeyExists, OneOutcomePerLeft, UniqueKey
from lakestreams.topology.fields import Fields, MaybeFields
from lakestreams.topology.graph import held_before_ms, sources_of
from lakestreams.topology.joins import ForeignKeyJoin, Join
from lakestreams.topology.node import Node
from lakestreams.topology.old_values import quiet_filters

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from lakestreams.topology.topology import Topology

_OUTCOMES = "outcomes"


def run(topology: Topology, inputs: Inputs) -> Results:
    """Evaluates a bound topology over some cycles' inputs."""
    return _Walk(topology, inputs, checking=False).results()


def check(topology: Topology, spark: SparkSession) -> tuple[dict[str, DataFrame], list[LakestreamsError]]:
    """Evaluates a topology over empty frames.

    Returns:
        Output name to an empty frame with its columns, and every fault found: unknown columns, key types that do not
        agree, expressions that Spark cannot analyse, reserved names.
    """
    results, faults = _over_nothing(topology, spark)
    return results.outputs, faults


def keys(topology: Topology, spark: SparkSession) -> dict[str, list[str]]:
    """The names of the key's columns, by output, of a topology without faults."""
    results, _ = _over_nothing(topology, spark)
    return {name: names(rows, KEY) for name, rows in results.records.items()}


def _over_nothing(topology: Topology, spark: SparkSession) -> tuple[Results, list[LakestreamsError]]:
    streams = {source.name: _empty(spark, source) for source in topology.sources if source.kind == "stream"}
    tables = {
        source.name: TableSide(state=None, changes=_empty(spark, source))
        for source in topology.sources
        if source.kind != "stream"
    }
    walk = _Walk(topology, Inputs(streams, tables, cycle=1), checking=True)
    return walk.results(), walk.faults


def _empty(spark: SparkSession, source: Source) -> DataFrame:
    types = {
        KEY: struct_type(source.key.fields),
        VALUE: struct_type(source.value.fields),
        TIME: "bigint",
        ORDER: ORDER_TYPE,
        PLACE: "int",
        KIND: "string",
        CONTRIBUTORS: f"array<{CONTRIBUTOR_TYPE}>",
    }
    # only looked at: a frame of Python's, of no rows, costs a cold JVM a second
    return spark.range(0, 0, 1, 1).select(*(F.lit(None).cast(types[name]).alias(name) for name in RECORD_COLUMNS))


class _Walk:
    """One pass over the nodes, parents first. When checking, each fault is noted and its dependents are left out."""

    def __init__(self, topology: Topology, inputs: Inputs, *, checking: bool) -> None:
        self._topology = topology
        self._inputs = inputs
        self._checking = checking
        self._frames: dict[str, DataFrame | TableSide] = {}
        self._results = Results()
        self.faults: list[LakestreamsError] = []
        self._steps = Steps(topology.nodes, self.faults)
        self._orphans: dict[str, DataFrame] = {}
        given = topology, self._steps, inputs, self._results
        self._shapes, self._derived = Shapes(*given), Derived(*given)
        self._quiet = quiet_filters(topology.nodes)
        readers = [node for node in topology.nodes if node.reads_old or node.name in self._quiet]
        self._send_old_values = {parent.name for node in readers for parent in _through(node)}
        self._read_again = _before_stateful(topology.nodes)

    def results(self) -> Results:
        for node in self._topology.nodes:
            if any(parent.name not in self._frames for parent in node.parents):
                continue  # a parent has a fault, which is reported already
            frame = self._guarded(node, self._evaluated)
            if frame is not None:
                frame = self._materialised(node, frame)
                self._frames[node.name] = frame
                # what is expected of rows may be wrong without the rows being so
                expected = self._guarded(node, partial(self._expected, frame=frame))
                self._frames[node.name] = frame if expected is None else expected
        self._results.nodes = self._frames
        return self._results

    def _materialised(self, node: Node, frame: DataFrame | TableSide) -> DataFrame | TableSide:
        """What a stateful step gives, out of its plan if another stateful step follows."""
        materialise = self._inputs.materialise
        if materialise is None or not node.stateful or node.name not in self._read_again:
            return frame
        return TableSide(None, materialise(frame.all())) if isinstance(frame, TableSide) else materialise(frame)

    def _guarded(self, node: Node, step: Callable[[Node], DataFrame | TableSide]) -> DataFrame | TableSide | None:
        """What a step gives; None if it has a fault, which is noted when checking."""
        noted = len(self.faults)
        try:
            frame = step(node)
            if self._checking:
                require_columns(_analysed(frame), node)
        except LakestreamsError as error:
            if not self._checking:
                raise
            self.faults.append(error)
            return None
        except Exception as error:
            if not self._checking:
                raise
            if len(self.faults) == noted:  # else the cause is noted already: an unknown column
                said = InvalidExpression(_first_line(error), where=node.where, given=_fragment(error))
                self.faults.append(said)
            return None
        return frame if len(self.faults) == noted else None

    def _evaluated(self, node: Node) -> DataFrame | TableSide:
        """A node's rows, with types that do not tell what may be null (see `nullability`)."""
        made = self._evaluate(node)
        if isinstance(node, Sink):
            return made
        return made.each(_nullable) if isinstance(made, TableSide) else _nullable(made)

    def _evaluate(self, node: Node) -> DataFrame | TableSide:
        if isinstance(node, Source):
            return self._inputs.streams[node.name] if node.kind == "stream" else self._inputs.tables[node.name]
        if isinstance(node, Join):
            return self._join(node)
        if isinstance(node, Sink):
            return self._sink(node, self._frames[node.parent.name])
        return self._operated(node)

    def _operated(self, node: Node) -> DataFrame | TableSide:
        """What a node's operator makes of its inputs."""
        calls = Calls(self._steps, self._shapes, self._derived, self._quiet, old=self._wants_old(node))
        return OPERATORS[type(node)].run(calls, node, *(self._frames[parent.name] for parent in node.parents))

    # --- expectations ------------------------------------------------------------------------------------------------

    def _expected(self, node: Node, frame: DataFrame | TableSide) -> DataFrame | TableSide:
        """Notes what is to be judged of a node's rows, and leaves out what its rules drop."""
        expectations = self._topology.expectations
        rules, invariants = expectations.rules_of(node.name), expectations.invariants_of(node.name)
        if isinstance(node, Source):
            if self._checking:  # a cycle's plan has the counts, and what is dropped was not read
                fields = rules_module.fields_of(node, self.faults)
                _analysed(_rows_of(frame).select(*(rules_module.violated(rule, fields) for rule in rules)))
            return frame
        if isinstance(node, Sink) or not (rules or invariants):
            return frame  # an output's rows are judged before they get the columns of its table
        kept = self._judge(node, self._inputs.hold(_rows_of(frame)))
        return TableSide(None, kept) if isinstance(frame, TableSide) else kept

    def _judge(self, node: Node, rows: DataFrame) -> DataFrame:
        """Notes what is to be judged of rows; gives those that no rule drops."""
        expectations = self._topology.expectations
        rules, invariants = expectations.rules_of(node.name), expectations.invariants_of(node.name)
        owner = node.parents[0].name if isinstance(node, Sink) else node.name
        fields = self._steps.fields(owner, rows, node)
        of_now = rows.where(is_new(self._inputs.wanted) & (F.col(KIND) != TICK))
        dataset = Dataset(node.name, of_now, fields, rules, invariants)
        if isinstance(node, Join) and any(isinstance(one, FanOut | OneOutcomePerLeft) for one in invariants):
            dataset = replace(dataset, outcomes=self._outcomes(node, rows))
        if node.name in self._orphans:
            dataset = replace(dataset, orphans=self._orphans[node.name])
        unique = [one for one in invariants if isinstance(one, UniqueKey)]
        if unique:
            columns = paths(rows, KEY, VALUE)
            for name in (name for one in unique for name in one.columns):
                _ = fields[name]  # notes the fault where there is none
            dataset = replace(dataset, columns=columns)
        self._results.judged[node.name] = dataset
        if self._checking:
            _analysed(of_now.select(*(rules_module.violated(rule, fields) for rule in rules)))
        dropping = [rule for rule in rules if rule.action == "drop"]
        if not dropping:
            return rows
        self._results.unfiltered[node.name] = rows
        out = rules_module.any_of(dropping, fields)
        refused = of_now.where(out).select(
            judging.coordinates().alias("at"),
            rules_module.names_of(rules, fields).alias(RULES),
            judging.row_text().alias(ROW),
        )
        self._results.rejected.append(
            Rejected(node.name, EXPECTATION, refused.select("at.*", RULES, ROW), earlier=True)
        )
        return rows.where(~out)

    def _outcomes(self, node: Join, rows: DataFrame) -> DataFrame:
        """What has become of the left side's records; notes what of it to keep."""
        past = self._inputs.retained.get(node.name, {}).get(_OUTCOMES)
        self._results.pruned.pop(node.name, None)  # this is read whole
        topics = [source.topic for source in sources_of(node.left)]
        counted = outcomes.count(rows, topics, past, self._inputs.wanted)
        if self._inputs.keeps and node.name in self._results.kept:
            span = node.longest_wait_ms + node.reach_ms
            span += held_before_ms(node)  # its clock may be as much behind the sources'
            self._results.kept[node.name][_OUTCOMES] = outcomes.retain(counted, self._inputs.clock_ms, span)
        return counted

    # --- joins -------------------------------------------------------------------------------------------------------

    def _join(self, node: Join) -> DataFrame | TableSide:
        with_old = node.is_table and self._wants_old(node)
        rows = stream_side(self._operated(node))
        if isinstance(node, ForeignKeyJoin):
            rows = self._note_orphans(node, rows)
        value = F.when(F.col(KIND) != TOMBSTONE, self._result(node, rows, VALUE, RIGHT_VALUE))
        made = {VALUE: value}
        if with_old:
            rows = rows.withColumns({"kind_before": F.coalesce(F.col(OLD_KIND), F.lit(TOMBSTONE))})
            before = self._result(node, rows, OLD_VALUE, OLD_RIGHT_VALUE)
            made[OLD] = F.when(F.col("kind_before").isin(MATCHED, UNMATCHED), before)
        further = [name for name in (OLD, SEEN_TIME) if name in made or (with_old and name in rows.columns)]
        frame = rows.withColumns(made).select(*RECORD_COLUMNS, *further)
        return TableSide(None, frame) if node.is_table else frame

    def _note_orphans(self, node: ForeignKeyJoin, rows: DataFrame) -> DataFrame:
        """Which rows of a left table name a row that is not there; only if it is expected that they do not."""
        invariants = self._topology.expectations.invariants_of(node.name)
        if not any(isinstance(one, ForeignKeyExists) for one in invariants):
            return rows
        rows = self._inputs.hold(rows)
        named = self._steps.key(node, node.left_on(self._steps.fields(node.left.name, rows, node)))
        lost = (F.col(KIND) == UNMATCHED) & named.isNotNull()
        self._orphans[node.name] = rows.where(is_new(self._inputs.wanted)).select(
            KEY, ORDER, PLACE, TIME, KIND, CONTRIBUTORS,
            lost.alias(ORPHAN), named.alias("foreign_key"),
        )  # fmt: skip
        return rows

    def _wants_old(self, node: Node) -> bool:
        """Whether somebody reads what a table's rows were before."""
        return self._inputs.send_old_values or node.name in self._send_old_values

    def _result(self, node: Join, rows: DataFrame, left_value: str, right_value: str) -> Column:
        """The value of a result: what the joiner makes of both sides, or all their columns."""
        left = self._side(node, node.left, rows, KEY, left_value, may_be_missing=node.how == "outer")
        right = self._side(node, node.right, rows, RIGHT_KEY, right_value, may_be_missing=node.how != "inner")
        if node.joiner is None:
            return self._steps.struct(node, _all_columns(node, rows, left_value, right_value))
        return self._steps.struct(node, node.joiner(left, right))  # type: ignore[arg-type]

    def _side(
        self, node: Join, owner: Node, rows: DataFrame, key: str, value: str, *, may_be_missing: bool
    ) -> Fields | MaybeFields:
        if not may_be_missing:
            return self._steps.fields(owner.name, rows, node, key, value)
        columns, missing = paths(rows, key, value), f"{quoted(value)} is null"
        if key == KEY:  # the result's key is always there, a missing side's is not
            own = set(names(rows, value))
            columns = {name: path if name in own else f"if({missing}, null, {path})" for name, path in columns.items()}
        return MaybeFields(owner.name, columns, self.faults, node.where, missing, kinds(rows, key, value))

    # --- outputs -----------------------------------------------------------------------------------------------------

    def _sink(self, node: Sink, parent: DataFrame | TableSide) -> DataFrame:
        rows = _rows_of(parent).where(is_new(self._inputs.wanted))
        expectations = self._topology.expectations
        if expectations.rules_of(node.name) or expectations.invariants_of(node.name):
            rows = self._judge(node, self._inputs.hold(rows))
        self._results.records[node.name] = rows
        if node.is_table:
            gone = F.col(VALUE).isNull()
            rows = rows.withColumn(KIND, F.when(gone, F.lit(TOMBSTONE)).otherwise(F.col(KIND)))
        frame = outputs.OF_SINKS[type(node)](node, rows)
        self._results.outputs[node.name] = frame
        return frame


def _before_stateful(nodes: Sequence[Node]) -> set[str]:
    """The nodes of whose results, however they are reshaped, a stateful one is made."""
    found: set[str] = set()
    for node in reversed(nodes):  # children first
        if node.stateful or node.name in found:
            found.update(parent.name for parent in node.parents)
    return found


def _through(node: Node) -> list[Node]:
    """A node's parents, and theirs as long as only steps on one record lie between."""
    found = []
    for parent in node.parents:
        found.append(parent)
        if parent.keeps_rows:
            found += _through(parent)
    return found


def _all_columns(node: Join, rows: DataFrame, left_value: str, right_value: str) -> dict[str, Column]:
    """All columns of both values, prefixed with the side's name where they clash."""
    left, right = names(rows, left_value), names(rows, right_value)
    clash = {name.lower() for name in left} & {name.lower() for name in right}
    prefixes = (node.left.name, node.right.name)
    if prefixes[0] == prefixes[1]:
        prefixes = ("left", "right")
    columns: dict[str, Column] = {}
    for value, found, owner in ((left_value, left, prefixes[0]), (right_value, right, prefixes[1])):
        for name in found:
            columns[f"{owner}_{name}" if name.lower() in clash else name] = F.col(value)[name]
    return columns


def _nullable(rows: DataFrame) -> DataFrame:
    return nullable(rows, KEY, VALUE, OLD)


def _analysed(frame: DataFrame | TableSide) -> StructType:
    """The schema of a frame, which makes Spark resolve it and so raises on wrong names and types."""
    return _rows_of(frame).schema


def _rows_of(frame: DataFrame | TableSide) -> DataFrame:
    return frame.all() if isinstance(frame, TableSide) else frame


def _first_line(error: Exception) -> str:
    """What the analyser says, without its codes."""
    text = re.sub(r"^\[[A-Z0-9_.]+\] | SQLSTATE: \w+;?.*$", "", (str(error).strip().splitlines() or [""])[0])
    return text or type(error).__name__


def _fragment(error: Exception) -> str | None:
    """The part of an expression's SQL that the analyser means, if it names one."""
    contexts = error.getQueryContext() if isinstance(error, PySparkException) else []
    return next((one.fragment() for one in contexts if one.contextType().name == "SQL"), None)
