"""One round: looks at the topics, ingests up to the ends of now, and runs cycles over what is settled, then over the rest."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakestreams.engine.ingest import delta_source
from lakestreams.engine.ingest.kafka import KafkaIngest, Lag
from lakestreams.engine.state import policy
from lakestreams.errors import TopologyInvalid
from lakestreams.expectations.rules import RecordRules
from lakestreams.topology.partitions import co_partitioning

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakestreams.engine.cycles import Cycles
    from lakestreams.engine.ingest.ingesting import Ingesting
    from lakestreams.engine.run import Run
    from lakestreams.kafka.cluster_view import ClusterView


@dataclass(frozen=True)
class Round:
    """What each round of a run does.

    Attributes:
        run: the pipeline that was taken over.
        ingesting: brings records into bronze.
        cycles: brings them from there to the outputs.
    """

    run: Run
    ingesting: Ingesting
    cycles: Cycles

    def __call__(self, again_in_s: float | None) -> None:
        """Runs one round, and writes events that are due.

        Args:
            again_in_s: when the next round begins; None: nobody knows.
        """
        follows = policy.follows(again_in_s) and not self.run.topology.kafka_sinks
        before = self.cycles.last.number
        try:
            self._ingest_and_process()
            if follows and self.cycles.last.number > before:
                self.cycles.leave_open()
            else:
                self.cycles.finish()
            if self.cycles.events.due:  # of a cycle that is left open, or that was closed before
                self.cycles.write_events()
        except Exception:
            # nothing is wrong with a cycle that was left: no other configuration shall meet it open
            with contextlib.suppress(Exception):
                self.cycles.close_left()
            raise

    def end(self) -> None:
        """Closes and writes of the event log what rounds have left."""
        self.cycles.finish()
        if self.cycles.events.waiting:
            self.cycles.write_events()

    def _ingest_and_process(self) -> None:
        with self.run.reporter.timed("look"):
            view, tables = self._look()
        lag = self._lag(view)
        self.run.reporter.tell("started", lag=lag.offsets)
        unread = delta_source.pending(tables, self.ingesting.bronze.positions)
        self.ingesting.requests()
        self.ingesting.tables(unread)
        with self.ingesting.pending_rows():
            if lag.pending or (self.run.endpoints.topics and not lag.is_known):
                # a partition of which nothing is retained has nothing to wait for
                ends = {at: end for at, end in view.ends.items() if end > view.starts.get(at, 0)}
                KafkaIngest(self.ingesting, view, lambda: self.cycles.process(ends, view)).run(lag)
            self.cycles.pass_time(view, self.cycles.process({}, view))

    def _look(self) -> tuple[ClusterView, Sequence[delta_source.TableVersion]]:
        """The topics and Delta tables as they are now, if they are those that were read before."""
        endpoints, bronze = self.run.endpoints, self.ingesting.bronze
        tables, unfit = endpoints.tables()
        if unfit:  # since the run began
            raise TopologyInvalid(unfit, self.run.topology.name)
        view = endpoints.own(endpoints.view(tables))
        self.ingesting.require_same_topics(view)
        bronze.noted = bronze.noted.then(view.noted)
        self._require_equal_counts(view)
        self.ingesting.accept_losses(view)
        return view, tables

    def _require_equal_counts(self, view: ClusterView) -> None:
        """Looks at partition counts again where a topic has grown since they were looked at.

        Raises:
            TopologyInvalid: where a join requires equal ones and they are not any more.
        """
        checker, topology = self.cycles.checker, self.run.topology
        if dict(view.partitions) == dict(checker.rules.partitions):
            return
        unequal, warnings = co_partitioning(topology.nodes, view.partitions)
        if unequal:
            raise TopologyInvalid(unequal, topology.name)
        self.run.reporter.warn_once(*warnings)
        checker.rules = RecordRules(topology.expectations, view.partitions)

    def _lag(self, view: ClusterView) -> Lag:
        """What Kafka's topics have that is not in bronze."""
        positions = self.ingesting.bronze.positions
        ends = {at: end for at, end in view.ends.items() if not delta_source.is_delta(at[0])}
        known = {at: positions.get(at, view.starts.get(at, 0)) for at in ends}
        return Lag(known, {at: end for at, end in ends.items() if known[at] < end}, bool(ends))


__all__ = ["Round"]
