"""Ingest of replayed records: what operators have requested goes into bronze once more, as a new attempt (decision 0020).

A request is a batch of its own: rows with the coordinates that the records had, an attempt above 0, and the stream time at
which they find their partition, which they may move. It is closed in the ledger as any batch is; a range of the
partition `ATTEMPTS` stands there for its rows, and the row names the request, so that it is ingested once.

An attempt at a table's record is superseded, and not ingested, where a later record of its key is there: it would put an
old row in the place of a newer one.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.engine.ingest import batch_metrics, batches
from lakestreams.engine.ingest.bronze_rows import read_rows
from lakestreams.engine.ingest.idempotent_append import append_once
from lakestreams.engine.ingest.writer_schemas import WriterSchemas
from lakestreams.engine.ledger.ledger import Ledger
from lakestreams.engine.ledger.plans import AppendedRange, BronzeState, Ingest, Position, Range
from lakestreams.engine.protocol import commands
from lakestreams.engine.replay import requests as replays
from lakestreams.engine.replay.requests import RECORD, Request
from lakestreams.evaluate.inputs import EXPECTATION
from lakestreams.expectations.rules import RecordRules, dropped, kept
from lakestreams.kafka.noted import TopicPartition
from lakestreams.spark import holds_any

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from lakestreams.registry.options import RegistryOptions
    from lakestreams.topology.endpoints import Source
    from lakestreams.topology.expectations import Expectations
    from lakestreams.topology.topology import Topology

RAW: Final = ("topic", "partition", "offset", "attempt", "key", "value", "headers", "timestamp_ms", "timestamp_type")
LATER_EXISTS: Final = "a later record of its key is there"
TRIMMED: Final = "bronze is trimmed past it, so nothing can tell whether a later record of its key existed"
NO_SOURCE: Final = "no source of the pipeline reads its topic any more"


@dataclass
class ReplayReader:
    """The hands of `machines.ingest_request`, and of what `machines.recover` asks about requests.

    Attributes:
        ledger: of the running epoch.
        before: where bronze stands.
        rules: what is judged of single records.
        schemas: the writers' schemas of records.
    """

    spark: SparkSession
    ledger: Ledger
    topology: Topology
    before: BronzeState
    rules: RecordRules = field(default_factory=RecordRules)
    schemas: WriterSchemas = field(default_factory=WriterSchemas)
    _oldest: Request | None = None  # that is not ingested

    def __call__(self, command: commands.Command) -> Any:
        """Does what a command says, and gives the answer.

        Raises:
            Fenced: if a newer driver runs the pipeline.
        """
        match command:
            case commands.Read("requests"):
                self._oldest = replays.oldest(self.spark, self.ledger, self.before.request)
                return [] if self._oldest is None else [self._oldest.number]
            case commands.Read("requested"):
                return self._request.topic
            case commands.Read("attempts"):
                return self._in_bronze()
            case commands.Append(row=(_, _, Ingest() as batch)):
                self.ledger.record(self.spark, self.ledger.ingest_row(batch))
            case commands.Append(transaction=known):
                self._append_wanted(known)
        return True

    @property
    def _request(self) -> Request:
        if self._oldest is None:
            message = "nobody has asked which request is the oldest"
            raise RuntimeError(message)
        return self._oldest

    def _append_wanted(self, known: commands.Transaction) -> None:
        """Appends the request's records that are not superseded."""
        now, seq, request = time.time_ns() // 1_000_000, self.before.seq + 1, self._request
        source = source_of(self.topology, request.topic)
        wanted = replays.requested(self.spark, self.ledger, request)
        if source is not None:
            source = self.schemas.knowing(self.ledger, wanted, source)
        refused = wanted.select(*RECORD, F.lit(NO_SOURCE).alias("reason")) if source is None else None
        if source is not None and source.kind != "stream":
            refused = superseded(
                self.spark, self.ledger, source, read(wanted, source, {}, seq, now), self.topology.expectations
            )
        if refused is not None:
            # written down first: what is in bronze is never taken back, and a repetition finds what was decided
            replays.supersede(self.spark, self.ledger, request, refused)
            gone = replays.superseded(self.spark, self.ledger, request)
            wanted = wanted.join(gone.select(*RECORD), [*RECORD], "left_anti")
        if source is None:
            return
        positions = {partition: at for (topic, partition), at in self.before.positions.items() if topic == source.topic}
        self._append(read(wanted, source, positions, seq, now), source, known)

    def _append(self, rows: DataFrame, source: Source, known: commands.Transaction) -> None:
        """One append; none without rows, which would be a commit for nothing."""
        self.ledger.failpoint("bronze.before", source.topic)
        with batches.kept_in_memory(rows) as held:
            if not held.isEmpty():
                append_once(self.spark, self.ledger, source.topic, held, known)
        self.ledger.failpoint("bronze.after", source.topic)

    def _in_bronze(self) -> Mapping[TopicPartition, AppendedRange]:
        """What bronze has of the request. Requests are taken in their order: what lies there is of the oldest one."""
        source = source_of(self.topology, self._oldest.topic) if self._oldest is not None else None
        if source is None:
            return {}
        seq = self.before.seq
        return batch_metrics.read_back(self.spark, self.ledger, [source], seq, self.rules, again=True)


