"""The topics of a pipeline as the Kafka cluster shows them at one moment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from lakestreams.kafka.noted import Noted, TopicPartition


@dataclass(frozen=True)
class ClusterView:
    """The topics of a pipeline as the cluster shows them at one moment.

    Attributes:
        ends: per topic-partition the end offset that a consumer sees, by default one that reads what is committed.
        starts: per topic-partition the first retained offset; empty where it could not be had.
        topic_ids: topic to its id; empty where it could not be had.
        leader_epochs: per topic-partition how often its leader had changed; empty where it could not be had.
        most_bytes: topic to the size of the largest batch of records that it takes (`max.message.bytes`), of those that
            are written; empty where it could not be had.
        unchecked: why topics cannot be distinguished from others of the same name; empty where they can.
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
