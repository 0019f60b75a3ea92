"""What a cycle needs of the cycles before it, in one of two ways, whichever the topology needs.

`OfTables`: where streams only look tables up, the past is the tables' rows: a snapshot of each source and the bronze rows
behind it. `OfNodes`: where windows, aggregations or tables made of tables remember something, it is what the nodes keep,
stored as of some finished cycle, and the cycles since then, which are evaluated again (decision 0012). Both are caches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.engine import dataflow, snapshots, state
from lakestreams.engine.bronze import planned_rows, row_cycle
from lakestreams.engine.dataflow import Inputs
from lakestreams.engine.ledger import History, Ledger, Plan, StoredState
from lakestreams.engine.snapshots import Snapshot
from lakestreams.joins.order import ORDER, STREAM_SIDE, TABLE_SIDE, records
from lakestreams.joins.validity import TableSide
from lakestreams.topology.graph import only_looks_up

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakestreams.topology.builder import Topology
    from lakestreams.topology.nodes import Source

# Below so many records evaluated again since the last storing, storing costs more than it saves.
_WORTH_STORING = 200_000
# A global table is there before anything else: its rows come first in their cycle.
_FIRST_OF_ALL = -2


class Past(Protocol):
    """What earlier cycles left behind."""

    def resume(self, history: History) -> None:
        """Finds what is stored, and the finished plans behind it."""

    def inputs(self, plan: Plan) -> Inputs:
        """What a cycle is evaluated over."""

    def finished(self, plan: Plan) -> None:
        """Takes note of a plan that is finished."""

    def refresh(self, every: int) -> list[tuple[str, int]]:
        """Stores what is due.

        Args:
            every: the most cycles that may lie behind what is stored.

        Returns:
            What was stored, and how many rows it has.
        """


def of(spark: SparkSession, ledger: Ledger, topology: Topology, fingerprint: str) -> Past:
    """The past as this topology needs it."""
    if only_looks_up(topology.nodes):
        return OfTables(spark, ledger, topology)
    return OfNodes(spark, ledger, topology, fingerprint)


@dataclass
class OfTables:
    """Snapshots of the table sources and the plans behind them."""

    spark: SparkSession
    ledger: Ledger
    topology: Topology
    tail: list[Plan] = field(default_factory=list)  # finished, with table records that some snapshot does not cover
    standing: dict[str, Snapshot] = field(default_factory=dict)

    @property
    def _tables(self) -> list[Source]:
        return [source for source in self.topology.sources if source.kind != "stream"]

    def resume(self, history: History) -> None:
        """Finds the snapshots, and the finished plans that they do not cover."""
        self.standing = {source.name: snapshots.find(self.spark, self.ledger, source) for source in self._tables}
        if history.plan is not None and self._tables:
            covered = min(snapshot.cycle for snapshot in self.standing.values())
            plans = self.ledger.plans(self.spark, covered + 1, [source.topic for source in self._tables])
            self.tail = [plan for plan in plans if plan.cycle <= history.done_cycle]

    def inputs(self, plan: Plan) -> Inputs:
        """The stream records of the cycle; tables with all that is known of them."""
        streams, tables, counts, changes = {}, {}, {}, {}
        for source in self.topology.sources:
            if source.kind == "stream":
                rows = _readable(self.spark, self.ledger, source, [plan]).where(F.col("v").isNotNull())
                streams[source.name] = records(rows, source.topic, STREAM_SIDE, F.lit(plan.cycle))
                counts[source.name] = plan.records(source.topic)
            else:
                snapshot = self.standing.get(source.name, Snapshot())
                side, rows_about, changed = snapshots.side(
                    self.spark, self.ledger, source, snapshot, [*self.tail, plan]
                )
                tables[source.name] = side.each(_first) if source.kind == "global_table" else side
                counts[source.name], changes[source.name] = rows_about, changed
        return Inputs(streams, tables, plan.cycle, counts, changes, partitions_of([plan]))

    def finished(self, plan: Plan) -> None:
        """Keeps a plan with table records."""
        if any(plan.records(source.topic) for source in self._tables):
            self.tail.append(plan)

    def refresh(self, every: int) -> list[tuple[str, int]]:
        """Folds finished cycles into the snapshots that are due, and forgets plans that all of them cover."""
        stored = []
        for source in self._tables:
            standing = self.standing.get(source.name, Snapshot())
            if self.tail and snapshots.due(source, standing, self.tail, every):
                snapshots.refresh(self.spark, self.ledger, source, standing, self.tail)
                self.standing[source.name] = snapshots.find(self.spark, self.ledger, source)
                stored.append((source.name, self.standing[source.name].rows))
        covered = min((snapshot.cycle for snapshot in self.standing.values()), default=None)
        self.tail = [] if covered is None else [plan for plan in self.tail if plan.cycle > covered]
        return stored


@dataclass
class OfNodes:
    """What the nodes keep, stored as of some cycle, and the plans since."""

    spark: SparkSession
    ledger: Ledger
    topology: Topology
    fingerprint: str
    stored: StoredState | None = None
    tail: list[Plan] = field(default_factory=list)
    _again: int = 0  # records that were evaluated once more because they lie behind what is stored

    def resume(self, history: History) -> None:
        """Finds the stored state and the finished plans since; without one all plans are since."""
        known = state.there(self.spark, self.ledger, history.state, self.fingerprint)
        self.stored = history.state if known else None
        if history.plan is None:
            return
        after = self.stored.cycle if self.stored else 0
        plans = self.ledger.plans(self.spark, after + 1, [source.topic for source in self.topology.sources])
        self.tail = [plan for plan in plans if plan.cycle <= history.done_cycle]
        self._again = sum(_records(plan) for plan in self.tail)

    def inputs(self, plan: Plan) -> Inputs:
        """All records since the stored state; only the cycle's own results are wanted."""
        self._again += sum(_records(one) for one in self.tail)
        return self._since([*self.tail, plan], results_from=plan.cycle)

    def finished(self, plan: Plan) -> None:
        """Keeps the plan."""
        self.tail.append(plan)

    def refresh(self, every: int) -> list[tuple[str, int]]:
        """Stores what the nodes keep now, if evaluating the cycles since has cost about as much as storing does."""
        rows = self.stored.rows if self.stored else 0
        if not self.tail or (len(self.tail) < every and self._again < max(rows, _WORTH_STORING)):
            return []
        self.store()
        return [("state", self.stored.rows if self.stored else 0)]

    def store(self) -> None:
        """Stores what the nodes keep as of the last finished cycle."""
        kept = dataflow.run(self.topology, self._since(self.tail, keeps=True)).kept
        last = self.tail[-1].cycle
        self.stored = state.store(self.spark, self.ledger, kept, last, self.fingerprint, self.stored)
        self.tail, self._again = [], 0

    def _since(self, plans: Sequence[Plan], *, results_from: int | None = None, keeps: bool = False) -> Inputs:
        retained = state.load(self.spark, self.ledger, self.stored) if self.stored else {}
        known = self.stored.rows if self.stored else 0
        return over(self.spark, self.ledger, self.topology, plans, retained, known, results_from, keeps=keeps)


