"""What the engine needs to know of the Kafka cluster: one port, two adapters.

An admin client where confluent-kafka is installed and signs in as Spark does (partition counts, first and end offsets,
topic ids, leader epochs); Spark's own Kafka source everywhere else (partition counts, first and end offsets, from a probe
query's progress). The source tells no ids: then a run warns that it cannot tell a topic from another of the same name.
"""

from __future__ import annotations

import json
import re
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from lakestreams.errors import BrokerUnreachable, LakestreamsError, RightsMissing, SignInFailed, TopicMissing
from lakestreams.kafka.admin_options import OfSparkAlone, scrubbed, timeout_s, translated
from lakestreams.kafka.noted import Noted, TopicPartition
from lakestreams.kafka.transient import passes

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import AdminClient, TopicDescription  # type: ignore[attr-defined]
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryProgress

_T = TypeVar("_T")
_K = TypeVar("_K")
_TIMEOUT_S, _PAUSE_S, _POLL_S = 10.0, 0.1, 0.05
# A query with these ends at once with an empty batch: so many records never come, and it would wait longer than time is old.
_READS_NOTHING: Final = {"minOffsetsPerTrigger": str(1 << 62), "maxTriggerDelay": "100000d"}
_NO_ID: Final = "AAAAAAAAAAAAAAAAAAAAAA"  # what Kafka writes where a topic has none: brokers before 2.8
# Settings of a connection where nobody signs in: an admin client that does not get through says that nobody does.
_SHARED = {"kafka.bootstrap.servers", "kafka.isolation.level", "kafka.client.id"}
_SHARED |= {"kafka.batch.size", "kafka.delivery.timeout.ms"}  # of producers alone

# Errors of Kafka's Java client that is not let in, and the options to look at.
_NOT_LET_IN: Final = {
    "UnsupportedSaslMechanismException": "sasl.mechanism is to be one that the listener has, and the login module in "
    "sasl.jaas.config the one for it",
    "IllegalSaslStateException": "nobody signs in by SASL at that listener: look at security.protocol, and at the port in "
    "bootstrap_servers",
    "SaslAuthenticationException": "look at user name and password or token in sasl.jaas.config, at the secrets that it "
    "refers to, and at sasl.mechanism",
    "SslAuthenticationException|SSLHandshakeException": "look at ssl.truststore.*, whose certificates are trusted; at "
    "bootstrap_servers, whose names are in the certificate; and at ssl.keystore.* where clients have to show one",
}
# Why there is no client, as the causes of _NO_CLIENT tell it, and the options to look at; first match first.
_NO_CLIENT: Final = re.compile("Failed to (?:create new KafkaAdminClient|construct kafka)")
_NOT_MADE: Final = {
    "No LoginModule found|nable to find LoginModule class": "look at the login module in sasl.jaas.config: on Databricks its "
    "name begins with kafkashaded., elsewhere it does not",
    "LoginException|(?i:jaas)": "look at sasl.jaas.config, at sasl.mechanism and, for tokens, at sasl.oauthbearer.* and "
    "sasl.login.*",
    "(?i:keystore|truststore)|SSL|PEM": "look at ssl.*: files that driver and executors can read, their types and passwords",
}
_NOT_ALLOWED: Final = re.compile(r"(?:Topic|Group|Cluster)AuthorizationException.*")
_CAUSE: Final = re.compile(r"(?m)^Caused by: (.*)$")
_PACKAGES: Final = re.compile(r"\b(?:[a-z]\w*\.)+(?=[A-Z]\w*(?:Exception|Error)\b)")


