"""Outputs that are Kafka topics: how a cycle's results get there, in order, and at least once.

Kafka takes part in no commit of Delta: what is written before a crash is written again by the next run, which repeats the
whole cycle. The repeated records are equal, ids and partitions included, so that a reader can drop them (decision 0013).
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from lakestreams.engine.ledger.fence import translated
from lakestreams.engine.ledger.ledger import Ledger
from lakestreams.errors import LakestreamsError, TopicWriteFailed
from lakestreams.errors.places import NodePlace
from lakestreams.evaluate.outputs import EVENT_TIME, LINEAGE
from lakestreams.kafka.allowed_options import OPTIONS
from lakestreams.partitioning.kafka_default import partition_of_bytes

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from lakestreams.topology.endpoints import KafkaSink
    from lakestreams.topology.topology import Topology

ID, CYCLE, KIND, TIME = "lakestreams-id", "lakestreams-cycle", "lakestreams-kind", "lakestreams-event-time-ms"
_COLUMNS, _PLACE = ("key", "value", "partition", "headers"), ("trigger", "n")
# Options of the allow-list (config.kafka) that only a consumer has; a producer would warn of each.
_OF_CONSUMERS: Final = frozenset(
    {
        "check.crcs",
        "default.api.timeout.ms",
        "fetch.max.bytes",
        "fetch.max.wait.ms",
        "fetch.min.bytes",
        "heartbeat.interval.ms",
        "isolation.level",
        "max.partition.fetch.bytes",
        "max.poll.interval.ms",
        "max.poll.records",
        "session.timeout.ms",
    }
)
# Plans show the options of what is written, in Spark's UI and its event log. By itself Spark hides those whose names or
# values have a word like password in them, which a private key (ssl.keystore.key) has not.
_REDACTION: Final = "spark.sql.redaction.options.regex"
_SECRETS: Final = "(?i)" + "|".join(re.escape(name) for name, option in OPTIONS.items() if option.secret)
_CLIENTS_ERROR: Final = re.compile(r"(?<=\borg\.apache\.kafka\.common\.)[\w.]+: .*")
_SHOWN_CHARACTERS: Final = 500
# What a producer sends again after a lost answer is not there twice, and not behind what came after it.
_PRODUCER: Final = {"kafka.enable.idempotence": "true", "kafka.acks": "all"}
# The client gathers records up to so many bytes. A batch that the topic refuses as too large it splits into batches of
# this size again, so that of a topic that takes less it tries the same one until its time is over (KAFKA-8350).
_BATCH_SIZE, _BATCH_BYTES = "kafka.batch.size", 16_384
# A record larger than a mebibyte the client refuses by itself, whatever the topic takes; by default that takes twelve bytes more.
_REQUEST_SIZE, _REQUEST_BYTES = "kafka.max.request.size", 1_048_588
# That time is two minutes, and on a cluster each of four attempts at the task has them. Where nobody could say what a topic
# takes, it is what the client demands at least: an answer's time, and a little for gathering the records.
_DELIVERY, _REQUEST, _REQUEST_MS, _GATHERING_MS = "kafka.delivery.timeout.ms", "kafka.request.timeout.ms", 30_000, 5_000
_OVERDUE: Final = re.compile(r"TimeoutException: Expiring \d+ record")


@dataclass(frozen=True)
class Target:
    """Where topics are written.

    Attributes:
        options: of Spark's Kafka source; the producer takes those of Kafka's clients (`kafka.` in front) that it knows,
            and Spark's sink the others, which are those of a service credential.
        partitions: topic to partition count.
        most_bytes: topic to the size of the largest batch that it takes, where that is known.
        prefixes: topic and side to what stands before its bytes, for those of a schema registry (`subjects`).
    """

    options: Mapping[str, str] = field(default_factory=dict)
    partitions: Mapping[str, int] = field(default_factory=dict)
    most_bytes: Mapping[str, int] = field(default_factory=dict)
    prefixes: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict)

    def producer(self, topic: str) -> dict[str, str]:
        """The options of Spark's Kafka sink for a topic."""
        shared = {
            name: value for name, value in self.options.items() if name.removeprefix("kafka.") not in _OF_CONSUMERS
        }
        most = self.most_bytes.get(topic)
        if most is None:
            deadline = int(shared.get(_REQUEST, _REQUEST_MS)) + _GATHERING_MS
            return {_DELIVERY: str(deadline)} | shared | _PRODUCER
        smaller = {_BATCH_SIZE: str(most)} if most < self.batch_bytes else {}
        larger = {_REQUEST_SIZE: str(most)} if most > _REQUEST_BYTES else {}
        return larger | shared | _PRODUCER | smaller

    @property
    def batch_bytes(self) -> int:
        """The size up to which the producer gathers records, where nothing is known of the topic."""
        return int(self.options.get(_BATCH_SIZE, _BATCH_BYTES))