def over(
    spark: SparkSession,
    ledger: Ledger,
    topology: Topology,
    plans: Sequence[Plan],
    retained: Mapping[str, Mapping[str, DataFrame]],
    retained_rows: int = 0,
    results_from: int | None = None,
    *,
    keeps: bool = False,
) -> Inputs:
    """The records that some plans take, in one evaluation.

    Args:
        spark: the session.
        ledger: of the pipeline.
        topology: the pipeline.
        plans: ascending, at least one; all after what is retained.
        retained: what the nodes keep of the cycles before.
        retained_rows: about how many rows that is.
        results_from: the first cycle whose results are wanted; by default all.
        keeps: whether what the nodes keep is wanted.
    """
    streams, tables, counts, changes = {}, {}, {}, {}
    for source in topology.sources:
        taken = [plan for plan in plans if plan.of(source.topic)]
        rows = _readable(spark, ledger, source, taken or plans[-1:])
        cycle = row_cycle(source.topic, taken) if taken else F.lit(plans[-1].cycle)
        count = sum(plan.records(source.topic) for plan in taken)
        if source.kind == "stream":
            streams[source.name] = records(rows, source.topic, STREAM_SIDE, cycle)
            counts[source.name] = count
        else:
            side = TableSide(None, records(rows, source.topic, TABLE_SIDE, cycle))
            tables[source.name] = side.each(_first) if source.kind == "global_table" else side
            counts[source.name], changes[source.name] = retained_rows + count, count
    return Inputs(
        streams,
        tables,
        plans[0].cycle,
        counts,
        changes,
        partitions_of(plans),
        retained,
        keeps=keeps,
        raw=True,
        results_from=results_from,
    )


def partitions_of(plans: Sequence[Plan]) -> dict[str, int]:
    """Topic to partition count, as the last plan knows it."""
    counts: dict[str, int] = {}
    for part in plans[-1].ranges:
        counts[part.topic] = max(counts.get(part.topic, 0), part.partition + 1)
    return counts


def _readable(spark: SparkSession, ledger: Ledger, source: Source, plans: Sequence[Plan]) -> DataFrame:
    rows = planned_rows(spark, ledger, source, plans)
    return rows.where(F.col("k").isNotNull()) if source.kind != "stream" or source.keys_not_null == "drop" else rows


def _first(rows: DataFrame) -> DataFrame:
    return rows.withColumn(ORDER, F.col(ORDER).withField("stream_time_ms", F.lit(_FIRST_OF_ALL).cast("bigint")))


def _records(plan: Plan) -> int:
    return sum(part.records for part in plan.ranges)