@dataclass(frozen=True)
class ClusterView:
    """The topics of a pipeline as the cluster shows them at one moment.

    Attributes:
        ends: per topic-partition the end offset that a read_committed consumer sees.
        starts: per topic-partition the first retained offset; empty where it could not be had.
        topic_ids: topic to its id; empty where it could not be had.
        leader_epochs: per topic-partition how often its leader had changed; empty where it could not be had.
        most_bytes: topic to the size of the largest batch of records that it takes (`max.message.bytes`), of those that
            are written; empty where it could not be had.
        unchecked: why topics cannot be told from others of the same name; empty where they can.
    """

    ends: Mapping[TopicPartition, int]
    starts: Mapping[TopicPartition, int] = field(default_factory=dict)
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    most_bytes: Mapping[str, int] = field(default_factory=dict)
    leader_epochs: Mapping[TopicPartition, int] = field(default_factory=dict)
    unchecked: str = ""

    @property
    def noted(self) -> Noted:
        """What of it tells topics from others of the same name."""
        return Noted(dict(self.topic_ids), dict(self.leader_epochs), dict(self.starts))

    @property
    def partitions(self) -> dict[str, int]:
        """Topic to partition count."""
        counts: dict[str, int] = {}
        for topic, _ in self.ends:
            counts[topic] = counts.get(topic, 0) + 1
        return counts

    def only(self, topics: Iterable[str]) -> ClusterView:
        """What it shows of these topics."""
        kept = set(topics)
        return ClusterView(
            {at: end for at, end in self.ends.items() if at[0] in kept},
            {at: start for at, start in self.starts.items() if at[0] in kept},
            {topic: one for topic, one in self.topic_ids.items() if topic in kept},
            {topic: most for topic, most in self.most_bytes.items() if topic in kept},
            {at: epoch for at, epoch in self.leader_epochs.items() if at[0] in kept},
            self.unchecked,
        )


class Cluster(Protocol):
    """A way to look at the cluster."""

    def view(self, topics: Iterable[str], written: Iterable[str] = ()) -> ClusterView:
        """The topics as they are now, those that are read and those that are written.

        Raises:
            BrokerUnreachable: if no broker answers in time.
            SignInFailed: if Kafka does not let us in, or the options make no client.
            RightsMissing: if it lets us in, and not see the topics.
            TopicMissing: if topics do not exist; it names those.
        """
        ...

    def topic_ids(self, topics: Iterable[str]) -> Mapping[str, str]:
        """The ids that topics have now; empty where none can be had. The errors are those of `view`."""
        ...

    def most_bytes(self, topics: Iterable[str]) -> Mapping[str, int]:
        """As `ClusterView.most_bytes`, of topics that are read. The errors are those of `view`."""
        ...


def connect(spark: SparkSession, options: Mapping[str, str], scratch: Path) -> Cluster:
    """The best adapter that works with these options.

    Args:
        spark: for the probe query.
        options: of Spark's Kafka source; those of Kafka's clients have `kafka.` in front.
        scratch: a folder that Spark can write to, for the probe's checkpoint.
    """
    servers = options["kafka.bootstrap.servers"]
    try:
        import confluent_kafka  # noqa: F401, PLC0415

        conf = translated(options)
    except ImportError:
        return ProbeCluster(spark, options, scratch, "the package confluent-kafka is not installed")
    except OfSparkAlone as why:
        return ProbeCluster(spark, options, scratch, str(why))
    admin = AdminCluster(servers, conf, timeout_s(options, _TIMEOUT_S))
    if not signs_in(options):
        return admin
    return AdminFirst(admin, ProbeCluster(spark, options, scratch))


def signs_in(options: Iterable[str]) -> list[str]:
    """Those options (by the names of Spark's Kafka source) that decide how a client signs in or connects, in order."""
    return [name for name in options if name not in _SHARED]


@dataclass(frozen=True)
class AdminCluster:
    """Asks with an admin client.

    Attributes:
        bootstrap_servers: where.
        conf: of librdkafka, how clients sign in; by default nobody does.
        timeout_s: how long to wait for answers.
    """

    bootstrap_servers: str
    conf: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    timeout_s: float = field(default=_TIMEOUT_S, compare=False)
    _last: list[_Client] = field(default_factory=list, init=False, repr=False, compare=False)

    def partitions(self, timeout_s: float = _TIMEOUT_S) -> dict[str, int]:
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
            raise self._fault(error) from error
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
            raise self._fault(error) from error
        while True:
            try:
                return ask(client)
            except KafkaException as error:
                if not passes(error) or time.monotonic() > until:
                    raise self._fault(error) from error
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
        every = [(name, one.id) for name, topic in described.items() for one in topic.partitions]
        last, first = (
            client.answers(
                client.admin.list_offsets(
                    {At(*one): spec for one in sorted(every)},
                    isolation_level=IsolationLevel.READ_COMMITTED,
                    request_timeout=self.timeout_s,
                )
            )
            for spec in (OffsetSpec.latest(), OffsetSpec.earliest())  # type: ignore[no-untyped-call]
        )
        ends, starts = ({(at.topic, at.partition): one.offset for at, one in found.items()} for found in (last, first))
        epochs = {(at.topic, at.partition): one.leader_epoch for at, one in last.items()}
        known = {at: epoch for at, epoch in epochs.items() if epoch is not None and epoch >= 0}
        ids = _ids(described)
        unchecked = "" if len(ids) == len(names) else "the brokers tell no topic ids"
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
                    raise _denied([name], error.args[0].str()) from error
                if code != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise
                missing.append(name)
        if missing:
            raise _missing(missing, self.bootstrap_servers)
        return found

    def _fault(self, error: KafkaException) -> LakestreamsError:
        said = error.args[0]
        text = scrubbed(str(said), self.conf)
        if _refuses(said):
            return SignInFailed(f"Kafka at {self.bootstrap_servers} does not let the pipeline in: {text}")
        return _unreachable(self.bootstrap_servers, text)


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


