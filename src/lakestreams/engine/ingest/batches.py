"""Ingest: one Structured Streaming query over all topics of a pipeline, appended raw and typed to bronze.

Bronze is the truth of what was ingested: offsets, sequence numbers and stream times go on from what lies in bronze, so
a lost checkpoint, a repeated batch or a crash between two topics' appends neither loses nor doubles a record. The
ledger's newest `ingest` row stands for the bronze rows up to its sequence number; only rows past it are looked at
(docs/decisions/0003-positions.md).
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from operator import or_
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.engine.ingest import batch_metrics, pending_append
from lakestreams.engine.ingest.batch_metrics import Weight
from lakestreams.engine.ingest.batch_size import Pace, Resized
from lakestreams.engine.ingest.checkpoint import read_offsets
from lakestreams.engine.ingest.idempotent_append import append_once
from lakestreams.engine.ledger.ledger import Ledger
from lakestreams.engine.ledger.plans import NO_TIME, Ingest, Position, Standing, Tail
from lakestreams.engine.protocol import decisions
from lakestreams.engine.runtime.failpoints import failpoint
from lakestreams.engine.runtime.lake import OWNER, Lake, owned_by
from lakestreams.engine.runtime.parallel import side_by_side
from lakestreams.engine.runtime.tuning import FEW, SHUFFLES
from lakestreams.errors import Fenced
from lakestreams.expectations.rules import RecordRules
from lakestreams.formats.base import struct_type
from lakestreams.kafka.noted import TopicPartition
from lakestreams.operators.balance import lanes

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession
    from pyspark.sql.types import StructType

    from lakestreams.topology.endpoints import Source

ERROR_TYPE = "struct<code: string, message: string>"
HEADERS_TYPE = "array<struct<key: string, value: binary>>"
# Only what the engine selects by; statistics of the payload would cost a pass over it. The change data feed, which
# another pipeline reads, costs nothing where rows are only appended.
_PROPERTIES = {
    "delta.dataSkippingStatsColumns": "partition,offset,seq,event_time_ms,stream_time_ms",
    "delta.enableChangeDataFeed": "true",
}

LANE = "_lane"
MALFORMED_KEY, MALFORMED_VALUE = "MALFORMED_KEY", "MALFORMED_VALUE"
NO_TIMESTAMP, FUTURE_TIMESTAMP = "NO_TIMESTAMP", "FUTURE_TIMESTAMP"


@dataclass(frozen=True)
class Spread:
    """Over which tasks the partitions of a topic are spread.

    Attributes:
        lanes: partition to the number that is hashed in its place (see `operators/balance.py`).
        tasks: how many tasks there are.
    """

    lanes: Mapping[int, int]
    tasks: int


def spread_of(news: Mapping[int, int], shuffles: str | None) -> Spread | None:
    """How the partitions are spread that have so many records each; None where Spark decides by itself.

    It does where there is no choice: with one partition; with none, as the offsets of a batch may be unknown; and of
    few records, which need one file.
    """
    if shuffles is None or not shuffles.isdecimal():
        return None
    # A partition is in one task, so further ones have nothing to do; and Spark does not merge tasks it was told to make:
    # by its default there would be 200.
    tasks = min(int(shuffles), len(news), -(-sum(news.values()) // FEW))
    return Spread(lanes(news, tasks), tasks) if tasks > 1 else None


def bronze_schema(spark: SparkSession, source: Source) -> StructType:
    """The columns of a source's bronze table."""
    columns = (
        "topic string, partition int, offset bigint, attempt int, key binary, value binary, "
        f"headers {HEADERS_TYPE}, timestamp_ms bigint, timestamp_type int, event_time_ms bigint, "
        f"ingest_time_ms bigint, stream_time_ms bigint, seq bigint, error {ERROR_TYPE}, "
        f"k {struct_type(source.key.fields)}, v {struct_type(source.value.fields)}"
    )
    return spark.createDataFrame([], columns).schema


def create_bronze(spark: SparkSession, lake: Lake, pipeline: str, source: Source) -> bool:
    """Creates the bronze table of a source unless it is there: whether it was not."""
    owned = {**_PROPERTIES, OWNER: owned_by(pipeline, f"topic {source.topic}")}
    return lake.bronze(pipeline, source.topic).create(spark, bronze_schema(spark, source), properties=owned)


