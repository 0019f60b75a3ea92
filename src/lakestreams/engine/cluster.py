"""What the engine needs to know of the Kafka cluster: one port, two adapters.

An admin client where confluent-kafka is installed and its credentials work (partition counts, first and end offsets,
topic ids); Spark's own Kafka source everywhere else (partition counts and end offsets, from a probe query's progress).
"""

from __future__ import annotations

import json
import re
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from lakestreams.engine.plans import TopicPartition
from lakestreams.errors import BrokerUnreachable, LakestreamsError, RightsMissing, SignInFailed, TopicMissing
from lakestreams.passing import passes

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryProgress

_TIMEOUT_S, _PAUSE_S = 10.0, 0.1
# Connection settings that mean the same to both clients. Anything else keeps the admin client out: also what has no
# `kafka.` in front, such as a service credential, which Spark's source understands and no client of Kafka's.
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
        most_bytes: topic to the size of the largest batch of records that it takes (`max.message.bytes`), of those that
            are written; empty where it could not be had.
    """

    ends: Mapping[TopicPartition, int]
    starts: Mapping[TopicPartition, int] = field(default_factory=dict)
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    most_bytes: Mapping[str, int] = field(default_factory=dict)

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


def connect(spark: SparkSession, options: Mapping[str, str], scratch: Path) -> Cluster:
    """The best adapter that works with these options.

    Args:
        spark: for the probe query.
        options: of Spark's Kafka source; those of Kafka's clients have `kafka.` in front.
        scratch: a folder that Spark can write to, for the probe's checkpoint.
    """
    if not of_spark_alone(options):
        try:
            import confluent_kafka  # noqa: F401, PLC0415
        except ImportError:
            pass
        else:
            return AdminCluster(options["kafka.bootstrap.servers"])
    return ProbeCluster(spark, options, scratch)


def of_spark_alone(options: Iterable[str]) -> list[str]:
    """Those options (by the names of Spark's Kafka source) that keep the admin client out, in order."""
    return [name for name in options if name not in _SHARED]


@dataclass(frozen=True)
class AdminCluster:
    """Asks with an admin client."""

    bootstrap_servers: str

    def partitions(self, timeout_s: float = _TIMEOUT_S) -> dict[str, int]:
        """Every topic that is there, with its partition count, in one request.

        Args:
            timeout_s: how long to wait for an answer, in seconds.

        Raises:
            BrokerUnreachable: if no broker answers in time.
        """
        from confluent_kafka import KafkaException  # noqa: PLC0415

        try:
            known = self._client().list_topics(timeout=timeout_s).topics
        except KafkaException as error:
            raise _unreachable(self.bootstrap_servers, str(error.args[0])) from error
        return {name: len(topic.partitions) for name, topic in known.items()}

    def _client(self) -> AdminClient:
        from confluent_kafka.admin import AdminClient  # noqa: PLC0415

        quiet: dict[str, Any] = {"bootstrap.servers": self.bootstrap_servers, "log_level": 0, "error_cb": _ignore}
        return AdminClient(quiet)

    def view(self, topics: Iterable[str], written: Iterable[str] = ()) -> ClusterView:
        """Partition counts, offsets and ids in three requests; one more for topics that are written."""
        from confluent_kafka import KafkaException  # noqa: PLC0415

        outputs = sorted(set(written))
        names = sorted({*topics, *outputs})
        admin = self._client()
        until = time.monotonic() + _TIMEOUT_S
        while True:
            try:
                return self._asked(admin, names, outputs)
            except KafkaException as error:
                if not passes(error) or time.monotonic() > until:
                    raise _unreachable(self.bootstrap_servers, str(error.args[0])) from error
                time.sleep(_PAUSE_S)

    def _asked(self, admin: AdminClient, names: list[str], outputs: list[str]) -> ClusterView:
        from confluent_kafka import IsolationLevel, TopicCollection  # noqa: PLC0415
        from confluent_kafka import TopicPartition as At  # noqa: PLC0415
        from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]  # noqa: PLC0415

        known = admin.list_topics(timeout=_TIMEOUT_S).topics
        missing = [name for name in names if name not in known]
        if missing:
            raise _missing(missing, self.bootstrap_servers)
        described = admin.describe_topics(TopicCollection(names), request_timeout=_TIMEOUT_S)
        ids = {name: str(future.result().topic_id) for name, future in described.items()}
        every = [(name, partition) for name in names for partition in sorted(known[name].partitions)]
        ends, starts = (
            {
                (at.topic, at.partition): future.result().offset
                for at, future in admin.list_offsets(
                    {At(*one): spec for one in every},
                    isolation_level=IsolationLevel.READ_COMMITTED,
                    request_timeout=_TIMEOUT_S,
                ).items()
            }
            for spec in (OffsetSpec.latest(), OffsetSpec.earliest())  # type: ignore[no-untyped-call]
        )
        most_bytes = _most_bytes(admin, outputs)
        return ClusterView(ends, starts, ids, most_bytes)