@dataclass
class AdminFirst:
    """Asks with an admin client, and by Spark's source where that gets through and the client does not.

    A run that Spark's client can do never fails of ours. A client that has not got through at the first look is not tried
    again; one that once has is, at each look.
    """

    admin: AdminCluster
    probe: ProbeCluster
    _works: bool = field(default=False, init=False)

    def view(self, topics: Iterable[str], written: Iterable[str] = ()) -> ClusterView:
        """As the one of the two that gets through shows them."""
        if self._works or not self.probe.unchecked:
            try:
                found = self.admin.view(topics, written)
            except (BrokerUnreachable, SignInFailed) as error:
                why = f"the admin client does not get through: {error.message}"
            else:
                self._works = True
                return found
            if not self._works:
                self.probe = replace(self.probe, unchecked=why)
            return replace(self.probe.view(topics, written), unchecked=why)
        return self.probe.view(topics, written)

    def topic_ids(self, topics: Iterable[str]) -> Mapping[str, str]:
        """None where the admin client does not get through."""
        try:
            return self.admin.topic_ids(topics) if self._works else {}
        except (BrokerUnreachable, SignInFailed):
            return {}

    def most_bytes(self, topics: Iterable[str]) -> Mapping[str, int]:
        """None where the admin client does not get through."""
        try:
            return self.admin.most_bytes(topics) if self._works else {}
        except (BrokerUnreachable, SignInFailed):
            return {}


@dataclass(frozen=True)
class ProbeCluster:
    """Asks with a streaming query that reads nothing: its progress lists every partition's first and end offset.

    Attributes:
        spark: the session.
        options: of Spark's Kafka source.
        scratch: a folder that Spark can write to.
        unchecked: why no admin client is asked.
    """

    spark: SparkSession
    options: Mapping[str, str] = field(repr=False)
    scratch: Path
    unchecked: str = ""

    def view(self, topics: Iterable[str], written: Iterable[str] = ()) -> ClusterView:
        """Partition counts and offsets from one query; from another one where topics are missing."""
        names = sorted({*topics, *written})
        try:
            starts, ends = self._bounds("subscribe", ",".join(names), names)
        except LakestreamsError:
            raise
        except Exception as error:
            if "UnknownTopicOrPartition" not in str(error):
                raise
            # which of them it does not say; a pattern takes those that are there
            starts, ends = self._bounds("subscribePattern", "|".join(map(re.escape, names)), names)
        missing = [name for name in names if not any(topic == name for topic, _ in ends)]
        if missing:
            raise _missing(missing, self.options["kafka.bootstrap.servers"])
        return ClusterView(ends, starts, unchecked=self.unchecked)

    def topic_ids(self, _topics: Iterable[str]) -> Mapping[str, str]:
        """None: Spark's source does not know them."""
        return {}

    def most_bytes(self, _topics: Iterable[str]) -> Mapping[str, int]:
        """None: Spark's source does not know it."""
        return {}

    def _bounds(
        self, how: str, text: str, names: Sequence[str]
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        """First and end offsets: a batch begins at the first, and waits for more records than there can be."""
        limits = {"kafka.default.api.timeout.ms": "15000", "kafka.request.timeout.ms": "10000"}
        reader = self.spark.readStream.format("kafka").options(**{**limits, **self.options}).options(**_READS_NOTHING)
        source = reader.option(how, text).option("startingOffsets", "earliest").load()
        self.scratch.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="probe-", dir=self.scratch) as folder:
            try:
                query = (
                    source.writeStream.format("noop")
                    .option("checkpointLocation", folder)
                    .trigger(availableNow=True)
                    .start()
                )
                query.awaitTermination()
                progress = _as_dict(query.lastProgress)
            except Exception as error:
                fault = _fault(error, self.options["kafka.bootstrap.servers"], names)
                if fault is None:
                    raise
                raise fault from error
        told = (progress.get("sources") or [{}])[0]
        starts = {} if told.get("numInputRows") else _offsets(told.get("endOffset"))  # what has read does not tell
        return starts, _offsets(told.get("latestOffset") or told.get("endOffset"))


