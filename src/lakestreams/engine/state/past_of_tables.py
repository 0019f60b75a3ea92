"""The past where streams only look tables up: a snapshot of each table source, and the bronze rows behind it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.engine.ledger.ledger import Ledger
from lakestreams.engine.ledger.plans import History, Plan
from lakestreams.engine.runtime.tuning import FEW
from lakestreams.engine.state import snapshots
from lakestreams.engine.state.held import Held
from lakestreams.engine.state.inputs import first_of_all, partitions_of, readable, records_of
from lakestreams.engine.state.snapshots import Snapshot
from lakestreams.evaluate.inputs import Inputs, Results
from lakestreams.operators.records import STREAM_SIDE, records

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakestreams.topology.endpoints import Source
    from lakestreams.topology.topology import Topology


@dataclass
class OfTables:
    """Snapshots of the table sources and the plans behind them."""

    spark: SparkSession
    ledger: Ledger
    topology: Topology
    every: int
    tail: list[Plan] = field(default_factory=list)  # finished, with table records that some snapshot does not cover
    standing: dict[str, Snapshot] = field(default_factory=dict)
    _held: Held = field(default_factory=Held)

    @property
    def _tables(self) -> list[Source]:
        return [source for source in self.topology.sources if source.kind != "stream"]

    def resume(self, history: History) -> None:
        """Finds the snapshots, and the finished plans that they do not cover."""
        self.standing = {source.name: self._found(source) for source in self._tables}
        if history.plan is not None and self._tables:
            behind = {source.topic: self.standing[source.name].cycle for source in self._tables}
            plans = self.ledger.plans_behind(self.spark, behind)
            self.tail = [plan for plan in plans if plan.cycle <= history.done_cycle]

    def inputs(self, plan: Plan) -> Inputs:
        """The stream records of the cycle; tables with all that is known of them."""
        streams, tables, counts, changes = {}, {}, {}, {}
        for source in self.topology.sources:
            if source.kind == "stream":
                rows = readable(self.spark, self.ledger, self.topology, source, [plan]).where(F.col("v").isNotNull())
                counts[source.name] = plan.records(source.topic)
                one = records(rows, source.topic, STREAM_SIDE, F.lit(plan.cycle))
                streams[source.name] = self._few(one, counts[source.name])
            else:
                snapshot = self.standing.get(source.name, Snapshot())
                side, rows_about, changed = snapshots.side(
                    self.spark, self.ledger, source, snapshot, [*self.tail, plan], self.topology.expectations
                )
                if side.changes is not None:
                    side = replace(side, changes=self._few(side.changes, changed))
                tables[source.name] = side.each(first_of_all) if source.kind == "global_table" else side
                counts[source.name], changes[source.name] = rows_about, changed
        return Inputs(streams, tables, plan.cycle, counts, changes, partitions_of([plan]), hold=self._held)

    def _few(self, rows: DataFrame, count: int) -> DataFrame:
        """Records out of bronze, held if they are few: beside a large table the statement is planned and compiled for many.

        Held, they are found and read once and as suits few, and the statement's code no longer has their offsets in it,
        which differ from cycle to cycle.
        """
        return self._held(rows) if 0 < count <= FEW else rows

    def held(self, plan: Plan) -> int:  # noqa: ARG002 - as every past
        """Only few, whatever the plan has."""
        return 0

    def executed(self, plan: Plan, results: Results) -> None:  # noqa: ARG002 - as every past
        """Holds nothing any more."""
        self._held.release()

    def released(self) -> None:
        """Holds nothing any more."""
        self._held.release()

    def finished(self, plan: Plan) -> None:
        """Keeps a plan with table records."""
        if any(plan.records(source.topic) for source in self._tables):
            self.tail.append(plan)

    def refresh(self) -> list[tuple[str, int]]:
        """Folds finished cycles into the snapshots that are due, and forgets plans that none of them lacks."""
        stored = []
        for source in self._tables:
            standing = self.standing.get(source.name, Snapshot())
            if self.tail and snapshots.due(source, standing, self.tail, self.every):
                snapshots.refresh(self.spark, self.ledger, source, standing, self.tail, self.topology.expectations)
                self.standing[source.name] = self._found(source, own=True)
                stored.append((source.name, self.standing[source.name].rows))
        self.tail = [plan for plan in self.tail if any(self._lacks(source, plan) for source in self._tables)]
        return stored

    def _found(self, source: Source, *, own: bool = False) -> Snapshot:
        return snapshots.find(self.spark, self.ledger, source, self.topology.expectations, own=own)

    def _lacks(self, source: Source, plan: Plan) -> bool:
        """Whether a plan has taken rows of a table that its snapshot does not have."""
        return plan.cycle > self.standing.get(source.name, Snapshot()).cycle and plan.records(source.topic) > 0

    @property
    def rows(self) -> int:
        """Those of the snapshots, and what came since."""
        return sum(snapshot.rows for snapshot in self.standing.values()) + sum(map(records_of, self.tail))
