"""A real Kafka broker (KRaft, Apache Kafka 4.3) on 127.0.0.1, for the demo and for tests.

As a context manager it lives as long as the block; nothing of it survives the process, not even after `kill -9`:

    with Broker() as broker:
        broker.create_topic("PageViews", partitions=4)
        broker.produce("PageViews", [("alice", '{"page": "/"}', 1_000)])
        spark.readStream.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap_servers) ...
"""

from __future__ import annotations

import shutil
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Final, NamedTuple, Self

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]
from confluent_kafka.cimpl import NewTopic

from lakestreams.errors import BrokerNotReady
from lakestreams.kafka.transient import passes
from lakestreams.local.broker_process import HOST, RunningBroker, launch
from lakestreams.local.cache import Progress, temporary_dir

_ADMIN_TIMEOUT_S = 30.0
_DELIVERY_TIMEOUT_S = 120.0
_NO_TIMESTAMP = -1
# librdkafka's own default partitioner is CRC32: the same key would land elsewhere than from a Java client.
# One request in flight keeps the order as idempotence would, without its second of waiting for a producer id.
PRODUCER: Final[Mapping[str, Any]] = MappingProxyType(
    {"partitioner": "murmur2_random", "acks": "all", "max.in.flight": 1, "linger.ms": 5}
)


class Record(NamedTuple):
    """A record to produce. Text is sent as UTF-8, None as null; without a partition the key decides (murmur2).

    Without a timestamp it gets the current time; -1 is Kafka's sign for none, which old producers write.
    """

    key: bytes | str | None
    value: bytes | str | None
    timestamp_ms: int | None = None
    partition: int | None = None
    headers: Sequence[tuple[str, bytes | str | None]] | None = None


class Produced(NamedTuple):
    """Where a record was written."""

    partition: int
    offset: int


class Broker:
    """A broker and what tests and demo ask of it.

    Args:
        data_dir: folder of its data, kept at the end: a later `Broker` on it has the topics, and the port if that is
            still free. Default: a temporary folder, removed at the end.
        port: the client port; default any free one.
        heap_mb: the JVM's heap.
        progress: receives a line for each slow step (the first resolution of the jars).
    """

    def __init__(
        self,
        *,
        data_dir: Path | None = None,
        port: int | None = None,
        heap_mb: int = 256,
        progress: Progress | None = None,
    ) -> None:
        self._temporary = data_dir is None
        self._folder = data_dir.resolve() if data_dir else None
        self._port = port
        self._heap_mb = heap_mb
        self._progress = progress
        self._running: RunningBroker | None = None

    def __enter__(self) -> Self:
        """Starts the broker."""
        self.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        """Ends the broker; temporary data go with it."""
        self.close()

    @property
    def bootstrap_servers(self) -> str:
        """`127.0.0.1:port`.

        Raises:
            BrokerNotReady: the broker has not been started.
        """
        return f"{HOST}:{self._need().port}"

    @property
    def pid(self) -> int:
        """The process id of the broker's JVM."""
        return self._need().jvm_pid

    @property
    def guard_pid(self) -> int:
        """The process id of the guard that ends the JVM when this process dies."""
        return self._need().guard.pid

    @property
    def data_dir(self) -> Path:
        """The folder with its data, configuration and log."""
        return self._need().folder

    def start(self) -> None:
        """Starts it (or starts it again, on the same data and port) and returns when it answers.

        Raises:
            BrokerNotReady: it did not come up; the message holds the end of its log.
            PortTaken: the port that was asked for is in use.
            JarsUnresolved, JavaMissing, JavaTooOld: there is nothing to start it with.
        """
        if self._running is not None and self._running.alive:
            return
        if self._folder is None:
            self._folder = temporary_dir("broker")
        try:
            self._running = launch(
                self._folder, port=self._port, heap_mb=self._heap_mb, remove=self._temporary, progress=self._progress
            )
        except BaseException:
            if self._running is None:  # it never ran: nobody is going to close it
                self.close()
            raise

    def stop(self) -> None:
        """Shuts it down gracefully and keeps the data: `start` goes on with them."""
        if self._running is not None:
            self._running.end(b"stop")

    def kill(self) -> None:
        """Kills the JVM (`kill -9`) and keeps the data: `start` recovers them."""
        self._need().kill_jvm()

    def close(self) -> None:
        """Ends it for good: temporary data are removed, data in a folder of one's own are left in good order."""
        if self._running is not None:
            self._running.end(b"die" if self._temporary else b"stop")
            self._running = None
        if self._temporary and self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def client_config(self, **more: Any) -> dict[str, Any]:
        """A confluent-kafka configuration for this broker, without librdkafka's messages on the screen."""
        return {"bootstrap.servers": self.bootstrap_servers, "log_level": 0, **more}

    def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        """Creates a topic and returns when every partition's leader answers for it.

        Raises:
            KafkaException: the broker refused it (it exists, its name or a setting is invalid).
        """
        admin = self._admin()
        wanted = NewTopic(name, partitions, 1, config=dict(config or {}))
        admin.create_topics([wanted])[name].result(_ADMIN_TIMEOUT_S)
        self._until(lambda: _leaders(admin, name) == partitions, f"topic {name} has no leaders")
        self._ends(admin, name, range(partitions))  # named a leader by the metadata, a broker may not know it yet

    def delete_topic(self, name: str) -> None:
        """Deletes a topic and returns when the broker no longer knows it."""
        admin = self._admin()
        admin.delete_topics([name])[name].result(_ADMIN_TIMEOUT_S)
        self._until(lambda: name not in admin.list_topics(timeout=5).topics, f"topic {name} is still there")

    def end_offsets(self, topic: str) -> dict[int, int]:
        """Partition to end offset: the offset that the next record will get."""
        admin = self._admin()
        return self._ends(admin, topic, admin.list_topics(topic, timeout=_ADMIN_TIMEOUT_S).topics[topic].partitions)

    def _ends(self, admin: AdminClient, topic: str, partitions: Iterable[int]) -> dict[int, int]:
        """Each partition's end, as soon as its leader says it: one just elected, or started again, refuses for a moment."""
        wanted = {TopicPartition(topic, number): OffsetSpec.latest() for number in sorted(partitions)}  # type: ignore[no-untyped-call]
        found: dict[int, int] = {}

        def asked() -> bool:
            try:
                for at, future in admin.list_offsets(wanted, request_timeout=_ADMIN_TIMEOUT_S).items():
                    found[at.partition] = int(future.result().offset)
            except KafkaException as error:
                if not passes(error):
                    raise
                return False
            return True

        self._until(asked, f"topic {topic} has partitions without a leader")
        return found

    def produce(
        self, topic: str, records: Iterable[Record | tuple[Any, ...]], config: Mapping[str, Any] | None = None
    ) -> list[Produced]:
        """Writes the records in their order, with the partitioner of Kafka's Java clients, and waits for all of them.

        Args:
            topic: must exist.
            records: `Record`s, or tuples with its fields: key, value, timestamp_ms, partition, headers.
            config: further producer settings, for instance another `partitioner`.

        Returns:
            Partition and offset of each record, in the order given.

        Raises:
            KafkaException: the first delivery that failed.
            ValueError: a timestamp of 0, which librdkafka would replace by the current time, or less than -1.
        """
        producer = self._producer(**dict(config or {}))
        written = _send(producer, topic, records)
        _flush(producer)
        return _delivered(written)

    def produce_transaction(
        self, topic: str, records: Iterable[Record | tuple[Any, ...]], *, abort: bool = False
    ) -> list[Produced]:
        """Writes the records in one transaction, then commits it, or aborts it: then they are in the log, but void.

        Arguments, result and errors are those of `produce`.
        """
        producer = self._producer(**{"transactional.id": f"lakestreams-{uuid.uuid4()}", "enable.idempotence": True})
        producer.init_transactions(_ADMIN_TIMEOUT_S)
        producer.begin_transaction()
        written = _send(producer, topic, records)
        _flush(producer)  # before an abort too: unsent records would be thrown away instead of aborted
        if abort:
            producer.abort_transaction(_ADMIN_TIMEOUT_S)
        else:
            producer.commit_transaction(_ADMIN_TIMEOUT_S)
        return _delivered(written)

    def _producer(self, **more: Any) -> Producer:
        return Producer(self.client_config(**{**PRODUCER, **more}))

    def _admin(self) -> AdminClient:
        return AdminClient(self.client_config())

    def _need(self) -> RunningBroker:
        if self._running is None:
            raise BrokerNotReady("this broker has not been started", hint="call start(), or use it in a with statement")
        return self._running

    @staticmethod
    def _until(done: Any, fault: str) -> None:
        deadline = time.monotonic() + _ADMIN_TIMEOUT_S
        while not done():
            if time.monotonic() > deadline:
                raise BrokerNotReady(f"{fault} after {_ADMIN_TIMEOUT_S:.0f} s")
            time.sleep(0.02)