def publish(spark: SparkSession, ledger: Ledger, sink: KafkaSink, rows: DataFrame, target: Target) -> None:
    """Writes a cycle's rows to a topic, a task a partition or several.

    Args:
        ledger: of the running epoch.
        rows: columns `key, value, event_time_ms, _lineage`.
        target: where the topic is.

    Raises:
        Fenced: if a newer driver runs the pipeline; nothing is written. That is looked at before the first record is
            written; a driver that takes over later does not stop what is on its way.
        TopicWriteFailed: if not every record was acknowledged.
    """
    ledger.failpoint("kafka.before", sink.name)
    own = {side: _under(F.col(side), prefix) for side, prefix in target.prefixes.get(sink.name, {}).items()}
    rows = rows.withColumns(own) if own else rows
    fenced = ledger.fence(spark, records(ledger.pipeline, sink, rows, target.partitions[sink.name]))
    # all of a partition in one task, in the order of the results: the producer keeps the order in which it is given them
    ordered = fenced.repartition("partition").sortWithinPartitions(*_PLACE)
    try:
        with translated(ledger.pipeline), _secrets_unshown(spark):
            writer = ordered.select(*_COLUMNS).write.format("kafka").options(**target.producer(sink.name))
            writer.option("topic", sink.name).mode("append").save()
    except LakestreamsError:
        raise
    except Exception as error:
        cause = _of_the_client(error)
        if cause is None:  # the results could not be computed
            raise
        message = f"topic {sink.name} of pipeline {ledger.pipeline}: {cause}"
        raise TopicWriteFailed(message, hint=_hint(cause, target), where=NodePlace("to_kafka", sink.name)) from error
    ledger.failpoint("kafka.after", sink.name)


@contextlib.contextmanager
def _secrets_unshown(spark: SparkSession) -> Iterator[None]:
    """Plans made in the block show no option that is a secret; compute that refuses the setting (serverless) goes on."""
    try:
        before = spark.conf.get(_REDACTION) or ""
        spark.conf.set(_REDACTION, f"{before}|{_SECRETS}" if before else _SECRETS)
    except Exception:  # noqa: BLE001 - each kind of compute has its own
        yield
        return
    try:
        yield
    finally:
        spark.conf.set(_REDACTION, before)


def records(pipeline: str, sink: KafkaSink, rows: DataFrame, count: int) -> DataFrame:
    """The records of a topic.

    Args:
        rows: columns `key, value, event_time_ms, _lineage`.
        count: how many partitions the topic has.

    Returns:
        Columns `key, value, partition, headers`, and `trigger, n`, their order. The partition is that of Kafka's own
        partitioner. Of a null key, for which that has none, it is the trigger's partition, modulo the count: then a
        record that is repeated comes to the same place. The id does not name the cycle: a result has the same one
        however its run cut the input.
    """
    lineage = F.col(LINEAGE)
    trigger = lineage["trigger"]
    place = (trigger["source"], "-", trigger["partition"], "@", trigger["offset"], "#", trigger["attempt"])
    # its time too: clocks that go on without records have the place of the record that is still to come
    headers = {
        ID: _text(f"{pipeline}/{sink.name}/", *place, "/", trigger["stream_time_ms"], "/", lineage["n"]),
        CYCLE: _text(lineage["cycle"]),
        KIND: _text(lineage["kind"]),
        TIME: _text(F.col(EVENT_TIME)),
    }
    own = F.pmod(trigger["partition"], F.lit(count))
    return rows.select(
        "key",
        "value",
        F.coalesce(partition_of_bytes(F.col("key"), count), own).alias("partition"),
        F.array(*(F.struct(F.lit(name).alias("key"), text.alias("value")) for name, text in headers.items())).alias(
            "headers"
        ),
        trigger.alias("trigger"),
        lineage["n"].alias("n"),
    )


def note(topology: Topology) -> list[str]:
    """What a run says once of the topics that it writes."""
    topics = ", ".join(sink.name for sink in topology.kafka_sinks)
    text = f"written at least once: {topics}; a run that fails may repeat records, with equal {ID} headers"
    return [text] if topics else []


def _under(raw: Column, prefix: bytes) -> Column:
    """Bytes with their schema's id; they were written with another one in its place."""
    return F.concat(F.lit(bytearray(prefix)), F.substring(raw, F.lit(len(prefix) + 1), F.octet_length(raw)))


def _text(*parts: Column | str) -> Column:
    texts = [F.lit(part) if isinstance(part, str) else part.cast("string") for part in parts]
    return F.concat(*texts).cast("binary")


def _hint(cause: str, target: Target) -> str | None:
    """What to do about what the client says; None: what the error's own hint says."""
    for limit in ("max.request.size", "buffer.memory"):
        if "RecordTooLargeException" in cause and limit in cause:
            return f"raise {limit} in kafka.options, or make the results smaller; then run again: the cycle is repeated"
    if "RecordTooLargeException" in cause:
        return "raise the topic's max.message.bytes, or make the results smaller; then run again: the cycle is repeated"
    if _OVERDUE.search(cause):
        return (
            "the broker did not take them in time. Check its health, and that the topic's max.message.bytes is at least "
            f"{target.batch_bytes}. Raise it, or set batch.size in kafka.options below it. Then run again: the cycle is "
            "repeated"
        )
    return None


def _of_the_client(error: Exception) -> str | None:
    """What Kafka's client says in an error that Spark wrapped; None if it says nothing."""
    match = _CLIENTS_ERROR.search(str(error))
    return match[0][:_SHOWN_CHARACTERS] if match else None
