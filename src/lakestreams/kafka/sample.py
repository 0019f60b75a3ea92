"""The newest records of a topic, for whoever wants to know what they look like: with confluent-kafka, and no group."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from lakestreams.errors import KafkaOptionRefused
from lakestreams.kafka.admin_cluster import TIMEOUT_S, AdminCluster
from lakestreams.kafka.admin_options import OfSparkAlone, timeout_s, translated
from lakestreams.kafka.client_errors import denied

_WITHIN_S: Final = 15.0
_POLL_S: Final = 0.2
_READING: Final = {
    "group.id": "lakestreams-infer",  # the client wants one; nothing is committed, and nobody joins it
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "isolation.level": "read_committed",
    "log_level": 0,  # what matters comes back as an error
}


class Record(NamedTuple):
    """A record's bytes, and its headers."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def newest(options: Mapping[str, str], topic: str, count: int) -> tuple[list[Record], int]:
    """About so many of the newest records, as many of each partition, and how many partitions there are.

    Args:
        options: of Spark's Kafka source, secrets resolved.

    Raises:
        KafkaOptionRefused: if only Spark's client understands the options.
        BrokerUnreachable, SignInFailed, RightsMissing, TopicMissing: as `Cluster.view`.
    """
    from confluent_kafka import Consumer, KafkaException, TopicPartition  # noqa: PLC0415

    servers = options["kafka.bootstrap.servers"]
    try:
        conf = translated(options)
    except OfSparkAlone as why:
        raise KafkaOptionRefused(f"a sample cannot be read with these options: {why}") from None
    cluster = AdminCluster(servers, conf, timeout_s(options, TIMEOUT_S))
    view = cluster.view([topic])
    each = -(-count // max(1, len(view.ends)))
    places = [TopicPartition(*at, max(view.starts.get(at, 0), end - each)) for at, end in sorted(view.ends.items())]
    try:
        consumer = Consumer({"bootstrap.servers": servers, **conf, **_READING})
        try:
            consumer.assign(places)
            return _read(consumer, topic, {one.partition for one in places}, each * len(places)), len(places)
        finally:
            consumer.close()
    except KafkaException as error:
        raise cluster.fault(error) from error


def _read(consumer: Any, topic: str, waiting: set[int], most: int) -> list[Record]:
    """Reads until each partition has ended, or there is enough, or time is over."""
    from confluent_kafka import KafkaError, KafkaException  # noqa: PLC0415

    found: list[Record] = []
    until = time.monotonic() + _WITHIN_S
    while waiting and len(found) < most and time.monotonic() < until:
        message = consumer.poll(_POLL_S)
        error = None if message is None else message.error()
        if message is None:
            continue
        if error is None:
            found.append(Record(message.key(), message.value(), tuple(message.headers() or ())))
        elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - its name
            waiting.discard(message.partition())
        elif error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            raise denied([topic], error.str())
        else:
            raise KafkaException(error)
    return found


__all__ = ["Record", "newest"]