def _leaders(admin: AdminClient, topic: str) -> int:
    found = admin.list_topics(topic, timeout=5).topics[topic]
    return sum(1 for partition in found.partitions.values() if partition.leader >= 0 and partition.error is None)


def _send(
    producer: Producer, topic: str, records: Iterable[Record | tuple[Any, ...]]
) -> list[Produced | KafkaError | None]:
    outcomes: list[Produced | KafkaError | None] = []

    def note(place: int, error: KafkaError | None, message: Message) -> None:
        outcomes[place] = error or Produced(message.partition() or 0, message.offset() or 0)

    for place, fields in enumerate(records):
        record = Record(*fields)
        outcomes.append(None)
        send(producer, topic, record, partial(note, place))
    return outcomes


def send(producer: Producer, topic: str, record: Record, on_delivery: Any) -> None:
    """Hands a record to a producer, which tells of its delivery; waits while the producer's queue is full."""
    options: dict[str, Any] = {}
    if record.timestamp_ms is not None:
        if record.timestamp_ms == 0 or record.timestamp_ms < _NO_TIMESTAMP:
            raise ValueError(
                f"timestamp_ms is {record.timestamp_ms}; librdkafka takes 0 for 'now', use 1 or more, or -1 for none"
            )
        options["timestamp"] = record.timestamp_ms
    if record.partition is not None:
        options["partition"] = record.partition
    if record.headers is not None:
        options["headers"] = list(record.headers)
    while True:
        try:
            producer.produce(topic, value=record.value, key=record.key, on_delivery=on_delivery, **options)
        except BufferError:  # the queue is full: wait until some are delivered
            producer.poll(0.1)
        else:
            producer.poll(0)
            return


def _flush(producer: Producer) -> None:
    left = producer.flush(_DELIVERY_TIMEOUT_S)
    if left:
        raise BrokerNotReady(f"{left} records were not delivered within {_DELIVERY_TIMEOUT_S:.0f} s")


def _delivered(outcomes: Sequence[Produced | KafkaError | None]) -> list[Produced]:
    failed = next((outcome for outcome in outcomes if isinstance(outcome, KafkaError)), None)
    if failed is not None:
        raise KafkaException(failed)
    return [outcome for outcome in outcomes if isinstance(outcome, Produced)]