def bronze_rows(
    batch: DataFrame,
    source: Source,
    positions: Mapping[int, Position],
    seq: int,
    ingest_time_ms: int,
    spread: Spread | None = None,
) -> DataFrame:
    """Bronze rows of one topic's part of a batch.

    Args:
        batch: Spark's Kafka columns (key, value, topic, partition, offset, timestamp, timestampType, headers).
        source: the topic's source, which says how the bytes are read.
        positions: per partition where bronze stands; rows below it are dropped, stream time goes on from it.
        seq: the batch's sequence number.
        ingest_time_ms: one reading of the clock for the whole batch; recorded, since `max_future` is judged by it.
        spread: how the partitions are spread over tasks; by default as Spark does.

    Returns:
        The columns of `bronze_schema`. A record that cannot be read, has no usable time or lies too far in the future
        has an `error`, and does not move `stream_time_ms`; null keys and values do move it.
    """
    record_ms = F.unix_millis("timestamp")
    raw = batch.select(
        F.col("topic"),
        F.col("partition").cast("int").alias("partition"),
        F.col("offset").cast("bigint").alias("offset"),
        F.lit(0).alias("attempt"),
        F.col("key"),
        F.col("value"),
        F.col("headers").cast(HEADERS_TYPE).alias("headers"),
        record_ms.alias("timestamp_ms"),
        F.col("timestampType").cast("int").alias("timestamp_type"),
    )
    known = {partition: position.offset for partition, position in positions.items() if position.offset > 0}
    if known:
        raw = raw.where(F.col("offset") >= F.coalesce(_lookup(known), F.lit(0)))
    if spread is not None:  # before anything is read: raw, a record is half as long
        lane = F.coalesce(_lookup(spread.lanes), F.lit(0))
        raw = (
            raw.withColumn(LANE, lane).repartition(spread.tasks, LANE).sortWithinPartitions(LANE, "partition", "offset")
        )
    return read_rows(raw, source, positions, seq, ingest_time_ms)


def read_rows(
    raw: DataFrame, source: Source, positions: Mapping[int, Position], seq: int, ingest_time_ms: int
) -> DataFrame:
    """Bronze rows of raw records, in the order of their offsets: read by the source's formats, and judged.

    Args:
        raw: the raw columns of `bronze_schema`, up to `timestamp_type`.
        source, positions, seq, ingest_time_ms: as for `bronze_rows`.
    """
    return judged_rows(typed_rows(raw, source), source, positions, seq, ingest_time_ms)


def typed_rows(raw: DataFrame, source: Source) -> DataFrame:
    """Raw records as their source's formats read them: the columns that `judged_rows` takes.

    Jobs and tests both read by this, so that they refuse the same records.

    Args:
        raw: columns `key, value, timestamp_ms` and any other.
        source: says how they are read.
    """
    # in columns of their own: inside the expressions below each would be computed several times
    once = raw.select("*", source.key.read(F.col("key")).alias("key_read"),
                      source.value.read(F.col("value")).alias("value_read"))  # fmt: skip
    key = source.key.parse(F.col("key"), F.col("key_read"))
    value = source.value.parse(F.col("value"), F.col("value_read"))
    read = once.select("*", key.value.alias("k"), key.error.alias("key_error"), value.value.alias("v"),
                      value.error.alias("value_error"))  # fmt: skip
    keyed = read.withColumn("k", _key_of(source))
    return keyed.withColumn("event_time_ms", event_time_of(source))


def _key_of(source: Source) -> Column:
    """The key in `k`, null where none of its columns has a value.

    Such bytes name no row: the object lacks what was declared. Read as a key of nulls, all of them would join each other
    (decision 0027).
    """
    there = reduce(or_, (F.col("k")[field.name].isNotNull() for field in source.key.fields))
    return F.when(there, F.col("k"))


def event_time_of(source: Source) -> Column:
    """The event time of a record in ms, null where none is usable; over `v`, `value_error` and `timestamp_ms`."""
    types = {field.name: field.type for field in source.value.fields}
    field_type = types.get(source.event_time.field) if source.event_time.field else None
    event_time = source.event_time.extract(F.col("v"), field_type, F.col("timestamp_ms"))
    if source.kind == "stream":
        return event_time
    # a deletion has no field to take its time from, and must delete all the same
    own = F.when(F.col("timestamp_ms") >= 0, F.col("timestamp_ms"))
    deletes = F.col("v").isNull() & F.col("value_error").isNull()
    return F.when(deletes, own).otherwise(event_time)


def judged_rows(
    timed: DataFrame, source: Source, positions: Mapping[int, Position], seq: int, ingest_time_ms: int
) -> DataFrame:
    """Bronze rows of records that are read and have their event time: what is wrong with each, and stream time.

    Args:
        timed: the raw columns of `bronze_schema` with `event_time_ms`, `k`, `v`, `key_error` and `value_error`.
        source, positions, seq, ingest_time_ms: as for `bronze_rows`.
    """
    judged = timed.withColumn("error", _error(source, ingest_time_ms)).withColumn(
        "moves", F.when(F.col("error").isNull(), F.col("event_time_ms"))
    )
    # rows that are spread already are neither exchanged nor sorted once more
    together = (LANE, "partition") if LANE in timed.columns else ("partition",)
    in_order = Window.partitionBy(*together).orderBy("offset").rowsBetween(Window.unboundedPreceding, 0)
    carried = {partition: position.stream_time_ms for partition, position in positions.items()}
    before = F.coalesce(_lookup(carried), F.lit(NO_TIME)) if carried else F.lit(NO_TIME)
    stream_time = F.greatest(F.max("moves").over(in_order), before.cast("bigint"))
    return judged.select(
        "topic", "partition", "offset", "attempt", "key", "value", "headers", "timestamp_ms", "timestamp_type",
        "event_time_ms", _given(ingest_time_ms).alias("ingest_time_ms"), stream_time.alias("stream_time_ms"),
        _given(seq).alias("seq"), "error", "k", "v",
    )  # fmt: skip