@dataclass(frozen=True)
class ProbeCluster:
    """Asks with a streaming query that starts at the end: its progress lists every partition's end offset."""

    spark: SparkSession
    options: Mapping[str, str]
    scratch: Path

    def view(self, topics: Iterable[str], written: Iterable[str] = ()) -> ClusterView:
        """Partition counts and end offsets from one query that reads nothing; from another one where topics are missing."""
        names = sorted({*topics, *written})
        try:
            ends = self._ends("subscribe", ",".join(names), names)
        except LakestreamsError:
            raise
        except Exception as error:
            if "UnknownTopicOrPartition" not in str(error):
                raise
            # which of them it does not say; a pattern takes those that are there
            ends = self._ends("subscribePattern", "|".join(map(re.escape, names)), names)
        missing = [name for name in names if not any(topic == name for topic, _ in ends)]
        if missing:
            raise _missing(missing, self.options["kafka.bootstrap.servers"])
        return ClusterView(ends)

    def _ends(self, how: str, text: str, names: Sequence[str]) -> dict[TopicPartition, int]:
        limits = {"kafka.default.api.timeout.ms": "15000", "kafka.request.timeout.ms": "10000"}
        reader = self.spark.readStream.format("kafka").options(**{**limits, **self.options})
        latest = reader.option(how, text).option("startingOffsets", "latest").load()
        self.scratch.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="probe-", dir=self.scratch) as folder:
            try:
                query = (
                    latest.writeStream.format("noop")
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
        sources = progress.get("sources") or [{}]
        offsets = sources[0].get("endOffset") or sources[0].get("latestOffset") or {}
        found = (json.loads(offsets) if isinstance(offsets, str) else offsets) or {}  # "null", where there is no topic
        return {(topic, int(part)): int(offset) for topic, parts in found.items() for part, offset in parts.items()}


def _fault(error: Exception, servers: str, topics: Sequence[str]) -> LakestreamsError | None:
    """What the Java client's error, wrapped by Spark, comes to; None where it is neither the network nor a right."""
    text = str(error)
    if _NO_CLIENT.search(text):
        causes = _causes(error)
        if any("bootstrap" in cause for cause in causes):
            return _unreachable(servers, causes[-1])
        hints = (hint for pattern, hint in _NOT_MADE.items() if re.search(pattern, "\n".join(causes)))
        why = ": ".join(causes[-2:])
        return SignInFailed(f"Kafka's client cannot be made of the options: {why}", hint=next(hints, None))
    denied = rights_missing(text, topics)
    if denied is not None:
        return denied
    for pattern, hint in _NOT_LET_IN.items():
        found = re.search(rf"(?:{pattern}).*", text)
        if found:
            said = found[0].partition(" SQLSTATE: ")[0]
            return SignInFailed(f"Kafka at {servers} does not let the pipeline in: {said}", hint=hint)
    if "TimeoutException" in text or "Timed out" in text or "timed out" in text:
        return _unreachable(servers, "no answer in time")
    return None


def rights_missing(text: str, topics: Sequence[str]) -> RightsMissing | None:
    """What Kafka's Java client says is not allowed, which mostly names no topic; None where it says nothing of the kind."""
    found = _NOT_ALLOWED.search(text)
    if found is None:
        return None
    which = topics[0] if len(topics) == 1 else f"one of {', '.join(topics)}"
    return RightsMissing(f"Kafka does not allow the pipeline to use {which}: {found[0].partition(' SQLSTATE: ')[0]}")


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


def _ignore(_: object) -> None:
    """The client retries by itself; what matters comes back as an exception."""