def source_of(topology: Topology, topic: str) -> Source | None:
    """The source that reads a topic."""
    return next((source for source in topology.sources if source.topic == topic), None)


def read(
    rows: DataFrame, source: Source, positions: Mapping[int, Position], seq: int, ingest_time_ms: int
) -> DataFrame:
    """The bronze rows that records would be, read by the source's formats as they are now.

    Args:
        rows: the columns `RAW`, each record once.
        source, seq, ingest_time_ms: as for `ingest.bronze_rows`.
        positions: per partition the stream time that the records find.
    """
    # not below a position: they lie there, and are to come once more
    clocks = {partition: Position(0, at.stream_time_ms) for partition, at in positions.items()}
    return read_rows(rows.select(*RAW), source, clocks, seq, ingest_time_ms)


def superseded(
    spark: SparkSession, ledger: Ledger, source: Source, rows: DataFrame, expectations: Expectations
) -> DataFrame:
    """The attempts at a table's records that would undo a later one: `topic, partition, offset, reason`.

    Reads the keys of all that bronze holds of the table.

    Args:
        source: the table.
        rows: what `read` gives; those without a readable key are quarantined again, whatever came later.
        expectations: of the pipeline: a record that a rule drops is in no table.
    """
    bronze = ledger.lake.bronze(ledger.pipeline, source.topic).read(spark)
    applied = kept(bronze.where(F.col("error").isNull() & F.col("k").isNotNull()), source, expectations)
    later = applied.select(
        F.col("partition").alias("_partition"), F.col("offset").alias("_offset"), F.col("k").alias("_k")
    )
    own = rows.where(F.col("k").isNotNull())
    after_it = (
        (F.col("partition") == F.col("_partition"))
        & (F.col("offset") < F.col("_offset"))
        & F.col("k").eqNullSafe(F.col("_k"))
    )
    refused = own.join(later, after_it, "left_semi").select(*RECORD, F.lit(LATER_EXISTS).alias("reason"))
    trim = ledger.history(spark).trim
    gone = [part for part in (trim.of(source.topic) if trim is not None else ()) if not part.of_replays]
    if not gone:
        return refused
    # a deletion is trimmed with what it deleted, so that a key without a row says nothing
    behind = own.where(holds_any(map(_below_end, gone))).select(*RECORD, F.lit(TRIMMED).alias("reason"))
    return refused.unionByName(behind.join(refused, [*RECORD], "left_anti"))


def _below_end(part: Range) -> Column:
    return (F.col("partition") == part.partition) & (F.col("offset") < part.to_offset)


@dataclass(frozen=True)
class Outlook:
    """What would become of a topic's chosen records if a run took them now.

    Attributes:
        topic: the topic.
        records: how many there are.
        refused: code to how many would go to quarantine again: they cannot be read, or a rule of the source drops them.
        superseded: how many would not be ingested, and stay there.
        is_read: whether a source reads the topic; where none does, no record would be ingested.
    """

    topic: str
    records: int
    refused: Mapping[str, int]
    superseded: int = 0
    is_read: bool = True


def outlook(
    spark: SparkSession,
    ledger: Ledger,
    topology: Topology,
    chosen: DataFrame,
    registry: RegistryOptions | None = None,
) -> list[Outlook]:
    """What would become of records, as far as it is known before their cycle; nothing is written.

    Args:
        chosen: what `deciding.chosen` gives.
        registry: where writers' schemas are asked for that the ledger does not know.
    """
    now = time.time_ns() // 1_000_000
    outlooks = []
    for row in chosen.groupBy("topic").count().orderBy("topic").collect():
        topic, records = row["topic"], row["count"]
        source = source_of(topology, topic)
        if source is None:
            outlooks.append(Outlook(topic, records, {}, records, is_read=False))
            continue
        own = chosen.where(F.col("topic") == topic)
        source = WriterSchemas(registry).knowing(ledger, own, source, keep=False)
        rows = read(own, source, {}, 0, now)
        if source.kind != "stream":
            gone = superseded(spark, ledger, source, rows, topology.expectations)
            rows = rows.join(gone.select(*RECORD), [*RECORD], "left_anti")
        code, broken = F.col("error.code"), dropped(source, topology.expectations)
        if broken is not None:
            code = F.coalesce(code, F.when(broken, EXPECTATION))
        codes = rows.groupBy(code.alias("code")).count().orderBy("code").collect()
        taken = sum(one["count"] for one in codes)
        bad = {one["code"]: one["count"] for one in codes if one["code"] is not None}
        outlooks.append(Outlook(topic, records, bad, records - taken))
    return outlooks
