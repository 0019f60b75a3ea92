"""Ingest from Kafka's topics: streaming queries up to the ends of now, with batches of a size that memory allows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lakestreams.engine.ingest import batches, checkpoint, record_sizes
from lakestreams.engine.ingest import query as ingest_query
from lakestreams.engine.ingest.batch_size import BatchSize, Resized, in_doubt, mean_of
from lakestreams.engine.ingest.own_scans import OwnScans
from lakestreams.engine.runtime import callbacks
from lakestreams.engine.runtime.tuning import SHUFFLES
from lakestreams.topology.partitions import topics_that_group

if TYPE_CHECKING:
    from lakestreams.engine.ingest.ingesting import Ingesting
    from lakestreams.kafka.cluster_view import ClusterView
    from lakestreams.kafka.noted import TopicPartition

_UNKNOWN = 1 << 62  # as many rows as there may be


@dataclass(frozen=True)
class Lag:
    """What is in the topics and not in bronze.

    Attributes:
        positions: up to where partitions are read.
        pending: where those end that have something new.
        is_known: whether any partition is known.
    """

    positions: Mapping[TopicPartition, int]
    pending: Mapping[TopicPartition, int]
    is_known: bool

    @property
    def offsets(self) -> int:
        """How many offsets that are."""
        return sum(end - self.positions[at] for at, end in self.pending.items())


@dataclass(frozen=True)
class KafkaIngest:
    """The ingest from Kafka of one round.

    Attributes:
        ingesting: what of the run it is of.
        view: the cluster at the round's start.
        after_batch: called behind each batch but the last, while the query goes on.
    """

    ingesting: Ingesting
    view: ClusterView
    after_batch: Callable[[], object]

    def run(self, lag: Lag) -> None:
        """Ingests up to the ends of now."""
        batch_size = self._batch_size(lag)
        with self.ingesting.run.tuning.rows(min(lag.offsets, batch_size.most) if lag.is_known else _UNKNOWN):
            while True:
                try:
                    self._go_on(batch_size)
                except Resized as resized:  # records are much heavier or lighter than before
                    batch_size = replace(batch_size, offsets=resized.offsets)
                    self.ingesting.take_note()  # of what is closed: the next query begins behind it
                    self.ingesting.run.reporter.tell("resized", offsets=resized.offsets)
                else:
                    return

    def _batch_size(self, lag: Lag) -> BatchSize:
        """How many offsets a batch is to have, by what records weigh; if these may be heavy some are looked at."""
        run = self.ingesting.run
        most, most_bytes = run.settings.max_offsets_per_trigger, run.settings.max_bytes_per_batch
        means = dict(self.ingesting.bronze.state.mean_bytes)
        lags: dict[str, int] = {}
        for at, end in lag.pending.items():
            lags[at[0]] = lags.get(at[0], 0) + end - lag.positions[at]
        with run.reporter.timed("look"):
            new = lags.keys() - means.keys()
            largest = run.endpoints.cluster.most_bytes(new) if new else {}
            if in_doubt(most_bytes, lags, means, largest):
                options = {**ingest_query.READER, **run.settings.kafka}
                found = record_sizes.sample(run.spark, options, lag.positions, lag.pending)
                means |= {topic: max(means.get(topic, 0), mean) for topic, mean in found.items()}
        run.tuning.holds(max([means.get(topic) or largest.get(topic, 0) for topic in lags], default=0))
        return replace(BatchSize.of(most, most_bytes, mean_of(lags, means)), means=means)

    def _go_on(self, batch_size: BatchSize) -> None:
        """Runs one query from the newest checkpoint, or from a new one where Spark refuses that."""
        run = self.ingesting.run
        root = run.lake.checkpoints(run.topology.name)
        positions = self.ingesting.bronze.positions
        for at, start in self.view.starts.items():  # expired offsets, accepted: Spark would refuse to start there
            if at in positions and positions[at] < start:
                positions[at] = start
        topics = run.endpoints.topics
        partitions = [at for at in self.view.ends if at[0] in topics]
        generation = checkpoint.choose_generation(root, topics, partitions, positions)
        try:
            self._query(generation, batch_size)
        except ingest_query.CheckpointRefused as refused:  # bronze is the truth: what comes again is dropped
            run.reporter.warn(
                f"Spark could not go on from the checkpoint {generation.path}; a new one begins where bronze ends"
            )
            run.reporter.tell("checkpoint", refused=str(generation.path), because=refused.failure.message)
            self._query(checkpoint.new_generation(root, partitions, positions), batch_size)

    def _query(self, generation: checkpoint.Generation, batch_size: BatchSize) -> None:
        """Runs the ingest query up to the ends of now; cycles run meanwhile, over what is settled."""
        run = self.ingesting.run
        with run.reporter.timed("ingest"):
            query = self._started(generation, batch_size)
        seen: int | None = None
        try:
            while query.active:
                with run.reporter.timed("ingest"):  # without the time of cycles, although the query goes on meanwhile
                    query.wait()
                batch = query.last_batch
                if batch is not None and batch != seen and query.active:
                    seen = batch
                    self.after_batch()
            query.require_success()
        except BaseException:  # of the ingest or of a cycle, which is no fault of the ingest
            query.stop()
            raise
        finally:
            callbacks.release_idle(run.spark)

    def _started(self, generation: checkpoint.Generation, batch_size: BatchSize) -> ingest_query.IngestQuery:
        run, bronze = self.ingesting.run, self.ingesting.bronze
        bronze_state, positions = bronze.state, bronze.positions
        # what was looked at counts where no append is weighed: else each round would look again
        first = replace(bronze_state, mean_bytes={**batch_size.means, **bronze_state.mean_bytes})
        # a checkpoint may stand before what was accepted as lost in an earlier run, where Spark would refuse to start
        behind = any(at in positions and bronze_state.offset(at) < lost for at, lost in bronze.lost.items())
        accept = run.settings.accept_data_loss or behind
        settings = replace(run.settings, accept_data_loss=accept, max_offsets_per_trigger=batch_size.offsets)
        writer = batches.BatchWriter(
            self.ingesting.ledger,
            tuple(source for source in run.topology.sources if source.delta is None),
            str(generation.path),
            first,
            self.ingesting.rules,
            run.spark.conf.get(SHUFFLES),
            batch_size,
            self.ingesting.handed,
            self.ingesting.schemas,
            OwnScans(ingest_query.reader_options(settings)),
            topics_that_group(run.topology.nodes),
        )
        topics = run.endpoints.topics
        return ingest_query.IngestQuery(run.spark, run.topology.name, settings, generation, topics, writer)


__all__ = ["KafkaIngest", "Lag"]
