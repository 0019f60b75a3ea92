"""Ingest: one Structured Streaming query over all topics of a pipeline, appended raw and typed to bronze.

Bronze is the truth of what was ingested: offsets, sequence numbers and stream times go on from what lies in bronze, so
a lost checkpoint, a repeated batch or a crash between two topics' appends neither loses nor doubles a record. The
ledger's newest `ingest` row stands for the bronze rows up to its sequence number; only rows past it are looked at
(docs/decisions/0003-positions.md).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.engine.ingest import batch_metrics
from lakestreams.engine.ingest.batch_metrics import Weight
from lakestreams.engine.ingest.batch_size import BatchSize, Resized
from lakestreams.engine.ingest.bronze_rows import as_read, bronze_rows, placing
from lakestreams.engine.ingest.checkpoint import read_offsets
from lakestreams.engine.ingest.hand_over import HandOver
from lakestreams.engine.ingest.idempotent_append import append_once
from lakestreams.engine.ingest.own_scans import OwnScans, Part
from lakestreams.engine.ingest.writer_schemas import WriterSchemas
from lakestreams.engine.ledger.ledger import Ledger
from lakestreams.engine.ledger.plans import AppendedRange, BronzeState, Ingest
from lakestreams.engine.protocol import commands, decisions, machines
from lakestreams.engine.runtime.parallel import in_parallel
from lakestreams.engine.runtime.tuning import SHUFFLES, SMALL_INPUT
from lakestreams.errors import Fenced
from lakestreams.expectations.rules import RecordRules
from lakestreams.kafka.noted import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.operators.noted_homes import Homes
    from lakestreams.topology.endpoints import Source


@dataclass(frozen=True)
class Reported:
    """What an append tells of its topic; None and nothing: it could not.

    Attributes:
        homes: as in `Range.homes`.
    """

    appended: Mapping[TopicPartition, AppendedRange] | None = None
    weight: Weight | None = None
    homes: Mapping[TopicPartition, Homes] = field(default_factory=dict)


@dataclass(frozen=True)
class BatchWriter:
    """The function of foreachBatch: plain data, so that it can travel to Spark Connect's worker.

    Attributes:
        ledger: of the running epoch.
        sources: the pipeline's sources.
        checkpoint: the folder of the checkpoint's generation.
        first: where bronze stood when the query was started.
        rules: what is judged of single records.
        shuffles: how many tasks a stage has behind an exchange. Spark gives a batch what the checkpoint's first one had,
            however many rows that was set for.
        batch_size: how many offsets the batches have; None: as many as they have, for ever.
        handed: what the driver gets from here, and waits for.
        schemas: the writers' schemas of records.
        scans: reads the topics of a batch of many records, each by itself.
        grouping: topics of which it matters whether their keys lie at home.
    """

    ledger: Ledger
    sources: tuple[Source, ...]
    checkpoint: str
    first: BronzeState
    rules: RecordRules = field(default_factory=RecordRules)
    shuffles: str | None = None
    batch_size: BatchSize | None = None
    handed: HandOver = field(default_factory=HandOver, compare=False)
    schemas: WriterSchemas = field(default_factory=WriterSchemas)
    scans: OwnScans = field(default_factory=OwnScans, compare=False)
    grouping: frozenset[str] = frozenset()

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Appends one batch to bronze and closes it in the ledger.

        Raises:
            Resized: behind a batch that is closed, if the next ones are to be larger or smaller.
        """
        spark = batch.sparkSession
        # raw values hardly repeat: trying dictionaries on them costs half of the write
        _set(spark, "parquet.enable.dictionary", "false")
        if self.shuffles is not None:
            _set(spark, SHUFFLES, self.shuffles)
        before = decisions.begins(self.first, self.handed.behind(self.first.seq))
        ends = read_offsets(Path(self.checkpoint) / "offsets" / str(batch_id))
        touched = [source for source in self.sources if not ends or decisions.news_of(source.topic, before, ends)]
        if not touched:
            return
        scans = None
        if len(touched) > 1 and _news(ends, before) > SMALL_INPUT:
            scans = self.scans.of_batch(spark, self.checkpoint, batch_id, before, ends)
        one = _Batch(self, batch, scans, touched, before, ends, time.time_ns() // 1_000_000)
        commands.carry_out(machines.batch(self.ledger.turn, before, tuple(one.sources), ends), one)
        if one.following is not None:  # whoever goes on from the checkpoint gets this batch once more, and drops it
            raise Resized(one.following)

    def following(self, news: int, weights: Mapping[str, Weight | None]) -> int | None:
        """How many offsets the next batches are to have, if that is another number than now."""
        known = [weight for weight in weights.values() if weight is not None]
        records = sum(weight.records for weight in known)
        if self.batch_size is None or len(known) < len(weights) or not records:
            return None
        offsets = self.batch_size.after(news, sum(weight.bytes for weight in known) / records)
        return offsets if offsets != self.batch_size.offsets else None


class _Batch:
    """The hands of `machines.batch` for one batch of Kafka's.

    Args:
        writer: what is the same for all batches of a query.
        rows: the batch, as Spark's source gives it.
        scans: what reads one topic's part of it; None: the batch is held, and each topic's part is taken from there.
        touched: the sources that may have rows of it.
        before: where bronze stood.
        ends: where it ends, as far as that is known.
        ingest_time_ms: of its rows.

    Attributes:
        following: how many offsets the next batches are to have, if that is another number than now.
    """

    def __init__(
        self,
        writer: BatchWriter,
        rows: DataFrame,
        scans: Part | None,
        touched: Sequence[Source],
        before: BronzeState,
        ends: Mapping[TopicPartition, int],
        ingest_time_ms: int,
    ) -> None:
        self.sources = {source.topic: source for source in touched}
        self.following: int | None = None
        # a task a partition costs more than a few records; in one, too, each partition's stay in order
        self._small = 0 < _news(ends, before) <= SMALL_INPUT
        self._rows = rows.coalesce(1) if self._small else rows
        self._writer, self._scans, self._before, self._ends = writer, scans, before, ends
        self._spark, self._ingest_time_ms = rows.sparkSession, ingest_time_ms
        self._reported: list[Reported] = []

    def __call__(self, command: commands.Command) -> Any:
        """Does what a command says, and gives the answer.

        Raises:
            Fenced: if a newer driver runs the pipeline.
        """
        writer = self._writer
        match command:
            case commands.Wait():
                writer.handed.pending.begin()
                writer.handed.pending.settled()
            case commands.Together(appends):
                with self._parts(several=len(appends) > 1) as part:
                    self._reported = in_parallel(self._spark, [partial(self._append, part, one) for one in appends])
            case commands.Read("tail"):
                return self._appended()
            case commands.Append(row=(_, _, Ingest() as finished), pending=pending):
                self._close(finished, pending=pending)
        return True

    @contextlib.contextmanager
    def _parts(self, *, several: bool) -> Iterator[Part]:
        """What gives each topic's part: a scan of its own, or the batch, which is held if several topics read it."""
        if self._scans is not None:
            yield self._scans
            return
        with kept_in_memory(self._rows, worth_it=several) as held:
            yield lambda topic: held.where(F.col("topic") == topic)

    def _append(self, part: Part, append: commands.Append) -> Reported:
        """Appends one topic's part: what the append has reported of it, if it was asked and could tell."""
        writer, source, seq, now = self._writer, self.sources[append.table], self._before.seq + 1, self._ingest_time_ms
        own = {partition: at for (topic, partition), at in self._before.positions.items() if topic == source.topic}
        news = {partition: end - first for partition, first, end in append.row[1]}
        placed = as_read if self._small else placing(news, _get(self._spark, SHUFFLES))
        raw = part(source.topic)
        small = 0 < sum(news.values()) <= SMALL_INPUT
        partitions = sum(topic == source.topic for topic, _ in self._ends) if source.topic in writer.grouping else 0

        def written(reading: Source) -> Reported:
            rows = bronze_rows(raw, reading, own, seq, now, placed, counted=True, partitions=partitions)
            metrics = batch_metrics.AppendMetrics(
                writer.ledger, source, sorted(news) if small else None, writer.rules, seq, now
            )
            writer.ledger.failpoint("bronze.before", source.topic)
            once = append_once(self._spark, writer.ledger, source.topic, metrics.of(rows), append.transaction)
            writer.ledger.failpoint("bronze.after", source.topic)
            return Reported(metrics.appended(), metrics.weight(), metrics.homes(partitions)) if once else Reported()

        return writer.schemas.append(writer.ledger, raw, source, written)

    def _appended(self) -> Mapping[TopicPartition, AppendedRange]:
        """What bronze holds of the batch: what the appends have reported, if they all have."""
        found: dict[TopicPartition, AppendedRange] = {}
        for one in self._reported:
            if one.appended is None:
                sources, writer = list(self.sources.values()), self._writer
                found = dict(
                    read_back(self._spark, writer.ledger, sources, self._before, self._ingest_time_ms, writer.rules)
                )
                break
            found |= one.appended
        homes = {at: own for one in self._reported for at, own in one.homes.items()}
        return {at: replace(part, range=replace(part.range, homes=homes.get(at, {}))) for at, part in found.items()}

    def _close(self, finished: Ingest, *, pending: bool) -> None:
        """Appends the row that closes it; what was weighed stands in it, too."""
        writer, spark = self._writer, self._spark
        weights = {topic: one.weight for topic, one in zip(self.sources, self._reported, strict=True)}
        one_by_one = {topic: one.one_by_one for topic, one in weights.items() if one is not None}
        means = {**self._before.mean_bytes, **_means(weights)}
        made = replace(finished, mean_bytes=means, one_by_one=one_by_one)
        self.following = writer.following(_news(self._ends, self._before), weights)
        waits = self.following is not None or not pending
        record, row = partial(writer.ledger.record, spark), writer.ledger.ingest_row(made)
        writer.handed.pending.append(record, row, waits=waits, holds=True, of_query=True)
        writer.handed.closed(made)


def read_back(
    spark: SparkSession,
    ledger: Ledger,
    touched: Sequence[Source],
    before: BronzeState,
    ingest_time_ms: int,
    rules: RecordRules,
) -> Mapping[TopicPartition, AppendedRange]:
    """What bronze really holds of a batch.

    Args:
        ledger: of the running epoch.
        touched: the sources that may have rows of it.
        before: where bronze stood.
        ingest_time_ms: of its rows.
        rules: what is judged of single records.

    Raises:
        Fenced: if other rows stand under its sequence number. Spark Connect's worker, started again in the middle of a
            run, knows no batch of the run, and its append was skipped as a repetition.
    """
    found = batch_metrics.read_back(spark, ledger, touched, before.seq, rules)
    if any(part.ingest_time_ms != ingest_time_ms for part in found.values()):
        message = f"batch {before.seq + 1} of pipeline {ledger.pipeline} was ingested by another worker"
        raise Fenced(message)
    return found


def _means(weights: Mapping[str, Weight | None]) -> dict[str, int]:
    """Topic to the bytes of a record, of those that had any and were weighed."""
    return {topic: -(-one.bytes // one.records) for topic, one in weights.items() if one is not None and one.records}


def _news(ends: Mapping[TopicPartition, int], before: BronzeState) -> int:
    """How many offsets a batch has, as far as that is known."""
    return sum(max(0, end - before.offset(at)) for at, end in ends.items())


def _set(spark: SparkSession, name: str, value: str) -> None:
    """Sets the batch's own session, where compute takes the setting: it is only a speed-up."""
    with contextlib.suppress(Exception):
        spark.conf.set(name, value)


def _get(spark: SparkSession, name: str) -> str | None:
    with contextlib.suppress(Exception):  # some compute hides its settings
        return spark.conf.get(name, None)
    return None


@contextlib.contextmanager
def kept_in_memory(batch: DataFrame, *, worth_it: bool = True) -> Iterator[DataFrame]:
    """The batch held in memory, so that it is read once for several uses; where that is refused, it is not."""
    held = None
    if worth_it:
        with contextlib.suppress(Exception):  # serverless compute refuses persist; reading twice is right as well
            held = batch.persist()
    try:
        yield held if held is not None else batch
    finally:
        if held is not None:
            held.unpersist()
