"""Whether the topics that a bundle's jobs read and write are there, with partition counts that fit, asked without Spark.

Only where an admin client understands which options the jobs' clients get (`kafka.cluster`); else it is said why not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Final

from lakestreams.deploy.workspace import Requirement
from lakestreams.errors import LakestreamsError, TopicMissing
from lakestreams.kafka import cluster
from lakestreams.kafka.admin_cluster import AdminCluster
from lakestreams.run.locating import locate
from lakestreams.topology.partitions import co_partitioning

if TYPE_CHECKING:
    from lakestreams.deploy.files import Reading
    from lakestreams.kafka.options import KafkaOptions
    from lakestreams.topology.topology import Topology

_TIMEOUT_S: Final = 5.0
_NO_COUNT: Final = -1


@dataclass
class Topics:
    """What was found out.

    Attributes:
        requirements: each topic, by broker.
        faults: topics that are missing, and joins whose sides have unequal partition counts.
        warnings: the same of joins that say `warn`.
        unchecked: what could not be looked at, and why.
    """

    requirements: list[Requirement] = field(default_factory=list)
    faults: list[LakestreamsError] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)


def examine(readings: Sequence[Reading]) -> Topics:
    """Looks at the topics of each task's pipeline, on the broker that the task names. Changes nothing.

    Args:
        readings: the tasks that read Kafka.
    """
    result, asked = Topics(), cache(_asked)  # each broker once, also one that does not answer
    for reading in readings:
        topology, kafka = reading.pipeline.topology, reading.pipeline.kafka
        topics = topics_of(topology)
        if not topics or kafka.bootstrap_servers is None:
            continue
        there = _why_not(kafka) or asked(kafka.bootstrap_servers)
        if isinstance(there, str):
            result.unchecked.append(f"topics of {topology.name} at {kafka.bootstrap_servers}: {there}")
            continue
        _judge(result, reading, topics, there)
    result.requirements = list(dict.fromkeys(result.requirements))
    result.unchecked = list(dict.fromkeys(result.unchecked))
    return result


def topics_of(topology: Topology) -> list[str]:
    """What a topology reads from Kafka and writes to it."""
    read = [source.topic for source in topology.sources if source.delta is None]
    return list(dict.fromkeys([*read, *(sink.name for sink in topology.kafka_sinks)]))


def _judge(result: Topics, reading: Reading, topics: Sequence[str], partition_counts: Mapping[str, int]) -> None:
    topology, servers = reading.pipeline.topology, reading.pipeline.kafka.bootstrap_servers
    counts = {topic: partition_counts[topic] for topic in topics if topic in partition_counts}
    for topic in topics:
        what = f"topic {topic} at {servers}"
        if topic in counts:
            note = f"{counts[topic]} partition{'' if counts[topic] == 1 else 's'}"
            result.requirements.append(Requirement(what, "there", note))
            continue
        wanted = _fitting(topology, topic, counts)
        fix = f"kafka-topics --bootstrap-server {servers} --create --topic {topic}"
        requirement = Requirement(what, "lacking", fix=fix + (f" --partitions {wanted}" if wanted else ""))
        if requirement not in result.requirements:
            fault = TopicMissing(
                f"topic {topic} does not exist on {servers}", hint=requirement.fix, where=reading.where
            )
            result.faults.append(fault)
        result.requirements.append(requirement)
    unequal, warnings = co_partitioning(topology.nodes, counts)
    result.faults += [locate(fault, reading.pipeline) for fault in unequal]
    result.warnings += warnings


def _fitting(topology: Topology, topic: str, counts: Mapping[str, int]) -> int | None:
    """The count that joins ask of a topic which is not there yet; None where any will do, or none is known to."""

    def fits(count: int) -> bool:
        before, after = (co_partitioning(topology.nodes, one)[0] for one in (counts, {**counts, topic: count}))
        return len(after) <= len(before)

    if fits(_NO_COUNT):
        return None
    return next((count for count in counts.values() if fits(count)), None)


def _why_not(kafka: KafkaOptions) -> str | None:
    if kafka.service_credential is not None:
        return f"the service credential {kafka.service_credential} exists on Databricks only"
    others = cluster.signs_in(f"kafka.{name}" for name in kafka.options)
    if not others:
        return None
    absent = [f"{scope}/{key}" for scope, key in kafka.secrets() if kafka.resolver(scope, key) is None]
    if absent:
        return f"clients sign in with secrets that are not at hand here: {', '.join(absent)}"
    names = ", ".join(name.removeprefix("kafka.") for name in others)
    return f"only Spark's client understands {names}; with Spark: lakestreams check FILE"


def _asked(servers: str) -> Mapping[str, int] | str:
    """Topic to partition count, of all that are there; or why they are not known."""
    try:
        return AdminCluster(servers).partitions(_TIMEOUT_S)
    except ModuleNotFoundError:
        return "confluent-kafka is not installed: pip install confluent-kafka"
    except LakestreamsError as error:
        return f"{error.message}; from where it can be reached: lakestreams check FILE --bootstrap-servers {servers}"
