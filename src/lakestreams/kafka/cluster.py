"""What the engine needs to know of the Kafka cluster: one port, two adapters.

An admin client where confluent-kafka is installed and signs in as Spark does (partition counts, first and end offsets,
topic ids, leader epochs); Spark's own Kafka source everywhere else (partition counts, first and end offsets, from a probe
query's progress). The source tells no ids: then a run warns that it cannot tell a topic from another of the same name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from lakestreams.errors import BrokerUnreachable, SignInFailed
from lakestreams.kafka.admin_cluster import TIMEOUT_S, AdminCluster
from lakestreams.kafka.admin_options import OfSparkAlone, timeout_s, translated
from lakestreams.kafka.cluster_view import ClusterView
from lakestreams.kafka.probe_cluster import ProbeCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Settings of a connection where nobody signs in: an admin client that does not get through says that nobody does.
_SHARED: Final = frozenset(
    {
        "kafka.bootstrap.servers",
        "kafka.isolation.level",
        "kafka.client.id",
        "kafka.batch.size",  # of producers alone, and so are the next
        "kafka.buffer.memory",
        "kafka.delivery.timeout.ms",
        "kafka.max.request.size",
    }
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
    uncommitted = options.get("kafka.isolation.level") == "read_uncommitted"
    admin = AdminCluster(servers, conf, timeout_s(options, TIMEOUT_S), uncommitted)
    if not signs_in(options):
        return admin
    return AdminFirst(admin, ProbeCluster(spark, options, scratch))


def signs_in(options: Iterable[str]) -> list[str]:
    """Those options (by the names of Spark's Kafka source) that decide how a client signs in or connects, in order."""
    return [name for name in options if name not in _SHARED]


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
                why = f"the admin client cannot connect: {error.message}"
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