def _error(source: Source, ingest_time_ms: int) -> Column:
    event_time = F.col("event_time_ms")
    own = "the record's timestamp" if source.event_time.field is None else f"field {source.event_time.field!r}"
    latest = _given(ingest_time_ms + source.max_future_ms)
    ahead = F.concat(
        F.lit("event time "), event_time.cast("string"), F.lit(f" is more than {source.max_future_ms} ms after ingest")
    )
    return (
        F.when(F.col("key_error").isNotNull(), _fault(MALFORMED_KEY, F.col("key_error")))
        .when(F.col("value_error").isNotNull(), _fault(MALFORMED_VALUE, F.col("value_error")))
        .when(event_time.isNull(), _fault(NO_TIMESTAMP, F.lit(f"{own} is missing or negative")))
        .when(event_time > latest, _fault(FUTURE_TIMESTAMP, ahead))
    )


def _fault(code: str, message: Column) -> Column:
    return F.struct(F.lit(code).alias("code"), message.alias("message"))


def _lookup(values: Mapping[int, int]) -> Column:
    pairs = [F.lit(item) for partition, value in sorted(values.items()) for item in (partition, value)]
    return F.try_element_at(F.create_map(*pairs), F.col("partition"))


def _given(number: int) -> Column:
    """A number of this batch, bigint, over rows that have a `partition`.

    As a plain literal it would stand in the code that Spark generates, each batch would have other code than the one
    before, and the JVM would compile it anew: seconds of both cores a batch. The elements of a list do not stand there,
    and the place in the list, which is always the first, is no constant to the optimiser.
    """
    return F.element_at(F.array(F.lit(number).cast("bigint")), F.pmod(F.col("partition"), F.lit(1)) + 1)


# --- the batch function ----------------------------------------------------------------------------------------------


# The batches that this process has closed, by run. A cache only: where the function runs in another process (Spark
# Connect's worker) the driver reads the ledger. A worker that is started anew in the middle of a run begins at the
# run's first standing, takes a sequence number that is taken, and stops at the read-back: late, but not wrong.
_closed: dict[str, list[Ingest]] = {}
_lock = threading.Lock()


def closed_here(run_id: str, after_seq: int) -> list[Ingest] | None:
    """The batches past a sequence number that a run has closed in this process; older ones are forgotten.

    None if this process has closed none: then the ledger knows.
    """
    with _lock:
        closed = _closed.get(run_id)
        if not closed:
            return None
        closed[:-1] = [one for one in closed[:-1] if one.seq > after_seq]  # the newest says where bronze stands
        return [one for one in closed if one.seq > after_seq]


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
    """

    ledger: Ledger
    sources: tuple[Source, ...]
    checkpoint: str
    first: Standing
    rules: RecordRules = field(default_factory=RecordRules)
    shuffles: str | None = None
    pace: Pace | None = None

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Appends one batch to bronze and closes it in the ledger.

        Raises:
            Resized: behind a batch that is closed, if the next ones are to be larger or smaller.
        """
        spark = batch.sparkSession
        pending_append.settled(self.ledger.run_id)  # of one batch at most the ledger does not know: decision 0003
        # raw values hardly repeat: trying dictionaries on them costs half of the write
        _set(spark, "parquet.enable.dictionary", "false")
        if self.shuffles is not None:
            _set(spark, SHUFFLES, self.shuffles)
        with _lock:
            newer = [one for one in _closed.get(self.ledger.run_id, []) if one.seq > self.first.seq]
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
        # of transaction markers alone bronze has no row, so nobody but the ledger would ever know that they were read
        empty = not any(part.records for part in ingest.ranges)
        pending_append.append(
            self.ledger.run_id, lambda: self.ledger.record_ingest(spark, ingest), waits=empty or offsets is not None
        )
        with _lock:
            _closed.setdefault(self.ledger.run_id, []).append(ingest)
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
        rows = bronze_rows(batch.where(F.col("topic") == source.topic), source, own, seq, now, spread)
        few = 0 < sum(news.values()) <= FEW
        telling = batch_metrics.Telling(self.ledger, source, sorted(news) if few else None, self.rules, seq, now)
        failpoint("bronze.before", source.topic)
        once = append_once(spark, self.ledger, source.topic, telling.of(rows), seq)
        failpoint("bronze.after", source.topic)
        return (telling.tails(), telling.weight()) if once else (None, None)


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


def recover(
    spark: SparkSession, ledger: Ledger, sources: Sequence[Source], last: Ingest | None, rules: RecordRules
) -> Ingest | None:
    """Closes what a crash left in bronze without a ledger row; None if there is nothing.

    Of replayed records `attempts.recover` does: a batch holds either them or what is new.
    """
    before = Standing.after([last] if last else [])
    found = batch_metrics.read_back(spark, ledger, sources, before.seq, rules)
    ingest = decisions.recovered(before, found)
    if ingest is not None:
        ledger.record_ingest(spark, ingest)
    return ingest


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
