"""The newest records of a topic, for whoever wants to know what they look like: with confluent-kafka, and no group."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lakestreams.errors import KafkaOptionRefused, LakestreamsError
from lakestreams.kafka.admin_options import OfSparkAlone, scrubbed, translated
from lakestreams.kafka.client_errors import denied, topics_missing, unreachable

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

_WITHIN_S: Final = 15.0
_POLL_S: Final = 0.2
_READING: Final = {
    "group.id": "lakestreams-infer",  # the client wants one; nothing is committed, and nobody joins it
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "isolation.level": "read_committed",
}


class Record(NamedTuple):
    """A record's bytes."""

    key: bytes | None
    value: bytes | None


def newest(options: Mapping[str, str], topic: str, count: int) -> tuple[list[Record], int]:
    """About so many of the newest records, as many of each partition, and how many partitions there are.

    Args:
        options: of Spark's Kafka source, secrets resolved.

    Raises:
        BrokerUnreachable: if no broker answers in time.
        TopicMissing: if there is no such topic.
        RightsMissing: if it may not be read.
        KafkaOptionRefused: if only Spark's client understands the options.
    """
    from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition  # noqa: PLC0415

    servers = options["kafka.bootstrap.servers"]
    try:
        conf = translated(options)
    except OfSparkAlone as why:
        raise KafkaOptionRefused(f"a sample cannot be read with these options: {why}") from None
    consumer = Consumer({**conf, **_READING})

    def fault(error: KafkaError) -> LakestreamsError:
        if error.code() in (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED):
            return denied([topic], error.str())
        if error.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC):  # noqa: SLF001 - its names
            return topics_missing([topic], servers)
        return unreachable(servers, scrubbed(error.str(), conf))

    try:
        known = consumer.list_topics(topic, timeout=_WITHIN_S).topics[topic]
        if known.error is not None:
            raise fault(known.error)
        each = -(-count // max(1, len(known.partitions)))
        places = []
        for number in sorted(known.partitions):
            first, end = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=_WITHIN_S)
            places.append(TopicPartition(topic, number, max(first, end - each)))
        consumer.assign(places)
        return _read(consumer, {one.partition for one in places}, count + len(places), fault), len(places)
    except KafkaException as error:
        raise fault(error.args[0]) from None
    finally:
        consumer.close()


def _read(consumer: Any, waiting: set[int], most: int, fault: Any) -> list[Record]:
    from confluent_kafka import KafkaError  # noqa: PLC0415

    found: list[Record] = []
    until = time.monotonic() + _WITHIN_S
    while waiting and len(found) < most and time.monotonic() < until:
        message = consumer.poll(_POLL_S)
        if message is None:
            continue
        error = message.error()
        if error is not None and error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - its name
            waiting.discard(message.partition())
        elif error is not None:
            raise fault(error)
        else:
            found.append(Record(message.key(), message.value()))
    return found


__all__ = ["Record", "newest"]
