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
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.engine.ingest import batch_metrics
from lakestreams.engine.ingest.batch_metrics import Weight
from lakestreams.engine.ingest.batch_size import Pace, Resized
from lakestreams.engine.ingest.bronze_rows import bronze_rows, spread_of
from lakestreams.engine.ingest.checkpoint import read_offsets
from lakestreams.engine.ingest.hand_over import HandOver
from lakestreams.engine.ingest.idempotent_append import append_once
from lakestreams.engine.ingest.writer_schemas import WriterSchemas
from lakestreams.engine.ledger.ledger import Ledger
from lakestreams.engine.ledger.plans import Ingest, Position, Standing, Tail
from lakestreams.engine.protocol import decisions
from lakestreams.engine.runtime.failpoints import failpoint
from lakestreams.engine.runtime.parallel import side_by_side
from lakestreams.engine.runtime.tuning import FEW, SHUFFLES
from lakestreams.errors import Fenced
from lakestreams.expectations.rules import RecordRules
from lakestreams.kafka.noted import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.topology.endpoints import Source


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
        pace: how many offsets the batches have; None: as many as they have, for ever.
        handed: what the driver gets from here, and waits for.
        schemas: the writers' schemas of records.
    """

    ledger: Ledger
    sources: tuple[Source, ...]
    checkpoint: str
    first: Standing
    rules: RecordRules = field(default_factory=RecordRules)
    shuffles: str | None = None
    pace: Pace | None = None
    handed: HandOver = field(default_factory=HandOver, compare=False)
    schemas: WriterSchemas = field(default_factory=WriterSchemas)

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Appends one batch to bronze and closes it in the ledger.

        Raises:
            Resized: behind a batch that is closed, if the next ones are to be larger or smaller.
        """
        spark = batch.sparkSession
        self.handed.pending.settled()  # of one batch at most the ledger does not know: decision 0003
        # raw values hardly repeat: trying dictionaries on them costs half of the write
        _set(spark, "parquet.enable.dictionary", "false")
        if self.shuffles is not None:
            _set(spark, SHUFFLES, self.shuffles)
        newer = self.handed.behind(self.first.seq)
        before = Standing.after(newer) if newer else self.first
        ends = read_offsets(Path(self.checkpoint) / "offsets" / str(batch_id))
        touched = [source for source in self.sources if _has_news(source.topic, ends, before.positions)]
        if not touched:
            return
        now = time.time_ns() // 1_000_000
        if 0 < _news(ends, before.positions) <= FEW:  # a task a partition costs more than its records
            batch = batch.coalesce(1)
        with kept_in_memory(batch, worth_it=len(touched) > 1) as held:
            parts = side_by_side(
                spark, [partial(self._append, spark, held, source, before, ends, now) for source in touched]
            )
        told: dict[TopicPartition, Tail] | None = {}
        weights = {source.topic: weight for source, (_, weight) in zip(touched, parts, strict=True)}
        for own, _ in parts:
            told = None if told is None or own is None else told | own
        ingest = complete(spark, self.ledger, touched, before, before.seq + 1, ends, now, self.rules, told)
        ingest = replace(ingest, mean_bytes={**before.mean_bytes, **_means(weights)})
        offsets = self._following(_news(ends, before.positions), weights)
        waits = offsets is not None or not decisions.may_close_later(ingest)
        self.handed.pending.append(lambda: self.ledger.record_ingest(spark, ingest), waits=waits)
        self.handed.closed(ingest)
        if offsets is not None:  # whoever goes on from the checkpoint gets this batch once more, and drops it
            raise Resized(offsets)

    def _following(self, news: int, weights: Mapping[str, Weight | None]) -> int | None:
        """How many offsets the next batches are to have, if that is another number than now."""
        known = [weight for weight in weights.values() if weight is not None]
        records = sum(weight.records for weight in known)
        if self.pace is None or len(known) < len(weights) or not records:
            return None
        offsets = self.pace.after(news, sum(weight.bytes for weight in known) / records)
        return offsets if offsets != self.pace.offsets else None

    def _append(
        self,
        spark: SparkSession,
        batch: DataFrame,
        source: Source,
        before: Standing,
        ends: Mapping[TopicPartition, int],
        now: int,
    ) -> tuple[dict[TopicPartition, Tail] | None, Weight | None]:
        """Appends one topic's part: what the append has told of it, if it was asked and could tell."""
        positions, seq = before.positions, before.seq + 1
        own = {partition: position for (topic, partition), position in positions.items() if topic == source.topic}
        news = {at[1]: end - known.offset for at, end in ends.items() if at[0] == source.topic
                for known in (positions.get(at, Position(0)),) if end > known.offset}  # fmt: skip
        spread = spread_of(news, _get(spark, SHUFFLES))
        raw = batch.where(F.col("topic") == source.topic)
        few = 0 < sum(news.values()) <= FEW

        def append(reading: Source) -> tuple[dict[TopicPartition, Tail] | None, Weight | None]:
            rows = bronze_rows(raw, reading, own, seq, now, spread)
            telling = batch_metrics.Telling(self.ledger, source, sorted(news) if few else None, self.rules, seq, now)
            failpoint("bronze.before", source.topic)
            once = append_once(spark, self.ledger, source.topic, telling.of(rows), seq)
            failpoint("bronze.after", source.topic)
            return (telling.tails(), telling.weight()) if once else (None, None)

        return self.schemas.append(self.ledger, raw, source, append)


def complete(
    spark: SparkSession,
    ledger: Ledger,
    touched: Sequence[Source],
    before: Standing,
    seq: int,
    ends: Mapping[TopicPartition, int],
    ingest_time_ms: int | None,
    rules: RecordRules,
    told: Mapping[TopicPartition, Tail] | None = None,
) -> Ingest:
    """What the ledger's row that closes a bronze batch is to say, from what bronze really holds of it.

    Args:
        ledger: of the running epoch.
        touched: the sources that may have rows of it.
        before: where bronze stood.
        ends: where it ends, as far as that is known.
        ingest_time_ms: of its rows; None: it may have been taken over.
        rules: what is judged of single records.
        told: what the appends have told of it; by default it is read back.

    Raises:
        Fenced: if other rows stand under this sequence number. Spark Connect's worker, started anew in the middle of a
            run, knows no batch of the run, and its append was skipped as a repetition.
    """
    found = batch_metrics.read_back(spark, ledger, touched, before.seq, rules) if told is None else told
    for part in found.values():
        if ingest_time_ms is not None and part.ingest_time_ms != ingest_time_ms:
            message = f"batch {seq} of pipeline {ledger.pipeline} was ingested by another worker"
            raise Fenced(message)
    return decisions.closed(before, found, ends)


def _means(weights: Mapping[str, Weight | None]) -> dict[str, int]:
    """Topic to the bytes of a record, of those that had any and were weighed."""
    return {topic: -(-one.bytes // one.records) for topic, one in weights.items() if one is not None and one.records}


def _has_news(topic: str, ends: Mapping[TopicPartition, int], positions: Mapping[TopicPartition, Position]) -> bool:
    """Whether a batch has records of a topic, as far as its offsets tell; when they do not, it may."""
    if not ends:
        return True
    return any(end > (positions[at].offset if at in positions else 0) for at, end in ends.items() if at[0] == topic)


def _news(ends: Mapping[TopicPartition, int], positions: Mapping[TopicPartition, Position]) -> int:
    """How many offsets a batch has, as far as that is known."""
    return sum(max(0, end - (positions[at].offset if at in positions else 0)) for at, end in ends.items())


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
