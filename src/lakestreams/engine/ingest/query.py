"""The streaming query that ingests from Kafka: how it is started, waited for, and what its failures mean."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from lakestreams.engine.ingest.batch_size import Resized
from lakestreams.errors import (
    Fenced,
    IngestFailed,
    KafkaOptionRefused,
    LakestreamsError,
    OffsetsExpired,
    RegistryRefused,
    RegistryUnreachable,
    SchemaMissing,
    SecretUnresolved,
)
from lakestreams.kafka.client_errors import not_let_in, rights_missing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestreams.engine.ingest.batches import BatchWriter
    from lakestreams.engine.ingest.checkpoint import Generation
    from lakestreams.engine.runtime.settings import RunSettings

_POLL_S: Final = 0.05
READER: Final = {
    # Spark asks for a topic's bounds behind its first fetch, which by then waits at the end for more: half a second a task.
    "kafka.fetch.max.wait.ms": "2",
    # A task reads one partition and asks for more only when it has used up what it has: of the default, 1 MiB and 500
    # records, half of its time is waiting, and the broker's work is four times as much.
    "kafka.max.partition.fetch.bytes": str(8 << 20),
    "kafka.max.poll.records": "5000",
}
# Spark 4.2 says which record it was.
_TIME_OVERFLOW: Final = re.compile(
    r"Record at topic (\S+) partition (\d+) offset (\d+) has timestamp value (-?\d+) that overflows"
)
# How Spark tells that the function which gets a batch has failed.
_IN_BATCH: Final = re.compile(r"FOREACH_BATCH_USER_FUNCTION_ERROR|ForeachBatchFunction|ForeachBatchUserFuncException")

_REGISTRY: Final = (RegistryUnreachable, RegistryRefused, SchemaMissing, SecretUnresolved, KafkaOptionRefused)
# One of our errors at the end of a traceback, as `LakestreamsError.__str__` prints it: its message, its hint.
_PRINTED: Final = r"\.{name}: {head}[^\n]*\n((?:  [^\n]*\n)+?)  Fix: ([^\n]*?) {{8}}lakestreams explain {code}"


class CheckpointRefused(Exception):
    """Spark cannot go on from a checkpoint that looked whole; `failure` is what is reported where nothing else helps."""

    def __init__(self, failure: LakestreamsError) -> None:
        super().__init__(str(failure))
        self.failure = failure


class IngestQuery:
    """One run of the query over everything that is in the topics now.

    Args:
        pipeline: whose it is.
        settings: Kafka's options, the batch size, and whether a loss of records is accepted.
        generation: of the checkpoint.
        topics: what is read.
        writer: gets each batch.

    Raises:
        CheckpointRefused: by this and by `wait` and `require_success`, if Spark cannot go on from the generation.
        Resized: by the latter two, if it has ended so that the next one takes batches of another size.
        LakestreamsError: if it cannot be started for another reason.
    """

    def __init__(
        self,
        spark: SparkSession,
        pipeline: str,
        settings: RunSettings,
        generation: Generation,
        topics: Sequence[str],
        writer: BatchWriter,
    ) -> None:
        self._pipeline, self._topics = pipeline, sorted(topics)
        self._goes_on = generation.starting_offsets is None
        reader = (
            spark.readStream.format("kafka")
            .options(**reader_options(settings))
            .option("subscribe", ",".join(self._topics))
            .option("maxOffsetsPerTrigger", str(settings.max_offsets_per_trigger))
            .option("startingOffsets", generation.starting_offsets or "earliest")
        )
        try:
            self._query = (
                reader.load()
                .writeStream.queryName(f"lakestreams_{pipeline}_ingest")
                .option("checkpointLocation", str(generation.path))
                .trigger(availableNow=True)
                .foreachBatch(writer)
                .start()
            )
        except Exception as error:
            raise self._meant(error, None) from error

    @property
    def active(self) -> bool:
        """Whether it runs."""
        return self._query.isActive

    @property
    def last_batch(self) -> int | None:
        """The number of the last batch that it has finished, or None before the first."""
        progress = self._query.lastProgress
        return None if progress is None else int(progress["batchId"])

    def wait(self) -> None:
        """Waits a little, or until it ends.

        Raises:
            LakestreamsError: as for `require_success`.
        """
        try:
            self._query.awaitTermination(_POLL_S)  # type: ignore[arg-type]  # fractions of a second work
        except Exception as error:
            raise self._meant(error, self.last_batch) from error

    def require_success(self) -> None:
        """Looks at how it has ended.

        Raises:
            Fenced: a newer driver is there.
            OffsetsExpired: records were deleted before they were read.
            RightsMissing: the topics may be seen and not read.
        SignInFailed: Spark's client is not let in, or cannot be made of the options, where an admin client is.
            IngestFailed: anything else, with the line that says most.
        """
        error = self._query.exception()
        if error is not None:
            raise self._meant(error, self.last_batch) from error

    def stop(self) -> None:
        """Ends it."""
        self._query.stop()

    def _meant(self, error: Exception, last_batch: int | None) -> Exception:
        """What a failure means: before the first batch, and with no reason that is known, the checkpoint is at fault."""
        resized = Resized.from_text(str(error))
        if resized is not None:
            return resized
        found = failure(self._pipeline, error, self._topics)
        known = not isinstance(found, IngestFailed) or found is error or _IN_BATCH.search(str(error)) is not None
        if known or not self._goes_on or unreadable_time(str(error)) is not None or last_batch is not None:
            return found
        return CheckpointRefused(found)


def reader_options(settings: RunSettings) -> dict[str, str]:
    """Options by which records are read, whatever topics and offsets they are of."""
    return {
        **READER,
        **settings.kafka,  # what a pipeline sets itself comes first
        "includeHeaders": "true",
        "failOnDataLoss": str(not settings.accept_data_loss).lower(),
    }


def failure(pipeline: str, error: Exception, topics: Sequence[str]) -> LakestreamsError:
    """What a failure of the query, or of what is written of its batches, means."""
    if isinstance(error, LakestreamsError):
        return error
    text = str(error)
    if "LS503 FENCED" in text:  # raised inside foreachBatch and wrapped by Spark
        return Fenced(f"pipeline {pipeline}: ingest stopped")
    if "LAKESTREAMS_FENCED" in text:
        return Fenced(f"a newer driver runs pipeline {pipeline}; nothing was written")
    if "failOnDataLoss" in text or "OffsetOutOfRange" in text:
        return OffsetsExpired(f"Spark's Kafka source found offsets missing:\n{text.splitlines()[0]}")
    return (
        _of_registry(text)
        or rights_missing(text, topics)
        or not_let_in(error, "the brokers")
        or unreadable_time(text)
        or IngestFailed(f"the ingest query of {pipeline} stopped: {_cause(text)}")
    )


def _of_registry(text: str) -> LakestreamsError | None:
    """What asking the schema registry has raised inside foreachBatch, wrapped by Spark: with its own message and hint."""
    for kind in _REGISTRY:
        found = re.search(_PRINTED.format(name=kind.__name__, head=f"{kind.code} {kind.name}", code=kind.code), text)
        if found is not None:
            lines = [line.strip() for line in found[1].splitlines()]
            return kind("\n".join(lines), hint=found[2])
    return None


def unreadable_time(text: str) -> IngestFailed | None:
    """A timestamp of Kafka's, mostly in nanoseconds, that Spark's microseconds cannot hold: it fails before we see it."""
    found = _TIME_OVERFLOW.search(text)
    if found is None:
        return None
    topic, partition, offset, time_ms = found.groups()
    return IngestFailed(
        f"the timestamp of record {topic}-{partition}@{offset} is {time_ms} ms, more than Spark can hold: its Kafka source "
        "can neither read nor skip it",
        hint="let its producer write milliseconds; ingest what comes before with a small max_offsets_per_trigger, delete the "
        "partition's records up to it (kafka-delete-records), then run with --accept-data-loss",
    )


def _cause(text: str) -> str:
    """The line of a wrapped error that says most: Python's last, else the first."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    named = [line for line in lines if "Error:" in line or "FailpointReached:" in line or "Exception:" in line]
    return (named or lines or ["no message"])[0][:500]


__all__ = ["READER", "CheckpointRefused", "IngestQuery", "failure", "reader_options", "unreadable_time"]