def _offsets(told: str | Mapping[str, Any] | None) -> dict[TopicPartition, int]:
    """Offsets as a progress has them: "null" where there is no topic."""
    found = (json.loads(told) if isinstance(told, str) else told) or {}
    return {(topic, int(part)): int(offset) for topic, parts in found.items() for part, offset in parts.items()}


def _fault(error: Exception, servers: str, topics: Sequence[str]) -> LakestreamsError | None:
    """What the Java client's error, wrapped by Spark, comes to; None where it is neither the network nor a right."""
    text = str(error)
    found = not_let_in(error, servers) or rights_missing(text, topics)
    if found is None and ("TimeoutException" in text or "Timed out" in text or "timed out" in text):
        return _unreachable(servers, "no answer in time")
    return found


def not_let_in(error: Exception, servers: str) -> LakestreamsError | None:
    """What keeps the Java client out, as its error, wrapped by Spark, says; None where it says nothing of the kind."""
    text = str(error)
    if _NO_CLIENT.search(text):
        causes = _causes(error)
        if any("bootstrap" in cause for cause in causes):
            return _unreachable(servers, causes[-1])
        hints = (hint for pattern, hint in _NOT_MADE.items() if re.search(pattern, "\n".join(causes)))
        why = ": ".join(causes[-2:])
        return SignInFailed(f"Kafka's client cannot be made of the options: {why}", hint=next(hints, None))
    for pattern, hint in _NOT_LET_IN.items():
        found = re.search(rf"(?:{pattern}).*", text)
        if found:
            said = found[0].partition(" SQLSTATE: ")[0]
            return SignInFailed(f"Kafka at {servers} does not let the pipeline in: {said}", hint=hint)
    return None


def rights_missing(text: str, topics: Sequence[str]) -> RightsMissing | None:
    """What Kafka's Java client says is not allowed, which mostly names no topic; None where it says nothing of the kind."""
    found = _NOT_ALLOWED.search(text)
    return None if found is None else _denied(topics, found[0].partition(" SQLSTATE: ")[0])


def _denied(topics: Sequence[str], said: str) -> RightsMissing:
    which = topics[0] if len(topics) == 1 else f"one of {', '.join(topics)}"
    return RightsMissing(f"Kafka does not allow the pipeline to use {which}: {said}")


def _ids(described: Mapping[str, TopicDescription]) -> dict[str, str]:
    """Topic to its id, of those that have one."""
    return {name: str(one.topic_id) for name, one in described.items() if str(one.topic_id) not in ("", "None", _NO_ID)}


def _refuses(error: KafkaError) -> bool:
    """Whether an error of librdkafka's says that the client is not let in, which trying again does not change."""
    from confluent_kafka import KafkaError as Errors  # noqa: PLC0415

    return error.code() in (Errors._AUTHENTICATION, Errors._SSL, Errors._INVALID_ARG)  # noqa: SLF001 - how they are named


def _causes(error: Exception) -> list[str]:
    """The causes in the JVM's trace, outermost first, which the error's own text leaves out; each once, without packages."""
    trace = getattr(error, "_stackTrace", None) or getattr(error, "_stacktrace", None) or ""  # classic, Spark Connect
    found = [_PACKAGES.sub("", cause) for cause in _CAUSE.findall(trace) or [str(error).partition("\n")[0]]]
    return [
        cause for cause, inner in zip(found, [*found[1:], ""], strict=True) if not inner or not cause.endswith(inner)
    ]


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
            for one, future in admin.describe_configs(asked, request_timeout=_TIMEOUT_S).items()
        }
    except KafkaException:
        return {}
    return {topic: int(value) for topic, value in found.items() if value}


def _missing(topics: list[str], servers: str) -> TopicMissing:
    one = len(topics) == 1
    return TopicMissing(f"topic{'' if one else 's'} {', '.join(topics)} do{'es' if one else ''} not exist on {servers}")


def _unreachable(servers: str, why: str) -> BrokerUnreachable:
    return BrokerUnreachable(f"no broker answers at {servers}: {why}")


def _as_dict(progress: StreamingQueryProgress | None) -> dict[str, Any]:
    """What the JVM tells, by its text: Spark 4.0 itself makes Python's text, and no JSON, of the offsets in it."""
    found: dict[str, Any] = {} if progress is None else json.loads(progress.json)
    return found
