"""The past where streams only look tables up: a snapshot of each table source, and the bronze rows behind it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.engine.ledger.ledger import Ledger
from lakestreams.engine.ledger.plans import History, Plan
from lakestreams.engine.runtime.tuning import SMALL_INPUT
from lakestreams.engine.state import snapshots
from lakestreams.engine.state.cached_frames import CachedFrames
from lakestreams.engine.state.inputs import first_of_all, partitions_of, readable, records_of
from lakestreams.engine.state.reach import require_rows_of_tables
from lakestreams.engine.state.snapshots import Snapshot
from lakestreams.evaluate.inputs import Inputs, Results
from lakestreams.operators.records import STREAM_SIDE, records

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    from lakestreams.engine.runtime.parallel import Begin
    from lakestreams.topology.endpoints import Source
    from lakestreams.topology.topology import Topology


@dataclass
class TableState:
    """Snapshots of the table sources and the plans behind them."""

    spark: SparkSession
    ledger: Ledger
    topology: Topology
    every: int
    uncovered: list[Plan] = field(
        default_factory=list
    )  # finished, with table records that some snapshot does not cover
    snapshots_by_source: dict[str, Snapshot] = field(default_factory=dict)
    _cached: CachedFrames = field(default_factory=CachedFrames)

    @property
    def _tables(self) -> list[Source]:
        return [source for source in self.topology.sources if source.kind != "stream"]

    def resume(self, history: History) -> None:
        """Finds the snapshots, and the finished plans that they do not cover.

        Raises:
            BronzeTrimmed: if a table's rows were deleted from bronze.
        """
        require_rows_of_tables(self.topology, history)
        self.snapshots_by_source = {
            source.name: snapshots.find(self.spark, self.ledger, source, self.topology.expectations)
            for source in self._tables
        }
        if history.plan is not None and self._tables:
            behind = {source.topic: self.snapshots_by_source[source.name].cycle for source in self._tables}
            plans = self.ledger.plans_behind(self.spark, behind)
            self.uncovered = [plan for plan in plans if plan.cycle <= history.done_cycle]

    def inputs(self, plan: Plan) -> Inputs:
        """The stream records of the cycle; tables with all that is known of them."""
        streams, tables, counts, changes = {}, {}, {}, {}
        for source in self.topology.sources:
            if source.kind == "stream":
                rows = readable(self.spark, self.ledger, self.topology, source, [plan]).where(F.col("v").isNotNull())
                counts[source.name] = plan.records(source.topic)
                one = records(rows, source.topic, STREAM_SIDE, F.lit(plan.cycle))
                streams[source.name] = self._cached_if_small(one, counts[source.name])
            else:
                snapshot = self.snapshots_by_source.get(source.name, Snapshot())
                side, rows_about, changed = snapshots.side(
                    self.spark, self.ledger, source, snapshot, [*self.uncovered, plan], self.topology.expectations
                )
                if side.changes is not None:
                    side = replace(side, changes=self._cached_if_small(side.changes, changed))
                tables[source.name] = side.each(first_of_all) if source.kind == "global_table" else side
                counts[source.name], changes[source.name] = rows_about, changed
        return Inputs(streams, tables, plan.cycle, counts, changes, partitions_of([plan]), hold=self._cached)

    def _cached_if_small(self, rows: DataFrame, count: int) -> DataFrame:
        """Records out of bronze, held if they are few: next to a large table the statement is planned and compiled for many.

        Held, they are found and read once and as suits few, and the statement's code no longer has their offsets in it,
        which differ from cycle to cycle.
        """
        return self._cached(rows) if 0 < count <= SMALL_INPUT else rows

    def rows_in_memory(self, plan: Plan) -> int:  # noqa: ARG002 - as every past
        """Only few, whatever the plan has."""
        return 0

    def begin(self, begin: Begin, plan: Plan, results: Results) -> Callable[[], None]:  # noqa: ARG002 - as every past
        """Nothing: a snapshot stands for itself, so it is written when its cycle is finished."""
        return lambda: None

    def executed(self, plan: Plan, results: Results) -> None:  # noqa: ARG002 - as every past
        """Holds nothing any more."""
        self._cached.release()

    def released(self) -> None:
        """Holds nothing any more."""
        self._cached.release()

    def finished(self, plan: Plan) -> None:
        """Keeps a plan with table records."""
        if any(plan.records(source.topic) for source in self._tables):
            self.uncovered.append(plan)

    @property
    def is_due(self) -> bool:
        """Whether a snapshot lacks enough to be worth it."""
        return any(map(self._is_due, self._tables))

    def _is_due(self, source: Source) -> bool:
        snapshot = self.snapshots_by_source.get(source.name, Snapshot())
        return bool(self.uncovered) and snapshots.due(source, snapshot, self.uncovered, self.every)

    def refresh(self) -> list[tuple[str, int]]:
        """Folds finished cycles into the snapshots that are due, and forgets plans that none of them lacks."""
        stored = []
        for source in self._tables:
            if self._is_due(source):
                snapshot = self.snapshots_by_source.get(source.name, Snapshot())
                made = snapshots.refresh(
                    self.spark, self.ledger, source, snapshot, self.uncovered, self.topology.expectations
                )
                self.snapshots_by_source[source.name] = made
                stored.append((source.name, made.rows))
        self.uncovered = [plan for plan in self.uncovered if any(self._lacks(source, plan) for source in self._tables)]
        return stored

    def _lacks(self, source: Source, plan: Plan) -> bool:
        """Whether a plan has taken rows of a table that its snapshot does not have."""
        return (
            plan.cycle > self.snapshots_by_source.get(source.name, Snapshot()).cycle and plan.records(source.topic) > 0
        )

    @property
    def rows(self) -> int:
        """Those of the snapshots, and what came since."""
        return sum(snapshot.rows for snapshot in self.snapshots_by_source.values()) + sum(
            map(records_of, self.uncovered)
        )
