"""The cluster as an admin client (confluent-kafka) shows it: offsets, topic ids, leader epochs and sizes of batches."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

from lakestreams.errors import LakestreamsError, SignInFailed
from lakestreams.kafka.admin_options import scrubbed
from lakestreams.kafka.client_errors import denied, topics_missing, unreachable
from lakestreams.kafka.cluster_view import ClusterView
from lakestreams.kafka.transient import passes

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import AdminClient, TopicDescription  # type: ignore[attr-defined]

_T = TypeVar("_T")
_K = TypeVar("_K")
TIMEOUT_S: Final = 10.0
_PAUSE_S, _POLL_S = 0.1, 0.05
_NO_ID: Final = "AAAAAAAAAAAAAAAAAAAAAA"  # what Kafka writes where a topic has none: brokers before 2.8


@dataclass(frozen=True)
class AdminCluster:
    """Asks with an admin client.

    Attributes:
        bootstrap_servers: where.
        conf: of librdkafka, how clients sign in; by default nobody does.
        timeout_s: how long to wait for answers.
        uncommitted: whether the topics' readers read records of open transactions: then ends lie behind these.
    """

    bootstrap_servers: str
    conf: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    timeout_s: float = field(default=TIMEOUT_S, compare=False)
    uncommitted: bool = False
    _last: list[_Client] = field(default_factory=list, init=False, repr=False, compare=False)

    def partitions(self, timeout_s: float = TIMEOUT_S) -> dict[str, int]:
        """Every topic that is there, with its partition count, in one request.

        Args:
            timeout_s: how long to wait for an answer, in seconds.

        Raises:
            BrokerUnreachable: if no broker answers in time.
        """
        from confluent_kafka import KafkaException  # noqa: PLC0415

        try:
            known = self._client().admin.list_topics(timeout=timeout_s).topics
        except KafkaException as error:
            raise self.fault(error) from error
        return {name: len(topic.partitions) for name, topic in known.items()}

    def view(self, topics: Iterable[str], written: Iterable[str] = ()) -> ClusterView:
        """Partition counts, offsets and ids in three requests; one more for topics that are written."""
        outputs = sorted(set(written))
        names = sorted({*topics, *outputs})
        self._last.clear()  # one that has been unused for long would back off before it connects again
        return self._until_it_passes(lambda client: self._asked(client, names, outputs))

    def topic_ids(self, topics: Iterable[str]) -> Mapping[str, str]:
        """The ids of now, in one request of the client that has looked at the topics."""
        names = sorted(topics)
        return self._until_it_passes(lambda client: _ids(self._described(client, names)))

    def most_bytes(self, topics: Iterable[str]) -> Mapping[str, int]:
        """`max.message.bytes` of the topics, in one request."""
        names = sorted(topics)
        return self._until_it_passes(lambda client: _most_bytes(client.admin, names))

    def _until_it_passes(self, ask: Callable[[_Client], _T]) -> _T:
        from confluent_kafka import KafkaException  # noqa: PLC0415

        until = time.monotonic() + self.timeout_s
        try:
            client = self._client()
        except KafkaException as error:
            raise self.fault(error) from error
        while True:
            try:
                return ask(client)
            except KafkaException as error:
                if not passes(error) or time.monotonic() > until:
                    raise self.fault(error) from error
                time.sleep(_PAUSE_S)

    def _client(self) -> _Client:
        if not self._last:
            self._last.append(_Client({"bootstrap.servers": self.bootstrap_servers, **self.conf}))
        return self._last[0]

    def _asked(self, client: _Client, names: list[str], outputs: list[str]) -> ClusterView:
        from confluent_kafka import IsolationLevel  # noqa: PLC0415
        from confluent_kafka import TopicPartition as At  # noqa: PLC0415
        from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]  # noqa: PLC0415

        described = self._described(client, names)
        isolation = IsolationLevel.READ_UNCOMMITTED if self.uncommitted else IsolationLevel.READ_COMMITTED
        every = [(name, one.id) for name, topic in described.items() for one in topic.partitions]
        last, first = (
            client.answers(
                client.admin.list_offsets(
                    {At(*one): spec for one in sorted(every)},
                    isolation_level=isolation,
                    request_timeout=self.timeout_s,
                )
            )
            for spec in (OffsetSpec.latest(), OffsetSpec.earliest())  # type: ignore[no-untyped-call]
        )
        ends, starts = ({(at.topic, at.partition): one.offset for at, one in found.items()} for found in (last, first))
        epochs = {(at.topic, at.partition): one.leader_epoch for at, one in last.items()}
        known = {at: epoch for at, epoch in epochs.items() if epoch is not None and epoch >= 0}
        ids = _ids(described)
        unchecked = "" if len(ids) == len(names) else "the brokers report no topic ids"
        return ClusterView(ends, starts, ids, _most_bytes(client.admin, outputs), known, unchecked)

    def _described(self, client: _Client, names: list[str]) -> dict[str, TopicDescription]:
        """The topics.

        Raises:
            TopicMissing: naming those that do not exist.
            RightsMissing: if they may not be seen.
            KafkaException: anything else, which may pass.
        """
        from confluent_kafka import KafkaError, KafkaException, TopicCollection  # noqa: PLC0415

        asked = client.admin.describe_topics(TopicCollection(names), request_timeout=self.timeout_s)
        client.wait(asked)
        found, missing = {}, []
        for name, future in asked.items():
            try:
                found[name] = future.result()
            except KafkaException as error:
                code = error.args[0].code()
                if code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                    raise denied([name], error.args[0].str()) from error
                if code != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise
                missing.append(name)
        if missing:
            raise topics_missing(missing, self.bootstrap_servers)
        return found

    def fault(self, error: KafkaException) -> LakestreamsError:
        """What an error of a client with these options means."""
        said = error.args[0]
        text = scrubbed(said.str(), self.conf)
        if _refuses(said):
            return SignInFailed(f"Kafka at {self.bootstrap_servers} refuses the sign-in: {text}")
        return unreachable(self.bootstrap_servers, text)


class _Client:
    """An admin client that hears at once when it is not let in; by itself it would try until the time is over."""

    def __init__(self, conf: Mapping[str, Any]) -> None:
        from confluent_kafka.admin import AdminClient  # noqa: PLC0415

        self._refused: list[KafkaError] = []
        quiet: dict[str, Any] = {**conf, "log_level": 0, "error_cb": self._hear}
        self.admin = AdminClient(quiet)

    def answers(self, asked: Mapping[_K, Future[_T]]) -> dict[_K, _T]:
        """What was asked, when all of it is answered."""
        self.wait(asked)
        return {name: future.result() for name, future in asked.items()}

    def wait(self, asked: Mapping[_K, Future[_T]]) -> None:
        """Waits for all answers.

        Raises:
            KafkaException: if the client is not let in.
        """
        from confluent_kafka import KafkaException  # noqa: PLC0415

        while wait(asked.values(), _POLL_S).not_done:
            self.admin.poll(0)  # so that errors are heard and tokens fetched
            if self._refused:
                raise KafkaException(self._refused[0])

    def _hear(self, error: KafkaError) -> None:
        """The client retries everything else by itself; what matters comes back as an exception."""
        if _refuses(error):
            self._refused.append(error)


def _ids(described: Mapping[str, TopicDescription]) -> dict[str, str]:
    """Topic to its id, of those that have one."""
    return {name: str(one.topic_id) for name, one in described.items() if str(one.topic_id) not in ("", "None", _NO_ID)}


def _refuses(error: KafkaError) -> bool:
    """Whether an error of librdkafka's says that the client is not let in, which trying again does not change."""
    from confluent_kafka import KafkaError as Errors  # noqa: PLC0415

    return error.code() in (Errors._AUTHENTICATION, Errors._SSL, Errors._INVALID_ARG)  # noqa: SLF001 - how they are named


def _most_bytes(admin: AdminClient, topics: list[str]) -> dict[str, int]:
    """`max.message.bytes` of topics; of none where that may not be seen, which no run is to fail of."""
    from confluent_kafka import KafkaException  # noqa: PLC0415
    from confluent_kafka.admin import ConfigResource, ResourceType  # type: ignore[attr-defined]  # noqa: PLC0415

    if not topics:
        return {}
    asked = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
    try:
        found = {
            one.name: future.result()["max.message.bytes"].value
            for one, future in admin.describe_configs(asked, request_timeout=TIMEOUT_S).items()
        }
    except KafkaException:
        return {}
    return {topic: int(value) for topic, value in found.items() if value}
