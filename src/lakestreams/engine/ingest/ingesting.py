"""What a driver ingests: replays that were asked for, Delta tables, and Kafka's topics by a streaming query."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from lakestreams.engine.ingest import batch_metrics, delta_source, topic_identity
from lakestreams.engine.ingest import query as ingest_query
from lakestreams.engine.ingest.hand_over import HandOver
from lakestreams.engine.ingest.table_reader import TableReader
from lakestreams.engine.ingest.writer_schemas import WriterSchemas
from lakestreams.engine.ledger import idle_policy
from lakestreams.engine.ledger.plans import AppendedRange, BronzeState, Ingest, Range
from lakestreams.engine.protocol import commands, decisions, machines
from lakestreams.engine.replay import ingest as replay_ingest
from lakestreams.engine.takeover import tables
from lakestreams.errors import OffsetsExpired
from lakestreams.kafka.cluster_view import ClusterView
from lakestreams.topology.graph import longest_wait_ms

if TYPE_CHECKING:
    from lakestreams.engine.ingest.position import BronzePosition
    from lakestreams.engine.ledger.ledger import Ledger
    from lakestreams.engine.publish.expectations import ExpectationChecker
    from lakestreams.engine.run import Run
    from lakestreams.expectations.rules import RecordRules


@dataclass
class Ingesting:
    """Brings records into bronze, and knows of every batch that is complete.

    Attributes:
        run: the pipeline that was taken over.
        bronze: where bronze stands.
        checker: has the rules that are judged of single records.
        handed: what the ingest query hands over.
        schemas: the writers' schemas of records.
    """

    run: Run
    bronze: BronzePosition
    checker: ExpectationChecker
    handed: HandOver = field(default_factory=HandOver)
    schemas: WriterSchemas = field(init=False)
    _losses: int = 0  # how many rows say that records were lost

    def __post_init__(self) -> None:
        """What the ledger says of schemas is read when the first record needs it."""
        self.schemas = WriterSchemas(self.run.settings.registry)

    @property
    def rules(self) -> RecordRules:
        """What is judged of single records."""
        return self.checker.rules

    @property
    def ledger(self) -> Ledger:
        """The ledger, as rows of batches are written: with what was last seen of the topics."""
        return replace(self.run.ledger, noted=self.bronze.noted)

    def _replays(self, before: BronzeState) -> replay_ingest.ReplayReader:
        run = self.run
        return replay_ingest.ReplayReader(run.spark, self.ledger, run.topology, before, self.rules, self.schemas)

    # --- what is there ---------------------------------------------------------------------------------------------

    def recover(self, view: ClusterView) -> Ingest | None:
        """Closes a batch that a crash left in bronze without a ledger row: the newest batch that there is.

        Args:
            view: the cluster as it is. Partitions of which bronze has nothing count, too, as they would have without a crash:
                how many tasks there are decides where a new key goes.
        """
        run, last = self.run, self.run.history.ingest
        if not run.may_recover:
            return last
        before = BronzeState.after([last] if last else [])
        replays = self._replays(before)

        def hands(command: commands.Command) -> Any:
            match command:
                case commands.Read("tail", seq):
                    sources = run.topology.sources
                    found = batch_metrics.read_back(run.spark, self.ledger, sources, seq, self.rules)
                    topics = run.endpoints.topics
                    read = any(topic in topics for topic, _ in found)  # else nobody has looked at them yet
                    empty = [at for at in view.starts if read and at[0] in topics and at not in before.positions]
                    begins = {at: Range(*at, view.starts[at], view.starts[at]) for at in empty}
                    return {at: AppendedRange(part, 0, 0) for at, part in begins.items()} | found
                case _:
                    return replays(command)

        newest = commands.carry_out(machines.recover(run.ledger.turn, last), hands)
        if newest is not None and newest is not last:
            run.reporter.tell("recovered", seq=newest.seq)
        return newest

    def resume(self, newest: Ingest | None) -> None:
        """Finds the batches that may hold unplanned rows, and when records came.

        Args:
            newest: the newest batch that there is.
        """
        run, plan = self.run, self.run.history.plan
        if plan is not None or newest is not None:
            self.bronze.batches = run.ledger.ingests(run.spark, decisions.oldest_batch(plan, newest))
            run.tuning.holds(max(self.bronze.state.mean_bytes.values(), default=0))
        timeout = run.settings.idle_timeout_ms
        if timeout is not None:
            since = run.now_ms() - idle_policy.longest_idle_ms(timeout, longest_wait_ms(run.topology.nodes))
            self.bronze.arrived = dict.fromkeys(self.bronze.positions, since) | run.ledger.arrivals(run.spark, since)

    # --- whether it is what was read before ------------------------------------------------------------------------

    def require_same_topics(self, view: ClusterView) -> None:
        """Refuses topics and Delta tables that are others than those that bronze holds records of."""
        bronze = self.bronze
        self.run.reporter.warn_once(*topic_identity.warnings(view))
        called = topic_identity.called(self.run.topology)
        topic_identity.require_same(bronze.noted, view, bronze.positions, called, bronze.unplanned)

    def require_unchanged(self, view: ClusterView) -> None:
        """Looks at the topics once more before anything is derived of what was read since the round's start."""
        unplanned = self.bronze.unplanned
        topics = {part.topic for one in unplanned for part in one.ranges if part.records and not part.of_replays}
        topics &= set(self.run.endpoints.topics)
        if topics:
            topic_identity.require_unchanged(view, self.run.endpoints.cluster.topic_ids(topics), {}, unplanned)

    def accept_losses(self, view: ClusterView) -> None:
        """Records that expired before they were read: an error, or written down, once, where the operator says so."""
        run, bronze = self.run, self.bronze
        lost = tables.lost(bronze.positions, view)
        if lost and not bronze.lost:
            bronze.lost = run.ledger.losses(run.spark)
            lost = tables.lost(bronze.positions, view)
        if not lost:
            return
        shown = "\n".join(
            f"{one.topic}-{one.partition}: offsets {one.from_offset} to {one.to_offset - 1}" for one in lost
        )
        if not run.settings.accept_data_loss:
            message = f"records expired before they were ingested:\n{shown}"
            raise OffsetsExpired(message)
        self._losses += 1
        run.ledger.record_loss(run.spark, lost, nth=self._losses)
        bronze.lost |= {one.at: one.to_offset for one in lost}
        run.reporter.warn(f"accepted data loss:\n{shown}")

    # --- ingest ----------------------------------------------------------------------------------------------------

    def requests(self) -> None:
        """Ingests what is to be replayed, a batch a request."""
        while True:
            bronze_state = self.bronze.state
            replays = self._replays(bronze_state)
            steps = machines.ingest_request(self.run.ledger.turn, bronze_state)
            one = commands.carry_out(steps, partial(self._timed, replays))
            if one is None:
                return
            self._complete(one)

    def _timed(self, replays: replay_ingest.ReplayReader, command: commands.Command) -> Any:
        """What is asked in every round takes no time of ingest."""
        if command == commands.Read("requests"):
            return replays(command)
        with self.run.reporter.timed("ingest"):
            return replays(command)

    def tables(self, source_tables: Sequence[delta_source.TableVersion]) -> None:
        """Ingests what is new in Delta tables, in one batch before Kafka's: so they never hold a cycle back."""
        if not source_tables:
            return
        run, bronze_state = self.run, self.bronze.state
        reader = TableReader(run.spark, self.ledger, run.settings.accept_data_loss, self.rules)
        with run.reporter.timed("ingest"), run.tuning.rows(reader.rows(source_tables, bronze_state)):
            one = reader.ingest(source_tables, bronze_state)
        self._complete(one)
        run.reporter.warn(*reader.warnings)
        before, after = (
            delta_source.with_tables(ClusterView({}), looks)
            for looks in (
                source_tables,
                delta_source.examine(run.spark, run.lake, [one.source for one in source_tables])[0],
            )
        )
        called = topic_identity.called(run.topology)
        topic_identity.require_unchanged(before, after.topic_ids, called, self.bronze.unplanned)

    @contextmanager
    def pending_rows(self) -> Iterator[None]:
        """While this is open, rows that close Kafka's batches are appended while cycles run; at its end they are there."""
        failure = partial(ingest_query.failure, self.run.topology.name, topics=self.run.endpoints.topics)
        with self.handed.pending.round(failure):
            yield

    def take_note(self) -> None:
        """Takes note of what the ingest query has closed."""
        batches = self.bronze.batches
        seq = batches[-1].seq if batches else 0
        fresh = self.handed.take(seq)
        if fresh is None:  # none yet, or the function ran in another process: Spark Connect's worker
            fresh = self.run.ledger.ingests(self.run.spark, seq + 1)
        for one in fresh:
            self._complete(one)

    def _complete(self, batch: Ingest) -> None:
        """Takes note of a batch that was closed."""
        run = self.run
        self.bronze.add(batch, run.now_ms())
        run.tuning.holds(max(batch.mean_bytes.values(), default=0))
        run.reporter.tell("ingested", seq=batch.seq, records=sum(part.records for part in batch.ranges))


__all__ = ["Ingesting"]
